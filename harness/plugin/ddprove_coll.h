/* A collective algorithm of your own for ddprove: a shared object that exports one symbol,
 * ddprove_coll_plugin. It moves no data. Asked what one rank has to do, it says so step by step;
 * ddprove proves these steps for every world and count (ddprove coll check ./mine.so), draws them
 * (coll show) and runs them (job.collective: ./mine.so). Plain C, no library.
 *
 * It is loaded into a process of its own. What it answers must follow from the question alone. */
#ifndef DDPROVE_COLL_H
#define DDPROVE_COLL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DDPROVE_COLL_VERSION 1u

enum ddprove_coll_kind {
    DDPROVE_COLL_ALL_REDUCE, /* output = the sum of all inputs, on every rank */
    DDPROVE_COLL_BROADCAST,  /* output = the root's input */
    DDPROVE_COLL_ALL_GATHER, /* output = the inputs, in the order of ranks: size * count elements */
    DDPROVE_COLL_BARRIER,    /* no rank ends before every rank has begun; count is 0 */
    /* Inputs of size * count elements, a block of count for each rank: output = the sum of the
     * rank's block of all inputs. In place the output is the rank's block of the input, and the
     * other blocks stay as they are. */
    DDPROVE_COLL_REDUCE_SCATTER,
    /* The root's output = the sum of all inputs. Other ranks have no output, and is_in_place is 0
     * there. */
    DDPROVE_COLL_REDUCE_TO_ROOT,
    /* Input and output of size * count elements: block r of the output = the rank's block of the
     * input of rank r. */
    DDPROVE_COLL_ALL_TO_ALL
};

/* What is asked: the steps of one rank. */
struct ddprove_coll_question {
    uint32_t struct_bytes; /* of this struct, as the asker knows it */
    uint32_t rank, size;
    uint32_t root;        /* broadcast, reduction to a root */
    uint64_t count;       /* elements of the input, or of a block of it */
    uint64_t segment;     /* no message may be longer, in elements; 0: any length */
    uint32_t is_in_place; /* input and output are one buffer: the input is where the output is */
    uint32_t dtype;       /* enum ddprove_coll_dtype of the elements */
    const uint32_t *node_of_rank; /* uint32_t[size]; NULL: all ranks are on one node */
};

enum ddprove_coll_dtype {
    DDPROVE_COLL_F32 = 1,
    DDPROVE_COLL_F16,
    DDPROVE_COLL_BF16,
    DDPROVE_COLL_F64,
    DDPROVE_COLL_I32,
    DDPROVE_COLL_I64,
    DDPROVE_COLL_U8
};

enum ddprove_coll_step_kind {
    DDPROVE_COLL_SEND,        /* src goes to peer */
    DDPROVE_COLL_RECV,        /* dst = what peer sends */
    DDPROVE_COLL_RECV_REDUCE, /* dst = dst + what peer sends */
    DDPROVE_COLL_REDUCE,      /* dst = dst + src */
    DDPROVE_COLL_COPY,        /* dst = src */
    DDPROVE_COLL_CONVERT      /* dst = src, in dst's type */
};

#define DDPROVE_COLL_INPUT   0u
#define DDPROVE_COLL_OUTPUT  1u
#define DDPROVE_COLL_SCRATCH 2u /* + the number of a scratch buffer */

/* Elements [first, first + count) of a buffer. */
struct ddprove_coll_range {
    uint32_t buffer;
    uint64_t first, count;
};

#define DDPROVE_COLL_NONE UINT32_MAX
#define DDPROVE_COLL_DEPS 4

/* Messages between two ranks meet in the order in which each of them emitted its sends and its
 * receives. Else steps may run in any order, but after those in dep. A send reads its range until
 * the other end has taken it: whatever writes there must depend on the send. */
struct ddprove_coll_step {
    uint32_t kind;
    uint32_t round; /* for pictures, and for engines that run a round at a time; else unused */
    uint32_t peer;  /* of a message */
    struct ddprove_coll_range dst, src;
    uint32_t dep[DDPROVE_COLL_DEPS]; /* numbers of earlier steps, or DDPROVE_COLL_NONE */
};

