/* Conclusions over time: what is reported of successive cuts, and how often. */
#include "harness/monitor/conclusions.h"
#include "tests/ct.h"
#include "tests/rank_mask.h"

struct told {
    size_t count;
    uint64_t time_ns;
    uint64_t last_culprits; /* a bit each */
};

static void tell(void *context, uint64_t time_ns, const struct harness_finding *finding)
{
    struct told *told = context;

    told->count++;
    told->time_ns = time_ns;
    told->last_culprits = mask_of_rank_set(&finding->culprits);
}

static void open_conclusions(struct harness_conclusions *conclusions, struct told *told)
{
    *told = (struct told){.count = 0};
    harness_conclusions_init(conclusions, ddp_mem_system());
    conclusions->on_report = tell;
    conclusions->report_context = told;
}

/* A cut at ms with one finding about the ranks in mask, or with none if mask is 0. */
static void note(struct harness_conclusions *conclusions, enum harness_verdict verdict,
                 uint64_t mask, uint64_t ms)
{
    struct harness_findings findings;
    struct harness_finding finding;
    struct ddp_mem_pool *pool;

    CT_REQUIRE_OK(ddp_mem_pool_create(&pool));
    harness_findings_init(&findings, ddp_mem_pool_mem(pool));
    harness_finding_init(&finding, findings.mem, verdict, HARNESS_ORACLE_MONITOR,
                         HARNESS_MODE_PROVABLE);
    finding.culprits = rank_set_of_mask(findings.mem, mask);
    if (mask != 0) {
        harness_findings_add(&findings, &finding);
    }
    harness_conclusions_note(conclusions, &findings, ms * UINT64_C(1000000));
    ddp_mem_pool_destroy(pool);
}

/* A crash is reported at the first sight, once. */
CT_TEST(monitor_conclusions, reports_a_crash_at_once)
{
    struct harness_conclusions conclusions;
    struct told told;

    open_conclusions(&conclusions, &told);
    note(&conclusions, HARNESS_VERDICT_CRASH_SIGNALED, 2, 5);
    CT_CHECK_EQ_U64(told.count, 1);
    CT_CHECK_EQ_U64(told.time_ns, 5000000);
    note(&conclusions, HARNESS_VERDICT_CRASH_SIGNALED, 2, 6);
    CT_CHECK_EQ_U64(told.count, 1);
    harness_conclusions_fini(&conclusions);
}

/* A hang is reported when it is still there 10 ms later, and not if it was gone in between. */
CT_TEST(monitor_conclusions, reports_a_hang_when_it_stays)
{
    struct harness_conclusions conclusions;
    struct told told;

    open_conclusions(&conclusions, &told);
    note(&conclusions, HARNESS_VERDICT_HANG_STOPPED, 2, 100);
    note(&conclusions, HARNESS_VERDICT_HANG_STOPPED, 2, 109);
    CT_CHECK_EQ_U64(told.count, 0);
    note(&conclusions, HARNESS_VERDICT_HANG_STOPPED, 0, 110);
    note(&conclusions, HARNESS_VERDICT_HANG_STOPPED, 2, 111);
    CT_CHECK_EQ_U64(told.count, 0);
    note(&conclusions, HARNESS_VERDICT_HANG_STOPPED, 2, 121);
    CT_CHECK_EQ_U64(told.count, 1);
    note(&conclusions, HARNESS_VERDICT_HANG_STOPPED, 2, 141);
    CT_CHECK_EQ_U64(told.count, 1);
    harness_conclusions_fini(&conclusions);
}

/* A second dead rank makes the first finding fuller instead of adding one. */
CT_TEST(monitor_conclusions, merges_a_growing_finding)
{
    struct harness_conclusions conclusions;
    struct told told;

    open_conclusions(&conclusions, &told);
    note(&conclusions, HARNESS_VERDICT_CRASH_SIGNALED, 2, 5);
    note(&conclusions, HARNESS_VERDICT_CRASH_SIGNALED, 6, 7);
    CT_CHECK_EQ_U64(told.count, 2);
    CT_CHECK_EQ_U64(conclusions.reported.count, 1);
    CT_CHECK_EQ_U64(mask_of_rank_set(&conclusions.reported.items[0].finding.culprits), 6);
    CT_CHECK_EQ_U64(conclusions.reported.items[0].time_ns, 7000000);
    harness_conclusions_fini(&conclusions);
}

/* A hang of a rank that was already named adds nothing; a hang of another rank does. */
CT_TEST(monitor_conclusions, leaves_out_what_follows)
{
    struct harness_conclusions conclusions;
    struct told told;

    open_conclusions(&conclusions, &told);
    note(&conclusions, HARNESS_VERDICT_MISMATCH_COUNT, 2, 5);
    note(&conclusions, HARNESS_VERDICT_HANG_HOST, 2, 20);
    note(&conclusions, HARNESS_VERDICT_HANG_HOST, 2, 40);
    CT_CHECK_EQ_U64(told.count, 1);
    note(&conclusions, HARNESS_VERDICT_HANG_HOST, 1, 50);
    note(&conclusions, HARNESS_VERDICT_HANG_HOST, 1, 70);
    CT_CHECK_EQ_U64(told.count, 2);
    CT_CHECK_EQ_U64(told.last_culprits, 1);
    harness_conclusions_fini(&conclusions);
}
