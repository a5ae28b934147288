/* Cause and consequence between findings.
 *
 * One row for each way in which one thing leads to another: what the cause is, what the consequence
 * is, and the path that must lead from this cause to this consequence: ranks, operation, bucket or
 * parameter, step, and what the trace shows between them. What no row explains is a cause of its
 * own, and the verdict must account for it.
 *
 * Values that differ from the emulation do not explain each other, as it goes on from what was
 * recorded (emulation/compare.h): each is an error of its own. They explain that replicas differ.
 *
 * No row leads back in the order of kinds (kind.h), and within a kind the rows follow an order of
 * their own (sequence number, then who found it; depth; stage), so there is no circle. */
#include "harness/judge/cause.h"

#include "harness/judge/buckets.h"
#include "harness/judge/kind.h"
#include "harness/judge/samples.h"
#include "harness/judge/value.h"

/* --- operations ------------------------------------------------------------------------------- */

/* The monitor and an oracle found the same: that a rank posted another operation. The oracle sees
 * what followed, too, and may call it something else. */
static bool is_same_operation(const struct harness_paths *paths, const struct harness_finding *a,
                              const struct harness_finding *b)
{
    bool is_corrected = a->oracle == HARNESS_ORACLE_PROGRAM && b->oracle == HARNESS_ORACLE_MONITOR;

    (void)paths;
    return (a->verdict == b->verdict ? a->oracle < b->oracle : is_corrected) &&
           a->op.seq == b->op.seq && harness_path_is_of(b, a);
}

/* A rank that left the program goes on beside it. Another way of combining leaves it nowhere. */
static bool is_later_operation(const struct harness_paths *paths, const struct harness_finding *a,
                               const struct harness_finding *b)
{
    (void)paths;
    return a->verdict != HARNESS_VERDICT_MISMATCH_REDUCTION && b->op.seq > a->op.seq &&
           harness_path_is_of(b, a);
}

/* A rank that ends leaves operations out. It posts none twice, or another one. */
static bool is_left_out_then(const struct harness_paths *paths, const struct harness_finding *a,
                             const struct harness_finding *b)
{
    (void)paths;
    return b->verdict == HARNESS_VERDICT_MISMATCH_MISSING && harness_path_is_of(b, a) &&
           a->op.seq <= b->op.seq && harness_path_is_in_time(a, b);
}

/* Ranks say that operations differ once they have met this one. */
static bool is_met(const struct harness_paths *paths, const struct harness_finding *a,
                   const struct harness_finding *b)
{
    (void)paths;
    if (b->op.seq != 0) {
        return a->op.seq <= b->op.seq;
    }
    return harness_path_is_in_time(a, b);
}

/* It is about what a rank had when it completed the operation, which is always named. */
static bool is_result(const struct harness_finding *finding)
{
    DDP_ASSERT(finding->stage >= -1 && finding->stage < HARNESS_STAGE_COUNT);
    return finding->stage == HARNESS_STAGE_OUTPUT || finding->oracle == HARNESS_ORACLE_SCHEDULE ||
           finding->oracle == HARNESS_ORACLE_BROADCAST;
}

/* A rank that took no part in an operation meets the others' messages of it with its next one's. */
static bool is_left_out(const struct harness_paths *paths, const struct harness_finding *a,
                        const struct harness_finding *b)
{
    return is_result(a) && b->op.seq >= a->op.seq &&
           (b->op.seq <= a->op.seq + 1 || harness_path_is_displacing(paths, a));
}

/* The others wait in it; unchecked, in what met other messages, and nobody tells them to end. */
static bool is_left_alone(const struct harness_paths *paths, const struct harness_finding *a,
                          const struct harness_finding *b)
{
    bool is_it = a->op.seq == b->op.seq && b->verdict != HARNESS_VERDICT_HANG_RECOVERY;
    bool is_later = a->op.seq <= b->op.seq && harness_path_is_displacing(paths, a);

    return is_result(a) && (is_it || is_later) && harness_path_is_open(paths, b, b->op.seq);
}

