/* The program: the collectives that a job must post, in order, worked out from the plan alone, with
 * this layer's own bucket assigner. The monitor and the judge compare what ranks really posted with
 * it. All ranks of a right run post the same sequence (a joined rank mirrors the others'), but for
 * what is posted in a group of some ranks: the others go on, and count it. */
#ifndef HARNESS_PLAN_PROGRAM_H
#define HARNESS_PLAN_PROGRAM_H

#include "ddpcore/base/param.h"
#include "harness/plan/group.h"

#ifdef __cplusplus
extern "C" {
#endif

struct harness_op {
    uint64_t seq; /* from 1 */
    int32_t step; /* -1: before the first step; steps: after the last */
    enum ddp_phase phase;
    enum ddp_coll_kind kind;
    enum ddp_coll_role role;
    uint32_t index; /* bucket or chunk */
    enum ddp_dtype dtype;
    enum ddp_redop redop;
    uint32_t root;
    bool is_root_known; /* false: under join, ranks agree on it; `root` is then the plan's */
    uint64_t elem_count;
    uint32_t group; /* number of job.groups, from 1, whose ranks alone post it; 0: all ranks do */
};

struct harness_bucket {
    enum ddp_dtype dtype; /* of all its parameters */
    size_t elem_count;
    uint32_t *params; /* in order of their offsets */
    size_t *offsets;  /* elements */
    uint32_t param_count;
};

/* The buckets that are in force in some steps. */
struct harness_buckets {
    struct harness_bucket *items;
    size_t count;
};

/* The model's tables (ref_model_describe): names, types and sizes; and what became of its buckets.
 */
struct harness_tables {
    const struct ddp_param *params;
    size_t param_count;
    const struct ddp_buffer *buffers;
    size_t buffer_count;
    /* [param_count] order in which parameters become ready on rank 0 in the pass after which
     * buckets are rebuilt, as the reference has it. NULL: forwards. */
    const uint32_t *ready_order;
    /* What only the run can know: the buckets that rank 0 announced then, if they are others. The
     * program that is judged with has them, so that one wrong list is one finding. NULL: none. */
    const struct harness_buckets *announced;
    /* The weights of BatchNorms, in the order of the forward pass. A backward pass comes to one
     * when all parameters from its weight on are ready. */
    const uint32_t *batch_norms;
    size_t batch_norm_count;
};

struct harness_program {
    struct ddp_mem *mem;
    struct harness_op *ops;
    size_t op_count, op_capacity;
    struct harness_buckets first, rebuilt; /* rebuilt: none, unless the order is PyTorch's */
    int32_t rebuilt_step;                  /* the first one with rebuilt buckets; INT32_MAX: none */
    struct harness_group *groups;          /* [group_count] job.groups */
    uint32_t group_count;
    uint64_t rebuilt_hash; /* of the list that hands them out, as ranks record what they received */
    const struct ddp_param *params; /* the model's, borrowed */
    size_t param_count;
    size_t buffer_count;
    uint64_t hash;
};

/* model: its tables are borrowed while the program is used. batch_count: uint64[ranks],
 * micro-batches each rank has if the job joins; NULL otherwise. */
DDP_MUST_USE ddp_status harness_program_build(struct ddp_mem *mem, const struct harness_plan *plan,
                                              const struct harness_tables *model,
                                              const uint64_t *batch_count,
                                              struct harness_program *out);
void harness_program_fini(struct harness_program *program);
/* The buckets of a step; those of step -1 are the first ones. */
const struct harness_buckets *harness_program_buckets(const struct harness_program *program,
                                                      int32_t step);
/* Bucket `index` of a step; NULL if it has no such bucket. */
const struct harness_bucket *harness_program_bucket(const struct harness_program *program,
                                                    int32_t step, uint64_t index);
/* The bucket of a parameter in a step; UINT32_MAX: there is no such parameter. */
uint32_t harness_program_bucket_of(const struct harness_program *program, int32_t step,
                                   uint32_t param);
/* The type in which a bucket of parameters of that type travels. */
enum ddp_dtype harness_program_wire(const struct harness_job *job, enum ddp_dtype dtype);
/* job.mixed_precision: the type of passes, f32 without it; of sums, if it is set; and of buffers of
 * floats, f32 without it. */
enum ddp_dtype harness_mixed_params(const struct harness_job *job);
enum ddp_dtype harness_mixed_reduce(const struct harness_job *job);
enum ddp_dtype harness_mixed_buffers(const struct harness_job *job);
/* Post-local SGD: no gradient is reduced in this step; parameters are averaged behind it. */
bool harness_program_is_local(const struct harness_job *job, int64_t step);
bool harness_program_is_averaged(const struct harness_job *job, int64_t step);
/* A checkpoint is due behind so many steps, for which ranks gather what the hook keeps of each. */
bool harness_program_is_hook_gathered(const struct harness_job *job, uint64_t steps_done);
/* The most buckets that a step has. */
size_t harness_program_bucket_max(const struct harness_program *program);
/* The step in force where an operation is planned; past the end, the last one's. */
int32_t harness_program_step_at(const struct harness_program *program, uint64_t seq);
/* The planned operation of a sequence number; NULL past the end. */
const struct harness_op *harness_program_at(const struct harness_program *program, uint64_t seq);
/* The group of an operation; NULL: that of all ranks. */
const struct harness_group *harness_program_group(const struct harness_program *program,
                                                  const struct harness_op *op);
/* The group with that identity; NULL: none of job.groups. */
const struct harness_group *harness_program_group_of(const struct harness_program *program,
                                                     uint64_t comm);
/* The rank takes part in the operation of that number; past the end every rank does. */
bool harness_program_has_member(const struct harness_program *program, uint64_t seq, uint32_t rank);
/* The first number behind seq whose operation the rank takes part in. */
uint64_t harness_program_next(const struct harness_program *program, uint64_t seq, uint32_t rank);
/* It was posted in another group than planned. */
bool harness_program_is_comm_wrong(const struct harness_program *program, uint64_t seq,
                                   uint64_t comm);
/* The rank posted what is planned later in this step in another group than what was due: whether it
 * left that out, or was to post it behind this one, only what it posts next shows. So it is among
 * the job's own posts; between these and a pass, or an update, none changes places. */
bool harness_program_is_open(const struct harness_program *program, uint64_t seq, int32_t step,
                             const struct ddp_event_op *op, uint64_t elem_count);
/* What a posted operation differs in: HARNESS_VERDICT_NONE, or MISMATCH.{OP, COUNT, DTYPE,
 * REDUCTION, ROOT, ORDER, BUCKET}; MISSING and EXTRA when the posted operation is the planned one
 * of a later, or the previous, sequence number. seq past the end is EXTRA. */
enum harness_verdict harness_program_compare(const struct harness_program *program, uint64_t seq,
                                             const struct ddp_event_op *op, uint64_t elem_count);
/* The same with the step that the posting rank was in. It settles what one operation alone cannot:
 * after "bucket 1" and before "bucket 0" of the next step, a second "bucket 1" is EXTRA in the old
 * step and a MISSING "bucket 0" in the new one. */
#define HARNESS_STEP_UNKNOWN INT32_MIN
enum harness_verdict harness_program_compare_step(const struct harness_program *program,
                                                  uint64_t seq, int32_t step,
                                                  const struct ddp_event_op *op,
                                                  uint64_t elem_count);
/* What a rank posted, and where. */
struct harness_post {
    uint64_t seq;
    int32_t step; /* as the program counts it */
    struct ddp_event_op op;
    uint64_t elem_count;
    uint64_t comm;  /* the group's identity */
    bool is_waited; /* the rank had waited until what it posted before was done */
};

/* The same with what else is known of a post: MISMATCH.COMM if the group alone differs. Of a
 * bucket's rounds the next one may look like the one before, where another bucket's is due; a rank
 * that posts one twice has not waited between, so after a wait the due one is MISSING. */
enum harness_verdict harness_program_compare_post(const struct harness_program *program,
                                                  const struct harness_post *post);
/* A rank's step as the program counts it: -1 before the first step, harness_program_end after the
 * last. phase, step: as the rank recorded them. */
int32_t harness_program_step_of(const struct harness_program *program, uint64_t phase,
                                uint64_t step);
/* The step of the last operation, which no rank trains any more. */
int32_t harness_program_end(const struct harness_program *program);
/* program.txt: one line an operation, after the bucket table. */
void harness_program_print(const struct harness_program *program, struct ddp_text *out);

#ifdef __cplusplus
}
#endif
#endif
