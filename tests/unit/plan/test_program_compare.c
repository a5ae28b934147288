/* What a posted operation differs in. */
#include "tests/unit/plan/plan_testing.h"

/* Two steps of three buckets: seq 1 verify, 2 parameters, 3..5 and 6..8 buckets, 9 the barrier. */
static bool build(struct harness_program *program, struct ddp_param params[MLP_PARAM_COUNT])
{
    struct harness_plan plan = make_plan(2, 2, 1);

    make_mlp(params);
    plan.job.bucket_cap_bytes = 1408;
    plan.job.first_bucket_cap_bytes = 40;
    return build_program(&plan, params, MLP_PARAM_COUNT, program) == DDP_OK;
}

/* The planned operation of a seq as a rank would post it. */
static struct ddp_event_op op_at(const struct harness_program *program, uint64_t seq)
{
    const struct harness_op *planned = harness_program_at(program, seq);
    struct ddp_event_op op = {planned->kind, planned->redop, planned->dtype,
                              planned->role, planned->index, planned->root};

    return op;
}

static const char *compare(const struct harness_program *program, uint64_t seq, int32_t step,
                           struct ddp_event_op op, uint64_t elem_count)
{
    return harness_verdict_name(harness_program_compare_step(program, seq, step, &op, elem_count));
}

/* The planned operation of `posted`, posted as number seq. */
static const char *compare_moved(const struct harness_program *program, uint64_t seq, int32_t step,
                                 uint64_t posted)
{
    return compare(program, seq, step, op_at(program, posted),
                   harness_program_at(program, posted)->elem_count);
}

/* Every planned operation agrees with itself. */
CT_TEST(program_compare, accepts_what_is_planned)
{
    struct ddp_param params[MLP_PARAM_COUNT];
    struct harness_program program;

    CT_REQUIRE(build(&program, params));
    for (uint64_t seq = 1; seq <= program.op_count; seq++) {
        CT_CHECK_STR(compare_moved(&program, seq, HARNESS_STEP_UNKNOWN, seq), "NONE");
    }
    harness_program_fini(&program);
}

/* One changed field is named. */
CT_TEST(program_compare, names_the_field)
{
    struct ddp_param params[MLP_PARAM_COUNT];
    struct harness_program program;
    struct ddp_event_op op;

    CT_REQUIRE(build(&program, params));
    op = op_at(&program, 4);
    op.kind = DDP_COLL_BROADCAST;
    CT_CHECK_STR(compare(&program, 4, HARNESS_STEP_UNKNOWN, op, 352), "MISMATCH.OP");
    op = op_at(&program, 4);
    op.role = DDP_ROLE_USER;
    CT_CHECK_STR(compare(&program, 4, HARNESS_STEP_UNKNOWN, op, 352), "MISMATCH.OP");
    op = op_at(&program, 4);
    op.dtype = DDP_DTYPE_BF16;
    CT_CHECK_STR(compare(&program, 4, HARNESS_STEP_UNKNOWN, op, 352), "MISMATCH.DTYPE");
    op = op_at(&program, 4);
    op.redop = DDP_REDOP_MAX;
    CT_CHECK_STR(compare(&program, 4, HARNESS_STEP_UNKNOWN, op, 352), "MISMATCH.REDUCTION");
    op = op_at(&program, 4);
    CT_CHECK_STR(compare(&program, 4, HARNESS_STEP_UNKNOWN, op, 353), "MISMATCH.COUNT");
    CT_CHECK_STR(compare(&program, 1, HARNESS_STEP_UNKNOWN, op_at(&program, 1), 3),
                 "MISMATCH.COUNT");
    op.index = 3;
    CT_CHECK_STR(compare(&program, 4, HARNESS_STEP_UNKNOWN, op, 352), "MISMATCH.BUCKET");
    op = op_at(&program, 2);
    op.root = 1;
    CT_CHECK_STR(compare(&program, 2, HARNESS_STEP_UNKNOWN, op, 2410), "MISMATCH.ROOT");
    harness_program_fini(&program);
}

