/* One finding against what a scenario states of it. What it does not state, any finding has. */
#include "harness/judge/expect.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "harness/plan/names.h"
#include "harness/plan/plan.h"

struct harness_rank_set harness_expect_culprits(const struct harness_plan *plan,
                                                const struct harness_culprit *culprit,
                                                struct ddp_mem *mem)
{
    struct harness_rank_set culprits = harness_rank_set_in(mem);

    if (culprit->is_injected) {
        harness_plan_injected(plan, HARNESS_RUN_FIRST, &culprits);
    } else if (culprit->is_all) {
        for (uint32_t rank = 0; rank < plan->job.ranks; rank++) {
            harness_rank_set_add(&culprits, rank);
        }
    } else {
        culprits = culprit->ranks;
    }
    DDP_ASSERT(harness_rank_set_count(&culprits) <= plan->job.ranks);
    return culprits;
}

static bool is_named(const struct harness_texts *names, const char *name)
{
    for (size_t i = 0; i < names->count; i++) {
        if (strcmp(names->items[i], name) == 0) {
            return true;
        }
    }
    return false;
}

/* Another sentence. */
static struct ddp_text *next(struct ddp_text *out)
{
    if (out->size_bytes > 0) {
        ddp_text_add(out, "; ");
    }
    return out;
}

/* The finding's parameters are exactly those. */
static void compare_params(const struct harness_texts *names,
                           const struct harness_judge_facts *facts,
                           const struct harness_finding *finding, struct ddp_text *out)
{
    size_t matched = 0;

    for (uint32_t i = 0; i < finding->params.count; i++) {
        uint32_t param = harness_list_at(&finding->params, i);
        const char *name = param < facts->param_count ? facts->param_names[param] : "?";

        if (is_named(names, name)) {
            matched++;
        } else {
            ddp_text_add(next(out), "parameter %s was named, which is not expected", name);
        }
    }
    if (matched < names->count) {
        ddp_text_add(next(out), "%zu of %zu expected parameters were named", matched, names->count);
    }
}

static void compare_op(const struct harness_expect_op *op, const struct harness_judge_facts *facts,
                       const struct harness_finding *finding, struct ddp_text *out)
{
    if (op->bucket >= 0 && finding->op.bucket != op->bucket) {
        ddp_text_add(next(out), "bucket %" PRId32 " was named, expected %" PRId64,
                     finding->op.bucket, op->bucket);
    }
    if (op->seq >= 0 && (int64_t)finding->op.seq != op->seq) {
        ddp_text_add(next(out), "operation %" PRIu64 " was named, expected %" PRId64,
                     finding->op.seq, op->seq);
    }
    if (op->comm != NULL && strcmp(op->comm, finding->guest.comm) != 0) {
        ddp_text_add(next(out), "communicator %s was named, expected %s",
                     finding->guest.comm[0] != '\0' ? finding->guest.comm : "none", op->comm);
    }
    if (op->kind != 0 && finding->guest.kind != op->kind) {
        const char *kind = harness_names_of(HARNESS_NAMES_GUEST_KINDS, finding->guest.kind);

        ddp_text_add(next(out), "kind %s was named, expected %s", kind != NULL ? kind : "none",
                     harness_names_of(HARNESS_NAMES_GUEST_KINDS, op->kind));
    }
    if (op->params.items != NULL) {
        compare_params(&op->params, facts, finding, out);
    }
}

static struct harness_rank_set expected_victims(const struct harness_plan *plan,
                                                const struct harness_culprit *victims,
                                                const struct harness_rank_set *culprits,
                                                struct ddp_mem *mem)
{
    struct harness_rank_set others = harness_rank_set_in(mem);

    if (!victims->is_others) {
        return victims->ranks;
    }
    for (uint32_t rank = 0; rank < plan->job.ranks; rank++) {
        if (!harness_rank_set_has(culprits, rank)) {
            harness_rank_set_add(&others, rank);
        }
    }
    return others;
}

/* Whom it names. */
static void compare_ranks(const struct harness_plan *plan,
                          const struct harness_expect_finding *expected,
                          const struct harness_finding *finding, struct ddp_mem *mem,
                          struct ddp_text *out)
{
    const struct harness_rank_set culprits = harness_expect_culprits(plan, &expected->culprit, mem);
    const struct harness_rank_set victims =
        expected_victims(plan, &expected->victims, &culprits, mem);
    char got[HARNESS_RANKS_TEXT_BYTES];
    char want[HARNESS_RANKS_TEXT_BYTES];

    if (!harness_rank_set_is_equal(&finding->culprits, &culprits)) {
        ddp_text_add(next(out), "culprit %s, expected %s",
                     harness_rank_set_text(&finding->culprits, got),
                     harness_rank_set_text(&culprits, want));
    }
    if (expected->victims.is_stated && !harness_rank_set_is_equal(&finding->victims, &victims)) {
        ddp_text_add(next(out), "victims %s, expected %s",
                     harness_rank_set_text(&finding->victims, got),
                     harness_rank_set_text(&victims, want));
    }
}

