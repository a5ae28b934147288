/* What the tcp transport must do beside what every transport must: strangers are dropped, a
 * connection that breaks is a loss on both sides, what is damaged on the way is never taken, and a
 * long message is sent from where it lies. */
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ddpcore/transport/tcp_endpoint.h"
#include "tests/ct.h"
#include "tests/unit/transport/transport_ranks.h"

enum { LONG_BYTES = 3000000, STRANGER_COUNT = 4 };

static ddp_status open_tcp(struct rank_context *context, uint64_t deadline_ns, struct ddp_err *err)
{
    const struct ddp_tcp_config config = {.group_name = "test",
                                          .member = context->rank,
                                          .member_count = context->count,
                                          .address = "127.0.0.1"};

    return ddp_tcp_create(context->env, context->store, &config, deadline_ns, &context->transport,
                          err);
}

/* --- strangers -------------------------------------------------------------------------------- */

static int stranger_fd[STRANGER_COUNT] = {-1, -1, -1, -1};

/* Connects to where rank 0 listens, which published {nonce, port, ...}. */
static int call_rank_0(const uint8_t *place)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    uint32_t port;

    memcpy(&port, place + 8, sizeof port);
    name.sin_port = htons((uint16_t)port);
    return fd >= 0 && connect(fd, (const struct sockaddr *)&name, sizeof name) == 0 ? fd : -1;
}

/* Before rank 1 joins, strangers call rank 0: one talks nonsense, one greets without the nonce, one
 * greets as a member that does not exist, one says nothing. */
static ddp_status open_among_strangers(struct rank_context *context, uint64_t deadline_ns,
                                       struct ddp_err *err)
{
    struct ddp_tcp_frame hello = {.kind = DDP_TCP_HELLO, .word = {1, 0, 0}};
    uint8_t head[DDP_TCP_HEAD_BYTES] = "GET / HTTP/1.1\r\nHost: somebody\r\n\r\n";
    uint8_t place[DDP_STORE_VALUE_BYTES_MAX];
    size_t place_bytes;
    uint64_t nonce;

    if (context->rank != 1) {
        return open_tcp(context, deadline_ns, err);
    }
    DDP_TRY(ddp_store_get(context->env, context->store, "test/tcp/0", place, &place_bytes,
                          deadline_ns));
    memcpy(&nonce, place, sizeof nonce);
    for (int i = 0; i < STRANGER_COUNT; i++) {
        stranger_fd[i] = call_rank_0(place);
        if (stranger_fd[i] < 0) {
            return DDP_E_SYSTEM;
        }
        if (i == 1) {
            ddp_tcp_frame_encode(&hello, nonce + 1, 0, head);
        } else if (i == 2) {
            hello.word[0] = 77;
            ddp_tcp_frame_encode(&hello, nonce, 0, head);
        }
        if (i < 3 && send(stranger_fd[i], head, sizeof head, 0) != (ssize_t)sizeof head) {
            return DDP_E_SYSTEM;
        }
    }
    return open_tcp(context, deadline_ns, err);
}

static void greet_each_other(struct rank_context *context)
{
    uint32_t peer = 1 - context->rank;
    struct ddp_message message;
    uint64_t ticket;
    char end;

    RANK_CHECK(context, rank_send(context, peer, "hello", 5, &ticket) == DDP_OK);
    RANK_CHECK(context, rank_recv(context, peer, &message) == DDP_OK);
    RANK_CHECK(context, message.size_bytes == 5 && memcmp(message.data, "hello", 5) == 0);
    context->transport->ops->recv_ack(context->transport, peer);
    for (int i = 0; context->rank == 1 && i < STRANGER_COUNT; i++) {
        RANK_CHECK(context, recv(stranger_fd[i], &end, 1, 0) <= 0); /* nobody has answered it */
        (void)close(stranger_fd[i]);
    }
}

CT_TEST(tcp, strangers_are_dropped)
{
    ranks_run_processes(2, open_among_strangers, greet_each_other);
}

