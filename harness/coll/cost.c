/* Purpose: what a collective costs: messages, elements, and time in units of one of alpha, beta and
 * gamma. */
#include "harness/coll/coll.h"
#include "harness/coll/timeline.h"

static ddp_status time_of(const struct harness_schedule_set *set,
                          const struct harness_coll_model *model, struct ddp_mem *mem, double *out)
{
    struct harness_coll_timeline timeline;
    ddp_status status = harness_coll_timeline_make(set, model, mem, &timeline);

    *out = timeline.total;
    harness_coll_timeline_fini(&timeline);
    return status;
}

static void count_sends(const struct harness_schedule *member, struct harness_coll_cost *out)
{
    uint64_t messages = 0;
    uint64_t elems = 0;

    for (size_t s = 0; s < member->step_count; s++) {
        if (member->steps[s].kind == HARNESS_STEP_SEND) {
            messages++;
            elems += member->steps[s].src.elem_count;
        }
    }
    out->messages += messages;
    out->elems += elems;
    out->rank_messages = messages > out->rank_messages ? messages : out->rank_messages;
    out->rank_elems = elems > out->rank_elems ? elems : out->rank_elems;
}

ddp_status harness_coll_cost_of(const struct harness_schedule_set *set, struct ddp_mem *mem,
                                struct harness_coll_cost *out)
{
    static const struct harness_coll_model per_message = {1, 0, 0};
    static const struct harness_coll_model per_elem = {0, 1, 0};
    static const struct harness_coll_model per_addition = {0, 0, 1};

    DDP_ASSERT(set->is_ordered);
    *out = (struct harness_coll_cost){.world = set->size, .elem_count = set->any->elem_count};
    for (uint32_t r = 0; r < set->size; r++) {
        count_sends(set->member[r], out);
    }
    DDP_TRY(time_of(set, &per_message, mem, &out->rounds));
    DDP_TRY(time_of(set, &per_elem, mem, &out->transfers));
    return time_of(set, &per_addition, mem, &out->additions);
}
