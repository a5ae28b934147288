/* Initial parameters and buffers: drawn, or from a file. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ddpcore/base/prng.h"
#include "reference/initial.h"
#include "reference/model_kind.h"

/* Of one element. */
static float initial_value(enum ref_init init, float uniform, float bound, struct ddp_prng *prng)
{
    switch (init) {
    case REF_INIT_TRIT:
        return (float)ddp_prng_below(prng, 3) - 1.0F;
    case REF_INIT_ONE:
        return 1.0F;
    case REF_INIT_ZERO:
        return 0.0F;
    case REF_INIT_UNIFORM:
    case REF_INIT_NARROW:
        break;
    }
    return (2.0F * uniform - 1.0F) * bound;
}

/* values: host storage of the largest parameter. */
static ddp_status init_param(struct ref_model *model, size_t index, float *values)
{
    const struct ref_param_spec *spec = &model->spec.params[index];
    const struct ddp_param *param = &model->params[index];
    /* A uniform distribution in +-b has the standard deviation b / sqrt(3). */
    float bound =
        spec->init == REF_INIT_NARROW ? 0.02F * sqrtf(3.0F) : 1.0F / sqrtf((float)spec->fan_in);
    char label[REF_NAME_BYTES + sizeof("init/")];
    struct ddp_prng prng;

    (void)snprintf(label, sizeof(label), "init/%s", spec->name);
    prng = ddp_prng_make(model->config.seed, label);
    if (spec->init == REF_INIT_UNIFORM || spec->init == REF_INIT_NARROW) {
        ddp_prng_uniform_fill(&prng, values, param->elem_count);
    }
    for (size_t i = 0; i < param->elem_count; i++) {
        values[i] = initial_value(spec->init, values[i], bound, &prng);
    }
    return ddp_transfer_to_device(&model->tape.transfer, param->data, values,
                                  param->elem_count * sizeof(float));
}

/* values become those of a buffer of floats, rounded to its type: in their own storage, as element
 * i is read before its place is written. */
static ddp_status write_buffer(struct ref_model *model, size_t index, float *values)
{
    const struct ddp_buffer *buffer = &model->buffers[index];
    char *packed = (char *)values;

    for (size_t i = 0; buffer->dtype != DDP_DTYPE_F32 && i < buffer->elem_count; i++) {
        const uint16_t bits = buffer->dtype == DDP_DTYPE_F16 ? ddp_f16_from_f32(values[i])
                                                             : ddp_bf16_from_f32(values[i]);

        memcpy(packed + i * sizeof(bits), &bits, sizeof(bits));
    }
    return ddp_transfer_to_device(&model->tape.transfer, buffer->data, values,
                                  ddp_buffer_size_bytes(buffer));
}

/* The memory is zeroed: only buffers that begin otherwise are written. */
static ddp_status init_buffer(struct ref_model *model, size_t index, float *values)
{
    const struct ref_buffer_spec *spec = &model->spec.buffers[index];

    for (size_t i = 0; spec->dtype != DDP_DTYPE_I64 && i < spec->elem_count; i++) {
        values[i] = spec->initial;
    }
    return spec->initial == 0.0F ? DDP_OK : write_buffer(model, index, values);
}

/* A file holds floats of f32, whatever the model holds. */
static ddp_status load_buffer(struct ref_model *model, size_t index,
                              const struct ref_initial *initial, float *values, struct ddp_err *err)
{
    const struct ddp_buffer *buffer = &model->buffers[index];
    const void *data = NULL;

    if (buffer->dtype == DDP_DTYPE_I64) {
        DDP_TRY(ref_initial_find(initial, buffer->name, DDP_DTYPE_I64, 1, &buffer->elem_count,
                                 &data, err));
        return ddp_transfer_to_device(&model->tape.transfer, buffer->data, data,
                                      ddp_buffer_size_bytes(buffer));
    }
    DDP_TRY(
        ref_initial_find(initial, buffer->name, DDP_DTYPE_F32, 1, &buffer->elem_count, &data, err));
    memcpy(values, data, buffer->elem_count * sizeof(float));
    return write_buffer(model, index, values);
}

static ddp_status load_values(struct ref_model *model, const struct ref_initial *initial,
                              float *values, struct ddp_err *err)
{
    struct ddp_transfer *transfer = &model->tape.transfer;
    const void *data = NULL;

    for (size_t i = 0; i < model->spec.param_count; i++) {
        const struct ddp_param *param = &model->params[i];

        DDP_TRY(ref_initial_find(initial, param->name, param->dtype, param->ndim, param->shape,
                                 &data, err));
        DDP_TRY(ddp_transfer_to_device(transfer, param->data, data, ddp_param_size_bytes(param)));
    }
    for (size_t i = 0; i < model->spec.buffer_count; i++) {
        DDP_TRY(load_buffer(model, i, initial, values, err));
    }
    return DDP_OK;
}

/* From a file, if the config names one. */
static ddp_status load_model(struct ref_model *model, float *values, struct ddp_err *err)
{
    const char *path = model->config.initial;
    struct ref_initial *initial = NULL;
    ddp_status status;

    if (path == NULL) {
        return DDP_OK;
    }
    DDP_TRY(ref_initial_open(model->device->mem, path, &initial, err));
    status = load_values(model, initial, values, err);
    ref_initial_close(initial);
    return status == DDP_OK ? DDP_OK : ddp_err_wrap(err, status, "%s", path);
}

static ddp_status init_values(struct ref_model *model, float *values)
{
    const int64_t one = 1;

    for (size_t i = 0; i < model->spec.param_count; i++) {
        DDP_TRY(init_param(model, i, values));
    }
    for (size_t i = 0; i < model->spec.buffer_count; i++) {
        DDP_TRY(init_buffer(model, i, values));
    }
    return model->one == NULL
               ? DDP_OK
               : ddp_transfer_to_device(&model->tape.transfer, model->one, &one, sizeof(one));
}

ddp_status ref_model_init(struct ref_model *model, struct ddp_err *err)
{
    struct ddp_mem *mem = model->device->mem;
    size_t largest = 0;
    float *values; /* the largest parameter or buffer */
    ddp_status status;

    for (size_t i = 0; i < model->spec.param_count; i++) {
        largest = model->params[i].elem_count > largest ? model->params[i].elem_count : largest;
    }
    for (size_t i = 0; i < model->spec.buffer_count; i++) {
        largest = model->buffers[i].elem_count > largest ? model->buffers[i].elem_count : largest;
    }
    values = (float *)ddp_mem_array(mem, largest, sizeof(float));
    if (values == NULL) {
        return DDP_E_NOMEM;
    }
    status = init_values(model, values);
    if (status == DDP_OK) {
        status = load_model(model, values, err);
    }
    ddp_mem_free(mem, values);
    return status;
}
