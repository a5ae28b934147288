/* What is said at once, what after a while, and what never: the rules' conditions one by one. */
#include <signal.h>
#include <string.h>

#include "harness/watch/names.h"
#include "tests/ct.h"
#include "tests/unit/watch/fake_rank.h"

enum { MS = 1000000 };

static uint64_t op_of(enum ddprove_guest_kind kind)
{
    return guest_op_pack(kind, DDPROVE_GUEST_F32, DDPROVE_GUEST_SUM, 0);
}

/* --- two camps
 * -------------------------------------------------------------------------------------------------
 */

/* Of seven ranks so many posted 100 elements, and so many 99. */
static void begin_camps(struct fake_job *job, uint32_t right, uint32_t wrong)
{
    fake_job_begin(job, 7);
    for (uint32_t r = 0; r < right + wrong; r++) {
        fake_post(job, r, 0, r < right ? 100 : 99, 1);
    }
}

/* More than half of the members have posted the same: whoever comes later changes nothing. */
CT_TEST(camps, decided_by_most_members)
{
    struct fake_job job;

    begin_camps(&job, 3, 1);
    CT_CHECK_EQ_U64(fake_look(&job, MS), 0);
    fake_job_close(&job);
    begin_camps(&job, 4, 1);
    fake_look(&job, MS);
    (void)fake_only(&job, HARNESS_VERDICT_MISMATCH_COUNT, "4");
    fake_job_close(&job);
}

/* Those who come late decide who is right. */
CT_TEST(camps, late_ones_are_asked)
{
    struct fake_job job;

    begin_camps(&job, 2, 1);
    CT_CHECK_EQ_U64(fake_look(&job, HARNESS_WATCH_DIFFER_HOLD_NS - MS), 0);
    for (uint32_t r = 3; r < 7; r++) {
        fake_post(&job, r, 0, 99, 1);
    }
    fake_look(&job, MS);
    (void)fake_only(&job, HARNESS_VERDICT_MISMATCH_COUNT, "0,1");
    fake_job_close(&job);
}

/* Members that are gone post no more: nobody waits for them, but for those who could make another
 * camp as large. */
CT_TEST(camps, decided_when_members_are_gone)
{
    struct fake_job job;

    begin_camps(&job, 3, 1);
    CT_CHECK_EQ_U64(fake_look(&job, MS), 0);
    fake_state(&job, 6, HARNESS_WATCH_EXITED, 0);
    CT_CHECK_EQ_U64(fake_look(&job, MS), 0);
    fake_state(&job, 5, HARNESS_WATCH_EXITED, 0);
    fake_look(&job, MS);
    (void)fake_only(&job, HARNESS_VERDICT_MISMATCH_COUNT, "3");
    fake_job_close(&job);
}

/* A rank's next call here is as its last one. If it posted none elsewhere between, while the others
 * did, it is one too many; if it did as well, one in between was left out. */
CT_TEST(camps, extra_is_told_from_left_out_by_calls_elsewhere)
{
    for (int is_between = 0; is_between < 2; is_between++) {
        struct fake_job job;

        fake_job_begin(&job, 3);
        for (uint32_t r = 0; r < 3; r++) {
            fake_comm(&job, r, 1, 2, r, 3);
        }
        for (uint32_t step = 0; step < 3; step++) {
            for (uint32_t r = 0; r < 3; r++) {
                const bool is_wrong = step == 2 && r == 1;

                job.now_ns += 1000;
                fake_post(&job, r, 0, 10, 0);
                job.now_ns += 1000;
                if (!is_wrong || is_between != 0) {
                    fake_post(&job, r, 1, 1, 0);
                }
                job.now_ns += 1000;
                fake_post(&job, r, 0, is_wrong ? 10 : 20, 0);
            }
        }
        fake_look(&job, MS);
        fake_look(&job, 5 * MS);
        (void)fake_only(&job,
                        is_between != 0 ? HARNESS_VERDICT_MISMATCH_MISSING
                                        : HARNESS_VERDICT_MISMATCH_EXTRA,
                        "1");
        CT_CHECK_EQ_U64(job.findings.items[0].op.seq, 6);
        fake_job_close(&job);
    }
}

