/* What a job posts: texts, and what goes in. */
#include <math.h>
#include <string.h>

#include "harness/plan/posted.h"
#include "tests/ct.h"

CT_TEST(posted, texts_are_read)
{
    struct harness_posted posted;
    struct ddp_err err;

    CT_REQUIRE_OK(
        harness_posted_parse("reduce  bf16 64 max root 3 by binomial_reduce", &posted, &err));
    CT_CHECK(posted.kind == DDP_COLL_REDUCE && posted.dtype == DDP_DTYPE_BF16);
    CT_CHECK(posted.redop == DDP_REDOP_MAX && posted.root == 3 && posted.elem_count == 64);
    CT_CHECK(posted.algorithm == DDP_ALGORITHM_BINOMIAL_REDUCE);
    CT_REQUIRE_OK(harness_posted_parse("all_to_all u8 0", &posted, &err));
    CT_CHECK(posted.kind == DDP_COLL_ALL_TO_ALL && posted.elem_count == 0);
    CT_CHECK(posted.redop == DDP_REDOP_SUM && posted.algorithm == DDP_ALGORITHM_NONE);
    CT_REQUIRE_OK(harness_posted_parse("barrier", &posted, &err));
    CT_CHECK(posted.kind == DDP_COLL_BARRIER && posted.group[0] == '\0');
    CT_REQUIRE_OK(
        harness_posted_parse("reduce f32 9 max root 1 by binomial_reduce in pair", &posted, &err));
    CT_CHECK(posted.algorithm == DDP_ALGORITHM_BINOMIAL_REDUCE && posted.root == 1);
    CT_CHECK_STR(posted.group, "pair");
    CT_CHECK(!posted.is_in_place);
    CT_REQUIRE_OK(
        harness_posted_parse("reduce f32 9 min root 1 in_place by binomial_reduce", &posted, &err));
    CT_CHECK(posted.is_in_place && posted.algorithm == DDP_ALGORITHM_BINOMIAL_REDUCE);
    /* Everything that there is. */
    CT_REQUIRE_OK(harness_posted_parse(
        "reduce f32 9 max root 1 in_place by binomial_reduce in pair", &posted, &err));
    CT_CHECK(posted.is_in_place && posted.redop == DDP_REDOP_MAX && posted.root == 1);
    CT_CHECK_STR(posted.group, "pair");
    CT_CHECK_STATUS(harness_posted_parse("barrier in_place", &posted, &err), DDP_E_PARSE);
}

CT_TEST(posted, groups_are_read)
{
    const char *items[] = {"low 0 1", "high_2  2 3 63"};
    const struct harness_job job = {.groups = {items, 2}};
    struct harness_posted posted;
    struct harness_group group;
    struct ddp_err err;
    uint32_t number = 9;

    CT_REQUIRE_OK(harness_group_parse(items[1], &group, &err));
    CT_CHECK_STR(group.name, "high_2");
    CT_CHECK(group.rank_count == 3 && group.ranks[0] == 2 && group.ranks[2] == 63);
    CT_CHECK_EQ_U64(harness_group_member(&group, 3), 1);
    CT_CHECK_EQ_U64(harness_group_member(&group, 1), 3); /* it is not in it */
    CT_REQUIRE_OK(harness_posted_parse("barrier in high_2", &posted, &err));
    CT_REQUIRE_OK(harness_posted_group(&posted, &job, &number, &group, &err));
    CT_CHECK_EQ_U64(number, 2);
    CT_CHECK(group.comm != 0);
    CT_REQUIRE_OK(harness_posted_parse("barrier", &posted, &err));
    CT_REQUIRE_OK(harness_posted_group(&posted, &job, &number, &group, &err));
    CT_CHECK_EQ_U64(number, 0);
    CT_REQUIRE_OK(harness_posted_parse("barrier in none", &posted, &err));
    CT_CHECK_STATUS(harness_posted_group(&posted, &job, &number, &group, &err), DDP_E_NOT_FOUND);
}

CT_TEST(posted, broken_groups_are_refused)
{
    static const char *const texts[] = {"",
                                        " ",
                                        "a",
                                        "A 0",
                                        "a-b 0",
                                        "a x",
                                        "a 0 0",
                                        "a 1 0",
                                        "a 4294967296",
                                        "a 0 -1",
                                        "a_name_of_more_than_thirty_one_bytes 0"};

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct harness_group group;
        struct ddp_err err = {""};

        CT_CHECK_STATUS(harness_group_parse(texts[i], &group, &err), DDP_E_PARSE);
        CT_CHECK(strstr(err.text, "as in") != NULL);
    }
}

CT_TEST(posted, broken_texts_are_refused)
{
    static const char *const texts[] = {
        "",
        "sum f32 1",
        "reduce",
        "reduce f64 1",
        "reduce f32 1048577",
        "reduce f32 -1",
        "reduce f32 1 prod",
        "reduce i32 1 root",
        "broadcast f32 1 max",
        "all_gather f32 1 root 0",
        "all_reduce f32 1 by ring",
        "reduce_scatter f32 1 by",
        "broadcast f32 1 root 0 by binomial_broadcast and more",
        "a b c d e f g h i j k l",
        "barrier in",
        "monitored_barrier in pair",
        "barrier in a_name_of_more_than_thirty_one_bytes",
        "a-word-that-is-much-longer-than-any-name-of-anything-here-could-ever-be f32 1",
    };

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct harness_posted posted;
        struct ddp_err err = {""};

        CT_CHECK_STATUS(harness_posted_parse(texts[i], &posted, &err), DDP_E_PARSE);
        CT_CHECK(strstr(err.text, "as in") != NULL);
    }
}

/* Finite, no zeros among floats, and of its own for every step, place and rank. */
CT_TEST(posted, inputs_differ)
{
    struct harness_posted posted;
    float data[4][1000];
    struct ddp_err err;

    CT_REQUIRE_OK(harness_posted_parse("all_reduce f32 1000", &posted, &err));
    harness_posted_fill(&posted, 1, 0, 0, 0, 1000, data[0]);
    harness_posted_fill(&posted, 1, 1, 0, 0, 1000, data[1]);
    harness_posted_fill(&posted, 1, 0, 1, 0, 1000, data[2]);
    harness_posted_fill(&posted, 1, 0, 0, 1, 1000, data[3]);
    for (size_t i = 0; i < 4; i++) {
        for (size_t e = 0; e < 1000; e++) {
            CT_CHECK(fabsf(data[i][e]) > 1e-3f && fabsf(data[i][e]) < 10.0f);
        }
        for (size_t j = 0; j < i; j++) {
            CT_CHECK(memcmp(data[i], data[j], sizeof data[i]) != 0);
        }
    }
    harness_posted_fill(&posted, 1, 0, 0, 0, 1000, data[1]);
    CT_CHECK(memcmp(data[0], data[1], sizeof data[0]) == 0);
}
