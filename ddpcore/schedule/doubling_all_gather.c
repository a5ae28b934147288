/* Recursive doubling: an all-gather in log2(n) rounds, in order and without a last rotation. At
 * distance d = 1, 2, 4, ... a member of the core (core.h) has the blocks of d members from
 * i - i mod d on, and exchanges them all with its partner i XOR d. A rank outside of the core gives
 * its block to the one that it stands behind, and gets all others at the end. In place, the own
 * block already lies at its place in the output. */
#include "ddpcore/schedule/core.h"

struct doubling {
    struct ddp_schedule *schedule;
    const struct ddp_schedule_params *params;
    uint32_t copied;  /* the step that puts the own block into the output */
    uint32_t arrived; /* the last receive; each one waits for the one before */
};

/* Blocks [first, first + count) of the output, a segment a message. */
static void move_blocks(struct doubling *doubling, bool is_sent, uint32_t round, uint32_t peer,
                        uint32_t first, uint32_t count)
{
    const struct ddp_schedule_params *params = doubling->params;
    struct ddp_part window = {first * params->elem_count, count * params->elem_count};
    size_t segment_count = ddp_emit_segment_count(window.elem_count, params->segment_elem_count);

    DDP_ASSERT(first + count <= params->size && peer != params->rank);
    for (size_t segment = 0; segment < segment_count; segment++) {
        struct ddp_range range = ddp_emit_range(
            DDP_BUFFER_OUTPUT, ddp_emit_segment(window, params->segment_elem_count, segment));
        const uint32_t dep[2] = {doubling->arrived, is_sent ? doubling->copied : DDP_STEP_NONE};

        if (is_sent) {
            (void)ddp_emit_send(doubling->schedule, round, peer, range, dep);
        } else {
            doubling->arrived =
                ddp_emit_recv(doubling->schedule, DDP_STEP_RECV, round, peer, range, dep);
        }
    }
}

static void emit_outside(struct doubling *doubling, uint32_t last_round)
{
    uint32_t rank = doubling->params->rank;

    move_blocks(doubling, true, 0, rank + 1, rank, 1);
    move_blocks(doubling, false, last_round, rank + 1, 0, rank);
    move_blocks(doubling, false, last_round, rank + 1, rank + 1, doubling->params->size - rank - 1);
}

static void emit_inside(struct doubling *doubling, const struct ddp_core *core)
{
    uint32_t behind = ddp_core_outside(core, doubling->params->rank);
    uint32_t round = ddp_core_first_round(core);

    if (behind != DDP_CORE_NONE) {
        move_blocks(doubling, false, 0, behind, behind, 1);
    }
    for (uint32_t distance = 1; distance < core->size; distance *= 2, round++) {
        uint32_t partner = core->index ^ distance;
        uint32_t peer = ddp_core_rank(core, partner);
        uint32_t own = core->index - core->index % distance;
        uint32_t theirs = partner - partner % distance;
        uint32_t own_first = ddp_core_first_block(core, own);
        uint32_t their_first = ddp_core_first_block(core, theirs);

        move_blocks(doubling, true, round, peer, own_first,
                    ddp_core_first_block(core, own + distance) - own_first);
        move_blocks(doubling, false, round, peer, their_first,
                    ddp_core_first_block(core, theirs + distance) - their_first);
    }
    if (behind != DDP_CORE_NONE) {
        move_blocks(doubling, true, round, behind, 0, behind);
        move_blocks(doubling, true, round, behind, behind + 1, doubling->params->size - behind - 1);
    }
}

void ddp_emit_doubling_all_gather(struct ddp_schedule *schedule)
{
    const struct ddp_schedule_params *params = &schedule->params;
    const struct ddp_core core = ddp_core_of(params->size, params->rank);
    const struct ddp_part block = {0, params->elem_count};
    const struct ddp_part own = {params->rank * params->elem_count, params->elem_count};
    const uint32_t none[2] = {DDP_STEP_NONE, DDP_STEP_NONE};
    struct doubling doubling = {schedule, params, DDP_STEP_NONE, DDP_STEP_NONE};

    if (!params->is_in_place) {
        doubling.copied = ddp_emit_copy(schedule, 0, ddp_emit_range(DDP_BUFFER_OUTPUT, own),
                                        ddp_emit_range(DDP_BUFFER_INPUT, block), none);
    }
    if (core.index == DDP_CORE_NONE) {
        emit_outside(&doubling, core.levels + 1);
    } else {
        emit_inside(&doubling, &core);
    }
}
