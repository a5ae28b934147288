/* What only the end of a job shows. */
#include <signal.h>
#include <string.h>

#include "tests/ct.h"
#include "tests/unit/watch/made_record.h"

enum { STEPS = 4 };

static void check_culprits(const struct harness_finding *finding, const char *ranks)
{
    char text[HARNESS_RANKS_TEXT_BYTES];

    CT_CHECK_STR(harness_rank_set_text(&finding->culprits, text), ranks);
}

static void check_victims(const struct harness_finding *finding, const char *ranks)
{
    char text[HARNESS_RANKS_TEXT_BYTES];

    CT_CHECK_STR(harness_rank_set_text(&finding->victims, text), ranks);
}

/* The only finding, or a failure. */
static const struct harness_finding *only(const struct made_record *made,
                                          enum harness_verdict verdict, const char *culprits)
{
    static const struct harness_finding none;

    if (made->record.findings.count != 1) {
        CT_FAIL("%zu findings", made->record.findings.count);
        return &none;
    }
    CT_CHECK_STR(harness_verdict_name(made->record.findings.items[0].verdict),
                 harness_verdict_name(verdict));
    check_culprits(&made->record.findings.items[0], culprits);
    return &made->record.findings.items[0];
}

/* Nothing is found, and the record proves nothing, for this reason. */
static void check_lost(const struct made_record *made, const char *words)
{
    CT_CHECK_EQ_U64(made->record.findings.count, 0);
    CT_CHECK(made->record.findings.is_evidence_lost);
    CT_CHECK_STR(made->record.findings.lost_text, words);
}

static void begin(struct made_record *made)
{
    made_open(made, 3);
    (void)made_group(made, "world", STEPS);
}

static void conclude(struct made_record *made)
{
    harness_watch_record_conclude(&made->record, 3, STEPS);
}

/* A fault that could do nothing to any call says why, unless another rank's call took it. */
CT_TEST(conclude, a_fault_that_could_do_nothing)
{
    struct made_record made;

    begin(&made);
    made.record.watch.ranks[1].unable[2] = GUEST_UNABLE_SETTLED;
    conclude(&made);
    CT_CHECK(!made.record.findings.is_evidence_lost); /* the judge says it */
    CT_CHECK_STR(harness_watch_record_unable(&made.record, 2),
                 "its arguments were settled when it was made ready to be started");
    CT_CHECK(harness_watch_record_unable(&made.record, 1) == NULL);
    made.record.watch.ranks[2].fired[2] = 1;
    CT_CHECK(harness_watch_record_unable(&made.record, 2) == NULL);
    made_close(&made);
}

CT_TEST(conclude, a_good_job)
{
    struct made_record made;

    begin(&made);
    conclude(&made);
    CT_CHECK_EQ_U64(made.record.findings.count, 0);
    CT_CHECK(!made.record.findings.is_evidence_lost);
    made_close(&made);
}

CT_TEST(conclude, ranks_that_never_came)
{
    struct made_record made;

    begin(&made);
    made.record.watch.ranks[1].is_attached = false;
    made.record.watch.ranks[2].is_attached = false;
    conclude(&made);
    CT_CHECK_STR(only(&made, HARNESS_VERDICT_LAUNCH_MISSING_RANK, "1,2")->text,
                 "rank 1,2 never showed itself");
    made_close(&made);
}

/* A launcher's job of unknown size has slots that nobody has to fill. */
CT_TEST(conclude, more_slots_than_ranks)
{
    struct made_record made;

    begin(&made);
    made.record.watch.ranks[2].is_attached = false;
    made.record.watch.groups[0].size = 2;
    made.record.watch.groups[0].members[2].is_there = false;
    harness_watch_record_conclude(&made.record, 2, STEPS);
    CT_CHECK_EQ_U64(made.record.findings.count, 0);
    CT_CHECK(!made.record.findings.is_evidence_lost);
    made_close(&made);
}

