/* Purpose: prove a complete schedule set without running it on values.
 * Idea: every buffer is cut into tiles, ranges whose elements all steps treat alike. A tile carries
 * which input element it came from and the sum of its contributors' 64-bit weights, so that a lost
 * or doubled rank is the difference of two sums (wrong with probability 2^-64). Order and barriers
 * are proven in files of their own. */
#include "harness/sums/schedule_prove.h"

#include <stdio.h>

#include "ddpcore/base/prng.h"
#include "harness/sums/schedule_tile.h"

struct proof {
    const struct harness_schedule_set *set;
    struct ddp_mem *mem;
    struct harness_tile_row **rows; /* [rank][buffer] */
    struct harness_findings *out;
};

uint64_t harness_schedule_weight(uint32_t rank)
{
    struct ddp_prng prng = ddp_prng_make(0, "schedule/weight");

    return ddp_prng_at(&prng, rank);
}

static void violate(const struct proof *proof, enum harness_verdict verdict,
                    struct harness_step_place place, const char *text)
{
    const struct harness_schedule *member = proof->set->any;
    struct harness_finding finding;

    DDP_ASSERT(verdict != HARNESS_VERDICT_NONE && text[0] != '\0');
    harness_finding_init(&finding, proof->out->mem, verdict, HARNESS_ORACLE_SCHEDULE,
                         HARNESS_MODE_PROVABLE);
    finding.op = (struct harness_finding_op){
        true, 0, member->kind, DDP_ROLE_USER, -1, member->elem_count, 0};
    (void)snprintf(finding.text, sizeof(finding.text), "%s %s of %zu among %u: %s",
                   member->algorithm, ddp_coll_kind_name(member->kind), member->elem_count,
                   member->size, text);
    finding.place = place;
    finding.is_of_algorithm = true;
    harness_findings_add(proof->out, &finding);
}

/* --- cuts ------------------------------------------------------------------------------------- */

/* Both ends of an event: the range that is read and the one that is written. */
struct ends {
    uint32_t from; /* rank that is read */
    struct harness_span source, target;
};

static struct ends ends_of(const struct proof *proof, const struct harness_schedule_event *event)
{
    const struct harness_schedule_set *set = proof->set;
    bool is_local = event->from_rank == HARNESS_NO_RANK;
    struct ends ends = {.from = is_local ? event->rank : event->from_rank};

    DDP_ASSERT(event->rank < set->size && ends.from < set->size);
    DDP_ASSERT(event->step < set->member[event->rank]->step_count);
    ends.source = set->member[ends.from]->steps[is_local ? event->step : event->from_step].src;
    ends.target = set->member[event->rank]->steps[event->step].dst;
    return ends;
}

static ddp_status cut_event(struct proof *proof, const struct harness_schedule_event *event,
                            bool *out_is_new)
{
    struct ends ends = ends_of(proof, event);
    struct harness_tile_row *read = &proof->rows[ends.from][ends.source.buffer];
    struct harness_tile_row *written = &proof->rows[event->rank][ends.target.buffer];
    struct ddp_mem *mem = proof->mem;
    size_t from = ends.source.first;
    size_t to = ends.target.first;
    size_t elem_count = ends.source.elem_count;

    DDP_ASSERT(elem_count == ends.target.elem_count); /* check_event saw to it */
    DDP_TRY(harness_tile_cut(read, mem, from, out_is_new));
    DDP_TRY(harness_tile_cut(read, mem, from + elem_count, out_is_new));
    DDP_TRY(harness_tile_cut(written, mem, to, out_is_new));
    DDP_TRY(harness_tile_cut(written, mem, to + elem_count, out_is_new));
    DDP_TRY(harness_tile_copy_cuts(read, from, written, to, elem_count, mem, out_is_new));
    return harness_tile_copy_cuts(written, to, read, from, elem_count, mem, out_is_new);
}

