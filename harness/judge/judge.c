/* The judge: compares what was found with what the scenario expects.
 *
 * Order of questions: did the harness itself work, did every planned fault fire, is there evidence,
 * is the primary finding the expected one with the right attribution, is there anything else that
 * it does not explain, and are the side conditions (survivors, restore, leaks) met. */
#include "harness/judge/judge.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "harness/judge/expect.h"
#include "harness/judge/order.h"
#include "harness/plan/plan.h"

#define DIFFERENCE_BYTES 512 /* a text that says where a finding differs */

struct judge {
    const struct harness_plan *plan;
    const struct harness_findings *findings;
    const struct harness_judge_facts *facts;
    struct harness_judgement *out;
};

static void complain(struct judge *judge, enum harness_outcome outcome, const char *format, ...)
    DDP_PRINTF(3, 4);

/* Lower the outcome and append a sentence to the reason, of which only so much is kept. */
static void complain(struct judge *judge, enum harness_outcome outcome, const char *format, ...)
{
    size_t used = strlen(judge->out->reason);
    char sentence[sizeof judge->out->reason - 128];
    va_list args;

    DDP_ASSERT(used < sizeof judge->out->reason);
    DDP_ASSERT(outcome != HARNESS_OUTCOME_PASS && outcome != HARNESS_OUTCOME_SKIP);
    judge->out->outcome = harness_outcome_worse(judge->out->outcome, outcome);
    va_start(args, format);
    (void)vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    (void)snprintf(judge->out->reason + used, sizeof judge->out->reason - used, "%s%s",
                   used > 0 ? "; " : "", sentence);
    DDP_ASSERT(judge->out->outcome != HARNESS_OUTCOME_PASS);
}

/* That the monitor's process ended says nothing of the job: the launcher has watched in its place.
 * If anything else was found, that counts. */
static bool is_of_harness(const struct harness_findings *findings, size_t index)
{
    bool is_alone = true;

    for (size_t i = 0; i < findings->count; i++) {
        is_alone = is_alone && findings->items[i].verdict == HARNESS_VERDICT_HANG_DETECTOR;
    }
    return !is_alone && findings->items[index].verdict == HARNESS_VERDICT_HANG_DETECTOR;
}

bool harness_judge_is_explained(const struct harness_findings *findings, size_t index)
{
    DDP_ASSERT(index < findings->count);
    return findings->items[index].cause >= 0 || is_of_harness(findings, index);
}

static bool is_explained(const struct judge *judge, size_t index)
{
    return harness_judge_is_explained(judge->findings, index);
}

/* The primary finding: unexplained, the expected one if it is among them, else the first. */
static int64_t pick_primary(const struct judge *judge)
{
    const struct harness_findings *findings = judge->findings;
    int64_t first = -1;

    for (size_t i = 0; i < findings->count; i++) {
        if (is_explained(judge, i)) {
            continue;
        }
        if (findings->items[i].verdict == judge->plan->expect.verdict) {
            return (int64_t)i;
        }
        first = first < 0 ? (int64_t)i : first;
    }
    /* Causes make no circle, so at least one finding is not explained by another. */
    DDP_ASSERT(findings->count == 0 || first >= 0);
    return first;
}

/* A planned fault did not happen: one reason, the best that is known. */
static void complain_unfired(struct judge *judge, uint32_t index)
{
    const struct harness_fault *fault = &judge->plan->faults[index];
    const char *unable = judge->facts->unable != NULL ? judge->facts->unable[index] : NULL;
    const bool is_change =
        fault->action.kind == HARNESS_ACTION_CORRUPT || fault->action.kind == HARNESS_ACTION_ARG;

    if (unable != NULL) {
        complain(judge, HARNESS_OUTCOME_INCONCLUSIVE,
                 "fault %" PRIu32 " (%s on rank %" PRIu32
                 ") came to its call and could do nothing to it: %s",
                 index, ddp_fault_point_name(fault->point), fault->at.rank, unable);
    } else {
        complain(judge, HARNESS_OUTCOME_INCONCLUSIVE,
                 "fault %" PRIu32 " (%s on rank %" PRIu32
                 ") never fired: its trigger was not reached%s",
                 index, ddp_fault_point_name(fault->point), fault->at.rank,
                 is_change ? ", or all that it alters was so already"
                 : fault->action.kind == HARNESS_ACTION_SKIP ? ", or there was nothing to leave out"
                                                             : "");
    }
}

