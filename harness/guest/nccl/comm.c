/* The communicators of this process: what NCCL calls them, and what the arena does. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/guest/lane.h"
#include "harness/guest/nccl/adapter.h"

enum { PAIRS_MAX = 24 };

/* Messages from one rank of a communicator to another: a group of two in which the n-th send meets
 * the n-th receive. */
struct pair {
    uint32_t comm; /* the communicator's handle; 0: the place is free */
    uint32_t from, to;
    uint32_t handle;
};

/* How often a rank of this process has begun a communicator of an id. */
struct births {
    uint64_t base, count;
    uint32_t rank;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct births *births;
static size_t births_count, births_capacity;
static struct guest_nccl_comm *list;
static size_t list_count, list_capacity;
static struct pair pairs[PAIRS_MAX];
static unsigned made[GUEST_NCCL_ORIGIN_COUNT];
static uint64_t last_number;

/* FNV-1a, and the finalizer of splitmix64 behind it, so that close inputs lie far apart. */
uint64_t guest_nccl_hash(uint64_t seed, const void *data, size_t size_bytes)
{
    const unsigned char *bytes = data;
    uint64_t hash = seed ^ UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < size_bytes; i++) {
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    }
    hash = (hash ^ hash >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    hash = (hash ^ hash >> 27) * UINT64_C(0x94d049bb133111eb);
    return hash ^ hash >> 31;
}

static struct guest_nccl_comm *find(const struct ncclComm *comm)
{
    for (size_t i = 0; comm != NULL && i < list_count; i++) {
        if (list[i].comm == comm) {
            return &list[i];
        }
    }
    return NULL;
}

int guest_nccl_comm_find(struct ncclComm *comm, struct guest_nccl_comm *out)
{
    const struct guest_nccl_comm *found;

    (void)pthread_mutex_lock(&lock);
    found = find(comm);
    if (found != NULL) {
        *out = *found;
    }
    (void)pthread_mutex_unlock(&lock);
    return found != NULL;
}

uint32_t guest_nccl_comm_handle(struct ncclComm *comm)
{
    struct guest_nccl_comm found;

    return guest_nccl_comm_find(comm, &found) ? found.handle : 0;
}

static void set_name(struct guest_nccl_comm *comm, enum guest_nccl_origin origin)
{
    static const char *const names[] = {"ncclCommInitRank", "ncclCommSplit", "ncclCommShrink"};
    const unsigned number = ++made[origin];

    if (number == 1) {
        (void)snprintf(comm->name, sizeof comm->name, "%s", names[origin]);
    } else {
        (void)snprintf(comm->name, sizeof comm->name, "%s %u", names[origin], number);
    }
}

/* Another part of a communicator that this process has a part in already: none of them is watched.
 */
static int has_other_part(uint64_t key)
{
    int is_any = 0;

    for (size_t i = 0; i < list_count; i++) {
        if (list[i].key == key) {
            is_any = 1;
            if (list[i].handle != 0) {
                guest_comm_free(list[i].handle, GUEST_FREE_UNSHOWN);
                guest_comm_lost();
                list[i].handle = 0;
            }
        }
    }
    return is_any;
}

/* NULL: there is no memory. */
static struct births *births_of(uint64_t base, uint32_t rank)
{
    struct births *grown;

