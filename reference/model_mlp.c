/* mlp: fully connected layers with ReLU between them and cross-entropy at the end. module_child is
 * the same inside a child really named `module`, so that its keys begin as a DDP wrapper's do. In
 * module_twin every second layer lies in such a child and is named as the one before it, so that of
 * its keys half are the others with a DDP wrapper's prefix. */
#include <stdio.h>

#include "reference/model_kind.h"

/* child: before the names of the odd layers; the others have none if there are twins. */
static ddp_status describe_layers(const struct ref_model_config *config, const char *child,
                                  bool has_twins, struct ref_model_spec *spec, struct ddp_err *err)
{
    if (config->width_count < 2 || config->width_count > REF_LAYERS_MAX + 1) {
        return ddp_err_set(err, DDP_E_INVALID, "%s needs 2 to %d widths, not %zu", config->name,
                           REF_LAYERS_MAX + 1, config->width_count);
    }
    for (size_t layer = 0; layer + 1 < config->width_count; layer++) {
        char prefix[REF_NAME_BYTES / 2];

        if (config->width[layer] == 0 || config->width[layer + 1] == 0) {
            return ddp_err_set(err, DDP_E_INVALID, "%s has a layer of width 0", config->name);
        }
        (void)snprintf(prefix, sizeof(prefix), "%sfc%u", has_twins && layer % 2 == 0 ? "" : child,
                       (unsigned)(has_twins ? layer / 2 : layer));
        ref_spec_add_linear(spec, prefix, config->width[layer + 1], config->width[layer],
                            REF_INIT_UNIFORM);
    }
    return DDP_OK;
}

static ddp_status describe_mlp(const struct ref_model_config *config, struct ref_model_spec *spec,
                               struct ddp_err *err)
{
    return describe_layers(config, "", false, spec, err);
}

static ddp_status describe_module_child(const struct ref_model_config *config,
                                        struct ref_model_spec *spec, struct ddp_err *err)
{
    return describe_layers(config, "module.", false, spec, err);
}

static ddp_status describe_module_twin(const struct ref_model_config *config,
                                       struct ref_model_spec *spec, struct ddp_err *err)
{
    return describe_layers(config, "module.", true, spec, err);
}

static ddp_status forward_mlp(struct ref_model *model, const struct ref_batch *batch)
{
    struct ref_tape *tape = &model->tape;
    size_t layer_count = model->config.width_count - 1;
    size_t x;

    DDP_TRY(ref_tape_input(tape, batch->features, 1, model->config.width[0], &x));
    for (size_t layer = 0; layer < layer_count; layer++) {
        DDP_TRY(ref_tape_layer(tape, (uint32_t)layer));
        DDP_TRY(ref_tape_linear(tape, x, 2 * layer, 2 * layer + 1, &x));
        if (layer + 1 < layer_count) {
            DDP_TRY(ref_tape_relu(tape, x, &x));
        }
    }
    return ref_tape_cross_entropy(tape, x, batch->labels);
}

const struct ref_model_kind ref_model_mlp = {.default_hidden_count = 2,
                                             .default_hidden_width = 256,
                                             .is_roundable = true,
                                             .describe = describe_mlp,
                                             .forward = forward_mlp};
const struct ref_model_kind ref_model_module_child = {.default_hidden_count = 2,
                                                      .default_hidden_width = 256,
                                                      .is_roundable = true,
                                                      .describe = describe_module_child,
                                                      .forward = forward_mlp};
const struct ref_model_kind ref_model_module_twin = {.default_hidden_count = 1,
                                                     .default_hidden_width = 256,
                                                     .is_roundable = true,
                                                     .describe = describe_module_twin,
                                                     .forward = forward_mlp};
