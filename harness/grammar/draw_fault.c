/* Faults. An action comes first, then a point where it can be taken, then the trigger. Several
 * faults are drawn so that all of them fire: those that end the job come last, in one step and
 * before anybody waits, and values are damaged in steps of their own before. */
#include <string.h>

#include "harness/grammar/answer.h"
#include "harness/grammar/site.h"
#include "harness/plan/hook_round.h"

enum { TRIES = 40 };

/* What comes of other data there depends on no more than is known. */
static bool is_data(enum ddp_fault_point point)
{
    return point == DDP_FAULT_POINT_MODEL_BUILD || point == DDP_FAULT_POINT_BUCKET_LAUNCH ||
           point == DDP_FAULT_POINT_GRAD_READY || point == DDP_FAULT_POINT_COLLECTIVE_POST ||
           point == DDP_FAULT_POINT_BUCKET_FILL || point == DDP_FAULT_POINT_BUCKET_UNFLATTEN ||
           point == DDP_FAULT_POINT_PARAM_UPDATED || point == DDP_FAULT_POINT_OPTIMIZER_STATE;
}

/* Points where an action makes a difference that the model knows. */
static bool is_offered(enum harness_action_kind action, enum ddp_fault_point point)
{
    if (point == DDP_FAULT_POINT_CONFIG || point == DDP_FAULT_POINT_MODEL_BUFFERS) {
        return action == HARNESS_ACTION_CORRUPT;
    }
    switch (action) {
    case HARNESS_ACTION_NONE:
    case HARNESS_ACTION_DELAY:
        return true;
    case HARNESS_ACTION_KILL:
    case HARNESS_ACTION_ABORT:
    case HARNESS_ACTION_STOP:
    case HARNESS_ACTION_FAIL:
        return point != DDP_FAULT_POINT_MODEL_BUILD;
    case HARNESS_ACTION_EXIT:
    case HARNESS_ACTION_HANG:
        return point != DDP_FAULT_POINT_MODEL_BUILD && point != DDP_FAULT_POINT_TEARDOWN &&
               (point != DDP_FAULT_POINT_MESSAGE_RECV || action == HARNESS_ACTION_EXIT);
    case HARNESS_ACTION_SKIP:
        return point == DDP_FAULT_POINT_STEP_BEGIN || point == DDP_FAULT_POINT_LOSS ||
               point == DDP_FAULT_POINT_BUCKET_LAUNCH || point == DDP_FAULT_POINT_COLLECTIVE_PRE ||
               point == DDP_FAULT_POINT_OPTIMIZER_PRE || point == DDP_FAULT_POINT_BUFFER_SYNC ||
               point == DDP_FAULT_POINT_DATA_NEXT || point == DDP_FAULT_POINT_COLLECTIVE_WAIT ||
               point == DDP_FAULT_POINT_COLLECTIVE_ENQUEUE ||
               point == DDP_FAULT_POINT_BUCKET_UNFLATTEN || point == DDP_FAULT_POINT_BUCKET_COPY ||
               point == DDP_FAULT_POINT_BUCKET_FILL || point == DDP_FAULT_POINT_GRAD_READY ||
               point == DDP_FAULT_POINT_CHECKPOINT_KEY ||
               point == DDP_FAULT_POINT_CHECKPOINT_RENAME;
    case HARNESS_ACTION_DUP:
        return point == DDP_FAULT_POINT_COLLECTIVE_PRE || point == DDP_FAULT_POINT_DATA_NEXT;
    case HARNESS_ACTION_ARG:
        return point == DDP_FAULT_POINT_COLLECTIVE_PRE;
    case HARNESS_ACTION_CORRUPT:
        return is_data(point);
    case HARNESS_ACTION_LEAK_MEMORY:
    case HARNESS_ACTION_LEAK_FILE:
        return point == DDP_FAULT_POINT_STEP_BEGIN || point == DDP_FAULT_POINT_LOSS ||
               point == DDP_FAULT_POINT_OPTIMIZER_PRE;
    case HARNESS_ACTION_IO:
        return point == DDP_FAULT_POINT_CHECKPOINT_KEY;
    case HARNESS_ACTION_ENV:
        return point == DDP_FAULT_POINT_LAUNCH_SPAWN;
    case HARNESS_ACTION_NO_MEMORY: /* where every job allocates next */
        return point == DDP_FAULT_POINT_MODEL_BUILD || point == DDP_FAULT_POINT_CHECKPOINT_KEY;
    default: /* not drawn: draw_action does not list it */
        return false;
    }
}

