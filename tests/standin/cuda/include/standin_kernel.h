/* A stand-in for CUDA, for tests on machines without a GPU. Nothing that runs on it is a GPU
 * result.
 *
 * The kernel language as far as ddprove's kernels use it (CUDA C++ Programming Guide, "C++ Language
 * Extensions"). Arithmetic with a rounding suffix rounds once: these files are compiled with
 * -ffp-contract=off on a CPU whose float operations round to nearest even. */
#ifndef TESTS_STANDIN_KERNEL_H
#define TESTS_STANDIN_KERNEL_H

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <ddp_standin.h>
#include <math.h>
#include <sched.h>
#include <type_traits>

#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__    __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
/* A worker runs one block at a time. */
#define __shared__ static thread_local

struct uint3 {
    unsigned x, y, z;
};

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_)
    {
    }
};

inline thread_local uint3 threadIdx;
inline thread_local uint3 blockIdx;
inline thread_local dim3 blockDim;
inline thread_local dim3 gridDim;
constexpr int warpSize = 32;

#define STANDIN_VECTOR(type, base)                                \
    struct alignas(2 * sizeof(base)) type##2                      \
    {                                                             \
        base x, y;                                                \
    };                                                            \
    struct alignas(4 * sizeof(base)) type##4                      \
    {                                                             \
        base x, y, z, w;                                          \
    };                                                            \
    inline type##2 make_##type##2(base x, base y)                 \
    {                                                             \
        return {x, y};                                            \
    }                                                             \
    inline type##4 make_##type##4(base x, base y, base z, base w) \
    {                                                             \
        return {x, y, z, w};                                      \
    }
STANDIN_VECTOR(float, float)
STANDIN_VECTOR(int, int)
STANDIN_VECTOR(uint, unsigned)
STANDIN_VECTOR(ushort, unsigned short)
#undef STANDIN_VECTOR

using std::isfinite;
using std::isinf;
using std::isnan;
using std::max;
using std::min;

inline float __fadd_rn(float a, float b)
{
    return a + b;
}
inline float __fsub_rn(float a, float b)
{
    return a - b;
}
inline float __fmul_rn(float a, float b)
{
    return a * b;
}
inline float __fdiv_rn(float a, float b)
{
    return a / b;
}
inline float __frcp_rn(float a)
{
    return 1.0F / a;
}
inline float __fsqrt_rn(float a)
{
    return sqrtf(a);
}
inline float __fmaf_rn(float a, float b, float c)
{
    return fmaf(a, b, c);
}
inline double __dadd_rn(double a, double b)
{
    return a + b;
}
inline double __dsub_rn(double a, double b)
{
    return a - b;
}
inline double __dmul_rn(double a, double b)
{
    return a * b;
}
inline double __ddiv_rn(double a, double b)
{
    return a / b;
}
inline float __double2float_rn(double a)
{
    return static_cast<float>(a);
}

/* End the kernel as an illegal access does: cudaErrorIllegalAddress sticks to the device. */
[[noreturn]] inline void standin_trap()
{
    ddp_standin_kernel_trap(cudaErrorIllegalAddress);
}

namespace standin
{
inline void select(const ddp_standin_kernel *self, uint64_t block_index, uint32_t thread_index)
{
    gridDim = dim3(self->grid[0], self->grid[1], self->grid[2]);
    blockDim = dim3(self->block[0], self->block[1], self->block[2]);
    threadIdx.x = thread_index % blockDim.x;
    threadIdx.y = thread_index / blockDim.x % blockDim.y;
    threadIdx.z = thread_index / blockDim.x / blockDim.y;
    blockIdx.x = static_cast<unsigned>(block_index % gridDim.x);
    blockIdx.y = static_cast<unsigned>(block_index / gridDim.x % gridDim.y);
    blockIdx.z = static_cast<unsigned>(block_index / gridDim.x / gridDim.y);
}

template <class To, class From> inline To bit_cast(From from)
{
    static_assert(sizeof(To) == sizeof(From), "bit_cast keeps the size");
    To to;
    memcpy(&to, &from, sizeof(to));
    return to;
}

inline uint64_t globaltimer_ns()
{
    return ddp_standin_globaltimer_ns();
}

/* Words of up to 64 bits travel between lanes. */
template <class T> inline uint64_t word_from(T value)
{
    static_assert(sizeof(T) <= sizeof(uint64_t) && std::is_trivially_copyable<T>::value,
                  "lanes exchange plain words");
    uint64_t word = 0;
    memcpy(&word, &value, sizeof(value));
    return word;
}
template <class T> inline T word_to(uint64_t word)
{
    T value;
    memcpy(&value, &word, sizeof(value));
    return value;
}

inline unsigned lane()
{
    return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32U;
}
template <class T> inline T exchange(unsigned mask, T value, unsigned source)
{
    return word_to<T>(ddp_standin_lane_exchange(mask, word_from(value), source));
}
} // namespace standin

