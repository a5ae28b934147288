/* Ranks that are gone or do not go on, and reading the arena. */
#include <signal.h>
#include <string.h>

#include "tests/ct.h"
#include "tests/unit/watch/fake_rank.h"

enum { MS = 1000000 };

static void check_only(const struct fake_job *job, enum harness_verdict verdict, uint32_t culprit)
{
    CT_CHECK_EQ_U64(job->findings.count, 1);
    if (job->findings.count > 0) {
        CT_CHECK_STR(harness_verdict_name(job->findings.items[0].verdict),
                     harness_verdict_name(verdict));
        CT_CHECK(harness_rank_set_has(&job->findings.items[0].culprits, culprit));
    }
}

/* Ranks but one wait in their first call. */
static void begin_waiting(struct fake_job *job, uint32_t world_size, uint32_t but)
{
    fake_job_begin(job, world_size);
    for (uint32_t r = 0; r < world_size; r++) {
        if (r != but) {
            fake_wait(job, r, 0, 0, fake_post(job, r, 0, 10, 0));
        }
    }
}

CT_TEST(watch, dead_while_others_wait)
{
    struct fake_job job;
    const struct harness_finding *finding;

    begin_waiting(&job, 3, 1);
    CT_CHECK_EQ_U64(fake_look(&job, MS), 0);
    fake_state(&job, 1, HARNESS_WATCH_SIGNALED, SIGSEGV);
    fake_look(&job, MS);
    check_only(&job, HARNESS_VERDICT_CRASH_SIGNALED, 1);
    finding = &job.findings.items[0];
    CT_CHECK_EQ_U64(finding->op.seq, 1);
    CT_CHECK_EQ_U64(harness_rank_set_count(&finding->victims), 2);
    CT_CHECK_EQ_I64(finding->detect_ns, MS);
    CT_CHECK(strstr(finding->text, "SIGSEGV") != NULL);
    fake_job_close(&job);
}

CT_TEST(watch, ended_too_early)
{
    struct fake_job job;

    begin_waiting(&job, 2, 1);
    fake_detach(&job, 1);
    fake_state(&job, 1, HARNESS_WATCH_EXITED, 0);
    fake_look(&job, MS);
    check_only(&job, HARNESS_VERDICT_CRASH_FINISHED_EARLY, 1);
    fake_job_close(&job);
}

CT_TEST(watch, a_good_end)
{
    struct fake_job job;

    fake_job_begin(&job, 2);
    for (uint32_t r = 0; r < 2; r++) {
        fake_done(&job, r, 0, fake_post(&job, r, 0, 10, 0));
        fake_detach(&job, r);
        fake_state(&job, r, HARNESS_WATCH_EXITED, 0);
        CT_CHECK_EQ_U64(fake_look(&job, 3000 * (uint64_t)MS), 0);
    }
    fake_job_close(&job);
}

/* Rank 0 fails inside a call that rank 1 left: rank 1 is to blame, also if its end is seen later.
 */
CT_TEST(watch, taken_along)
{
    struct fake_job job;

    begin_waiting(&job, 3, 1);
    fake_state(&job, 0, HARNESS_WATCH_EXITED, 1);
    job.watch.ranks[1].is_ending = true;
    CT_CHECK_EQ_U64(fake_look(&job, MS), 0);
    job.watch.ranks[1].is_ending = false;
    fake_state(&job, 1, HARNESS_WATCH_EXITED, 3);
    fake_look(&job, MS);
    check_only(&job, HARNESS_VERDICT_CRASH_EXITED, 1);
    fake_job_close(&job);
}

/* A library gives up in a thread of its own, by abort(), once a peer's connections are closed: that
 * is seen before the peer's end, which is to blame however it came. */
