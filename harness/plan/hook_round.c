/* Rounds of hooks. */
#include "harness/plan/hook_round.h"

bool harness_hook_is_lossy(const struct harness_job *job, int64_t step)
{
    return job->hook == HARNESS_HOOK_QUANTIZE ||
           (job->hook == HARNESS_HOOK_POWERSGD && step >= (int64_t)job->powersgd_start);
}

size_t harness_hook_matrix(const struct harness_job *job, const struct ddp_param *param,
                           size_t *out_rows, size_t *out_columns)
{
    const size_t rows = param->ndim == 0 ? 1 : param->shape[0];
    const size_t columns = rows == 0 ? 0 : param->elem_count / rows;
    const size_t most = rows < columns ? rows : columns;
    const size_t rank = most < job->powersgd_rank ? most : job->powersgd_rank;

    *out_rows = rows;
    *out_columns = columns;
    /* PyTorch's rule, with its default: it must at least be half as much. */
    return 2 * (rows + columns) * rank < param->elem_count ? rank : 0;
}

/* What travels whole, then P and Q. */
static size_t powersgd_rounds(const struct harness_job *job, const struct ddp_param *params,
                              const struct harness_bucket *bucket, struct harness_hook_round *out)
{
    uint64_t counts[HARNESS_HOOK_ROUNDS_MAX] = {0, 0, 0};
    size_t used = 0;

    for (uint32_t i = 0; i < bucket->param_count; i++) {
        const struct ddp_param *param = &params[bucket->params[i]];
        size_t rows;
        size_t columns;
        const size_t rank = harness_hook_matrix(job, param, &rows, &columns);

        counts[0] += rank == 0 ? param->elem_count : 0;
        counts[1] += rows * rank;
        counts[2] += columns * rank;
    }
    for (size_t k = 0; k < HARNESS_HOOK_ROUNDS_MAX; k++) {
        if (counts[k] > 0) {
            out[used++] =
                (struct harness_hook_round){DDP_COLL_ALL_REDUCE, DDP_DTYPE_F32, counts[k]};
        }
    }
    return used;
}

size_t harness_hook_rounds(const struct harness_job *job, const struct ddp_param *params,
                           const struct harness_bucket *bucket, int64_t step,
                           struct harness_hook_round *out)
{
    if (harness_program_is_local(job, step)) {
        return 0;
    }
    if (job->hook == HARNESS_HOOK_POWERSGD && harness_hook_is_lossy(job, step)) {
        return powersgd_rounds(job, params, bucket, out);
    }
    if (job->hook == HARNESS_HOOK_QUANTIZE) {
        /* Width and zero point, then the steps. */
        out[0] = (struct harness_hook_round){DDP_COLL_ALL_GATHER, DDP_DTYPE_F32, 2};
        out[1] = (struct harness_hook_round){DDP_COLL_ALL_GATHER, DDP_DTYPE_U8, bucket->elem_count};
        return 2;
    }
    out[0] = (struct harness_hook_round){
        DDP_COLL_ALL_REDUCE, harness_program_wire(job, bucket->dtype), bucket->elem_count};
    return 1;
}