/* A library that notices lets a rank fail: that follows from what was posted. A rank that fails
 * elsewhere, or by a signal, has failed by itself. */
CT_TEST(camps, a_refused_rank_has_not_crashed)
{
    enum { INSIDE, BEFORE, ELSEWHERE, OUTSIDE, KILLED, WAY_COUNT };

    for (int way = 0; way < WAY_COUNT; way++) {
        struct fake_job job;
        uint64_t seq;

        fake_job_begin(&job, 3);
        for (uint32_t r = 0; r < 3; r++) {
            fake_comm(&job, r, 1, 2, r, 3);
            fake_post(&job, r, 0, 5, 0);
        }
        for (uint32_t r = 0; r < 3; r++) {
            fake_post(&job, r, 1, 5, 0);
            seq = fake_post(&job, r, 0, r == 1 ? 10 : 20, 0);
        }
        if (way != OUTSIDE) {
            fake_wait(&job, 1, 0, way == ELSEWHERE,
                      way == BEFORE      ? seq - 1
                      : way == ELSEWHERE ? 1
                                         : seq);
        }
        fake_state(&job, 1, way == KILLED ? HARNESS_WATCH_SIGNALED : HARNESS_WATCH_EXITED, 9);
        CT_CHECK_EQ_U64(fake_look(&job, MS), way == INSIDE ? 1 : 2);
        CT_CHECK(job.findings.items[0].verdict == HARNESS_VERDICT_MISMATCH_COUNT);
        fake_job_close(&job);
    }
}

/* It may end before it is known who of two has posted the wrong call: it waits for that. */
CT_TEST(camps, a_refused_rank_ends_first)
{
    struct fake_job job;

    fake_job_begin(&job, 2);
    for (int step = 0; step <= 8; step++) {
        for (uint32_t r = 0; r < 2; r++) {
            fake_step(&job, r, (uint32_t)step);
            fake_done(&job, r, 0, fake_post(&job, r, 0, 10, 1));
            if (step < 8) {
                fake_done(&job, r, 0, fake_post(&job, r, 0, 640, 2));
            }
        }
    }
    (void)fake_post(&job, 0, 0, 640, 2); /* rank 1 leaves it out */
    fake_step(&job, 1, 9);
    (void)fake_post(&job, 1, 0, 10, 1);
    fake_launch(&job, 0, 0, 0, 0, GUEST_LAUNCH_FAILED);
    fake_state(&job, 0, HARNESS_WATCH_EXITED, 1);
    for (int looks = 0; looks < 10; looks++) {
        fake_look(&job, MS);
    }
    fake_only(&job, HARNESS_VERDICT_MISMATCH_MISSING, "1");
    fake_job_close(&job);
}

/* --- circles, sure and not
 * -------------------------------------------------------------------------------------
 */

/* Ranks 0 and 1 wait for each other, in calls of this kind. */
static void begin_crossed(struct fake_job *job, enum ddprove_guest_kind kind)
{
    fake_job_begin(job, 2);
    for (uint32_t r = 0; r < 2; r++) {
        fake_comm(job, r, 1, 2, r, 2);
        fake_wait(job, r, 0, r, fake_post_op(job, r, r, op_of(kind), 10, 0));
    }
}

/* Of one thread each, in calls that need all of them: it shows at once. */
CT_TEST(circle, sure_after_a_moment)
{
    for (int way = 0; way < 2; way++) {
        struct fake_job job;

        begin_crossed(&job, DDPROVE_GUEST_ALL_REDUCE);
        for (uint32_t r = 0; r < 2; r++) {
            guest_arena_page(job.arena.head, r)->is_one_thread = way == 0;
            job.watch.ranks[r].is_alone = way == 1;
        }
        fake_look(&job, MS);
        CT_CHECK_EQ_U64(fake_look(&job, HARNESS_WATCH_SURE_HOLD_NS - 1), 0);
        fake_look(&job, 1);
        (void)fake_only(&job, HARNESS_VERDICT_HANG_CYCLE, "0,1");
        fake_job_close(&job);
    }
}

