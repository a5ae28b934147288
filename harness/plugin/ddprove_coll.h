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
    uint32_t round; /* for engines that run a round at a time (DDPROVE_COLL_ROUNDS); else unused */
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
/* Rounds 0, 1, 2, ... can be run one after the other: both ends of a message are of one round, no
 * step waits for a later round, what came in a round leaves in a later one, and none is empty. */
#define DDPROVE_COLL_ROUNDS 16u

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

/* --- the other form: a collective that moves the data itself ---------------------------------- */

/* An opaque collective is a library's, an MPI's, or one that is no schedule. It is loaded into each
 * rank's process and judged by running it (ddprove coll check ./mine.so). The symbol is
 * ddprove_coll_opaque_plugin. */
#define DDPROVE_COLL_OPAQUE_VERSION 1u

enum ddprove_coll_op { DDPROVE_COLL_SUM, DDPROVE_COLL_MAX, DDPROVE_COLL_MIN, DDPROVE_COLL_PROD };

/* What its functions return. */
enum ddprove_coll_result {
    DDPROVE_COLL_OK,
    DDPROVE_COLL_AGAIN,       /* not finished: call again with the same arguments */
    DDPROVE_COLL_FAILED,      /* nothing more can be done with this communicator */
    DDPROVE_COLL_UNSUPPORTED, /* not this type, operation or count; nothing was done */
    DDPROVE_COLL_ABORTED      /* it was told to give up */
};

/* One rank's place, and a way for its bytes; valid until close. Who has an engine of its own needs
 * rank and size alone. */
struct ddprove_coll_host {
    uint32_t struct_bytes; /* of this struct, as the host knows it */
    uint32_t rank, size;
    void *context;
    /* Messages between two ranks arrive in the order in which they were sent, and both ends name
     * the same length. Neither blocks: DDPROVE_COLL_AGAIN until the message has left, or is there.
     * One send and one receive for each peer at a time. DDPROVE_COLL_FAILED: a rank has ended. */
    int (*send)(void *context, uint32_t peer, const void *data, uint64_t bytes);
    int (*recv)(void *context, uint32_t peer, void *data, uint64_t bytes);
    /* Passes a moment until one of these may get on. */
    void (*wait)(void *context);
};

struct ddprove_coll_call {
    uint32_t struct_bytes;
    uint32_t dtype; /* enum ddprove_coll_dtype */
    uint32_t op;    /* enum ddprove_coll_op, of kinds that add */
    uint32_t root;
    uint64_t count;    /* elements of the input, or of a block of it; 0 is allowed */
    const void *input; /* == output: in place, as with a question's is_in_place */
    void *output;
};

/* What it needs; bits. */
#define DDPROVE_COLL_BY_MPIRUN 1u /* ranks that mpirun has started */
#define DDPROVE_COLL_ONE_COMM  2u /* a process opens it once, and no second one beside */

/* More claims, of this form. */
#define DDPROVE_COLL_TELLS_MISMATCH 4u /* ranks that ask for different things get an error */
#define DDPROVE_COLL_TELLS_DEATH    8u /* the others' calls end once a rank's process has ended */

struct ddprove_coll_opaque {
    uint32_t version;      /* DDPROVE_COLL_OPAQUE_VERSION */
    uint32_t struct_bytes; /* sizeof(struct ddprove_coll_opaque) */
    const char *name;      /* small letters, digits, _; at most 31 */
    uint32_t kind;         /* enum ddprove_coll_kind */
    uint32_t claims;       /* DDPROVE_COLL_SAME_BITS, DDPROVE_COLL_SAME_ORDER */
    uint32_t needs;
    /* All ranks call each of these alike. *out_self is handed to the others. */
    int (*open)(const struct ddprove_coll_host *host, void **out_self);
    void (*close)(void *self);
    /* One collective, to its end. NULL: post and poll are used instead. */
    int (*run)(void *self, const struct ddprove_coll_call *call);
    int (*post)(void *self, const struct ddprove_coll_call *call); /* begins; the call is copied */
    int (*poll)(void *self);                                       /* goes on with it */
    /* Whatever runs ends at once with DDPROVE_COLL_ABORTED, and so does all that comes; may be
     * called twice. NULL: it cannot. */
    void (*abort)(void *self);
};

#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
extern const struct ddprove_coll_opaque ddprove_coll_opaque_plugin;

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

/* Sends to one rank while receiving from another, either of no bytes: to its end. */
static inline int ddprove_coll_exchange(const struct ddprove_coll_host *host, uint32_t to,
                                        const void *src, uint64_t src_bytes, uint32_t from,
                                        void *dst, uint64_t dst_bytes)
{
    int sent = src_bytes > 0 ? (int)DDPROVE_COLL_AGAIN : (int)DDPROVE_COLL_OK;
    int got = dst_bytes > 0 ? (int)DDPROVE_COLL_AGAIN : (int)DDPROVE_COLL_OK;

    for (;;) {
        if (sent == (int)DDPROVE_COLL_AGAIN) {
            sent = host->send(host->context, to, src, src_bytes);
        }
        if (got == (int)DDPROVE_COLL_AGAIN) {
            got = host->recv(host->context, from, dst, dst_bytes);
        }
        if (sent > (int)DDPROVE_COLL_AGAIN || got > (int)DDPROVE_COLL_AGAIN) {
            return sent > got ? sent : got;
        }
        if (sent == (int)DDPROVE_COLL_OK && got == (int)DDPROVE_COLL_OK) {
            return (int)DDPROVE_COLL_OK;
        }
        host->wait(host->context);
    }
}

#ifdef __cplusplus
}
#endif
#endif
