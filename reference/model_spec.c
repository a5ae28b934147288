/* The spec of a model: its parameters and buffers, which its kind appends one by one. */
#include <stdio.h>

#include "reference/model_kind.h"

void ref_spec_add_linear(struct ref_model_spec *spec, const char *prefix, size_t outputs,
                         size_t inputs, enum ref_init init)
{
    struct ref_param_spec *weight = &spec->params[spec->param_count];
    struct ref_param_spec *bias = weight + 1;

    DDP_ASSERT(spec->param_count + 2 <= REF_PARAMS_MAX);
    DDP_ASSERT(inputs > 0 && outputs > 0);
    *weight =
        (struct ref_param_spec){.rows = outputs, .columns = inputs, .fan_in = inputs, .init = init};
    (void)snprintf(weight->name, sizeof(weight->name), "%s.weight", prefix);
    *bias = (struct ref_param_spec){.rows = outputs, .fan_in = inputs, .init = init};
    (void)snprintf(bias->name, sizeof(bias->name), "%s.bias", prefix);
    spec->param_count += 2;
}

void ref_spec_add_vector(struct ref_model_spec *spec, const char *name, size_t elem_count,
                         size_t fan_in)
{
    struct ref_param_spec *vector = &spec->params[spec->param_count];

    DDP_ASSERT(spec->param_count < REF_PARAMS_MAX && elem_count > 0);
    *vector = (struct ref_param_spec){.rows = elem_count, .fan_in = fan_in};
    (void)snprintf(vector->name, sizeof(vector->name), "%s", name);
    spec->param_count++;
}

void ref_spec_add_buffer(struct ref_model_spec *spec, const char *name, size_t elem_count)
{
    struct ref_buffer_spec *buffer = &spec->buffers[spec->buffer_count];

    DDP_ASSERT(spec->buffer_count < REF_BUFFERS_MAX && elem_count > 0);
    (void)snprintf(buffer->name, sizeof(buffer->name), "%s", name);
    buffer->elem_count = elem_count;
    spec->buffer_count++;
}
