/* What the built-in algorithms share: how a count is split, and functions that fill in a step. */
#include "ddpcore/schedule/emit.h"

struct ddp_part ddp_emit_split(size_t elem_count, uint32_t part_count, uint32_t index)
{
    size_t base = elem_count / part_count;
    size_t longer = elem_count % part_count;
    struct ddp_part part;

    DDP_ASSERT(index < part_count);
    part.first = index * base + (index < longer ? index : longer);
    part.elem_count = base + (index < longer ? 1 : 0);
    DDP_ASSERT(part.first + part.elem_count <= elem_count);
    return part;
}

size_t ddp_emit_segment_count(size_t elem_count, size_t segment_elem_count)
{
    if (segment_elem_count == 0 || elem_count == 0) {
        return elem_count == 0 ? 0 : 1;
    }
    return (elem_count - 1) / segment_elem_count + 1;
}

struct ddp_part ddp_emit_segment(struct ddp_part part, size_t segment_elem_count, size_t index)
{
    struct ddp_part segment = part;
    size_t skipped = index * segment_elem_count;

    if (segment_elem_count == 0) {
        return segment;
    }
    DDP_ASSERT(skipped < part.elem_count);
    segment.first += skipped;
    segment.elem_count -= skipped;
    if (segment.elem_count > segment_elem_count) {
        segment.elem_count = segment_elem_count;
    }
    return segment;
}

struct ddp_part ddp_emit_overlap(struct ddp_part a, struct ddp_part b)
{
    size_t first = a.first > b.first ? a.first : b.first;
    size_t a_end = a.first + a.elem_count;
    size_t b_end = b.first + b.elem_count;
    size_t end = a_end < b_end ? a_end : b_end;

    return (struct ddp_part){first, end > first ? end - first : 0};
}

struct ddp_range ddp_emit_range(enum ddp_buffer_kind buffer, struct ddp_part part)
{
    struct ddp_range range = {buffer, 0, part.first, part.elem_count};

    return range;
}

struct ddp_range ddp_emit_scratch(uint32_t scratch, struct ddp_part part)
{
    struct ddp_range range = {DDP_BUFFER_SCRATCH, scratch, part.first, part.elem_count};

    return range;
}

static uint32_t add_step(struct ddp_schedule *schedule, struct ddp_step *step,
                         const uint32_t dep[2])
{
    step->dep_count = 2;
    step->dep[0] = dep[0];
    step->dep[1] = dep[1];
    return ddp_schedule_add(schedule, step);
}

uint32_t ddp_emit_send(struct ddp_schedule *schedule, uint32_t round, uint32_t peer,
                       struct ddp_range src, const uint32_t dep[2])
{
    struct ddp_step step = {.kind = DDP_STEP_SEND, .round = round, .peer = peer, .src = src};

    return add_step(schedule, &step, dep);
}

uint32_t ddp_emit_recv(struct ddp_schedule *schedule, enum ddp_step_kind kind, uint32_t round,
                       uint32_t peer, struct ddp_range dst, const uint32_t dep[2])
{
    struct ddp_step step = {.kind = kind, .round = round, .peer = peer, .dst = dst};

    DDP_ASSERT(kind == DDP_STEP_RECV || kind == DDP_STEP_RECV_REDUCE);
    return add_step(schedule, &step, dep);
}

uint32_t ddp_emit_copy(struct ddp_schedule *schedule, uint32_t round, struct ddp_range dst,
                       struct ddp_range src, const uint32_t dep[2])
{
    struct ddp_step step = {.kind = DDP_STEP_COPY, .round = round, .src = src, .dst = dst};

    return add_step(schedule, &step, dep);
}

uint32_t *ddp_emit_step_array(struct ddp_schedule *schedule, size_t count)
{
    uint32_t *steps = ddp_mem_array(schedule->mem, count, sizeof(*steps));

    if (steps == NULL) {
        schedule->status = DDP_E_NOMEM;
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        steps[i] = DDP_STEP_NONE;
    }
    return steps;
}
