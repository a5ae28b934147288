/* The core's collectives in one process, whose messages arrive one at a time in an order that is
 * chosen: every order of a small world, drawn ones of a larger one. And messages that do not arrive
 * as they were sent. */
#ifndef HARNESS_LAB_ORDERS_H
#define HARNESS_LAB_ORDERS_H

#include "ddpcore/collective/collective.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HARNESS_ORDERS_RANKS_MAX 16u

struct harness_orders_config {
    enum ddp_coll_kind kind;
    enum ddp_algorithm_id algorithm;
    struct ddp_schedule_emitter *emitter; /* of all-reduces, instead of the algorithm; or NULL */
    /* Bits of messages change too, which nobody but a transport with sums of its own can notice. */
    bool is_flipping;
    bool is_deaf; /* ranks' transports do not say that another one has died */
    uint32_t world;
    size_t elem_count;
    uint64_t runs_max; /* orders that are tried, the first of them in turn, the rest drawn */
};

struct harness_orders_result {
    uint64_t run_count;
    bool is_exhaustive; /* there are no other orders */
    char wrong[300];    /* "": nothing is */
    uint32_t rank;      /* the rank concerned */
};

/* All ranks end well in every order, and with the same bits. Errors: E_NOMEM, those of the core. */
DDP_MUST_USE ddp_status harness_orders_all(const struct harness_orders_config *config,
                                           struct harness_orders_result *out, struct ddp_err *err);
/* Each message in turn is lost, comes twice, or comes cut short: no rank takes a wrong result for
 * right then. Where a bit of it changes, some rank notices, in that call or the next. */
DDP_MUST_USE ddp_status harness_orders_spoiled(const struct harness_orders_config *config,
                                               struct harness_orders_result *out,
                                               struct ddp_err *err);
/* Each rank in turn dies before each message in turn, and after the last one: all others end, with
 * an error or with the right result. */
DDP_MUST_USE ddp_status harness_orders_killed(const struct harness_orders_config *config,
                                              struct harness_orders_result *out,
                                              struct ddp_err *err);

#ifdef __cplusplus
}
#endif
#endif
