/* Kernels over rows and columns of matrices: biases, column sums, losses. A sum runs in the order
 * that math.h states, so it is the work of one thread, whose loads are kept ahead of its additions;
 * the softmax, whose order is free, is the work of a warp with a fixed tree. */
#include <cmath>

#include "ddpcore/cuda/intrinsic.cuh"
#include "ddpcore/cuda/launch.cuh"
#include "ddpcore/cuda/state.cuh"

static constexpr size_t LOADS_AHEAD = 16;
static constexpr size_t BROADCAST_LOADS = 4;

struct broadcast_args {
    float *y;
    const float *x;
    const float *v; /* one a column */
    size_t elem_count, columns;
};

/* y[i] = x[i] + v[i % columns], or times. The column is carried along: a division costs more than
 * the element. */
template <bool IS_PRODUCT>
static __global__ void __launch_bounds__(DDP_CUDA_BLOCK_WIDE) broadcast_kernel(broadcast_args args)
{
    const size_t stride = ddp_cuda_thread_count();
    const size_t step = stride % args.columns;
    size_t column = ddp_cuda_thread() % args.columns;

    for (size_t i = ddp_cuda_thread(); i < args.elem_count; i += BROADCAST_LOADS * stride) {
        float x[BROADCAST_LOADS];
        float v[BROADCAST_LOADS];
        DDP_CUDA_UNROLL
        for (size_t j = 0; j < BROADCAST_LOADS; j++) {
            size_t at = i + j * stride;
            x[j] = at < args.elem_count ? args.x[at] : 0.0F;
            v[j] = args.v[column];
            column += step;
            column -= column >= args.columns ? args.columns : 0;
        }
        DDP_CUDA_UNROLL
        for (size_t j = 0; j < BROADCAST_LOADS; j++) {
            size_t at = i + j * stride;
            if (at < args.elem_count) {
                args.y[at] = IS_PRODUCT ? x[j] * v[j] : x[j] + v[j];
            }
        }
    }
}

template <bool IS_PRODUCT>
static ddp_status run_broadcast(struct ddp_device *device, struct ddp_stream *stream, float *y,
                                const float *x, const float *v, size_t rows, size_t columns)
{
    ddp_cuda_device *cuda = ddp_cuda_of(device);
    const broadcast_args args = {y, x, v, rows * columns, columns};
    cudaStream_t handle;

    DDP_TRY(ddp_cuda_enter_stream(cuda, stream, &handle));
    if (args.elem_count == 0) {
        return DDP_OK;
    }
    return ddp_cuda_launch(cuda, broadcast_kernel<IS_PRODUCT>, args, args.elem_count,
                           DDP_CUDA_BLOCK_WIDE, handle);
}

static ddp_status cuda_add_bias(struct ddp_device *device, struct ddp_stream *stream, float *y,
                                const float *x, const float *bias, size_t rows, size_t columns)
{
    return run_broadcast<false>(device, stream, y, x, bias, rows, columns);
}

static ddp_status cuda_scale_columns(struct ddp_device *device, struct ddp_stream *stream, float *y,
                                     const float *x, const float *factor, size_t rows,
                                     size_t columns)
{
    return run_broadcast<true>(device, stream, y, x, factor, rows, columns);
}

struct column_args {
    float *target;
    const float *x;
    const float *y; /* NULL: plain sums */
    size_t rows, columns;
    bool is_accumulate;
};

template <bool IS_DOT>
static __device__ __forceinline__ float column_term(const column_args &args, size_t at)
{
    return IS_DOT ? args.x[at] * args.y[at] : args.x[at];
}

