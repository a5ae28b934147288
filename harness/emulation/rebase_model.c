/* Purpose: averages and models of the present step, by camps, compared with what was recorded.
 * Idea: a camp's averages and model are worked out once. A rank that recorded something else leaves
 * the camp, with what it recorded. */
#include <string.h>

#include "harness/emulation/internal.h"
#include "harness/sums/arith.h"

static const struct harness_deviation nowhere = {.bucket = -1, .param = -1, .slot = -1};

/* --- averages --------------------------------------------------------------------------------- */

/* Outputs are the same tensors, as far as they are known. */
static bool is_output_like(const struct harness_emulation *e, uint32_t a, uint32_t b)
{
    const char *outputs = e->now.bucket_out;

    return memcmp(outputs + a * e->buckets.size_bytes, outputs + b * e->buckets.size_bytes,
                  e->buckets.size_bytes) == 0 &&
           memcmp(&e->is_out_known[a * e->buckets.count], &e->is_out_known[b * e->buckets.count],
                  e->buckets.count * sizeof(bool)) == 0;
}

/* A rank of the first camp whose outputs are as they should be, so that it is the others that leave
 * the camp; its first rank if there is none. */
static uint32_t find_right_output(const struct harness_emulation *e)
{
    for (uint32_t r = e->camps[0]->first; e->is_judging && r < e->world; r++) {
        if (e->camp_of[r] == 0 &&
            memcmp((const char *)e->now.bucket_out + r * e->buckets.size_bytes, e->now.expected_out,
                   e->buckets.size_bytes) == 0) {
            return r;
        }
    }
    return e->camps[0]->first;
}

/* Ranks of one camp have the same outputs. */
static ddp_status part_by_output(struct harness_emulation *e)
{
    uint32_t right = find_right_output(e);
    bool is_new;

    e->parting++;
    for (uint32_t r = 0; r < e->world; r++) {
        const struct harness_camp *camp = harness_emulation_camp(e, r);
        uint32_t model = camp->number == 0 ? right : camp->first;

        if (model != r && !is_output_like(e, model, r)) {
            DDP_TRY(harness_camp_part(e, r, is_output_like, &is_new));
        }
    }
    return DDP_OK;
}

ddp_status harness_emulation_take_average(struct harness_emulation *e, struct harness_camp *camp)
{
    memcpy(camp->is_used, e->now.is_used, e->params.count * sizeof(bool));
    for (size_t b = 0; b < e->buckets.count; b++) {
        const struct harness_bucket *bucket = &e->assigned[b];
        struct harness_tensor source =
            harness_layout_at(&e->buckets, e->now.bucket_out, camp->first, b);

        for (uint32_t i = 0; i < bucket->param_count; i++) {
            uint32_t p = bucket->params[i];
            struct harness_tensor target = harness_layout_at(&e->params, camp->average, 0, p);
            const char *slice =
                (const char *)source.data + bucket->offsets[i] * ddp_dtype_size_bytes(source.dtype);

            DDP_TRY(harness_emulation_average(e, &target, slice, source.dtype));
            camp->is_average_known[p] = e->is_out_known[camp->first * e->buckets.count + b];
        }
    }
    return DDP_OK;
}

ddp_status harness_emulation_take_averages(struct harness_emulation *e)
{
    DDP_TRY(part_by_output(e));
    for (size_t c = 0; c < e->camp_count; c++) {
        if (e->camps[c]->rank_count > 0) {
            DDP_TRY(harness_emulation_take_average(e, e->camps[c]));
        }
    }
    return DDP_OK;
}

static bool is_final_like(const struct harness_emulation *e, uint32_t a, uint32_t b)
{
    size_t count = e->params.count;

    return memcmp(&e->recorded.final[a * count], &e->recorded.final[b * count],
                  count * sizeof(uint64_t)) == 0 &&
           memcmp(&e->recorded.final_state[a * count], &e->recorded.final_state[b * count],
                  count) == 0;
}

/* What the rank's gradient should be after the backward pass, and was; 0: none. False: nothing to
 * compare. */
static bool read_final(const struct harness_emulation *e, const struct harness_camp *camp,
                       uint32_t rank, size_t p, struct harness_deviation *out)
{
    size_t cell = rank * e->params.count + p;
    uint8_t state = e->recorded.final_state[cell];
    bool is_hashed = e->recorded.final[cell] != 0;

    *out = nowhere;
    out->rank = rank;
    out->param = (int32_t)p;
    out->bucket = (int32_t)e->bucket_of[p];
    out->seq = e->recorded.seq[rank * e->buckets.count + e->bucket_of[p]];
    out->expected = e->now.is_used[p] ? camp->average_hash[p] : 0;
    out->got = state == HARNESS_FINAL_DEFINED ? e->recorded.final[cell] : 0;
    return state != HARNESS_FINAL_NOTHING &&
           !(e->now.is_used[p] && state == HARNESS_FINAL_DEFINED && !is_hashed);
}

