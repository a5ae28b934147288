/* Purpose: find the order in which contributions were added, or show that there is none.
 * Idea: an order is a list of additions of partial sums. Those that libraries use are few: a line
 * from either end, rings whose chunks begin at different ranks, recursive doubling and halving, a
 * binomial tree. Whatever the order, the last addition joins the sums of two sets of ranks, so the
 * values that any order can give follow from those of smaller sets. */
#include "harness/results/orders.h"

#include <math.h>
#include <string.h>

#include "ddpcore/base/dtype.h"
#include "harness/guest/ddprove_guest.h"

/* How an average is made of a sum. */
enum average { NO_AVERAGE, DIVIDED_AFTER, MULTIPLIED_AFTER, DIVIDED_BEFORE, MULTIPLIED_BEFORE };
enum { AVERAGES = 5, VALUES_MAX = 64 };

enum order {
    LINE_UP,
    LINE_DOWN,
    BINOMIAL,
    EVEN_DOUBLING, /* what exceeds a power of two is added within neighbours before */
    EVEN_HALVING,
    HIGH_DOUBLING, /* it is added from the highest ranks to the lowest before */
    HIGH_HALVING,
    RING_UP,
    RING_DOWN,
    ORDERS
};

struct values {
    uint32_t count;
    double value[VALUES_MAX];
};

struct harness_orders {
    struct ddp_mem *mem;
    struct harness_orders_sum sum;
    double *partial;                   /* [size] */
    uint32_t *place;                   /* [size] */
    struct harness_orders_step *steps; /* [size] */
    struct values *reach;              /* [1 << size], by set of ranks; NULL: too many */
    struct harness_orders_way way;     /* what steps are for, if they were aimed */
    uint64_t elem;
    uint32_t last; /* where the sum is in the end */
};

ddp_status harness_orders_create(const struct harness_orders_sum *sum, struct ddp_mem *mem,
                                 struct harness_orders **out)
{
    struct harness_orders *orders = ddp_mem_array(mem, 1, sizeof *orders);
    const bool has_reach = sum->size <= HARNESS_ORDERS_ALL_MAX;

    if (orders == NULL) {
        return DDP_E_NOMEM;
    }
    *orders = (struct harness_orders){.mem = mem, .sum = *sum};
    orders->partial = ddp_mem_array(mem, sum->size, sizeof *orders->partial);
    orders->place = ddp_mem_array(mem, sum->size, sizeof *orders->place);
    orders->steps = ddp_mem_array(mem, sum->size, sizeof *orders->steps);
    if (has_reach) {
        orders->reach = ddp_mem_array(mem, (size_t)1 << sum->size, sizeof *orders->reach);
    }
    if (orders->partial == NULL || orders->place == NULL || orders->steps == NULL ||
        (has_reach && orders->reach == NULL)) {
        harness_orders_destroy(orders);
        return DDP_E_NOMEM;
    }
    *out = orders;
    return DDP_OK;
}

void harness_orders_destroy(struct harness_orders *orders)
{
    struct ddp_mem *mem;

    if (orders == NULL) {
        return;
    }
    mem = orders->mem;
    ddp_mem_free(mem, orders->partial);
    ddp_mem_free(mem, orders->place);
    ddp_mem_free(mem, orders->steps);
    ddp_mem_free(mem, orders->reach);
    ddp_mem_free(mem, orders);
}

/* --- arithmetic
 * ---------------------------------------------------------------------------------------------------
 */

/* A sum of two numbers of a type, rounded to double and then to that type, is rounded to nearest:
 * 53 bits are more than twice those of a float and two, 24 those of a float of 16 bits. */
static double round_to(uint32_t dtype, double value)
{
    switch ((enum ddprove_guest_dtype)dtype) {
    case DDPROVE_GUEST_F16:
        return (double)ddp_f16_to_f32(ddp_f16_from_f32((float)value));
    case DDPROVE_GUEST_BF16:
        return (double)ddp_bf16_to_f32(ddp_bf16_from_f32((float)value));
    case DDPROVE_GUEST_F32:
        return (double)(float)value;
    default:
        return value;
    }
}

static uint32_t wider_than(uint32_t dtype)
{
    return dtype == DDPROVE_GUEST_F16 || dtype == DDPROVE_GUEST_BF16 ? DDPROVE_GUEST_F32
                                                                     : DDPROVE_GUEST_F64;
}

