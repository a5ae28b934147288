/* Recursive halving: a reduce-scatter in log2(n) rounds. Thakur, Rabenseifner, Gropp, "Optimization
 * of collective communication operations in MPICH", 2005, section 4.4.
 *
 * The core is the largest power of two p <= n. Of the first 2(n - p) ranks, the even ones give all
 * their data to the next rank and get their block from it at the end; the others make up the core,
 * numbered in their order. Member i of the core stands for its own block and for that of the rank
 * that gave to it, which lie side by side. At distance d = p/2, ..., 2, 1 it holds the window of
 * the 2d members from i - i mod 2d on; it sends its partner i XOR d the half that is the partner's,
 * and adds what arrives to its own. Sums are made in scratch, since the input stays as it is.
 *
 * Messages lie on one grid of segments: a window's message is cut where the grid is. A cell's part
 * of a window lies in that cell's part of the window before, so one step a cell says what a message
 * depends on. */
#include "ddpcore/schedule/core.h"

struct halving {
    struct ddp_schedule *schedule;
    const struct ddp_schedule_params *params;
    struct ddp_core core;
    uint32_t scratch;
    size_t cell_count;
    bool is_filled;    /* the scratch holds what is sent; else the input does */
    uint32_t *written; /* [cell]: the last step that wrote the scratch there */
    uint32_t *lent;    /* [cell]: the send of the input */
};

static struct ddp_part blocks_of(const struct halving *halving, uint32_t first, uint32_t count)
{
    size_t elem_count = halving->params->elem_count;

    DDP_ASSERT(first + count <= halving->params->size);
    return (struct ddp_part){first * elem_count, count * elem_count};
}

/* The blocks that members [first, first + count) stand for. */
static struct ddp_part window_of(const struct halving *halving, uint32_t first, uint32_t count)
{
    uint32_t begin = ddp_core_first_block(&halving->core, first);

    return blocks_of(halving, begin, ddp_core_first_block(&halving->core, first + count) - begin);
}

static struct ddp_part part_in_cell(const struct halving *halving, struct ddp_part window,
                                    size_t cell)
{
    const struct ddp_part whole = blocks_of(halving, 0, halving->params->size);

    return ddp_emit_overlap(ddp_emit_segment(whole, halving->params->segment_elem_count, cell),
                            window);
}

static void send_window(const struct halving *halving, uint32_t round, uint32_t peer,
                        struct ddp_part window)
{
    for (size_t cell = 0; cell < halving->cell_count; cell++) {
        struct ddp_part part = part_in_cell(halving, window, cell);
        const uint32_t dep[2] = {halving->written[cell], DDP_STEP_NONE};
        uint32_t sent = ddp_emit_send(halving->schedule, round, peer,
                                      halving->is_filled ? ddp_emit_scratch(halving->scratch, part)
                                                         : ddp_emit_range(DDP_BUFFER_INPUT, part),
                                      dep);

        halving->lent[cell] = halving->is_filled ? DDP_STEP_NONE : sent;
    }
}

/* scratch = the rank's own data + what arrives, or the scratch's own + what arrives. */
static void add_window(const struct halving *halving, uint32_t round, uint32_t peer,
                       struct ddp_part window)
{
    for (size_t cell = 0; cell < halving->cell_count; cell++) {
        struct ddp_part part = part_in_cell(halving, window, cell);
        struct ddp_range sum = ddp_emit_scratch(halving->scratch, part);
        uint32_t dep[2] = {halving->written[cell], DDP_STEP_NONE};

        if (part.elem_count == 0) {
            continue;
        }
        if (!halving->is_filled) {
            dep[0] = ddp_emit_copy(halving->schedule, round, sum,
                                   ddp_emit_range(DDP_BUFFER_INPUT, part), dep);
        }
        halving->written[cell] =
            ddp_emit_recv(halving->schedule, DDP_STEP_RECV_REDUCE, round, peer, sum, dep);
    }
}

/* Where the window's part of a cell lies in the output, of a window that is the own block. */
static struct ddp_range output_of(const struct halving *halving, struct ddp_part part)
{
    size_t own_first = halving->params->rank * halving->params->elem_count;

