/* A small job for tests of the simulator: plan, program, configuration, and the run. */
#ifndef TESTS_UNIT_SIM_SIM_JOB_H
#define TESTS_UNIT_SIM_SIM_JOB_H

#include "harness/sim/sim.h"

#define SIM_JOB_RANKS_MAX 64

struct sim_job {
    struct ddp_mem_pool *pool;
    struct ddp_mem *mem;
    struct harness_plan plan;
    struct harness_fault faults[4];
    size_t batch[SIM_JOB_RANKS_MAX], shard[SIM_JOB_RANKS_MAX], width[3];
    struct ddp_param *params;
    size_t param_count;
    struct harness_program program;
    struct harness_launch_config config;
    struct harness_trace trace;
    struct harness_sim_stats stats;
    struct ddp_err err;
    bool is_run;
};

/* An mlp 64-16-10 on digits, 4 steps, two buckets or more, no faults. */
void sim_job_init(struct sim_job *job, uint32_t ranks);
/* The model with two branches and a buffer, broadcast in every step. */
void sim_job_use_branchy(struct sim_job *job);
/* One more fault that matches everything; the caller narrows it. */
struct harness_fault *sim_job_fault(struct sim_job *job, uint32_t rank, enum ddp_fault_point point,
                                    enum harness_action_kind kind);
/* Build the program and run. May be called again: the trace of the run before is dropped. */
ddp_status sim_job_run(struct sim_job *job);
void sim_job_fini(struct sim_job *job);

/* Status that a rank recorded at its end; DDP_PENDING if it recorded none. */
ddp_status sim_job_status(const struct sim_job *job, uint32_t rank);
/* Hash over a rank's parameters as recorded after its last step; 0 if there are none. */
uint64_t sim_job_param_hash(const struct sim_job *job, uint32_t rank);
/* Events of a kind on a rank. */
size_t sim_job_count(const struct sim_job *job, uint32_t rank, enum ddp_event event);
/* Argument arg of the last event of a kind on a rank; 0 if there is none. */
uint64_t sim_job_last(const struct sim_job *job, uint32_t rank, enum ddp_event event, unsigned arg);
/* The whole trace as text; belongs to the job's pool. */
const char *sim_job_text(struct sim_job *job);
/* "<dir>/<name>" in the job's pool. */
const char *sim_job_path(struct sim_job *job, const char *dir, const char *name);

#endif
