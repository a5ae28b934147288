/* Purpose: run an ordered schedule set on values, move by move, with the judge's own arithmetic.
 * Idea: a message is read straight from the sender's lent range, so what the text says is all that
 * happens: no transport, no chunking, no staging. */
#include <string.h>

#include "harness/sums/arith.h"
#include "harness/sums/schedule_set.h"

static void *place(const struct harness_schedule_set *set, uint32_t rank,
                   const struct harness_span *span)
{
    size_t elem_bytes = ddp_dtype_size_bytes(set->member[rank]->buffer_dtype[span->buffer]);

    return (char *)set->buffer[rank][span->buffer] + span->first * elem_bytes;
}

static enum ddp_dtype dtype_of(const struct harness_schedule_set *set, uint32_t rank,
                               const struct harness_span *span)
{
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

/* source elements of type source_dtype become, or are combined into, the move's target. */
static ddp_status apply(const struct harness_schedule_set *set, const struct harness_turn *turn,
                        const void *source, enum ddp_dtype source_dtype, enum ddp_redop op)
{
    const struct harness_move *move = &set->member[turn->rank]->moves[turn->move];
    void *target = place(set, turn->rank, &move->dst);
    enum ddp_dtype dtype = dtype_of(set, turn->rank, &move->dst);
    size_t elem_count = move->dst.elem_count;

    switch (move->kind) {
    case HARNESS_MOVE_RECV:
    case HARNESS_MOVE_COPY:
        if (source_dtype != dtype) {
            return DDP_E_UNSUPPORTED;
        }
        memmove(target, source, elem_count * ddp_dtype_size_bytes(dtype));
        return DDP_OK;
    case HARNESS_MOVE_RECV_REDUCE:
    case HARNESS_MOVE_REDUCE:
        return source_dtype == dtype ? harness_arith_reduce(target, source, elem_count, dtype, op)
                                     : DDP_E_UNSUPPORTED;
    case HARNESS_MOVE_SCALE:
        return harness_arith_scale(target, dtype, source, source_dtype, elem_count, move->factor);
    case HARNESS_MOVE_CONVERT:
        return harness_arith_scale(target, dtype, source, source_dtype, elem_count, 1.0f);
    case HARNESS_MOVE_SEND:
    case HARNESS_MOVE_KIND_COUNT:
        break;
    }
    return DDP_E_INVALID;
}

ddp_status harness_schedule_set_run(struct harness_schedule_set *set, enum ddp_redop op,
                                    void *const *input, void *const *output)
{
    if (!set->is_ordered) {
        return DDP_E_STATE;
    }
    DDP_TRY(allocate_buffers(set));
    for (uint32_t r = 0; r < set->size; r++) {
        set->buffer[r][0] = input[r];
        set->buffer[r][1] = output[r];
        if (set->member[r]->is_in_place && input[r] != output[r]) {
            memcpy(output[r], input[r],
                   set->member[r]->elem_count * ddp_dtype_size_bytes(set->member[r]->dtype));
        }
    }
    for (size_t t = 0; t < set->turn_count; t++) {
        const struct harness_turn *turn = &set->turns[t];
        bool is_local = turn->from_rank == HARNESS_NOBODY;
        uint32_t from = is_local ? turn->rank : turn->from_rank;
        const struct harness_move *source =
            &set->member[from]->moves[is_local ? turn->move : turn->from_move];
        const struct harness_move *target = &set->member[turn->rank]->moves[turn->move];

        if (source->src.elem_count != target->dst.elem_count) {
            return DDP_E_INVALID;
        }
        DDP_TRY(apply(set, turn, place(set, from, &source->src), dtype_of(set, from, &source->src),
                      op));
    }
    return DDP_OK;
}