/* Another thread may come, or the call may end without the others. */
CT_TEST(circle, otherwise_later)
{
    for (int way = 0; way < 2; way++) {
        struct fake_job job;

        begin_crossed(&job, way == 0 ? DDPROVE_GUEST_ALL_REDUCE : DDPROVE_GUEST_BROADCAST);
        for (uint32_t r = 0; r < 2; r++) {
            job.watch.ranks[r].is_alone = way == 1 || r == 0;
        }
        fake_look(&job, MS);
        CT_CHECK_EQ_U64(fake_look(&job, HARNESS_WATCH_CYCLE_HOLD_NS - 1), 0);
        fake_look(&job, 1);
        (void)fake_only(&job, HARNESS_VERDICT_HANG_CYCLE, "0,1");
        fake_job_close(&job);
    }
}

/* --- a call that all have come to
 * ---------------------------------------------------------------------------------
 */

static void begin_inside(struct fake_job *job, uint32_t world_size)
{
    fake_job_begin(job, world_size);
    for (uint32_t r = 0; r < world_size; r++) {
        fake_wait(job, r, 0, 0, fake_post(job, r, 0, 10, 0));
    }
    fake_look(job, MS);
}

CT_TEST(endless, after_the_limit)
{
    struct fake_job job;
    const struct harness_finding *finding;

    begin_inside(&job, 3);
    CT_CHECK_EQ_U64(fake_look(&job, job.limits.silent_ns - 1), 0);
    fake_look(&job, 1);
    finding = fake_only(&job, HARNESS_VERDICT_HANG_CYCLE, "0,1,2");
    CT_CHECK(finding->mode == HARNESS_MODE_BUDGET);
    CT_CHECK_EQ_U64(finding->op.seq, 1);
    fake_job_close(&job);
}

/* Anything that moves begins it anew. */
CT_TEST(endless, not_while_anything_moves)
{
    struct fake_job job;

    begin_inside(&job, 3);
    CT_CHECK_EQ_U64(fake_look(&job, job.limits.silent_ns - 1), 0);
    fake_wait(&job, 1, 0, 0, 0);
    fake_done(&job, 1, 0, 1);
    CT_CHECK_EQ_U64(fake_look(&job, 1), 0);
    CT_CHECK_EQ_U64(fake_look(&job, job.limits.silent_ns - 1), 0);
    fake_look(&job, 1);
    (void)fake_only(&job, HARNESS_VERDICT_HANG_CYCLE, "0,2");
    fake_job_close(&job);
}

/* Who is stopped, or gone, is not inside by its own fault; a better finding is not added to. */
CT_TEST(endless, not_beside_what_explains_it)
{
    struct fake_job job;

    begin_inside(&job, 3);
    fake_state(&job, 2, HARNESS_WATCH_STOPPED, SIGSTOP);
    fake_look(&job, job.limits.silent_ns);
    (void)fake_only(&job, HARNESS_VERDICT_HANG_STOPPED, "2");
    fake_job_close(&job);
}

/* --- what was not read --- */

/* Two threads post at once: the second one's entry comes first. The gap is no call. */
CT_TEST(unread, a_gap_is_no_difference)
{
    struct fake_job job;
    struct guest_page *page;

    fake_job_begin(&job, 2);
    fake_post(&job, 0, 0, 10, 0);
    fake_post(&job, 0, 0, 20, 0);
    page = guest_arena_page(job.arena.head, 1);
    page->comms[0].posted = 1; /* the first thread has taken its number */
    fake_post(&job, 1, 0, 20, 0);
    CT_CHECK_EQ_U64(fake_look(&job, MS), 0);
    CT_CHECK_EQ_U64(fake_look(&job, 2 * HARNESS_WATCH_DIFFER_HOLD_NS), 0);
    page->comms[0].posted = 0;
    fake_post(&job, 1, 0, 10, 0);
    page->comms[0].posted = 2;
    CT_CHECK_EQ_U64(fake_look(&job, MS), 0);
    CT_CHECK_EQ_U64(job.watch.groups[0].checked_seq, 2);
    fake_job_close(&job);
}

/* A rank reports faster than it is read: nobody is accused of what was lost, the history stays
 * short, and how far the rank has come is known. */
