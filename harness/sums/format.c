/* Purpose: round values to narrower formats.
 * Idea: a value is a whole number of units in the format's last place, which its exponent says;
 * doubles hold value and quotient exactly, so one rint rounds it, subnormals included. */
#include "harness/sums/format.h"

#include <math.h>

#include "ddpcore/base/status.h"
#include "ddpcore/base/text.h"

static const struct {
    const char *name;
    int fraction_bits, least_exponent; /* of a normal value */
    double most;
} rows[HARNESS_FORMAT_COUNT] = {
    [HARNESS_FORMAT_BF16] = {"bf16", 7, -126, 0x1.fep127},
    [HARNESS_FORMAT_F16] = {"f16", 10, -14, 65504.0},
    [HARNESS_FORMAT_TF32] = {"tf32", 10, -126, 0x1.ffcp127},
};

float harness_format_round(enum harness_format format, float value)
{
    int exponent = 0;
    double unit;
    double rounded;

    DDP_ASSERT(format < HARNESS_FORMAT_COUNT);
    if (!isfinite(value)) {
        return value;
    }
    (void)frexp((double)value, &exponent); /* |value| < 2^exponent */
    exponent =
        exponent - 1 < rows[format].least_exponent ? rows[format].least_exponent : exponent - 1;
    unit = ldexp(1.0, exponent - rows[format].fraction_bits);
    rounded = rint((double)value / unit) * unit;
    return fabs(rounded) > rows[format].most ? copysignf(INFINITY, value) : (float)rounded;
}

bool harness_format_is_narrower(enum harness_format format, enum ddp_dtype dtype)
{
    DDP_ASSERT(format < HARNESS_FORMAT_COUNT);
    switch (dtype) {
    case DDP_DTYPE_F32:
    case DDP_DTYPE_F64:
        return true;
    case DDP_DTYPE_F16:
        return format == HARNESS_FORMAT_BF16;
    default:
        return false;
    }
}

void harness_format_write(unsigned formats, char *text, size_t size_bytes)
{
    struct ddp_text out;
    const char *between = "";

    ddp_text_init_fixed(&out, text, size_bytes);
    for (unsigned i = 0; i < HARNESS_FORMAT_COUNT; i++) {
        if ((formats >> i & 1u) != 0) {
            ddp_text_add(&out, "%s%s", between, rows[i].name);
            between = " or ";
        }
    }
}
