/* PyTorch's second layout: the order of rank 0, on all ranks, once, with what was accumulated. */
#include <string.h>

#include "tests/ct.h"
#include "tests/unit/ddp/ddp_job.h"

struct rebuild_case {
    bool has_micro; /* the first pass of each step is not synchronised */
};

static ddp_status create(struct world_rank *rank, struct job *job, struct ddp_config config)
{
    struct ddp_err err = {""};

    config.bucket_order = DDP_BUCKET_ORDER_PYTORCH;
    job_init(job, rank->rank);
    return ddp_create(&rank->group, rank->device,
                      &(struct ddp_model){job->params, JOB_PARAM_COUNT, job->buffers, 1}, &config,
                      &job->ddp, &err);
}

/* A pass in which each rank's gradients become ready in an order of its own. */
static ddp_status pass(struct job *job, uint32_t rank, uint32_t step)
{
    static const size_t order[JOB_PARAM_COUNT] = {1, 4, 0, 3, 2};

    DDP_TRY(ddp_forward_begin(job->ddp));
    DDP_TRY(ddp_backward_begin(job->ddp, NULL));
    for (size_t i = 0; i < JOB_PARAM_COUNT; i++) {
        const size_t param = order[(i + rank) % JOB_PARAM_COUNT];

        job_accumulate(job, rank, step, param);
        DDP_TRY(ddp_grad_ready(job->ddp, param));
    }
    return ddp_backward_end(job->ddp);
}

static void check_average(const struct world_rank *rank, const struct job *job, uint32_t step,
                          uint32_t micro_count)
{
    const uint32_t size = rank->env.world_size;

    for (size_t i = 0; i < JOB_PARAM_COUNT; i++) {
        for (size_t k = 0; k < job_elem_counts[i]; k++) {
            float sum = 0;

            for (uint32_t r = 0; r < size; r++) {
                float local = 0;

                for (uint32_t m = 0; m < micro_count; m++) {
                    local += job_gradient(r, step + m, i, k);
                }
                sum += local * (float)(1.0 / (double)size);
            }
            CT_CHECK(job->grad[i][k] == sum);
        }
    }
}

static void check_layout(const struct job *job, const size_t *bucket_of, const size_t *offset_of)
{
    for (size_t i = 0; i < JOB_PARAM_COUNT; i++) {
        CT_CHECK_EQ_U64(ddp_bucket_of_param(job->ddp, i), bucket_of[i]);
        CT_CHECK_EQ_U64(ddp_bucket_offset_of_param(job->ddp, i), offset_of[i]);
    }
}

/* Caps are 16 and 32 bytes, and rank 0's order 1 (12 bytes), 4 (20), 0 (32), 3 (0), 2 (24). */
static const size_t rebuilt_bucket[JOB_PARAM_COUNT] = {1, 0, 2, 2, 0};
static const size_t rebuilt_offset[JOB_PARAM_COUNT] = {0, 0, 0, 0, 3};

static void rebuilds(struct world_rank *rank)
{
    const struct rebuild_case *row = rank->arg;
    const size_t first_bucket[JOB_PARAM_COUNT] = {0};
    const size_t first_offset[JOB_PARAM_COUNT] = {0, 8, 11, 17, 17};
    struct ddp_event_entry entry;
    struct job job;

    CT_REQUIRE_OK(create(rank, &job, job_config()));
    check_layout(&job, first_bucket, first_offset);
    for (uint32_t step = 0; step < 6; step += 2) {
        job_zero_grad(&job);
        if (row->has_micro) {
            ddp_set_sync(job.ddp, false);
            CT_REQUIRE_OK(pass(&job, rank->rank, step));
            ddp_set_sync(job.ddp, true);
            CT_CHECK(job.grad[0][3] == job_gradient(rank->rank, step, 0, 3));
        }
        CT_REQUIRE_OK(pass(&job, rank->rank, step + (row->has_micro ? 1 : 0)));
        check_average(rank, &job, step, row->has_micro ? 2 : 1);
        check_layout(&job, step == 0 ? first_bucket : rebuilt_bucket,
                     step == 0 ? first_offset : rebuilt_offset);
    }
    CT_CHECK_EQ_U64(world_events(rank, DDP_EVENT_BUCKET_REBUILT, &entry), 1);
    CT_CHECK_EQ_U64(entry.arg[0], 3);
    CT_CHECK_EQ_U64(world_events(rank, DDP_EVENT_BUCKET_PARAM, &entry), 2 * JOB_PARAM_COUNT);
    ddp_destroy(job.ddp);
}

/* All ranks take rank 0's order after the first synchronised pass and never again, whatever their
 * own was, and in the middle of a step in which gradients were accumulated. */
CT_TEST(ddp_rebuild, adopts_rank_0s_order_once)
{
    for (int has_micro = 0; has_micro < 2; has_micro++) {
        struct rebuild_case row = {.has_micro = has_micro == 1};

        for (uint32_t size = 1; size <= 3; size++) {
            world_run(&(struct world_config){size, DDP_SEMANTICS_STRICT, 0, rebuilds, &row, false});
            world_run(
                &(struct world_config){size, DDP_SEMANTICS_PYTORCH, 0, rebuilds, &row, false});
        }
    }
    world_run(&(struct world_config){4, DDP_SEMANTICS_STRICT, 0, rebuilds,
                                     &(struct rebuild_case){.has_micro = true}, true});
}