/* Fields without meaning for a kind are not compared. */
CT_TEST(program_compare, ignores_fields_without_meaning)
{
    struct ddp_param params[MLP_PARAM_COUNT];
    struct harness_program program;
    struct ddp_event_op op;

    CT_REQUIRE(build(&program, params));
    op = op_at(&program, 9);
    op.dtype = DDP_DTYPE_F64;
    op.redop = DDP_REDOP_PROD;
    op.root = 3;
    CT_CHECK_STR(compare(&program, 9, HARNESS_STEP_UNKNOWN, op, 7), "NONE");
    op = op_at(&program, 4);
    op.root = 1;
    CT_CHECK_STR(compare(&program, 4, HARNESS_STEP_UNKNOWN, op, 352), "NONE");
    op = op_at(&program, 2);
    op.redop = DDP_REDOP_MAX;
    CT_CHECK_STR(compare(&program, 2, HARNESS_STEP_UNKNOWN, op, 2410), "NONE");
    harness_program_fini(&program);
}

/* A left-out operation shows as one of the next, a repeated one as the previous. */
CT_TEST(program_compare, tells_missing_from_extra)
{
    struct ddp_param params[MLP_PARAM_COUNT];
    struct harness_program program;

    CT_REQUIRE(build(&program, params));
    CT_CHECK_STR(compare_moved(&program, 4, HARNESS_STEP_UNKNOWN, 5), "MISMATCH.MISSING");
    CT_CHECK_STR(compare_moved(&program, 3, HARNESS_STEP_UNKNOWN, 9), "MISMATCH.MISSING");
    CT_CHECK_STR(compare_moved(&program, 4, HARNESS_STEP_UNKNOWN, 3), "MISMATCH.EXTRA");
    CT_CHECK_STR(compare_moved(&program, 10, HARNESS_STEP_UNKNOWN, 9), "MISMATCH.EXTRA");
    harness_program_fini(&program);
}

/* Two buckets a step: after bucket 1, bucket 1 again is extra in the old step, and in the new step
 * means that bucket 0 was left out. */
CT_TEST(program_compare, settles_ties_by_the_ranks_step)
{
    struct harness_plan plan = make_plan(2, 3, 1);
    struct ddp_param params[MLP_PARAM_COUNT];
    struct harness_program program;

    make_mlp(params);
    plan.job.bucket_cap_bytes = 1409;
    plan.job.first_bucket_cap_bytes = 40;
    CT_REQUIRE_OK(build_program(&plan, params, MLP_PARAM_COUNT, &program));
    CT_REQUIRE(program.first.count == 2);
    /* 3, 4: step 0; 5, 6: step 1. */
    CT_CHECK_STR(compare_moved(&program, 5, 0, 4), "MISMATCH.EXTRA");
    CT_CHECK_STR(compare_moved(&program, 5, 1, 4), "MISMATCH.MISSING");
    CT_CHECK_STR(compare_moved(&program, 5, HARNESS_STEP_UNKNOWN, 4), "MISMATCH.MISSING");
    harness_program_fini(&program);
}

/* Buckets of one size differ in their number alone. */
CT_TEST(program_compare, tells_equal_buckets_apart)
{
    struct harness_plan plan = make_plan(2, 2, 1);
    struct ddp_param params[MLP_PARAM_COUNT];
    struct harness_program program;

    make_mlp(params);
    for (size_t i = 0; i < MLP_PARAM_COUNT; i++) {
        params[i].elem_count = 8;
    }
    plan.job.bucket_cap_bytes = 32;
    plan.job.first_bucket_cap_bytes = 32;
    CT_REQUIRE_OK(build_program(&plan, params, MLP_PARAM_COUNT, &program));
    CT_REQUIRE(program.first.count == 4);
    CT_CHECK_STR(compare_moved(&program, 4, 0, 5), "MISMATCH.MISSING");
    CT_CHECK_STR(compare_moved(&program, 5, 0, 4), "MISMATCH.EXTRA");
    CT_CHECK_STR(compare_moved(&program, 6, 0, 4), "MISMATCH.ORDER");
    harness_program_fini(&program);
}

