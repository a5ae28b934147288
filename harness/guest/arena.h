/* The arena: memory that `ddprove exec` shares with the ranks of a guest. ddprove makes it, a
 * memfd, and hands down where it is in the variable DDPROVE_ARENA as "/proc/PID/fd/N:NONCE", so
 * that it has no name and passes through any launcher. Each rank has a slot: a page that shows its
 * present state, and a ring, its history.
 *
 * The layout is an interface between a library that a program has loaded and a ddprove that may be
 * newer: fixed-size integers only, and a version that changes with any of it.
 *
 * Nobody holds a lock, so a process that is killed anywhere harms nobody. A rank's threads write to
 * the rank's slot alone; readers write nothing there. Of a communicator's and a thread's record,
 * `change` is odd while it is being written. A ring entry writes its index last. */
#ifndef HARNESS_GUEST_ARENA_H
#define HARNESS_GUEST_ARENA_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GUEST_ARENA_VARIABLE "DDPROVE_ARENA"
#define GUEST_ARENA_MAGIC    UINT64_C(0x31304e4552417044) /* "DpAREN01" */
#define GUEST_ARENA_VERSION  11u

enum {
    GUEST_PAGE_BYTES = 4096,
    GUEST_FAULTS_MAX = 16,
    GUEST_COMMS_MAX = 64,
    GUEST_THREADS_MAX = 32,
    GUEST_LANES_MAX = 64,
    GUEST_NAME_BYTES = 32,
    GUEST_TEXT_BYTES = 256, /* of a parameter's name, with its end */
    GUEST_ARG_COUNT = 5,
    GUEST_FOLDER_BYTES = 1024
};

/* Where a fault may act. */
enum guest_point {
    GUEST_POINT_STEP,  /* a step begins */
    GUEST_POINT_POST,  /* a call is about to be posted */
    GUEST_POINT_DONE,  /* its result is there */
    GUEST_POINT_PLACE, /* + enum ddprove_guest_point: a place that the program itself comes by */
    GUEST_POINT_COUNT = GUEST_POINT_PLACE + 64
};

/* What a fault does. X(identifier, name, what `value` is) */
#define GUEST_ACTION_TABLE(X)                                        \
    X(NOTHING, "none", "")                                           \
    X(KILL, "kill", "signal")                                        \
    X(EXIT, "exit", "code")                                          \
    X(ABORT, "abort", "")                                            \
    X(STOP, "stop", "nanoseconds until ddprove lets it go on, or 0") \
    X(HANG, "hang", "")                                              \
    X(DELAY, "delay", "nanoseconds")                                 \
    X(UNTIL, "until", "number of the fault that is waited for")      \
    X(SKIP, "skip", "")                                              \
    X(TWICE, "dup", "")                                              \
    X(ELEMS, "count", "elements")                                    \
    X(REDOP, "redop", "enum ddprove_guest_redop")                    \
    X(ROOT, "root", "rank within the communicator")                  \
    X(DTYPE, "dtype", "enum ddprove_guest_dtype")                    \
    X(LATER, "later", "")                                            \
    X(ZERO, "zero", "")                                              \
    X(SCALE, "scale", "the factor's bits, of a double")              \
    X(SHIFT, "shift", "elements")                                    \
    X(FLIP, "flip", "bit of the element")                            \
    X(SET, "set", "the element's new value, the bits of a double")   \
    X(NAN_VALUE, "nan", "")                                          \
    X(STALE, "stale", "")                                            \
    X(EDIT, "edit", "enum ddprove_guest_edit")
/* Why a fault did nothing to a call that it matched. X(identifier, in words) */
#define GUEST_UNABLE_TABLE(X)                                                           \
    X(SETTLED, "its arguments were settled when it was made ready to be started")       \
    X(LARGER, "its buffers are too small for that, or its elements have no one type")   \
    X(NO_DATA, "it has no such data on that rank, or there is no earlier call like it") \
    X(AT_ONCE, "it cannot be made later: its request, or its result, is asked for first")
enum guest_unable {
    GUEST_UNABLE_NOT,
#define X(id, words) GUEST_UNABLE_##id,
    GUEST_UNABLE_TABLE(X)
#undef X
        GUEST_UNABLE_COUNT
};

enum guest_action {
#define X(id, name, value) GUEST_ACTION_##id,
    GUEST_ACTION_TABLE(X)
#undef X
        GUEST_ACTION_COUNT
};

/* A fault, armed before any rank attaches and never changed. Of the keys of its trigger, 0 is any.
 */
