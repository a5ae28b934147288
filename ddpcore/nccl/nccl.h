/* NCCL as an implementation of collectives. The library is loaded at run time; no header of NCCL or
 * CUDA is needed to build this (abi.h declares the part of the ABI that is used, and a test
 * holds it against nccl.h where that is installed).
 *
 * Communicators are non-blocking: every call is started, then polled through
 * ncclCommGetAsyncError, and nothing waits without a deadline. Gradients are scaled before the sum
 * by the reducer, so only ncclSum and its like are used, never ncclAvg.
 *
 * Beside the communicator runs a control channel over a transport of host memory. It carries
 * revocations, notices deaths (NCCL itself names no rank), and, if is_checked, an agreement before
 * each launch: a barrier whose messages carry the collective's signature, so that a mismatched or
 * missing collective ends in an error before any NCCL kernel starts. Unchecked, a collective goes
 * to NCCL as soon as it is posted. */
#ifndef DDPCORE_NCCL_NCCL_H
#define DDPCORE_NCCL_NCCL_H

#include "ddpcore/collective/collective.h"
#include "ddpcore/store/store.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An opened library. One per process is enough; it is never unloaded while communicators live. */
struct ddp_nccl_library;
/* path: the library, or NULL for libnccl.so.2 by name. Errors: E_NOT_FOUND (no library, or it lacks
 * a function that is needed; err names it), E_UNSUPPORTED (older than 2.19: a
 * communicator could not be aborted while a call is in progress; err says both versions). */
DDP_MUST_USE ddp_status ddp_nccl_library_open(struct ddp_mem *mem, const char *path,
                                              struct ddp_nccl_library **out, struct ddp_err *err);
void ddp_nccl_library_close(struct ddp_nccl_library *library);
/* ncclGetVersion: 10000 * major + 100 * minor + patch (22809). */
uint32_t ddp_nccl_library_version(const struct ddp_nccl_library *library);

#define DDP_NCCL_ID_BYTES 128u
/* ncclGetUniqueId: opens the bootstrap's socket in this process, which must live until all members
 * have joined. id: uint8_t[DDP_NCCL_ID_BYTES]. Errors: those of ddp_nccl_status; err holds NCCL's
 * text.
 */
DDP_MUST_USE ddp_status ddp_nccl_unique_id(const struct ddp_nccl_library *library, uint8_t *id,
                                           struct ddp_err *err);

/* What a ncclResult_t means here: 0 OK, 7 PENDING, 6 E_PEER_DIED, 5 E_STATE, 4 E_INVALID,
 * 3 and 2 E_SYSTEM, 1 E_DEVICE; anything else E_SYSTEM. */
ddp_status ddp_nccl_status(int result);

struct ddp_coll_nccl_config {
    struct ddp_nccl_library *library;
    struct ddp_store *store; /* carries the id, under keys "nccl/<name>/..."; used during creation
                              * only, and each name only once */
    const char *name;        /* of the group */
    uint64_t comm;
    const uint32_t *member_rank; /* global rank of each member; NULL = identity */
    bool is_checked;             /* agree on the host before every launch (strict semantics) */
    uint64_t init_timeout_ns;    /* 0 = never */
    uint64_t abort_timeout_ns;   /* how long destroy waits for ncclCommAbort; 0 = 10 s */
    /* NONE: NCCL's own algorithms. Else all-reduces run this algorithm's schedule over
     * ncclSend/ncclRecv, a round as one group. */
    enum ddp_algorithm_id algorithm;
    size_t segment_bytes;                   /* of that algorithm; 0 = its default */
    struct ddp_schedule_observer *observer; /* of those schedules, or NULL */
    struct ddp_progress *progress;          /* words of the communication stream, or NULL */
};

/* Joins the group: all members must call. Takes over transport (the control channel, also on
 * failure); borrows device, whose memory the collectives work on, and library. The creator needs
 * the device current in this thread.
 * Errors: E_TIMEOUT (a member never came), E_PEER_DIED, E_UNSUPPORTED (the algorithm does not fit
 * rounds of send and receive; err says where), and those of ddp_nccl_status with NCCL's text. */
DDP_MUST_USE ddp_status ddp_coll_nccl_create(struct ddp_env *env, struct ddp_transport *transport,
                                             struct ddp_device *device,
                                             const struct ddp_coll_nccl_config *config,
                                             struct ddp_coll **out, struct ddp_err *err);

/* A group of parent's members without the excluded ones (member numbers in parent). NCCL reuses the
 * connections of parent, so no store is needed. All remaining members must call, the excluded ones
 * must not. Meant for members that hang or are missing: parent must not have failed, because NCCL
 * refuses to go on after an error that it has reported. Stops parent: its works end with E_REVOKED,
 * and afterwards it can only be destroyed, before or after the new group.
 * transport: the new group's control channel, taken over (also on failure). config: as for
 * creation; library and store are not used. parent: made by ddp_coll_nccl_create, no decorator.
 * Errors: E_UNSUPPORTED (older than 2.27; or older than 2.28.7 with a call in progress), E_STATE
 * (parent has failed), E_INVALID (transport is not that of the members that are left), E_TIMEOUT,
 * E_PEER_DIED, E_REVOKED, and those of ddp_nccl_status with NCCL's text. */
DDP_MUST_USE ddp_status ddp_coll_nccl_shrink(struct ddp_coll *parent,
                                             struct ddp_transport *transport,
                                             const struct ddp_coll_nccl_config *config,
                                             const uint32_t *excluded, uint32_t excluded_count,
                                             struct ddp_coll **out, struct ddp_err *err);

#ifdef __cplusplus
}
#endif
#endif
