/* Binomial-tree reduction to any root, the broadcast's tree the other way. Ranks are renumbered so
 * that the root is 0; in round k, ranks whose lowest set bit is 2^k give their sum to the rank
 * without that bit. Sums are made in the root's output and in scratch elsewhere; a rank that adds
 * nothing sends its input. Segments go up the tree independently. */
#include "ddpcore/schedule/emit.h"

struct reducing {
    struct ddp_schedule *schedule;
    const struct ddp_schedule_params *params;
    uint32_t number; /* of the rank, from the root on */
    uint32_t scratch, child_count;
    size_t segment_count;
    uint32_t *last; /* [segment] the last step that wrote the sum */
};

static uint32_t rank_of(const struct reducing *reducing, uint32_t number)
{
    DDP_ASSERT(number < reducing->params->size);
    return (number + reducing->params->root) % reducing->params->size;
}

static struct ddp_part segment_at(const struct reducing *reducing, size_t segment)
{
    const struct ddp_part whole = {0, reducing->params->elem_count};

    return ddp_emit_segment(whole, reducing->params->segment_elem_count, segment);
}

static struct ddp_range sum_of(const struct reducing *reducing, size_t segment)
{
    struct ddp_part part = segment_at(reducing, segment);

    return reducing->number == 0 ? ddp_emit_range(DDP_BUFFER_OUTPUT, part)
                                 : ddp_emit_scratch(reducing->scratch, part);
}

static void emit(struct reducing *reducing)
{
    const uint32_t none[2] = {DDP_STEP_NONE, DDP_STEP_NONE};
    bool is_root = reducing->number == 0;
    bool is_summing = reducing->child_count > 0;
    uint32_t round = 0;

    for (size_t s = 0; s < reducing->segment_count; s++) {
        struct ddp_range input = ddp_emit_range(DDP_BUFFER_INPUT, segment_at(reducing, s));

        if ((is_root && !reducing->params->is_in_place) || (!is_root && is_summing)) {
            reducing->last[s] =
                ddp_emit_copy(reducing->schedule, 0, sum_of(reducing, s), input, none);
        }
    }
    for (uint32_t child = 0; child < reducing->child_count; child++) {
        for (size_t s = 0; s < reducing->segment_count; s++) {
            const uint32_t dep[2] = {reducing->last[s], DDP_STEP_NONE};

            reducing->last[s] = ddp_emit_recv(reducing->schedule, DDP_STEP_RECV_REDUCE, child,
                                              rank_of(reducing, reducing->number + (1u << child)),
                                              sum_of(reducing, s), dep);
        }
    }
    while (!is_root && (reducing->number >> round & 1) == 0) {
        round++;
    }
    for (size_t s = 0; !is_root && s < reducing->segment_count; s++) {
        const uint32_t dep[2] = {reducing->last[s], DDP_STEP_NONE};
        struct ddp_range input = ddp_emit_range(DDP_BUFFER_INPUT, segment_at(reducing, s));

        (void)ddp_emit_send(reducing->schedule, round,
                            rank_of(reducing, reducing->number & (reducing->number - 1)),
                            is_summing ? sum_of(reducing, s) : input, dep);
    }
}

void ddp_emit_binomial_reduce(struct ddp_schedule *schedule)
{
    const struct ddp_schedule_params *params = &schedule->params;
    struct reducing reducing = {.schedule = schedule, .params = params};

    reducing.number = (params->rank + params->size - params->root) % params->size;
    /* A child's number has one more bit set, below the lowest one of this number. */
    while ((reducing.number >> reducing.child_count & 1) == 0 &&
           (UINT64_C(1) << reducing.child_count) + reducing.number < params->size) {
        reducing.child_count++;
    }
    if (reducing.number != 0 && reducing.child_count > 0) {
        reducing.scratch = ddp_schedule_add_scratch(schedule, params->dtype, params->elem_count);
    }
    reducing.segment_count = ddp_emit_segment_count(params->elem_count, params->segment_elem_count);
    reducing.last = ddp_emit_step_array(schedule, reducing.segment_count);
    if (schedule->status == DDP_OK) {
        emit(&reducing);
    }
    ddp_mem_free(schedule->mem, reducing.last);
}
