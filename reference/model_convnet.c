/* convnet: blocks of a 3x3 convolution without bias, BatchNorm, ReLU and a mean over 2x2 pixels; in
 * the last block over the whole image; then a linear head and cross-entropy.
 *     widths: pixels of the (square, one-channel) image, channels of each block, classes
 *     block i: conv<i>.weight [out][in][3][3], bn<i>.weight, bn<i>.bias, with the buffers
 *              bn<i>.running_mean, bn<i>.running_var, bn<i>.num_batches_tracked (i64); fc.weight,
 *              fc.bias
 * As torch.nn.Conv2d(padding=1, bias=False), BatchNorm2d() in training, ReLU, AvgPool2d(2). */
#include <stdio.h>

#include "reference/model_kind.h"

enum { WINDOW = 3, PARAMS_EACH = 3, BUFFERS_EACH = 3 };

#define EPS      1e-5F
#define MOMENTUM 0.1F

static size_t side_of(size_t pixel_count)
{
    size_t side = 1;

    while ((side + 1) * (side + 1) <= pixel_count) {
        side++;
    }
    return side;
}

static void describe_block(struct ref_model_spec *spec, unsigned block, size_t inputs,
                           size_t outputs)
{
    struct ref_param_spec conv = {.ndim = 4,
                                  .shape = {outputs, inputs, WINDOW, WINDOW},
                                  .fan_in = inputs * WINDOW * WINDOW,
                                  .init = REF_INIT_UNIFORM};
    char name[REF_NAME_BYTES];

    (void)snprintf(conv.name, sizeof(conv.name), "conv%u.weight", block);
    ref_spec_add_param(spec, &conv);
    (void)snprintf(name, sizeof(name), "bn%u", block);
    DDP_ASSERT(spec->batch_norm_count < REF_LAYERS_MAX);
    spec->batch_norms[spec->batch_norm_count++] = (uint32_t)spec->param_count;
    ref_spec_add_norm(spec, name, outputs);
    (void)snprintf(name, sizeof(name), "bn%u.running_mean", block);
    ref_spec_add_buffer(spec, name, DDP_DTYPE_F32, outputs, 0.0F);
    (void)snprintf(name, sizeof(name), "bn%u.running_var", block);
    ref_spec_add_buffer(spec, name, DDP_DTYPE_F32, outputs, 1.0F);
    (void)snprintf(name, sizeof(name), "bn%u.num_batches_tracked", block);
    ref_spec_add_buffer(spec, name, DDP_DTYPE_I64, 1, 0.0F);
}

static ddp_status describe_convnet(const struct ref_model_config *config,
                                   struct ref_model_spec *spec, struct ddp_err *err)
{
    const size_t *width = config->width;
    const size_t block_count = config->width_count > 2 ? config->width_count - 2 : 0;
    const size_t side = side_of(width[0]);

    if (block_count == 0 || width[config->width_count - 1] == 0) {
        return ddp_err_set(err, DDP_E_INVALID,
                           "convnet needs 3 widths or more: pixels, channels of each block, "
                           "classes");
    }
    if (side * side != width[0]) {
        return ddp_err_set(err, DDP_E_INVALID,
                           "convnet takes square images: %zu features are not the pixels of one",
                           width[0]);
    }
    if (block_count > 32 || side >> (block_count - 1) == 0) {
        return ddp_err_set(err, DDP_E_INVALID,
                           "each of convnet's blocks but the last halves the image: %zu blocks "
                           "are too many for %zu x %zu pixels",
                           block_count, side, side);
    }
    for (size_t block = 0; block < block_count; block++) {
        if (width[1 + block] == 0) {
            return ddp_err_set(err, DDP_E_INVALID, "convnet has a block of 0 channels");
        }
        describe_block(spec, (unsigned)block, block == 0 ? 1 : width[block], width[1 + block]);
    }
    ref_spec_add_linear(spec, "fc", width[1 + block_count], width[block_count], REF_INIT_UNIFORM);
    return DDP_OK;
}

/* BatchNorm in training. The running variance is that of a sample: times n / (n - 1). */
static ddp_status batch_norm(struct ref_model *model, size_t block, size_t x, size_t *out)
{
    struct ref_tape *tape = &model->tape;
    const size_t param = block * PARAMS_EACH + 1;
    const size_t buffer = block * BUFFERS_EACH;
    const struct ref_value in = *ref_tape_value(tape, x);
    const float *moments;
    float rows;

    ref_buffer_make_room(model, in.columns);
    DDP_TRY(ref_tape_normalize_shared(tape, x, (uint32_t)block, EPS, out, &moments, &rows));
    DDP_TRY(ref_tape_affine(tape, *out, param, param + 1, out));
    if (tape->is_dry) {
        return DDP_OK;
    }
    DDP_TRY(ref_buffer_follow(model, buffer, moments, MOMENTUM, 1.0F));
    DDP_TRY(
        ref_buffer_follow(model, buffer + 1, moments + in.columns, MOMENTUM, rows / (rows - 1.0F)));
    return ref_buffer_count(model, buffer + 2);
}

static ddp_status forward_convnet(struct ref_model *model, const struct ref_batch *batch)
{
    struct ref_tape *tape = &model->tape;
    const size_t block_count = model->config.width_count - 2;
    size_t side = side_of(model->config.width[0]);
    size_t x;

    DDP_TRY(ref_tape_input(tape, batch->features, side * side, 1, &x));
    for (size_t block = 0; block < block_count; block++) {
        struct ddp_image image = {.count = tape->rows,
                                  .height = side,
                                  .width = side,
                                  .channels = ref_tape_value(tape, x)->columns,
                                  .window = WINDOW,
                                  .padding = 1};

        DDP_TRY(ref_tape_layer(tape, (uint32_t)block));
        DDP_TRY(ref_tape_conv(tape, x, block * PARAMS_EACH, &image, &x));
        DDP_TRY(batch_norm(model, block, x, &x));
        DDP_TRY(ref_tape_relu(tape, x, &x));
        image.channels = model->config.width[1 + block];
        image.window = block + 1 < block_count ? 2 : side;
        image.padding = 0;
        DDP_TRY(ref_tape_average_pool(tape, x, &image, &x));
        DDP_ASSERT(image.window > 0);
        side /= image.window;
    }
    DDP_TRY(ref_tape_layer(tape, (uint32_t)block_count));
    DDP_TRY(ref_tape_linear(tape, x, block_count * PARAMS_EACH, block_count * PARAMS_EACH + 1, &x));
    return ref_tape_cross_entropy(tape, x, batch->labels);
}

const struct ref_model_kind ref_model_convnet = {.default_hidden_count = 2,
                                                 .default_hidden_width = 8,
                                                 .needs_layers = true,
                                                 .is_roundable = true,
                                                 .describe = describe_convnet,
                                                 .forward = forward_convnet};