/* What a rank took for an operation's result shows that it completed the operation alone. */
static bool is_not_waited(const struct harness_paths *paths, const struct harness_finding *a,
                          const struct harness_finding *b)
{
    return is_result(a) && a->oracle != HARNESS_ORACLE_SCHEDULE &&
           b->oracle == HARNESS_ORACLE_SCHEDULE && a->op.seq == b->op.seq &&
           harness_path_is_of(b, a) && !harness_value_is_displaced(paths, b, a);
}

/* It took no part in one of all ranks and went on to one of a group, whose members wait in that. */
static bool is_gone_on(const struct harness_paths *paths, const struct harness_finding *a,
                       const struct harness_finding *b)
{
    return is_result(a) && harness_path_is_deserted(paths, a, b);
}

/* --- device work ------------------------------------------------------------------------------ */

/* Gradients that were not reduced are used while buckets are being reduced. */
static bool is_unfinished_pass(const struct harness_paths *paths, const struct harness_finding *a,
                               const struct harness_finding *b)
{
    (void)paths;
    return harness_path_is_common(a, b) && a->step <= b->step + 1;
}

/* The order in which hangs of devices cause each other, from 1; 0: none. Compute that does not end
 * keeps its rank's collectives from starting, a collective that does not start keeps its peers
 * inside it, and those keep hosts waiting. */
static int device_depth(enum harness_verdict verdict)
{
    switch (verdict) {
    case HARNESS_VERDICT_HANG_DEVICE_COMPUTE:
        return 1;
    case HARNESS_VERDICT_HANG_NOT_LAUNCHED:
        return 2;
    case HARNESS_VERDICT_HANG_DEVICE_COMM:
        return 3;
    case HARNESS_VERDICT_HANG_CYCLE:
    case HARNESS_VERDICT_HANG_RECOVERY:
        return 4;
    default:
        return 0;
    }
}

/* The monitor saw both at once: a device, and what it makes other ranks wait for. */
static bool is_held_up(const struct harness_paths *paths, const struct harness_finding *a,
                       const struct harness_finding *b)
{
    int depth_a = device_depth(a->verdict);
    int depth_b = device_depth(b->verdict);

    (void)paths;
    return a->oracle == HARNESS_ORACLE_MONITOR && b->oracle == HARNESS_ORACLE_MONITOR &&
           depth_a > 0 && depth_a < depth_b && !harness_path_is_of(b, a) &&
           harness_path_is_in_time(a, b);
}

/* --- waits, failures, files ------------------------------------------------------------------- */

/* Ranks that wait for one of these. RECOVERY is their own affair: they were told to end. */
static bool is_awaited(const struct harness_paths *paths, const struct harness_finding *a,
                       const struct harness_finding *b)
{
    if (b->verdict == HARNESS_VERDICT_HANG_RECOVERY) {
        return false;
    }
    return harness_path_is_of(b, a) || harness_path_is_held_back(paths, a, b) ||
           harness_path_is_unformed(paths, a, b) ||
           (harness_path_is_open(paths, b, b->op.seq) && harness_path_is_owed(paths, a, b));
}

/* What held the rank for too long also made it slow in that step. */
static bool is_slow_so(const struct harness_paths *paths, const struct harness_finding *a,
                       const struct harness_finding *b)
{
    (void)paths;
    return harness_verdict_family(b->verdict) == HARNESS_FAMILY_SLOW && a->step == b->step &&
           harness_path_is_of(b, a);
}

/* Ranks that wait in that operation or a later one, whose messages met others. */
static bool is_blocked(const struct harness_paths *paths, const struct harness_finding *a,
                       const struct harness_finding *b)
{
    return b->verdict != HARNESS_VERDICT_HANG_RECOVERY && harness_samples_is_count_wrong(a) &&
           a->op.seq <= b->op.seq &&
           (harness_path_is_of(b, a) || harness_path_is_open(paths, b, a->op.seq));
}

