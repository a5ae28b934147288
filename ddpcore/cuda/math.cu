/* Elementwise kernels of models and optimizers, rounded where math.h says (--fmad=false). */
#include <cmath>

#include "ddpcore/cuda/intrinsic.cuh"
#include "ddpcore/cuda/launch.cuh"
#include "ddpcore/cuda/state.cuh"

enum { PACK_ELEMS = 4, PACK_BYTES = 16 };

/* target[i] = operation(first[i], second[i]) */
template <typename Operation> struct binary_body {
    static constexpr size_t WIDTH = PACK_ELEMS;
    float *target;
    const float *first_operand;
    const float *second_operand;
    Operation operation;

    template <size_t N> __device__ void apply(size_t first) const
    {
        ddp_cuda_pack<float, N> a = ddp_cuda_load<float, N>(first_operand + first);
        ddp_cuda_pack<float, N> b = ddp_cuda_load<float, N>(second_operand + first);
        DDP_CUDA_UNROLL
        for (size_t j = 0; j < N; j++) {
            a.elem[j] = operation.run(a.elem[j], b.elem[j]);
        }
        ddp_cuda_store<float, N>(target + first, a);
    }
};

struct relu_operation {
    __device__ float run(float x, float) const
    {
        return x <= 0.0F ? 0.0F : x;
    }
};

struct relu_backward_operation {
    __device__ float run(float dy, float y) const
    {
        return y > 0.0F ? dy : 0.0F;
    }
};

struct axpy_operation {
    float alpha;
    __device__ float run(float target, float x) const
    {
        return target + alpha * x;
    }
};

struct sgd_operation {
    float lr, weight_decay;
    __device__ float run(float param, float grad) const
    {
        float d = grad + weight_decay * param;
        return param - lr * d;
    }
};

struct momentum_body {
    static constexpr size_t WIDTH = PACK_ELEMS;
    float *param;
    const float *grad;
    float *buffer;
    struct ddp_sgd config;
    float keep; /* 1 - dampening */

    template <size_t N> __device__ void apply(size_t first) const
    {
        ddp_cuda_pack<float, N> p = ddp_cuda_load<float, N>(param + first);
        ddp_cuda_pack<float, N> g = ddp_cuda_load<float, N>(grad + first);
        ddp_cuda_pack<float, N> b = ddp_cuda_load<float, N>(buffer + first);
        DDP_CUDA_UNROLL
        for (size_t j = 0; j < N; j++) {
            float d = g.elem[j] + config.weight_decay * p.elem[j];
            float moved = config.momentum * b.elem[j] + keep * d;
            float next = config.is_first_step ? d : moved;
            float looked_ahead = d + config.momentum * next;
            b.elem[j] = next;
            p.elem[j] = p.elem[j] - config.lr * (config.nesterov ? looked_ahead : next);
        }
        ddp_cuda_store<float, N>(buffer + first, b);
        ddp_cuda_store<float, N>(param + first, p);
    }
};

struct adamw_body {
    static constexpr size_t WIDTH = PACK_ELEMS;
    float *param;
    const float *grad;
    float *m;
    float *v;
    float beta1, beta2, eps;
    float shrink, rest1, rest2, step, root2;

    template <size_t N> __device__ void apply(size_t first) const
    {
        ddp_cuda_pack<float, N> p = ddp_cuda_load<float, N>(param + first);
        ddp_cuda_pack<float, N> g = ddp_cuda_load<float, N>(grad + first);
        ddp_cuda_pack<float, N> ms = ddp_cuda_load<float, N>(m + first);
        ddp_cuda_pack<float, N> vs = ddp_cuda_load<float, N>(v + first);
        DDP_CUDA_UNROLL
        for (size_t j = 0; j < N; j++) {
            float decayed = p.elem[j] * shrink;
            float m_next = beta1 * ms.elem[j] + rest1 * g.elem[j];
            float v_next = beta2 * vs.elem[j] + rest2 * (g.elem[j] * g.elem[j]);
            float denominator = sqrtf(v_next) / root2 + eps;
            ms.elem[j] = m_next;
            vs.elem[j] = v_next;
            p.elem[j] = decayed - step * (m_next / denominator);
        }
        ddp_cuda_store<float, N>(m + first, ms);
        ddp_cuda_store<float, N>(v + first, vs);
        ddp_cuda_store<float, N>(param + first, p);
    }
};

/* Elements before all the arrays are aligned; *is_packable: whether they ever are together. */
static size_t common_head(const float *const *arrays, size_t count, bool *is_packable)
{
    size_t head = ddp_cuda_elems_to_align(arrays[0], sizeof(float), PACK_BYTES);

    *is_packable = true;
    for (size_t i = 1; i < count; i++) {
        *is_packable =
            *is_packable && ddp_cuda_elems_to_align(arrays[i], sizeof(float), PACK_BYTES) == head;
    }
    return head;
}

