/* job.on_loss: continue. A rank whose group has lost another one does what a trainer on the core
 * does (ddpcore/world/subgroup.h): it ends what stood on the group, agrees with the others on who
 * lives, joins a group of those, and takes the state of whoever has done the most steps. The step
 * that nobody has done is done again, by those that are left.
 *
 * From then on the environment's rank is the number in the new group: trainer, sampler, checkpoints
 * and evaluation are those of a job of so many ranks, as after a restart by torchrun. */
#include <string.h>

#include "ddpcore/world/survivors.h"
#include "harness/rank/session.h"

/* What was agreed on. */
struct roll {
    uint32_t *ranks; /* [count] */
    uint64_t *steps; /* [count] that each has done */
    uint32_t count;
    uint32_t member; /* this rank's place */
};

static ddp_status call_roll(struct harness_session *session, struct roll *roll)
{
    const struct harness_job *job = &session->plan->job;
    uint32_t *all = ddp_mem_array(session->env->mem, job->ranks, sizeof(*all));
    const struct ddp_lost_group loss = {.group = &session->group,
                                        .ranks = all,
                                        .rank_count = job->ranks,
                                        .name = "world",
                                        .settle_ns = job->settle_ms * DDP_NS_PER_MS,
                                        .value = session->steps_done};
    ddp_status status = DDP_E_NOMEM;

    for (uint32_t r = 0; all != NULL && r < job->ranks; r++) {
        all[r] = r;
    }
    if (all != NULL) {
        status = ddp_survivors_agree(session->env, session->store, job->timeout_ns, &loss,
                                     roll->ranks, roll->steps, &roll->count, session->err);
    }
    ddp_mem_free(session->env->mem, all);
    return status;
}

/* Point recovery/members: a fault may alter who goes on, in this rank's opinion. */
static ddp_status pass_members(struct harness_session *session, struct roll *roll)
{
    struct ddp_fault_context place = DDP_FAULT_CONTEXT_NONE;
    int64_t *list = ddp_mem_array(session->env->mem, roll->count, sizeof(*list));
    uint32_t kept = 0;
    ddp_status status = DDP_OK;

    if (list == NULL) {
        return DDP_E_NOMEM;
    }
    for (uint32_t m = 0; m < roll->count; m++) {
        list[m] = roll->ranks[m];
    }
    place.data = list;
    place.elem_count = roll->count;
    place.dtype = DDP_DTYPE_I64;
    if (ddp_fault_point(session->env->faults, DDP_FAULT_POINT_RECOVERY_MEMBERS, &place) ==
        DDP_FAULT_FAIL) {
        status = ddp_err_set(session->err, DDP_E_INJECTED, "the list of survivors was lost");
    }
    for (uint32_t m = 0; m < roll->count; m++) {
        if (list[m] >= 0 && list[m] < session->plan->job.ranks) {
            roll->ranks[kept] = (uint32_t)list[m];
            roll->steps[kept++] = roll->steps[m];
        }
    }
    roll->count = kept;
    ddp_mem_free(session->env->mem, list);
    return status;
}

/* *out: the first of those that have done the most steps is whom all take their state from. */
static ddp_status conclude(struct harness_session *session, struct roll *roll,
                           struct harness_continuation *out)
{
    roll->member = roll->count;
    *out = (struct harness_continuation){.ranks = roll->ranks, .rank_count = roll->count};
    for (uint32_t m = 0; m < roll->count; m++) {
        roll->member = roll->ranks[m] == session->env->rank ? m : roll->member;
        out->source = roll->steps[m] > roll->steps[out->source] ? m : out->source;
        ddp_recorder_event(session->env->recorder, DDP_EVENT_GROUP_MEMBER, m, roll->ranks[m],
                           roll->steps[m], 0, 0);
    }
    if (roll->member == roll->count) {
        return ddp_err_set(session->err, DDP_E_MEMBER, "this rank is not among those that go on");
    }
    out->first_step = (uint32_t)roll->steps[out->source];
    return DDP_OK;
}

