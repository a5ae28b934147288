/* Hand-made cuts for the monitor's tests: a job of up to 8 ranks, 3 steps of 2 buckets, and pages
 * that a case bends. */
#ifndef TESTS_UNIT_MONITOR_MONITOR_CUT_H
#define TESTS_UNIT_MONITOR_MONITOR_CUT_H

#include "harness/monitor/monitor.h"

enum {
    CUT_RANKS_MAX = 8,
    CUT_PARAMS = 4,
    CUT_BUCKETS = 2,
    CUT_STEPS = 3,
    CUT_OPS = 2 + CUT_STEPS * CUT_BUCKETS + 1
};
#define CUT_NOW_NS UINT64_C(1000000000000)
#define CUT_MS     UINT64_C(1000000)

struct cut_job {
    struct harness_plan plan;
    struct harness_program program;
    struct harness_op ops[CUT_OPS];
    struct harness_bucket buckets[CUT_BUCKETS];
    struct ddp_param params[CUT_PARAMS];
    uint32_t members[CUT_BUCKETS][2];
    struct ddp_page pages[CUT_RANKS_MAX];
    struct harness_process processes[CUT_RANKS_MAX];
    bool is_page_valid[CUT_RANKS_MAX];
    struct ddp_progress progress[CUT_RANKS_MAX];
    uint64_t progress_ns[CUT_RANKS_MAX];
    struct harness_cut cut;
    struct ddp_mem_pool *pool; /* of findings, until cut_fini */
    struct harness_findings findings;
};

/* Every rank is healthy: step 1, backward, inside its bucket 1 (seq 6), waiting for rank - 1. */
void cut_init(struct cut_job *job, uint32_t world_size);
void cut_fini(struct cut_job *job);
/* Sequence number of a bucket's all-reduce. */
uint64_t cut_seq(uint32_t step, uint32_t bucket);
/* The rank posted everything up to seq as planned, and completed all before it. */
void cut_post(struct cut_job *job, uint32_t rank, uint64_t seq);
/* The rank waits for seq; peer -1: unknown. */
void cut_wait(struct cut_job *job, uint32_t rank, uint64_t seq, int32_t peer);
/* The rank does not wait; it entered the phase ms ago and has reported nothing since. */
void cut_host(struct cut_job *job, uint32_t rank, enum ddp_phase phase, uint64_t ms);
void cut_process(struct cut_job *job, uint32_t rank, enum harness_process_state state, int code,
                 uint64_t since_ms);
/* Nothing has been seen of the rank or its device for ms; a wait goes on. */
void cut_still(struct cut_job *job, uint32_t rank, uint64_t ms);
/* Every rank's device shows words: compute drained, everything posted has ended on the device, and
 * words moved when their rank was last alive. */
void cut_map(struct cut_job *job);
/* The rank's compute stream has reached this mark, its 37th, and `behind` more are enqueued. */
void cut_compute(struct cut_job *job, uint32_t rank, enum ddp_mark mark, uint32_t index,
                 uint32_t behind);
/* OPEN: inside, and the host has not marked the end. */
enum cut_comm { CUT_COMM_BEFORE, CUT_COMM_INSIDE, CUT_COMM_OPEN, CUT_COMM_ENDED };
/* Where the communication stream is with seq, the last that it was given. */
void cut_comm(struct cut_job *job, uint32_t rank, uint64_t seq, enum cut_comm comm);
/* Just beyond the budget of every phase within a step. */
enum { CUT_LATE_MS = 2001 };
/* As cut_init, with words: all devices are inside seq 6, and have stood still for CUT_LATE_MS. */
void cut_open_device(struct cut_job *job, uint32_t world_size);
/* The rank recorded rank.end. */
void cut_end(struct cut_job *job, uint32_t rank, ddp_status status);
void cut_analyse(struct cut_job *job);
/* The only finding, or NULL after a noted failure. */
const struct harness_finding *cut_only(struct cut_job *job, enum harness_verdict verdict);
void cut_check_culprit(const struct harness_finding *finding, uint32_t rank);
/* It is the only culprit; the other ranks wait, and the mode is by budget. */
void cut_check_others_wait(const struct harness_finding *finding, uint32_t rank);
/* No finding at all. */
void cut_check_silent(struct cut_job *job, const char *what);

/* A body for each of the first, a middle and the last of CUT_RANKS ranks, with a job of its own
 * that `open` (cut_init or cut_open_device) has made. */
enum { CUT_RANKS = 4, CUT_CULPRITS = 3 };
#define CUT_FOR_EACH_CULPRIT(job, rank, open)                                   \
    for (uint32_t i_##rank = 0, rank;                                           \
         i_##rank < CUT_CULPRITS &&                                             \
         (rank = (const uint32_t[CUT_CULPRITS]){0, 2, CUT_RANKS - 1}[i_##rank], \
         open(&(job), CUT_RANKS), true);                                        \
         i_##rank++, cut_fini(&(job)))

#endif
