/* Causes: rows of the table in harness/judge/cause.c on synthetic findings, once with the path and
 * once with a path that breaks in one place: another rank, operation or step. */
#include "harness/judge/order.h"
#include "tests/ct.h"
#include "tests/unit/judge/cause_bench.h"

static const struct cause_row waits_rows[] = {
    {"death, wait",
     CRASH_1,
     {MONITOR(HANG_CYCLE), .ranks = BIT(0) | BIT(2), .step = 4, BUCKET(12, 0)},
     "wait"},
    {"death, wait of a rank that completed it",
     CRASH_1,
     {MONITOR(HANG_CYCLE), .ranks = BIT(0) | BIT(3), .step = 4, BUCKET(12, 0)},
     NULL},
    {"death, wait in what it had completed",
     CRASH_1,
     {MONITOR(HANG_CYCLE), .ranks = BIT(0) | BIT(2), .step = 3, BUCKET(10, 0)},
     NULL},
    {"death, stop of another", CRASH_1, STOP_2, NULL},
    {"death of the store, ranks that meet there",
     {FOUND(CRASH_STORE, LAUNCHER), .step = -1},
     {MONITOR(HANG_CYCLE), .ranks = BIT(0) | BIT(2), .step = -1},
     "wait"},
    {"death of the store, a wait in a collective",
     {FOUND(CRASH_STORE, LAUNCHER), .step = -1},
     {MONITOR(HANG_CYCLE), .ranks = BIT(0) | BIT(2), .step = 4, BUCKET(12, 0)},
     NULL},
    {"death, silence of another",
     CRASH_1,
     {MONITOR(HANG_HOST), .ranks = BIT(2), .step = 4, BUCKET(12, 0)},
     NULL},
    {"death, recovery",
     CRASH_1,
     {MONITOR(HANG_RECOVERY), .ranks = BIT(0) | BIT(2), .step = 4, BUCKET(12, 0)},
     NULL},
    {"death, time-out for that rank", CRASH_1, TIMEOUT_12, "wait"},
    {"death, time-out for another",
     CRASH_1,
     {REPORTED(HANG_NOT_JOINED), .ranks = BIT(3), .victims = BIT(0), .step = 4, BUCKET(13, 1)},
     NULL},
    {"stop, time-out for it",
     STOP_2,
     {REPORTED(HANG_NOT_JOINED), .ranks = BIT(2), .victims = BIT(0), .step = 4, BUCKET(13, 1)},
     "wait"},
    {"stop, time-out for another", STOP_2, TIMEOUT_12, NULL},
    {"ended, wait", EARLY_1, TIMEOUT_12, "wait"},
    {"misuse, wait", UNUSED_1, TIMEOUT_12, "wait"},
    {"no memory, failure in a collective with that rank",
     {REPORTED(RESOURCE_HOST_MEMORY), .ranks = BIT(1), .step = 3},
     {REPORTED(CRASH_DEVICE), .ranks = BIT(0), .step = 4, BUCKET(12, 0)},
     "failed"},
    {"no memory, failure in what that rank had completed",
     {REPORTED(RESOURCE_HOST_MEMORY), .ranks = BIT(1), .step = 3},
     {REPORTED(CRASH_DEVICE), .ranks = BIT(0), .step = 3, BUCKET(10, 0)},
     NULL},
    {"another failure, failure in a collective with that rank",
     {REPORTED(CRASH_EXITED), .ranks = BIT(1), .step = 3},
     {REPORTED(CRASH_DEVICE), .ranks = BIT(0), .step = 4, BUCKET(12, 0)},
     NULL},
    {"no memory, wait for all",
     {REPORTED(RESOURCE_HOST_MEMORY), .ranks = BIT(1), .step = 3},
     {REPORTED(HANG_NOT_JOINED), .victims = BIT(0), .step = 4},
     "did not come"},
    {"no memory, wait for all before",
     {REPORTED(RESOURCE_HOST_MEMORY), .ranks = BIT(1), .step = 3},
     {REPORTED(HANG_NOT_JOINED), .victims = BIT(0), .step = 2},
     NULL},
    {"no memory, wait for another",
     {REPORTED(RESOURCE_HOST_MEMORY), .ranks = BIT(1), .step = 3},
     {REPORTED(HANG_NOT_JOINED), .ranks = BIT(2), .victims = BIT(0), .step = 4},
     NULL},
    {"mismatch, message lost",
     MISSING_1,
     {REPORTED(MISMATCH_MESSAGE), .ranks = BIT(0) | BIT(1), .step = 4, .status = DDP_E_MESSAGE,
      BUCKET(12, 0)},
     NULL},
    {"message lost, wait",
     {REPORTED(MISMATCH_MESSAGE), .ranks = BIT(1) | BIT(2), .step = 3, .status = DDP_E_MESSAGE,
      BUCKET(11, 1)},
     TIMEOUT_12,
     "wait"},
    {"failure, wait", {REPORTED(CRASH_EXITED), .ranks = BIT(1), .step = 3}, TIMEOUT_12, "wait"},
    {"operation, wait",
     MISSING_1,
     {MONITOR(HANG_CYCLE), .ranks = BIT(0) | BIT(2), .step = 4, BUCKET(12, 0)},
     "wait"},
    {"operation, wait of ranks that it let through",
     {MONITOR(MISMATCH_OP), .ranks = BIT(1), .step = 3, BUCKET(10, 0)},
     {REPORTED(HANG_NOT_JOINED), .victims = BIT(0) | BIT(1) | BIT(2), .step = 3, BUCKET(10, 0)},
     "wait"},
    {"later operation, wait",
     {MONITOR(MISMATCH_OP), .ranks = BIT(3), .step = 4, BUCKET(13, 1)},
     {MONITOR(HANG_CYCLE), .ranks = BIT(0) | BIT(2), .step = 4, BUCKET(12, 0)},
     NULL},
    {"schedule, wait",
     {FOUND(HANG_CYCLE, SCHEDULE), .step = 0, BUCKET(1, 0)},
     {MONITOR(HANG_CYCLE), .ranks = BIT(0) | BIT(2), .step = 4, BUCKET(12, 0)},
     "meet"},
    {"schedule of another length, wait",
     {FOUND(HANG_CYCLE, SCHEDULE), .step = 0, BUCKET(2, 1)},
     {MONITOR(HANG_CYCLE), .ranks = BIT(0) | BIT(2), .step = 4, BUCKET(12, 0)},
     NULL},
    {"completed alone, wait in it",
     {FOUND(VALUE_LOST, SCHEDULE), .ranks = BIT(3), .step = 4, BUCKET(12, 0)},
     {MONITOR(HANG_CYCLE), .ranks = BIT(0) | BIT(2), .step = 4, BUCKET(12, 0)},
     "no part"},
    {"completed alone, victims in it",
     {FOUND(VALUE_LOST, SCHEDULE), .ranks = BIT(3), .step = 4, BUCKET(12, 0)},
     {REPORTED(CRASH_EXITED), .victims = BIT(0) | BIT(2), .step = 4, BUCKET(12, 0)},
     "no part"},
    {"completed another alone, victims",
     {FOUND(VALUE_LOST, SCHEDULE), .ranks = BIT(3), .step = 3, BUCKET(11, 1)},
     {REPORTED(CRASH_EXITED), .victims = BIT(0) | BIT(2), .step = 4, BUCKET(12, 0)},
     NULL},
    {"given up, still running at the end",
     {REPORTED(HANG_NOT_JOINED), .ranks = BIT(1), .victims = BIT(0), .step = 4, BUCKET(12, 0)},
     {FOUND(HANG_HOST, LIVENESS), .ranks = BIT(1), .step = -1},
     "gave up"},
    {"given up, another still running",
     {REPORTED(HANG_NOT_JOINED), .ranks = BIT(1), .victims = BIT(0), .step = 4, BUCKET(12, 0)},
     {FOUND(HANG_HOST, LIVENESS), .ranks = BIT(3), .step = -1},
     NULL},
    {"a wait seen live and reported",
     {MONITOR(HANG_CYCLE), .ranks = BIT(0) | BIT(2), .step = 4, BUCKET(12, 0)},
     {REPORTED(HANG_NOT_JOINED), .victims = BIT(0), .step = 4, BUCKET(12, 0)},
     "same wait"},
};