CT_TEST(watch, aborted_behind_another_end)
{
    static const struct {
        enum harness_watch_state state;
        int code;
        enum harness_verdict verdict;
    } ends[] = {{HARNESS_WATCH_EXITED, 0, HARNESS_VERDICT_CRASH_FINISHED_EARLY},
                {HARNESS_WATCH_EXITED, 3, HARNESS_VERDICT_CRASH_EXITED},
                {HARNESS_WATCH_SIGNALED, SIGKILL, HARNESS_VERDICT_CRASH_SIGNALED}};

    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        struct fake_job job;

        begin_waiting(&job, 2, 1);
        fake_state(&job, 0, HARNESS_WATCH_SIGNALED, SIGABRT);
        job.watch.ranks[1].is_ending = true;
        CT_CHECK_EQ_U64(fake_look(&job, MS), 0);
        job.watch.ranks[1].is_ending = false;
        fake_state(&job, 1, ends[i].state, ends[i].code);
        fake_look(&job, MS);
        check_only(&job, ends[i].verdict, 1);
        fake_job_close(&job);
    }
}

/* It has posted the call that the other one aborted in, and left it with code 0 before it was done.
 */
CT_TEST(watch, left_inside_of_what_another_aborted_in)
{
    struct fake_job job;
    uint64_t seq;

    fake_job_begin(&job, 2);
    (void)fake_post(&job, 1, 0, 10, 0);
    seq = fake_post(&job, 0, 0, 10, 0);
    fake_wait(&job, 0, 0, 0, seq);
    fake_state(&job, 1, HARNESS_WATCH_EXITED, 0);
    CT_CHECK_EQ_U64(fake_look(&job, MS), 0); /* what both have posted may come to its end */
    fake_state(&job, 0, HARNESS_WATCH_SIGNALED, SIGABRT);
    fake_look(&job, MS);
    check_only(&job, HARNESS_VERDICT_CRASH_FINISHED_EARLY, 1);
    fake_job_close(&job);
}

/* Both wait for the device in the first call, rank 0 has posted the next one, rank 1 has left: a
 * thread that waits does not make its exit with code 0 a failure. */
CT_TEST(watch, left_with_a_call_under_way)
{
    struct fake_job job;

    fake_job_begin(&job, 2);
    for (uint32_t r = 0; r < 2; r++) {
        fake_wait(&job, r, 0, 0, fake_post(&job, r, 0, 10, 0));
    }
    (void)fake_post(&job, 0, 0, 20, 0);
    fake_state(&job, 1, HARNESS_WATCH_EXITED, 0);
    fake_state(&job, 0, HARNESS_WATCH_SIGNALED, SIGABRT);
    fake_look(&job, MS);
    check_only(&job, HARNESS_VERDICT_CRASH_FINISHED_EARLY, 1);
    fake_job_close(&job);
}

/* Rank 1 is what aborted: that rank 0 was ended for it by whoever started it does not clear it; nor
 * that rank 0 aborted as well. */
CT_TEST(watch, aborted_by_itself)
{
    struct fake_job job;

    for (int signal = SIGTERM; signal != 0; signal = signal == SIGTERM ? SIGABRT : 0) {
        fake_job_begin(&job, 2);
        for (uint32_t r = 0; r < 2; r++) {
            fake_wait(&job, r, 0, 0, fake_post(&job, r, 0, 10, 0));
        }
        fake_state(&job, 1, HARNESS_WATCH_SIGNALED, SIGABRT);
        job.now_ns += MS;
        job.watch.ranks[0].is_of_launcher = true;
        fake_state(&job, 0, HARNESS_WATCH_SIGNALED, signal);
        CT_CHECK(fake_look(&job, MS) > 0);
        CT_CHECK_EQ_I64(harness_watch_crash_of(&job.watch, 1), HARNESS_VERDICT_CRASH_SIGNALED);
        fake_job_close(&job);
    }
}

/* Rank 1 ended well, and too early: whoever came to the next call has failed there before anything
 * was seen. */
/* Who leaves out a broadcast of rank 0 and ends well keeps nobody who is about to have it; rank 0
 * that does not send it keeps all, and so does a listener through which it would have to go. */
