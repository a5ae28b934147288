/* Where in a job fault points lie, and what is known of faults there. */
#include <string.h>

#include "harness/grammar/job.h"
#include "harness/plan/group.h"
#include "harness/plan/posted.h"

/* The optimizer keeps a state beside the parameters. */
static bool has_state(const struct harness_job *job)
{
    return job->optimizer.kind == HARNESS_OPTIMIZER_ADAMW || job->optimizer.momentum > 0;
}

/* Points of what not every job does. */
static enum harness_grammar_place special_place(const struct harness_job *job,
                                                enum ddp_fault_point point)
{
    bool is_here = false;

    switch (point) {
    case DDP_FAULT_POINT_OPTIMIZER_CLIP:
        is_here = job->optimizer.clip_norm > 0 && job->optimizer.loss_scale == 0;
        break;
    case DDP_FAULT_POINT_EVALUATE: /* of other ways of evaluating some ranks take no part */
        is_here = job->evaluate_every > 0 && job->evaluation == HARNESS_EVALUATION_SHARDED;
        break;
    case DDP_FAULT_POINT_POSTS_ORDER:
        is_here = job->posts.count > 0;
        break;
    case DDP_FAULT_POINT_POSTS_GROUP:
        is_here = job->posts.count > 0 && job->groups.count > 0;
        break;
    case DDP_FAULT_POINT_PARAM_ROUND:
    case DDP_FAULT_POINT_PARAM_ROUNDED:
        is_here = job->mixed_precision.is_set;
        break;
    case DDP_FAULT_POINT_HOOK_ROUND:
    case DDP_FAULT_POINT_HOOK_DONE:
        return job->hook != HARNESS_HOOK_NONE ? HARNESS_GRAMMAR_AT_BUCKET : HARNESS_GRAMMAR_NOWHERE;
    case DDP_FAULT_POINT_HOOK_STATE:
        is_here = job->hook == HARNESS_HOOK_POWERSGD;
        break;
    case DDP_FAULT_POINT_AVERAGE:
        is_here = job->hook == HARNESS_HOOK_LOCAL_SGD;
        break;
    case DDP_FAULT_POINT_FOUND_INF:
        is_here = job->optimizer.loss_scale > 0;
        break;
    case DDP_FAULT_POINT_BATCH_NORM_MOMENTS:
    case DDP_FAULT_POINT_BATCH_NORM_SUMS:
        is_here = job->sync_batchnorm;
        break;
    case DDP_FAULT_POINT_BUCKET_REBUILD:
        is_here = job->bucket_order == HARNESS_BUCKET_ORDER_PYTORCH;
        break;
    case DDP_FAULT_POINT_MESSAGE_RECV: /* whichever comes first in the step */
        is_here = job->ranks > 1 && job->hook != HARNESS_HOOK_LOCAL_SGD;
        break;
    default:
        break;
    }
    return is_here ? HARNESS_GRAMMAR_AT_TIMES : HARNESS_GRAMMAR_NOWHERE;
}

static enum harness_grammar_place only_if(bool is_so, enum harness_grammar_place place)
{
    return is_so ? place : HARNESS_GRAMMAR_NOWHERE;
}