struct guest_fault {
    uint64_t point;
    uint64_t rank;                       /* + 1 */
    uint64_t step;                       /* + 1 */
    uint64_t phase;                      /* + 1 */
    uint64_t comm[GUEST_NAME_BYTES / 8]; /* the communicator's name, filled up with zeros */
    uint64_t kind;                       /* + 1 */
    uint64_t seq;
    uint64_t bucket;     /* + 1 */
    uint64_t elem_count; /* + 1 */
    uint64_t tensor;     /* guest_name_hash of the parameter or buffer */
    uint64_t hit;        /* the match of the other keys at which it begins, from 1 */
    uint64_t times;      /* for so many matches */
    uint64_t action;     /* enum guest_action */
    uint64_t value;
    uint64_t elem;  /* which element, of those that change one */
    uint64_t stays; /* data that the program hands over are changed where they lie, not in a copy */
};

/* What a rank reports, X(identifier, arg0, ..., arg4). */
#define GUEST_EVENT_TABLE(X)                                 \
    X(ATTACH, "pid", "world", "", "", "")                    \
    X(DETACH, "", "", "", "", "")                            \
    X(STEP, "", "", "", "", "")                              \
    X(PHASE, "phase", "", "", "", "")                        \
    X(COMM, "comm", "key", "rank", "size", "kind")           \
    X(COMM_FREE, "comm", "key", "aborted", "", "")           \
    X(POST, "comm", "seq", "op", "count", "bucket")          \
    X(LAUNCH, "comm", "first", "last", "lane", "")           \
    X(DONE, "comm", "seq", "", "", "")                       \
    X(FAULT, "fault", "hit", "comm", "seq", "")              \
    X(VALUE_IN, "comm", "seq", "sum", "magnitude", "hash")   \
    X(VALUE_OUT, "comm", "seq", "sum", "sample", "hash")     \
    X(VALUE_CHANGED, "comm", "seq", "", "", "")              \
    X(SAMPLE_IN, "call", "still", "up", "down", "magnitude") \
    X(TENSOR, "index", "role", "dtype", "count", "of")       \
    X(TENSOR_NAME, "index", "", "", "", "")                  \
    X(OPTION, "index", "kind", "lr", "decay", "updates")     \
    X(OPTION_MORE, "index", "first", "second", "eps", "")    \
    X(STATE, "index", "part", "hash", "", "")                \
    X(UPDATED, "number", "tensors", "", "", "")              \
    X(EPOCH, "epoch", "samples", "padded", "dropped", "as")  \
    X(EPOCH_END, "broken", "", "", "", "")                   \
    X(SAMPLES, "count", "", "", "", "")                      \
    X(BATCH, "count", "", "", "", "")                        \
    X(CALL_NAME, "call", "", "", "", "")                     \
    X(NAME, "index", "", "", "", "")                         \
    X(BUCKET, "model", "bucket", "count", "", "")            \
    X(UNUSED, "model", "count", "allowed", "", "")           \
    X(KEYS, "what", "keys", "wanted", "", "")                \
    X(NEAR, "comm", "", "", "", "")
enum guest_event {
#define X(id, a0, a1, a2, a3, a4) GUEST_EVENT_##id,
    GUEST_EVENT_TABLE(X)
#undef X
        GUEST_EVENT_COUNT
};

/* A part of a tensor's state. GUEST_PART_BEFORE is added to what it was before the update. The last
 * parts are only kept before. */
enum guest_part {
    GUEST_PART_DATA,
    GUEST_PART_FIRST, /* of the optimizer's state */
    GUEST_PART_SECOND,
    GUEST_PART_GRADIENT,
    GUEST_PART_COUNT,
    GUEST_PART_BEFORE = GUEST_PART_COUNT
};
/* In CALL_NAME and SAMPLE_IN: comm | the low half of seq << 32; they follow the call's POST. In
 * TENSOR_NAME and NAME: index | part << 32, a longer name comes in parts. NAMEs come before what
 * they belong to, with nothing of the sort in between. In POST: bucket | model << 32. In OPTION:
 * kind | nesterov
 * << 8. In EPOCH: rule | uneven << 8. In SAMPLES: up to so many ids. */
enum { GUEST_SAMPLES_MAX = GUEST_ARG_COUNT - 1 };

/* In NEAR: neighbours of this rank in the communicator, at most so many, guest_near_pack each; 0:
 * no more. A rank that has none tells so, too. */
enum { GUEST_NEAR_MAX = GUEST_ARG_COUNT - 1 };
#define GUEST_NEAR_TO \
    (UINT64_C(1) << 32) /* it is sent to alone: only a large message waits for it */
