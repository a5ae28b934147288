/* Streams of several jobs, written out by hand. */
#include "tests/unit/plan/plan_testing.h"

static void check_program(const struct harness_plan *plan, size_t buffer_elem_count,
                          const uint64_t *batch_count, const char *expected)
{
    const struct ddp_buffer buffer = {
        .name = "seen", .dtype = DDP_DTYPE_F32, .elem_count = buffer_elem_count};
    struct ddp_param params[MLP_PARAM_COUNT];
    const struct harness_tables model = {
        params, MLP_PARAM_COUNT, &buffer, buffer_elem_count > 0 ? 1 : 0, NULL, NULL, NULL, 0};
    struct harness_program program;
    struct ddp_text text;
    const char *body;

    make_mlp(params);
    CT_REQUIRE_OK(harness_program_build(ddp_mem_system(), plan, &model, batch_count, &program));
    ddp_text_init(&text, ddp_mem_system());
    harness_program_print(&program, &text);
    body = strchr(ddp_text_str(&text), '\n');
    CT_REQUIRE(body != NULL);
    CT_CHECK_STR(body + 1, expected);
    CT_CHECK(harness_program_at(&program, 0) == NULL);
    CT_CHECK(harness_program_at(&program, program.op_count + 1) == NULL);
    CT_CHECK_EQ_U64(harness_program_at(&program, 1)->seq, 1);
    ddp_text_fini(&text);
    harness_program_fini(&program);
}

/* Verification, parameters, then in each step the buckets, and a barrier at the end. */
CT_TEST(program, of_a_plain_job)
{
    struct harness_plan plan = make_plan(2, 2, 1);

    plan.job.bucket_cap_bytes = 1408;
    plan.job.first_bucket_cap_bytes = 40;
    check_program(&plan, 0, NULL,
                  "bucket 0 elems 10 fc1.bias@0\n"
                  "bucket 1 elems 352 fc1.weight@0 fc0.bias@320\n"
                  "bucket 2 elems 2048 fc0.weight@0\n"
                  "1 step -1 init all_gather verify 0 u8[24]\n"
                  "2 step -1 init broadcast param_sync 0 f32[2410] root 0\n"
                  "3 step 0 backward all_reduce bucket 0 f32[10] sum\n"
                  "4 step 0 backward all_reduce bucket 1 f32[352] sum\n"
                  "5 step 0 backward all_reduce bucket 2 f32[2048] sum\n"
                  "6 step 1 backward all_reduce bucket 0 f32[10] sum\n"
                  "7 step 1 backward all_reduce bucket 1 f32[352] sum\n"
                  "8 step 1 backward all_reduce bucket 2 f32[2048] sum\n"
                  "9 step 2 teardown barrier barrier 0\n");
}

/* A static graph: the first step's used map goes before its buckets, later steps have none. */
CT_TEST(program, of_a_static_graph)
{
    struct harness_plan plan = make_plan(2, 2, 1);

    plan.job.static_graph = true;
    check_program(&plan, 0, NULL,
                  "bucket 0 elems 2410 fc1.bias@0 fc1.weight@10 fc0.bias@330 fc0.weight@362\n"
                  "1 step -1 init all_gather verify 0 u8[24]\n"
                  "2 step -1 init broadcast param_sync 0 f32[2410] root 0\n"
                  "3 step 0 backward all_reduce used_map 0 i32[4] sum\n"
                  "4 step 0 backward all_reduce bucket 0 f32[2410] sum\n"
                  "5 step 1 backward all_reduce bucket 0 f32[2410] sum\n"
                  "6 step 2 teardown barrier barrier 0\n");
}

/* Of several micro-batches only the last one reduces and gets buffers; a checkpoint is a barrier.
 */