CT_TEST(watch, ended_without_a_broadcast)
{
    const uint64_t op =
        guest_op_pack(DDPROVE_GUEST_BROADCAST, DDPROVE_GUEST_F32, DDPROVE_GUEST_NO_REDOP, 0);

    for (uint32_t who = 0; who < 2; who++) {
        struct fake_job job;
        size_t found;

        fake_job_begin(&job, 3);
        for (uint32_t r = 0; r < 3; r++) {
            if (r != who) {
                fake_wait(&job, r, 0, 0, fake_post_op(&job, r, 0, op, 10, 0));
            }
        }
        fake_detach(&job, who);
        fake_state(&job, who, HARNESS_WATCH_EXITED, 0);
        found = fake_look(&job, MS);
        CT_REQUIRE(found == (who == 0 ? 1 : 0));
        if (who == 1) {
            CT_CHECK_EQ_U64(fake_look(&job, HARNESS_WATCH_CYCLE_HOLD_NS / 2), 0);
            fake_look(&job, HARNESS_WATCH_CYCLE_HOLD_NS);
        }
        check_only(&job, HARNESS_VERDICT_CRASH_FINISHED_EARLY, who);
        fake_job_close(&job);
    }
}

/* It is one finding, however long it takes until the job is ended. */
CT_TEST(watch, stopped_for_longer_than_the_limit)
{
    struct fake_job job;

    begin_waiting(&job, 2, 1);
    fake_state(&job, 1, HARNESS_WATCH_STOPPED, SIGSTOP);
    CT_CHECK_EQ_U64(fake_look(&job, MS), 0);
    fake_look(&job, 3 * job.limits.silent_ns);
    check_only(&job, HARNESS_VERDICT_HANG_STOPPED, 1);
    fake_job_close(&job);
}

CT_TEST(watch, ended_before_those_who_failed)
{
    struct fake_job job;

    begin_waiting(&job, 3, 1);
    fake_wait(&job, 2, 0, 0, 0);
    fake_detach(&job, 1);
    fake_state(&job, 1, HARNESS_WATCH_EXITED, 0);
    job.now_ns += MS;
    fake_state(&job, 0, HARNESS_WATCH_EXITED, 1);
    fake_look(&job, MS);
    check_only(&job, HARNESS_VERDICT_CRASH_FINISHED_EARLY, 1);
    fake_job_close(&job);
}

/* A rank that leaves because another one died is not to blame. */
CT_TEST(watch, leaves_after_a_death)
{
    struct fake_job job;

    begin_waiting(&job, 2, 1);
    fake_state(&job, 0, HARNESS_WATCH_SIGNALED, SIGKILL);
    job.now_ns += MS;
    fake_state(&job, 1, HARNESS_WATCH_EXITED, 0);
    fake_look(&job, MS);
    check_only(&job, HARNESS_VERDICT_CRASH_SIGNALED, 0);
    fake_job_close(&job);
}

/* It fails by itself inside a call: nobody else is gone. */
CT_TEST(watch, fails_inside_a_call)
{
    struct fake_job job;

    begin_waiting(&job, 3, 1);
    fake_state(&job, 0, HARNESS_WATCH_EXITED, 1);
    fake_look(&job, MS);
    check_only(&job, HARNESS_VERDICT_CRASH_EXITED, 0);
    fake_job_close(&job);
}

CT_TEST(watch, stopped_for_long)
{
    struct fake_job job;

    begin_waiting(&job, 2, 1);
    fake_state(&job, 1, HARNESS_WATCH_STOPPED, SIGSTOP);
    CT_CHECK_EQ_U64(fake_look(&job, HARNESS_WATCH_STOP_HOLD_NS - 1), 0);
    fake_look(&job, 1);
    check_only(&job, HARNESS_VERDICT_HANG_STOPPED, 1);
    fake_job_close(&job);
}

/* It has posted the call that the others are in, and moves no data for it. */
CT_TEST(watch, stopped_inside_a_call)
{
    struct fake_job job;

    begin_waiting(&job, 3, 3);
    fake_state(&job, 2, HARNESS_WATCH_STOPPED, SIGSTOP);
    fake_look(&job, 2 * HARNESS_WATCH_STOP_HOLD_NS);
    check_only(&job, HARNESS_VERDICT_HANG_STOPPED, 2);
    fake_job_close(&job);
}

CT_TEST(watch, stopped_and_needed_by_nobody)
{
    struct fake_job job;

    fake_job_begin(&job, 2);
    fake_state(&job, 1, HARNESS_WATCH_STOPPED, SIGSTOP);
    CT_CHECK_EQ_U64(fake_look(&job, 10 * HARNESS_WATCH_STOP_HOLD_NS), 0);
    fake_job_close(&job);
}