/* Plan and options of the new group. What it writes lies in a folder of its own. */
static ddp_status adopt(struct harness_session *session, const struct harness_continuation *who)
{
    struct ddp_mem *mem = session->env->mem;
    struct harness_plan *plan = ddp_mem_array(mem, 1, sizeof(*plan));
    struct ddp_text dir;
    ddp_status status = DDP_OK;

    if (plan == NULL) {
        return DDP_E_NOMEM;
    }
    status = harness_plan_continue(mem, session->plan, who, plan);
    if (status != DDP_OK) {
        ddp_mem_free(mem, plan);
        return status;
    }
    session->first_plan = session->plan;
    session->own_plan = plan;
    session->plan = plan;
    session->own_options = *session->options;
    session->own_options.checkpoint_path = NULL;
    session->first_step = who->first_step;
    if (session->options->run_dir != NULL) {
        ddp_text_init(&dir, mem);
        ddp_text_add(&dir, "%s/survivors", session->options->run_dir);
        if (dir.is_failed) {
            ddp_text_fini(&dir);
            return DDP_E_NOMEM;
        }
        session->own_dir = dir.data;
        session->own_options.run_dir = session->own_dir;
    }
    session->options = &session->own_options;
    return DDP_OK;
}

static ddp_status regroup(struct harness_session *session, const struct harness_rank_wiring *wiring,
                          struct roll *roll)
{
    struct ddp_env *env = session->env;
    struct harness_continuation who;
    struct harness_rank_members survivors;
    struct ddp_transport *transport = NULL;
    uint64_t deadline_ns;

    DDP_TRY(call_roll(session, roll));
    DDP_TRY(pass_members(session, roll));
    DDP_TRY(conclude(session, roll, &who));
    DDP_TRY(adopt(session, &who));
    ddp_group_fini(&session->group);
    session->is_group = false;
    session->is_group_lost = false;
    ddp_recorder_regroup(env->recorder);
    ddp_recorder_step(env->recorder, who.first_step, 0);
    ddp_recorder_event(env->recorder, DDP_EVENT_GROUP_CHANGED, roll->member, roll->count,
                       who.first_step, who.source, 0);
    deadline_ns = ddp_clock_deadline_ns(env->clock, session->plan->job.timeout_ns);
    survivors = (struct harness_rank_members){"survivors", roll->member, roll->count, roll->ranks};
    DDP_TRY(wiring->members(wiring->context, env, session->store, &survivors, deadline_ns,
                            &transport, session->err));
    env->rank = roll->member;
    env->world_size = roll->count;
    return harness_session_reopen(session, transport);
}

ddp_status harness_session_survive(struct harness_session *session,
                                   const struct harness_rank_wiring *wiring, ddp_status status)
{
    struct ddp_env *env = session->env;
    const uint32_t ranks = session->plan->job.ranks;
    struct roll roll = {.ranks = ddp_mem_array(env->mem, ranks, sizeof(*roll.ranks)),
                        .steps = ddp_mem_array(env->mem, ranks, sizeof(*roll.steps))};

    ddp_recorder_event(env->recorder, DDP_EVENT_GROUP_LOST, (uint64_t)(uint32_t)status,
                       (uint64_t)(int64_t)session->group.failure.rank, session->steps_done,
                       env->recorder == NULL ? 0 : env->recorder->page->message_count, 0);
    session->is_group_lost = true;
    harness_session_phase(session, DDP_PHASE_RECOVERY);
    status = harness_session_point(session, DDP_FAULT_POINT_RECOVERY_AGREE, NULL);
    harness_session_unwrap(session);
    if (status == DDP_OK) {
        status = roll.ranks != NULL && roll.steps != NULL ? regroup(session, wiring, &roll)
                                                          : DDP_E_NOMEM;
    }
    ddp_mem_free(env->mem, roll.ranks);
    ddp_mem_free(env->mem, roll.steps);
    return status;
}
