/* The shared memory of a job in the proc driver: one memfd, passed on by descriptor, so that it has
 * no name and cannot be left behind. Each word has one writer: the launcher (states of
 * processes), the monitor (its heartbeat, its snapshot), or a rank (its recorder). Ranks map
 * nothing but the head, read-only, and their own recorder. */
#ifndef HARNESS_PROC_SHARED_H
#define HARNESS_PROC_SHARED_H

#include "ddpcore/seam/recorder.h"
#include "harness/monitor/wait_snapshot.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HARNESS_PROC_MAGIC UINT64_C(0x3130424f4a507044) /* "DpPJOB01" */
/* Descriptor of the job in a rank. */
#define HARNESS_PROC_JOB_FD 3

struct harness_proc_state {
    uint64_t pid; /* of the rank; 0: not started. Written before state */
    uint64_t since_ns;
    /* enum harness_process_state | code << 8 | is_brief << 40; written after since_ns */
    uint64_t state;
};

struct harness_proc_head {
    uint64_t magic;
    uint64_t world_size;
    uint64_t ring_entry_count;
    uint64_t recorder_offset_bytes;
    uint64_t recorder_stride_bytes;
    uint64_t snapshot_offset_bytes;
    uint64_t is_over;              /* launcher: sample once more, then end */
    uint64_t monitor_heartbeat_ns; /* monitor: of its last sample */
    uint64_t is_open;              /* by that sample, more may be concluded */
    struct harness_proc_state states[HARNESS_JOB_RANKS_MAX];
};

static inline void harness_proc_state_store(struct harness_proc_state *to,
                                            const struct harness_process *process)
{
    __atomic_store_n(&to->since_ns, process->since_ns, __ATOMIC_RELAXED);
    __atomic_store_n(&to->state,
                     (uint64_t)process->state | (uint64_t)(uint32_t)process->code << 8 |
                         (uint64_t)process->is_brief << 40,
                     __ATOMIC_RELEASE);
}

static inline struct harness_process harness_proc_state_load(const struct harness_proc_state *from)
{
    uint64_t word = __atomic_load_n(&from->state, __ATOMIC_ACQUIRE);
    struct harness_process process;

    process.state = (enum harness_process_state)(word & 0xff);
    process.code = (int)(uint32_t)(word >> 8);
    process.is_brief = (word >> 40 & 1) != 0;
    process.ending_ns = 0; /* what the launcher does not know */
    process.is_unended = false;
    process.since_ns = __atomic_load_n(&from->since_ns, __ATOMIC_RELAXED);
    return process;
}

/* The launcher takes over when the monitor's heartbeat stays away. */
static inline void harness_proc_heartbeat_store(struct harness_proc_head *head, uint64_t now_ns,
                                                bool is_open)
{
    __atomic_store_n(&head->is_open, is_open, __ATOMIC_RELEASE);
    __atomic_store_n(&head->monitor_heartbeat_ns, now_ns, __ATOMIC_RELEASE);
}

static inline uint64_t harness_proc_heartbeat_load(const struct harness_proc_head *head)
{
    return __atomic_load_n(&head->monitor_heartbeat_ns, __ATOMIC_ACQUIRE);
}

static inline struct harness_wait_snapshot *harness_proc_snapshot(struct harness_proc_head *head)
{
    return (struct harness_wait_snapshot *)((char *)head + head->snapshot_offset_bytes);
}

static inline void *harness_proc_recorder(struct harness_proc_head *head, uint32_t rank)
{
    return (char *)head + head->recorder_offset_bytes + rank * head->recorder_stride_bytes;
}

#ifdef __cplusplus
}
#endif
#endif