static bool is_ending(enum harness_action_kind action)
{
    return action == HARNESS_ACTION_KILL || action == HARNESS_ACTION_ABORT ||
           action == HARNESS_ACTION_EXIT;
}

/* The others go on without the rank; once, as they cannot tell whether a second one is theirs. */
static bool is_left_behind(const struct harness_draw_site *site, enum harness_action_kind action,
                           enum ddp_fault_point point)
{
    return is_ending(action) && site->job->job->on_loss == HARNESS_ON_LOSS_CONTINUE &&
           site->is_first && harness_grammar_place(site->job, point) != HARNESS_GRAMMAR_AT_START;
}

/* What a job goes on after: nothing but values are wrong, if that. */
static bool is_survived(const struct harness_draw_site *site, enum harness_action_kind action,
                        enum ddp_fault_point point)
{
    const struct harness_job *job = site->job->job;

    if (point == DDP_FAULT_POINT_DATA_NEXT &&
        (action == HARNESS_ACTION_SKIP || action == HARNESS_ACTION_DUP)) {
        return job->join.is_set && !job->join.throw_on_early_termination;
    }
    if (is_left_behind(site, action, point)) {
        return true;
    }
    return action == HARNESS_ACTION_NONE || action == HARNESS_ACTION_DELAY ||
           action == HARNESS_ACTION_LEAK_MEMORY || action == HARNESS_ACTION_LEAK_FILE ||
           (action == HARNESS_ACTION_CORRUPT && point != DDP_FAULT_POINT_MODEL_BUILD &&
            point != DDP_FAULT_POINT_CONFIG && point != DDP_FAULT_POINT_MODEL_BUFFERS) ||
           (action == HARNESS_ACTION_SKIP &&
            (point == DDP_FAULT_POINT_OPTIMIZER_PRE ||
             /* Waits in several groups may go round in a circle then. */
             (point == DDP_FAULT_POINT_COLLECTIVE_WAIT && job->groups.count == 0)));
}

static enum harness_action_kind draw_action(struct harness_draw_site *site)
{
    static const struct {
        enum harness_action_kind action;
        unsigned weight;
    } actions[] = {
        {HARNESS_ACTION_NONE, 3},      {HARNESS_ACTION_KILL, 12}, {HARNESS_ACTION_EXIT, 8},
        {HARNESS_ACTION_ABORT, 4},     {HARNESS_ACTION_STOP, 8},  {HARNESS_ACTION_DELAY, 4},
        {HARNESS_ACTION_HANG, 8},      {HARNESS_ACTION_SKIP, 12}, {HARNESS_ACTION_DUP, 5},
        {HARNESS_ACTION_FAIL, 6},      {HARNESS_ACTION_ARG, 14},  {HARNESS_ACTION_CORRUPT, 35},
        {HARNESS_ACTION_NO_MEMORY, 6}, {HARNESS_ACTION_IO, 6},    {HARNESS_ACTION_LEAK_MEMORY, 2},
        {HARNESS_ACTION_LEAK_FILE, 2}, {HARNESS_ACTION_ENV, 4},
    };
    unsigned weights[sizeof actions / sizeof actions[0]];
    size_t count = sizeof actions / sizeof actions[0];

    for (size_t i = 0; i < count; i++) {
        /* Where it is said what slow is, more are late. */
        weights[i] =
            actions[i].weight *
            (actions[i].action == HARNESS_ACTION_DELAY && site->job->job->slow_after_ms > 0 ? 8
                                                                                            : 1);
    }
    return actions[harness_draw_weighted(site->draw, weights, count)].action;
}

