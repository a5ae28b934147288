/* Kernels of layers beyond fully connected ones: convolutions, normalisations, embeddings,
 * attention, routed experts. fp32; what math.h says of matrices, determinism and shape letters
 * holds here too. A device may have none of them: then struct ddp_device's `layers` is NULL.
 *
 * Images are channels-last: B x H x W x C, so that a pixel is a row and a channel a column.
 * Sums along a row run in DDP_LANES lanes: lane l adds elements l, l + DDP_LANES, ... in ascending
 * order, then lanes are added in pairs, (l, l + half) for half = DDP_LANES/2, ..., 1. */
#ifndef DDPCORE_DEVICE_LAYERS_H
#define DDPCORE_DEVICE_LAYERS_H

#include "ddpcore/device/math.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DDP_LANES 16

/* A batch of images and the square windows that are laid on it. The window's number of pixels is
 * K = window * window. */
struct ddp_image {
    size_t count, height, width, channels;
    size_t window;  /* at most height + 2 padding, and width + 2 padding */
    size_t padding; /* zeros on each side; im2col only */
};

/* Row b of x belongs to what choice[b] names, with the weight probs[b][choice[b]]. */
struct ddp_route {
    const float *probs;    /* BxE, softmax of the logits */
    const int32_t *choice; /* B */
    size_t rows, experts;
};

/* What normalize_columns finds out of each column. */
struct ddp_moments {
    float *mean, *variance, *inverse;
};

/* Of the rows of all ranks, column by column, and how many rows that are. */
struct ddp_column_sums {
    const float *inverse;   /* 1 / deviation of x */
    const float *sum, *dot; /* of dy, of dy * y */
    float row_count;
};

/* Rows of a table, by their numbers. */
struct ddp_rows {
    const int32_t *index; /* B, in the device's memory */
    size_t rows, columns, table_rows;
};

