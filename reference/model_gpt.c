/* gpt: a transformer as GPT-2: token and position embedding, blocks of causal attention and a
 * feed-forward part of four times the width, each behind a LayerNorm and added to what it read, a
 * last LayerNorm, and a head that is the token embedding once more (tied weights): its gradient is
 * complete only when the embedding, the first operation, has contributed.
 *     widths: tokens of a sequence, the width once for each block, tokens that there are
 *     parameters: wte.weight, wpe.weight, h.<i>.{ln_1, attn.c_attn, attn.c_proj, ln_2, mlp.c_fc,
 *                 mlp.c_proj}.{weight, bias}, ln_f.weight, ln_f.bias; as torch.nn.Linear and
 *                 LayerNorm, GELU in its tanh form */
#include <stdio.h>

#include "reference/model_kind.h"

enum { WTE, WPE, FIRST_BLOCK };
/* Parameters of a block; a bias follows each. */
enum { LN_1 = 0, C_ATTN = 2, ATTN_PROJ = 4, LN_2 = 6, C_FC = 8, MLP_PROJ = 10, PARAMS_EACH = 12 };

#define EPS 1e-5F

static size_t heads_of(const struct ref_model_config *config)
{
    if (config->heads > 0) {
        return config->heads;
    }
    return config->width[1] % 4 == 0 ? 4 : 1;
}

static ddp_status check_config(const struct ref_model_config *config, struct ddp_err *err)
{
    const size_t *width = config->width;

    if (config->width_count < 3 || width[0] == 0 || width[config->width_count - 1] == 0) {
        return ddp_err_set(err, DDP_E_INVALID,
                           "gpt needs 3 widths or more: tokens of a sequence, the width of each "
                           "block, tokens that there are");
    }
    for (size_t i = 1; i + 1 < config->width_count; i++) {
        if (width[i] == 0 || width[i] != width[1]) {
            return ddp_err_set(err, DDP_E_INVALID,
                               "all of gpt's blocks must have one width above 0");
        }
    }
    if (width[1] % heads_of(config) != 0) {
        return ddp_err_set(err, DDP_E_INVALID, "gpt's width %zu does not divide by %zu heads",
                           width[1], heads_of(config));
    }
    return DDP_OK;
}

static void add_table(struct ref_model_spec *spec, const char *name, size_t rows, size_t columns)
{
    struct ref_param_spec table = {
        .ndim = 2, .shape = {rows, columns}, .fan_in = columns, .init = REF_INIT_NARROW};

    (void)snprintf(table.name, sizeof(table.name), "%s", name);
    ref_spec_add_param(spec, &table);
}

static void add_block(struct ref_model_spec *spec, unsigned block, size_t width)
{
    const struct {
        const char *name;
        size_t outputs, inputs; /* inputs 0: a LayerNorm */
    } parts[] = {
        {"ln_1", width, 0}, {"attn.c_attn", 3 * width, width}, {"attn.c_proj", width, width},
        {"ln_2", width, 0}, {"mlp.c_fc", 4 * width, width},    {"mlp.c_proj", width, 4 * width}};

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        char prefix[REF_NAME_BYTES / 2];

        (void)snprintf(prefix, sizeof(prefix), "h.%u.%s", block, parts[i].name);
        if (parts[i].inputs == 0) {
            ref_spec_add_norm(spec, prefix, width);
        } else {
            ref_spec_add_linear(spec, prefix, parts[i].outputs, parts[i].inputs, REF_INIT_NARROW);
        }
    }
}

static ddp_status describe_gpt(const struct ref_model_config *config, struct ref_model_spec *spec,
                               struct ddp_err *err)
{
    const size_t width = config->width[1];

    DDP_TRY(check_config(config, err));
    add_table(spec, "wte.weight", config->width[config->width_count - 1], width);
    add_table(spec, "wpe.weight", config->width[0], width);
    for (size_t block = 0; block + 2 < config->width_count; block++) {
        add_block(spec, (unsigned)block, width);
    }
    ref_spec_add_norm(spec, "ln_f", width);
    return DDP_OK;
}

static ddp_status layer_norm(struct ref_tape *tape, size_t x, size_t param, size_t *out)
{
    DDP_TRY(ref_tape_normalize_rows(tape, x, EPS, out));
    return ref_tape_affine(tape, *out, param, param + 1, out);
}

static ddp_status forward_block(struct ref_model *model, size_t first, size_t *inout)
{
    struct ref_tape *tape = &model->tape;
    size_t x;

    DDP_TRY(layer_norm(tape, *inout, first + LN_1, &x));
    DDP_TRY(ref_tape_linear(tape, x, first + C_ATTN, first + C_ATTN + 1, &x));
    DDP_TRY(ref_tape_attention(tape, x, model->config.width[0], heads_of(&model->config), &x));
    DDP_TRY(ref_tape_linear(tape, x, first + ATTN_PROJ, first + ATTN_PROJ + 1, &x));
    DDP_TRY(ref_tape_add(tape, *inout, x, inout));
    DDP_TRY(layer_norm(tape, *inout, first + LN_2, &x));
    DDP_TRY(ref_tape_linear(tape, x, first + C_FC, first + C_FC + 1, &x));
    DDP_TRY(ref_tape_gelu(tape, x, &x));
    DDP_TRY(ref_tape_linear(tape, x, first + MLP_PROJ, first + MLP_PROJ + 1, &x));
    return ref_tape_add(tape, *inout, x, inout);
}

static ddp_status forward_gpt(struct ref_model *model, const struct ref_batch *batch)
{
    struct ref_tape *tape = &model->tape;
    const size_t block_count = model->config.width_count - 2;
    size_t x;

    DDP_TRY(ref_tape_layer(tape, 0));
    DDP_TRY(ref_tape_embedding(tape, batch->features, model->config.width[0], WTE, &x));
    DDP_TRY(ref_tape_add_position(tape, x, WPE, &x));
    for (size_t block = 0; block < block_count; block++) {
        DDP_TRY(ref_tape_layer(tape, (uint32_t)block + 1));
        DDP_TRY(forward_block(model, FIRST_BLOCK + block * PARAMS_EACH, &x));
    }
    DDP_TRY(ref_tape_layer(tape, (uint32_t)block_count + 1));
    DDP_TRY(layer_norm(tape, x, FIRST_BLOCK + block_count * PARAMS_EACH, &x));
    DDP_TRY(ref_tape_linear(tape, x, WTE, REF_NONE, &x));
    return ref_tape_cross_entropy(tape, x, batch->labels);
}

const struct ref_model_kind ref_model_gpt = {.default_hidden_count = 2,
                                             .default_hidden_width = 128,
                                             .is_sequence = true,
                                             .needs_layers = true,
                                             .is_roundable = true,
                                             .describe = describe_gpt,
                                             .forward = forward_gpt};
