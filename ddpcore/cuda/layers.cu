/* Kernels of layers.h that work row by row or column by column, and the table of all of them. A row
 * or column is the work of one thread, in the order of additions that layers.h states. */
#include <cmath>

#include "ddpcore/cuda/index.cuh"
#include "ddpcore/cuda/layers.cuh"

/* Sums along a row, in lanes. */
struct row_sum {
    float lane[DDP_LANES];

    __device__ row_sum() : lane()
    {
    }

    __device__ void add(size_t column, float value)
    {
        lane[column % DDP_LANES] += value;
    }

    __device__ float total()
    {
        for (size_t half = DDP_LANES / 2; half > 0; half /= 2) {
            for (size_t l = 0; l < half; l++) {
                lane[l] += lane[l + half];
            }
        }
        return lane[0];
    }
};

struct columns_body {
    float *y;
    float *mean;
    float *variance;
    float *inverse;
    const float *x;
    size_t rows, columns;
    float eps;

    __device__ void run(size_t o) const
    {
        float sum = 0.0F;
        float squares = 0.0F;

        for (size_t b = 0; b < rows; b++) {
            sum += x[b * columns + o];
        }
        sum /= static_cast<float>(rows);
        for (size_t b = 0; b < rows; b++) {
            const float off = x[b * columns + o] - sum;

            squares += off * off;
        }
        squares /= static_cast<float>(rows);
        mean[o] = sum;
        variance[o] = squares;
        inverse[o] = 1.0F / sqrtf(squares + eps);
        for (size_t b = 0; b < rows; b++) {
            y[b * columns + o] = (x[b * columns + o] - sum) * inverse[o];
        }
    }
};

struct columns_backward_body {
    float *dx;
    const float *dy;
    const float *y;
    const float *inverse;
    size_t rows, columns;

    __device__ void run(size_t o) const
    {
        float sum = 0.0F;
        float dot = 0.0F;

        for (size_t b = 0; b < rows; b++) {
            sum += dy[b * columns + o];
            dot += dy[b * columns + o] * y[b * columns + o];
        }
        sum /= static_cast<float>(rows);
        dot /= static_cast<float>(rows);
        for (size_t b = 0; b < rows; b++) {
            const size_t at = b * columns + o;

            dx[at] = inverse[o] * (dy[at] - sum - y[at] * dot);
        }
    }
};

struct standardize_body {
    float *y;
    const float *x;
    const float *mean;
    const float *inverse;
    size_t columns;

    __device__ void run(size_t i) const
    {
        y[i] = (x[i] - mean[i % columns]) * inverse[i % columns];
    }
};

struct standardize_backward_body {
    float *dx;
    const float *dy;
    const float *y;
    struct ddp_column_sums sums;
    size_t columns;

    __device__ void run(size_t i) const
    {
        const size_t o = i % columns;

        dx[i] = sums.inverse[o] *
                (dy[i] - sums.sum[o] / sums.row_count - y[i] * (sums.dot[o] / sums.row_count));
    }
};

struct rows_body {
    float *y;
    float *inverse;
    const float *x;
    size_t columns;
    float eps;

    __device__ void run(size_t b) const
    {
        const float *in = x + b * columns;
        float *out = y + b * columns;
        row_sum sum;
        row_sum squares;
        float mean;
        float scale;

        for (size_t o = 0; o < columns; o++) {
            sum.add(o, in[o]);
        }
        mean = sum.total() / static_cast<float>(columns);
        for (size_t o = 0; o < columns; o++) {
            out[o] = in[o] - mean;
            squares.add(o, out[o] * out[o]);
        }
        scale = 1.0F / sqrtf(squares.total() / static_cast<float>(columns) + eps);
        for (size_t o = 0; o < columns; o++) {
            out[o] *= scale;
        }
        inverse[b] = scale;
    }
};

struct rows_backward_body {
    float *dx;
    const float *dy;
    const float *y;
    const float *inverse;
    size_t columns;

    __device__ void run(size_t b) const
    {
        const float *in = dy + b * columns;
        const float *out = y + b * columns;
        row_sum sums;
        row_sum dots;
        float sum;
        float dot;

        for (size_t o = 0; o < columns; o++) {
            sums.add(o, in[o]);
            dots.add(o, in[o] * out[o]);
        }
        sum = sums.total() / static_cast<float>(columns);
        dot = dots.total() / static_cast<float>(columns);
        for (size_t o = 0; o < columns; o++) {
            dx[b * columns + o] = inverse[b] * (in[o] - sum - out[o] * dot);
        }
    }
};

