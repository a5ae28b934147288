/* Purpose: tell a wrong sum from one that is rounded, and say what is wrong with it.
 * Idea: for W contributions x_r, added in any order in a type of unit roundoff u, Higham ("Accuracy
 * and Stability of Numerical Algorithms", 2nd ed., section 4.2, (4.4)) gives for every element
 *     |result - sum x_r| <= g(W - 1) * sum |x_r|,   g(k) = k u / (1 - k u),
 * additions being exact where their result is subnormal. A projection with signs s_i = +-1 is off
 * by the sum over the elements at most. Rounding less often, as in a wider type, is less. An
 * average may divide before or after the sum, or multiply by 1 / W, which is rounded itself: three
 * more factors, and half a subnormal number for each of W + 1 divisions. Where subnormal numbers
 * are flushed to zero, each of W operands and W results loses the smallest normal number at most.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "harness/guest/observe/project.h"
#include "harness/guest/observe/sums.h"
#include "harness/results/sums.h"

struct harness_sums_precision harness_sums_precision(uint32_t dtype)
{
    switch ((enum ddprove_guest_dtype)dtype) {
    case DDPROVE_GUEST_F16: /* no processor flushes these */
        return (struct harness_sums_precision){0x1p-11, 0x1p-24, 0, 65504};
    case DDPROVE_GUEST_BF16:
        return (struct harness_sums_precision){0x1p-8, 0x1p-133, 0x1p-126, 0x1.fep127};
    case DDPROVE_GUEST_F64:
        return (struct harness_sums_precision){0x1p-53, 0x1p-1074, 0x1p-1022, DBL_MAX};
    default:
        return (struct harness_sums_precision){0x1p-24, 0x1p-149, 0x1p-126, (double)FLT_MAX};
    }
}

double harness_sums_bound(const struct harness_sums_case *the, double magnitude,
                          uint64_t elem_count, uint64_t own)
{
    const struct harness_sums_precision precision = harness_sums_precision(the->dtype);
    const bool is_average = the->redop == DDPROVE_GUEST_AVG;
    const double size = the->size;
    const double k = harness_sums_is_move(the) ? 0 : is_average ? size + 2 : size - 1;
    double rounding;

    if (k * precision.unit >= 1) {
        return (double)INFINITY;
    }
    rounding = k * precision.unit / (1 - k * precision.unit) * magnitude;
    if (k > 0) {
        rounding += (double)elem_count * (2 * size * precision.flushed +
                                          (is_average ? (size + 1) * precision.subnormal : 0));
    }
    /* The sums of what went in and of what came out are rounded too, each addition by 2^-53 of at
     * most the magnitude; 2^-20: for the products of such factors, and the arithmetic here. */
    return (rounding + (double)own * 0x1p-53 * (2 * magnitude + rounding)) * (1 + 0x1p-20);
}

/* --- projections
 * --------------------------------------------------------------------------------------------------
 */

static double value_of(uint64_t bits)
{
    double value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Elements of all parts. */
static uint64_t elem_count_of(const struct harness_sums_case *the)
{
    switch ((enum ddprove_guest_kind)the->kind) {
    case DDPROVE_GUEST_ALL_REDUCE:
    case DDPROVE_GUEST_REDUCE:
    case DDPROVE_GUEST_BROADCAST:
        return the->call->elem_count;
    case DDPROVE_GUEST_ALL_TO_ALL:
        return the->call->elem_count * the->size * the->size;
    default:
        return the->call->elem_count * the->size;
    }
}

/* Integers wrap at their width if the sum of absolute values allows it. */
static uint64_t mask_of(const struct harness_sums_case *the, double magnitude)
{
    const uint32_t width_bits = guest_project_width_bits(the->dtype);
    const bool may_wrap = !(magnitude * (1 + 0x1p-15) < ldexp(1, (int)width_bits - 1));

    return may_wrap && width_bits < 64 ? (UINT64_C(1) << width_bits) - 1 : UINT64_MAX;
}

struct harness_sums_off harness_sums_compare(const struct harness_sums_case *the,
                                             const struct harness_sums_total *in,
                                             const struct harness_sums_total *out)
{
    struct harness_sums_off off = {.is_integer = harness_sums_is_integer(the)};
    const uint64_t own = guest_project_chain(the->call->elem_count) + 2 * (uint64_t)the->size + 4;

    if (off.is_integer) {
        off.mask = harness_sums_is_move(the) ? UINT64_MAX : mask_of(the, in->magnitude);
        off.off_whole = (out->whole - in->whole) & off.mask;
        off.is_wrong = off.off_whole != 0;
    } else {
        /* 2^-15: a magnitude is known up to 2^-16 of itself. */
        off.off = out->sum - in->sum * harness_sums_factor(the);
        off.bound = harness_sums_bound(
            the, in->magnitude * harness_sums_factor(the) * (1 + 0x1p-15), elem_count_of(the), own);
        off.is_wrong = !(fabs(off.off) <= off.bound);
    }
    if (harness_sums_is_move(the)) {
        off.is_wrong = in->hash != out->hash;
    }
    return off;
}

bool harness_sums_is_blind(const struct harness_sums_case *the, const struct harness_sums_off *off)
{
    for (uint32_t i = 0; i < the->size && !off->is_integer && !harness_sums_is_move(the); i++) {
        const struct harness_watch_value *in = &the->members[i].call->in;

        /* Whether a contribution of zeros is missing makes no difference. */
        if (value_of(in->magnitude) > 0 &&
            !(off->bound < fabs(value_of(in->sum)) * harness_sums_factor(the))) {
            return true;
        }
    }
    return false;
}
