/* Inside of the CPU device: its kernels of layers.h, in the files that hold them, and what those
 * share. */
#ifndef DDPCORE_DEVICE_CPU_LAYERS_H
#define DDPCORE_DEVICE_CPU_LAYERS_H

#include <string.h>

#include "ddpcore/device/layers.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const struct ddp_layer_ops ddp_device_cpu_layers;

/* cpu_image.c */
ddp_status ddp_cpu_im2col(struct ddp_device *device, struct ddp_stream *stream, float *columns,
                          const float *x, const struct ddp_image *image);
ddp_status ddp_cpu_col2im(struct ddp_device *device, struct ddp_stream *stream, float *x,
                          const float *columns, const struct ddp_image *image);
ddp_status ddp_cpu_average_pool(struct ddp_device *device, struct ddp_stream *stream, float *y,
                                const float *x, const struct ddp_image *image);
ddp_status ddp_cpu_average_pool_backward(struct ddp_device *device, struct ddp_stream *stream,
                                         float *dx, const float *dy, const struct ddp_image *image);

/* cpu_normalize.c */
ddp_status ddp_cpu_normalize_columns(struct ddp_device *device, struct ddp_stream *stream, float *y,
                                     const struct ddp_moments *moments, const float *x, size_t rows,
                                     size_t columns, float eps);
ddp_status ddp_cpu_normalize_columns_backward(struct ddp_device *device, struct ddp_stream *stream,
                                              float *dx, const float *dy, const float *y,
                                              const float *inverse, size_t rows, size_t columns);
ddp_status ddp_cpu_standardize_columns(struct ddp_device *device, struct ddp_stream *stream,
                                       float *y, const float *x, const float *mean,
                                       const float *inverse, size_t rows, size_t columns);
ddp_status ddp_cpu_standardize_columns_backward(struct ddp_device *device,
                                                struct ddp_stream *stream, float *dx,
                                                const float *dy, const float *y,
                                                const struct ddp_column_sums *sums, size_t rows,
                                                size_t columns);
ddp_status ddp_cpu_normalize_rows(struct ddp_device *device, struct ddp_stream *stream, float *y,
                                  float *inverse, const float *x, size_t rows, size_t columns,
                                  float eps);
ddp_status ddp_cpu_normalize_rows_backward(struct ddp_device *device, struct ddp_stream *stream,
                                           float *dx, const float *dy, const float *y,
                                           const float *inverse, size_t rows, size_t columns);

/* cpu_route.c */
ddp_status ddp_cpu_route(struct ddp_device *device, struct ddp_stream *stream, float *probs,
                         int32_t *choice, const float *x, size_t rows, size_t experts);
ddp_status ddp_cpu_gate(struct ddp_device *device, struct ddp_stream *stream, float *y,
                        const float *x, const struct ddp_route *route, size_t columns);
ddp_status ddp_cpu_gate_backward(struct ddp_device *device, struct ddp_stream *stream, float *dx,
                                 float *dlogits, const float *dy, const float *x,
                                 const struct ddp_route *route, size_t columns);

/* The sum of the lanes, in the order that layers.h states. Changes lane. */
static inline float ddp_cpu_sum_lanes(float lane[DDP_LANES])
{
    for (size_t half = DDP_LANES / 2; half > 0; half /= 2) {
        for (size_t l = 0; l < half; l++) {
            lane[l] += lane[l + half];
        }
    }
    return lane[0];
}

/* Sums along a row, of x or of x * y. */
static inline float ddp_cpu_sum_row(const float *x, size_t columns)
{
    float lane[DDP_LANES] = {0};
    size_t o = 0;

    for (; o + DDP_LANES <= columns; o += DDP_LANES) {
        for (size_t l = 0; l < DDP_LANES; l++) {
            lane[l] += x[o + l];
        }
    }
    for (size_t l = 0; o + l < columns; l++) {
        lane[l] += x[o + l];
    }
    return ddp_cpu_sum_lanes(lane);
}

static inline float ddp_cpu_dot_row(const float *x, const float *y, size_t columns)
{
    float lane[DDP_LANES] = {0};
    size_t o = 0;

    for (; o + DDP_LANES <= columns; o += DDP_LANES) {
        for (size_t l = 0; l < DDP_LANES; l++) {
            lane[l] += x[o + l] * y[o + l];
        }
    }
    for (size_t l = 0; o + l < columns; l++) {
        lane[l] += x[o + l] * y[o + l];
    }
    return ddp_cpu_sum_lanes(lane);
}

/* e^x within 2 ulp, in operations that every vector width rounds alike. Below -87.3 it is e^-87.3,
 * above 88 e^88: both normal numbers. A NaN stays NaN.
 *
 * x = n ln 2 + r with |r| <= ln 2 / 2; ln 2 = HIGH + LOW, n * HIGH is exact. e^r by its Taylor
 * series up to r^7 / 7!, whose rest is below 6e-9. Adding 1.5 * 2^23 rounds to an integer, which
 * then is in the lowest bits. */
static inline float ddp_cpu_exp(float x)
{
    const float magic = 12582912.0F;
    const float high = 0.693359375F;
    const float low = -2.12194440e-4F;
    const float top = x > 88.0F ? 88.0F : x;
    const float clamped = top < -87.3F ? -87.3F : top;
    const float shifted = clamped * 1.44269504F + magic;
    const float n = shifted - magic;
    const float r = (clamped - n * high) - n * low;
    float p = 1.98412698e-4F;
    float power;
    uint32_t bits;
    uint32_t bias;

    p = p * r + 1.38888889e-3F;
    p = p * r + 8.33333333e-3F;
    p = p * r + 4.16666667e-2F;
    p = p * r + 1.66666667e-1F;
    p = p * r + 0.5F;
    p = p * r + 1.0F;
    p = p * r + 1.0F;
    memcpy(&bits, &shifted, sizeof(bits));
    memcpy(&bias, &magic, sizeof(bias));
    bits = (bits - bias + 127U) << 23;
    memcpy(&power, &bits, sizeof(power));
    return p * power;
}

#ifdef __cplusplus
}
#endif
#endif
