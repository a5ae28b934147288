/* A toy job for tests of the DDP core: a table of parameters whose gradients are small integers
 * known for every (rank, step, parameter, element), so that sums are exact in any order. */
#ifndef TESTS_UNIT_DDP_DDP_JOB_H
#define TESTS_UNIT_DDP_DDP_JOB_H

#include "tests/unit/ddp/ddp_world.h"

#define JOB_PARAM_COUNT 5
#define JOB_ELEM_MAX    8

struct job {
    struct ddp_param params[JOB_PARAM_COUNT];
    struct ddp_buffer buffers[1];
    float data[JOB_PARAM_COUNT][JOB_ELEM_MAX];
    float grad[JOB_PARAM_COUNT][JOB_ELEM_MAX];
    float buffer[3];
    struct ddp *ddp;
};

extern const size_t job_elem_counts[JOB_PARAM_COUNT];

/* Local gradient: an integer between -8 and 8. */
float job_gradient(uint32_t rank, uint32_t step, size_t param, size_t elem);
/* Parameters hold rank-dependent values, so that a broadcast is visible. */
void job_init(struct job *job, uint32_t rank);
/* Add the rank's gradient of a step to param->grad (or set it, if none is defined). */
void job_accumulate(struct job *job, uint32_t rank, uint32_t step, size_t param);
/* zero_grad(set_to_none) */
void job_zero_grad(struct job *job);
/* Caps of 64 and 32 bytes: several buckets. */
struct ddp_config job_config(void);
/* One backward pass over the parameters that used says (NULL: all), last to first. */
ddp_status job_backward(struct job *job, uint32_t rank, uint32_t step, const bool *used);
/* Forward and backward pass. */
ddp_status job_step(struct job *job, uint32_t rank, uint32_t step, const bool *used);

#endif