inline unsigned __float_as_uint(float a)
{
    return standin::bit_cast<unsigned>(a);
}
inline int __float_as_int(float a)
{
    return standin::bit_cast<int>(a);
}
inline float __uint_as_float(unsigned a)
{
    return standin::bit_cast<float>(a);
}
inline float __int_as_float(int a)
{
    return standin::bit_cast<float>(a);
}

template <class T> inline T __ldg(const T *address)
{
    return *address;
}

/* Shuffles: lanes beyond the segment of `width` lanes read their own value. */
template <class T> inline T __shfl_sync(unsigned mask, T value, int source, int width = 32)
{
    unsigned w = static_cast<unsigned>(width);
    unsigned first = standin::lane() & ~(w - 1U);
    return standin::exchange(mask, value, first + (static_cast<unsigned>(source) & (w - 1U)));
}
template <class T> inline T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32)
{
    unsigned w = static_cast<unsigned>(width);
    unsigned own = standin::lane();
    unsigned source = own ^ static_cast<unsigned>(lanes);
    return standin::exchange(mask, value, source < (own & ~(w - 1U)) + w ? source : own);
}
template <class T> inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32)
{
    unsigned w = static_cast<unsigned>(width);
    unsigned own = standin::lane();
    bool is_inside = (own & (w - 1U)) + delta < w;
    return standin::exchange(mask, value, is_inside ? own + delta : own);
}
template <class T> inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32)
{
    unsigned w = static_cast<unsigned>(width);
    unsigned own = standin::lane();
    bool is_inside = (own & (w - 1U)) >= delta;
    return standin::exchange(mask, value, is_inside ? own - delta : own);
}
inline unsigned __ballot_sync(unsigned mask, int predicate)
{
    return ddp_standin_lane_ballot(mask, predicate != 0);
}
inline int __any_sync(unsigned mask, int predicate)
{
    return __ballot_sync(mask, predicate) != 0;
}
inline int __all_sync(unsigned mask, int predicate)
{
    return __ballot_sync(mask, predicate == 0) == 0;
}
inline void __syncwarp(unsigned mask = 0xffffffffU)
{
    (void)ddp_standin_lane_ballot(mask, true);
}
inline void __syncthreads()
{
    ddp_standin_block_meet();
}

inline void __threadfence_system()
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
inline void __threadfence()
{
    __threadfence_system();
}
inline void __threadfence_block()
{
    __threadfence_system();
}
inline void __nanosleep(unsigned)
{
    sched_yield();
}
[[noreturn]] inline void __trap()
{
    ddp_standin_kernel_trap(cudaErrorLaunchFailure);
}

inline int __popc(unsigned a)
{
    return __builtin_popcount(a);
}
inline int __ffs(int a)
{
    return __builtin_ffs(a);
}
inline int __clz(int a)
{
    return a == 0 ? 32 : __builtin_clz(static_cast<unsigned>(a));
}

/* Atomics are relaxed, as CUDA's, and return the old value. */
template <class T> inline T atomicCAS(T *address, T expected, T value)
{
    __atomic_compare_exchange_n(address, &expected, value, false, __ATOMIC_RELAXED,
                                __ATOMIC_RELAXED);
    return expected;
}
template <class T> inline T atomicExch(T *address, T value)
{
    T old;
    __atomic_exchange(address, &value, &old, __ATOMIC_RELAXED);
    return old;
}
namespace standin
{
template <class T, class Op> inline T atomic_update(T *address, Op op)
{
    T old;
    __atomic_load(address, &old, __ATOMIC_RELAXED);
    for (;;) {
        T next = op(old);
        if (__atomic_compare_exchange(address, &old, &next, false, __ATOMIC_RELAXED,
                                      __ATOMIC_RELAXED)) {
            return old;
        }
    }
}
} // namespace standin
template <class T> inline T atomicAdd(T *address, T value)
{
    return standin::atomic_update(address, [value](T old) { return old + value; });
}
template <class T> inline T atomicMax(T *address, T value)
{
    return standin::atomic_update(address, [value](T old) { return max(old, value); });
}
template <class T> inline T atomicMin(T *address, T value)
{
    return standin::atomic_update(address, [value](T old) { return min(old, value); });
}
template <class T> inline T atomicOr(T *address, T value)
{
    return standin::atomic_update(address, [value](T old) { return old | value; });
}

/* Launch: call(kernel, args) runs once for every thread of every block. is_warp: the threads of a
 * block are alive together, so shuffles and barriers work; otherwise they run one after another. */
extern "C" inline cudaError_t standin_launch(void (*call)(void (*kernel)(), const void *args),
                                             void (*kernel)(), const void *args, size_t args_bytes,
                                             dim3 grid, dim3 block, int is_warp,
                                             cudaStream_t stream)
{
    const ddp_standin_kernel shape = {
        call,         kernel,         {grid.x, grid.y, grid.z}, {block.x, block.y, block.z},
        is_warp != 0, standin::select};
    return ddp_standin_launch(&shape, args, args_bytes, stream);
}

#endif