/* Ranks disagree about what construction posts, or one leaves the last barrier early: some measure
 * trees already, and the others wait for them in a collective. */
static bool is_apart(const struct harness_paths *paths, const struct harness_finding *a,
                     const struct harness_finding *b)
{
    bool is_circle = b->verdict == HARNESS_VERDICT_HANG_CYCLE && harness_path_is_common(a, b);
    bool is_for_all = b->verdict == HARNESS_VERDICT_HANG_NOT_JOINED &&
                      harness_rank_set_is_empty(&b->culprits) &&
                      harness_rank_set_is_common(&a->culprits, &b->victims);
    bool is_beside_steps =
        a->phase <= (int32_t)DDP_PHASE_INIT || a->phase >= (int32_t)DDP_PHASE_TEARDOWN;

    return a->op.seq > 0 && is_beside_steps && (is_circle || is_for_all) &&
           harness_path_is_apart(paths, b, a->op.seq);
}

/* Whoever runs the wrong schedule waits, or meets messages of another length. */
static bool is_run_so(const struct harness_paths *paths, const struct harness_finding *a,
                      const struct harness_finding *b)
{
    return b->verdict != HARNESS_VERDICT_HANG_RECOVERY && b->op.is_set &&
           harness_path_is_same_shape(paths, a, b);
}

/* Whoever was waited for in vain was itself waiting when the monitor saw this. */
static bool is_seen_live(const struct harness_paths *paths, const struct harness_finding *a,
                         const struct harness_finding *b)
{
    return a->oracle == HARNESS_ORACLE_MONITOR && b->oracle != HARNESS_ORACLE_MONITOR &&
           b->oracle != HARNESS_ORACLE_SURVIVORS &&
           (harness_path_is_beset(b, a) || is_awaited(paths, a, b));
}

/* The others had given up waiting for a rank that still ran when the job was ended for it. */
static bool is_given_up(const struct harness_paths *paths, const struct harness_finding *a,
                        const struct harness_finding *b)
{
    (void)paths;
    return a->oracle == HARNESS_ORACLE_USAGE && b->oracle == HARNESS_ORACLE_LIVENESS &&
           harness_path_is_of(b, a);
}

static bool is_of_that_rank(const struct harness_paths *paths, const struct harness_finding *a,
                            const struct harness_finding *b)
{
    (void)paths;
    return harness_path_is_of(b, a) && harness_path_is_in_time(a, b);
}

/* It failed for want of something, or in its own work: nothing that others send makes it so. */
static bool is_own_failure(const struct harness_finding *b)
{
    return harness_verdict_family(b->verdict) == HARNESS_FAMILY_RESOURCE ||
           b->status == DDP_E_INJECTED || b->status == DDP_E_MESSAGE;
}

/* A rank whose buckets have other lengths measures other sums, and nothing fits any more. */
static bool is_measured_so(const struct harness_paths *paths, const struct harness_finding *a,
                           const struct harness_finding *b)
{
    (void)paths;
    return a->verdict == HARNESS_VERDICT_MISMATCH_MODEL && a->phase <= (int32_t)DDP_PHASE_INIT &&
           b->phase == (int32_t)DDP_PHASE_PROBE && !is_own_failure(b);
}

/* It failed for the same reason, or inside a collective with such a rank. No rank that has ended
 * makes an argument of another one wrong. */
static bool is_failed_by(const struct harness_paths *paths, const struct harness_finding *a,
                         const struct harness_finding *b)
{
    return is_of_that_rank(paths, a, b) ||
           (!is_own_failure(b) && b->status != DDP_E_INVALID && is_awaited(paths, a, b));
}