/* A trainer that does not zero its gradients: the forward pass that rebuilds leaves them alone, and
 * the pass after it adds to them. */
static void keeps(struct world_rank *rank)
{
    float before[JOB_PARAM_COUNT][JOB_ELEM_MAX];
    struct ddp_event_entry entry;
    struct job job;

    CT_REQUIRE_OK(create(rank, &job, job_config()));
    CT_REQUIRE_OK(pass(&job, rank->rank, 0));
    memcpy(before, job.grad, sizeof(before));
    CT_REQUIRE_OK(pass(&job, rank->rank, 1));
    CT_CHECK_EQ_U64(world_events(rank, DDP_EVENT_BUCKET_REBUILT, &entry), 1);
    for (size_t i = 0; i < JOB_PARAM_COUNT; i++) {
        CT_CHECK(job.params[i].is_grad_defined);
        for (size_t k = 0; k < job_elem_counts[i]; k++) {
            const float sum = (before[i][k] + job_gradient(0, 1, i, k)) * 0.5F +
                              (before[i][k] + job_gradient(1, 1, i, k)) * 0.5F;

            CT_CHECK(job.grad[i][k] == sum);
        }
    }
    ddp_destroy(job.ddp);
}

CT_TEST(ddp_rebuild, keeps_accumulated_gradients)
{
    world_run(&(struct world_config){2, DDP_SEMANTICS_STRICT, 0, keeps, NULL, false});
    world_run(&(struct world_config){2, DDP_SEMANTICS_PYTORCH, 0, keeps, NULL, false});
}

/* The collectives around the rebuild, as in PyTorch: i32[P+1], i32[B], then buckets. */
static void traces(struct world_rank *rank)
{
    const bool is_strict = rank->group.semantics == DDP_SEMANTICS_STRICT;
    const struct ddp_coll_args *args;
    uint64_t seq;
    struct job job;

    CT_REQUIRE_OK(create(rank, &job, job_config()));
    CT_REQUIRE_OK(pass(&job, rank->rank, 0));
    seq = rank->group.seq;
    CT_REQUIRE_OK(pass(&job, rank->rank, 1));
    args = world_executed(rank->world, ++seq);
    CT_REQUIRE(args != NULL);
    CT_CHECK(args->kind == DDP_COLL_BROADCAST && args->role == DDP_ROLE_REBUILD);
    CT_CHECK(args->dtype == DDP_DTYPE_I32 && args->root == 0);
    CT_CHECK_EQ_U64(args->elem_count, JOB_PARAM_COUNT + 1);
    args = world_executed(rank->world, ++seq);
    CT_REQUIRE(args != NULL && args->kind == DDP_COLL_BROADCAST);
    CT_CHECK_EQ_U64(args->elem_count, 3);
    CT_CHECK_EQ_U64(args->index, 1);
    if (is_strict) {
        args = world_executed(rank->world, ++seq);
        CT_REQUIRE(args != NULL && args->kind == DDP_COLL_ALL_GATHER);
        CT_CHECK_EQ_U64(args->role, DDP_ROLE_REBUILD);
    }
    for (uint32_t b = 0; b < 3; b++) {
        args = world_executed(rank->world, ++seq);
        CT_REQUIRE(args != NULL);
        CT_CHECK(args->role == DDP_ROLE_BUCKET && args->index == b);
    }
    CT_CHECK_EQ_U64(rank->group.seq, seq);
    ddp_destroy(job.ddp);
}

CT_TEST(ddp_rebuild, is_exchanged_as_pytorch_does)
{
    world_run(&(struct world_config){2, DDP_SEMANTICS_STRICT, 0, traces, NULL, false});
    world_run(&(struct world_config){2, DDP_SEMANTICS_PYTORCH, 0, traces, NULL, false});
}

static void never(struct world_rank *rank)
{
    const bool used[JOB_PARAM_COUNT] = {true, true, true, true, true};
    struct ddp_config config = job_config();
    struct ddp_event_entry entry;
    struct job job;

    config.find_unused_parameters = true;
    CT_REQUIRE_OK(create(rank, &job, config));
    CT_CHECK_EQ_U64(ddp_bucket_count(job.ddp), 3);
    for (uint32_t step = 0; step < 3; step++) {
        job_zero_grad(&job);
        CT_REQUIRE_OK(job_step(&job, rank->rank, step, used));
        check_average(rank, &job, step, 1);
    }
    CT_CHECK_EQ_U64(world_events(rank, DDP_EVENT_BUCKET_REBUILT, &entry), 0);
    ddp_destroy(job.ddp);
}

/* With find_unused_parameters buckets have their caps at once and stay. */
CT_TEST(ddp_rebuild, never_where_unused_parameters_are_looked_for)
{
    world_run(&(struct world_config){3, DDP_SEMANTICS_STRICT, 0, never, NULL, false});
    world_run(&(struct world_config){3, DDP_SEMANTICS_PYTORCH, 0, never, NULL, false});
}

