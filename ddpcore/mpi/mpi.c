/* The queue of a group over MPI. Works agree on the control channel (if checked), then go to MPI
 * one after the other. Whatever fails ends the whole group, and MPI with it. */
#include <string.h>

#include "ddpcore/mpi/state.h"

/* A dead peer may show as an error of MPI's before its process is reported dead. */
#define SUSPICION_NS DDP_NS_PER_S

static struct ddp_mpi_job *job_of(const struct ddp_coll_work *work)
{
    return work->engine;
}

static void end_head(struct ddp_mpi_coll *coll, ddp_status status)
{
    struct ddp_coll_work *work = coll->head;
    struct ddp_mpi_job *job = job_of(work);

    coll->head = work->next;
    if (coll->head == NULL) {
        coll->tail = NULL;
    }
    /* After a failure the control channel may still hold the job's agreement; but then no job is
     * taken any more. */
    job->next_free = coll->free_jobs;
    coll->free_jobs = job;
    work->next = NULL;
    work->engine = NULL;
    work->status = status;
}

/* Only calls to MPI write to the works' buffers, and there will be none. */
void ddp_mpi_coll_fail(struct ddp_mpi_coll *coll, ddp_status status)
{
    if (coll->failed == DDP_OK) {
        coll->failed = status;
        ddp_mpi_library_give_up(coll->library);
    }
    while (coll->head != NULL) {
        end_head(coll, coll->failed);
    }
}

static bool is_in_place(const struct ddp_mpi_coll *coll, const struct ddp_coll_args *args)
{
    size_t block_bytes = args->elem_count * ddp_dtype_size_bytes(args->dtype);

    return args->input == args->output ||
           (args->kind == DDP_COLL_ALL_GATHER &&
            args->input == (const char *)args->output + coll->base.member * block_bytes);
}

static struct ddp_mpi_call call_of(const struct ddp_mpi_coll *coll,
                                   const struct ddp_coll_args *args)
{
    static const enum ddp_mpi_kind kinds[DDP_COLL_KIND_COUNT] = {
        [DDP_COLL_ALL_REDUCE] = DDP_MPI_ALL_REDUCE,
        [DDP_COLL_BROADCAST] = DDP_MPI_BROADCAST,
        [DDP_COLL_ALL_GATHER] = DDP_MPI_ALL_GATHER,
        [DDP_COLL_BARRIER] = DDP_MPI_BARRIER};
    static const enum ddp_mpi_type types[DDP_DTYPE_COUNT] = {
        [DDP_DTYPE_F32] = DDP_MPI_F32,     [DDP_DTYPE_F16] = DDP_MPI_BITS16,
        [DDP_DTYPE_BF16] = DDP_MPI_BITS16, [DDP_DTYPE_F64] = DDP_MPI_F64,
        [DDP_DTYPE_I32] = DDP_MPI_I32,     [DDP_DTYPE_I64] = DDP_MPI_I64,
        [DDP_DTYPE_U8] = DDP_MPI_U8};
    static const enum ddp_mpi_op ops[DDP_REDOP_COUNT] = {[DDP_REDOP_SUM] = DDP_MPI_SUM,
                                                         [DDP_REDOP_MAX] = DDP_MPI_MAX,
                                                         [DDP_REDOP_MIN] = DDP_MPI_MIN,
                                                         [DDP_REDOP_PROD] = DDP_MPI_PROD};
    const struct ddp_mpi_call call = {.kind = kinds[args->kind],
                                      .type = types[args->dtype],
                                      .op = ops[args->redop],
                                      .root = (int)args->root,
                                      .elem_count = (int)args->elem_count,
                                      .input = is_in_place(coll, args) ? NULL : args->input,
                                      .output = args->output};

    return call;
}

/* *out_skip: it is reported done and never runs. */
static ddp_status pass_point(const struct ddp_mpi_coll *coll, enum ddp_fault_point point,
                             const struct ddp_coll_work *work, bool *out_skip)
{
    struct ddp_fault_context context = DDP_FAULT_CONTEXT_NONE;
    enum ddp_fault_action action;

    context.bucket = work->args.role == DDP_ROLE_BUCKET ? (int32_t)work->args.index : -1;
    context.seq = work->seq;
    action = ddp_fault_point(coll->base.env->faults, point, &context);
    *out_skip = action == DDP_FAULT_SKIP;
    return action == DDP_FAULT_FAIL ? DDP_E_INJECTED : DDP_OK;
}

