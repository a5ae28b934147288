/* The order in which parameters become ready on rank 0, as the reference has it. PyTorch's buckets
 * are rebuilt by it. */
#include "ddpcore/device/device.h"
#include "harness/cell/stage.h"
#include "harness/plan/bucket.h"
#include "reference/trainer.h"

struct order {
    uint32_t *params;
    size_t count, param_count;
};

static ddp_status note(void *context, size_t param_index)
{
    struct order *order = context;

    if (order->count < order->param_count) {
        order->params[order->count++] = (uint32_t)param_index;
    }
    return DDP_OK;
}

/* One pass of rank 0's first batch. The last micro-batch reduces; its order is that of the first
 * one, unless the model branches by batch. */
static ddp_status run_pass(const struct harness_cell *cell, struct ref_trainer *trainer,
                           struct order *order)
{
    const struct ref_model_observer observer = {.context = order, .grad_ready = note};
    struct ref_model *model = ref_trainer_model(trainer);
    struct ref_batch batch;
    float loss;

    DDP_TRY(ref_trainer_batch(trainer, 0, cell->plan.job.start_step, cell->job.micro_batches - 1,
                              &batch));
    if (batch.rows == 0) {
        return DDP_OK; /* rank 0 only mirrors the pass */
    }
    DDP_TRY(ref_model_forward(model, &batch, NULL, &loss));
    return ref_model_backward(model, 1.0f, &observer);
}

ddp_status harness_stage_ready_order(struct harness_cell *cell, struct ddp_err *err)
{
    struct order order = {.param_count = cell->param_count};
    struct ddp_device *device = NULL;
    struct ref_trainer *trainer = NULL;
    ddp_status status;

    if (!harness_bucket_is_rebuilt(&cell->plan.job)) {
        return DDP_OK;
    }
    order.params = ddp_mem_array(cell->mem, cell->param_count, sizeof *order.params);
    if (order.params == NULL) {
        return DDP_E_NOMEM;
    }
    status = ddp_device_cpu_create(cell->mem, &device);
    if (status == DDP_OK) {
        status = ref_trainer_create(device, &cell->job, &trainer, err);
    }
    if (status == DDP_OK) {
        status = run_pass(cell, trainer, &order);
        ref_trainer_destroy(trainer);
    }
    if (device != NULL) {
        device->ops->destroy(device);
    }
    /* Under join a rank without a batch takes its parameters forwards; and where some get no
     * gradient, nothing is rebuilt, since the pass fails. */
    cell->model.ready_order = order.count == order.param_count ? order.params : NULL;
    return status;
}