CT_TEST(program, of_micro_batches_and_checkpoints)
{
    struct harness_plan plan = make_plan(2, 2, 2);

    plan.job.checkpoint_every = 2;
    plan.job.find_unused_parameters = true;
    check_program(&plan, 5, NULL,
                  "bucket 0 elems 2410 fc1.bias@0 fc1.weight@10 fc0.bias@330 fc0.weight@362\n"
                  "1 step -1 init all_gather verify 0 u8[24]\n"
                  "2 step -1 init broadcast param_sync 0 f32[2410] root 0\n"
                  "3 step -1 init broadcast buffer_sync 0 f32[5] root 0\n"
                  "4 step 0 buffer broadcast buffer_sync 0 f32[5] root 0\n"
                  "5 step 0 backward all_reduce bucket 0 f32[2410] sum\n"
                  "6 step 0 reduce all_reduce used_map 0 i32[4] sum\n"
                  "7 step 1 buffer broadcast buffer_sync 0 f32[5] root 0\n"
                  "8 step 1 backward all_reduce bucket 0 f32[2410] sum\n"
                  "9 step 1 reduce all_reduce used_map 0 i32[4] sum\n"
                  "10 step 1 checkpoint barrier barrier 0\n"
                  "11 step 2 teardown barrier barrier 0\n");
}

/* pytorch: shapes are broadcast, and buffers follow a pass that synced. */
CT_TEST(program, of_pytorch_semantics)
{
    struct harness_plan plan = make_plan(2, 1, 2);

    plan.job.semantics = HARNESS_SEMANTICS_PYTORCH;
    check_program(&plan, 5, NULL,
                  "bucket 0 elems 2410 fc1.bias@0 fc1.weight@10 fc0.bias@330 fc0.weight@362\n"
                  "1 step -1 init all_gather verify 0 u8[8]\n"
                  "2 step -1 init broadcast verify 1 i64[12] root 0\n"
                  "3 step -1 init broadcast param_sync 0 f32[2410] root 0\n"
                  "4 step -1 init broadcast buffer_sync 0 f32[5] root 0\n"
                  "5 step 0 buffer broadcast buffer_sync 0 f32[5] root 0\n"
                  "6 step 0 backward all_reduce bucket 0 f32[2410] sum\n"
                  "7 step 1 teardown barrier barrier 0\n");
}

/* Under join passes go on until the last rank ends, which then hands out its model. */
CT_TEST(program, of_uneven_inputs)
{
    static const uint64_t batch_count[] = {1, 2};
    struct harness_plan plan = make_plan(2, 5, 1);

    plan.job.join.is_set = true;
    check_program(&plan, 3, batch_count,
                  "bucket 0 elems 2410 fc1.bias@0 fc1.weight@10 fc0.bias@330 fc0.weight@362\n"
                  "1 step -1 init all_gather verify 0 u8[24]\n"
                  "2 step -1 init broadcast param_sync 0 f32[2410] root 0\n"
                  "3 step -1 init broadcast buffer_sync 0 f32[3] root 0\n"
                  "4 step 0 join all_reduce join_present 0 f32[1] sum\n"
                  "5 step 0 join all_reduce join_last 0 i64[1] max\n"
                  "6 step 0 buffer broadcast buffer_sync 0 f32[3] root ?\n"
                  "7 step 0 join all_reduce join_sync_flag 0 f32[1] sum\n"
                  "8 step 0 backward all_reduce bucket 0 f32[2410] sum\n"
                  "9 step 1 join all_reduce join_present 0 f32[1] sum\n"
                  "10 step 1 join all_reduce join_last 0 i64[1] max\n"
                  "11 step 1 buffer broadcast buffer_sync 0 f32[3] root ?\n"
                  "12 step 1 join all_reduce join_sync_flag 0 f32[1] sum\n"
                  "13 step 1 backward all_reduce bucket 0 f32[2410] sum\n"
                  "14 step 5 join all_reduce join_present 0 f32[1] sum\n"
                  "15 step 5 join all_reduce join_last 0 i64[1] max\n"
                  "16 step 5 join broadcast param_sync 0 f32[2410] root ?\n"
                  "17 step 5 join broadcast buffer_sync 0 f32[3] root ?\n"
                  "18 step 5 teardown barrier barrier 0\n");
}

