/* What the program tells of the samples that it trains on. */
#include <string.h>

#include "harness/guest/ddprove_guest.h"
#include "harness/guest/self.h"

static struct guest_page *asked(void)
{
    struct guest_page *page = guest_self_page();

    return page != NULL && guest_self_arena()->is_observed != 0 ? page : NULL;
}

void ddprove_guest_epoch(const struct ddprove_guest_epoch *epoch)
{
    struct guest_page *page = asked();
    struct ddprove_guest_epoch told;

    if (page == NULL) {
        return;
    }
    if (epoch == NULL) {
        guest_self_record(page, GUEST_EVENT_EPOCH_END, (const uint64_t[GUEST_ARG_COUNT]){0});
        return;
    }
    memset(&told, 0, sizeof told);
    memcpy(&told, epoch, epoch->size_bytes < sizeof told ? epoch->size_bytes : sizeof told);
    guest_self_record(page, GUEST_EVENT_EPOCH,
                      (const uint64_t[GUEST_ARG_COUNT]){
                          told.number, told.sample_count, told.padded, told.dropped,
                          (told.sampler & 0xff) | (uint64_t)(told.is_uneven != 0) << 8});
}

void ddprove_guest_epoch_break(void)
{
    struct guest_page *page = asked();

    if (page != NULL) {
        guest_self_record(page, GUEST_EVENT_EPOCH_END, (const uint64_t[GUEST_ARG_COUNT]){1});
    }
}

/* number: 1 and more; 0: it has none. */
static void tell_batch(const uint64_t *samples, uint64_t count, uint64_t number)
{
    struct guest_page *page = asked();

    if (page == NULL) {
        return;
    }
    for (uint64_t i = 0; i < count; i += GUEST_SAMPLES_MAX) {
        uint64_t arg[GUEST_ARG_COUNT] = {count - i < GUEST_SAMPLES_MAX ? count - i
                                                                       : GUEST_SAMPLES_MAX};

        for (uint64_t k = 0; k < arg[0]; k++) {
            arg[1 + k] = samples[i + k];
        }
        guest_self_record(page, GUEST_EVENT_SAMPLES, arg);
    }
    guest_self_record(page, GUEST_EVENT_BATCH, (const uint64_t[GUEST_ARG_COUNT]){count, number});
}

void ddprove_guest_batch(const uint64_t *samples, uint64_t count)
{
    tell_batch(samples, count, 0);
}

void ddprove_guest_batch_of(const uint64_t *samples, uint64_t count, uint64_t number)
{
    tell_batch(samples, count, number + 1);
}