CT_TEST(conclude, calls_that_were_never_posted)
{
    struct made_record made;
    const struct harness_finding *finding;

    begin(&made);
    made_cut(&made, 0, 1, 2);
    made_cut(&made, 0, 2, 3);
    conclude(&made);
    finding = only(&made, HARNESS_VERDICT_MISMATCH_MISSING, "1");
    CT_CHECK_STR(finding->text, "rank 1 never posted all_reduce 3 of world (10 f32, sum)");
    CT_CHECK_EQ_U64(finding->op.seq, 3);
    CT_CHECK_STR(finding->guest.comm, "world");
    CT_CHECK_EQ_I64(finding->guest.kind, 1 + DDPROVE_GUEST_ALL_REDUCE);
    CT_CHECK_EQ_I64(finding->step, 2);
    made_close(&made);
}

/* Who is no member of a communicator owes it nothing. */
CT_TEST(conclude, others_owe_nothing)
{
    struct made_record made;
    size_t pair;

    begin(&made);
    pair = made_group(&made, "pair", 2);
    made_cut(&made, pair, 1, 0);
    made.record.watch.groups[pair].members[1].is_there = false;
    made.record.watch.groups[pair].size = 2;
    conclude(&made);
    CT_CHECK_EQ_U64(made.record.findings.count, 0);
    CT_CHECK(!made.record.findings.is_evidence_lost);
    made_close(&made);
}

/* All ended well, and two of them after fewer steps than the scenario says. */
CT_TEST(conclude, steps_that_were_never_begun)
{
    struct made_record made;
    const struct harness_finding *finding;

    begin(&made);
    made.record.watch.ranks[0].step_count = 3;
    made.record.watch.ranks[2].step_count = 2;
    conclude(&made);
    finding = only(&made, HARNESS_VERDICT_CRASH_FINISHED_EARLY, "0,2");
    CT_CHECK_STR(finding->text, "rank 0,2 ended after 2 of 4 steps");
    CT_CHECK_EQ_I64(finding->step, 2);
    made_close(&made);
    begin(&made); /* a program that announces none, and a scenario that states none */
    made.record.watch.ranks[0].step_count = 0;
    harness_watch_record_conclude(&made.record, 3, 0);
    CT_CHECK_EQ_U64(made.record.findings.count, 0);
    made_close(&made);
}

/* --- evidence
 * -----------------------------------------------------------------------------------------------------
 */

CT_TEST(conclude, lost_entries_prove_nothing)
{
    struct made_record made;

    begin(&made);
    made.record.watch.ranks[1].lost_count = 7;
    conclude(&made);
    check_lost(&made, "rank 1 reported faster than it could be read: 7 entries are lost");
    made_close(&made);
}

/* What was lost may have been the announcement of the steps. */
CT_TEST(conclude, lost_entries_accuse_nobody)
{
    struct made_record made;

    begin(&made);
    made.record.watch.ranks[1].lost_count = 7;
    made.record.watch.ranks[1].step_count = 1;
    conclude(&made);
    check_lost(&made, "rank 1 reported faster than it could be read: 7 entries are lost");
    made_close(&made);
}

CT_TEST(conclude, lost_communicators_prove_nothing)
{
    struct made_record made;

    begin(&made);
    made.record.watch.ranks[2].lost_comms = 2;
    conclude(&made);
    check_lost(&made, "rank 2 has more communicators than can be watched: 2 were not");
    made_close(&made);
}

CT_TEST(conclude, members_that_were_not_seen_prove_nothing)
{
    struct made_record made;

    begin(&made);
    made.record.watch.groups[0].size = 4;
    conclude(&made);
    check_lost(&made, "of the 4 members of world only 3 were seen");
    made_close(&made);
}

CT_TEST(conclude, nothing_posted_proves_nothing)
{
    struct made_record made;

    made_open(&made, 2);
    (void)made_group(&made, "world", 0);
    harness_watch_record_conclude(&made.record, 2, 0);
    check_lost(&made, "no rank posted a collective: nothing was judged");
    made_close(&made);
}

/* It would have gone on. */
CT_TEST(conclude, ended_from_outside_proves_nothing)
{
    struct made_record made;

    begin(&made);
    made_cut(&made, 0, 1, 2);
    made.record.is_ended = true;
    conclude(&made);
    check_lost(&made, "the job was ended from outside");
    made_close(&made);
}

