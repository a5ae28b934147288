/* The single-device trainers. Ranks are played in turn on one model; their batches come from the
 * sharding rules. Nothing here reduces across ranks except the global-batch step, whose one mean
 * over all rows is the definition that data-parallel training is compared with. */
#include "reference/trainer.h"

#include <string.h>

struct ref_trainer {
    struct ddp_device *device;
    struct ref_job job;
    struct ref_data data;
    struct ref_model *model;
    struct ref_optimizer *optimizer;
    struct ref_shard_cursor cursor;
    size_t *batch_rows, *shard_size; /* the job's arrays, copied */
    size_t rows_max;
    ddp_status (*watch)(void *context, uint32_t micro); /* or NULL */
    void *watch_context;
    /* One batch of the largest size. */
    uint32_t *samples;
    float *features;
    int32_t *labels;
    float *targets;
    float scale;   /* of the loss */
    float *losses; /* [micro_batches] of the last local gradient */
};

/* *out = copy of values, or NULL for NULL. */
static ddp_status copy_sizes(struct ddp_mem *mem, const size_t *values, size_t count, size_t **out)
{
    if (values == NULL) {
        return DDP_OK;
    }
    *out = (size_t *)ddp_mem_array(mem, count, sizeof(size_t));
    if (*out == NULL) {
        return DDP_E_NOMEM;
    }
    memcpy(*out, values, count * sizeof(size_t));
    return DDP_OK;
}

static ddp_status open_shards(struct ref_trainer *trainer, struct ddp_err *err)
{
    struct ddp_mem *mem = trainer->device->mem;
    struct ref_shard_config *shard = &trainer->job.shard;
    ddp_status status;

    DDP_TRY(copy_sizes(mem, shard->batch_rows, shard->world_size, &trainer->batch_rows));
    DDP_TRY(copy_sizes(mem, shard->shard_size, shard->world_size, &trainer->shard_size));
    shard->batch_rows = trainer->batch_rows;
    shard->shard_size = trainer->shard_size;
    if (shard->sample_count == 0) {
        shard->sample_count = trainer->data.sample_count;
    }
    if (shard->sample_count > trainer->data.sample_count) {
        return ddp_err_set(err, DDP_E_INVALID, "%s has %zu samples, not %zu", trainer->data.name,
                           trainer->data.sample_count, shard->sample_count);
    }
    status = ref_shard_cursor_init(&trainer->cursor, shard, mem);
    if (status == DDP_E_INVALID) {
        return ddp_err_set(err, status,
                           "world_size and batches must be at least 1, and the shards' sizes must "
                           "not exceed %zu samples in all",
                           shard->sample_count);
    }
    return status;
}

static ddp_status alloc_batch(struct ref_trainer *trainer, size_t rows)
{
    struct ddp_mem *mem = trainer->device->mem;
    const struct ref_data *data = &trainer->data;

    trainer->samples = (uint32_t *)ddp_mem_array(mem, rows, sizeof(uint32_t));
    trainer->features = (float *)ddp_mem_array(mem, rows * data->feature_count, sizeof(float));
    if (data->labels != NULL) {
        trainer->labels = (int32_t *)ddp_mem_array(mem, rows * data->label_count, sizeof(int32_t));
    } else {
        trainer->targets = (float *)ddp_mem_array(mem, rows * data->target_count, sizeof(float));
    }
    trainer->scale = 1.0F;
    trainer->losses = (float *)ddp_mem_array(mem, trainer->job.micro_batches, sizeof(float));
    if (trainer->samples == NULL || trainer->features == NULL || trainer->losses == NULL ||
        (trainer->labels == NULL && trainer->targets == NULL)) {
        return DDP_E_NOMEM;
    }
    return DDP_OK;
}

/* A model built for another dataset's sizes would read past the batch. */
static ddp_status check_data(const struct ref_trainer *trainer, struct ddp_err *err)
{
    struct ref_data_sizes sizes;

    DDP_TRY(ref_data_describe(&trainer->job.data, &sizes, err));
    return ref_model_check_data(&trainer->job.model, &sizes, err);
}