/* Who waits for a dead, stopped, ended or deviating rank; a stopped or busy rank waits for nobody.
 */
CT_TEST(cause, waits)
{
    CAUSE_CHECK_ROWS(waits_rows);
}

static const struct cause_row operations_rows[] = {
    {"the same, seen twice",
     MISSING_1,
     {FOUND(MISMATCH_MISSING, PROGRAM), .ranks = BIT(1), .step = 3, BUCKET(11, 1)},
     "same"},
    {"seen twice as something else",
     MISSING_1,
     {FOUND(MISMATCH_EXTRA, PROGRAM), .ranks = BIT(1), .step = 3, BUCKET(11, 1)},
     NULL},
    {"seen twice of another rank",
     MISSING_1,
     {FOUND(MISMATCH_MISSING, PROGRAM), .ranks = BIT(2), .step = 3, BUCKET(11, 1)},
     NULL},
    {"afterwards",
     MISSING_1,
     {FOUND(MISMATCH_OP, PROGRAM), .ranks = BIT(1), .step = 4, BUCKET(12, 0)},
     "afterwards"},
    {"afterwards, another rank",
     MISSING_1,
     {FOUND(MISMATCH_OP, PROGRAM), .ranks = BIT(2), .step = 4, BUCKET(12, 0)},
     NULL},
    {"another rank that counted from it",
     {MONITOR(MISMATCH_OP), .ranks = BIT(1), .step = 3, OTHER(8, JOIN_PRESENT)},
     {FOUND(MISMATCH_OP, PROGRAM), .ranks = BIT(2), .step = 4, BUCKET(12, 0)},
     NULL},
    {"out of data",
     {FOUND(DATA_UNEVEN, PROGRAM), .ranks = BIT(1), .step = 3, BUCKET(11, 1)},
     MISSING_1,
     "any more"},
    {"another out of data",
     {FOUND(DATA_UNEVEN, PROGRAM), .ranks = BIT(2), .step = 3, BUCKET(11, 1)},
     MISSING_1,
     NULL},
    {"ended early, samples",
     EARLY_1,
     {FOUND(DATA_MISSING, LEDGER), .ranks = BIT(1), .step = 4},
     NULL},
    {"out of data, an operation twice",
     {FOUND(DATA_UNEVEN, PROGRAM), .ranks = BIT(1), .step = 3, BUCKET(11, 1)},
     {MONITOR(MISMATCH_EXTRA), .ranks = BIT(1), .step = 3, BUCKET(11, 1)},
     NULL},
    {"left a step out, its checkpoint",
     MISSING_1,
     {FOUND(CHECKPOINT_STALE, CHECKPOINT), .ranks = BIT(1), .step = 3},
     "left the step out"},
    {"left a step out, a later checkpoint",
     MISSING_1,
     {FOUND(CHECKPOINT_STALE, CHECKPOINT), .ranks = BIT(1), .step = 4},
     NULL},
    {"left a step out, a damaged checkpoint",
     MISSING_1,
     {FOUND(CHECKPOINT_TORN, CHECKPOINT), .ranks = BIT(1), .step = 3},
     NULL},
    {"left a step out, buffers in its checkpoint",
     MISSING_1,
     {FOUND(CHECKPOINT_CORRUPTED, CHECKPOINT), .ranks = BIT(1), .step = -1},
     "left the step out"},
    {"left a step out, a parameter in its checkpoint",
     MISSING_1,
     {FOUND(CHECKPOINT_CORRUPTED, CHECKPOINT), .ranks = BIT(1), .step = -1, .params = BIT(0)},
     NULL},
    {"left batches out, buffers in its checkpoint",
     {FOUND(DATA_MISSING, LEDGER), .ranks = BIT(1), .step = 3},
     {FOUND(CHECKPOINT_CORRUPTED, CHECKPOINT), .ranks = BIT(1), .step = -1},
     "left the step out"},
    {"took the step, buffers in its checkpoint",
     {MONITOR(MISMATCH_MISSING), .ranks = BIT(2), .step = 3, BUCKET(11, 1)},
     {FOUND(CHECKPOINT_CORRUPTED, CHECKPOINT), .ranks = BIT(2), .step = -1},
     NULL},
    {"left batches out without join, operation",
     {FOUND(DATA_MISSING, LEDGER), .ranks = BIT(1), .step = 3},
     MISSING_1,
     NULL},
    {"misuse, operation", UNUSED_1, MISSING_1, NULL},
    {"misuse, ended", UNUSED_1, EARLY_1, NULL},
    {"operation, report", MISSING_1, {REPORTED(MISMATCH_OP), .step = 3, BUCKET(11, 1)}, "met"},
    {"later operation, report", MISSING_1, {REPORTED(MISMATCH_OP), .step = 3, BUCKET(10, 0)}, NULL},
    {"misread models, report where all ranks meet again",
     {FOUND(VALUE_CORRUPTED, MODEL), .ranks = BIT(2), .step = 3, .op.seq = 8, .op.is_set = true},
     {REPORTED(MISMATCH_OP), .step = 3, BUCKET(10, 0)},
     "compared"},
    {"schedule, report",
     {FOUND(MISMATCH_COUNT, SCHEDULE), .step = 0, BUCKET(1, 0)},
     {REPORTED(MISMATCH_OP), .step = 3, BUCKET(10, 0)},
     "meet"},
    {"schedule of another length, report",
     {FOUND(MISMATCH_COUNT, SCHEDULE), .step = 0, BUCKET(2, 1)},
     {REPORTED(MISMATCH_OP), .step = 3, BUCKET(10, 0)},
     NULL},
    {"no part in it, report",
     {FOUND(VALUE_CORRUPTED, REDUCTION), .ranks = BIT(2), .step = 3, BUCKET(10, 0),
      .stage = HARNESS_STAGE_OUTPUT},
     {REPORTED(MISMATCH_OP), .step = 3, BUCKET(11, 1)},
     "no part"},
    {"wrong input, report",
     {FOUND(VALUE_LOST, REDUCTION), .ranks = BIT(2), .step = 3, BUCKET(10, 0),
      .stage = HARNESS_STAGE_INPUT},
     {REPORTED(MISMATCH_OP), .step = 3, BUCKET(11, 1)},
     NULL},
    {"no part long before, report",
     {FOUND(VALUE_CORRUPTED, REDUCTION), .ranks = BIT(2), .step = 3, BUCKET(10, 0),
      .stage = HARNESS_STAGE_OUTPUT},
     {REPORTED(MISMATCH_OP), .step = 4, BUCKET(12, 0)},
     NULL},
    {"death, failure in its collective",
     CRASH_1,
     {REPORTED(CRASH_EXITED), .ranks = BIT(0), .step = 4, BUCKET(12, 0)},
     "failed"},
    {"death, failure elsewhere",
     CRASH_1,
     {REPORTED(CRASH_EXITED), .ranks = BIT(3), .step = 4, BUCKET(12, 0)},
     NULL},
    {"death, failure before its group",
     CRASH_1,
     {REPORTED(CRASH_EXITED), .ranks = BIT(3), .step = 4},
     NULL},
    {"death, failure of the same rank",
     CRASH_1,
     {REPORTED(RESOURCE_HOST_MEMORY), .ranks = BIT(1), .step = 3},
     "failed"},
    {"ended, failure",
     EARLY_1,
     {REPORTED(CRASH_EXITED), .ranks = BIT(0), .step = 4, BUCKET(12, 0)},
     "failed"},
    {"operation, failure",
     MISSING_1,
     {REPORTED(CRASH_EXITED), .ranks = BIT(0), .step = 4, BUCKET(12, 0)},
     "failed"},
    {"operation, failure of its own",
     MISSING_1,
     {REPORTED(CRASH_EXITED), .ranks = BIT(0), .step = 4, BUCKET(12, 0), .status = DDP_E_INJECTED},
     NULL},
    {"operation, no memory",
     MISSING_1,
     {REPORTED(RESOURCE_HOST_MEMORY), .ranks = BIT(0), .step = 4, BUCKET(12, 0)},
     NULL},
    {"death, no memory",
     CRASH_1,
     {REPORTED(RESOURCE_HOST_MEMORY), .ranks = BIT(0), .step = 4, BUCKET(12, 0)},
     NULL},
    {"wrong count, a rank that ended for it",
     {MONITOR(MISMATCH_OP), .ranks = BIT(1), .step = 3, OTHER(8, JOIN_PRESENT)},
     {REPORTED(CRASH_EXITED), .ranks = BIT(2), .step = 4, .status = DDP_E_STATE},
     "counts"},
    {"wrong count, a rank that ended for something else",
     {MONITOR(MISMATCH_OP), .ranks = BIT(1), .step = 3, OTHER(8, JOIN_PRESENT)},
     {REPORTED(CRASH_EXITED), .ranks = BIT(2), .step = 4, .status = DDP_E_OVERFLOW},
     NULL},
    {"later operation, failure",
     {MONITOR(MISMATCH_OP), .ranks = BIT(3), .step = 4, BUCKET(13, 1)},
     {REPORTED(CRASH_EXITED), .ranks = BIT(0), .step = 4, BUCKET(12, 0)},
     NULL},
};

