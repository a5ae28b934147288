/* Gradients that lie in the buckets: where pointers lead, what moves with them, what stays. */
#include <string.h>

#include "tests/ct.h"
#include "tests/unit/ddp/ddp_job.h"

static ddp_status create(struct world_rank *rank, struct job *job, struct ddp_config config)
{
    struct ddp_err err = {""};

    config.gradient_as_bucket_view = true;
    return ddp_create(&rank->group, rank->device,
                      &(struct ddp_model){job->params, JOB_PARAM_COUNT, job->buffers, 1}, &config,
                      &job->ddp, &err);
}

/* As job_accumulate, wherever the gradient lies. */
static void accumulate(struct job *job, uint32_t rank, uint32_t step, size_t param)
{
    float *grad = job->params[param].grad;

    for (size_t k = 0; k < job_elem_counts[param]; k++) {
        grad[k] =
            (job->params[param].is_grad_defined ? grad[k] : 0) + job_gradient(rank, step, param, k);
    }
    job->params[param].is_grad_defined = true;
}

/* used: NULL, all. */
static ddp_status pass(struct job *job, uint32_t rank, uint32_t step, const bool *used)
{
    DDP_TRY(ddp_forward_begin(job->ddp));
    DDP_TRY(ddp_backward_begin(job->ddp, used));
    for (size_t i = JOB_PARAM_COUNT; i-- > 0;) {
        if (used == NULL || used[i]) {
            accumulate(job, rank, step, i);
            DDP_TRY(ddp_grad_ready(job->ddp, i));
        }
    }
    return ddp_backward_end(job->ddp);
}

static void takes_no_memory(struct world_rank *rank)
{
    struct job job;

    job_init(&job, rank->rank);
    for (size_t i = 0; i < JOB_PARAM_COUNT; i++) {
        job.params[i].grad = NULL;
    }
    CT_REQUIRE_OK(create(rank, &job, job_config()));
    for (uint32_t step = 0; step < 2; step++) {
        job_zero_grad(&job);
        CT_CHECK_OK(pass(&job, rank->rank, step, NULL));
        CT_CHECK(((float *)job.params[0].grad)[2] ==
                 (job_gradient(0, step, 0, 2) + job_gradient(1, step, 0, 2)) / 2);
    }
    ddp_destroy(job.ddp);
    CT_CHECK(job.params[0].grad == NULL && !job.params[0].is_grad_defined);
}

/* Nothing but the buckets holds the gradients, and they go with them. */
CT_TEST(ddp_view, callers_need_no_memory)
{
    world_run(&(struct world_config){.world_size = 2, .program = takes_no_memory});
}

static float grad_of(const struct job *job, size_t param, size_t elem)
{
    return ((const float *)job->params[param].grad)[elem];
}

/* Parameters of one bucket follow each other, at their offsets. */
static void check_views(const struct job *job)
{
    for (size_t i = 0; i < JOB_PARAM_COUNT; i++) {
        for (size_t k = 0; k < JOB_PARAM_COUNT; k++) {
            const ptrdiff_t distance = (ptrdiff_t)ddp_bucket_offset_of_param(job->ddp, k) -
                                       (ptrdiff_t)ddp_bucket_offset_of_param(job->ddp, i);

            if (ddp_bucket_of_param(job->ddp, i) == ddp_bucket_of_param(job->ddp, k)) {
                CT_CHECK((float *)job->params[k].grad - (float *)job->params[i].grad == distance);
            }
        }
        CT_CHECK(job->params[i].grad != job->grad[i]);
    }
}

static void averages(struct world_rank *rank)
{
    const struct ddp_config *config = rank->arg;
    const uint32_t size = rank->env.world_size;
    float local[JOB_PARAM_COUNT][JOB_ELEM_MAX] = {{0}};
    struct job job;

    job_init(&job, rank->rank);
    job_accumulate(&job, 0, 9, 2); /* a gradient from before DDP, on all ranks alike */
    CT_REQUIRE_OK(create(rank, &job, *config));
    check_views(&job);
    CT_CHECK(grad_of(&job, 2, 1) == job_gradient(0, 9, 2, 1));
    for (uint32_t step = 0; step < 4; step++) {
        for (size_t i = 0; i < JOB_PARAM_COUNT; i++) {
            for (size_t k = 0; k < job_elem_counts[i]; k++) {
                const float before = step > 0 ? grad_of(&job, i, k) : 0;

                local[i][k] = 0;
                for (uint32_t r = 0; r < size; r++) {
                    local[i][k] += ((step == 0 && i == 2 ? job_gradient(0, 9, 2, k) : before) +
                                    job_gradient(r, step, i, k)) *
                                   0.5F;
                }
            }
        }
        CT_REQUIRE_OK(pass(&job, rank->rank, step, NULL)); /* nobody zeroes: grads add up */
        check_views(&job);
        for (size_t i = 0; i < JOB_PARAM_COUNT; i++) {
            for (size_t k = 0; k < job_elem_counts[i]; k++) {
                CT_CHECK(grad_of(&job, i, k) == local[i][k]);
            }
        }
    }
    ddp_destroy(job.ddp);
    for (size_t i = 0; i < JOB_PARAM_COUNT; i++) {
        CT_CHECK(job.params[i].grad == job.grad[i]);
        CT_CHECK_BYTES(job.grad[i], local[i], job_elem_counts[i] * sizeof(float));
    }
}

