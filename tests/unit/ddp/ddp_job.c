/* The toy job. */
#include "tests/unit/ddp/ddp_job.h"

#include <string.h>

const size_t job_elem_counts[JOB_PARAM_COUNT] = {8, 3, 6, 0, 5};

static const char *const job_names[JOB_PARAM_COUNT] = {"fc0.weight", "fc0.bias", "fc1.weight",
                                                       "empty", "head"};

float job_gradient(uint32_t rank, uint32_t step, size_t param, size_t elem)
{
    return (float)((int)((rank * 7 + step * 5 + param * 3 + elem) % 17) - 8);
}

void job_init(struct job *job, uint32_t rank)
{
    memset(job, 0, sizeof(*job));
    for (size_t i = 0; i < JOB_PARAM_COUNT; i++) {
        job->params[i] = (struct ddp_param){.name = job_names[i],
                                            .data = job->data[i],
                                            .grad = job->grad[i],
                                            .elem_count = job_elem_counts[i],
                                            .ndim = 1,
                                            .shape = {job_elem_counts[i]}};
        for (size_t k = 0; k < job_elem_counts[i]; k++) {
            job->data[i][k] = (float)(100 * rank + i);
        }
    }
    job->buffers[0] = (struct ddp_buffer){"running_mean", DDP_DTYPE_F32, job->buffer, 3};
    for (size_t k = 0; k < 3; k++) {
        job->buffer[k] = (float)(10 * rank);
    }
}

void job_accumulate(struct job *job, uint32_t rank, uint32_t step, size_t param)
{
    for (size_t k = 0; k < job_elem_counts[param]; k++) {
        const float before = job->params[param].is_grad_defined ? job->grad[param][k] : 0;

        job->grad[param][k] = before + job_gradient(rank, step, param, k);
    }
    job->params[param].is_grad_defined = true;
}

void job_zero_grad(struct job *job)
{
    for (size_t i = 0; i < JOB_PARAM_COUNT; i++) {
        job->params[i].is_grad_defined = false;
    }
}

struct ddp_config job_config(void)
{
    return (struct ddp_config){
        .bucket_cap_bytes = 32, .first_bucket_cap_bytes = 16, .is_hashing = true};
}

ddp_status job_backward(struct job *job, uint32_t rank, uint32_t step, const bool *used)
{
    DDP_TRY(ddp_backward_begin(job->ddp, used));
    for (size_t i = JOB_PARAM_COUNT; i-- > 0;) {
        if (used == NULL || used[i]) {
            job_accumulate(job, rank, step, i);
            DDP_TRY(ddp_grad_ready(job->ddp, i));
        }
    }
    return ddp_backward_end(job->ddp);
}

ddp_status job_step(struct job *job, uint32_t rank, uint32_t step, const bool *used)
{
    DDP_TRY(ddp_forward_begin(job->ddp));
    return job_backward(job, rank, step, used);
}