/* throw_on_early_termination: the round that notices is the last thing anybody posts. */
CT_TEST(program, of_early_termination)
{
    static const uint64_t batch_count[] = {2, 1};
    struct harness_plan plan = make_plan(2, 5, 1);

    plan.job.join.is_set = true;
    plan.job.join.throw_on_early_termination = true;
    check_program(&plan, 0, batch_count,
                  "bucket 0 elems 2410 fc1.bias@0 fc1.weight@10 fc0.bias@330 fc0.weight@362\n"
                  "1 step -1 init all_gather verify 0 u8[24]\n"
                  "2 step -1 init broadcast param_sync 0 f32[2410] root 0\n"
                  "3 step 0 join all_reduce join_present 0 f32[1] sum\n"
                  "4 step 0 join all_reduce join_present 1 f32[1] sum\n"
                  "5 step 0 join all_reduce join_sync_flag 0 f32[1] sum\n"
                  "6 step 0 backward all_reduce bucket 0 f32[2410] sum\n"
                  "7 step 1 join all_reduce join_present 0 f32[1] sum\n"
                  "8 step 1 join all_reduce join_present 1 f32[1] sum\n");
}

/* Parameters larger than a chunk travel alone; none is cut. */
CT_TEST(program, splits_large_models_between_parameters)
{
    const size_t half_chunk = (size_t)125 * 1024 * 1024 / 4;
    struct harness_plan plan = make_plan(1, 1, 1);
    struct ddp_param params[4];
    struct harness_program program;
    const size_t elem_counts[] = {3 * half_chunk, half_chunk, half_chunk, 1};
    const uint64_t expected[] = {3 * half_chunk, 2 * half_chunk, 1};

    memset(params, 0, sizeof(params));
    for (size_t i = 0; i < 4; i++) {
        params[i].elem_count = elem_counts[i];
    }
    CT_REQUIRE_OK(build_program(&plan, params, 4, &program));
    for (uint32_t chunk = 0; chunk < 3; chunk++) {
        const struct harness_op *op = harness_program_at(&program, 2 + chunk);

        CT_CHECK_EQ_U64(op->role, DDP_ROLE_PARAM_SYNC);
        CT_CHECK_EQ_U64(op->index, chunk);
        CT_CHECK_EQ_U64(op->elem_count, expected[chunk]);
    }
    CT_CHECK_EQ_U64(harness_program_at(&program, 5)->role, DDP_ROLE_BUCKET);
    harness_program_fini(&program);
}

/* Buffers of several types are broadcast type by type, whatever their number. */
CT_TEST(program, broadcasts_buffers_by_type)
{
    enum { BUFFER_COUNT = 150 };
    struct harness_plan plan = make_plan(2, 1, 1);
    struct ddp_param params[MLP_PARAM_COUNT];
    struct ddp_buffer buffers[BUFFER_COUNT];
    const struct harness_tables model = {
        params, MLP_PARAM_COUNT, buffers, BUFFER_COUNT, NULL, NULL, NULL, 0};
    struct harness_program program;
    uint64_t elem_count[2] = {0, 0};

    make_mlp(params);
    for (size_t i = 0; i < BUFFER_COUNT; i++) {
        buffers[i] = (struct ddp_buffer){.name = "b",
                                         .dtype = i % 3 == 0 ? DDP_DTYPE_I64 : DDP_DTYPE_F32,
                                         .elem_count = i % 3 == 0 ? 1 : i};
        elem_count[i % 3 == 0 ? 1 : 0] += buffers[i].elem_count;
    }
    CT_REQUIRE_OK(harness_program_build(ddp_mem_system(), &plan, &model, NULL, &program));
    CT_CHECK_EQ_U64(program.buffer_count, BUFFER_COUNT);
    for (uint32_t chunk = 0; chunk < 2; chunk++) {
        const struct harness_op *first = harness_program_at(&program, 3 + chunk);
        const struct harness_op *later = harness_program_at(&program, 5 + chunk);

        CT_CHECK_EQ_U64(first->role, DDP_ROLE_BUFFER_SYNC);
        CT_CHECK_EQ_U64(first->index, chunk);
        CT_CHECK_EQ_U64(first->dtype, chunk == 0 ? DDP_DTYPE_F32 : DDP_DTYPE_I64);
        CT_CHECK_EQ_U64(first->elem_count, elem_count[chunk]);
        CT_CHECK(later->step == 0 && later->phase == DDP_PHASE_BUFFER);
        CT_CHECK_EQ_U64(later->elem_count, elem_count[chunk]);
    }
    CT_CHECK_EQ_U64(harness_program_at(&program, 7)->role, DDP_ROLE_BUCKET);
    harness_program_fini(&program);
}

