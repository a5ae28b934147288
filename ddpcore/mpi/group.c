/* Creating a group over MPI, and ending MPI in good order. */
#include "ddpcore/mpi/state.h"

/* MPI's start does not say which member is missing; the control channel does. */
static ddp_status poll_life(void *self)
{
    struct ddp_mpi_coll *coll = self;
    ddp_status status = ddp_mpi_library_poll(coll->library, &coll->queue.err);

    return status != DDP_PENDING ? status : ddp_queue_check_members(&coll->queue);
}

static ddp_status poll_joining(void *self)
{
    struct ddp_mpi_coll *coll = self;
    bool is_done;
    int result = coll->module->test(&coll->joining, &is_done);

    if (result != 0) {
        return ddp_mpi_err(coll->library, result, "MPI_Comm_idup", &coll->queue.err);
    }
    return is_done ? DDP_OK : ddp_queue_check_members(&coll->queue);
}

static ddp_status check_place(struct ddp_mpi_coll *coll)
{
    uint32_t rank, size;

    ddp_mpi_library_place(coll->library, &rank, &size);
    if (rank == coll->queue.base.member && size == coll->queue.base.member_count) {
        return DDP_OK;
    }
    return ddp_err_set(&coll->queue.err, DDP_E_STATE,
                       "MPI counts this process as %u of %u, the group as %u of %u: its ranks are "
                       "to be started by mpirun",
                       rank, size, coll->queue.base.member, coll->queue.base.member_count);
}

static ddp_status join(struct ddp_mpi_coll *coll, uint64_t timeout_ns)
{
    struct ddp_env *env = coll->queue.base.env;
    uint64_t deadline_ns = ddp_clock_deadline_ns(env->clock, timeout_ns);
    const struct ddp_pollable life = {poll_life, NULL, coll};
    const struct ddp_pollable joining = {poll_joining, NULL, coll};
    int result;

    if (ddp_mpi_library_begin(coll->library) != DDP_OK) {
        return ddp_err_set(&coll->queue.err, DDP_E_STATE, "MPI has ended, or was given up");
    }
    DDP_TRY(ddp_wait(env->idle, env->clock, &life, deadline_ns));
    DDP_TRY(check_place(coll));
    DDP_ASSERT(ddp_mpi_library_life(coll->library) == DDP_MPI_READY);
    result = coll->module->comm_start(&coll->comm, &coll->joining);
    if (result != 0) {
        return ddp_mpi_err(coll->library, result, "MPI_Comm_idup", &coll->queue.err);
    }
    return ddp_wait(env->idle, env->clock, &joining, deadline_ns);
}

ddp_status ddp_coll_mpi_create(struct ddp_env *env, struct ddp_transport *transport,
                               struct ddp_device *device, const struct ddp_coll_mpi_config *config,
                               struct ddp_coll **out, struct ddp_err *err)
{
    struct ddp_mpi_coll *coll = NULL;
    ddp_status status;

    if (!device->ops->is_host_memory) {
        ddp_coll_give_up(env, transport, DDP_E_UNSUPPORTED);
        return ddp_err_set(err, DDP_E_UNSUPPORTED, "MPI needs a device in host memory, not %s",
                           device->ops->name);
    }
    coll = ddp_mem_array(env->mem, 1, sizeof(*coll));
    if (coll == NULL || ddp_queue_init(&coll->queue, &ddp_mpi_engine, env, device, transport,
                                       config->comm, config->member_rank) != DDP_OK) {
        ddp_coll_give_up(env, transport, DDP_E_NOMEM);
        ddp_mem_free(env->mem, coll);
        return ddp_err_set(err, DDP_E_NOMEM, "no memory for a collective");
    }
    coll->library = config->library;
    coll->module = ddp_mpi_library_module(config->library);
    status = ddp_control_open(&coll->control, &coll->queue, config->is_checked,
                              sizeof(struct ddp_mpi_job), &coll->queue.err);
    if (status == DDP_OK) {
        status = join(coll, config->init_timeout_ns);
    }
    if (status == DDP_OK) {
        *out = &coll->queue.base;
        return DDP_OK;
    }
    (void)ddp_err_set(err, status, "MPI group: %s",
                      coll->queue.err.text[0] != '\0' ? coll->queue.err.text
                                                      : ddp_status_text(status));
    if (coll->queue.transport != NULL) {
        ddp_queue_announce(&coll->queue, status, 0);
    }
    ddp_mpi_library_give_up(coll->library);
    coll->queue.base.ops->destroy(&coll->queue.base);
    return status;
}

ddp_status ddp_coll_mpi_finish(struct ddp_coll *base, uint64_t timeout_ns)
{
    struct ddp_queue *queue = ddp_queue_of(base, &ddp_mpi_engine);
    struct ddp_mpi_coll *coll = (struct ddp_mpi_coll *)queue;
    struct ddp_env *env = base->env;
    const struct ddp_pollable life = {poll_life, NULL, coll};
    ddp_status status;

    if (queue->failed != DDP_OK || coll->is_lost || queue->head != NULL) {
        return DDP_E_STATE;
    }
    DDP_TRY(ddp_mpi_library_end(coll->library));
    status = ddp_wait(env->idle, env->clock, &life, ddp_clock_deadline_ns(env->clock, timeout_ns));
    if (status != DDP_OK) {
        ddp_queue_fail(queue, status);
    }
    return status;
}