struct causal_body {
    float *y;
    const float *x;
    size_t columns;
    float scale;

    __device__ void run(size_t b) const
    {
        const size_t seen = b % columns + 1;
        const float *in = x + b * columns;
        float *out = y + b * columns;
        float top = in[0];
        row_sum sums;
        float sum;

        for (size_t o = 1; o < seen; o++) {
            top = in[o] > top ? in[o] : top;
        }
        for (size_t o = 0; o < columns; o++) {
            out[o] = o < seen ? expf((in[o] - top) * scale) : 0.0F;
            sums.add(o, out[o]);
        }
        sum = sums.total();
        for (size_t o = 0; o < columns; o++) {
            out[o] /= sum;
        }
    }
};

struct causal_backward_body {
    float *dx;
    const float *dy;
    const float *y;
    size_t columns;
    float scale;

    __device__ void run(size_t b) const
    {
        const float *in = dy + b * columns;
        const float *out = y + b * columns;
        row_sum dots;
        float dot;

        for (size_t o = 0; o < columns; o++) {
            dots.add(o, in[o] * out[o]);
        }
        dot = dots.total();
        for (size_t o = 0; o < columns; o++) {
            dx[b * columns + o] = scale * (out[o] * (in[o] - dot));
        }
    }
};

struct route_body {
    float *probs;
    int32_t *choice;
    const float *x;
    size_t experts;

    __device__ void run(size_t b) const
    {
        const float *in = x + b * experts;
        float *out = probs + b * experts;
        size_t best = 0;
        row_sum sums;
        float sum;

        for (size_t e = 1; e < experts; e++) {
            best = in[e] > in[best] ? e : best;
        }
        for (size_t e = 0; e < experts; e++) {
            out[e] = expf(in[e] - in[best]);
            sums.add(e, out[e]);
        }
        sum = sums.total();
        for (size_t e = 0; e < experts; e++) {
            out[e] /= sum;
        }
        choice[b] = static_cast<int32_t>(best);
    }
};

struct gate_body {
    float *y;
    const float *x;
    struct ddp_route route;
    size_t columns;

    __device__ void run(size_t i) const
    {
        const size_t b = i / columns;

        y[i] = x[i] * route.probs[b * route.experts + static_cast<size_t>(route.choice[b])];
    }
};

struct gate_backward_body {
    float *dx;
    float *dlogits;
    const float *dy;
    const float *x;
    struct ddp_route route;
    size_t columns;

    __device__ void run(size_t b) const
    {
        const float *probs = route.probs + b * route.experts;
        const size_t choice = static_cast<size_t>(route.choice[b]);
        const float weight = probs[choice];
        row_sum dots;
        float dweight;

        for (size_t o = 0; o < columns; o++) {
            dots.add(o, dy[b * columns + o] * x[b * columns + o]);
            dx[b * columns + o] = dy[b * columns + o] * weight;
        }
        dweight = dots.total() * weight;
        for (size_t e = 0; e < route.experts; e++) {
            dlogits[b * route.experts + e] = dweight * ((e == choice ? 1.0F : 0.0F) - probs[e]);
        }
    }
};

static ddp_status cuda_normalize_columns(struct ddp_device *device, struct ddp_stream *stream,
                                         float *y, const struct ddp_moments *moments,
                                         const float *x, size_t rows, size_t columns, float eps)
{
    return ddp_cuda_index(
        device, stream,
        columns_body{y, moments->mean, moments->variance, moments->inverse, x, rows, columns, eps},
        columns);
}

static ddp_status cuda_normalize_columns_backward(struct ddp_device *device,
                                                  struct ddp_stream *stream, float *dx,
                                                  const float *dy, const float *y,
                                                  const float *inverse, size_t rows, size_t columns)
{
    return ddp_cuda_index(device, stream, columns_backward_body{dx, dy, y, inverse, rows, columns},
                          columns);
}

static ddp_status cuda_standardize_columns(struct ddp_device *device, struct ddp_stream *stream,
                                           float *y, const float *x, const float *mean,
                                           const float *inverse, size_t rows, size_t columns)
{
    return ddp_cuda_index(device, stream, standardize_body{y, x, mean, inverse, columns},
                          rows * columns);
}

static ddp_status cuda_standardize_columns_backward(struct ddp_device *device,
                                                    struct ddp_stream *stream, float *dx,
                                                    const float *dy, const float *y,
                                                    const struct ddp_column_sums *sums, size_t rows,
                                                    size_t columns)
{
    return ddp_cuda_index(device, stream, standardize_backward_body{dx, dy, y, *sums, columns},
                          rows * columns);
}

