/* Rabenseifner's all-reduce: a reduce-scatter by halving, then an all-gather by doubling. 2 log2(n)
 * rounds and twice the elements of one rank: for large counts. Rabenseifner, "Optimization of
 * collective reduction operations", ICCS 2004; Thakur, Rabenseifner, Gropp, 2005, section 4.5.
 *
 * The core is the largest power of two p <= n. Of the first 2(n - p) ranks, the even ones give
 * their data to the next rank and get the result from it at the end; the others make up the core,
 * numbered in their order. The elements are cut into p chunks. At distance d = p/2, p/4, ..., 1
 * member i holds the window of 2d chunks from i - i mod 2d on; it sends its partner i XOR d the
 * half that is the partner's, and adds what arrives to its own. At distance 1, 2, ..., p/2 the same
 * halves come back, finished.
 *
 * Messages lie on one grid of segments: a window's message is cut where the grid is. A cell's part
 * of a window lies in that cell's part of the window before, so one step a cell says what a message
 * depends on. */
#include "ddpcore/schedule/fold.h"

struct halving {
    struct ddp_schedule *schedule;
    const struct ddp_schedule_params *params;
    uint32_t core;        /* largest power of two <= size */
    uint32_t extra;       /* ranks beyond it: the first 2 * extra ranks work in pairs (even, odd) */
    uint32_t levels;      /* log2(core) */
    uint32_t index;       /* this rank's number in the core */
    uint32_t first_round; /* of messages in the core: those from outside come before */
    size_t cell_count;
    bool is_filled;    /* the output holds all of the rank's own data */
    uint32_t *written; /* [cell]: the last step that wrote the output there */
    uint32_t *lent;    /* [level * cell_count + cell]: the send of the partner's half */
};

static uint32_t rank_of(const struct halving *halving, uint32_t index)
{
    DDP_ASSERT(index < halving->core);
    return index < halving->extra ? 2 * index + 1 : index + halving->extra;
}

/* Chunks [first, first + count) as elements. */
static struct ddp_part window_of(const struct halving *halving, uint32_t first, uint32_t count)
{
    struct ddp_part from = ddp_emit_split(halving->params->elem_count, halving->core, first);
    struct ddp_part to =
        ddp_emit_split(halving->params->elem_count, halving->core, first + count - 1);

    return (struct ddp_part){from.first, to.first + to.elem_count - from.first};
}

/* What a window and a cell of the grid have in common. */
static struct ddp_part part_in_cell(const struct halving *halving, struct ddp_part window,
                                    size_t cell)
{
    const struct ddp_part whole = {0, halving->params->elem_count};

    return ddp_emit_overlap(ddp_emit_segment(whole, halving->params->segment_elem_count, cell),
                            window);
}

static void remember(uint32_t *slot, uint32_t step)
{
    *slot = step != DDP_STEP_NONE ? step : *slot; /* nothing was emitted for an empty part */
}

static void send_window(const struct halving *halving, uint32_t round, uint32_t peer,
                        struct ddp_part window, uint32_t *lent)
{
    enum ddp_buffer_kind source = halving->is_filled ? DDP_BUFFER_OUTPUT : DDP_BUFFER_INPUT;

    for (size_t cell = 0; cell < halving->cell_count; cell++) {
        const uint32_t dep[2] = {halving->written[cell], DDP_STEP_NONE};
        uint32_t sent =
            ddp_emit_send(halving->schedule, round, peer,
                          ddp_emit_range(source, part_in_cell(halving, window, cell)), dep);

        if (lent != NULL && halving->is_filled) {
            remember(&lent[cell], sent);
        }
    }
}

static void recv_window(const struct halving *halving, enum ddp_step_kind kind, uint32_t round,
                        uint32_t peer, struct ddp_part window, const uint32_t *lent)
{
    for (size_t cell = 0; cell < halving->cell_count; cell++) {
        const uint32_t dep[2] = {halving->written[cell], lent != NULL ? lent[cell] : DDP_STEP_NONE};

        remember(&halving->written[cell],
                 ddp_emit_recv(
                     halving->schedule, kind, round, peer,
                     ddp_emit_range(DDP_BUFFER_OUTPUT, part_in_cell(halving, window, cell)), dep));
    }
}