/* An error of MPI's: the group ends with it once nobody's death or revocation explains it. */
static ddp_status suspect(struct ddp_mpi_coll *coll, int result, const char *what)
{
    coll->suspected_ns = ddp_clock_now_ns(coll->base.env->clock);
    return ddp_mpi_err(coll->library, result, what, &coll->err);
}

/* OK: it is over already. */
static ddp_status start(struct ddp_mpi_coll *coll, struct ddp_coll_work *work)
{
    const struct ddp_coll_args *args = &work->args;
    const struct ddp_mpi_call call = call_of(coll, args);
    struct ddp_mpi_job *job = job_of(work);
    bool is_skipped;
    int result;

    if (args->kind != DDP_COLL_BARRIER && args->elem_count == 0) {
        return DDP_OK;
    }
    DDP_TRY(pass_point(coll, DDP_FAULT_POINT_COLLECTIVE_LAUNCH, work, &is_skipped));
    if (is_skipped) {
        return DDP_OK;
    }
    if (args->kind == DDP_COLL_BROADCAST && args->root == coll->base.member && call.input != NULL) {
        memcpy(args->output, args->input, args->elem_count * ddp_dtype_size_bytes(args->dtype));
    }
    ddp_recorder_wait_peer(coll->base.env->recorder, -1); /* MPI does not say for whom */
    result = coll->module->start(&coll->comm, &call, &job->request);
    if (result != 0) {
        return suspect(coll, result, "MPI's start of a collective");
    }
    job->phase = DDP_MPI_RUNNING;
    return DDP_PENDING;
}

/* What this member is still to do for the others' earlier works is done in calls to MPI only. */
static ddp_status progress(struct ddp_mpi_coll *coll)
{
    int result = coll->module->progress(&coll->comm);

    return result == 0 ? DDP_PENDING : suspect(coll, result, "MPI_Iprobe");
}

static ddp_status run_head(struct ddp_mpi_coll *coll)
{
    struct ddp_coll_work *work = coll->head;
    struct ddp_mpi_job *job = job_of(work);
    bool is_done;
    int result;

    if (ddp_mpi_library_life(coll->library) != DDP_MPI_READY) {
        return DDP_E_STATE;
    }
    if (job->phase == DDP_MPI_AGREEING) {
        ddp_status status = coll->control.coll->ops->poll(coll->control.coll, &job->agreement);

        if (status != DDP_OK) {
            return status == DDP_PENDING ? progress(coll) : status;
        }
        job->phase = DDP_MPI_WAITING;
    }
    if (job->phase == DDP_MPI_WAITING) {
        ddp_status status = start(coll, work);

        if (status != DDP_PENDING) {
            return status;
        }
    }
    result = coll->module->test(&job->request, &is_done);
    if (result != 0) {
        return suspect(coll, result, "MPI_Test");
    }
    return is_done ? DDP_OK : DDP_PENDING;
}

static ddp_status move(struct ddp_mpi_coll *coll)
{
    while (coll->head != NULL && coll->suspected_ns == 0) {
        ddp_status status = run_head(coll);

        if (status == DDP_OK) {
            end_head(coll, DDP_OK);
        } else if (status != DDP_PENDING && coll->suspected_ns == 0) {
            return status;
        } else {
            break;
        }
    }
    if (coll->suspected_ns != 0 &&
        ddp_clock_now_ns(coll->base.env->clock) - coll->suspected_ns >= SUSPICION_NS) {
        return DDP_E_SYSTEM;
    }
    return ddp_control_look_for_death(&coll->control);
}

static void drive(struct ddp_mpi_coll *coll)
{
    ddp_status status = coll->failed;

    if (status == DDP_OK) {
        status = ddp_control_is_revoked(&coll->control) ? DDP_E_REVOKED : move(coll);
    }
    if (status < 0) {
        ddp_control_tell(&coll->control, status, coll->head != NULL ? coll->head->seq : 0);
        ddp_mpi_coll_fail(coll, status);
    }
}

static ddp_status check_args(const struct ddp_mpi_coll *coll, const struct ddp_coll_args *args)
{
    bool is_reduction = args->kind == DDP_COLL_ALL_REDUCE;

    if ((unsigned)args->kind >= DDP_COLL_KIND_COUNT || (unsigned)args->dtype >= DDP_DTYPE_COUNT ||
        (unsigned)args->redop >= DDP_REDOP_COUNT || args->root >= coll->base.member_count) {
        return DDP_E_INVALID;
    }
    if (is_reduction && (args->dtype == DDP_DTYPE_F16 || args->dtype == DDP_DTYPE_BF16)) {
        return DDP_E_UNSUPPORTED;
    }
    return args->elem_count <= INT32_MAX ? DDP_OK : DDP_E_UNSUPPORTED;
}