template <typename Body, size_t COUNT>
static ddp_status run(struct ddp_device *device, struct ddp_stream *stream, const Body &body,
                      const float *const (&arrays)[COUNT], size_t elem_count)
{
    ddp_cuda_device *cuda = ddp_cuda_of(device);
    cudaStream_t handle;
    bool is_packable;
    size_t head = common_head(arrays, COUNT, &is_packable);

    DDP_TRY(ddp_cuda_enter_stream(cuda, stream, &handle));
    return ddp_cuda_each(cuda, body, elem_count, head, is_packable, handle);
}

template <typename Operation>
static ddp_status run_binary(struct ddp_device *device, struct ddp_stream *stream, float *target,
                             const float *a, const float *b, const Operation &operation,
                             size_t elem_count)
{
    const float *const arrays[] = {target, a, b};
    const binary_body<Operation> body = {target, a, b, operation};

    return run(device, stream, body, arrays, elem_count);
}

static ddp_status cuda_relu(struct ddp_device *device, struct ddp_stream *stream, float *y,
                            const float *x, size_t elem_count)
{
    return run_binary(device, stream, y, x, x, relu_operation(), elem_count);
}

static ddp_status cuda_relu_backward(struct ddp_device *device, struct ddp_stream *stream,
                                     float *dx, const float *dy, const float *y, size_t elem_count)
{
    return run_binary(device, stream, dx, dy, y, relu_backward_operation(), elem_count);
}

static ddp_status cuda_axpy(struct ddp_device *device, struct ddp_stream *stream, float *target,
                            const float *x, float alpha, size_t elem_count)
{
    return run_binary(device, stream, target, target, x, axpy_operation{alpha}, elem_count);
}

static ddp_status cuda_sgd(struct ddp_device *device, struct ddp_stream *stream,
                           const struct ddp_sgd *config, float *param, const float *grad,
                           float *momentum_buffer, size_t elem_count)
{
    const float *const arrays[] = {param, grad, momentum_buffer};
    const momentum_body body = {param, grad, momentum_buffer, *config, 1.0F - config->dampening};

    if (config->momentum == 0.0F) {
        return run_binary(device, stream, param, param, grad,
                          sgd_operation{config->lr, config->weight_decay}, elem_count);
    }
    return run(device, stream, body, arrays, elem_count);
}

static ddp_status cuda_adamw(struct ddp_device *device, struct ddp_stream *stream,
                             const struct ddp_adamw *config, float *param, const float *grad,
                             float *m, float *v, size_t elem_count)
{
    const float *const arrays[] = {param, grad, m, v};
    const struct ddp_adamw c = *config;
    adamw_body body = {};

    body.param = param;
    body.grad = grad;
    body.m = m;
    body.v = v;
    body.beta1 = c.beta1;
    body.beta2 = c.beta2;
    body.eps = c.eps;
    body.shrink = 1.0F - c.lr * c.weight_decay;
    body.rest1 = 1.0F - c.beta1;
    body.rest2 = 1.0F - c.beta2;
    body.step = c.lr / c.bias_correction1;
    body.root2 = std::sqrt(c.bias_correction2);
    return run(device, stream, body, arrays, elem_count);
}

static struct ddp_math_ops make_ops()
{
    struct ddp_math_ops ops = {};

    ops.gemm = ddp_cuda_gemm;
    ops.relu = cuda_relu;
    ops.relu_backward = cuda_relu_backward;
    ops.axpy = cuda_axpy;
    ops.sgd = cuda_sgd;
    ops.adamw = cuda_adamw;
    ddp_cuda_rows_fill_ops(&ops);
    return ops;
}

static const struct ddp_math_ops math_ops = make_ops();

const struct ddp_math_ops *ddp_cuda_math()
{
    return &math_ops;
}

ddp_status ddp_cuda_math_preload(ddp_cuda_device *cuda)
{
    DDP_TRY(ddp_cuda_preload(cuda, ddp_cuda_each_kernel<binary_body<relu_operation>>));
    DDP_TRY(ddp_cuda_preload(cuda, ddp_cuda_each_kernel<binary_body<relu_backward_operation>>));
    DDP_TRY(ddp_cuda_preload(cuda, ddp_cuda_each_kernel<binary_body<axpy_operation>>));
    DDP_TRY(ddp_cuda_preload(cuda, ddp_cuda_each_kernel<binary_body<sgd_operation>>));
    DDP_TRY(ddp_cuda_preload(cuda, ddp_cuda_each_kernel<momentum_body>));
    DDP_TRY(ddp_cuda_preload(cuda, ddp_cuda_each_kernel<adamw_body>));
    return ddp_cuda_rows_preload(cuda);
}