static uint32_t type_of(const struct harness_orders *orders, bool is_wide)
{
    return is_wide ? wider_than(orders->sum.dtype) : orders->sum.dtype;
}

/* A contribution, as it enters the sum. */
static double enter(const struct harness_orders *orders, uint32_t average, uint32_t type,
                    double value)
{
    const double size = orders->sum.size;

    if (average == DIVIDED_BEFORE) {
        return round_to(type, value / size);
    }
    return average == MULTIPLIED_BEFORE ? round_to(type, value * round_to(type, 1 / size)) : value;
}

/* A sum, as it comes out. */
static double leave(const struct harness_orders *orders, uint32_t average, uint32_t type,
                    double value)
{
    const double size = orders->sum.size;

    if (average == DIVIDED_AFTER) {
        value = round_to(type, value / size);
    } else if (average == MULTIPLIED_AFTER) {
        value = round_to(type, value * round_to(type, 1 / size));
    }
    return round_to(orders->sum.dtype, value);
}

/* --- known orders
 * -------------------------------------------------------------------------------------------------
 */

static uint32_t add_line(struct harness_orders *orders, uint32_t begin, bool is_down)
{
    const uint32_t size = orders->sum.size;

    for (uint32_t i = 1; i < size; i++) {
        orders->steps[i - 1] = (struct harness_orders_step){
            begin, is_down ? (begin + size - i) % size : (begin + i) % size};
    }
    return begin;
}

/* Powers of two at rising or falling distances; orders->place says who they are. */
static void add_exchange(struct harness_orders *orders, uint32_t power, bool is_falling,
                         uint32_t count)
{
    for (uint32_t i = 1; i < power; i *= 2) {
        const uint32_t distance = is_falling ? power / (2 * i) : i;

        for (uint32_t r = 0; r < power; r++) {
            if (is_falling ? r < distance : r % (2 * distance) == 0) {
                orders->steps[count++] =
                    (struct harness_orders_step){orders->place[r], orders->place[r + distance]};
            }
        }
    }
}

static uint32_t add_folded(struct harness_orders *orders, bool is_high, bool is_falling)
{
    const uint32_t size = orders->sum.size;
    uint32_t power = 1;
    uint32_t rest;

    while (2 * power <= size) {
        power *= 2;
    }
    rest = size - power;
    for (uint32_t i = 0; i < rest; i++) {
        orders->steps[i] = is_high ? (struct harness_orders_step){i, power + i}
                                   : (struct harness_orders_step){2 * i + 1, 2 * i};
    }
    for (uint32_t i = 0; i < power; i++) {
        orders->place[i] = is_high ? i : i < rest ? 2 * i + 1 : i + rest;
    }
    add_exchange(orders, power, is_falling, rest);
    return orders->place[0];
}

static uint32_t add_binomial(struct harness_orders *orders)
{
    const uint32_t size = orders->sum.size;
    uint32_t count = 0;

    for (uint32_t distance = 1; distance < size; distance *= 2) {
        for (uint32_t r = 0; r + distance < size; r += 2 * distance) {
            orders->steps[count++] = (struct harness_orders_step){r, r + distance};
        }
    }
    return 0;
}

/* Fill orders->steps. Returns where the sum is in the end. begin: of a ring. */
static uint32_t build(struct harness_orders *orders, uint32_t order, uint32_t begin)
{
    switch ((enum order)order) {
    case LINE_UP:
        return add_line(orders, 0, false);
    case LINE_DOWN:
        return add_line(orders, orders->sum.size - 1, true);
    case BINOMIAL:
        return add_binomial(orders);
    case EVEN_DOUBLING:
    case EVEN_HALVING:
        return add_folded(orders, false, order == EVEN_HALVING);
    case HIGH_DOUBLING:
    case HIGH_HALVING:
        return add_folded(orders, true, order == HIGH_HALVING);
    default:
        return add_line(orders, begin, order == RING_DOWN);
    }
}

/* changed: the contribution that is `value`; size or more: none is. */
static double run(struct harness_orders *orders, const struct harness_orders_way *way,
                  uint32_t last, uint64_t elem, uint32_t changed, double value)
{
    const struct harness_orders_sum *sum = &orders->sum;
    const uint32_t type = type_of(orders, way->is_wide);

    for (uint32_t i = 0; i < sum->size; i++) {
        orders->partial[i] = enter(orders, way->average, type,
                                   i == changed ? value : sum->in[i * sum->count + elem]);
    }
    for (uint32_t i = 0; i + 1 < sum->size; i++) {
        const struct harness_orders_step *step = &orders->steps[i];

        orders->partial[step->to] =
            round_to(type, orders->partial[step->to] + orders->partial[step->from]);
    }
    return leave(orders, way->average, type, orders->partial[last]);
}

