/* The run as it should have been: every step recomputed with the reference's kernels for local
 * gradients and the judge's own arithmetic for the rest. Steps are emulated once; what ranks
 * recorded is compared by hash. Expected values never depend on what was observed; so the earliest
 * difference is the error, and later ones are its consequences. */
#ifndef HARNESS_EMULATION_EMULATION_H
#define HARNESS_EMULATION_EMULATION_H

#include "harness/plan/program.h"
#include "harness/sums/schedule_set.h"
#include "harness/sums/tree.h"
#include "harness/trace/index.h"
#include "reference/trainer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What is judged. Borrowed while the emulation lives. */
struct harness_emulation_input {
    const struct harness_plan *plan;
    const struct harness_program *program;
    const struct harness_trace *trace;
    const struct ref_job *job;      /* the plan's job in the reference's terms */
    const struct ddp_param *params; /* the model's table */
    size_t param_count;
    struct ddp_device *device;
    const char *run_dir; /* schedules/, payload/, checkpoint.safetensors; or NULL */
    const struct harness_trace *first_trace; /* when judging a restore run: the run before it */
    uint32_t restored_step;                  /* steps completed before a restore run; 0 otherwise */
    struct ddp_mem *mem;
};

/* How much of a step is predicted. */
enum harness_predicted {
    HARNESS_PREDICTED_NOTHING,
    HARNESS_PREDICTED_GRADIENT, /* local gradients: the step itself cannot succeed (uneven data,
                                 * unused parameters) */
    HARNESS_PREDICTED_INPUT,    /* and bucket inputs: no complete schedule was dumped, and no tree
                                 * was measured */
    HARNESS_PREDICTED_UPDATE    /* everything */
};

/* Model and optimizer state after `steps_done` steps; host memory. */
struct harness_state {
    uint32_t steps_done;
    float *param;    /* float[elem_total] */
    float *slot[2];  /* float[elem_total]; NULL if the optimizer has no such slot */
    uint64_t *taken; /* [param_count] optimizer steps of each parameter */
    float *buffer;   /* [buffer_total] rank 0's buffers, which a checkpoint holds */
};

/* Distance of the averaged gradient to the mean over the global batch, where it exceeded its bound
 * first. */
struct harness_excess {
    bool is_set;
    uint32_t step, param;
    size_t elem;
    double distance, bound, weight_gap; /* weight_gap: sum over ranks of |1/D - n_r/N| */
};

/* First batch that is not the one that the sampler's rules give. */
struct harness_batch_difference {
    bool is_set;
    uint32_t rank, step, micro;
    enum harness_verdict verdict;
    char text[256];
};

struct harness_emulation {
    const struct harness_emulation_input *input;
    struct ddp_mem *mem;
    struct ref_trainer *trainer;
    struct ref_shard_config shard; /* the job's, with the dataset's size filled in */
    struct harness_index index;
    struct harness_schedules schedules;
    struct harness_trees trees; /* measured, of collectives without schedules */

    uint32_t world, slot_count;
    size_t param_count, bucket_count;
    size_t elem_total;          /* of all parameters */
    struct ddp_buffer *buffers; /* the trainer's model's */
    size_t buffer_count;
    size_t buffer_total;  /* elements of all buffers */
    size_t *param_first;  /* [param_count] offset into elem_total */
    size_t bucket_total;  /* elements of all buckets */
    size_t *bucket_first; /* [bucket_count] */
    uint32_t *bucket_of;  /* [param_count] */
    uint64_t *param_salt, *bucket_salt;

    /* Values of the step that was emulated last. */
    struct harness_state state; /* after it */
    float *grad;                /* [world][elem_total] local gradients, unscaled */
    bool *is_grad_defined;      /* [world][param_count] */
    bool *is_used;              /* [param_count] some rank has a gradient for it */
    float *bucket_in;           /* [world][bucket_total] expected bucket inputs */
    float *bucket_in_before;    /* of the step before */
    bool is_bucket_set, is_before_set;
    float *bucket_out; /* [world][bucket_total] */
    float *average;    /* [elem_total] */
    size_t *rows;      /* [world]; 0 = the rank has no data in this step */
    float *loss;       /* [world] */
    uint32_t divisor;

