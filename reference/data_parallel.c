/* DataParallel. Threads live as long as the trainer: one each for the devices from 1 on, device 0
 * is the caller's. A step is handed to them by a number; the caller waits until all are done, so
 * model and gradient of a device are never used by two threads at once. */
#include "reference/data_parallel.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

struct replica {
    struct ref_data_parallel *owner;
    struct ddp_device *device;
    struct ref_trainer *trainer;
    uint32_t number;
    pthread_t thread;
    bool is_thread;
    /* The last step's. */
    ddp_status status;
    float loss;
    size_t rows;
};

struct ref_data_parallel {
    struct ddp_mem *mem;
    struct replica *replicas;
    uint32_t count;
    void *part; /* on device 0: a gradient of another device, scaled */

    pthread_mutex_t mutex;
    pthread_cond_t begun, done;
    uint64_t round; /* steps that were handed out */
    uint32_t step, left;
    bool is_over;
};

static struct ddp_param *params_of(const struct replica *replica, size_t *out_count)
{
    return ref_model_params(ref_trainer_model(replica->trainer), out_count);
}

static void enter(const struct ddp_device *device)
{
    if (device->thread.enter != NULL) {
        device->thread.enter(device->thread.number);
    }
}

/* Until all work of the device's default stream is done. */
static ddp_status settle(struct ddp_device *device)
{
    struct ddp_device_event *event;
    ddp_status status;

    if (device->ops->is_host_memory) {
        return DDP_OK; /* everything runs at once */
    }
    DDP_TRY(device->ops->event_create(device, &event));
    status = device->ops->event_record(device, event, NULL);
    while (status == DDP_OK && (status = device->ops->event_query(device, event)) == DDP_PENDING) {
        (void)sched_yield();
        status = DDP_OK;
    }
    device->ops->event_destroy(device, event);
    return status;
}

/* --- the threads ------------------------------------------------------------------------------ */

static void compute(struct replica *replica, uint32_t step)
{
    replica->status = ref_trainer_local_gradient(replica->trainer, replica->number, step,
                                                 &replica->loss, &replica->rows);
    if (replica->status == DDP_OK) {
        replica->status = settle(replica->device);
    }
}

static void *run(void *argument)
{
    struct replica *replica = argument;
    struct ref_data_parallel *parallel = replica->owner;
    uint64_t seen = 0;

    enter(replica->device);
    (void)pthread_mutex_lock(&parallel->mutex);
    while (!parallel->is_over) {
        uint32_t step;

        if (parallel->round == seen) {
            (void)pthread_cond_wait(&parallel->begun, &parallel->mutex);
            continue;
        }
        seen = parallel->round;
        step = parallel->step;
        (void)pthread_mutex_unlock(&parallel->mutex);
        compute(replica, step);
        (void)pthread_mutex_lock(&parallel->mutex);
        if (--parallel->left == 0) {
            (void)pthread_cond_signal(&parallel->done);
        }
    }
    (void)pthread_mutex_unlock(&parallel->mutex);
    return NULL;
}

/* All parts at once; the caller's thread takes device 0's. */
static ddp_status compute_all(struct ref_data_parallel *parallel, uint32_t step)
{
    (void)pthread_mutex_lock(&parallel->mutex);
    parallel->step = step;
    parallel->left = parallel->count - 1;
    parallel->round++;
    (void)pthread_cond_broadcast(&parallel->begun);
    (void)pthread_mutex_unlock(&parallel->mutex);
    compute(&parallel->replicas[0], step);
    (void)pthread_mutex_lock(&parallel->mutex);
    while (parallel->left > 0) {
        (void)pthread_cond_wait(&parallel->done, &parallel->mutex);
    }
    (void)pthread_mutex_unlock(&parallel->mutex);
    for (uint32_t r = 0; r < parallel->count; r++) {
        DDP_TRY(parallel->replicas[r].status);
    }
    return DDP_OK;
}

/* --- between devices -------------------------------------------------------------------------- */

/* Parameters and buffers of device 0 on all others. */
static ddp_status replicate(struct ref_data_parallel *parallel)
{
    struct ddp_device *device = parallel->replicas[0].device;
    size_t count, buffer_count;
    const struct ddp_param *from = params_of(&parallel->replicas[0], &count);
    const struct ddp_buffer *buffers =
        ref_model_buffers(ref_trainer_model(parallel->replicas[0].trainer), &buffer_count);

    for (uint32_t r = 1; r < parallel->count; r++) {
        const struct ddp_param *to = params_of(&parallel->replicas[r], &count);
        const struct ddp_buffer *other =
            ref_model_buffers(ref_trainer_model(parallel->replicas[r].trainer), &buffer_count);

        for (size_t p = 0; p < count; p++) {
            DDP_TRY(device->ops->copy(device, NULL, to[p].data, from[p].data,
                                      ddp_param_size_bytes(&from[p])));
        }
        for (size_t b = 0; b < buffer_count; b++) {
            DDP_TRY(device->ops->copy(device, NULL, other[b].data, buffers[b].data,
                                      ddp_buffer_size_bytes(&buffers[b])));
        }
    }
    return settle(device);
}

