/* The plan's device and the plan's collective on it. On a GPU the device stands behind its
 * observer, which lets faults in and records what orders the streams, and the rank's progress words
 * are mapped so that the device itself says how far it is. */
#include "harness/rank/session.h"

static ddp_status create_device(const struct harness_session *session, bool is_cuda,
                                struct ddp_device **out)
{
    return is_cuda ? ddp_err_set(session->err, DDP_E_UNSUPPORTED, "there is no CUDA device yet")
                   : ddp_device_cpu_create(session->env->mem, out);
}

/* The words lie beside the rank's page. A simulated device has no say in them. */
static ddp_status map_progress(struct harness_session *session)
{
    struct ddp_progress *progress = ddp_recorder_progress(session->env->recorder);

    if (progress == NULL) {
        return DDP_OK;
    }
    DDP_TRY(session->device->ops->map(session->device, progress, DDP_PROGRESS_SIZE_BYTES));
    ddp_progress_set_mapped(progress, true);
    session->progress = progress;
    return DDP_OK;
}

ddp_status harness_session_open_device(struct harness_session *session)
{
    bool is_cuda = harness_plan_is_cuda(session->plan);
    struct ddp_env *env = session->env;

    DDP_TRY(create_device(session, is_cuda, &session->device));
    DDP_TRY(ddp_transfer_init(&session->transfer, session->device, env->idle, env->clock,
                              session->plan->job.timeout_ns));
    return is_cuda ? map_progress(session) : DDP_OK;
}

void harness_session_close_device(struct harness_session *session)
{
    if (session->device == NULL) {
        return;
    }
    ddp_transfer_fini(&session->transfer);
    if (session->progress != NULL) {
        ddp_progress_set_mapped(session->progress, false);
        session->device->ops->unmap(session->device, session->progress);
    }
    session->device->ops->destroy(session->device);
}

ddp_status harness_session_mark(struct harness_session *session, enum ddp_mark mark, uint64_t index)
{
    struct ddp_device *device = session->device;
    uint64_t *reached;
    uint64_t word;

    if (session->progress == NULL) {
        return DDP_OK;
    }
    reached = &session->progress->stream[DDP_PROGRESS_COMPUTE].reached;
    word = ddp_progress_next(session->progress, DDP_PROGRESS_COMPUTE, mark, index);
    return device->ops->store_word(device, NULL, reached, word);
}

static ddp_status create_schedules(struct harness_session *session, bool is_strict,
                                   struct ddp_transport *transport, struct ddp_coll **out)
{
    struct ddp_coll_schedule_config config = {.algorithm = session->plan->job.collective,
                                              .is_checked = is_strict};
    ddp_status status;

    config.observer = session->options->run_dir != NULL ? &session->dump.observer : NULL;
    status = ddp_coll_schedule_create(session->env, transport, session->device, &config, out,
                                      session->err);
    if (status != DDP_OK) {
        transport->ops->destroy(transport);
    }
    return status;
}

/* The collective, then payload capture, then the observer: it sees what was really posted. */
ddp_status harness_session_open_collective(struct harness_session *session, bool is_strict,
                                           struct ddp_transport *transport, struct ddp_coll **out)
{
    const struct harness_rank_options *options = session->options;
    struct ddp_coll *coll, *outer;
    ddp_status status;

    if (options->run_dir != NULL) {
        harness_schedule_dump_init(&session->dump, session->env, options->run_dir);
    }
    DDP_TRY(create_schedules(session, is_strict, transport, &coll));
    if (options->payload_step >= 0 && options->run_dir != NULL) {
        status =
            harness_payload_create(coll, options->run_dir, (uint32_t)options->payload_step, &outer);
        if (status != DDP_OK) {
            coll->ops->destroy(coll);
            return status;
        }
        coll = outer;
    }
    status = ddp_coll_observer_create(coll, options->is_hashing, &outer);
    if (status != DDP_OK) {
        coll->ops->destroy(coll);
        return status;
    }
    *out = outer;
    return DDP_OK;
}
