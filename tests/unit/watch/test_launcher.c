/* Ranks whose parent is another program: what their ends tell. */
#include <signal.h>
#include <string.h>

#include "tests/ct.h"
#include "tests/unit/watch/fake_rank.h"

enum { MS = 1000000 };

/* The only finding, which is about rank 1. */
static const struct harness_finding *only(const struct fake_job *job, enum harness_verdict verdict)
{
    static const struct harness_finding none;

    if (job->findings.count != 1) {
        CT_FAIL("%zu findings", job->findings.count);
        return &none;
    }
    CT_CHECK_STR(harness_verdict_name(job->findings.items[0].verdict),
                 harness_verdict_name(verdict));
    CT_CHECK(harness_rank_set_count(&job->findings.items[0].culprits) == 1 &&
             harness_rank_set_has(&job->findings.items[0].culprits, 1));
    return &job->findings.items[0];
}

/* A launcher ends what is left of a job: those ranks are nobody's fault. */
CT_TEST(launcher, ends_the_others)
{
    for (int way = 0; way < 4; way++) {
        const bool is_seen_at_once = way % 2 != 0;
        const int signal = way / 2 != 0 ? SIGKILL : SIGTERM; /* MPICH's does not ask first */
        struct fake_job job;

        fake_job_begin(&job, 3);
        for (uint32_t r = 0; r < 3; r++) {
            job.watch.ranks[r].is_of_launcher = true;
        }
        for (uint32_t r = 0; r < 3; r += 2) {
            fake_wait(&job, r, 0, 0, fake_post(&job, r, 0, 10, 0));
        }
        fake_state(&job, 1, HARNESS_WATCH_SIGNALED, SIGKILL);
        job.now_ns += is_seen_at_once ? 0 : MS;
        fake_state(&job, 0, HARNESS_WATCH_SIGNALED, signal);
        fake_state(&job, 2, HARNESS_WATCH_SIGNALED, signal);
        fake_look(&job, MS);
        (void)only(&job, HARNESS_VERDICT_CRASH_SIGNALED);
        fake_job_close(&job);
    }
}

/* Another signal is no launcher's, and without one each rank has its own end. */
CT_TEST(launcher, does_not_hide_what_it_did_not_do)
{
    for (int is_of_launcher = 0; is_of_launcher < 2; is_of_launcher++) {
        struct fake_job job;

        fake_job_begin(&job, 3);
        fake_state(&job, 1, HARNESS_WATCH_SIGNALED, SIGKILL);
        job.now_ns += MS;
        fake_state(&job, 0, HARNESS_WATCH_SIGNALED, is_of_launcher != 0 ? SIGSEGV : SIGTERM);
        job.watch.ranks[0].is_of_launcher = is_of_launcher != 0;
        CT_CHECK_EQ_U64(fake_look(&job, MS), 2);
        fake_job_close(&job);
    }
}

/* How a rank of a launcher ended is not always told. */
CT_TEST(launcher, an_end_of_which_nothing_is_known)
{
    struct fake_job job;

    fake_job_begin(&job, 2);
    fake_wait(&job, 0, 0, 0, fake_post(&job, 0, 0, 10, 0));
    fake_state(&job, 1, HARNESS_WATCH_EXITED, -1);
    fake_look(&job, MS);
    CT_CHECK(strstr(only(&job, HARNESS_VERDICT_CRASH_EXITED)->text,
                    "rank 1 ended, and how is not known here, ") != NULL);
    fake_job_close(&job);
}

/* A rank exits with 0 and never says that it is done, which the others do: their launcher ends them
 * for that. */
CT_TEST(launcher, ends_those_that_are_done)
{
    for (int is_told = 0; is_told < 2; is_told++) {
        struct fake_job job;

        fake_job_begin(&job, 3);
        for (uint32_t r = 0; r < 3; r++) {
            job.watch.ranks[r].is_of_launcher = true;
            fake_done(&job, r, 0, fake_post(&job, r, 0, 10, 0));
            if (r != 1 || is_told != 0) {
                fake_detach(&job, r);
            }
        }
        fake_state(&job, 1, HARNESS_WATCH_EXITED, 0);
        job.now_ns += MS;
        fake_state(&job, 0, HARNESS_WATCH_SIGNALED, SIGTERM);
        if (is_told == 0) {
            fake_state(&job, 2, HARNESS_WATCH_SIGNALED, SIGTERM);
        }
        fake_look(&job, MS);
        if (is_told == 0) {
            (void)only(&job, HARNESS_VERDICT_CRASH_FINISHED_EARLY);
        } else { /* then it is nobody's doing but the signal's */
            (void)fake_only(&job, HARNESS_VERDICT_CRASH_SIGNALED, "0");
        }
        fake_job_close(&job);
    }
}