CT_TEST(conclude, ranks_that_outlived_their_launcher_are_named)
{
    struct made_record made;

    begin(&made);
    made_cut(&made, 0, 1, 2);
    made.record.is_ended = true;
    made.record.watch.ranks[1].state = HARNESS_WATCH_RUNNING;
    made.record.watch.ranks[1].is_detached = false;
    conclude(&made);
    check_lost(&made, "the job was ended from outside: rank 1 had not ended by then");
    made_close(&made);
}

CT_TEST(conclude, a_launchers_code_that_no_rank_explains)
{
    struct made_record made;

    begin(&made);
    made.record.exit_code = 213;
    conclude(&made);
    check_lost(&made, "the command ended with code 213, and no rank did");
    made_close(&made);
}

/* Only the first reason is told. */
CT_TEST(conclude, one_reason)
{
    struct made_record made;

    begin(&made);
    made.record.watch.ranks[0].lost_count = 1;
    made.record.watch.ranks[1].lost_comms = 1;
    made.record.exit_code = 1;
    conclude(&made);
    check_lost(&made, "rank 0 reported faster than it could be read: 1 entries are lost");
    made_close(&made);
}

/* --- beside what was found
 * ----------------------------------------------------------------------------------------
 */

/* A job that was ended for a finding lacks much, and nothing more is asked of it. */
CT_TEST(conclude, nothing_beside_a_finding)
{
    struct made_record made;

    begin(&made);
    (void)made_finding(&made, HARNESS_VERDICT_MISMATCH_COUNT, 1);
    made_cut(&made, 0, 2, 1);
    made.record.watch.ranks[0].is_attached = false;
    made.record.watch.ranks[2].step_count = 1;
    made.record.is_ended = true;
    made.record.exit_code = 143;
    conclude(&made);
    (void)only(&made, HARNESS_VERDICT_MISMATCH_COUNT, "1");
    CT_CHECK(!made.record.findings.is_evidence_lost);
    made_close(&made);
}

/* Rank 1 was ended before it came to the third call; the others came to it later. */
CT_TEST(conclude, victims_and_the_call_that_is_owed)
{
    struct made_record made;
    const struct harness_finding *finding;

    begin(&made);
    made_kill(&made, 1, SIGKILL);
    made_cut(&made, 0, 1, 2);
    (void)made_finding(&made, HARNESS_VERDICT_CRASH_SIGNALED, 1);
    made_kill(&made, 0, SIGTERM);
    made.record.is_ended = true;
    conclude(&made);
    finding = only(&made, HARNESS_VERDICT_CRASH_SIGNALED, "1");
    check_victims(finding, "0"); /* rank 2 had come to its own end */
    CT_CHECK_STR(finding->text,
                 "rank 1 is wrong, before posting all_reduce 3 of world (10 f32, sum)");
    CT_CHECK(finding->op.is_set);
    CT_CHECK_EQ_U64(finding->op.seq, 3);
    CT_CHECK_EQ_I64(finding->step, 2);
    made_close(&made);
}

/* Of several communicators: the call that others came to first. */
CT_TEST(conclude, the_first_call_that_is_owed)
{
    struct made_record made;
    size_t late, early;

    made_open(&made, 3);
    late = made_group(&made, "late", STEPS);
    early = made_group(&made, "early", STEPS);
    made_kill(&made, 2, SIGKILL);
    made_cut(&made, late, 2, 3);
    made_cut(&made, early, 2, 1);
    (void)made_finding(&made, HARNESS_VERDICT_CRASH_SIGNALED, 2);
    conclude(&made);
    CT_CHECK_STR(only(&made, HARNESS_VERDICT_CRASH_SIGNALED, "2")->guest.comm, "early");
    CT_CHECK_EQ_U64(made.record.findings.items[0].op.seq, 2);
    made_close(&made);
}

/* Rank 0 is behind rank 2, which has posted both: only members of both calls can tell which of them
 * comes first, and of the first call the one that posted it first. */
