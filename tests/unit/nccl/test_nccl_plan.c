/* Schedules over NCCL's send and receive: results, what NCCL is asked to do, and refusals. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/ct.h"
#include "tests/unit/nccl/nccl_world.h"

#define COUNT 53u

static float input[NCCL_MEMBERS_MAX][COUNT], output[NCCL_MEMBERS_MAX][COUNT];

static void post_all(struct nccl_world *world, bool is_in_place, size_t count, enum ddp_redop redop)
{
    for (uint32_t rank = 0; rank < world->count; rank++) {
        const struct ddp_coll_args args = {.kind = DDP_COLL_ALL_REDUCE,
                                           .redop = redop,
                                           .dtype = DDP_DTYPE_F32,
                                           .input = is_in_place ? output[rank] : input[rank],
                                           .output = output[rank],
                                           .elem_count = count};

        for (uint32_t i = 0; i < COUNT; i++) {
            input[rank][i] = (float)(rank * 10 + i);
            output[rank][i] = is_in_place ? input[rank][i] : -1.0f;
        }
        CT_CHECK_OK(nccl_world_post(world, rank, &args));
    }
}

static void check_sums(const struct nccl_world *world, size_t count)
{
    for (uint32_t rank = 0; rank < world->count; rank++) {
        for (uint32_t i = 0; i < count; i++) {
            float sum = (float)(10 * (world->count * (world->count - 1) / 2) + world->count * i);

            if (output[rank][i] != sum) {
                CT_FAIL("rank %u element %u is %f, not %f", rank, i, (double)output[rank][i],
                        (double)sum);
                return;
            }
        }
    }
}

static void check_algorithm(enum ddp_algorithm_id algorithm, uint32_t count, bool is_in_place)
{
    const struct nccl_world_options options = {
        .is_checked = true, .algorithm = algorithm, .segment_bytes = 20};
    struct nccl_world world;

    CT_REQUIRE(nccl_world_open(&world, count, &options));
    post_all(&world, is_in_place, COUNT, DDP_REDOP_SUM);
    nccl_world_run(&world);
    check_sums(&world, COUNT);
    /* Again, with fewer elements and with none; then all at once. */
    post_all(&world, is_in_place, 3, DDP_REDOP_SUM);
    nccl_world_run(&world);
    check_sums(&world, 3);
    post_all(&world, is_in_place, 0, DDP_REDOP_SUM);
    nccl_world_run(&world);
    post_all(&world, is_in_place, COUNT, DDP_REDOP_MAX);
    nccl_world_run(&world);
    CT_CHECK(output[0][2] == (float)((count - 1) * 10 + 2));
    for (uint32_t rank = 0; rank < count; rank++) {
        for (uint32_t i = 0; i < world.ranks[rank].work_count; i++) {
            CT_CHECK_OK(world.ranks[rank].works[i].status);
        }
    }
    CT_CHECK_EQ_U64(nccl_turns_count("*: ncclAllReduce *"), 0);
    nccl_world_close(&world);
}

CT_TEST(nccl_plan, algorithms_run_in_rounds)
{
    size_t row_count;
    const struct ddp_algorithm *table = ddp_algorithm_table(&row_count);

    for (size_t row = 0; row < row_count; row++) {
        for (uint32_t count = 1; table[row].kind == DDP_COLL_ALL_REDUCE && count <= 7; count++) {
            check_algorithm(table[row].id, count, false);
            check_algorithm(table[row].id, count, true);
        }
    }
}

/* The other kinds are NCCL's own. */
CT_TEST(nccl_plan, other_kinds_stay_with_nccl)
{
    const struct nccl_world_options options = {.algorithm = DDP_ALGORITHM_RING};
    struct nccl_world world;

    CT_REQUIRE(nccl_world_open(&world, 2, &options));
    for (uint32_t rank = 0; rank < 2; rank++) {
        const struct ddp_coll_args args = {.kind = DDP_COLL_BROADCAST,
                                           .input = input[rank],
                                           .output = output[rank],
                                           .elem_count = 5};

        CT_CHECK_OK(nccl_world_post(&world, rank, &args));
    }
    nccl_world_run(&world);
    CT_CHECK_STR(nccl_turns_line("0: nccl[!C]*", 0), "0: ncclBroadcast 5 0");
    nccl_world_close(&world);
}

/* The words tell how many rounds the host still has to enqueue: a ring of three has four. The mark
 * of the end comes behind the last. */
