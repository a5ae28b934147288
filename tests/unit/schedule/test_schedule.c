/* Schedules as data: every built-in algorithm is proved without being run, the prover is shown to
 * notice broken ones, and the text form is what the header says. */
#include <stdio.h>
#include <string.h>

#include "ddpcore/schedule/emit.h"
#include "tests/ct.h"
#include "tests/unit/schedule/schedule_proof.h"

static void check_counts(struct schedule_case *test)
{
    const size_t counts[] = {0, 1, 2, test->size - 1, test->size, test->size + 1, 17, 100};
    char text[SCHEDULE_PROOF_TEXT_BYTES];

    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        test->elem_count = counts[i];
        schedule_prove(test, NULL, text);
        CT_CHECK_STR(text, "");
    }
}

static void check_algorithm(const struct ddp_algorithm *algorithm)
{
    static const size_t segments[] = {0, 1, 5};

    for (uint32_t size = 1; size <= 9; size++) {
        for (uint32_t variant = 0; variant < 6; variant++) {
            struct schedule_case test = {.algorithm = algorithm, .size = size};

            test.segment_elem_count = segments[variant / 2];
            test.is_in_place = variant % 2 == 1;
            test.root = algorithm->kind == DDP_COLL_BROADCAST ? (size + variant) % size : 0;
            check_counts(&test);
        }
    }
}

/* Every algorithm, for every small world and count, in place and not, segmented and not: no
 * deadlock without buffering, matching counts, each contribution exactly once, no unordered
 * conflict. */