/* How many faults fired. */
static uint32_t judge_faults(struct judge *judge)
{
    uint32_t fired_faults = 0;

    for (uint32_t i = 0; i < judge->plan->fault_count; i++) {
        const struct harness_fault *fault = &judge->plan->faults[i];
        uint32_t fired = judge->facts->fired_count[i];

        fired_faults += fired > 0 ? 1 : 0;
        if (fired == 0) {
            complain_unfired(judge, i);
        } else if (fault->at.times != 0 && fired > fault->at.times) {
            complain(judge, HARNESS_OUTCOME_ERROR,
                     "fault %" PRIu32 " fired %" PRIu32 " times, planned %" PRIu32, i, fired,
                     fault->at.times);
        }
    }
    return fired_faults;
}

/* Whether the finding is that one. If not, `data` says where it differs. */
static bool is_met(const struct judge *judge, const struct harness_expect_finding *expected,
                   const struct harness_finding *finding, char data[DIFFERENCE_BYTES])
{
    struct ddp_text difference;

    ddp_text_init_fixed(&difference, data, DIFFERENCE_BYTES);
    return harness_expect_compare(judge->plan, judge->facts, expected, finding,
                                  judge->findings->mem, &difference);
}

/* Without expect.findings: what is stated of the one that is expected. */
static void judge_attribution(struct judge *judge, const struct harness_finding *finding)
{
    const struct harness_expect *expect = &judge->plan->expect;
    const struct harness_expect_finding expected = {.verdict = expect->verdict,
                                                    .culprit = expect->culprit,
                                                    .victims = expect->victims,
                                                    .detect_within_ms = expect->detect_within_ms,
                                                    .op = expect->op,
                                                    .step = expect->step,
                                                    .phase = expect->phase,
                                                    .oracle = expect->oracle,
                                                    .mode = expect->mode};
    char difference[DIFFERENCE_BYTES];

    if (!is_met(judge, &expected, finding, difference)) {
        complain(judge, HARNESS_OUTCOME_FAIL, "%s", difference);
    }
}

/* It is not where the scenario expects one of its verdict. */
static bool is_elsewhere(const struct harness_expect *expect, const struct harness_finding *finding)
{
    return (expect->step >= 0 && finding->step != expect->step) ||
           (expect->op.is_set && expect->op.bucket >= 0 && finding->op.bucket != expect->op.bucket);
}

static void complain_of(struct judge *judge, size_t index)
{
    const struct harness_finding *finding = &judge->findings->items[index];
    char ranks[HARNESS_RANKS_TEXT_BYTES];

    DDP_ASSERT(index < judge->findings->count);
    if (judge->out->unexpected < 0) {
        judge->out->unexpected = (int64_t)index;
    }
    complain(judge, HARNESS_OUTCOME_FAIL, "also found %s (rank %s): %s",
             harness_verdict_name(finding->verdict),
             harness_rank_set_text(&finding->culprits, ranks), finding->text);
}

/* Everything that neither is the primary finding nor follows from another one. */
static void judge_others(struct judge *judge)
{
    const struct harness_expect *expect = &judge->plan->expect;
    struct harness_rank_set culprits =
        harness_expect_culprits(judge->plan, &expect->culprit, judge->findings->mem);

    for (size_t i = 0; i < judge->findings->count; i++) {
        const struct harness_finding *finding = &judge->findings->items[i];
        bool is_expected = finding->verdict == expect->verdict;
        char ranks[HARNESS_RANKS_TEXT_BYTES];

        if ((int64_t)i == judge->out->primary || is_explained(judge, i) ||
            harness_expect_is_also(expect, finding->verdict)) {
            continue;
        }
        (void)harness_rank_set_text(&finding->culprits, ranks);
        if (is_expected && judge->plan->forbid.accuse_others &&
            !harness_rank_set_is_subset(&finding->culprits, &culprits)) {
            complain(judge, HARNESS_OUTCOME_FAIL, "rank %s was accused of %s", ranks,
                     harness_verdict_name(finding->verdict));
        } else if (!is_expected || is_elsewhere(expect, finding)) {
            complain_of(judge, i);
        }
    }
}