static ddp_status enqueue(struct ddp_mpi_coll *coll, struct ddp_coll_work *work)
{
    struct ddp_mpi_job *job = coll->free_jobs;

    if (job == NULL) {
        job = ddp_mem_array(coll->base.env->mem, 1, sizeof(*job));
        if (job == NULL) {
            return DDP_E_NOMEM;
        }
        job->next_owned = coll->jobs;
        coll->jobs = job;
        job->next_free = coll->free_jobs;
        coll->free_jobs = job;
    }
    job->phase = coll->is_checked ? DDP_MPI_AGREEING : DDP_MPI_WAITING;
    if (coll->is_checked) {
        DDP_TRY(ddp_control_agree(&coll->control, &job->agreement, work));
    }
    coll->free_jobs = job->next_free;
    work->engine = job;
    if (coll->tail != NULL) {
        coll->tail->next = work;
    } else {
        coll->head = work;
    }
    coll->tail = work;
    return DDP_OK;
}

static ddp_status mpi_post(struct ddp_coll *base, struct ddp_coll_work *work)
{
    struct ddp_mpi_coll *coll = (struct ddp_mpi_coll *)base;
    ddp_status injected;
    bool is_skipped;

    work->next = NULL;
    work->engine = NULL;
    injected = pass_point(coll, DDP_FAULT_POINT_COLLECTIVE_ENQUEUE, work, &is_skipped);
    if (is_skipped) {
        work->status = DDP_OK;
        return DDP_OK;
    }
    work->status = coll->failed != DDP_OK ? coll->failed : injected;
    if (work->status == DDP_OK) {
        work->status = check_args(coll, &work->args);
    }
    if (work->status == DDP_OK) {
        work->status = enqueue(coll, work);
    }
    if (work->status != DDP_OK) {
        return work->status;
    }
    work->status = DDP_PENDING;
    drive(coll);
    return DDP_OK;
}

static ddp_status mpi_poll(struct ddp_coll *base, struct ddp_coll_work *work)
{
    if (work->status == DDP_PENDING) {
        drive((struct ddp_mpi_coll *)base);
    }
    return work->status;
}

static void mpi_revoke(struct ddp_coll *base, const struct ddp_revocation *revocation)
{
    struct ddp_coll *control = ((struct ddp_mpi_coll *)base)->control.coll;

    control->ops->revoke(control, revocation);
}

static bool mpi_is_revoked(struct ddp_coll *base, struct ddp_revocation *out)
{
    struct ddp_coll *control = ((struct ddp_mpi_coll *)base)->control.coll;

    return control->ops->is_revoked(control, out);
}

static int32_t mpi_dead_rank(struct ddp_coll *base)
{
    return ddp_control_dead_rank(&((struct ddp_mpi_coll *)base)->control);
}

static void *mpi_alloc(struct ddp_coll *base, size_t size_bytes, enum ddp_space space)
{
    void *data = NULL;

    return base->device->ops->alloc(base->device, size_bytes, space, &data) == DDP_OK ? data : NULL;
}

static void mpi_free(struct ddp_coll *base, enum ddp_space space, void *data)
{
    base->device->ops->free(base->device, space, data);
}

static const char *mpi_last_error(struct ddp_coll *base)
{
    return ((struct ddp_mpi_coll *)base)->err.text;
}

/* What MPI does rings no bell: with neither doorbell nor descriptor, idling looks again soon
 * (idle.c). Only a wait for members' agreement can sleep on the control channel. */
static void mpi_hint(struct ddp_coll *base, struct ddp_idle_hint *hint)
{
    struct ddp_mpi_coll *coll = (struct ddp_mpi_coll *)base;

    hint->doorbell = NULL;
    hint->fd = -1;
    if (coll->failed == DDP_OK && coll->suspected_ns == 0 &&
        (coll->head == NULL || job_of(coll->head)->phase == DDP_MPI_AGREEING)) {
        coll->control.coll->ops->hint(coll->control.coll, hint);
    }
}

const struct ddp_coll_ops ddp_mpi_coll_ops = {
    .name = "mpi",
    .post = mpi_post,
    .poll = mpi_poll,
    .revoke = mpi_revoke,
    .is_revoked = mpi_is_revoked,
    .dead_rank = mpi_dead_rank,
    .alloc = mpi_alloc,
    .free = mpi_free,
    .last_error = mpi_last_error,
    .hint = mpi_hint,
    .destroy = ddp_mpi_coll_destroy,
};