struct ddprove_coll_sink {
    uint32_t struct_bytes;
    void *context;
    /* Declares a scratch buffer, undefined at the start; at most 8. Returns its number. */
    uint32_t (*scratch)(void *context, uint32_t dtype, uint64_t count);
    /* Emits a step and returns its number. A step of no elements is left out, on both ends of a
     * message, and returns DDPROVE_COLL_NONE. */
    uint32_t (*step)(void *context, const struct ddprove_coll_step *step);
};

/* What an algorithm claims; bits. What is not claimed is shown, but is no failure. */
#define DDPROVE_COLL_SAME_BITS  1u /* all ranks get the same bits: an element has one order */
#define DDPROVE_COLL_SAME_ORDER 2u /* every element of every count is added in the same order */

struct ddprove_coll {
    uint32_t version;      /* DDPROVE_COLL_VERSION */
    uint32_t struct_bytes; /* sizeof(struct ddprove_coll) */
    const char *name;      /* small letters, digits, _; at most 31 */
    uint32_t kind;         /* enum ddprove_coll_kind */
    uint32_t claims;
    /* 0, or another number: it cannot be asked this. Any size >= 1 and any count >= 0. */
    int (*emit)(const struct ddprove_coll_question *question, const struct ddprove_coll_sink *sink);
};

/* The symbol. */
#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
extern const struct ddprove_coll ddprove_coll_plugin;

/* --- shorter to write ------------------------------------------------------------------------- */

static inline struct ddprove_coll_range ddprove_coll_range(uint32_t buffer, uint64_t first,
                                                           uint64_t count)
{
    struct ddprove_coll_range range;

    range.buffer = buffer;
    range.first = first;
    range.count = count;
    return range;
}

/* A step after up to two others. */
static inline uint32_t ddprove_coll_emit(const struct ddprove_coll_sink *sink, uint32_t kind,
                                         uint32_t round, uint32_t peer,
                                         struct ddprove_coll_range dst,
                                         struct ddprove_coll_range src, uint32_t after,
                                         uint32_t and_after)
{
    struct ddprove_coll_step step;

    step.kind = kind;
    step.round = round;
    step.peer = peer;
    step.dst = dst;
    step.src = src;
    step.dep[0] = after;
    step.dep[1] = and_after;
    step.dep[2] = DDPROVE_COLL_NONE;
    step.dep[3] = DDPROVE_COLL_NONE;
    return sink->step(sink->context, &step);
}

static inline uint32_t ddprove_coll_send(const struct ddprove_coll_sink *sink, uint32_t round,
                                         uint32_t peer, struct ddprove_coll_range src,
                                         uint32_t after, uint32_t and_after)
{
    return ddprove_coll_emit(sink, DDPROVE_COLL_SEND, round, peer, ddprove_coll_range(0, 0, 0), src,
                             after, and_after);
}

/* kind: DDPROVE_COLL_RECV or DDPROVE_COLL_RECV_REDUCE. */
static inline uint32_t ddprove_coll_recv(const struct ddprove_coll_sink *sink, uint32_t kind,
                                         uint32_t round, uint32_t peer,
                                         struct ddprove_coll_range dst, uint32_t after,
                                         uint32_t and_after)
{
    return ddprove_coll_emit(sink, kind, round, peer, dst, ddprove_coll_range(0, 0, 0), after,
                             and_after);
}

/* kind: DDPROVE_COLL_COPY, DDPROVE_COLL_REDUCE or DDPROVE_COLL_CONVERT. */
static inline uint32_t ddprove_coll_local(const struct ddprove_coll_sink *sink, uint32_t kind,
                                          uint32_t round, struct ddprove_coll_range dst,
                                          struct ddprove_coll_range src, uint32_t after,
                                          uint32_t and_after)
{
    return ddprove_coll_emit(sink, kind, round, DDPROVE_COLL_NONE, dst, src, after, and_after);
}

#ifdef __cplusplus
}
#endif
#endif
