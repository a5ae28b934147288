/* Verdict tables, outcomes and rank sets. */
#include <string.h>

#include "harness/verdict/verdict.h"
#include "tests/ct.h"

/* Every verdict's name reads back to itself; a part of a name is none. */
CT_TEST(verdict, names_round_trip)
{
    for (unsigned i = 0; i < HARNESS_VERDICT_COUNT; i++) {
        enum harness_verdict parsed = HARNESS_VERDICT_NONE;

        CT_CHECK_OK(harness_verdict_parse(harness_verdict_name((enum harness_verdict)i), &parsed));
        CT_CHECK_EQ_U64(parsed, i);
        CT_CHECK(harness_verdict_meaning((enum harness_verdict)i)[0] != '\0');
    }
    enum harness_verdict unused;
    CT_CHECK_STATUS(harness_verdict_parse("CRASH", &unused), DDP_E_NOT_FOUND);
    CT_CHECK_STATUS(harness_verdict_parse("", &unused), DDP_E_NOT_FOUND);
}

/* Every verdict belongs to the family that its name begins with. */
CT_TEST(verdict, families)
{
    CT_CHECK_EQ_U64(harness_verdict_family(HARNESS_VERDICT_NONE), HARNESS_FAMILY_NONE);
    CT_CHECK_EQ_U64(harness_verdict_family(HARNESS_VERDICT_CRASH_LAUNCHER), HARNESS_FAMILY_CRASH);
    CT_CHECK_EQ_U64(harness_verdict_family(HARNESS_VERDICT_RESOURCE_LEAK), HARNESS_FAMILY_RESOURCE);
    for (unsigned i = 2; i < HARNESS_VERDICT_COUNT; i++) {
        const char *a = harness_verdict_name((enum harness_verdict)(i - 1));
        const char *b = harness_verdict_name((enum harness_verdict)i);
        bool is_same = strcspn(a, ".") == strcspn(b, ".") && strncmp(a, b, strcspn(a, ".")) == 0;

        CT_CHECK_EQ_U64(is_same, harness_verdict_family((enum harness_verdict)(i - 1)) ==
                                     harness_verdict_family((enum harness_verdict)i));
    }
}

/* Oracles and modes have names. */
CT_TEST(verdict, oracles_and_modes)
{
    CT_CHECK(harness_oracle_name(HARNESS_ORACLE_NONE) == NULL);
    CT_CHECK_STR(harness_oracle_name(HARNESS_ORACLE_GLOBAL_BATCH), "global_batch");
    CT_CHECK(harness_oracle_is_checker(HARNESS_ORACLE_EVIDENCE));
    CT_CHECK(!harness_oracle_is_checker(HARNESS_ORACLE_MONITOR));
    CT_CHECK(harness_mode_name(HARNESS_MODE_NONE) == NULL);
    for (unsigned i = 1; i < HARNESS_MODE_COUNT; i++) {
        enum harness_mode parsed = HARNESS_MODE_NONE;

        CT_CHECK_OK(harness_mode_parse(harness_mode_name((enum harness_mode)i), &parsed));
        CT_CHECK_EQ_U64(parsed, i);
    }
    for (unsigned i = 1; i < HARNESS_ORACLE_COUNT; i++) {
        enum harness_oracle_id parsed = HARNESS_ORACLE_NONE;

        CT_CHECK_OK(harness_oracle_parse(harness_oracle_name((enum harness_oracle_id)i), &parsed));
        CT_CHECK_EQ_U64(parsed, i);
    }
    enum harness_mode unused;
    CT_CHECK_STATUS(harness_mode_parse("guess", &unused), DDP_E_NOT_FOUND);
}

/* Exit codes are the documented ones, and ERROR never becomes success. */
CT_TEST(verdict, exit_codes)
{
    CT_CHECK_EQ_I64(harness_outcome_exit_code(HARNESS_OUTCOME_PASS), 0);
    CT_CHECK_EQ_I64(harness_outcome_exit_code(HARNESS_OUTCOME_FAIL), 1);
    CT_CHECK_EQ_I64(harness_outcome_exit_code(HARNESS_OUTCOME_ERROR), 3);
    CT_CHECK_EQ_I64(harness_outcome_exit_code(HARNESS_OUTCOME_INCONCLUSIVE), 4);
    CT_CHECK_EQ_I64(harness_outcome_exit_code(HARNESS_OUTCOME_SKIP), 77);
}