/* A point of the job that the action is for; false: there is none. */
static bool draw_point(struct harness_draw_site *site)
{
    enum ddp_fault_point points[DDP_FAULT_POINT_COUNT];
    enum harness_action_kind action = site->fault->action.kind;
    size_t count = 0;

    for (unsigned i = 0; i < DDP_FAULT_POINT_COUNT; i++) {
        enum ddp_fault_point point = (enum ddp_fault_point)i;
        enum harness_grammar_place place = harness_grammar_place(site->job, point);
        bool is_right = (is_survived(site, action, point) &&
                         (site->is_last || place != HARNESS_GRAMMAR_AT_END)) ||
                        (site->is_last && (site->is_first || place != HARNESS_GRAMMAR_AT_START));

        if (is_right && is_offered(action, point) && place != HARNESS_GRAMMAR_NOWHERE &&
            place != HARNESS_GRAMMAR_AT_LOAD) {
            points[count++] = point;
        }
    }
    if (count == 0) {
        return false;
    }
    site->fault->point = points[harness_draw_below(site->draw, count)];
    site->place = harness_grammar_place(site->job, site->fault->point);
    return true;
}

/* Steps in which a rank has data for every micro-batch, if each batch that an earlier fault made it
 * leave out costs one; none once an earlier fault has ended it. */
static uint32_t steps_of(const struct harness_draw_site *site, uint32_t rank)
{
    uint32_t steps = harness_grammar_full_steps(site->job->job, rank);

    for (const struct harness_fault *at = site->draw->plan->faults; at < site->fault; at++) {
        steps -= steps > 0 && at->at.rank == rank && at->point == DDP_FAULT_POINT_DATA_NEXT &&
                 at->action.kind == HARNESS_ACTION_SKIP;
        steps = at->at.rank == rank && is_ending(at->action.kind) ? 0 : steps;
    }
    return steps;
}

/* A rank with data in some of the steps, and one of those. */
static bool draw_rank_and_step(struct harness_draw_site *site)
{
    const struct harness_job *job = site->job->job;
    struct harness_trigger *at = &site->fault->at;
    uint32_t first = (uint32_t)harness_draw_below(site->draw, job->ranks);

    if (site->place == HARNESS_GRAMMAR_AT_START || site->place == HARNESS_GRAMMAR_AT_END) {
        at->rank = first;
        return job->on_loss == HARNESS_ON_LOSS_END || steps_of(site, first) > 0;
    }
    for (uint32_t i = 0; i < job->ranks; i++) {
        uint32_t rank = (first + i) % job->ranks;
        uint32_t steps = steps_of(site, rank);
        uint32_t last = site->last_step + 1 < steps ? site->last_step + 1 : steps;

        if (site->place == HARNESS_GRAMMAR_AT_CHECKPOINT && rank != 0) {
            continue;
        }
        if (last > site->first_step) {
            at->rank = rank;
            at->step = (int64_t)harness_draw_between(site->draw, site->first_step, last - 1);
            return (site->place != HARNESS_GRAMMAR_AT_CHECKPOINT ||
                    (at->step + 1) % job->checkpoint_every == 0) &&
                   harness_grammar_is_there(site->job, site->fault->point, at);
        }
    }
    return false;
}

/* The sequence number of a bucket's reduction. */
static uint64_t seq_of(const struct harness_draw_site *site)
{
    const struct harness_program *program = &site->job->program;

    for (size_t i = 0; i < program->op_count; i++) {
        const struct harness_op *op = &program->ops[i];

        if (op->step == site->fault->at.step && op->role == DDP_ROLE_BUCKET &&
            op->index == (uint32_t)site->fault->at.bucket) {
            return op->seq;
        }
    }
    return 0;
}

/* Operations and hits have the numbers of an undisturbed job: those who go on after a loss count
 * anew, and do a step again. */
static bool is_counted(const struct harness_draw_site *site)
{
    return site->is_first || site->job->job->on_loss == HARNESS_ON_LOSS_END;
}

