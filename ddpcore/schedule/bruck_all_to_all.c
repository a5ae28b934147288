/* All-to-all in log2(n) rounds for any number of ranks, each block moved up to log2(n) times: for
 * small counts. J. Bruck et al., Efficient algorithms for all-to-all communications in multiport
 * message-passing systems, IEEE TPDS 8(11), 1997.
 *
 * Block i on the way is the one that still has i ranks to go: at first the one for rank + i. In
 * round k all blocks with bit k in i go 2^k ranks on, packed into one message, and as many arrive
 * in their places. In the end block i is the one that came i ranks far: from rank - i. */
#include "ddpcore/schedule/emit.h"

struct bruck {
    struct ddp_schedule *schedule;
    const struct ddp_schedule_params *params;
    uint32_t blocks, leaving, arriving; /* scratch: [size], and [size / 2] each */
    uint32_t moved;                     /* the last copy; each one waits for the one before */
};

static void copy(struct bruck *bruck, uint32_t round, struct ddp_range dst, struct ddp_range src,
                 uint32_t after)
{
    const uint32_t dep[2] = {bruck->moved, after};
    uint32_t copied = ddp_emit_copy(bruck->schedule, round, dst, src, dep);

    bruck->moved = copied != DDP_STEP_NONE ? copied : bruck->moved;
}

static struct ddp_part run_of(const struct bruck *bruck, uint32_t first, uint32_t count)
{
    size_t elem_count = bruck->params->elem_count;

    DDP_ASSERT(first + count <= bruck->params->size);
    return (struct ddp_part){first * elem_count, count * elem_count};
}

/* Blocks with bit k lie in runs of 2^k, every 2^(k + 1). Copies all runs into the message that
 * leaves, or from the one that arrived; returns the number of blocks. */
static uint32_t copy_runs(struct bruck *bruck, uint32_t round, bool is_leaving, uint32_t after)
{
    uint32_t size = bruck->params->size;
    uint32_t packed = 0;

    for (uint64_t first = UINT64_C(1) << round; first < size; first += UINT64_C(2) << round) {
        uint32_t left = size - (uint32_t)first;
        uint32_t count = left < 1u << round ? left : 1u << round;
        struct ddp_range run =
            ddp_emit_scratch(bruck->blocks, run_of(bruck, (uint32_t)first, count));
        struct ddp_part place = run_of(bruck, packed, count);

        if (is_leaving) {
            copy(bruck, round, ddp_emit_scratch(bruck->leaving, place), run, after);
        } else {
            copy(bruck, round, run, ddp_emit_scratch(bruck->arriving, place), after);
        }
        packed += count;
    }
    DDP_ASSERT(packed <= size / 2); /* each block with the bit has one without it before it */
    return packed;
}

/* Returns the last round. */
static uint32_t emit_rounds(struct bruck *bruck)
{
    const struct ddp_schedule_params *params = bruck->params;
    uint32_t sent = DDP_STEP_NONE;
    uint32_t round = 0;

    for (; UINT64_C(1) << round < params->size; round++) {
        uint32_t distance = 1u << round;
        uint32_t ahead = (params->rank + distance) % params->size;
        uint32_t behind = (params->rank + params->size - distance) % params->size;
        struct ddp_part message = run_of(bruck, 0, copy_runs(bruck, round, true, sent));
        size_t segment_count =
            ddp_emit_segment_count(message.elem_count, params->segment_elem_count);
        uint32_t packed = bruck->moved;
        uint32_t arrived = DDP_STEP_NONE;

        DDP_ASSERT(ahead != params->rank && behind != params->rank);
        for (size_t s = 0; s < segment_count; s++) {
            struct ddp_part part = ddp_emit_segment(message, params->segment_elem_count, s);
            const uint32_t may_leave[2] = {packed, sent};
            const uint32_t may_arrive[2] = {packed, arrived}; /* the last message was unpacked */

            sent = ddp_emit_send(bruck->schedule, round, ahead,
                                 ddp_emit_scratch(bruck->leaving, part), may_leave);
            arrived = ddp_emit_recv(bruck->schedule, DDP_STEP_RECV, round, behind,
                                    ddp_emit_scratch(bruck->arriving, part), may_arrive);
        }
        (void)copy_runs(bruck, round, false, arrived);
    }
    return round > 0 ? round - 1 : 0;
}

void ddp_emit_bruck_all_to_all(struct ddp_schedule *schedule)
{
    const struct ddp_schedule_params *params = &schedule->params;
    struct bruck bruck = {.schedule = schedule, .params = params, .moved = DDP_STEP_NONE};
    uint32_t size = params->size;
    uint32_t behind_own = size - params->rank - 1; /* blocks of the input */
    uint32_t last_round;
    struct ddp_part own = run_of(&bruck, params->rank, 1);

    if (!params->is_in_place) {
        copy(&bruck, 0, ddp_emit_range(DDP_BUFFER_OUTPUT, own),
             ddp_emit_range(DDP_BUFFER_INPUT, own), DDP_STEP_NONE);
    }
    bruck.blocks =
        ddp_schedule_add_scratch(schedule, params->dtype, run_of(&bruck, 0, size).elem_count);
    bruck.leaving =
        ddp_schedule_add_scratch(schedule, params->dtype, run_of(&bruck, 0, size / 2).elem_count);
    bruck.arriving =
        ddp_schedule_add_scratch(schedule, params->dtype, run_of(&bruck, 0, size / 2).elem_count);
    copy(&bruck, 0, ddp_emit_scratch(bruck.blocks, run_of(&bruck, 1, behind_own)),
         ddp_emit_range(DDP_BUFFER_INPUT, run_of(&bruck, params->rank + 1, behind_own)),
         DDP_STEP_NONE);
    copy(&bruck, 0, ddp_emit_scratch(bruck.blocks, run_of(&bruck, behind_own + 1, params->rank)),
         ddp_emit_range(DDP_BUFFER_INPUT, run_of(&bruck, 0, params->rank)), DDP_STEP_NONE);
    last_round = emit_rounds(&bruck);
    for (uint32_t i = 1; i < size; i++) {
        copy(&bruck, last_round,
             ddp_emit_range(DDP_BUFFER_OUTPUT, run_of(&bruck, (params->rank + size - i) % size, 1)),
             ddp_emit_scratch(bruck.blocks, run_of(&bruck, i, 1)), DDP_STEP_NONE);
    }
}
