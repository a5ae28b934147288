/* See the header. The communicator's memory comes from the process heap, because a thread that
 * hangs in NCCL may outlive the rank's own memory. */
#include "ddpcore/nccl/comm.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>

enum task_state {
    TASK_IDLE,
    TASK_RUNNING,
    TASK_DONE,
    TASK_LEFT /* the owner is gone: the thread frees the communicator */
};

struct ddp_nccl_comm {
    const struct ddp_nccl_library *library;
    struct ddp_clock *clock;
    struct ddp_nccl_comm_handle *handle;
    enum ddp_nccl_comm_state state;
    uint64_t end_timeout_ns;
    uint64_t deadline_ns; /* of the present state */
    bool is_abort_next;   /* once revoked, or once the call that shrinks has returned */
    bool has_hung;
    ddp_status failed;
    struct ddp_err err;

    pthread_t thread;
    struct ddp_device_thread device; /* for threads */
    atomic_int task;                 /* enum task_state */
    int (*task_call)(struct ddp_nccl_comm *comm);
    int task_result;
    struct ddp_nccl_comm_handle *child; /* of a shrink; NCCL writes it from a thread of its own */
    int *excluded;                      /* NCCL sorts it */
    int excluded_count;
    /* The functions that threads call, so that they need no library once they are left behind. */
    struct ddp_nccl_calls calls;
};

/* A child that could not connect may be aborted only after its parent. */
static int call_abort(struct ddp_nccl_comm *comm)
{
    int result = comm->calls.abort(comm->handle);

    return comm->child == NULL ? result : comm->calls.abort(comm->child);
}

static int call_shrink(struct ddp_nccl_comm *comm)
{
    return comm->calls.shrink(comm->handle, comm->excluded, comm->excluded_count, &comm->child,
                              NULL, DDP_NCCL_SHRINK_ABORT);
}

static int call_destroy(struct ddp_nccl_comm *comm)
{
    return comm->calls.destroy(comm->handle);
}

static int call_revoke(struct ddp_nccl_comm *comm)
{
    return comm->calls.revoke(comm->handle, 0);
}

static void free_comm(struct ddp_nccl_comm *comm)
{
    ddp_mem_free(ddp_mem_system(), comm->excluded);
    ddp_mem_free(ddp_mem_system(), comm);
}

static void *run_task(void *context)
{
    struct ddp_nccl_comm *comm = context;

    if (comm->device.enter != NULL) {
        comm->device.enter(comm->device.number);
    }
    comm->task_result = comm->task_call(comm);
    if (atomic_exchange(&comm->task, TASK_DONE) == TASK_LEFT) {
        free_comm(comm);
    }
    return NULL;
}

static uint64_t end_deadline_ns(const struct ddp_nccl_comm *comm)
{
    return ddp_clock_deadline_ns(comm->clock, comm->end_timeout_ns);
}

static bool is_late(const struct ddp_nccl_comm *comm)
{
    return comm->deadline_ns != DDP_DEADLINE_NEVER &&
           ddp_clock_now_ns(comm->clock) >= comm->deadline_ns;
}

#define TO(state) (1u << DDP_NCCL_COMM_##state)

/* The transitions in the header, and those to GONE where a thread stays in NCCL or cannot be
 * started. */