/* Buffers are broadcast before the first step and in it; the last two barriers are alike, too. Only
 * the step tells such operations apart. */
CT_TEST(program_compare, knows_the_steps_before_the_first_and_after_the_last)
{
    struct harness_plan plan = make_plan(2, 1, 1);
    struct ddp_param params[MLP_PARAM_COUNT];
    const struct ddp_buffer buffer = {.name = "seen", .dtype = DDP_DTYPE_F32, .elem_count = 5};
    const struct harness_tables model = {params, MLP_PARAM_COUNT, &buffer, 1, NULL, NULL, NULL, 0};
    struct harness_program program;
    uint64_t last;

    make_mlp(params);
    plan.job.checkpoint_every = 1;
    CT_REQUIRE_OK(harness_program_build(ddp_mem_system(), &plan, &model, NULL, &program));
    last = program.op_count;
    CT_CHECK_STR(compare_moved(&program, 3, -1, 4), "NONE");
    CT_CHECK_STR(compare_moved(&program, 3, 0, 4), "MISMATCH.MISSING");
    CT_CHECK_STR(compare_moved(&program, 4, -1, 3), "MISMATCH.EXTRA");
    CT_CHECK_STR(compare_moved(&program, last, 0, last - 1), "MISMATCH.EXTRA");
    CT_CHECK_STR(compare_moved(&program, last - 1, 1, last), "MISMATCH.MISSING");
    CT_CHECK(harness_program_step_of(&program, DDP_PHASE_INIT, 0) == -1);
    CT_CHECK(harness_program_step_of(&program, DDP_PHASE_FORWARD, 0) == 0);
    CT_CHECK(harness_program_step_of(&program, DDP_PHASE_TEARDOWN, 0) == 1);
    harness_program_fini(&program);
}

/* An operation of the same step that was due earlier is out of order. */
CT_TEST(program_compare, finds_wrong_order)
{
    struct ddp_param params[MLP_PARAM_COUNT];
    struct harness_program program;

    CT_REQUIRE(build(&program, params));
    CT_CHECK_STR(compare_moved(&program, 5, HARNESS_STEP_UNKNOWN, 3), "MISMATCH.ORDER");
    CT_CHECK_STR(compare_moved(&program, 8, HARNESS_STEP_UNKNOWN, 6), "MISMATCH.ORDER");
    harness_program_fini(&program);
}

/* When models differ, ranks exchange descriptions before they give up; that is no mismatch. */
CT_TEST(program_compare, lets_verification_explain_itself)
{
    struct ddp_param params[MLP_PARAM_COUNT];
    struct harness_program program;
    struct ddp_event_op op;

    CT_REQUIRE(build(&program, params));
    op = op_at(&program, 1);
    op.index = 1;
    CT_CHECK_STR(compare(&program, 2, HARNESS_STEP_UNKNOWN, op, 160), "NONE");
    CT_CHECK_STR(compare(&program, 6, HARNESS_STEP_UNKNOWN, op, 160), "MISMATCH.OP");
    /* Number 1 of them as the first operation: number 0 was left out. Number 0 twice is no
     * explanation. */
    op.index = 1;
    CT_CHECK_STR(compare(&program, 1, HARNESS_STEP_UNKNOWN, op, 160), "MISMATCH.MISSING");
    op.index = 0;
    CT_CHECK_STR(compare(&program, 2, HARNESS_STEP_UNKNOWN, op, 24), "MISMATCH.EXTRA");
    harness_program_fini(&program);
}
