/* The CPU device's normalisations: of columns (BatchNorm) and of rows (LayerNorm). */
#include <math.h>

#include "ddpcore/device/clones.h"
#include "ddpcore/device/cpu_layers.h"

/* Columns side by side: 1 KiB of partial sums. */
enum { COLUMN_BLOCK = 256 };

static size_t block_columns(size_t first, size_t columns)
{
    return columns - first < COLUMN_BLOCK ? columns - first : COLUMN_BLOCK;
}

/* mean, variance of `count` columns of a matrix that is `columns` wide */
DDP_CLONES static void column_moments(float *restrict mean, float *restrict variance,
                                      const float *restrict x, size_t rows, size_t columns,
                                      size_t count)
{
    const float row_count = (float)rows;

    for (size_t o = 0; o < count; o++) {
        mean[o] = 0.0F;
        variance[o] = 0.0F;
    }
    for (size_t b = 0; b < rows; b++) {
        for (size_t o = 0; o < count; o++) {
            mean[o] += x[b * columns + o];
        }
    }
    for (size_t o = 0; o < count; o++) {
        mean[o] /= row_count;
    }
    for (size_t b = 0; b < rows; b++) {
        for (size_t o = 0; o < count; o++) {
            const float off = x[b * columns + o] - mean[o];

            variance[o] += off * off;
        }
    }
    for (size_t o = 0; o < count; o++) {
        variance[o] /= row_count;
    }
}

DDP_CLONES static void apply_columns(float *restrict y, const float *restrict mean,
                                     const float *restrict inverse, const float *restrict x,
                                     size_t rows, size_t columns)
{
    for (size_t b = 0; b < rows; b++) {
        for (size_t o = 0; o < columns; o++) {
            y[b * columns + o] = (x[b * columns + o] - mean[o]) * inverse[o];
        }
    }
}

ddp_status ddp_cpu_normalize_columns(struct ddp_device *device, struct ddp_stream *stream, float *y,
                                     const struct ddp_moments *moments, const float *x, size_t rows,
                                     size_t columns, float eps)
{
    (void)device;
    (void)stream;
    for (size_t first = 0; first < columns; first += COLUMN_BLOCK) {
        column_moments(moments->mean + first, moments->variance + first, x + first, rows, columns,
                       block_columns(first, columns));
    }
    for (size_t o = 0; o < columns; o++) {
        moments->inverse[o] = 1.0F / sqrtf(moments->variance[o] + eps);
    }
    apply_columns(y, moments->mean, moments->inverse, x, rows, columns);
    return DDP_OK;
}

/* `count` columns of normalize_columns_backward */
DDP_CLONES static void columns_backward(float *restrict dx, const float *restrict dy,
                                        const float *restrict y, const float *restrict inverse,
                                        size_t rows, size_t columns, size_t count)
{
    const float row_count = (float)rows;
    float sum[COLUMN_BLOCK] = {0};
    float dot[COLUMN_BLOCK] = {0};

    for (size_t b = 0; b < rows; b++) {
        for (size_t o = 0; o < count; o++) {
            sum[o] += dy[b * columns + o];
            dot[o] += dy[b * columns + o] * y[b * columns + o];
        }
    }
    for (size_t o = 0; o < count; o++) {
        sum[o] /= row_count;
        dot[o] /= row_count;
    }
    for (size_t b = 0; b < rows; b++) {
        for (size_t o = 0; o < count; o++) {
            dx[b * columns + o] =
                inverse[o] * (dy[b * columns + o] - sum[o] - y[b * columns + o] * dot[o]);
        }
    }
}

ddp_status ddp_cpu_normalize_columns_backward(struct ddp_device *device, struct ddp_stream *stream,
                                              float *dx, const float *dy, const float *y,
                                              const float *inverse, size_t rows, size_t columns)
{
    (void)device;
    (void)stream;
    for (size_t first = 0; first < columns; first += COLUMN_BLOCK) {
        columns_backward(dx + first, dy + first, y + first, inverse + first, rows, columns,
                         block_columns(first, columns));
    }
    return DDP_OK;
}

ddp_status ddp_cpu_standardize_columns(struct ddp_device *device, struct ddp_stream *stream,
                                       float *y, const float *x, const float *mean,
                                       const float *inverse, size_t rows, size_t columns)
{
    (void)device;
    (void)stream;
    apply_columns(y, mean, inverse, x, rows, columns);
    return DDP_OK;
}

DDP_CLONES ddp_status ddp_cpu_standardize_columns_backward(
    struct ddp_device *device, struct ddp_stream *stream, float *restrict dx,
    const float *restrict dy, const float *restrict y, const struct ddp_column_sums *sums,
    size_t rows, size_t columns)
{
    const float *restrict inverse = sums->inverse;
    const float *restrict sum = sums->sum;
    const float *restrict dot = sums->dot;
    const float row_count = sums->row_count;

    (void)device;
    (void)stream;
    for (size_t b = 0; b < rows; b++) {
        for (size_t o = 0; o < columns; o++) {
            dx[b * columns + o] = inverse[o] * (dy[b * columns + o] - sum[o] / row_count -
                                                y[b * columns + o] * (dot[o] / row_count));
        }
    }
    return DDP_OK;
}

DDP_CLONES ddp_status ddp_cpu_normalize_rows(struct ddp_device *device, struct ddp_stream *stream,
                                             float *y, float *inverse, const float *x, size_t rows,
                                             size_t columns, float eps)
{
    const float column_count = (float)columns;

    (void)device;
    (void)stream;
    for (size_t b = 0; b < rows; b++) {
        const float *restrict in = x + b * columns;
        float *restrict out = y + b * columns;
        const float mean = ddp_cpu_sum_row(in, columns) / column_count;
        float scale;

        for (size_t o = 0; o < columns; o++) {
            out[o] = in[o] - mean;
        }
        scale = 1.0F / sqrtf(ddp_cpu_dot_row(out, out, columns) / column_count + eps);
        for (size_t o = 0; o < columns; o++) {
            out[o] *= scale;
        }
        inverse[b] = scale;
    }
    return DDP_OK;
}

DDP_CLONES ddp_status ddp_cpu_normalize_rows_backward(struct ddp_device *device,
                                                      struct ddp_stream *stream, float *dx,
                                                      const float *dy, const float *y,
                                                      const float *inverse, size_t rows,
                                                      size_t columns)
{
    const float column_count = (float)columns;

    (void)device;
    (void)stream;
    for (size_t b = 0; b < rows; b++) {
        const float *restrict in = dy + b * columns;
        const float *restrict out = y + b * columns;
        float *restrict target = dx + b * columns;
        const float sum = ddp_cpu_sum_row(in, columns) / column_count;
        const float dot = ddp_cpu_dot_row(in, out, columns) / column_count;

        for (size_t o = 0; o < columns; o++) {
            target[o] = inverse[b] * (in[o] - sum - out[o] * dot);
        }
    }
    return DDP_OK;
}