CT_TEST(unread, lost_posts_accuse_nobody)
{
    enum { RING = 64, POSTS = 20000 };
    struct fake_job job;

    fake_job_open(&job, 2, RING);
    for (uint32_t r = 0; r < 2; r++) {
        fake_attach(&job, r);
        fake_comm(&job, r, 0, 1, r, 2);
    }
    fake_look(&job, MS);
    for (int i = 0; i < POSTS; i++) {
        fake_done(&job, 0, 0, fake_post(&job, 0, 0, 10 + (uint64_t)(i % 2), 0));
        fake_post(&job, 1, 0, 10 + (uint64_t)(i % 2), 0);
        if (i % (RING / 4) == 0) { /* rank 1 is overtaken once, in the middle */
            CT_CHECK_EQ_U64(fake_look(&job, i == POSTS / 2 ? 1 : MS), 0);
        }
        for (int k = 0; i == POSTS / 2 && k < 3 * RING; k++) {
            fake_post(&job, 1, 0, 10 + (uint64_t)((i + 1 + k) % 2), 0);
        }
    }
    for (int k = 0; k < 3 * RING; k++) {
        fake_done(&job, 0, 0, fake_post(&job, 0, 0, 10 + (uint64_t)(k % 2), 0));
        CT_CHECK_EQ_U64(fake_look(&job, MS), 0);
    }
    CT_CHECK(job.watch.ranks[1].lost_count > 0);
    CT_CHECK_EQ_U64(job.watch.groups[0].members[1].posted, POSTS + 3 * RING);
    CT_CHECK(job.watch.groups[0].members[0].call_count < 3 * 4096);
    fake_wait(&job, 0, 0, 0, POSTS + 3 * RING); /* both have come to it */
    fake_detach(&job, 1);
    CT_CHECK_EQ_U64(fake_look(&job, MS), 0);
    fake_wait(&job, 0, 0, 0, fake_post(&job, 0, 0, 10, 0));
    fake_look(&job, MS);
    (void)fake_only(&job, HARNESS_VERDICT_CRASH_FINISHED_EARLY, "0,1"); /* one call differs */
    fake_job_close(&job);
}

/* Rank 0 has more communicators than can be watched, and may well have come to this one. */
CT_TEST(unread, lost_communicators_accuse_nobody)
{
    for (int is_lost = 0; is_lost < 2; is_lost++) {
        struct fake_job job;

        fake_job_open(&job, 2, 64);
        fake_attach(&job, 0);
        fake_attach(&job, 1);
        fake_comm(&job, 1, 0, 1, 1, 2);
        fake_wait(&job, 1, 0, 0, fake_post(&job, 1, 0, 10, 0));
        guest_arena_page(job.arena.head, 0)->lost_comms = (uint64_t)is_lost;
        fake_detach(&job, 0);
        fake_look(&job, MS);
        if (is_lost != 0) {
            CT_CHECK_EQ_U64(job.findings.count, 0);
        } else {
            (void)fake_only(&job, HARNESS_VERDICT_CRASH_FINISHED_EARLY, "0");
        }
        fake_job_close(&job);
    }
}

/* --- nothing moves
 * ------------------------------------------------------------------------------
 */

/* Nobody waits for anybody: only a limit that was stated tells that from work. */
CT_TEST(still, all_ranks_are_in_code_of_their_own)
{
    for (int is_done = 0; is_done < 2; is_done++) {
        for (int is_limited = 0; is_limited < 2; is_limited++) {
            struct fake_job job;

            fake_job_begin(&job, 3); /* no rank has posted anything */
            job.limits.still_ns = is_limited != 0 ? 100 * (uint64_t)MS : 0;
            for (uint32_t r = 0; r < 3 && is_done != 0; r++) {
                fake_detach(&job, r);
            }
            fake_state(&job, 1, is_done != 0 ? HARNESS_WATCH_EXITED : HARNESS_WATCH_RUNNING, 0);
            CT_CHECK_EQ_U64(fake_look(&job, MS), 0);
            CT_CHECK_EQ_U64(fake_look(&job, 100 * MS), 0);
            fake_look(&job, MS);
            if (is_limited == 0) {
                CT_CHECK_EQ_U64(fake_look(&job, UINT64_C(1) << 40), 0);
            } else if (is_done != 0) {
                CT_CHECK_STR(
                    fake_only(&job, HARNESS_VERDICT_HANG_TEARDOWN, "0,2")->text,
                    "ranks 0,2 were done and have not ended, and nothing has moved for 0.1 s");
            } else {
                CT_CHECK_STR(
                    fake_only(&job, HARNESS_VERDICT_HANG_HOST, "0,1,2")->text,
                    "ranks 0,1,2 are in code of their own, and nothing has moved for 0.1 s");
            }
            fake_job_close(&job);
        }
    }
}