CT_TEST(conclude, the_first_call_that_is_owed_by_whoever_posted_both)
{
    struct made_record made;
    size_t world, pair;

    made_open(&made, 3);
    world = made_group(&made, "world", STEPS);
    pair = made_group(&made, "pair", STEPS);
    made_cut(&made, pair, 0, 0);
    made.record.watch.groups[pair].members[0].is_there = false;
    made.record.watch.groups[world].members[0].calls[2].time_ns = 9000;
    made.record.watch.groups[pair].members[2].calls[2].time_ns = 3500;
    made_kill(&made, 1, SIGKILL);
    made_cut(&made, world, 1, 2);
    made_cut(&made, pair, 1, 2);
    (void)made_finding(&made, HARNESS_VERDICT_CRASH_SIGNALED, 1);
    conclude(&made);
    CT_CHECK_STR(only(&made, HARNESS_VERDICT_CRASH_SIGNALED, "1")->guest.comm, "world");
    CT_CHECK_EQ_U64(made.record.findings.items[0].op.seq, 3);
    made_close(&made);
}

/* The monitor saw the call: it is not replaced. */
CT_TEST(conclude, a_call_that_was_named_stays)
{
    struct made_record made;
    struct harness_watch_group *group;
    struct harness_finding *finding;

    begin(&made);
    group = &made.record.watch.groups[0];
    made_kill(&made, 1, SIGKILL);
    made_cut(&made, 0, 1, 1);
    finding = made_finding(&made, HARNESS_VERDICT_CRASH_SIGNALED, 1);
    harness_watch_set_op(group, 4, &group->members[0].calls[3], finding);
    conclude(&made);
    CT_CHECK_EQ_U64(only(&made, HARNESS_VERDICT_CRASH_SIGNALED, "1")->op.seq, 4);
    CT_CHECK_STR(made.record.findings.items[0].text, "rank 1 is wrong");
    made_close(&made);
}

/* A hang has its victims; a mismatch takes nobody along. */
CT_TEST(conclude, victims_are_of_crashes_and_hangs)
{
    static const struct {
        enum harness_verdict verdict;
        const char *victims;
    } rows[] = {{HARNESS_VERDICT_HANG_STOPPED, "0,2"}, {HARNESS_VERDICT_MISMATCH_COUNT, "none"}};

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct made_record made;

        begin(&made);
        for (uint32_t r = 0; r < 3; r++) {
            made_kill(&made, r, SIGTERM);
        }
        (void)made_finding(&made, rows[i].verdict, 1);
        conclude(&made);
        check_victims(only(&made, rows[i].verdict, "1"), rows[i].victims);
        made_close(&made);
    }
}

/* Two ranks that end in the same way in the same step are one finding; neither is the other's
 * victim. In another step, or in another way, they are two. */
CT_TEST(conclude, crashes_of_one_step_are_one)
{
    for (int way = 0; way < 3; way++) {
        struct made_record made;
        struct harness_finding *second;

        begin(&made);
        for (uint32_t r = 0; r < 3; r++) {
            made_kill(&made, r, SIGKILL);
        }
        made_finding(&made, HARNESS_VERDICT_CRASH_SIGNALED, 0)->step = 2;
        second = made_finding(
            &made, way == 2 ? HARNESS_VERDICT_CRASH_EXITED : HARNESS_VERDICT_CRASH_SIGNALED, 2);
        second->step = way == 1 ? 3 : 2;
        conclude(&made);
        if (way == 0) {
            check_victims(only(&made, HARNESS_VERDICT_CRASH_SIGNALED, "0,2"), "1");
        } else {
            CT_REQUIRE(made.record.findings.count == 2);
            check_culprits(&made.record.findings.items[0], "0");
            check_culprits(&made.record.findings.items[1], "2");
            check_victims(&made.record.findings.items[1], "1");
        }
        made_close(&made);
    }
}

/* Two ranks that are stopped one after the other are told apart: only deaths are joined. */
CT_TEST(conclude, hangs_are_not_joined)
{
    struct made_record made;

    begin(&made);
    (void)made_finding(&made, HARNESS_VERDICT_HANG_STOPPED, 0);
    (void)made_finding(&made, HARNESS_VERDICT_HANG_STOPPED, 2);
    conclude(&made);
    CT_CHECK_EQ_U64(made.record.findings.count, 2);
    made_close(&made);
}
