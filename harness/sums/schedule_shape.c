/* What lies in a rank's input and output, by kind; and which types hold which. */
#include "harness/sums/schedule_prove.h"
#include "harness/sums/schedule_text.h"

/* Blocks of elem_count elements in a rank's input and output, by kind. */
static const struct {
    bool has_input_of_all, has_output_of_all; /* a block for each rank, else one */
} shapes[DDP_COLL_KIND_COUNT] = {[DDP_COLL_ALL_GATHER] = {false, true},
                                 [DDP_COLL_REDUCE_SCATTER] = {true, false},
                                 [DDP_COLL_ALL_TO_ALL] = {true, true}};

bool harness_schedule_is_of_all(enum ddp_coll_kind kind)
{
    DDP_ASSERT((unsigned)kind < DDP_COLL_KIND_COUNT);
    return shapes[kind].has_input_of_all || shapes[kind].has_output_of_all;
}

bool harness_schedule_has_output(const struct harness_schedule *schedule)
{
    DDP_ASSERT(schedule->root < schedule->size);
    return schedule->kind != DDP_COLL_REDUCE || schedule->rank == schedule->root;
}

size_t harness_schedule_input_elems(const struct harness_schedule *schedule)
{
    return schedule->elem_count * (shapes[schedule->kind].has_input_of_all ? schedule->size : 1);
}

size_t harness_schedule_output_elems(const struct harness_schedule *schedule)
{
    size_t blocks = shapes[schedule->kind].has_output_of_all ? schedule->size : 1;

    return harness_schedule_has_output(schedule) ? schedule->elem_count * blocks : 0;
}

/* When input and output are one buffer and one of the two is a block of the other: where. */
static size_t own_block(const struct harness_schedule *schedule)
{
    DDP_ASSERT(schedule->rank < schedule->size);
    return schedule->rank * schedule->elem_count;
}

struct harness_span harness_schedule_input(const struct harness_schedule *schedule)
{
    bool is_silent = schedule->kind == DDP_COLL_BROADCAST && schedule->rank != schedule->root;
    struct harness_span input = {.elem_count =
                                     is_silent ? 0 : harness_schedule_input_elems(schedule)};

    DDP_ASSERT(schedule->buffer_count >= 2 && schedule->root < schedule->size);
    if (schedule->is_in_place) {
        bool is_block = schedule->kind == DDP_COLL_ALL_GATHER;

        input.buffer = 1;
        input.first = is_block ? own_block(schedule) : 0;
    }
    return input;
}

struct harness_span harness_schedule_output(const struct harness_schedule *schedule)
{
    bool is_block = schedule->is_in_place && schedule->kind == DDP_COLL_REDUCE_SCATTER;

    return (struct harness_span){1, is_block ? own_block(schedule) : 0,
                                 harness_schedule_output_elems(schedule)};
}

#define BIT(dtype) (1u << (unsigned)(dtype))

bool harness_schedule_holds(enum ddp_dtype holder, enum ddp_dtype held)
{
    static const unsigned holders[DDP_DTYPE_COUNT] = {
        [DDP_DTYPE_F32] = BIT(DDP_DTYPE_F64),
        [DDP_DTYPE_F16] = BIT(DDP_DTYPE_F32) | BIT(DDP_DTYPE_F64),
        [DDP_DTYPE_BF16] = BIT(DDP_DTYPE_F32) | BIT(DDP_DTYPE_F64),
        [DDP_DTYPE_I32] = BIT(DDP_DTYPE_F64) | BIT(DDP_DTYPE_I64),
        [DDP_DTYPE_U8] = ~0u};

    DDP_ASSERT((unsigned)holder < DDP_DTYPE_COUNT && (unsigned)held < DDP_DTYPE_COUNT);
    return holder == held || (holders[held] & BIT(holder)) != 0;
}
