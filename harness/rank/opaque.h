/* All-reduces by a plug-in that moves the data itself, for the executor of a rank's group. */
#ifndef HARNESS_RANK_OPAQUE_H
#define HARNESS_RANK_OPAQUE_H

#include "ddpcore/collective/mover.h"
#include "harness/plugin/opaque.h"

struct harness_opaque_mover {
    struct ddp_coll_mover mover; /* first: the mover's pointer is this one's */
    struct harness_opaque_owner owner;
    struct harness_opaque opaque;
    struct ddp_env *env;
    struct ddp_recorder *recorder; /* the rank's, also while probes hide it from env */
    struct ddp_transport *transport;
    const struct ddp_coll_way *way; /* of the present collective; NULL: none is under way */
    const char *path;               /* borrowed */
    uint64_t timeout_ns;            /* of a collective; 0: none */
    uint64_t deadline_ns;           /* of the present one; a call that blocks ends so late */
    ddp_status failed;              /* what the plug-in failed with, and is not called again; OK */
    bool is_waiting;                /* the wait that the rank shows is the plug-in's */
    struct ddp_err err;
};

/* Loads and opens it, on all ranks alike; the plug-in's messages go over transport. env, transport,
 * path: borrowed. Errors: E_INVALID (no plug-in, or no all-reduce), those of harness_opaque_open.
 * _close is right after all of them. */
DDP_MUST_USE ddp_status harness_opaque_mover_open(struct harness_opaque_mover *mover,
                                                  const char *path, struct ddp_env *env,
                                                  struct ddp_transport *transport,
                                                  uint64_t timeout_ns, struct ddp_err *err);
/* is_well: as of harness_opaque_close. Nothing if it was never opened. */
void harness_opaque_mover_close(struct harness_opaque_mover *mover, bool is_well);

#endif