/* Two communicators of the same two ranks, used in opposite order. */
static void begin_crossed(struct fake_job *job)
{
    fake_job_begin(job, 3);
    for (uint32_t r = 0; r < 2; r++) {
        fake_comm(job, r, 1, 2, r, 2);
        fake_comm(job, r, 2, 3, r, 2);
        fake_wait(job, r, 0, 1 + r, fake_post(job, r, 1 + r, 10, 0));
    }
}

CT_TEST(watch, circle_across_communicators)
{
    struct fake_job job;

    begin_crossed(&job);
    CT_CHECK_EQ_U64(fake_look(&job, MS), 0);
    CT_CHECK_EQ_U64(fake_look(&job, HARNESS_WATCH_CYCLE_HOLD_NS - MS), 0);
    fake_look(&job, MS);
    check_only(&job, HARNESS_VERDICT_HANG_CYCLE, 0);
    CT_CHECK(harness_rank_set_has(&job.findings.items[0].culprits, 1));
    CT_CHECK(!harness_rank_set_has(&job.findings.items[0].culprits, 2));
    fake_job_close(&job);
}

/* Four ranks with two communicators: one leaves out a call of the first, and waits in the second.
 */
CT_TEST(watch, a_stray_in_a_circle)
{
    struct fake_job job;

    fake_job_begin(&job, 4);
    for (uint32_t r = 0; r < 4; r++) {
        fake_comm(&job, r, 1, 2, r, 4);
        fake_done(&job, r, 0, fake_post(&job, r, 0, 10, 0));
        fake_done(&job, r, 1, fake_post(&job, r, 1, 20, 0));
        fake_wait(&job, r, 0, r == 2, fake_post(&job, r, r == 2, r == 2 ? 20 : 10, 0));
    }
    fake_look(&job, MS);
    fake_look(&job, HARNESS_WATCH_CYCLE_HOLD_NS);
    check_only(&job, HARNESS_VERDICT_HANG_CYCLE, 2);
    CT_CHECK_EQ_U64(harness_rank_set_count(&job.findings.items[0].culprits), 1);
    CT_CHECK_EQ_U64(harness_rank_set_count(&job.findings.items[0].victims), 3);
    CT_CHECK_EQ_U64(job.findings.items[0].op.elem_count, 10);
    fake_job_close(&job);
}

/* Another thread of rank 1 is free, and may post what rank 0 waits for. */
CT_TEST(watch, a_free_thread_is_no_circle)
{
    struct fake_job job;

    begin_crossed(&job);
    fake_wait(&job, 1, 1, 0, 0);
    fake_look(&job, MS);
    CT_CHECK_EQ_U64(fake_look(&job, 2 * HARNESS_WATCH_CYCLE_HOLD_NS), 0);
    fake_job_close(&job);
}

/* All have posted the call: it may take as long as others may wait. */
CT_TEST(watch, a_slow_call_is_no_circle)
{
    struct fake_job job;

    begin_waiting(&job, 3, 3);
    fake_look(&job, MS);
    CT_CHECK_EQ_U64(fake_look(&job, job.limits.silent_ns - 1), 0);
    fake_job_close(&job);
}

CT_TEST(watch, overdue)
{
    struct fake_job job;

    begin_waiting(&job, 3, 1);
    CT_CHECK_EQ_U64(fake_look(&job, job.limits.silent_ns), 0);
    fake_look(&job, MS);
    check_only(&job, HARNESS_VERDICT_HANG_NOT_JOINED, 1);
    CT_CHECK(job.findings.items[0].mode == HARNESS_MODE_BUDGET);
    fake_job_close(&job);
}