/* What a rank posts after it left the program, and what others post on counts that it spoiled. */
CT_TEST(cause, operations)
{
    CAUSE_CHECK_ROWS(operations_rows);
}

/* Without a record nothing is known of who waits where. */
CT_TEST(cause, no_record_no_path)
{
    const struct cause_spec crash = CRASH_1;
    const struct cause_spec waiting = {MONITOR(HANG_CYCLE), .ranks = BIT(0) | BIT(2), .step = 4,
                                       BUCKET(12, 0)};
    struct harness_paths paths;
    struct cause_bench f;
    struct harness_finding a;
    struct harness_finding b;

    cause_bench_init(&f);
    a = cause_bench_make(&f, &crash);
    b = cause_bench_make(&f, &waiting);
    CT_CHECK_OK(harness_paths_open(f.mem, &f.plan, NULL, NULL, &paths));
    CT_CHECK(harness_cause_of(&paths, &a, &b) == NULL);
    harness_paths_close(&paths);
    cause_bench_fini(&f);
}

/* Compute that is stuck explains, on other ranks and from then on, what waits for it: collectives
 * that do not start or end, and waits. Never the reverse, and not what a host does by itself. */
CT_TEST(cause, devices_explain_what_waits_for_them)
{
    static const enum harness_verdict chain[] = {
        HARNESS_VERDICT_HANG_DEVICE_COMPUTE, HARNESS_VERDICT_HANG_NOT_LAUNCHED,
        HARNESS_VERDICT_HANG_DEVICE_COMM, HARNESS_VERDICT_HANG_CYCLE};
    enum { CHAIN_COUNT = sizeof(chain) / sizeof(chain[0]) };
    struct cause_bench f;

    cause_bench_init(&f);
    for (size_t cause = 0; cause < CHAIN_COUNT - 1; cause++) {
        for (size_t other = 0; other < CHAIN_COUNT; other++) {
            struct harness_finding a;
            struct harness_finding b;

            harness_finding_init(&a, f.mem, chain[cause], HARNESS_ORACLE_MONITOR,
                                 HARNESS_MODE_BUDGET);
            harness_finding_init(&b, f.mem, chain[other], HARNESS_ORACLE_MONITOR,
                                 HARNESS_MODE_BUDGET);
            harness_rank_set_add(&a.culprits, 1);
            harness_rank_set_add(&b.culprits, 2);
            CT_CHECK((harness_cause_of(&f.paths, &a, &b) != NULL) == (cause < other));
            harness_rank_set_add(&b.culprits, 1);
            CT_CHECK((harness_cause_of(&f.paths, &a, &b) != NULL) == (cause < other));
            a.step = 4;
            b.step = 3;
            CT_CHECK(harness_cause_of(&f.paths, &a, &b) == NULL);
            harness_finding_init(&b, f.mem, HARNESS_VERDICT_HANG_HOST, HARNESS_ORACLE_MONITOR,
                                 HARNESS_MODE_BUDGET);
            harness_rank_set_add(&b.culprits, 2);
            CT_CHECK(harness_cause_of(&f.paths, &a, &b) == NULL);
            CT_CHECK(harness_cause_of(&f.paths, &b, &a) == NULL);
        }
    }
    cause_bench_fini(&f);
}

