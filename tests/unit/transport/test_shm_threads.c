/* Members of one segment as threads of one process, on the same mapping: what they do to each
 * other's words passes under ThreadSanitizer. Members of different processes, and how they find
 * their segment: transport_shm.c. */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "ddpcore/transport/shm_endpoint.h"
#include "tests/ct.h"

#define HEAP_BYTES    ((size_t)64 * 1024)
#define MESSAGE_BYTES ((size_t)4096) /* above DDP_SHM_INLINE_BYTES */

enum { MEMBERS = 3, SLOTS = 4, MESSAGES = 300, ROUNDS = 100 };

struct member {
    struct ddp_env env;
    struct ddp_idle_process idle;
    struct ddp_shm_endpoint *endpoint;
    pthread_t thread;
    uint32_t wrong;
    struct ddp_revocation seen;
};

struct group {
    void *base;
    struct member members[MEMBERS];
};

/* As ddp_shm_create leaves it, but for the segment: all members share one view of it, and no
 * process is watched. */
static struct ddp_shm_endpoint *open_member(struct member *member, uint32_t number, void *base)
{
    struct ddp_mem *mem = ddp_mem_system();
    struct ddp_shm_endpoint *endpoint = ddp_mem_array(mem, 1, sizeof(*endpoint));

    DDP_ASSERT(endpoint != NULL);
    ddp_env_init_process(&member->env, &member->idle, number, MEMBERS);
    endpoint->env = &member->env;
    endpoint->base.ops = &ddp_shm_ops;
    endpoint->base.member = number;
    endpoint->base.member_count = MEMBERS;
    endpoint->dead_peer = -1;
    endpoint->peers = ddp_mem_array(mem, MEMBERS, sizeof(*endpoint->peers));
    endpoint->pidfds = ddp_mem_array(mem, MEMBERS, sizeof(*endpoint->pidfds));
    DDP_ASSERT(endpoint->peers != NULL && endpoint->pidfds != NULL);
    ddp_shm_segment_view(&endpoint->segment, base, MEMBERS, SLOTS, HEAP_BYTES);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        struct ddp_shm_peer *peer = &endpoint->peers[i];

        endpoint->pidfds[i].fd = -1;
        ddp_shm_sender_open(&peer->sender, &endpoint->segment, number, i);
        ddp_shm_receiver_open(&peer->receiver, &endpoint->segment, i, number);
        peer->staging = ddp_mem_array(mem, SLOTS, sizeof(*peer->staging));
        peer->is_copied = ddp_mem_array(mem, SLOTS, sizeof(*peer->is_copied));
        peer->apart = ddp_mem_array(mem, SLOTS, sizeof(*peer->apart));
        DDP_ASSERT(peer->staging != NULL && peer->is_copied != NULL && peer->apart != NULL);
        for (uint32_t k = 0; k < SLOTS; k++) {
            peer->apart[k] = -1;
        }
    }
    endpoint->own = &endpoint->segment.members[number];
    ddp_shm_heap_init(&endpoint->heap,
                      endpoint->segment.base + endpoint->segment.heap_first + number * HEAP_BYTES,
                      HEAP_BYTES);
    endpoint->has_attached = true;
    return endpoint;
}

static void close_member(struct member *member)
{
    member->endpoint->segment.base = NULL; /* the group's, not a mapping of the member's own */
    ddp_shm_endpoint_destroy(member->endpoint);
    member->endpoint = NULL;
}

static void group_open(struct group *group)
{
    size_t size_bytes = ddp_shm_segment_size_bytes(MEMBERS, SLOTS, HEAP_BYTES);

    memset(group, 0, sizeof(*group));
    group->base = aligned_alloc(4096, (size_bytes + 4095) & ~(size_t)4095);
    DDP_ASSERT(group->base != NULL);
    memset(group->base, 0, size_bytes);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        group->members[i].endpoint = open_member(&group->members[i], i, group->base);
    }
}

/* Run one function per member, and add up what they found wrong. */
static uint32_t group_run(struct group *group, void *(*const work[MEMBERS])(void *))
{
    uint32_t wrong = 0;

    for (uint32_t i = 0; i < MEMBERS; i++) {
        struct member *member = &group->members[i];

        DDP_ASSERT(pthread_create(&member->thread, NULL, work[i], member) == 0);
    }
    for (uint32_t i = 0; i < MEMBERS; i++) {
        (void)pthread_join(group->members[i].thread, NULL);
        wrong += group->members[i].wrong;
    }
    return wrong;
}

static void group_close(struct group *group)
{
    for (uint32_t i = 0; i < MEMBERS; i++) {
        if (group->members[i].endpoint != NULL) {
            close_member(&group->members[i]);
        }
    }
    free(group->base);
}

/* The revocation of member `number`: every field follows from it. */
static struct ddp_revocation revocation_of(uint32_t number)
{
    return (struct ddp_revocation){.rank = number,
                                   .status = number == 0 ? DDP_E_UNUSED_PARAMETER : DDP_E_MISMATCH,
                                   .step = 7 - number,
                                   .detail = UINT64_C(0x0123456789abcdef) + number};
}