/* A rank that never showed itself is known by the communicator that lacks it. */
CT_TEST(watch, never_came)
{
    struct fake_job job;

    fake_job_open(&job, 3, 64);
    for (uint32_t r = 0; r < 2; r++) {
        fake_attach(&job, r);
        fake_comm(&job, r, 0, 1, r, 3);
        fake_wait(&job, r, 0, 0, fake_post(&job, r, 0, 10, 0));
    }
    CT_CHECK_EQ_U64(fake_look(&job, job.limits.attach_ns), 0);
    fake_look(&job, MS);
    check_only(&job, HARNESS_VERDICT_LAUNCH_MISSING_RANK, 2);
    fake_job_close(&job);
}

/* A communicator that was freed and made again under its old key is another one. */
CT_TEST(watch, keys_may_be_used_again)
{
    struct fake_job job;

    fake_job_begin(&job, 2);
    for (int round = 0; round < 3; round++) {
        for (uint32_t r = 0; r < 2; r++) {
            fake_done(&job, r, 0, fake_post(&job, r, 0, 10 + (uint64_t)round, 0));
        }
        for (uint32_t r = 0; r < 2; r++) {
            fake_comm(&job, r, 0, 1, r, 2);
        }
    }
    CT_CHECK_EQ_U64(fake_look(&job, MS), 0);
    CT_CHECK_EQ_U64(job.watch.group_count, 4);
    fake_job_close(&job);
}

/* Entries that were overwritten before they were read are counted. One that was never finished is
 * none, and hides nothing: its writer was killed first. */
CT_TEST(watch, lost_entries)
{
    struct fake_job job;

    fake_job_open(&job, 1, 8);
    fake_attach(&job, 0);
    fake_comm(&job, 0, 0, 1, 0, 1);
    fake_look(&job, MS);
    for (int i = 0; i < 11; i++) {
        fake_post(&job, 0, 0, 10, 0);
    }
    fake_look(&job, MS);
    CT_CHECK(job.watch.ranks[0].lost_count >= 3);
    job.watch.ranks[0].lost_count = 0;
    fake_post(&job, 0, 0, 10, 0);
    guest_arena_ring(job.arena.head, 0)[(guest_arena_page(job.arena.head, 0)->entry_count - 1) % 8]
        .index = 0;
    fake_look(&job, MS);
    CT_CHECK_EQ_U64(job.watch.ranks[0].lost_count, 0); /* it may still come */
    fake_post(&job, 0, 0, 10, 0);                      /* another thread's */
    fake_look(&job, MS);
    CT_CHECK_EQ_U64(job.watch.groups[0].members[0].posted, 11);
    fake_state(&job, 0, HARNESS_WATCH_SIGNALED, SIGKILL);
    fake_look(&job, MS);
    CT_CHECK_EQ_U64(job.watch.ranks[0].lost_count, 0);
    CT_CHECK_EQ_U64(job.watch.groups[0].members[0].posted, 13);
    fake_job_close(&job);
}

/* A call whose record was overwritten before it was read is no call with other arguments. */
CT_TEST(watch, lost_records_are_no_calls)
{
    struct fake_job job;

    fake_job_open(&job, 2, 8);
    for (uint32_t r = 0; r < 2; r++) {
        fake_attach(&job, r);
        fake_comm(&job, r, 0, 1, r, 2);
    }
    CT_CHECK_EQ_U64(fake_look(&job, 1), 0);
    for (int i = 0; i < 8; i++) {
        fake_done(&job, 0, 0, fake_post(&job, 0, 0, 100, 1)); /* twice as many as the ring holds */
    }
    for (int i = 0; i < 4; i++) {
        fake_done(&job, 1, 0, fake_post(&job, 1, 0, 100, 1));
    }
    CT_CHECK_EQ_U64(fake_look(&job, 1000000000), 0);
    CT_CHECK(job.watch.ranks[0].lost_count > 0);
    CT_CHECK(harness_watch_call_at(&job.watch.groups[0].members[0], 1) == NULL);
    CT_CHECK(harness_watch_call_at(&job.watch.groups[0].members[0], 8) != NULL);
    for (int i = 0; i < 100; i++) {
        fake_done(&job, 0, 0, fake_post(&job, 0, 0, 100, 1));
    }
    CT_CHECK_EQ_U64(fake_look(&job, 1000000000), 0);
    CT_CHECK_EQ_U64(job.watch.groups[0].members[0].posted, 108); /* others do not miss it */
    fake_job_close(&job);
}
