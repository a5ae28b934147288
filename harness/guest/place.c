/* Where the program is: step, micro-batch, phase. */
#include "harness/guest/ddprove_guest.h"
#include "harness/guest/fault.h"
#include "harness/guest/self.h"

void ddprove_guest_one_thread(void)
{
    struct guest_page *page = guest_self_page();

    if (page != NULL) {
        guest_store(&page->is_one_thread, 1);
    }
}

void ddprove_guest_step(uint64_t step)
{
    struct guest_page *page = guest_self_page();
    const uint64_t arg[GUEST_ARG_COUNT] = {0};

    if (page != NULL) {
        guest_store(&page->step, step);
        guest_store(&page->micro, 0);
        guest_self_record(page, GUEST_EVENT_STEP, arg);
        (void)guest_fault_pass(page, GUEST_POINT_STEP, NULL, 0);
    }
}

void ddprove_guest_micro(uint32_t micro)
{
    struct guest_page *page = guest_self_page();

    if (page != NULL) {
        guest_store(&page->micro, micro);
    }
}

void ddprove_guest_phase(enum ddprove_guest_phase phase)
{
    struct guest_page *page = guest_self_page();
    const uint64_t arg[GUEST_ARG_COUNT] = {(uint64_t)phase};

    if (page != NULL) {
        guest_store(&page->phase, (uint64_t)phase);
        guest_self_record(page, GUEST_EVENT_PHASE, arg);
    }
}