static bool is_whole(const struct ddp_revocation *seen)
{
    struct ddp_revocation whole = revocation_of(seen->rank);

    return seen->rank < 2 && seen->status == whole.status && seen->step == whole.step &&
           seen->detail == whole.detail;
}

static void *revoke(void *self)
{
    struct member *member = self;
    struct ddp_revocation revocation = revocation_of(member->env.rank);

    ddp_shm_ops.revoke(&member->endpoint->base, &revocation);
    return NULL;
}

/* Ask until there is an answer, and then until it is the one that stays: of the lower step. */
static void *await_revocation(void *self)
{
    struct member *member = self;
    struct ddp_transport *transport = &member->endpoint->base;

    do {
        while (!ddp_shm_ops.is_revoked(transport, &member->seen)) {
            (void)sched_yield();
        }
        member->wrong += !is_whole(&member->seen);
    } while (member->seen.rank != 1 && member->wrong == 0);
    return NULL;
}

/* Two members revoke at once: a third sees one revocation or the other, whole, and in the end that
 * of the lower step; nobody can send after it. */
CT_TEST(shm_threads, revocation_is_seen_whole)
{
    static void *(*const work[MEMBERS])(void *) = {revoke, revoke, await_revocation};

    for (int round = 0; round < ROUNDS; round++) {
        const struct ddp_message message = {.data = "x", .size_bytes = 1};
        struct group group;
        uint64_t ticket;

        group_open(&group);
        CT_CHECK_EQ_U64(group_run(&group, work), 0);
        CT_CHECK_STATUS(
            ddp_shm_ops.send_post(&group.members[2].endpoint->base, 0, &message, &ticket),
            DDP_E_REVOKED);
        group_close(&group);
    }
}

/* Where message `number` lies before it is sent: small, lent from the heap, or in foreign memory
 * and hence copied. */
static struct ddp_message make_message(uint32_t number, uint8_t *lent, uint8_t *foreign)
{
    uint8_t *data = number % 3 == 1 ? lent : foreign;
    struct ddp_message message = {.data = data,
                                  .size_bytes = number % 3 == 0 ? 64 : MESSAGE_BYTES,
                                  .seq = number,
                                  .signature = ~(uint64_t)number};

    memset(data, (int)(number & 0xff), message.size_bytes);
    return message;
}

/* Send all messages to the last member; a lent range is written again only once it was taken. */
static void *send_and_depart(void *self)
{
    struct member *member = self;
    struct ddp_transport *transport = &member->endpoint->base;
    uint8_t *lent = ddp_shm_ops.alloc(transport, MESSAGE_BYTES);
    uint8_t *foreign = malloc(MESSAGE_BYTES);

    DDP_ASSERT(lent != NULL && foreign != NULL);
    for (uint32_t number = 0; number < MESSAGES; number++) {
        struct ddp_message message = make_message(number, lent, foreign);
        uint64_t ticket = 0;
        ddp_status status = ddp_shm_ops.send_post(transport, MEMBERS - 1, &message, &ticket);

        while (status == DDP_PENDING) {
            (void)sched_yield();
            status = ddp_shm_ops.send_post(transport, MEMBERS - 1, &message, &ticket);
        }
        member->wrong += status != DDP_OK;
        while (ddp_shm_ops.send_poll(transport, MEMBERS - 1, ticket) == DDP_PENDING) {
            (void)sched_yield();
        }
    }
    free(foreign);
    close_member(member);
    return NULL;
}

static bool is_message(const struct ddp_message *message, uint32_t number)
{
    const uint8_t *data = message->data;

    for (size_t i = 0; i < message->size_bytes; i++) {
        if (data[i] != (number & 0xff)) {
            return false;
        }
    }
    return message->seq == number && message->signature == ~(uint64_t)number;
}

static void *recv_until_departed(void *self)
{
    struct member *member = self;
    struct ddp_transport *transport = &member->endpoint->base;

    for (uint32_t from = 0; from + 1 < MEMBERS; from++) {
        uint32_t count = 0;

        for (;;) {
            struct ddp_message message;
            ddp_status status = ddp_shm_ops.recv_peek(transport, from, &message);

            if (status == DDP_PENDING) {
                (void)sched_yield();
                continue;
            }
            if (status != DDP_OK) {
                member->wrong += status != DDP_E_PEER_DIED || count != MESSAGES;
                break;
            }
            member->wrong += !is_message(&message, count);
            count++;
            ddp_shm_ops.recv_ack(transport, from);
        }
        member->wrong += ddp_shm_ops.dead_peer(transport) != -1;
    }
    return NULL;
}

/* Members send and leave at once: the last message is there before the departure, and nobody takes
 * a member that left for a dead one. */
CT_TEST(shm_threads, departure_comes_after_the_last_message)
{
    static void *(*const work[MEMBERS])(void *) = {send_and_depart, send_and_depart,
                                                   recv_until_departed};
    struct group group;

    group_open(&group);
    CT_CHECK_EQ_U64(group_run(&group, work), 0);
    group_close(&group);
}
