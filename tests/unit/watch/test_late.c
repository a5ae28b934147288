/* What is said of ranks that others have waited for in a call for a while, which is no finding. */
#include "ddpcore/base/clock.h"
#include "tests/ct.h"
#include "tests/unit/watch/fake_rank.h"

enum { MS = DDP_NS_PER_MS, RANKS = 4 };

static struct harness_watch_late last[RANKS];

/* All have made a call; ranks 0 and 3 wait in the next one. */
static void begin(struct fake_job *job)
{
    fake_job_begin(job, RANKS);
    for (uint32_t r = 0; r < RANKS; r++) {
        last[r] = (struct harness_watch_late){0};
        fake_done(job, r, 0, fake_post(job, r, 0, 10, 0));
    }
    for (uint32_t r = 0; r < RANKS; r += 3) {
        fake_wait(job, r, 0, 0, fake_post(job, r, 0, 10, 0));
    }
}

/* Time passes; what is said is the sentence, "": nothing, and no finding. */
static void check(struct fake_job *job, uint64_t later_ns, const char *sentence)
{
    struct ddp_text text;
    bool is_said;

    CT_CHECK_EQ_U64(fake_look(job, later_ns), 0);
    ddp_text_init(&text, job->watch.mem);
    is_said = harness_watch_say_late(&job->watch, last, job->watch.mem, &text);
    CT_CHECK_STR(ddp_text_str(&text), sentence);
    CT_CHECK(is_said == (sentence[0] != '\0'));
    ddp_text_fini(&text);
}

/* Once for a call, and of a rank once a minute. */
CT_TEST(late, is_said_once)
{
    struct fake_job job;

    begin(&job);
    job.limits.silent_ns = UINT64_MAX;
    check(&job, 999 * (uint64_t)MS, "");
    check(&job, MS,
          "ranks 1,2 have not come to all_reduce 2 of world (10 f32, sum) for 1.0 s; ranks 0,3 "
          "wait");
    check(&job, MS, "");
    check(&job, 2 * HARNESS_WATCH_LATE_AGAIN_NS, "");
    fake_post(&job, 1, 0, 10, 0);
    fake_post(&job, 2, 0, 10, 0);
    for (uint32_t r = 0; r < RANKS; r++) {
        fake_done(&job, r, 0, 2);
        fake_wait(&job, r, 0, 0, 0);
    }
    fake_wait(&job, 1, 0, 0, fake_post(&job, 1, 0, 10, 0));
    check(&job, 1001 * (uint64_t)MS,
          "ranks 0,2,3 have not come to all_reduce 3 of world (10 f32, sum) for 1.0 s; rank 1 "
          "waits");
    for (uint32_t r = 0; r < RANKS; r++) {
        if (r != 1) {
            fake_post(&job, r, 0, 10, 0);
        }
        fake_done(&job, r, 0, 3);
        fake_wait(&job, r, 0, 0, 0);
    }
    fake_wait(&job, 1, 0, 0, fake_post(&job, 1, 0, 10, 0));
    check(&job, HARNESS_WATCH_LATE_AGAIN_NS - MS, ""); /* another call, and too soon */
    check(&job, MS,
          "ranks 0,2,3 have not come to all_reduce 4 of world (10 f32, sum) for 60.0 s; rank 1 "
          "waits");
    fake_job_close(&job);
}

/* Of a rank that is stopped, waits itself, had no CPU, or has not begun, nothing is said; nor of
 * calls in which nobody just waits. */
CT_TEST(late, only_of_who_goes_on)
{
    struct fake_job job;

    begin(&job);
    job.watch.ranks[2].starved_ns = MS;
    fake_wait(&job, 1, 0, 0, guest_wait_pack(2, 2));
    check(&job, 1000 * (uint64_t)MS, "");
    check(&job, MS,
          "rank 2 has not come to all_reduce 2 of world (10 f32, sum) for 1.0 s; ranks 0,3 wait");
    fake_wait(&job, 1, 0, 0, 0);
    check(&job, MS,
          "rank 1 has not come to all_reduce 2 of world (10 f32, sum) for 1.0 s; ranks 0,3 wait");
    fake_job_close(&job);

    begin(&job);
    fake_wait(&job, 0, 0, 0, guest_wait_pack(1, 1));
    fake_poll(&job, 3, 0, 0, 2);
    job.now_ns += 900 * (uint64_t)MS;
    fake_poll(&job, 3, 0, 0, 2);
    check(&job, 200 * (uint64_t)MS, "");
    fake_job_close(&job);

    fake_job_begin(&job, 2);
    last[1] = (struct harness_watch_late){0};
    fake_wait(&job, 0, 0, 0, fake_post(&job, 0, 0, 10, 0));
    check(&job, 1500 * (uint64_t)MS, "");
    fake_job_close(&job);
}
