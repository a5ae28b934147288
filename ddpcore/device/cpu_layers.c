/* The CPU device's kernels for embeddings and attention, and the table of all kernels of layers.h.
 */
#include "ddpcore/device/cpu_layers.h"

#include "ddpcore/device/blas.h"
#include "ddpcore/device/clones.h"

static ddp_status cpu_gemms(struct ddp_device *device, struct ddp_stream *stream,
                            const struct ddp_gemm *gemm, size_t count)
{
    struct ddp_gemm one = *gemm;

    (void)device;
    (void)stream;
    for (size_t i = 0; i < count; i++) {
        DDP_TRY(ddp_blas_gemm(&one));
        one.a += one.m * one.k;
        one.b += one.k * one.n;
        one.c += one.m * one.n;
    }
    return DDP_OK;
}

static ddp_status cpu_permute(struct ddp_device *device, struct ddp_stream *stream, float *y,
                              const float *x, const size_t dims[4], const size_t order[4])
{
    const size_t step[4] = {dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1};
    const size_t last_count = dims[order[3]];
    const size_t last_step = step[order[3]];

    (void)device;
    (void)stream;
    for (size_t i = 0; i < dims[order[0]]; i++) {
        for (size_t j = 0; j < dims[order[1]]; j++) {
            for (size_t k = 0; k < dims[order[2]]; k++) {
                const float *from =
                    x + i * step[order[0]] + j * step[order[1]] + k * step[order[2]];

                if (last_step == 1) {
                    memcpy(y, from, last_count * sizeof(*y));
                } else {
                    for (size_t l = 0; l < last_count; l++) {
                        y[l] = from[l * last_step];
                    }
                }
                y += last_count;
            }
        }
    }
    return DDP_OK;
}

/* sqrt(2 / pi), and its product with 0.044715 */
#define GELU_LINEAR 0.797884561F
#define GELU_CUBIC  0.0356774081F

/* 0.5 (1 + tanh(u)) = 1 / (1 + e^-2u): no difference of nearly equal numbers. */
static inline float gelu_share(float x)
{
    const float u = x * (GELU_LINEAR + GELU_CUBIC * (x * x));

    return 1.0F / (1.0F + ddp_cpu_exp(-2.0F * u));
}

DDP_CLONES static ddp_status cpu_gelu(struct ddp_device *device, struct ddp_stream *stream,
                                      float *restrict y, const float *restrict x, size_t elem_count)
{
    (void)device;
    (void)stream;
    for (size_t i = 0; i < elem_count; i++) {
        y[i] = x[i] * gelu_share(x[i]);
    }
    return DDP_OK;
}

/* d/dx x s(2u) = s + x s (1 - s) 2 u' */
DDP_CLONES static ddp_status cpu_gelu_backward(struct ddp_device *device, struct ddp_stream *stream,
                                               float *restrict dx, const float *restrict dy,
                                               const float *restrict x, size_t elem_count)
{
    (void)device;
    (void)stream;
    for (size_t i = 0; i < elem_count; i++) {
        const float share = gelu_share(x[i]);
        const float slope = 2.0F * (GELU_LINEAR + 3.0F * GELU_CUBIC * (x[i] * x[i]));

        dx[i] = dy[i] * (share + x[i] * share * (1.0F - share) * slope);
    }
    return DDP_OK;
}

static bool is_inside(const struct ddp_rows *rows)
{
    for (size_t b = 0; b < rows->rows; b++) {
        if (rows->index[b] < 0 || (size_t)rows->index[b] >= rows->table_rows) {
            return false;
        }
    }
    return true;
}

static ddp_status cpu_gather_rows(struct ddp_device *device, struct ddp_stream *stream, float *y,
                                  const float *table, const struct ddp_rows *rows)
{
    const size_t columns = rows->columns;

    (void)device;
    (void)stream;
    if (!is_inside(rows)) {
        return DDP_E_INVALID;
    }
    for (size_t b = 0; b < rows->rows; b++) {
        memcpy(y + b * columns, table + (size_t)rows->index[b] * columns, columns * sizeof(*y));
    }
    return DDP_OK;
}

