/* One of two ranks on the tcp transport, wherever its process is: tcp_pair RANK MASTER_ADDR
 * MASTER_PORT MODE. It says how far it is on lines of its own; tcp_namespaces.py starts both, and
 * does to them and to their link what the mode says. Exit: 0 all as it should be, 1 with a reason.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ddpcore/store/store.h"
#include "ddpcore/transport/tcp.h"

enum { BLOCK_BYTES = 8 << 20, SILENCE_S = 1 };

struct pair {
    struct ddp_env env;
    struct ddp_idle_process idle;
    struct ddp_rendezvous rendezvous;
    struct ddp_store *store;
    struct ddp_transport *transport;
    struct ddp_message message;
    uint64_t ticket;
};

static void say(const char *text)
{
    (void)printf("%s\n", text);
    (void)fflush(stdout);
}

static int fail(const char *what, ddp_status status)
{
    (void)printf("failed: %s: %s\n", what, ddp_status_name(status));
    return 1;
}

static void pair_hint(void *self, struct ddp_idle_hint *hint)
{
    struct pair *pair = self;

    pair->transport->ops->hint(pair->transport, hint);
}

static ddp_status recv_poll(void *self)
{
    struct pair *pair = self;

    return pair->transport->ops->recv_peek(pair->transport, 1 - pair->env.rank, &pair->message);
}

static ddp_status post_poll(void *self)
{
    struct pair *pair = self;

    return pair->transport->ops->send_post(pair->transport, 1 - pair->env.rank, &pair->message,
                                           &pair->ticket);
}

static ddp_status sent_poll(void *self)
{
    struct pair *pair = self;

    return pair->transport->ops->send_poll(pair->transport, 1 - pair->env.rank, pair->ticket);
}

static ddp_status until(struct pair *pair, ddp_status (*poll)(void *self), uint64_t timeout_ns)
{
    const struct ddp_pollable pollable = {poll, pair_hint, pair};

    return ddp_wait(pair->env.idle, pair->env.clock, &pollable,
                    ddp_clock_deadline_ns(pair->env.clock, timeout_ns));
}

static ddp_status send_block(struct pair *pair, const uint8_t *block, size_t size_bytes)
{
    pair->message = (struct ddp_message){block, size_bytes, 1, 2, 0};
    return until(pair, post_poll, 20 * DDP_NS_PER_S);
}

static ddp_status take_block(struct pair *pair, size_t size_bytes, uint8_t fill)
{
    const uint8_t *data;

    DDP_TRY(until(pair, recv_poll, 20 * DDP_NS_PER_S));
    data = pair->message.data;
    if (pair->message.size_bytes != size_bytes || data[0] != fill || data[size_bytes - 1] != fill) {
        return DDP_E_CORRUPT;
    }
    pair->transport->ops->recv_ack(pair->transport, 1 - pair->env.rank);
    return DDP_OK;
}

/* Blocks of many sizes in both directions. */
static ddp_status exchange(struct pair *pair, uint8_t *block)
{
    for (size_t size_bytes = 1; size_bytes <= BLOCK_BYTES; size_bytes *= 2) {
        memset(block, (int)pair->env.rank + 5, size_bytes);
        DDP_TRY(send_block(pair, block, size_bytes));
        DDP_TRY(take_block(pair, size_bytes, (uint8_t)(1 - pair->env.rank + 5)));
        DDP_TRY(until(pair, sent_poll, 20 * DDP_NS_PER_S));
    }
    return DDP_OK;
}

/* The peer is waited for, and lost in the meantime. */
static int wait_for_loss(struct pair *pair)
{
    ddp_status status;
    struct ddp_err err = {""};

    say("ready");
    status = until(pair, recv_poll, 20 * DDP_NS_PER_S);
    if (status != DDP_E_PEER_DIED ||
        pair->transport->ops->dead_peer(pair->transport) != 1 - (int32_t)pair->env.rank) {
        return fail("a message of a lost peer", status);
    }
    (void)ddp_tcp_lost(pair->transport, 1 - pair->env.rank, &err);
    say(err.text);
    return 0;
}