static bool is_failed_with(const struct harness_paths *paths, const struct harness_finding *a,
                           const struct harness_finding *b)
{
    return !is_own_failure(b) && (is_of_that_rank(paths, a, b) || is_blocked(paths, a, b));
}

/* A rank whose pass was broken off by its own failure says that it is not over. */
static bool is_broken_off(const struct harness_paths *paths, const struct harness_finding *a,
                          const struct harness_finding *b)
{
    (void)paths;
    return a->status == DDP_E_INJECTED && b->status == DDP_E_STATE && harness_path_is_of(b, a) &&
           harness_path_is_in_time(a, b);
}

/* Ranks that wait for a group that is not whole. */
static bool is_ungrouped(const struct harness_paths *paths, const struct harness_finding *a,
                         const struct harness_finding *b)
{
    (void)paths;
    (void)a;
    return b->op.seq == 0 && b->phase <= (int32_t)DDP_PHASE_INIT;
}

/* It failed inside a collective with a rank that had failed for want of something. */
static bool is_failed_beside(const struct harness_paths *paths, const struct harness_finding *a,
                             const struct harness_finding *b)
{
    return is_own_failure(a) && !is_own_failure(b) && b->status != DDP_E_INVALID &&
           !harness_path_is_common(a, b) && harness_path_is_open(paths, b, b->op.seq) &&
           harness_path_is_owed(paths, a, b);
}

/* Outside of collectives ranks wait until all have come, and one of them failed before it did. */
static bool is_unmet(const struct harness_paths *paths, const struct harness_finding *a,
                     const struct harness_finding *b)
{
    bool is_told = b->verdict == HARNESS_VERDICT_HANG_RECOVERY; /* to end, unless it is blocked */
    bool is_waiting =
        b->verdict == HARNESS_VERDICT_HANG_CYCLE ||
        (is_told && b->phase <= (int32_t)DDP_PHASE_INIT) ||
        (b->verdict == HARNESS_VERDICT_HANG_NOT_JOINED && harness_rank_set_is_empty(&b->culprits));

    (void)paths;
    return is_own_failure(a) && is_waiting && !b->op.is_set && !harness_path_is_common(a, b) &&
           (b->step < 0 || harness_path_is_in_time(a, b));
}

/* A rank's call failed, or it lost one that lived, while they met: others wait, the lost one too.
 */
static bool is_cut_off(const struct harness_paths *paths, const struct harness_finding *a,
                       const struct harness_finding *b)
{
    const bool is_call = a->status == DDP_OK || a->status == DDP_E_IO || a->status == DDP_E_SYSTEM;
    const bool is_waiting =
        b->verdict == HARNESS_VERDICT_HANG_CYCLE || b->verdict == HARNESS_VERDICT_HANG_RECOVERY ||
        (b->verdict == HARNESS_VERDICT_HANG_NOT_JOINED &&
         (harness_rank_set_is_empty(&b->culprits) || harness_path_is_common(a, b)));

    (void)paths;
    return a->oracle == HARNESS_ORACLE_USAGE && a->verdict == HARNESS_VERDICT_CRASH_EXITED &&
           is_call && is_waiting && a->phase <= DDP_PHASE_INIT && b->phase <= DDP_PHASE_INIT;
}

/* Two are told to be rank 0, which hosts the store: one of them finds its port in use. */
static bool is_second_host(const struct harness_paths *paths, const struct harness_finding *a,
                           const struct harness_finding *b)
{
    (void)a;
    return paths->plan->job.store == HARNESS_STORE_RANK_0 &&
           b->verdict == HARNESS_VERDICT_LAUNCH_CONNECT && harness_rank_set_has(&b->culprits, 0);
}

