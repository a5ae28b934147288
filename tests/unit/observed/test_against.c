/* Jobs that are learned, and others that are compared with what was learned. */
#include <string.h>

#include "harness/observed/learned.h"
#include "tests/ct.h"
#include "tests/unit/watch/fake_rank.h"

enum { RANKS = 3, STEPS = 4 };

/* Of each step: two buckets, then a sum of one element. What goes wrong does so in step 2. */
enum fault { NOTHING, SWAPPED, LEFT_OUT, TWICE, SHORT, OTHER_OP, NOT_POSTED_YET };

static void post(struct fake_job *job, uint32_t rank, uint32_t step, uint64_t count,
                 uint64_t bucket)
{
    fake_step(job, rank, step);
    fake_done(job, rank, 0, fake_post(job, rank, 0, count, bucket));
}

static void make_step(struct fake_job *job, uint32_t rank, uint32_t step, enum fault fault)
{
    fault = step == 2 ? fault : NOTHING;
    post(job, rank, step, fault == SHORT ? 9 : 10, fault == SWAPPED ? 2 : 1);
    if (fault == NOT_POSTED_YET) {
        return;
    }
    if (fault == OTHER_OP) {
        fake_step(job, rank, step);
        fake_done(job, rank, 0,
                  fake_post_op(job, rank, 0,
                               guest_op_pack(DDPROVE_GUEST_BROADCAST, DDPROVE_GUEST_F32, 0, 0), 10,
                               2));
    } else if (fault != LEFT_OUT) {
        post(job, rank, step, 10, fault == SWAPPED ? 1 : 2);
    }
    post(job, rank, step, 1, 0);
    if (fault == TWICE) {
        post(job, rank, step, 1, 0);
    }
}

static void detach(struct fake_job *job)
{
    for (uint32_t r = 0; r < RANKS; r++) {
        guest_arena_page(job->arena.head, r)->step = 0;
        fake_detach(job, r);
        fake_state(job, r, HARNESS_WATCH_EXITED, 0);
    }
}

/* Announce the steps, as a program does. */
static void announce(struct fake_job *job, uint32_t step)
{
    for (uint32_t r = 0; r < RANKS; r++) {
        fake_step(job, r, step);
        fake_report(job, r, GUEST_EVENT_STEP, (const uint64_t[GUEST_ARG_COUNT]){0});
    }
}

static const struct harness_learned *learn(struct fake_job *job)
{
    struct harness_learner *learner = NULL;

    fake_job_begin(job, RANKS);
    CT_CHECK_OK(harness_learner_create(ddp_mem_pool_mem(job->pool), &job->watch, &learner));
    for (uint32_t s = 0; s < STEPS; s++) {
        announce(job, s);
        for (uint32_t r = 0; r < RANKS; r++) {
            make_step(job, r, s, NOTHING);
        }
        CT_CHECK_EQ_U64(fake_look(job, 1000), 0);
        CT_CHECK_OK(harness_learner_look(learner));
    }
    return harness_learner_end(learner);
}

/* The learned program as a file would give it back. */
static void read_learned(struct fake_job *job, struct harness_learned *out)
{
    struct ddp_text text;
    struct ddp_err err = {{0}};
    const struct harness_learned *learned = learn(job);

    CT_REQUIRE(learned != NULL);
    ddp_text_init(&text, learned->mem);
    harness_learned_print(learned, &text);
    CT_CHECK_STR(ddp_text_str(&text),
                 "ddprove-guest-program 1 world=3 steps=4\n"
                 "comm 0 nth=0 ranks=0,1,2 text=world\n"
                 "steps 0-3 calls=3\n"
                 "call kind=all_reduce dtype=f32 redop=sum root=0 count=10 bucket=1\n"
                 "call kind=all_reduce dtype=f32 redop=sum root=0 count=10 bucket=2\n"
                 "call kind=all_reduce dtype=f32 redop=sum root=0 count=1 bucket=0\n");
    CT_REQUIRE_OK(
        harness_learned_parse(learned->mem, ddp_text_str(&text), text.size_bytes, out, &err));
}

struct compared {
    struct fake_job first, second;
    struct harness_learned learned;
    struct harness_against *against;
};

static void begin(struct compared *the)
{
    read_learned(&the->first, &the->learned);
    fake_job_begin(&the->second, RANKS);
    CT_REQUIRE_OK(harness_against_create(ddp_mem_pool_mem(the->second.pool), &the->second.watch,
                                         &the->learned, &the->against));
}

static void end(struct compared *the)
{
    fake_job_close(&the->second);
    fake_job_close(&the->first);
}