static const uint32_t next_states[] = {
    [DDP_NCCL_COMM_CONNECTING] = TO(READY) | TO(FAILED) | TO(ABORTING),
    [DDP_NCCL_COMM_READY] =
        TO(BUSY) | TO(FAILED) | TO(FINALIZING) | TO(REVOKING) | TO(SHRINKING) | TO(ABORTING),
    [DDP_NCCL_COMM_BUSY] = TO(READY) | TO(FAILED) | TO(REVOKING) | TO(ABORTING),
    [DDP_NCCL_COMM_FAILED] = TO(ABORTING),
    [DDP_NCCL_COMM_FINALIZING] = TO(DESTROYING) | TO(ABORTING),
    [DDP_NCCL_COMM_REVOKING] = TO(REVOKED) | TO(FAILED) | TO(ABORTING) | TO(GONE),
    [DDP_NCCL_COMM_REVOKED] = TO(SHRINKING) | TO(FAILED) | TO(ABORTING),
    [DDP_NCCL_COMM_SHRINKING] = TO(SHRUNK) | TO(FAILED) | TO(ABORTING) | TO(GONE),
    [DDP_NCCL_COMM_SHRUNK] = TO(ABORTING),
    [DDP_NCCL_COMM_ABORTING] = TO(GONE),
    [DDP_NCCL_COMM_DESTROYING] = TO(GONE),
    [DDP_NCCL_COMM_GONE] = 0};

static void change_state(struct ddp_nccl_comm *comm, enum ddp_nccl_comm_state state)
{
    DDP_ASSERT(comm->state == state || (next_states[comm->state] & (1u << state)) != 0);
    comm->state = state;
}

/* If no thread can be started, the call would block this one, so the handle is given up as if the
 * call had hung. */
static void start_task(struct ddp_nccl_comm *comm, enum ddp_nccl_comm_state state,
                       int (*call)(struct ddp_nccl_comm *comm))
{
    sigset_t all;
    sigset_t before;
    int result;

    DDP_ASSERT(atomic_load(&comm->task) == TASK_IDLE);
    change_state(comm, state);
    comm->deadline_ns = end_deadline_ns(comm);
    comm->task_call = call;
    atomic_store(&comm->task, TASK_RUNNING);
    /* Signals are for the rank's own thread. */
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    result = pthread_create(&comm->thread, NULL, run_task, comm);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (result != 0) {
        atomic_store(&comm->task, TASK_IDLE);
        change_state(comm, DDP_NCCL_COMM_GONE);
        comm->has_hung = true;
    }
}

/* PENDING, OK (joined; the result is in task_result), or E_TIMEOUT: GONE, the thread stays. */
static ddp_status poll_task(struct ddp_nccl_comm *comm)
{
    DDP_ASSERT(atomic_load(&comm->task) != TASK_IDLE);
    if (atomic_load(&comm->task) == TASK_DONE) {
        (void)pthread_join(comm->thread, NULL);
        atomic_store(&comm->task, TASK_IDLE);
        return DDP_OK;
    }
    if (!is_late(comm)) {
        return DDP_PENDING;
    }
    comm->has_hung = true;
    change_state(comm, DDP_NCCL_COMM_GONE);
    return DDP_E_TIMEOUT;
}

static ddp_status fail(struct ddp_nccl_comm *comm, ddp_status status)
{
    DDP_ASSERT(status < DDP_OK && comm->failed == DDP_OK);
    change_state(comm, DDP_NCCL_COMM_FAILED);
    comm->failed = status;
    return status;
}

ddp_status ddp_nccl_comm_fail(struct ddp_nccl_comm *comm, int result, const char *what)
{
    if (comm->failed != DDP_OK) {
        return comm->failed;
    }
    return fail(comm, ddp_nccl_err(comm->library, result, what, &comm->err));
}

ddp_status ddp_nccl_comm_create(const struct ddp_nccl_comm_config *config,
                                struct ddp_nccl_comm **out, struct ddp_err *err)
{
    struct ddp_nccl_comm *comm = ddp_mem_array(ddp_mem_system(), 1, sizeof(*comm));
    struct ddp_nccl_config nccl = {.size = sizeof(nccl),
                                   .magic = DDP_NCCL_CONFIG_MAGIC,
                                   .version = DDP_NCCL_CONFIG_VERSION,
                                   .blocking = 0};
    ddp_status status;
    int result;

