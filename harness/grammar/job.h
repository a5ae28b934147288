/* What a plan's job comes to, for those who place faults in it and say what follows: its program,
 * its parameters, and which steps each rank trains in. Internal to harness/grammar. */
#ifndef HARNESS_GRAMMAR_JOB_H
#define HARNESS_GRAMMAR_JOB_H

#include "harness/plan/program.h"

struct harness_grammar_job {
    const struct harness_job *job;
    const struct ddp_param *params;
    size_t param_count;
    uint32_t layer_count;
    bool has_buffers;
    bool uses_all; /* every rank uses every parameter in every pass */
    struct harness_program program;
};
/* Everything in mem, a pool. Errors: E_NOMEM; of the tables of a model or dataset. */
DDP_MUST_USE ddp_status harness_grammar_job_open(struct ddp_mem *mem,
                                                 const struct harness_plan *plan,
                                                 struct harness_grammar_job *out,
                                                 struct ddp_err *err);
/* The parameters of the job's model alone; errors as above. */
DDP_MUST_USE ddp_status harness_grammar_params(struct ddp_mem *mem, const struct harness_job *job,
                                               const struct ddp_param **out, size_t *out_count,
                                               struct ddp_err *err);
/* The buckets of a step; -1: the first ones. */
const struct harness_buckets *harness_grammar_buckets(const struct harness_grammar_job *job,
                                                      int64_t step);
/* Micro-batches that a rank has in this job. */
uint64_t harness_grammar_passes(const struct harness_job *job, uint32_t rank);
/* Steps in which it has data for every micro-batch. */
uint32_t harness_grammar_full_steps(const struct harness_job *job, uint32_t rank);
/* Of the models that are drawn, one that is a row of layers: a weight and a bias each. */
bool harness_grammar_is_row(const struct harness_job *job);
/* Every rank has as many micro-batches. */
bool harness_grammar_is_even(const struct harness_job *job);
/* Another rank than this one has data in that step, so that its part of the sums is not zero. */
bool harness_grammar_is_summed(const struct harness_job *job, uint32_t rank, int64_t step);
/* What a call of files failed with says which resource ran out, if one did. */
enum harness_verdict harness_grammar_verdict_of_errno(int error);
/* Nothing changes what the ranks' gradients, operations and updates are in each step: no hook, no
 * scale of the loss, no statistics of all ranks, no graph that the first pass notes, and the job
 * ends with a loss. */
bool harness_grammar_is_plain(const struct harness_job *job);

/* Where in a job a fault point lies. */
enum harness_grammar_place {
    HARNESS_GRAMMAR_NOWHERE,       /* this job has no such point */
    HARNESS_GRAMMAR_AT_START,      /* before the first step */
    HARNESS_GRAMMAR_AT_STEP,       /* once in a step */
    HARNESS_GRAMMAR_AT_PASS,       /* once in a micro-batch */
    HARNESS_GRAMMAR_AT_LAYER,      /* once in a micro-batch and layer */
    HARNESS_GRAMMAR_AT_PARAM,      /* once for a parameter */
    HARNESS_GRAMMAR_AT_BUCKET,     /* once in a step for a bucket */
    HARNESS_GRAMMAR_AT_CHECKPOINT, /* rank 0, in steps that end with a checkpoint */
    HARNESS_GRAMMAR_AT_END,        /* behind the last step */
    HARNESS_GRAMMAR_AT_LOAD,       /* of the run that restores, before its first step */
    HARNESS_GRAMMAR_AT_TIMES,      /* in some steps of some ranks (harness_grammar_is_there) */
};
enum harness_grammar_place harness_grammar_place(const struct harness_grammar_job *job,
                                                 enum ddp_fault_point point);
/* Whether the trigger's rank comes to the point in its step, if it has data for it; for sure. */
bool harness_grammar_is_there(const struct harness_grammar_job *job, enum ddp_fault_point point,
                              const struct harness_trigger *at);
/* Whether a rank uses a parameter in each micro-batch of a step. */
enum harness_grammar_use {
    HARNESS_GRAMMAR_UNSURE, /* the data, or the random numbers of the model, decide */
    HARNESS_GRAMMAR_USED,
    HARNESS_GRAMMAR_UNUSED,
};
enum harness_grammar_use harness_grammar_use(const struct harness_grammar_job *job, uint32_t rank,
                                             int64_t step, int64_t param);
/* USED: some rank does; UNUSED: none does. */
enum harness_grammar_use harness_grammar_use_of_any(const struct harness_grammar_job *job,
                                                    int64_t step, int64_t param);
/* Whether the model of faults knows what the fault does to this job. What ends a rank, or stops it,
 * or does nothing that ranks exchange, does the same in a job that is not plain; all else depends
 * on what its hook, or its scale, makes of it. */
bool harness_grammar_is_answered(const struct harness_grammar_job *job,
                                 const struct harness_fault *fault);
#endif
