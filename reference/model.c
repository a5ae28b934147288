/* The table of models, their creation, and the passes over the tape. Initial values are
 * model_init.c's; what a model computes is in model_<name>.c; how, in tape.c. */
#include "reference/model.h"

#include <stdio.h>
#include <string.h>

#include "ddpcore/base/text.h"
#include "reference/model_kind.h"

/* Parameters start on cache lines within their block: 16 floats. */
enum { ALIGN_ELEMS = DDP_CACHE_LINE_BYTES / sizeof(float) };

static const struct ref_model_kind *const kinds[] = {
#define X(name) &ref_model_##name,
    REF_MODEL_TABLE(X)
#undef X
};
enum { KIND_COUNT = sizeof(kinds) / sizeof(kinds[0]) };

/* In the order of kinds. */
static const char *const model_names[KIND_COUNT + 1] = {
#define X(name) #name,
    REF_MODEL_TABLE(X)
#undef X
        NULL};

const char *const *ref_model_names(void)
{
    return model_names;
}

/* KIND_COUNT: there is no model of that name. */
static size_t find_kind(const char *name)
{
    size_t i = 0;

    while (i < KIND_COUNT && strcmp(model_names[i], name) != 0) {
        i++;
    }
    return i;
}

void ref_model_defaults(struct ref_model_config *config, size_t feature_count, size_t class_count)
{
    const size_t index = find_kind(config->name);
    const struct ref_model_kind *kind;

    if (config->width_count > 0 || index == KIND_COUNT) {
        return;
    }
    kind = kinds[index];
    DDP_ASSERT(kind->default_hidden_count + 1 <= REF_LAYERS_MAX);
    config->width[0] = feature_count;
    for (size_t i = 0; i < kind->default_hidden_count; i++) {
        config->width[1 + i] = kind->default_hidden_width;
    }
    config->width[1 + kind->default_hidden_count] = class_count > 0 ? class_count : 2;
    config->width_count = 2 + kind->default_hidden_count;
}

static enum ref_data_learned learns_from(const struct ref_model_kind *kind)
{
    return kind->is_sequence     ? REF_DATA_TOKENS
           : kind->is_regression ? REF_DATA_TARGETS
                                 : REF_DATA_LABELS;
}

ddp_status ref_model_check_learned(const char *name, enum ref_data_learned learned,
                                   struct ddp_err *err)
{
    static const char *const words[REF_DATA_LEARNED_COUNT] = {
        [REF_DATA_LABELS] = "labels", [REF_DATA_TARGETS] = "targets", [REF_DATA_TOKENS] = "tokens"};
    const size_t index = find_kind(name);
    char right[64] = "";
    struct ddp_text text;

    if (index == KIND_COUNT) {
        return ddp_err_set(err, DDP_E_INVALID, "no such model: %s", name);
    }
    if (learns_from(kinds[index]) == learned) {
        return DDP_OK;
    }
    ddp_text_init_fixed(&text, right, sizeof right);
    for (size_t i = 0; ref_data_names()[i] != NULL; i++) {
        if (ref_data_learned(i) == learns_from(kinds[index])) {
            ddp_text_add(&text, "%s%s", text.size_bytes > 0 ? ", " : "", ref_data_names()[i]);
        }
    }
    return ddp_err_set(err, DDP_E_INVALID,
                       "model %s learns from %s, and these data have %s; data with %s: %s", name,
                       words[learns_from(kinds[index])], words[learned],
                       words[learns_from(kinds[index])], right);
}

ddp_status ref_model_check_data(const struct ref_model_config *config,
                                const struct ref_data_sizes *data, struct ddp_err *err)
{
    const size_t index = find_kind(config->name);
    const size_t outputs = data->class_count > 0 ? data->class_count : data->target_count;

    if (index == KIND_COUNT || config->width_count < 2) {
        return ddp_err_set(err, DDP_E_INVALID, "no such model, or no widths");
    }
    DDP_TRY(ref_model_check_learned(config->name, data->learned, err));
    if (config->width[0] != data->feature_count ||
        config->width[config->width_count - 1] != outputs) {
        return ddp_err_set(
            err, DDP_E_SHAPE,
            "widths lead from %zu to %zu, but the dataset has %zu features and %zu %s",
            config->width[0], config->width[config->width_count - 1], data->feature_count, outputs,
            data->class_count > 0 ? "classes" : "targets");
    }
    return DDP_OK;
}

bool ref_model_is_branching(const struct ref_model_config *config)
{
    const size_t index = find_kind(config->name);

    return index < KIND_COUNT && (kinds[index]->is_routed || config->branch != REF_BRANCH_BOTH);
}

