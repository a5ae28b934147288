/* The process group: it numbers collectives, waits for them, passes their fault points, and turns
 * whatever ends them into one struct ddp_failure. It knows nothing about buckets or models.
 *
 * A fault may double a collective: the copy is posted first. Collectives of a group complete in
 * order, so the caller's wait covers both, and the buffer is not used after it. */
#include "ddpcore/ddp/group.h"

#include <string.h>

struct ddp_group_duplicate {
    struct ddp_coll_work work;
    struct ddp_group_duplicate *next;
};

void ddp_group_init(struct ddp_group *group, struct ddp_env *env, struct ddp_coll *coll,
                    enum ddp_semantics semantics, uint64_t timeout_ns)
{
    DDP_ASSERT(coll != NULL && coll->member < coll->member_count);
    memset(group, 0, sizeof(*group));
    group->env = env;
    group->coll = coll;
    group->semantics = semantics;
    group->timeout_ns = timeout_ns;
    group->failure.rank = -1;
}

void ddp_group_fini(struct ddp_group *group)
{
    DDP_ASSERT(group->coll != NULL);
    group->coll->ops->destroy(group->coll);
    group->coll = NULL;
    while (group->duplicates != NULL) {
        struct ddp_group_duplicate *duplicate = group->duplicates;

        group->duplicates = duplicate->next;
        ddp_mem_free(group->env->mem, duplicate);
    }
}

void ddp_group_number_by(struct ddp_group *group, uint64_t *numbers)
{
    DDP_ASSERT(group->seq == 0);
    group->numbers = numbers;
}

/* Record what ended the group; only the first time. cause: what the collective returned. */
static ddp_status fail(struct ddp_group *group, const struct ddp_failure *failure, ddp_status cause)
{
    DDP_ASSERT(failure->status < DDP_OK && cause < DDP_OK);
    if (group->failure.status == DDP_OK) {
        group->failure = *failure;
        ddp_recorder_event(group->env->recorder, DDP_EVENT_RANK_ERROR, (uint64_t)failure->status,
                           (uint64_t)(int64_t)failure->rank, (uint64_t)cause, failure->detail, 0);
    }
    return group->failure.status;
}

/* from: the rank whose failure it is. */
static void send_revocation(struct ddp_group *group, uint32_t from, ddp_status status,
                            uint64_t detail)
{
    const struct ddp_revocation revocation = {from, status, group->step, detail};

    DDP_ASSERT(status < DDP_OK && group->failure.status == DDP_OK);
    ddp_recorder_event(group->env->recorder, DDP_EVENT_REVOKE, from, (uint64_t)status, group->step,
                       detail, 0);
    ddp_recorder_revoked(group->env->recorder, from, status);
    group->coll->ops->revoke(group->coll, &revocation);
}

ddp_status ddp_group_revoke(struct ddp_group *group, ddp_status status, uint64_t detail)
{
    const struct ddp_failure failure = {status, (int32_t)group->env->rank, group->step, detail};

    if (group->failure.status != DDP_OK) {
        return status;
    }
    send_revocation(group, group->env->rank, status, detail);
    return fail(group, &failure, status);
}

void ddp_group_pass_on(const struct ddp_group *group)
{
    const struct ddp_failure *failure = &group->failure;
    const bool is_death = failure->status == DDP_E_PEER_DIED;
    const struct ddp_revocation revocation = {group->env->rank, failure->status, group->step,
                                              is_death ? (uint64_t)(int64_t)failure->rank
                                                       : failure->detail};
    struct ddp_revocation present;

    DDP_ASSERT(failure->status < DDP_OK);
    if (!group->coll->ops->is_revoked(group->coll, &present)) {
        group->coll->ops->revoke(group->coll, &revocation);
    }
}

void ddp_group_follow(struct ddp_group *group, const struct ddp_group *failed)
{
    const struct ddp_failure *failure = &failed->failure;
    const bool is_death = failure->status == DDP_E_PEER_DIED;
    const uint32_t from =
        is_death || failure->rank < 0 ? group->env->rank : (uint32_t)failure->rank;

    DDP_ASSERT(failure->status < DDP_OK);
    if (group->failure.status != DDP_OK) {
        return;
    }
    if (is_death ? failure->rank >= 0 : group->semantics == DDP_SEMANTICS_STRICT) {
        send_revocation(group, from, failure->status,
                        is_death ? (uint64_t)failure->rank : failure->detail);
    }
    group->failure = *failure;
}