static ddp_status cuda_normalize_rows(struct ddp_device *device, struct ddp_stream *stream,
                                      float *y, float *inverse, const float *x, size_t rows,
                                      size_t columns, float eps)
{
    return ddp_cuda_index(device, stream, rows_body{y, inverse, x, columns, eps}, rows);
}

static ddp_status cuda_normalize_rows_backward(struct ddp_device *device, struct ddp_stream *stream,
                                               float *dx, const float *dy, const float *y,
                                               const float *inverse, size_t rows, size_t columns)
{
    return ddp_cuda_index(device, stream, rows_backward_body{dx, dy, y, inverse, columns}, rows);
}

static ddp_status cuda_softmax_causal(struct ddp_device *device, struct ddp_stream *stream,
                                      float *y, const float *x, size_t rows, size_t columns,
                                      float scale)
{
    return ddp_cuda_index(device, stream, causal_body{y, x, columns, scale}, rows);
}

static ddp_status cuda_softmax_causal_backward(struct ddp_device *device, struct ddp_stream *stream,
                                               float *dx, const float *dy, const float *y,
                                               size_t rows, size_t columns, float scale)
{
    return ddp_cuda_index(device, stream, causal_backward_body{dx, dy, y, columns, scale}, rows);
}

static ddp_status cuda_route(struct ddp_device *device, struct ddp_stream *stream, float *probs,
                             int32_t *choice, const float *x, size_t rows, size_t experts)
{
    return ddp_cuda_index(device, stream, route_body{probs, choice, x, experts}, rows);
}

static ddp_status cuda_gate(struct ddp_device *device, struct ddp_stream *stream, float *y,
                            const float *x, const struct ddp_route *route, size_t columns)
{
    return ddp_cuda_index(device, stream, gate_body{y, x, *route, columns}, route->rows * columns);
}

static ddp_status cuda_gate_backward(struct ddp_device *device, struct ddp_stream *stream,
                                     float *dx, float *dlogits, const float *dy, const float *x,
                                     const struct ddp_route *route, size_t columns)
{
    return ddp_cuda_index(device, stream, gate_backward_body{dx, dlogits, dy, x, *route, columns},
                          route->rows);
}

static struct ddp_layer_ops make_ops()
{
    struct ddp_layer_ops ops = {};

    ops.normalize_columns = cuda_normalize_columns;
    ops.normalize_columns_backward = cuda_normalize_columns_backward;
    ops.standardize_columns = cuda_standardize_columns;
    ops.standardize_columns_backward = cuda_standardize_columns_backward;
    ops.normalize_rows = cuda_normalize_rows;
    ops.normalize_rows_backward = cuda_normalize_rows_backward;
    ops.softmax_causal = cuda_softmax_causal;
    ops.softmax_causal_backward = cuda_softmax_causal_backward;
    ops.route = cuda_route;
    ops.gate = cuda_gate;
    ops.gate_backward = cuda_gate_backward;
    ddp_cuda_moves_fill_ops(&ops);
    return ops;
}

static const struct ddp_layer_ops layer_ops = make_ops();

const struct ddp_layer_ops *ddp_cuda_layers()
{
    return &layer_ops;
}

ddp_status ddp_cuda_layers_preload(ddp_cuda_device *cuda)
{
    DDP_TRY(ddp_cuda_preload(cuda, ddp_cuda_index_kernel<columns_body>));
    DDP_TRY(ddp_cuda_preload(cuda, ddp_cuda_index_kernel<standardize_body>));
    DDP_TRY(ddp_cuda_preload(cuda, ddp_cuda_index_kernel<standardize_backward_body>));
    DDP_TRY(ddp_cuda_preload(cuda, ddp_cuda_index_kernel<columns_backward_body>));
    DDP_TRY(ddp_cuda_preload(cuda, ddp_cuda_index_kernel<rows_body>));
    DDP_TRY(ddp_cuda_preload(cuda, ddp_cuda_index_kernel<rows_backward_body>));
    DDP_TRY(ddp_cuda_preload(cuda, ddp_cuda_index_kernel<causal_body>));
    DDP_TRY(ddp_cuda_preload(cuda, ddp_cuda_index_kernel<causal_backward_body>));
    DDP_TRY(ddp_cuda_preload(cuda, ddp_cuda_index_kernel<route_body>));
    DDP_TRY(ddp_cuda_preload(cuda, ddp_cuda_index_kernel<gate_body>));
    DDP_TRY(ddp_cuda_preload(cuda, ddp_cuda_index_kernel<gate_backward_body>));
    return ddp_cuda_moves_preload(cuda);
}
