/* Calls that a rank left out, and of which others have the result; and what looks like that. */
#include <string.h>

#include "harness/watch/names.h"
#include "tests/ct.h"
#include "tests/unit/watch/drawn_job.h"

enum { MS = 1000000, WORLD = 0, METRICS = 1 };

static uint64_t op_of(enum ddprove_guest_kind kind)
{
    return guest_op_pack(kind, DDPROVE_GUEST_F32, DDPROVE_GUEST_SUM, 0);
}

/* Three ranks; all but the last have the result of a call of this kind. */
static void begin_with_result(struct fake_job *job, enum ddprove_guest_kind kind, uint64_t count)
{
    fake_job_begin(job, 3);
    for (uint32_t r = 0; r < 2; r++) {
        fake_step(job, r, 7);
        fake_done(job, r, 0, fake_post_op(job, r, 0, op_of(kind), count, 3));
    }
}

CT_TEST(left_out, a_call_whose_result_others_have)
{
    struct fake_job job;
    const struct harness_finding *finding;

    begin_with_result(&job, DDPROVE_GUEST_ALL_REDUCE, 10);
    CT_CHECK_EQ_U64(fake_look(&job, MS), 0); /* its post may just not have been read */
    fake_look(&job, MS);
    finding = fake_only(&job, HARNESS_VERDICT_MISMATCH_MISSING, "2");
    CT_CHECK(finding->mode == HARNESS_MODE_PROVABLE);
    CT_CHECK_EQ_U64(finding->op.seq, 1);
    CT_CHECK_EQ_I64(finding->op.bucket, 2);
    CT_CHECK_EQ_I64(finding->step, 7);
    CT_CHECK_STR(finding->text, "rank 2 has not posted all_reduce 1 of world (10 f32, sum, bucket "
                                "2), of which others have the result");
    CT_CHECK_EQ_U64(fake_look(&job, MS), 1); /* once */
    fake_job_close(&job);
}

/* The name of a call's buffer is cut to its place, and one of a call that is not known is left. */
CT_TEST(left_out, the_buffer_is_named)
{
    struct fake_job job;
    uint64_t arg[GUEST_ARG_COUNT] = {1 | UINT64_C(1) << 32};

    begin_with_result(&job, DDPROVE_GUEST_ALL_REDUCE, 10);
    memset(&arg[1], 'w', GUEST_NAME_BYTES);
    memcpy(&arg[1], "fc.weight", sizeof "fc.weight");
    fake_report(&job, 0, GUEST_EVENT_CALL_NAME, arg);
    arg[0] = 1 | UINT64_C(9) << 32;
    fake_report(&job, 1, GUEST_EVENT_CALL_NAME, arg);
    arg[0] = 5 | UINT64_C(1) << 32;
    fake_report(&job, 1, GUEST_EVENT_CALL_NAME, arg);
    fake_look(&job, MS);
    fake_look(&job, MS);
    CT_CHECK_STR(fake_only(&job, HARNESS_VERDICT_MISMATCH_MISSING, "2")->text,
                 "rank 2 has not posted all_reduce 1 of world (10 f32, sum, bucket 2, fc.weight), "
                 "of which others have the result");
    fake_job_close(&job);
}

/* One of three has a result of a call that the others have not come to: it took what they had sent
 * for another communicator's, and they are not to blame. */
CT_TEST(left_out, not_by_most)
{
    struct fake_job job;
    const struct harness_finding *finding;

    fake_job_begin(&job, 3);
    for (uint32_t r = 0; r < 3; r++) {
        fake_done(&job, r, 0, fake_post(&job, r, 0, 1, 0));
    }
    fake_done(&job, 0, 0, fake_post(&job, 0, 0, 1, 0));
    fake_look(&job, MS);
    fake_look(&job, MS);
    finding = &job.findings.items[0];
    CT_REQUIRE(job.findings.count == 1 && harness_rank_set_has(&finding->culprits, 0));
    CT_CHECK_STR(finding->text, "rank 0 has a result of all_reduce 2 of world (1 f32, sum), which "
                                "most members have not posted: it is one too many");
    fake_job_close(&job);
}

/* The post is read a moment after the result: nothing was left out. */
CT_TEST(left_out, not_if_it_comes_with_the_next_read)
{
    struct fake_job job;

    begin_with_result(&job, DDPROVE_GUEST_ALL_REDUCE, 10);
    CT_CHECK_EQ_U64(fake_look(&job, MS), 0);
    fake_step(&job, 2, 7);
    fake_post(&job, 2, 0, 10, 3);
    CT_CHECK_EQ_U64(fake_look(&job, MS), 0);
    CT_CHECK_EQ_U64(fake_look(&job, MS), 0);
    fake_job_close(&job);
}