static void fill_window(const struct halving *halving, struct ddp_part window)
{
    const uint32_t none[2] = {DDP_STEP_NONE, DDP_STEP_NONE};

    for (size_t cell = 0; cell < halving->cell_count; cell++) {
        struct ddp_part part = part_in_cell(halving, window, cell);

        remember(&halving->written[cell],
                 ddp_emit_copy(halving->schedule, 0, ddp_emit_range(DDP_BUFFER_OUTPUT, part),
                               ddp_emit_range(DDP_BUFFER_INPUT, part), none));
    }
}

/* The chunks that member `index` holds at the end of a distance. */
static struct ddp_part half_of(const struct halving *halving, uint32_t index, uint32_t distance)
{
    return window_of(halving, index - index % distance, distance);
}

static void reduce_scatter(struct halving *halving)
{
    for (uint32_t level = 0; level < halving->levels; level++) {
        uint32_t distance = halving->core >> (level + 1);
        uint32_t partner = halving->index ^ distance;
        struct ddp_part kept = half_of(halving, halving->index, distance);

        send_window(halving, halving->first_round + level, rank_of(halving, partner),
                    half_of(halving, partner, distance),
                    &halving->lent[level * halving->cell_count]);
        if (!halving->is_filled) {
            fill_window(halving, kept); /* the other half is written when it comes back */
            halving->is_filled = true;
        }
        recv_window(halving, DDP_STEP_RECV_REDUCE, halving->first_round + level,
                    rank_of(halving, partner), kept, NULL);
    }
}

static void all_gather(const struct halving *halving)
{
    for (uint32_t level = halving->levels; level-- > 0;) {
        uint32_t distance = halving->core >> (level + 1);
        uint32_t partner = halving->index ^ distance;
        uint32_t round = halving->first_round + 2 * halving->levels - 1 - level;

        send_window(halving, round, rank_of(halving, partner),
                    half_of(halving, halving->index, distance), NULL);
        recv_window(halving, DDP_STEP_RECV, round, rank_of(halving, partner),
                    half_of(halving, partner, distance),
                    &halving->lent[level * halving->cell_count]);
    }
}

static void emit(struct halving *halving)
{
    const struct ddp_part whole = {0, halving->params->elem_count};
    uint32_t rank = halving->params->rank;
    uint32_t last_round = halving->first_round + 2 * halving->levels;
    bool is_paired = rank < 2 * halving->extra;

    if (is_paired && rank % 2 == 0) {
        send_window(halving, 0, rank + 1, whole, halving->lent);
        recv_window(halving, DDP_STEP_RECV, last_round, rank + 1, whole, halving->lent);
        return;
    }
    halving->index = is_paired ? rank / 2 : rank - halving->extra;
    if (is_paired) {
        if (!halving->is_filled) {
            fill_window(halving, whole);
            halving->is_filled = true;
        }
        recv_window(halving, DDP_STEP_RECV_REDUCE, 0, rank - 1, whole, NULL);
    }
    reduce_scatter(halving);
    all_gather(halving);
    if (is_paired) {
        send_window(halving, last_round, rank - 1, whole, NULL);
    }
}

void ddp_emit_rabenseifner(struct ddp_schedule *schedule)
{
    const struct ddp_schedule_params *params = &schedule->params;
    struct halving halving = {.schedule = schedule, .params = params, .core = 1};

    if (params->size == 1) {
        ddp_fold_alone(schedule);
        return;
    }
    while (halving.core <= params->size / 2) {
        halving.core *= 2;
        halving.levels++;
    }
    halving.extra = params->size - halving.core;
    halving.first_round = halving.extra > 0 ? 1 : 0;
    halving.is_filled = params->is_in_place != 0;
    halving.cell_count = ddp_emit_segment_count(params->elem_count, params->segment_elem_count);
    halving.written = ddp_emit_step_array(schedule, halving.cell_count);
    halving.lent = ddp_emit_step_array(schedule, halving.levels * halving.cell_count);
    if (schedule->status == DDP_OK) {
        emit(&halving);
    }
    ddp_mem_free(schedule->mem, halving.written);
    ddp_mem_free(schedule->mem, halving.lent);
}
