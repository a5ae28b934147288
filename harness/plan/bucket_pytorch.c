/* Buckets in PyTorch's order. Each bucket is gathered whole: from the first parameter that is in
 * none, over those of its type behind it, until it holds its cap. Then the buckets are sorted by
 * where they were full. */
#include <stdlib.h>
#include <string.h>

#include "harness/plan/bucket.h"

/* A bucket that was gathered, as places of the walk. */
struct gathered {
    size_t first;   /* place of its first parameter */
    size_t last;    /* and of its last one */
    size_t count;   /* of its parameters */
    bool is_full;   /* it holds its cap */
    uint32_t label; /* in the table of places */
};

struct gathering {
    const struct ddp_param *params;
    size_t param_count;
    const uint32_t *walk;          /* NULL: forwards */
    uint32_t *label;               /* [place] number of the bucket that took it, + 1; 0: none yet */
    size_t taken[DDP_DTYPE_COUNT]; /* buckets of each type so far */
};

static uint32_t param_at(const struct gathering *gathering, size_t place)
{
    return gathering->walk == NULL ? (uint32_t)place : gathering->walk[place];
}

static struct gathered gather(struct gathering *gathering, size_t first, uint32_t label,
                              size_t first_cap_bytes, size_t cap_bytes)
{
    const enum ddp_dtype dtype = gathering->params[param_at(gathering, first)].dtype;
    const size_t cap = gathering->taken[dtype]++ == 0 ? first_cap_bytes : cap_bytes;
    struct gathered out = {.first = first, .label = label};
    size_t bytes = 0;

    for (size_t place = first; place < gathering->param_count && !out.is_full; place++) {
        const struct ddp_param *param = &gathering->params[param_at(gathering, place)];

        if (param->dtype != dtype) {
            continue;
        }
        gathering->label[place] = label;
        bytes += ddp_param_size_bytes(param);
        out.last = place;
        out.count++;
        out.is_full = bytes >= cap;
    }
    return out;
}

/* Full ones as they became full, then the others. */
static int compare_end(const void *left, const void *right)
{
    const struct gathered *a = left;
    const struct gathered *b = right;

    if (a->is_full != b->is_full) {
        return a->is_full ? -1 : 1;
    }
    return a->last < b->last ? -1 : a->last > b->last;
}

static int compare_first(const void *left, const void *right)
{
    const struct gathered *a = left;
    const struct gathered *b = right;

    return a->first > b->first ? -1 : a->first < b->first;
}

static ddp_status fill(struct ddp_mem *mem, const struct gathering *gathering,
                       const struct gathered *from, struct harness_bucket *bucket)
{
    bucket->dtype = gathering->params[param_at(gathering, from->first)].dtype;
    bucket->params = ddp_mem_array(mem, from->count, sizeof(*bucket->params));
    bucket->offsets = ddp_mem_array(mem, from->count, sizeof(*bucket->offsets));
    if (bucket->params == NULL || bucket->offsets == NULL) {
        return DDP_E_NOMEM;
    }
    for (size_t place = from->first; place <= from->last; place++) {
        const uint32_t param = param_at(gathering, place);

        if (gathering->label[place] == from->label) {
            bucket->params[bucket->param_count] = param;
            bucket->offsets[bucket->param_count] = bucket->elem_count;
            bucket->param_count++;
            bucket->elem_count += gathering->params[param].elem_count;
        }
    }
    return DDP_OK;
}

ddp_status harness_bucket_assign_pytorch(struct ddp_mem *mem, const struct ddp_param *params,
                                         size_t param_count, const uint32_t *walk,
                                         size_t first_cap_bytes, size_t cap_bytes,
                                         struct harness_bucket **out, size_t *out_count)
{
    struct gathering gathering = {.params = params, .param_count = param_count, .walk = walk};
    struct gathered *found = ddp_mem_array(mem, param_count, sizeof(*found));
    struct harness_bucket *buckets = NULL;
    size_t count = 0;
    ddp_status status;

