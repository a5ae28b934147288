/* Purpose: mixed precision: what passes compute with, and averages, from sums in another type.
 * Idea: weights are rounded once for a pass. A sum that is not divided yet is divided in its own
 * type, which rounds, and then widened, which does not. */
#include <string.h>

#include "harness/emulation/internal.h"
#include "harness/sums/arith.h"

ddp_status harness_mixed_round(const struct harness_emulation *e, struct ref_model *model,
                               const struct harness_camp *camp)
{
    struct ddp_param *rounded = ref_model_rounded(model);
    void *values;
    ddp_status status = DDP_OK;

    if (rounded == NULL) {
        return DDP_OK;
    }
    values = ddp_mem_array(e->mem, 1, e->grads.size_bytes);
    if (values == NULL) {
        return DDP_E_NOMEM;
    }
    for (size_t p = 0; status == DDP_OK && p < e->params.count; p++) {
        const struct harness_tensor from = harness_layout_at(&e->params, camp->state.param, 0, p);
        const struct harness_tensor to = harness_layout_at(&e->grads, values, 0, p);

        status = harness_arith_scale(to.data, to.dtype, from.data, from.dtype, to.elem_count, 1.0f);
        if (status == DDP_OK) {
            status = harness_emulation_copy(e, rounded[p].data, to.data, to.size_bytes);
        }
    }
    ddp_mem_free(e->mem, values);
    return status;
}

/* What a sum comes to, divided in its type, and widened. */
static ddp_status divide(const struct harness_tensor *target, const char *sum, enum ddp_dtype dtype,
                         float factor)
{
    const size_t width = ddp_dtype_size_bytes(dtype);
    uint16_t divided[256];

    DDP_ASSERT(width == sizeof(divided[0]));
    for (size_t at = 0; at < target->elem_count; at += 256) {
        const size_t left = target->elem_count - at;
        const size_t count = left < 256 ? left : 256;

        DDP_TRY(harness_arith_scale(divided, dtype, sum + at * width, dtype, count, factor));
        DDP_TRY(harness_arith_scale((float *)target->data + at, DDP_DTYPE_F32, divided, dtype,
                                    count, 1.0f));
    }
    return DDP_OK;
}

ddp_status harness_emulation_average(const struct harness_emulation *e,
                                     const struct harness_tensor *target, const char *sum,
                                     enum ddp_dtype dtype)
{
    const float factor =
        harness_emulation_is_scaled_before(e) ? 1.0f : 1.0f / (float)e->now.divisor;

    if (dtype != target->dtype && !harness_emulation_is_scaled_before(e)) {
        return divide(target, sum, dtype, factor);
    }
    if (dtype == target->dtype && harness_emulation_is_scaled_before(e)) {
        memcpy(target->data, sum, target->size_bytes);
        return DDP_OK;
    }
    return harness_arith_scale(target->data, target->dtype, sum, dtype, target->elem_count, factor);
}