/* It is one entry of expect.findings. */
static bool is_listed(const struct judge *judge, size_t index)
{
    const struct harness_expect_findings *expected = &judge->plan->expect.findings;
    char difference[DIFFERENCE_BYTES];

    for (size_t k = 0; k < expected->count; k++) {
        if (is_met(judge, &expected->items[k], &judge->findings->items[index], difference)) {
            return true;
        }
    }
    return false;
}

/* What was to be found may lie in the evidence that was lost. */
static enum harness_outcome outcome_of_missing(const struct judge *judge)
{
    return judge->findings->is_evidence_lost ? HARNESS_OUTCOME_INCONCLUSIVE : HARNESS_OUTCOME_FAIL;
}

/* What was expected, and where it differs from the first of its verdict that is no other entry. */
static void complain_not_found(struct judge *judge, const struct harness_expect_finding *expected)
{
    const struct harness_findings *findings = judge->findings;
    char text[HARNESS_RANKS_TEXT_BYTES + 128];
    char difference[DIFFERENCE_BYTES] = "";

    for (size_t i = 0; i < findings->count && difference[0] == '\0'; i++) {
        if (findings->items[i].verdict == expected->verdict && !is_explained(judge, i) &&
            !is_listed(judge, i)) {
            (void)is_met(judge, expected, &findings->items[i], difference);
        }
    }
    (void)harness_expect_text(judge->plan, expected, findings->mem, text, sizeof text);
    if (difference[0] == '\0') {
        complain(judge, outcome_of_missing(judge), "not found: %s", text);
    } else {
        complain(judge, HARNESS_OUTCOME_FAIL, "not found: %s (one differs: %s)", text, difference);
    }
}

/* With expect.findings: every entry was found and follows from nothing else, and whatever does is
 * an entry. An entry may be found several times, such as a fault of every step. */
static void judge_findings(struct judge *judge)
{
    const struct harness_expect_findings *expected = &judge->plan->expect.findings;
    const struct harness_findings *findings = judge->findings;
    char difference[DIFFERENCE_BYTES];

    for (size_t k = 0; k < expected->count; k++) {
        bool is_found = false;

        for (size_t i = 0; i < findings->count && !is_found; i++) {
            is_found = !is_explained(judge, i) &&
                       is_met(judge, &expected->items[k], &findings->items[i], difference);
        }
        if (!is_found) {
            complain_not_found(judge, &expected->items[k]);
        }
    }
    for (size_t i = 0; i < findings->count; i++) {
        if (!is_explained(judge, i) && !is_listed(judge, i)) {
            complain_of(judge, i);
        }
    }
}

static void judge_survivors(struct judge *judge)
{
    const struct harness_judge_facts *facts = judge->facts;
    uint64_t within_ms = judge->plan->expect.survivors.within_ms;

    if (!judge->plan->expect.survivors.is_set || !facts->is_survivor_checked) {
        return;
    }
    if (!facts->is_survivor_status_met) {
        complain(judge, facts->is_survivor_ended ? HARNESS_OUTCOME_FAIL : outcome_of_missing(judge),
                 "survivor rank %" PRIu32 " %s%s, expected %s", facts->survivor_rank,
                 facts->is_survivor_ended ? "ended with " : "did not end",
                 facts->is_survivor_ended ? ddp_status_name(facts->survivor_status) : "",
                 ddp_status_name(judge->plan->expect.survivors.status));
    } else if (judge->plan->expect.survivors.from_step >= 0 &&
               facts->continued_from_step != judge->plan->expect.survivors.from_step) {
        complain(judge, HARNESS_OUTCOME_FAIL,
                 "survivors went on by themselves from step %" PRId64 ", expected %" PRId64,
                 facts->continued_from_step, judge->plan->expect.survivors.from_step);
    } else if (within_ms > 0 && facts->is_time_enforced &&
               facts->survivor_latency_ns > (int64_t)(within_ms * DDP_NS_PER_MS)) {
        complain(judge, HARNESS_OUTCOME_FAIL,
                 "the slowest survivor took %.1f ms, expected <= %" PRIu64 " ms",
                 (double)facts->survivor_latency_ns / 1e6, within_ms);
    }
}

/* Whoever reads an error must learn from it what is wrong. */
static void judge_words(struct judge *judge)
{
    const struct harness_judge_facts *facts = judge->facts;

    if (facts->unsaid != NULL) {
        complain(judge, HARNESS_OUTCOME_FAIL, "no rank said \"%.200s\"; said was \"%.300s\"",
                 facts->unsaid, facts->said_instead);
    }
}