#define X(id, kind, name, emit, segment_bytes, meaning)                           \
    CT_TEST(schedule_proof, id)                                                   \
    {                                                                             \
        check_algorithm(ddp_algorithm_find(DDP_COLL_##kind, DDP_ALGORITHM_##id)); \
    }
#include "ddpcore/schedule/algorithm.def"
#undef X

/* Names are unique, and each is found by its own kind only. */
CT_TEST(schedule, names)
{
    size_t count;
    const struct ddp_algorithm *table = ddp_algorithm_table(&count);

    for (size_t i = 0; i < count; i++) {
        for (int kind = 0; kind < DDP_COLL_KIND_COUNT; kind++) {
            enum ddp_algorithm_id id = DDP_ALGORITHM_COUNT;
            bool is_own = kind == (int)table[i].kind;

            CT_CHECK_STATUS(ddp_algorithm_parse(table[i].name, (enum ddp_coll_kind)kind, &id),
                            is_own ? DDP_OK : DDP_E_NOT_FOUND);
            CT_CHECK(id == (is_own ? table[i].id : DDP_ALGORITHM_NONE));
            CT_CHECK(is_own ==
                     (ddp_algorithm_find((enum ddp_coll_kind)kind, table[i].id) == &table[i]));
        }
        CT_CHECK_STR(ddp_algorithm_name(table[i].id), table[i].name);
    }
    CT_CHECK_STR(ddp_algorithm_name(DDP_ALGORITHM_NONE), "none");
}

/* NONE stands for the first row of a kind; the longest message is the row's unless one is given. */
CT_TEST(schedule, defaults)
{
    const struct ddp_algorithm *ring = ddp_algorithm_find(DDP_COLL_ALL_REDUCE, DDP_ALGORITHM_NONE);

    CT_CHECK(ring->id == DDP_ALGORITHM_RING);
    CT_CHECK_EQ_U64(ddp_algorithm_segment_elem_count(ring, 0, DDP_DTYPE_F32), 1 << 18);
    CT_CHECK_EQ_U64(ddp_algorithm_segment_elem_count(ring, 10, DDP_DTYPE_F32), 2);
    CT_CHECK_EQ_U64(ddp_algorithm_segment_elem_count(ring, 1, DDP_DTYPE_F32), 1);
}

/* A larger count, once for each algorithm. */
CT_TEST(schedule, thousand_elements)
{
    size_t count;
    const struct ddp_algorithm *table = ddp_algorithm_table(&count);

    for (size_t i = 0; i < count; i++) {
        struct schedule_case test = {
            .algorithm = &table[i], .size = 6, .elem_count = 1000, .segment_elem_count = 64};
        char text[SCHEDULE_PROOF_TEXT_BYTES];

        schedule_prove(&test, NULL, text);
        CT_CHECK_STR(text, "");
    }
}

static void drop_dependencies(struct ddp_schedule *schedule)
{
    for (size_t i = 0; i < schedule->step_count; i++) {
        schedule->steps[i].dep_count = 0;
    }
}

static void shift_message(struct ddp_schedule *schedule)
{
    for (size_t i = 0; i < schedule->step_count; i++) {
        if (schedule->steps[i].kind == DDP_STEP_SEND) {
            schedule->steps[i].src.first = 0;
        }
    }
}

static void drop_last_step(struct ddp_schedule *schedule)
{
    schedule->step_count--;
}

static void reduce_becomes_copy(struct ddp_schedule *schedule)
{
    for (size_t i = 0; i < schedule->step_count; i++) {
        if (schedule->steps[i].kind == DDP_STEP_RECV_REDUCE) {
            schedule->steps[i].kind = DDP_STEP_RECV;
        }
    }
}

static void shorten_message(struct ddp_schedule *schedule)
{
    schedule->steps[0].src.elem_count--;
}

static void send_unwritten(struct ddp_schedule *schedule)
{
    uint32_t scratch = ddp_schedule_add_scratch(schedule, DDP_DTYPE_F32, 100);

    schedule->steps[0].src.buffer = DDP_BUFFER_SCRATCH;
    schedule->steps[0].src.scratch = scratch;
}

static void read_past_the_end(struct ddp_schedule *schedule)
{
    schedule->steps[0].src.first = schedule->params.elem_count;
}

static void send_bytes(struct ddp_schedule *schedule)
{
    uint32_t scratch = ddp_schedule_add_scratch(schedule, DDP_DTYPE_U8, 100);

    schedule->steps[0].src.buffer = DDP_BUFFER_SCRATCH;
    schedule->steps[0].src.scratch = scratch;
}

static void overlap_itself(struct ddp_schedule *schedule)
{
    struct ddp_step step = {.kind = DDP_STEP_COPY,
                            .dst = {DDP_BUFFER_OUTPUT, 0, 1, 2},
                            .src = {DDP_BUFFER_OUTPUT, 0, 0, 2}};

    for (uint32_t i = 0; i < DDP_STEP_DEPS_MAX; i++) {
        step.dep[step.dep_count++] = (uint32_t)schedule->step_count - 1 - i;
    }
    (void)ddp_schedule_add(schedule, &step);
}

/* The prover notices a broken schedule, each with its own verdict and words. */
CT_TEST(schedule, prover_notices)
{
    static const struct {
        void (*mutate)(struct ddp_schedule *schedule);
        const char *expected, *words;
    } mutants[] = {
        {drop_dependencies, "VALUE.CORRUPTED", "without an order"},
        {shift_message, "VALUE.SHIFTED", "adds elements from 0 to elements from"},
        {drop_last_step, "HANG.CYCLE", "waits for ever"},
        {reduce_becomes_copy, "VALUE.LOST", "contribution"},
        {shorten_message, "MISMATCH.COUNT", "takes 4 elements, step 0 of rank 0 sends 3"},
        {send_unwritten, "VALUE.LOST", "uses elements that nobody wrote"},
        {read_past_the_end, "PARSE", "range outside of its buffer"},
        {send_bytes, "MISMATCH.DTYPE", "takes elements of u8 as f32"},
        {overlap_itself, "VALUE.CORRUPTED", "without an order"},
    };
    const struct schedule_case test = {
        .algorithm = ddp_algorithm_find(DDP_COLL_ALL_REDUCE, DDP_ALGORITHM_RING),
        .size = 4,
        .elem_count = 16,
        .is_in_place = true,
    };

    for (size_t i = 0; i < sizeof(mutants) / sizeof(mutants[0]); i++) {
        char text[SCHEDULE_PROOF_TEXT_BYTES];

        schedule_prove(&test, mutants[i].mutate, text);
        if (strstr(text, mutants[i].expected) == NULL || strstr(text, mutants[i].words) == NULL) {
            CT_FAIL("mutant %zu: \"%s\" does not say \"%s\" and \"%s\"", i, text,
                    mutants[i].expected, mutants[i].words);
        }
    }
}

/* Rank 0 sends each signal without waiting for those that it should pass on. */
static void signal_early(struct ddp_schedule *schedule)
{
    for (size_t i = 0; i < schedule->step_count; i++) {
        if (schedule->steps[i].kind == DDP_STEP_SEND) {
            schedule->steps[i].dep_count = 0;
        }
    }
}

static void read_own_input(struct ddp_schedule *schedule)
{
    struct ddp_step step = {.kind = DDP_STEP_COPY,
                            .dst = {DDP_BUFFER_OUTPUT, 0, 0, 1},
                            .src = {DDP_BUFFER_INPUT, 0, 0, 1},
                            .dep_count = 1};

    (void)ddp_schedule_add(schedule, &step);
}

/* What is special about a kind: a barrier's signals, a broadcast's inputs. */
CT_TEST(schedule, prover_knows_the_kinds)
{
    const struct schedule_case barrier = {
        .algorithm = ddp_algorithm_find(DDP_COLL_BARRIER, DDP_ALGORITHM_NONE), .size = 5};
    const struct schedule_case broadcast = {
        .algorithm = ddp_algorithm_find(DDP_COLL_BROADCAST, DDP_ALGORITHM_NONE),
        .size = 3,
        .elem_count = 4,
        .root = 1};
    char text[SCHEDULE_PROOF_TEXT_BYTES];

    schedule_prove(&barrier, signal_early, text);
    CT_CHECK(strstr(text, "VALUE.LOST") != NULL);
    CT_CHECK(strstr(text, "leaves the barrier before rank") != NULL);
    schedule_prove(&broadcast, read_own_input, text);
    CT_CHECK(strstr(text, "VALUE.LOST") != NULL);
    CT_CHECK(strstr(text, "of rank 0 uses elements that nobody wrote") != NULL);
}

/* A schedule declares at most DDP_SCHEDULE_SCRATCH_MAX scratch buffers. */
CT_TEST(schedule, scratch_is_bounded)
{
    const struct ddp_schedule_params params = {
        .kind = DDP_COLL_ALL_REDUCE, .dtype = DDP_DTYPE_F32, .size = 1, .elem_count = 1};
    struct ddp_schedule schedule;

    ddp_schedule_init(&schedule, ddp_mem_system(), "test", &params);
    for (uint32_t i = 0; i < DDP_SCHEDULE_SCRATCH_MAX; i++) {
        CT_CHECK_EQ_U64(ddp_schedule_add_scratch(&schedule, DDP_DTYPE_F32, 1), i);
    }
    CT_CHECK_OK(schedule.status);
    (void)ddp_schedule_add_scratch(&schedule, DDP_DTYPE_F32, 1);
    CT_CHECK_STATUS(schedule.status, DDP_E_OVERFLOW);
    ddp_schedule_fini(&schedule);
}

/* Emission is pure: the same parameters give the same text. */
CT_TEST(schedule, emission_is_pure)
{
    size_t count;
    const struct ddp_algorithm *table = ddp_algorithm_table(&count);

    for (size_t i = 0; i < count; i++) {
        struct ddp_text text[2];

        for (int j = 0; j < 2; j++) {
            struct ddp_schedule schedule;
            const struct ddp_schedule_params params = {.kind = table[i].kind,
                                                       .dtype = DDP_DTYPE_F32,
                                                       .rank = 1,
                                                       .size = 5,
                                                       .elem_count = 33,
                                                       .segment_elem_count = 4};

            ddp_schedule_init(&schedule, ddp_mem_system(), table[i].name, &params);
            table[i].emit(&schedule);
            ddp_text_init(&text[j], ddp_mem_system());
            ddp_schedule_print(&schedule, &text[j]);
            ddp_schedule_fini(&schedule);
        }
        CT_CHECK_STR(ddp_text_str(&text[0]), ddp_text_str(&text[1]));
        ddp_text_fini(&text[0]);
        ddp_text_fini(&text[1]);
    }
}

/* The text form. */
CT_TEST(schedule, text_form)
{
    const struct ddp_schedule_params params = {.kind = DDP_COLL_ALL_REDUCE,
                                               .dtype = DDP_DTYPE_F32,
                                               .rank = 0,
                                               .size = 2,
                                               .elem_count = 3,
                                               .is_in_place = 1};
    struct ddp_schedule schedule;
    struct ddp_text text;

    ddp_schedule_init(&schedule, ddp_mem_system(), "ring", &params);
    ddp_algorithm_find(DDP_COLL_ALL_REDUCE, DDP_ALGORITHM_RING)->emit(&schedule);
    ddp_text_init(&text, ddp_mem_system());
    ddp_schedule_print(&schedule, &text);
    CT_CHECK_STR(ddp_text_str(&text),
                 "schedule 1 kind=all_reduce algorithm=ring rank=0 size=2 count=3 dtype=f32 root=0 "
                 "in_place=1\n"
                 "0 round=0 send peer=1 src=out:0+2 deps=\n"
                 "1 round=0 recv_reduce peer=1 dst=out:2+1 deps=\n"
                 "2 round=1 send peer=1 src=out:2+1 deps=1\n"
                 "3 round=1 recv peer=1 dst=out:0+2 deps=0\n");
    ddp_text_fini(&text);
    ddp_schedule_fini(&schedule);
}

/* Without memory an emission ends with NOMEM and can be cleaned up. */
CT_TEST(schedule, out_of_memory)
{
    for (uint64_t allowed = 0; allowed < 8; allowed++) {
        const struct ddp_schedule_params params = {
            .kind = DDP_COLL_ALL_REDUCE, .dtype = DDP_DTYPE_F32, .size = 8, .elem_count = 100};
        struct ddp_mem_pool *pool;
        struct ddp_schedule schedule;

        CT_REQUIRE_OK(ddp_mem_pool_create(&pool));
        ddp_mem_pool_fail_after(pool, allowed, -1);
        ddp_schedule_init(&schedule, ddp_mem_pool_mem(pool), "ring", &params);
        ddp_emit_ring(&schedule);
        CT_CHECK(schedule.status == DDP_OK || schedule.status == DDP_E_NOMEM);
        CT_CHECK(allowed > 0 || schedule.status == DDP_E_NOMEM);
        ddp_schedule_fini(&schedule);
        CT_CHECK_EQ_U64(ddp_mem_pool_block_count(pool), 0);
        ddp_mem_pool_destroy(pool);
    }
}

/* Chunks differ by at most one element and cover everything in order. */
CT_TEST(schedule, even_split)
{
    for (uint32_t parts = 1; parts <= 9; parts++) {
        for (size_t count = 0; count <= 30; count++) {
            size_t next = 0;

            for (uint32_t i = 0; i < parts; i++) {
                struct ddp_part part = ddp_emit_split(count, parts, i);

                CT_CHECK_EQ_U64(part.first, next);
                CT_CHECK(part.elem_count >= count / parts && part.elem_count <= count / parts + 1);
                next += part.elem_count;
            }
            CT_CHECK_EQ_U64(next, count);
        }
    }
}