/* Rank 0, which hosts the store, has failed: whoever had not come yet finds nobody there. */
static bool is_without_host(const struct harness_paths *paths, const struct harness_finding *a,
                            const struct harness_finding *b)
{
    bool is_never_there =
        b->verdict == HARNESS_VERDICT_LAUNCH_CONNECT || b->verdict == HARNESS_VERDICT_HANG_RECOVERY;

    return paths->plan->job.store == HARNESS_STORE_RANK_0 && is_never_there && !is_own_failure(b) &&
           b->phase <= (int32_t)DDP_PHASE_RENDEZVOUS && harness_rank_set_has(&a->culprits, 0) &&
           !harness_rank_set_has(&b->culprits, 0);
}

/* Survivors of a loss wait for one that lives and did not come into their new group. */
static bool is_missed(const struct harness_paths *paths, const struct harness_finding *a,
                      const struct harness_finding *b)
{
    const bool is_waiting =
        b->verdict == HARNESS_VERDICT_HANG_RECOVERY && b->phase == (int32_t)DDP_PHASE_RECOVERY;
    const bool is_running = b->oracle == HARNESS_ORACLE_LIVENESS; /* ended before it gave up */

    (void)paths;
    return a->oracle == HARNESS_ORACLE_SURVIVORS && b->oracle != HARNESS_ORACLE_SURVIVORS &&
           (is_waiting || is_running) && !harness_path_is_common(a, b);
}

/* Ranks that disagree about who is who. */
static bool is_told_so(const struct harness_paths *paths, const struct harness_finding *a,
                       const struct harness_finding *b)
{
    (void)paths;
    (void)a;
    return b->verdict == HARNESS_VERDICT_LAUNCH_ENVIRONMENT;
}

/* --- the table -------------------------------------------------------------------------------- */

