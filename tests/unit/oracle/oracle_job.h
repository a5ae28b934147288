/* A small two-rank job, trained for real by the reference and a hand-written all-reduce, recorded
 * as ranks would record it: the right trace, which tests then damage. */
#ifndef TESTS_UNIT_ORACLE_ORACLE_JOB_H
#define TESTS_UNIT_ORACLE_ORACLE_JOB_H

#include "harness/oracle/oracle.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { ORACLE_JOB_RANKS = 2, ORACLE_JOB_STEPS = 4 };

/* What happens to one gradient or bucket while the job runs. */
struct oracle_job_hook {
    /* May change a rank's scaled bucket before it is reduced, or its copy of the sum. */
    void (*input)(uint32_t rank, uint32_t step, size_t bucket, float *data, size_t elem_count);
    void (*output)(uint32_t rank, uint32_t step, size_t bucket, float *data, size_t elem_count);
    /* May change a rank's parameter after its update. */
    void (*updated)(uint32_t rank, uint32_t step, size_t param, float *data, size_t elem_count);
};

struct oracle_job {
    struct ddp_mem_pool *pool;
    struct ddp_mem *mem;
    struct harness_plan plan;
    struct ref_job job;
    size_t batch_rows[ORACLE_JOB_RANKS];
    struct ddp_device *device;
    struct ddp_param *params;
    size_t param_count;
    struct harness_program program;
    struct harness_trace trace;
    struct harness_emulation_input input;
    struct harness_findings findings;
    struct oracle_job_hook hook;
    char run_dir[64];
    bool is_keeping; /* every tensor that is recorded can be found by its hash */
    bool is_run_dir_made;
    enum ddp_phase phase[ORACLE_JOB_RANKS]; /* in which the rank records */
};

/* adamw if is_adamw, else sgd with momentum. Change plan or job between open and run. */
bool oracle_job_open(struct oracle_job *job, bool is_adamw);
/* Train, record, write schedules (and tensors). */
bool oracle_job_run(struct oracle_job *job);
/* Findings of all oracles; if is_keeping, once all tensors are there that they want. */
bool oracle_job_check(struct oracle_job *job);
void oracle_job_close(struct oracle_job *job);
/* First event of a kind in (rank, step) whose argument 0 (or bucket, for collectives) is subject.
 */
struct ddp_event_entry *oracle_job_event(struct oracle_job *job, uint32_t rank,
                                         enum ddp_event event, uint32_t step, uint64_t subject);
/* The only finding of an oracle, NULL if it has none or several. */
struct harness_finding *oracle_job_finding(struct oracle_job *job, enum harness_oracle_id oracle);
void oracle_job_add_event(struct oracle_job *job, uint32_t rank, enum ddp_event event,
                          uint32_t step, const uint64_t arg[5]);
/* Record the phase, unless the rank is in it. */
void oracle_job_enter(struct oracle_job *job, uint32_t rank, uint32_t step, enum ddp_phase phase);
/* The beginning, and where parameters lie. */
void oracle_job_begin(struct oracle_job *job, uint32_t rank);
/* The end, after all steps and messages. */
void oracle_job_end(struct oracle_job *job, uint32_t rank);
/* The schedule of a collective that carries no gradients, of both ranks. */
void oracle_job_write_schedule(const struct oracle_job *job, const struct harness_op *op);

#ifdef __cplusplus
}
#endif
#endif
