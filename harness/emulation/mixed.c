/* Purpose: averages from sums, which mixed precision has in another type.
 * Idea: a sum that is not divided yet is divided in its own type, which rounds, and then widened,
 * which does not. */
#include <string.h>

#include "harness/emulation/internal.h"
#include "harness/sums/arith.h"

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
