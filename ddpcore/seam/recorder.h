/* The recorder: what a rank shows to the outside.
 *
 * A rank owns one page (its present state), one page of progress words that its device writes
 * (progress.h), and one ring (its history), all in memory that outlives it: a shared mapping in
 * real processes, plain memory in the simulator. One writer, any number of readers; readers write
 * nothing. The page's change counter is odd while the page is being written, so a reader that sees
 * the same even counter before and after has a consistent copy. A ring entry writes its index last;
 * an entry whose index does not match its slot is torn: lost evidence.
 *
 * All shared fields are plain integers accessed with __atomic builtins in recorder.c, so that this
 * header stays valid C++. */
#ifndef DDPCORE_SEAM_RECORDER_H
#define DDPCORE_SEAM_RECORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ddpcore/base/clock.h"
#include "ddpcore/base/dtype.h"
#include "ddpcore/base/idle.h"
#include "ddpcore/base/status.h"
#include "ddpcore/seam/links.h"
#include "ddpcore/seam/phase.h"
#include "ddpcore/seam/progress.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DDP_EVENT_ARG_COUNT 5
#define DDP_PAGE_MAGIC      UINT64_C(0x3130456741507044) /* "DpPAgE01" */

enum ddp_event {
#define X(id, name, a0, a1, a2, a3, a4) DDP_EVENT_##id,
#include "ddpcore/seam/event.def"
#undef X
    DDP_EVENT_COUNT
};

/* What a collective is, packed into one event argument. */
enum ddp_coll_kind {
    DDP_COLL_ALL_REDUCE,
    DDP_COLL_BROADCAST,
    DDP_COLL_ALL_GATHER,
    DDP_COLL_BARRIER,
    /* No part of the DDP core posts what follows: embedders and job.posts do, on schedules. */
    DDP_COLL_REDUCE_SCATTER,
    DDP_COLL_REDUCE,
    DDP_COLL_ALL_TO_ALL,
    DDP_COLL_KIND_COUNT,
    DDP_COLL_POSTED_KIND_COUNT = DDP_COLL_REDUCE_SCATTER
};
/* Whether values are added up; whether a root is named. */
bool ddp_coll_kind_is_sum(enum ddp_coll_kind kind);
bool ddp_coll_kind_has_root(enum ddp_coll_kind kind);
/* How often elem_count elements lie in a member's input, and in its output. is_root: of members of
 * a reduction to a root, it alone has an output. */
uint32_t ddp_coll_input_blocks(enum ddp_coll_kind kind, uint32_t member_count);
uint32_t ddp_coll_output_blocks(enum ddp_coll_kind kind, uint32_t member_count, bool is_root);
/* What the DDP core uses a collective for. X(identifier, name) */
#define DDP_ROLE_TABLE(X)                        \
    X(DDP_ROLE_USER, "user")                     \
    X(DDP_ROLE_VERIFY, "verify")                 \
    X(DDP_ROLE_PARAM_SYNC, "param_sync")         \
    X(DDP_ROLE_BUFFER_SYNC, "buffer_sync")       \
    X(DDP_ROLE_BUCKET, "bucket")                 \
    X(DDP_ROLE_USED_MAP, "used_map")             \
    X(DDP_ROLE_JOIN_PRESENT, "join_present")     \
    X(DDP_ROLE_JOIN_SYNC_FLAG, "join_sync_flag") \
    X(DDP_ROLE_JOIN_LAST, "join_last")           \
    X(DDP_ROLE_BARRIER, "barrier")               \
    X(DDP_ROLE_MONITORED, "monitored_barrier")   \
    X(DDP_ROLE_PROBE, "probe")                   \
    X(DDP_ROLE_REBUILD, "rebuild")               \
    X(DDP_ROLE_EVALUATION, "evaluation")         \
    X(DDP_ROLE_BATCH_NORM, "batch_norm")         \
    X(DDP_ROLE_FOUND_INF, "found_inf")           \
    X(DDP_ROLE_STATE, "state")                   \
    X(DDP_ROLE_AVERAGE, "average")               \
    X(DDP_ROLE_HOOK_STATE, "hook_state")         \
    X(DDP_ROLE_DRIFT, "drift")
enum ddp_coll_role {
#define X(id, name) id,
    DDP_ROLE_TABLE(X)
#undef X
        DDP_ROLE_COUNT
};
const char *ddp_coll_kind_name(enum ddp_coll_kind kind);
DDP_MUST_USE ddp_status ddp_coll_kind_parse(const char *name, enum ddp_coll_kind *out);
const char *ddp_coll_role_name(enum ddp_coll_role role);
DDP_MUST_USE ddp_status ddp_coll_role_parse(const char *name, enum ddp_coll_role *out);