/* Which of a bucket's collectives, where a hook makes several of it. */
static void draw_round(struct harness_draw_site *site)
{
    const struct harness_grammar_job *job = site->job;
    struct harness_trigger *at = &site->fault->at;
    struct harness_hook_round rounds[HARNESS_HOOK_ROUNDS_MAX];
    size_t count;

    if (harness_draw_chance(site->draw, 30) && !job->job->join.is_set && is_counted(site)) {
        at->seq = (int64_t)seq_of(site);
        return;
    }
    count = harness_hook_rounds(job->job, job->params,
                                &harness_grammar_buckets(job, at->step)->items[at->bucket],
                                at->step, rounds);
    if (count > 1) {
        at->hit = (uint32_t)harness_draw_between(site->draw, 1, count);
    }
}

/* The keys that a place has; those that it does not need are given now and then. */
static bool draw_trigger(struct harness_draw_site *site)
{
    const struct harness_job *job = site->job->job;
    struct harness_trigger *at = &site->fault->at;
    struct harness_draw *draw = site->draw;

    if (!draw_rank_and_step(site)) {
        return false;
    }
    switch (site->place) {
    case HARNESS_GRAMMAR_AT_LAYER:
        at->layer = (int64_t)harness_draw_below(draw, site->job->layer_count);
        /* fall through */
    case HARNESS_GRAMMAR_AT_PASS:
        if (harness_draw_chance(draw, 50)) {
            at->micro = (int64_t)harness_draw_below(draw, job->micro_batches);
        } else {
            at->hit = (uint32_t)harness_draw_between(draw, 1, job->micro_batches);
        }
        break;
    case HARNESS_GRAMMAR_AT_PARAM:
        at->param = (int64_t)harness_draw_below(draw, site->job->param_count);
        if (!harness_grammar_is_there(site->job, site->fault->point, at)) {
            return false;
        }
        if ((site->fault->point == DDP_FAULT_POINT_GRAD_READY && harness_draw_chance(draw, 60)) ||
            site->fault->point == DDP_FAULT_POINT_BUCKET_COPY ||
            site->fault->point == DDP_FAULT_POINT_BUCKET_FILL) { /* only where it reduces */
            at->micro = (int64_t)job->micro_batches - 1;
        }
        break;
    case HARNESS_GRAMMAR_AT_BUCKET:
        at->bucket =
            (int64_t)harness_draw_below(draw, harness_grammar_buckets(site->job, at->step)->count);
        if (site->fault->point == DDP_FAULT_POINT_COLLECTIVE_PRE) {
            draw_round(site);
        }
        break;
    case HARNESS_GRAMMAR_AT_STEP:
        if (site->fault->point == DDP_FAULT_POINT_STEP_BEGIN && harness_draw_chance(draw, 30) &&
            is_counted(site)) {
            at->hit = (uint32_t)at->step + 1; /* the same moment, said otherwise */
            at->step = -1;
        }
        break;
    default:
        break;
    }
    if (site->fault->point == DDP_FAULT_POINT_LOSS && harness_draw_chance(draw, 50)) {
        at->phase = DDP_PHASE_LOSS;
    }
    return true;
}

/* A value far from all others may make gradients zero from then on, and what only drops or scales
 * one would do nothing. */
static bool is_drowned(const struct harness_draw_site *site)
{
    const struct harness_fault *fault = site->fault;
    const bool is_of_few = fault->action.kind == HARNESS_ACTION_CORRUPT &&
                           (fault->action.corrupt == HARNESS_CORRUPT_SET ||
                            fault->action.corrupt == HARNESS_CORRUPT_FLIP ||
                            fault->action.corrupt == HARNESS_CORRUPT_NAN);
    bool is_far = false;

    for (const struct harness_fault *at = site->draw->plan->faults; at < fault; at++) {
        is_far = is_far || (at->action.kind == HARNESS_ACTION_CORRUPT &&
                            at->action.corrupt == HARNESS_CORRUPT_SET);
    }
    return is_far && ((fault->action.kind == HARNESS_ACTION_CORRUPT && !is_of_few) ||
                      (fault->action.kind == HARNESS_ACTION_SKIP &&
                       (fault->point == DDP_FAULT_POINT_COLLECTIVE_ENQUEUE ||
                        fault->point == DDP_FAULT_POINT_BUCKET_UNFLATTEN)));
}