    for (size_t i = 0; i < births_count; i++) {
        if (births[i].base == base && births[i].rank == rank) {
            return &births[i];
        }
    }
    if (births_count == births_capacity) {
        grown = realloc(births, (2 * births_capacity + 16) * sizeof *births);
        if (grown == NULL) {
            return NULL;
        }
        births = grown;
        births_capacity = 2 * births_capacity + 16;
    }
    births[births_count] = (struct births){.base = base, .rank = rank};
    return &births[births_count++];
}

/* With NCCL_COMM_ID all ids are the same, and with a program's own ids any may be. All members make
 * such communicators in the same order, so that a number tells them apart. */
static uint64_t key_of(uint64_t base, uint32_t rank)
{
    struct births *of = births_of(base, rank);
    const uint64_t before = of != NULL ? of->count++ : 0;

    return before == 0 ? base : guest_nccl_hash(base, &before, sizeof before);
}

/* One was not made: the next one of the id is again what it is to the others. */
static void take_back(const struct guest_nccl_comm *comm)
{
    struct births *of = births_of(comm->base, comm->rank);

    if (of != NULL && of->count > 0) {
        of->count--;
    }
}

static uint32_t add(struct guest_nccl_comm *comm)
{
    struct guest_nccl_comm *grown;

    if (list_count == list_capacity) {
        grown = realloc(list, (2 * list_capacity + 16) * sizeof *list);
        if (grown == NULL) {
            guest_comm_lost();
            return 0;
        }
        list = grown;
        list_capacity = 2 * list_capacity + 16;
    }
    if (has_other_part(comm->key)) {
        guest_comm_lost();
    } else {
        comm->handle =
            guest_comm_create(comm->key, comm->rank, comm->size, comm->name, GUEST_COMM_DEVICE);
    }
    list[list_count++] = *comm;
    return comm->handle;
}

uint32_t guest_nccl_comm_add(uint64_t key, uint32_t rank, uint32_t size,
                             enum guest_nccl_origin origin, uint64_t *number)
{
    struct guest_nccl_comm comm = {.base = key, .rank = rank, .size = size};
    uint32_t handle;