struct ddp_event_op {
    enum ddp_coll_kind kind;
    enum ddp_redop redop;
    enum ddp_dtype dtype;
    enum ddp_coll_role role;
    uint32_t index; /* bucket of BUCKET, parameter of AVERAGE, chunk of syncs, else 0 */
    uint32_t root;
};
/* index: 24 bits, root: 22. What does not fit is packed as the greatest value that does. */
uint64_t ddp_event_op_pack(const struct ddp_event_op *op);
struct ddp_event_op ddp_event_op_unpack(uint64_t packed);

struct ddp_event_entry {
    uint64_t index; /* position in the history, from 1; written last */
    uint64_t time_ns;
    uint32_t step;
    uint16_t micro;
    uint8_t phase; /* enum ddp_phase */
    uint8_t event; /* enum ddp_event */
    uint64_t arg[DDP_EVENT_ARG_COUNT];
};

/* Why a rank waits. */
enum ddp_wait_kind { DDP_WAIT_NONE, DDP_WAIT_COLLECTIVE, DDP_WAIT_STORE };

/* The page. 64-bit fields only; see recorder.c for who writes which. */
struct ddp_page {
    uint64_t magic;
    uint64_t change; /* odd while being written */
    uint64_t pid;
    uint64_t rank;
    uint64_t world_size;
    uint64_t phase;
    uint64_t phase_enter_ns;
    uint64_t step;
    uint64_t micro;
    uint64_t heartbeat_ns;  /* last time the rank reported anything */
    uint64_t comm;          /* group of the collective fields below */
    uint64_t seq_posted;    /* last collective posted; 0 = none */
    uint64_t seq_done;      /* last collective completed */
    uint64_t posted_op;     /* ddp_event_op_pack of seq_posted */
    uint64_t posted_count;  /* its element count */
    uint64_t posted_comm;   /* the group, */
    uint64_t posted_step;   /* the step and */
    uint64_t posted_phase;  /* the phase in which it was posted; */
    uint64_t posted_waited; /* 1: the host had waited until the one posted before it was done */
    uint64_t call_seq; /* the collective whose post, poll or wait the host is inside of; 0 = none */
    uint64_t wait_kind; /* enum ddp_wait_kind */
    uint64_t wait_seq;  /* the collective waited for */
    uint64_t wait_peer; /* rank whose message is missing, + 1; 0 = unknown */
    uint64_t wait_enter_ns;
    uint64_t message_count; /* messages sent, received or acknowledged: progress inside a wait */
    uint64_t end_status;    /* 0 while running; 1 + (uint32_t)status once rank.end was recorded */
    uint64_t last_point;    /* last fault point passed while armed, + 1 */
    uint64_t last_param;    /* last parameter whose gradient became ready, + 1 */
    uint64_t revoke_rank;   /* rank that this rank saw revoke the group, + 1; 0 = none */
    uint64_t revoke_status; /* (uint32_t)status of that revocation */
    uint64_t event_count;   /* entries written so far */
    /* Outside of change: the process's last wait, written by its idle if it is given these; */
    struct ddp_idle_polls polls;
    /* when the host entered code of a plug-in that it has not left, nor waits in; 0 = it is in
     * none. */
    uint64_t plugin_ns;
    struct ddp_links links; /* what was sent to whom, and what is due */
};

/* Memory for one rank: page, progress words in a page of their own, ring; a multiple of 4096. */
size_t ddp_recorder_size_bytes(uint64_t ring_entry_count);
/* Where the ring, and the progress words, lie in that memory. */
const struct ddp_event_entry *ddp_recorder_ring(const void *storage);
const struct ddp_progress *ddp_recorder_progress_of(const void *storage);

/* Sees every tensor whose hash the rank records. */
struct ddp_witness {
    void *context;
    void (*see)(void *context, uint64_t hash, const void *data, size_t size_bytes);
};

struct ddp_recorder {
    struct ddp_page *page;
    struct ddp_progress *progress;
    struct ddp_event_entry *ring;
    uint64_t ring_entry_count;
    struct ddp_clock *clock;
    const struct ddp_witness *witness; /* NULL: nobody */
    uint32_t step;
    uint16_t micro;
    uint8_t phase;
    /* How long the rank was ready to run and had no CPU, since any time; NULL: not asked for. Set
     * it after ddp_recorder_init. */
    uint64_t (*starved_ns)(void);
    uint64_t waited_ns;         /* in waits that have ended */
    uint64_t starved_waits_ns;  /* starved_ns() that passed in them */
    uint64_t starved_before_ns; /* starved_ns() when the present wait began */
    uint64_t seq_waited;        /* the last collective that was waited for; 0 = none */
};

