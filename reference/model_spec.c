/* The spec of a model: its parameters and buffers, which its kind appends one by one. */
#include <stdio.h>

#include "reference/model_kind.h"

void ref_spec_add_param(struct ref_model_spec *spec, const struct ref_param_spec *param)
{
    struct ref_param_spec *params;

    DDP_ASSERT(param->ndim > 0 && param->ndim <= DDP_NDIM_MAX && param->fan_in > 0);
    params = (struct ref_param_spec *)ddp_mem_grow(spec->mem, spec->params, spec->param_count,
                                                   &spec->param_capacity, sizeof(*params));
    if (params == NULL) {
        spec->is_out_of_memory = true;
        return;
    }
    spec->params = params;
    params[spec->param_count++] = *param;
}

void ref_spec_add_linear(struct ref_model_spec *spec, const char *prefix, size_t outputs,
                         size_t inputs, enum ref_init init)
{
    struct ref_param_spec weight = {
        .ndim = 2, .shape = {outputs, inputs}, .fan_in = inputs, .init = init};
    struct ref_param_spec bias = {
        .ndim = 1,
        .shape = {outputs},
        .fan_in = inputs,
        .init = init == REF_INIT_NARROW ? REF_INIT_ZERO : init,
    };

    (void)snprintf(weight.name, sizeof(weight.name), "%s.weight", prefix);
    (void)snprintf(bias.name, sizeof(bias.name), "%s.bias", prefix);
    ref_spec_add_param(spec, &weight);
    ref_spec_add_param(spec, &bias);
}

void ref_spec_add_vector(struct ref_model_spec *spec, const char *name, size_t elem_count,
                         size_t fan_in)
{
    struct ref_param_spec vector = {.ndim = 1, .shape = {elem_count}, .fan_in = fan_in};

    (void)snprintf(vector.name, sizeof(vector.name), "%s", name);
    ref_spec_add_param(spec, &vector);
}

void ref_spec_add_norm(struct ref_model_spec *spec, const char *prefix, size_t elem_count)
{
    struct ref_param_spec weight = {
        .ndim = 1, .shape = {elem_count}, .fan_in = 1, .init = REF_INIT_ONE};
    struct ref_param_spec bias = {
        .ndim = 1, .shape = {elem_count}, .fan_in = 1, .init = REF_INIT_ZERO};

    (void)snprintf(weight.name, sizeof(weight.name), "%s.weight", prefix);
    (void)snprintf(bias.name, sizeof(bias.name), "%s.bias", prefix);
    ref_spec_add_param(spec, &weight);
    ref_spec_add_param(spec, &bias);
}

void ref_spec_add_buffer(struct ref_model_spec *spec, const char *name, enum ddp_dtype dtype,
                         size_t elem_count, float initial)
{
    struct ref_buffer_spec *buffers;

    DDP_ASSERT((dtype == DDP_DTYPE_F32 || dtype == DDP_DTYPE_I64) && elem_count > 0);
    buffers = (struct ref_buffer_spec *)ddp_mem_grow(spec->mem, spec->buffers, spec->buffer_count,
                                                     &spec->buffer_capacity, sizeof(*buffers));
    if (buffers == NULL) {
        spec->is_out_of_memory = true;
        return;
    }
    spec->buffers = buffers;
    buffers[spec->buffer_count] =
        (struct ref_buffer_spec){.dtype = dtype, .elem_count = elem_count, .initial = initial};
    (void)snprintf(buffers[spec->buffer_count].name, REF_NAME_BYTES, "%s", name);
    spec->buffer_count++;
}

void ref_spec_fini(struct ref_model_spec *spec)
{
    if (spec->mem != NULL) {
        ddp_mem_free(spec->mem, spec->params);
        ddp_mem_free(spec->mem, spec->buffers);
    }
    *spec = (struct ref_model_spec){0};
}