CT_TEST(nccl_plan, words_count_rounds_that_are_left)
{
    struct ddp_progress progress = {.is_mapped = 1};
    const struct nccl_world_options options = {.algorithm = DDP_ALGORITHM_RING,
                                               .progress = &progress};
    const struct ddp_progress_words *words = &progress.stream[DDP_PROGRESS_COMM];
    struct nccl_world world;
    uint64_t left = 4;

    CT_REQUIRE(nccl_world_open(&world, 3, &options));
    post_all(&world, false, COUNT, DDP_REDOP_SUM);
    for (bool is_over = false; !is_over;) {
        bool is_marked = ddp_mark_kind(words->enqueued) == DDP_MARK_COLL_END;

        if (words->enqueued != 0) {
            CT_CHECK(progress.rounds_left == left || progress.rounds_left + 1 == left);
            CT_CHECK(!is_marked || progress.rounds_left == 0);
            left = progress.rounds_left;
        }
        is_over = nccl_world_step(&world);
    }
    CT_CHECK_EQ_U64(left, 0);
    check_sums(&world, COUNT);
    nccl_world_close(&world);
}

/* A longer collective needs a longer workspace while a shorter one still uses the old one. */
CT_TEST(nccl_plan, workspace_grows_between_works)
{
    const struct nccl_world_options options = {.algorithm = DDP_ALGORITHM_RECURSIVE_DOUBLING};
    struct nccl_world world;

    CT_REQUIRE(nccl_world_open(&world, 3, &options));
    post_all(&world, true, 1, DDP_REDOP_SUM);
    for (uint32_t rank = 0; rank < 3; rank++) {
        struct ddp_coll_args args = world.ranks[rank].works[0].args;

        args.input = input[rank];
        args.output = input[rank];
        args.elem_count = COUNT;
        CT_CHECK_OK(nccl_world_post(&world, rank, &args));
        memset(world.ranks[rank].device.is_held, 1, sizeof(world.ranks[rank].device.is_held));
        world.ranks[rank].device.is_strict = true;
    }
    nccl_world_settle(&world);
    for (uint32_t rank = 0; rank < 3; rank++) {
        memset(world.ranks[rank].device.is_held, 0, sizeof(world.ranks[rank].device.is_held));
    }
    nccl_world_run(&world);
    check_sums(&world, 1);
    CT_CHECK(input[2][COUNT - 1] == (float)(30 + 3 * (COUNT - 1)));
    nccl_world_close(&world);
}

/* The first error inside a group of messages is the one that counts, and the group is closed. */
CT_TEST(nccl_plan, refused_message_ends_the_group)
{
    const struct nccl_world_options options = {.algorithm = DDP_ALGORITHM_RING};
    struct nccl_world world;

    CT_REQUIRE(nccl_world_open(&world, 2, &options));
    nccl_world_script(&world, "rank0:op1=invalid_usage");
    post_all(&world, true, COUNT, DDP_REDOP_SUM);
    nccl_world_run(&world);
    CT_CHECK_STATUS(world.ranks[0].works[0].status, DDP_E_STATE);
    CT_CHECK_STATUS(world.ranks[1].works[0].status, DDP_E_REVOKED);
    CT_CHECK_STR(world.ranks[0].coll->ops->last_error(world.ranks[0].coll),
                 "ncclSend or ncclRecv: invalid usage (run with NCCL_DEBUG=WARN for details) "
                 "(stand-in script: op1=5)");
    CT_CHECK_EQ_I64(world.library->calls.group_end(), DDP_NCCL_INVALID_USAGE); /* not in a group */
    nccl_world_close(&world);
}

struct noting {
    struct ddp_schedule_observer base;
    uint32_t count;
};

static ddp_status note_used(struct ddp_schedule_observer *observer,
                            const struct ddp_schedule *schedule)
{
    ((struct noting *)observer)->count++;
    CT_CHECK_STR(schedule->algorithm, "ring");
    return DDP_OK;
}

CT_TEST(nccl_plan, cache_is_bounded_and_tells_of_new_schedules)
{
    struct noting noting = {{note_used}, 0};
    struct ddp_cache cache = {.ops = &ddp_nccl_plan_cache_ops,
                              .mem = ddp_mem_system(),
                              .member = 1,
                              .member_count = 3,
                              .observer = &noting.base};
    struct ddp_cache_key key = {DDP_COLL_ALL_REDUCE, DDP_DTYPE_F32, 5, 0, true, false};
    struct ddp_cached *held = NULL;
    struct ddp_cached *plan = NULL;
    struct ddp_err err = {""};

    cache.algorithm[DDP_COLL_ALL_REDUCE] =
        ddp_algorithm_find(DDP_COLL_ALL_REDUCE, DDP_ALGORITHM_RING);
    CT_CHECK_OK(ddp_cache_take(&cache, &key, &held, &err));
    CT_CHECK_OK(ddp_cache_take(&cache, &key, &plan, &err));
    CT_CHECK(plan == held);
    key.is_in_place = false;
    CT_CHECK_OK(ddp_cache_take(&cache, &key, &plan, &err));
    CT_CHECK(plan != held);
    CT_CHECK_EQ_U64(noting.count, 2);
    ddp_cache_give_back(plan);
    key.is_in_place = true;
    for (key.elem_count = 10; key.elem_count < 10 + 2 * DDP_CACHE_MAX; key.elem_count++) {
        CT_CHECK_OK(ddp_cache_take(&cache, &key, &plan, &err));
        ddp_cache_give_back(plan);
    }
    CT_CHECK_EQ_U64(cache.count, DDP_CACHE_MAX);
    /* What works still use is not forgotten. */
    key.elem_count = 5;
    CT_CHECK_OK(ddp_cache_take(&cache, &key, &plan, &err));
    CT_CHECK(plan == held);
    for (int i = 0; i < 3; i++) {
        ddp_cache_give_back(held);
    }
    ddp_cache_fini(&cache);
}

