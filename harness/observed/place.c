#include "harness/observed/place.h"

#include <string.h>

/* The run's last step may end with more than the others: then this call is of that list. */
static const struct harness_learned_call *tail_of(const struct harness_learned *learned,
                                                  const struct learned_place *place,
                                                  const struct learned_at *at, size_t *out_count)
{
    const struct harness_learned_call *last =
        harness_learned_step(learned, place->comm, learned->step_count - 1, out_count);

    return *out_count > at->count && memcmp(last, at->list, at->count * sizeof *last) == 0 ? last
                                                                                           : NULL;
}

void harness_learned_look_up(const struct harness_learned *learned,
                             const struct learned_place *place,
                             const struct harness_watch_call *call, struct learned_at *out)
{
    *out = (struct learned_at){
        .list = place->list, .count = place->count, .index = place->index, .step = call->step};
    if (call->step != place->step) {
        if (out->list != NULL && out->index < out->count) {
            out->due = &out->list[out->index];
            out->is_behind = true;
            out->step = place->step;
            return;
        }
        for (uint32_t s = place->step + 1; s < call->step; s++) {
            out->list = harness_learned_step(learned, place->comm, s, &out->count);
            if (out->count > 0) {
                out->due = &out->list[0];
                out->is_behind = true;
                out->step = s;
                return;
            }
        }
        out->index = 0;
        out->list = harness_learned_step(learned, place->comm, call->step, &out->count);
    }
    if (out->list == NULL) { /* nobody knows */
        out->is_alike = true;
        return;
    }
    if (out->index >= out->count) {
        size_t count = 0;
        const struct harness_learned_call *tail = tail_of(learned, place, out, &count);

        out->list = tail != NULL ? tail : out->list;
        out->count = tail != NULL ? count : out->count;
    }
    out->due = out->index < out->count ? &out->list[out->index] : NULL;
    out->is_alike = out->due != NULL && harness_learned_is_alike(out->due, call);
}
