/* See the header. Written on fp64 and 128-bit floats, apart from the code under test. */
#include "tests/unit/rank/probe_sums.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ddpcore/base/prng.h"
#include "tests/ct.h"

/* 113 bits: 2^100 and 64 units are exact beside each other. */
__extension__ typedef __float128 quad;

static float load(const struct ddp_coll_args *args, const void *data, size_t i)
{
    if (args->dtype == DDP_DTYPE_F32) {
        return ((const float *)data)[i];
    }
    return args->dtype == DDP_DTYPE_F16 ? ddp_f16_to_f32(((const uint16_t *)data)[i])
                                        : ddp_bf16_to_f32(((const uint16_t *)data)[i]);
}

static void store(const struct ddp_coll_args *args, void *data, size_t i, float value)
{
    if (args->dtype == DDP_DTYPE_F32) {
        ((float *)data)[i] = value;
    } else {
        ((uint16_t *)data)[i] =
            args->dtype == DDP_DTYPE_F16 ? ddp_f16_from_f32(value) : ddp_bf16_from_f32(value);
    }
}

/* Rounded to the type, as fp32. */
static float narrow(const struct ddp_coll_args *args, float value)
{
    uint16_t place[2] = {0};

    if (args->dtype == DDP_DTYPE_F32) {
        return value;
    }
    store(args, place, 0, value);
    return load(args, place, 0);
}

/* A chain over order[count], into one member's output. */
static void chain(const struct ddp_coll_args *args, void *const *input, const uint32_t *order,
                  uint32_t count, void *output)
{
    for (size_t i = 0; i < args->elem_count; i++) {
        float sum = load(args, input[order[0]], i);

        for (uint32_t k = 1; k < count; k++) {
            sum = narrow(args, sum + load(args, input[order[k]], i));
        }
        store(args, output, i, sum);
    }
}

static void chain_to_all(struct probe_world *world, const struct ddp_coll_args *args,
                         void *const *input, const uint32_t *order, uint32_t count,
                         void *const *output)
{
    for (uint32_t r = 0; r < world->config.count; r++) {
        chain(args, input, order, count, output[r]);
    }
}

static void fill_order(uint32_t *order, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        order[i] = i;
    }
}

void probe_sum_ordered(const struct ddp_coll_args *args, void *const *input, void *const *output,
                       uint32_t count)
{
    uint32_t order[PROBE_RANKS_MAX];

    fill_order(order, count);
    for (uint32_t r = 0; r < count; r++) {
        chain(args, input, order, count, output[r]);
    }
}

static void copy_to_all(struct probe_world *world, const struct ddp_coll_args *args, size_t i,
                        float value, void *const *output)
{
    for (uint32_t r = 0; r < world->config.count; r++) {
        store(args, output[r], i, value);
    }
}

void probe_sum_chain(struct probe_world *world, uint64_t call, const struct ddp_coll_args *args,
                     void *const *input, void *const *output)
{
    uint32_t order[PROBE_RANKS_MAX];

    (void)call;
    fill_order(order, world->config.count);
    chain_to_all(world, args, input, order, world->config.count, output);
}

void probe_sum_wide_chain(struct probe_world *world, uint64_t call,
                          const struct ddp_coll_args *args, void *const *input, void *const *output)
{
    (void)call;
    for (size_t i = 0; i < args->elem_count; i++) {
        double sum = (double)load(args, input[0], i);

        for (uint32_t r = 1; r < world->config.count; r++) {
            sum += (double)load(args, input[r], i);
            sum = args->dtype == DDP_DTYPE_F32 ? sum : (double)(float)sum;
        }
        copy_to_all(world, args, i, (float)sum, output);
    }
}

/* To the nearest of 20 significant bits. */
static float round_20(float value)
{
    int exponent = 0;
    float fraction = frexpf(value, &exponent);

    return ldexpf(rintf(ldexpf(fraction, 20)), exponent - 20);
}

void probe_sum_odd_chain(struct probe_world *world, uint64_t call, const struct ddp_coll_args *args,
                         void *const *input, void *const *output)
{
    (void)call;
    for (size_t i = 0; i < args->elem_count; i++) {
        float sum = load(args, input[0], i);

        for (uint32_t r = 1; r < world->config.count; r++) {
            sum = round_20(sum + load(args, input[r], i));
        }
        copy_to_all(world, args, i, narrow(args, sum), output);
    }
}

/* Kahan's: what an addition loses is added to the next operand. */
void probe_sum_compensated(struct probe_world *world, uint64_t call,
                           const struct ddp_coll_args *args, void *const *input,
                           void *const *output)
{
    (void)call;
    for (size_t i = 0; i < args->elem_count; i++) {
        float sum = load(args, input[0], i);
        float lost = 0;

        for (uint32_t r = 1; r < world->config.count; r++) {
            float term = narrow(args, load(args, input[r], i) - lost);
            float next = narrow(args, sum + term);

            lost = narrow(args, narrow(args, next - sum) - term);
            sum = next;
        }
        copy_to_all(world, args, i, sum, output);
    }
}

/* The exact sum of the first count members. Test values of 16-bit types add up exactly in fp32, so
 * that one rounding follows. */
static float exact(const struct ddp_coll_args *args, void *const *input, uint32_t count, size_t i)
{
    quad sum = 0;

    for (uint32_t r = 0; r < count; r++) {
        sum += (quad)load(args, input[r], i);
    }
    return narrow(args, (float)sum);
}

void probe_sum_exact(struct probe_world *world, uint64_t call, const struct ddp_coll_args *args,
                     void *const *input, void *const *output)
{
    (void)call;
    for (size_t i = 0; i < args->elem_count; i++) {
        copy_to_all(world, args, i, exact(args, input, world->config.count, i), output);
    }
}

