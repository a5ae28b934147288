/* The model and the data of core_trainer.c: softmax regression on ten noisy pictures. Nothing in
 * here knows of other ranks. */
#ifndef CORE_MODEL_H
#define CORE_MODEL_H

#include <ddpcore/ddp/loader.h>
#include <ddpcore/world/world.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { PIXELS = 64, CLASSES = 10, SAMPLES = 600, BATCH = 10 };
enum { WEIGHT, BIAS, PARAMS, TENSORS = 2 * PARAMS };

/* What a worker reads. */
struct batch {
    float pixels[BATCH * PIXELS];
    int32_t answers[BATCH];
};

/* On the device: its memory is never read here. */
struct work {
    struct batch batch;
    float logits[BATCH * CLASSES], d_logits[BATCH * CLASSES], losses[BATCH];
};

struct model {
    struct ddp_device *device;
    struct ddp_param tensors[TENSORS]; /* parameters, and behind them their momenta */
    struct work *work;
};

/* ddp_loader_config.read: a sample is one of ten pictures, with noise. */
ddp_status model_read(void *context, const struct ddp_loader_batch *batch);
/* In the world's memory. Each rank draws other weights: ddp_create gives all of them rank 0's. */
ddp_status model_make(struct ddp_world *world, struct model *out);
/* logits = pixels weight^T + bias, each sample's loss, and the gradients of their mean. */
ddp_status model_forward(const struct model *model);
/* The gradient of each parameter. */
ddp_status model_bias_backward(const struct model *model);
ddp_status model_weight_backward(const struct model *model);

#ifdef __cplusplus
}
#endif
#endif
