/* What every transport must do, run on each. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/ct.h"
#include "tests/unit/transport/transport_ranks.h"

#define EACH(name)                          \
    CT_TEST(transport_loop, name)           \
    {                                       \
        ranks_run_loop(name##_ranks, name); \
    }                                       \
    CT_TEST(transport_shm, name)            \
    {                                       \
        ranks_run_shm(name##_ranks, name);  \
    }                                       \
    CT_TEST(transport_tcp, name)            \
    {                                       \
        ranks_run_tcp(name##_ranks, name);  \
    }

#define BLOCK_BYTES ((size_t)65536)

static void fill(uint8_t *data, size_t size_bytes, uint32_t salt)
{
    for (size_t i = 0; i < size_bytes; i++) {
        data[i] = (uint8_t)(i * 31 + salt);
    }
}

static bool is_filled(const void *data, size_t size_bytes, uint32_t salt)
{
    const uint8_t *bytes = data;

    for (size_t i = 0; i < size_bytes; i++) {
        if (bytes[i] != (uint8_t)(i * 31 + salt)) {
            return false;
        }
    }
    return true;
}

static size_t size_of(uint32_t number)
{
    return 1 + (number * 2654435761u >> 8) % 9000;
}

/* Messages of a pair arrive once each, whole, in the order in which they were sent, whether they
 * come from lendable or from other memory, and in both directions at once. */
static const uint32_t fifo_ranks = 2;
static void fifo(struct rank_context *context)
{
    const struct ddp_transport_ops *ops = context->transport->ops;
    uint32_t peer = 1 - context->rank;
    uint8_t *lendable = ops->alloc(context->transport, 9000);
    static uint8_t other[2][9000];
    uint8_t *foreign = other[context->rank];
    struct ddp_message message;
    uint64_t ticket;

    RANK_CHECK(context, lendable != NULL);
    for (uint32_t i = 0; i < 200 && context->failure[0] == '\0'; i++) {
        uint8_t *data = i % 2 == 0 ? lendable : foreign;

        fill(data, size_of(i), i + context->rank);
        RANK_CHECK(context, rank_send(context, peer, data, size_of(i), &ticket) == DDP_OK);
        RANK_CHECK(context, rank_recv(context, peer, &message) == DDP_OK);
        RANK_CHECK(context, message.size_bytes == size_of(i));
        RANK_CHECK(context, message.seq == 1 && message.signature == 2 && message.number == 3);
        RANK_CHECK(context, is_filled(message.data, message.size_bytes, i + peer));
        ops->recv_ack(context->transport, peer);
        RANK_CHECK(context, rank_sent(context, peer, ticket) == DDP_OK);
    }
    RANK_CHECK(context, ops->recv_peek(context->transport, peer, &message) != DDP_OK);
    ops->free(context->transport, lendable);
}
EACH(fifo)

/* A lent range is the sender's again only after the receiver acknowledged it. */
static const uint32_t lending_ranks = 2;
static void lending(struct rank_context *context)
{
    const struct ddp_transport_ops *ops = context->transport->ops;
    uint8_t *block = ops->alloc(context->transport, BLOCK_BYTES);
    struct ddp_message message;
    uint64_t ticket;

    RANK_CHECK(context, block != NULL);
    fill(block, BLOCK_BYTES, context->rank);
    if (context->rank == 0) {
        RANK_CHECK(context, rank_send(context, 1, block, BLOCK_BYTES, &ticket) == DDP_OK);
        /* Rank 1 holds the message when it sends its own. */
        RANK_CHECK(context, rank_recv(context, 1, &message) == DDP_OK);
        RANK_CHECK(context, ops->send_poll(context->transport, 1, ticket) == DDP_PENDING);
        ops->recv_ack(context->transport, 1);
        RANK_CHECK(context, rank_sent(context, 1, ticket) == DDP_OK);
    } else {
        RANK_CHECK(context, rank_recv(context, 0, &message) == DDP_OK);
        RANK_CHECK(context, rank_send(context, 0, block, BLOCK_BYTES, &ticket) == DDP_OK);
        /* Acknowledged: rank 0 has made its check. */
        RANK_CHECK(context, rank_sent(context, 0, ticket) == DDP_OK);
        RANK_CHECK(context, is_filled(message.data, BLOCK_BYTES, 0));
        ops->recv_ack(context->transport, 0);
    }
    ops->free(context->transport, block);
}
EACH(lending)

