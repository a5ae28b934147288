/* Purpose: gradient scaling as it should be: by what the loss is multiplied, whether a step is left
 * out, what the scale becomes; by arithmetic of the judge's own.
 * Idea: a rank's flag follows from its averages. In strict semantics all go by the largest flag
 * that was sent, so a wrong one is one finding, and what follows is judged by it. A rank that got
 * something else goes by that, and what it does from then on is judged by what it got. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ddpcore/base/hash.h"
#include "harness/emulation/internal.h"
#include "harness/sums/arith.h"

static bool is_scaling(const struct harness_emulation *e)
{
    return e->input->plan->job.optimizer.loss_scale > 0;
}

ddp_status harness_scaler_create(struct harness_emulation *e)
{
    e->scale = harness_emulation_alloc(e, e->world, sizeof(*e->scale));
    e->scale_steps = harness_emulation_alloc(e, e->world, sizeof(*e->scale_steps));
    e->is_found = harness_emulation_alloc(e, e->world, sizeof(bool));
    for (uint32_t r = 0; !e->is_out_of_memory && r < e->world; r++) {
        e->scale[r] = is_scaling(e) ? (float)e->input->plan->job.optimizer.loss_scale : 1.0f;
    }
    return e->is_out_of_memory ? DDP_E_NOMEM : DDP_OK;
}

static uint64_t hash_of(float flag)
{
    char salt[64];

    (void)snprintf(salt, sizeof(salt), "%s/0", ddp_coll_role_name(DDP_ROLE_FOUND_INF));
    return ddp_hash_tensor(&flag, sizeof(flag), ddp_hash_text(salt), NULL);
}

uint64_t harness_scaler_flag_hash(bool is_found)
{
    return hash_of(is_found ? 1.0f : 0.0f);
}

uint64_t harness_scaler_recorded(const struct harness_emulation *e, uint32_t rank, uint32_t step,
                                 enum ddp_event event)
{
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_in_step(&e->index, rank, event, step, &count);

    for (size_t i = 0; i < count; i++) {
        if (ddp_event_op_unpack(list[i]->entry.arg[1]).role == DDP_ROLE_FOUND_INF) {
            return list[i]->entry.arg[4];
        }
    }
    return 0;
}

/* One camp's averages; whether one of them is not finite. */
static ddp_status unscale(const struct harness_emulation *e, struct harness_camp *camp)
{
    const float inverse = (float)(1.0 / (double)e->scale[camp->first]);
    double values[256];
    bool is_found = false;
    bool is_known = true;

    for (size_t p = 0; p < e->params.count; p++) {
        const struct harness_tensor average = harness_layout_at(&e->params, camp->average, 0, p);
        const size_t width = ddp_dtype_size_bytes(average.dtype);

        if (!camp->is_used[p]) {
            continue;
        }
        for (size_t at = 0; at < average.elem_count; at += 256) {
            const size_t left = average.elem_count - at;
            const size_t count = left < 256 ? left : 256;

            harness_arith_widen(values, (const char *)average.data + at * width, average.dtype,
                                count);
            for (size_t i = 0; i < count; i++) {
                is_found = is_found || !isfinite(values[i]);
            }
        }
        is_known = is_known && camp->is_average_known[p];
        DDP_TRY(harness_arith_scale(average.data, average.dtype, average.data, average.dtype,
                                    average.elem_count, inverse));
    }
    camp->found = !is_known  ? HARNESS_FOUND_UNKNOWN
                  : is_found ? HARNESS_FOUND_YES
                             : HARNESS_FOUND_NO;
    return DDP_OK;
}

/* 0 of either sign. */
static bool is_zero(uint64_t hash)
{
    return hash == harness_scaler_flag_hash(false) || hash == hash_of(-0.0f);
}

/* What a rank sent, if that is known, else what it should have sent. A flag that is neither 0 nor 1
 * counts unless what came out of the largest of all is 0. */
static bool sent_by(struct harness_emulation *e, uint32_t rank, uint32_t step, bool is_due)
{
    const uint64_t got =
        e->is_judging ? harness_scaler_recorded(e, rank, step, DDP_EVENT_COLL_POST) : 0;
    const uint64_t largest =
        e->is_judging ? harness_scaler_recorded(e, rank, step, DDP_EVENT_COLL_DONE) : 0;

    if (got == 0 || largest == 0) {
        return is_due;
    }
    return got == harness_scaler_flag_hash(true) || (!is_zero(got) && !is_zero(largest));
}