bool ref_model_is_roundable(const struct ref_model_config *config)
{
    const size_t index = find_kind(config->name);

    return index < KIND_COUNT && kinds[index]->is_roundable;
}

/* The type of buffers of floats is the config's. */
static ddp_status hold_statistics(const struct ref_model_config *config,
                                  struct ref_model_spec *spec, struct ddp_err *err)
{
    const enum ddp_dtype dtype = config->statistics;

    if (dtype != DDP_DTYPE_F32 && dtype != DDP_DTYPE_F16 && dtype != DDP_DTYPE_BF16) {
        return ddp_err_set(err, DDP_E_INVALID, "buffers are held in f32, f16 or bf16, not %s",
                           ddp_dtype_name(dtype));
    }
    for (size_t i = 0; i < spec->buffer_count; i++) {
        if (spec->buffers[i].dtype == DDP_DTYPE_F32) {
            spec->buffers[i].dtype = dtype;
        }
    }
    return DDP_OK;
}

/* spec: zeroed, but for mem. To be given to ref_spec_fini in any case. */
static ddp_status find_and_describe(const struct ref_model_config *config, size_t *out_index,
                                    struct ref_model_spec *spec, struct ddp_err *err)
{
    const size_t index = find_kind(config->name);
    const char *nearest;

    if (index < KIND_COUNT) {
        *out_index = index;
        DDP_TRY(kinds[index]->describe(config, spec, err));
        DDP_TRY(hold_statistics(config, spec, err));
        return spec->is_out_of_memory
                   ? ddp_err_set(err, DDP_E_NOMEM, "no memory for the tables of %s", config->name)
                   : DDP_OK;
    }
    nearest = ddp_text_nearest(config->name, model_names, KIND_COUNT);
    return ddp_err_set(err, DDP_E_NOT_FOUND, "there is no model %s%s%s", config->name,
                       nearest != NULL ? "; did you mean " : "", nearest != NULL ? nearest : "");
}

/* name: storage that outlives the table. */
static void fill_param(struct ddp_param *param, const struct ref_param_spec *spec, const char *name)
{
    *param = (struct ddp_param){
        .name = name, .dtype = DDP_DTYPE_F32, .ndim = spec->ndim, .elem_count = 1};
    for (uint32_t d = 0; d < spec->ndim; d++) {
        param->shape[d] = spec->shape[d];
        param->elem_count *= spec->shape[d];
    }
}

static void fill_buffer(struct ddp_buffer *buffer, const struct ref_buffer_spec *spec,
                        const char *name)
{
    *buffer =
        (struct ddp_buffer){.name = name, .dtype = spec->dtype, .elem_count = spec->elem_count};
}

/* The names follow both tables in their block. */
static void fill_tables(struct ref_model_tables *tables, const struct ref_model_spec *spec)
{
    char *name = (char *)(tables->buffers + tables->buffer_count);

    for (size_t i = 0; i < tables->param_count; i++, name += REF_NAME_BYTES) {
        memcpy(name, spec->params[i].name, REF_NAME_BYTES);
        fill_param(&tables->params[i], &spec->params[i], name);
    }
    for (size_t i = 0; i < tables->buffer_count; i++, name += REF_NAME_BYTES) {
        memcpy(name, spec->buffers[i].name, REF_NAME_BYTES);
        fill_buffer(&tables->buffers[i], &spec->buffers[i], name);
    }
}

static ddp_status copy_tables(struct ddp_mem *mem, const struct ref_model_spec *spec,
                              struct ref_model_tables *out)
{
    size_t param_bytes = spec->param_count * sizeof(*out->params);
    size_t buffer_bytes = spec->buffer_count * sizeof(*out->buffers);
    size_t name_bytes = (spec->param_count + spec->buffer_count) * REF_NAME_BYTES;
    size_t norm_bytes = spec->batch_norm_count * sizeof(*out->batch_norms);
    char *block =
        (char *)ddp_mem_array(mem, 1, param_bytes + buffer_bytes + name_bytes + norm_bytes);

    if (block == NULL) {
        return DDP_E_NOMEM;
    }
    out->params = (struct ddp_param *)(void *)block;
    out->param_count = spec->param_count;
    out->buffers = (struct ddp_buffer *)(void *)(block + param_bytes);
    out->buffer_count = spec->buffer_count;
    out->batch_norms = (uint32_t *)(void *)(block + param_bytes + buffer_bytes + name_bytes);
    out->batch_norm_count = spec->batch_norm_count;
    for (size_t i = 0; i < spec->batch_norm_count; i++) {
        out->batch_norms[i] = spec->batch_norms[i];
    }
    fill_tables(out, spec);
    return DDP_OK;
}