/* A full stream says PENDING, takes nothing, and goes on once the receiver has caught up. */
static const uint32_t full_stream_ranks = 2;
static void full_stream(struct rank_context *context)
{
    const struct ddp_transport_ops *ops = context->transport->ops;
    uint32_t *values = ops->alloc(context->transport, 100 * sizeof(uint32_t));
    struct ddp_message message;
    uint64_t ticket;
    uint32_t posted = 0;
    uint32_t value = 0;

    RANK_CHECK(context, values != NULL);
    if (context->rank == 0) {
        for (uint32_t i = 0; i < 100; i++) {
            values[i] = i;
        }
        message = (struct ddp_message){values, sizeof(uint32_t), 1, 2, 0};
        while (posted < 100 && ops->send_post(context->transport, 1, &message, &ticket) == DDP_OK) {
            message.data = &values[++posted];
        }
        RANK_CHECK(context, posted > 0 && posted < 100);
        /* Rank 1 starts to read when it gets this. */
        RANK_CHECK(context, context->store->ops != NULL &&
                                ddp_store_set(context->env, context->store, "full", "1", 1,
                                              DDP_DEADLINE_NEVER) == DDP_OK);
        for (; posted < 100; posted++) {
            RANK_CHECK(context,
                       rank_send(context, 1, &values[posted], sizeof(uint32_t), &ticket) == DDP_OK);
        }
        RANK_CHECK(context, rank_sent(context, 1, ticket) == DDP_OK);
    } else {
        uint8_t flag[DDP_STORE_VALUE_BYTES_MAX];
        size_t flag_bytes;

        RANK_CHECK(context, ddp_store_get(context->env, context->store, "full", flag, &flag_bytes,
                                          DDP_DEADLINE_NEVER) == DDP_OK);
        for (uint32_t i = 0; i < 100; i++) {
            RANK_CHECK(context, rank_recv(context, 0, &message) == DDP_OK);
            memcpy(&value, message.data, sizeof(value));
            RANK_CHECK(context, value == i);
            ops->recv_ack(context->transport, 0);
        }
    }
    ops->free(context->transport, values);
}
EACH(full_stream)

static bool is_peer_dead(struct rank_context *context)
{
    return context->transport->ops->dead_peer(context->transport) == 1;
}

/* What a dead rank had sent is still delivered, from lendable and from other memory; only then
 * comes PEER_DIED, and dead_peer names the rank. */
static const uint32_t death_after_send_ranks = 3;
static void death_after_send(struct rank_context *context)
{
    const struct ddp_transport_ops *ops = context->transport->ops;
    struct ddp_message message;
    uint64_t ticket;

    if (context->rank == 1) {
        uint8_t *block = ops->alloc(context->transport, BLOCK_BYTES);
        uint8_t *foreign = context->env->mem->alloc(context->env->mem, BLOCK_BYTES);

        fill(block, BLOCK_BYTES, 1);
        fill(foreign, BLOCK_BYTES, 2);
        (void)rank_send(context, 0, block, BLOCK_BYTES, &ticket);
        (void)rank_send(context, 0, foreign, BLOCK_BYTES, &ticket);
        (void)rank_send(context, 0, foreign, 10, &ticket);
        context->die(context);
        return;
    }
    RANK_CHECK(context, rank_until(context, is_peer_dead) == DDP_OK);
    if (context->rank == 0) {
        static const struct {
            size_t size_bytes;
            uint32_t salt;
        } expected[] = {{BLOCK_BYTES, 1}, {BLOCK_BYTES, 2}, {10, 2}};

        for (uint32_t i = 0; i < 3; i++) {
            RANK_CHECK(context, rank_recv(context, 1, &message) == DDP_OK);
            RANK_CHECK(context, message.size_bytes == expected[i].size_bytes);
            RANK_CHECK(context, is_filled(message.data, expected[i].size_bytes, expected[i].salt));
            ops->recv_ack(context->transport, 1);
        }
    }
    RANK_CHECK(context, rank_recv(context, 1, &message) == DDP_E_PEER_DIED);
}
EACH(death_after_send)

