/* All-gather in log2(n) rounds for any number of members: before round k a member has 2^k blocks,
 * from its own one on (around the end of the output); it sends all of them 2^k members back, and as
 * many arrive from 2^k members ahead. The last round moves only what is still missing. In place,
 * the own block already lies at its place in the output.
 * Source: J. Bruck et al., Efficient algorithms for all-to-all communications in multiport
 * message-passing systems, IEEE TPDS 8(11), 1997; here blocks go to their final places at once, so
 * nothing is rotated at the end. */
#include "ddpcore/schedule/emit.h"

struct gather {
    struct ddp_schedule *schedule;
    const struct ddp_schedule_params *params;
    uint32_t copied;  /* the step that puts the own block into the output */
    uint32_t arrived; /* the last receive; each one waits for the one before */
};

static void emit_piece(struct gather *gather, bool is_sent, uint32_t round, uint32_t peer,
                       struct ddp_part piece)
{
    const struct ddp_range range = ddp_emit_range(DDP_BUFFER_OUTPUT, piece);
    const uint32_t dep[2] = {gather->arrived, gather->copied};

    if (is_sent) {
        (void)ddp_emit_send(gather->schedule, round, peer, range, dep);
    } else {
        gather->arrived = ddp_emit_recv(gather->schedule, DDP_STEP_RECV, round, peer, range, dep);
    }
}

/* Blocks first, first + 1, ... of the output, modulo the number of members: one run of elements, or
 * two where they go around the end. Both sides cut them alike. */
static void emit_blocks(struct gather *gather, bool is_sent, uint32_t round, uint32_t peer,
                        uint32_t first, uint32_t count)
{
    const struct ddp_schedule_params *params = gather->params;

    DDP_ASSERT(first < params->size && count < params->size);
    while (count > 0) {
        uint32_t run = count < params->size - first ? count : params->size - first;
        struct ddp_part part = {first * params->elem_count, run * params->elem_count};
        size_t segment_count = ddp_emit_segment_count(part.elem_count, params->segment_elem_count);

        for (size_t i = 0; i < segment_count; i++) {
            emit_piece(gather, is_sent, round, peer,
                       ddp_emit_segment(part, params->segment_elem_count, i));
        }
        first = (first + run) % params->size;
        count -= run;
    }
}

void ddp_emit_bruck_all_gather(struct ddp_schedule *schedule)
{
    const struct ddp_schedule_params *params = &schedule->params;
    const struct ddp_part block = {0, params->elem_count};
    const struct ddp_part own = {params->rank * params->elem_count, params->elem_count};
    const uint32_t none[2] = {DDP_STEP_NONE, DDP_STEP_NONE};
    struct gather gather = {schedule, params, DDP_STEP_NONE, DDP_STEP_NONE};

    if (!params->is_in_place) {
        gather.copied = ddp_emit_copy(schedule, 0, ddp_emit_range(DDP_BUFFER_OUTPUT, own),
                                      ddp_emit_range(DDP_BUFFER_INPUT, block), none);
    }
    for (uint32_t round = 0; UINT64_C(1) << round < params->size; round++) {
        uint32_t have = 1u << round;
        uint32_t missing = params->size - have;
        uint32_t count = have < missing ? have : missing;
        uint32_t ahead = (params->rank + have) % params->size;
        uint32_t behind = (params->rank + params->size - have) % params->size;

        emit_blocks(&gather, true, round, behind, params->rank, count);
        emit_blocks(&gather, false, round, ahead, ahead, count);
    }
}