/* One is stopped, and nobody needs it yet: that is why nothing moves. */
CT_TEST(still, a_rank_is_stopped)
{
    struct fake_job job;

    fake_job_begin(&job, 3);
    job.limits.still_ns = 100 * (uint64_t)MS;
    fake_state(&job, 1, HARNESS_WATCH_STOPPED, 0);
    CT_CHECK_EQ_U64(fake_look(&job, 100 * MS), 0);
    fake_look(&job, 101 * MS);
    CT_CHECK_STR(fake_only(&job, HARNESS_VERDICT_HANG_STOPPED, "1")->text,
                 "rank 1 is stopped (SIGSTOP), and nothing has moved for 0.1 s");
    fake_job_close(&job);
}

/* --- names
 * -----------------------------------------------------------------------------------------------------
 */

/* A communicator's name is whatever the program says; it stands in lines of text. */
CT_TEST(names, control_characters_are_replaced)
{
    struct fake_job job;
    struct guest_page *page;

    fake_job_open(&job, 1, 64);
    fake_attach(&job, 0);
    fake_comm(&job, 0, 0, 1, 0, 1);
    page = guest_arena_page(job.arena.head, 0);
    memset(page->comms[0].name, 'x', sizeof page->comms[0].name); /* it need not end */
    memcpy(page->comms[0].name, "a\nb\r\tc\x01 \xc3\xa4", 10);
    fake_look(&job, MS);
    CT_CHECK_STR(job.watch.groups[0].name, "a?b??c? \xc3\xa4xxxxxxxxxxxxxxxxxxxxx");
    fake_job_close(&job);
}

CT_TEST(names, are_found_again)
{
    enum harness_watch_state state;
    uint32_t number;

    for (uint32_t i = 0; i < DDPROVE_GUEST_KIND_COUNT; i++) {
        CT_CHECK(harness_watch_kind_find(harness_watch_kind_name(i), &number) && number == i);
    }
    for (uint32_t i = 0; i < DDPROVE_GUEST_DTYPE_COUNT; i++) {
        CT_CHECK(harness_watch_dtype_find(harness_watch_dtype_name(i), &number) && number == i);
    }
    for (uint32_t i = 0; i < DDPROVE_GUEST_REDOP_COUNT; i++) {
        CT_CHECK(harness_watch_redop_find(harness_watch_redop_name(i), &number) && number == i);
    }
    for (int i = 0; i <= HARNESS_WATCH_SIGNALED; i++) {
        CT_CHECK(harness_watch_state_find(harness_watch_state_name((enum harness_watch_state)i),
                                          &state) &&
                 (int)state == i);
    }
    CT_CHECK(!harness_watch_kind_find("", &number) && !harness_watch_dtype_find("f8", &number));
    CT_CHECK(!harness_watch_redop_find("?", &number) && !harness_watch_state_find("dead", &state));
}

/* What a program of a later version may say has a name too. */
CT_TEST(names, unknown_numbers)
{
    struct fake_job job;

    CT_CHECK_STR(harness_watch_kind_name(DDPROVE_GUEST_KIND_COUNT), "?");
    CT_CHECK_STR(harness_watch_dtype_name(UINT32_MAX), "?");
    CT_CHECK_STR(harness_watch_redop_name(DDPROVE_GUEST_REDOP_COUNT), "?");
    fake_job_begin(&job, 1);
    fake_post_op(&job, 0, 0, guest_op_pack(250, 251, 252, 3), 10, 0);
    fake_look(&job, MS);
    CT_CHECK_EQ_U64(job.watch.groups[0].members[0].calls[0].op,
                    guest_op_pack(DDPROVE_GUEST_OTHER, DDPROVE_GUEST_BYTES, DDPROVE_GUEST_USER, 3));
    fake_job_close(&job);
}
