/* Purpose: prove a complete schedule set without running it on values.
 * Idea: every buffer is cut into tiles that all moves treat alike; a tile carries which element it
 * came from and the sum of its contributors' 64-bit weights, so that a lost or doubled rank is the
 * difference of two sums (wrong with probability 2^-64). Order is proven apart: two moves that
 * touch the same elements, one writing, must depend on each other. */
#include "harness/sums/schedule_prove.h"

#include <stdio.h>
#include <string.h>

#include "ddpcore/base/prng.h"

struct tile {
    size_t first;
    uint64_t weight; /* sum over contributions of their rank's weight */
    size_t origin;   /* input element of its first element */
    double factor;
    bool is_defined;
};

struct row { /* one buffer of one rank */
    struct tile *tiles;
    size_t count, capacity;
    size_t end;
};

struct proof {
    const struct harness_schedule_set *set;
    struct ddp_mem *mem;
    struct row **rows; /* [rank][buffer] */
    struct harness_findings *out;
};

uint64_t harness_schedule_weight(uint32_t rank)
{
    struct ddp_prng prng = ddp_prng_make(0, "schedule/weight");

    return ddp_prng_at(&prng, rank);
}

static void violate(const struct proof *proof, enum harness_verdict verdict, const char *text)
{
    const struct harness_schedule *member = proof->set->member[0];
    struct harness_finding finding;

    harness_finding_init(&finding, verdict, HARNESS_ORACLE_SCHEDULE, HARNESS_MODE_PROVABLE);
    finding.op =
        (struct harness_finding_op){true, 0, member->kind, DDP_ROLE_USER, -1, member->elem_count};
    (void)snprintf(finding.text, sizeof(finding.text), "%s %s of %zu among %u: %s",
                   member->algorithm, ddp_coll_kind_name(member->kind), member->elem_count,
                   member->size, text);
    harness_findings_add(proof->out, &finding);
}

/* --- tiles ------------------------------------------------------------------------------------ */