static ddp_status cut_all(struct proof *proof)
{
    bool is_new = true;

    while (is_new) {
        is_new = false;
        for (size_t e = 0; e < proof->set->event_count; e++) {
            DDP_TRY(cut_event(proof, &proof->set->events[e], &is_new));
        }
    }
    return DDP_OK;
}

static ddp_status cut_span(const struct proof *proof, uint32_t rank, struct harness_span span,
                           size_t block_elems)
{
    struct harness_tile_row *row = &proof->rows[rank][span.buffer];
    bool is_new = false;

    /* Elements of two blocks may go different ways though no step cuts between them. */
    for (size_t at = 0; at < span.elem_count; at += block_elems) {
        DDP_TRY(harness_tile_cut(row, proof->mem, span.first + at, &is_new));
    }
    return harness_tile_cut(row, proof->mem, span.first + span.elem_count, &is_new);
}

static ddp_status cut_ends(const struct proof *proof, uint32_t rank)
{
    const struct harness_schedule *member = proof->set->member[rank];

    DDP_TRY(cut_span(proof, rank, harness_schedule_input(member), member->elem_count));
    return cut_span(proof, rank, harness_schedule_output(member), member->elem_count);
}

static ddp_status make_rows(struct proof *proof)
{
    proof->rows = ddp_mem_array(proof->mem, proof->set->size, sizeof(*proof->rows));
    for (uint32_t r = 0; proof->rows != NULL && r < proof->set->size; r++) {
        const struct harness_schedule *member = proof->set->member[r];

        proof->rows[r] = ddp_mem_array(proof->mem, member->buffer_count, sizeof(**proof->rows));
        for (size_t b = 0; proof->rows[r] != NULL && b < member->buffer_count; b++) {
            DDP_TRY(harness_tile_row_init(&proof->rows[r][b], proof->mem,
                                          member->buffer_elem_count[b]));
        }
        if (proof->rows[r] == NULL) {
            return DDP_E_NOMEM;
        }
        DDP_TRY(cut_ends(proof, r));
    }
    return proof->rows == NULL ? DDP_E_NOMEM : DDP_OK;
}

static void free_rows(struct proof *proof)
{
    for (uint32_t r = 0; proof->rows != NULL && r < proof->set->size; r++) {
        for (size_t b = 0; proof->rows[r] != NULL && b < proof->set->member[r]->buffer_count; b++) {
            harness_tile_row_fini(&proof->rows[r][b], proof->mem);
        }
        ddp_mem_free(proof->mem, proof->rows[r]);
    }
    ddp_mem_free(proof->mem, proof->rows);
}

/* --- symbolic run ----------------------------------------------------------------------------- */

static void fill_inputs(struct proof *proof)
{
    for (uint32_t r = 0; r < proof->set->size; r++) {
        struct harness_span input = harness_schedule_input(proof->set->member[r]);
        struct harness_tile_row *row = &proof->rows[r][input.buffer];

        for (size_t i = harness_tile_at(row, input.first); input.elem_count > 0 && i < row->count;
             i++) {
            struct harness_tile *tile = &row->tiles[i];

            if (tile->first >= input.first + input.elem_count) {
                break;
            }
            DDP_ASSERT(tile->first >= input.first);
            tile->weight = harness_schedule_weight(r);
            tile->origin = tile->first - input.first;
            tile->is_defined = true;
        }
    }
}

static bool is_reduction(const struct harness_schedule_step *step)
{
    return step->kind == HARNESS_STEP_RECV_REDUCE || step->kind == HARNESS_STEP_REDUCE;
}

/* target = target (+) source, or target = source. False after a violation. */
static bool combine(const struct proof *proof, const struct harness_schedule_event *event,
                    struct harness_tile *target, const struct harness_tile *source)
{
    const struct harness_step_place place = {event->rank, event->step, (int64_t)target->first};
    bool is_sum = is_reduction(&proof->set->member[event->rank]->steps[event->step]);
    char text[160];

