/* Two-shot all-reduce: the elements are cut into n parts, and rank p owns part p. Everybody sends
 * each part to its owner, who adds them in the order of ranks; then every owner sends its part to
 * all. Two rounds, 2(n-1) messages of a n-th of the count. The order does not begin with the owner,
 * so every element is added in the same order. In place, the owner's own part is set aside.
 *
 * two_shot_f32 adds 16-bit floats in fp32 and rounds the sum once, at its owner: the messages are
 * as short as before. Of other types it is two_shot. */
#include "ddpcore/schedule/fold.h"

struct two_shot {
    struct ddp_schedule *schedule;
    size_t segment_max; /* segments of the longest part */
    uint32_t scratch;   /* in place: the rank's own data of its own part */
    bool is_wide;       /* sums are made in fp32: */
    uint32_t sum, term; /* scratch, of the length of the own part */
    uint32_t messages;  /* scratch: the own part of every other rank, one behind the other */
    uint32_t *lent;     /* [owner * segment_max + segment]: the send of it, in place */
    uint32_t *summed;   /* [segment] of the own part: the last step that wrote it */
};

static struct ddp_part part_of(const struct two_shot *shot, uint32_t owner)
{
    return ddp_emit_split(shot->schedule->params.elem_count, shot->schedule->params.size, owner);
}

static size_t segment_count_of(const struct two_shot *shot, uint32_t owner)
{
    return ddp_emit_segment_count(part_of(shot, owner).elem_count,
                                  shot->schedule->params.segment_elem_count);
}

static struct ddp_part segment_of(const struct two_shot *shot, uint32_t owner, size_t segment)
{
    return ddp_emit_segment(part_of(shot, owner), shot->schedule->params.segment_elem_count,
                            segment);
}

static void send_to_owners(const struct two_shot *shot)
{
    const struct ddp_schedule_params *params = &shot->schedule->params;
    const uint32_t none[2] = {DDP_STEP_NONE, DDP_STEP_NONE};
    enum ddp_buffer_kind source = params->is_in_place ? DDP_BUFFER_OUTPUT : DDP_BUFFER_INPUT;

    for (uint32_t owner = 0; owner < params->size; owner++) {
        for (size_t s = 0; owner != params->rank && s < segment_count_of(shot, owner); s++) {
            uint32_t sent = ddp_emit_send(shot->schedule, 0, owner,
                                          ddp_emit_range(source, segment_of(shot, owner, s)), none);

            shot->lent[owner * shot->segment_max + s] = params->is_in_place ? sent : DDP_STEP_NONE;
        }
    }
}

static void add_own_part(const struct two_shot *shot)
{
    const struct ddp_schedule_params *params = &shot->schedule->params;
    struct ddp_part part = part_of(shot, params->rank);

    for (size_t s = 0; s < segment_count_of(shot, params->rank); s++) {
        struct ddp_part segment = segment_of(shot, params->rank, s);
        struct ddp_range sum = ddp_emit_range(DDP_BUFFER_OUTPUT, segment);
        struct ddp_range own = ddp_emit_range(DDP_BUFFER_INPUT, segment);
        const uint32_t none[2] = {DDP_STEP_NONE, DDP_STEP_NONE};
        uint32_t saved = DDP_STEP_NONE;

        if (params->is_in_place && params->rank == 0) {
            own = sum; /* it comes first in the sum */
        } else if (params->is_in_place) {
            segment.first -= part.first;
            own = ddp_emit_scratch(shot->scratch, segment);
            saved = ddp_emit_copy(shot->schedule, 0, own, sum, none);
        }
        shot->summed[s] = ddp_fold_emit(shot->schedule, 0, sum, own, saved);
    }
}

/* dst = src, or dst += src. */
static uint32_t apply(const struct two_shot *shot, enum ddp_step_kind kind, struct ddp_range dst,
                      struct ddp_range src, uint32_t after, uint32_t and_after)
{
    struct ddp_step step = {
        .kind = kind, .src = src, .dst = dst, .dep_count = 2, .dep = {after, and_after}};

    return ddp_schedule_add(shot->schedule, &step);
}

/* Where a rank's data land. Each has a place of its own, so that no message waits for another one's
 * sum: NCCL receives all of a round at once. */
static struct ddp_range message_of(const struct two_shot *shot, uint32_t rank,
                                   struct ddp_part place)
{
    uint32_t own = shot->schedule->params.rank;
    uint32_t others_before = rank < own ? rank : rank - 1;

    DDP_ASSERT(rank != own);
    place.first += others_before * part_of(shot, own).elem_count;
    return ddp_emit_scratch(shot->messages, place);
}

/* fp32: sum = x0, then for each x behind it: term = x, sum += term. Returns the rounding. */
static uint32_t add_wide(const struct two_shot *shot, struct ddp_part segment,
                         struct ddp_part place)
{
    const struct ddp_schedule_params *params = &shot->schedule->params;
    enum ddp_buffer_kind own = params->is_in_place ? DDP_BUFFER_OUTPUT : DDP_BUFFER_INPUT;
    struct ddp_range sum = ddp_emit_scratch(shot->sum, place);
    struct ddp_range term = ddp_emit_scratch(shot->term, place);
    const uint32_t none[2] = {DDP_STEP_NONE, DDP_STEP_NONE};
    uint32_t converted = DDP_STEP_NONE;
    uint32_t summed = DDP_STEP_NONE;

