/* Scaling and conversion between all float dtypes. */
#include "ddpcore/cuda/intrinsic.cuh"
#include "ddpcore/cuda/launch.cuh"
#include "ddpcore/cuda/state.cuh"

/* An element times the factor: in fp32, and between doubles in fp64. */
template <typename Target, typename Source> struct scale_product {
    typedef float factor_type;
    static __device__ void apply(Target *out, Source in, float factor)
    {
        ddp_cuda_narrow(out, ddp_cuda_widen(in) * factor);
    }
};
template <> struct scale_product<double, double> {
    typedef double factor_type;
    static __device__ void apply(double *out, double in, double factor)
    {
        *out = in * factor;
    }
};

template <typename Target, typename Source> struct scale_body {
    /* The wider type moves 16 bytes an access. */
    static constexpr size_t WIDTH =
        16 / (sizeof(Target) > sizeof(Source) ? sizeof(Target) : sizeof(Source));
    Target *target;
    const Source *source;
    typename scale_product<Target, Source>::factor_type factor;
    bool is_source_aligned; /* where the target is */

    template <size_t N> __device__ void apply(size_t first) const
    {
        ddp_cuda_pack<Source, N> in;
        ddp_cuda_pack<Target, N> out;

        if (is_source_aligned) {
            in = ddp_cuda_load<Source, N>(source + first);
        } else {
            DDP_CUDA_UNROLL
            for (size_t j = 0; j < N; j++) {
                in.elem[j] = source[first + j];
            }
        }
        DDP_CUDA_UNROLL
        for (size_t j = 0; j < N; j++) {
            scale_product<Target, Source>::apply(&out.elem[j], in.elem[j], factor);
        }
        ddp_cuda_store<Target, N>(target + first, out);
    }
};

struct scale_call {
    void *target;
    const void *source;
    size_t elem_count;
    double factor;
    cudaStream_t stream;
    bool is_preload; /* load the kernel, run nothing */
};

template <typename Target, typename Source>
static ddp_status run(ddp_cuda_device *cuda, const scale_call &call)
{
    typedef scale_body<Target, Source> body_type;
    body_type body = {static_cast<Target *>(call.target), static_cast<const Source *>(call.source),
                      static_cast<typename scale_product<Target, Source>::factor_type>(call.factor),
                      false};
    size_t head;

    if (call.is_preload) {
        return ddp_cuda_preload(cuda, ddp_cuda_each_kernel<body_type>);
    }
    head = ddp_cuda_elems_to_align(body.target, sizeof(Target), body_type::WIDTH * sizeof(Target));
    body.is_source_aligned = ddp_cuda_elems_to_align(body.source, sizeof(Source),
                                                     body_type::WIDTH * sizeof(Source)) == head;
    return ddp_cuda_each(cuda, body, call.elem_count, head, true, call.stream);
}

template <typename Target>
static ddp_status run_source(ddp_cuda_device *cuda, enum ddp_dtype source, const scale_call &call)
{
    switch (source) {
    case DDP_DTYPE_F32:
        return run<Target, float>(cuda, call);
    case DDP_DTYPE_F16:
        return run<Target, ddp_cuda_f16>(cuda, call);
    case DDP_DTYPE_BF16:
        return run<Target, ddp_cuda_bf16>(cuda, call);
    case DDP_DTYPE_F64:
        return run<Target, double>(cuda, call);
    default:
        return DDP_E_INVALID;
    }
}

static ddp_status run_target(ddp_cuda_device *cuda, enum ddp_dtype target, enum ddp_dtype source,
                             const scale_call &call)
{
    switch (target) {
    case DDP_DTYPE_F32:
        return run_source<float>(cuda, source, call);
    case DDP_DTYPE_F16:
        return run_source<ddp_cuda_f16>(cuda, source, call);
    case DDP_DTYPE_BF16:
        return run_source<ddp_cuda_bf16>(cuda, source, call);
    case DDP_DTYPE_F64:
        return run_source<double>(cuda, source, call);
    default:
        return DDP_E_INVALID;
    }
}

ddp_status ddp_cuda_scale(struct ddp_device *device, struct ddp_stream *stream, void *target,
                          enum ddp_dtype target_dtype, const void *source,
                          enum ddp_dtype source_dtype, size_t elem_count, double factor)
{
    ddp_cuda_device *cuda = ddp_cuda_of(device);
    scale_call call = {target, source, elem_count, factor, NULL, false};

    DDP_TRY(ddp_cuda_enter_stream(cuda, stream, &call.stream));
    return run_target(cuda, target_dtype, source_dtype, call);
}

ddp_status ddp_cuda_scale_preload(ddp_cuda_device *cuda)
{
    static const enum ddp_dtype floats[] = {DDP_DTYPE_F32, DDP_DTYPE_F16, DDP_DTYPE_BF16,
                                            DDP_DTYPE_F64};
    const scale_call call = {NULL, NULL, 0, 0.0, NULL, true};

    for (enum ddp_dtype target : floats) {
        for (enum ddp_dtype source : floats) {
            DDP_TRY(run_target(cuda, target, source, call));
        }
    }
    return DDP_OK;
}