    DDP_ASSERT(part.first >= own_first);
    part.first -= own_first;
    return ddp_emit_range(DDP_BUFFER_OUTPUT, part);
}

static void finish(const struct halving *halving, struct ddp_part own)
{
    uint32_t round = ddp_core_first_round(&halving->core) + halving->core.levels - 1;

    DDP_ASSERT(halving->core.levels > 0);
    for (size_t cell = 0; cell < halving->cell_count; cell++) {
        struct ddp_part part = part_in_cell(halving, own, cell);
        const uint32_t dep[2] = {halving->written[cell], DDP_STEP_NONE};

        if (part.elem_count > 0) {
            (void)ddp_emit_copy(halving->schedule, round, output_of(halving, part),
                                ddp_emit_scratch(halving->scratch, part), dep);
        }
    }
}

/* A rank that gives all its data away and gets its block back. */
static void emit_outside(const struct halving *halving, struct ddp_part own)
{
    uint32_t rank = halving->params->rank;

    send_window(halving, 0, rank + 1, blocks_of(halving, 0, halving->params->size));
    for (size_t cell = 0; cell < halving->cell_count; cell++) {
        struct ddp_part part = part_in_cell(halving, own, cell);
        const uint32_t dep[2] = {halving->params->is_in_place ? halving->lent[cell] : DDP_STEP_NONE,
                                 DDP_STEP_NONE};

        if (part.elem_count > 0) {
            (void)ddp_emit_recv(halving->schedule, DDP_STEP_RECV, halving->core.levels + 1,
                                rank + 1, output_of(halving, part), dep);
        }
    }
}

static void emit_inside(struct halving *halving, struct ddp_part own)
{
    const struct ddp_core *core = &halving->core;
    uint32_t rank = halving->params->rank;
    uint32_t given = ddp_core_outside(core, rank);
    uint32_t round = ddp_core_first_round(core);

    halving->scratch =
        ddp_schedule_add_scratch(halving->schedule, halving->params->dtype,
                                 blocks_of(halving, 0, halving->params->size).elem_count);
    if (given != DDP_CORE_NONE) {
        add_window(halving, 0, given, blocks_of(halving, 0, halving->params->size));
        halving->is_filled = true;
    }
    for (uint32_t level = 0; level < core->levels; level++, round++) {
        uint32_t distance = core->size >> (level + 1);
        uint32_t partner = core->index ^ distance;
        uint32_t peer = ddp_core_rank(core, partner);

        DDP_ASSERT(partner < core->size && peer != rank);
        send_window(halving, round, peer,
                    window_of(halving, partner - partner % distance, distance));
        add_window(halving, round, peer,
                   window_of(halving, core->index - core->index % distance, distance));
        halving->is_filled = true;
    }
    if (given != DDP_CORE_NONE) {
        send_window(halving, round, given, blocks_of(halving, given, 1));
    }
    finish(halving, own);
}

void ddp_emit_halving_reduce_scatter(struct ddp_schedule *schedule)
{
    const struct ddp_schedule_params *params = &schedule->params;
    struct halving halving = {
        .schedule = schedule, .params = params, .core = ddp_core_of(params->size, params->rank)};
    const struct ddp_part own = blocks_of(&halving, params->rank, 1);
    const uint32_t none[2] = {DDP_STEP_NONE, DDP_STEP_NONE};

    if (params->size == 1) {
        if (!params->is_in_place) {
            (void)ddp_emit_copy(schedule, 0, ddp_emit_range(DDP_BUFFER_OUTPUT, own),
                                ddp_emit_range(DDP_BUFFER_INPUT, own), none);
        }
        return;
    }
    halving.cell_count =
        ddp_emit_segment_count(params->size * params->elem_count, params->segment_elem_count);
    halving.written = ddp_emit_step_array(schedule, halving.cell_count);
    halving.lent = ddp_emit_step_array(schedule, halving.cell_count);
    if (schedule->status == DDP_OK && halving.core.index == DDP_CORE_NONE) {
        emit_outside(&halving, own);
    } else if (schedule->status == DDP_OK) {
        emit_inside(&halving, own);
    }
    ddp_mem_free(schedule->mem, halving.written);
    ddp_mem_free(schedule->mem, halving.lent);
}