static ddp_status fail_revoked(struct ddp_group *group, const struct ddp_revocation *revocation)
{
    const bool is_death = revocation->status == DDP_E_PEER_DIED;
    const struct ddp_failure failure = {
        revocation->status < DDP_OK ? revocation->status : DDP_E_REVOKED,
        is_death ? (int32_t)revocation->detail : (int32_t)revocation->rank, revocation->step,
        revocation->detail};

    DDP_ASSERT(group->failure.status == DDP_OK);
    ddp_recorder_event(group->env->recorder, DDP_EVENT_REVOKE, revocation->rank,
                       (uint64_t)revocation->status, revocation->step, revocation->detail, 0);
    ddp_recorder_revoked(group->env->recorder, revocation->rank, revocation->status);
    return fail(group, &failure, DDP_E_REVOKED);
}

static ddp_status fail_dead(struct ddp_group *group)
{
    const int32_t rank = group->coll->ops->dead_rank(group->coll);
    struct ddp_failure failure = {.status = DDP_E_PEER_DIED, .rank = rank, .step = group->step};

    ddp_recorder_event(group->env->recorder, DDP_EVENT_PEER_DIED, (uint64_t)(int64_t)rank, 0, 0, 0,
                       0);
    if (rank >= 0) {
        /* Members that exchange no message with the dead rank learn of its death from this. */
        failure.detail = (uint64_t)rank;
        send_revocation(group, group->env->rank, DDP_E_PEER_DIED, failure.detail);
    }
    return fail(group, &failure, DDP_E_PEER_DIED);
}

/* A collective ended with an error. If the group was revoked, that is the cause, even if the error
 * is a death: whoever revokes may exit right after. */
static ddp_status fail_from(struct ddp_group *group, ddp_status cause, uint64_t seq)
{
    const struct ddp_failure failure = {cause, -1, group->step, seq};
    struct ddp_revocation revocation;

    if (group->failure.status != DDP_OK) {
        return group->failure.status;
    }
    if (group->coll->ops->is_revoked(group->coll, &revocation)) {
        return fail_revoked(group, &revocation);
    }
    if (cause == DDP_E_PEER_DIED) {
        return fail_dead(group);
    }
    if (group->semantics == DDP_SEMANTICS_STRICT) {
        send_revocation(group, group->env->rank, cause, seq);
    }
    return fail(group, &failure, cause);
}

static enum ddp_fault_action pass_point(struct ddp_group *group, enum ddp_fault_point point,
                                        struct ddp_coll_work *work)
{
    struct ddp_fault_context context = DDP_FAULT_CONTEXT_NONE;

    context.bucket = work->args.role == DDP_ROLE_BUCKET ? (int32_t)work->args.index : -1;
    context.seq = work->seq;
    context.device = group->coll->device;
    if (ddp_fault_point_payload(point) == DDP_FAULT_PAYLOAD_ARGS) {
        context.args = &work->args;
    } else if (ddp_fault_point_payload(point) == DDP_FAULT_PAYLOAD_DATA) {
        const uint32_t blocks = ddp_coll_output_blocks(work->args.kind, group->coll->member_count,
                                                       group->coll->member == work->args.root);

        context.data = work->args.output;
        context.elem_count = work->args.elem_count * blocks;
        context.dtype = work->args.dtype;
    }
    return ddp_fault_point(group->env->faults, point, &context);
}

static uint64_t next_number(const struct ddp_group *group)
{
    return (group->numbers != NULL ? *group->numbers : group->seq) + 1;
}

static uint64_t take_number(struct ddp_group *group)
{
    group->seq = next_number(group);
    if (group->numbers != NULL) {
        *group->numbers = group->seq;
    }
    return group->seq;
}

static ddp_status post_numbered(struct ddp_group *group, struct ddp_coll_work *work)
{
    ddp_status status;

    DDP_ASSERT(group->failure.status == DDP_OK);
    work->seq = take_number(group);
    work->status = DDP_PENDING;
    work->is_waited = false;
    ddp_recorder_call(group->env->recorder, work->seq);
    status = group->coll->ops->post(group->coll, work);
    ddp_recorder_call(group->env->recorder, 0);
    if (status < DDP_OK) {
        work->status = status;
        return fail_from(group, status, work->seq);
    }
    return DDP_OK;
}