/* A send to a dead rank that can no longer acknowledge ends with PEER_DIED instead of waiting. */
static const uint32_t death_of_receiver_ranks = 2;
static void death_of_receiver(struct rank_context *context)
{
    const struct ddp_transport_ops *ops = context->transport->ops;
    struct ddp_message message;
    uint64_t ticket = 0;
    uint8_t *block;

    if (context->rank == 1) {
        (void)rank_recv(context, 0, &message);
        context->die(context);
        return;
    }
    block = ops->alloc(context->transport, BLOCK_BYTES);
    RANK_CHECK(context, rank_send(context, 1, block, BLOCK_BYTES, &ticket) == DDP_OK);
    RANK_CHECK(context, rank_sent(context, 1, ticket) == DDP_E_PEER_DIED);
    RANK_CHECK(context, ops->dead_peer(context->transport) == 1);
    ops->free(context->transport, block);
}
EACH(death_of_receiver)

/* A member that left is not dead: its last message arrives, then PEER_DIED, but nobody is named. */
static const uint32_t departed_ranks = 2;
static void departed(struct rank_context *context)
{
    const struct ddp_transport_ops *ops = context->transport->ops;
    struct ddp_message message;
    uint64_t ticket;

    if (context->rank == 1) {
        uint8_t *block = ops->alloc(context->transport, BLOCK_BYTES);

        fill(block, BLOCK_BYTES, 9);
        (void)rank_send(context, 0, block, BLOCK_BYTES, &ticket);
        /* The block goes with the endpoint; what was lent must not. */
        context->transport->ops->destroy(context->transport);
        context->transport = NULL;
        return;
    }
    RANK_CHECK(context, rank_recv(context, 1, &message) == DDP_OK);
    RANK_CHECK(context, is_filled(message.data, BLOCK_BYTES, 9));
    ops->recv_ack(context->transport, 1);
    RANK_CHECK(context, rank_recv(context, 1, &message) == DDP_E_PEER_DIED);
    RANK_CHECK(context, ops->dead_peer(context->transport) == -1);
}
EACH(departed)

static bool sees_earlier_revocation(struct rank_context *context)
{
    struct ddp_revocation seen;

    return context->transport->ops->is_revoked(context->transport, &seen) && seen.step == 3;
}

/* A revocation reaches every member; of several, the one of the lowest step is shown; later sends
 * are refused; a rank's second revocation changes nothing. */
static const uint32_t revocation_ranks = 4;
static void revocation(struct rank_context *context)
{
    const struct ddp_transport_ops *ops = context->transport->ops;
    struct ddp_revocation seen = {0};
    struct ddp_message message = {"x", 1, 1, 0, 0};
    uint64_t ticket;

    if (context->rank == 1 || context->rank == 2) {
        struct ddp_revocation own = {context->rank, DDP_E_UNUSED_PARAMETER,
                                     context->rank == 1 ? 3u : 5u, 77};

        ops->revoke(context->transport, &own);
        own.step = 0;
        ops->revoke(context->transport, &own);
    }
    RANK_CHECK(context, rank_until(context, sees_earlier_revocation) == DDP_OK);
    RANK_CHECK(context, ops->is_revoked(context->transport, &seen));
    RANK_CHECK(context, seen.rank == 1 && seen.status == DDP_E_UNUSED_PARAMETER);
    RANK_CHECK(context, seen.step == 3 && seen.detail == 77);
    RANK_CHECK(context, ops->send_post(context->transport, (context->rank + 1) % 4, &message,
                                       &ticket) == DDP_E_REVOKED);
}
EACH(revocation)

static bool is_zero(const uint8_t *data, size_t size_bytes)
{
    for (size_t i = 0; i < size_bytes; i++) {
        if (data[i] != 0) {
            return false;
        }
    }
    return true;
}