    gathering.label = ddp_mem_array(mem, param_count, sizeof(*gathering.label));
    status = found == NULL || gathering.label == NULL ? DDP_E_NOMEM : DDP_OK;
    for (size_t place = 0; status == DDP_OK && place < param_count; place++) {
        if (gathering.label[place] == 0) {
            found[count] =
                gather(&gathering, place, (uint32_t)count + 1, first_cap_bytes, cap_bytes);
            count++;
        }
    }
    if (status == DDP_OK) {
        qsort(found, count, sizeof(*found), walk == NULL ? compare_first : compare_end);
        buckets = ddp_mem_array(mem, count, sizeof(*buckets));
        status = buckets == NULL ? DDP_E_NOMEM : DDP_OK;
    }
    for (size_t b = 0; status == DDP_OK && b < count; b++) {
        status = fill(mem, &gathering, &found[b], &buckets[b]);
    }
    ddp_mem_free(mem, gathering.label);
    ddp_mem_free(mem, found);
    if (status != DDP_OK) {
        harness_bucket_free(mem, buckets, count);
        return status;
    }
    *out = buckets;
    *out_count = count;
    return DDP_OK;
}

ddp_status harness_bucket_replace(struct ddp_mem *mem, const struct harness_buckets *source,
                                  struct harness_buckets *target)
{
    struct harness_bucket *copies = ddp_mem_array(mem, source->count, sizeof(*copies));
    ddp_status status = copies == NULL ? DDP_E_NOMEM : DDP_OK;

    for (size_t b = 0; status == DDP_OK && b < source->count; b++) {
        const struct harness_bucket *from = &source->items[b];
        struct harness_bucket *to = &copies[b];

        to->params = ddp_mem_array(mem, from->param_count, sizeof(*to->params));
        to->offsets = ddp_mem_array(mem, from->param_count, sizeof(*to->offsets));
        status = to->params == NULL || to->offsets == NULL ? DDP_E_NOMEM : DDP_OK;
        if (status == DDP_OK) {
            memcpy(to->params, from->params, from->param_count * sizeof(*to->params));
            memcpy(to->offsets, from->offsets, from->param_count * sizeof(*to->offsets));
            to->dtype = from->dtype;
            to->elem_count = from->elem_count;
            to->param_count = from->param_count;
        }
    }
    if (status != DDP_OK) {
        harness_bucket_free(mem, copies, source->count);
        return status;
    }
    harness_bucket_free(mem, target->items, target->count);
    *target = (struct harness_buckets){copies, source->count};
    return DDP_OK;
}

bool harness_bucket_is_rebuilt(const struct harness_job *job)
{
    return job->bucket_order == HARNESS_BUCKET_ORDER_PYTORCH && !job->find_unused_parameters;
}

ddp_status harness_bucket_assign_prompt(struct ddp_mem *mem, const struct harness_job *job,
                                        const struct harness_tables *model,
                                        struct harness_buckets *first,
                                        struct harness_buckets *rebuilt)
{
    const bool is_rebuilt = harness_bucket_is_rebuilt(job);
    size_t first_cap;
    size_t cap;

    harness_bucket_caps(job, &first_cap, &cap);
    if (job->bucket_order == HARNESS_BUCKET_ORDER_REVERSE) {
        return harness_bucket_assign(mem, model->params, model->param_count, first_cap, cap,
                                     &first->items, &first->count);
    }
    if (is_rebuilt) {
        uint32_t *forwards = NULL;
        const uint32_t *walk = model->ready_order;
        ddp_status status = DDP_OK;

        if (walk == NULL) {
            forwards = ddp_mem_array(mem, model->param_count, sizeof(*forwards));
            for (size_t i = 0; forwards != NULL && i < model->param_count; i++) {
                forwards[i] = (uint32_t)i;
            }
            status = forwards == NULL ? DDP_E_NOMEM : DDP_OK;
            walk = forwards;
        }
        if (status == DDP_OK) {
            status =
                harness_bucket_assign_pytorch(mem, model->params, model->param_count, walk,
                                              first_cap, cap, &rebuilt->items, &rebuilt->count);
        }
        ddp_mem_free(mem, forwards);
        DDP_TRY(status);
    }
    /* Caps do not count as long as buckets will be rebuilt. */
    return harness_bucket_assign_pytorch(mem, model->params, model->param_count, NULL,
                                         is_rebuilt ? SIZE_MAX : first_cap,
                                         is_rebuilt ? SIZE_MAX : cap, &first->items, &first->count);
}
