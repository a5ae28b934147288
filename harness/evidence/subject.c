/* Purpose: what a rank recorded of its parameters and of each pass is about one that there is, and
 * there once. Idea: the rows of step.c count whole steps on which no fault acted; a fault keeps a
 * rank from recording something, but lets it record nothing twice, nor of parameters it has not. */
#include "harness/evidence/internal.h"

/* What tells two events of a kind apart, of one step. */
enum apart { APART_MICRO, APART_PARAM, APART_SLOT, APART_PARAM_MICRO, APART_BUFFER };

static const struct row {
    enum ddp_event event;
    enum apart apart;
} rows[] = {
    {DDP_EVENT_LOSS, APART_MICRO},
    {DDP_EVENT_GRAD_READY, APART_PARAM_MICRO},
    {DDP_EVENT_GRAD_FINAL, APART_PARAM},
    {DDP_EVENT_PARAM_UPDATED, APART_PARAM},
    {DDP_EVENT_OPTIMIZER_STATE, APART_SLOT},
    {DDP_EVENT_PARAM_UNUSED, APART_PARAM_MICRO},
    {DDP_EVENT_BUFFER_UPDATED, APART_BUFFER},
};

static bool is_same(const struct ddp_event_entry *a, const struct ddp_event_entry *b,
                    enum apart apart)
{
    const bool is_micro = apart == APART_MICRO || apart == APART_PARAM_MICRO;

    return (!is_micro || a->micro == b->micro) &&
           (apart == APART_MICRO || a->arg[0] == b->arg[0]) &&
           (apart != APART_SLOT || a->arg[2] == b->arg[2]);
}

static void check_row(const struct harness_emulation *e, uint32_t rank, const struct row *row,
                      struct harness_gap *out)
{
    const size_t subject_count = row->apart == APART_BUFFER ? e->buffers.count : e->params.count;
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(&e->index, rank, row->event, &count);

    for (size_t i = 0; i < count && !out->is_set; i++) {
        const struct ddp_event_entry *entry = &list[i]->entry;

        if ((row->apart != APART_MICRO && entry->arg[0] >= subject_count) ||
            (row->apart == APART_SLOT && entry->arg[2] >= e->slot_count)) {
            harness_gap_set(out, "rank %u, step %u: %s of something that its model has not", rank,
                            entry->step, ddp_event_name(row->event));
        }
        for (size_t k = i; k > 0 && list[k - 1]->entry.step == entry->step; k--) {
            if (is_same(&list[k - 1]->entry, entry, row->apart)) {
                harness_gap_set(out, "rank %u, step %u: %s is there twice", rank, entry->step,
                                ddp_event_name(row->event));
                break;
            }
        }
    }
}

static void check_taken(const struct harness_emulation *e, uint32_t rank, struct harness_gap *out)
{
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(&e->index, rank, DDP_EVENT_COLL_TAKEN, &count);

    for (size_t i = 0; i < count; i++) {
        const uint64_t seq = list[i]->entry.arg[0];

        if (harness_index_with_seq(&e->index, rank, DDP_EVENT_COLL_TAKEN, seq) != list[i]) {
            harness_gap_set(out, "rank %u found something behind collective %llu twice", rank,
                            (unsigned long long)seq);
        }
    }
}

void harness_evidence_subjects(const struct harness_emulation *e, uint32_t rank,
                               struct harness_gap *out)
{
    DDP_ASSERT(rank < e->world);
    for (size_t i = 0; harness_emulation_has_model(e, rank) && i < sizeof(rows) / sizeof(rows[0]);
         i++) {
        check_row(e, rank, &rows[i], out);
    }
    check_taken(e, rank, out);
}