static size_t look(struct compared *the, uint64_t later_ns)
{
    the->second.now_ns += later_ns;
    harness_watch_read(&the->second.watch, the->second.now_ns);
    CT_CHECK_OK(harness_against_judge(the->against, &the->second.findings));
    harness_watch_analyse(&the->second.watch, &the->second.limits, &the->second.findings);
    return the->second.findings.count;
}

static void check(const struct compared *the, enum harness_verdict verdict, const char *ranks,
                  const char *words)
{
    const struct harness_finding *finding = the->second.findings.items;
    char text[HARNESS_RANKS_TEXT_BYTES];

    CT_REQUIRE(the->second.findings.count == 1);
    CT_CHECK_STR(harness_verdict_name(finding->verdict), harness_verdict_name(verdict));
    CT_CHECK_STR(harness_rank_set_text(&finding->culprits, text), ranks);
    CT_CHECK_EQ_I64(finding->step, 2);
    if (strstr(finding->text, words) == NULL) {
        CT_FAIL("\"%s\" is not in \"%s\"", words, finding->text);
    }
}

/* Steps of all ranks; the fault on some of them. */
static void run(struct compared *the, uint32_t steps, enum fault fault, uint32_t from_rank)
{
    for (uint32_t s = 0; s < steps; s++) {
        announce(&the->second, s);
        for (uint32_t r = 0; r < RANKS; r++) {
            make_step(&the->second, r, s, r >= from_rank ? fault : NOTHING);
        }
    }
}

CT_TEST(against, runs_of_any_length_are_as_recorded)
{
    static const uint32_t steps[] = {1, STEPS, 20};

    for (size_t i = 0; i < 3; i++) {
        struct compared the;
        struct harness_watch_accounts accounts;

        begin(&the);
        run(&the, steps[i], NOTHING, 0);
        detach(&the.second);
        CT_CHECK_EQ_U64(look(&the, 1000), 0);
        memset(&accounts, 0, sizeof accounts);
        harness_against_account(the.against, &accounts);
        CT_CHECK_EQ_U64(accounts.of[HARNESS_ORACLE_PROGRAM].judged, 3 * (uint64_t)steps[i]);
        CT_CHECK_EQ_U64(accounts.lack_count, 0);
        end(&the);
    }
}

static const struct {
    enum fault fault;
    enum harness_verdict verdict;
    const char *words;
} rows[] = {
    {SWAPPED, HARNESS_VERDICT_MISMATCH_ORDER,
     "bucket 1) in step 2, where the record has all_reduce 7"},
    {LEFT_OUT, HARNESS_VERDICT_MISMATCH_MISSING,
     "where the record has all_reduce 8 of world (10 f32, sum, bucket 1)"},
    {TWICE, HARNESS_VERDICT_MISMATCH_EXTRA,
     "posted all_reduce 10 of world (1 f32, sum) in step 2, where the record has nothing"},
    {SHORT, HARNESS_VERDICT_MISMATCH_COUNT,
     "(9 f32, sum, bucket 0) in step 2, where the record has all_reduce 7 of world (10 f32"},
    {OTHER_OP, HARNESS_VERDICT_MISMATCH_OP, "posted broadcast 8"},
};

CT_TEST(against, all_ranks_deviate_alike)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct compared the;

        begin(&the);
        run(&the, STEPS, rows[i].fault, 0);
        (void)look(&the, 1000);
        check(&the, rows[i].verdict, "0,1,2", rows[i].words);
        end(&the);
    }
}

/* A rank may post while the others' calls are read: its call is of a time behind that of the look.
 */
CT_TEST(against, a_call_of_a_moment_after_the_look)
{
    struct compared the;

    begin(&the);
    run(&the, STEPS, rows[0].fault, 0);
    the.second.now_ns = 1;
    CT_CHECK_EQ_U64(look(&the, 0), 1);
    CT_CHECK_EQ_I64(the.second.findings.items[0].detect_ns, 0);
    end(&the);
}

/* Two of three, who would be right if most were. */
CT_TEST(against, most_ranks_deviate)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct compared the;

        begin(&the);
        run(&the, STEPS, rows[i].fault, 1);
        (void)look(&the, 1000);
        check(&the, rows[i].verdict, "1,2", rows[i].words);
        end(&the);
    }
}

/* Who else deviates is known once all have come, or after a while. */
CT_TEST(against, others_may_be_late)
{
    struct compared the;

    begin(&the);
    run(&the, 2, NOTHING, 0);
    fake_step(&the.second, 0, 2);
    (void)fake_post(&the.second, 0, 0, 9, 1);
    CT_CHECK_EQ_U64(look(&the, 1000), 0);
    CT_CHECK_EQ_U64(look(&the, 1000), 0);
    CT_CHECK_EQ_U64(look(&the, HARNESS_WATCH_DIFFER_HOLD_NS), 1);
    check(&the, HARNESS_VERDICT_MISMATCH_COUNT, "0", "(9 f32");
    end(&the);
}

