/* Recursive-doubling all-reduce for any number of ranks. The ranks beyond a power of two first give
 * their data to a neighbour, and get the result from it at the end. In each round partners exchange
 * everything they have. They send a copy, because both add into their output at the same time. Both
 * compute op(own, other): the same bits, since the operations commute. */
#include "ddpcore/schedule/emit.h"

#define COPY_COUNT 2 /* the copy of round r may be reused once round r-2's send is complete */

struct doubling {
    struct ddp_schedule *schedule;
    const struct ddp_schedule_params *params;
    uint32_t core;  /* largest power of two <= size */
    uint32_t extra; /* ranks beyond it: ranks below 2 * extra work in pairs (even, odd) */
    uint32_t scratch[COPY_COUNT];
    size_t segment_count;
    uint32_t *written;          /* [segment]: last step that wrote the output */
    uint32_t *sent[COPY_COUNT]; /* [segment]: last send of that copy */
};

static struct ddp_part segment_at(const struct doubling *doubling, size_t segment)
{
    const struct ddp_part whole = {0, doubling->params->elem_count};

    return ddp_emit_segment(whole, doubling->params->segment_elem_count, segment);
}

/* Rank of member `index` of the power-of-two core. */
static uint32_t core_rank(const struct doubling *doubling, uint32_t index)
{
    DDP_ASSERT(index < doubling->core);
    return index < doubling->extra ? 2 * index + 1 : index + doubling->extra;
}

static void fill_output(const struct doubling *doubling)
{
    const uint32_t none[2] = {DDP_STEP_NONE, DDP_STEP_NONE};

    for (size_t segment = 0; segment < doubling->segment_count; segment++) {
        struct ddp_part part = segment_at(doubling, segment);

        doubling->written[segment] =
            ddp_emit_copy(doubling->schedule, 0, ddp_emit_range(DDP_BUFFER_OUTPUT, part),
                          ddp_emit_range(DDP_BUFFER_INPUT, part), none);
    }
}

/* An even rank of a pair: give everything to the odd one, get the result at the end. */
static void emit_folded(const struct doubling *doubling, uint32_t last_round)
{
    enum ddp_buffer_kind source =
        doubling->params->is_in_place ? DDP_BUFFER_OUTPUT : DDP_BUFFER_INPUT;
    uint32_t peer = doubling->params->rank + 1;

    DDP_ASSERT(doubling->params->rank % 2 == 0 && peer < 2 * doubling->extra);
    for (size_t segment = 0; segment < doubling->segment_count; segment++) {
        const uint32_t none[2] = {DDP_STEP_NONE, DDP_STEP_NONE};

        doubling->sent[0][segment] =
            ddp_emit_send(doubling->schedule, 0, peer,
                          ddp_emit_range(source, segment_at(doubling, segment)), none);
    }
    for (size_t segment = 0; segment < doubling->segment_count; segment++) {
        const uint32_t dep[2] = {doubling->params->is_in_place ? doubling->sent[0][segment]
                                                               : DDP_STEP_NONE,
                                 DDP_STEP_NONE};

        (void)ddp_emit_recv(doubling->schedule, DDP_STEP_RECV, last_round, peer,
                            ddp_emit_range(DDP_BUFFER_OUTPUT, segment_at(doubling, segment)), dep);
    }
}

static void reduce_from(const struct doubling *doubling, uint32_t round, uint32_t peer,
                        size_t segment)
{
    const uint32_t dep[2] = {doubling->written[segment], DDP_STEP_NONE};

    doubling->written[segment] =
        ddp_emit_recv(doubling->schedule, DDP_STEP_RECV_REDUCE, round, peer,
                      ddp_emit_range(DDP_BUFFER_OUTPUT, segment_at(doubling, segment)), dep);
}

static void exchange(const struct doubling *doubling, uint32_t round, uint32_t peer)
{
    uint32_t which = round % COPY_COUNT;

    DDP_ASSERT(peer != doubling->params->rank && peer < doubling->params->size);
    for (size_t segment = 0; segment < doubling->segment_count; segment++) {
        struct ddp_part part = segment_at(doubling, segment);
        struct ddp_range copy = ddp_emit_scratch(doubling->scratch[which], part);
        uint32_t dep[2] = {doubling->written[segment], doubling->sent[which][segment]};
        uint32_t copied = ddp_emit_copy(doubling->schedule, round, copy,
                                        ddp_emit_range(DDP_BUFFER_OUTPUT, part), dep);

        dep[0] = copied;
        dep[1] = DDP_STEP_NONE;
        doubling->sent[which][segment] = ddp_emit_send(doubling->schedule, round, peer, copy, dep);
        /* The copy reads the output that the reduction writes. */
        doubling->written[segment] = copied;
        reduce_from(doubling, round, peer, segment);
    }
}

static void emit_core(struct doubling *doubling, uint32_t last_round)
{
    uint32_t rank = doubling->params->rank;
    bool is_paired = rank < 2 * doubling->extra;
    uint32_t index = is_paired ? rank / 2 : rank - doubling->extra;
    uint32_t round = doubling->extra > 0 ? 1 : 0;

    for (uint32_t i = 0; i < COPY_COUNT && doubling->core > 1u << i; i++) {
        doubling->scratch[i] = ddp_schedule_add_scratch(doubling->schedule, doubling->params->dtype,
                                                        doubling->params->elem_count);
    }
    if (!doubling->params->is_in_place) {
        fill_output(doubling);
    }
    for (size_t segment = 0; is_paired && segment < doubling->segment_count; segment++) {
        reduce_from(doubling, 0, rank - 1, segment);
    }
    for (uint32_t distance = 1; distance < doubling->core; distance *= 2, round++) {
        exchange(doubling, round, core_rank(doubling, index ^ distance));
    }
    for (size_t segment = 0; is_paired && segment < doubling->segment_count; segment++) {
        const uint32_t dep[2] = {doubling->written[segment], DDP_STEP_NONE};

        (void)ddp_emit_send(doubling->schedule, last_round, rank - 1,
                            ddp_emit_range(DDP_BUFFER_OUTPUT, segment_at(doubling, segment)), dep);
    }
}

void ddp_emit_recursive_doubling(struct ddp_schedule *schedule)
{
    const struct ddp_schedule_params *params = &schedule->params;
    struct doubling doubling = {.schedule = schedule, .params = params, .core = 1};
    uint32_t last_round = 1;

    while (doubling.core <= params->size / 2) {
        doubling.core *= 2;
        last_round++;
    }
    doubling.extra = params->size - doubling.core;
    DDP_ASSERT(doubling.extra < doubling.core);
    doubling.segment_count = ddp_emit_segment_count(params->elem_count, params->segment_elem_count);
    doubling.written = ddp_emit_step_array(schedule, doubling.segment_count);
    for (uint32_t i = 0; i < COPY_COUNT; i++) {
        doubling.sent[i] = ddp_emit_step_array(schedule, doubling.segment_count);
    }
    if (schedule->status == DDP_OK) {
        /* rank % 2 == 0 among the first 2 * extra: folded into rank + 1 */
        if (params->rank < 2 * doubling.extra && params->rank % 2 == 0) {
            emit_folded(&doubling, last_round);
        } else {
            emit_core(&doubling, last_round);
        }
    }
    ddp_mem_free(schedule->mem, doubling.written);
    for (uint32_t i = 0; i < COPY_COUNT; i++) {
        ddp_mem_free(schedule->mem, doubling.sent[i]);
    }
}