/* Free the duplicates that have ended; in order, so the first one under way stops the search. */
static void reap_duplicates(struct ddp_group *group)
{
    struct ddp_group_duplicate **link = &group->duplicates;

    while (*link != NULL) {
        struct ddp_group_duplicate *duplicate = *link;

        DDP_ASSERT(duplicate->work.seq != 0 && duplicate->work.seq <= group->seq);
        if (group->coll->ops->poll(group->coll, &duplicate->work) == DDP_PENDING) {
            link = &duplicate->next;
            continue;
        }
        *link = duplicate->next;
        ddp_mem_free(group->env->mem, duplicate);
    }
}

static ddp_status post_duplicate(struct ddp_group *group, const struct ddp_coll_args *args)
{
    struct ddp_group_duplicate *duplicate = ddp_mem_array(group->env->mem, 1, sizeof(*duplicate));

    if (duplicate == NULL) {
        return fail_from(group, DDP_E_NOMEM, next_number(group));
    }
    duplicate->work.args = *args;
    duplicate->next = group->duplicates;
    group->duplicates = duplicate;
    return post_numbered(group, &duplicate->work);
}

ddp_status ddp_group_post(struct ddp_group *group, struct ddp_coll_work *work)
{
    enum ddp_fault_action action;

    work->seq = next_number(group);
    work->status = group->failure.status;
    if (group->failure.status != DDP_OK) {
        return group->failure.status;
    }
    action = pass_point(group, DDP_FAULT_POINT_COLLECTIVE_PRE, work);
    if (action == DDP_FAULT_SKIP) {
        work->seq = 0;
        return DDP_OK;
    }
    if (action == DDP_FAULT_FAIL) {
        work->status = DDP_E_INJECTED;
        return fail_from(group, DDP_E_INJECTED, work->seq);
    }
    if (action == DDP_FAULT_DUP) {
        DDP_TRY(post_duplicate(group, &work->args));
    }
    return post_numbered(group, work);
}

static ddp_status poll_work(struct ddp_group *group, struct ddp_coll_work *work)
{
    ddp_status status;

    if (group->failure.status != DDP_OK) {
        return group->failure.status;
    }
    if (work->seq == 0) {
        DDP_ASSERT(work->status != DDP_PENDING);
        return work->status;
    }
    DDP_ASSERT(work->seq <= group->seq);
    /* Poll the implementation even if it finished this work while another one was polled:
     * decorators only learn of the end by this call. */
    status = group->coll->ops->poll(group->coll, work);
    work->status = status;
    return status < DDP_OK ? fail_from(group, status, work->seq) : status;
}

/* Messages are taken in here too: a host that gets stuck then is inside of this collective. */
ddp_status ddp_group_poll(struct ddp_group *group, struct ddp_coll_work *work)
{
    ddp_status status;

    ddp_recorder_call(group->env->recorder, work->seq);
    status = poll_work(group, work);
    ddp_recorder_call(group->env->recorder, 0);
    return status;
}

struct wait {
    struct ddp_group *group;
    struct ddp_coll_work *work;
    bool *is_missing; /* [member count], kept up to date while the work is pending; or NULL */
};

static ddp_status wait_poll(void *self)
{
    const struct wait *wait = self;
    struct ddp_coll *coll = wait->group->coll;
    ddp_status status = poll_work(wait->group, wait->work);

    for (uint32_t m = 0; wait->is_missing != NULL && m < coll->member_count; m++) {
        if (status >= DDP_OK) {
            wait->is_missing[m] = status == DDP_PENDING && coll->ops->awaits != NULL &&
                                  coll->ops->awaits(coll, wait->work, m);
        }
    }
    return status;
}

static void wait_hint(void *self, struct ddp_idle_hint *hint)
{
    const struct wait *wait = self;

    wait->group->coll->ops->hint(wait->group->coll, hint);
}

/* The judge of order takes only this event as proof that the host waited; a poll that found the
 * work done proves nothing. */
static void record_waited(struct ddp_group *group, struct ddp_coll_work *work)
{
    if (!work->is_waited && work->seq != 0) {
        work->is_waited = true;
        ddp_recorder_event(group->env->recorder, DDP_EVENT_COLL_WAITED, work->seq, 0, 0, 0, 0);
    }
}

