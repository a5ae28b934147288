/* Ring all-reduce: n-1 rounds that reduce each chunk on its way around the ring, then n-1 rounds
 * that hand the finished chunks around. Out of place, the own chunk leaves straight from the input
 * and only the other chunks are copied first. Segments of a chunk travel independently. */
#include "ddpcore/schedule/emit.h"

struct ring {
    struct ddp_schedule *schedule;
    const struct ddp_schedule_params *params;
    uint32_t next, prev;
    size_t segment_max; /* segments of the longest chunk */
    uint32_t *written;  /* [size * segment_max]: last step that wrote the segment */
    uint32_t *lent;     /* same: the send that lent the segment of the output */
};

static uint32_t chunk_before(const struct ring *ring, uint32_t distance)
{
    DDP_ASSERT(distance <= ring->params->size); /* the difference is not below zero */
    return (ring->params->rank + ring->params->size - distance) % ring->params->size;
}

static size_t chunk_segment_count(const struct ring *ring, uint32_t chunk)
{
    struct ddp_part part = ddp_emit_split(ring->params->elem_count, ring->params->size, chunk);

    return ddp_emit_segment_count(part.elem_count, ring->params->segment_elem_count);
}

static struct ddp_part chunk_segment(const struct ring *ring, uint32_t chunk, size_t segment)
{
    struct ddp_part part = ddp_emit_split(ring->params->elem_count, ring->params->size, chunk);

    return ddp_emit_segment(part, ring->params->segment_elem_count, segment);
}

/* Number of a segment in the arrays of written and lent segments. */
static size_t slot_of(const struct ring *ring, uint32_t chunk, size_t segment)
{
    DDP_ASSERT(chunk < ring->params->size && segment < ring->segment_max);
    return chunk * ring->segment_max + segment;
}

static void send_chunk(const struct ring *ring, uint32_t round, uint32_t chunk)
{
    bool is_from_input = round == 0 && !ring->params->is_in_place;
    size_t segment_count = chunk_segment_count(ring, chunk);

    for (size_t segment = 0; segment < segment_count; segment++) {
        struct ddp_part part = chunk_segment(ring, chunk, segment);
        size_t slot = slot_of(ring, chunk, segment);
        const uint32_t dep[2] = {ring->written[slot], DDP_STEP_NONE};
        uint32_t sent = ddp_emit_send(
            ring->schedule, round, ring->next,
            ddp_emit_range(is_from_input ? DDP_BUFFER_INPUT : DDP_BUFFER_OUTPUT, part), dep);

        if (!is_from_input) {
            ring->lent[slot] = sent;
        }
    }
}

static void recv_chunk(const struct ring *ring, enum ddp_step_kind kind, uint32_t round,
                       uint32_t chunk)
{
    size_t segment_count = chunk_segment_count(ring, chunk);

    for (size_t segment = 0; segment < segment_count; segment++) {
        struct ddp_part part = chunk_segment(ring, chunk, segment);
        size_t slot = slot_of(ring, chunk, segment);
        const uint32_t dep[2] = {ring->written[slot], ring->lent[slot]};

        ring->written[slot] = ddp_emit_recv(ring->schedule, kind, round, ring->prev,
                                            ddp_emit_range(DDP_BUFFER_OUTPUT, part), dep);
    }
}

static void copy_chunk(const struct ring *ring, uint32_t chunk)
{
    const uint32_t none[2] = {DDP_STEP_NONE, DDP_STEP_NONE};
    size_t segment_count = chunk_segment_count(ring, chunk);

    for (size_t segment = 0; segment < segment_count; segment++) {
        struct ddp_part part = chunk_segment(ring, chunk, segment);

        ring->written[slot_of(ring, chunk, segment)] =
            ddp_emit_copy(ring->schedule, 0, ddp_emit_range(DDP_BUFFER_OUTPUT, part),
                          ddp_emit_range(DDP_BUFFER_INPUT, part), none);
    }
}

static void emit_rounds(const struct ring *ring)
{
    uint32_t size = ring->params->size;

    /* Round r: the chunk r before the own one leaves, the one before that arrives. */
    for (uint32_t round = 0; round + 1 < size; round++) {
        uint32_t arriving = chunk_before(ring, round + 1);

        send_chunk(ring, round, chunk_before(ring, round));
        if (!ring->params->is_in_place) {
            copy_chunk(ring, arriving);
        }
        recv_chunk(ring, DDP_STEP_RECV_REDUCE, round, arriving);
    }
    /* Now chunk rank+1 is complete here. It leaves first, then each chunk that arrived. */
    for (uint32_t i = 0; i + 1 < size; i++) {
        uint32_t round = size - 1 + i;

        send_chunk(ring, round, chunk_before(ring, (i + size - 1) % size));
        recv_chunk(ring, DDP_STEP_RECV, round, chunk_before(ring, i));
    }
}

void ddp_emit_ring(struct ddp_schedule *schedule)
{
    const struct ddp_schedule_params *params = &schedule->params;
    const struct ddp_part whole = {0, params->elem_count};
    const uint32_t none[2] = {DDP_STEP_NONE, DDP_STEP_NONE};
    struct ring ring = {.schedule = schedule, .params = params};

    if (params->size == 1) {
        if (!params->is_in_place) {
            (void)ddp_emit_copy(schedule, 0, ddp_emit_range(DDP_BUFFER_OUTPUT, whole),
                                ddp_emit_range(DDP_BUFFER_INPUT, whole), none);
        }
        return;
    }
    ring.next = (params->rank + 1) % params->size;
    ring.prev = chunk_before(&ring, 1);
    ring.segment_max = chunk_segment_count(&ring, 0);
    ring.written = ddp_emit_step_array(schedule, params->size * ring.segment_max);
    ring.lent = ddp_emit_step_array(schedule, params->size * ring.segment_max);
    if (ring.written != NULL && ring.lent != NULL) {
        emit_rounds(&ring);
    }
    ddp_mem_free(schedule->mem, ring.written);
    ddp_mem_free(schedule->mem, ring.lent);
}
