/* Parameters without gradient: the used map, and forgotten parameters in both semantics. */
#include <string.h>

#include "tests/ct.h"
#include "tests/unit/ddp/ddp_job.h"

static ddp_status create(struct world_rank *rank, struct job *job, bool find_unused)
{
    struct ddp_config config = job_config();
    struct ddp_err err = {""};

    config.find_unused_parameters = find_unused;
    job_init(job, rank->rank);
    return ddp_create(&rank->group, rank->device,
                      &(struct ddp_model){job->params, JOB_PARAM_COUNT, job->buffers, 1}, &config,
                      &job->ddp, &err);
}

/* Parameter p is used on rank r iff bit p of mask[r] is set. */
static const uint32_t masks[3][4] = {{0x1f, 0x1d, 0x1f, 0x1f},  /* 1 unused on rank 1 */
                                     {0x1b, 0x1b, 0x1b, 0x1b},  /* 2 unused everywhere */
                                     {0x00, 0x1f, 0x01, 0x10}}; /* nothing used on rank 0 */

static void list_used(uint32_t mask, bool *used)
{
    for (size_t i = 0; i < JOB_PARAM_COUNT; i++) {
        used[i] = (mask >> i & 1) != 0;
    }
}

static void finds_unused(struct world_rank *rank)
{
    const uint32_t *mask = masks[*(const int *)rank->arg];
    const uint32_t size = rank->env.world_size;
    bool used[JOB_PARAM_COUNT];
    struct job job;

    list_used(mask[rank->rank], used);
    CT_REQUIRE_OK(create(rank, &job, true));
    for (uint32_t step = 0; step < 3; step++) {
        job_zero_grad(&job);
        memset(job.grad, 0x55, sizeof(job.grad)); /* stale bytes that a global unused one keeps */
        CT_REQUIRE_OK(job_step(&job, rank->rank, step, used));
        for (size_t i = 0; i < JOB_PARAM_COUNT; i++) {
            uint32_t users = 0;

            for (uint32_t r = 0; r < size; r++) {
                users += mask[r] >> i & 1;
            }
            CT_CHECK(job.params[i].is_grad_defined == (users > 0));
            for (size_t k = 0; k < job_elem_counts[i]; k++) {
                float expected = 0;

                for (uint32_t r = 0; r < size; r++) {
                    expected += (mask[r] >> i & 1) != 0 ? job_gradient(r, step, i, k) / 4 : 0;
                }
                if (users == 0) {
                    memset(&expected, 0x55, sizeof(expected));
                }
                CT_CHECK_BYTES(&job.grad[i][k], &expected, sizeof(expected));
            }
        }
    }
    ddp_destroy(job.ddp);
}

/* With find_unused_parameters: used anywhere is averaged everywhere, used nowhere stays untouched,
 * and a rank that uses nothing takes part all the same. */
CT_TEST(ddp_unused, used_map_decides)
{
    for (int i = 0; i < 3; i++) {
        world_run(&(struct world_config){4, DDP_SEMANTICS_STRICT, 0, finds_unused, &i, false});
        world_run(&(struct world_config){4, DDP_SEMANTICS_PYTORCH, 0, finds_unused, &i, false});
    }
}

static void accumulates_map(struct world_rank *rank)
{
    bool first[JOB_PARAM_COUNT], second[JOB_PARAM_COUNT];
    struct job job;

    list_used(0x1f, first);
    list_used(0x0f, second);
    CT_REQUIRE_OK(create(rank, &job, true));
    for (int repeat = 0; repeat < 2; repeat++) {
        job_zero_grad(&job);
        ddp_set_sync(job.ddp, false);
        CT_REQUIRE_OK(job_step(&job, rank->rank, 0, first));
        ddp_set_sync(job.ddp, true);
        CT_REQUIRE_OK(job_step(&job, rank->rank, 1, second));
        CT_CHECK(job.params[4].is_grad_defined);
        CT_CHECK(job.grad[4][2] == (job_gradient(0, 0, 4, 2) + job_gradient(1, 0, 4, 2)) / 2);
    }
    job_zero_grad(&job);
    CT_REQUIRE_OK(job_step(&job, rank->rank, 2, second));
    CT_CHECK(!job.params[4].is_grad_defined);
    ddp_destroy(job.ddp);
}

/* A parameter used only in an earlier micro-batch counts as used, with its accumulated gradient,
 * and the next step starts afresh. */