void probe_sum_exact_groups(struct probe_world *world, uint64_t call,
                            const struct ddp_coll_args *args, void *const *input,
                            void *const *output)
{
    uint32_t last = world->config.count - 1;

    (void)call;
    for (size_t i = 0; i < args->elem_count; i++) {
        float sum = exact(args, input, last, i) + load(args, input[last], i);

        copy_to_all(world, args, i, narrow(args, sum), output);
    }
}

void probe_sum_exact_pair(struct probe_world *world, uint64_t call,
                          const struct ddp_coll_args *args, void *const *input, void *const *output)
{
    (void)call;
    for (size_t i = 0; i < args->elem_count; i++) {
        float pair = narrow(args, load(args, input[2], i) + load(args, input[3], i));
        quad sum = (quad)load(args, input[0], i) + (quad)load(args, input[1], i) + (quad)pair;

        copy_to_all(world, args, i, narrow(args, (float)sum), output);
    }
}

void probe_sum_aligned(struct probe_world *world, uint64_t call, const struct ddp_coll_args *args,
                       void *const *input, void *const *output)
{
    (void)call;
    for (size_t i = 0; i < args->elem_count; i++) {
        float largest = 0.0f;
        double sum = 0.0;
        int exponent = 0;

        for (uint32_t r = 0; r < world->config.count; r++) {
            largest = fmaxf(largest, fabsf(load(args, input[r], i)));
        }
        (void)frexpf(largest, &exponent);
        for (uint32_t r = 0; r < world->config.count; r++) {
            sum +=
                ldexp(trunc(ldexp((double)load(args, input[r], i), 26 - exponent)), exponent - 26);
        }
        copy_to_all(world, args, i, narrow(args, (float)sum), output);
    }
}

void probe_sum_random(struct probe_world *world, uint64_t call, const struct ddp_coll_args *args,
                      void *const *input, void *const *output)
{
    struct ddp_prng prng = ddp_prng_make(call, "order");
    uint32_t order[PROBE_RANKS_MAX];

    ddp_prng_permutation(&prng, order, world->config.count);
    chain_to_all(world, args, input, order, world->config.count, output);
}

void probe_sum_changing(struct probe_world *world, uint64_t call, const struct ddp_coll_args *args,
                        void *const *input, void *const *output)
{
    static const uint32_t left[] = {0, 1, 2, 3};
    static const uint32_t right[] = {3, 2, 1, 0};

    /* A round of 4 members: 6 pairs, 2 nodes of 4 widths. */
    chain_to_all(world, args, input, call < 14 ? left : right, 4, output);
}

void probe_sum_losing(struct probe_world *world, uint64_t call, const struct ddp_coll_args *args,
                      void *const *input, void *const *output)
{
    uint32_t order[PROBE_RANKS_MAX];

    (void)call;
    fill_order(order, world->config.count);
    order[2] = order[world->config.count - 1];
    chain_to_all(world, args, input, order, world->config.count - 1, output);
}

void probe_sum_doubling(struct probe_world *world, uint64_t call, const struct ddp_coll_args *args,
                        void *const *input, void *const *output)
{
    uint32_t order[PROBE_RANKS_MAX + 1];

    (void)call;
    fill_order(order, world->config.count);
    order[world->config.count] = 1;
    chain_to_all(world, args, input, order, world->config.count + 1, output);
}

void probe_sum_nan(struct probe_world *world, uint64_t call, const struct ddp_coll_args *args,
                   void *const *input, void *const *output)
{
    probe_sum_chain(world, call, args, input, output);
    copy_to_all(world, args, 3, NAN, output);
}

void probe_sum_scaled(struct probe_world *world, uint64_t call, const struct ddp_coll_args *args,
                      void *const *input, void *const *output)
{
    probe_sum_chain(world, call, args, input, output);
    for (size_t i = 0; i < args->elem_count; i++) {
        copy_to_all(world, args, i, load(args, output[0], i) * 0.5f, output);
    }
}

void probe_sum_tail(struct probe_world *world, uint64_t call, const struct ddp_coll_args *args,
                    void *const *input, void *const *output)
{
    probe_sum_chain(world, call, args, input, output);
    for (size_t i = args->elem_count < 3 ? 0 : args->elem_count - 3; i < args->elem_count; i++) {
        copy_to_all(world, args, i, load(args, input[1], i), output);
    }
}

void probe_sum_dissenting(struct probe_world *world, uint64_t call,
                          const struct ddp_coll_args *args, void *const *input, void *const *output)
{
    uint32_t order[PROBE_RANKS_MAX];
    uint32_t last = world->config.count - 1;

    probe_sum_chain(world, call, args, input, output);
    fill_order(order, world->config.count);
    order[0] = last;
    order[last] = 0;
    chain(args, input, order, world->config.count, output[last]);
}

void probe_fill_random(const struct harness_probe_request *request, uint32_t member, void *data)
{
    const struct ddp_coll_args args = {.dtype = request->dtype};
    struct ddp_prng prng = ddp_prng_make(member, "value");
    /* 16-bit types: 8 bits at exponents near each other, so that sums are exact in fp32. */
    int64_t span = request->dtype == DDP_DTYPE_F32 ? INT64_C(1) << 23 : 128;

    for (size_t i = 0; i < request->elem_count; i++) {
        int exponent = (int)ddp_prng_below(&prng, 7) - 8;
        int64_t value = (int64_t)ddp_prng_below(&prng, 2 * (uint64_t)span) - span;

        store(&args, data, i, ldexpf((float)value, exponent));
    }
}