static void joins(struct world_rank *rank)
{
    const struct ddp_join_config join = {.divide_by_initial_world_size = true};
    /* Forwards: 0 (32 bytes), 1 (12), 2 (24), 3, 4 (20). */
    const size_t forwards_bucket[JOB_PARAM_COUNT] = {0, 1, 1, 2, 2};
    struct job job;

    CT_REQUIRE_OK(create(rank, &job, job_config()));
    CT_REQUIRE_OK(ddp_join_begin(job.ddp, &join));
    for (uint32_t step = 0; rank->rank > 0 && step < 3; step++) {
        job_zero_grad(&job);
        CT_REQUIRE_OK(pass(&job, rank->rank, step));
    }
    CT_REQUIRE_OK(ddp_join_end(job.ddp));
    for (size_t i = 0; i < JOB_PARAM_COUNT; i++) {
        CT_CHECK_EQ_U64(ddp_bucket_of_param(job.ddp, i), forwards_bucket[i]);
    }
    ddp_destroy(job.ddp);
}

/* A rank 0 without inputs takes its parameters forwards, as PyTorch's does, and all adopt that. */
CT_TEST(ddp_rebuild, of_a_joined_rank_0)
{
    world_run(&(struct world_config){3, DDP_SEMANTICS_STRICT, 0, joins, NULL, false});
    world_run(&(struct world_config){3, DDP_SEMANTICS_PYTORCH, 0, joins, NULL, false});
}

/* Changes what a rank receives, or what rank 0 sends. */
struct liar {
    struct ddp_fault_hook hook;
    size_t at[2];     /* places that change their values; the same twice: the value is spoilt */
    uint64_t seq;     /* only of this collective; 0: any */
    uint32_t elapsed; /* how often it did */
};

static enum ddp_fault_action lie(struct ddp_fault_hook *hook, enum ddp_fault_point point,
                                 struct ddp_fault_context *context)
{
    struct liar *liar = (struct liar *)hook;
    int32_t *values = context->data;

    if (point == DDP_FAULT_POINT_BUCKET_REBUILD ||
        (liar->seq != 0 && context->seq == liar->seq && values != NULL)) {
        const int32_t first = values[liar->at[0]];

        values[liar->at[0]] = liar->at[0] == liar->at[1] ? first + 1000 : values[liar->at[1]];
        values[liar->at[1]] = liar->at[0] == liar->at[1] ? values[liar->at[0]] : first;
        liar->elapsed++;
    }
    return DDP_FAULT_GO;
}

static void is_lied_to(struct world_rank *rank)
{
    struct liar liar = {{UINT64_C(1) << DDP_FAULT_POINT_COLLECTIVE_POST, lie}, {0, 2}, 0, 0};
    struct job job;

    CT_REQUIRE_OK(create(rank, &job, job_config()));
    CT_REQUIRE_OK(pass(&job, rank->rank, 0));
    liar.seq = rank->group.seq + 1;
    rank->env.faults = rank->rank == 2 ? &liar.hook : NULL;
    CT_CHECK_STATUS(pass(&job, rank->rank, 1), DDP_E_MODEL);
    CT_CHECK_EQ_I64(rank->group.failure.rank, 2);
    CT_CHECK_EQ_U64(liar.elapsed, rank->rank == 2 ? 1 : 0);
    rank->env.faults = NULL;
    ddp_destroy(job.ddp);
}

/* One rank receives another list, of buckets that are as large: all ranks name it before any value
 * is mixed. */
CT_TEST(ddp_rebuild, names_the_rank_with_another_list)
{
    world_run(&(struct world_config){4, DDP_SEMANTICS_STRICT, 0, is_lied_to, NULL, true});
}

static void lies(struct world_rank *rank)
{
    const size_t at = *(const size_t *)rank->arg;
    struct liar liar = {{UINT64_C(1) << DDP_FAULT_POINT_BUCKET_REBUILD, lie}, {at, at}, 0, 0};
    struct job job;

    CT_REQUIRE_OK(create(rank, &job, job_config()));
    CT_REQUIRE_OK(pass(&job, rank->rank, 0));
    rank->env.faults = rank->rank == 0 ? &liar.hook : NULL;
    CT_CHECK_STATUS(ddp_forward_begin(job.ddp), DDP_E_STATE);
    CT_CHECK_EQ_U64(liar.elapsed, rank->rank == 0 ? 1 : 0);
    rank->env.faults = NULL;
    ddp_destroy(job.ddp);
}

/* A list that cannot be, be it in a parameter or in the number of buckets, is refused by all. */
CT_TEST(ddp_rebuild, refuses_a_list_that_cannot_be)
{
    for (size_t at = 0; at <= JOB_PARAM_COUNT; at += JOB_PARAM_COUNT) {
        world_run(&(struct world_config){2, DDP_SEMANTICS_STRICT, 0, lies, &at, false});
        world_run(&(struct world_config){2, DDP_SEMANTICS_PYTORCH, 0, lies, &at, false});
    }
}