    if (comm == NULL) {
        return ddp_err_set(err, DDP_E_NOMEM, "no memory for a communicator");
    }
    DDP_ASSERT(config->end_timeout_ns > 0);
    DDP_ASSERT(config->member < config->member_count);
    comm->library = config->library;
    comm->calls = config->library->calls;
    comm->clock = config->clock;
    comm->device = config->thread;
    comm->end_timeout_ns = config->end_timeout_ns;
    comm->deadline_ns = ddp_clock_deadline_ns(config->clock, config->init_timeout_ns);
    comm->state = DDP_NCCL_COMM_CONNECTING;
    result = comm->calls.init(&comm->handle, (int)config->member_count, config->id,
                              (int)config->member, &nccl);
    if (comm->handle == NULL && (result == DDP_NCCL_SUCCESS || result == DDP_NCCL_IN_PROGRESS)) {
        result = DDP_NCCL_INTERNAL_ERROR;
    }
    if (result == DDP_NCCL_SUCCESS || result == DDP_NCCL_IN_PROGRESS) {
        *out = comm;
        return DDP_OK;
    }
    status = ddp_nccl_err(config->library, result, "ncclCommInitRankConfig", err);
    if (comm->handle != NULL) {
        /* It has a handle, so something must be freed: let the caller abort it. */
        (void)ddp_nccl_comm_fail(comm, result, "ncclCommInitRankConfig");
        *out = comm;
        return DDP_OK;
    }
    ddp_mem_free(ddp_mem_system(), comm);
    return status;
}

enum ddp_nccl_comm_state ddp_nccl_comm_state(const struct ddp_nccl_comm *comm)
{
    return comm->state;
}

const char *ddp_nccl_comm_error(const struct ddp_nccl_comm *comm)
{
    return comm->err.text;
}

/* What NCCL says about itself now. */
static int async_result(const struct ddp_nccl_comm *comm)
{
    int result = DDP_NCCL_SUCCESS;
    int asked;

    DDP_ASSERT(comm->handle != NULL && comm->state != DDP_NCCL_COMM_GONE);
    asked = comm->calls.get_async_error(comm->handle, &result);
    return asked == DDP_NCCL_SUCCESS ? result : asked;
}

static ddp_status poll_life(struct ddp_nccl_comm *comm)
{
    int result = async_result(comm);

    if (result == DDP_NCCL_SUCCESS) {
        change_state(comm, DDP_NCCL_COMM_READY);
        return DDP_OK;
    }
    if (result != DDP_NCCL_IN_PROGRESS) {
        return ddp_nccl_comm_fail(comm, result,
                                  comm->state == DDP_NCCL_COMM_CONNECTING ? "while connecting"
                                                                          : "in the background");
    }
    if (comm->state == DDP_NCCL_COMM_CONNECTING && is_late(comm)) {
        return fail(
            comm, ddp_err_set(&comm->err, DDP_E_TIMEOUT, "not all members have connected in time"));
    }
    return DDP_PENDING;
}

static void abort_now(struct ddp_nccl_comm *comm)
{
    start_task(comm, DDP_NCCL_COMM_ABORTING, call_abort);
}

static void poll_finalizing(struct ddp_nccl_comm *comm)
{
    int result = async_result(comm);

    if (result == DDP_NCCL_SUCCESS) {
        start_task(comm, DDP_NCCL_COMM_DESTROYING, call_destroy);
    } else if (result != DDP_NCCL_IN_PROGRESS || is_late(comm)) {
        abort_now(comm);
    }
}

/* Done when the call has returned and NCCL no longer says "in progress". What it says instead may
 * be the error for which it was revoked, so any other answer counts. */
static ddp_status poll_revoking(struct ddp_nccl_comm *comm)
{
    bool is_moving;

    if (atomic_load(&comm->task) != TASK_IDLE) {
        DDP_TRY(poll_task(comm));
    }
    is_moving =
        (comm->task_result == DDP_NCCL_SUCCESS || comm->task_result == DDP_NCCL_IN_PROGRESS) &&
        async_result(comm) == DDP_NCCL_IN_PROGRESS;
    if (is_moving && !is_late(comm)) {
        return DDP_PENDING;
    }
    if (comm->is_abort_next) {
        abort_now(comm);
        return DDP_PENDING;
    }
    if (is_moving) { /* kernels may still run */
        return fail(comm, ddp_err_set(&comm->err, DDP_E_TIMEOUT,
                                      "ncclCommRevoke has not come to rest in time"));
    }
    change_state(comm, DDP_NCCL_COMM_REVOKED);
    return DDP_OK;
}