enum harness_grammar_place harness_grammar_place(const struct harness_grammar_job *job,
                                                 enum ddp_fault_point point)
{
    switch (point) {
    case DDP_FAULT_POINT_LAUNCH_SPAWN:
    case DDP_FAULT_POINT_RENDEZVOUS_CONNECT:
    case DDP_FAULT_POINT_DATA_SAMPLER:
    case DDP_FAULT_POINT_COMM_INIT:
        return HARNESS_GRAMMAR_AT_START;
    case DDP_FAULT_POINT_MODEL_BUILD:
        /* It offers hidden layers; whoever differs is plain from three ranks on. */
        return only_if(job->layer_count > 1 && job->job->ranks > 2, HARNESS_GRAMMAR_AT_START);
    case DDP_FAULT_POINT_CONFIG:
        /* Strict semantics compare configurations; the plan says who differs. */
        return only_if(job->job->semantics == HARNESS_SEMANTICS_STRICT && job->job->ranks > 1,
                       HARNESS_GRAMMAR_AT_START);
    case DDP_FAULT_POINT_MODEL_BUFFERS:
        return only_if(job->has_buffers && job->job->ranks > 1, HARNESS_GRAMMAR_AT_START);
    case DDP_FAULT_POINT_STEP_BEGIN:
    case DDP_FAULT_POINT_OPTIMIZER_PRE:
        return HARNESS_GRAMMAR_AT_STEP;
    case DDP_FAULT_POINT_DATA_NEXT:
    case DDP_FAULT_POINT_DATA_BATCH:
    case DDP_FAULT_POINT_DATA_TRANSFORM:
    case DDP_FAULT_POINT_FORWARD_WRAPPER:
    case DDP_FAULT_POINT_LOSS:
        return HARNESS_GRAMMAR_AT_PASS;
    case DDP_FAULT_POINT_BUFFER_UPDATED:
        return only_if(job->has_buffers && !job->job->join.is_set, HARNESS_GRAMMAR_AT_PASS);
    case DDP_FAULT_POINT_FORWARD_LAYER:
        return HARNESS_GRAMMAR_AT_LAYER;
    case DDP_FAULT_POINT_GRAD_READY:
    case DDP_FAULT_POINT_BUCKET_COPY:
    case DDP_FAULT_POINT_BUCKET_FILL:
    case DDP_FAULT_POINT_PARAM_UPDATED:
        return HARNESS_GRAMMAR_AT_PARAM;
    case DDP_FAULT_POINT_OPTIMIZER_STATE:
        return only_if(has_state(job->job), HARNESS_GRAMMAR_AT_PARAM);
    case DDP_FAULT_POINT_BUCKET_LAUNCH:
    case DDP_FAULT_POINT_COLLECTIVE_PRE:
    case DDP_FAULT_POINT_COLLECTIVE_ENQUEUE:
    case DDP_FAULT_POINT_COLLECTIVE_POST:
    case DDP_FAULT_POINT_COLLECTIVE_WAIT:
    case DDP_FAULT_POINT_BUCKET_UNFLATTEN:
        return HARNESS_GRAMMAR_AT_BUCKET;
    case DDP_FAULT_POINT_USED_MAP:
        return only_if(job->job->find_unused_parameters, HARNESS_GRAMMAR_AT_STEP);
    case DDP_FAULT_POINT_BUFFER_SYNC:
        return only_if(job->has_buffers && job->job->broadcast_buffers, HARNESS_GRAMMAR_AT_STEP);
    case DDP_FAULT_POINT_CHECKPOINT_WRITE:
    case DDP_FAULT_POINT_CHECKPOINT_FSYNC:
    case DDP_FAULT_POINT_CHECKPOINT_RENAME:
    case DDP_FAULT_POINT_CHECKPOINT_KEY:
        return only_if(job->job->checkpoint_every > 0, HARNESS_GRAMMAR_AT_CHECKPOINT);
    case DDP_FAULT_POINT_TEARDOWN:
        return HARNESS_GRAMMAR_AT_END;
    case DDP_FAULT_POINT_CHECKPOINT_LOAD:
        return only_if(job->job->checkpoint_every > 0, HARNESS_GRAMMAR_AT_LOAD);
    /* Not drawn: data/epoch (only where data is used more than once), collective/schedule (where a
     * schedule is compiled depends on what was before), recovery (after a loss, which is the one
     * fault there), and those of NCCL, MPI and cards. */
    default:
        return special_place(job->job, point);
    }
}

/* The rank takes part in one of job.posts. */
static bool is_posting(const struct harness_job *job, uint32_t rank)
{
    for (size_t i = 0; i < job->posts.count; i++) {
        struct harness_posted posted;
        struct harness_group group;
        uint32_t number = 0;

        if (harness_posted_parse(job->posts.items[i], &posted, NULL) == DDP_OK &&
            harness_posted_group(&posted, job, &number, &group, NULL) == DDP_OK &&
            (number == 0 || harness_group_member(&group, rank) < group.rank_count)) {
            return true;
        }
    }
    return false;
}

/* Gradients come of the parameters that the rank uses, updates of those that any of them uses;
 * buckets are filled with all. */
static bool is_param_there(const struct harness_grammar_job *job, enum ddp_fault_point point,
                           const struct harness_trigger *at)
{
    switch (point) {
    case DDP_FAULT_POINT_GRAD_READY:
        return at->param < 0 ||
               harness_grammar_use(job, at->rank, at->step, at->param) == HARNESS_GRAMMAR_USED;
    case DDP_FAULT_POINT_PARAM_UPDATED:
    case DDP_FAULT_POINT_OPTIMIZER_STATE:
        return at->param < 0 ||
               harness_grammar_use_of_any(job, at->step, at->param) == HARNESS_GRAMMAR_USED;
    default:
        return true;
    }
}

