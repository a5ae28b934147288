/* Lanes: where a device shows how far it is with the calls of a communicator. */
#include "harness/guest/lane.h"

#include <stddef.h>

#include "harness/guest/self.h"

struct guest_lane *guest_lanes(void)
{
    struct guest_page *page = guest_self_page();

    return page != NULL ? page->lanes : NULL;
}

uint32_t guest_lane_take(uint32_t comm, uint64_t stream, uint64_t past)
{
    struct guest_lane *lanes = guest_lanes();

    for (uint32_t i = 0; lanes != NULL && i < GUEST_LANES_MAX; i++) {
        uint64_t is_free = 0;

        if (__atomic_compare_exchange_n(&lanes[i].is_taken, &is_free, 1, 0, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED)) {
            /* Without a communicator readers pass it over. */
            guest_store(&lanes[i].begun, past);
            guest_store(&lanes[i].ended, past);
            guest_store(&lanes[i].stream, stream);
            guest_store(&lanes[i].comm, comm);
            return i + 1;
        }
    }
    return 0;
}

void guest_lane_give(uint32_t lane)
{
    struct guest_lane *lanes = guest_lanes();

    if (lanes != NULL && lane != 0) {
        guest_store(&lanes[lane - 1].comm, 0);
        guest_store(&lanes[lane - 1].is_taken, 0);
    }
}

void guest_lane_launch(uint32_t comm, uint64_t first, uint64_t last, uint64_t lane)
{
    struct guest_page *page = guest_self_page();

    if (page != NULL && comm != 0 && first <= last) {
        guest_self_record(page, GUEST_EVENT_LAUNCH,
                          (const uint64_t[GUEST_ARG_COUNT]){comm, first, last, lane});
    }
}

void guest_comm_lost(void)
{
    struct guest_page *page = guest_self_page();

    if (page != NULL) {
        (void)__atomic_add_fetch(&page->lost_comms, 1, __ATOMIC_RELAXED);
    }
}
