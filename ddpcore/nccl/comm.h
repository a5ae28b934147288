/* One non-blocking communicator as a state machine. Nothing waits here: every call is started, then
 * polled. Whatever may block inside NCCL (revoke, abort, destroy) runs in a short-lived thread that
 * is polled like everything else, up to a deadline. Internal.
 *
 *   CONNECTING -> READY <-> BUSY         any of these -> FAILED, with NCCL's own text
 *   READY -> FINALIZING -> DESTROYING -> GONE                          an orderly end
 *   CONNECTING, READY, BUSY, FAILED, FINALIZING -> ABORTING -> GONE
 *   READY, BUSY -> REVOKING -> REVOKED                                 where NCCL can revoke
 *   READY, REVOKED -> SHRINKING -> SHRUNK                              the parent of a smaller one
 *   REVOKING, REVOKED, SHRINKING, SHRUNK -> ABORTING -> GONE
 *
 * Calls while another one is in progress are programmer errors: NCCL would answer
 * ncclInvalidArgument and the communicator would be lost. */
#ifndef DDPCORE_NCCL_COMM_H
#define DDPCORE_NCCL_COMM_H

#include "ddpcore/base/clock.h"
#include "ddpcore/device/device.h"
#include "ddpcore/nccl/abi.h"

enum ddp_nccl_comm_state {
    DDP_NCCL_COMM_CONNECTING,
    DDP_NCCL_COMM_READY,      /* takes a call */
    DDP_NCCL_COMM_BUSY,       /* a call is in progress */
    DDP_NCCL_COMM_FAILED,     /* only abort is left */
    DDP_NCCL_COMM_FINALIZING, /* NCCL flushes what was issued */
    DDP_NCCL_COMM_REVOKING,
    DDP_NCCL_COMM_REVOKED,   /* nothing of it runs any more; only abort and shrink are left */
    DDP_NCCL_COMM_SHRINKING, /* its child connects */
    DDP_NCCL_COMM_SHRUNK,    /* its child is there; only abort is left */
    DDP_NCCL_COMM_ABORTING,
    DDP_NCCL_COMM_DESTROYING,
    DDP_NCCL_COMM_GONE /* the handle was freed, or is left to a thread that hangs in NCCL */
};

struct ddp_nccl_comm_config {
    const struct ddp_nccl_library *library; /* borrowed */
    struct ddp_clock *clock;
    struct ddp_device_thread thread; /* of the device that is current in the creator's thread */
    struct ddp_nccl_id id;
    uint32_t member, member_count;
    uint64_t init_timeout_ns; /* 0 = never */
    uint64_t end_timeout_ns;  /* of each of: finalize, destroy, revoke, abort; > 0 */
};

struct ddp_nccl_comm;
/* Start connecting; poll until it is READY. Errors: E_NOMEM, E_SYSTEM (no thread can be had), and
 * those of ddp_nccl_status when NCCL refuses at once. */
DDP_MUST_USE ddp_status ddp_nccl_comm_create(const struct ddp_nccl_comm_config *config,
                                             struct ddp_nccl_comm **out, struct ddp_err *err);
enum ddp_nccl_comm_state ddp_nccl_comm_state(const struct ddp_nccl_comm *comm);
/* Ask NCCL for its state, and follow it. Returns
 *   OK        READY; REVOKED; SHRUNK; GONE
 *   PENDING   CONNECTING, BUSY, FINALIZING, REVOKING, SHRINKING, ABORTING, DESTROYING
 *   an error  FAILED: the first one, with its text; GONE: E_TIMEOUT, a thread was left in NCCL. */
ddp_status ddp_nccl_comm_poll(struct ddp_nccl_comm *comm);
/* The text of the first error, "" if there was none. Borrowed. */
const char *ddp_nccl_comm_error(const struct ddp_nccl_comm *comm);

/* READY only: the handle, for one call (or one group of calls) through the library. The call's
 * result goes to _started, which returns OK (the communicator is BUSY) or what the result means
 * (FAILED). what: for the error text. */
struct ddp_nccl_comm_handle *ddp_nccl_comm_begin(struct ddp_nccl_comm *comm);
ddp_status ddp_nccl_comm_started(struct ddp_nccl_comm *comm, int result, const char *what);
/* As if NCCL had reported this result. */
ddp_status ddp_nccl_comm_fail(struct ddp_nccl_comm *comm, int result, const char *what);

/* READY only: flush, then destroy. If it fails or takes too long, the communicator is aborted. */
void ddp_nccl_comm_finalize(struct ddp_nccl_comm *comm);
/* Stop whatever runs. False, and nothing is done: it is neither READY nor BUSY, or the library
 * cannot revoke. Poll until REVOKED, or FAILED (E_TIMEOUT: kernels may still run). */
bool ddp_nccl_comm_revoke(struct ddp_nccl_comm *comm);
/* READY or REVOKED, with a library that can shrink: stop what runs, then make a communicator of the
 * members without the excluded ones (member numbers), which must not call. Poll until SHRUNK, or
 * FAILED (with NCCL's text, or E_TIMEOUT). timeout_ns: 0 = never. */
void ddp_nccl_comm_shrink(struct ddp_nccl_comm *comm, const uint32_t *excluded,
                          uint32_t excluded_count, uint64_t timeout_ns);
/* SHRUNK, once: the child, which is READY. Errors: E_NOMEM. */
DDP_MUST_USE ddp_status ddp_nccl_comm_take_child(struct ddp_nccl_comm *comm,
                                                 struct ddp_nccl_comm **out);
/* Stop whatever runs, and end. From any state; poll until GONE. */
void ddp_nccl_comm_abort(struct ddp_nccl_comm *comm);
/* GONE only. Memory that a thread left behind still uses is freed by that thread, if it ever
 * returns. */
void ddp_nccl_comm_destroy(struct ddp_nccl_comm *comm);

#endif