template <bool IS_DOT>
static __global__ void __launch_bounds__(DDP_CUDA_BLOCK_NARROW) column_kernel(column_args args)
{
    for (size_t o = ddp_cuda_thread(); o < args.columns; o += ddp_cuda_thread_count()) {
        float sum = args.rows > 0 ? column_term<IS_DOT>(args, o) : 0.0F;
        size_t b = 1;

        for (; b + LOADS_AHEAD <= args.rows; b += LOADS_AHEAD) {
            float terms[LOADS_AHEAD];
            DDP_CUDA_UNROLL
            for (size_t j = 0; j < LOADS_AHEAD; j++) {
                terms[j] = column_term<IS_DOT>(args, (b + j) * args.columns + o);
            }
            DDP_CUDA_UNROLL
            for (size_t j = 0; j < LOADS_AHEAD; j++) {
                sum += terms[j];
            }
        }
        for (; b < args.rows; b++) {
            sum += column_term<IS_DOT>(args, b * args.columns + o);
        }
        args.target[o] = args.is_accumulate ? args.target[o] + sum : sum;
    }
}

template <bool IS_DOT>
static ddp_status run_columns(struct ddp_device *device, struct ddp_stream *stream,
                              const column_args &args)
{
    ddp_cuda_device *cuda = ddp_cuda_of(device);
    cudaStream_t handle;

    DDP_TRY(ddp_cuda_enter_stream(cuda, stream, &handle));
    if (args.columns == 0) {
        return DDP_OK;
    }
    return ddp_cuda_launch(cuda, column_kernel<IS_DOT>, args, args.columns, DDP_CUDA_BLOCK_NARROW,
                           handle);
}

static ddp_status cuda_sum_rows(struct ddp_device *device, struct ddp_stream *stream, float *target,
                                const float *x, size_t rows, size_t columns, bool is_accumulate)
{
    return run_columns<false>(device, stream,
                              column_args{target, x, NULL, rows, columns, is_accumulate});
}

static ddp_status cuda_dot_columns(struct ddp_device *device, struct ddp_stream *stream,
                                   float *target, const float *x, const float *y, size_t rows,
                                   size_t columns, bool is_accumulate)
{
    return run_columns<true>(device, stream,
                             column_args{target, x, y, rows, columns, is_accumulate});
}

struct softmax_args {
    struct ddp_loss loss;
    const int32_t *labels;
};

/* The sum of all lanes, the same bits in each: x + y and y + x agree. */
static __device__ __forceinline__ float warp_sum(float value)
{
    DDP_CUDA_UNROLL
    for (int mask = DDP_CUDA_WARP_LANES / 2; mask > 0; mask /= 2) {
        value += ddp_cuda_swap_lanes(value, mask);
    }
    return value;
}

/* The maximum ignores NaNs: a NaN reaches the row's result through its exponential. */
static __device__ __forceinline__ float warp_max(float value)
{
    DDP_CUDA_UNROLL
    for (int mask = DDP_CUDA_WARP_LANES / 2; mask > 0; mask /= 2) {
        float other = ddp_cuda_swap_lanes(value, mask);
        value = other > value ? other : value;
    }
    return value;
}

static __device__ void softmax_row(const softmax_args &args, size_t row, unsigned lane)
{
    const struct ddp_loss &l = args.loss;
    const float *x = l.x + row * l.columns;
    const int32_t label = args.labels[row];
    /* The host cannot check labels in the device's memory, so a wrong one gives NaN. */
    const bool is_label = label >= 0 && static_cast<size_t>(label) < l.columns;
    float top = -INFINITY;
    float sum = 0.0F;

    for (size_t o = lane; o < l.columns; o += DDP_CUDA_WARP_LANES) {
        top = x[o] > top ? x[o] : top;
    }
    top = warp_max(top);
    for (size_t o = lane; o < l.columns; o += DDP_CUDA_WARP_LANES) {
        sum += expf(x[o] - top);
    }
    sum = warp_sum(sum);
    for (size_t o = lane; l.dx != NULL && o < l.columns; o += DDP_CUDA_WARP_LANES) {
        float hot = o == static_cast<size_t>(label) ? 1.0F : 0.0F;
        float slope = (expf(x[o] - top) / sum - hot) * l.scale;
        l.dx[row * l.columns + o] = is_label ? slope : NAN;
    }
    if (lane == 0 && l.losses != NULL) {
        l.losses[row] = is_label ? logf(sum) - (x[label] - top) : NAN;
    }
}