/* Which calls end for nobody before all have come. */
CT_TEST(left_out, only_of_calls_that_need_all)
{
    static const bool needs_all[DDPROVE_GUEST_KIND_COUNT] = {
        [DDPROVE_GUEST_ALL_REDUCE] = true,     [DDPROVE_GUEST_ALL_GATHER] = true,
        [DDPROVE_GUEST_REDUCE_SCATTER] = true, [DDPROVE_GUEST_ALL_TO_ALL] = true,
        [DDPROVE_GUEST_BARRIER] = true,
    };

    for (uint32_t kind = 0; kind < DDPROVE_GUEST_KIND_COUNT; kind++) {
        for (uint64_t count = 0; count < 2; count++) {
            const bool is_left_out =
                needs_all[kind] && (count > 0 || kind == DDPROVE_GUEST_BARRIER);
            struct harness_watch_call call = {.op = op_of((enum ddprove_guest_kind)kind),
                                              .elem_count = count};
            struct fake_job job;

            CT_CHECK(harness_watch_needs_all(&call) == is_left_out);
            begin_with_result(&job, (enum ddprove_guest_kind)kind, count);
            fake_look(&job, MS);
            if (fake_look(&job, MS) != is_left_out) {
                CT_FAIL("%s of %u elements", harness_watch_kind_name(kind), (unsigned)count);
            }
            fake_job_close(&job);
        }
    }
}

/* --- ranks that are out of step, over one connection
 * ------------------------------------------------------------------------------
 */

/* Four ranks, and two communicators over the same connections. */
static void begin_two(struct fake_job *job, uint32_t world_size)
{
    fake_job_begin(job, world_size);
    for (uint32_t r = 0; r < world_size; r++) {
        fake_comm(job, r, METRICS, 2, r, world_size);
        fake_step(job, r, 5);
    }
}

/* Rank 0 leaves out a call, and takes what the others send in their next one for their part of a
 * call in the other communicator: it has a result there that none of them has posted. However often
 * that was read, it is rank 0 that went wrong. */
CT_TEST(left_out, not_by_those_behind_a_rank_that_posts_something_else)
{
    int accused = 0;

    for (int reads = 1; reads < 4; reads++) {
        struct fake_job job;

        begin_two(&job, 4);
        for (uint32_t r = 0; r < 4; r++) {
            fake_done(&job, r, WORLD, fake_post(&job, r, WORLD, 32, r == 0 ? 2 : 1));
        }
        for (uint32_t r = 1; r < 4; r++) {
            fake_wait(&job, r, 0, WORLD, fake_post(&job, r, WORLD, 32, 2));
        }
        fake_done(&job, 0, METRICS, fake_post(&job, 0, METRICS, 1, 0));
        fake_wait(&job, 0, 0, WORLD, fake_post(&job, 0, WORLD, 32, 1));
        for (int i = 1; i < reads; i++) {
            harness_watch_read(&job.watch, job.now_ns);
        }
        fake_look(&job, 0);
        if (reads == 1) {
            (void)fake_only(&job, HARNESS_VERDICT_MISMATCH_ORDER, "0");
        }
        accused += fake_look(&job, MS) > 1;
        fake_job_close(&job);
    }
    CT_CHECK_EQ_I64(accused, 0);
}

/* The same while it is not decided yet who is right. */
CT_TEST(left_out, not_while_a_difference_waits_for_others)
{
    struct fake_job job;

    begin_two(&job, 4);
    fake_done(&job, 0, WORLD, fake_post(&job, 0, WORLD, 32, 2));
    fake_done(&job, 0, METRICS, fake_post(&job, 0, METRICS, 1, 0));
    fake_post(&job, 1, WORLD, 32, 1);
    CT_CHECK_EQ_U64(fake_look(&job, 0), 0);
    CT_CHECK_EQ_U64(fake_look(&job, MS), 0);
    CT_CHECK_EQ_U64(fake_look(&job, MS), 0);
    fake_post(&job, 2, WORLD, 32, 1);
    fake_post(&job, 3, WORLD, 32, 1);
    fake_look(&job, MS);
    (void)fake_only(&job, HARNESS_VERDICT_MISMATCH_BUCKET, "0");
    fake_job_close(&job);
}

/* The same where the calls are alike, so that none was seen to differ: the others wait for rank 0
 * in a call that it left out. */