/* Elements of a range that the order does not give, up to `most` of them, or one more if there are
 * more. Zeros are equal whatever their sign: it says only what a sum began with. */
static uint64_t count_rest(struct harness_orders *orders, const struct harness_orders_way *way,
                           uint32_t begin, uint64_t from, uint64_t to, uint64_t most,
                           uint64_t *rest)
{
    const uint32_t last = build(orders, way->order, begin);
    uint64_t count = 0;

    for (uint64_t e = from; e < to && count <= most; e++) {
        if (!(run(orders, way, last, e, UINT32_MAX, 0) == orders->sum.out[e])) {
            if (count < most) {
                rest[count] = e;
            }
            count++;
        }
    }
    return count;
}

/* The first element of a chunk; the first chunks have one more if they cannot all be of a length.
 */
static uint64_t chunk_begin(uint64_t count, uint32_t chunk_count, uint32_t chunk)
{
    const uint64_t longer = count % chunk_count;

    return chunk * (count / chunk_count) + (chunk < longer ? chunk : longer);
}

/* The rank that a chunk of a ring began with: the one that leaves the least. */
static uint32_t best_begin(struct harness_orders *orders, const struct harness_orders_way *way,
                           uint64_t from, uint64_t to, uint64_t most, uint64_t *out_count,
                           uint64_t *rest)
{
    uint64_t found[HARNESS_ORDERS_REST_MAX];
    uint32_t best = 0;

    *out_count = most + 1;
    for (uint32_t begin = 0; begin<orders->sum.size && * out_count> 0; begin++) {
        const uint64_t count = count_rest(orders, way, begin, from, to, *out_count - 1, found);

        if (count < *out_count) {
            *out_count = count;
            best = begin;
            memcpy(rest, found, count * sizeof *rest);
        }
    }
    return best;
}

/* The same for all chunks of a ring, or for an order without chunks. */
static uint64_t count_all(struct harness_orders *orders, const struct harness_orders_way *way,
                          uint64_t most, uint64_t *rest)
{
    uint64_t total = 0;

    if (way->chunk_count == 0) {
        return count_rest(orders, way, 0, 0, orders->sum.count, most, rest);
    }
    for (uint32_t c = 0; c < way->chunk_count && total <= most; c++) {
        uint64_t count;

        (void)best_begin(orders, way, chunk_begin(orders->sum.count, way->chunk_count, c),
                         chunk_begin(orders->sum.count, way->chunk_count, c + 1), most - total,
                         &count, rest + total);
        total += count;
    }
    return total;
}

static void try(struct harness_orders *orders, const struct harness_orders_way *way,
                struct harness_orders_fit *best)
{
    uint64_t rest[HARNESS_ORDERS_REST_MAX];
    const uint64_t most = best->is_known ? best->rest_count - 1 : HARNESS_ORDERS_REST_MAX;
    uint64_t count;

    if (best->is_known && best->rest_count == 0) {
        return;
    }
    count = count_all(orders, way, most, rest);
    if (count <= most) {
        best->is_known = true;
        best->way = *way;
        best->rest_count = count;
        memcpy(best->rest, rest, count * sizeof *rest);
    }
}

/* All types of partial sums, and all numbers of chunks of a ring. */
static void try_order(struct harness_orders *orders, uint32_t average, uint32_t order,
                      struct harness_orders_fit *best)
{
    const uint32_t types = orders->sum.dtype == DDPROVE_GUEST_F64 ? 1 : 2;
    const uint32_t first = order < RING_UP ? 0 : 1;

    for (uint32_t wide = 0; wide < types; wide++) {
        for (uint32_t n = first; n <= 2 * first; n++) {
            const struct harness_orders_way way = {average, wide != 0, order, n * orders->sum.size};

            /* In chunks of few elements, some rank to begin with fits whatever came out. */
            if (orders->sum.count >= 16 * (uint64_t)way.chunk_count) {
                try(orders, &way, best);
            }
        }
    }
}