/* Whether the rank has something that the camp has not; notes it. */
static ddp_status compare_average(struct harness_emulation *e, const struct harness_camp *camp,
                                  uint32_t rank, bool *out_is_other)
{
    *out_is_other = false;
    for (size_t p = 0; p < e->params.count; p++) {
        struct harness_deviation deviation;
        const void *found = NULL;

        if (!read_final(e, camp, rank, p, &deviation) ||
            (camp->is_average_known[p] && deviation.expected == deviation.got)) {
            continue;
        }
        *out_is_other = true;
        if (!camp->is_average_known[p]) {
            continue;
        }
        if (deviation.got != 0 && deviation.expected != 0) {
            found = harness_rebase_find(e, &e->params, p, deviation.got);
        }
        if (found != NULL) {
            DDP_TRY(harness_describe_average(e, camp, rank, p, found, &deviation.what));
        }
        if (!deviation.what.is_same) {
            harness_compare_note(e, &deviation);
        }
    }
    return DDP_OK;
}

/* With another used map other gradients are defined, and the optimizer goes by those. */
static void adopt_average(struct harness_emulation *e, struct harness_camp *camp, uint32_t rank)
{
    for (size_t p = 0; p < e->params.count; p++) {
        struct harness_tensor target = harness_layout_at(&e->params, camp->average, 0, p);
        struct harness_deviation deviation;
        const void *found = NULL;

        if (!read_final(e, camp, rank, p, &deviation) ||
            (camp->is_average_known[p] && deviation.expected == deviation.got)) {
            continue;
        }
        camp->is_used[p] = deviation.got != 0;
        if (deviation.got != 0) {
            found = harness_rebase_find(e, &e->params, p, deviation.got);
        }
        if (found != NULL) {
            memcpy(target.data, found, target.size_bytes);
        }
        camp->is_average_known[p] = found != NULL;
    }
}

ddp_status harness_rebase_averages(struct harness_emulation *e, uint32_t step)
{
    bool is_other;
    bool is_new;

    e->parting++;
    for (size_t c = 0; e->is_judging && c < e->camp_count; c++) {
        for (size_t p = 0; e->camps[c]->rank_count > 0 && p < e->params.count; p++) {
            e->camps[c]->average_hash[p] =
                harness_layout_hash(&e->params, e->camps[c]->average, 0, p);
        }
    }
    for (uint32_t r = 0; e->is_judging && r < e->world; r++) {
        DDP_TRY(compare_average(e, harness_emulation_camp(e, r), r, &is_other));
        if (is_other) {
            DDP_TRY(harness_camp_part(e, r, is_final_like, &is_new));
            if (is_new) {
                adopt_average(e, harness_emulation_camp(e, r), r);
            }
        }
    }
    harness_compare_close(e, HARNESS_STAGE_FINAL, step);
    return DDP_OK;
}

/* --- models ----------------------------------------------------------------------------------- */

static ddp_status update(struct harness_emulation *e, struct harness_camp *camp, uint32_t step)
{
    const struct ref_optimizer_config optimizer = harness_emulation_optimizer(e, step);

    DDP_TRY(harness_emulation_clip(e, camp));
    for (size_t p = 0; p < e->params.count; p++) {
        struct harness_tensor param = harness_layout_at(&e->params, camp->state.param, 0, p);
        void *slots[2] = {NULL, NULL};

        if (!camp->is_used[p]) {
            continue; /* no gradient anywhere: the optimizer leaves it alone */
        }
        for (uint32_t s = 0; s < e->slot_count; s++) {
            slots[s] = harness_layout_at(&e->params, camp->state.slot[s], 0, p).data;
        }
        DDP_TRY(harness_arith_update(&optimizer, camp->state.taken[p], param.dtype, param.data,
                                     harness_layout_at(&e->params, camp->average, 0, p).data, slots,
                                     param.elem_count));
        camp->state.taken[p]++;
        DDP_ASSERT(camp->is_known[p]); /* else the step before was the last */
        camp->is_known[p] = camp->is_average_known[p];
    }
    return DDP_OK;
}

/* The rank went on past `step`. */
static bool is_past(const struct harness_emulation *e, uint32_t rank, uint32_t step)
{
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(&e->index, rank, DDP_EVENT_GRAD_READY, &count);
    const struct harness_trace_event *end = harness_index_end(&e->index, rank);

    return (count > 0 && list[count - 1]->entry.step > step) ||
           (harness_index_is_ended_ok(&e->index, rank) && end->entry.arg[1] > step);
}

