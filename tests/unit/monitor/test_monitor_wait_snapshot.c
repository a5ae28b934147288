/* Snapshots: the first cut of each kind of conclusion, in memory that never grows. */
#include <string.h>

#include "harness/monitor/wait_snapshot.h"
#include "tests/ct.h"
#include "tests/unit/monitor/monitor_cut.h"

enum { RANKS = 3 };

struct taken {
    struct cut_job job;
    struct harness_conclusions watch;
    struct harness_wait_snapshot *snapshot;
};

static void taken_open(struct taken *taken)
{
    cut_init(&taken->job, RANKS);
    harness_conclusions_init(&taken->watch, ddp_mem_system());
    taken->snapshot = ddp_mem_array(ddp_mem_system(), 1, sizeof *taken->snapshot);
    harness_wait_snapshot_init(taken->snapshot, CUT_NOW_NS - 7 * CUT_MS);
}

static void taken_close(struct taken *taken)
{
    cut_fini(&taken->job);
    harness_conclusions_fini(&taken->watch);
    ddp_mem_free(ddp_mem_system(), taken->snapshot);
}

/* As the monitor does: judge, note, and keep what was seen. */
static void judge(struct taken *taken)
{
    struct cut_job *job = &taken->job;

    cut_analyse(job);
    harness_conclusions_note(&taken->watch, &job->findings, job->cut.now_ns);
    harness_wait_snapshot_take(taken->snapshot, &job->plan, &job->program, &job->cut,
                               &taken->watch);
}

/* Free with ddp_text_fini. */
static const char *print(const struct taken *taken, struct ddp_text *out)
{
    ddp_text_init(out, ddp_mem_system());
    harness_wait_snapshot_print(taken->snapshot, out);
    return ddp_text_str(out);
}

static size_t count_of(const char *text, const char *part)
{
    size_t count = 0;

    for (const char *at = strstr(text, part); at != NULL; at = strstr(at + 1, part)) {
        count++;
    }
    return count;
}

/* Nothing concluded, nothing kept; then the cut of the conclusion, with its time and sentence. */
CT_TEST(monitor_wait_snapshot, shows_the_cut_that_was_judged)
{
    struct taken taken;
    struct ddp_text text;
    const char *said;

    taken_open(&taken);
    judge(&taken);
    CT_CHECK_STR(print(&taken, &text), "");
    ddp_text_fini(&text);
    cut_process(&taken.job, 1, HARNESS_PROCESS_SIGNALED, 9, 0);
    judge(&taken);
    said = print(&taken, &text);
    CT_CHECK(strncmp(said, "CRASH.SIGNALED (provable) 7.000 ms after the start: rank 1 ended by ",
                     67) == 0);
    CT_CHECK(strstr(said, "\nr1 (culprit) ended by signal 9 (SIGKILL), 0.0 ms ago") != NULL);
    CT_CHECK(
        strstr(said, "\nr2 waits for r1: all_reduce seq 6 (bucket 1: fc0.bias, fc0.weight)\n") !=
        NULL);
    ddp_text_fini(&text);
    taken_close(&taken);
}

/* Of a hang, the cut at its report is kept, not the one that showed it first. */
CT_TEST(monitor_wait_snapshot, waits_for_a_hang_to_settle)
{
    struct taken taken;
    struct ddp_text text;

    taken_open(&taken);
    cut_process(&taken.job, 1, HARNESS_PROCESS_STOPPED, 0, 92);
    judge(&taken);
    CT_CHECK_STR(print(&taken, &text), "");
    ddp_text_fini(&text);
    taken.job.cut.now_ns += HARNESS_CONCLUSIONS_SETTLE_NS;
    judge(&taken);
    CT_CHECK(strstr(print(&taken, &text), "HANG.STOPPED (provable) 17.000 ms after the start: ") !=
             NULL);
    CT_CHECK(strstr(ddp_text_str(&text), "\nr1 (culprit) stopped for 102.0 ms, in step 1") != NULL);
    ddp_text_fini(&text);
    taken_close(&taken);
}

/* Silence was watched for all of its budget: it needs no second cut. */
CT_TEST(monitor_wait_snapshot, takes_silence_beyond_a_budget_at_once)
{
    struct taken taken;
    struct ddp_text text;

    taken_open(&taken);
    cut_post(&taken.job, 1, cut_seq(1, 0));
    cut_host(&taken.job, 1, DDP_PHASE_BACKWARD, 2001);
    judge(&taken);
    CT_CHECK(strstr(print(&taken, &text), "HANG.NOT_JOINED (budget) 7.000 ms after the start: ") !=
             NULL);
    CT_CHECK(strstr(ddp_text_str(&text), "silent in host code for 2001.0 ms (budget 2000 ms)\n") !=
             NULL);
    ddp_text_fini(&text);
    taken_close(&taken);
}

/* One snapshot a kind: a second death adds nothing, a mismatch does. */
CT_TEST(monitor_wait_snapshot, keeps_the_first_of_each_kind)
{
    struct taken taken;
    struct ddp_text text;

    taken_open(&taken);
    cut_process(&taken.job, 1, HARNESS_PROCESS_SIGNALED, 9, 0);
    judge(&taken);
    judge(&taken);
    taken.job.cut.now_ns += CUT_MS;
    cut_process(&taken.job, 2, HARNESS_PROCESS_SIGNALED, 6, 0);
    judge(&taken);
    CT_CHECK_EQ_U64(count_of(print(&taken, &text), " after the start: "), 1);
    CT_CHECK(strstr(ddp_text_str(&text), "SIGABRT") == NULL);
    ddp_text_fini(&text);
    taken.job.cut.now_ns += CUT_MS;
    taken.job.pages[0].posted_count = 55;
    judge(&taken);
    CT_CHECK_EQ_U64(count_of(print(&taken, &text), " after the start: "), 2);
    CT_CHECK(strstr(ddp_text_str(&text),
                    "\nMISMATCH.COUNT (provable) 9.000 ms after the start: ") != NULL);
    CT_CHECK(strstr(ddp_text_str(&text), "SIGABRT") != NULL);
    ddp_text_fini(&text);
    taken_close(&taken);
}

/* What finds no room is counted; what is there stays whole. */
CT_TEST(monitor_wait_snapshot, never_overflows)
{
    struct taken taken;
    struct ddp_text text;
    size_t used;

    taken_open(&taken);
    cut_process(&taken.job, 1, HARNESS_PROCESS_SIGNALED, 9, 0);
    judge(&taken);
    used = (size_t)taken.snapshot->size_bytes;
    memset(taken.snapshot->text + used, '\n', HARNESS_WAIT_SNAPSHOT_BYTES_MAX - 300 - used);
    taken.snapshot->size_bytes = HARNESS_WAIT_SNAPSHOT_BYTES_MAX - 300;
    taken.job.cut.now_ns += CUT_MS;
    taken.job.pages[0].posted_count = 55;
    judge(&taken);
    CT_CHECK_EQ_U64(taken.snapshot->size_bytes, HARNESS_WAIT_SNAPSHOT_BYTES_MAX - 300);
    CT_CHECK(strstr(print(&taken, &text), "\n... no room for 1 more conclusions\n") != NULL);
    CT_CHECK(strstr(ddp_text_str(&text), "MISMATCH") == NULL);
    ddp_text_fini(&text);
    taken_close(&taken);
}