/* PyTorch's PeriodicModelAverager(period=3, warmup_steps=2): no bucket from step 2 on, and averages
 * behind steps 2 and 5. */
CT_TEST(program, averages_parameters_between_local_steps)
{
    struct harness_plan plan = make_plan(2, 6, 1);
    struct ddp_param params[MLP_PARAM_COUNT];
    struct harness_program program;
    size_t buckets[6] = {0};
    size_t averages[6] = {0};

    make_mlp(params);
    plan.job.hook = HARNESS_HOOK_LOCAL_SGD;
    plan.job.local_sgd_start = 2;
    plan.job.local_sgd_period = 3;
    CT_REQUIRE_OK(build_program(&plan, params, MLP_PARAM_COUNT, &program));
    for (size_t i = 0; i < program.op_count; i++) {
        const struct harness_op *op = &program.ops[i];

        if (op->role == DDP_ROLE_AVERAGE) {
            CT_CHECK(op->phase == DDP_PHASE_OPTIMIZER && op->kind == DDP_COLL_ALL_REDUCE);
            CT_CHECK_EQ_U64(op->index, averages[op->step]);
            CT_CHECK_EQ_U64(op->elem_count, params[op->index].elem_count);
            averages[op->step]++;
        } else if (op->role == DDP_ROLE_BUCKET) {
            buckets[op->step]++;
        }
    }
    for (size_t step = 0; step < 6; step++) {
        CT_CHECK((buckets[step] > 0) == (step < 2));
        CT_CHECK_EQ_U64(averages[step], step == 2 || step == 5 ? MLP_PARAM_COUNT : 0);
    }
    harness_program_fini(&program);
}

/* Equal jobs hash alike; another bucket cap hashes differently. */
CT_TEST(program, hashes_its_operations)
{
    struct harness_plan plan = make_plan(2, 2, 1);
    struct ddp_param params[MLP_PARAM_COUNT];
    uint64_t hashes[3];

    make_mlp(params);
    for (size_t i = 0; i < 3; i++) {
        struct harness_program program;

        plan.job.bucket_cap_bytes = i == 2 ? 64 : 0;
        CT_REQUIRE_OK(build_program(&plan, params, MLP_PARAM_COUNT, &program));
        hashes[i] = program.hash;
        harness_program_fini(&program);
    }
    CT_CHECK_EQ_U64(hashes[0], hashes[1]);
    CT_CHECK(hashes[0] != hashes[2]);
}

/* Wherever memory runs out, building says so and gives everything back. */
CT_TEST(program, survives_exhausted_memory)
{
    struct harness_plan plan = make_plan(2, 40, 1);
    struct ddp_param params[MLP_PARAM_COUNT];
    const struct harness_tables model = {params, MLP_PARAM_COUNT, NULL, 0, NULL, NULL, NULL, 0};
    ddp_status status = DDP_E_NOMEM;
    uint64_t failures = 0;

    make_mlp(params);
    plan.job.bucket_cap_bytes = 1;
    for (; status == DDP_E_NOMEM; failures++) {
        struct ddp_mem_pool *pool = NULL;
        struct harness_program program;

        CT_REQUIRE_OK(ddp_mem_pool_create(&pool));
        ddp_mem_pool_fail_after(pool, failures, -1);
        status = harness_program_build(ddp_mem_pool_mem(pool), &plan, &model, NULL, &program);
        if (status == DDP_OK) {
            harness_program_fini(&program);
        }
        CT_CHECK_EQ_U64(ddp_mem_pool_block_count(pool), 0);
        ddp_mem_pool_destroy(pool);
    }
    CT_CHECK_OK(status);
    CT_CHECK(failures > 9);
}