/* --- connections that break --------------------------------------------------------------------
 */

static struct ddp_tcp_peer *peer_of(struct rank_context *context, uint32_t member)
{
    return &((struct ddp_tcp_endpoint *)context->transport)->peers[member];
}

static bool is_anybody_lost(struct rank_context *context)
{
    return context->transport->ops->dead_peer(context->transport) >= 0;
}

/* Rank 1's system resets one of its connections to rank 0, as a restarted one does. Both learn of
 * it, and rank 2 is not concerned. */
static void reset(struct rank_context *context)
{
    const struct ddp_transport_ops *ops = context->transport->ops;
    struct ddp_message message;
    struct ddp_err err = {""};

    if (context->rank == 1) {
        const struct linger at_once = {1, 0};
        const struct sockaddr nobody = {.sa_family = AF_UNSPEC};
        int fd = peer_of(context, 0)->in_fd;

        RANK_CHECK(context, setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once) == 0);
        RANK_CHECK(context, connect(fd, &nobody, sizeof nobody) == 0);
    }
    if (context->rank < 2) {
        uint32_t other = 1 - context->rank;

        RANK_CHECK(context, rank_until(context, is_anybody_lost) == DDP_OK);
        RANK_CHECK(context, ops->dead_peer(context->transport) == (int32_t)other);
        RANK_CHECK(context, rank_recv(context, other, &message) == DDP_E_PEER_DIED);
        if (context->rank == 0) {
            RANK_CHECK(context, ddp_tcp_lost(context->transport, 1, &err) == DDP_LINK_RESET);
            RANK_CHECK(context, strstr(err.text, "member 1 ") == err.text);
        }
        RANK_CHECK(context, ddp_tcp_lost(context->transport, 2, NULL) != DDP_LINK_RESET);
    } else {
        RANK_CHECK(context, rank_recv(context, 0, &message) == DDP_E_PEER_DIED); /* both leave */
        RANK_CHECK(context, rank_recv(context, 1, &message) == DDP_E_PEER_DIED);
        RANK_CHECK(context, ops->dead_peer(context->transport) == -1);
        RANK_CHECK(context, ddp_tcp_lost(context->transport, 0, NULL) == DDP_LINK_DEPARTED);
    }
}

CT_TEST(tcp, reset_is_a_loss_on_both_sides)
{
    ranks_run_processes(3, open_tcp, reset);
}

/* One of the connections is closed for writing and nothing is said: it must not stay half open. */
static void half_open(struct rank_context *context)
{
    struct ddp_message message;

    if (context->rank == 1) {
        RANK_CHECK(context, shutdown(peer_of(context, 0)->out_fd, SHUT_WR) == 0);
    }
    RANK_CHECK(context, rank_recv(context, 1 - context->rank, &message) == DDP_E_PEER_DIED);
    RANK_CHECK(context, context->transport->ops->dead_peer(context->transport) ==
                            1 - (int32_t)context->rank);
    RANK_CHECK(context,
               ddp_tcp_lost(context->transport, 1 - context->rank, NULL) == DDP_LINK_ENDED);
}

CT_TEST(tcp, half_open_ends)
{
    ranks_run_processes(2, open_tcp, half_open);
}

/* Bytes that are no frame: the receiver takes none of them, and the sender learns that it is lost.
 */
static void damaged(struct rank_context *context)
{
    struct ddp_message message;
    uint64_t ticket;

    if (context->rank == 1) {
        RANK_CHECK(context, rank_send(context, 0, "right", 5, &ticket) == DDP_OK);
        RANK_CHECK(context, send(peer_of(context, 0)->out_fd,
                                 "damage, and more of it, so that a "
                                 "whole header is there to look at",
                                 64, 0) == 64);
        RANK_CHECK(context, rank_until(context, is_anybody_lost) == DDP_OK);
        return;
    }
    RANK_CHECK(context, rank_recv(context, 1, &message) == DDP_OK);
    RANK_CHECK(context, message.size_bytes == 5 && memcmp(message.data, "right", 5) == 0);
    context->transport->ops->recv_ack(context->transport, 1);
    RANK_CHECK(context, rank_recv(context, 1, &message) == DDP_E_IO);
    RANK_CHECK(context, ddp_tcp_lost(context->transport, 1, NULL) == DDP_LINK_DAMAGED);
    RANK_CHECK(context, context->transport->ops->dead_peer(context->transport) == 1);
}

