/* Reduction kernels: every dtype and operation, 16 bytes an access where the target allows it. */
#include "ddpcore/cuda/intrinsic.cuh"
#include "ddpcore/cuda/launch.cuh"
#include "ddpcore/cuda/state.cuh"

/* The operations on the type that computes. fmax and fmin as the CPU device writes them, so that
 * signed zeros agree too: the other operand of a NaN wins. */
struct op_sum {
    template <typename T> static __device__ __forceinline__ T apply(T a, T b)
    {
        return static_cast<T>(a + b);
    }
};
struct op_prod {
    template <typename T> static __device__ __forceinline__ T apply(T a, T b)
    {
        return static_cast<T>(a * b);
    }
};
struct op_max {
    template <typename T> static __device__ __forceinline__ T apply(T a, T b)
    {
        return (a >= b || b != b) ? a : b;
    }
};
struct op_min {
    template <typename T> static __device__ __forceinline__ T apply(T a, T b)
    {
        return (a <= b || b != b) ? a : b;
    }
};

/* 16-bit floats compute in fp32. Signed integers are never added as such: see the table. */
template <typename Op, typename T> __device__ __forceinline__ T combine(T a, T b)
{
    return Op::apply(a, b);
}

template <typename Op, typename T> __device__ __forceinline__ T combine_widened(T a, T b)
{
    T result;

    ddp_cuda_narrow(&result, Op::apply(ddp_cuda_widen(a), ddp_cuda_widen(b)));
    return result;
}

template <typename Op>
__device__ __forceinline__ ddp_cuda_f16 combine(ddp_cuda_f16 a, ddp_cuda_f16 b)
{
    return combine_widened<Op>(a, b);
}

template <typename Op>
__device__ __forceinline__ ddp_cuda_bf16 combine(ddp_cuda_bf16 a, ddp_cuda_bf16 b)
{
    return combine_widened<Op>(a, b);
}

template <typename T, typename Op> struct reduce_body {
    static constexpr size_t WIDTH = 16 / sizeof(T);
    T *target;
    const T *source;
    bool is_source_aligned; /* where the target is */

    template <size_t N> __device__ void apply(size_t first) const
    {
        ddp_cuda_pack<T, N> a = ddp_cuda_load<T, N>(target + first);
        ddp_cuda_pack<T, N> b;

        if (is_source_aligned) {
            b = ddp_cuda_load<T, N>(source + first);
        } else {
            DDP_CUDA_UNROLL
            for (size_t j = 0; j < N; j++) {
                b.elem[j] = source[first + j];
            }
        }
        DDP_CUDA_UNROLL
        for (size_t j = 0; j < N; j++) {
            a.elem[j] = combine<Op>(a.elem[j], b.elem[j]);
        }
        ddp_cuda_store<T, N>(target + first, a);
    }
};

/* What can be asked of one instance. */
struct reduce_call {
    void *target;
    const void *source;
    size_t elem_count;
    cudaStream_t stream;
    bool is_preload; /* load the kernel, run nothing */
};

template <typename T, typename Op>
static ddp_status run(ddp_cuda_device *cuda, const reduce_call &call)
{
    reduce_body<T, Op> body = {static_cast<T *>(call.target), static_cast<const T *>(call.source),
                               false};
    size_t head;

    if (call.is_preload) {
        return ddp_cuda_preload(cuda, ddp_cuda_each_kernel<reduce_body<T, Op>>);
    }
    head = ddp_cuda_elems_to_align(body.target, sizeof(T), 16);
    body.is_source_aligned = head == ddp_cuda_elems_to_align(body.source, sizeof(T), 16);
    return ddp_cuda_each(cuda, body, call.elem_count, head, true, call.stream);
}

/* T orders (max, min); Wrapping adds and multiplies modulo 2^n, which signed integers may not. */
template <typename T, typename Wrapping>
static ddp_status run_op(ddp_cuda_device *cuda, enum ddp_redop op, const reduce_call &call)
{
    switch (op) {
    case DDP_REDOP_SUM:
        return run<Wrapping, op_sum>(cuda, call);
    case DDP_REDOP_PROD:
        return run<Wrapping, op_prod>(cuda, call);
    case DDP_REDOP_MAX:
        return run<T, op_max>(cuda, call);
    case DDP_REDOP_MIN:
        return run<T, op_min>(cuda, call);
    default:
        return DDP_E_INVALID;
    }
}

static ddp_status run_dtype(ddp_cuda_device *cuda, enum ddp_dtype dtype, enum ddp_redop op,
                            const reduce_call &call)
{
    switch (dtype) {
    case DDP_DTYPE_F32:
        return run_op<float, float>(cuda, op, call);
    case DDP_DTYPE_F16:
        return run_op<ddp_cuda_f16, ddp_cuda_f16>(cuda, op, call);
    case DDP_DTYPE_BF16:
        return run_op<ddp_cuda_bf16, ddp_cuda_bf16>(cuda, op, call);
    case DDP_DTYPE_F64:
        return run_op<double, double>(cuda, op, call);
    case DDP_DTYPE_I32:
        return run_op<int32_t, uint32_t>(cuda, op, call);
    case DDP_DTYPE_I64:
        return run_op<int64_t, uint64_t>(cuda, op, call);
    case DDP_DTYPE_U8:
        return run_op<uint8_t, uint8_t>(cuda, op, call);
    default:
        return DDP_E_INVALID;
    }
}

ddp_status ddp_cuda_reduce(struct ddp_device *device, struct ddp_stream *stream, void *target,
                           const void *source, size_t elem_count, enum ddp_dtype dtype,
                           enum ddp_redop op)
{
    ddp_cuda_device *cuda = ddp_cuda_of(device);
    reduce_call call = {target, source, elem_count, NULL, false};

    DDP_TRY(ddp_cuda_enter_stream(cuda, stream, &call.stream));
    return run_dtype(cuda, dtype, op, call);
}

ddp_status ddp_cuda_reduce_preload(ddp_cuda_device *cuda)
{
    const reduce_call call = {NULL, NULL, 0, NULL, true};

    for (int dtype = 0; dtype < DDP_DTYPE_COUNT; dtype++) {
        for (int op = 0; op < DDP_REDOP_COUNT; op++) {
            DDP_TRY(run_dtype(cuda, static_cast<enum ddp_dtype>(dtype),
                              static_cast<enum ddp_redop>(op), call));
        }
    }
    return DDP_OK;
}
