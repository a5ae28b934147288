/* What the tests of layers.h share: tensors of random numbers on the device under test. */
#ifndef TESTS_UNIT_DEVICE_LAYERS_BENCH_H
#define TESTS_UNIT_DEVICE_LAYERS_BENCH_H

#include "ddpcore/device/layers.h"
#include "tests/unit/device/device_bench.h"

/* Leaves the case where the device has none of these kernels. */
#define LAYERS_OPEN(bench)                                  \
    do {                                                    \
        BENCH_OPEN(bench);                                  \
        if ((bench)->device->layers == NULL) {              \
            bench_close(bench);                             \
            CT_SKIP("the device has no kernels of layers"); \
        }                                                   \
    } while (0)

/* A tensor as it was pushed, and where it lies on the device. */
struct layers_tensor {
    const float *host;
    float *device;
};

static inline struct layers_tensor layers_tensor(struct bench *bench, unsigned range,
                                                 size_t elem_count, struct ddp_prng *prng)
{
    float *data = (float *)bench_begin(bench, range, sizeof(float), elem_count, range % 3);

    for (size_t i = 0; i < elem_count; i++) {
        data[i] = 2.0F * ddp_prng_uniform(prng) - 1.0F;
    }
    return (struct layers_tensor){data, (float *)bench_push(bench, range)};
}

static inline const float *layers_pull(struct bench *bench, unsigned range)
{
    return (const float *)bench_pull(bench, range);
}

/* |got - wanted| <= bound; a NaN is far from everything. */
#define LAYERS_NEAR(got, wanted, bound) CT_CHECK(fabs((double)(got) - (wanted)) <= (bound))

#endif
