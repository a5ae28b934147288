/* Bugs of PyTorch's DistributedDataParallel that no other test shows, each named after its issue
 * (BUGS.md). */
#include <string.h>

#include "tests/ct.h"
#include "tests/unit/ddp/ddp_job.h"

static ddp_status create(struct world_rank *rank, struct job *job, const struct ddp_config *config,
                         size_t param_count)
{
    struct ddp_err err = {""};

    return ddp_create(&rank->group, rank->device,
                      &(struct ddp_model){job->params, param_count, job->buffers, 1}, config,
                      &job->ddp, &err);
}

static void run(uint32_t world_size, world_program program, enum ddp_semantics semantics)
{
    const struct world_config config = {.world_size = world_size,
                                        .semantics = semantics,
                                        .program = program,
                                        .timeout_ns = DDP_NS_PER_S};

    world_run(&config);
}

static void put_elsewhere(struct world_rank *rank)
{
    struct ddp_config config = job_config();
    float other[3] = {(float)rank->rank + 5, (float)rank->rank + 6, (float)rank->rank + 7};
    struct job job;

    config.broadcast_buffers = true;
    job_init(&job, rank->rank);
    CT_REQUIRE_OK(create(rank, &job, &config, JOB_PARAM_COUNT));
    CT_REQUIRE_OK(job_step(&job, rank->rank, 0, NULL));
    job.buffer[0] = -1.0F;
    job.buffers[0].data = other;
    CT_REQUIRE_OK(job_step(&job, rank->rank, 1, NULL));
    CT_CHECK(other[0] == 5.0F && other[1] == 6.0F && other[2] == 7.0F);
    CT_CHECK(job.buffer[0] == -1.0F);
    ddp_destroy(job.ddp);
}

/* The list of buffers was made once: a buffer that the model replaced was never synchronised. */
CT_TEST(ddp_bugs, pytorch_63916_buffer_put_elsewhere)
{
    run(3, put_elsewhere, DDP_SEMANTICS_STRICT);
    run(3, put_elsewhere, DDP_SEMANTICS_PYTORCH);
}

static void sync_at_first(struct world_rank *rank)
{
    struct ddp_config config = job_config();
    struct job job;

    config.broadcast_buffers = false;
    job_init(&job, rank->rank);
    CT_REQUIRE_OK(create(rank, &job, &config, JOB_PARAM_COUNT));
    CT_CHECK(job.buffer[0] == 0.0F && job.buffer[2] == 0.0F);
    job.buffer[0] = (float)rank->rank;
    CT_REQUIRE_OK(job_step(&job, rank->rank, 0, NULL));
    CT_CHECK(job.buffer[0] == (float)rank->rank);
    ddp_destroy(job.ddp);
}

/* Without broadcast_buffers, replicas did not begin with equal buffers either. */
CT_TEST(ddp_bugs, pytorch_111138_buffers_equal_at_first)
{
    run(3, sync_at_first, DDP_SEMANTICS_STRICT);
    run(3, sync_at_first, DDP_SEMANTICS_PYTORCH);
}

static void differ_in_ignored(struct world_rank *rank)
{
    struct ddp_config config = job_config();
    struct job job;

    job_init(&job, rank->rank);
    /* Parameters that are ignored are not in the table. */
    CT_CHECK_STATUS(create(rank, &job, &config, JOB_PARAM_COUNT - (rank->rank == 1 ? 1 : 0)),
                    DDP_E_MODEL);
    CT_CHECK_EQ_I64(rank->group.failure.rank, 1);
}

/* One rank ignores a parameter that the others reduce: broadcasts of other lengths, and a hang.
 * Here all ranks are told which one differs, rank 0 included (PyTorch 76449: it waits to its
 * time-out). */
CT_TEST(ddp_bugs, pytorch_68803_ignored_sets_differ)
{
    run(4, differ_in_ignored, DDP_SEMANTICS_STRICT);
}

static void ignore_alike(struct world_rank *rank)
{
    struct ddp_config config = job_config();
    struct job job;
    float own;

    job_init(&job, rank->rank);
    own = job.data[4][0];
    CT_REQUIRE_OK(create(rank, &job, &config, JOB_PARAM_COUNT - 1));
    CT_REQUIRE_OK(ddp_forward_begin(job.ddp));
    CT_REQUIRE_OK(ddp_backward_begin(job.ddp, NULL));
    for (size_t i = JOB_PARAM_COUNT; i-- > 0;) {
        job_accumulate(&job, rank->rank, 0, i);
        if (i < JOB_PARAM_COUNT - 1) {
            CT_REQUIRE_OK(ddp_grad_ready(job.ddp, i));
        }
    }
    CT_REQUIRE_OK(ddp_backward_end(job.ddp));
    CT_CHECK(job.data[4][0] == own);
    CT_CHECK(job.grad[4][1] == job_gradient(rank->rank, 0, 4, 1));
    ddp_destroy(job.ddp);
}