/* Of two outcomes the worse one counts, in both orders; SKIP loses to PASS. */
CT_TEST(verdict, worse_outcome)
{
    static const enum harness_outcome order[] = {HARNESS_OUTCOME_SKIP, HARNESS_OUTCOME_PASS,
                                                 HARNESS_OUTCOME_INCONCLUSIVE, HARNESS_OUTCOME_FAIL,
                                                 HARNESS_OUTCOME_ERROR};

    for (unsigned i = 0; i < 5; i++) {
        for (unsigned k = 0; k < 5; k++) {
            CT_CHECK_EQ_U64(harness_outcome_worse(order[i], order[k]), order[i > k ? i : k]);
        }
    }
}

/* Sets hold any rank, in rising order, and compare as sets. */
CT_TEST(verdict, rank_sets)
{
    struct ddp_mem_pool *pool = NULL;
    struct harness_rank_set a;
    struct harness_rank_set b;
    char text[HARNESS_RANKS_TEXT_BYTES];

    CT_REQUIRE_OK(ddp_mem_pool_create(&pool));
    a = harness_rank_set_in(ddp_mem_pool_mem(pool));
    b = a;
    CT_CHECK(harness_rank_set_is_empty(&a));
    CT_CHECK_STR(harness_rank_set_text(&a, text), "none");
    harness_rank_set_add(&a, UINT32_MAX);
    harness_rank_set_add(&a, 0);
    harness_rank_set_add(&b, UINT32_MAX);
    CT_CHECK(harness_rank_set_has(&a, UINT32_MAX));
    CT_CHECK(!harness_rank_set_has(&a, 1));
    CT_CHECK(harness_rank_set_is_subset(&b, &a));
    CT_CHECK(!harness_rank_set_is_subset(&a, &b));
    CT_CHECK(!harness_rank_set_is_equal(&a, &b));
    CT_CHECK(harness_rank_set_is_common(&a, &b));
    CT_CHECK_EQ_U64(harness_rank_set_count(&a), 2);
    CT_CHECK_EQ_U64(harness_rank_set_at(&a, 0), 0);
    CT_CHECK_STR(harness_rank_set_text(&a, text), "0,4294967295");
    harness_rank_set_add_all(&b, &a);
    CT_CHECK(harness_rank_set_is_equal(&a, &b));
    harness_rank_set_clear(&b);
    CT_CHECK(harness_rank_set_is_empty(&b) && !harness_rank_set_is_common(&a, &b));
    CT_CHECK_EQ_U64(harness_rank_set_count(&a), 2);
    ddp_mem_pool_destroy(pool);
}

/* Thousands of ranks are all kept; a text names the first of them and counts the others. */
CT_TEST(verdict, sets_of_any_size)
{
    enum { COUNT = 5000 };
    struct ddp_mem_pool *pool = NULL;
    struct harness_rank_set up;
    struct harness_rank_set down;
    char text[HARNESS_RANKS_TEXT_BYTES];

    CT_REQUIRE_OK(ddp_mem_pool_create(&pool));
    up = harness_rank_set_in(ddp_mem_pool_mem(pool));
    down = up;
    for (uint32_t i = 0; i < COUNT; i++) {
        harness_rank_set_add(&up, 2 * i);
        harness_rank_set_add(&up, i);
        harness_rank_set_add(&down, 2 * (COUNT - 1 - i));
        harness_rank_set_add(&down, COUNT - 1 - i);
    }
    CT_CHECK_EQ_U64(harness_rank_set_count(&up), COUNT + COUNT / 2);
    CT_CHECK(harness_rank_set_is_equal(&up, &down));
    for (uint32_t i = 0; i + 1 < harness_rank_set_count(&up); i++) {
        CT_CHECK(harness_rank_set_at(&up, i) < harness_rank_set_at(&up, i + 1));
    }
    CT_CHECK_STR(harness_rank_set_text(&up, text), "0,1,2,3,4,5,6,7 and 7492 more");
    for (uint32_t i = 0; i < 9; i++) {
        harness_rank_set_add(&down, UINT32_MAX - i);
    }
    CT_CHECK(!down.ranks.is_failed);
    ddp_mem_pool_destroy(pool);
}