/* By what a rank goes: what it got, if that is a flag, else the largest that was sent. */
static bool got_by(const struct harness_emulation *e, uint32_t rank, uint32_t step, bool is_any)
{
    const uint64_t got =
        e->is_judging ? harness_scaler_recorded(e, rank, step, DDP_EVENT_COLL_DONE) : 0;

    if (got == harness_scaler_flag_hash(true) || is_zero(got)) {
        return !is_zero(got);
    }
    return is_any;
}

static void agree(struct harness_emulation *e, uint32_t step)
{
    uint8_t *due =
        e->is_judging ? &e->expected.found[(size_t)(step - e->start_step) * (e->world + 1)] : NULL;
    bool is_any = false;

    for (uint32_t r = 0; r < e->world; r++) {
        const enum harness_found own = harness_emulation_camp(e, r)->found;

        e->is_found[r] = sent_by(e, r, step, own == HARNESS_FOUND_YES);
        is_any = is_any || e->is_found[r];
        if (due != NULL) {
            due[r] = (uint8_t)own;
        }
    }
    if (due != NULL) {
        due[e->world] = is_any ? HARNESS_FOUND_YES : HARNESS_FOUND_NO;
    }
    for (uint32_t r = 0; e->input->plan->job.semantics == HARNESS_SEMANTICS_STRICT && r < e->world;
         r++) {
        e->is_found[r] = got_by(e, r, step, is_any);
    }
}

static bool is_found_alike(const struct harness_emulation *e, uint32_t a, uint32_t b)
{
    return e->is_found[a] == e->is_found[b];
}

/* Ranks that go by another flag than the first of their camp. */
static ddp_status part_by_flags(struct harness_emulation *e)
{
    bool is_new;

    e->parting++;
    for (uint32_t r = 0; r < e->world; r++) {
        if (!is_found_alike(e, r, harness_emulation_camp(e, r)->first)) {
            DDP_TRY(harness_camp_part(e, r, is_found_alike, &is_new));
        }
    }
    return DDP_OK;
}

/* torch.amp's _amp_update_scale_; but what has no finite inverse is no scale. */
static void update_scale(struct harness_emulation *e, uint32_t rank)
{
    const struct harness_optimizer *config = &e->input->plan->job.optimizer;
    const double scale = (double)e->scale[rank];

    if (e->is_found[rank]) {
        const float shrunk = (float)(scale * config->scale_backoff);

        if (shrunk > 0.0f && isfinite((float)(1.0 / (double)shrunk))) {
            e->scale[rank] = shrunk;
        }
        e->scale_steps[rank] = 0;
        return;
    }
    e->scale_steps[rank]++;
    if (e->scale_steps[rank] == config->scale_interval) {
        const float grown = (float)(scale * config->scale_growth);

        e->scale[rank] = isfinite(grown) ? grown : e->scale[rank];
        e->scale_steps[rank] = 0;
    }
}

/* The rank went on to the flags of later steps without those of this one: it left the step out, and
 * its scale is as before. */
static bool is_passed_over(const struct harness_emulation *e, uint32_t rank, uint32_t step)
{
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(&e->index, rank, DDP_EVENT_COLL_DONE, &count);

    if (!e->is_judging || harness_scaler_recorded(e, rank, step, DDP_EVENT_COLL_DONE) != 0) {
        return false;
    }
    for (size_t i = count; i > 0 && list[i - 1]->entry.step > step; i--) {
        if (ddp_event_op_unpack(list[i - 1]->entry.arg[1]).role == DDP_ROLE_FOUND_INF) {
            return true;
        }
    }
    return false;
}

ddp_status harness_scaler_step(struct harness_emulation *e, uint32_t step)
{
    if (!is_scaling(e)) {
        return DDP_OK;
    }
    for (size_t c = 0; c < e->camp_count; c++) {
        if (e->camps[c]->rank_count > 0) {
            DDP_TRY(unscale(e, e->camps[c]));
        }
    }
    agree(e, step);
    DDP_TRY(part_by_flags(e));
    for (size_t c = 0; c < e->camp_count; c++) {
        if (e->camps[c]->rank_count > 0) {
            e->camps[c]->found =
                e->is_found[e->camps[c]->first] ? HARNESS_FOUND_YES : HARNESS_FOUND_NO;
        }
    }
    for (uint32_t r = 0; r < e->world; r++) {
        if (!is_passed_over(e, r, step)) {
            update_scale(e, r);
        }
    }
    return DDP_OK;
}
