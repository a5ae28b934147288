/* What it takes to read a buffer once, with nothing but loads, and what a projection of it takes:
 * how cheap judging every call can become at best. One thread, buffers that lie in a cache as they
 * do behind a collective. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ddpcore/base/clock.h"
#include "harness/guest/observe/project.h"

enum { ROUNDS = 400 };
#define MIB ((size_t)1 << 20)

typedef uint64_t words __attribute__((vector_size(32), aligned(32), may_alias));

static volatile uint64_t sink;

/* As wide as this processor loads, if the compiler may: four at a time, so that nothing waits. */
#ifdef __x86_64__
__attribute__((target_clones("avx2", "default")))
#endif
static void
read_all(const void *data, size_t size_bytes)
{
    const words *word = data;
    words sum[4] = {{0}};

    for (size_t i = 0; i < size_bytes / sizeof *word; i += 4) {
        for (size_t k = 0; k < 4; k++) {
            sum[k] ^= word[i + k];
        }
    }
    sum[0] ^= sum[1] ^ sum[2] ^ sum[3];
    sink = sum[0][0] ^ sum[0][1] ^ sum[0][2] ^ sum[0][3];
}

static void project(const void *data, size_t size_bytes, unsigned wanted)
{
    struct guest_projection of = {.sum = 0};

    guest_project(data, size_bytes / sizeof(float), DDPROVE_GUEST_F32, 7, wanted, &of);
    sink = of.hash ^ (uint64_t)of.sum;
}

/* Best of some rounds, in microseconds. wanted 0: only read. */
static double us(const void *data, size_t size_bytes, unsigned wanted)
{
    double best = 1e12;

    for (int round = 0; round < ROUNDS; round++) {
        const uint64_t begin_ns = ddp_clock_now_ns(ddp_clock_monotonic());
        double took;

        if (wanted == 0) {
            read_all(data, size_bytes);
        } else {
            project(data, size_bytes, wanted);
        }
        took = (double)(ddp_clock_now_ns(ddp_clock_monotonic()) - begin_ns) * 1e-3;
        best = took < best ? took : best;
    }
    return best;
}

int main(void)
{
    float *data = aligned_alloc(64, 16 * MIB);

    if (data == NULL) {
        return 1;
    }
    for (size_t i = 0; i < 16 * MIB / sizeof *data; i++) {
        data[i] = (float)(i % 1000);
    }
    (void)printf("one buffer, one thread; us         read alone   what goes in   what comes out\n");
    for (size_t size_bytes = MIB / 4; size_bytes <= 16 * MIB; size_bytes *= 4) {
        (void)printf("  %5zu KiB %33.1f %14.1f %16.1f\n", size_bytes / 1024,
                     us(data, size_bytes, 0),
                     us(data, size_bytes, GUEST_PROJECT_SUM | GUEST_PROJECT_MAGNITUDE),
                     us(data, size_bytes, GUEST_PROJECT_SUM | GUEST_PROJECT_HASH));
    }
    free(data);
    return 0;
}