CT_TEST(tcp, damage_is_never_taken)
{
    ranks_run_processes(2, open_tcp, damaged);
}

/* --- long messages -----------------------------------------------------------------------------
 */

/* Longer than what the system takes at once, from the caller's own memory, in both directions. The
 * hash was taken when it was posted: what is written to a range while it is lent is noticed. */
static void lent_range(struct rank_context *context)
{
    const struct ddp_transport_ops *ops = context->transport->ops;
    static uint8_t block[LONG_BYTES * 4];
    struct ddp_message message;
    uint64_t ticket;

    memset(block, 3, sizeof block);
    if (context->rank == 0) {
        RANK_CHECK(context, rank_send(context, 1, block, sizeof block, &ticket) == DDP_OK);
        RANK_CHECK(context, peer_of(context, 1)->written == 0); /* it lies there and waits */
        block[sizeof block - 1] = 4;
        (void)rank_sent(context, 1, ticket);
        return;
    }
    RANK_CHECK(context, rank_recv(context, 0, &message) == DDP_E_IO);
    RANK_CHECK(context, ddp_tcp_lost(context->transport, 0, NULL) == DDP_LINK_DAMAGED);
    (void)ops;
}

CT_TEST(tcp, write_to_a_lent_range_is_noticed)
{
    ranks_run_processes(2, open_tcp, lent_range);
}

/* Both send more than their systems take, and wait for each other's message alone. */
static void crossing(struct rank_context *context)
{
    static uint8_t block[LONG_BYTES * 4];
    uint32_t peer = 1 - context->rank;
    const uint8_t *data;
    struct ddp_message message;
    uint64_t ticket;

    memset(block, (int)context->rank + 1, sizeof block);
    RANK_CHECK(context, rank_send(context, peer, block, sizeof block, &ticket) == DDP_OK);
    RANK_CHECK(context, peer_of(context, peer)->written == 0);
    RANK_CHECK(context, rank_recv(context, peer, &message) == DDP_OK);
    data = message.data;
    RANK_CHECK(context, message.size_bytes == sizeof block && data[0] == peer + 1 &&
                            memcmp(data, data + 1, sizeof block - 1) == 0);
    context->transport->ops->recv_ack(context->transport, peer);
    RANK_CHECK(context, rank_sent(context, peer, ticket) == DDP_OK);
}

CT_TEST(tcp, long_messages_cross)
{
    ranks_run_processes(2, open_tcp, crossing);
}

/* Memory that is given back while a message in it is not sent whole: the peer sees an end, and no
 * part of a message. */
static void given_back(struct rank_context *context)
{
    const struct ddp_transport_ops *ops = context->transport->ops;
    struct ddp_message message;
    uint64_t ticket;

    if (context->rank == 0) {
        uint8_t *block = ops->alloc(context->transport, (size_t)LONG_BYTES * 4);

        RANK_CHECK(context,
                   rank_send(context, 1, block, (size_t)LONG_BYTES * 4, &ticket) == DDP_OK);
        RANK_CHECK(context, peer_of(context, 1)->written == 0);
        ops->free(context->transport, block);
        RANK_CHECK(context, ops->send_poll(context->transport, 1, ticket) == DDP_E_PEER_DIED);
        return;
    }
    RANK_CHECK(context, rank_recv(context, 0, &message) == DDP_E_PEER_DIED);
}

CT_TEST(tcp, memory_given_back_is_not_read)
{
    ranks_run_processes(2, open_tcp, given_back);
}
