/* A compiled schedule, ready to run: byte offsets instead of elements, successors instead of
 * dependencies. It also holds the state of its run; only one is under way at a time. Internal. */
#ifndef DDPCORE_COLLECTIVE_COMPILED_H
#define DDPCORE_COLLECTIVE_COMPILED_H

#include "ddpcore/collective/cache.h"

#define DDP_COMPILED_NONE UINT32_MAX

struct ddp_compiled_operand {
    uint32_t buffer; /* 0 input, 1 output, 2 + n scratch n */
    enum ddp_dtype dtype;
    size_t offset_bytes;
    size_t size_bytes;
};

struct ddp_compiled_step {
    enum ddp_step_kind kind;
    uint32_t peer;
    struct ddp_compiled_operand src, dst;
    size_t elem_count;
    uint32_t next;       /* next step of the same stream (direction and peer), or NONE */
    uint32_t successors; /* first of the steps that depend on this one, in `successor` */
    uint32_t successor_count;
};

struct ddp_compiled_state {
    uint64_t ticket;  /* of a send that was posted */
    uint32_t missing; /* steps it still waits for: dependencies, and the one before it in its
                       * stream */
    bool is_posted;   /* of a message: sent, or taken */
};

struct ddp_compiled {
    struct ddp_cached cached;

    struct ddp_compiled_step *steps;
    uint32_t step_count;
    uint32_t *successor;
    void **buffer; /* void *[2 + scratch_count] */
    uint32_t scratch_count;
    size_t *scratch_bytes; /* size_t[scratch_count] */

    /* At the start of a run. */
    struct ddp_compiled_state *first_state;
    uint32_t *first_active;
    uint32_t first_active_count;

    /* The run. Active steps are ready to start, or sends that wait for their acknowledgement. */
    struct ddp_compiled_state *state; /* of each step */
    uint32_t *active;
    uint32_t active_count;
};

/* Errors: E_NOMEM. */
DDP_MUST_USE ddp_status ddp_compiled_create(struct ddp_mem *mem,
                                            const struct ddp_schedule *schedule,
                                            struct ddp_compiled **out);
void ddp_compiled_destroy(struct ddp_mem *mem, struct ddp_compiled *compiled);

/* Scratch memory, which all compiled schedules of a group share, since one runs at a time. */
struct ddp_compiled_scratch {
    struct ddp_mem *mem;
    struct ddp_transport *transport;
    struct {
        void *data;
        size_t size_bytes;
        bool is_lendable; /* from the transport's memory */
    } buffer[DDP_SCHEDULE_SCRATCH_MAX];
};
void ddp_compiled_scratch_fini(struct ddp_compiled_scratch *scratch);

/* Begin a run on these buffers, with no other run under way. Errors: E_NOMEM. */
DDP_MUST_USE ddp_status ddp_compiled_start(struct ddp_compiled *compiled,
                                           struct ddp_compiled_scratch *scratch, const void *input,
                                           void *output);
static inline void ddp_compiled_release(struct ddp_compiled *compiled, uint32_t step)
{
    /* A step is released once for each step that it waits for. */
    DDP_ASSERT(compiled->state[step].missing > 0);
    if (--compiled->state[step].missing == 0) {
        compiled->active[compiled->active_count++] = step;
    }
}

/* A step of this stream was handed over: the one behind it may follow. */
static inline void ddp_compiled_release_stream(struct ddp_compiled *compiled, uint32_t step)
{
    if (compiled->steps[step].next != DDP_COMPILED_NONE) {
        ddp_compiled_release(compiled, compiled->steps[step].next);
    }
}

/* A step is complete: release what depends on it. */
static inline void ddp_compiled_release_successors(struct ddp_compiled *compiled, uint32_t step)
{
    const struct ddp_compiled_step *done = &compiled->steps[step];

    for (uint32_t i = 0; i < done->successor_count; i++) {
        ddp_compiled_release(compiled, compiled->successor[done->successors + i]);
    }
}

#endif
