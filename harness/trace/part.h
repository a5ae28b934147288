/* A run whose ranks went on after a loss, as two: what the lost group did, and what the new one did
 * by itself. Pure. */
#ifndef HARNESS_TRACE_PART_H
#define HARNESS_TRACE_PART_H

#include "harness/trace/trace.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a rank recorded of it. */
struct harness_parting_rank {
    const struct harness_trace_event *lost;    /* its group.lost, or NULL */
    const struct harness_trace_event *changed; /* its group.changed, or NULL */
    uint32_t *list;                            /* [list_count] its group.member */
    uint64_t *steps;                           /* [list_count] what they said that they had done */
    uint32_t list_count;
};

struct harness_parting {
    struct ddp_mem *mem;
    uint32_t world_size;
    struct harness_parting_rank *by_rank; /* [world_size] */
    bool is_lost;                         /* some rank has lost its group */
    bool is_set;                          /* there is a new group: */
    const uint32_t *ranks;                /* [count] who is in it, as far as they can be right */
    uint32_t count;
    /* As follows from what its members recorded before, whatever they say: */
    uint32_t first_step; /* that nobody had done */
    uint32_t source;     /* the first member that had done all before it */
    uint64_t changed_ns; /* when the first one was in it */
};

/* Borrows the trace. Errors: E_NOMEM. */
DDP_MUST_USE ddp_status harness_parting_find(struct ddp_mem *mem, const struct harness_trace *trace,
                                             struct harness_parting *out);
void harness_parting_fini(struct harness_parting *parting);
/* The member that a rank became; UINT32_MAX: none. */
uint32_t harness_parting_member(const struct harness_parting *parting, uint32_t rank);
/* What happened before. Ranks that lost their group end there, with the error that they had. */
DDP_MUST_USE ddp_status harness_trace_before(const struct harness_trace *trace,
                                             const struct harness_parting *parting,
                                             struct harness_trace *out);
/* What the new group did: members in place of ranks, in all that is said of them. It begins with
 * program `program_hash`. */
DDP_MUST_USE ddp_status harness_trace_after(const struct harness_trace *trace,
                                            const struct harness_parting *parting,
                                            uint64_t program_hash, struct harness_trace *out);

#ifdef __cplusplus
}
#endif
#endif