static __global__ void __launch_bounds__(DDP_CUDA_BLOCK_NARROW) softmax_kernel(softmax_args args)
{
    const size_t warp_count = ddp_cuda_thread_count() / DDP_CUDA_WARP_LANES;
    const unsigned lane = threadIdx.x % DDP_CUDA_WARP_LANES;

    for (size_t row = ddp_cuda_thread() / DDP_CUDA_WARP_LANES; row < args.loss.rows;
         row += warp_count) {
        softmax_row(args, row, lane);
    }
}

static ddp_status cuda_softmax_cross_entropy(struct ddp_device *device, struct ddp_stream *stream,
                                             const struct ddp_loss *loss, const int32_t *labels)
{
    ddp_cuda_device *cuda = ddp_cuda_of(device);
    cudaStream_t handle;

    DDP_TRY(ddp_cuda_enter_stream(cuda, stream, &handle));
    if (loss->rows == 0) {
        return DDP_OK;
    }
    if (loss->columns == 0) {
        return DDP_E_INVALID;
    }
    return ddp_cuda_launch_warp(cuda, softmax_kernel, softmax_args{*loss, labels}, loss->rows,
                                handle);
}

struct squared_args {
    struct ddp_loss loss;
    const float *target;
};

/* Adds N terms to the row's sum, from element `at` on. */
template <size_t N>
static __device__ __forceinline__ float squared_terms(const squared_args &args, size_t at,
                                                      float sum)
{
    float errors[N];

    DDP_CUDA_UNROLL
    for (size_t j = 0; j < N; j++) {
        errors[j] = args.loss.x[at + j] - args.target[at + j];
    }
    DDP_CUDA_UNROLL
    for (size_t j = 0; j < N; j++) {
        sum += errors[j] * errors[j];
        if (args.loss.dx != NULL) {
            args.loss.dx[at + j] = errors[j] * args.loss.scale;
        }
    }
    return sum;
}

static __global__ void __launch_bounds__(DDP_CUDA_BLOCK_NARROW) squared_kernel(squared_args args)
{
    const struct ddp_loss &l = args.loss;

    for (size_t b = ddp_cuda_thread(); b < l.rows; b += ddp_cuda_thread_count()) {
        const size_t end = (b + 1) * l.columns;
        size_t at = b * l.columns;
        float sum = 0.0F;

        for (; at + LOADS_AHEAD <= end; at += LOADS_AHEAD) {
            sum = squared_terms<LOADS_AHEAD>(args, at, sum);
        }
        for (; at < end; at++) {
            sum = squared_terms<1>(args, at, sum);
        }
        if (l.losses != NULL) {
            l.losses[b] = 0.5F * sum;
        }
    }
}

static ddp_status cuda_squared_error(struct ddp_device *device, struct ddp_stream *stream,
                                     const struct ddp_loss *loss, const float *target)
{
    ddp_cuda_device *cuda = ddp_cuda_of(device);
    cudaStream_t handle;

    DDP_TRY(ddp_cuda_enter_stream(cuda, stream, &handle));
    if (loss->rows == 0) {
        return DDP_OK;
    }
    return ddp_cuda_launch(cuda, squared_kernel, squared_args{*loss, target}, loss->rows,
                           DDP_CUDA_BLOCK_NARROW, handle);
}

void ddp_cuda_rows_fill_ops(struct ddp_math_ops *ops)
{
    ops->add_bias = cuda_add_bias;
    ops->scale_columns = cuda_scale_columns;
    ops->sum_rows = cuda_sum_rows;
    ops->dot_columns = cuda_dot_columns;
    ops->softmax_cross_entropy = cuda_softmax_cross_entropy;
    ops->squared_error = cuda_squared_error;
}

ddp_status ddp_cuda_rows_preload(ddp_cuda_device *cuda)
{
    DDP_TRY(ddp_cuda_preload(cuda, broadcast_kernel<false>));
    DDP_TRY(ddp_cuda_preload(cuda, broadcast_kernel<true>));
    DDP_TRY(ddp_cuda_preload(cuda, column_kernel<false>));
    DDP_TRY(ddp_cuda_preload(cuda, column_kernel<true>));
    DDP_TRY(ddp_cuda_preload(cuda, softmax_kernel));
    return ddp_cuda_preload(cuda, squared_kernel);
}