ddp_status ref_model_describe(struct ddp_mem *mem, const struct ref_model_config *config,
                              struct ref_model_tables *out, struct ddp_err *err)
{
    struct ref_model_spec spec = {.mem = mem};
    size_t index = 0;
    ddp_status status;

    *out = (struct ref_model_tables){0};
    status = find_and_describe(config, &index, &spec, err);
    if (status == DDP_OK) {
        status = copy_tables(mem, &spec, out);
        if (status != DDP_OK) {
            status = ddp_err_set(err, status, "no memory for the tables of %s", config->name);
        }
    }
    ref_spec_fini(&spec);
    return status;
}

static size_t aligned_elems(size_t elem_count)
{
    return (elem_count + ALIGN_ELEMS - 1) / ALIGN_ELEMS * ALIGN_ELEMS;
}

static ddp_status alloc_floats(struct ddp_device *device, size_t elem_count, float **out)
{
    void *data = NULL;
    ddp_status status =
        device->ops->alloc(device, elem_count * sizeof(float), DDP_SPACE_DEVICE, &data);

    *out = (float *)data;
    return status;
}

static size_t aligned_bytes(size_t size_bytes)
{
    return (size_bytes + DDP_CACHE_LINE_BYTES - 1) / DDP_CACHE_LINE_BYTES * DDP_CACHE_LINE_BYTES;
}

static ddp_status alloc_params(struct ref_model *model)
{
    const struct ref_model_spec *spec = &model->spec;
    size_t elems = 0;

    model->params = (struct ddp_param *)ddp_mem_array(model->device->mem, spec->param_count,
                                                      sizeof(*model->params));
    if (model->params == NULL) {
        return DDP_E_NOMEM;
    }
    for (size_t i = 0; i < spec->param_count; i++) {
        fill_param(&model->params[i], &spec->params[i], spec->params[i].name);
        elems += aligned_elems(model->params[i].elem_count);
    }
    DDP_TRY(alloc_floats(model->device, elems, &model->data_block));
    DDP_TRY(alloc_floats(model->device, elems, &model->grad_block));
    elems = 0;
    for (size_t i = 0; i < spec->param_count; i++) {
        model->params[i].data = model->data_block + elems;
        model->params[i].grad = model->grad_block + elems;
        elems += aligned_elems(model->params[i].elem_count);
    }
    return DDP_OK;
}

static ddp_status alloc_buffers(struct ref_model *model)
{
    struct ddp_device *device = model->device;
    const struct ref_model_spec *spec = &model->spec;
    size_t size_bytes = 0;
    void *block = NULL;

    model->buffers = (struct ddp_buffer *)ddp_mem_array(device->mem, spec->buffer_count,
                                                        sizeof(*model->buffers));
    if (model->buffers == NULL) {
        return DDP_E_NOMEM;
    }
    for (size_t i = 0; i < spec->buffer_count; i++) {
        fill_buffer(&model->buffers[i], &spec->buffers[i], spec->buffers[i].name);
        size_bytes += aligned_bytes(ddp_buffer_size_bytes(&model->buffers[i]));
    }
    if (size_bytes == 0) {
        return DDP_OK;
    }
    DDP_TRY(device->ops->alloc(device, size_bytes + sizeof(*model->one), DDP_SPACE_DEVICE, &block));
    model->buffer_block = (char *)block;
    model->one = (int64_t *)(void *)(model->buffer_block + size_bytes);
    size_bytes = 0;
    for (size_t i = 0; i < spec->buffer_count; i++) {
        model->buffers[i].data = model->buffer_block + size_bytes;
        size_bytes += aligned_bytes(ddp_buffer_size_bytes(&model->buffers[i]));
    }
    return DDP_OK;
}

static ddp_status create_tape(struct ref_model *model, size_t batch_rows_max)
{
    const struct ref_batch no_batch = {0};

    DDP_TRY(ref_tape_init(&model->tape, model->device,
                          model->rounded != NULL ? model->wide : model->params,
                          model->spec.param_count, batch_rows_max));
    model->tape.rounded = model->rounded;
    ref_tape_begin(&model->tape, batch_rows_max, NULL);
    DDP_TRY(model->kind->forward(model, &no_batch));
    return ref_tape_allocate(&model->tape);
}

void ref_model_set_wait(struct ref_model *model, struct ddp_idle *idle, struct ddp_clock *clock,
                        uint64_t timeout_ns)
{
    ddp_transfer_set_wait(&model->tape.transfer, idle, clock, timeout_ns);
}

void ref_model_set_exchange(struct ref_model *model, const struct ref_exchange *exchange)
{
    model->tape.exchange = exchange;
}

