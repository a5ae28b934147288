/* See the header. */
#include <core_model.h>
#include <ddpcore/base/prng.h>
#include <ddpcore/device/math.h>

/* In a worker thread. */
ddp_status model_read(void *context, const struct ddp_loader_batch *batch)
{
    struct batch *out = batch->data;

    (void)context;
    for (size_t b = 0; b < batch->rows; b++) {
        const uint32_t answer = batch->samples[b] % CLASSES;
        struct ddp_prng noise = ddp_prng_make(batch->samples[b], "noise");
        struct ddp_prng picture = ddp_prng_make(answer, "picture");

        out->answers[b] = (int32_t)answer;
        for (size_t i = 0; i < PIXELS; i++) {
            out->pixels[b * PIXELS + i] = ddp_prng_uniform(&picture) + ddp_prng_uniform(&noise);
        }
    }
    return DDP_OK;
}

ddp_status model_make(struct ddp_world *world, struct model *out)
{
    struct ddp_param *tensors = out->tensors;
    struct ddp_prng prng = ddp_prng_make(world->where.rank, "init");
    float weights[CLASSES * PIXELS];

    for (int i = 0; i < CLASSES * PIXELS; i++) {
        weights[i] = (ddp_prng_uniform(&prng) - 0.5F) * 0.2F;
    }
    out->device = world->device;
    DDP_TRY(ddp_world_param(world, "weight", CLASSES, PIXELS, &tensors[WEIGHT]));
    DDP_TRY(ddp_world_param(world, "bias", CLASSES, 0, &tensors[BIAS]));
    DDP_TRY(ddp_world_param(world, "momentum.weight", CLASSES, PIXELS, &tensors[PARAMS + WEIGHT]));
    DDP_TRY(ddp_world_param(world, "momentum.bias", CLASSES, 0, &tensors[PARAMS + BIAS]));
    DDP_TRY(ddp_world_alloc(world, sizeof *out->work, (void **)&out->work));
    return ddp_transfer_to_device(&world->transfer, tensors[WEIGHT].data, weights, sizeof weights);
}

ddp_status model_forward(const struct model *model)
{
    struct ddp_device *device = model->device;
    struct work *work = model->work;
    const struct ddp_gemm product = {.transpose_b = true,
                                     .m = BATCH,
                                     .n = CLASSES,
                                     .k = PIXELS,
                                     .alpha = 1,
                                     .a = work->batch.pixels,
                                     .b = model->tensors[WEIGHT].data,
                                     .c = work->logits};
    const struct ddp_loss loss = {.losses = work->losses,
                                  .dx = work->d_logits,
                                  .x = work->logits,
                                  .rows = BATCH,
                                  .columns = CLASSES,
                                  .scale = 1.0F / BATCH};

    DDP_TRY(device->math->gemm(device, NULL, &product));
    DDP_TRY(device->math->add_bias(device, NULL, work->logits, work->logits,
                                   model->tensors[BIAS].data, BATCH, CLASSES));
    return device->math->softmax_cross_entropy(device, NULL, &loss, work->batch.answers);
}

ddp_status model_bias_backward(const struct model *model)
{
    return model->device->math->sum_rows(model->device, NULL, model->tensors[BIAS].grad,
                                         model->work->d_logits, BATCH, CLASSES, false);
}

/* d_logits^T pixels */
ddp_status model_weight_backward(const struct model *model)
{
    const struct ddp_gemm product = {.transpose_a = true,
                                     .m = CLASSES,
                                     .n = PIXELS,
                                     .k = BATCH,
                                     .alpha = 1,
                                     .a = model->work->d_logits,
                                     .b = model->work->batch.pixels,
                                     .c = model->tensors[WEIGHT].grad};

    return model->device->math->gemm(model->device, NULL, &product);
}
