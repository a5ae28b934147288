/* What kernels need beyond C++: conversions of 16-bit floats, the exchange inside a warp, clocks
 * and fences. Each has a second form for compilers that are not nvcc, which build the same kernels
 * for the tests' stand-in of the CUDA runtime. */
#ifndef DDPCORE_CUDA_INTRINSIC_CUH
#define DDPCORE_CUDA_INTRINSIC_CUH

#include <cmath>
#include <cstdint>
#include <cuda_runtime.h>

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
/* Before a loop of constant length whose arrays are to live in registers. */
#define DDP_CUDA_UNROLL _Pragma("unroll")
#else
#define DDP_CUDA_UNROLL
#include <ctime>

#include "ddpcore/base/dtype.h"
#endif

/* Bits of a 16-bit float. Types of their own, so that templates tell them from uint16_t. */
struct ddp_cuda_f16 {
    uint16_t bits;
};
struct ddp_cuda_bf16 {
    uint16_t bits;
};

__device__ __forceinline__ float ddp_cuda_widen(float value)
{
    return value;
}

__device__ __forceinline__ float ddp_cuda_widen(double value)
{
    return static_cast<float>(value);
}

__device__ __forceinline__ float ddp_cuda_widen(ddp_cuda_f16 value)
{
#ifdef __CUDACC__
    return __half2float(__ushort_as_half(value.bits));
#else
    return ddp_f16_to_f32(value.bits);
#endif
}

__device__ __forceinline__ float ddp_cuda_widen(ddp_cuda_bf16 value)
{
#ifdef __CUDACC__
    return __bfloat162float(__ushort_as_bfloat16(value.bits));
#else
    return ddp_bf16_to_f32(value.bits);
#endif
}

/* *target = round_to_nearest_even(value) */
__device__ __forceinline__ void ddp_cuda_narrow(float *target, float value)
{
    *target = value;
}

__device__ __forceinline__ void ddp_cuda_narrow(double *target, float value)
{
    *target = static_cast<double>(value);
}

__device__ __forceinline__ void ddp_cuda_narrow(ddp_cuda_f16 *target, float value)
{
#ifdef __CUDACC__
    target->bits = __half_as_ushort(__float2half_rn(value));
#else
    target->bits = ddp_f16_from_f32(value);
#endif
}

__device__ __forceinline__ void ddp_cuda_narrow(ddp_cuda_bf16 *target, float value)
{
#ifdef __CUDACC__
    target->bits = __bfloat16_as_ushort(__float2bfloat16_rn(value));
#else
    target->bits = ddp_bf16_from_f32(value);
#endif
}

/* The value of the lane whose number differs by `mask`; all 32 lanes must call it together. */
__device__ __forceinline__ float ddp_cuda_swap_lanes(float value, int mask)
{
    return __shfl_xor_sync(0xffffffffu, value, mask);
}

/* A clock that all kernels share, about a microsecond fine. */
__device__ __forceinline__ uint64_t ddp_cuda_now_ns()
{
#ifdef __CUDACC__
    uint64_t now_ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now_ns));
    return now_ns;
#else
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
#endif
}

/* Read a word that the host changes, and let others use the multiprocessor for about 1 us. */
__device__ __forceinline__ uint32_t ddp_cuda_watch(const uint32_t *word)
{
#ifdef __CUDACC__
    __nanosleep(1000);
    return *reinterpret_cast<const volatile uint32_t *>(word);
#else
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
#endif
}

/* Make `value` visible to the host after everything written before. */
__device__ __forceinline__ void ddp_cuda_publish(uint64_t *word, uint64_t value)
{
#ifdef __CUDACC__
    __threadfence_system();
    *reinterpret_cast<volatile uint64_t *>(word) = value;
#else
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
#endif
}

/* Write where nothing is mapped. */
__device__ __forceinline__ void ddp_cuda_trap(uint64_t address)
{
#ifdef __CUDACC__
    *reinterpret_cast<volatile uint32_t *>(address) = 1u;
#else
    (void)address;
    standin_trap();
#endif
}

#endif