static const struct {
    enum harness_cause_kind cause, consequence;
    bool (*is_path)(const struct harness_paths *paths, const struct harness_finding *a,
                    const struct harness_finding *b);
    const char *words;
} rules[] = {
    {KIND_IDENTITY, KIND_REPORT, is_told_so, "ranks met that one in the group"},
    {KIND_IDENTITY, KIND_HELD, is_of_that_rank, "that rank could not come"},
    {KIND_IDENTITY, KIND_WAIT, is_ungrouped, "the group never formed"},
    {KIND_IDENTITY, KIND_FAILURE, is_of_that_rank, "that rank could not come"},
    {KIND_IDENTITY, KIND_VALUE, harness_value_is_apart, "that rank trains by itself"},
    {KIND_IDENTITY, KIND_FAILURE, is_second_host, "that one hosts the store in its place"},
    {KIND_DEATH, KIND_WAIT, is_awaited, "they wait for that rank"},
    {KIND_DEATH, KIND_FAILURE, is_failed_by, "it failed in a collective with that rank"},
    {KIND_DEATH, KIND_WAIT, harness_path_is_storeless, "they wait for that store"},
    {KIND_DEATH, KIND_FAILURE, harness_path_is_storeless, "they meet at that store"},
    {KIND_HELD, KIND_WAIT, is_held_up, "its device holds the others up"},
    {KIND_HELD, KIND_WAIT, is_awaited, "they wait for that rank"},
    {KIND_HELD, KIND_OTHER, is_slow_so, "that rank was held"},
    {KIND_WAIT, KIND_WAIT, is_missed, "they wait for that rank"},
    {KIND_MISUSE, KIND_RACE, is_unfinished_pass, "gradients were used while they were reduced"},
    {KIND_MISUSE, KIND_VALUE, harness_value_is_unreduced,
     "that pass did not end, gradients were used as they were"},
    {KIND_MISUSE, KIND_WAIT, is_awaited, "they wait for that rank's bucket"},
    {KIND_ENDED, KIND_OPERATION, is_left_out_then, "what it did not post any more"},
    {KIND_ENDED, KIND_FAILURE, is_failed_by, "it failed in a collective with that rank"},
    {KIND_ENDED, KIND_WAIT, is_awaited, "they wait for that rank"},
    {KIND_OPERATION, KIND_OPERATION, is_same_operation, "the same operation"},
    {KIND_OPERATION, KIND_OPERATION, is_later_operation, "what that rank posted afterwards"},
    {KIND_OPERATION, KIND_OPERATION, harness_samples_is_miscounted,
     "they took wrong counts from that operation"},
    {KIND_OPERATION, KIND_OPERATION, harness_buckets_is_posted_so, "its buckets are of that list"},
    {KIND_OPERATION, KIND_VALUE, harness_buckets_is_laid_so, "its buckets are of that list"},
    {KIND_OPERATION, KIND_FAILURE, harness_buckets_is_refused, "that list cannot be"},
    {KIND_OPERATION, KIND_RACE, harness_value_is_extra_work, "the extra work uses that buffer"},
    {KIND_OPERATION, KIND_RACE, harness_value_is_extra_use, "the extra work uses that buffer"},
    {KIND_OPERATION, KIND_VALUE, harness_value_is_extra_work,
     "the extra operation works on that buffer"},
    {KIND_OPERATION, KIND_VALUE, harness_path_is_not_received,
     "it trained on what it had not received"},
    {KIND_OPERATION, KIND_VALUE, harness_value_is_mixed, "it came out of mixed operations"},
    {KIND_OPERATION, KIND_VALUE, harness_value_is_left_unreduced,
     "that pass did not end, gradients were used as they were"},
    {KIND_OPERATION, KIND_VALUE, harness_buckets_is_unlisted, "it has the first buckets still"},
    {KIND_OPERATION, KIND_REPORT, is_met, "ranks met that operation"},
    {KIND_OPERATION, KIND_FAILURE, is_failed_with, "it failed in a collective with that rank"},
    {KIND_OPERATION, KIND_FAILURE, harness_samples_is_ended_by_count,
     "it took wrong counts from that operation"},
    {KIND_OPERATION, KIND_FAILURE, is_measured_so, "it measures other sums"},
    {KIND_OPERATION, KIND_WAIT, is_blocked, "they wait for that operation"},
    {KIND_OPERATION, KIND_WAIT, harness_path_is_crossed, "they wait for that operation"},
    {KIND_OPERATION, KIND_WAIT, is_apart, "some of them measure trees already"},
    {KIND_OPERATION, KIND_VALUE, harness_value_is_of_own_batch,
     "it took its own batch's statistics"},
    {KIND_OPERATION, KIND_VALUE, harness_value_is_configured_so, "that rank is configured so"},
    {KIND_OPERATION, KIND_MISUSE, harness_value_is_forbidden_so, "that rank is configured so"},
    {KIND_ALGORITHM, KIND_VALUE, harness_value_is_summed_so, "it was summed or sent so"},
    {KIND_ALGORITHM, KIND_REPORT, is_run_so, "its messages do not meet"},
    {KIND_ALGORITHM, KIND_WAIT, is_run_so, "its messages do not meet"},
    {KIND_SAMPLES, KIND_OPERATION, harness_samples_is_step_ahead,
     "that rank is a step ahead of the others"},
    {KIND_SAMPLES, KIND_OPERATION, harness_buckets_is_listed_so, "it had no order of gradients"},
    {KIND_SAMPLES, KIND_OPERATION, harness_samples_is_used_up, "its data ended a batch early"},
    {KIND_SAMPLES, KIND_SAMPLES, harness_samples_is_ended_so, "its data ended so"},
    {KIND_SAMPLES, KIND_VALUE, harness_buckets_is_unlisted, "it has the first buckets still"},
    {KIND_SAMPLES, KIND_VALUE, harness_samples_is_trained_so, "it was trained so"},
    {KIND_RACE, KIND_VALUE, harness_value_is_raced_for, "that memory was in use"},
    {KIND_RACE, KIND_WAIT, harness_path_is_deserted, "that rank moved it on no more"},
    {KIND_VALUE, KIND_VALUE, harness_value_is_held_by_some, "those ranks hold it"},
    {KIND_VALUE, KIND_VALUE, harness_value_is_left, "those that go on had it from that rank"},
    {KIND_VALUE, KIND_VALUE, harness_value_is_received, "that rank trained on what it received"},
    {KIND_VALUE, KIND_VALUE, harness_value_is_copied_so, "the map says whether it was used"},
    {KIND_VALUE, KIND_VALUE, is_not_waited, "it completed the operation alone"},
    {KIND_VALUE, KIND_VALUE, harness_value_is_displaced, "its next messages were taken for those"},
    {KIND_VALUE, KIND_OPERATION, harness_value_is_overtaken,
     "its messages were taken for earlier ones"},
    {KIND_VALUE, KIND_FAILURE, is_left_alone, "that rank took no part in the operation"},
    {KIND_VALUE, KIND_FAILURE, harness_value_is_measured_so, "some of them measure trees already"},
    {KIND_VALUE, KIND_WAIT, is_left_alone, "that rank took no part in the operation"},
    {KIND_VALUE, KIND_WAIT, is_gone_on, "that rank took no part in the operation"},
    {KIND_VALUE, KIND_WAIT, is_apart, "that rank measures trees already"},
    {KIND_VALUE, KIND_REPORT, harness_value_is_misread, "it compared models so"},
    {KIND_VALUE, KIND_REPORT, is_left_out, "that rank took no part in the operation"},
    {KIND_FAILURE, KIND_FAILURE, is_without_host, "that one hosts the store"},
    {KIND_FAILURE, KIND_WAIT, is_without_host, "that one hosts the store"},
    {KIND_FAILURE, KIND_FAILURE, is_broken_off, "that rank's pass was broken off"},
    {KIND_FAILURE, KIND_FAILURE, is_failed_beside, "it failed in a collective with that rank"},
    {KIND_FAILURE, KIND_WAIT, is_awaited, "they wait for that rank"},
    {KIND_FAILURE, KIND_WAIT, is_unmet, "that rank did not come any more"},
    {KIND_FAILURE, KIND_WAIT, is_cut_off, "it failed while they met"},
    {KIND_WAIT, KIND_WAIT, is_held_up, "its device holds the others up"},
    {KIND_WAIT, KIND_WAIT, is_seen_live, "the same wait"},
    {KIND_WAIT, KIND_WAIT, is_given_up, "the others gave up waiting for it"},
    {KIND_SAMPLES, KIND_FILE, harness_path_is_not_reached, "that rank left the step out"},
    {KIND_OPERATION, KIND_FILE, harness_path_is_not_reached, "that rank left the step out"},
    {KIND_SAMPLES, KIND_FILE, harness_path_is_saved_so, "that rank left the step out"},
    {KIND_OPERATION, KIND_FILE, harness_path_is_saved_so, "that rank left the step out"},
};

static const char *find_path(const struct harness_paths *paths, const struct harness_finding *a,
                             const struct harness_finding *b)
{
    enum harness_cause_kind cause = harness_cause_kind_of(a);
    enum harness_cause_kind consequence = harness_cause_kind_of(b);

    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        /* Else there might be a circle; that one leads to later operations alone. */
        DDP_ASSERT(rules[i].cause <= rules[i].consequence ||
                   rules[i].is_path == harness_value_is_overtaken);
        if (rules[i].cause == cause && rules[i].consequence == consequence &&
            rules[i].is_path(paths, a, b)) {
            return rules[i].words;
        }
    }
    return NULL;
}

const char *harness_cause_of(const struct harness_paths *paths, const struct harness_finding *a,
                             const struct harness_finding *b)
{
    const char *words = a == b ? NULL : find_path(paths, a, b);

    DDP_ASSERT(a->verdict != HARNESS_VERDICT_NONE && b->verdict != HARNESS_VERDICT_NONE);
    DDP_ASSERT(words == NULL || find_path(paths, b, a) == NULL); /* else both would be explained */
    return words;
}
