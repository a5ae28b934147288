/* Orders of summation, against algorithms that are played here rank by rank. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ddpcore/base/dtype.h"
#include "harness/guest/ddprove_guest.h"
#include "harness/results/orders.h"
#include "tests/ct.h"

enum { RANKS_MAX = 11, COUNT = 700 };

static double in[RANKS_MAX * COUNT], out[COUNT];

static uint32_t next(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static double rounded(uint32_t dtype, double value)
{
    switch (dtype) {
    case DDPROVE_GUEST_BF16:
        return (double)ddp_bf16_to_f32(ddp_bf16_from_f32((float)value));
    case DDPROVE_GUEST_F16:
        return (double)ddp_f16_to_f32(ddp_f16_from_f32((float)value));
    case DDPROVE_GUEST_F32:
        return (double)(float)value;
    default:
        return value;
    }
}

static void fill(uint32_t size, uint32_t dtype, uint32_t seed)
{
    for (uint32_t i = 0; i < size * COUNT; i++) {
        in[i] = rounded(dtype, ((double)next(&seed) - (1 << 23)) / (1 << 20) *
                                   ldexp(1, (int)(next(&seed) % 4)));
    }
}

static double add(uint32_t dtype, double a, double b)
{
    return rounded(dtype, a + b);
}

/* --- algorithms
 * ---------------------------------------------------------------------------------------------------
 */

typedef double (*algorithm)(uint32_t size, uint32_t dtype, uint64_t elem);

static double at(uint32_t rank, uint64_t elem)
{
    return in[rank * COUNT + elem];
}

static double through_root(uint32_t size, uint32_t dtype, uint64_t elem)
{
    double sum = at(0, elem);

    for (uint32_t r = 1; r < size; r++) {
        sum = add(dtype, sum, at(r, elem));
    }
    return sum;
}

static double to_the_left(uint32_t size, uint32_t dtype, uint64_t elem)
{
    double sum = at(size - 1, elem);

    for (uint32_t r = size - 1; r > 0; r--) {
        sum = add(dtype, sum, at(r - 1, elem));
    }
    return sum;
}

/* Chunk c goes round from rank c on. */
static double ring(uint32_t size, uint32_t dtype, uint64_t elem)
{
    uint64_t begin = 0;
    uint32_t chunk = 0;
    double sum;

    while (begin + COUNT / size + (chunk < COUNT % size) <= elem) {
        begin += COUNT / size + (chunk < COUNT % size);
        chunk++;
    }
    sum = at(chunk, elem);
    for (uint32_t i = 1; i < size; i++) {
        sum = add(dtype, sum, at((chunk + i) % size, elem));
    }
    return sum;
}

/* Everybody exchanges with its partner at a distance; ranks beyond a power of two first give theirs
 * to a neighbour. */
static double exchange(uint32_t size, uint32_t dtype, uint64_t elem, bool is_falling)
{
    double held[RANKS_MAX];
    double after[RANKS_MAX];
    uint32_t power = 1;
    uint32_t count = 0;

    while (2 * power <= size) {
        power *= 2;
    }
    for (uint32_t r = 0; r < size; r++) {
        if (r < 2 * (size - power)) {
            held[count++] = add(dtype, at(r, elem), at(r + 1, elem));
            r++;
        } else {
            held[count++] = at(r, elem);
        }
    }
    for (uint32_t d = 1; d < power; d *= 2) {
        const uint32_t distance = is_falling ? power / 2 / d : d;

        for (uint32_t r = 0; r < power; r++) {
            after[r] = add(dtype, held[r], held[r ^ distance]);
        }
        memcpy(held, after, sizeof held);
    }
    return held[0];
}

static double doubling(uint32_t size, uint32_t dtype, uint64_t elem)
{
    return exchange(size, dtype, elem, false);
}

static double halving(uint32_t size, uint32_t dtype, uint64_t elem)
{
    return exchange(size, dtype, elem, true);
}

static double binomial(uint32_t size, uint32_t dtype, uint64_t elem)
{
    double held[RANKS_MAX];

    for (uint32_t r = 0; r < size; r++) {
        held[r] = at(r, elem);
    }
    for (uint32_t d = 1; d < size; d *= 2) {
        for (uint32_t r = 0; r + d < size; r += 2 * d) {
            held[r] = add(dtype, held[r], held[r + d]);
        }
    }
    return held[0];
}

/* Any two partial sums, until one is left. */
static double at_random(uint32_t size, uint32_t dtype, uint64_t elem)
{
    double held[RANKS_MAX];
    uint32_t seed = (uint32_t)elem * 7919 + size;

    for (uint32_t r = 0; r < size; r++) {
        held[r] = at(r, elem);
    }
    for (uint32_t left = size; left > 1; left--) {
        const uint32_t a = next(&seed) % left;
        const double taken = held[a];
        uint32_t b;

        held[a] = held[left - 1];
        b = next(&seed) % (left - 1);
        held[b] = add(dtype, held[b], taken);
    }
    return held[0];
}

/* --- tests
 * --------------------------------------------------------------------------------------------------------
 */

static struct harness_orders *open_orders(uint32_t size, uint32_t dtype, bool is_average)
{
    const struct harness_orders_sum sum = {.dtype = dtype,
                                           .is_average = is_average,
                                           .size = size,
                                           .count = COUNT,
                                           .in = in,
                                           .out = out};
    struct harness_orders *orders = NULL;

