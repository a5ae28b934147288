/* Which of the findings of a look are new, and which only follow from others. */
#include <signal.h>
#include <string.h>

#include "ddpcore/base/clock.h"
#include "harness/exec/job.h"
#include "harness/watch/analyse.h"

/* Every culprit of a kind of error is said once. */
static bool is_said(const struct exec_job *job, const struct harness_finding *finding)
{
    for (size_t i = 0; i < job->findings->count; i++) {
        const struct harness_finding *earlier = &job->findings->items[i];

        if (earlier->verdict == finding->verdict &&
            harness_rank_set_is_subset(&finding->culprits, &earlier->culprits)) {
            return true;
        }
    }
    return false;
}

/* A launcher ends its other ranks once one has ended. A library that notices a mismatch ends its
 * rank; then both may be seen in one look. */
static bool is_of_launcher(const struct exec_job *job, const struct harness_finding *finding)
{
    bool is_begun = job->linger_ns != UINT64_MAX;

    for (size_t i = 0; i < job->findings->count; i++) {
        is_begun = is_begun || harness_verdict_family(job->findings->items[i].verdict) ==
                                   HARNESS_FAMILY_MISMATCH;
    }
    return job->config->ranks == 0 && is_begun &&
           harness_verdict_family(finding->verdict) == HARNESS_FAMILY_CRASH;
}

/* A rank posted something else, or ended by an error of its own, behind a wrong result. */
static bool is_led_astray(const struct exec_job *job, const struct harness_finding *finding,
                          const struct harness_finding *result)
{
    const struct harness_watch_rank *self =
        &job->watch->ranks[harness_rank_set_at(&finding->culprits, 0)];
    const bool is_of_same_comm = strcmp(finding->guest.comm, result->guest.comm) == 0;
    const bool has_ended_later = self->since_ns > job->watch->wrong_result_ns;
    const bool is_later =
        finding->detect_ns < harness_watch_since(job->watch, job->watch->wrong_result_ns);

    switch (finding->verdict) {
    case HARNESS_VERDICT_CRASH_EXITED:
        return has_ended_later;
    case HARNESS_VERDICT_CRASH_SIGNALED: /* nobody kills or stops itself by error */
        return has_ended_later && self->code != SIGKILL && self->code != SIGTERM;
    default:
        return harness_verdict_family(finding->verdict) == HARNESS_FAMILY_MISMATCH &&
               (is_of_same_comm ? finding->op.seq > result->op.seq : is_later);
    }
}

/* Of what ranks tell of samples, gradients and checkpoints: ranks that are wrong there post other
 * calls than the others, or end by an error, as soon as they go on. */
static bool is_told(const struct harness_finding *finding)
{
    const enum harness_family family = harness_verdict_family(finding->verdict);

    return family == HARNESS_FAMILY_USAGE || family == HARNESS_FAMILY_CHECKPOINT ||
           family == HARNESS_FAMILY_DATA;
}

static bool follows_from_told(const struct harness_finding *finding)
{
    const enum harness_family family = harness_verdict_family(finding->verdict);

    return family == HARNESS_FAMILY_MISMATCH || family == HARNESS_FAMILY_HANG ||
           finding->verdict == HARNESS_VERDICT_CRASH_EXITED ||
           finding->verdict == HARNESS_VERDICT_CRASH_FINISHED_EARLY;
}

/* It will be said, or has been, of the rank that ends or is waited for. */
static bool is_of_pending(const struct exec_job *job, const struct harness_finding *finding)
{
    return job->observed != NULL && follows_from_told(finding) &&
           !harness_rank_set_is_empty(&finding->culprits) &&
           harness_observed_is_pending(job->observed, harness_rank_set_at(&finding->culprits, 0));
}

/* Whoever has left a call out comes to its end one call before the others. */
static bool is_ahead(const struct harness_finding *finding, const struct harness_finding *earlier)
{
    return finding->verdict == HARNESS_VERDICT_CRASH_FINISHED_EARLY &&
           earlier->verdict == HARNESS_VERDICT_MISMATCH_MISSING &&
           harness_rank_set_is_subset(&finding->culprits, &earlier->culprits);
}

/* By the calls it is known that a rank left an update out: its model is not that of the others
 * then, in the same step already. */
static bool is_update_less(const struct harness_finding *finding,
                           const struct harness_finding *earlier)
{
    return earlier->verdict == HARNESS_VERDICT_VALUE_STALE &&
           earlier->oracle == HARNESS_ORACLE_MONITOR &&
           harness_verdict_family(finding->verdict) == HARNESS_FAMILY_VALUE &&
           finding->step >= earlier->step;
}

/* A wrong result goes into everything that is computed from then on, until the job is ended. Of a
 * program that announces no steps, that is every other call. */
static bool is_consequence(const struct exec_job *job, const struct harness_finding *finding)
{
    const bool has_steps = job->watch->world_size > 0 && job->watch->ranks[0].step_count > 0;

    for (size_t i = 0; i < job->findings->count && !job->config->is_left; i++) {
        const struct harness_finding *earlier = &job->findings->items[i];

        if ((is_told(earlier) && follows_from_told(finding)) || is_ahead(finding, earlier)) {
            return true;
        }
        if (harness_verdict_family(earlier->verdict) != HARNESS_FAMILY_VALUE) {
            continue;
        }
        if (is_update_less(finding, earlier)) {
            return true;
        }
        if (harness_verdict_family(finding->verdict) != HARNESS_FAMILY_VALUE
                ? is_led_astray(job, finding, earlier)
            : has_steps ? finding->step > earlier->step
                        : finding->op.seq != earlier->op.seq ||
                              strcmp(finding->guest.comm, earlier->guest.comm) != 0) {
            return true;
        }
    }
    return false;
}