/* The ranks on which faults of the restore run act. A bad file may be blamed on nobody. */
static void judge_restore_culprits(struct judge *judge)
{
    const struct harness_rank_set *culprits = &judge->facts->restore_culprits;
    enum harness_verdict verdict = judge->facts->restore_verdict;
    struct harness_rank_set injected = harness_rank_set_in(judge->findings->mem);
    char got[HARNESS_RANKS_TEXT_BYTES];
    char want[HARNESS_RANKS_TEXT_BYTES];

    DDP_ASSERT(verdict != HARNESS_VERDICT_NONE);
    harness_plan_injected(judge->plan, HARNESS_RUN_RESTORE, &injected);
    if (harness_rank_set_is_empty(&injected) ||
        (harness_rank_set_is_empty(culprits) &&
         harness_verdict_family(verdict) == HARNESS_FAMILY_CHECKPOINT) ||
        harness_rank_set_is_equal(culprits, &injected)) {
        return;
    }
    complain(judge, HARNESS_OUTCOME_FAIL, "in the restore run: culprit %s, expected %s",
             harness_rank_set_text(culprits, got), harness_rank_set_text(&injected, want));
}

static void judge_restore(struct judge *judge)
{
    const struct harness_expect *expect = &judge->plan->expect;
    const struct harness_judge_facts *facts = judge->facts;

    if (!expect->restore.is_set) {
        return;
    }
    if (!facts->is_restore_run) {
        complain(judge, HARNESS_OUTCOME_ERROR, "no restore run took place");
        return;
    }
    if (facts->restore_verdict != expect->restore.refused) {
        complain(judge, HARNESS_OUTCOME_FAIL, "restoring gave %s (%s), expected %s",
                 harness_verdict_name(facts->restore_verdict),
                 facts->restore_verdict == HARNESS_VERDICT_NONE ? "nothing was found"
                                                                : facts->restore_text,
                 harness_verdict_name(expect->restore.refused));
        return;
    }
    if (facts->is_damage_loaded) {
        complain(judge, HARNESS_OUTCOME_FAIL, "nothing was refused: %s", facts->restore_text);
        return;
    }
    if (facts->restore_other != HARNESS_VERDICT_NONE) {
        complain(judge, HARNESS_OUTCOME_FAIL, "in the restore run: also found %s: %s",
                 harness_verdict_name(facts->restore_other), facts->restore_other_text);
    }
    if (expect->restore.refused != HARNESS_VERDICT_NONE) {
        judge_restore_culprits(judge);
        return;
    }
    if (expect->restore.from_step >= 0 && facts->restored_from_step != expect->restore.from_step) {
        complain(judge, HARNESS_OUTCOME_FAIL, "restored from step %" PRId64 ", expected %" PRId64,
                 facts->restored_from_step, expect->restore.from_step);
    }
    if (expect->restore.equals_uninterrupted && !facts->is_restore_equal) {
        complain(judge, HARNESS_OUTCOME_FAIL,
                 "the restored run differs from an uninterrupted one: %s", facts->restore_text);
    }
}

static void judge_leaks(struct judge *judge)
{
    const struct harness_forbid *forbid = &judge->plan->forbid;
    const struct harness_judge_facts *facts = judge->facts;

    if ((forbid->is_leak[HARNESS_LEAK_PROCESS] && facts->is_leak_process) ||
        (forbid->is_leak[HARNESS_LEAK_SHM] && facts->is_leak_shm) ||
        (forbid->is_leak[HARNESS_LEAK_FD] && facts->is_leak_fd)) {
        complain(judge, HARNESS_OUTCOME_FAIL, "left behind: %s", facts->leak_text);
    }
}

static void judge_verdict(struct judge *judge)
{
    const struct harness_expect *expect = &judge->plan->expect;
    struct harness_judgement *out = judge->out;

    out->primary = pick_primary(judge);
    out->verdict =
        out->primary >= 0 ? judge->findings->items[out->primary].verdict : HARNESS_VERDICT_NONE;
    if (out->verdict != expect->verdict) {
        complain(judge, out->primary < 0 ? outcome_of_missing(judge) : HARNESS_OUTCOME_FAIL,
                 "verdict %s, expected %s: %s", harness_verdict_name(out->verdict),
                 harness_verdict_name(expect->verdict),
                 out->primary >= 0 ? judge->findings->items[out->primary].text
                                   : "nothing was found");
    } else if (out->primary >= 0 && expect->findings.count == 0) {
        judge_attribution(judge, &judge->findings->items[out->primary]);
    }
    if (expect->findings.count > 0) {
        judge_findings(judge);
    } else {
        judge_others(judge);
    }
    /* Only the expected verdict passes. */
    DDP_ASSERT(out->outcome != HARNESS_OUTCOME_PASS || out->verdict == expect->verdict);
}