static void add_found(const struct cause_bench *f, struct harness_findings *findings,
                      const struct cause_spec *spec)
{
    struct harness_finding finding = cause_bench_make(f, spec);

    harness_findings_add(findings, &finding);
}

/* Roots by step, provable ones first, each followed by what it causes, whoever was found first. */
CT_TEST(cause, causes_come_first)
{
    static const struct cause_spec specs[] = {
        SPLIT(1, 0, 3),
        WRONG_OUTPUT,
        {FOUND(VALUE_LOST, REDUCTION), .ranks = BIT(2), .step = 2, BUCKET(7, 1),
         .stage = HARNESS_STAGE_INPUT},
        {FOUND(VALUE_DUPLICATED, SCHEDULE), .step = 0, BUCKET(2, 1)},
        {FOUND(VALUE_DIVERGED, REPLICAS), .ranks = BIT(3), .params = BIT(2), .step = -1},
        CRASH_1,
    };
    /* The schedule explains the output and, as that has a cause itself, the replicas too. */
    static const struct {
        enum harness_verdict verdict;
        int64_t cause;
    } expected[] = {
        {HARNESS_VERDICT_VALUE_DUPLICATED, -1}, {HARNESS_VERDICT_VALUE_DIVERGED, 0},
        {HARNESS_VERDICT_VALUE_CORRUPTED, 0},   {HARNESS_VERDICT_VALUE_LOST, -1},
        {HARNESS_VERDICT_CRASH_SIGNALED, -1},   {HARNESS_VERDICT_VALUE_DIVERGED, -1},
    };
    struct harness_findings findings;
    struct cause_bench f;

    cause_bench_init(&f);
    harness_findings_init(&findings, f.mem);
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        add_found(&f, &findings, &specs[i]);
    }
    CT_REQUIRE_OK(harness_findings_order(&f.paths, &findings));
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        CT_CHECK_STR(harness_verdict_name(findings.items[i].verdict),
                     harness_verdict_name(expected[i].verdict));
        CT_CHECK_EQ_I64(findings.items[i].cause, expected[i].cause);
        CT_CHECK((findings.items[i].cause_words != NULL) == (expected[i].cause >= 0));
    }
    cause_bench_fini(&f);
}
