/* The plan's device and the plan's collective on it. On a GPU the device stands behind its
 * observer, which lets faults in and records what orders the streams, and the rank's progress words
 * are mapped so that the device itself says how far it is. */
#include <string.h>

#include "ddpcore/cuda/cuda.h"
#include "ddpcore/device/observer.h"
#include "ddpcore/nccl/nccl.h"
#include "harness/plan/posted.h"
#include "harness/plan/program.h"
#include "harness/rank/probe.h"
#include "harness/rank/session.h"

static ddp_status create_device(const struct harness_session *session, bool is_cuda,
                                struct ddp_device **out)
{
    const struct ddp_device_cuda_config config = {.ordinal = (int32_t)session->options->card,
                                                  .cublas_path = session->options->cublas_path,
                                                  .is_fast = session->options->is_fast};

    return is_cuda ? ddp_device_cuda_create(session->env->mem, &config, out, session->err)
                   : ddp_device_cpu_create(session->env->mem, out);
}

static bool is_armed(const struct ddp_env *env, enum ddp_fault_point point)
{
    return env->faults != NULL && (env->faults->armed >> point & 1u) != 0;
}

/* The words lie beside the rank's page. Only a GPU writes them: in a run on the CPU, and in the
 * simulator, they stay unmapped. */
static ddp_status map_progress(struct harness_session *session)
{
    struct ddp_progress *progress = ddp_recorder_progress(session->env->recorder);

    if (progress == NULL) {
        return DDP_OK;
    }
    DDP_TRY(session->device->ops->map(session->device, progress, DDP_PROGRESS_SIZE_BYTES));
    ddp_progress_set_mapped(progress, true);
    session->device->hints->set_progress(session->device, progress);
    session->progress = progress;
    return DDP_OK;
}

static ddp_status observe(struct harness_session *session, bool is_cuda)
{
    struct ddp_env *env = session->env;
    struct ddp_device *inner = session->device;

    if (!is_cuda && !is_armed(env, DDP_FAULT_POINT_DEVICE_ALLOC) &&
        !is_armed(env, DDP_FAULT_POINT_DEVICE_EVENT_WAIT)) {
        return DDP_OK;
    }
    return ddp_device_observer_create(inner, env, is_cuda && session->options->is_hashing,
                                      &session->device);
}

ddp_status harness_session_open_device(struct harness_session *session)
{
    bool is_cuda = harness_plan_is_cuda(session->plan);
    struct ddp_env *env = session->env;

    DDP_TRY(create_device(session, is_cuda, &session->device));
    session->card = is_cuda ? session->device : NULL;
    DDP_TRY(observe(session, is_cuda));
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
        session->device->hints->set_progress(session->device, NULL);
        ddp_progress_set_mapped(session->progress, false);
    }
    /* Unmapped only now, after the device's end: unmapping earlier would wait for a kernel that is
     * stuck. */
    session->device->ops->destroy(session->device);
    harness_opaque_mover_close(&session->opaque, false);
    ddp_nccl_library_close(session->nccl);
    ddp_mpi_library_close(session->mpi);
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

/* Takes over transport, also on failure. */
static ddp_status create_nccl(struct harness_session *session, bool is_strict,
                              struct ddp_transport *transport, struct ddp_coll **out)
{
    const struct harness_job *job = &session->plan->job;
    struct ddp_coll_nccl_config config = {.store = session->store,
                                          .name = "world",
                                          .is_checked = is_strict,
                                          .init_timeout_ns = job->timeout_ns,
                                          .algorithm = job->collective.algorithm,
                                          .progress = session->progress};
    ddp_status status = ddp_nccl_library_open(session->env->mem, session->options->nccl_path,
                                              &session->nccl, session->err);

    if (status != DDP_OK) {
        ddp_coll_give_up(session->env, transport, status);
        return status;
    }
    config.library = session->nccl;
    config.observer = session->options->run_dir != NULL ? &session->dump.observer : NULL;
    return ddp_coll_nccl_create(session->env, transport, session->device, &config, out,
                                session->err);
}

/* Takes over transport, also on failure. */
static ddp_status create_mpi(struct harness_session *session, bool is_strict,
                             struct ddp_transport *transport, struct ddp_coll **out)
{
    struct ddp_coll_mpi_config config = {.is_checked = is_strict,
                                         .init_timeout_ns = session->plan->job.timeout_ns};
    const char *path = session->options->mpi_path;
    ddp_status status =
        path == NULL ? ddp_err_set(session->err, DDP_E_UNSUPPORTED, "MPI needs real processes")
                     : ddp_mpi_library_open(path, &session->mpi, session->err);

    if (status != DDP_OK) {
        ddp_coll_give_up(session->env, transport, status);
        return status;
    }
    config.library = session->mpi;
    return ddp_coll_mpi_create(session->env, transport, session->device, &config, out,
                               session->err);
}

/* group: NULL, or of some ranks. */
static ddp_status create_schedules(struct harness_session *session,
                                   const struct harness_group *group, bool is_strict,
                                   struct ddp_transport *transport, struct ddp_coll **out)
{
    static const enum ddp_algorithm_id gathers[HARNESS_GATHER_COUNT] = {
        [HARNESS_GATHER_BRUCK] = DDP_ALGORITHM_BRUCK_ALL_GATHER,
        [HARNESS_GATHER_RING] = DDP_ALGORITHM_RING_ALL_GATHER,
        [HARNESS_GATHER_DOUBLING] = DDP_ALGORITHM_DOUBLING_ALL_GATHER};
    const struct harness_job *job = &session->plan->job;
    struct ddp_coll_schedule_config config = {.is_checked = is_strict,
                                              .algorithm = job->collective.algorithm,
                                              .segment_bytes = job->segment_bytes,
                                              .of_kind[DDP_COLL_ALL_GATHER] =
                                                  gathers[job->all_gather]};
    ddp_status status = DDP_OK;