    if (!source->is_defined || (is_sum && !target->is_defined)) {
        (void)snprintf(text, sizeof(text), "step %u of rank %u uses elements that nobody wrote",
                       event->step, event->rank);
        violate(proof, HARNESS_VERDICT_VALUE_LOST, place, text);
        return false;
    }
    if (is_sum && target->origin != source->origin) {
        (void)snprintf(text, sizeof(text),
                       "step %u of rank %u adds elements from %zu to elements from %zu",
                       event->step, event->rank, source->origin, target->origin);
        violate(proof, HARNESS_VERDICT_VALUE_SHIFTED, place, text);
        return false;
    }
    target->weight = is_sum ? target->weight + source->weight : source->weight;
    target->origin = source->origin;
    target->is_defined = true;
    return true;
}

static bool run_event(struct proof *proof, const struct harness_schedule_event *event)
{
    struct ends ends = ends_of(proof, event);
    struct harness_tile_row *read = &proof->rows[ends.from][ends.source.buffer];
    struct harness_tile_row *written = &proof->rows[event->rank][ends.target.buffer];
    size_t end = ends.target.first + ends.target.elem_count;
    size_t i = harness_tile_at(read, ends.source.first);

    for (size_t k = harness_tile_at(written, ends.target.first);
         k < written->count && written->tiles[k].first < end; k++, i++) {
        /* Both ends are cut at the same places. */
        DDP_ASSERT(i < read->count && read->tiles[i].first - ends.source.first ==
                                          written->tiles[k].first - ends.target.first);
        if (!combine(proof, event, &written->tiles[k], &read->tiles[i])) {
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
    return HARNESS_NO_RANK;
}

static void explain_weight(const struct proof *proof, uint32_t rank,
                           const struct harness_tile *tile, size_t end, uint64_t expected)
{
    uint32_t lost = rank_of_weight(proof, expected - tile->weight);
    size_t first = tile->first - harness_schedule_output(proof->set->member[rank]).first;
    const struct harness_step_place place = {rank, -1, (int64_t)first};
    uint32_t doubled = rank_of_weight(proof, tile->weight - expected);
    char text[200];

    if (!tile->is_defined) {
        (void)snprintf(text, sizeof(text), "elements [%zu, %zu) of rank %u are never written",
                       tile->first, end, rank);
        violate(proof, HARNESS_VERDICT_VALUE_LOST, place, text);
    } else if (lost != HARNESS_NO_RANK) {
        (void)snprintf(text, sizeof(text),
                       "elements [%zu, %zu) of rank %u lack the contribution of rank %u",
                       tile->first, end, rank, lost);
        violate(proof, HARNESS_VERDICT_VALUE_LOST, place, text);
    } else if (doubled != HARNESS_NO_RANK) {
        (void)snprintf(text, sizeof(text),
                       "elements [%zu, %zu) of rank %u hold the contribution of rank %u twice",
                       tile->first, end, rank, doubled);
        violate(proof, HARNESS_VERDICT_VALUE_DUPLICATED, place, text);
    } else {
        (void)snprintf(text, sizeof(text),
                       "elements [%zu, %zu) of rank %u lack or repeat several contributions",
                       tile->first, end, rank);
        violate(proof, HARNESS_VERDICT_VALUE_LOST, place, text);
    }
}

/* What element `at` of a rank's output must hold: the sum of which contributions, and which element
 * of theirs. */
static void expect(const struct harness_schedule *member, size_t at, uint64_t total,
                   uint64_t *out_weight, size_t *out_origin)
{
    uint32_t block = (uint32_t)(at / member->elem_count);
    size_t own_first = member->rank * member->elem_count;

    *out_weight = total;
    *out_origin = at;
    switch (member->kind) {
    case DDP_COLL_ALL_REDUCE:
    case DDP_COLL_REDUCE:
        break;
    case DDP_COLL_REDUCE_SCATTER:
        *out_origin = own_first + at;
        break;
    case DDP_COLL_BROADCAST:
        *out_weight = harness_schedule_weight(member->root);
        break;
    case DDP_COLL_ALL_GATHER:
        *out_weight = harness_schedule_weight(block);
        *out_origin = at % member->elem_count;
        break;
    case DDP_COLL_ALL_TO_ALL:
        *out_weight = harness_schedule_weight(block);
        *out_origin = own_first + at % member->elem_count;
        break;
    case DDP_COLL_BARRIER:
    case DDP_COLL_KIND_COUNT:
        DDP_ASSERT(false); /* it moves no values */
    }
}

/* False after a violation. */
static bool check_tile(const struct proof *proof, uint32_t rank, const struct harness_tile *tile,
                       size_t end, uint64_t total)
{
    const struct harness_schedule *member = proof->set->member[rank];
    struct harness_span output = harness_schedule_output(member);
    uint64_t expected;
    size_t origin;
    char text[160];

    DDP_ASSERT(tile->first < end && member->elem_count > 0 && tile->first >= output.first);
    expect(member, tile->first - output.first, total, &expected, &origin);
    if (!tile->is_defined || tile->weight != expected) {
        explain_weight(proof, rank, tile, end, expected);
        return false;
    }
    if (tile->origin != origin) {
        (void)snprintf(text, sizeof(text), "elements [%zu, %zu) of rank %u are those from %zu",
                       tile->first, end, rank, tile->origin);
        violate(proof, HARNESS_VERDICT_VALUE_SHIFTED,
                (struct harness_step_place){rank, -1, (int64_t)(tile->first - output.first)}, text);
        return false;
    }
    return true;
}

static void check_outputs(const struct proof *proof)
{
    uint64_t total = total_weight(proof);

    for (uint32_t r = 0; r < proof->set->size; r++) {
        struct harness_tile_row *row = &proof->rows[r][1];
        struct harness_span output = harness_schedule_output(proof->set->member[r]);

        for (size_t i = harness_tile_at(row, output.first);
             i < row->count && row->tiles[i].first < output.first + output.elem_count; i++) {
            if (!check_tile(proof, r, &row->tiles[i], harness_tile_end(row, i), total)) {
                return;
            }
        }
    }
}

/* Both ends agree in length, and in type unless the step converts, as it may without a loss.
 * False after a violation. */
static bool check_event(const struct proof *proof, const struct harness_schedule_event *event)
{
    struct ends ends = ends_of(proof, event);
    const struct harness_schedule *reader = proof->set->member[event->rank];
    enum ddp_dtype from = proof->set->member[ends.from]->buffer_dtype[ends.source.buffer];
    enum ddp_dtype to = reader->buffer_dtype[ends.target.buffer];
    const struct harness_step_place place = {event->rank, event->step, (int64_t)ends.target.first};
    char text[160];

    if (ends.source.elem_count != ends.target.elem_count) {
        (void)snprintf(text, sizeof(text),
                       "step %u of rank %u takes %zu elements, step %u of rank %u sends %zu",
                       event->step, event->rank, ends.target.elem_count, event->from_step,
                       ends.from, ends.source.elem_count);
        violate(proof, HARNESS_VERDICT_MISMATCH_COUNT, place, text);
        return false;
    }
    if (from != to && reader->steps[event->step].kind != HARNESS_STEP_CONVERT) {
        (void)snprintf(text, sizeof(text), "step %u of rank %u takes elements of %s as %s",
                       event->step, event->rank, ddp_dtype_name(from), ddp_dtype_name(to));
        violate(proof, HARNESS_VERDICT_MISMATCH_DTYPE, place, text);
        return false;
    }
    /* A copy is the same bits; a sum is rounded by its additions, in the type of the data or a
     * wider one. */
    if (from != to && reader->kind != DDP_COLL_BARRIER &&
        !harness_schedule_holds(to, reader->dtype)) {
        (void)snprintf(text, sizeof(text),
                       "step %u of rank %u loses bits of %s as it makes them %s", event->step,
                       event->rank, ddp_dtype_name(reader->dtype), ddp_dtype_name(to));
        violate(proof, HARNESS_VERDICT_VALUE_LOST, place, text);
        return false;
    }
    return true;
}

static bool check_events(const struct proof *proof)
{
    for (size_t e = 0; e < proof->set->event_count; e++) {
        if (!check_event(proof, &proof->set->events[e])) {
            return false;
        }
    }
    return true;
}

static ddp_status prove_contents(struct proof *proof)
{
    bool is_right = true;
    ddp_status status = make_rows(proof);

    DDP_ASSERT(proof->set->is_ordered && proof->set->any->kind != DDP_COLL_BARRIER);
    if (status == DDP_OK) {
        status = cut_all(proof);
    }
    if (status == DDP_OK) {
        fill_inputs(proof);
        for (size_t e = 0; is_right && e < proof->set->event_count; e++) {
            is_right = run_event(proof, &proof->set->events[e]);
        }
        if (is_right) {
            check_outputs(proof);
        }
    }
    free_rows(proof);
    return status;
}

/* Barriers move no values: what counts is who has heard from whom. */
static ddp_status prove_barrier(const struct proof *proof)
{
    bool is_barrier = true;
    struct harness_step_place place = HARNESS_STEP_PLACE_NONE;
    char text[160] = "";

    DDP_ASSERT(proof->set->any->kind == DDP_COLL_BARRIER);
    DDP_TRY(harness_schedule_barrier_check(proof->set, &is_barrier, &place, text, sizeof(text)));
    if (!is_barrier) {
        violate(proof, HARNESS_VERDICT_VALUE_LOST, place, text);
    }
    return DDP_OK;
}

ddp_status harness_schedule_set_prove(const struct harness_schedule_set *set,
                                      struct harness_findings *out)
{
    struct proof proof = {.set = set, .mem = set->mem, .out = out};
    struct harness_step_place place = HARNESS_STEP_PLACE_NONE;
    bool is_safe = true;
    char text[160] = "";

    DDP_ASSERT(!set->is_stuck || !set->is_ordered);
    if (set->is_stuck) {
        (void)snprintf(
            text, sizeof(text),
            "step %u of rank %u waits for ever: steps wait for each other, or its message "
            "has no other end",
            set->stuck_step, set->stuck_rank);
        place.rank = set->stuck_rank;
        place.step = set->stuck_step;
        violate(&proof, HARNESS_VERDICT_HANG_CYCLE, place, text);
        return DDP_OK;
    }
    if (!set->is_ordered) {
        return DDP_OK; /* a member's schedule is not there: nothing can be said */
    }
    for (uint32_t r = 0; is_safe && r < set->size; r++) {
        DDP_TRY(harness_schedule_order_check(set->member[r], set->mem, &is_safe, &place, text,
                                             sizeof(text)));
    }
    if (!is_safe) {
        violate(&proof, HARNESS_VERDICT_VALUE_CORRUPTED, place, text);
    }
    if (!check_events(&proof)) {
        return DDP_OK;
    }
    return set->any->kind == DDP_COLL_BARRIER ? prove_barrier(&proof) : prove_contents(&proof);
}

ddp_status harness_schedule_set_prove_rounds(const struct harness_schedule_set *set,
                                             struct harness_findings *out)
{
    const struct proof proof = {.set = set, .mem = set->mem, .out = out};
    struct harness_step_place place = HARNESS_STEP_PLACE_NONE;
    bool is_right = true;
    char text[160] = "";

    if (!set->is_ordered) {
        return DDP_OK;
    }
    DDP_TRY(harness_schedule_rounds_check(set, &is_right, &place, text, sizeof(text)));
    if (!is_right) {
        violate(&proof, HARNESS_VERDICT_MISMATCH_ORDER, place, text);
    }
    return DDP_OK;
}