CT_TEST(against, the_last_step_is_short_of_calls)
{
    struct compared the;

    begin(&the);
    run(&the, 3, NOT_POSTED_YET, 0);
    CT_CHECK_EQ_U64(look(&the, 1000), 0);
    detach(&the.second);
    (void)look(&the, 1000);
    check(&the, HARNESS_VERDICT_MISMATCH_MISSING, "0,1,2", "no rank posted all_reduce 8 of world");
    end(&the);
}

CT_TEST(against, a_communicator_that_was_not_recorded)
{
    struct compared the;

    begin(&the);
    run(&the, 2, NOTHING, 0);
    for (uint32_t r = 0; r < RANKS; r++) {
        fake_comm(&the.second, r, 1, 5, r, RANKS);
    }
    CT_CHECK_EQ_U64(look(&the, 1000), 0); /* to have it is no call */
    for (uint32_t r = 0; r < RANKS; r++) {
        fake_step(&the.second, r, 2);
        (void)fake_post(&the.second, r, 1, 10, 0);
    }
    (void)look(&the, 1000);
    check(&the, HARNESS_VERDICT_MISMATCH_EXTRA, "0,1,2",
          "the record has no communicator \"group\"");
    end(&the);
}

/* What the program does every fifth step, a record of four does not have: that is no deviation, and
 * nobody has compared it. Members are compared with each other still. */
CT_TEST(against, what_is_done_less_often_than_the_record_is_long)
{
    for (int is_wrong = 0; is_wrong < 2; is_wrong++) {
        struct compared the;
        struct harness_watch_accounts accounts;

        begin(&the);
        for (uint32_t s = 0; s < 12; s++) {
            announce(&the.second, s);
            for (uint32_t r = 0; r < RANKS; r++) {
                make_step(&the.second, r, s, NOTHING);
                if (s % 5 == 4) {
                    post(&the.second, r, s, is_wrong != 0 && s == 9 && r == 1 ? 6 : 7, 0);
                }
            }
        }
        CT_CHECK_EQ_U64(look(&the, 1000), (uint64_t)is_wrong);
        if (is_wrong != 0) {
            CT_CHECK(harness_rank_set_has(&the.second.findings.items[0].culprits, 1));
        }
        detach(&the.second);
        CT_CHECK_EQ_U64(look(&the, 1000), (uint64_t)is_wrong);
        memset(&accounts, 0, sizeof accounts);
        harness_against_account(the.against, &accounts);
        CT_CHECK_EQ_U64(accounts.of[HARNESS_ORACLE_PROGRAM].judged, 3 * 5);
        CT_CHECK_EQ_U64(accounts.lack_count, 1);
        CT_CHECK_EQ_U64(accounts.lacks[0].count, 3 * 7 + 2);
        CT_CHECK_STR(accounts.lacks[0].why, "of steps behind the record that do not repeat it: "
                                            "record a longer run");
        end(&the);
    }
}

/* So it is with a communicator that is made later, and with a step that the job ends in. */
CT_TEST(against, what_begins_behind_the_record)
{
    struct compared the;

    begin(&the);
    run(&the, STEPS + 1, NOTHING, 0);
    for (uint32_t r = 0; r < RANKS; r++) {
        fake_comm(&the.second, r, 1, 5, r, RANKS);
        fake_step(&the.second, r, STEPS + 1);
        (void)fake_post(&the.second, r, 1, 10, 0);
        post(&the.second, r, STEPS + 1, 10, 1);
    }
    CT_CHECK_EQ_U64(look(&the, 1000), 0);
    detach(&the.second);
    CT_CHECK_EQ_U64(look(&the, 1000), 0);
    end(&the);
}

/* Of a job whose records were lost nothing is written down. */
CT_TEST(learner, lost_records)
{
    struct fake_job job;
    struct harness_learner *learner = NULL;

    fake_job_begin(&job, RANKS);
    CT_REQUIRE_OK(harness_learner_create(ddp_mem_pool_mem(job.pool), &job.watch, &learner));
    CT_CHECK(harness_learner_end(learner) == NULL); /* nothing was posted */
    for (uint32_t r = 0; r < RANKS; r++) {
        make_step(&job, r, 0, NOTHING);
    }
    CT_CHECK_EQ_U64(fake_look(&job, 1000), 0);
    CT_CHECK(harness_learner_end(learner) != NULL);
    job.watch.ranks[1].lost_count = 1;
    CT_CHECK(harness_learner_end(learner) == NULL);
    fake_job_close(&job);
}
