/* Purpose: name the structure of a difference: lost, doubled, scaled, shifted, stale, rounded, NaN,
 * one bit.
 * Idea: each structure is a formula for what would have been seen; it is named only if every
 * element agrees bit for bit, so a NaN or a near miss never passes for one. A factor is not known,
 * and rounding hides it: each element leaves an interval for it, and all must have one in common.
 */
#include "harness/sums/residual.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/sums/format.h"

#define SHIFT_MAX 64
/* Fewer elements that differ may be rounded by chance: what a flipped bit leaves of a value of few
 * bits is that, too. */
#define ROUNDED_MIN 6

uint32_t harness_residual_bits(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static float float_of(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

static bool is_bit_equal(float a, float b)
{
    return harness_residual_bits(a) == harness_residual_bits(b);
}

static void count_differences(const struct harness_residual_input *in, struct harness_residual *out)
{
    for (size_t i = 0; i < in->count; i++) {
        if (!is_bit_equal(in->expected[i], in->got[i])) {
            out->first = out->differ_count == 0 ? i : out->first;
            out->differ_count++;
        }
    }
    DDP_ASSERT(out->differ_count <= in->count);
    out->is_set = out->differ_count > 0;
}

static bool find_nonfinite(const struct harness_residual_input *in, struct harness_residual *out)
{
    for (size_t i = 0; i < in->count; i++) {
        if (!isfinite(in->got[i]) && isfinite(in->expected[i])) {
            out->first = i;
            return true;
        }
    }
    return false;
}

static size_t count_nonzero(const float *values, size_t count)
{
    size_t nonzero = 0;

    for (size_t i = 0; i < count; i++) {
        nonzero += !(fabsf(values[i]) <= 0.0f);
    }
    return nonzero;
}

struct harness_precision harness_residual_precision(enum ddp_dtype dtype)
{
    switch (dtype) {
    case DDP_DTYPE_F16:
        return (struct harness_precision){0x1p-11, 0x1p-24};
    case DDP_DTYPE_BF16:
        return (struct harness_precision){0x1p-8, 0x1p-133};
    default:
        return (struct harness_precision){0x1p-24, 0x1p-149};
    }
}

/* Factors that explain all elements seen so far. */
struct interval {
    double low, high;
};

/* got = expected * factor after so many roundings:
 *     |got - expected * factor| <= margin = rel * |got| + roundings * subnormal / 2
 * with rel = k u / (1 - k u), so factor lies within (got -+ margin) / expected. */
static bool narrow(struct interval *interval, double expected, double got, double rel, double least)
{
    double margin = rel * fabs(got) + least;
    double a = (got - margin) / expected;
    double b = (got + margin) / expected;

    if (!(fabs(expected) > 0.0)) {
        return !(fabs(got) > 0.0);
    }
    interval->low = fmax(interval->low, fmin(a, b));
    interval->high = fmin(interval->high, fmax(a, b));
    return interval->low <= interval->high;
}

static bool find_interval(const struct harness_residual_input *in, int roundings,
                          struct interval *out)
{
    struct harness_precision precision = harness_residual_precision(in->dtype);
    double error = roundings * precision.unit;
    double rel = error / (1.0 - error) + 0x1p-50; /* and the arithmetic here */
    double least = roundings * precision.subnormal / 2;

    *out = (struct interval){-(double)INFINITY, (double)INFINITY};
    for (size_t i = 0; i < in->count; i++) {
        if (!narrow(out, (double)in->expected[i], (double)in->got[i], rel, least)) {
            return false;
        }
    }
    return isfinite(out->low) && isfinite(out->high);
}

/* A factor of few digits, or a reciprocal of a whole number: what people write and programs divide
 * by. */
static double simplest_in(const struct interval *interval)
{
    double middle = interval->low / 2 + interval->high / 2;
    double reciprocal = 1.0 / round(1.0 / middle);
    char text[40];

    for (int digits = 1; digits <= 17; digits++) {
        double value;

        (void)snprintf(text, sizeof(text), "%.*g", digits, middle);
        value = strtod(text, NULL);
        if (value >= interval->low && value <= interval->high) {
            return value;
        }
        if (digits == 4 && reciprocal >= interval->low && reciprocal <= interval->high) {
            return reciprocal;
        }
    }
    return middle;
}

/* The factor may have come in before the scale: then a value was rounded once more on its way, and
 * the expected one, too. Within how far it is known allows for that, even if one rounding would do:
 * others, of which it does not, may have the same one. */
static bool find_factor(const struct harness_residual_input *in, struct harness_residual *out)
{
    const int most = in->raw != NULL ? 3 : 1;
    int held = in->dtype == DDP_DTYPE_F64 ? 2 : 0; /* doubles were rounded to be held here */

    for (int roundings = 1; roundings <= most; roundings += 2) {
        double near = 4 * harness_residual_precision(in->dtype).unit; /* last bits are no factor */
        struct interval interval;

        if (find_interval(in, roundings + held, &interval) &&
            (interval.low > 1.0 + near || interval.high < 1.0 - near) &&
            find_interval(in, most + held, &interval)) {
            out->low = interval.low;
            out->high = interval.high;
            if (count_nonzero(in->expected, in->count) < 2) {
                return false; /* one value is always scaled by something */
            }
            out->factor = simplest_in(&interval);
            return true;
        }
    }
    return false;
}

bool harness_residual_is_one_factor(const struct harness_residual *a,
                                    const struct harness_residual *b)
{
    const bool is_scaled[2] = {a->verdict == HARNESS_VERDICT_VALUE_SCALED ||
                                   a->verdict == HARNESS_VERDICT_VALUE_DUPLICATED,
                               b->verdict == HARNESS_VERDICT_VALUE_SCALED ||
                                   b->verdict == HARNESS_VERDICT_VALUE_DUPLICATED};
    const bool is_one[2] = {a->verdict == HARNESS_VERDICT_VALUE_CORRUPTED && a->differ_count == 1,
                            b->verdict == HARNESS_VERDICT_VALUE_CORRUPTED && b->differ_count == 1};
    const bool is_limited = a->low < a->high && b->low < b->high;

    return is_limited && (is_scaled[0] || is_scaled[1]) && (is_scaled[0] || is_one[0]) &&
           (is_scaled[1] || is_one[1]) && fmax(a->low, b->low) <= fmin(a->high, b->high);
}

/* Values that repeat themselves seem to have moved where they did not: the places that a shift
 * fills from others must show it. */
static bool is_shifted_by(const struct harness_residual_input *in, size_t places, bool is_up)
{
    const float *target = is_up ? in->got + places : in->got;
    const float *source = is_up ? in->expected : in->expected + places;
    const float *unmoved = is_up ? in->expected + places : in->expected;
    size_t moved_count = 0;

    DDP_ASSERT(places > 0 && places < in->count);
    for (size_t i = 0; i + places < in->count; i++) {
        if (!is_bit_equal(target[i], source[i])) {
            return false;
        }
        moved_count += !is_bit_equal(target[i], unmoved[i]);
    }
    return moved_count >= 2 && count_nonzero(source, in->count - places) >= 2;
}

static bool find_shift(const struct harness_residual_input *in, struct harness_residual *out)
{
    for (size_t places = 1; places <= SHIFT_MAX && 2 * places <= in->count; places++) {
        if (is_shifted_by(in, places, true)) {
            out->shift = (int64_t)places;
            return true;
        }
        if (is_shifted_by(in, places, false)) {
            out->shift = -(int64_t)places;
            return true;
        }
    }
    return false;
}

/* NaNs of a narrower format have fewer bits to tell them apart. */
static bool is_rounded_to(const struct harness_residual_input *in, enum harness_format format,
                          bool is_before_scale)
{
    for (size_t i = 0; i < in->count; i++) {
        float due = is_before_scale ? harness_format_round(format, in->raw[i]) * in->scale
                                    : harness_format_round(format, in->expected[i]);

        if (!is_bit_equal(due, in->got[i]) && !(isnan(due) && isnan(in->got[i]))) {
            return false;
        }
    }
    return true;
}

/* Formats that the values may have passed through, after they were scaled or before. */
static unsigned find_formats(const struct harness_residual_input *in)
{
    unsigned formats = 0;

    for (unsigned i = 0; i < HARNESS_FORMAT_COUNT; i++) {
        enum harness_format format = (enum harness_format)i;

        if (harness_format_is_narrower(format, in->dtype) &&
            (is_rounded_to(in, format, false) ||
             (in->raw != NULL && is_rounded_to(in, format, true)))) {
            formats |= 1u << i;
        }
    }
    return formats;
}

/* Of so few elements a rounding looks like a factor, or like nothing that has a name. */
static bool is_small_part(const struct harness_residual *residual)
{
    return residual->differ_count < ROUNDED_MIN &&
           (residual->verdict == HARNESS_VERDICT_VALUE_CORRUPTED ||
            residual->verdict == HARNESS_VERDICT_VALUE_SCALED);
}

bool harness_residual_is_one_format(const struct harness_residual *a,
                                    const struct harness_residual *b)
{
    const bool is_named[2] = {a->verdict == HARNESS_VERDICT_VALUE_PRECISION,
                              b->verdict == HARNESS_VERDICT_VALUE_PRECISION};
    const bool is_small[2] = {is_small_part(a), is_small_part(b)};

    return (a->formats & b->formats) != 0 && (is_named[0] || is_named[1]) &&
           (is_named[0] || is_small[0]) && (is_named[1] || is_small[1]);
}

static bool find_flip(const struct harness_residual_input *in, struct harness_residual *out)
{
    size_t at = out->first;

    DDP_ASSERT(at < in->count && out->differ_count > 0);
    if (out->differ_count != 1) {
        return false;
    }
    for (int bit = 0; bit < 32; bit++) {
        uint32_t mask = UINT32_C(1) << bit;
        bool is_after =
            (harness_residual_bits(in->expected[at]) ^ mask) == harness_residual_bits(in->got[at]);
        bool is_before =
            in->raw != NULL &&
            is_bit_equal(float_of(harness_residual_bits(in->raw[at]) ^ mask) * in->scale,
                         in->got[at]);

        if (is_after || is_before) {
            out->bit = bit;
            return true;
        }
    }
    return false;
}

static bool is_before(const struct harness_residual_input *in)
{
    return in->before != NULL && memcmp(in->before, in->got, in->count * sizeof(float)) == 0;
}

/* It was not scaled at all. */
static bool is_raw(const struct harness_residual_input *in)
{
    return in->raw != NULL && memcmp(in->raw, in->got, in->count * sizeof(float)) == 0;
}

/* Whether values of before are that even if they are off by a factor, too, by chance. */
static bool is_stale_first(const struct harness_residual_input *in)
{
    return in->is_before_likely && is_before(in) && !is_raw(in);
}

void harness_residual_classify(const struct harness_residual_input *in,
                               struct harness_residual *out)
{
    *out = (struct harness_residual){.verdict = HARNESS_VERDICT_NONE, .bit = -1};
    DDP_ASSERT(in->count == 0 || (in->expected != NULL && in->got != NULL));
    count_differences(in, out);
    if (!out->is_set) {
        return;
    }
    out->verdict = HARNESS_VERDICT_VALUE_CORRUPTED;
    out->formats = find_formats(in);
    if (find_nonfinite(in, out)) {
        out->verdict = HARNESS_VERDICT_VALUE_NONFINITE;
    } else if (in->count > 1 && count_nonzero(in->got, in->count) == 0) {
        out->verdict = in->is_before_likely && is_before(in) ? HARNESS_VERDICT_VALUE_STALE
                                                             : HARNESS_VERDICT_VALUE_LOST;
    } else if (out->formats != 0 && out->differ_count >= ROUNDED_MIN && !is_before(in)) {
        out->verdict = HARNESS_VERDICT_VALUE_PRECISION; /* bit for bit, which no factor is */
    } else if (!is_stale_first(in) && find_factor(in, out)) {
        bool is_double = !(out->factor < 2.0) && !(out->factor > 2.0);

        out->verdict = is_double ? HARNESS_VERDICT_VALUE_DUPLICATED : HARNESS_VERDICT_VALUE_SCALED;
    } else if (is_before(in)) {
        out->verdict = HARNESS_VERDICT_VALUE_STALE;
    } else if (out->differ_count > 1 && find_shift(in, out)) { /* one element did not move */
        out->verdict = HARNESS_VERDICT_VALUE_SHIFTED;
    } else {
        (void)find_flip(in, out);
    }
}

/* n roundings of fp32 take a sum no further than n u / (1 - n u) of the magnitudes' sum; the sums
 * here are in fp64, whose own error is far below. */
bool harness_residual_is_reordered(const float *const *inputs, uint32_t world,
                                   const float *expected, const float *got, size_t count)
{
    double roundings = (double)(world - 1) * 0x1p-24;
    double slope = roundings / (1.0 - roundings) + 0x1p-50 * (double)world;
    size_t differ_count = 0;

    DDP_ASSERT(world > 0);
    for (size_t i = 0; i < count; i++) {
        double sum = 0.0;
        double magnitude = 0.0;

        for (uint32_t r = 0; r < world; r++) {
            sum += (double)inputs[r][i];
            magnitude += fabs((double)inputs[r][i]);
        }
        if (!(fabs((double)got[i] - sum) <= slope * magnitude)) {
            return false;
        }
        differ_count += !is_bit_equal(got[i], expected[i]);
    }
    return differ_count > 1;
}
