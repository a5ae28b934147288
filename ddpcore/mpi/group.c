/* How a group over MPI begins and ends. */
#include "ddpcore/mpi/state.h"

void ddp_mpi_coll_destroy(struct ddp_coll *base)
{
    struct ddp_mpi_coll *coll = (struct ddp_mpi_coll *)base;

    if (coll->head != NULL) {
        ddp_mpi_coll_fail(coll, DDP_E_STATE);
    }
    ddp_control_close(&coll->control);
    while (coll->jobs != NULL) {
        struct ddp_mpi_job *gone = coll->jobs;

        coll->jobs = gone->next_owned;
        ddp_mem_free(base->env->mem, gone);
    }
    ddp_mem_free(base->env->mem, coll);
}

/* MPI's life, and this group's communicator: neither says who is missing. */
static ddp_status poll_life(void *self)
{
    struct ddp_mpi_coll *coll = self;
    ddp_status status = ddp_mpi_library_poll(coll->library, &coll->err);

    return status != DDP_PENDING ? status : ddp_control_look_at_members(&coll->control);
}

static ddp_status poll_joining(void *self)
{
    struct ddp_mpi_coll *coll = self;
    bool is_done;
    int result = coll->module->test(&coll->joining, &is_done);

    if (result != 0) {
        return ddp_mpi_err(coll->library, result, "MPI_Comm_idup", &coll->err);
    }
    return is_done ? DDP_OK : ddp_control_look_at_members(&coll->control);
}

static ddp_status check_place(struct ddp_mpi_coll *coll)
{
    uint32_t rank, size;

    ddp_mpi_library_place(coll->library, &rank, &size);
    if (rank == coll->base.member && size == coll->base.member_count) {
        return DDP_OK;
    }
    return ddp_err_set(&coll->err, DDP_E_STATE,
                       "MPI counts this process as %u of %u, the group as %u of %u: its ranks are "
                       "to be started by mpirun",
                       rank, size, coll->base.member, coll->base.member_count);
}

static ddp_status join(struct ddp_mpi_coll *coll, uint64_t timeout_ns)
{
    struct ddp_env *env = coll->base.env;
    uint64_t deadline_ns = ddp_clock_deadline_ns(env->clock, timeout_ns);
    const struct ddp_pollable life = {poll_life, NULL, coll};
    const struct ddp_pollable joining = {poll_joining, NULL, coll};
    int result;

    if (ddp_mpi_library_begin(coll->library) != DDP_OK) {
        return ddp_err_set(&coll->err, DDP_E_STATE, "MPI has ended, or was given up");
    }
    DDP_TRY(ddp_wait(env->idle, env->clock, &life, deadline_ns));
    DDP_TRY(check_place(coll));
    result = coll->module->comm_start(&coll->comm, &coll->joining);
    if (result != 0) {
        return ddp_mpi_err(coll->library, result, "MPI_Comm_idup", &coll->err);
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
        transport->ops->destroy(transport);
        return ddp_err_set(err, DDP_E_UNSUPPORTED, "MPI needs a device in host memory, not %s",
                           device->ops->name);
    }
    coll = ddp_mem_array(env->mem, 1, sizeof(*coll));
    if (coll == NULL) {
        transport->ops->destroy(transport);
        return ddp_err_set(err, DDP_E_NOMEM, "no memory for a collective");
    }
    coll->base = (struct ddp_coll){.ops = &ddp_mpi_coll_ops,
                                   .env = env,
                                   .device = device,
                                   .comm = config->comm,
                                   .member = transport->member,
                                   .member_count = transport->member_count};
    coll->library = config->library;
    coll->module = ddp_mpi_library_module(config->library);
    coll->is_checked = config->is_checked;
    status = ddp_control_open(&coll->control, env, transport, config->comm, config->member_rank,
                              &coll->err);
    if (status != DDP_OK) {
        transport->ops->destroy(transport);
    } else {
        status = join(coll, config->init_timeout_ns);
    }
    if (status == DDP_OK) {
        *out = &coll->base;
        return DDP_OK;
    }
    (void)ddp_err_set(err, status, "MPI group: %s",
                      coll->err.text[0] != '\0' ? coll->err.text : ddp_status_text(status));
    if (coll->control.coll != NULL) {
        ddp_control_tell(&coll->control, status, 0);
    }
    ddp_mpi_library_give_up(coll->library);
    ddp_mpi_coll_destroy(&coll->base);
    return status;
}

ddp_status ddp_coll_mpi_finish(struct ddp_coll *base, uint64_t timeout_ns)
{
    struct ddp_mpi_coll *coll = (struct ddp_mpi_coll *)base;
    struct ddp_env *env = base->env;
    const struct ddp_pollable life = {poll_life, NULL, coll};
    ddp_status status;

    DDP_ASSERT(base->ops == &ddp_mpi_coll_ops);
    if (coll->failed != DDP_OK || coll->suspected_ns != 0 || coll->head != NULL) {
        return DDP_E_STATE;
    }
    DDP_TRY(ddp_mpi_library_end(coll->library));
    status = ddp_wait(env->idle, env->clock, &life, ddp_clock_deadline_ns(env->clock, timeout_ns));
    if (status != DDP_OK) {
        ddp_mpi_coll_fail(coll, status);
    }
    return status;
}
