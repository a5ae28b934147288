/* What the ranks of a guest have done and where they are, read from the arena: every call of every
 * communicator, and what each thread waits for. And what follows: who differs, who is gone, who
 * waits for whom. Reading changes nothing that a rank sees. */
#ifndef HARNESS_WATCH_WATCH_H
#define HARNESS_WATCH_WATCH_H

#include "ddpcore/base/mem.h"
#include "ddpcore/base/text.h"
#include "harness/guest/arena.h"
#include "harness/guest/observe/sample.h"
#include "harness/verdict/verdict.h"

#ifdef __cplusplus
extern "C" {
#endif

/* X(identifier, name) */
#define HARNESS_WATCH_STATE_TABLE(X)                                  \
    X(UNKNOWN, "unknown") /* no process of this rank has been seen */ \
    X(RUNNING, "running")                                             \
    X(STOPPED, "stopped")                                             \
    X(EXITED, "exited")     /* code: -1, it is not known */           \
    X(SIGNALED, "signaled") /* code = signal */
enum harness_watch_state {
#define X(id, name) HARNESS_WATCH_##id,
    HARNESS_WATCH_STATE_TABLE(X)
#undef X
};

/* What the data of a buffer come to (harness/guest/observe/sums.h). */
struct harness_watch_value {
    bool is_there;
    uint64_t sum, magnitude, hash;
};

/* Names that ranks tell, each once; a finding's params are their indices. */
struct harness_watch_names {
    char **items;
    uint32_t count;
    size_t capacity;
    uint32_t *table; /* of hashes */
    size_t table_size;
};

/* Names in a row, such as those of a bucket's parameters. The same names are the same list, whoever
 * tells them. */
struct harness_watch_list {
    struct harness_watch_list *next;
    uint32_t number; /* in the order in which they were told, from 0 */
    uint32_t count;
    uint32_t *params;   /* indices of names */
    const char **texts; /* the same as texts */
};

/* A call as one rank posted it. */
struct harness_watch_call {
    uint64_t op; /* guest_op_pack */
    uint64_t elem_count;
    uint64_t bucket;                       /* number + 1, 0 = none */
    uint32_t model;                        /* whose bucket it is */
    const struct harness_watch_list *list; /* what it holds, as the rank told it before; NULL: it
                                              has not */
    uint64_t time_ns; /* 0: another thread has posted it, and its entry is not there yet */
    uint64_t order;   /* of two calls of a rank the one with the smaller number was posted first */
    uint32_t step;
    bool may_overflow;    /* its values are scaled far up, and the program looks for infinity */
    bool is_before_steps; /* the rank had announced none: others' steps need not be its own */
    uint16_t micro;
    uint8_t phase;
    uint8_t thread;    /* which thread of the rank posted it */
    uint32_t messages; /* so often that thread had waited for ranks since its last call before */
    bool is_done;
    bool is_launched; /* given to a device, */
    uint32_t lane;    /* which shows its way by this lane, place + 1; 0: not at all */
    bool has_changed; /* its input was overwritten while it was in flight */
    struct harness_watch_value in, out;
    bool has_sample; /* of what went in and, with `out`, of what came out */
    struct guest_sample in_sample;
    double out_sample;
    char name[GUEST_NAME_BYTES]; /* of the buffer; "": not told, or not read yet */
};

/* A rank's part in a group. */
struct harness_watch_member {
    bool is_there;     /* the rank has made the communicator */
    bool is_freed;     /* and given it back */
    bool is_of_device; /* its calls are a device's */
    bool has_broken;   /* one of them failed, or the communicator was given up */
    uint32_t handle;   /* in that process */
    uint32_t rank;     /* within the group */
    bool is_unshown;   /* it shows its calls no more */
    bool has_near;     /* it has told for whom its calls of neighbours wait: */
    uint64_t *near;    /* guest_near_pack each */
    size_t near_count, near_capacity;
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
    uint32_t peer; /* of a pair that one end alone has shown: the other one's rank in `parent` */
    struct harness_watch_member *members; /* [world_size], by rank of the job */
    uint64_t checked_seq;                 /* up to here all members posted the same */
    uint64_t summed_seq;                  /* up to here results were judged */
    uint64_t done_seq;    /* the last call that some member has seen done, of those that end for
                             nobody before all have posted them */
    uint64_t done_before; /* the same when what members posted was last read */
    uint64_t wrong_seq;   /* the call that members were found to have posted differently; 0: none */
    uint64_t differs_ns;  /* when a difference was first seen; 0: none is */
    bool is_wrong;        /* a finding was made of it, or entries of a member were lost: what
                             follows in it is not compared */
    uint32_t parent;      /* of a pair: index + 1 of the communicator that it belongs to; 0: that
                             was not told */
};

/* Why a call's result was not judged. X(identifier, in words) */
#define HARNESS_WATCH_UNJUDGED_TABLE(X)                               \
    X(KIND, "of a kind that is not judged")                           \
    X(HIDDEN, "their data were not shown")                            \
    X(PASSED_OVER, "passed over, as one call in so many is judged")   \
    X(ONE_RESULT, "not sums, and one rank alone has the result")      \
    X(NOT_FINITE, "of values that are not finite")                    \
    X(BLIND, "rounding may come to as much as a rank's contribution") \
    X(DIFFER, "posted differently by ranks, or behind such a call")   \
    X(UNENDED, "not ended on all ranks")                              \
    X(LOST, "their records were overwritten before they were read")
enum harness_watch_unjudged {
#define X(id, words) HARNESS_WATCH_UNJUDGED_##id,
    HARNESS_WATCH_UNJUDGED_TABLE(X)
#undef X
        HARNESS_WATCH_UNJUDGED_COUNT
};

/* How many calls' results were judged, and how. */
struct harness_watch_tally {
    uint64_t judged;     /* in any way */
    uint64_t bitwise;    /* of these, sums: bit for bit, from data that were kept */
    uint64_t compared;   /* of these, no sums: only that all ranks have the same */
    uint64_t bounded;    /* of these, sums of floats: by what rounding explains */
    uint64_t broadcasts; /* of these, broadcasts */
    bool has_lost;       /* some record of some rank was overwritten before it was read */
    uint64_t unjudged[HARNESS_WATCH_UNJUDGED_COUNT];
};

/* What a thread waits for, or a device's stream. */
struct harness_watch_wait {
    size_t group;      /* index */
    uint64_t seq;      /* or guest_wait_pack: for ranks, whatever they post */
    uint64_t enter_ns; /* of a device: when it was first seen */
    uint64_t first;    /* of a device: it has begun first..seq, and ended none of them; else seq */
    uint64_t lane;     /* of a device: place + 1; else 0 */
    uint64_t waiter;   /* 1 + the rank that waits; 0: that is not said */
    uint64_t
        is_polled; /* a thread asks again and again whether it has come, and may do other things */
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
                          rank ended, or seemed to hang */
    bool is_unended;    /* shown as gone, as it will have ended, though the kernel has not got there
                          for long: the driver's */
    uint64_t claim; /* 1 + the rank that its process says it is, if it was started as this one: the
                       driver's; 0: none other */
    bool has_rival; /* another process says that it is this rank, and neither was started as
                       another rank, nor by the other one: the driver's */
    bool is_of_launcher; /* its parent is another program, which ends the other ranks once one has
                            ended: the driver's */
    bool is_attached, is_detached;
    uint64_t pid, world_size;
    uint64_t step, micro, phase;
    uint64_t alive_ns;
    uint64_t read_count;              /* entries of its ring that were read */
    uint64_t lost_count;              /* and that were overwritten before */
    bool is_behind;                   /* an entry is being written, so that those behind it were
                                         not read */
    uint64_t lost_comms;              /* communicators that it could not show */
    uint64_t step_count;              /* steps that it has announced */
    uint32_t fired[GUEST_FAULTS_MAX]; /* how often each armed fault acted */
    uint8_t unable[GUEST_FAULTS_MAX]; /* enum guest_unable: why it last did nothing; 0: it did not
                                         come to that */
    uint64_t fired_ns;                /* when one last did; 0: none has */
    uint64_t starved_ns;   /* the driver's: of the time for which others have waited for it now, it
                              was   ready to run for so long and had no CPU */
    uint64_t thread_count; /* threads that have made a call and live */
    uint32_t messages[GUEST_THREADS_MAX]; /* so often a thread has waited for ranks since its last
                                             post */
    bool is_one_thread;                   /* it says that only one thread at a time makes calls */
    bool is_alone;   /* its process has one thread: the driver's, as long as nothing changes */
    bool has_device; /* it has made a communicator of which a device makes the calls */
    bool has_broken; /* a device's call failed, or its communicator was given up */
    /* Those of threads that sit there come first, and next, where every other thread does, those of
     * threads that ask again and again. */
    struct harness_watch_wait waits[HARNESS_WATCH_WAITS_MAX];
    uint32_t wait_count, thread_wait_count;
    struct harness_watch_wait kept_waits[GUEST_THREADS_MAX]; /* as each thread's was last read; seq
                                                                0: it waited for nothing */
    struct harness_watch_lane lanes[GUEST_LANES_MAX];
    struct { /* communicators by handle */
        uint32_t handle;
        size_t group;
    } comms[GUEST_COMMS_MAX];
    struct harness_watch_told *told; /* by names (buckets.c); NULL: nothing */
};

struct harness_watch {
    struct ddp_mem *mem;
    const struct guest_arena *arena;
    uint32_t world_size;
    uint32_t stated_size;             /* ranks of the job: the driver's; 0: it is not known */
    struct harness_watch_rank *ranks; /* [world_size] */
    uint32_t *waiters;                /* those of which something waits, as it was last read: few of
                                         the many that a job of unknown size may have */
    uint32_t waiter_count;
    struct harness_watch_group *groups;
    size_t group_count, group_capacity;
    struct harness_watch_names names;
    struct harness_watch_list *lists; /* the last one first */
    uint64_t now_ns;
    uint64_t change_ns;       /* when anything was last seen to change */
    uint64_t starved_ns;      /* the driver's: since then some rank was ready to run for so long and
                                 had no CPU */
    bool is_failed;           /* out of memory: what follows is not all of it */
    uint64_t wrong_result_ns; /* the first post of a call whose result was found wrong; 0: none */
    bool is_spoilt; /* a value that is not finite was found: it spreads, and is said once */
    struct harness_watch_tally tally;
    /* Whoever judges what ranks report of models and samples is told; NULL: nobody does. */
    void (*on_report)(void *context, uint32_t rank, const struct guest_entry *entry);
    void *report_context;
    struct { /* who was found to have strayed (history.c), so that it is not worked out again */
        uint64_t change_ns; /* while nothing has changed since, */
        uint32_t stuck;     /* and so many ranks hold each other */
        bool *is;           /* [world_size]; NULL: nothing was found out yet */
        struct harness_watch_wait from;
        uint32_t messages, usual; /* usual not 0: it waited for ranks so often before that call, and
                                     always so often before ones like it (unsent.c) */
    } strayed;
};

/* Errors: E_NOMEM; then there is nothing to release. */
DDP_MUST_USE ddp_status harness_watch_init(struct harness_watch *watch, struct ddp_mem *mem,
                                           const struct guest_arena *arena);
/* Zeroed is fine too. */
void harness_watch_fini(struct harness_watch *watch);
/* Read what is new. now_ns rises from call to call. The states of processes are the driver's: it
 * notes an end only after a read that began when the process had ended. */
void harness_watch_read(struct harness_watch *watch, uint64_t now_ns);
/* The number of a name, which is added if it is new. False: out of memory. */
bool harness_watch_name(struct harness_watch *watch, const char *text, uint32_t *out);
/* The list of these names; NULL: out of memory. */
const struct harness_watch_list *harness_watch_list_of(struct harness_watch *watch,
                                                       const uint32_t *params, uint32_t count);
/* The names that the rank has told just before an entry that they belong to, as indices; NULL: not
 * so many. They are given out once, and are there until the next one is told. */
const uint32_t *harness_watch_take_names(struct harness_watch *watch, uint32_t rank,
                                         uint64_t count);
/* A part of a longer name, as TENSOR_NAME and NAME bring it. */
void harness_watch_add_part(char text[GUEST_TEXT_BYTES], uint64_t part, const uint64_t *words);
/* Every member's result depends on every other member's data. Of no data, nothing does. */
bool harness_watch_needs_all(const struct harness_watch_call *call);
/* The call of a member; NULL: not posted, not read, or not kept any more. */
const struct harness_watch_call *harness_watch_call_at(const struct harness_watch_member *member,
                                                       uint64_t seq);

#ifdef __cplusplus
}
#endif
#endif
