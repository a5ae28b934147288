/* What makes the collectives of one rank of a team. Internal. */
#ifndef HARNESS_LAB_ENGINE_H
#define HARNESS_LAB_ENGINE_H

#include "ddpcore/base/dtype.h"
#include "ddpcore/seam/env.h"
#include "ddpcore/transport/transport.h"
#include "harness/lab/shared.h"

struct harness_lab_call {
    enum ddp_redop redop;
    enum ddp_dtype dtype;
    uint32_t root;
    size_t elem_count;
    const void *input; /* == output: in place, as ddp_coll_args has it */
    void *output;
};

struct harness_lab_engine;
struct harness_lab_engine_ops {
    /* Memory for a rank's buffers, which is the engine's until _close; NULL: none is left. */
    void *(*alloc)(struct harness_lab_engine *engine, enum harness_lab_area area,
                   size_t size_bytes);
    /* One collective, to its end. */
    ddp_status (*run)(struct harness_lab_engine *engine, const struct harness_lab_call *call);
    void (*close)(struct harness_lab_engine *engine);
    /* From another thread: whatever runs ends. NULL: it cannot. */
    void (*abort)(struct harness_lab_engine *engine);
};
struct harness_lab_engine {
    const struct harness_lab_engine_ops *ops;
    struct harness_lab_shared *shared;
    uint32_t number;        /* of the communicator: 0 is the first */
    bool is_aborted_posted; /* the next call is aborted, twice, as soon as it was posted or waits */
    struct ddp_env env;
    struct ddp_idle_process idle;
    struct ddp_err *err; /* of the rank: where words about an error go */
};

/* Every rank of the team opens its own, at the same time. number: which communicator it is. */
DDP_MUST_USE ddp_status harness_lab_engine_open(struct harness_lab_shared *shared, uint32_t rank,
                                                uint32_t number, struct harness_lab_engine **out,
                                                struct ddp_err *err);

/* Of each kind; base: filled but for ops. */
DDP_MUST_USE ddp_status harness_lab_schedule_open(const struct harness_lab_engine *base,
                                                  struct harness_lab_engine **out);
DDP_MUST_USE ddp_status harness_lab_opaque_open(const struct harness_lab_engine *base,
                                                struct harness_lab_engine **out);
DDP_MUST_USE ddp_status harness_lab_yardstick_open(const struct harness_lab_engine *base,
                                                   struct harness_lab_engine **out);

/* A way to the other ranks, by the transport that was asked for. */
DDP_MUST_USE ddp_status harness_lab_connect(struct harness_lab_engine *engine,
                                            struct ddp_transport **out);

#define HARNESS_LAB_TIMEOUT_NS (60 * DDP_NS_PER_S)

#endif