static bool is_unwaited(const struct harness_fault *fault)
{
    return fault->action.kind == HARNESS_ACTION_SKIP &&
           fault->point == DDP_FAULT_POINT_COLLECTIVE_WAIT;
}

/* A gradient that is used while its sum still runs may be anything. Where it lies in the bucket, so
 * may the next one: what else is wrong with them cannot be told from that. Where it was copied, the
 * rank goes on with what no replay meets again, and no later value is judged. */
static bool is_raced(const struct harness_draw_site *site, enum harness_verdict verdict)
{
    const struct harness_plan *plan = site->draw->plan;
    bool is_behind = false;

    for (const struct harness_fault *at = plan->faults; at < site->fault; at++) {
        is_behind = is_behind || is_unwaited(at);
    }
    if (plan->job.gradient_as_bucket_view) {
        return is_behind || (is_unwaited(site->fault) && site->fault > plan->faults);
    }
    return is_behind && harness_verdict_family(verdict) == HARNESS_FAMILY_VALUE;
}

/* Late once is a straggler beside nothing else: what is late twice has a pattern, and of a job that
 * ends early nobody asks who was late. */
static bool is_late_beside_others(const struct harness_draw_site *site,
                                  enum harness_verdict verdict)
{
    return harness_verdict_family(verdict) == HARNESS_FAMILY_SLOW &&
           !(site->is_first && site->is_last);
}

struct harness_trigger harness_draw_anywhere(void)
{
    return (struct harness_trigger){.step = -1,
                                    .micro = -1,
                                    .phase = -1,
                                    .bucket = -1,
                                    .param = -1,
                                    .layer = -1,
                                    .seq = -1,
                                    .hit = 1,
                                    .times = 1};
}

bool harness_draw_fault(struct harness_draw_site *site)
{
    for (unsigned i = 0; i < TRIES; i++) {
        struct harness_answer answers[HARNESS_ANSWERS_MAX];
        struct harness_fault *fault = site->fault;

        memset(fault, 0, sizeof *fault);
        fault->at = harness_draw_anywhere();
        fault->action.kind = draw_action(site);
        if (draw_point(site) && draw_trigger(site) && harness_draw_details(site) &&
            !is_drowned(site) && harness_model_answers(site->job, fault, answers) > 0 &&
            !is_raced(site, answers[0].verdict) &&
            !is_late_beside_others(site, answers[0].verdict)) {
            return true;
        }
    }
    return false;
}

void grammar_TOP_faults(struct harness_draw *draw)
{
    struct harness_plan *plan = draw->plan;
    const struct harness_grammar_options *options = draw->options;
    uint32_t count = (uint32_t)harness_draw_between(draw, options->fault_min, options->fault_max);
    struct harness_grammar_job job;
    /* Where one goes on after a loss, all have started by then. */
    uint32_t next_step = count > 1 && plan->job.on_loss == HARNESS_ON_LOSS_CONTINUE ? 1 : 0;

    if (count == 0) {
        return;
    }
    plan->faults = harness_draw_array(draw, count, sizeof *plan->faults);
    if (plan->faults == NULL) {
        return; /* draw->status says so */
    }
    draw->status = harness_grammar_job_open(draw->mem, plan, &job, NULL);
    for (uint32_t i = 0; draw->status == DDP_OK && i < count; i++) {
        struct harness_draw_site site = {.draw = draw,
                                         .job = &job,
                                         .fault = &plan->faults[plan->fault_count],
                                         .first_step = next_step,
                                         .last_step =
                                             i + 1 < count ? next_step : plan->job.steps - 1,
                                         .is_first = plan->fault_count == 0,
                                         .is_last = i + 1 == count};

        if (next_step < plan->job.steps && harness_draw_fault(&site)) {
            plan->fault_count++;
            /* Ranks are at most a step apart: two steps on, it has fired. */
            next_step = 2 + (site.fault->at.step > 0 ? (uint32_t)site.fault->at.step : next_step);
        }
    }
}