static ddp_status open_parts(struct ref_trainer *trainer, struct ddp_err *err)
{
    struct ref_job *job = &trainer->job;
    struct ddp_device *device = trainer->device;
    struct ddp_param *params;
    size_t param_count;
    size_t rows_max = 0;

    DDP_TRY(ref_data_open(device->mem, &job->data, &trainer->data, err));
    DDP_TRY(open_shards(trainer, err));
    for (uint32_t r = 0; r < job->shard.world_size; r++) {
        if (trainer->batch_rows[r] > rows_max) {
            rows_max = trainer->batch_rows[r];
        }
    }
    trainer->rows_max = rows_max;
    DDP_TRY(alloc_batch(trainer, rows_max));
    ref_model_defaults(&job->model, trainer->data.feature_count,
                       trainer->data.labels != NULL ? trainer->data.class_count
                                                    : trainer->data.target_count);
    DDP_TRY(check_data(trainer, err));
    DDP_TRY(ref_model_create(device, &job->model, rows_max, &trainer->model, err));
    params = ref_model_params(trainer->model, &param_count);
    return ref_optimizer_create(device, params, param_count, &job->optimizer, &trainer->optimizer);
}

ddp_status ref_trainer_create(struct ddp_device *device, const struct ref_job *job,
                              struct ref_trainer **out, struct ddp_err *err)
{
    struct ref_trainer *trainer =
        (struct ref_trainer *)ddp_mem_array(device->mem, 1, sizeof(*trainer));
    ddp_status status;

    *out = NULL;
    if (trainer == NULL) {
        return DDP_E_NOMEM;
    }
    trainer->device = device;
    trainer->job = *job;
    if (job->micro_batches == 0 || job->shard.batch_rows == NULL) {
        status = ddp_err_set(err, DDP_E_INVALID, "a job needs micro_batches and batch_rows");
    } else {
        status = open_parts(trainer, err);
    }
    if (status != DDP_OK) {
        ref_trainer_destroy(trainer);
        return status;
    }
    *out = trainer;
    return DDP_OK;
}

void ref_trainer_destroy(struct ref_trainer *trainer)
{
    struct ddp_mem *mem;

    if (trainer == NULL) {
        return;
    }
    mem = trainer->device->mem;
    ref_optimizer_destroy(trainer->optimizer);
    ref_model_destroy(trainer->model);
    ref_shard_cursor_fini(&trainer->cursor);
    ref_data_close(&trainer->data);
    ddp_mem_free(mem, trainer->batch_rows);
    ddp_mem_free(mem, trainer->shard_size);
    ddp_mem_free(mem, trainer->samples);
    ddp_mem_free(mem, trainer->features);
    ddp_mem_free(mem, trainer->labels);
    ddp_mem_free(mem, trainer->targets);
    ddp_mem_free(mem, trainer->losses);
    ddp_mem_free(mem, trainer);
}

struct ref_model *ref_trainer_model(struct ref_trainer *trainer)
{
    return trainer->model;
}

struct ref_optimizer *ref_trainer_optimizer(struct ref_trainer *trainer)
{
    return trainer->optimizer;
}

const struct ref_data *ref_trainer_data(const struct ref_trainer *trainer)
{
    return &trainer->data;
}

/* A rank's micro-batches are numbered over the whole run. */
static uint64_t batch_index(const struct ref_trainer *trainer, uint32_t step, uint32_t micro)
{
    return (uint64_t)step * trainer->job.micro_batches + micro;
}

/* The batch of trainer->samples. */
static void gather(struct ref_trainer *trainer, size_t rows, struct ref_batch *out)
{
    ref_data_gather(&trainer->data, trainer->samples, rows, trainer->features, trainer->labels,
                    trainer->targets);
    out->rows = rows;
    out->samples = trainer->samples;
    out->features = trainer->features;
    out->labels = trainer->labels;
    out->targets = trainer->targets;
}

ddp_status ref_trainer_batch(struct ref_trainer *trainer, uint32_t rank, uint32_t step,
                             uint32_t micro, struct ref_batch *out)
{
    size_t rows;

    *out = (struct ref_batch){.rank = rank, .step = step, .micro = micro};
    DDP_TRY(ref_shard_cursor_batch(&trainer->cursor, rank, batch_index(trainer, step, micro),
                                   trainer->samples, &rows));
    gather(trainer, rows, out);
    return DDP_OK;
}

/* given: NULL for the sampler's. */
static ddp_status fetch(struct ref_trainer *trainer, uint32_t rank, uint32_t step, uint32_t micro,
                        const struct ref_samples *given, struct ref_batch *out)
{
    if (given == NULL) {
        return ref_trainer_batch(trainer, rank, step, micro, out);
    }
    *out = (struct ref_batch){.rank = rank, .step = step, .micro = micro};
    for (size_t i = 0; i < given[micro].rows; i++) {
        if (given[micro].rows > trainer->rows_max ||
            given[micro].items[i] >= trainer->data.sample_count) {
            return DDP_E_INVALID;
        }
        trainer->samples[i] = given[micro].items[i];
    }
    gather(trainer, given[micro].rows, out);
    return DDP_OK;
}