/* The parent's state is in progress until its child is complete. */
static ddp_status poll_shrinking(struct ddp_nccl_comm *comm)
{
    int result;

    if (atomic_load(&comm->task) != TASK_IDLE) {
        DDP_TRY(poll_task(comm));
    }
    if (comm->is_abort_next) {
        abort_now(comm);
        return DDP_PENDING;
    }
    result = comm->task_result;
    if (result == DDP_NCCL_SUCCESS || result == DDP_NCCL_IN_PROGRESS) {
        result = async_result(comm);
    }
    if (result == DDP_NCCL_IN_PROGRESS) {
        return !is_late(comm) ? DDP_PENDING
                              : fail(comm, ddp_err_set(&comm->err, DDP_E_TIMEOUT,
                                                       "not all members that are left have "
                                                       "connected in time"));
    }
    if (result != DDP_NCCL_SUCCESS || comm->child == NULL) {
        return ddp_nccl_comm_fail(
            comm, result != DDP_NCCL_SUCCESS ? result : DDP_NCCL_INTERNAL_ERROR, "ncclCommShrink");
    }
    change_state(comm, DDP_NCCL_COMM_SHRUNK);
    return DDP_OK;
}

ddp_status ddp_nccl_comm_poll(struct ddp_nccl_comm *comm)
{
    switch (comm->state) {
    case DDP_NCCL_COMM_CONNECTING:
    case DDP_NCCL_COMM_READY:
    case DDP_NCCL_COMM_BUSY:
        return poll_life(comm);
    case DDP_NCCL_COMM_FINALIZING:
        poll_finalizing(comm);
        break;
    case DDP_NCCL_COMM_REVOKING:
        return poll_revoking(comm);
    case DDP_NCCL_COMM_ABORTING:
    case DDP_NCCL_COMM_DESTROYING:
        if (poll_task(comm) == DDP_OK) {
            change_state(comm, DDP_NCCL_COMM_GONE);
        }
        break;
    case DDP_NCCL_COMM_SHRINKING:
        return poll_shrinking(comm);
    case DDP_NCCL_COMM_FAILED:
        return comm->failed;
    case DDP_NCCL_COMM_REVOKED:
    case DDP_NCCL_COMM_SHRUNK:
    case DDP_NCCL_COMM_GONE:
        break;
    }
    if (comm->state == DDP_NCCL_COMM_REVOKED || comm->state == DDP_NCCL_COMM_SHRUNK) {
        return DDP_OK;
    }
    if (comm->state != DDP_NCCL_COMM_GONE) {
        return DDP_PENDING;
    }
    return comm->has_hung ? DDP_E_TIMEOUT : DDP_OK;
}

struct ddp_nccl_comm_handle *ddp_nccl_comm_begin(struct ddp_nccl_comm *comm)
{
    DDP_ASSERT(comm->state == DDP_NCCL_COMM_READY);
    return comm->handle;
}

ddp_status ddp_nccl_comm_started(struct ddp_nccl_comm *comm, int result, const char *what)
{
    DDP_ASSERT(comm->state == DDP_NCCL_COMM_READY);
    if (result != DDP_NCCL_SUCCESS && result != DDP_NCCL_IN_PROGRESS) {
        return ddp_nccl_comm_fail(comm, result, what);
    }
    change_state(comm, DDP_NCCL_COMM_BUSY);
    return DDP_OK;
}

