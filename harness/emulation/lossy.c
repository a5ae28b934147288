/* Purpose: buckets that hooks send in several rounds, or in another form.
 * Idea: each round is compared and rebased by itself (round.c), bucket by bucket, so what a rank
 * does with what it got is judged from there. What is left in the buckets shows in the gradients
 * that are copied back. */
#include "harness/emulation/lossy.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "harness/sums/arith.h"
#include "harness/sums/format.h"

enum { TEXT_BYTES = 320 };

static float value_of(const struct harness_tensor *tensor, const void *data, size_t i)
{
    float value;

    if (tensor->dtype == DDP_DTYPE_U8) {
        return (float)((const uint8_t *)data)[i];
    }
    memcpy(&value, (const char *)data + i * sizeof(value), sizeof(value));
    return value;
}

static void write(const struct harness_round *round, const struct harness_residual *residual,
                  float got, float expected, char *text)
{
    char formats[32];

    switch (residual->verdict) {
    case HARNESS_VERDICT_VALUE_LOST:
        (void)snprintf(text, TEXT_BYTES, "%s is zero", round->what);
        break;
    case HARNESS_VERDICT_VALUE_DUPLICATED:
        (void)snprintf(text, TEXT_BYTES, "%s is doubled", round->what);
        break;
    case HARNESS_VERDICT_VALUE_SCALED:
        (void)snprintf(text, TEXT_BYTES, "%s is scaled by %.9g", round->what, residual->factor);
        break;
    case HARNESS_VERDICT_VALUE_PRECISION:
        harness_format_write(residual->formats, formats, sizeof(formats));
        (void)snprintf(text, TEXT_BYTES, "%s is rounded to %s", round->what, formats);
        break;
    default:
        (void)snprintf(text, TEXT_BYTES, "%s differs in %zu elements, first %zu: %.9g, not %.9g",
                       round->what, residual->differ_count, residual->first, (double)got,
                       (double)expected);
        break;
    }
}

static ddp_status describe(struct harness_emulation *e, const struct harness_round *round,
                           uint32_t rank, const struct harness_tensor *expected, const void *got,
                           struct harness_description *out)
{
    const size_t count = expected->elem_count;
    float *values = ddp_mem_array(e->mem, 2 * count, sizeof(*values));
    char *text = ddp_mem_array(ddp_mem_pool_mem(e->sets), TEXT_BYTES, 1);
    const struct harness_residual_input input = {.expected = values,
                                                 .got = values == NULL ? NULL : values + count,
                                                 .scale = 1.0f,
                                                 .count = count,
                                                 .dtype = DDP_DTYPE_F32};

    (void)rank;
    if (values == NULL || text == NULL) {
        ddp_mem_free(e->mem, values);
        return DDP_E_NOMEM;
    }
    out->is_same = true;
    for (size_t i = 0; i < count; i++) {
        values[i] = value_of(expected, expected->data, i);
        values[count + i] = value_of(expected, got, i);
        out->is_same = out->is_same && (harness_residual_bits(values[i]) ==
                                            harness_residual_bits(values[count + i]) ||
                                        (isnan(values[i]) && isnan(values[count + i])));
    }
    harness_residual_classify(&input, &out->residual);
    out->verdict = out->residual.verdict;
    write(round, &out->residual, values[count + out->residual.first], values[out->residual.first],
          text);
    out->text = text;
    ddp_mem_free(e->mem, values);
    return DDP_OK;
}

struct harness_round harness_lossy_round(uint32_t step, size_t bucket, uint32_t number,
                                         const struct harness_hook_round *planned, const char *what)
{
    return (struct harness_round){.step = step,
                                  .role = DDP_ROLE_BUCKET,
                                  .index = (uint32_t)bucket,
                                  .number = number,
                                  .kind = planned->kind,
                                  .dtype = planned->dtype,
                                  .elem_count = planned->elem_count,
                                  .bucket = (int32_t)bucket,
                                  .param = -1,
                                  .what = what,
                                  .describe = describe};
}

bool harness_lossy_is_known(const struct harness_emulation *e, uint32_t rank, size_t bucket)
{
    const struct harness_bucket *assigned = &e->assigned[bucket];

    for (uint32_t i = 0; i < assigned->param_count; i++) {
        if (!e->is_grad_known[rank * e->params.count + assigned->params[i]]) {
            return false;
        }
    }
    return true;
}
