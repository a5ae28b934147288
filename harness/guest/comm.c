/* The rank's communicators. */
#include <string.h>

#include "harness/guest/call.h"
#include "harness/guest/ddprove_guest.h"
#include "harness/guest/lane.h"

/* A handle is 1 + place + GUEST_COMMS_MAX * (how many were made before): its record is found
 * without a search, and a handle that was freed is not taken for the next one in its place. */
static uint32_t handle_of(uint32_t place, uint64_t made_before)
{
    return 1 + place + GUEST_COMMS_MAX * (uint32_t)(made_before % (UINT32_MAX / GUEST_COMMS_MAX));
}

struct guest_comm *guest_comm_of(struct guest_page *page, uint32_t comm)
{
    struct guest_comm *record;

    if (comm == 0) {
        return NULL;
    }
    record = &page->comms[(comm - 1) % GUEST_COMMS_MAX];
    return guest_load(&record->is_taken) != 0 && guest_load(&record->handle) == comm ? record
                                                                                     : NULL;
}

/* rank: as COMM tells it. */
static uint32_t create(uint64_t key, uint64_t rank, uint32_t size, const char *name,
                       enum guest_comm_kind kind)
{
    struct guest_page *page = guest_self_page();
    struct guest_comm *record = NULL;
    uint32_t place = 0;
    uint32_t handle;
    uint64_t words[GUEST_NAME_BYTES / 8] = {0};

    if (page == NULL) {
        return 0;
    }
    for (; place < GUEST_COMMS_MAX && record == NULL; place++) {
        uint64_t is_free = 0;

        if (__atomic_compare_exchange_n(&page->comms[place].is_taken, &is_free, 1, 0,
                                        __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
            record = &page->comms[place];
        }
    }
    if (record == NULL) {
        guest_comm_lost();
        return 0;
    }
    handle = handle_of(place - 1, __atomic_fetch_add(&page->comm_next, 1, __ATOMIC_RELAXED));
    if (name != NULL) {
        strncpy((char *)words, name, sizeof words - 1);
    }
    guest_change_begin(&record->change);
    guest_store(&record->handle, handle);
    guest_store(&record->key, key);
    guest_store(&record->rank, (uint32_t)rank);
    guest_store(&record->size, size);
    guest_store(&record->posted, 0);
    guest_store(&record->done, 0);
    guest_store(&record->children, 0);
    for (unsigned i = 0; i < GUEST_NAME_BYTES / 8; i++) {
        guest_store(&record->name[i], words[i]);
    }
    guest_change_end(&record->change);
    guest_self_record(page, GUEST_EVENT_COMM,
                      (const uint64_t[GUEST_ARG_COUNT]){handle, key, rank, size, kind});
    return handle;
}

uint32_t guest_comm_create(uint64_t key, uint32_t rank, uint32_t size, const char *name,
                           enum guest_comm_kind kind)
{
    return create(key, rank, size, name, kind);
}

uint32_t guest_pair_create(uint64_t key, uint32_t rank, const char *name, uint32_t parent,
                           uint32_t peer)
{
    return create(key, guest_pair_pack(rank, (parent - 1) % GUEST_COMMS_MAX, peer), 2, name,
                  GUEST_COMM_PAIR);
}

uint32_t ddprove_guest_comm_create(uint64_t key, uint32_t rank, uint32_t size, const char *name)
{
    return guest_comm_create(key, rank, size, name, GUEST_COMM_HOST);
}

uint32_t ddprove_guest_pair_create(uint64_t key, uint32_t rank, const char *name)
{
    return guest_comm_create(key, rank, 2, name, GUEST_COMM_HOST_PAIR);
}

static int is_among(int rank, const int *ranks, int count)
{
    int i = 0;

    while (i < count && ranks[i] != rank) {
        i++;
    }
    return i < count;
}

/* Below 0 is nobody, as at the border of a grid. */
void guest_comm_near(uint32_t comm, const int *from, int from_count, const int *to, int to_count)
{
    struct guest_page *page = guest_self_page();
    uint64_t arg[GUEST_ARG_COUNT] = {comm};
    unsigned used = 0;
    int is_told = 0;

    if (page == NULL || comm == 0) {
        return;
    }
    for (int i = 0; i < from_count + to_count; i++) {
        const int is_to = i >= from_count;
        const int rank = is_to ? to[i - from_count] : from[i];

        if (rank < 0 || (is_to && is_among(rank, from, from_count))) {
            continue;
        }
        arg[1 + used++] = guest_near_pack((uint32_t)rank, is_to);
        if (used == GUEST_NEAR_MAX) {
            guest_self_record(page, GUEST_EVENT_NEAR, arg);
            memset(&arg[1], 0, GUEST_NEAR_MAX * sizeof arg[0]);
            used = 0;
            is_told = 1;
        }
    }
    if (used > 0 || !is_told) {
        guest_self_record(page, GUEST_EVENT_NEAR, arg);
    }
}

void guest_comm_free(uint32_t comm, enum guest_free why)
{
    struct guest_page *page = guest_self_page();
    struct guest_comm *record = page != NULL ? guest_comm_of(page, comm) : NULL;

    if (record == NULL) {
        return;
    }
    guest_self_record(
        page, GUEST_EVENT_COMM_FREE,
        (const uint64_t[GUEST_ARG_COUNT]){comm, guest_load(&record->key), (uint64_t)why});
    /* Its name stays for whoever reads the ring later. */
    __atomic_store_n(&record->is_taken, 0, __ATOMIC_RELEASE);
}

void ddprove_guest_comm_free(uint32_t comm)
{
    guest_comm_free(comm, GUEST_FREE_ENDED);
}

uint64_t ddprove_guest_comm_child_key(uint32_t parent, uint64_t color)
{
    struct guest_page *page = guest_self_page();
    struct guest_comm *record = page != NULL ? guest_comm_of(page, parent) : NULL;
    uint64_t number;

    if (record == NULL) {
        return 0;
    }
    number = __atomic_add_fetch(&record->children, 1, __ATOMIC_RELAXED);
    return guest_mix(guest_mix(guest_load(&record->key) + number) ^
                     guest_mix(color + UINT64_C(0x9e3779b97f4a7c15)));
}