    (void)pthread_mutex_lock(&lock);
    comm.key = key_of(key, rank);
    comm.number = *number = ++last_number;
    set_name(&comm, origin);
    handle = add(&comm);
    (void)pthread_mutex_unlock(&lock);
    return handle;
}

void guest_nccl_comm_set(uint64_t number, struct ncclComm *comm)
{
    (void)pthread_mutex_lock(&lock);
    for (size_t i = 0; i < list_count; i++) {
        if (list[i].number == number) {
            list[i].comm = comm;
        }
    }
    (void)pthread_mutex_unlock(&lock);
}

int guest_nccl_comm_take(struct ncclComm *comm, struct guest_nccl_comm *out)
{
    struct guest_nccl_comm *found;
    struct guest_nccl_held held;

    (void)guest_nccl_take_held(comm, &held); /* no other call comes before it */
    (void)pthread_mutex_lock(&lock);
    found = find(comm);
    if (found != NULL) {
        *out = *found;
        *found = list[--list_count];
    }
    (void)pthread_mutex_unlock(&lock);
    return found != NULL;
}

void guest_nccl_comm_end(const struct guest_nccl_comm *comm, int is_aborted)
{
    if (comm->handle == 0) {
        return;
    }
    (void)pthread_mutex_lock(&lock);
    for (size_t i = 0; i < PAIRS_MAX; i++) {
        if (pairs[i].comm == comm->handle) {
            guest_nccl_forget_lanes(pairs[i].handle);
            guest_comm_free(pairs[i].handle, is_aborted ? GUEST_FREE_ABORTED : GUEST_FREE_ENDED);
            pairs[i].comm = 0;
        }
    }
    (void)pthread_mutex_unlock(&lock);
    guest_nccl_forget_lanes(comm->handle);
    guest_comm_free(comm->handle, is_aborted ? GUEST_FREE_ABORTED : GUEST_FREE_ENDED);
}

void guest_nccl_comm_drop(uint64_t number)
{
    (void)pthread_mutex_lock(&lock);
    for (size_t i = 0; i < list_count; i++) {
        if (list[i].number == number) {
            guest_comm_free(list[i].handle, GUEST_FREE_ABORTED);
            take_back(&list[i]);
            list[i] = list[--list_count];
            break;
        }
    }
    (void)pthread_mutex_unlock(&lock);
}

static void unshow(uint32_t *handle)
{
    guest_nccl_forget_lanes(*handle);
    guest_comm_free(*handle, GUEST_FREE_UNMADE);
    guest_comm_lost();
    *handle = 0;
}

void guest_nccl_comm_unshow(uint32_t handle)
{
    (void)pthread_mutex_lock(&lock);
    for (size_t i = 0; i < PAIRS_MAX; i++) {
        if (pairs[i].comm != 0 && pairs[i].handle == handle) {
            unshow(&pairs[i].handle);
        }
    }
    for (size_t i = 0; i < list_count; i++) {
        if (list[i].handle == handle) {
            unshow(&list[i].handle);
        }
    }
    (void)pthread_mutex_unlock(&lock);
}

void guest_nccl_comm_settle(struct ncclComm *comm)
{
    const struct guest_nccl_comm *found;

    (void)pthread_mutex_lock(&lock);
    found = find(comm);
    for (size_t i = 0; found != NULL && found->handle != 0 && i < PAIRS_MAX; i++) {
        if (pairs[i].comm == found->handle) {
            guest_nccl_launch_settle(pairs[i].handle);
        }
    }
    if (found != NULL && found->handle != 0) {
        guest_nccl_launch_settle(found->handle);
    }
    (void)pthread_mutex_unlock(&lock);
}

int guest_nccl_comm_is_busy(const struct guest_nccl_comm *comm)
{
    int is_busy = comm->handle != 0 && guest_nccl_is_under_way(comm->handle);

    (void)pthread_mutex_lock(&lock);
    for (size_t i = 0; comm->handle != 0 && i < PAIRS_MAX; i++) {
        is_busy =
            is_busy || (pairs[i].comm == comm->handle && guest_nccl_is_under_way(pairs[i].handle));
    }
    (void)pthread_mutex_unlock(&lock);
    return is_busy;
}

void guest_nccl_comm_failed(struct ncclComm *comm)
{
    struct guest_nccl_comm *found;

    (void)pthread_mutex_lock(&lock);
    found = find(comm);
    if (found != NULL && !found->has_failed) {
        found->has_failed = 1;
        guest_lane_launch(found->handle, 0, 0, GUEST_LAUNCH_FAILED);
    }
    (void)pthread_mutex_unlock(&lock);
}

static uint32_t make_pair(struct pair *place, const struct guest_nccl_comm *comm, uint32_t from,
                          uint32_t to)
{
    const uint64_t ends = (uint64_t)from << 32 | to;
    char name[32];

    (void)snprintf(name, sizeof name, "%.20s %u>%u", comm->name, from, to);
    *place = (struct pair){.comm = comm->handle, .from = from, .to = to};
    place->handle =
        guest_pair_create(guest_nccl_hash(comm->key, &ends, sizeof ends), comm->rank != from, name,
                          comm->handle, comm->rank == from ? to : from);
    return place->handle;
}

/* n-th messages would not meet if their count began in the middle: a communicator that once found
 * no place for a pair gets none for another one, though some be free by then. Returns whether it
 * may. */
static int may_have_pair(uint32_t comm, const struct pair *place)
{
    for (size_t i = 0; i < list_count; i++) {
        if (list[i].handle == comm) {
            if (place == NULL && !list[i].has_lost_pair) {
                list[i].has_lost_pair = 1;
                guest_comm_lost();
            }
            return !list[i].has_lost_pair;
        }
    }
    return 0;
}

uint32_t guest_nccl_pair(const struct guest_nccl_comm *comm, uint32_t from, uint32_t to)
{
    struct pair *place = NULL;
    uint32_t handle = 0;
    int is_found = 0;

    if (comm->handle == 0 || from == to) {
        return 0;
    }
    (void)pthread_mutex_lock(&lock);
    for (size_t i = 0; i < PAIRS_MAX && !is_found; i++) {
        if (pairs[i].comm == comm->handle && pairs[i].from == from && pairs[i].to == to) {
            handle = pairs[i].handle;
            is_found = 1;
        }
        place = place == NULL && pairs[i].comm == 0 ? &pairs[i] : place;
    }
    if (!is_found && may_have_pair(comm->handle, place)) {
        handle = make_pair(place, comm, from, to);
    }
    (void)pthread_mutex_unlock(&lock);
    return handle;
}
