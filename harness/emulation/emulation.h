/* The run as it should have been: every step recomputed with the reference's kernels for local
 * gradients and the judge's own arithmetic for the rest; what ranks recorded is compared by hash.
 *
 * It is rebased: after a difference it goes on from what was recorded, if that tensor is at hand
 * (kept.h), so what follows is judged by itself, and one error is one difference. If it is not at
 * hand, what depends on it is not judged, and its hash is wanted. */
#ifndef HARNESS_EMULATION_EMULATION_H
#define HARNESS_EMULATION_EMULATION_H

#include "ddpcore/base/file.h"
#include "harness/emulation/compare.h"
#include "harness/plan/program.h"
#include "harness/sums/schedule_set.h"
#include "harness/sums/tree.h"
#include "harness/tensor/kept.h"
#include "harness/tensor/layout.h"
#include "harness/trace/index.h"
#include "reference/trainer.h"

#ifdef __cplusplus
extern "C" {
#endif

struct harness_task_stacks;
struct harness_trainer;

/* Gradients that are not finite. */
enum harness_found { HARNESS_FOUND_UNKNOWN, HARNESS_FOUND_NO, HARNESS_FOUND_YES };

/* The state from which ranks go on after a loss, handed from the emulation of the lost group to
 * that of the new one. Blocks as in struct harness_state, of the input's mem. */
struct harness_handover {
    uint32_t steps_done; /* wanted: after so many, */
    uint32_t rank;       /* this rank's */
    bool is_taken;
    bool is_clean; /* nothing had differed until then */
    void *param, *slot[2], *buffer;
    uint64_t *taken;
};

/* What is judged. Borrowed while the emulation lives. */
struct harness_emulation_input {
    const struct harness_plan *plan;
    const struct harness_program *program;
    const struct harness_trace *trace;
    const struct ref_job *job;      /* the plan's job in the reference's terms */
    const struct ddp_param *params; /* the model's table */
    size_t param_count;
    struct ddp_device *device;
    const char *run_dir;     /* schedules/, payload/, checkpoint.safetensors; or NULL */
    struct ddp_files *files; /* where it lies; NULL: with the operating system */
    const struct harness_trace *first_trace; /* when judging a restore run: the run before it */
    const char *first_run_dir;               /* and its schedules/; or NULL */
    uint32_t restored_step;                  /* steps completed before a restore run; 0 otherwise */
    const struct harness_handover *start;    /* of a new group after a loss; or NULL */
    struct harness_handover *leave;          /* what a lost group leaves to it; or NULL */
    const struct harness_kept *kept;         /* tensors of this run that are at hand; or NULL */
    /* A rank's dump is what the algorithm emits for it; or NULL: nobody can tell. The judge itself
     * knows no algorithm. */
    bool (*is_emitted)(const struct harness_plan *plan, struct ddp_mem *mem,
                       const struct harness_schedule *dumped);
    struct ddp_mem *mem;
};

struct ddp_files *harness_emulation_files(const struct harness_emulation_input *input);

/* How much of a step is predicted. */
enum harness_predicted {
    HARNESS_PREDICTED_NOTHING,
    HARNESS_PREDICTED_GRADIENT, /* local gradients: the step itself cannot succeed (uneven data,
                                 * unused parameters) */
    HARNESS_PREDICTED_INPUT,    /* and bucket inputs: no complete schedule was dumped, and no tree
                                 * was measured */
    HARNESS_PREDICTED_UPDATE    /* everything */
};

/* Model and optimizer state; host memory. */
struct harness_state {
    void *param;     /* a block of `params` */
    void *slot[2];   /* blocks of `params`; NULL if the optimizer has no such slot */
    uint64_t *taken; /* [params.count] optimizer steps of each parameter */
};

/* A state that a checkpoint holds, kept once the emulation passes it. */
struct harness_snapshot {
    bool is_wanted, is_taken;
    uint32_t steps_done;
    struct harness_state state; /* rank 0's */
    void *buffer;               /* rank 0's: a block of `buffers` */
    uint64_t passes;            /* that the hook has seen */
};

/* Values of the step that was emulated last. Blocks of all ranks lie one behind the other. */
struct harness_step_values {
    void *grad;     /* [world] blocks of `grads`: local gradients, unscaled */
    bool *has_grad; /* [world][params.count] */
    bool *is_used; /* [params.count] its average is copied back: by the used map, if there is one */
    uint32_t
        *used_map;   /* [params.count] the reduced map; of the step before until it is worked out */
    void *bucket_in; /* [world] blocks of `buckets`: what goes into the all-reduces */
    void *bucket_out;      /* [world] blocks of `buckets`: what comes out */
    void *expected_out;    /* a block of `buckets`: rank 0's outputs as they should be */
    void *buffer;          /* [world] blocks of `buffers`, after the ranks' passes */
    bool *is_buffer_known; /* [world]; not of a rank that got them from one that came later */
    void *handed;          /* a block of `buffers`: what their owner hands out */
    bool is_handed;        /* it has done so */
    size_t *rows;          /* [world]; 0 = the rank is not active in this step */
    float *loss;           /* [world]: the mean over the micro-batches */
    float *micro_loss;     /* [world][micro_batches] */
    uint32_t divisor;
    bool is_local; /* gradients are not reduced: each rank goes on with its own */
    bool is_lossy; /* a hook sends something else than all gradients, and divides at the end */
};

/* Post-local SGD: the averages of parameters in the step that was emulated last. NULL without it.
 */
struct harness_local {
    void *in, *out;                   /* [world] blocks of `params` */
    bool *is_in_known, *is_out_known; /* [world][params.count] */
};

/* The hook powersgd: what ranks keep of each parameter, in whichever bucket it is. NULL without it.
 */
struct harness_powersgd {
    float *error;     /* [world] blocks of `params`: what was left out so far */
    float *q;         /* [world][q_count] */
    bool *is_unknown; /* [world][params.count] they are not what the rank has */
    size_t *q_first;  /* [params.count + 1] where the Q of a parameter begins */
    /* Of the last checkpoint, and of the snapshot: of each parameter, the error of all ranks, one
     * after the other, as rank 0 got them; and rank 0's Q. */
    float *gathered, *saved_error, *saved_q;
    size_t q_count;
};

/* What the run should have been, for steps start_step <= s < end_step; index s - start_step, called
 * k. Tensors as hashes. */
struct harness_expected {
    uint8_t *predicted;     /* [k] enum harness_predicted */
    uint8_t *has_grad;      /* [k][world][params.count] */
    uint8_t *is_active;     /* [k][world] as harness_emulation_is_active */
    uint64_t *param_hash;   /* [k][params.count] of the ranks that never differed */
    uint64_t *buffer_hash;  /* [k][buffers.count] as their owner hands them out; 0: it does not */
    uint32_t *buffer_owner; /* [k] */
    uint64_t
        *passed_hash;  /* [k][world][buffers.count] of what the rank's passes left; 0: not known */
    double *evaluated; /* [k][world] sum of the losses over the samples that the rank evaluates
                        * after the step */
    uint8_t *is_evaluated; /* [k][world] it is due, and known */
    uint64_t *joined_hash; /* [buffers.count] of the rank whose buffers all have after join */
    /* [k][world + 1] enum harness_found: the flag of each rank, then the one that they agree on */
    uint8_t *found;
    bool is_joined; /* the run was emulated until all data had been used up */
};

/* What ranks recorded in the step that is judged; hashes, 0 = nothing. */
struct harness_recorded {
    uint64_t *grad;         /* [world][params.count] */
    uint64_t *in, *out;     /* [world][buckets.count] of the first collective of a bucket */
    uint64_t *left;         /* [world][buckets.count] what the last one left in the bucket */
    uint64_t *seq;          /* [world][buckets.count] of the first one */
    uint64_t *final;        /* [world][params.count] */
    uint8_t *final_state;   /* [world][params.count] enum harness_final */
    uint64_t *param, *slot; /* [world][params.count], [world][slot_count][params.count] */
};
enum harness_final { HARNESS_FINAL_NOTHING, HARNESS_FINAL_DEFINED, HARNESS_FINAL_NONE };

/* Ranks whose models are the same. All are in one camp until something on a rank differs. */
struct harness_camp {
    struct harness_state state;
    void *average;          /* a block of `params`: their averaged gradients */
    uint64_t *average_hash; /* [params.count] */
    bool *is_known;         /* [params.count] parameter and slots are what the ranks have */
    bool *is_average_known; /* [params.count] */
    bool *is_used;          /* [params.count] the optimizer takes a step with it */
    uint64_t *hash;         /* [1 + slot_count][params.count] parameters and slots after the step */
    uint64_t *hash_before;  /* the same, after the step before */
    uint32_t rank_count, first; /* the lowest of them */
    uint32_t number;            /* its index */
    enum harness_found found;   /* whether an average is not finite; YES: the step is left out */
    bool is_idle;               /* its ranks leave the present step\'s update out */
    uint32_t parent, parting;   /* the camp that its ranks left, and in which parting */
};

/* The first sum whose order is not known. */
struct harness_unknown_sum {
    bool is_set;
    uint32_t step, bucket;
    uint64_t elem_count; /* of the round, where a bucket has several; 0: it has this one alone */
    char why[160];
};

/* Distance of the averaged gradient to the mean over the global batch, where it exceeded its bound
 * first. */
struct harness_excess {
    bool is_set;
    uint32_t step, param;
    size_t elem;
    double distance, bound, weight_gap; /* weight_gap: sum over ranks of |1/D - n_r/N| */
    bool is_nonfinite;                  /* there is no distance */
    struct harness_rank_set ranks;      /* whose gradients or losses are not finite */
};

/* A batch that is not the one that the sampler's rules give, and those that directly follow it on
 * the rank and are wrong in the same way. */
struct harness_batch_difference {
    uint32_t rank, step, micro;
    uint32_t last_step; /* of those that follow */
    enum harness_verdict verdict;
    char text[256];
};

/* The batches that a rank took in a step. */
enum harness_took {
    HARNESS_TOOK_OWN,    /* the sampler's, or none was recorded */
    HARNESS_TOOK_OTHER,  /* other ones, whose samples were recorded: its gradient is of those */
    HARNESS_TOOK_UNKNOWN /* other ones, and which is not known: its gradient is not judged */
};

/* Buckets of the program as tensors. */
struct harness_bucketing {
    struct harness_layout buckets;
    const struct harness_bucket *assigned; /* [buckets.count] */
    uint32_t *bucket_of;                   /* [params.count] */
};

struct harness_emulation {
    const struct harness_emulation_input *input;
    struct ddp_mem *mem;
    struct ddp_mem_pool *sets; /* of ranks, in differences */
    void **blocks;             /* everything from harness_emulation_alloc */
    size_t block_count, block_capacity;
    bool is_out_of_memory;

    /* The job. */
    uint32_t world, slot_count;
    const char *slot_name[2];      /* of the optimizer's state */
    struct ref_shard_config shard; /* with the dataset's size filled in */
    struct harness_layout params, buffers;
    struct harness_layout grads; /* as params, in the type of passes (job.mixed_precision) */
    struct harness_bucketing bucketings[2]; /* before and after buckets are rebuilt */
    size_t bucketing_count;

    /* Of the step that was emulated last: they are as the program's buckets of it. */
    struct harness_layout buckets;
    const struct harness_bucket *assigned; /* [buckets.count] */
    const uint32_t *bucket_of;             /* [params.count] */

    /* What the run left. */
    struct harness_index index;
    struct harness_schedules schedules;
    struct harness_schedules first_schedules; /* of the run that left the checkpoint */
    struct harness_trees trees;               /* measured, of collectives without schedules */

    /* Ranks as tasks. */
    struct harness_task_stacks *stacks;
    struct harness_trainer *trainers, *idle_trainers;

    /* After the step that was emulated last. */
    uint32_t steps_done;
    void *buffer;                /* [world] blocks of `buffers` */
    struct harness_camp **camps; /* camps[0] is that of the ranks that never differed */
    size_t camp_count, camp_capacity;
    uint32_t *camp_of; /* [world] index in camps */
    uint32_t parting;  /* counts the stages after which ranks part */
    struct harness_step_values now;
    struct harness_local local;
    struct harness_powersgd powersgd;
    /* Gradient scaling: [world] the scale of the next step's loss, steps since it last changed; and
     * whether the step that was emulated last was left out. */
    float *scale;
    uint64_t *scale_steps;
    bool *is_found;
    uint32_t start_step, end_step;
    bool *graph; /* [world][params.count] who had gradients in the run's first step */
    struct harness_expected expected;
    struct harness_snapshot snapshot;

    /* Judging. */
    bool is_judging;           /* the present step is compared with what was recorded */
    bool is_hashed;            /* some rank recorded parameters */
    bool are_statistics_known; /* of BatchNorms over all ranks' batches, in the present step */
    bool is_lost;              /* a rank's model is not known, so what follows cannot be judged */
    struct harness_recorded recorded;
    bool *is_grad_known;              /* [world][params.count] of the present step's values */
    bool *is_in_known, *is_out_known; /* [world][buckets.count] */
    struct harness_compare compare;
    struct harness_hashes wanted; /* tensors that would let more be judged */
    int64_t unknown_from;         /* first step that could not be judged for lack of one; -1 */

    struct harness_unknown_sum unknown_sum;
    struct harness_excess excess;
    struct harness_batch_difference *batches; /* that are wrong: by rank, then step */
    size_t batch_count, batch_capacity;
    uint8_t *took;      /* [k][world] enum harness_took */
    uint64_t *taken;    /* [world] micro-batches that each rank takes in all */
    uint64_t *next_own; /* [world] the batch of its own that comes after the last one that it took;
                         * UINT64_MAX: that one was not its own */
};

/* Prepare: index the trace, load schedules, create the trainer. Nothing is emulated yet. */
DDP_MUST_USE ddp_status harness_emulation_create(const struct harness_emulation_input *input,
                                                 struct harness_emulation **out,
                                                 struct ddp_err *err);
void harness_emulation_destroy(struct harness_emulation *emulation);
/* Zero-filled, and released with the emulation. NULL when exhausted; is_out_of_memory stays. */
void *harness_emulation_alloc(struct harness_emulation *emulation, size_t elem_count,
                              size_t elem_bytes);
/* Emulate one step and leave its values. Steps go up by one from 0. *out_predicted: how far it
 * went; the state advances only with PREDICTED_UPDATE. */
DDP_MUST_USE ddp_status harness_emulation_step(struct harness_emulation *emulation, uint32_t step,
                                               enum harness_predicted *out_predicted,
                                               struct ddp_err *err);
/* The sums of one all-reduce of elem_count elements: in the measured tree if there is one, else by
 * the dumped schedule. input, output: one pointer a rank, apart from each other. Errors:
 * E_NOT_FOUND (neither is complete; why says so), E_NOMEM. */
DDP_MUST_USE ddp_status harness_emulation_sum(const struct harness_emulation *emulation,
                                              enum ddp_dtype dtype, size_t elem_count,
                                              void *const *input, void *const *output, char *why,
                                              size_t why_bytes);
/* Emulate every step that any rank began, and keep the hashes. */
DDP_MUST_USE ddp_status harness_emulation_run(struct harness_emulation *emulation,
                                              struct ddp_err *err);
/* Start from what a lost group left, after start->steps_done steps. Before _run. */
void harness_emulation_take_over(struct harness_emulation *emulation,
                                 const struct harness_handover *start);
/* Keep the state after steps_done steps in emulation->snapshot. Call before _run. */
DDP_MUST_USE ddp_status harness_emulation_want(struct harness_emulation *emulation,
                                               uint32_t steps_done);
/* The plan's model has parameter `param` with these sizes, dims[DDP_NDIM_MAX], 0 behind the last.
 */
bool harness_emulation_has_shape(const struct harness_emulation *emulation, uint64_t param,
                                 const uint64_t *dims);
/* Every shape that the rank recorded is the plan's. If not, its tensors cannot be compared, and the
 * model oracle names it. */
bool harness_emulation_has_model(const struct harness_emulation *emulation, uint32_t rank);
/* The buckets of a step, as tensors. */
const struct harness_bucketing *
harness_emulation_bucketing(const struct harness_emulation *emulation, int32_t step);
/* Local gradients are divided before the sum, not after it. */
bool harness_emulation_is_scaled_before(const struct harness_emulation *emulation);
/* No value and no batch differed so far, nor before the loss that this goes on after. */
bool harness_emulation_is_clean(const struct harness_emulation *emulation);
/* Micro-batches that a rank's data gives in all; UINT64_MAX if it starts again each epoch. */
uint64_t harness_emulation_batch_count(const struct harness_emulation *emulation, uint32_t rank);
/* And those of them that the plan's steps use. */
uint64_t harness_emulation_due(const struct harness_emulation *emulation, uint32_t rank);
/* Whether a rank took a batch in a pass (step * micro_batches + micro); while it is not known what
 * it took, whether it should. What follows is judged from there: that it took another number of
 * batches than is due is the ledger's finding, and nobody's wrong sum. */
bool harness_emulation_has_batch(const struct harness_emulation *emulation, uint32_t rank,
                                 uint64_t pass);
/* What a rank took in a step that is judged. */
enum harness_took harness_emulation_took(const struct harness_emulation *emulation, uint32_t rank,
                                         uint32_t step);
/* Whether it has one for every micro-batch of a step. If not, it has no part in the step's
 * reduction: under join it sends zeros, even if it accumulated gradients. */
bool harness_emulation_is_active(const struct harness_emulation *emulation, uint32_t rank,
                                 uint32_t step);
/* The highest rank with a batch in a pass; -1: there is none. */
int64_t harness_emulation_last_active(const struct harness_emulation *emulation, uint64_t pass);
/* The flag that a rank sent (event COLL_POST), or got (COLL_DONE), on whether gradients of a step
 * are finite, as it was recorded; 0: it was not. And the hash of either flag. */
uint64_t harness_scaler_recorded(const struct harness_emulation *emulation, uint32_t rank,
                                 uint32_t step, enum ddp_event event);
uint64_t harness_scaler_flag_hash(bool is_found);
/* Whether no gradient is reduced in a step; and whether all ranks have the same model after it. */
bool harness_emulation_is_local(const struct harness_emulation *emulation, uint32_t step);
bool harness_emulation_are_replicas_equal(const struct harness_emulation *emulation, uint32_t step);
/* What the job's hook keeps, as the snapshot's checkpoint holds it: how many tensors; and number i
 * of them, with its key. */
size_t harness_emulation_hook_state_count(const struct harness_emulation *emulation);
void harness_emulation_hook_state(const struct harness_emulation *emulation, size_t i, char *key,
                                  size_t key_bytes, struct harness_tensor *out);
/* The camp of a rank. */
struct harness_camp *harness_emulation_camp(const struct harness_emulation *emulation,
                                            uint32_t rank);
/* Whether a pass may use fewer parameters than another one of the same job. */
bool harness_emulation_is_branching(const struct harness_emulation *emulation);
/* Whether the run that is judged started from another run's checkpoint. */
bool harness_emulation_is_restore(const struct harness_emulation *emulation);

/* Who takes part in a collective that a rank posted: all ranks, or those of a group of job.groups.
 */
struct harness_members {
    const struct harness_group *group; /* NULL: all */
    uint32_t size;
    uint32_t member; /* the rank's place; size: it is not in it */
};
/* seq: as the rank posted it, whatever is planned there. */
struct harness_members harness_emulation_members(const struct harness_emulation *emulation,
                                                 uint32_t rank, uint64_t seq);
/* The schedules by which that collective of a rank ran; NULL: nobody left one. arg: of an event of
 * it, its number, operation and count. */
struct harness_schedule_set *harness_emulation_schedules(const struct harness_emulation *emulation,
                                                         uint32_t rank, const uint64_t *arg);
/* The rank that is number `member`. */
uint32_t harness_members_rank(const struct harness_members *members, uint32_t member);
/* Those of a planned operation; member: of rank 0. */
struct harness_members harness_emulation_planned(const struct harness_emulation *emulation,
                                                 const struct harness_op *op);

#ifdef __cplusplus
}
#endif
#endif