    CT_CHECK(harness_orders_create(&sum, ddp_mem_system(), &orders) == DDP_OK);
    return orders;
}

static struct harness_orders_fit find(uint32_t size, uint32_t dtype, bool is_average)
{
    struct harness_orders *orders = open_orders(size, dtype, is_average);
    struct harness_orders_fit fit;

    harness_orders_find(orders, &fit);
    harness_orders_destroy(orders);
    return fit;
}

static const uint32_t dtypes[] = {DDPROVE_GUEST_F32, DDPROVE_GUEST_F64, DDPROVE_GUEST_F16,
                                  DDPROVE_GUEST_BF16};

CT_TEST(orders, those_of_libraries_are_known)
{
    static const algorithm all[] = {through_root, to_the_left, ring, doubling, halving, binomial};

    for (uint32_t size = 1; size <= 9; size++) {
        for (size_t a = 0; a < sizeof all / sizeof all[0]; a++) {
            for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++) {
                struct harness_orders_fit fit;

                fill(size, dtypes[d], size);
                for (uint64_t e = 0; e < COUNT; e++) {
                    out[e] = all[a](size, dtypes[d], e);
                }
                fit = find(size, dtypes[d], false);
                if (!fit.is_known || fit.rest_count != 0) {
                    CT_FAIL("algorithm %zu of %u ranks, type %u", a, size, dtypes[d]);
                }
            }
        }
    }
}

/* Partial sums of a wider type, and averages in all ways. */
CT_TEST(orders, wide_sums_and_averages)
{
    for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++) {
        const uint32_t type = dtypes[d];
        const uint32_t wide = type == DDPROVE_GUEST_F16 || type == DDPROVE_GUEST_BF16
                                  ? DDPROVE_GUEST_F32
                                  : DDPROVE_GUEST_F64;

        fill(6, type, 1);
        for (int way = 0; way < 4; way++) {
            struct harness_orders_fit fit;

            for (uint64_t e = 0; e < COUNT; e++) {
                double sum = 0;

                for (uint32_t r = 0; r < 6; r++) {
                    const double value = way == 2 ? rounded(type, at(r, e) / 6)
                                         : way == 3
                                             ? rounded(type, at(r, e) * rounded(type, 1.0 / 6))
                                             : at(r, e);

                    sum = r == 0 ? value : add(way == 0 ? wide : type, sum, value);
                }
                out[e] = way == 1 ? rounded(type, sum / 6) : rounded(type, sum);
            }
            fit = find(6, type, way != 0);
            CT_CHECK(fit.is_known && fit.rest_count == 0);
        }
    }
}

/* Whatever the order was, it is not said that there is none. */
CT_TEST(orders, no_order_is_refused)
{
    for (uint32_t size = 1; size <= RANKS_MAX; size++) {
        for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++) {
            const uint64_t step = size < 8 ? 1 : 100;
            struct harness_orders *orders;

            fill(size, dtypes[d], 31 * size);
            for (uint64_t e = 0; e < COUNT; e++) {
                out[e] = at_random(size, dtypes[d], e);
            }
            orders = open_orders(size, dtypes[d], false);
            for (uint64_t e = 0; e < COUNT; e += step) {
                CT_CHECK(harness_orders_can_give(orders, e));
            }
            harness_orders_destroy(orders);
        }
    }
}

/* The last bit of a sum of two; of four, what lies beside all that their orders give. */
CT_TEST(orders, what_no_order_gives)
{
    for (uint32_t size = 2; size <= 4; size += 2) {
        struct harness_orders *orders;
        uint32_t refused = 0;

        fill(size, DDPROVE_GUEST_F32, 5);
        for (uint64_t e = 0; e < COUNT; e++) {
            out[e] = through_root(size, DDPROVE_GUEST_F32, e);
            for (uint32_t i = 0; i < (size == 2 ? 1 : 9); i++) {
                out[e] = (double)nextafterf((float)out[e], INFINITY);
            }
        }
        orders = open_orders(size, DDPROVE_GUEST_F32, false);
        for (uint64_t e = 0; e < COUNT; e++) {
            refused += !harness_orders_can_give(orders, e);
        }
        /* Terms that are larger than their sum leave it wide room. */
        CT_CHECK(size == 2 ? refused == COUNT : refused > COUNT / 2);
        CT_CHECK(!find(size, DDPROVE_GUEST_F32, false).is_known);
        harness_orders_destroy(orders);
    }
}

/* Elements that are not what the order gives are listed, and what they would be is told. */
CT_TEST(orders, rest)
{
    struct harness_orders *orders;
    struct harness_orders_fit fit;
    double right;

    fill(4, DDPROVE_GUEST_F32, 77);
    for (uint64_t e = 0; e < COUNT; e++) {
        out[e] = ring(4, DDPROVE_GUEST_F32, e);
    }
    right = out[555];
    out[555] += 3;
    out[2] += 3;
    orders = open_orders(4, DDPROVE_GUEST_F32, false);
    harness_orders_find(orders, &fit);
    CT_REQUIRE(fit.is_known);
    CT_CHECK_EQ_U64(fit.rest_count, 2);
    CT_CHECK_EQ_U64(fit.rest[0], 2);
    CT_CHECK_EQ_U64(fit.rest[1], 555);
    harness_orders_aim(orders, &fit, 555);
    CT_CHECK(harness_orders_evaluate(orders, 4, 0) == right);
    CT_CHECK(harness_orders_evaluate(orders, 2, at(2, 555) + 1) != right);
    harness_orders_destroy(orders);
}