void ddp_nccl_comm_finalize(struct ddp_nccl_comm *comm)
{
    int result;

    DDP_ASSERT(comm->state == DDP_NCCL_COMM_READY);
    change_state(comm, DDP_NCCL_COMM_FINALIZING);
    comm->deadline_ns = end_deadline_ns(comm);
    result = comm->calls.finalize(comm->handle);
    if (result != DDP_NCCL_SUCCESS && result != DDP_NCCL_IN_PROGRESS) {
        abort_now(comm);
    }
}

bool ddp_nccl_comm_revoke(struct ddp_nccl_comm *comm)
{
    if (comm->calls.revoke == NULL ||
        (comm->state != DDP_NCCL_COMM_READY && comm->state != DDP_NCCL_COMM_BUSY)) {
        return false;
    }
    start_task(comm, DDP_NCCL_COMM_REVOKING, call_revoke);
    return true;
}

void ddp_nccl_comm_shrink(struct ddp_nccl_comm *comm, const uint32_t *excluded,
                          uint32_t excluded_count, uint64_t timeout_ns)
{
    DDP_ASSERT(comm->state == DDP_NCCL_COMM_READY || comm->state == DDP_NCCL_COMM_REVOKED);
    DDP_ASSERT(comm->calls.shrink != NULL && comm->excluded == NULL);
    DDP_ASSERT(excluded_count > 0);
    comm->excluded = ddp_mem_array(ddp_mem_system(), excluded_count, sizeof(*comm->excluded));
    if (comm->excluded == NULL) {
        (void)fail(comm, ddp_err_set(&comm->err, DDP_E_NOMEM, "no memory to shrink a group"));
        return;
    }
    for (uint32_t i = 0; i < excluded_count; i++) {
        comm->excluded[i] = (int)excluded[i];
    }
    comm->excluded_count = (int)excluded_count;
    start_task(comm, DDP_NCCL_COMM_SHRINKING, call_shrink);
    comm->deadline_ns = ddp_clock_deadline_ns(comm->clock, timeout_ns);
}

ddp_status ddp_nccl_comm_take_child(struct ddp_nccl_comm *comm, struct ddp_nccl_comm **out)
{
    struct ddp_nccl_comm *child = ddp_mem_array(ddp_mem_system(), 1, sizeof(*child));

    DDP_ASSERT(comm->state == DDP_NCCL_COMM_SHRUNK && comm->child != NULL);
    if (child == NULL) {
        return DDP_E_NOMEM;
    }
    child->library = comm->library;
    child->calls = comm->calls;
    child->clock = comm->clock;
    child->device = comm->device;
    child->end_timeout_ns = comm->end_timeout_ns;
    child->handle = comm->child;
    child->state = DDP_NCCL_COMM_READY;
    comm->child = NULL;
    *out = child;
    return DDP_OK;
}

void ddp_nccl_comm_abort(struct ddp_nccl_comm *comm)
{
    switch (comm->state) {
    case DDP_NCCL_COMM_ABORTING:
    case DDP_NCCL_COMM_DESTROYING:
    case DDP_NCCL_COMM_GONE:
        return;
    case DDP_NCCL_COMM_REVOKING:
        comm->is_abort_next = true;
        return;
    case DDP_NCCL_COMM_SHRINKING:
        comm->is_abort_next = true;
        comm->deadline_ns = end_deadline_ns(comm);
        return;
    default:
        /* Never revoke first: abort stops what runs just as well, and after a revocation that
         * failed half-way (an error of the device) it would wait for NCCL's proxy for ever. */
        abort_now(comm);
    }
}

void ddp_nccl_comm_destroy(struct ddp_nccl_comm *comm)
{
    int running = TASK_RUNNING;

    DDP_ASSERT(comm->state == DDP_NCCL_COMM_GONE);
    if (atomic_load(&comm->task) == TASK_IDLE) {
        free_comm(comm);
        return;
    }
    (void)pthread_detach(comm->thread);
    if (!atomic_compare_exchange_strong(&comm->task, &running, TASK_LEFT)) {
        free_comm(comm);
    }
}