/* Lendable memory is aligned, zero even when reused, and never overlaps. */
static const uint32_t memory_ranks = 1;
static void memory(struct rank_context *context)
{
    const struct ddp_transport_ops *ops = context->transport->ops;
    uint8_t *block[32] = {0};

    for (uint32_t i = 0; i < 2000; i++) {
        uint32_t at = i * 2654435761u >> 27;
        size_t size_bytes = size_of(i % 32);

        if (block[at] != NULL) {
            size_t old_bytes;

            memcpy(&old_bytes, block[at], sizeof(old_bytes));
            RANK_CHECK(context, is_filled(block[at] + 8, old_bytes - 8, at));
            ops->free(context->transport, block[at]);
            block[at] = NULL;
            continue;
        }
        size_bytes += 8;
        block[at] = ops->alloc(context->transport, size_bytes);
        RANK_CHECK(context, block[at] != NULL && (uintptr_t)block[at] % 64 == 0);
        if (block[at] == NULL) {
            return;
        }
        RANK_CHECK(context, is_zero(block[at], size_bytes));
        memcpy(block[at], &size_bytes, sizeof(size_bytes));
        fill(block[at] + 8, size_bytes - 8, at);
    }
    for (uint32_t i = 0; i < 32; i++) {
        ops->free(context->transport, block[i]);
    }
}
EACH(memory)

/* When the shared heap is full, alloc says so, and messages from other memory are still sent once
 * earlier copies were acknowledged. */
static void exhaustion(struct rank_context *context)
{
    const struct ddp_transport_ops *ops = context->transport->ops;
    static uint8_t foreign[1 << 20];
    struct ddp_message message;
    uint64_t ticket;

    RANK_CHECK(context, ops->alloc(context->transport, 64 << 20) == NULL);
    for (uint32_t i = 0; i < 10; i++) {
        if (context->rank == 0) {
            fill(foreign, sizeof(foreign), i);
            RANK_CHECK(context, rank_send(context, 1, foreign, sizeof(foreign), &ticket) == DDP_OK);
        } else {
            RANK_CHECK(context, rank_recv(context, 0, &message) == DDP_OK);
            RANK_CHECK(context, is_filled(message.data, sizeof(foreign), i));
            ops->recv_ack(context->transport, 0);
        }
    }
}
CT_TEST(transport_shm, exhaustion)
{
    ranks_run_shm(2, exhaustion);
}

/* A message that the shared heap cannot hold, and one for which others have left it no room, are
 * sent all the same, one after the other; no descriptor is left. */
static void heap_too_small(struct rank_context *context)
{
    const struct ddp_transport_ops *ops = context->transport->ops;
    static uint8_t foreign[6 << 20];
    void *full = ops->alloc(context->transport, (4 << 20) - 4096);
    struct ddp_message message;
    const int before = dup(0);
    uint64_t ticket;
    ddp_status status;
    int behind;

    RANK_CHECK(context, full != NULL && close(before) == 0);
    for (uint32_t i = 0; i < 4; i++) {
        const size_t size_bytes = i % 2 == 0 ? sizeof(foreign) : 1 << 20;

        if (context->rank == 0) {
            fill(foreign, size_bytes, i);
            status = rank_send(context, 1, foreign, size_bytes, &ticket);
            RANK_CHECK(context, status == DDP_OK);
            if (status != DDP_OK) {
                return;
            }
            RANK_CHECK(context, rank_sent(context, 1, ticket) == DDP_OK);
        } else {
            if (rank_recv(context, 0, &message) != DDP_OK) {
                return;
            }
            RANK_CHECK(context, message.size_bytes == size_bytes);
            RANK_CHECK(context, is_filled(message.data, size_bytes, i));
            ops->recv_ack(context->transport, 0);
        }
    }
    behind = dup(0);
    RANK_CHECK(context, behind == before && close(behind) == 0);
    ops->free(context->transport, full);
}
CT_TEST(transport_shm, heap_too_small)
{
    ranks_run_shm(2, heap_too_small);
}
