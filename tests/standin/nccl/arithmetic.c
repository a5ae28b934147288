/* A stand-in for NCCL, for tests only. Nothing it does is a GPU result.
 *
 * Elementwise arithmetic, rounded to the element's type at every step, as in reduce_kernel.h. */
#include <math.h>
#include <string.h>

#include "ddpcore/base/dtype.h"
#include "tests/standin/nccl/internal.h"

size_t standin_dtype_bytes(int dtype)
{
    static const size_t bytes[STANDIN_DTYPE_COUNT] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
    return bytes[dtype];
}

/* Sums and products of signed integers wrap: they are those of the unsigned type. */
#define FOLD_INTEGER(name, type, wrapping)                                              \
    static void name(int redop, const void *own_data, void *partial_data, size_t count) \
    {                                                                                   \
        const type *own = own_data;                                                     \
        type *partial = partial_data;                                                   \
        for (size_t i = 0; i < count; i++) {                                            \
            type a = own[i], b = partial[i];                                            \
            switch (redop) {                                                            \
            case STANDIN_PROD:                                                          \
                partial[i] = (type)(wrapping)((wrapping)a * (wrapping)b);               \
                break;                                                                  \
            case STANDIN_MAX:                                                           \
                partial[i] = a > b ? a : b;                                             \
                break;                                                                  \
            case STANDIN_MIN:                                                           \
                partial[i] = a < b ? a : b;                                             \
                break;                                                                  \
            default:                                                                    \
                partial[i] = (type)(wrapping)((wrapping)a + (wrapping)b);               \
                break;                                                                  \
            }                                                                           \
        }                                                                               \
    }

FOLD_INTEGER(fold_int8, int8_t, uint8_t)
FOLD_INTEGER(fold_uint8, uint8_t, uint8_t)
FOLD_INTEGER(fold_int32, int32_t, uint32_t)
FOLD_INTEGER(fold_uint32, uint32_t, uint32_t)
FOLD_INTEGER(fold_int64, int64_t, uint64_t)
FOLD_INTEGER(fold_uint64, uint64_t, uint64_t)

static float float_op(int redop, float a, float b)
{
    switch (redop) {
    case STANDIN_PROD:
        return a * b;
    case STANDIN_MAX:
        return fmaxf(a, b);
    case STANDIN_MIN:
        return fminf(a, b);
    default:
        return a + b;
    }
}

static double double_op(int redop, double a, double b)
{
    switch (redop) {
    case STANDIN_PROD:
        return a * b;
    case STANDIN_MAX:
        return fmax(a, b);
    case STANDIN_MIN:
        return fmin(a, b);
    default:
        return a + b;
    }
}

static void fold_float32(int redop, const void *own_data, void *partial_data, size_t count)
{
    const float *own = own_data;
    float *partial = partial_data;
    for (size_t i = 0; i < count; i++) {
        partial[i] = float_op(redop, own[i], partial[i]);
    }
}

static void fold_float64(int redop, const void *own_data, void *partial_data, size_t count)
{
    const double *own = own_data;
    double *partial = partial_data;
    for (size_t i = 0; i < count; i++) {
        partial[i] = double_op(redop, own[i], partial[i]);
    }
}

/* A float holds every sum and product of two 16-bit floats well enough to round once more. */
static void fold_float16(int redop, const void *own_data, void *partial_data, size_t count)
{
    const uint16_t *own = own_data;
    uint16_t *partial = partial_data;
    for (size_t i = 0; i < count; i++) {
        partial[i] =
            ddp_f16_from_f32(float_op(redop, ddp_f16_to_f32(own[i]), ddp_f16_to_f32(partial[i])));
    }
}

static void fold_bfloat16(int redop, const void *own_data, void *partial_data, size_t count)
{
    const uint16_t *own = own_data;
    uint16_t *partial = partial_data;
    for (size_t i = 0; i < count; i++) {
        partial[i] = ddp_bf16_from_f32(
            float_op(redop, ddp_bf16_to_f32(own[i]), ddp_bf16_to_f32(partial[i])));
    }
}

void standin_fold(int dtype, int redop, const void *own, void *partial, size_t count)
{
    static void (*const folds[STANDIN_FLOAT8_E4M3])(int, const void *, void *, size_t) = {
        fold_int8,   fold_uint8,   fold_int32,   fold_uint32,  fold_int64,
        fold_uint64, fold_float16, fold_float32, fold_float64, fold_bfloat16};
    folds[dtype](redop, own, partial, count);
}

/* The largest magnitudes first, so that large values of both signs are gone before small ones
 * come. */
void standin_sum_exact(const float *all, int rank_count, size_t count, float *out)
{
    for (size_t i = 0; i < count; i++) {
        float sorted[STANDIN_EXACT_MAX];
        long double sum = 0.0L;
        for (int r = 0; r < rank_count; r++) {
            float value = all[(size_t)r * count + i];
            int at = r;
            for (; at > 0 && fabsf(sorted[at - 1]) < fabsf(value); at--) {
                sorted[at] = sorted[at - 1];
            }
            sorted[at] = value;
        }
        for (int r = 0; r < rank_count; r++) {
            sum += (long double)sorted[r];
        }
        out[i] = (float)sum;
    }
}

void standin_avg_before(int dtype, void *data, size_t count, int rank_count)
{
    double scalar = 1.0 / rank_count;
    for (size_t i = 0; i < count; i++) {
        if (dtype == STANDIN_FLOAT32) {
            ((float *)data)[i] *= (float)scalar;
        } else if (dtype == STANDIN_FLOAT64) {
            ((double *)data)[i] *= scalar;
        } else if (dtype == STANDIN_FLOAT16) {
            uint16_t *value = (uint16_t *)data + i;
            *value = ddp_f16_from_f32(ddp_f16_to_f32(*value) *
                                      ddp_f16_to_f32(ddp_f16_from_f32((float)scalar)));
        } else if (dtype == STANDIN_BFLOAT16) {
            uint16_t *value = (uint16_t *)data + i;
            *value = ddp_bf16_from_f32(ddp_bf16_to_f32(*value) *
                                       ddp_bf16_to_f32(ddp_bf16_from_f32((float)scalar)));
        }
    }
}

void standin_avg_after(int dtype, void *data, size_t count, int rank_count)
{
    for (size_t i = 0; i < count; i++) {
        switch (dtype) {
        case STANDIN_INT8:
            ((int8_t *)data)[i] = (int8_t)(((int8_t *)data)[i] / rank_count);
            break;
        case STANDIN_UINT8:
            ((uint8_t *)data)[i] = (uint8_t)(((uint8_t *)data)[i] / rank_count);
            break;
        case STANDIN_INT32:
            ((int32_t *)data)[i] /= rank_count;
            break;
        case STANDIN_UINT32:
            ((uint32_t *)data)[i] /= (uint32_t)rank_count;
            break;
        case STANDIN_INT64:
            ((int64_t *)data)[i] /= rank_count;
            break;
        case STANDIN_UINT64:
            ((uint64_t *)data)[i] /= (uint64_t)rank_count;
            break;
        default:
            break;
        }
    }
}