static inline uint64_t guest_near_pack(uint32_t rank, int is_sent_to_alone)
{
    return ((uint64_t)rank + 1) | (is_sent_to_alone ? GUEST_NEAR_TO : 0);
}
static inline uint32_t guest_near_rank(uint64_t near)
{
    return (uint32_t)near - 1;
}

/* A name as faults know it; never 0. FNV-1a. */
static inline uint64_t guest_name_hash(const char *name)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (const char *c = name; *c != '\0'; c++) {
        hash = (hash ^ (uint8_t)*c) * UINT64_C(0x100000001b3);
    }
    return hash != 0 ? hash : 1;
}

/* Why a communicator is freed: COMM_FREE's third word. */
enum guest_free {
    GUEST_FREE_ENDED,
    GUEST_FREE_ABORTED, /* with calls under way, which will not end well */
    GUEST_FREE_UNSHOWN, /* it is not: its calls are shown no more */
    GUEST_FREE_UNMADE   /* the same, and some that were shown were never made */
};

/* Whose calls a communicator has. */
enum guest_comm_kind {
    GUEST_COMM_HOST,   /* a thread makes them: once posted they have begun */
    GUEST_COMM_DEVICE, /* a device does, in the order of a stream, once they are launched too */
    GUEST_COMM_PAIR,   /* a device, and they are messages from rank 0 to rank 1: both show the same
                          call, in whatever step of theirs */
    GUEST_COMM_HOST_PAIR /* such messages, which a thread makes */
};

/* In place of a lane in LAUNCH: the launch failed, the calls will not be made. Lane 0: how far the
 * device comes with them is not seen. */
#define GUEST_LAUNCH_FAILED UINT64_MAX

struct guest_entry {
    uint64_t index; /* from 1; written last */
    uint64_t time_ns;
    uint64_t place;  /* step | micro << 32 | phase << 48 | enum guest_event << 56 */
    uint64_t thread; /* its place in guest_page.threads; of a POST | guest_thread.messages << 32 */
    uint64_t arg[GUEST_ARG_COUNT];
};

/* kind | dtype << 8 | redop << 16 | root << 32 */
static inline uint64_t guest_op_pack(uint32_t kind, uint32_t dtype, uint32_t redop, uint32_t root)
{
    return (uint64_t)(kind & 0xff) | (uint64_t)(dtype & 0xff) << 8 |
           (uint64_t)(redop & 0xff) << 16 | (uint64_t)root << 32;
}
/* Beside the op of a POST: its values may overflow. */
#define GUEST_OP_MAY_OVERFLOW (UINT64_C(1) << 24)
static inline uint32_t guest_op_kind(uint64_t op)
{
    return (uint32_t)(op & 0xff);
}
static inline uint32_t guest_op_dtype(uint64_t op)
{
    return (uint32_t)(op >> 8 & 0xff);
}
static inline uint32_t guest_op_redop(uint64_t op)
{
    return (uint32_t)(op >> 16 & 0xff);
}
static inline uint32_t guest_op_root(uint64_t op)
{
    return (uint32_t)(op >> 32);
}

/* A communicator of a rank. */
struct guest_comm {
    uint64_t is_taken; /* a communicator lives here, or is about to */
    uint64_t change;
    uint64_t handle; /* in this process, of the last one that lived here; 0: none has */
    uint64_t key, rank, size;
    uint64_t posted;   /* calls posted so far: the seq of the last one */
    uint64_t done;     /* calls that have ended */
    uint64_t children; /* communicators made from this one */
    uint64_t name[GUEST_NAME_BYTES / 8];
};

/* In place of the rank in COMM, of a pair that belongs to a communicator of the same process: the
 * place of that one in guest_page.comms, and who the other end is in it. Readers that know of no
 * such thing see the rank. */
static inline uint64_t guest_pair_pack(uint32_t rank, uint32_t place, uint32_t peer)
{
    return peer < 0xffffff ? rank | (uint64_t)(peer + 1) << 32 | (uint64_t)(place + 1) << 56 : rank;
}
/* -1: not told. */
static inline int guest_pair_place(uint64_t rank)
{
    return (int)(rank >> 56) - 1;
}
static inline int guest_pair_peer(uint64_t rank)
{
    return (int)(rank >> 32 & 0xffffff) - 1;
}

/* In place of a call's number: a thread waits for one or two ranks of the communicator, as one does
 * for a message, or for somebody who is not known. -1: none. */
