/* Gradient scaling: the scale's ways (torch.amp.GradScaler's), gradients that are not finite on one
 * rank, what ranks agree on. */
#include <math.h>
#include <string.h>

#include "ddpcore/ddp/scaler.h"
#include "tests/ct.h"
#include "tests/unit/ddp/ddp_job.h"

/* What torch.amp.GradScaler(init_scale=8, growth_factor=4, backoff_factor=0.25, growth_interval=2)
 * has after each of these steps, in PyTorch 2.15. */
CT_TEST(scaler, scale_goes_as_pytorch_does)
{
    static const struct {
        bool is_found;
        float scale;
        uint64_t tracker;
    } steps[] = {{false, 8, 1}, {false, 32, 0}, {false, 32, 1}, {true, 8, 0},
                 {true, 2, 0},  {false, 2, 1},  {false, 8, 0},  {true, 2, 0}};
    struct ddp_scaler scaler;

    ddp_scaler_init(&scaler);
    CT_CHECK(scaler.scale == 65536.0f);
    CT_CHECK_EQ_U64(scaler.growth_interval, 2000);
    scaler.scale = 8;
    scaler.growth_factor = 4;
    scaler.backoff_factor = 0.25;
    scaler.growth_interval = 2;
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        scaler.is_found = steps[i].is_found;
        ddp_scaler_update(&scaler);
        CT_CHECK(scaler.scale == steps[i].scale);
        CT_CHECK_EQ_U64(scaler.growth_tracker, steps[i].tracker);
        CT_CHECK(!scaler.is_found);
    }
}

CT_TEST(scaler, never_grows_to_infinity)
{
    struct ddp_scaler scaler;

    ddp_scaler_init(&scaler);
    scaler.growth_interval = 1;
    for (int i = 0; i < 300; i++) {
        ddp_scaler_update(&scaler);
    }
    CT_CHECK(scaler.scale == 0x1p127f);
}

/* Of gradients that are never finite: PyTorch's becomes 0, by which nothing can be divided. */
CT_TEST(scaler, never_shrinks_to_nothing)
{
    struct ddp_scaler scaler;

    ddp_scaler_init(&scaler);
    for (int i = 0; i < 300; i++) {
        scaler.is_found = true;
        ddp_scaler_update(&scaler);
    }
    CT_CHECK(scaler.scale == 0x1p-127f);
    CT_CHECK(isfinite(1.0f / scaler.scale));
}

static ddp_status create(struct world_rank *rank, struct job *job)
{
    struct ddp_config config = job_config();
    struct ddp_err err = {""};

    return ddp_create(&rank->group, rank->device,
                      &(struct ddp_model){job->params, JOB_PARAM_COUNT, job->buffers, 1}, &config,
                      &job->ddp, &err);
}

static void run_unscale(struct world_rank *rank)
{
    struct ddp_scaler scaler;
    struct job job;
    float average;

    ddp_scaler_init(&scaler);
    scaler.scale = 0x1p10f;
    job_init(&job, rank->rank);
    CT_CHECK_OK(create(rank, &job));
    CT_CHECK_OK(job_step(&job, rank->rank, 0, NULL));
    average = job.grad[2][1];
    CT_CHECK_OK(ddp_scaler_unscale(&scaler, job.ddp));
    CT_CHECK(!scaler.is_found);
    CT_CHECK(job.grad[2][1] == average / 0x1p10f);
    ddp_scaler_update(&scaler);
    /* One rank's averages are damaged: all know it. */
    job_zero_grad(&job);
    CT_CHECK_OK(job_step(&job, rank->rank, 1, NULL));
    if (rank->rank == 1) {
        job.grad[4][2] = NAN;
    }
    CT_CHECK_OK(ddp_scaler_unscale(&scaler, job.ddp));
    CT_CHECK(scaler.is_found);
    ddp_scaler_update(&scaler);
    CT_CHECK(scaler.scale == 0x1p9f);
    ddp_destroy(job.ddp);
}

CT_TEST(scaler, ranks_agree_on_what_one_found)
{
    world_run(&(struct world_config){.world_size = 3, .program = run_unscale});
    world_run(&(struct world_config){.world_size = 3, .program = run_unscale, .is_loop = true});
}

static void run_alone(struct world_rank *rank)
{
    struct ddp_scaler scaler;
    struct job job;

    ddp_scaler_init(&scaler);
    job_init(&job, rank->rank);
    CT_CHECK_OK(create(rank, &job));
    CT_CHECK_OK(job_step(&job, rank->rank, 1, NULL));
    if (rank->rank == 1) {
        job.grad[0][2] = INFINITY;
    }
    CT_CHECK_OK(ddp_scaler_unscale(&scaler, job.ddp));
    CT_CHECK(scaler.is_found == (rank->rank == 1));
    ddp_destroy(job.ddp);
}

CT_TEST(scaler, ranks_decide_alone_in_pytorch)
{
    world_run(&(struct world_config){
        .world_size = 2, .program = run_alone, .semantics = DDP_SEMANTICS_PYTORCH});
}

static void run_twice(struct world_rank *rank)
{
    struct ddp_scaler scaler;
    struct job job;

    ddp_scaler_init(&scaler);
    job_init(&job, rank->rank);
    CT_CHECK_OK(create(rank, &job));
    CT_CHECK_OK(job_step(&job, rank->rank, 1, NULL));
    CT_CHECK_OK(ddp_scaler_unscale(&scaler, job.ddp));
    CT_CHECK_STATUS(ddp_scaler_unscale(&scaler, job.ddp), DDP_E_STATE);
    ddp_destroy(job.ddp);
}

CT_TEST(scaler, unscales_once_a_step)
{
    world_run(&(struct world_config){.world_size = 2, .program = run_twice});
}
