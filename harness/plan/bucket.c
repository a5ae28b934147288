/* Buckets in reverse parameter order. Two passes: where each bucket ends, then its contents; no
 * bucket is ever reopened. */
#include "harness/plan/bucket.h"

void harness_bucket_caps(const struct harness_job *job, size_t *out_first_bytes, size_t *out_bytes)
{
    bool is_cap_given = job->bucket_cap_bytes != 0;

    *out_bytes = is_cap_given ? job->bucket_cap_bytes : HARNESS_BUCKET_CAP_BYTES;
    if (job->first_bucket_cap_bytes != 0) {
        *out_first_bytes = job->first_bucket_cap_bytes;
    } else {
        *out_first_bytes = is_cap_given ? *out_bytes : HARNESS_FIRST_BUCKET_CAP_BYTES;
    }
}

/* How many parameters the bucket takes whose first (highest) one is params[param_end - 1]. */
static size_t bucket_extent(const struct ddp_param *params, size_t param_end, size_t cap_bytes)
{
    size_t bytes = 0;
    size_t taken = 0;

    do {
        taken++;
        bytes += params[param_end - taken].elem_count * sizeof(float);
    } while (bytes < cap_bytes && taken < param_end);
    return taken;
}

static ddp_status fill_bucket(struct ddp_mem *mem, const struct ddp_param *params, size_t param_end,
                              size_t taken, struct harness_bucket *bucket)
{
    bucket->params = ddp_mem_array(mem, taken, sizeof(*bucket->params));
    bucket->offsets = ddp_mem_array(mem, taken, sizeof(*bucket->offsets));
    if (bucket->params == NULL || bucket->offsets == NULL) {
        return DDP_E_NOMEM;
    }
    bucket->param_count = (uint32_t)taken;
    for (size_t i = 0; i < taken; i++) {
        size_t param = param_end - 1 - i;

        bucket->params[i] = (uint32_t)param;
        bucket->offsets[i] = bucket->elem_count;
        bucket->elem_count += params[param].elem_count;
    }
    return DDP_OK;
}

ddp_status harness_bucket_assign(struct ddp_mem *mem, const struct ddp_param *params,
                                 size_t param_count, size_t first_cap_bytes, size_t cap_bytes,
                                 struct harness_bucket **out, size_t *out_count)
{
    struct harness_bucket *buckets;
    size_t count = 0;
    ddp_status status = DDP_OK;

    for (size_t end = param_count; end > 0; count++) {
        end -= bucket_extent(params, end, count == 0 ? first_cap_bytes : cap_bytes);
    }
    buckets = ddp_mem_array(mem, count, sizeof(*buckets));
    if (buckets == NULL) {
        return DDP_E_NOMEM;
    }
    for (size_t b = 0, end = param_count; b < count && status == DDP_OK; b++) {
        size_t taken = bucket_extent(params, end, b == 0 ? first_cap_bytes : cap_bytes);

        status = fill_bucket(mem, params, end, taken, &buckets[b]);
        end -= taken;
    }
    if (status != DDP_OK) {
        harness_bucket_free(mem, buckets, count);
        return status;
    }
    *out = buckets;
    *out_count = count;
    return DDP_OK;
}

void harness_bucket_free(struct ddp_mem *mem, struct harness_bucket *buckets, size_t count)
{
    if (buckets == NULL) {
        return;
    }
    for (size_t b = 0; b < count; b++) {
        ddp_mem_free(mem, buckets[b].params);
        ddp_mem_free(mem, buckets[b].offsets);
    }
    ddp_mem_free(mem, buckets);
}
