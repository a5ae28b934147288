/* Writes down what a job starts from and what one device makes of it, so that another framework can
 * start from the same: DIR/initial.safetensors (parameters and buffers), data.safetensors (the
 * whole dataset: features, and labels or targets), gradient.safetensors (of step 0, of the mean
 * over all rows), final.safetensors, and job.json: the job's options, the samples of each batch,
 * and the loss of each step, the mean over the rows of all ranks. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "ddpcore/base/file.h"
#include "ddpcore/checkpoint/safetensors.h"
#include "ddpcore/device/device.h"
#include "harness/cell/cell.h"
#include "harness/rank/rank.h"
#include "reference/trainer.h"

struct export_state {
    const struct harness_plan *plan;
    const char *dir;
    struct ddp_err *err;
    struct ddp_env env;
    struct ddp_idle_process idle;
    struct ref_job job;
    struct ref_trainer *trainer;
    json_t *losses, *batches; /* an entry for each step */
};

static ddp_status save(struct export_state *ex, const struct ddp_state_dict *dict, const char *name)
{
    struct ddp_text path;
    ddp_status status;

    ddp_text_init(&path, ex->env.mem);
    ddp_text_add(&path, "%s/%s.safetensors", ex->dir, name);
    status = ddp_safetensors_save(&ex->env, ddp_text_str(&path), dict, ex->err);
    ddp_text_fini(&path);
    return status;
}

/* Parameters and buffers, or gradients. */
static ddp_status add_tensors(struct export_state *ex, struct ddp_state_dict *dict, bool is_grad)
{
    struct ref_model *model = ref_trainer_model(ex->trainer);
    size_t count = 0;
    const struct ddp_param *params = ref_model_params(model, &count);
    const struct ddp_buffer *buffers;

    for (size_t i = 0; i < count; i++) {
        uint64_t shape[DDP_NDIM_MAX] = {0};

        for (uint32_t d = 0; d < params[i].ndim; d++) {
            shape[d] = params[i].shape[d];
        }
        if (!is_grad || params[i].is_grad_defined) {
            DDP_TRY(ddp_state_dict_add(dict, params[i].name, params[i].dtype, params[i].ndim, shape,
                                       is_grad ? params[i].grad : params[i].data));
        }
    }
    buffers = ref_model_buffers(model, &count);
    for (size_t i = 0; i < count && !is_grad; i++) {
        uint64_t elem_count = buffers[i].elem_count;

        DDP_TRY(ddp_state_dict_add(dict, buffers[i].name, buffers[i].dtype, 1, &elem_count,
                                   buffers[i].data));
    }
    return DDP_OK;
}

static ddp_status save_model(struct export_state *ex, bool is_grad, const char *name)
{
    struct ddp_state_dict dict;
    ddp_status status;

    ddp_state_dict_init(&dict, ex->env.mem);
    status = add_tensors(ex, &dict, is_grad);
    status = status == DDP_OK ? save(ex, &dict, name) : status;
    ddp_state_dict_fini(&dict);
    return status;
}

static ddp_status save_data(struct export_state *ex)
{
    const struct ref_data *data = ref_trainer_data(ex->trainer);
    const uint64_t features[2] = {data->sample_count, data->feature_count};
    const uint64_t labels[2] = {data->sample_count, data->label_count};
    const uint64_t targets[2] = {data->sample_count, data->target_count};
    struct ddp_state_dict dict;
    ddp_status status;

    ddp_state_dict_init(&dict, ex->env.mem);
    status = ddp_state_dict_add(&dict, "features", DDP_DTYPE_F32, 2, features, data->features);
    if (status == DDP_OK) {
        status =
            data->labels != NULL
                ? ddp_state_dict_add(&dict, "labels", DDP_DTYPE_I32, 2, labels, data->labels)
                : ddp_state_dict_add(&dict, "targets", DDP_DTYPE_F32, 2, targets, data->targets);
    }
    status = status == DDP_OK ? save(ex, &dict, "data") : status;
    ddp_state_dict_fini(&dict);
    return status;
}

/* Of each rank, of each micro-batch. Takes nothing: the list is the caller's. */
static ddp_status add_samples(struct export_state *ex, uint32_t step, json_t *ranks)
{
    for (uint32_t rank = 0; rank < ex->job.shard.world_size; rank++) {
        json_t *micros = json_array();

        if (json_array_append_new(ranks, micros) != 0) {
            return DDP_E_NOMEM;
        }
        for (uint32_t micro = 0; micro < ex->job.micro_batches; micro++) {
            struct ref_batch batch;
            json_t *samples = json_array();

            if (json_array_append_new(micros, samples) != 0) {
                return DDP_E_NOMEM;
            }
            DDP_TRY(ref_trainer_batch(ex->trainer, rank, step, micro, &batch));
            for (size_t i = 0; i < batch.rows; i++) {
                (void)json_array_append_new(samples, json_integer(batch.samples[i]));
            }
        }
    }
    return DDP_OK;
}