/* Whether something was found that the scenario does not allow, with all evidence there. Not that
 * the job is shorter than the plan: that is why the fault did not fire. */
static bool is_own_failure(const struct judge *judge)
{
    const struct harness_expect *expect = &judge->plan->expect;
    const struct harness_judgement *out = judge->out;

    DDP_ASSERT(out->outcome == HARNESS_OUTCOME_FAIL && judge->plan->fault_count > 0);
    if (judge->findings->is_evidence_lost || out->verdict == HARNESS_VERDICT_CRASH_FINISHED_EARLY) {
        return false;
    }
    return out->unexpected >= 0 ||
           (out->verdict != HARNESS_VERDICT_NONE && out->verdict != expect->verdict &&
            !harness_expect_is_also(expect, out->verdict));
}

/* A canary passes only if the judgement of its run is exactly what it states. */
static void judge_canary(struct judge *judge)
{
    const struct harness_canary *canary = &judge->plan->canary;
    struct harness_judgement *out = judge->out;
    enum harness_outcome got = out->outcome;
    char inner[sizeof out->reason];

    memcpy(inner, out->reason, sizeof inner);
    out->reason[0] = '\0';
    if (got == canary->outcome &&
        (canary->verdict == HARNESS_VERDICT_NONE || canary->verdict == out->verdict) &&
        (canary->reason == NULL || strstr(inner, canary->reason) != NULL)) {
        out->outcome = HARNESS_OUTCOME_PASS;
        return;
    }
    out->outcome = got == HARNESS_OUTCOME_ERROR ? HARNESS_OUTCOME_ERROR : HARNESS_OUTCOME_FAIL;
    complain(judge, out->outcome, "canary returned %s %s (%.700s), stated %s %s (%s)",
             harness_outcome_name(got), harness_verdict_name(out->verdict), inner,
             harness_outcome_name(canary->outcome), harness_verdict_name(canary->verdict),
             canary->reason != NULL ? canary->reason : "");
}

void harness_judge(const struct harness_plan *plan, struct harness_findings *findings,
                   const struct harness_judge_facts *facts, struct harness_judgement *out)
{
    struct judge judge = {plan, findings, facts, out};
    uint32_t fired_faults;
    ddp_status status = harness_judge_order(plan, facts->program, facts->trace, findings);

    DDP_ASSERT(plan->fault_count == 0 || facts->fired_count != NULL);
    DDP_ASSERT(facts->param_count == 0 || facts->param_names != NULL);
    DDP_ASSERT(facts->survivor_latency_ns >= -1 && facts->restored_from_step >= -1);
    memset(out, 0, sizeof *out);
    out->outcome = HARNESS_OUTCOME_PASS;
    out->unexpected = -1;
    if (findings->is_failed || status != DDP_OK) {
        complain(&judge, HARNESS_OUTCOME_ERROR, "out of memory while checking");
    }
    if (findings->is_evidence_lost) {
        complain(&judge, HARNESS_OUTCOME_INCONCLUSIVE, "evidence was lost: %s",
                 findings->lost_text);
    }
    fired_faults = judge_faults(&judge);
    judge_verdict(&judge);
    judge_survivors(&judge);
    judge_restore(&judge);
    judge_words(&judge);
    judge_leaks(&judge);
    /* If a fault never fired, this is not the planned run. What is missing in it, or follows from
     * those that did, is INCONCLUSIVE; but if none fired, what was found is the job's own failure,
     * and so is a rank that crashed without one. */
    if (fired_faults < plan->fault_count && out->outcome == HARNESS_OUTCOME_FAIL &&
        !harness_expect_is_crash_unplanned(plan, findings, facts->fired_count) &&
        (fired_faults > 0 || !is_own_failure(&judge))) {
        out->outcome = HARNESS_OUTCOME_INCONCLUSIVE;
    }
    if (plan->canary.is_set) {
        judge_canary(&judge);
    }
}
