/* What kind of difference lies between an expected tensor and the one that was seen. */
#ifndef HARNESS_SUMS_RESIDUAL_H
#define HARNESS_SUMS_RESIDUAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ddpcore/base/dtype.h"
#include "harness/verdict/verdict.h"

#ifdef __cplusplus
extern "C" {
#endif

struct harness_residual_input {
    const float *expected, *got; /* float[count] */
    const float *before;         /* expected one step earlier, or NULL */
    const float *raw;            /* expected = raw * scale, or NULL: where a fault may have been */
    float scale;
    size_t count;
    enum ddp_dtype dtype;  /* in which the values were computed and rounded; held as fp32 here */
    bool is_before_likely; /* where got is what was before: that it stayed, not that it is lost or
                              scaled */
};

struct harness_residual {
    bool is_set; /* something differs */
    enum harness_verdict
        verdict;   /* LOST, DUPLICATED, SCALED, SHIFTED, STALE, NONFINITE, PRECISION, CORRUPTED */
    double factor; /* SCALED, DUPLICATED: the simplest one of [low, high] */
    double low, high;    /* factors that explain every element up to its rounding; 0: none does */
    int64_t shift;       /* SHIFTED: got[i + shift] = expected[i] */
    size_t first;        /* first element that differs (NONFINITE: first not finite one) */
    size_t differ_count; /* elements that differ */
    unsigned formats;    /* PRECISION, CORRUPTED: those that all elements may be rounded to */
    int bit;             /* CORRUPTED by one flipped bit of one element; -1 otherwise */
};

/* Say what kind of difference it is. A kind is named only if it explains every element bit for bit;
 * SCALED if there is a factor, the same for all, that explains every element up to its rounding.
 * input is borrowed; out is filled. */
void harness_residual_classify(const struct harness_residual_input *input,
                               struct harness_residual *out);
/* Whether one factor explains both, at least one of which is called scaled: each says only within
 * which limits its factor lies, and one value alone is never called scaled. */
bool harness_residual_is_one_factor(const struct harness_residual *a,
                                    const struct harness_residual *b);
/* Whether both may be rounded to the same format, and at least one is called so; the other one has
 * too few elements that differ to be called so by itself. */
bool harness_residual_is_one_format(const struct harness_residual *a,
                                    const struct harness_residual *b);
/* Whether got differs from expected as far as another order of summing the inputs may make it, and
 * no further: every element lies within world - 1 roundings of the exact sum, and more than one
 * differs. inputs: float[count] of each of world ranks. */
bool harness_residual_is_reordered(const float *const *inputs, uint32_t world,
                                   const float *expected, const float *got, size_t count);
/* Unit roundoff and smallest subnormal of a floating point type. */
struct harness_precision {
    double unit, subnormal;
};
struct harness_precision harness_residual_precision(enum ddp_dtype dtype);
/* Bits of a float. */
uint32_t harness_residual_bits(float value);

#ifdef __cplusplus
}
#endif
#endif
