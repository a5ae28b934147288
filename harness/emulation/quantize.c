/* Purpose: the hook quantize as it should be: what each rank sends of a bucket, and the averages
 * that each makes of what it got. Idea: with lo and hi the least and the greatest gradient of a
 * rank, zero among them, its width is s = (hi - lo) / 255, at least the spacing of floats at 1, and
 * its zero point z = -lo / s, rounded. A gradient g travels as round(g / s + z), from 0 to 255, and
 * comes out as s times its distance to z; averages are added in the order of ranks, then divided.
 * All in fp32, halves to even. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "harness/emulation/lossy.h"

struct quantized {
    struct harness_emulation *e;
    uint32_t step;
    size_t bucket, elem_count;
    struct harness_round widths, steps; /* the two rounds */
    float *given;                       /* [world][2] as each rank sent it */
    float *got;                         /* [world][2] as one rank got it */
    uint8_t *given_steps;               /* [world][elem_count] */
    uint8_t *got_steps;                 /* likewise */
    bool *is_known;                     /* [world] what the rank sent, in all rounds so far */
};

static float to_byte(float value)
{
    const float rounded = rintf(value);

    return isnan(value) || rounded <= 0.0f ? 0.0f : rounded >= 255.0f ? 255.0f : rounded;
}

/* Width and zero point. A rank with a gradient that is not finite has the width NaN. */
static void measure(const float *gradient, size_t count, float *out)
{
    float ends[2] = {0.0f, 0.0f};
    bool is_any_wild = false;

    for (size_t i = 0; i < count; i++) {
        is_any_wild = is_any_wild || !isfinite(gradient[i]);
        ends[0] = fminf(ends[0], gradient[i]);
        ends[1] = fmaxf(ends[1], gradient[i]);
    }
    out[0] = fmaxf((ends[1] - ends[0]) / 255.0f, FLT_EPSILON);
    out[1] = to_byte(-(ends[0] / out[0]));
    if (is_any_wild || !isfinite(out[0])) {
        out[0] = NAN;
        out[1] = 0.0f;
    }
}

static float *gradient_of(const struct quantized *q, uint32_t rank)
{
    return harness_layout_at(&q->e->buckets, q->e->now.bucket_in, rank, q->bucket).data;
}

static ddp_status send_widths(const struct quantized *q, uint32_t rank)
{
    const struct harness_tensor own = {DDP_DTYPE_F32, 2, 2 * sizeof(float),
                                       q->given + 2 * (size_t)rank};

    measure(gradient_of(q, rank), q->elem_count, own.data);
    q->is_known[rank] = harness_lossy_is_known(q->e, rank, q->bucket);
    return harness_round_rebase(q->e, &q->widths, rank, DDP_EVENT_COLL_POST, &own,
                                &q->is_known[rank]);
}

static ddp_status send_steps(const struct quantized *q, uint32_t rank)
{
    uint8_t *bytes = q->given_steps + rank * q->elem_count;
    const struct harness_tensor own = {DDP_DTYPE_U8, q->elem_count, q->elem_count, bytes};
    const float *gradient = gradient_of(q, rank);
    const float width = q->given[2 * (size_t)rank];
    const float zero = q->given[2 * (size_t)rank + 1];

    for (size_t i = 0; i < q->elem_count; i++) {
        bytes[i] = (uint8_t)to_byte(gradient[i] / width + zero);
    }
    return harness_round_rebase(q->e, &q->steps, rank, DDP_EVENT_COLL_POST, &own,
                                &q->is_known[rank]);
}

/* What the rank makes of what it got. */
static void average(const struct quantized *q, uint32_t rank)
{
    float *out = harness_layout_at(&q->e->buckets, q->e->now.bucket_out, rank, q->bucket).data;

    for (size_t i = 0; i < q->elem_count; i++) {
        float sum = 0.0f;

        for (uint32_t r = 0; r < q->e->world; r++) {
            const float distance =
                (float)q->got_steps[r * q->elem_count + i] - q->got[2 * (size_t)r + 1];

            sum += q->got[2 * (size_t)r] * distance;
        }
        out[i] = sum / (float)q->e->now.divisor;
    }
}

static ddp_status receive(const struct quantized *q, uint32_t rank, bool is_sent)
{
    const size_t world = q->e->world;
    const struct harness_tensor widths = {DDP_DTYPE_F32, 2 * world, 2 * world * sizeof(float),
                                          q->got};
    const struct harness_tensor steps = {DDP_DTYPE_U8, world * q->elem_count, world * q->elem_count,
                                         q->got_steps};
    bool is_widths_known = is_sent;
    bool is_steps_known = is_sent;

    memcpy(q->got, q->given, widths.size_bytes);
    memcpy(q->got_steps, q->given_steps, steps.size_bytes);
    DDP_TRY(harness_round_rebase(q->e, &q->widths, rank, DDP_EVENT_COLL_DONE, &widths,
                                 &is_widths_known));
    DDP_TRY(
        harness_round_rebase(q->e, &q->steps, rank, DDP_EVENT_COLL_DONE, &steps, &is_steps_known));
    average(q, rank);
    q->e->is_out_known[rank * q->e->buckets.count + q->bucket] = is_widths_known && is_steps_known;
    return DDP_OK;
}

static ddp_status run(const struct quantized *q)
{
    bool is_sent = true;

    for (uint32_t r = 0; r < q->e->world; r++) {
        DDP_TRY(send_widths(q, r));
        DDP_TRY(send_steps(q, r));
        is_sent = is_sent && q->is_known[r];
    }
    harness_compare_close(q->e, HARNESS_STAGE_INPUT, q->step);
    for (uint32_t r = 0; r < q->e->world; r++) {
        DDP_TRY(receive(q, r, is_sent));
    }
    harness_compare_close(q->e, HARNESS_STAGE_OUTPUT, q->step);
    return DDP_OK;
}

ddp_status harness_quantize_bucket(struct harness_emulation *e, uint32_t step, size_t bucket)
{
    const size_t elem_count = e->buckets.items[bucket].elem_count;
    const size_t world = e->world;
    struct quantized q = {.e = e, .step = step, .bucket = bucket, .elem_count = elem_count};
    struct harness_hook_round rounds[HARNESS_HOOK_ROUNDS_MAX];
    ddp_status status = DDP_E_NOMEM;

    (void)harness_hook_rounds(&e->input->plan->job, e->input->params, &e->assigned[bucket], step,
                              rounds);
    q.widths = harness_lossy_round(step, bucket, 0, &rounds[0], "width and zero point");
    q.steps = harness_lossy_round(step, bucket, 1, &rounds[1], "the gradients in 8 bits");
    q.given = ddp_mem_array(e->mem, 4 * world, sizeof(*q.given));
    q.given_steps = ddp_mem_array(e->mem, 2 * world, elem_count);
    q.is_known = ddp_mem_array(e->mem, world, sizeof(*q.is_known));
    if (q.given != NULL && q.given_steps != NULL && q.is_known != NULL) {
        q.got = q.given + 2 * world;
        q.got_steps = q.given_steps + world * elem_count;
        status = run(&q);
    }
    ddp_mem_free(e->mem, q.given);
    ddp_mem_free(e->mem, q.given_steps);
    ddp_mem_free(e->mem, q.is_known);
    return status;
}