/* Found how long after the fault acted, if one has: the rank itself has noted when. */
static void set_delay(const struct exec_job *job, struct harness_finding *finding)
{
    const uint64_t now_ns = ddp_clock_now_ns(ddp_clock_monotonic());
    uint64_t fired_ns = 0;

    for (uint32_t r = 0; r < job->watch->world_size; r++) {
        fired_ns =
            job->watch->ranks[r].fired_ns > fired_ns ? job->watch->ranks[r].fired_ns : fired_ns;
    }
    if (fired_ns != 0 && fired_ns <= now_ns) {
        finding->detect_ns = (int64_t)(now_ns - fired_ns);
    }
}

/* Ranks that were started as others than they are find each other's places taken. */
static bool is_of_start(const struct exec_job *job, const struct harness_finding *finding)
{
    for (size_t i = 0; i < job->findings->count; i++) {
        if (job->findings->items[i].verdict == HARNESS_VERDICT_LAUNCH_ENVIRONMENT &&
            (finding->verdict == HARNESS_VERDICT_CRASH_EXITED ||
             finding->verdict == HARNESS_VERDICT_CRASH_FINISHED_EARLY ||
             finding->verdict == HARNESS_VERDICT_LAUNCH_MISSING_RANK)) {
            return true;
        }
    }
    return false;
}

/* A rank that stumbles over a wrong result may be seen to end before the others report that result:
 * then its end was said as a crash, and is a consequence now. */
static void take_back(struct exec_job *job, struct harness_finding *result)
{
    struct harness_findings *findings = job->findings;
    struct harness_rank_set ranks = harness_rank_set_in(findings->mem);
    char text[HARNESS_RANKS_TEXT_BYTES];
    size_t kept = 0;

    for (size_t i = 0; i < findings->count; i++) {
        const struct harness_finding *earlier = &findings->items[i];

        if (!job->config->is_left &&
            harness_verdict_family(earlier->verdict) == HARNESS_FAMILY_CRASH &&
            is_led_astray(job, earlier, result)) {
            harness_rank_set_add_all(&ranks, &earlier->culprits);
        } else {
            findings->items[kept++] = *earlier;
        }
    }
    findings->count = kept;
    if (!harness_rank_set_is_empty(&ranks)) {
        harness_watch_say(result, "; that rank %s ended follows from it",
                          harness_rank_set_text(&ranks, text));
    }
}

/* A rank that dies between two calls is named at once. Which call it owes is known once others have
 * come to it: until the job is ended that is added to what was said. */
static void add_owed(struct exec_job *job, const struct harness_finding *finding)
{
    for (size_t i = 0; i < job->findings->count; i++) {
        struct harness_finding *earlier = &job->findings->items[i];
        int64_t detect_ns = earlier->detect_ns;

        if (earlier->verdict != finding->verdict || earlier->op.is_set || !finding->op.is_set ||
            harness_verdict_family(earlier->verdict) != HARNESS_FAMILY_CRASH ||
            !harness_rank_set_is_subset(&finding->culprits, &earlier->culprits) ||
            !harness_rank_set_is_subset(&earlier->culprits, &finding->culprits)) {
            continue;
        }
        harness_finding_free(earlier);
        *earlier = harness_finding_copy(finding, job->findings->mem);
        earlier->detect_ns = detect_ns;
        job->findings->is_failed |= harness_finding_is_failed(earlier);
        if (job->config->on_owed != NULL) {
            job->config->on_owed(job->config->context, earlier);
        }
    }
}

/* Of what shows now: what the rest may follow from, or the rest. */
static void add_new(struct exec_job *job, struct harness_findings *now, bool are_results)
{
    for (size_t i = 0; i < now->count; i++) {
        struct harness_finding *finding = &now->items[i];

        const bool is_result = harness_verdict_family(finding->verdict) == HARNESS_FAMILY_VALUE;

        if ((is_result || is_told(finding)) == are_results && !is_of_pending(job, finding) &&
            !is_said(job, finding) && !is_of_launcher(job, finding) && !is_of_start(job, finding) &&
            !is_consequence(job, finding)) {
            set_delay(job, finding);
            if (is_result) {
                take_back(job, finding);
            }
            harness_findings_add(job->findings, finding);
            if (job->config->on_finding != NULL) {
                job->config->on_finding(job->config->context, finding);
            }
        }
    }
}

void harness_exec_say(struct exec_job *job, struct harness_findings *now)
{
    add_new(job, now, true);
    add_new(job, now, false);
    for (size_t i = 0; i < now->count; i++) {
        add_owed(job, &now->items[i]);
    }
}

void harness_exec_say_late(struct exec_job *job, struct ddp_mem *mem)
{
    struct ddp_text text;

    if (job->config->on_late == NULL || job->findings->count > 0 || job->linger_ns != UINT64_MAX) {
        return;
    }
    ddp_text_init(&text, mem);
    if (harness_watch_say_late(job->watch, job->late, mem, &text)) {
        job->config->on_late(job->config->context, ddp_text_str(&text));
    }
    ddp_text_fini(&text);
}
