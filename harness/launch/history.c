/* Follows one rank's ring. An overwritten entry is skipped: the trace counts it as lost. */
#include "harness/launch/history.h"

static void note_post(struct harness_history *history, const struct harness_program *program,
                      const struct ddp_event_entry *entry)
{
    struct ddp_event_op op = ddp_event_op_unpack(entry->arg[1]);

    if (harness_program_compare_step(program, entry->arg[0], (int32_t)entry->step, &op,
                                     entry->arg[2]) != HARNESS_VERDICT_NONE) {
        history->is_deviating = true;
        history->seq = entry->arg[0];
        history->packed_op = entry->arg[1];
        history->elem_count = entry->arg[2];
        history->step = entry->step;
    }
}

void harness_history_follow(struct harness_history *history, const struct harness_program *program,
                            const struct ddp_event_entry *ring, uint64_t ring_entry_count,
                            struct ddp_page *page)
{
    struct ddp_event_entry entry;

    while (history->read_count < page->event_count && !history->is_deviating) {
        ddp_status status = ddp_ring_read(ring, ring_entry_count, ++history->read_count, &entry);

        if (status == DDP_OK && entry.event == DDP_EVENT_COLL_POST) {
            note_post(history, program, &entry);
        }
    }
    if (history->is_deviating) {
        page->seq_posted = history->seq;
        page->posted_op = history->packed_op;
        page->posted_count = history->elem_count;
        page->posted_step = history->step;
    }
}
