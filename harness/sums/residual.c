/* Purpose: name the structure of a difference: lost, doubled, scaled, shifted, stale, NaN, one bit.
 * Idea: each structure is a formula for what would have been seen; it is named only if every
 * element agrees bit for bit, so a NaN or a near miss never passes for one. */
#include "harness/sums/residual.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHIFT_MAX 64

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

/* Zeros of either sign are one value here: scaling may lose a sign. */
static bool is_same_value(float a, float b)
{
    return is_bit_equal(a, b) || (fabsf(a) <= 0.0f && fabsf(b) <= 0.0f);
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

/* got = expected * factor, wherever the factor came in: before or after the scale. */
static bool is_scaled_by(const struct harness_residual_input *in, float factor)
{
    bool is_after = true;
    bool is_before = in->raw != NULL;

    for (size_t i = 0; i < in->count && (is_after || is_before); i++) {
        is_after = is_after && is_same_value(in->expected[i] * factor, in->got[i]);
        is_before = is_before && is_same_value((in->raw[i] * factor) * in->scale, in->got[i]);
    }
    return is_after || is_before;
}

static size_t largest(const struct harness_residual_input *in)
{
    size_t at = 0;

    DDP_ASSERT(in->count > 0);
    for (size_t i = 1; i < in->count; i++) {
        at = fabsf(in->expected[i]) > fabsf(in->expected[at]) ? i : at;
    }
    return at;
}

/* The quotient of the largest element is the factor up to rounding; a decimal of few digits is
 * tried too, because that is what people write. */
static bool find_factor(const struct harness_residual_input *in, struct harness_residual *out)
{
    size_t at = largest(in);
    float ratio = (float)((double)in->got[at] / (double)in->expected[at]);
    float candidates[5];
    char text[32];

    if (count_nonzero(in->expected, in->count) < 2 || !isfinite(ratio)) {
        return false;
    }
    (void)snprintf(text, sizeof(text), "%.5g", (double)ratio);
    candidates[0] = ratio;
    candidates[1] = strtof(text, NULL);
    candidates[2] = nextafterf(ratio, INFINITY);
    candidates[3] = nextafterf(ratio, -INFINITY);
    candidates[4] = roundf(ratio);
    for (size_t i = 0; i < 5; i++) {
        bool is_one = !(candidates[i] < 1.0f) && !(candidates[i] > 1.0f);

        if (!is_one && is_scaled_by(in, candidates[i])) {
            out->factor = (double)candidates[i];
            return true;
        }
    }
    return false;
}

static bool is_shifted_by(const struct harness_residual_input *in, size_t places, bool is_up)
{
    const float *target = is_up ? in->got + places : in->got;
    const float *source = is_up ? in->expected : in->expected + places;

    DDP_ASSERT(places > 0 && places < in->count);
    for (size_t i = 0; i + places < in->count; i++) {
        if (!is_bit_equal(target[i], source[i])) {
            return false;
        }
    }
    return count_nonzero(source, in->count - places) >= 2;
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
    if (find_nonfinite(in, out)) {
        out->verdict = HARNESS_VERDICT_VALUE_NONFINITE;
    } else if (in->count > 1 && count_nonzero(in->got, in->count) == 0) {
        out->verdict = HARNESS_VERDICT_VALUE_LOST;
    } else if (find_factor(in, out)) {
        bool is_double = !(out->factor < 2.0) && !(out->factor > 2.0);

        out->verdict = is_double ? HARNESS_VERDICT_VALUE_DUPLICATED : HARNESS_VERDICT_VALUE_SCALED;
    } else if (in->before != NULL && memcmp(in->before, in->got, in->count * sizeof(float)) == 0) {
        out->verdict = HARNESS_VERDICT_VALUE_STALE;
    } else if (find_shift(in, out)) {
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