/* storage: ddp_recorder_size_bytes(ring_entry_count) bytes, page-aligned, zeroed, borrowed until
 * the reader is finished with it. */
void ddp_recorder_init(struct ddp_recorder *recorder, void *storage, uint64_t ring_entry_count,
                       struct ddp_clock *clock, uint32_t rank, uint32_t world_size, uint64_t pid);

/* The rank's progress words: DDP_PROGRESS_SIZE_BYTES, page-aligned if the storage is. NULL without
 * a recorder. */
struct ddp_progress *ddp_recorder_progress(struct ddp_recorder *recorder);

/* Every function below accepts recorder == NULL and then does nothing. */
void ddp_recorder_event(struct ddp_recorder *recorder, enum ddp_event event, uint64_t a0,
                        uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4);
void ddp_recorder_phase(struct ddp_recorder *recorder, enum ddp_phase phase);
void ddp_recorder_step(struct ddp_recorder *recorder, uint32_t step, uint32_t micro);
void ddp_recorder_collective_posted(struct ddp_recorder *recorder, uint64_t comm, uint64_t seq,
                                    uint64_t packed_op, uint64_t elem_count);
/* The host enters the post, a poll or the wait of a collective, or leaves it: 0. */
void ddp_recorder_call(struct ddp_recorder *recorder, uint64_t seq);
void ddp_recorder_collective_done(struct ddp_recorder *recorder, uint64_t seq);
void ddp_recorder_wait_begin(struct ddp_recorder *recorder, enum ddp_wait_kind kind, uint64_t seq);
/* peer: rank whose message is missing, or -1. Cheap when unchanged. */
void ddp_recorder_wait_peer(struct ddp_recorder *recorder, int32_t peer);
void ddp_recorder_wait_end(struct ddp_recorder *recorder);
/* In the middle of a wait the rank passes a fault point: until this is called with what it returned
 * the rank does not wait, whatever becomes of it there. */
enum ddp_wait_kind ddp_recorder_wait_suspend(struct ddp_recorder *recorder);
void ddp_recorder_wait_resume(struct ddp_recorder *recorder, enum ddp_wait_kind kind);
/* Whether the rank waits by what it has shown. */
bool ddp_recorder_is_waiting(const struct ddp_recorder *recorder);
/* The host enters code of a plug-in, or leaves it. Not a sign of life. */
void ddp_recorder_plugin(struct ddp_recorder *recorder, bool is_inside);
void ddp_recorder_message(struct ddp_recorder *recorder);
void ddp_recorder_revoked(struct ddp_recorder *recorder, uint32_t rank, ddp_status status);
/* The rank is in another group from now on: it has posted nothing there, and nobody revoked it. */
void ddp_recorder_regroup(struct ddp_recorder *recorder);
/* The rank passes an armed fault point (enum ddp_fault_point): sets last_point. */
void ddp_recorder_point(struct ddp_recorder *recorder, uint32_t point);
/* ddp_hash_tensor of a tensor in host memory, which the witness sees. Works without a recorder. */
uint64_t ddp_recorder_hash(const struct ddp_recorder *recorder, const void *data, size_t size_bytes,
                           uint64_t salt);
/* Record rank.end and set end_status. */
void ddp_recorder_end(struct ddp_recorder *recorder, ddp_status status, uint64_t steps_done);

/* Reader's side. */
/* Consistent copy of a page; false if it changed during 64 attempts or was never initialised. */
DDP_MUST_USE bool ddp_page_read(const struct ddp_page *page, struct ddp_page *out);
/* Entry number index (from 1). E_NOT_FOUND: not written yet. E_CORRUPT: torn or overwritten.
 * Read up to the page's event_count: the entry behind it may be half written, which is no loss. */
DDP_MUST_USE ddp_status ddp_ring_read(const struct ddp_event_entry *ring, uint64_t ring_entry_count,
                                      uint64_t index, struct ddp_event_entry *out);
const char *ddp_event_name(enum ddp_event event);
/* "u:seq": prefix and name of an argument as in event.def; "" for an unused one. */
const char *ddp_event_arg(enum ddp_event event, unsigned arg_index);
DDP_MUST_USE ddp_status ddp_event_parse(const char *name, enum ddp_event *out);

#ifdef __cplusplus
}
#endif
#endif
