/* Where a rank's parameters lie in its buckets: as planned, by another configuration, or nowhere.
 */
#include "harness/evidence/evidence.h"

/* Arguments of event bucket.param. */
enum { BUCKET, PARAM, OFFSET, COUNT };

static bool is_planned(const struct harness_program *program, const struct harness_buckets *buckets,
                       const uint64_t *arg)
{
    const struct harness_bucket *bucket =
        arg[BUCKET] < buckets->count ? &buckets->items[arg[BUCKET]] : NULL;

    for (uint32_t p = 0; bucket != NULL && p < bucket->param_count; p++) {
        if (bucket->params[p] == arg[PARAM] && bucket->offsets[p] == arg[OFFSET] &&
            program->params[arg[PARAM]].elem_count == arg[COUNT]) {
            return true;
        }
    }
    return false;
}

/* Each parameter once, with its elements; each begins where its bucket does or another one of the
 * bucket ends, and no two at the same place: then they follow each other without gaps. */
static bool is_whole(const struct harness_emulation *e,
                     const struct harness_trace_event *const *list, size_t count)
{
    const struct harness_program *program = e->input->program;

    for (size_t i = 0; i < count; i++) {
        const uint64_t *arg = list[i]->entry.arg;
        bool is_joined = arg[OFFSET] == 0;

        if (arg[PARAM] >= e->params.count || program->params[arg[PARAM]].elem_count != arg[COUNT]) {
            return false;
        }
        for (size_t k = 0; k < count; k++) {
            const uint64_t *other = list[k]->entry.arg;

            if (k != i && (other[PARAM] == arg[PARAM] ||
                           (other[BUCKET] == arg[BUCKET] && other[OFFSET] == arg[OFFSET]))) {
                return false;
            }
            is_joined = is_joined || (other[BUCKET] == arg[BUCKET] &&
                                      other[OFFSET] + other[COUNT] == arg[OFFSET]);
        }
        if (!is_joined) {
            return false;
        }
    }
    return count == e->params.count;
}

/* One layout, as a rank recorded it. */
static enum harness_placement place(const struct harness_emulation *e,
                                    const struct harness_buckets *buckets,
                                    const struct harness_trace_event *const *list, size_t count,
                                    const struct ddp_event_entry **out_entry)
{
    for (size_t i = 0; i < count; i++) {
        if (!is_planned(e->input->program, buckets, list[i]->entry.arg)) {
            *out_entry = &list[i]->entry;
            return is_whole(e, list, count) ? HARNESS_PLACEMENT_OTHER : HARNESS_PLACEMENT_BROKEN;
        }
    }
    return HARNESS_PLACEMENT_PLANNED;
}

const struct ddp_event_entry *harness_evidence_rebuilt(const struct harness_emulation *e,
                                                       uint32_t rank)
{
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(&e->index, rank, DDP_EVENT_BUCKET_REBUILT, &count);

    return count > 0 ? &list[0]->entry : NULL;
}

enum harness_placement harness_evidence_placement(const struct harness_emulation *e, uint32_t rank,
                                                  const struct ddp_event_entry **out_entry)
{
    const struct harness_program *program = e->input->program;
    const struct ddp_event_entry *rebuilt = harness_evidence_rebuilt(e, rank);
    size_t count = 0;
    size_t first_count = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(&e->index, rank, DDP_EVENT_BUCKET_PARAM, &count);
    enum harness_placement placement;

    DDP_ASSERT(harness_emulation_has_model(e, rank));
    *out_entry = NULL;
    while (first_count < count &&
           (rebuilt == NULL || list[first_count]->entry.index < rebuilt->index)) {
        first_count++;
    }
    placement = place(e, &program->first, list, first_count, out_entry);
    return placement != HARNESS_PLACEMENT_PLANNED
               ? placement
               : place(e, &program->rebuilt, list + first_count, count - first_count, out_entry);
}