struct ddp_layer_ops {
    /* `count` products of one shape, whose operands lie one behind the other: a advances by m*k, b
     * by k*n, c by m*n. */
    ddp_status (*gemms)(struct ddp_device *device, struct ddp_stream *stream,
                        const struct ddp_gemm *gemm, size_t count);
    /* y = x with its four dimensions in another order: dimension i of y is dimension order[i] of x,
     * whose sizes are dims. */
    ddp_status (*permute)(struct ddp_device *device, struct ddp_stream *stream, float *y,
                          const float *x, const size_t dims[4], const size_t order[4]);
    /* One row for each place of the window (stride 1): columns[B*OH*OW][C*K], a row is channel by
     * channel, each window row by row; OH = height + 2 padding - window + 1. */
    ddp_status (*im2col)(struct ddp_device *device, struct ddp_stream *stream, float *columns,
                         const float *x, const struct ddp_image *image);
    /* x = sum of all elements of columns that im2col took from it, windows in ascending order of
     * their place in the window */
    ddp_status (*col2im)(struct ddp_device *device, struct ddp_stream *stream, float *x,
                         const float *columns, const struct ddp_image *image);
    /* y[B*OH*OW][C] = mean of each window (stride: window; OH = height / window): its sum, row by
     * row, times 1/K */
    ddp_status (*average_pool)(struct ddp_device *device, struct ddp_stream *stream, float *y,
                               const float *x, const struct ddp_image *image);
    /* dx = dy of the window * 1/K; 0 in rows and columns that no window covers */
    ddp_status (*average_pool_backward)(struct ddp_device *device, struct ddp_stream *stream,
                                        float *dx, const float *dy, const struct ddp_image *image);
    /* y[b][o] = (x[b][o] - mean[o]) * inverse[o]. mean[o] = sum over b / B, variance[o] = sum over
     * b of (x - mean)^2 / B, ascending; inverse = 1 / sqrt(variance + eps). All three are O. */
    ddp_status (*normalize_columns)(struct ddp_device *device, struct ddp_stream *stream, float *y,
                                    const struct ddp_moments *moments, const float *x, size_t rows,
                                    size_t columns, float eps);
    /* dx = inverse[o] * (dy - sum(dy)/B - y * (sum(dy * y)/B)), sums over b ascending; y:
     * normalize_columns' output */
    ddp_status (*normalize_columns_backward)(struct ddp_device *device, struct ddp_stream *stream,
                                             float *dx, const float *dy, const float *y,
                                             const float *inverse, size_t rows, size_t columns);
    /* y[b][o] = (x[b][o] - mean[o]) * inverse[o], with moments of more rows than these */
    ddp_status (*standardize_columns)(struct ddp_device *device, struct ddp_stream *stream,
                                      float *y, const float *x, const float *mean,
                                      const float *inverse, size_t rows, size_t columns);
    /* dx = inverse[o] * (dy - sum[o]/N - y * (dot[o]/N)), N = sums->row_count; y:
     * standardize_columns' output */
    ddp_status (*standardize_columns_backward)(struct ddp_device *device, struct ddp_stream *stream,
                                               float *dx, const float *dy, const float *y,
                                               const struct ddp_column_sums *sums, size_t rows,
                                               size_t columns);
    /* The same along each row: y[b][o] = (x[b][o] - mean) * inverse[b]. inverse: B */
    ddp_status (*normalize_rows)(struct ddp_device *device, struct ddp_stream *stream, float *y,
                                 float *inverse, const float *x, size_t rows, size_t columns,
                                 float eps);
    ddp_status (*normalize_rows_backward)(struct ddp_device *device, struct ddp_stream *stream,
                                          float *dx, const float *dy, const float *y,
                                          const float *inverse, size_t rows, size_t columns);
    /* y = 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), the tanh form */
    ddp_status (*gelu)(struct ddp_device *device, struct ddp_stream *stream, float *y,
                       const float *x, size_t elem_count);
    ddp_status (*gelu_backward)(struct ddp_device *device, struct ddp_stream *stream, float *dx,
                                const float *dy, const float *x, size_t elem_count);
    /* y[b] = table[index[b]], rows of `columns` elements.
     * Errors: E_INVALID for an index outside [0, table_rows), where the host can see it. */
    ddp_status (*gather_rows)(struct ddp_device *device, struct ddp_stream *stream, float *y,
                              const float *table, const struct ddp_rows *rows);
    /* table[index[b]] += x[b], in ascending b; table starts from zeros unless is_accumulate.
     * Errors: as gather_rows. */
    ddp_status (*scatter_rows)(struct ddp_device *device, struct ddp_stream *stream, float *table,
                               const float *x, const struct ddp_rows *rows, bool is_accumulate);
    /* Rows come in groups of `columns`; row r of a group sees the columns 0..r: there y = softmax
     * of scale * x, and 0 behind them. */
    ddp_status (*softmax_causal)(struct ddp_device *device, struct ddp_stream *stream, float *y,
                                 const float *x, size_t rows, size_t columns, float scale);
    /* dx = scale * y * (dy - sum(dy * y)); dx == dy allowed; y: softmax_causal's output */
    ddp_status (*softmax_causal_backward)(struct ddp_device *device, struct ddp_stream *stream,
                                          float *dx, const float *dy, const float *y, size_t rows,
                                          size_t columns, float scale);
    /* probs(BxE) = softmax of each row of x; choice[b] = the first of its largest columns */
    ddp_status (*route)(struct ddp_device *device, struct ddp_stream *stream, float *probs,
                        int32_t *choice, const float *x, size_t rows, size_t experts);
    /* y(BxO) = x * weight of the row */
    ddp_status (*gate)(struct ddp_device *device, struct ddp_stream *stream, float *y,
                       const float *x, const struct ddp_route *route, size_t columns);
    /* dx = dy * weight of the row; dlogits[b][e] = sum(dy * x) * weight * ((e == choice) -
     * probs[e])
     */
    ddp_status (*gate_backward)(struct ddp_device *device, struct ddp_stream *stream, float *dx,
                                float *dlogits, const float *dy, const float *x,
                                const struct ddp_route *route, size_t columns);
};

static inline size_t ddp_image_rows(const struct ddp_image *image)
{
    return image->count * image->height * image->width;
}

/* Places of the window (stride 1), for im2col. */
static inline size_t ddp_image_places(const struct ddp_image *image)
{
    return image->count * (image->height + 2 * image->padding - image->window + 1) *
           (image->width + 2 * image->padding - image->window + 1);
}

/* Windows beside each other, for average_pool. */
static inline size_t ddp_image_windows(const struct ddp_image *image)
{
    return image->count * (image->height / image->window) * (image->width / image->window);
}

#ifdef __cplusplus
}
#endif
#endif