static void compare_time(uint64_t within_ms, const struct harness_finding *finding,
                         struct ddp_text *out)
{
    if (finding->detect_ns < 0) {
        ddp_text_add(next(out), "it has no time at which it was found, expected <= %" PRIu64 " ms",
                     within_ms);
    } else if ((uint64_t)finding->detect_ns > within_ms * DDP_NS_PER_MS) {
        ddp_text_add(next(out), "found after %.1f ms, expected <= %" PRIu64 " ms",
                     (double)finding->detect_ns / 1e6, within_ms);
    }
}

/* Where in the job it is. */
static void compare_place(const struct harness_expect_finding *expected,
                          const struct harness_judge_facts *facts,
                          const struct harness_finding *finding, struct ddp_text *out)
{
    if (expected->op.is_set) {
        compare_op(&expected->op, facts, finding, out);
    }
    if (expected->step >= 0 && finding->step != expected->step) {
        ddp_text_add(next(out), "step %" PRId32 ", expected %" PRId64, finding->step,
                     expected->step);
    }
    if (expected->phase >= 0 && finding->phase != expected->phase) {
        ddp_text_add(next(out), "phase %s, expected %s",
                     finding->phase >= 0 ? ddp_phase_name((enum ddp_phase)finding->phase) : "none",
                     ddp_phase_name((enum ddp_phase)expected->phase));
    }
}

bool harness_expect_compare(const struct harness_plan *plan,
                            const struct harness_judge_facts *facts,
                            const struct harness_expect_finding *expected,
                            const struct harness_finding *finding, struct ddp_mem *mem,
                            struct ddp_text *out)
{
    DDP_ASSERT(finding->verdict != HARNESS_VERDICT_NONE && out->size_bytes == 0);
    DDP_ASSERT(finding->step >= -1 && finding->detect_ns >= -1);
    if (finding->verdict != expected->verdict) {
        ddp_text_add(next(out), "verdict %s, expected %s", harness_verdict_name(finding->verdict),
                     harness_verdict_name(expected->verdict));
    }
    compare_ranks(plan, expected, finding, mem, out);
    if (expected->detect_within_ms > 0 && facts->is_time_enforced) {
        compare_time(expected->detect_within_ms, finding, out);
    }
    compare_place(expected, facts, finding, out);
    if (expected->oracle != HARNESS_ORACLE_NONE && expected->oracle != finding->oracle) {
        ddp_text_add(next(out), "found by oracle %s, expected %s",
                     harness_oracle_name(finding->oracle), harness_oracle_name(expected->oracle));
    }
    if (expected->mode != HARNESS_MODE_NONE && expected->mode != finding->mode) {
        ddp_text_add(next(out), "judged by mode %s, expected %s", harness_mode_name(finding->mode),
                     harness_mode_name(expected->mode));
    }
    return out->size_bytes == 0 && !out->is_failed;
}

const char *harness_expect_text(const struct harness_plan *plan,
                                const struct harness_expect_finding *expected, struct ddp_mem *mem,
                                char *out, size_t size_bytes)
{
    const struct harness_rank_set culprits = harness_expect_culprits(plan, &expected->culprit, mem);
    char ranks[HARNESS_RANKS_TEXT_BYTES];
    char step[32] = "";
    char bucket[32] = "";

    if (expected->step >= 0) {
        (void)snprintf(step, sizeof step, " in step %lld", (long long)expected->step);
    }
    if (expected->op.is_set && expected->op.bucket >= 0) {
        (void)snprintf(bucket, sizeof bucket, ", bucket %lld", (long long)expected->op.bucket);
    }
    (void)snprintf(out, size_bytes, "%s of rank %s%s%s", harness_verdict_name(expected->verdict),
                   harness_rank_set_text(&culprits, ranks), step, bucket);
    return out;
}

static bool has_fired(const struct harness_plan *plan, const uint32_t *fired_count, uint32_t rank)
{
    for (uint32_t i = 0; i < plan->fault_count; i++) {
        if (fired_count[i] > 0 && plan->faults[i].at.rank == rank) {
            return true;
        }
    }
    return false;
}

bool harness_expect_is_also(const struct harness_expect *expect, enum harness_verdict verdict)
{
    for (uint32_t i = 0; i < expect->also.count; i++) {
        if (expect->also.items[i] == verdict) {
            return true;
        }
    }
    return false;
}

bool harness_expect_is_crash_unplanned(const struct harness_plan *plan,
                                       const struct harness_findings *findings,
                                       const uint32_t *fired_count)
{
    for (size_t i = 0; i < findings->count && !findings->is_evidence_lost; i++) {
        const struct harness_finding *finding = &findings->items[i];

        for (uint32_t k = 0;
             finding->cause < 0 && finding->verdict == HARNESS_VERDICT_CRASH_SIGNALED &&
             k < harness_rank_set_count(&finding->culprits);
             k++) {
            if (!has_fired(plan, fired_count, harness_rank_set_at(&finding->culprits, k))) {
                return true;
            }
        }
    }
    return false;
}