/* A rank that went on without recording any parameter after this step: it left the update out. */
static bool is_missing(const struct harness_emulation *e, uint32_t rank, uint32_t step)
{
    if (!e->is_judging || !e->is_hashed || e->now.rows[rank] == 0 ||
        !harness_emulation_has_model(e, rank)) {
        return false;
    }
    for (size_t p = 0; p < e->params.count; p++) {
        if (e->recorded.param[rank * e->params.count + p] != 0) {
            return false;
        }
    }
    return is_past(e, rank, step);
}

static void note_missing(struct harness_emulation *e, uint32_t rank)
{
    struct harness_deviation deviation = nowhere;

    for (size_t p = 0; p < e->params.count; p++) {
        if (e->now.is_used[p]) {
            deviation.rank = rank;
            deviation.param = (int32_t)p;
            deviation.is_missing = true;
            harness_compare_note(e, &deviation);
            return;
        }
    }
}

static bool is_idle_too(const struct harness_emulation *e, uint32_t a, uint32_t b)
{
    (void)b;
    return harness_emulation_camp(e, a)->is_idle;
}

ddp_status harness_emulation_update(struct harness_emulation *e, uint32_t step)
{
    bool is_new;

    DDP_TRY(harness_scaler_step(e, step));
    e->parting++;
    for (uint32_t r = 0; r < e->world; r++) {
        if (is_missing(e, r, step)) {
            DDP_TRY(harness_camp_part(e, r, is_idle_too, &is_new));
            harness_emulation_camp(e, r)->is_idle = true;
            note_missing(e, r);
        }
    }
    for (size_t c = 0; c < e->camp_count; c++) {
        if (e->camps[c]->rank_count > 0 && !e->camps[c]->is_idle &&
            e->camps[c]->found != HARNESS_FOUND_YES) {
            DDP_TRY(update(e, e->camps[c], step));
        }
        e->camps[c]->is_idle = false;
    }
    return DDP_OK;
}

/* Tensor 0 is the parameter, then come its slots. */
static void *block_of(const struct harness_camp *camp, uint32_t tensor)
{
    return tensor == 0 ? camp->state.param : camp->state.slot[tensor - 1];
}

static uint64_t recorded_hash(const struct harness_emulation *e, uint32_t rank, size_t p,
                              uint32_t tensor)
{
    return tensor == 0
               ? e->recorded.param[rank * e->params.count + p]
               : e->recorded.slot[(rank * e->slot_count + tensor - 1) * e->params.count + p];
}

static void hash_model(const struct harness_emulation *e, struct harness_camp *camp)
{
    uint64_t *before = camp->hash_before;

    camp->hash_before = camp->hash;
    camp->hash = before;
    for (uint32_t t = 0; t <= e->slot_count; t++) {
        for (size_t p = 0; p < e->params.count; p++) {
            camp->hash[t * e->params.count + p] =
                harness_layout_hash(&e->params, block_of(camp, t), 0, p);
        }
    }
}

void harness_rebase_begin(struct harness_emulation *e)
{
    for (size_t c = 0; e->is_judging && c < e->camp_count; c++) {
        if (e->camps[c]->rank_count > 0) {
            hash_model(e, e->camps[c]);
        }
    }
}

static bool is_model_like(const struct harness_emulation *e, uint32_t a, uint32_t b)
{
    for (size_t p = 0; p < e->params.count; p++) {
        for (uint32_t t = 0; t <= e->slot_count; t++) {
            if (recorded_hash(e, a, p, t) != recorded_hash(e, b, p, t)) {
                return false;
            }
        }
    }
    return true;
}

/* The rank's parameter and slots are what they were before the step, and are updated in it. */
static bool is_unchanged(const struct harness_emulation *e, const struct harness_camp *camp,
                         uint32_t rank, size_t p)
{
    for (uint32_t t = 0; t <= e->slot_count; t++) {
        if (recorded_hash(e, rank, p, t) != camp->hash_before[t * e->params.count + p]) {
            return false;
        }
    }
    return camp->is_used[p];
}

/* The update changes something: not the one of a gradient of zeros. */
static bool is_showing(const struct harness_emulation *e, const struct harness_camp *camp, size_t p)
{
    bool is_other = false;

    for (size_t at = p; at < (1 + (size_t)e->slot_count) * e->params.count; at += e->params.count) {
        is_other = is_other || camp->hash[at] != camp->hash_before[at];
    }
    return is_other && camp->is_used[p];
}

