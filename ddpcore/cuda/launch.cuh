/* Launching kernels. A kernel takes one argument, a struct by value, so that a launch is data: nvcc
 * hands it to the CUDA runtime, other compilers to the tests' stand-in for it. */
#ifndef DDPCORE_CUDA_LAUNCH_CUH
#define DDPCORE_CUDA_LAUNCH_CUH

#include <cstddef>
#include <cstdint>
#include <cuda_runtime.h>
#include <type_traits>

#include "ddpcore/cuda/state.cuh"

enum {
    DDP_CUDA_WARP_LANES = 32,
    DDP_CUDA_SM_THREADS = 2048, /* more would only queue behind them: kernels stride */
    /* Threads of a block, for much work and for little work that should reach every
     * multiprocessor. */
    DDP_CUDA_BLOCK_WIDE = 256,
    DDP_CUDA_BLOCK_NARROW = 64
};

/* Enough blocks for thread_count threads, at most as many as the device runs at once. */
static inline dim3 ddp_cuda_grid(const ddp_cuda_device *cuda, size_t thread_count,
                                 unsigned block_threads)
{
    size_t most = static_cast<size_t>(cuda->sm_count) * (DDP_CUDA_SM_THREADS / block_threads);
    size_t wanted = thread_count / block_threads + (thread_count % block_threads != 0 ? 1u : 0u);

    return dim3(static_cast<unsigned>(wanted == 0 ? 1 : wanted < most ? wanted : most));
}

#ifndef __CUDACC__
template <typename Args> void ddp_cuda_call(void (*kernel)(), const void *args)
{
    reinterpret_cast<void (*)(Args)>(kernel)(*static_cast<const Args *>(args));
}
#endif

template <typename Args>
ddp_status ddp_cuda_launch_grid(ddp_cuda_device *cuda, void (*kernel)(Args), const Args &args,
                                dim3 grid, dim3 block, bool is_warp, cudaStream_t stream)
{
    static_assert(std::is_trivially_copyable<Args>::value, "arguments travel as bytes");
#ifdef __CUDACC__
    void *pointers[] = {const_cast<Args *>(&args)};

    (void)is_warp;
    return ddp_cuda_check(
        cuda,
        cudaLaunchKernel(reinterpret_cast<const void *>(kernel), grid, block, pointers, 0, stream),
        "cudaLaunchKernel");
#else
    return ddp_cuda_check(cuda,
                          standin_launch(ddp_cuda_call<Args>, reinterpret_cast<void (*)()>(kernel),
                                         &args, sizeof(args), grid, block, is_warp ? 1 : 0, stream),
                          "cudaLaunchKernel");
#endif
}

/* thread_count threads or fewer, each on its own: see ddp_cuda_thread and ddp_cuda_thread_count.
 * block_threads: DDP_CUDA_BLOCK_... or 1. */
template <typename Args>
ddp_status ddp_cuda_launch(ddp_cuda_device *cuda, void (*kernel)(Args), const Args &args,
                           size_t thread_count, unsigned block_threads, cudaStream_t stream)
{
    return ddp_cuda_launch_grid(cuda, kernel, args,
                                ddp_cuda_grid(cuda, thread_count, block_threads),
                                dim3(block_threads), false, stream);
}

/* warp_count warps or fewer, whose lanes may talk to each other. */
template <typename Args>
ddp_status ddp_cuda_launch_warp(ddp_cuda_device *cuda, void (*kernel)(Args), const Args &args,
                                size_t warp_count, cudaStream_t stream)
{
    return ddp_cuda_launch_grid(
        cuda, kernel, args,
        ddp_cuda_grid(cuda, warp_count * DDP_CUDA_WARP_LANES, DDP_CUDA_BLOCK_NARROW),
        dim3(DDP_CUDA_BLOCK_NARROW), true, stream);
}

__device__ __forceinline__ size_t ddp_cuda_thread()
{
    return static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

__device__ __forceinline__ size_t ddp_cuda_thread_count()
{
    return static_cast<size_t>(gridDim.x) * blockDim.x;
}

/* N neighbours that move in one access of up to 16 bytes. */
template <typename T, size_t N> struct alignas(sizeof(T) * N) ddp_cuda_pack {
    T elem[N];
};

template <typename T, size_t N>
__device__ __forceinline__ ddp_cuda_pack<T, N> ddp_cuda_load(const T *source)
{
    return *reinterpret_cast<const ddp_cuda_pack<T, N> *>(source);
}

template <typename T, size_t N>
__device__ __forceinline__ void ddp_cuda_store(T *target, const ddp_cuda_pack<T, N> &pack)
{
    *reinterpret_cast<ddp_cuda_pack<T, N> *>(target) = pack;
}

/* Elementwise work on [0, elem_count): `head` elements one by one until the data is aligned, then
 * pack_count packs, then the rest one by one. Body has WIDTH and
 * `template <size_t N> __device__ void apply(size_t first) const` for N = 1 and N = WIDTH. */
template <typename Body> struct ddp_cuda_each_args {
    Body body;
    size_t elem_count, head, pack_count;
};

template <typename Body>
__global__ void __launch_bounds__(DDP_CUDA_BLOCK_WIDE)
    ddp_cuda_each_kernel(ddp_cuda_each_args<Body> args)
{
    const size_t packed = args.pack_count * Body::WIDTH;
    const size_t stride = ddp_cuda_thread_count();

    for (size_t p = ddp_cuda_thread(); p < args.pack_count; p += stride) {
        args.body.template apply<Body::WIDTH>(args.head + p * Body::WIDTH);
    }
    for (size_t i = ddp_cuda_thread(); i < args.elem_count - packed; i += stride) {
        args.body.template apply<1>(i < args.head ? i : i + packed);
    }
}

/* Elements of elem_bytes before `data` is a multiple of align_bytes, a power of two. */
static inline size_t ddp_cuda_elems_to_align(const void *data, size_t elem_bytes,
                                             size_t align_bytes)
{
    size_t over = reinterpret_cast<uintptr_t>(data) & (align_bytes - 1);

    return over == 0 ? 0 : (align_bytes - over) / elem_bytes;
}

/* `head` as from ddp_cuda_elems_to_align; is_packable: whether packs are aligned behind it. */
template <typename Body>
ddp_status ddp_cuda_each(ddp_cuda_device *cuda, const Body &body, size_t elem_count, size_t head,
                         bool is_packable, cudaStream_t stream)
{
    ddp_cuda_each_args<Body> args = {body, elem_count, elem_count, 0};
    size_t singles;

    if (elem_count == 0) {
        return DDP_OK;
    }
    if (is_packable && head < elem_count) {
        args.head = head;
        args.pack_count = (elem_count - head) / Body::WIDTH;
    }
    singles = elem_count - args.pack_count * Body::WIDTH;
    return ddp_cuda_launch(cuda, ddp_cuda_each_kernel<Body>, args,
                           args.pack_count > singles ? args.pack_count : singles,
                           DDP_CUDA_BLOCK_WIDE, stream);
}

/* Load a kernel into the device now: its first launch would otherwise do so, which waits for
 * kernels that run, among them collectives that wait for peers. */
template <typename Args> ddp_status ddp_cuda_preload(ddp_cuda_device *cuda, void (*kernel)(Args))
{
    cudaFuncAttributes attributes;

    return ddp_cuda_check(
        cuda, cudaFuncGetAttributes(&attributes, reinterpret_cast<const void *>(kernel)),
        "cudaFuncGetAttributes");
}

#endif
