/* What ddprove and the processes of a team share: one mapping without a name. It holds what is
 * asked of the ranks, where they meet, what they answer, and all ranks' inputs. Internal. */
#ifndef HARNESS_LAB_SHARED_H
#define HARNESS_LAB_SHARED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ddpcore/base/dtype.h"
#include "ddpcore/base/status.h"
#include "ddpcore/collective/tuned.h"
#include "ddpcore/schedule/algorithm.h"
#include "ddpcore/seam/recorder.h"

#define HARNESS_LAB_MAGIC     UINT64_C(0xdd9c01ab00000001)
#define HARNESS_LAB_RANKS_MAX 64u
#define HARNESS_LAB_SIZES_MAX 64u
#define HARNESS_LAB_ITERS_MAX 4096u

/* What makes a rank's collectives. */
enum harness_lab_engine_kind {
    HARNESS_LAB_SCHEDULE,  /* the core, an algorithm or a plug-in's schedules */
    HARNESS_LAB_OPAQUE,    /* a plug-in that moves the data itself */
    HARNESS_LAB_ZERO_COPY, /* the yardstick: every rank reads where the others' data lie */
    HARNESS_LAB_COPY,      /* each rank copies its input, alone: what memory allows */
    HARNESS_LAB_ENGINE_COUNT
};

enum harness_lab_transport { HARNESS_LAB_SHM, HARNESS_LAB_TCP };

enum harness_lab_mode { HARNESS_LAB_APART, HARNESS_LAB_IN_PLACE, HARNESS_LAB_MODES };

struct harness_lab_request {
    enum harness_lab_engine_kind engine;
    enum harness_lab_transport transport;
    enum ddp_coll_kind kind;
    enum ddp_algorithm_id algorithm; /* of schedules; NONE: plugin is one */
    size_t segment_bytes;
    struct ddp_coll_choice choice[DDP_TUNED_CHOICES_MAX]; /* by size, instead of algorithm */
    size_t choice_count;
    char path[1024]; /* of the plug-in */
    uint32_t ranks;
    uint32_t iters, warmup;
    bool is_tried;   /* trials, no measurement */
    bool is_checked; /* what every iteration leaves is compared */
    bool is_bitwise; /* with the bits that are expected; else with what rounding allows */
    size_t size_count;
    size_t elem_count[HARNESS_LAB_SIZES_MAX]; /* as in struct ddp_coll_args */
};

/* What ranks do when they are not measured: one call, or a few in a row, as ddprove says. */
enum harness_lab_oddity {
    HARNESS_LAB_NOTHING_ODD,
    HARNESS_LAB_LATE,        /* it comes a while after the others */
    HARNESS_LAB_STOPPED,     /* its process is stopped in the call, and goes on after a while */
    HARNESS_LAB_OTHER_COUNT, /* it asks for another count */
    HARNESS_LAB_DIES,        /* its process is killed when it is to call */
    /* It does not call, and each of the others aborts its own call twice: before it begins, from
     * another thread; behind its post, or when it first waits; from another thread while it waits.
     */
    HARNESS_LAB_ABORTED_BEFORE,
    HARNESS_LAB_ABORTED_POSTED,
    HARNESS_LAB_ABORTED
};
struct harness_lab_trial {
    enum ddp_dtype dtype;
    enum ddp_redop redop;
    uint32_t root;
    size_t elem_count;
    bool is_in_place;
    uint32_t shift; /* elements between the buffers and an aligned address */
    uint32_t calls; /* one behind the other: slice k of the arena is the k-th call's */
    /* Not 0: slices have room for so many elements, and each call has another count and root. */
    size_t slice_elem_count;
    bool is_wide;    /* numbers of both signs that take as many bits as the type has */
    bool is_twofold; /* two communicators at once, a thread each, one call on each */
    enum harness_lab_oddity oddity;
    uint32_t odd_rank;     /* whose it is */
    size_t odd_elem_count; /* OTHER_COUNT: what it asks for; at most one more than the others */
};

#define HARNESS_LAB_OVER      UINT32_MAX /* of `ready`: no trial comes any more */
#define HARNESS_LAB_COMMS_MAX 64u        /* communicators that a team has one after the other */

