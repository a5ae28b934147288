/* Fewer faults, ranks, steps: what a plan is small by. */
#include <inttypes.h>
#include <string.h>

#include "harness/plan/group.h"
#include "harness/shrink/shrinker.h"

static bool attempt(struct harness_shrinker *shrinker, struct harness_plan *plan)
{
    return harness_shrinker_attempt(shrinker, plan, NULL, 0);
}

/* Whether the finding names the fault's rank, in the fault's step or in any. */
static bool is_named(const struct harness_shrinker *shrinker, const struct harness_fault *fault,
                     bool is_in_step)
{
    bool is_culprit = false;

    for (uint32_t i = 0; i < shrinker->trial.culprit_count; i++) {
        is_culprit = is_culprit || shrinker->trial.culprits[i] == fault->at.rank;
    }
    return is_culprit && (!is_in_step || fault->at.step == shrinker->trial.step);
}

/* The likeliest first: of the rank and the step that are named, of the rank, all others. */
static bool keep_one(struct harness_shrinker *shrinker)
{
    const uint32_t count = harness_shrinker_best(shrinker)->fault_count;

    for (unsigned turn = 0; turn < 3; turn++) {
        for (uint32_t i = 0; i < count; i++) {
            const struct harness_fault *fault = &harness_shrinker_best(shrinker)->faults[i];
            const unsigned due = is_named(shrinker, fault, true)    ? 0
                                 : is_named(shrinker, fault, false) ? 1
                                                                    : 2;
            struct harness_plan plan;

            if (due != turn) {
                continue;
            }
            plan = harness_shrinker_copy(shrinker);
            if (plan.fault_count == count) {
                plan.faults[0] = plan.faults[i];
                plan.fault_count = 1;
            }
            if (attempt(shrinker, &plan)) {
                return true;
            }
        }
    }
    return false;
}

/* None, then each fault alone, then all but one at a time. */
void harness_shrink_drop_faults(struct harness_shrinker *shrinker)
{
    struct harness_plan plan = harness_shrinker_copy(shrinker);

    plan.fault_count = 0;
    shrinker->keeps_culprits = !shrinker->is_modelled;
    if (harness_shrinker_best(shrinker)->fault_count > 0 && !attempt(shrinker, &plan) &&
        harness_shrinker_best(shrinker)->fault_count > 1 && !keep_one(shrinker)) {
        for (uint32_t i = 0; harness_shrinker_best(shrinker)->fault_count > 2 &&
                             i < harness_shrinker_best(shrinker)->fault_count;) {
            plan = harness_shrinker_copy(shrinker);
            if (plan.fault_count == 0) {
                break; /* no memory */
            }
            plan.fault_count--;
            memmove(&plan.faults[i], &plan.faults[i + 1],
                    (plan.fault_count - i) * sizeof *plan.faults);
            i += !attempt(shrinker, &plan);
        }
    }
    shrinker->keeps_culprits = false;
}

/* Where a fault's rank, or its step, goes in a plan of fewer: with m different ones of faults from
 * this one on, the one that was `place` becomes min(place, count - m), so that they stay apart and
 * in order; 0 where there is no room for that. */
static uint32_t moved(const struct harness_plan *plan, bool is_step, int64_t place, uint32_t count)
{
    int64_t above = 0, last;

    for (uint32_t i = 0; i < plan->fault_count; i++) {
        const int64_t own = is_step ? plan->faults[i].at.step : plan->faults[i].at.rank;
        bool is_first = own >= place;

        for (uint32_t k = 0; k < i; k++) {
            is_first =
                is_first && (is_step ? plan->faults[k].at.step : plan->faults[k].at.rank) != own;
        }
        above += is_first;
    }
    last = above < (int64_t)count ? (int64_t)count - above : 0;
    return (uint32_t)(place < last ? place : last);
}

/* Groups without the ranks that are gone. */
static void cut_groups(struct harness_shrinker *shrinker, struct harness_plan *plan)
{
    struct harness_texts *groups = &plan->job.groups;
    const char **items = ddp_mem_array(shrinker->mem, groups->count + 1, sizeof *items);

    for (size_t i = 0; items != NULL && i < groups->count; i++) {
        struct harness_group group;
        struct ddp_text text;

        if (harness_group_parse(groups->items[i], &group, NULL) != DDP_OK) {
            return;
        }
        ddp_text_init(&text, shrinker->mem);
        ddp_text_add(&text, "%s", group.name);
        for (uint32_t k = 0; k < group.rank_count; k++) {
            if (group.ranks[k] < plan->job.ranks) {
                ddp_text_add(&text, " %" PRIu32, group.ranks[k]);
            }
        }
        items[i] = ddp_text_str(&text);
    }
    if (items != NULL) {
        groups->items = items;
    }
}

/* The smallest world first. */
void harness_shrink_drop_ranks(struct harness_shrinker *shrinker)
{
    const uint32_t world = harness_shrinker_best(shrinker)->job.ranks;

    for (uint32_t ranks = 1; ranks < world; ranks = ranks < 4 ? ranks + 1 : 2 * ranks) {
        const struct harness_plan *best = harness_shrinker_best(shrinker);
        struct harness_plan plan = harness_shrinker_copy(shrinker);

        plan.job.ranks = ranks;
        for (uint32_t i = 0; i < plan.fault_count; i++) {
            plan.faults[i].at.rank = moved(best, false, plan.faults[i].at.rank, ranks);
        }
        plan.job.skip_rank = plan.job.skip_rank < ranks ? plan.job.skip_rank : ranks - 1;
        if (plan.restore.ranks > ranks) {
            plan.restore.ranks = ranks;
        }
        cut_groups(shrinker, &plan);
        if (attempt(shrinker, &plan)) {
            return;
        }
    }
}

/* Into a run of so many steps, `early` steps before the last one. A place that is also said by a
 * number of an operation, or of a hit, is no longer at that number. */
static void move_to_step(const struct harness_plan *best, struct harness_fault *fault,
                         uint32_t steps, uint32_t early)
{
    struct harness_trigger *at = &fault->at;

    if (at->step >= 0) {
        at->step = moved(best, true, at->step, steps - early);
    } else if (at->hit > steps - early) {
        at->hit = steps - early;
    }
    if (at->seq >= 0 && at->step < 0) {
        at->step = steps - early - 1;
    }
    at->seq = -1;
}

/* The fewest steps first; faults of steps that are gone move to the last one, or to the one before
 * it, where what they do shows in the next step. */
void harness_shrink_drop_steps(struct harness_shrinker *shrinker)
{
    const uint32_t most = harness_shrinker_best(shrinker)->job.steps;

    for (uint32_t steps = 1; steps < most; steps = steps < 4 ? steps + 1 : 2 * steps) {
        for (uint32_t early = 0; early < 2 && early < steps; early++) {
            struct harness_plan plan = harness_shrinker_copy(shrinker);

            plan.job.steps = steps;
            for (uint32_t i = 0; i < plan.fault_count; i++) {
                move_to_step(harness_shrinker_best(shrinker), &plan.faults[i], steps, early);
            }
            if (plan.job.checkpoint_every > steps - early) {
                plan.job.checkpoint_every = steps - early;
            }
            if (attempt(shrinker, &plan)) {
                return;
            }
        }
    }
}
