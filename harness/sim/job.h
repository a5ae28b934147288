/* One simulated job and its parts. Internal to the sim driver. */
#ifndef HARNESS_SIM_JOB_H
#define HARNESS_SIM_JOB_H

#include <setjmp.h>
#include <signal.h>

#include "ddpcore/transport/loop.h"
#include "harness/inject/inject.h"
#include "harness/monitor/sampler.h"
#include "harness/sim/scheduler.h"
#include "harness/sim/sim.h"

/* Virtual time between two samples of a job that keeps going. */
#define HARNESS_SIM_SAMPLE_NS (5 * DDP_NS_PER_MS)

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
    char rank_text[12], size_text[12]; /* variables of its launcher */
    struct ddp_rendezvous told;        /* who they say that it is */
    struct harness_process process;
    struct harness_rank_end end;
    bool is_vanished; /* killed, or exited in the middle of an operation: never resumed */
    bool has_crashed; /* by a signal that its own code has raised */
    bool has_joined;  /* it is in the group, and announces its end there */
};

/* The monitor, which samples the ranks from outside. */
struct harness_sim_monitor {
    struct harness_sampler sampler;
    struct harness_wait_snapshot *snapshot;
    uint64_t next_sample_ns;
    bool is_decided; /* something was concluded that will not go away */
};

#define HARNESS_SIM_CRASH_SIGNALS 5
/* Crashes and endless loops of rank code. */
struct harness_sim_watch {
    struct harness_sim *outer; /* the simulation that this thread was in before; or NULL */
    struct sigaction old_crash[HARNESS_SIM_CRASH_SIGNALS], old_second;
    stack_t old_stack;
    uint64_t switch_count; /* of the scheduler, a second of CPU time ago */
    unsigned second_count; /* since then, in the same run of a rank */
    bool is_open;
    sigjmp_buf guarded; /* while is_guarded, a crash of no rank goes on there */
    bool is_guarded;
};

struct harness_sim {
    bool is_net_broken; /* it crashed as it closed a rank's end */
    struct ddp_mem *mem;
    const struct harness_launch_config *config;
    struct harness_rank_options options;
    struct ref_data data;
    bool is_data_open;
    uint32_t world_size;
    struct harness_sim_scheduler scheduler;
    struct ddp_mem_pool *net_pool; /* what the net takes: it must give all of it back */
    struct ddp_loop_net *net;
    struct ddp_files_memory *files;
    struct harness_sim_rank *ranks; /* [world_size] */
    char *storage;                  /* recorder memory of all ranks, one mapping */
    size_t storage_bytes, storage_bytes_per_rank;
    uint64_t ring_entry_count;
    struct harness_sim_monitor monitor;
    struct harness_sim_watch watch;
    struct harness_trace *trace;
    struct harness_sim_stats stats;
    ddp_status status; /* the harness's own first failure */
};

/* rank.c */
/* Entry of a rank's fiber; context is its struct harness_sim_rank. */
void harness_sim_rank_main(void *context);
DDP_MUST_USE ddp_status harness_sim_rank_init(struct harness_sim *sim, uint32_t rank,
                                              struct ddp_err *err);
/* The rank has ended by itself or vanished: free all that it had. */
void harness_sim_rank_settle(struct harness_sim_rank *rank);
/* End a rank that still runs. */
void harness_sim_rank_reap(struct harness_sim_rank *rank);

/* From a signal handler, on behalf of the rank that runs: its code has crashed, or it loops. Do not
 * return. */
void harness_sim_rank_crash(struct harness_sim_rank *rank, int signal_number)
    __attribute__((noreturn));
void harness_sim_rank_leave(struct harness_sim_rank *rank) __attribute__((noreturn));

/* crash.c */
void harness_sim_watch_open(struct harness_sim *sim);
/* Code of the core that no rank runs, between open and close; false: it crashed. */
bool harness_sim_guard(struct harness_sim *sim, void (*call)(void *context), void *context);
void harness_sim_watch_close(struct harness_sim *sim);

/* monitor.c */
DDP_MUST_USE ddp_status harness_sim_monitor_init(struct harness_sim *sim);
void harness_sim_monitor_fini(struct harness_sim *sim);
/* Sample all ranks now. is_settled: nothing can run and nothing is under way between ranks. */
void harness_sim_monitor_sample(struct harness_sim *sim, bool is_settled);
/* Nothing was concluded yet, or some rank may still be named beside those that are. */
bool harness_sim_monitor_is_learning(const struct harness_sim *sim);
/* The conclusions and their cuts, into the trace. */
DDP_MUST_USE ddp_status harness_sim_monitor_record(struct harness_sim *sim);

#endif