CT_TEST(left_out, not_by_those_who_wait_for_the_one_that_has_the_result)
{
    struct fake_job job;

    begin_two(&job, 3);
    for (uint32_t r = 0; r < 3; r++) {
        fake_done(&job, r, WORLD, fake_post(&job, r, WORLD, 32, 0));
        if (r > 0) {
            fake_wait(&job, r, 0, WORLD, fake_post(&job, r, WORLD, 32, 0));
        }
    }
    fake_done(&job, 0, METRICS, fake_post(&job, 0, METRICS, 1, 0));
    CT_CHECK_EQ_U64(fake_look(&job, MS), 0);
    CT_CHECK_EQ_U64(fake_look(&job, MS), 0);
    fake_step(&job, 0, 6); /* what it posts next shows it */
    fake_post(&job, 0, WORLD, 32, 0);
    fake_look(&job, MS);
    (void)fake_only(&job, HARNESS_VERDICT_MISMATCH_MISSING, "0");
    fake_job_close(&job);
}

/* A rank's thread was interrupted as it wrote an entry; what others of its threads posted since
 * then lies behind that one. */
CT_TEST(left_out, not_while_entries_cannot_be_read)
{
    struct fake_job job;
    struct guest_entry *entry;
    uint64_t index;

    begin_with_result(&job, DDPROVE_GUEST_ALL_REDUCE, 10);
    fake_report(&job, 2, GUEST_EVENT_STEP, (const uint64_t[GUEST_ARG_COUNT]){0});
    index = guest_arena_page(job.arena.head, 2)->entry_count;
    entry = &guest_arena_ring(job.arena.head, 2)[index - 1];
    entry->index = 0;
    fake_step(&job, 2, 7);
    fake_post(&job, 2, WORLD, 10, 3);
    for (int i = 0; i < 3; i++) {
        CT_CHECK_EQ_U64(fake_look(&job, MS), 0);
    }
    entry->index = index;
    CT_CHECK_EQ_U64(fake_look(&job, MS), 0);
    CT_CHECK_EQ_U64(fake_look(&job, MS), 0);
    fake_job_close(&job);
}

/* --- how often it is read
 * ------------------------------------------------------------------------------
 */

/* A second watch over the same arena, which reads everything twice. */
static struct {
    struct harness_watch watch;
    struct harness_findings findings;
    uint64_t looks, moves;
} again;

static void look_twice(struct drawn_job *drawn)
{
    const struct fake_job *job = &drawn->job;

    if (again.moves++ % 5 != 0) {
        return;
    }
    fake_look(&drawn->job, 0);
    for (uint32_t r = 0; r < drawn->world_size; r++) {
        again.watch.ranks[r].state = job->watch.ranks[r].state;
        again.watch.ranks[r].since_ns = job->watch.ranks[r].since_ns;
    }
    harness_watch_read(&again.watch, job->now_ns);
    harness_watch_read(&again.watch, job->now_ns);
    harness_watch_analyse(&again.watch, &job->limits, &again.findings);
    again.looks++;
    CT_CHECK_EQ_U64(again.findings.count, job->findings.count);
    for (size_t i = 0; i < job->findings.count && i < again.findings.count; i++) {
        CT_CHECK_STR(again.findings.items[i].text, job->findings.items[i].text);
        CT_CHECK_EQ_I64(again.findings.items[i].detect_ns, job->findings.items[i].detect_ns);
    }
}

/* The same arena read once or twice gives the same findings, at every moment of a job. */
CT_TEST(watch, reading_twice_changes_nothing)
{
    static struct drawn_job drawn;
    uint64_t found = 0;

    for (uint64_t seed = 0; seed < 100; seed++) {
        const struct drawn_shape shape = {.rounds = (uint32_t)(seed % 7),
                                          .has_async = seed % 2 == 1,
                                          .has_extras = seed % 3 == 0};

        drawn_job_open(&drawn, seed, &shape);
        memset(&again, 0, sizeof again);
        CT_REQUIRE(harness_watch_init(&again.watch, ddp_mem_pool_mem(drawn.job.pool),
                                      drawn.job.arena.head) == DDP_OK);
        harness_findings_init(&again.findings, ddp_mem_pool_mem(drawn.job.pool));
        drawn.on_move = look_twice;
        (void)drawn_job_play(&drawn);
        for (int i = 0; i < 3; i++) {
            drawn.job.now_ns += HARNESS_WATCH_SURE_HOLD_NS;
            again.moves = 0;
            look_twice(&drawn);
        }
        CT_CHECK(again.looks > 3);
        found += drawn.job.findings.count > 0;
        harness_watch_fini(&again.watch);
        drawn_job_close(&drawn);
    }
    CT_CHECK(found >= 50);
}
