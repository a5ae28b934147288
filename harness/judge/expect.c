/* One entry of expect.findings against one finding. What an entry does not state, any finding has.
 */
#include "harness/judge/expect.h"

#include <stdio.h>
#include <string.h>

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

/* The finding's parameters are exactly those. */
static bool are_params_met(const struct harness_texts *names,
                           const struct harness_judge_facts *facts,
                           const struct harness_finding *finding)
{
    if (names->items == NULL) {
        return true;
    }
    for (uint32_t i = 0; i < finding->params.count; i++) {
        uint32_t param = harness_list_at(&finding->params, i);

        if (param >= facts->param_count || !is_named(names, facts->param_names[param])) {
            return false;
        }
    }
    return finding->params.count == names->count;
}

static bool is_op_met(const struct harness_expect_op *op, const struct harness_judge_facts *facts,
                      const struct harness_finding *finding)
{
    return !op->is_set || ((op->bucket < 0 || finding->op.bucket == op->bucket) &&
                           (op->seq < 0 || (int64_t)finding->op.seq == op->seq) &&
                           are_params_met(&op->params, facts, finding));
}

bool harness_expect_is_victims_met(const struct harness_plan *plan,
                                   const struct harness_culprit *victims,
                                   const struct harness_culprit *culprit,
                                   const struct harness_finding *finding, struct ddp_mem *mem)
{
    struct harness_rank_set expected = harness_rank_set_in(mem);
    struct harness_rank_set culprits;

    if (!victims->is_stated) {
        return true;
    }
    if (!victims->is_others) {
        return harness_rank_set_is_equal(&finding->victims, &victims->ranks);
    }
    culprits = harness_expect_culprits(plan, culprit, mem);
    for (uint32_t rank = 0; rank < plan->job.ranks; rank++) {
        if (!harness_rank_set_has(&culprits, rank)) {
            harness_rank_set_add(&expected, rank);
        }
    }
    return harness_rank_set_is_equal(&finding->victims, &expected);
}

bool harness_expect_is_time_met(uint64_t detect_within_ms, const struct harness_judge_facts *facts,
                                const struct harness_finding *finding)
{
    DDP_ASSERT(finding->detect_ns >= -1);
    return detect_within_ms == 0 || !facts->is_time_enforced ||
           (finding->detect_ns >= 0 &&
            (uint64_t)finding->detect_ns <= detect_within_ms * DDP_NS_PER_MS);
}

bool harness_expect_is_met(const struct harness_plan *plan, const struct harness_judge_facts *facts,
                           const struct harness_expect_finding *expected,
                           const struct harness_finding *finding, struct ddp_mem *mem)
{
    const struct harness_rank_set culprits = harness_expect_culprits(plan, &expected->culprit, mem);

    DDP_ASSERT(finding->verdict != HARNESS_VERDICT_NONE);
    DDP_ASSERT(expected->step >= -1 && finding->step >= -1);
    return expected->verdict == finding->verdict &&
           harness_rank_set_is_equal(&finding->culprits, &culprits) &&
           (expected->step < 0 || expected->step == finding->step) &&
           (expected->phase < 0 || expected->phase == finding->phase) &&
           (expected->oracle == HARNESS_ORACLE_NONE || expected->oracle == finding->oracle) &&
           (expected->mode == HARNESS_MODE_NONE || expected->mode == finding->mode) &&
           harness_expect_is_victims_met(plan, &expected->victims, &expected->culprit, finding,
                                         mem) &&
           harness_expect_is_time_met(expected->detect_within_ms, facts, finding) &&
           is_op_met(&expected->op, facts, finding);
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