/* target += weight * source, of another device. */
static ddp_status add_part(struct ref_data_parallel *parallel, const struct ddp_param *target,
                           const struct ddp_param *source, float weight)
{
    struct ddp_device *device = parallel->replicas[0].device;

    DDP_TRY(device->ops->copy(device, NULL, parallel->part, source->grad,
                              ddp_param_size_bytes(source)));
    DDP_TRY(device->ops->scale(device, NULL, parallel->part, source->dtype, parallel->part,
                               source->dtype, source->elem_count, (double)weight));
    return device->ops->reduce(device, NULL, target->grad, parallel->part, source->elem_count,
                               source->dtype, DDP_REDOP_SUM);
}

/* Device 0's gradient is scaled where it lies, then come the others', in order. */
static ddp_status gather_param(struct ref_data_parallel *parallel, size_t p, size_t rows)
{
    struct ddp_device *device = parallel->replicas[0].device;
    size_t count;
    struct ddp_param *target = &params_of(&parallel->replicas[0], &count)[p];

    if (target->is_grad_defined) {
        const float weight = (float)parallel->replicas[0].rows / (float)rows;

        DDP_TRY(device->ops->scale(device, NULL, target->grad, target->dtype, target->grad,
                                   target->dtype, target->elem_count, (double)weight));
    } else {
        DDP_TRY(device->ops->zero(device, NULL, target->grad, ddp_param_size_bytes(target)));
    }
    for (uint32_t r = 1; r < parallel->count; r++) {
        const struct replica *replica = &parallel->replicas[r];
        const struct ddp_param *source = &params_of(replica, &count)[p];

        if (replica->rows > 0 && source->is_grad_defined) {
            DDP_TRY(add_part(parallel, target, source, (float)replica->rows / (float)rows));
            target->is_grad_defined = true;
        }
    }
    return DDP_OK;
}

ddp_status ref_data_parallel_gradient(struct ref_data_parallel *parallel, uint32_t step,
                                      float *out_loss, size_t *out_rows)
{
    double loss = 0;
    size_t rows = 0;
    size_t count;

    *out_rows = 0;
    *out_loss = 0;
    enter(parallel->replicas[0].device);
    DDP_TRY(replicate(parallel));
    DDP_TRY(compute_all(parallel, step));
    for (uint32_t r = 0; r < parallel->count; r++) {
        rows += parallel->replicas[r].rows;
        loss += (double)parallel->replicas[r].loss * (double)parallel->replicas[r].rows;
    }
    if (rows == 0) {
        return DDP_OK;
    }
    (void)params_of(&parallel->replicas[0], &count);
    for (size_t p = 0; p < count; p++) {
        DDP_TRY(gather_param(parallel, p, rows));
    }
    *out_loss = (float)(loss / (double)rows);
    *out_rows = rows;
    return DDP_OK;
}

ddp_status ref_data_parallel_step(struct ref_data_parallel *parallel, uint32_t step,
                                  float *out_loss)
{
    size_t rows;

    DDP_TRY(ref_data_parallel_gradient(parallel, step, out_loss, &rows));
    return rows == 0 ? DDP_E_STATE
                     : ref_optimizer_step(ref_trainer_optimizer(parallel->replicas[0].trainer),
                                          NULL, NULL);
}

struct ref_model *ref_data_parallel_model(struct ref_data_parallel *parallel)
{
    return ref_trainer_model(parallel->replicas[0].trainer);
}

/* The largest parameter's. */
static size_t part_bytes(const struct ref_data_parallel *parallel)
{
    size_t most = 1;
    size_t count;
    const struct ddp_param *params = params_of(&parallel->replicas[0], &count);

    for (size_t p = 0; p < count; p++) {
        const size_t size_bytes = ddp_param_size_bytes(&params[p]);

        most = size_bytes > most ? size_bytes : most;
    }
    return most;
}