void ref_trainer_watch(struct ref_trainer *trainer,
                       ddp_status (*watch)(void *context, uint32_t micro), void *context)
{
    trainer->watch = watch;
    trainer->watch_context = context;
}

static ddp_status local_gradient(struct ref_trainer *trainer, uint32_t rank, uint32_t step,
                                 const struct ref_samples *given, float *out_loss, size_t *out_rows)
{
    float loss_scale = 1.0F / (float)trainer->job.micro_batches * trainer->scale;
    double loss_sum = 0.0;
    uint32_t seen = 0;

    *out_loss = 0.0F;
    *out_rows = 0;
    ref_model_zero_grad(trainer->model);
    for (uint32_t micro = 0; micro < trainer->job.micro_batches; micro++) {
        struct ref_batch batch;
        float loss;

        DDP_TRY(fetch(trainer, rank, step, micro, given, &batch));
        if (batch.rows == 0) {
            break;
        }
        if (trainer->watch != NULL) {
            DDP_TRY(trainer->watch(trainer->watch_context, micro));
        }
        DDP_TRY(ref_model_forward(trainer->model, &batch, NULL, &loss));
        DDP_TRY(ref_model_backward(trainer->model, loss_scale, NULL));
        trainer->losses[micro] = loss;
        loss_sum += (double)loss;
        *out_rows += batch.rows;
        seen++;
    }
    if (seen > 0) {
        *out_loss = (float)(loss_sum / seen);
    }
    return DDP_OK;
}

ddp_status ref_trainer_local_gradient(struct ref_trainer *trainer, uint32_t rank, uint32_t step,
                                      float *out_loss, size_t *out_rows)
{
    return local_gradient(trainer, rank, step, NULL, out_loss, out_rows);
}

void ref_trainer_set_scale(struct ref_trainer *trainer, float scale)
{
    trainer->scale = scale;
}

const float *ref_trainer_losses(const struct ref_trainer *trainer)
{
    return trainer->losses;
}

ddp_status ref_trainer_gradient_of(struct ref_trainer *trainer, uint32_t rank, uint32_t step,
                                   const struct ref_samples *given, float *out_loss,
                                   size_t *out_rows)
{
    return local_gradient(trainer, rank, step, given, out_loss, out_rows);
}

ddp_status ref_trainer_loss_of(struct ref_trainer *trainer, uint32_t step,
                               const struct ref_samples *given, float *out_loss)
{
    struct ref_batch batch;

    DDP_TRY(fetch(trainer, 0, step, 0, given, &batch));
    return ref_model_forward(trainer->model, &batch, NULL, out_loss);
}

static size_t global_rows(const struct ref_trainer *trainer, uint32_t step)
{
    size_t rows = 0;

    for (uint32_t rank = 0; rank < trainer->job.shard.world_size; rank++) {
        for (uint32_t micro = 0; micro < trainer->job.micro_batches; micro++) {
            rows +=
                ref_shard_batch_rows(&trainer->job.shard, rank, batch_index(trainer, step, micro));
        }
    }
    return rows;
}

ddp_status ref_trainer_global_step(struct ref_trainer *trainer, uint32_t step, float *out_loss)
{
    size_t total_rows = global_rows(trainer, step);
    uint32_t micro_batches = trainer->job.micro_batches;
    double loss_sum = 0.0;

    *out_loss = 0.0F;
    if (ref_model_rounded(trainer->model) != NULL) {
        return DDP_E_UNSUPPORTED; /* nobody rounds the weights that it steps */
    }
    if (total_rows == 0) {
        return DDP_E_STATE;
    }
    ref_model_zero_grad(trainer->model);
    for (uint32_t i = 0; i < trainer->job.shard.world_size * micro_batches; i++) {
        struct ref_batch batch;
        float loss;

        DDP_TRY(ref_trainer_batch(trainer, i / micro_batches, step, i % micro_batches, &batch));
        if (batch.rows == 0) {
            continue;
        }
        DDP_TRY(ref_model_forward(trainer->model, &batch, NULL, &loss));
        DDP_TRY(ref_model_backward(trainer->model, (float)batch.rows / (float)total_rows, NULL));
        loss_sum += (double)loss * (double)batch.rows;
    }
    *out_loss = (float)(loss_sum / (double)total_rows);
    return ref_optimizer_step(trainer->optimizer, NULL, NULL);
}