/* What became of a trial on one rank. */
struct harness_lab_outcome {
    ddp_status status;
    char text[200];
    int64_t guard_at; /* byte that changed, beside the output: < 0 before it; 0: none did */
    int64_t input_at; /* element of the input that was written to; -1: none was */
    bool has_written; /* to the output, of a rank that has none */
    uint64_t heap_bytes, mapped_bytes, descriptors; /* in use afterwards */
    uint64_t elapsed_ns;
};

/* One rank's part; who writes it is that rank alone. */
struct harness_lab_slot {
    uint32_t done; /* sizes that are measured */
    ddp_status status;
    char text[256];                                           /* of an error */
    uint64_t wrong[HARNESS_LAB_SIZES_MAX][HARNESS_LAB_MODES]; /* elements, in all iterations */
    uint64_t first_wrong[HARNESS_LAB_SIZES_MAX][HARNESS_LAB_MODES]; /* its place */
    struct harness_lab_outcome outcome;                             /* of the trial */
    /* Of the size at work: how long each call took. */
    uint64_t ns[HARNESS_LAB_MODES][HARNESS_LAB_ITERS_MAX];
};

struct harness_lab_shared {
    uint64_t magic;
    size_t size_bytes; /* of the mapping */
    int host_pid;      /* of ddprove */
    struct harness_lab_request request;
    struct harness_lab_trial trial;
    uint32_t ready;                       /* sizes whose expected results lie there */
    uint32_t port[HARNESS_LAB_COMMS_MAX]; /* of each one's store, once rank 0 listens */
    uint32_t gate_count, gate_round;      /* where all ranks meet */
    size_t arena_at, arena_bytes;         /* of each rank, see below */
    struct harness_lab_slot slot[HARNESS_LAB_RANKS_MAX];
};

/* A rank's memory that all see: its input, what its output should be, and, for the yardstick, the
 * buffers that it works on; equally long. */
enum harness_lab_area {
    HARNESS_LAB_INPUT,
    HARNESS_LAB_EXPECTED,
    HARNESS_LAB_WORK_INPUT,
    HARNESS_LAB_WORK_OUTPUT,
    HARNESS_LAB_AREAS
};
static inline void *harness_lab_area(struct harness_lab_shared *shared, uint32_t rank,
                                     enum harness_lab_area area)
{
    return (char *)shared + shared->arena_at +
           ((size_t)rank * HARNESS_LAB_AREAS + (size_t)area) * shared->arena_bytes;
}

/* Elements of a rank's input, or output, of a collective of elem_count. */
static inline size_t harness_lab_input_elems(const struct harness_lab_request *request,
                                             size_t elem_count)
{
    return elem_count * ddp_coll_input_blocks(request->kind, request->ranks);
}
static inline size_t harness_lab_output_elems(const struct harness_lab_request *request,
                                              size_t elem_count)
{
    return elem_count * ddp_coll_output_blocks(request->kind, request->ranks, true);
}

/* The k-th call of a trial: long and short ones in turn, from every root. */
static inline size_t harness_lab_call_elems(const struct harness_lab_trial *trial, uint32_t k)
{
    const size_t most = trial->slice_elem_count;

    return most == 0 ? trial->elem_count : k % 2 == 0 ? most - k : (size_t)k * k;
}
static inline uint32_t harness_lab_call_root(const struct harness_lab_request *request,
                                             const struct harness_lab_trial *trial, uint32_t k)
{
    return trial->slice_elem_count == 0 ? trial->root : k % request->ranks;
}

/* All ranks have come. False: the team is at its end, and so should this one be. */
bool harness_lab_gate(struct harness_lab_shared *shared, bool may_spin);

/* trial.c: the program of a rank that is tried. */
ddp_status harness_lab_try(struct harness_lab_shared *shared, uint32_t rank, struct ddp_err *err);

/* The program of rank `number`; what goes wrong is in its slot. Returns its exit code. */
int harness_lab_rank(struct harness_lab_shared *shared, uint32_t number);

#endif
