/* Calls that a fault puts behind the next one of their communicator: one for each of them. */
#include <pthread.h>
#include <stddef.h>

#include "harness/guest/nccl/adapter.h"

enum { HELD_MAX = 16 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct guest_nccl_held all_held[HELD_MAX]; /* args.comm NULL: the place is free */
static int held_count;                            /* asked for without the lock */

/* The place of the communicator, or with NULL a free one; HELD_MAX: there is none. */
static int place_of(const struct ncclComm *comm)
{
    int i = 0;

    while (i < HELD_MAX && all_held[i].args.comm != comm) {
        i++;
    }
    return i;
}

int guest_nccl_can_hold(struct ncclComm *comm)
{
    int can_hold;

    if (__atomic_load_n(&held_count, __ATOMIC_ACQUIRE) == 0) {
        return comm != NULL;
    }
    (void)pthread_mutex_lock(&lock);
    can_hold = place_of(comm) == HELD_MAX && place_of(NULL) < HELD_MAX;
    (void)pthread_mutex_unlock(&lock);
    return can_hold;
}

void guest_nccl_hold(const struct guest_nccl_held *held)
{
    int place;

    (void)pthread_mutex_lock(&lock);
    place = place_of(NULL);
    if (place < HELD_MAX) { /* else another thread was faster, and the call is left out */
        all_held[place] = *held;
        (void)__atomic_add_fetch(&held_count, 1, __ATOMIC_RELEASE);
    }
    (void)pthread_mutex_unlock(&lock);
}

int guest_nccl_take_held(struct ncclComm *comm, struct guest_nccl_held *out)
{
    int place;

    if (comm == NULL || __atomic_load_n(&held_count, __ATOMIC_ACQUIRE) == 0) {
        return 0;
    }
    (void)pthread_mutex_lock(&lock);
    place = place_of(comm);
    if (place < HELD_MAX) {
        *out = all_held[place];
        all_held[place].args.comm = NULL;
        (void)__atomic_sub_fetch(&held_count, 1, __ATOMIC_RELEASE);
    }
    (void)pthread_mutex_unlock(&lock);
    return place < HELD_MAX;
}