/* --- done, and waited for
 * ------------------------------------------------------------------------------------------------
 */

static void begin_done(struct fake_job *job, uint32_t world_size, uint32_t calls)
{
    fake_job_begin(job, world_size);
    for (uint32_t i = 0; i < calls; i++) {
        for (uint32_t r = 0; r < world_size; r++) {
            fake_done(job, r, 0, fake_post(job, r, 0, 10, 0));
        }
    }
    fake_wait(job, 0, 0, 0, fake_post(job, 0, 0, 10, 0));
}

/* A rank waits in a call that all others are done without: it has made one too many. Whoever is
 * done first is not accused before the others had time to be. */
CT_TEST(done, one_call_too_many)
{
    struct fake_job job;

    begin_done(&job, 4, 3);
    fake_detach(&job, 1);
    CT_CHECK_EQ_U64(fake_look(&job, MS), 0);
    fake_detach(&job, 2);
    CT_CHECK_EQ_U64(fake_look(&job, MS), 0); /* rank 3 may come yet, or be done */
    fake_detach(&job, 3);
    fake_look(&job, MS);
    CT_CHECK_EQ_U64(fake_only(&job, HARNESS_VERDICT_MISMATCH_EXTRA, "0")->op.seq, 4);
    fake_job_close(&job);
}

/* The same of a program that does not say that it is done: its ranks free what they have, and end
 * well. One that does so where most have gone on is accused as soon as that is seen. */
CT_TEST(done, one_call_too_many_where_nobody_says_so)
{
    for (int is_early = 0; is_early < 2; is_early++) {
        struct fake_job job;

        begin_done(&job, 4, 3);
        fake_comm_free(&job, 1, 0, false);
        fake_state(&job, 1, HARNESS_WATCH_EXITED, 0);
        CT_CHECK_EQ_U64(fake_look(&job, MS), 0);
        for (uint32_t r = 2; r < 4; r++) {
            if (is_early != 0) {
                fake_wait(&job, r, 0, 0, fake_post(&job, r, 0, 10, 0));
            } else {
                fake_comm_free(&job, r, 0, false);
                fake_state(&job, r, HARNESS_WATCH_EXITED, 0);
            }
        }
        fake_look(&job, MS);
        if (is_early != 0) {
            (void)fake_only(&job, HARNESS_VERDICT_CRASH_FINISHED_EARLY, "1");
        } else {
            (void)fake_only(&job, HARNESS_VERDICT_MISMATCH_EXTRA, "0");
        }
        fake_job_close(&job);
    }
}

/* Whoever ends without having freed anything has ended in the middle of its work: at once. */
CT_TEST(done, in_the_middle_of_its_work)
{
    struct fake_job job;

    begin_done(&job, 4, 3);
    fake_state(&job, 1, HARNESS_WATCH_EXITED, 0);
    fake_look(&job, MS);
    (void)fake_only(&job, HARNESS_VERDICT_CRASH_FINISHED_EARLY, "1");
    fake_job_close(&job);
}

/* The others come to that call: whoever is done has left it out. */
CT_TEST(done, one_call_too_few)
{
    struct fake_job job;

    begin_done(&job, 4, 3);
    fake_detach(&job, 1);
    CT_CHECK_EQ_U64(fake_look(&job, MS), 0);
    fake_wait(&job, 2, 0, 0, fake_post(&job, 2, 0, 10, 0));
    fake_wait(&job, 3, 0, 0, fake_post(&job, 3, 0, 10, 0));
    fake_look(&job, MS);
    (void)fake_only(&job, HARNESS_VERDICT_CRASH_FINISHED_EARLY, "1");
    fake_job_close(&job);
}

/* Of two, nothing tells; unless the one that waits has gone on to another step. */
CT_TEST(done, of_two_ranks)
{
    for (int has_gone_on = 0; has_gone_on < 2; has_gone_on++) {
        struct fake_job job;

        fake_job_begin(&job, 2);
        for (uint32_t r = 0; r < 2; r++) {
            fake_done(&job, r, 0, fake_post(&job, r, 0, 10, 0));
        }
        fake_step(&job, 0, (uint32_t)has_gone_on);
        fake_wait(&job, 0, 0, 0, fake_post(&job, 0, 0, 10, 0));
        fake_detach(&job, 1);
        fake_look(&job, MS);
        (void)fake_only(&job, HARNESS_VERDICT_CRASH_FINISHED_EARLY, has_gone_on != 0 ? "1" : "0,1");
        fake_job_close(&job);
    }
}