static bool is_left_out(const struct harness_emulation *e, const struct harness_camp *camp,
                        uint32_t rank, size_t p)
{
    return is_unchanged(e, camp, rank, p) && is_showing(e, camp, p);
}

/* The rank left out all updates that show. */
static bool is_all_left_out(const struct harness_emulation *e, const struct harness_camp *camp,
                            uint32_t rank)
{
    size_t left_out = 0;
    size_t showing = 0;

    for (size_t p = 0; p < e->params.count; p++) {
        left_out += is_left_out(e, camp, rank, p);
        showing += is_showing(e, camp, p);
    }
    return showing > 0 && left_out == showing;
}

static ddp_status compare_tensor(struct harness_emulation *e, const struct harness_camp *camp,
                                 uint32_t rank, size_t p, uint32_t tensor, bool *out_is_other)
{
    struct harness_tensor expected = harness_layout_at(&e->params, block_of(camp, tensor), 0, p);
    struct harness_deviation deviation = nowhere;
    const void *found;

    deviation.got = recorded_hash(e, rank, p, tensor);
    deviation.expected = camp->hash[tensor * e->params.count + p];
    if (deviation.got == 0 || (camp->is_known[p] && deviation.got == deviation.expected)) {
        return DDP_OK;
    }
    *out_is_other = true;
    found = harness_rebase_find(e, &e->params, p, deviation.got);
    if (!camp->is_known[p]) {
        return DDP_OK;
    }
    deviation.rank = rank;
    deviation.param = (int32_t)p;
    deviation.slot = (int32_t)tensor - 1;
    if (found != NULL) {
        DDP_TRY(harness_describe_param(e, p, &expected, found, &deviation.what));
    }
    deviation.is_missing = is_left_out(e, camp, rank, p);
    if (!deviation.what.is_same) {
        harness_compare_note(e, &deviation);
    }
    return DDP_OK;
}

static ddp_status compare_model(struct harness_emulation *e, const struct harness_camp *camp,
                                uint32_t rank, bool *out_is_other)
{
    *out_is_other = false;
    for (size_t p = 0; p < e->params.count; p++) {
        for (uint32_t t = 0; t <= e->slot_count; t++) {
            DDP_TRY(compare_tensor(e, camp, rank, p, t, out_is_other));
        }
    }
    return DDP_OK;
}

static void adopt_model(struct harness_emulation *e, struct harness_camp *camp, uint32_t rank)
{
    bool is_all = is_all_left_out(e, camp, rank); /* then the others, too */

    for (size_t p = 0; p < e->params.count; p++) {
        bool is_known = true;

        if (is_all ? is_unchanged(e, camp, rank, p) : is_left_out(e, camp, rank, p)) {
            camp->state.taken[p]--;
        }
        for (uint32_t t = 0; t <= e->slot_count; t++) {
            struct harness_tensor target = harness_layout_at(&e->params, block_of(camp, t), 0, p);
            uint64_t hash = recorded_hash(e, rank, p, t);
            const void *found = NULL;

            if (camp->is_known[p] && (hash == 0 || hash == camp->hash[t * e->params.count + p])) {
                continue;
            }
            found = hash == 0 ? NULL : harness_rebase_find(e, &e->params, p, hash);
            if (found != NULL) {
                memcpy(target.data, found, target.size_bytes);
                camp->hash[t * e->params.count + p] = hash;
            }
            is_known = is_known && found != NULL;
        }
        camp->is_known[p] = is_known;
    }
}

static bool is_all_known(const struct harness_emulation *e)
{
    for (size_t c = 0; c < e->camp_count; c++) {
        if (e->camps[c]->rank_count > 0 &&
            memchr(e->camps[c]->is_known, false, e->params.count * sizeof(bool)) != NULL) {
            return false;
        }
    }
    return true;
}

ddp_status harness_rebase_states(struct harness_emulation *e, uint32_t step)
{
    bool is_other;
    bool is_new;

    e->parting++;
    harness_rebase_begin(e);
    for (uint32_t r = 0; e->is_judging && r < e->world; r++) {
        DDP_TRY(compare_model(e, harness_emulation_camp(e, r), r, &is_other));
        if (is_other) {
            DDP_TRY(harness_camp_part(e, r, is_model_like, &is_new));
            if (is_new) {
                adopt_model(e, harness_emulation_camp(e, r), r);
            }
        }
    }
    harness_compare_close(e, HARNESS_STAGE_UPDATE, step);
    if (e->is_judging && !is_all_known(e)) {
        harness_recorded_want(e, step);
        e->is_lost = true;
    }
    return DDP_OK;
}