static struct ddp_range whole(enum ddp_buffer_kind buffer, const struct ddp_schedule *schedule)
{
    const struct ddp_range range = {buffer, 0, 0, schedule->params.elem_count};

    return range;
}

static uint32_t add(struct ddp_schedule *schedule, enum ddp_step_kind kind, uint32_t round,
                    uint32_t dep)
{
    const struct ddp_step step = {.kind = kind,
                                  .round = round,
                                  .peer = 1 - schedule->params.rank,
                                  .src = whole(DDP_BUFFER_OUTPUT, schedule),
                                  .dst = whole(DDP_BUFFER_OUTPUT, schedule),
                                  .dep_count = dep == UINT32_MAX ? 0 : 1,
                                  .dep = {dep}};

    return ddp_schedule_add(schedule, &step);
}

/* Passes on what it got, in one round. */
static void emit_relay(struct ddp_schedule *schedule)
{
    if (schedule->params.rank == 0) {
        (void)add(schedule, DDP_STEP_SEND, 0, add(schedule, DDP_STEP_RECV, 0, UINT32_MAX));
    } else {
        (void)add(schedule, DDP_STEP_SEND, 0, UINT32_MAX);
        (void)add(schedule, DDP_STEP_RECV, 1, 0);
    }
}

/* Receives into what it sends, in one round. */
static void emit_overwrite(struct ddp_schedule *schedule)
{
    (void)add(schedule, DDP_STEP_RECV, 0, add(schedule, DDP_STEP_SEND, 0, UINT32_MAX));
}

/* The ends of a message have different rounds. */
static void emit_skewed(struct ddp_schedule *schedule)
{
    (void)add(schedule, schedule->params.rank == 0 ? DDP_STEP_SEND : DDP_STEP_RECV,
              schedule->params.rank, UINT32_MAX);
}

/* A step waits for one of a later round. */
static void emit_backwards(struct ddp_schedule *schedule)
{
    uint32_t last = add(schedule, DDP_STEP_SEND, 1, UINT32_MAX);

    (void)add(schedule, DDP_STEP_RECV, 0, last);
}

/* Messages to one peer leave in another order than they were emitted in. */
static void emit_crossed(struct ddp_schedule *schedule)
{
    enum ddp_step_kind kind = schedule->params.rank == 0 ? DDP_STEP_SEND : DDP_STEP_RECV;

    (void)add(schedule, kind, 1, UINT32_MAX);
    (void)add(schedule, kind, 0, UINT32_MAX);
}

/* A recv_reduce may depend on a send of its round: it lands beside what is sent. */
static void emit_exchange(struct ddp_schedule *schedule)
{
    (void)add(schedule, DDP_STEP_RECV_REDUCE, 0, add(schedule, DDP_STEP_SEND, 0, UINT32_MAX));
}

static ddp_status try_plan(const char *name, void (*emit)(struct ddp_schedule *schedule),
                           struct ddp_err *err)
{
    const struct ddp_algorithm algorithm = {.name = name, .segment_bytes = 1, .emit = emit};
    const struct ddp_schedule_params params = {.kind = DDP_COLL_ALL_REDUCE,
                                               .dtype = DDP_DTYPE_F32,
                                               .size = 2,
                                               .elem_count = 4,
                                               .is_in_place = 1};
    struct ddp_nccl_plan *plan = NULL;
    ddp_status status = ddp_nccl_plan_create(ddp_mem_system(), &algorithm, &params, &plan, err);

    if (plan != NULL) {
        ddp_nccl_plan_destroy(ddp_mem_system(), plan);
    }
    return status;
}

