/* Drift alarm: do all ranks still hold the same parameters? What reduces gradients keeps replicas
 * equal only if nothing else goes wrong: an update that one rank left out, a flipped bit, a bucket
 * that was reduced on some ranks only all show here, whatever caused them. */
#ifndef DDPCORE_DDP_DRIFT_H
#define DDPCORE_DDP_DRIFT_H

#include "ddpcore/ddp/ddp.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ddp_drift {
    size_t param;          /* the first parameter that differs between ranks */
    int32_t rank;          /* the lowest global rank that holds it otherwise than most; -1: of two
                            * halves nobody can say which is wrong */
    uint32_t rank_count;   /* so many ranks hold it otherwise than most; 0: rank is -1 */
    uint64_t differ_count; /* parameters that differ */
};

/* Compares a hash of each parameter over all ranks: one all-gather of 8 bytes a parameter, role
 * DRIFT. All ranks call, between steps, e.g. every 100 steps. OK: they are equal. E_MODEL: they
 * are not; *out is the same on all ranks, and the group goes on: whether to stop is the caller's
 * choice. Errors: E_NOMEM, E_STATE (inside a pass), E_UNSUPPORTED (strict, inside a join that does
 * not throw), and the group's. */
DDP_MUST_USE ddp_status ddp_check_drift(struct ddp *ddp, struct ddp_drift *out);
/* One number for all parameters of this rank: names, order and every bit. For logs, where ranks and
 * runs are compared afterwards; nothing is exchanged. Errors: the device's. */
DDP_MUST_USE ddp_status ddp_hash_params(struct ddp *ddp, uint64_t *out);

#ifdef __cplusplus
}
#endif
#endif