CT_TEST(ddp_unused, map_accumulates_over_micro_batches)
{
    world_run(&(struct world_config){2, DDP_SEMANTICS_STRICT, 0, accumulates_map, NULL, false});
}

static void forgets_strict(struct world_rank *rank)
{
    const uint32_t forgetful = *(const uint32_t *)rank->arg; /* bit r: rank r forgets */
    const bool forgets = (forgetful >> rank->rank & 1) != 0;
    const uint32_t blamed = (uint32_t)__builtin_ctz(forgetful);
    bool used[JOB_PARAM_COUNT];
    struct ddp_event_entry entry;
    float before[JOB_ELEM_MAX];
    struct job job;

    list_used(forgets ? 0x1d : 0x1f, used);
    CT_REQUIRE_OK(create(rank, &job, false));
    rank->group.step = 6;
    CT_CHECK_STATUS(job_step(&job, rank->rank, 6, used), DDP_E_UNUSED_PARAMETER);
    CT_CHECK_EQ_I64(rank->group.failure.rank, forgets ? rank->rank : blamed);
    CT_CHECK_EQ_U64(rank->group.failure.detail, 1);
    CT_CHECK_EQ_U64(world_events(rank, DDP_EVENT_PARAM_ERROR, &entry), forgets);
    CT_CHECK(!forgets || (entry.arg[0] == 1 && entry.arg[1] == (uint64_t)DDP_E_UNUSED_PARAMETER));
    CT_CHECK_EQ_U64(rank->group.failure.step, 6);
    CT_CHECK_EQ_U64(ddp_unready_params(job.ddp)[1], forgets);
    CT_CHECK(!ddp_unready_params(job.ddp)[0]);
    CT_CHECK_EQ_U64(world_events(rank, DDP_EVENT_REVOKE, &entry), 1);
    CT_CHECK_EQ_U64(world_events(rank, DDP_EVENT_GRAD_FINAL, &entry), 0);
    for (size_t k = 0; k < job_elem_counts[4]; k++) {
        before[k] = job_gradient(rank->rank, 6, 4, k);
    }
    CT_CHECK_BYTES(job.grad[4], before, job_elem_counts[4] * sizeof(float));
    CT_CHECK_STATUS(ddp_forward_begin(job.ddp), DDP_E_UNUSED_PARAMETER);
    ddp_destroy(job.ddp);
}

/* Strict: a parameter forgotten on one rank, or on all, ends the step on every rank with that
 * rank's parameters named, and no gradient is written back, not even of buckets that had completed.
 */
CT_TEST(ddp_unused, strict_tells_every_rank_in_the_same_step)
{
    uint32_t forgetful[] = {0x1, 0x2, 0x4, 0x6, 0x7};

    for (size_t i = 0; i < sizeof(forgetful) / sizeof(forgetful[0]); i++) {
        world_run(&(struct world_config){3, DDP_SEMANTICS_STRICT, 0, forgets_strict, &forgetful[i],
                                         false});
    }
}

static void forgets_pytorch(struct world_rank *rank)
{
    bool used[JOB_PARAM_COUNT];
    struct job job;

    list_used(rank->rank == 1 ? 0x1d : 0x1f, used);
    CT_REQUIRE_OK(create(rank, &job, false));
    if (rank->rank == 1) {
        CT_CHECK_OK(job_step(&job, rank->rank, 0, used));
        CT_CHECK(job.grad[4][0] == job_gradient(1, 0, 4, 0)); /* local, unreduced */
        CT_CHECK(ddp_unready_params(job.ddp)[1]);
        ddp_set_sync(job.ddp, false);
        CT_CHECK_OK(ddp_forward_begin(job.ddp));
        ddp_set_sync(job.ddp, true);
        CT_CHECK_STATUS(ddp_forward_begin(job.ddp), DDP_E_UNUSED_PARAMETER);
        CT_CHECK_STATUS(ddp_forward_begin(job.ddp), DDP_E_UNUSED_PARAMETER);
        ddp_destroy(job.ddp);
        return;
    }
    CT_CHECK_STATUS(job_step(&job, rank->rank, 0, used), DDP_E_TIMEOUT);
    ddp_destroy(job.ddp);
}

/* PyTorch: the forgetful rank hears of it in its next forward pass; the others hang until their
 * timeout. */
CT_TEST(ddp_unused, pytorch_is_one_iteration_late)
{
    world_run(&(struct world_config){2, DDP_SEMANTICS_PYTORCH, DDP_NS_PER_S, forgets_pytorch, NULL,
                                     false});
}
