/* How far a device has come, in words that the device itself writes and a monitor reads without
 * touching the device. Two words for each of a rank's streams: the host says which mark it has
 * enqueued, the device says which mark it has reached. Memory that outlives the rank, beside its
 * page (recorder.h).
 *
 * What readers conclude rests on these rules for writers:
 * - A mark's word is in `enqueued` before the device can store it into `reached`.
 * - A mark lies before the work that it names. Whoever waits for the device, or polls it, has
 *   enqueued IDLE behind the compute stream's last work.
 * - Work on the compute stream never waits on the device for the communication stream: the host
 *   sees a collective end before it enqueues work that needs the result.
 * - A collective's COLL lies behind all that it waits for, directly before its kernels, and its
 *   COLL_END directly behind them; the communication stream has no other marks.
 * - A collective by schedule is enqueued round by round, and its COLL_END behind the last one. How
 *   many rounds are left is set before its COLL, and goes down as they are enqueued. */
#ifndef DDPCORE_SEAM_PROGRESS_H
#define DDPCORE_SEAM_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "ddpcore/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A mark is a point in a stream: count << 24 | kind << 16 | index. The count goes up by one with
 * every mark of the stream, from 1, so words compare by value. 0: nothing yet. */
enum ddp_mark {
    DDP_MARK_IDLE,      /* nothing of the rank's is left behind this mark */
    DDP_MARK_FORWARD,   /* the forward pass of layer `index` begins */
    DDP_MARK_BACKWARD,  /* the backward pass begins */
    DDP_MARK_OPTIMIZER, /* the optimizer's kernels begin */
    DDP_MARK_COLL,      /* a collective begins; index: its sequence number modulo 65536 */
    DDP_MARK_COLL_END,  /* it has ended */
    DDP_MARK_COUNT
};
/* "idle", "forward", ...; "?" for a number that is no mark. */
const char *ddp_mark_name(enum ddp_mark mark);

enum ddp_progress_stream { DDP_PROGRESS_COMPUTE, DDP_PROGRESS_COMM, DDP_PROGRESS_STREAM_COUNT };

struct ddp_progress_words {
    uint64_t enqueued; /* written by the host, before it enqueues the mark */
    uint64_t reached;  /* written by the device when it gets there */
};
/* One page of memory, so that a device can map it alone. Zeroed. */
#define DDP_PROGRESS_SIZE_BYTES 4096u
struct ddp_progress {
    uint64_t is_mapped; /* 1 once a device writes here; 0: the words mean nothing */
    struct ddp_progress_words stream[DDP_PROGRESS_STREAM_COUNT];
    uint64_t rounds_left; /* of the last COLL: those that the host has not enqueued yet */
};

static inline uint64_t ddp_mark_pack(uint64_t count, enum ddp_mark kind, uint64_t index)
{
    return count << 24 | (uint64_t)kind << 16 | (index & 0xffffu);
}
static inline uint64_t ddp_mark_count(uint64_t word)
{
    return word >> 24;
}
static inline enum ddp_mark ddp_mark_kind(uint64_t word)
{
    return (enum ddp_mark)(word >> 16 & 0xffu);
}
static inline uint32_t ddp_mark_index(uint64_t word)
{
    return (uint32_t)(word & 0xffffu);
}

/* Writer's side: the rank's thread that enqueues on that stream. */
/* Say that a device does, or does no longer, write here: after it mapped the page, and before the
 * page is unmapped. */
void ddp_progress_set_mapped(struct ddp_progress *progress, bool is_mapped);
/* Publish the stream's next mark as enqueued and return its word, which the caller has the device
 * store into stream[stream].reached:
 *     word = ddp_progress_next(progress, DDP_PROGRESS_COMM, DDP_MARK_COLL, seq);
 *     status = device->ops->store_word(device, stream, &progress->stream[...].reached, word);
 * NULL: does nothing and returns 0. */
uint64_t ddp_progress_next(struct ddp_progress *progress, enum ddp_progress_stream stream,
                           enum ddp_mark mark, uint64_t index);
/* How many rounds of a collective the host has not enqueued. 0: all of it is, once it is begun.
 * NULL: does nothing. */
void ddp_progress_set_rounds(struct ddp_progress *progress, uint64_t rounds_left);

/* Reader's side. */
/* Copy all words as they were at one moment; false if they moved during 64 attempts. In a copy,
 * reached <= enqueued. */
DDP_MUST_USE bool ddp_progress_read(const struct ddp_progress *progress, struct ddp_progress *out);
bool ddp_progress_is_equal(const struct ddp_progress *a, const struct ddp_progress *b);

#ifdef __cplusplus
}
#endif
#endif
