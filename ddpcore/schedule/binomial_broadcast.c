/* Binomial-tree broadcast from any root. Ranks are renumbered so that the root is 0; the parent of
 * a rank is itself without its lowest set bit. In round k all ranks that have the data send it as
 * far on as the k-th highest bit says. Segments flow down the tree independently. */
#include "ddpcore/schedule/emit.h"

void ddp_emit_binomial_broadcast(struct ddp_schedule *schedule)
{
    const struct ddp_schedule_params *params = &schedule->params;
    const struct ddp_part whole = {0, params->elem_count};
    const uint32_t none[2] = {DDP_STEP_NONE, DDP_STEP_NONE};
    uint32_t virtual_rank = (params->rank + params->size - params->root) % params->size;
    bool is_root = virtual_rank == 0;
    enum ddp_buffer_kind source =
        is_root && !params->is_in_place ? DDP_BUFFER_INPUT : DDP_BUFFER_OUTPUT;
    size_t segment_count = ddp_emit_segment_count(params->elem_count, params->segment_elem_count);
    uint32_t lowest = 1;
    uint32_t round = 0; /* in which the rank sends */

    /* lowest: the rank's lowest set bit; the root's is the first power of two >= size. */
    while (lowest < params->size && (virtual_rank & lowest) == 0) {
        lowest *= 2;
    }
    for (uint32_t bit = lowest; bit < params->size; bit *= 2) {
        round++;
    }
    DDP_ASSERT(is_root || (virtual_rank & lowest) != 0);
    if (is_root && !params->is_in_place) {
        (void)ddp_emit_copy(schedule, 0, ddp_emit_range(DDP_BUFFER_OUTPUT, whole),
                            ddp_emit_range(DDP_BUFFER_INPUT, whole), none);
    }
    for (size_t segment = 0; !is_root && segment < segment_count; segment++) {
        uint32_t parent = (virtual_rank - lowest + params->root) % params->size;
        struct ddp_part part = ddp_emit_segment(whole, params->segment_elem_count, segment);

        /* These are the rank's first steps: that of segment s is step s. */
        (void)ddp_emit_recv(schedule, DDP_STEP_RECV, round - 1, parent,
                            ddp_emit_range(DDP_BUFFER_OUTPUT, part), none);
    }
    /* Farthest child first: its subtree is the largest. */
    for (uint32_t bit = lowest / 2; bit > 0; bit /= 2, round++) {
        for (size_t segment = 0; virtual_rank + bit < params->size && segment < segment_count;
             segment++) {
            struct ddp_part part = ddp_emit_segment(whole, params->segment_elem_count, segment);
            uint32_t child = (virtual_rank + bit + params->root) % params->size;
            const uint32_t dep[2] = {is_root ? DDP_STEP_NONE : (uint32_t)segment, DDP_STEP_NONE};

            (void)ddp_emit_send(schedule, round, child, ddp_emit_range(source, part), dep);
        }
    }
}
