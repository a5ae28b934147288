/* The state of a group over NCCL, shared by its engine (engine.c), its launches (launch.c), its
 * creation (group.c, shrink.c) and its end (end.c). Internal. */
#ifndef DDPCORE_NCCL_STATE_H
#define DDPCORE_NCCL_STATE_H

#include "ddpcore/collective/control.h"
#include "ddpcore/nccl/plan.h"
#include "ddpcore/seam/progress.h"

enum ddp_nccl_phase {
    DDP_NCCL_WAITING, /* for agreement, or for its turn on the stream */
    DDP_NCCL_STARTED, /* a call to NCCL is in progress */
    DDP_NCCL_RUNNING  /* all of it is on the stream */
};

struct ddp_nccl_job {
    struct ddp_control_job control;
    struct ddp_device_event *produced; /* the input is there */
    struct ddp_device_event *done;
    enum ddp_nccl_phase phase;
    bool is_asked;              /* its fault point nccl/async_error was passed */
    struct ddp_nccl_plan *plan; /* NULL: NCCL's own algorithm */
    uint32_t round;             /* of the plan: the one that comes next */
    bool is_after;              /* of that round, only the kernels after its messages are left */
    uint64_t alone_ns;          /* since when it is the head though a member has left; 0: not yet */
};

struct ddp_nccl_coll {
    struct ddp_queue queue;
    struct ddp_control control;
    const struct ddp_nccl_library *library;
    void *token;                /* one float of device memory, for barriers */
    struct ddp_nccl_comm *comm; /* NULL before it is connected */
    struct ddp_progress *progress;

    struct ddp_coll_work *agreeing;  /* first that has not been agreed on */
    struct ddp_coll_work *launching; /* first that is not RUNNING */
    struct ddp_cache plans;          /* of all-reduces; without algorithm: not used */
    void *workspace;
    size_t workspace_bytes;
};

extern const struct ddp_engine ddp_nccl_engine;

static inline struct ddp_nccl_job *ddp_nccl_job_of(const struct ddp_coll_work *work)
{
    return (struct ddp_nccl_job *)work->engine;
}

/* Whether the communicator has ended, one way or the other. */
static inline bool ddp_nccl_coll_is_gone(const struct ddp_nccl_coll *coll)
{
    return coll->comm == NULL || ddp_nccl_comm_state(coll->comm) == DDP_NCCL_COMM_GONE;
}

/* Put one more piece of the job on the stream; the communicator is READY. PENDING: a call to NCCL
 * is in progress, come again; OK: all of it is there. */
ddp_status ddp_nccl_launch(struct ddp_nccl_coll *coll, struct ddp_nccl_job *job);

/* All but communicator, stream and token. Takes over transport, also on failure. */
DDP_MUST_USE ddp_status ddp_nccl_coll_make(struct ddp_env *env, struct ddp_transport *transport,
                                           struct ddp_device *device,
                                           const struct ddp_nccl_library *library,
                                           const struct ddp_coll_nccl_config *config,
                                           struct ddp_nccl_coll **out, struct ddp_err *err);
/* The stream and the token. Allocating may wait for kernels of the device, so none of these may
 * wait for a member that is missing. */
DDP_MUST_USE ddp_status ddp_nccl_coll_prepare_device(struct ddp_nccl_coll *coll,
                                                     struct ddp_err *err);
/* A group that could not be completed: tell the others, and destroy it. Returns status, with the
 * group's name in err. */
ddp_status ddp_nccl_coll_give_up(struct ddp_nccl_coll *coll, const char *name, ddp_status status,
                                 struct ddp_err *err);
/* End the communicator, and release the group. It waits, up to the communicator's deadlines. */
void ddp_nccl_coll_destroy(struct ddp_queue *queue);

#endif
