/* Processes that are at their end, and that the kernel takes its time to end. */
#include <string.h>

#include "tests/ct.h"
#include "tests/unit/monitor/monitor_cut.h"

enum { RANKS = 4, LATE_MS = CUT_LATE_MS, ENDING_MS = 1500 };

/* Rank 1 is in host code, in front of an operation that the others wait in, for longer than its
 * budget; it was killed a while ago. */
static void open_silent(struct cut_job *job, enum harness_process_state state)
{
    cut_init(job, RANKS);
    cut_process(job, 1, state, 0, LATE_MS);
    cut_host(job, 1, DDP_PHASE_BACKWARD, LATE_MS);
    cut_post(job, 1, cut_seq(1, 0));
    job->pages[1].wait_kind = DDP_WAIT_NONE;
    job->pages[1].seq_done = job->pages[1].seq_posted;
}

static void set_ending(struct cut_job *job, uint32_t rank)
{
    job->processes[rank].ending_ns = CUT_NOW_NS - ENDING_MS * CUT_MS;
}

static void check_silent(struct cut_job *job, enum harness_verdict verdict)
{
    cut_analyse(job);
    CT_REQUIRE(job->findings.count == 1);
    CT_CHECK_STR(harness_verdict_name(job->findings.items[0].verdict),
                 harness_verdict_name(verdict));
    set_ending(job, 1);
    cut_analyse(job);
    CT_CHECK_EQ_U64(job->findings.count, 0);
}

/* Neither silent nor stopped. */
CT_TEST(monitor_ending, does_not_hang)
{
    struct cut_job job;

    open_silent(&job, HARNESS_PROCESS_RUNNING);
    check_silent(&job, HARNESS_VERDICT_HANG_NOT_JOINED);
    cut_fini(&job);
    open_silent(&job, HARNESS_PROCESS_STOPPED);
    check_silent(&job, HARNESS_VERDICT_HANG_STOPPED);
    cut_fini(&job);
}

/* Nor do those that may wait for it, whatever they show; one that has recorded its end holds nobody
 * up. */
CT_TEST(monitor_ending, makes_nobody_hang)
{
    struct cut_job job;

    open_silent(&job, HARNESS_PROCESS_RUNNING);
    set_ending(&job, 3);
    cut_analyse(&job);
    CT_CHECK_EQ_U64(job.findings.count, 0);
    job.pages[3].end_status = 2;
    cut_analyse(&job);
    CT_CHECK(job.findings.count > 0);
    cut_fini(&job);
}

/* A mismatch is one, whoever dies. */
CT_TEST(monitor_ending, hides_no_mismatch)
{
    struct cut_job job;

    open_silent(&job, HARNESS_PROCESS_RUNNING);
    set_ending(&job, 1);
    job.pages[2].posted_count = 55;
    cut_analyse(&job);
    CT_REQUIRE(job.findings.count == 1);
    CT_CHECK_EQ_U64(job.findings.items[0].verdict, HARNESS_VERDICT_MISMATCH_COUNT);
    cut_fini(&job);
}

/* Once it has ended it is a crash: how late that was is said, and of two the one that ran no code
 * first is described. */
CT_TEST(monitor_ending, is_a_crash_in_the_end)
{
    struct cut_job job;

    open_silent(&job, HARNESS_PROCESS_RUNNING);
    cut_process(&job, 1, HARNESS_PROCESS_SIGNALED, 9, 3);
    set_ending(&job, 1);
    cut_process(&job, 2, HARNESS_PROCESS_SIGNALED, 9, 700);
    cut_analyse(&job);
    CT_REQUIRE(job.findings.count == 1);
    CT_CHECK_EQ_U64(job.findings.items[0].verdict, HARNESS_VERDICT_CRASH_SIGNALED);
    CT_CHECK_EQ_U64(job.findings.items[0].op.seq, cut_seq(1, 0)); /* rank 1's */
    CT_CHECK_EQ_I64(job.findings.items[0].detect_ns, 3 * CUT_MS);
    CT_CHECK(strstr(job.findings.items[0].text,
                    "ranks 1 and 2 ended by signal 9 (SIGKILL), 1497 ms after it was seen to be at "
                    "its end in step 1, backward") != NULL);
    cut_fini(&job);
}

/* What the kernel never ends is not waited for for ever. */
CT_TEST(monitor_ending, is_given_up)
{
    struct cut_job job;

    open_silent(&job, HARNESS_PROCESS_RUNNING);
    cut_process(&job, 1, HARNESS_PROCESS_SIGNALED, 9, ENDING_MS);
    set_ending(&job, 1);
    job.processes[1].is_unended = true;
    cut_analyse(&job);
    CT_REQUIRE(job.findings.count == 1);
    CT_CHECK(strstr(job.findings.items[0].text, "rank 1 was killed by signal 9 (SIGKILL), but has "
                                                "not ended for 1500 ms in step 1") != NULL);
    cut_fini(&job);
}

/* A rank that ends while it recovers from another one's end is lost in that one's step, if it has
 * not come so far itself: one finding, which speaks of the first. By another verdict it is a
 * finding of its own, of the same step. */
CT_TEST(monitor_ending, belongs_to_the_loss_that_it_recovers_from)
{
    static const struct {
        enum harness_process_state state;
        int code;
        size_t finding_count;
    } second[] = {{HARNESS_PROCESS_SIGNALED, 11, 1}, {HARNESS_PROCESS_EXITED, 7, 2}};

    for (size_t i = 0; i < sizeof(second) / sizeof(second[0]); i++) {
        struct cut_job job;

        cut_init(&job, RANKS);
        job.pages[1].step = 2;
        cut_process(&job, 1, HARNESS_PROCESS_SIGNALED, 9, 8);
        cut_host(&job, 2, DDP_PHASE_RECOVERY, 5);
        cut_process(&job, 2, second[i].state, second[i].code, 3);
        cut_analyse(&job);
        CT_REQUIRE(job.findings.count == second[i].finding_count);
        for (size_t k = 0; k < job.findings.count; k++) {
            CT_CHECK_EQ_I64(job.findings.items[k].step, 2);
        }
        CT_CHECK(harness_rank_set_has(&job.findings.items[0].culprits, 1));
        CT_CHECK(strstr(job.findings.items[0].text, "(SIGKILL) in step 2, backward") != NULL);
        CT_CHECK(harness_rank_set_has(&job.findings.items[job.findings.count - 1].culprits, 2));
        cut_fini(&job);
    }
}
