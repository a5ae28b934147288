/* The sampler reads what the ranks of a job show (pages, progress words, rings) and the states of
 * their processes, makes a cut of it, and notes what the cut proves. One sampler serves every
 * driver; how a driver's ranks are reached is in a struct harness_sampler_source. It only reads: a
 * rank behaves the same whether it is watched or not. */
#ifndef HARNESS_MONITOR_SAMPLER_H
#define HARNESS_MONITOR_SAMPLER_H

#include "harness/monitor/conclusions.h"
#include "harness/monitor/monitor.h"
#include "harness/monitor/regroup.h"
#include "harness/monitor/wait_snapshot.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where time is real, a longer gap between two samples is a pause in which nothing could run, or
 * may not have run: it counts as silence of nobody. */
#define HARNESS_SAMPLER_PAUSE_NS UINT64_C(250000000)

/* How the ranks of one driver are reached. */
struct harness_sampler_source {
    /* The rank's recorder memory, which starts with its page. The same address at each call; the
     * rank may write there at any time. */
    const void *(*recorder)(void *context, uint32_t rank);
    /* The state of the rank's process now. An ended process stays ended, and all that it wrote is
     * visible once it is reported as ended. */
    struct harness_process (*process)(void *context, uint32_t rank);
    /* Of the time from alive_ns to now_ns: how long the rank, which runs, was ready to run and had
     * no CPU. NULL: that cannot happen (virtual time). */
    uint64_t (*starved_ns)(void *context, uint32_t rank, uint64_t alive_ns, uint64_t now_ns);
};

struct harness_sampler_config {
    struct ddp_mem *mem;
    const struct harness_plan *plan;
    const struct harness_program *program;
    const struct harness_tables *tables; /* the program's; NULL: nobody goes on after a loss */
    uint32_t world_size;
    uint64_t ring_entry_count; /* of each rank's ring */
    const struct harness_sampler_source *source;
    void *source_context;
    struct harness_wait_snapshot *snapshot; /* gets the cuts that led to conclusions; may be NULL */
};

/* What is remembered of one rank from sample to sample. */
struct harness_sampler_rank {
    uint64_t ring_read_count; /* ring entries that were read */
    uint64_t last_seq;        /* of the last post that was read; UINT64_MAX: one was lost */
    uint64_t waited_seq;      /* of the last one that the rank had waited for by then */
    /* The rank's first post that differs from the program, once there was one. A page shows only
     * the last post, and whatever is posted after the first wrong one follows from it. */
    struct {
        bool is_set;
        uint64_t seq, packed_op, elem_count, comm, step, phase, waited;
    } deviation;
    uint64_t alive_ns;         /* its last sign of life, */
    uint64_t paused_before_ns; /* and the sampler's paused_ns up to that */
    bool is_final;             /* read after its process had ended: it is not read again */
};

struct harness_sampler {
    struct harness_sampler_config config;
    struct ddp_page *pages; /* [world_size], and so are the others: see harness_cut */
    struct harness_process *processes;
    bool *is_page_valid;
    struct ddp_progress *progress;
    uint64_t *progress_ns;
    uint64_t *starved_ns;
    struct harness_sampler_rank *ranks;
    uint64_t now_ns;        /* of the last sample */
    uint64_t paused_ns;     /* sum of all pauses between two samples */
    uint64_t last_pause_ns; /* the one before the last sample; 0 if there was none */
    uint64_t change_ns;     /* when a change counter or a word was last seen to differ */
    struct harness_regroup regroup;
    struct harness_conclusions conclusions;
};

/* Errors: E_NOMEM; then there is nothing to release. */
DDP_MUST_USE ddp_status harness_sampler_init(struct harness_sampler *sampler,
                                             const struct harness_sampler_config *config);
/* Zeroed is fine too. */
void harness_sampler_fini(struct harness_sampler *sampler);
/* Take a cut, analyse it, and note its findings in sampler->conclusions. now_ns: not before that of
 * the last sample. The cut is stable if no page and no word changed while it was taken, and the
 * is_settled is true: the simulator passes false while messages are under way, other drivers always
 * pass true. Out of memory: conclusions.is_failed. */
void harness_sampler_take(struct harness_sampler *sampler, uint64_t now_ns, bool is_settled);

/* By the last cut, more may be concluded: a rank that no conclusion names has not ended, and does
 * not wait for others either. It may be about to, or it hangs as well. */
bool harness_sampler_is_open(const struct harness_sampler *sampler);

#ifdef __cplusplus
}
#endif
#endif