static ddp_status train(struct export_state *ex)
{
    for (uint32_t step = 0; step < ex->job.steps; step++) {
        json_t *ranks = json_array();
        float loss;
        ddp_status status;

        if (json_array_append_new(ex->batches, ranks) != 0) {
            return DDP_E_NOMEM;
        }
        DDP_TRY(add_samples(ex, step, ranks));
        status = ref_trainer_global_step(ex->trainer, step, &loss);
        if (status == DDP_E_STATE) {
            return DDP_OK; /* all data was used up */
        }
        DDP_TRY(status);
        if (json_array_append_new(ex->losses, json_real((double)loss)) != 0) {
            return DDP_E_NOMEM;
        }
        if (step == 0) {
            DDP_TRY(save_model(ex, true, "gradient"));
        }
    }
    return DDP_OK;
}

static json_t *list_widths(const struct ref_model_config *model)
{
    json_t *widths = json_array();

    for (size_t i = 0; i < model->width_count; i++) {
        (void)json_array_append_new(widths, json_integer((json_int_t)model->width[i]));
    }
    return widths;
}

static json_t *describe_optimizer(const struct ref_optimizer_config *optimizer)
{
    return json_pack("{s:s, s:f, s:f, s:f, s:b, s:f, s:f, s:f, s:f}", "kind",
                     optimizer->kind == REF_OPTIMIZER_SGD ? "sgd" : "adamw", "lr",
                     (double)optimizer->lr, "momentum", (double)optimizer->momentum, "dampening",
                     (double)optimizer->dampening, "nesterov", (int)optimizer->nesterov,
                     "weight_decay", (double)optimizer->weight_decay, "beta1",
                     (double)optimizer->beta1, "beta2", (double)optimizer->beta2, "eps",
                     (double)optimizer->eps);
}

static ddp_status save_job(struct export_state *ex)
{
    const struct harness_job *job = &ex->plan->job;
    struct ref_model_config model = ex->job.model;
    const struct ref_data *data = ref_trainer_data(ex->trainer);
    struct ddp_text path;
    json_t *root;
    char *text;
    ddp_status status;

    ref_model_defaults(&model, data->feature_count,
                       data->labels != NULL ? data->class_count : data->target_count);
    root = json_pack("{s:i, s:{s:s, s:o, s:i, s:i}, s:s, s:i, s:i, s:o, s:O, s:O}", "schema", 1,
                     "model", "name", job->model, "widths", list_widths(&model), "heads",
                     (int)model.heads, "experts", (int)model.experts, "data", job->data, "ranks",
                     (int)ex->job.shard.world_size, "micro_batches", (int)ex->job.micro_batches,
                     "optimizer", describe_optimizer(&ex->job.optimizer), "losses", ex->losses,
                     "batches", ex->batches);
    text = root == NULL ? NULL : json_dumps(root, JSON_COMPACT | JSON_REAL_PRECISION(17));
    json_decref(root);
    if (text == NULL) {
        return DDP_E_NOMEM;
    }
    ddp_text_init(&path, ex->env.mem);
    ddp_text_add(&path, "%s/job.json", ex->dir);
    status = ddp_files_write_whole(ex->env.files, ddp_text_str(&path), text, strlen(text), ex->err);
    ddp_text_fini(&path);
    free(text);
    return status;
}

static ddp_status export_all(struct export_state *ex)
{
    DDP_TRY(save_model(ex, false, "initial"));
    DDP_TRY(save_data(ex));
    DDP_TRY(train(ex));
    DDP_TRY(save_model(ex, false, "final"));
    return save_job(ex);
}

ddp_status harness_cell_export(const struct harness_plan *plan, const char *dir,
                               struct ddp_err *err)
{
    struct export_state ex = {.plan = plan, .dir = dir, .err = err};
    struct ddp_device *device = NULL;
    ddp_status status;

    if (harness_plan_is_guest(plan)) {
        return ddp_err_set(err, DDP_E_INVALID,
                           "%s is somebody else's program: there is nothing to export", plan->id);
    }
    if (plan->job.mixed_precision.is_set) {
        return ddp_err_set(err, DDP_E_INVALID,
                           "what one device trains is exported in f32: leave mixed_precision out");
    }
    ddp_env_init_process(&ex.env, &ex.idle, 0, 1);
    DDP_TRY(ddp_files_make_dirs(dir, err));
    DDP_TRY(ddp_blas_open(NULL, err));
    DDP_TRY(harness_rank_job(plan, &ex.job, err));
    DDP_TRY(ddp_device_cpu_create(ex.env.mem, &device));
    ex.losses = json_array();
    ex.batches = json_array();
    status = ref_trainer_create(device, &ex.job, &ex.trainer, err);
    if (status == DDP_OK) {
        status = export_all(&ex);
    }
    ref_trainer_destroy(ex.trainer);
    device->ops->destroy(device);
    json_decref(ex.losses);
    json_decref(ex.batches);
    return status;
}
