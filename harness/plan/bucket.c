/* Buckets in reverse parameter order. Two passes: which parameters close a bucket, then the
 * contents of each. */
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

/* The parameters that close a bucket, in walking order, into closing; returns their number. */
static size_t find_closing(const struct ddp_param *params, size_t param_count,
                           size_t first_cap_bytes, size_t cap_bytes, size_t *closing)
{
    size_t bytes[DDP_DTYPE_COUNT] = {0};
    size_t left[DDP_DTYPE_COUNT] = {0}; /* parameters still to come */
    size_t closed[DDP_DTYPE_COUNT] = {0};
    size_t count = 0;

    for (size_t i = 0; i < param_count; i++) {
        left[params[i].dtype]++;
    }
    for (size_t i = param_count; i-- > 0;) {
        enum ddp_dtype dtype = params[i].dtype;

        bytes[dtype] += ddp_param_size_bytes(&params[i]);
        left[dtype]--;
        if (left[dtype] == 0 ||
            bytes[dtype] >= (closed[dtype] == 0 ? first_cap_bytes : cap_bytes)) {
            closing[count++] = i;
            closed[dtype]++;
            bytes[dtype] = 0;
        }
    }
    return count;
}

/* The bucket that closing[b] closes: all parameters of its type up to the one that closed the
 * type's bucket before. */
static ddp_status fill_bucket(struct ddp_mem *mem, const struct ddp_param *params,
                              size_t param_count, const size_t *closing, size_t b,
                              struct harness_bucket *bucket)
{
    enum ddp_dtype dtype = params[closing[b]].dtype;
    size_t end = param_count;

    for (size_t before = 0; before < b; before++) {
        end = params[closing[before]].dtype == dtype ? closing[before] : end;
    }
    bucket->dtype = dtype;
    bucket->params = ddp_mem_array(mem, end - closing[b], sizeof(*bucket->params));
    bucket->offsets = ddp_mem_array(mem, end - closing[b], sizeof(*bucket->offsets));
    if (bucket->params == NULL || bucket->offsets == NULL) {
        return DDP_E_NOMEM;
    }
    for (size_t param = end; param-- > closing[b];) {
        if (params[param].dtype == dtype) {
            bucket->params[bucket->param_count] = (uint32_t)param;
            bucket->offsets[bucket->param_count] = bucket->elem_count;
            bucket->param_count++;
            bucket->elem_count += params[param].elem_count;
        }
    }
    return DDP_OK;
}

ddp_status harness_bucket_assign(struct ddp_mem *mem, const struct ddp_param *params,
                                 size_t param_count, size_t first_cap_bytes, size_t cap_bytes,
                                 struct harness_bucket **out, size_t *out_count)
{
    size_t *closing = ddp_mem_array(mem, param_count, sizeof(*closing));
    struct harness_bucket *buckets = NULL;
    size_t count = 0;
    ddp_status status = DDP_E_NOMEM;

    if (closing != NULL) {
        count = find_closing(params, param_count, first_cap_bytes, cap_bytes, closing);
        buckets = ddp_mem_array(mem, count, sizeof(*buckets));
        status = buckets == NULL ? DDP_E_NOMEM : DDP_OK;
    }
    for (size_t b = 0; status == DDP_OK && b < count; b++) {
        status = fill_bucket(mem, params, param_count, closing, b, &buckets[b]);
    }
    ddp_mem_free(mem, closing);
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

/* --- which buckets are in force where -------------------------------------------------------- */

const struct harness_buckets *harness_program_buckets(const struct harness_program *program,
                                                      int32_t step)
{
    return program->rebuilt.count > 0 && step >= program->rebuilt_step ? &program->rebuilt
                                                                       : &program->first;
}

const struct harness_bucket *harness_program_bucket(const struct harness_program *program,
                                                    int32_t step, uint64_t index)
{
    const struct harness_buckets *buckets = harness_program_buckets(program, step);

    return index < buckets->count ? &buckets->items[index] : NULL;
}

uint32_t harness_program_bucket_of(const struct harness_program *program, int32_t step,
                                   uint32_t param)
{
    const struct harness_buckets *buckets = harness_program_buckets(program, step);

    for (size_t b = 0; b < buckets->count; b++) {
        for (uint32_t i = 0; i < buckets->items[b].param_count; i++) {
            if (buckets->items[b].params[i] == param) {
                return (uint32_t)b;
            }
        }
    }
    return UINT32_MAX;
}

enum ddp_dtype harness_mixed_params(const struct harness_job *job)
{
    if (!job->mixed_precision.is_set) {
        return DDP_DTYPE_F32;
    }
    return job->mixed_precision.params == HARNESS_NARROW_BF16 ? DDP_DTYPE_BF16 : DDP_DTYPE_F16;
}

static enum ddp_dtype type_of(const struct harness_job *job, enum harness_float name)
{
    static const enum ddp_dtype types[HARNESS_FLOAT_COUNT] = {[HARNESS_FLOAT_BF16] = DDP_DTYPE_BF16,
                                                              [HARNESS_FLOAT_F16] = DDP_DTYPE_F16,
                                                              [HARNESS_FLOAT_F32] = DDP_DTYPE_F32};

    return name == HARNESS_FLOAT_SAME ? harness_mixed_params(job) : types[name];
}

enum ddp_dtype harness_mixed_reduce(const struct harness_job *job)
{
    return type_of(job, job->mixed_precision.reduce);
}

enum ddp_dtype harness_mixed_buffers(const struct harness_job *job)
{
    return job->mixed_precision.is_set ? type_of(job, job->mixed_precision.buffers) : DDP_DTYPE_F32;
}

enum ddp_dtype harness_program_wire(const struct harness_job *job, enum ddp_dtype dtype)
{
    if (job->mixed_precision.is_set) {
        return harness_mixed_reduce(job);
    }
    return job->hook == HARNESS_HOOK_FP16   ? DDP_DTYPE_F16
           : job->hook == HARNESS_HOOK_BF16 ? DDP_DTYPE_BF16
                                            : dtype;
}

bool harness_program_is_local(const struct harness_job *job, int64_t step)
{
    return job->hook == HARNESS_HOOK_LOCAL_SGD && step >= (int64_t)job->local_sgd_start;
}

bool harness_program_is_averaged(const struct harness_job *job, int64_t step)
{
    return harness_program_is_local(job, step) &&
           (step - (int64_t)job->local_sgd_start) % (int64_t)job->local_sgd_period == 0;
}

bool harness_program_is_hook_gathered(const struct harness_job *job, uint64_t steps_done)
{
    return job->hook == HARNESS_HOOK_POWERSGD && job->powersgd_error_feedback &&
           job->checkpoint_every != 0 && steps_done % job->checkpoint_every == 0;
}

size_t harness_program_bucket_max(const struct harness_program *program)
{
    return program->first.count > program->rebuilt.count ? program->first.count
                                                         : program->rebuilt.count;
}
