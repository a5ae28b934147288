/* Which findings stand on their own, however late their cause shows. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "ddpcore/base/mem.h"
#include "harness/exec/job.h"
#include "harness/watch/analyse.h"
#include "tests/ct.h"

enum { POSTED_NS = 1000 };

/* A rank's end is seen in one look, and a wrong result, of a call posted at POSTED_NS, in the next.
 * Returns how many findings are left. *out: the result's. */
static size_t say_both(enum harness_watch_state state, int code, uint64_t end_ns, bool is_left,
                       struct harness_finding *out)
{
    static struct harness_watch_rank ranks[2];
    struct harness_watch watch = {.ranks = ranks, .world_size = 2};
    struct harness_exec_config config = {.ranks = 2, .is_left = is_left};
    struct harness_findings all, now;
    struct exec_job job = {
        .config = &config, .watch = &watch, .findings = &all, .linger_ns = UINT64_MAX};
    struct harness_finding finding;
    struct ddp_mem_pool *pool;
    size_t count;

    if (ddp_mem_pool_create(&pool) != DDP_OK) {
        CT_FAIL("no memory");
        return 0;
    }
    harness_findings_init(&all, ddp_mem_pool_mem(pool));
    ranks[1] = (struct harness_watch_rank){.state = state, .code = code, .since_ns = end_ns};

    harness_findings_init(&now, ddp_mem_pool_mem(pool));
    harness_finding_init(&finding, now.mem,
                         state == HARNESS_WATCH_EXITED ? HARNESS_VERDICT_CRASH_EXITED
                                                       : HARNESS_VERDICT_CRASH_SIGNALED,
                         HARNESS_ORACLE_MONITOR, HARNESS_MODE_PROVABLE);
    harness_rank_set_add(&finding.culprits, 1);
    harness_findings_add(&now, &finding);
    harness_exec_say(&job, &now);
    CT_CHECK_EQ_U64(all.count, 1);

    harness_findings_init(&now, ddp_mem_pool_mem(pool));
    watch.wrong_result_ns = POSTED_NS;
    harness_finding_init(&finding, now.mem, HARNESS_VERDICT_VALUE_DIVERGED,
                         HARNESS_ORACLE_REDUCTION, HARNESS_MODE_BITWISE);
    harness_rank_set_add(&finding.culprits, 0);
    harness_findings_add(&now, &finding);
    harness_exec_say(&job, &now);
    count = all.count;
    *out = all.items[count - 1];
    CT_CHECK(out->verdict == HARNESS_VERDICT_VALUE_DIVERGED);
    ddp_mem_pool_destroy(pool);
    return count;
}

/* A rank that stumbles over a wrong result ends before the others have reported that result. */
CT_TEST(say, an_end_is_a_consequence_of_what_shows_later)
{
    struct harness_finding result;

    CT_CHECK_EQ_U64(say_both(HARNESS_WATCH_EXITED, 3, POSTED_NS + 1, false, &result), 1);
    CT_CHECK(strstr(result.text, "that rank 1 ended follows from it") != NULL);
    CT_CHECK_EQ_U64(say_both(HARNESS_WATCH_SIGNALED, SIGSEGV, POSTED_NS + 1, false, &result), 1);
}

CT_TEST(say, an_end_of_its_own_stays)
{
    struct harness_finding result;

    CT_CHECK_EQ_U64(say_both(HARNESS_WATCH_EXITED, 3, POSTED_NS, false, &result), 2);
    CT_CHECK_STR(result.text, "");
    CT_CHECK_EQ_U64(say_both(HARNESS_WATCH_SIGNALED, SIGKILL, POSTED_NS + 1, false, &result), 2);
    CT_CHECK_EQ_U64(say_both(HARNESS_WATCH_SIGNALED, SIGTERM, POSTED_NS + 1, false, &result), 2);
    /* Of a job that is left each finding is said as it comes. */
    CT_CHECK_EQ_U64(say_both(HARNESS_WATCH_EXITED, 3, POSTED_NS + 1, true, &result), 2);
}

/* So many of these two findings of one look are said: rank 1 has left out a call, and `ended` has
 * come to its end before the others. */
