#include "ddpcore/device/cpu_f16c.h"

#include <stdatomic.h>
#include <stdbool.h>
#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#include <immintrin.h>

/* Not every compiler's __builtin_cpu_supports knows f16c. The instruction is slow on virtual
 * machines, so it is asked once. */
static bool has_f16c(void)
{
    static _Atomic int known; /* 0: not yet; 1: no; 2: yes */
    int is = atomic_load_explicit(&known, memory_order_relaxed);
    unsigned eax = 0;
    unsigned ebx = 0;
    unsigned ecx = 0;
    unsigned edx = 0;

    if (is == 0) {
        is = __builtin_cpu_supports("avx") && __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 &&
                     (ecx & (unsigned)bit_F16C) != 0
                 ? 2
                 : 1;
        atomic_store_explicit(&known, is, memory_order_relaxed);
    }
    return is == 2;
}

__attribute__((target("avx,f16c"))) size_t ddp_cpu_widen_f16c(float *target, const uint16_t *source,
                                                              size_t elem_count)
{
    const bool is_able = elem_count >= 8 && has_f16c();
    size_t i = 0;

    for (; is_able && i + 8 <= elem_count; i += 8) {
        _mm256_storeu_ps(target + i,
                         _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(source + i))));
    }
    return i;
}

__attribute__((target("avx,f16c"))) size_t
ddp_cpu_narrow_f16c(uint16_t *target, const float *source, size_t elem_count)
{
    const bool is_able = elem_count >= 8 && has_f16c();
    size_t i = 0;

    for (; is_able && i + 8 <= elem_count; i += 8) {
        _mm_storeu_si128((__m128i *)(target + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(source + i), _MM_FROUND_TO_NEAREST_INT));
    }
    return i;
}

__attribute__((target("avx,f16c"))) size_t
ddp_cpu_add_f16c(uint16_t *target, const uint16_t *source, size_t elem_count)
{
    const bool is_able = elem_count >= 8 && has_f16c();
    size_t i = 0;

    for (; is_able && i + 8 <= elem_count; i += 8) {
        const __m256 a = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(target + i)));
        const __m256 b = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(source + i)));

        _mm_storeu_si128((__m128i *)(target + i),
                         _mm256_cvtps_ph(_mm256_add_ps(a, b), _MM_FROUND_TO_NEAREST_INT));
    }
    return i;
}

__attribute__((target("avx,f16c"))) size_t
ddp_cpu_scale_f16c(uint16_t *target, const uint16_t *source, float factor, size_t elem_count)
{
    const bool is_able = elem_count >= 8 && has_f16c();
    const __m256 factors = _mm256_set1_ps(factor);
    size_t i = 0;

    for (; is_able && i + 8 <= elem_count; i += 8) {
        const __m256 a = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(source + i)));

        _mm_storeu_si128((__m128i *)(target + i),
                         _mm256_cvtps_ph(_mm256_mul_ps(a, factors), _MM_FROUND_TO_NEAREST_INT));
    }
    return i;
}

__attribute__((target("avx,f16c"))) size_t
ddp_cpu_narrow_scaled_f16c(uint16_t *target, const float *source, float factor, size_t elem_count)
{
    const bool is_able = elem_count >= 8 && has_f16c();
    const __m256 factors = _mm256_set1_ps(factor);
    size_t i = 0;

    for (; is_able && i + 8 <= elem_count; i += 8) {
        const __m256 a = _mm256_mul_ps(_mm256_loadu_ps(source + i), factors);

        _mm_storeu_si128((__m128i *)(target + i), _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT));
    }
    return i;
}

__attribute__((target("avx,f16c"))) size_t
ddp_cpu_widen_scaled_f16c(float *target, const uint16_t *source, float factor, size_t elem_count)
{
    const bool is_able = elem_count >= 8 && has_f16c();
    const __m256 factors = _mm256_set1_ps(factor);
    size_t i = 0;

    for (; is_able && i + 8 <= elem_count; i += 8) {
        const __m256 a = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(source + i)));

        _mm256_storeu_ps(target + i, _mm256_mul_ps(a, factors));
    }
    return i;
}
#else
size_t ddp_cpu_widen_f16c(float *target, const uint16_t *source, size_t elem_count)
{
    (void)target;
    (void)source;
    (void)elem_count;
    return 0;
}

size_t ddp_cpu_narrow_f16c(uint16_t *target, const float *source, size_t elem_count)
{
    (void)target;
    (void)source;
    (void)elem_count;
    return 0;
}

size_t ddp_cpu_add_f16c(uint16_t *target, const uint16_t *source, size_t elem_count)
{
    (void)target;
    (void)source;
    (void)elem_count;
    return 0;
}

size_t ddp_cpu_scale_f16c(uint16_t *target, const uint16_t *source, float factor, size_t elem_count)
{
    (void)target;
    (void)source;
    (void)factor;
    (void)elem_count;
    return 0;
}

size_t ddp_cpu_narrow_scaled_f16c(uint16_t *target, const float *source, float factor,
                                  size_t elem_count)
{
    (void)target;
    (void)source;
    (void)factor;
    (void)elem_count;
    return 0;
}

size_t ddp_cpu_widen_scaled_f16c(float *target, const uint16_t *source, float factor,
                                 size_t elem_count)
{
    (void)target;
    (void)source;
    (void)factor;
    (void)elem_count;
    return 0;
}
#endif