/* Index of the tile that begins at or before `at`. */
static size_t tile_at(const struct row *row, size_t at)
{
    size_t low = 0;
    size_t high = row->count;

    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;

        if (row->tiles[middle].first <= at) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

static ddp_status cut(const struct proof *proof, struct row *row, size_t at, bool *out_is_new)
{
    size_t index;

    if (at >= row->end || row->tiles[index = tile_at(row, at)].first == at) {
        return DDP_OK;
    }
    if (row->count == row->capacity) {
        struct tile *grown = ddp_mem_array(proof->mem, 2 * row->capacity, sizeof(*grown));

        if (grown == NULL) {
            return DDP_E_NOMEM;
        }
        memcpy(grown, row->tiles, row->count * sizeof(*grown));
        ddp_mem_free(proof->mem, row->tiles);
        row->tiles = grown;
        row->capacity *= 2;
    }
    memmove(&row->tiles[index + 2], &row->tiles[index + 1],
            (row->count - index - 1) * sizeof(*row->tiles));
    row->tiles[index + 1] = row->tiles[index];
    row->tiles[index + 1].first = at;
    row->count++;
    *out_is_new = true;
    return DDP_OK;
}

/* Both ends of a turn: the span that is read and the span that is written. */
static void ends_of(const struct proof *proof, const struct harness_turn *turn,
                    struct harness_span *source, uint32_t *out_from, struct harness_span *target)
{
    bool is_local = turn->from_rank == HARNESS_NOBODY;

    *out_from = is_local ? turn->rank : turn->from_rank;
    *source = proof->set->member[*out_from]->moves[is_local ? turn->move : turn->from_move].src;
    *target = proof->set->member[turn->rank]->moves[turn->move].dst;
}

/* Cut `to` wherever `from` is cut inside the span. */
static ddp_status copy_cuts(const struct proof *proof, const struct row *from, size_t from_first,
                            struct row *to, size_t to_first, size_t elem_count, bool *out_is_new)
{
    for (size_t i = tile_at(from, from_first);
         i < from->count && from->tiles[i].first < from_first + elem_count; i++) {
        if (from->tiles[i].first > from_first) {
            DDP_TRY(cut(proof, to, from->tiles[i].first - from_first + to_first, out_is_new));
        }
    }
    return DDP_OK;
}

static ddp_status cut_turn(struct proof *proof, const struct harness_turn *turn, bool *out_is_new)
{
    struct harness_span source;
    struct harness_span target;
    uint32_t from = 0;
    struct row *read;
    struct row *written;

    ends_of(proof, turn, &source, &from, &target);
    read = &proof->rows[from][source.buffer];
    written = &proof->rows[turn->rank][target.buffer];
    DDP_TRY(cut(proof, read, source.first, out_is_new));
    DDP_TRY(cut(proof, read, source.first + source.elem_count, out_is_new));
    DDP_TRY(cut(proof, written, target.first, out_is_new));
    DDP_TRY(cut(proof, written, target.first + target.elem_count, out_is_new));
    DDP_TRY(
        copy_cuts(proof, read, source.first, written, target.first, source.elem_count, out_is_new));
    return copy_cuts(proof, written, target.first, read, source.first, source.elem_count,
                     out_is_new);
}

static ddp_status cut_all(struct proof *proof)
{
    bool is_new = true;

    while (is_new) {
        is_new = false;
        for (size_t t = 0; t < proof->set->turn_count; t++) {
            DDP_TRY(cut_turn(proof, &proof->set->turns[t], &is_new));
        }
    }
    return DDP_OK;
}

static ddp_status make_rows(struct proof *proof)
{
    proof->rows = ddp_mem_array(proof->mem, proof->set->size, sizeof(*proof->rows));
    for (uint32_t r = 0; proof->rows != NULL && r < proof->set->size; r++) {
        const struct harness_schedule *member = proof->set->member[r];

        proof->rows[r] = ddp_mem_array(proof->mem, member->buffer_count, sizeof(struct row));
        if (proof->rows[r] == NULL) {
            return DDP_E_NOMEM;
        }
        for (size_t b = 0; b < member->buffer_count; b++) {
            struct row *row = &proof->rows[r][b];

            row->end = member->buffer_elem_count[b];
            row->capacity = 8;
            row->count = 1;
            row->tiles = ddp_mem_array(proof->mem, row->capacity, sizeof(*row->tiles));
            if (row->tiles == NULL) {
                return DDP_E_NOMEM;
            }
        }
        /* The input of an in-place all-gather is the head of its output. */
        if (member->is_in_place && member->elem_count > 0) {
            bool is_new = false;

            DDP_TRY(cut(proof, &proof->rows[r][1], member->elem_count, &is_new));
        }
    }
    return proof->rows == NULL ? DDP_E_NOMEM : DDP_OK;
}

static void free_rows(struct proof *proof)
{
    for (uint32_t r = 0; proof->rows != NULL && r < proof->set->size; r++) {
        for (size_t b = 0; proof->rows[r] != NULL && b < proof->set->member[r]->buffer_count; b++) {
            ddp_mem_free(proof->mem, proof->rows[r][b].tiles);
        }
        ddp_mem_free(proof->mem, proof->rows[r]);
    }
    ddp_mem_free(proof->mem, proof->rows);
}

/* --- symbolic run ----------------------------------------------------------------------------- */

static void fill_inputs(struct proof *proof)
{
    for (uint32_t r = 0; r < proof->set->size; r++) {
        const struct harness_schedule *member = proof->set->member[r];
        struct row *row = &proof->rows[r][member->is_in_place ? 1 : 0];

        for (size_t i = 0; i < row->count && row->tiles[i].first < member->elem_count; i++) {
            row->tiles[i].weight = harness_schedule_weight(r);
            row->tiles[i].origin = row->tiles[i].first;
            row->tiles[i].factor = 1.0;
            row->tiles[i].is_defined = true;
        }
    }
}

/* target = target (+) source, or target = source. False: they hold different elements or scales. */
static bool combine(struct tile *target, const struct tile *source, const struct harness_move *move)
{
    size_t first = target->first;

    if (move->kind != HARNESS_MOVE_RECV_REDUCE && move->kind != HARNESS_MOVE_REDUCE) {
        *target = *source;
        target->first = first;
        target->factor *= move->kind == HARNESS_MOVE_SCALE ? (double)move->factor : 1.0;
        return true;
    }
    target->is_defined = target->is_defined && source->is_defined;
    target->weight += source->weight;
    return !target->is_defined ||
           (target->origin == source->origin && !(target->factor < source->factor) &&
            !(target->factor > source->factor));
}

static bool run_turn(struct proof *proof, const struct harness_turn *turn)
{
    const struct harness_move *move = &proof->set->member[turn->rank]->moves[turn->move];
    struct harness_span source;
    struct harness_span target;
    uint32_t from = 0;
    struct row *read;
    struct row *written;
    size_t i;
    char text[160];

    ends_of(proof, turn, &source, &from, &target);
    read = &proof->rows[from][source.buffer];
    written = &proof->rows[turn->rank][target.buffer];
    i = tile_at(read, source.first);
    for (size_t k = tile_at(written, target.first);
         k < written->count && written->tiles[k].first < target.first + target.elem_count;
         k++, i++) {
        if (!combine(&written->tiles[k], &read->tiles[i], move)) {
            (void)snprintf(text, sizeof(text),
                           "step %u of rank %u adds elements from %zu to elements from %zu",
                           turn->move, turn->rank, read->tiles[i].origin, written->tiles[k].origin);
            violate(proof, HARNESS_VERDICT_VALUE_SHIFTED, text);
            return false;
        }
    }
    return true;
}

/* --- outcome ---------------------------------------------------------------------------------- */

static uint64_t total_weight(const struct proof *proof)
{
    uint64_t total = 0;

    for (uint32_t r = 0; r < proof->set->size; r++) {
        total += harness_schedule_weight(r);
    }
    return total;
}

static uint32_t rank_of_weight(const struct proof *proof, uint64_t weight)
{
    for (uint32_t r = 0; r < proof->set->size; r++) {
        if (harness_schedule_weight(r) == weight) {
            return r;
        }
    }
    return HARNESS_NOBODY;
}

static void explain_weight(const struct proof *proof, uint32_t rank, const struct tile *tile,
                           size_t end, uint64_t expected)
{
    uint32_t lost = rank_of_weight(proof, expected - tile->weight);
    uint32_t doubled = rank_of_weight(proof, tile->weight - expected);
    char text[200];

    if (lost != HARNESS_NOBODY || !tile->is_defined) {
        (void)snprintf(text, sizeof(text),
                       "elements [%zu, %zu) of rank %u lack the contribution of rank %u",
                       tile->first, end, rank, lost == HARNESS_NOBODY ? rank : lost);
        violate(proof, HARNESS_VERDICT_VALUE_LOST, text);
    } else if (doubled != HARNESS_NOBODY) {
        (void)snprintf(text, sizeof(text),
                       "elements [%zu, %zu) of rank %u hold the contribution of rank %u twice",
                       tile->first, end, rank, doubled);
        violate(proof, HARNESS_VERDICT_VALUE_DUPLICATED, text);
    } else {
        (void)snprintf(text, sizeof(text),
                       "elements [%zu, %zu) of rank %u lack or repeat several contributions",
                       tile->first, end, rank);
        violate(proof, HARNESS_VERDICT_VALUE_LOST, text);
    }
}

/* False after a violation. */
static bool check_tile(const struct proof *proof, uint32_t rank, const struct tile *tile,
                       size_t end, uint64_t total)
{
    const struct harness_schedule *member = proof->set->member[rank];
    uint64_t expected = total;
    size_t origin = tile->first;
    char text[160];

    if (member->kind == DDP_COLL_BROADCAST) {
        expected = harness_schedule_weight(member->root);
    } else if (member->kind == DDP_COLL_ALL_GATHER) {
        expected = harness_schedule_weight((uint32_t)(tile->first / member->elem_count));
        origin = tile->first % member->elem_count;
    }
    if (!tile->is_defined || tile->weight != expected) {
        explain_weight(proof, rank, tile, end, expected);
        return false;
    }
    if (tile->origin != origin) {
        (void)snprintf(text, sizeof(text), "elements [%zu, %zu) of rank %u are those from %zu",
                       tile->first, end, rank, tile->origin);
        violate(proof, HARNESS_VERDICT_VALUE_SHIFTED, text);
        return false;
    }
    if (tile->factor < 1.0 || tile->factor > 1.0) {
        (void)snprintf(text, sizeof(text), "elements [%zu, %zu) of rank %u are scaled by %g",
                       tile->first, end, rank, tile->factor);
        violate(proof, HARNESS_VERDICT_VALUE_SCALED, text);
        return false;
    }
    return true;
}

static void check_outputs(const struct proof *proof)
{
    uint64_t total = total_weight(proof);

    if (proof->set->member[0]->kind == DDP_COLL_BARRIER || proof->set->member[0]->elem_count == 0) {
        return;
    }
    for (uint32_t r = 0; r < proof->set->size; r++) {
        const struct row *row = &proof->rows[r][1];

        for (size_t i = 0; i < row->count; i++) {
            size_t end = i + 1 < row->count ? row->tiles[i + 1].first : row->end;

            if (!check_tile(proof, r, &row->tiles[i], end, total)) {
                return;
            }
        }
    }
}

static bool check_lengths(const struct proof *proof)
{
    char text[160];

    for (size_t t = 0; t < proof->set->turn_count; t++) {
        const struct harness_turn *turn = &proof->set->turns[t];
        struct harness_span source;
        struct harness_span target;
        uint32_t from = 0;

        ends_of(proof, turn, &source, &from, &target);
        if (source.elem_count != target.elem_count) {
            (void)snprintf(text, sizeof(text),
                           "step %u of rank %u takes %zu elements, step %u of rank %u sends %zu",
                           turn->move, turn->rank, target.elem_count, turn->from_move, from,
                           source.elem_count);
            violate(proof, HARNESS_VERDICT_MISMATCH_COUNT, text);
            return false;
        }
    }
    return true;
}

static ddp_status prove_contents(struct proof *proof)
{
    bool is_right = true;
    ddp_status status = make_rows(proof);

    if (status == DDP_OK) {
        status = cut_all(proof);
    }
    if (status == DDP_OK) {
        fill_inputs(proof);
        for (size_t t = 0; is_right && t < proof->set->turn_count; t++) {
            is_right = run_turn(proof, &proof->set->turns[t]);
        }
        if (is_right) {
            check_outputs(proof);
        }
    }
    free_rows(proof);
    return status;
}

ddp_status harness_schedule_set_prove(const struct harness_schedule_set *set,
                                      struct harness_findings *out)
{
    struct proof proof = {.set = set, .mem = set->mem, .out = out};
    bool is_safe = true;
    char text[160] = "";

    if (set->is_stuck) {
        violate(&proof, HARNESS_VERDICT_HANG_CYCLE,
                "some steps wait for each other, or a message has no other end");
        return DDP_OK;
    }
    if (!set->is_ordered) {
        return DDP_OK; /* a member's schedule is not there: nothing can be said */
    }
    for (uint32_t r = 0; is_safe && r < set->size; r++) {
        DDP_TRY(
            harness_schedule_order_check(set->member[r], set->mem, &is_safe, text, sizeof(text)));
    }
    if (!is_safe) {
        violate(&proof, HARNESS_VERDICT_VALUE_CORRUPTED, text);
    }
    return check_lengths(&proof) ? prove_contents(&proof) : DDP_OK;
}