    /* Hashes, for steps start_step <= s < end_step; index s - start_step, called k. */
    uint32_t start_step, end_step;
    uint8_t *predicted;     /* [k] enum harness_predicted */
    uint64_t *grad_hash;    /* [k][world][param_count] */
    uint8_t *has_grad;      /* [k][world][param_count] */
    uint32_t *loss_bits;    /* [k][world] */
    uint8_t *is_active;     /* [k][world] the rank has data */
    uint64_t *in_hash;      /* [k][world][bucket_count] */
    uint64_t *out_hash;     /* [k][world][bucket_count] */
    uint8_t *is_updated;    /* [k][param_count] an averaged gradient exists */
    uint64_t *average_hash; /* [k][param_count] */
    uint64_t *param_hash;   /* [k][param_count] */
    uint64_t *slot_hash;    /* [k][slot_count][param_count] */

    int32_t split_step;   /* first step after which ranks' outputs differ by schedule; -1 */
    int32_t missing_step; /* first step with a sum of unknown order; -1 */
    uint32_t missing_bucket;
    char missing_why[160];
    struct harness_excess excess;
    bool is_snapshot_wanted;
    struct harness_state snapshot; /* state after snapshot.steps_done steps, if it was passed */
    bool is_snapshot_taken;
    struct harness_batch_difference batch; /* the first one that is wrong */
};

/* Prepare: index the trace, load schedules, create the trainer. Nothing is emulated yet. */
DDP_MUST_USE ddp_status harness_emulation_create(const struct harness_emulation_input *input,
                                                 struct harness_emulation **out,
                                                 struct ddp_err *err);
void harness_emulation_destroy(struct harness_emulation *emulation);
/* Emulate one step and leave its values. Steps go up by one from 0.
 * *out_predicted: how far it went; the state advances only with FORETOLD_UPDATE. */
DDP_MUST_USE ddp_status harness_emulation_step(struct harness_emulation *emulation, uint32_t step,
                                               enum harness_predicted *out_predicted);
/* The sums of one all-reduce of elem_count elements: in the measured tree if there is one, else by
 * the dumped schedule. input, output: one pointer a rank, apart from each other. Errors:
 * E_NOT_FOUND (neither is complete; why says so), E_NOMEM. */
DDP_MUST_USE ddp_status harness_emulation_sum(const struct harness_emulation *emulation,
                                              size_t elem_count, void *const *input,
                                              void *const *output, char *why, size_t why_bytes);
/* Emulate every step that any rank began, and keep the hashes. */
DDP_MUST_USE ddp_status harness_emulation_run(struct harness_emulation *emulation,
                                              struct ddp_err *err);
/* Keep the state after steps_done steps in emulation->snapshot. Call before _run. */
DDP_MUST_USE ddp_status harness_emulation_want(struct harness_emulation *emulation,
                                               uint32_t steps_done);
/* Micro-batches that a rank's data gives in all; UINT64_MAX if it starts again each epoch. */
uint64_t harness_emulation_batch_count(const struct harness_emulation *emulation, uint32_t rank);
/* Whether the run that is judged started from another run's checkpoint. */
bool harness_emulation_is_restore(const struct harness_emulation *emulation);

/* --- comparison of what ranks recorded with the emulation --------------------------------------*/

/* In the order of cause and effect within a step. */
enum harness_stage {
    HARNESS_STAGE_DATA,     /* the samples of a batch */
    HARNESS_STAGE_GRADIENT, /* loss and local gradients */
    HARNESS_STAGE_INPUT,    /* what went into a bucket's all-reduce */
    HARNESS_STAGE_OUTPUT,   /* what came out */
    HARNESS_STAGE_FINAL,    /* averaged gradients, copied back */
    HARNESS_STAGE_UPDATE,   /* parameters and optimizer state */
    HARNESS_STAGE_COUNT
};

/* Where ranks first differ from the emulation in one stage. */
struct harness_difference {
    bool is_set;
    uint32_t step;
    int32_t bucket, param, slot;   /* of the first one; -1 = none */
    uint64_t seq, elem_count;      /* of the operation, if there is one */
    struct harness_rank_set ranks; /* all that differ in that step */
    uint32_t rank;                 /* the first */
    struct ddp_event_op op;
    uint64_t expected, got; /* hashes, or bits of the loss */
    bool is_missing;        /* nothing was recorded where something should be */
    bool is_loss;
};

/* First difference of a stage. DATA is the ledger's own. */
void harness_compare_stage(const struct harness_emulation *emulation, enum harness_stage stage,
                           struct harness_difference *out);
/* The difference that a stage may report: unset if an earlier stage or step explains it. Ranks
 * blamed by an earlier stage of the same step are taken out. */
void harness_compare_first(const struct harness_emulation *emulation, enum harness_stage stage,
                           struct harness_difference *out);
/* Whether everything up to the end of a step was as emulated. */
bool harness_compare_is_clean_until(const struct harness_emulation *emulation, uint32_t step);

#ifdef __cplusplus
}
#endif
#endif