static ddp_status cpu_scatter_rows(struct ddp_device *device, struct ddp_stream *stream,
                                   float *table, const float *x, const struct ddp_rows *rows,
                                   bool is_accumulate)
{
    const size_t columns = rows->columns;

    (void)device;
    (void)stream;
    if (!is_inside(rows)) {
        return DDP_E_INVALID;
    }
    if (!is_accumulate) {
        memset(table, 0, rows->table_rows * columns * sizeof(*table));
    }
    for (size_t b = 0; b < rows->rows; b++) {
        float *row = table + (size_t)rows->index[b] * columns;

        for (size_t o = 0; o < columns; o++) {
            row[o] += x[b * columns + o];
        }
    }
    return DDP_OK;
}

/* The largest of the first `count` columns; NaN counts as nothing, but the sums below have it. */
static float largest(const float *x, size_t count)
{
    float top = x[0];

    for (size_t o = 1; o < count; o++) {
        top = x[o] > top ? x[o] : top;
    }
    return top;
}

DDP_CLONES static ddp_status cpu_softmax_causal(struct ddp_device *device,
                                                struct ddp_stream *stream, float *y, const float *x,
                                                size_t rows, size_t columns, float scale)
{
    (void)device;
    (void)stream;
    for (size_t b = 0; b < rows; b++) {
        const size_t seen = b % columns + 1;
        const float *restrict in = x + b * columns;
        float *restrict out = y + b * columns;
        const float top = largest(in, seen);
        float sum;

        for (size_t o = 0; o < columns; o++) {
            out[o] = o < seen ? ddp_cpu_exp((in[o] - top) * scale) : 0.0F;
        }
        sum = ddp_cpu_sum_row(out, columns);
        for (size_t o = 0; o < columns; o++) {
            out[o] /= sum;
        }
    }
    return DDP_OK;
}

DDP_CLONES static ddp_status cpu_softmax_causal_backward(struct ddp_device *device,
                                                         struct ddp_stream *stream, float *dx,
                                                         const float *dy, const float *y,
                                                         size_t rows, size_t columns, float scale)
{
    (void)device;
    (void)stream;
    for (size_t b = 0; b < rows; b++) {
        const float *in = dy + b * columns;
        const float *out = y + b * columns;
        const float dot = ddp_cpu_dot_row(in, out, columns);

        for (size_t o = 0; o < columns; o++) {
            dx[b * columns + o] = scale * (out[o] * (in[o] - dot));
        }
    }
    return DDP_OK;
}

const struct ddp_layer_ops ddp_device_cpu_layers = {
    .gemms = cpu_gemms,
    .permute = cpu_permute,
    .im2col = ddp_cpu_im2col,
    .col2im = ddp_cpu_col2im,
    .average_pool = ddp_cpu_average_pool,
    .average_pool_backward = ddp_cpu_average_pool_backward,
    .normalize_columns = ddp_cpu_normalize_columns,
    .normalize_columns_backward = ddp_cpu_normalize_columns_backward,
    .standardize_columns = ddp_cpu_standardize_columns,
    .standardize_columns_backward = ddp_cpu_standardize_columns_backward,
    .normalize_rows = ddp_cpu_normalize_rows,
    .normalize_rows_backward = ddp_cpu_normalize_rows_backward,
    .gelu = cpu_gelu,
    .gelu_backward = cpu_gelu_backward,
    .gather_rows = cpu_gather_rows,
    .scatter_rows = cpu_scatter_rows,
    .softmax_causal = cpu_softmax_causal,
    .softmax_causal_backward = cpu_softmax_causal_backward,
    .route = ddp_cpu_route,
    .gate = ddp_cpu_gate,
    .gate_backward = ddp_cpu_gate_backward,
};