/* Adding to a copy, behind its numbers or between them, leaves the original as it is. */
CT_TEST(verdict, copies_are_values)
{
    for (uint32_t count = 0; count < 20; count++) {
        struct ddp_mem_pool *pool = NULL;
        struct harness_rank_set original;
        struct harness_rank_set copies[3];

        CT_REQUIRE_OK(ddp_mem_pool_create(&pool));
        original = harness_rank_set_in(ddp_mem_pool_mem(pool));
        for (uint32_t i = 0; i < count; i++) {
            harness_rank_set_add(&original, 10 + 2 * i);
        }
        for (uint32_t c = 0; c < 3; c++) {
            copies[c] = original;
        }
        harness_rank_set_add(&copies[0], 1000);
        harness_rank_set_add(&copies[1], 2000);
        harness_rank_set_add(&copies[2], 3);
        harness_rank_set_add(&copies[2], 13);
        CT_CHECK_EQ_U64(harness_rank_set_count(&original), count);
        for (uint32_t i = 0; i < count; i++) {
            CT_CHECK_EQ_U64(harness_rank_set_at(&original, i), 10 + 2 * i);
        }
        for (uint32_t c = 0; c < 3; c++) {
            CT_CHECK_EQ_U64(harness_rank_set_count(&copies[c]), count + (c == 2 ? 2 : 1));
            CT_CHECK(harness_rank_set_is_subset(&original, &copies[c]));
        }
        CT_CHECK(harness_rank_set_has(&copies[0], 1000) && !harness_rank_set_has(&copies[0], 2000));
        CT_CHECK(harness_rank_set_has(&copies[1], 2000) && !harness_rank_set_has(&copies[1], 1000));
        ddp_mem_pool_destroy(pool);
    }
}

/* A set for which there was no memory says so, and so do the findings that it is added to. */
CT_TEST(verdict, no_memory_is_no_silent_cut)
{
    struct ddp_mem_pool *pool = NULL;
    struct harness_findings findings;
    struct harness_finding finding;

    CT_REQUIRE_OK(ddp_mem_pool_create(&pool));
    harness_findings_init(&findings, ddp_mem_pool_mem(pool));
    harness_finding_init(&finding, findings.mem, HARNESS_VERDICT_VALUE_LOST,
                         HARNESS_ORACLE_REDUCTION, HARNESS_MODE_BITWISE);
    ddp_mem_pool_fail_after(pool, 0, 1);
    harness_rank_set_add(&finding.culprits, 3);
    CT_CHECK(harness_finding_is_failed(&finding));
    harness_findings_add(&findings, &finding);
    CT_CHECK(findings.is_failed);
    ddp_mem_pool_destroy(pool);
}

/* Findings keep their order and contents while the array grows. */
CT_TEST(verdict, findings_grow)
{
    struct ddp_mem_pool *pool = NULL;
    struct harness_findings findings;
    struct harness_finding finding;

    CT_REQUIRE_OK(ddp_mem_pool_create(&pool));
    harness_findings_init(&findings, ddp_mem_system());
    for (int32_t i = 0; i < 100; i++) {
        harness_finding_init(&finding, ddp_mem_pool_mem(pool), HARNESS_VERDICT_VALUE_LOST,
                             HARNESS_ORACLE_REDUCTION, HARNESS_MODE_BITWISE);
        finding.step = i;
        for (uint32_t param = 0; param < 100; param++) {
            harness_finding_add_param(&finding, 99 - param);
            harness_finding_add_param(&finding, 99 - param);
        }
        harness_findings_add(&findings, &finding);
    }
    ddp_mem_pool_destroy(pool); /* what was added is a copy */
    CT_REQUIRE(findings.count == 100);
    for (int32_t i = 0; i < 100; i++) {
        CT_CHECK_EQ_I64(findings.items[i].step, i);
        CT_CHECK_EQ_U64(findings.items[i].params.count, 100);
        CT_CHECK_EQ_U64(harness_list_at(&findings.items[i].params, 99), 0);
        CT_CHECK(harness_rank_set_is_empty(&findings.items[i].culprits));
    }
    CT_CHECK(!findings.is_failed);
    harness_findings_fini(&findings);
}
