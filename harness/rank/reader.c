/* Batches that worker threads of the rank read ahead (job.loader_workers). What a batch holds is
 * decided by batches.c, after all faults; one that the loader has read otherwise is read again
 * here. */
#include <pthread.h>
#include <string.h>

#include "harness/rank/session.h"

/* Point data/worker: the rank asks for its next batch. What is read next is read so. */
static ddp_status pass_worker(struct harness_session *session)
{
    struct ddp_fault_context place = DDP_FAULT_CONTEXT_NONE;
    int64_t orders[] = {0, 0};

    place.data = orders;
    place.elem_count = sizeof orders / sizeof orders[0];
    place.dtype = DDP_DTYPE_I64;
    if (ddp_fault_point(session->env->faults, DDP_FAULT_POINT_DATA_WORKER, &place) ==
        DDP_FAULT_FAIL) {
        return DDP_E_INJECTED;
    }
    if (orders[0] != 0) {
        __atomic_store_n(&session->reader.delay_ms, orders[0], __ATOMIC_RELEASE);
    }
    if (orders[1] != 0) {
        __atomic_store_n(&session->reader.is_ending, true, __ATOMIC_RELEASE);
    }
    return DDP_OK;
}

static ddp_status never(void *self)
{
    (void)self;
    return DDP_PENDING;
}

/* By the rank's clock where it reads itself, else by the worker's own. */
static void pass_time(const struct harness_reader *reader, int64_t delay_ms)
{
    const struct ddp_pollable pollable = {never, NULL, NULL};
    struct ddp_idle_process own;
    struct ddp_idle *idle = reader->env->idle;
    struct ddp_clock *clock = reader->env->clock;
    uint64_t deadline_ns = DDP_DEADLINE_NEVER;

    if (reader->has_threads) {
        clock = ddp_clock_monotonic();
        ddp_idle_process_init(&own, clock, false);
        idle = &own.base;
    }
    if (delay_ms > 0) {
        deadline_ns = ddp_clock_deadline_ns(clock, (uint64_t)delay_ms * DDP_NS_PER_MS);
    }
    DDP_ASSERT(ddp_wait(idle, clock, &pollable, deadline_ns) == DDP_E_TIMEOUT);
}

/* Where a batch's parts lie in a slot. */
static float *features_of(void *slot)
{
    return slot;
}

static int32_t *labels_of(const struct harness_reader *reader, void *slot)
{
    return (int32_t *)(features_of(slot) + reader->row_count * reader->data->feature_count);
}

static float *targets_of(const struct harness_reader *reader, void *slot)
{
    return (float *)(labels_of(reader, slot) + reader->row_count * reader->data->label_count);
}

/* In a worker thread, or in the rank's own. */
static ddp_status read_batch(void *context, const struct ddp_loader_batch *batch)
{
    struct harness_reader *reader = context;
    const int64_t delay_ms = __atomic_exchange_n(&reader->delay_ms, 0, __ATOMIC_ACQ_REL);

    if (delay_ms != 0) {
        pass_time(reader, delay_ms);
    }
    if (__atomic_exchange_n(&reader->is_ending, false, __ATOMIC_ACQ_REL)) {
        if (reader->has_threads) {
            pthread_exit(NULL);
        }
        return DDP_E_SYSTEM; /* what the loader says of a worker that is gone */
    }
    ref_data_gather(reader->data, batch->samples, batch->rows, features_of(batch->data),
                    labels_of(reader, batch->data), targets_of(reader, batch->data));
    return DDP_OK;
}

ddp_status harness_session_open_reader(struct harness_session *session)
{
    const uint32_t worker_count = session->plan->job.loader_workers;
    const struct ref_data *data = session->data;
    const uint64_t first = session->first_step * session->job.micro_batches;
    struct harness_reader *reader = &session->reader;
    struct ddp_loader_config config = {.sampler = session->sampler,
                                       .batch_rows = session->batch_rows,
                                       .slot_count = 2 + (size_t)worker_count,
                                       .read = read_batch,
                                       .context = reader};
    struct ddp_sampler_state state;
    uint64_t number;

    if (worker_count == 0 || !harness_batches_standing(&session->batches, first, &state, &number)) {
        return DDP_OK;
    }
    reader->env = session->env;
    reader->data = data;
    reader->row_count = session->batch_rows;
    reader->has_threads = session->options->has_threads;
    reader->next = first - number;
    config.sampler.first = state.used;
    config.worker_count = reader->has_threads ? worker_count : 0;
    config.slot_bytes = session->batch_rows *
                        (data->feature_count + data->label_count + data->target_count) *
                        sizeof(float);
    config.device = session->device->ops->is_host_memory ? NULL : session->device;
    return ddp_loader_create(session->env->mem, &config, state.epoch, &reader->loader,
                             session->err);
}

void harness_session_close_reader(struct harness_session *session)
{
    ddp_loader_destroy(session->reader.loader);
    session->reader.loader = NULL;
}

/* The loader's batch with that number; one that comes again is still there. */
static ddp_status advance(struct harness_session *session, uint64_t number)
{
    struct harness_reader *reader = &session->reader;
    struct ddp_env *env = session->env;

    while (reader->next <= number) {
        const ddp_status status = ddp_loader_next(reader->loader, env->idle, env->clock,
                                                  DDP_DEADLINE_NEVER, &reader->batch);

        if (status != DDP_OK) {
            return ddp_err_set(session->err, status, "a worker thread that reads batches is gone");
        }
        if (reader->batch.rows == 0) {
            DDP_TRY(ddp_loader_epoch(reader->loader, reader->batch.epoch + 1));
        } else {
            reader->next++;
        }
    }
    return DDP_OK;
}

ddp_status harness_session_read(struct harness_session *session, uint64_t number,
                                const uint32_t *samples, size_t rows, struct ref_batch *out,
                                float **out_features)
{
    const struct ref_data *data = session->data;
    struct harness_reader *reader = &session->reader;
    const struct ddp_loader_batch *batch = &reader->batch;
    float *features = session->features, *targets = session->targets;
    int32_t *labels = session->labels;
    bool is_read = false;

    if (reader->loader != NULL) {
        DDP_TRY(pass_worker(session));
        DDP_TRY(advance(session, number));
        is_read = batch->rows == rows &&
                  memcmp(batch->samples, samples, rows * sizeof samples[0]) == 0 &&
                  !ddp_fault_point_is_armed(session->env->faults, DDP_FAULT_POINT_DATA_TRANSFORM);
    }
    if (is_read) {
        features = features_of(batch->data);
        labels = labels_of(reader, batch->data);
        targets = targets_of(reader, batch->data);
    } else {
        ref_data_gather(data, samples, rows, features, labels, targets);
    }
    out->features = features;
    out->labels = data->labels == NULL ? NULL : labels;
    out->targets = data->targets == NULL ? NULL : targets;
    *out_features = features;
    return DDP_OK;
}
