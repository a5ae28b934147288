/* The schedule language: a collective as data.
 *
 * A schedule is one rank's list of steps. Messages between a pair match in emission order and agree
 * in element count; a zero-length step is emitted on neither side. A send lends its source range
 * until the receiver acknowledged it: a step that writes there must depend on the send. Steps may
 * run as soon as their dependencies are complete, except that sends to one peer leave, and receives
 * from one peer are taken, in emission order. */
#ifndef DDPCORE_SCHEDULE_SCHEDULE_H
#define DDPCORE_SCHEDULE_SCHEDULE_H

#include <stddef.h>
#include <stdint.h>

#include "ddpcore/base/dtype.h"
#include "ddpcore/base/mem.h"
#include "ddpcore/base/text.h"
#include "ddpcore/seam/recorder.h"

#ifdef __cplusplus
extern "C" {
#endif

/* X(identifier, name) */
#define DDP_STEP_TABLE(X)                                               \
    X(DDP_STEP_SEND, "send")               /* src -> peer */            \
    X(DDP_STEP_RECV, "recv")               /* dst = message */          \
    X(DDP_STEP_RECV_REDUCE, "recv_reduce") /* dst = op(dst, message) */ \
    X(DDP_STEP_REDUCE, "reduce")           /* dst = op(dst, src) */     \
    X(DDP_STEP_COPY, "copy")               /* dst = src */              \
    X(DDP_STEP_CONVERT, "convert")         /* dst = (dst dtype) src */
enum ddp_step_kind {
#define X(id, name) id,
    DDP_STEP_TABLE(X)
#undef X
        DDP_STEP_KIND_COUNT
};

enum ddp_buffer_kind { DDP_BUFFER_INPUT, DDP_BUFFER_OUTPUT, DDP_BUFFER_SCRATCH };

struct ddp_range {
    enum ddp_buffer_kind buffer;
    uint32_t scratch; /* which one, for DDP_BUFFER_SCRATCH */
    size_t first;     /* number of its first element in the buffer */
    size_t elem_count;
};

#define DDP_STEP_DEPS_MAX 4
struct ddp_step {
    enum ddp_step_kind kind;
    uint32_t round;
    uint32_t peer;        /* send, recv, recv_reduce */
    struct ddp_range src; /* send, reduce, copy, convert */
    struct ddp_range dst; /* all but send */
    uint32_t dep_count;
    uint32_t dep[DDP_STEP_DEPS_MAX]; /* earlier steps of this schedule */
};

#define DDP_SCHEDULE_SCRATCH_MAX 8u
/* A buffer of the schedule's own, undefined at the start. Steps between buffers of two types are
 * DDP_STEP_CONVERT. */
struct ddp_scratch {
    enum ddp_dtype dtype;
    size_t elem_count;
};

struct ddp_schedule_params {
    enum ddp_coll_kind kind;
    enum ddp_dtype dtype;
    uint32_t rank, size;          /* member number, member count */
    size_t elem_count;            /* as in struct ddp_coll_args */
    uint32_t root;                /* broadcast, reduce */
    size_t segment_elem_count;    /* longest message; 0 = unlimited */
    const uint32_t *node_of_rank; /* uint32_t[size], borrowed while emitting; NULL: one node */
    /* The input needs no copy: it is the output, an all-gather's is the rank's block of the output,
     * a reduce-scatter's holds the output as the rank's block. Never set where a rank of a
     * reduction has no output. */
    int is_in_place;
};

struct ddp_schedule {
    char algorithm[32];
    struct ddp_schedule_params params;
    struct ddp_step *steps;
    size_t step_count, step_capacity;
    struct ddp_scratch scratch[DDP_SCHEDULE_SCRATCH_MAX];
    uint32_t scratch_count;
    struct ddp_mem *mem;
    ddp_status status; /* first error while emitting: E_NOMEM, E_OVERFLOW */
};

/* An empty schedule of params->rank. algorithm: copied, shorter than the field. mem: where its
 * steps live; borrowed until _fini. params: copied. */
void ddp_schedule_init(struct ddp_schedule *schedule, struct ddp_mem *mem, const char *algorithm,
                       const struct ddp_schedule_params *params);
void ddp_schedule_fini(struct ddp_schedule *schedule);
/* Append a copy of a step and return its index. A step of no elements is left out and returns
 * UINT32_MAX, which is ignored as a dependency; so does every step after an error, which is kept in
 * schedule->status. Ranges must lie inside their buffers, dependencies on earlier steps. */
uint32_t ddp_schedule_add(struct ddp_schedule *schedule, const struct ddp_step *step);
/* Declare a scratch buffer of elem_count elements and return its number for ranges; 0 after an
 * error (E_OVERFLOW in schedule->status: there are DDP_SCHEDULE_SCRATCH_MAX already). */
uint32_t ddp_schedule_add_scratch(struct ddp_schedule *schedule, enum ddp_dtype dtype,
                                  size_t elem_count);

/* Text form, one step a line; the oracle has a reader of its own.
 *   schedule 1 kind=all_reduce algorithm=ring rank=0 size=4 count=100 dtype=f32 root=0 in_place=1
 *   scratch 0 dtype=f32 count=50
 *   0 round=0 send peer=1 src=out:0+25 deps=
 *   1 round=0 recv_reduce peer=3 dst=out:75+25 deps=0,1
 * Ranges are buffer:first+count with buffer in, out or s<N>. Appends to out; an error is out's. */
void ddp_schedule_print(const struct ddp_schedule *schedule, struct ddp_text *out);

#ifdef __cplusplus
}
#endif
#endif