static ddp_status drain(const struct wait *wait, uint64_t timeout_ns)
{
    struct ddp_group *group = wait->group;
    struct ddp_coll_work *work = wait->work;
    struct ddp_env *env = group->env;
    const struct ddp_pollable pollable = {wait_poll, wait_hint, (void *)(uintptr_t)wait};
    ddp_status status = wait_poll((void *)(uintptr_t)wait);

    if (status == DDP_PENDING) {
        ddp_recorder_wait_begin(env->recorder, DDP_WAIT_COLLECTIVE, work->seq);
        status = ddp_wait(env->idle, env->clock, &pollable,
                          ddp_clock_deadline_ns(env->clock, timeout_ns));
        if (status == DDP_E_TIMEOUT) {
            status = fail_from(group, DDP_E_TIMEOUT, work->seq);
        }
        ddp_recorder_wait_end(env->recorder);
    }
    if (status == DDP_OK) {
        record_waited(group, work);
    }
    if (group->duplicates != NULL && status == DDP_OK) {
        reap_duplicates(group);
    }
    return status;
}

ddp_status ddp_group_drain(struct ddp_group *group, struct ddp_coll_work *work)
{
    const struct wait wait = {group, work, NULL};

    return drain(&wait, group->timeout_ns);
}

static ddp_status wait_between_points(const struct wait *wait, uint64_t timeout_ns)
{
    struct ddp_group *group = wait->group;
    struct ddp_coll_work *work = wait->work;
    enum ddp_fault_action action = pass_point(group, DDP_FAULT_POINT_COLLECTIVE_WAIT, work);

    if (action == DDP_FAULT_FAIL) {
        return fail_from(group, DDP_E_INJECTED, work->seq);
    }
    if (action == DDP_FAULT_SKIP &&
        (work->args.role == DDP_ROLE_BUCKET || work->args.role == DDP_ROLE_USED_MAP)) {
        return DDP_OK;
    }
    DDP_TRY(drain(wait, timeout_ns));
    if (pass_point(group, DDP_FAULT_POINT_COLLECTIVE_POST, work) == DDP_FAULT_FAIL) {
        return fail_from(group, DDP_E_INJECTED, work->seq);
    }
    return DDP_OK;
}

static ddp_status wait_noted(const struct wait *wait, uint64_t timeout_ns)
{
    struct ddp_group *group = wait->group;
    ddp_status status;

    if (wait->work->seq == 0 || group->failure.status != DDP_OK) {
        return ddp_group_poll(group, wait->work);
    }
    ddp_recorder_call(group->env->recorder, wait->work->seq);
    status = wait_between_points(wait, timeout_ns);
    ddp_recorder_call(group->env->recorder, 0);
    return status;
}

ddp_status ddp_group_wait_for(struct ddp_group *group, struct ddp_coll_work *work,
                              uint64_t timeout_ns)
{
    const struct wait wait = {group, work, NULL};

    return wait_noted(&wait, timeout_ns);
}

ddp_status ddp_group_wait(struct ddp_group *group, struct ddp_coll_work *work)
{
    return ddp_group_wait_for(group, work, group->timeout_ns);
}

ddp_status ddp_group_run(struct ddp_group *group, const struct ddp_coll_args *args)
{
    if (group->failure.status != DDP_OK) {
        return group->failure.status;
    }
    /* The work lives in the group: after a timeout it stays queued when this call is gone. */
    memset(&group->run_work, 0, sizeof(group->run_work));
    group->run_work.args = *args;
    DDP_TRY(ddp_group_post(group, &group->run_work));
    return ddp_group_wait(group, &group->run_work);
}

ddp_status ddp_group_barrier(struct ddp_group *group)
{
    const struct ddp_coll_args args = {
        .kind = DDP_COLL_BARRIER, .dtype = DDP_DTYPE_U8, .role = DDP_ROLE_BARRIER};

    return ddp_group_run(group, &args);
}

ddp_status ddp_group_monitored_barrier(struct ddp_group *group, uint64_t timeout_ns,
                                       bool *is_missing)
{
    const struct wait wait = {group, &group->run_work, is_missing};

    memset(is_missing, 0, group->coll->member_count * sizeof is_missing[0]);
    if (group->failure.status != DDP_OK) {
        return group->failure.status;
    }
    memset(&group->run_work, 0, sizeof(group->run_work));
    group->run_work.args = (struct ddp_coll_args){
        .kind = DDP_COLL_BARRIER, .dtype = DDP_DTYPE_U8, .role = DDP_ROLE_MONITORED};
    DDP_TRY(ddp_group_post(group, &group->run_work));
    return wait_noted(&wait, timeout_ns);
}
