/* The state of a group over NCCL, shared by its queue (nccl.c), its launches (nccl_launch.c) and
 * its creation and end (nccl_group.c). Internal. */
#ifndef DDPCORE_NCCL_STATE_H
#define DDPCORE_NCCL_STATE_H

#include "ddpcore/collective/control.h"
#include "ddpcore/nccl/plan.h"
#include "ddpcore/seam/progress.h"

enum ddp_nccl_phase {
    DDP_NCCL_AGREEING, /* members compare signatures */
    DDP_NCCL_WAITING,  /* for its turn on the stream */
    DDP_NCCL_STARTED,  /* a call to NCCL is in progress */
    DDP_NCCL_RUNNING   /* all of it is on the stream */
};

/* What a queued work needs beside itself. Kept until the group ends. */
struct ddp_nccl_job {
    struct ddp_nccl_job *next_owned; /* all jobs of the group */
    struct ddp_nccl_job *next_free;
    struct ddp_coll_work *work;
    struct ddp_coll_work agreement;    /* the same collective on the control channel */
    struct ddp_device_event *produced; /* the input is there */
    struct ddp_device_event *done;
    enum ddp_nccl_phase phase;
    bool is_asked;              /* its fault point was passed */
    struct ddp_nccl_plan *plan; /* NULL: NCCL's own algorithm */
    uint32_t round;             /* of the plan: the one that comes next */
    bool is_after;              /* the round's messages are started, its last kernels are not */
};

struct ddp_nccl_coll {
    struct ddp_coll base;
    const struct ddp_nccl_library *library;
    struct ddp_device *device;
    struct ddp_stream *stream;
    void *token; /* one float of device memory, for barriers */
    struct ddp_control control;
    struct ddp_nccl_comm *comm; /* NULL before it is connected */
    struct ddp_progress *progress;
    bool is_checked;

    struct ddp_coll_work *head, *tail;
    struct ddp_coll_work *agreeing;  /* first that has not been agreed on */
    struct ddp_coll_work *launching; /* first that is not RUNNING */
    struct ddp_nccl_job *jobs, *free_jobs;
    struct ddp_nccl_plan_cache plans; /* algorithm NULL: not used */
    void *workspace;
    size_t workspace_bytes;

    ddp_status failed; /* what ended the group, or OK */
    struct ddp_err err;
    uint64_t suspected_ns; /* when NCCL reported an error that may be a death; 0 = never */
};

static inline struct ddp_nccl_job *ddp_nccl_job_of(const struct ddp_coll_work *work)
{
    return (struct ddp_nccl_job *)work->engine;
}

/* Move the group's queue on as far as it goes now. */
void ddp_nccl_coll_drive(struct ddp_nccl_coll *coll);
/* End the group with this error: the communicator is aborted, queued works end with it once nothing
 * of them runs any more. The first error counts. */
void ddp_nccl_coll_fail(struct ddp_nccl_coll *coll, ddp_status status);
/* End queued works with what ended the group, if nothing of them can run any more. */
void ddp_nccl_coll_end_works(struct ddp_nccl_coll *coll);
/* Whether the communicator has ended, one way or the other. */
bool ddp_nccl_coll_is_gone(const struct ddp_nccl_coll *coll);
/* An error, held against the deaths that are known: PENDING while one may still become known, then
 * what it is: itself, E_PEER_DIED, E_DEVICE. */
ddp_status ddp_nccl_coll_explain(struct ddp_nccl_coll *coll, ddp_status status);

/* Put one more piece of the job on the stream; the communicator is READY. PENDING: a call to NCCL
 * is in progress, come again; OK: all of it is there. */
ddp_status ddp_nccl_launch(struct ddp_nccl_coll *coll, struct ddp_nccl_job *job);
/* Whether NCCL has nothing to do for these arguments. */
static inline bool ddp_nccl_is_empty(const struct ddp_coll_args *args)
{
    return args->kind != DDP_COLL_BARRIER && args->elem_count == 0;
}

/* All but communicator, stream and token. Takes over transport, also on failure. */
DDP_MUST_USE ddp_status ddp_nccl_coll_make(struct ddp_env *env, struct ddp_transport *transport,
                                           struct ddp_device *device,
                                           const struct ddp_nccl_library *library,
                                           const struct ddp_coll_nccl_config *config,
                                           struct ddp_nccl_coll **out, struct ddp_err *err);
/* The stream and the token. It allocates, which may wait for kernels: none of them may need a
 * member that is missing. */
DDP_MUST_USE ddp_status ddp_nccl_coll_prepare_device(struct ddp_nccl_coll *coll,
                                                     struct ddp_err *err);
/* A group that could not be completed: tell the others, and destroy it. Returns status, with the
 * group's name in err. */
ddp_status ddp_nccl_coll_give_up(struct ddp_nccl_coll *coll, const char *name, ddp_status status,
                                 struct ddp_err *err);

extern const struct ddp_coll_ops ddp_nccl_coll_ops;
void ddp_nccl_coll_destroy(struct ddp_coll *base);

#endif
