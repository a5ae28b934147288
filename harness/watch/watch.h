/* What the ranks of a guest have done and where they are, read from the arena: every call of every
 * communicator, and what each thread waits for. And what follows: who differs, who is gone, who
 * waits for whom. Reading changes nothing that a rank sees. */
#ifndef HARNESS_WATCH_WATCH_H
#define HARNESS_WATCH_WATCH_H

#include "ddpcore/base/mem.h"
#include "ddpcore/base/text.h"
#include "harness/guest/arena.h"
#include "harness/verdict/verdict.h"

#ifdef __cplusplus
extern "C" {
#endif

enum harness_watch_state {
    HARNESS_WATCH_UNKNOWN, /* no process of this rank has been seen */
    HARNESS_WATCH_RUNNING,
    HARNESS_WATCH_STOPPED,
    HARNESS_WATCH_EXITED,  /* code */
    HARNESS_WATCH_SIGNALED /* code = signal */
};

/* A call as one rank posted it. */
struct harness_watch_call {
    uint64_t op; /* guest_op_pack */
    uint64_t elem_count;
    uint64_t bucket; /* number + 1, 0 = none */
    uint64_t time_ns;
    uint32_t step;
    uint16_t micro;
    uint8_t phase;
    bool is_done;
    bool is_launched; /* given to a device, */
    uint32_t lane;    /* which shows its way by this lane, place + 1; 0: not at all */
};

/* A rank's part in a group. */
struct harness_watch_member {
    bool is_there;     /* the rank has made the communicator */
    bool is_freed;     /* and given it back */
    bool is_of_device; /* its calls are a device's */
    uint32_t handle;   /* in that process */
    uint32_t rank;     /* within the group */
    uint64_t posted;   /* seq of its last call */
    uint64_t kept_seq; /* calls[0] is this one */
    struct harness_watch_call *calls;
    size_t call_count, call_capacity;
};

/* A communicator with all its members. */
struct harness_watch_group {
    uint64_t key;
    uint64_t size;
    bool is_pair; /* its calls are messages, of which a step need not be the other rank's */
    char name[GUEST_NAME_BYTES];
    struct harness_watch_member *members; /* [world_size], by rank of the job */
    uint64_t checked_seq;                 /* up to here all members posted the same */
    uint64_t differs_ns;                  /* when a difference was first seen; 0: none is */
    bool is_wrong; /* a finding was made of it: what follows in it is not compared */
};

/* What a thread waits for, or a device's stream. */
struct harness_watch_wait {
    size_t group; /* index */
    uint64_t seq;
    uint64_t enter_ns; /* of a device: when it was first seen */
    uint64_t first;    /* of a device: it has begun first..seq, and ended none of them; else seq */
    uint64_t lane;     /* of a device: place + 1; else 0 */
};

enum { HARNESS_WATCH_WAITS_MAX = GUEST_THREADS_MAX + GUEST_LANES_MAX };

/* How far a device is on a stream, with the calls of a communicator. */
struct harness_watch_lane {
    uint64_t handle; /* 0: none lives here */
    uint64_t stream;
    uint64_t begun, ended;
    uint64_t since_ns; /* when this was first seen */
};

struct harness_watch_rank {
    enum harness_watch_state state; /* the driver's */
    int code;
    uint64_t since_ns;  /* when the state was first seen */
    uint64_t ending_ns; /* when is_ending was set */
    bool is_ending;     /* it is not gone yet, but its end has begun: the driver's, set when another
                          rank ended */
    bool is_attached, is_detached;
    uint64_t pid, world_size;
    uint64_t step, micro, phase;
    uint64_t alive_ns;
    uint64_t read_count;      /* entries of its ring that were read */
    uint64_t lost_count;      /* and that were overwritten before, or torn */
    uint64_t thread_count;    /* threads that have made a call and live */
    uint64_t lost_comm_count; /* communicators that it could not show */
    bool has_device;          /* it has made a communicator of which a device makes the calls */
    bool has_broken;          /* a device's call failed, or its communicator was given up */
    struct harness_watch_wait waits[HARNESS_WATCH_WAITS_MAX]; /* those of threads come first */
    uint32_t wait_count, thread_wait_count;
    struct harness_watch_lane lanes[GUEST_LANES_MAX];
    struct { /* communicators by handle */
        uint32_t handle;
        size_t group;
    } comms[GUEST_COMMS_MAX];
};

struct harness_watch {
    struct ddp_mem *mem;
    const struct guest_arena *arena;
    uint32_t world_size;
    struct harness_watch_rank *ranks; /* [world_size] */
    struct harness_watch_group *groups;
    size_t group_count, group_capacity;
    uint64_t now_ns;
    uint64_t change_ns; /* when anything was last seen to change */
    bool is_failed;     /* out of memory: what follows is not all of it */
};

/* Errors: E_NOMEM; then there is nothing to release. */
DDP_MUST_USE ddp_status harness_watch_init(struct harness_watch *watch, struct ddp_mem *mem,
                                           const struct guest_arena *arena);
/* Zeroed is fine too. */
void harness_watch_fini(struct harness_watch *watch);
/* Read what is new. now_ns rises from call to call. The states of processes are the driver's: it
 * notes an end only after a read that began when the process had ended. */
void harness_watch_read(struct harness_watch *watch, uint64_t now_ns);
/* The call of a member; NULL: not posted, or not kept any more. */
const struct harness_watch_call *harness_watch_call_at(const struct harness_watch_member *member,
                                                       uint64_t seq);

#ifdef __cplusplus
}
#endif
#endif
