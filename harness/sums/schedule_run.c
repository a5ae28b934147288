/* Purpose: run an ordered schedule set on values, step by step, with the judge's own arithmetic.
 * Idea: a message is read directly from the sender's range, so that only what the text says
 * happens: no transport, no chunks, no buffers in between. */
#include <string.h>

#include "harness/sums/arith.h"
#include "harness/sums/schedule_set.h"

static void *place(const struct harness_schedule_set *set, uint32_t rank,
                   const struct harness_span *span)
{
    size_t elem_bytes = ddp_dtype_size_bytes(set->member[rank]->buffer_dtype[span->buffer]);

    DDP_ASSERT(span->first + span->elem_count <=
               set->member[rank]->buffer_elem_count[span->buffer]);
    return (char *)set->buffer[rank][span->buffer] + span->first * elem_bytes;
}

static enum ddp_dtype dtype_of(const struct harness_schedule_set *set, uint32_t rank,
                               const struct harness_span *span)
{
    DDP_ASSERT(rank < set->size && span->buffer < set->member[rank]->buffer_count);
    return set->member[rank]->buffer_dtype[span->buffer];
}

static ddp_status allocate_buffers(struct harness_schedule_set *set)
{
    if (set->buffer != NULL) {
        return DDP_OK;
    }
    set->buffer = ddp_mem_array(set->mem, set->size, sizeof(*set->buffer));
    for (uint32_t r = 0; set->buffer != NULL && r < set->size; r++) {
        const struct harness_schedule *member = set->member[r];

        set->buffer[r] = ddp_mem_array(set->mem, member->buffer_count, sizeof(void *));
        for (size_t k = 2; set->buffer[r] != NULL && k < member->buffer_count; k++) {
            set->buffer[r][k] = ddp_mem_array(set->mem, member->buffer_elem_count[k],
                                              ddp_dtype_size_bytes(member->buffer_dtype[k]));
            if (set->buffer[r][k] == NULL) {
                return DDP_E_NOMEM;
            }
        }
        if (set->buffer[r] == NULL) {
            return DDP_E_NOMEM;
        }
    }
    return set->buffer == NULL ? DDP_E_NOMEM : DDP_OK;
}

/* source elements of type source_dtype become, or are combined into, the step's target. */
static ddp_status apply(const struct harness_schedule_set *set,
                        const struct harness_schedule_event *event, const void *source,
                        enum ddp_dtype source_dtype)
{
    const struct harness_schedule_step *step = &set->member[event->rank]->steps[event->step];
    void *target = place(set, event->rank, &step->dst);
    enum ddp_dtype dtype = dtype_of(set, event->rank, &step->dst);
    size_t elem_count = step->dst.elem_count;

    DDP_ASSERT(elem_count > 0);
    switch (step->kind) {
    case HARNESS_STEP_RECV:
    case HARNESS_STEP_COPY:
        if (source_dtype != dtype) {
            return DDP_E_UNSUPPORTED;
        }
        memmove(target, source, elem_count * ddp_dtype_size_bytes(dtype));
        return DDP_OK;
    case HARNESS_STEP_RECV_REDUCE:
    case HARNESS_STEP_REDUCE:
        return source_dtype == dtype ? harness_arith_add(target, source, elem_count, dtype)
                                     : DDP_E_UNSUPPORTED;
    case HARNESS_STEP_CONVERT:
        return harness_arith_scale(target, dtype, source, source_dtype, elem_count, 1.0f);
    case HARNESS_STEP_SEND:
    case HARNESS_STEP_KIND_COUNT:
        break;
    }
    return DDP_E_INVALID;
}

ddp_status harness_schedule_set_run(struct harness_schedule_set *set, void *const *input,
                                    void *const *output)
{
    if (!set->is_ordered) {
        return DDP_E_STATE;
    }
    DDP_ASSERT(set->member_count == set->size);
    DDP_TRY(allocate_buffers(set));
    for (uint32_t r = 0; r < set->size; r++) {
        set->buffer[r][0] = input[r];
        set->buffer[r][1] = output[r];
        if (set->member[r]->is_in_place && input[r] != output[r]) {
            struct harness_span own = harness_schedule_input(set->member[r]);

            DDP_ASSERT(own.buffer == 1);
            memcpy(place(set, r, &own), input[r],
                   own.elem_count * ddp_dtype_size_bytes(set->member[r]->dtype));
        }
    }
    for (size_t e = 0; e < set->event_count; e++) {
        const struct harness_schedule_event *event = &set->events[e];
        bool is_local = event->from_rank == HARNESS_NO_RANK;
        uint32_t from = is_local ? event->rank : event->from_rank;
        const struct harness_schedule_step *source =
            &set->member[from]->steps[is_local ? event->step : event->from_step];
        const struct harness_schedule_step *target = &set->member[event->rank]->steps[event->step];

        DDP_ASSERT(from < set->size && event->rank < set->size);
        if (source->src.elem_count != target->dst.elem_count) {
            return DDP_E_INVALID;
        }
        DDP_TRY(
            apply(set, event, place(set, from, &source->src), dtype_of(set, from, &source->src)));
    }
    return DDP_OK;
}