void harness_orders_find(struct harness_orders *orders, struct harness_orders_fit *out)
{
    const uint32_t first = orders->sum.is_average ? DIVIDED_AFTER : NO_AVERAGE;
    const uint32_t last = orders->sum.is_average ? MULTIPLIED_BEFORE : NO_AVERAGE;

    *out = (struct harness_orders_fit){.is_known = false};
    for (uint32_t average = first; average <= last; average++) {
        for (uint32_t order = 0; order < ORDERS; order++) {
            try_order(orders, average, order, out);
        }
    }
}

void harness_orders_aim(struct harness_orders *orders, const struct harness_orders_fit *fit,
                        uint64_t elem)
{
    uint64_t rest[HARNESS_ORDERS_REST_MAX];
    const uint64_t count = orders->sum.count;
    uint32_t begin = 0;

    for (uint32_t c = 0; c < fit->way.chunk_count; c++) {
        const uint64_t from = chunk_begin(count, fit->way.chunk_count, c);
        const uint64_t to = chunk_begin(count, fit->way.chunk_count, c + 1);
        uint64_t left;

        if (elem >= from && elem < to) {
            begin = best_begin(orders, &fit->way, from, to, HARNESS_ORDERS_REST_MAX, &left, rest);
        }
    }
    orders->way = fit->way;
    orders->elem = elem;
    orders->last = build(orders, fit->way.order, begin);
}

double harness_orders_evaluate(struct harness_orders *orders, uint32_t changed, double value)
{
    return run(orders, &orders->way, orders->last, orders->elem, changed, value);
}

/* --- all orders
 * ---------------------------------------------------------------------------------------------------
 */

/* False: there are too many values. */
static bool add_value(struct values *values, double value)
{
    for (uint32_t i = 0; i < values->count; i++) {
        if (values->value[i] == value) {
            return true;
        }
    }
    if (values->count == VALUES_MAX) {
        return false;
    }
    values->value[values->count++] = value;
    return true;
}

/* A partial sum is kept in the type of the elements or in the next wider one. */
static bool add_pairs(const struct harness_orders *orders, struct values *out,
                      const struct values *a, const struct values *b)
{
    const uint32_t dtype = orders->sum.dtype;

    for (uint32_t i = 0; i < a->count; i++) {
        for (uint32_t k = 0; k < b->count; k++) {
            const double wide = round_to(wider_than(dtype), a->value[i] + b->value[k]);

            if (!add_value(out, wide) || !add_value(out, round_to(dtype, wide))) {
                return false;
            }
        }
    }
    return true;
}

/* Fill orders->reach. False: there are too many values. */
static bool find_reach(struct harness_orders *orders, uint64_t elem)
{
    const struct harness_orders_sum *sum = &orders->sum;

    for (uint32_t set = 1; set < 1u << sum->size; set++) {
        struct values *values = &orders->reach[set];

        values->count = 0;
        if ((set & (set - 1)) == 0) {
            (void)add_value(values, sum->in[(uint32_t)__builtin_ctz(set) * sum->count + elem]);
            continue;
        }
        /* Each pair of parts once: the larger number is the part with the set's highest rank. */
        for (uint32_t part = (set - 1) & set; part > (set ^ part); part = (part - 1) & set) {
            if (!add_pairs(orders, values, &orders->reach[part], &orders->reach[set ^ part])) {
                return false;
            }
        }
    }
    return true;
}

/* One rounding, at the end. */
static bool is_rounded_once(const struct harness_orders *orders, uint64_t elem)
{
    const struct harness_orders_sum *sum = &orders->sum;
    long double total = 0;

    for (uint32_t i = 0; i < sum->size; i++) {
        total += (long double)sum->in[i * sum->count + elem];
    }
    return round_to(sum->dtype, (double)total) == sum->out[elem];
}

bool harness_orders_can_give(struct harness_orders *orders, uint64_t elem)
{
    const struct harness_orders_sum *sum = &orders->sum;
    const struct values *all;

    if (orders->reach == NULL || sum->is_average || is_rounded_once(orders, elem) ||
        !find_reach(orders, elem)) {
        return true;
    }
    all = &orders->reach[(1u << sum->size) - 1];
    for (uint32_t i = 0; i < all->count; i++) {
        if (round_to(sum->dtype, all->value[i]) == sum->out[elem]) {
            return true;
        }
    }
    return false;
}
