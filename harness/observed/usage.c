/* Purpose: parameters that got no gradient, pass by pass.
 * Idea: a rank whose reducer does not look for such parameters owes the others the buckets that
 * hold them, and they wait for it. Ranks that report the same of the same pass are one finding;
 * nobody is waited for who waits himself for one of these ranks. */
#include <string.h>

#include "ddpcore/seam/phase.h"
#include "harness/observed/internal.h"
#include "harness/watch/analyse.h"

void observed_take_unused(struct harness_observed *observed, uint32_t rank,
                          const struct guest_entry *entry)
{
    const uint64_t count = entry->arg[1];
    const uint32_t *names = harness_watch_take_names(observed->watch, rank, count);
    struct observed_passes *passes = &observed->passes[rank];

    passes->count++;
    if (names == NULL) {
        observed->unnamed++;
        return;
    }
    observed->usage.judged++;
    if (count == 0 || entry->arg[2] != 0 || passes->wrong != NULL) {
        return;
    }
    passes->wrong = harness_watch_list_of(observed->watch, names, (uint32_t)count);
    passes->wrong_pass = passes->count;
    passes->wrong_step = (uint32_t)entry->place;
    observed->is_failed = observed->is_failed || passes->wrong == NULL;
}

/* The rank waits in a call that members have posted differently, or behind one: it does not go on.
 */
static bool is_astray(const struct harness_watch *watch, uint32_t rank)
{
    const struct harness_watch_rank *self = &watch->ranks[rank];

    for (uint32_t i = 0; i < self->wait_count; i++) {
        const uint64_t wrong_seq = watch->groups[self->waits[i].group].wrong_seq;

        if (wrong_seq != 0 && self->waits[i].seq >= wrong_seq) {
            return true;
        }
    }
    return false;
}

/* All ranks have come through this pass, or will not, since they wait for this rank, or in vain. */
static bool is_ripe(const struct harness_observed *observed, uint32_t rank)
{
    const struct harness_watch *watch = observed->watch;

    for (uint32_t r = 0; r < watch->world_size; r++) {
        const struct harness_watch_rank *self = &watch->ranks[r];

        if (self->is_attached && !self->is_detached && !harness_watch_is_gone(watch, r) &&
            observed->passes[r].count < observed->passes[rank].wrong_pass &&
            !harness_watch_needs(watch, r, rank, NULL) && !is_astray(watch, r)) {
            return false;
        }
    }
    return true;
}

static void add(struct harness_observed *observed, uint32_t rank, struct harness_findings *out)
{
    const struct observed_passes *first = &observed->passes[rank];
    struct harness_finding finding;
    char ranks[HARNESS_RANKS_TEXT_BYTES];

    harness_finding_init(&finding, out->mem, HARNESS_VERDICT_USAGE_UNUSED_PARAMETER,
                         HARNESS_ORACLE_USAGE, HARNESS_MODE_STATUS);
    for (uint32_t r = rank; r < observed->watch->world_size; r++) {
        struct observed_passes *passes = &observed->passes[r];

        if (passes->wrong == first->wrong && passes->wrong_pass == first->wrong_pass) {
            harness_rank_set_add(&finding.culprits, r);
            passes->is_said = true;
        }
    }
    for (uint32_t i = 0; i < first->wrong->count; i++) {
        harness_finding_add_param(&finding, first->wrong->params[i]);
    }
    finding.step = (int32_t)first->wrong_step;
    finding.phase = DDP_PHASE_BACKWARD;
    harness_watch_say(&finding, "in the backward pass of step %u, rank %s: no gradient for %s",
                      first->wrong_step, harness_rank_set_text(&finding.culprits, ranks),
                      first->wrong->texts[0]);
    if (first->wrong->count > 1) {
        harness_watch_say(&finding, " and %u more", first->wrong->count - 1);
    }
    harness_watch_say(&finding,
                      ", and find_unused_parameters is off: the sums of their buckets are "
                      "never posted, and the others wait for them");
    harness_findings_add(out, &finding);
}

void observed_judge_usage(struct harness_observed *observed, struct harness_findings *out)
{
    for (uint32_t r = 0; r < observed->watch->world_size && !observed->is_failed; r++) {
        if (observed->passes[r].wrong != NULL && !observed->passes[r].is_said &&
            is_ripe(observed, r)) {
            add(observed, r, out);
        }
    }
}
