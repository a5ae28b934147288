/* The rebuilt buckets as rank 0 recorded them. That they should be others, the model oracle says by
 * the list; what ranks reduced with them is judged by them. */
#include <string.h>

#include "harness/cell/stage.h"
#include "harness/trace/index.h"

/* Arguments of event bucket.param. */
enum { BUCKET, PARAM, OFFSET, COUNT };

/* Put the parameters that lie in bucket b, which follow each other without gaps, into it. False:
 * they do not. */
static bool gather(const struct harness_cell *cell, const struct harness_trace_event *const *list,
                   size_t b, struct harness_bucket *bucket)
{
    bool is_found = true;

    while (is_found) {
        is_found = false;
        for (size_t i = 0; i < cell->param_count && !is_found; i++) {
            const uint64_t *arg = list[i]->entry.arg;
            const struct ddp_param *param =
                arg[PARAM] < cell->param_count ? &cell->params[arg[PARAM]] : NULL;
            bool is_taken = false;

            for (uint32_t k = 0; k < bucket->param_count; k++) {
                is_taken = is_taken || bucket->params[k] == arg[PARAM];
            }
            if (param == NULL || is_taken || arg[BUCKET] != b ||
                arg[OFFSET] != bucket->elem_count || arg[COUNT] != param->elem_count ||
                (bucket->param_count > 0 && bucket->dtype != param->dtype)) {
                continue;
            }
            is_found = true;
            bucket->dtype = param->dtype;
            bucket->params[bucket->param_count] = (uint32_t)arg[PARAM];
            bucket->offsets[bucket->param_count] = bucket->elem_count;
            bucket->param_count++;
            bucket->elem_count += param->elem_count;
        }
    }
    return bucket->param_count > 0;
}

ddp_status harness_stage_announced(const struct harness_cell *cell,
                                   const struct harness_index *index, struct harness_buckets *out)
{
    const struct harness_trace_event *const *list;
    const struct harness_trace_event *const *rebuilt;
    struct harness_bucket *items;
    size_t count = 0;
    size_t rebuilt_count = 0;
    size_t gathered = 0;

    *out = (struct harness_buckets){NULL, 0};
    rebuilt = harness_index_list(index, 0, DDP_EVENT_BUCKET_REBUILT, &rebuilt_count);
    list = harness_index_list(index, 0, DDP_EVENT_BUCKET_PARAM, &count);
    if (rebuilt_count != 1 || rebuilt[0]->entry.arg[1] == cell->program.rebuilt_hash ||
        count != 2 * cell->param_count) {
        return DDP_OK;
    }
    list += cell->param_count;
    items = ddp_mem_array(cell->mem, cell->param_count, sizeof *items);
    for (size_t b = 0; items != NULL && gathered < cell->param_count; b++) {
        if (b == cell->param_count) {
            return DDP_OK; /* not whole */
        }
        items[b].params = ddp_mem_array(cell->mem, cell->param_count, sizeof *items[b].params);
        items[b].offsets = ddp_mem_array(cell->mem, cell->param_count, sizeof *items[b].offsets);
        if (items[b].params == NULL || items[b].offsets == NULL) {
            return DDP_E_NOMEM;
        }
        if (!gather(cell, list, b, &items[b])) {
            return DDP_OK;
        }
        gathered += items[b].param_count;
        out->count = gathered == cell->param_count ? b + 1 : 0;
    }
    out->items = items;
    return items == NULL ? DDP_E_NOMEM : DDP_OK;
}