    for (uint32_t rank = 0; rank < params->size; rank++) {
        struct ddp_range from = ddp_emit_range(own, segment);
        uint32_t taken = DDP_STEP_NONE;

        if (rank != params->rank) {
            from = message_of(shot, rank, place);
            taken = ddp_emit_recv(shot->schedule, DDP_STEP_RECV, 0, rank, from, none);
        }
        converted = apply(shot, DDP_STEP_CONVERT, rank == 0 ? sum : term, from, taken, summed);
        summed = rank == 0 ? converted
                           : apply(shot, DDP_STEP_REDUCE, sum, term, converted, DDP_STEP_NONE);
    }
    return apply(shot, DDP_STEP_CONVERT, ddp_emit_range(DDP_BUFFER_OUTPUT, segment), sum, summed,
                 DDP_STEP_NONE);
}

static void add_own_part_wide(const struct two_shot *shot)
{
    uint32_t rank = shot->schedule->params.rank;
    struct ddp_part part = part_of(shot, rank);

    for (size_t s = 0; s < segment_count_of(shot, rank); s++) {
        struct ddp_part segment = segment_of(shot, rank, s);

        DDP_ASSERT(segment.first >= part.first);
        shot->summed[s] = add_wide(
            shot, segment, (struct ddp_part){segment.first - part.first, segment.elem_count});
    }
}

static void send_own_part(const struct two_shot *shot)
{
    const struct ddp_schedule_params *params = &shot->schedule->params;

    for (uint32_t rank = 0; rank < params->size; rank++) {
        for (size_t s = 0; rank != params->rank && s < segment_count_of(shot, params->rank); s++) {
            const uint32_t dep[2] = {shot->summed[s], DDP_STEP_NONE};

            (void)ddp_emit_send(
                shot->schedule, 1, rank,
                ddp_emit_range(DDP_BUFFER_OUTPUT, segment_of(shot, params->rank, s)), dep);
        }
    }
}

static void take_parts(const struct two_shot *shot)
{
    const struct ddp_schedule_params *params = &shot->schedule->params;

    for (uint32_t owner = 0; owner < params->size; owner++) {
        for (size_t s = 0; owner != params->rank && s < segment_count_of(shot, owner); s++) {
            const uint32_t dep[2] = {shot->lent[owner * shot->segment_max + s], DDP_STEP_NONE};

            (void)ddp_emit_recv(shot->schedule, DDP_STEP_RECV, 1, owner,
                                ddp_emit_range(DDP_BUFFER_OUTPUT, segment_of(shot, owner, s)), dep);
        }
    }
}

static void add_scratch(struct two_shot *shot)
{
    const struct ddp_schedule_params *params = &shot->schedule->params;
    size_t elem_count = part_of(shot, params->rank).elem_count;

    if (shot->is_wide) {
        shot->sum = ddp_schedule_add_scratch(shot->schedule, DDP_DTYPE_F32, elem_count);
        shot->term = ddp_schedule_add_scratch(shot->schedule, DDP_DTYPE_F32, elem_count);
        shot->messages = ddp_schedule_add_scratch(shot->schedule, params->dtype,
                                                  (params->size - 1) * elem_count);
    } else if (params->is_in_place && params->rank != 0) {
        shot->scratch = ddp_schedule_add_scratch(shot->schedule, params->dtype, elem_count);
    }
}

static void emit(struct ddp_schedule *schedule, bool is_wide)
{
    const struct ddp_schedule_params *params = &schedule->params;
    struct two_shot shot = {.schedule = schedule, .is_wide = is_wide};

    if (params->size == 1) {
        ddp_fold_alone(schedule);
        return;
    }
    shot.segment_max = segment_count_of(&shot, 0); /* no part is longer than the first */
    shot.lent = ddp_emit_step_array(schedule, params->size * shot.segment_max);
    shot.summed = ddp_emit_step_array(schedule, shot.segment_max);
    add_scratch(&shot);
    if (schedule->status == DDP_OK) {
        send_to_owners(&shot);
        if (is_wide) {
            add_own_part_wide(&shot);
        } else {
            add_own_part(&shot);
        }
        send_own_part(&shot);
        take_parts(&shot);
    }
    ddp_mem_free(schedule->mem, shot.lent);
    ddp_mem_free(schedule->mem, shot.summed);
}

void ddp_emit_two_shot(struct ddp_schedule *schedule)
{
    emit(schedule, false);
}

void ddp_emit_two_shot_f32(struct ddp_schedule *schedule)
{
    emit(schedule,
         schedule->params.dtype == DDP_DTYPE_F16 || schedule->params.dtype == DDP_DTYPE_BF16);
}