/* Gradients move into the buckets with what they hold, add up there from pass to pass, move on when
 * PyTorch's buckets are rebuilt, and are back in the caller's memory at the end. */
CT_TEST(ddp_view, moves_what_was_accumulated)
{
    for (int order = 0; order < 2; order++) {
        for (int scale = 0; scale < 2; scale++) {
            struct ddp_config config = job_config();

            config.bucket_order = order == 0 ? DDP_BUCKET_ORDER_REVERSE : DDP_BUCKET_ORDER_PYTORCH;
            config.gradient_scale = scale == 0 ? DDP_GRADIENT_SCALE_PRE : DDP_GRADIENT_SCALE_POST;
            world_run(&(struct world_config){2, DDP_SEMANTICS_STRICT, 0, averages, &config, false});
            world_run(
                &(struct world_config){2, DDP_SEMANTICS_PYTORCH, 0, averages, &config, false});
        }
    }
}

static void leaves_unused(struct world_rank *rank)
{
    const bool used[JOB_PARAM_COUNT] = {true, false, true, true, rank->rank == 1};
    struct ddp_config config = job_config();
    float before[JOB_ELEM_MAX], other[JOB_ELEM_MAX];
    struct job job;

    config.find_unused_parameters = true;
    job_init(&job, rank->rank);
    CT_REQUIRE_OK(create(rank, &job, config));
    job.params[1].is_grad_defined = true; /* of an earlier step, another one on each rank */
    for (size_t k = 0; k < job_elem_counts[1]; k++) {
        ((float *)job.params[1].grad)[k] = before[k] = 0.1F * (float)(rank->rank + k + 1);
    }
    CT_REQUIRE_OK(pass(&job, rank->rank, 0, used));
    CT_CHECK_BYTES(job.params[1].grad, before, job_elem_counts[1] * sizeof(float));
    CT_CHECK(job.params[1].is_grad_defined && job.params[4].is_grad_defined);
    for (size_t k = 0; k < job_elem_counts[4]; k++) {
        other[k] = job_gradient(1, 0, 4, k) * (float)(1.0 / 3.0);
    }
    CT_CHECK_BYTES(job.params[4].grad, other, job_elem_counts[4] * sizeof(float));
    ddp_destroy(job.ddp);
}

/* A parameter that no rank used keeps the gradient it had, though its bucket was summed. */
CT_TEST(ddp_view, unused_gradients_are_untouched)
{
    world_run(&(struct world_config){3, DDP_SEMANTICS_STRICT, 0, leaves_unused, NULL, false});
    world_run(&(struct world_config){3, DDP_SEMANTICS_PYTORCH, 0, leaves_unused, NULL, false});
}

static void is_repointed(struct world_rank *rank)
{
    float elsewhere[JOB_ELEM_MAX];
    struct job job;

    job_init(&job, rank->rank);
    CT_REQUIRE_OK(create(rank, &job, job_config()));
    CT_REQUIRE_OK(pass(&job, rank->rank, 0, NULL));
    job_zero_grad(&job);
    job.params[0].grad = elsewhere; /* set_to_none, and a new tensor */
    CT_REQUIRE_OK(pass(&job, rank->rank, 1, NULL));
    CT_CHECK(job.params[0].grad != elsewhere);
    check_views(&job);
    CT_CHECK(grad_of(&job, 0, 3) ==
             job_gradient(0, 1, 0, 3) * 0.5F + job_gradient(1, 1, 0, 3) * 0.5F);
    ddp_destroy(job.ddp);
}

/* A gradient that the caller has put elsewhere is copied into its bucket, and lies there again
 * behind the pass (fairscale 354: zero_grad broke the views). */
CT_TEST(ddp_view, gradients_put_elsewhere_come_back)
{
    world_run(&(struct world_config){2, DDP_SEMANTICS_STRICT, 0, is_repointed, NULL, false});
    world_run(&(struct world_config){2, DDP_SEMANTICS_PYTORCH, 0, is_repointed, NULL, false});
}
