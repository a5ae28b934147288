/* branchy: a trunk, two branches of which a rule picks one or both, a head.
 *     h = relu(trunk(x)); s = sum over picked k of trunk.scale * branch_k(h); head(relu(s))
 * trunk.scale is shared by the branches, so its gradient is ready only after the last of them.
 * trunk.running_mean follows the mean of h (momentum 0.1) and is not read by the model. */
#include "reference/model_kind.h"

enum branchy_param {
    TRUNK_WEIGHT,
    TRUNK_BIAS,
    TRUNK_SCALE,
    BRANCH_A_WEIGHT,
    BRANCH_A_BIAS,
    BRANCH_B_WEIGHT,
    BRANCH_B_BIAS,
    HEAD_WEIGHT,
    HEAD_BIAS,
};
enum branchy_layer { LAYER_TRUNK, LAYER_BRANCH_A, LAYER_BRANCH_B, LAYER_HEAD };

static ddp_status describe_branchy(const struct ref_model_config *config,
                                   struct ref_model_spec *spec, struct ddp_err *err)
{
    const size_t *width = config->width;

    if (config->width_count != 3 || width[0] == 0 || width[1] == 0 || width[2] == 0) {
        return ddp_err_set(err, DDP_E_INVALID, "branchy needs 3 widths: input, trunk, output");
    }
    if (config->branch == REF_BRANCH_RANK_USES_NONE && width[0] < width[2]) {
        return ddp_err_set(err, DDP_E_INVALID,
                           "branch rank_uses_none takes the %zu outputs from the inputs, of which "
                           "there are %zu",
                           width[2], width[0]);
    }
    ref_spec_add_linear(spec, "trunk", width[1], width[0], REF_INIT_UNIFORM);
    ref_spec_add_vector(spec, "trunk.scale", width[1], 1);
    ref_spec_add_linear(spec, "branch_a", width[1], width[1], REF_INIT_UNIFORM);
    ref_spec_add_linear(spec, "branch_b", width[1], width[1], REF_INIT_UNIFORM);
    ref_spec_add_linear(spec, "head", width[2], width[1], REF_INIT_UNIFORM);
    ref_spec_add_buffer(spec, "trunk.running_mean", DDP_DTYPE_F32, width[1], 0.0F);
    return DDP_OK;
}

struct branches {
    bool has_a, has_b;
};

static struct branches pick_branches(const struct ref_model_config *config,
                                     const struct ref_batch *batch)
{
    const struct branches both = {true, true};
    const struct branches only_a = {true, false};
    const struct branches only_b = {false, true};

    switch (config->branch) {
    case REF_BRANCH_ONLY_A:
        return only_a;
    case REF_BRANCH_RANK_SKIPS:
        return batch->rank == config->skip_rank ? only_a : both;
    case REF_BRANCH_BY_RANK:
        return batch->rank % 2 == 0 ? only_a : only_b;
    case REF_BRANCH_BY_STEP:
        return batch->step % 2 == 0 ? only_a : only_b;
    case REF_BRANCH_BY_DATA:
        return batch->labels[0] % 2 == 0 ? only_a : only_b;
    case REF_BRANCH_RANK_USES_NONE:
    case REF_BRANCH_BOTH:
    case REF_BRANCH_RULE_COUNT:
        break;
    }
    return both;
}

/* mean = 0.9 * mean + (0.1 / rows) * sum of rows */
static ddp_status follow_mean(struct ref_model *model, size_t h)
{
    struct ref_tape *tape = &model->tape;
    const struct ref_value *x = ref_tape_value(tape, h);
    float *sums = ref_tape_work(tape, x->columns);

    if (tape->is_dry) {
        return DDP_OK;
    }
    DDP_TRY(model->device->math->sum_rows(model->device, NULL, sums, x->data, x->rows, x->columns,
                                          false));
    return ref_buffer_follow(model, 0, sums, 0.1F, 1.0F / (float)x->rows);
}

static ddp_status forward_branch(struct ref_tape *tape, size_t h, enum branchy_layer layer,
                                 enum branchy_param weight, size_t *out)
{
    DDP_TRY(ref_tape_layer(tape, layer));
    DDP_TRY(ref_tape_linear(tape, h, weight, (size_t)weight + 1, out));
    return ref_tape_scale(tape, *out, TRUNK_SCALE, out);
}

/* As a rank whose batch has nothing to learn from: its loss is of numbers that no parameter gave.
 */
static ddp_status forward_none(struct ref_model *model, const struct ref_batch *batch)
{
    size_t x;

    DDP_TRY(ref_tape_input(&model->tape, batch->features, 1, model->config.width[2], &x));
    return ref_tape_cross_entropy(&model->tape, x, batch->labels);
}

static ddp_status forward_branchy(struct ref_model *model, const struct ref_batch *batch)
{
    struct ref_tape *tape = &model->tape;
    struct branches picked = {true, true};
    size_t h;
    size_t a = REF_NONE;
    size_t b = REF_NONE;
    size_t x;

    if (!tape->is_dry && model->config.branch == REF_BRANCH_RANK_USES_NONE &&
        batch->rank == model->config.skip_rank) {
        return forward_none(model, batch);
    }
    if (!tape->is_dry) {
        picked = pick_branches(&model->config, batch);
    }
    DDP_TRY(ref_tape_input(tape, batch->features, 1, model->config.width[0], &x));
    DDP_TRY(ref_tape_layer(tape, LAYER_TRUNK));
    DDP_TRY(ref_tape_linear(tape, x, TRUNK_WEIGHT, TRUNK_BIAS, &x));
    DDP_TRY(ref_tape_relu(tape, x, &h));
    DDP_TRY(follow_mean(model, h));
    if (picked.has_a) {
        DDP_TRY(forward_branch(tape, h, LAYER_BRANCH_A, BRANCH_A_WEIGHT, &a));
    }
    if (picked.has_b) {
        DDP_TRY(forward_branch(tape, h, LAYER_BRANCH_B, BRANCH_B_WEIGHT, &b));
    }
    x = picked.has_a ? a : b;
    if (picked.has_a && picked.has_b) {
        DDP_TRY(ref_tape_add(tape, a, b, &x));
    }
    DDP_TRY(ref_tape_relu(tape, x, &x));
    DDP_TRY(ref_tape_layer(tape, LAYER_HEAD));
    DDP_TRY(ref_tape_linear(tape, x, HEAD_WEIGHT, HEAD_BIAS, &x));
    return ref_tape_cross_entropy(tape, x, batch->labels);
}

const struct ref_model_kind ref_model_branchy = {.default_hidden_count = 1,
                                                 .default_hidden_width = 32,
                                                 .is_roundable = true,
                                                 .describe = describe_branchy,
                                                 .forward = forward_branchy};
