/* See the header. The part is cut into a chunk for each place. With n places, in round k < n - 1
 * place p sends chunk p - k and adds what arrives to chunk p - k - 1; so the sum of chunk c begins
 * at place c and ends at place c - 1. In round n - 1 + k it sends chunk p + 1 - k, which is
 * complete, and takes chunk p - k. All modulo n. */
#include "ddpcore/schedule/ring_pass.h"

static uint32_t chunk_at(const struct ddp_ring_pass *pass, uint32_t behind)
{
    uint32_t size = pass->schedule->params.size;

    DDP_ASSERT(behind <= size);
    return (pass->place + size - behind) % size;
}

static struct ddp_part chunk_part(const struct ddp_ring_pass *pass, uint32_t chunk)
{
    struct ddp_part part =
        ddp_emit_split(pass->part.elem_count, pass->schedule->params.size, chunk);

    part.first += pass->part.first;
    return part;
}

static size_t segment_count_of(const struct ddp_ring_pass *pass, uint32_t chunk)
{
    return ddp_emit_segment_count(chunk_part(pass, chunk).elem_count,
                                  pass->schedule->params.segment_elem_count);
}

static struct ddp_range segment_range(const struct ddp_ring_pass *pass, enum ddp_buffer_kind buffer,
                                      uint32_t chunk, size_t segment)
{
    return ddp_emit_range(buffer,
                          ddp_emit_segment(chunk_part(pass, chunk),
                                           pass->schedule->params.segment_elem_count, segment));
}

static void send_chunk(const struct ddp_ring_pass *pass, uint32_t round, uint32_t chunk)
{
    bool is_from_input = round == 0 && !pass->schedule->params.is_in_place;
    size_t count = segment_count_of(pass, chunk);

    for (size_t s = 0; s < count; s++) {
        size_t slot = chunk * pass->segment_max + s;
        const uint32_t dep[2] = {pass->written[slot], DDP_STEP_NONE};
        enum ddp_buffer_kind source = is_from_input ? DDP_BUFFER_INPUT : DDP_BUFFER_OUTPUT;
        uint32_t sent = ddp_emit_send(pass->schedule, pass->first_round + round, pass->next,
                                      segment_range(pass, source, chunk, s), dep);

        if (!is_from_input) {
            pass->lent[slot] = sent;
        }
    }
}

static void recv_chunk(const struct ddp_ring_pass *pass, enum ddp_step_kind kind, uint32_t round,
                       uint32_t chunk)
{
    const uint32_t none[2] = {DDP_STEP_NONE, DDP_STEP_NONE};
    bool is_filling = kind == DDP_STEP_RECV_REDUCE && !pass->schedule->params.is_in_place;
    size_t count = segment_count_of(pass, chunk);

    for (size_t s = 0; s < count; s++) {
        struct ddp_range output = segment_range(pass, DDP_BUFFER_OUTPUT, chunk, s);
        size_t slot = chunk * pass->segment_max + s;
        uint32_t dep[2] = {pass->written[slot], pass->lent[slot]};

        if (is_filling) {
            dep[0] = ddp_emit_copy(pass->schedule, pass->first_round + round, output,
                                   segment_range(pass, DDP_BUFFER_INPUT, chunk, s), none);
        }
        pass->written[slot] =
            ddp_emit_recv(pass->schedule, kind, pass->first_round + round, pass->prev, output, dep);
    }
}

void ddp_ring_pass_emit(const struct ddp_ring_pass *pass, uint32_t round)
{
    uint32_t size = pass->schedule->params.size;

    DDP_ASSERT(round < ddp_ring_pass_round_count(size));
    if (round < size - 1) {
        send_chunk(pass, round, chunk_at(pass, round));
        recv_chunk(pass, DDP_STEP_RECV_REDUCE, round, chunk_at(pass, round + 1));
    } else {
        uint32_t passed = round - (size - 1);

        send_chunk(pass, round, (chunk_at(pass, passed) + 1) % size);
        recv_chunk(pass, DDP_STEP_RECV, round, chunk_at(pass, passed));
    }
}

void ddp_ring_pass_init(struct ddp_ring_pass *pass, struct ddp_schedule *schedule,
                        struct ddp_part part, bool is_backward, uint32_t first_round)
{
    uint32_t size = schedule->params.size;
    uint32_t rank = schedule->params.rank;
    uint32_t above = (rank + 1) % size;
    uint32_t below = (rank + size - 1) % size;

    DDP_ASSERT(size >= 2);
    *pass = (struct ddp_ring_pass){.schedule = schedule, .part = part, .first_round = first_round};
    pass->place = is_backward ? size - 1 - rank : rank;
    pass->next = is_backward ? below : above;
    pass->prev = is_backward ? above : below;
    pass->segment_max = segment_count_of(pass, 0); /* no chunk is longer than the first */
    pass->written = ddp_emit_step_array(schedule, size * pass->segment_max);
    pass->lent = ddp_emit_step_array(schedule, size * pass->segment_max);
}

void ddp_ring_pass_fini(struct ddp_ring_pass *pass)
{
    ddp_mem_free(pass->schedule->mem, pass->written);
    ddp_mem_free(pass->schedule->mem, pass->lent);
}