#define GUEST_WAIT_RANKS (UINT64_C(1) << 63)
static inline uint64_t guest_wait_pack(int rank, int other)
{
    return GUEST_WAIT_RANKS | (uint64_t)(uint32_t)(other + 1) << 31 |
           (uint64_t)(uint32_t)(rank + 1);
}
static inline int guest_wait_is_of_ranks(uint64_t seq)
{
    return (seq & GUEST_WAIT_RANKS) != 0;
}
/* The first of them or, with i 1, the second one. */
static inline int guest_wait_rank(uint64_t seq, int i)
{
    return (int)(seq >> 31 * i & 0x7fffffff) - 1;
}

/* A thread of a rank that has made a call. */
struct guest_thread {
    uint64_t change;
    uint64_t tid;       /* of the system; 0: the place is free */
    uint64_t comm;      /* the handle of the communicator it waits in; 0: it waits for nothing */
    uint64_t seq;       /* and the call, or guest_wait_pack */
    uint64_t enter_ns;  /* since when */
    uint64_t messages;  /* how often it has waited for ranks since its last post */
    uint64_t polled_ns; /* it does not sit there but asks again and again whether that has come, and
                           did so last at this time; 0: it sits */
};

/* A stream on which a device makes calls of a communicator. Their numbers rise, so two words that
 * the stream itself writes say how far it is. */
struct guest_lane {
    uint64_t is_taken;
    uint64_t comm;   /* handle */
    uint64_t stream; /* the same number in all lanes of a stream */
    uint64_t begun;  /* the device: the last call that the stream has come to */
    uint64_t ended;  /* the device: the last one that it has left behind */
    uint64_t spare[3];
};

struct guest_page {
    uint64_t pid;        /* of the rank; 0: not attached. Written last */
    uint64_t is_ended;   /* it has detached */
    uint64_t rival_pid;  /* another process that says that it is this rank; 0: there is none */
    uint64_t world_size; /* as the rank was told */
    uint64_t step, micro, phase;
    uint64_t alive_ns;      /* last time it reported anything */
    uint64_t entry_count;   /* of the ring, taken so far */
    uint64_t is_one_thread; /* of its threads only one at a time makes calls */
    uint64_t lost_comms;    /* communicators for which there was no place */
    uint64_t comm_next;     /* made so far */
    uint64_t update_count;  /* updates of the model that it has reported */
    uint64_t model_shown;   /* what the model's table that it has shown hashes to */
    uint32_t is_met;        /* the watcher knows the process; a futex */
    uint32_t spare;
    uint64_t fault_hits[GUEST_FAULTS_MAX]; /* matches so far */
    struct guest_comm comms[GUEST_COMMS_MAX];
    struct guest_thread threads[GUEST_THREADS_MAX];
    /* On a page of memory of their own, which is made known to the device. */
    struct guest_lane lanes[GUEST_LANES_MAX] __attribute__((aligned(GUEST_PAGE_BYTES)));
};

struct guest_arena {
    uint64_t magic;
    uint64_t version;
    uint64_t size_bytes;
    uint64_t nonce;
    uint64_t is_meeting; /* the watcher meets each process as it attaches: it waits for that */
    uint64_t world_size;
    uint64_t ring_entry_count; /* a power of two */
    uint64_t slot_offset_bytes;
    uint64_t slot_stride_bytes;
    uint64_t ring_offset_bytes; /* within a slot */
    uint64_t fault_count;
    struct guest_fault faults[GUEST_FAULTS_MAX];
    uint64_t stray_pid;   /* a process that says that it is a rank which the job has not; 0: none */
    uint64_t stray_rank;  /* that rank */
    uint64_t is_observed; /* ranks report what their calls' data come to (observe/sums.h), */
    uint64_t observed_every; /* of one call in so many of each communicator; 0 or 1: of all */
    /* Of these steps, from the first to the last, they also write the data to files in a folder
     * (observe/keep.h). keep_end: the last one + 1; 0: of none. */
    uint64_t keep_first, keep_end;
    char keep_folder[GUEST_FOLDER_BYTES];
};

static inline struct guest_page *guest_arena_page(const struct guest_arena *arena, uint32_t rank)
{
    return (struct guest_page *)((char *)(uintptr_t)arena + arena->slot_offset_bytes +
                                 rank * arena->slot_stride_bytes);
}
static inline struct guest_entry *guest_arena_ring(const struct guest_arena *arena, uint32_t rank)
{
    return (struct guest_entry *)((char *)guest_arena_page(arena, rank) + arena->ring_offset_bytes);
}

#ifdef __cplusplus
}
#endif
#endif
