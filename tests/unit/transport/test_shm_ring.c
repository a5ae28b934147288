/* The slot ring between two threads of one process. Built with -fsanitize=thread it shows that the
 * ring's words order everything that passes through it. */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "ddpcore/base/idle.h"
#include "ddpcore/transport/shm_segment.h"
#include "tests/ct.h"

#define MESSAGES   20000u
#define SLOTS      4u
#define HEAP_BYTES 4096u

struct ring_test {
    struct ddp_shm_segment segment;
    uint32_t wrong;
};

/* Every third message lies in the heap, in one of SLOTS places, as a lent one would. */
static uint8_t *place_of(struct ring_test *test, struct ddp_shm_slot *slot, uint32_t number)
{
    if (number % 3 != 0) {
        slot->size_bytes = sizeof(uint32_t);
        return slot->data;
    }
    slot->size_bytes = DDP_SHM_INLINE_BYTES + 1;
    slot->offset = test->segment.heap_first + (number % SLOTS) * 64;
    return test->segment.base + slot->offset;
}

static void *send_all(void *self)
{
    struct ring_test *test = self;
    struct ddp_shm_member *peer = &test->segment.members[1];
    struct ddp_shm_sender sender;
    uint64_t ticket = 0;

    ddp_shm_sender_open(&sender, &test->segment, 0, 1);
    for (uint32_t number = 0; number < MESSAGES; number++) {
        struct ddp_shm_slot *slot = ddp_shm_sender_slot(&sender);

        while (slot == NULL) {
            (void)sched_yield();
            slot = ddp_shm_sender_slot(&sender);
        }
        memcpy(place_of(test, slot, number), &number, sizeof(number));
        slot->seq = number;
        ddp_shm_sender_publish(&sender, slot, &ticket);
        ddp_doorbell_ring(&peer->doorbell, &peer->sleep);
    }
    while (!ddp_shm_sender_is_taken(&sender, ticket)) {
        (void)sched_yield();
    }
    return NULL;
}

static void *recv_all(void *self)
{
    struct ring_test *test = self;
    struct ddp_shm_member *peer = &test->segment.members[0];
    struct ddp_shm_receiver receiver;

    ddp_shm_receiver_open(&receiver, &test->segment, 0, 1);
    for (uint32_t number = 0; number < MESSAGES; number++) {
        struct ddp_shm_slot *slot = ddp_shm_receiver_slot(&receiver);
        uint32_t value;

        while (slot == NULL) {
            (void)sched_yield();
            slot = ddp_shm_receiver_slot(&receiver);
        }
        memcpy(&value,
               slot->size_bytes <= DDP_SHM_INLINE_BYTES ? slot->data
                                                        : test->segment.base + slot->offset,
               sizeof(value));
        test->wrong += value != number || slot->seq != number;
        if (ddp_shm_receiver_take(&receiver)) {
            ddp_doorbell_ring(&peer->doorbell, &peer->sleep);
        }
    }
    return NULL;
}

/* Twenty thousand messages through four slots arrive in order and unharmed. */
CT_TEST(shm_ring, two_threads)
{
    size_t size_bytes = ddp_shm_segment_size_bytes(2, SLOTS, HEAP_BYTES);
    void *base = aligned_alloc(4096, (size_bytes + 4095) & ~(size_t)4095);
    struct ring_test test = {.wrong = 0};
    pthread_t sender, receiver;

    CT_REQUIRE(base != NULL);
    memset(base, 0, size_bytes);
    ddp_shm_segment_view(&test.segment, base, 2, SLOTS, HEAP_BYTES);
    CT_REQUIRE(pthread_create(&sender, NULL, send_all, &test) == 0);
    CT_REQUIRE(pthread_create(&receiver, NULL, recv_all, &test) == 0);
    (void)pthread_join(sender, NULL);
    (void)pthread_join(receiver, NULL);
    CT_CHECK_EQ_U64(test.wrong, 0);
    free(base);
}
