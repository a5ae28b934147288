/* A rank's life: open, train, a last barrier, close. After any failing status comes close at once,
 * which posts nothing: the other ranks learn of the failure from the group (revoked or departed),
 * not only from a timeout. The last thing recorded is rank.end. */
#include <string.h>

#include "ddpcore/seam/counted.h"
#include "harness/rank/session.h"

/* The last barrier. A rank that leaves without it has left its group early. */
static ddp_status leave_group(struct harness_session *session)
{
    bool is_skipped;

    harness_session_phase(session, DDP_PHASE_TEARDOWN);
    DDP_TRY(harness_session_point(session, DDP_FAULT_POINT_TEARDOWN, &is_skipped));
    if (is_skipped) {
        return DDP_OK;
    }
    DDP_TRY(ddp_group_barrier(&session->group));
    session->is_parted = true;
    return DDP_OK;
}

/* Who died, as the launcher's store says it to those that have no group yet. A rank that hosts the
 * store leaves it before it ends: whoever loses it then cannot say that this rank is dead. */
static int32_t dead_before_group(const struct harness_session *session, ddp_status status)
{
    return status == DDP_E_PEER_DIED && session->store != NULL &&
                   session->plan->job.store == HARNESS_STORE_LAUNCHER
               ? session->store->dead_rank
               : -1;
}

/* Who revoked the group for this, as a probe of the group says, which is no part of it. Of a death
 * that is only who told of it. */
static int32_t revoked_by(const struct harness_session *session, ddp_status status)
{
    const struct ddp_page *page = session->env->recorder->page;

    return status != DDP_E_PEER_DIED && page->revoke_rank > 0 &&
                   (ddp_status)(int32_t)(uint32_t)page->revoke_status == status
               ? (int32_t)page->revoke_rank - 1
               : dead_before_group(session, status);
}

static void record_error(struct harness_session *session, ddp_status status)
{
    const struct ddp_failure *failure = &session->group.failure;
    /* What fails in the recovery does not fail for what the group was lost for. */
    bool is_group_failure =
        session->is_group && !session->is_group_lost && failure->status != DDP_OK;
    int32_t peer = is_group_failure ? failure->rank : revoked_by(session, status);

    ddp_recorder_event(session->env->recorder, DDP_EVENT_RANK_ERROR, (uint64_t)(uint32_t)status,
                       (uint64_t)(int64_t)peer,
                       (uint64_t)(uint32_t)(is_group_failure ? failure->status : status),
                       is_group_failure ? failure->detail : 0, 0);
}

/* A loss in training that the job goes on after, with the group of those that are left; once. */
static ddp_status train(struct harness_session *session, const struct harness_rank_wiring *wiring)
{
    const ddp_status status = harness_session_train(session);

    if (status != DDP_E_PEER_DIED || session->plan->job.on_loss != HARNESS_ON_LOSS_CONTINUE) {
        return status;
    }
    record_error(session, status);
    DDP_TRY(harness_session_survive(session, wiring, status));
    return harness_session_train(session);
}

static ddp_status run(struct harness_session *session, const struct harness_rank_wiring *wiring)
{
    DDP_TRY(harness_keeper_open(&session->keeper, session->env, session->options, session->err));
    DDP_TRY(harness_session_open(session, wiring));
    if (session->is_left_out) {
        return DDP_OK;
    }
    DDP_TRY(harness_session_probe(session, HARNESS_PROBE_FIRST));
    DDP_TRY(train(session, wiring));
    DDP_TRY(harness_session_log(session));
    DDP_TRY(leave_group(session));
    DDP_TRY(harness_session_probe(session, HARNESS_PROBE_LAST));
    if (session->is_parted) {
        harness_session_finish_collective(session);
    }
    return session->keeper.status;
}

/* MPI, NCCL and CUDA keep descriptors of their own until the process ends. */
static bool has_libraries(const struct harness_plan *plan)
{
    return plan->job.collective.engine != HARNESS_ENGINE_SCHEDULE || harness_plan_is_cuda(plan);
}

/* What the rank took and has not given back, counted while it runs. */
struct holds {
    struct ddp_counted_mem mem;
    struct ddp_counted_files files;
    uint64_t (*count_descriptors)(void);
};

static void begin_counting(struct holds *holds, struct ddp_env *env,
                           uint64_t (*count_descriptors)(void))
{
    ddp_counted_mem_init(&holds->mem, env->mem);
    ddp_counted_files_init(&holds->files, env->files);
    holds->count_descriptors = count_descriptors;
    env->mem = &holds->mem.base;
    env->files = &holds->files.base;
}

static void record_holds(const struct holds *holds, struct ddp_recorder *recorder)
{
    ddp_recorder_event(recorder, DDP_EVENT_RANK_HOLDS, ddp_counted_mem_blocks(&holds->mem),
                       holds->files.open_count,
                       holds->count_descriptors != NULL ? holds->count_descriptors() : 0, 0, 0);
}

static void end_counting(const struct holds *holds, struct ddp_env *env)
{
    env->mem = holds->mem.inner;
    env->files = holds->files.inner;
}

ddp_status harness_rank_run(struct ddp_env *env, const struct harness_plan *plan,
                            const struct harness_rank_options *options,
                            const struct harness_rank_wiring *wiring, struct ddp_err *err)
{
    struct harness_session session;
    struct holds holds;
    ddp_status status;

    memset(&session, 0, sizeof session);
    session.env = env;
    session.plan = plan;
    session.options = options;
    session.err = err;
    ddp_recorder_event(env->recorder, DDP_EVENT_RANK_BEGIN,
                       env->recorder == NULL ? 0 : env->recorder->page->pid, env->world_size,
                       options->program_hash, 0, 0);
    begin_counting(&holds, env, has_libraries(plan) ? NULL : wiring->count_descriptors);
    record_holds(&holds, env->recorder);
    status = run(&session, wiring);
    if (status != DDP_OK) {
        if (session.dump.status == status && session.plugin.status == DDP_OK) {
            status =
                ddp_err_set(err, status, "%s/schedules could not be written", options->run_dir);
        }
        record_error(&session, status);
    }
    harness_session_phase(&session, DDP_PHASE_TEARDOWN);
    harness_session_close(&session);
    harness_keeper_close(&session.keeper);
    harness_session_phase(&session, DDP_PHASE_END);
    record_holds(&holds, env->recorder);
    end_counting(&holds, env);
    ddp_recorder_end(env->recorder, status, session.steps_done);
    return status;
}