/* output = input + input, through two scratch buffers at once. */
static void emit_scratches(struct ddp_schedule *schedule)
{
    size_t count = schedule->params.elem_count;
    struct ddp_range a = {DDP_BUFFER_SCRATCH, 0, 0, count};
    struct ddp_range b = {DDP_BUFFER_SCRATCH, 1, 0, count};
    struct ddp_step step = {.kind = DDP_STEP_COPY, .dst = a};

    (void)ddp_schedule_add_scratch(schedule, schedule->params.dtype, count);
    (void)ddp_schedule_add_scratch(schedule, schedule->params.dtype, count);
    step.src = whole(DDP_BUFFER_INPUT, schedule);
    (void)ddp_schedule_add(schedule, &step);
    step.kind = DDP_STEP_CONVERT;
    step.dst = b;
    (void)ddp_schedule_add(schedule, &step);
    step.kind = DDP_STEP_REDUCE;
    step.dst = a;
    step.src = b;
    step.dep_count = 2;
    step.dep[1] = 1;
    (void)ddp_schedule_add(schedule, &step);
    step.kind = DDP_STEP_CONVERT;
    step.dst = whole(DDP_BUFFER_OUTPUT, schedule);
    step.src = a;
    step.dep_count = 1;
    step.dep[0] = 2;
    (void)ddp_schedule_add(schedule, &step);
}

CT_TEST(nccl_plan, kernels_of_every_kind)
{
    const struct ddp_algorithm algorithm = {
        .name = "scratches", .segment_bytes = 1, .emit = emit_scratches};
    const struct ddp_schedule_params params = {
        .dtype = DDP_DTYPE_F32, .size = 1, .elem_count = COUNT};
    struct ddp_nccl_run run = {.input = input[0], .output = output[0]};
    struct ddp_nccl_plan *plan = NULL;
    struct ddp_err err = {""};

    CT_REQUIRE_OK(ddp_nccl_plan_create(ddp_mem_system(), &algorithm, &params, &plan, &err));
    CT_REQUIRE_OK(ddp_device_cpu_create(ddp_mem_system(), &run.device));
    run.plan = plan;
    run.workspace = ddp_mem_array(ddp_mem_system(), plan->workspace_bytes, 1);
    for (uint32_t i = 0; i < COUNT; i++) {
        input[0][i] = (float)i;
    }
    CT_CHECK_OK(ddp_nccl_run_kernels(&run, 0, false));
    CT_CHECK(!ddp_nccl_run_has_messages(&run, 0));
    CT_CHECK(output[0][7] == 14.0f && output[0][COUNT - 1] == 2.0f * (COUNT - 1));
    ddp_mem_free(ddp_mem_system(), run.workspace);
    run.device->ops->destroy(run.device);
    ddp_nccl_plan_destroy(ddp_mem_system(), plan);
}

CT_TEST(nccl_plan, what_does_not_fit_rounds_is_refused_by_name)
{
    static const struct {
        const char *name;
        void (*emit)(struct ddp_schedule *schedule);
        const char *text;
    } cases[] = {
        {"relay", emit_relay, "step 1 (round 0) of rank 0 of 2 is a message that waits for one"},
        {"overwrite", emit_overwrite, "is a message that waits for one of its own round"},
        {"skewed", emit_skewed, "meets a peer that has this message in another round"},
        {"backwards", emit_backwards, "waits for a step of a later round"},
        {"crossed", emit_crossed, "meets a peer that has this message in another round"}};
    struct ddp_err err = {""};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        CT_CHECK_STATUS(try_plan(cases[i].name, cases[i].emit, &err), DDP_E_UNSUPPORTED);
        if (strstr(err.text, cases[i].text) == NULL || strstr(err.text, cases[i].name) == NULL) {
            CT_FAIL("\"%s\" does not say \"%s\"", err.text, cases[i].text);
        }
    }
    CT_CHECK_OK(try_plan("exchange", emit_exchange, &err));
}

/* In what 16-bit hooks send, too: two_shot_f32 has other steps there. */
CT_TEST(nccl_plan, algorithms_fit_rounds_in_16_bits)
{
    size_t row_count;
    const struct ddp_algorithm *table = ddp_algorithm_table(&row_count);

    for (size_t row = 0; row < row_count; row++) {
        for (uint32_t size = 1; table[row].kind == DDP_COLL_ALL_REDUCE && size <= 7; size++) {
            const struct ddp_schedule_params params = {.kind = DDP_COLL_ALL_REDUCE,
                                                       .dtype = DDP_DTYPE_BF16,
                                                       .rank = size - 1,
                                                       .size = size,
                                                       .elem_count = 31,
                                                       .segment_elem_count = 3,
                                                       .is_in_place = 1};
            struct ddp_nccl_plan *plan = NULL;
            struct ddp_err err = {""};

            if (ddp_nccl_plan_create(ddp_mem_system(), &table[row], &params, &plan, &err) !=
                DDP_OK) {
                CT_FAIL("%s with %u ranks: %s", table[row].name, size, err.text);
                continue;
            }
            ddp_nccl_plan_destroy(ddp_mem_system(), plan);
        }
    }
}
