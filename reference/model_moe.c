/* moe: a trunk, experts of which a router gives each row one, a head.
 *     h = relu(trunk(x)); e = the largest of router(h); y = fc2_e(relu(fc1_e(h)))
 *     head(h + y * softmax(router(h))[e])
 * An expert that no row of the batch was given has no part in the loss: its parameters are unused,
 * on that rank and in that pass. Widths: input, of all layers inside, output. parameters: trunk,
 * router, experts.<e>.fc1, experts.<e>.fc2, head, each .weight and .bias */
#include <stdio.h>

#include "reference/model_kind.h"

enum { TRUNK = 0, ROUTER = 2, EXPERTS = 4, PARAMS_EACH = 4 };
enum { EXPERTS_DEFAULT = 4, EXPERTS_MAX = 1024 };

static size_t experts_of(const struct ref_model_config *config)
{
    return config->experts > 0 ? config->experts : EXPERTS_DEFAULT;
}

static ddp_status describe_moe(const struct ref_model_config *config, struct ref_model_spec *spec,
                               struct ddp_err *err)
{
    const size_t *width = config->width;

    if (config->width_count != 3 || width[0] == 0 || width[1] == 0 || width[2] == 0) {
        return ddp_err_set(err, DDP_E_INVALID, "moe needs 3 widths: input, inside, output");
    }
    if (experts_of(config) > EXPERTS_MAX) {
        return ddp_err_set(err, DDP_E_INVALID, "moe has at most %d experts", EXPERTS_MAX);
    }
    ref_spec_add_linear(spec, "trunk", width[1], width[0], REF_INIT_UNIFORM);
    ref_spec_add_linear(spec, "router", experts_of(config), width[1], REF_INIT_UNIFORM);
    for (size_t e = 0; e < experts_of(config); e++) {
        char prefix[REF_NAME_BYTES / 2];

        (void)snprintf(prefix, sizeof(prefix), "experts.%u.fc1", (unsigned)e);
        ref_spec_add_linear(spec, prefix, width[1], width[1], REF_INIT_UNIFORM);
        (void)snprintf(prefix, sizeof(prefix), "experts.%u.fc2", (unsigned)e);
        ref_spec_add_linear(spec, prefix, width[1], width[1], REF_INIT_UNIFORM);
    }
    ref_spec_add_linear(spec, "head", width[2], width[1], REF_INIT_UNIFORM);
    return DDP_OK;
}

/* The rows of one expert. inout: where all experts' rows come together. */
static ddp_status forward_expert(struct ref_tape *tape, size_t h, size_t expert,
                                 const int32_t *index, size_t rows, size_t *inout)
{
    const size_t first = EXPERTS + expert * PARAMS_EACH;
    const size_t taken = tape->node_count;
    size_t x;

    DDP_TRY(ref_tape_layer(tape, (uint32_t)expert + 2));
    DDP_TRY(ref_tape_take_rows(tape, h, index, rows, &x));
    DDP_TRY(ref_tape_linear(tape, x, first, first + 1, &x));
    DDP_TRY(ref_tape_relu(tape, x, &x));
    DDP_TRY(ref_tape_linear(tape, x, first + 2, first + 3, &x));
    return ref_tape_put_rows(tape, x, taken, inout);
}

/* In the dry run each expert gets all rows: more than any pass needs. */
static ddp_status forward_experts(struct ref_model *model, size_t h, const int32_t *choice,
                                  int32_t *index, size_t *out)
{
    struct ref_tape *tape = &model->tape;

    *out = REF_NONE;
    for (size_t e = 0; e < experts_of(&model->config); e++) {
        size_t rows = tape->is_dry ? tape->rows : 0;

        for (size_t b = 0; !tape->is_dry && b < tape->rows; b++) {
            if (choice[b] == (int32_t)e) {
                index[rows++] = (int32_t)b;
            }
        }
        if (rows > 0) {
            DDP_TRY(forward_expert(tape, h, e, index, rows, out));
            index += tape->is_dry ? 0 : rows;
        }
    }
    return DDP_OK;
}

static ddp_status forward_moe(struct ref_model *model, const struct ref_batch *batch)
{
    struct ref_tape *tape = &model->tape;
    const size_t head = EXPERTS + experts_of(&model->config) * PARAMS_EACH;
    struct ddp_route route;
    int32_t *choice;
    size_t logits;
    size_t h;
    size_t x;

    DDP_TRY(ref_tape_input(tape, batch->features, 1, model->config.width[0], &x));
    DDP_TRY(ref_tape_layer(tape, 0));
    DDP_TRY(ref_tape_linear(tape, x, TRUNK, TRUNK + 1, &x));
    DDP_TRY(ref_tape_relu(tape, x, &h));
    DDP_TRY(ref_tape_layer(tape, 1));
    DDP_TRY(ref_tape_linear(tape, h, ROUTER, ROUTER + 1, &logits));
    choice = ref_tape_host_ids(tape, 2 * tape->rows); /* and behind them the experts' rows */
    DDP_TRY(ref_tape_route(tape, logits, choice, &route));
    DDP_TRY(forward_experts(model, h, choice, choice == NULL ? NULL : choice + tape->rows, &x));
    DDP_TRY(ref_tape_gate(tape, x, logits, &route, &x));
    DDP_TRY(ref_tape_add(tape, h, x, &x));
    DDP_TRY(ref_tape_layer(tape, (uint32_t)experts_of(&model->config) + 2));
    DDP_TRY(ref_tape_linear(tape, x, head, head + 1, &x));
    return ref_tape_cross_entropy(tape, x, batch->labels);
}

const struct ref_model_kind ref_model_moe = {.default_hidden_count = 1,
                                             .default_hidden_width = 32,
                                             .is_routed = true,
                                             .needs_layers = true,
                                             .is_roundable = true,
                                             .describe = describe_moe,
                                             .forward = forward_moe};