/* A device that lacks a kernel is found out here, not in the middle of a pass. */
static ddp_status check_device(const struct ref_model *model, struct ddp_err *err)
{
    if (!model->kind->needs_layers || model->device->layers != NULL) {
        return DDP_OK;
    }
    return ddp_err_set(err, DDP_E_UNSUPPORTED, "device %s has no kernels for model %s",
                       model->device->ops->name, model->config.name);
}

static ddp_status build_model(struct ref_model *model, size_t batch_rows_max, struct ddp_err *err)
{
    size_t index = 0;

    if (batch_rows_max == 0) {
        return ddp_err_set(err, DDP_E_INVALID, "a model needs batches of at least one row");
    }
    DDP_TRY(find_and_describe(&model->config, &index, &model->spec, err));
    model->kind = kinds[index];
    model->config.name = model_names[index]; /* outlives the caller's string */
    DDP_TRY(check_device(model, err));
    DDP_TRY(alloc_params(model));
    DDP_TRY(ref_model_create_rounded(model, err));
    DDP_TRY(alloc_buffers(model));
    DDP_TRY(create_tape(model, batch_rows_max));
    return ref_model_init(model, err);
}

ddp_status ref_model_create(struct ddp_device *device, const struct ref_model_config *config,
                            size_t batch_rows_max, struct ref_model **out, struct ddp_err *err)
{
    struct ref_model *model = (struct ref_model *)ddp_mem_array(device->mem, 1, sizeof(*model));
    ddp_status status;

    *out = NULL;
    if (model == NULL) {
        return DDP_E_NOMEM;
    }
    model->device = device;
    model->config = *config;
    model->spec.mem = device->mem;
    status = build_model(model, batch_rows_max, err);
    if (status != DDP_OK) {
        ref_model_destroy(model);
        return status;
    }
    *out = model;
    return DDP_OK;
}

void ref_model_destroy(struct ref_model *model)
{
    struct ddp_device *device;

    if (model == NULL) {
        return;
    }
    device = model->device;
    ref_tape_fini(&model->tape);
    ref_model_destroy_rounded(model);
    device->ops->free(device, DDP_SPACE_DEVICE, model->data_block);
    device->ops->free(device, DDP_SPACE_DEVICE, model->grad_block);
    device->ops->free(device, DDP_SPACE_DEVICE, model->buffer_block);
    ddp_mem_free(device->mem, model->params);
    ddp_mem_free(device->mem, model->buffers);
    ref_spec_fini(&model->spec);
    ddp_mem_free(device->mem, model);
}

struct ddp_param *ref_model_params(struct ref_model *model, size_t *out_count)
{
    *out_count = model->spec.param_count;
    return model->params;
}

struct ddp_buffer *ref_model_buffers(struct ref_model *model, size_t *out_count)
{
    *out_count = model->spec.buffer_count;
    return model->buffers;
}

ddp_status ref_model_forward(struct ref_model *model, const struct ref_batch *batch,
                             const struct ref_model_observer *observer, float *out_loss)
{
    ddp_status status;

    if (batch->rows == 0 || batch->rows > model->tape.rows_max ||
        (model->kind->is_regression ? batch->targets == NULL : batch->labels == NULL)) {
        return DDP_E_INVALID;
    }
    ref_tape_begin(&model->tape, batch->rows, observer);
    status = ref_model_widen(model);
    if (status == DDP_OK) {
        status = model->kind->forward(model, batch);
    }
    if (status == DDP_OK) {
        status = ref_tape_mean_loss(&model->tape, out_loss);
    }
    if (status != DDP_OK) {
        ref_tape_begin(&model->tape, 0, NULL); /* there is no loss to go backward from */
    }
    return status;
}

void ref_model_used(const struct ref_model *model, bool *is_used)
{
    const struct ref_tape *tape = &model->tape;

    for (size_t p = 0; p < model->spec.param_count; p++) {
        is_used[p] = false;
    }
    ref_tape_reach(tape);
    for (size_t i = 0; i < tape->node_count; i++) {
        const struct ref_node *node = &tape->nodes[i];

        if (node->is_reached && node->weight != REF_NONE) {
            is_used[node->weight] = true;
        }
        if (node->is_reached && node->bias != REF_NONE) {
            is_used[node->bias] = true;
        }
    }
}

ddp_status ref_model_backward(struct ref_model *model, float loss_scale,
                              const struct ref_model_observer *observer)
{
    if (model->tape.node_count == 0) {
        return DDP_E_STATE;
    }
    return ref_tape_backward(&model->tape, loss_scale, observer);
}

void ref_model_zero_grad(struct ref_model *model)
{
    for (size_t i = 0; i < model->spec.param_count; i++) {
        model->params[i].is_grad_defined = false;
        if (model->rounded != NULL) {
            model->rounded[i].is_grad_defined = false;
        }
    }
}