/* DT test_ddp_ignore_params_arg: what is left out of the table stays each rank's own. */
CT_TEST(ddp_bugs, ignored_parameters_are_untouched)
{
    run(3, ignore_alike, DDP_SEMANTICS_STRICT);
    run(3, ignore_alike, DDP_SEMANTICS_PYTORCH);
}

static void in_two_parts(struct world_rank *rank)
{
    struct ddp_config config = job_config();
    float expected = 0.0F;
    uint64_t before;
    struct job job;

    job_init(&job, rank->rank);
    CT_REQUIRE_OK(create(rank, &job, &config, JOB_PARAM_COUNT));
    CT_REQUIRE_OK(ddp_forward_begin(job.ddp));
    before = rank->group.seq;
    CT_REQUIRE_OK(ddp_backward_begin(job.ddp, NULL));
    /* The first loss reaches parameters 0 and 3, which fill no bucket alone; the second the others.
     */
    for (size_t part = 0; part < 2; part++) {
        for (size_t i = JOB_PARAM_COUNT; i-- > 0;) {
            if ((i % 3 == 0) == (part == 0)) {
                job_accumulate(&job, rank->rank, 0, i);
                CT_REQUIRE_OK(ddp_grad_ready(job.ddp, i));
            }
        }
        CT_CHECK_EQ_U64(rank->group.seq - before, part == 0 ? 0 : ddp_bucket_count(job.ddp));
    }
    CT_REQUIRE_OK(ddp_backward_end(job.ddp));
    for (uint32_t r = 0; r < rank->env.world_size; r++) {
        expected += job_gradient(r, 0, 2, 4) / (float)rank->env.world_size;
    }
    CT_CHECK(job.grad[2][4] == expected);
    ddp_destroy(job.ddp);
}

/* N test_multiple_outputs_multiple_backward: two losses, two backward calls, one reduction. */
CT_TEST(ddp_bugs, two_backward_calls_one_reduction)
{
    run(2, in_two_parts, DDP_SEMANTICS_STRICT);
    run(4, in_two_parts, DDP_SEMANTICS_PYTORCH);
}

static void alone_in_its_type(struct world_rank *rank)
{
    struct ddp_config config = job_config();
    const bool used[JOB_PARAM_COUNT] = {true, true, true, true, false};
    float expected = 0.0F;
    struct job job;

    config.find_unused_parameters = true;
    job_init(&job, rank->rank);
    job.params[4].dtype = DDP_DTYPE_BF16;
    CT_REQUIRE_OK(create(rank, &job, &config, JOB_PARAM_COUNT));
    CT_REQUIRE_OK(job_step(&job, rank->rank, 0, used));
    for (uint32_t r = 0; r < rank->env.world_size; r++) {
        expected += job_gradient(r, 0, 0, 1) / (float)rank->env.world_size;
    }
    CT_CHECK(job.grad[0][1] == expected);
    CT_CHECK(!job.params[4].is_grad_defined);
    ddp_destroy(job.ddp);
}

/* The last parameter, alone in its type and never used, was the first bucket: nothing was reduced.
 */
CT_TEST(ddp_bugs, pytorch_14675_bucket_that_is_never_full)
{
    run(2, alone_in_its_type, DDP_SEMANTICS_STRICT);
    run(4, alone_in_its_type, DDP_SEMANTICS_PYTORCH);
}

static void refuse_type(struct world_rank *rank)
{
    struct ddp_config config = job_config();
    struct ddp_err err = {""};
    struct job job;

    job_init(&job, rank->rank);
    job.params[2].dtype = DDP_DTYPE_I32;
    CT_CHECK_STATUS(ddp_create(&rank->group, rank->device,
                               &(struct ddp_model){job.params, JOB_PARAM_COUNT, job.buffers, 1},
                               &config, &job.ddp, &err),
                    DDP_E_UNSUPPORTED);
    CT_CHECK(strstr(err.text, "fc1.weight") != NULL);
}

static void refuse_dimensions(struct world_rank *rank)
{
    struct ddp_config config = job_config();
    struct ddp_err err = {""};
    struct job job;

    job_init(&job, rank->rank);
    job.params[2].ndim = DDP_NDIM_MAX + 1;
    CT_CHECK_STATUS(ddp_create(&rank->group, rank->device,
                               &(struct ddp_model){job.params, JOB_PARAM_COUNT, job.buffers, 1},
                               &config, &job.ddp, &err),
                    DDP_E_UNSUPPORTED);
    CT_CHECK(strstr(err.text, "fc1.weight\" has 5 dimensions") != NULL);
}

/* A table has room for so many, and what lies behind it is no size. */
CT_TEST(ddp_bugs, too_many_dimensions_are_named)
{
    run(2, refuse_dimensions, DDP_SEMANTICS_STRICT);
}

/* Gradients are dense floats; what is not is refused by name, before anything is exchanged. */
CT_TEST(ddp_bugs, unsupported_gradients_are_named)
{
    run(2, refuse_type, DDP_SEMANTICS_STRICT);
}