size_t ref_data_parallel_bytes(const struct ref_data_parallel *parallel, uint32_t device)
{
    const struct replica *replica = &parallel->replicas[device];
    const size_t slots = ref_optimizer_slot_count(ref_trainer_optimizer(replica->trainer));
    const size_t copies = 2 + (device == 0 ? slots : 0);
    size_t size_bytes = device == 0 ? part_bytes(parallel) : 0;
    size_t count;
    const struct ddp_param *params = params_of(replica, &count);
    const struct ddp_buffer *buffers;

    for (size_t p = 0; p < count; p++) {
        size_bytes += copies * ddp_param_size_bytes(&params[p]);
    }
    buffers = ref_model_buffers(ref_trainer_model(replica->trainer), &count);
    for (size_t b = 0; b < count; b++) {
        size_bytes += ddp_buffer_size_bytes(&buffers[b]);
    }
    return size_bytes;
}

/* --- from nothing, and back ------------------------------------------------------------------- */

static ddp_status open_replica(struct ref_data_parallel *parallel, uint32_t number,
                               struct ddp_device *device, const struct ref_job *job,
                               struct ddp_err *err)
{
    struct replica *replica = &parallel->replicas[number];

    replica->owner = parallel;
    replica->device = device;
    replica->number = number;
    enter(device);
    DDP_TRY(ref_trainer_create(device, job, &replica->trainer, err));
    return settle(device);
}

static ddp_status start_threads(struct ref_data_parallel *parallel, struct ddp_err *err)
{
    for (uint32_t r = 1; r < parallel->count; r++) {
        struct replica *replica = &parallel->replicas[r];

        if (pthread_create(&replica->thread, NULL, run, replica) != 0) {
            return ddp_err_set(err, DDP_E_SYSTEM, "no thread for device %u", r);
        }
        replica->is_thread = true;
    }
    return DDP_OK;
}

ddp_status ref_data_parallel_create(struct ddp_device *const *devices, uint32_t device_count,
                                    const struct ref_job *job, struct ref_data_parallel **out,
                                    struct ddp_err *err)
{
    struct ref_data_parallel *parallel;
    ddp_status status = DDP_OK;

    if (device_count == 0 || job->shard.world_size != device_count) {
        return ddp_err_set(err, DDP_E_INVALID, "%u devices for a job of %u", device_count,
                           job->shard.world_size);
    }
    parallel = ddp_mem_array(ddp_mem_system(), 1, sizeof(*parallel));
    if (parallel == NULL) {
        return DDP_E_NOMEM;
    }
    parallel->mem = ddp_mem_system();
    (void)pthread_mutex_init(&parallel->mutex, NULL);
    (void)pthread_cond_init(&parallel->begun, NULL);
    (void)pthread_cond_init(&parallel->done, NULL);
    parallel->replicas = ddp_mem_array(parallel->mem, device_count, sizeof(*parallel->replicas));
    if (parallel->replicas == NULL) {
        status = DDP_E_NOMEM;
    }
    for (uint32_t r = 0; r < device_count && status == DDP_OK; r++) {
        parallel->count++;
        status = open_replica(parallel, r, devices[r], job, err);
    }
    if (status == DDP_OK) {
        enter(devices[0]);
        status = devices[0]->ops->alloc(devices[0], part_bytes(parallel), DDP_SPACE_DEVICE,
                                        &parallel->part);
    }
    if (status == DDP_OK) {
        status = start_threads(parallel, err);
    }
    if (status != DDP_OK) {
        ref_data_parallel_destroy(parallel);
        return status;
    }
    *out = parallel;
    return DDP_OK;
}

void ref_data_parallel_destroy(struct ref_data_parallel *parallel)
{
    if (parallel == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&parallel->mutex);
    parallel->is_over = true;
    (void)pthread_cond_broadcast(&parallel->begun);
    (void)pthread_mutex_unlock(&parallel->mutex);
    for (uint32_t r = 0; r < parallel->count; r++) {
        if (parallel->replicas[r].is_thread) {
            (void)pthread_join(parallel->replicas[r].thread, NULL);
        }
    }
    for (uint32_t r = 0; r < parallel->count; r++) {
        enter(parallel->replicas[r].device);
        if (r == 0 && parallel->part != NULL) {
            parallel->replicas[0].device->ops->free(parallel->replicas[0].device, DDP_SPACE_DEVICE,
                                                    parallel->part);
        }
        if (parallel->replicas[r].trainer != NULL) {
            ref_trainer_destroy(parallel->replicas[r].trainer);
        }
    }
    ddp_mem_free(parallel->mem, parallel->replicas);
    (void)pthread_cond_destroy(&parallel->done);
    (void)pthread_cond_destroy(&parallel->begun);
    (void)pthread_mutex_destroy(&parallel->mutex);
    ddp_mem_free(parallel->mem, parallel);
}
