/* The simulator's parts. Private to the sim driver. */
#ifndef HARNESS_SIM_SIM_H
#define HARNESS_SIM_SIM_H

#include "ddpcore/transport/loop.h"
#include "harness/inject/inject.h"
#include "harness/launch/history.h"
#include "harness/launch/launch.h"
#include "harness/monitor/monitor.h"
#include "harness/monitor/wait_snapshot.h"
#include "harness/monitor/watch.h"
#include "harness/sim/scheduler.h"

/* Virtual time between two looks of the monitor at a job that keeps going. */
#define HARNESS_SIM_LOOK_NS (5 * DDP_NS_PER_MS)

struct harness_sim;

struct harness_sim_rank {
    struct harness_sim *sim;
    uint32_t rank;
    struct ddp_mem_pool *pool; /* everything the rank allocates; NULL once dropped */
    struct ddp_env env;
    struct ddp_recorder recorder;
    void *storage; /* page and ring, in sim->storage */
    struct harness_victim victim;
    struct harness_injector *injector;
    struct harness_process process;
    struct harness_rank_end end;
    bool is_vanished; /* killed or exited in mid-operation: never resumed */
    bool has_joined;  /* a member of the group: it leaves by telling the others */
};

/* What the monitor saw, and when it made up its mind. */
struct harness_sim_watch {
    struct ddp_page *pages;
    struct harness_process *processes;
    bool *is_page_valid;
    struct harness_history *histories;
    uint64_t *changes;             /* page change counters at the last look */
    struct ddp_progress *progress; /* progress words at the last look */
    uint64_t *progress_ns;         /* when they were last seen to differ */
    uint64_t change_ns;            /* when a counter or a word was last seen to differ */
    uint64_t next_look_ns;
    struct harness_watch conclusions;
    struct harness_picture *picture;
    bool is_decided; /* a finding that is more than SLOW */
};

/* What a run cost and left behind, for tests and benchmarks. */
struct harness_sim_stats {
    uint64_t switch_count;
    size_t leaked_block_count; /* in the memory of ranks that ended by themselves */
};

struct harness_sim {
    struct ddp_mem *mem;
    const struct harness_launch_config *config;
    struct harness_rank_options options;
    struct ref_data data;
    bool is_data_open;
    uint32_t world_size;
    struct harness_scheduler scheduler;
    struct ddp_loop_net *net;
    struct ddp_files_memory *files;
    struct harness_sim_rank *ranks; /* [world_size] */
    char *storage;                  /* recorder memory of all ranks, one mapping */
    size_t storage_bytes, storage_bytes_per_rank;
    uint64_t ring_entry_count;
    struct harness_sim_watch watch;
    struct harness_trace *trace;
    struct harness_sim_stats stats;
    ddp_status status; /* the harness's own first failure */
};

/* sim_rank.c */
/* Entry of a rank's fiber; context is its struct harness_sim_rank. */
void harness_sim_rank_main(void *context);
DDP_MUST_USE ddp_status harness_sim_rank_init(struct harness_sim *sim, uint32_t rank,
                                              struct ddp_err *err);
/* The rank has ended by itself or vanished: note how, and drop all it had. */
void harness_sim_rank_settle(struct harness_sim_rank *rank);
/* End a rank that still runs. */
void harness_sim_rank_reap(struct harness_sim_rank *rank);

/* sim_watch.c */
DDP_MUST_USE ddp_status harness_sim_watch_init(struct harness_sim *sim);
void harness_sim_watch_fini(struct harness_sim *sim);
/* One look at all ranks now. */
void harness_sim_watch_look(struct harness_sim *sim, bool is_stable);
/* What the looks came to, and its picture, into the trace. */
DDP_MUST_USE ddp_status harness_sim_watch_conclude(struct harness_sim *sim);

/* As the driver's run. stats may be NULL. */
DDP_MUST_USE ddp_status harness_sim_run(struct ddp_mem *mem,
                                        const struct harness_launch_config *config,
                                        struct harness_trace *out, struct harness_sim_stats *stats,
                                        struct ddp_err *err);

#endif
