/* In which order a sum may have been taken. Internal to harness/results. */
#ifndef HARNESS_RESULTS_ORDERS_H
#define HARNESS_RESULTS_ORDERS_H

#include <stdbool.h>
#include <stdint.h>

#include "ddpcore/base/mem.h"
#include "ddpcore/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Elements that a known order may leave over, and still be taken for the one that was used. */
enum { HARNESS_ORDERS_REST_MAX = 64 };
/* Up to so many contributions all orders can be tried. */
enum { HARNESS_ORDERS_ALL_MAX = 10 };

/* Contributions and a result, element by element. Floats are held as doubles, which is exact. */
struct harness_orders_sum {
    uint32_t dtype; /* enum ddprove_guest_dtype, a float */
    bool is_average;
    uint32_t size; /* contributions */
    uint64_t count;
    const double *in;  /* [size * count]: contribution 0, 1, ... */
    const double *out; /* [count] */
};

/* One addition: the first partial sum grows by the second. */
struct harness_orders_step {
    uint32_t to, from;
};

/* How one element came about. */
struct harness_orders_way {
    uint32_t average; /* divided or multiplied, before or after */
    bool is_wide;     /* partial sums are of the next wider type */
    uint32_t order;
    uint32_t chunk_count; /* rings: chunks, each begun by another rank */
};

/* The order that explains most. */
struct harness_orders_fit {
    bool is_known; /* all elements but the rest */
    struct harness_orders_way way;
    uint64_t rest_count;
    uint64_t rest[HARNESS_ORDERS_REST_MAX];
};

/* Memory for what the functions below work with. Errors: E_NOMEM. */
struct harness_orders;
DDP_MUST_USE ddp_status harness_orders_create(const struct harness_orders_sum *sum,
                                              struct ddp_mem *mem, struct harness_orders **out);
void harness_orders_destroy(struct harness_orders *orders);

/* Find the known order that leaves the fewest elements over, and fewer than the most that are
 * listed. */
void harness_orders_find(struct harness_orders *orders, struct harness_orders_fit *out);
/* From now on `evaluate` is about this element, in the order that was found. */
void harness_orders_aim(struct harness_orders *orders, const struct harness_orders_fit *fit,
                        uint64_t elem);
/* What the order gives if a contribution is another value; changed: size if none is. */
double harness_orders_evaluate(struct harness_orders *orders, uint32_t changed, double value);
/* Whether some order gives what came out, with additions that round to nearest, each in the type of
 * the elements or in the next wider one, or with one rounding at the end. True, too, if there are
 * too many contributions to tell, or an average, of which there are too many ways. */
bool harness_orders_can_give(struct harness_orders *orders, uint64_t elem);

#ifdef __cplusplus
}
#endif
#endif