bool harness_grammar_is_there(const struct harness_grammar_job *job, enum ddp_fault_point point,
                              const struct harness_trigger *at)
{
    const struct harness_job *plan = job->job;
    const int64_t step = at->step;

    switch (point) {
    case DDP_FAULT_POINT_POSTS_GROUP:
        return is_posting(plan, at->rank);
    case DDP_FAULT_POINT_EVALUATE:
        return (step + 1) % plan->evaluate_every == 0;
    case DDP_FAULT_POINT_HOOK_STATE:
        return harness_program_is_hook_gathered(plan, (uint64_t)step + 1);
    case DDP_FAULT_POINT_AVERAGE:
        return harness_program_is_averaged(plan, step);
    case DDP_FAULT_POINT_BUCKET_REBUILD:
        return at->rank == 0 && step == job->program.rebuilt_step;
    default:
        return is_param_there(job, point, at);
    }
}

/* Leaves operations of buckets out, or makes others of them; what is in them does not matter. */
static bool is_of_operations(const struct harness_job *job, const struct harness_fault *fault)
{
    const bool is_many = job->hook == HARNESS_HOOK_QUANTIZE || job->hook == HARNESS_HOOK_POWERSGD;
    /* A rank that is a step behind has another scale. */
    const bool is_counting = job->optimizer.loss_scale > 0;

    if (job->hook != HARNESS_HOOK_NONE && job->join.is_set) {
        return false; /* what became of the divisor shows in the next step's buckets */
    }
    switch (fault->action.kind) {
    case HARNESS_ACTION_ARG: /* of the first round, which is not always an all-reduce of all */
        return !is_many;
    case HARNESS_ACTION_DUP:
        return fault->point == DDP_FAULT_POINT_COLLECTIVE_PRE;
    case HARNESS_ACTION_SKIP:
        return fault->point == DDP_FAULT_POINT_COLLECTIVE_PRE ||
               fault->point == DDP_FAULT_POINT_BUCKET_LAUNCH ||
               (fault->point == DDP_FAULT_POINT_STEP_BEGIN && !is_counting) ||
               (fault->point == DDP_FAULT_POINT_LOSS && !is_counting) ||
               fault->point == DDP_FAULT_POINT_BUFFER_SYNC;
    default:
        return false;
    }
}

/* Whether values are what a plain job's are: the hook only divides, sums are of 32 bits. Those that
 * go on after a loss have the same ones among themselves. */
static bool is_of_plain_values(const struct harness_job *job)
{
    struct harness_job other = *job;

    other.on_loss = HARNESS_ON_LOSS_END;
    other.hook =
        job->hook == HARNESS_HOOK_ALLREDUCE && !job->join.is_set ? HARNESS_HOOK_NONE : job->hook;
    return harness_grammar_is_plain(&other) && !job->mixed_precision.is_set;
}

bool harness_grammar_is_answered(const struct harness_grammar_job *job,
                                 const struct harness_fault *fault)
{
    const bool is_local = job->job->hook == HARNESS_HOOK_LOCAL_SGD;
    const bool is_going_on = job->job->on_loss == HARNESS_ON_LOSS_CONTINUE;

    if (is_of_plain_values(job->job)) {
        return true;
    }
    if (is_of_operations(job->job, fault)) {
        return !is_local && !is_going_on;
    }
    /* From local_sgd_start on buckets are not reduced. */
    if (is_local && harness_grammar_place(job, fault->point) == HARNESS_GRAMMAR_AT_BUCKET) {
        return false;
    }
    /* A step that is left out, since the loss's scale overflowed, updates nothing. */
    if (job->job->optimizer.loss_scale > 0 && (fault->point == DDP_FAULT_POINT_PARAM_UPDATED ||
                                               fault->point == DDP_FAULT_POINT_OPTIMIZER_STATE)) {
        return false;
    }
    switch (fault->action.kind) {
    case HARNESS_ACTION_NONE:
    case HARNESS_ACTION_DELAY:
    case HARNESS_ACTION_KILL:
    case HARNESS_ACTION_ABORT:
    case HARNESS_ACTION_EXIT:
    case HARNESS_ACTION_FAIL:
    case HARNESS_ACTION_STOP:
    case HARNESS_ACTION_ENV:
    case HARNESS_ACTION_LEAK_MEMORY:
    case HARNESS_ACTION_LEAK_FILE:
    case HARNESS_ACTION_NO_MEMORY:
        return true;
    case HARNESS_ACTION_HANG: /* whoever steps alone misses nobody for a while */
        return !is_local;
    default:
        return false;
    }
}
