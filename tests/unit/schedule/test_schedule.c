/* Schedules as data: the table of algorithms, and the text form is what the header says. That each
 * algorithm is right is proved in tests/unit/coll. */
#include <string.h>

#include "ddpcore/schedule/algorithm.h"
#include "ddpcore/schedule/emit.h"
#include "tests/ct.h"

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
