/* Verdict tables, outcomes and rank sets. */
#include <string.h>

#include "harness/verdict/verdict.h"
#include "tests/ct.h"

/* Every verdict's name reads back to itself, and none is a prefix trap. */
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

/* Oracles and modes have names; values are compared in the order of a step's stages. */
CT_TEST(verdict, oracles_and_modes)
{
    static const enum harness_oracle_id stages[] = {
        HARNESS_ORACLE_GRADIENT, HARNESS_ORACLE_REDUCTION,    HARNESS_ORACLE_UPDATE,
        HARNESS_ORACLE_REPLICAS, HARNESS_ORACLE_GLOBAL_BATCH, HARNESS_ORACLE_RESTORE};

    CT_CHECK(harness_oracle_name(HARNESS_ORACLE_NONE) == NULL);
    CT_CHECK_STR(harness_oracle_name(HARNESS_ORACLE_GLOBAL_BATCH), "global_batch");
    CT_CHECK(harness_oracle_is_checker(HARNESS_ORACLE_EVIDENCE));
    CT_CHECK(!harness_oracle_is_checker(HARNESS_ORACLE_MONITOR));
    CT_CHECK_EQ_I64(harness_oracle_stage(HARNESS_ORACLE_MONITOR), 0);
    for (unsigned i = 0; i < sizeof stages / sizeof stages[0]; i++) {
        CT_CHECK_EQ_I64(harness_oracle_stage(stages[i]), i + 1);
    }
    CT_CHECK(harness_mode_name(HARNESS_MODE_NONE) == NULL);
    for (unsigned i = 1; i < HARNESS_MODE_COUNT; i++) {
        enum harness_mode parsed = HARNESS_MODE_NONE;

        CT_CHECK_OK(harness_mode_parse(harness_mode_name((enum harness_mode)i), &parsed));
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

/* Sets hold any rank, first and last, and compare as sets. */
CT_TEST(verdict, rank_sets)
{
    struct harness_rank_set a = {{0}};
    struct harness_rank_set b = {{0}};

    CT_CHECK(harness_rank_set_is_empty(&a));
    harness_rank_set_add(&a, 0);
    harness_rank_set_add(&a, HARNESS_RANKS_MAX - 1);
    harness_rank_set_add(&b, HARNESS_RANKS_MAX - 1);
    CT_CHECK(harness_rank_set_has(&a, HARNESS_RANKS_MAX - 1));
    CT_CHECK(!harness_rank_set_has(&a, 1));
    CT_CHECK(!harness_rank_set_has(&a, HARNESS_RANKS_MAX));
    CT_CHECK(harness_rank_set_is_subset(&b, &a));
    CT_CHECK(!harness_rank_set_is_subset(&a, &b));
    CT_CHECK_EQ_U64(harness_rank_set_count(&a), 2);
    harness_rank_set_add(&b, 0);
    CT_CHECK(harness_rank_set_is_equal(&a, &b));
}

/* Findings keep their order and contents while the array grows. */
CT_TEST(verdict, findings_grow)
{
    struct harness_findings findings;
    struct harness_finding finding;

    harness_findings_init(&findings, ddp_mem_system());
    for (int32_t i = 0; i < 100; i++) {
        harness_finding_init(&finding, HARNESS_VERDICT_VALUE_LOST, HARNESS_ORACLE_REDUCTION,
                             HARNESS_MODE_BITWISE);
        finding.step = i;
        harness_findings_add(&findings, &finding);
    }
    CT_REQUIRE(findings.count == 100);
    for (int32_t i = 0; i < 100; i++) {
        CT_CHECK_EQ_I64(findings.items[i].step, i);
    }
    CT_CHECK(!findings.is_failed);
    harness_findings_fini(&findings);
}