    for (size_t i = 0; status == DDP_OK && i < job->posts.count; i++) {
        struct harness_posted posted;

        status = harness_posted_parse(job->posts.items[i], &posted, session->err);
        if (status == DDP_OK && posted.algorithm != DDP_ALGORITHM_NONE) {
            config.of_kind[posted.kind] = posted.algorithm;
        }
    }
    DDP_ASSERT(status == DDP_OK); /* the reader of scenarios has checked them */
    if (group != NULL) {
        config.comm = group->comm;
        config.member_rank = group->ranks;
    }
    config.node_of_rank = job->nodes;
    config.observer = session->options->run_dir != NULL ? &session->dump.observer : NULL;
    if (job->collective.engine == HARNESS_ENGINE_OPAQUE) {
        status = harness_opaque_mover_open(&session->opaque, job->collective.plugin, session->env,
                                           transport, job->timeout_ns, session->err);
        config.mover = &session->opaque.mover;
    } else if (job->collective.plugin != NULL) {
        harness_plugin_emitter_init(&session->plugin, session->plan->job.collective.plugin,
                                    session->err);
        config.emitter = &session->plugin.emitter;
    }
    if (status == DDP_OK) {
        status = ddp_coll_schedule_create(session->env, transport, session->device, &config, out,
                                          session->err);
    }
    if (status != DDP_OK) {
        ddp_coll_give_up(session->env, transport, status);
    }
    return status;
}

static ddp_status create_engine(struct harness_session *session, bool is_strict,
                                struct ddp_transport *transport, struct ddp_coll **out)
{
    switch (session->plan->job.collective.engine) {
    case HARNESS_ENGINE_NCCL:
    case HARNESS_ENGINE_NCCL_SCHEDULE:
        return create_nccl(session, is_strict, transport, out);
    case HARNESS_ENGINE_MPI:
        return create_mpi(session, is_strict, transport, out);
    case HARNESS_ENGINE_SCHEDULE:
    case HARNESS_ENGINE_OPAQUE:
    case HARNESS_ENGINE_COUNT:
        break;
    }
    return create_schedules(session, NULL, is_strict, transport, out);
}

ddp_status harness_session_open_subgroup(struct harness_session *session,
                                         const struct harness_group *group, bool is_strict,
                                         struct ddp_transport *transport, struct ddp_coll **out)
{
    struct ddp_coll *coll;
    ddp_status status;

    DDP_TRY(create_schedules(session, group, is_strict, transport, &coll));
    status = ddp_coll_observer_create(coll, session->options->is_hashing, out);
    if (status != DDP_OK) {
        coll->ops->destroy(coll);
    }
    return status;
}

/* The collective behind its observer: it sees what was really posted. */
ddp_status harness_session_open_collective(struct harness_session *session, bool is_strict,
                                           struct ddp_transport *transport, struct ddp_coll **out)
{
    const struct harness_rank_options *options = session->options;
    struct ddp_coll *coll, *outer;
    ddp_status status;

    if (options->run_dir != NULL) {
        harness_schedule_dump_init(&session->dump, session->env, options->run_dir);
    }
    DDP_TRY(create_engine(session, is_strict, transport, &coll));
    session->engine = coll;
    status = ddp_coll_observer_create(coll, options->is_hashing, &outer);
    if (status != DDP_OK) {
        coll->ops->destroy(coll);
        return status;
    }
    *out = outer;
    return DDP_OK;
}

/* The job is done, so a failure here loses nothing and is ignored. */
void harness_session_finish_collective(struct harness_session *session)
{
    if (session->mpi != NULL) {
        (void)!ddp_coll_mpi_finish(session->engine, session->plan->job.timeout_ns);
    }
    harness_opaque_mover_close(&session->opaque, true);
}

/* NCCL and MPI do not say in which order they add. A judged run measures it, for element counts of
 * its own buckets and the types in which they travel. */
ddp_status harness_session_probe(struct harness_session *session, enum harness_probe_round round)
{
    struct ddp_env *env = session->env;
    size_t bucket_count = ddp_bucket_count(session->ddp);
    struct harness_probe probe = {.env = env,
                                  .coll = session->engine,
                                  .device = session->device,
                                  .store = session->store,
                                  .name = "world",
                                  .run_dir = session->options->run_dir,
                                  .request_count = bucket_count,
                                  .round = round,
                                  .timeout_ns = session->plan->job.timeout_ns};
    struct harness_probe_request *requests;
    ddp_status status;

    if (!harness_plan_is_opaque(session->plan) || !session->options->is_hashing) {
        return DDP_OK;
    }
    requests = ddp_mem_array(env->mem, bucket_count, sizeof requests[0]);
    if (requests == NULL) {
        return ddp_err_set(session->err, DDP_E_NOMEM, "no memory for %zu probes", bucket_count);
    }
    for (size_t i = 0; i < bucket_count; i++) {
        const enum ddp_dtype dtype = ddp_bucket_dtype(session->ddp, i);

        requests[i] =
            (struct harness_probe_request){ddp_bucket_elem_count(session->ddp, i),
                                           harness_program_wire(&session->plan->job, dtype)};
    }
    probe.requests = requests;
    harness_session_phase(session, DDP_PHASE_PROBE);
    status = harness_probe_run(&probe, session->err);
    ddp_mem_free(env->mem, requests);
    return status;
}
