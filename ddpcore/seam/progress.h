/* How far a device has come, in words that the device itself writes and a monitor reads without
 * touching the device. Two words for each of a rank's streams: the host says which mark it has
 * enqueued, the device says which mark it has reached. Memory that outlives the rank, beside its
 * page (recorder.h). */
#ifndef DDPCORE_SEAM_PROGRESS_H
#define DDPCORE_SEAM_PROGRESS_H

#include <stdint.h>

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

#ifdef __cplusplus
}
#endif
#endif
