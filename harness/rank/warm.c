/* Purpose: no product of matrices is a card's first one of its shape while a collective runs.
 * Idea: cuBLAS loads a shape's kernels with the first product of that shape, and loading may wait
 * for all that runs on the card. Behind a collective that does not end the rank's host would stand
 * still in there, as if it were to blame. So a model of the same shapes makes both passes once,
 * beneath the device's observer: nothing of it is recorded, and no fault point is passed. */
#include "harness/rank/session.h"

struct warm_batch {
    float *features, *targets;
    int32_t *labels;
    uint32_t *samples;
};

static bool open_batch(const struct harness_session *session, struct warm_batch *batch)
{
    struct ddp_mem *mem = session->env->mem;
    const size_t rows = session->batch_rows;

    batch->features =
        ddp_mem_array(mem, rows * session->data->feature_count, sizeof batch->features[0]);
    batch->targets =
        ddp_mem_array(mem, rows * session->data->target_count, sizeof batch->targets[0]);
    batch->labels = ddp_mem_array(mem, rows * session->data->label_count, sizeof batch->labels[0]);
    batch->samples = ddp_mem_array(mem, rows, sizeof batch->samples[0]);
    return batch->features != NULL && batch->targets != NULL && batch->labels != NULL &&
           batch->samples != NULL;
}

static void close_batch(const struct harness_session *session, struct warm_batch *batch)
{
    struct ddp_mem *mem = session->env->mem;

    ddp_mem_free(mem, batch->samples);
    ddp_mem_free(mem, batch->labels);
    ddp_mem_free(mem, batch->targets);
    ddp_mem_free(mem, batch->features);
}

/* The second forward pass waits for what it computes, and so for the backward pass before it. */
static ddp_status run_passes(const struct harness_session *session, struct ref_model *model,
                             const struct warm_batch *zeros)
{
    const struct ref_data *data = session->data;
    const struct ref_batch batch = {.rank = session->env->rank,
                                    .rows = session->batch_rows,
                                    .samples = zeros->samples,
                                    .features = zeros->features,
                                    .labels = data->labels == NULL ? NULL : zeros->labels,
                                    .targets = data->targets == NULL ? NULL : zeros->targets};
    float loss;

    DDP_TRY(ref_model_forward(model, &batch, NULL, &loss));
    DDP_TRY(ref_model_backward(model, 1.0F, NULL));
    return ref_model_forward(model, &batch, NULL, &loss);
}

ddp_status harness_session_warm_up(struct harness_session *session)
{
    struct ref_model_config config = session->job.model;
    struct warm_batch batch = {0};
    struct ref_model *model = NULL;
    ddp_status status = DDP_OK;

    if (session->card == NULL) {
        return DDP_OK;
    }
    config.initial = NULL;
    if (open_batch(session, &batch)) {
        status = ref_model_create(session->card, &config, session->batch_rows, &model, NULL);
    }
    if (model != NULL && status == DDP_OK) {
        status = run_passes(session, model, &batch);
    }
    if (model != NULL) {
        ref_model_destroy(model);
    }
    close_batch(session, &batch);
    /* A card that has no room for two models may have room for one. */
    return status == DDP_E_DEVICE_MEMORY || status == DDP_E_NOMEM ? DDP_OK : status;
}