/* Rank 1 is stopped for longer than a silence, and takes nothing meanwhile. */
static int outlast_stop(struct pair *pair, uint8_t *block)
{
    ddp_status status;

    memset(block, 9, BLOCK_BYTES);
    if (pair->env.rank == 1) {
        say("ready");
        for (int i = 0; i < 4; i++) {
            status = take_block(pair, BLOCK_BYTES, 9);
            if (status != DDP_OK) {
                return fail("a message after the stop", status);
            }
        }
        say("done");
        return 0;
    }
    say("ready");
    /* The driver stops rank 1, and then closes our input. */
    while (getchar() != EOF) {
    }
    for (int i = 0; i < 4; i++) {
        status = send_block(pair, block, BLOCK_BYTES);
        if (status != DDP_OK) {
            return fail("a message to a stopped peer", status);
        }
    }
    status = until(pair, sent_poll, 4 * SILENCE_S * DDP_NS_PER_S);
    if (status != DDP_E_TIMEOUT || pair->transport->ops->dead_peer(pair->transport) != -1) {
        return fail("a peer that is stopped", status);
    }
    say("still connected");
    status = until(pair, sent_poll, 20 * DDP_NS_PER_S);
    if (status != DDP_OK) {
        return fail("a peer that goes on", status);
    }
    say("done");
    return 0;
}

static int run(struct pair *pair, const char *mode)
{
    uint8_t *block = pair->transport->ops->alloc(pair->transport, BLOCK_BYTES);
    ddp_status status = block == NULL ? DDP_E_NOMEM : exchange(pair, block);

    if (status != DDP_OK) {
        return fail("exchange", status);
    }
    if (strcmp(mode, "loss") == 0) {
        return wait_for_loss(pair);
    }
    if (strcmp(mode, "stop") == 0) {
        return outlast_stop(pair, block);
    }
    say("done");
    return 0;
}

int main(int argc, char **argv)
{
    struct pair pair = {.store = NULL};
    struct ddp_tcp_config config = {
        .group_name = "pair", .member_count = 2, .silence_ns = SILENCE_S * DDP_NS_PER_S};
    struct ddp_err err = {""};
    char address[64];
    uint64_t deadline_ns;
    ddp_status status;
    int result;

    if (argc != 5) {
        (void)fprintf(stderr, "usage: tcp_pair RANK MASTER_ADDR MASTER_PORT exchange|loss|stop\n");
        return 2;
    }
    pair.rendezvous = (struct ddp_rendezvous){.rank = (uint32_t)strtoul(argv[1], NULL, 10),
                                              .world_size = 2,
                                              .master_port = (uint16_t)strtoul(argv[3], NULL, 10)};
    (void)snprintf(pair.rendezvous.master_addr, sizeof pair.rendezvous.master_addr, "%s", argv[2]);
    ddp_env_init_process(&pair.env, &pair.idle, pair.rendezvous.rank, 2);
    deadline_ns = ddp_clock_deadline_ns(pair.env.clock, 20 * DDP_NS_PER_S);
    config.member = pair.rendezvous.rank;
    config.address = address;
    status =
        ddp_tcp_local_address(argv[2], pair.rendezvous.master_port, address, sizeof address, &err);
    if (status == DDP_OK) {
        status = ddp_rendezvous_store(&pair.env, &pair.rendezvous, deadline_ns, &pair.store, &err);
    }
    if (status == DDP_OK) {
        status = ddp_tcp_create(&pair.env, pair.store, &config, deadline_ns, &pair.transport, &err);
    }
    if (status != DDP_OK) {
        return fail(err.text, status);
    }
    result = run(&pair, argv[4]);
    pair.transport->ops->destroy(pair.transport);
    pair.store->ops->destroy(pair.store);
    return result;
}