static size_t say_left_out(uint32_t ended, enum harness_verdict verdict)
{
    struct ddp_mem_pool *pool;
    struct harness_watch_rank ranks[2] = {{.state = HARNESS_WATCH_RUNNING}};
    struct harness_findings all;
    struct harness_findings now;
    struct harness_finding finding;
    size_t count;

    CT_CHECK(ddp_mem_pool_create(&pool) == DDP_OK);
    const struct harness_exec_config config = {.mem = ddp_mem_pool_mem(pool), .ranks = 2};
    struct harness_watch watch = {.world_size = 2, .ranks = ranks, .mem = config.mem};
    struct exec_job job = {
        .config = &config, .watch = &watch, .findings = &all, .linger_ns = UINT64_MAX};

    harness_findings_init(&all, config.mem);
    harness_findings_init(&now, config.mem);
    harness_finding_init(&finding, now.mem, verdict, HARNESS_ORACLE_MONITOR, HARNESS_MODE_PROVABLE);
    harness_rank_set_add(&finding.culprits, 1);
    harness_findings_add(&now, &finding);
    harness_finding_init(&finding, now.mem, HARNESS_VERDICT_CRASH_FINISHED_EARLY,
                         HARNESS_ORACLE_MONITOR, HARNESS_MODE_PROVABLE);
    harness_rank_set_add(&finding.culprits, ended);
    harness_findings_add(&now, &finding);
    harness_exec_say(&job, &now);
    count = all.count;
    ddp_mem_pool_destroy(pool);
    return count;
}

CT_TEST(say, who_left_a_call_out_ends_before_the_others)
{
    CT_CHECK_EQ_U64(say_left_out(1, HARNESS_VERDICT_MISMATCH_MISSING), 1);
    CT_CHECK_EQ_U64(say_left_out(0, HARNESS_VERDICT_MISMATCH_MISSING), 2);
    CT_CHECK_EQ_U64(say_left_out(1, HARNESS_VERDICT_MISMATCH_COUNT), 2);
}

static void note(void *context, const struct harness_finding *finding)
{
    (void)snprintf(context, sizeof finding->text, "%s", finding->text);
}

/* Rank 1 dies between two calls; in a later look the other one has come to the call that it owes,
 * and later still to another one. */
CT_TEST(say, which_call_a_dead_rank_owes_is_added)
{
    char said[sizeof((struct harness_finding *)NULL)->text] = "";
    struct ddp_mem_pool *pool;
    struct harness_watch_rank ranks[2] = {{.state = HARNESS_WATCH_RUNNING}};
    struct harness_findings all;

    CT_REQUIRE(ddp_mem_pool_create(&pool) == DDP_OK);
    const struct harness_exec_config config = {
        .mem = ddp_mem_pool_mem(pool), .ranks = 2, .on_owed = note, .context = said};
    struct harness_watch watch = {.world_size = 2, .ranks = ranks, .mem = config.mem};
    struct exec_job job = {
        .config = &config, .watch = &watch, .findings = &all, .linger_ns = UINT64_MAX};

    harness_findings_init(&all, config.mem);
    for (uint64_t look = 0; look < 3; look++) {
        struct harness_findings now;
        struct harness_finding finding;

        harness_findings_init(&now, config.mem);
        harness_finding_init(&finding, now.mem, HARNESS_VERDICT_CRASH_SIGNALED,
                             HARNESS_ORACLE_MONITOR, HARNESS_MODE_PROVABLE);
        harness_rank_set_add(&finding.culprits, 1);
        finding.detect_ns = 5 + (int64_t)look;
        finding.op.is_set = look > 0;
        finding.op.seq = 7 + look;
        harness_watch_say(&finding, "dead%s", look > 0 ? ", before its call" : "");
        harness_findings_add(&now, &finding);
        harness_exec_say(&job, &now);
        CT_REQUIRE(all.count == 1);
        CT_CHECK_STR(said, look > 0 ? "dead, before its call" : "");
    }
    CT_CHECK(all.items[0].op.is_set);
    CT_CHECK_EQ_U64(all.items[0].op.seq, 8);
    CT_CHECK_EQ_I64(all.items[0].detect_ns, 5);
    ddp_mem_pool_destroy(pool);
}
