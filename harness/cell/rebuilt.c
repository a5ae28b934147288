/* PyTorch's rebuilt buckets: by the order in which parameters become ready on rank 0, as the
 * reference has it; and as rank 0 recorded them. */
#include "ddpcore/device/device.h"
#include "harness/cell/stage.h"
#include "harness/plan/bucket.h"
#include "harness/trace/index.h"
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

/* A static graph's unused parameters come behind those that were ready. */
static void add_unused(struct order *order)
{
    for (size_t p = 0; p < order->param_count && order->count < order->param_count; p++) {
        bool is_there = false;

        for (size_t i = 0; i < order->count; i++) {
            is_there = is_there || order->params[i] == (uint32_t)p;
        }
        if (!is_there) {
            order->params[order->count++] = (uint32_t)p;
        }
    }
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
    if (status == DDP_OK && cell->plan.job.static_graph) {
        add_unused(&order);
    }
    /* Under join a rank without a batch takes its parameters forwards; and where some get no
     * gradient, nothing is rebuilt, since the pass fails. */
    cell->model.ready_order = order.count == order.param_count ? order.params : NULL;
    return status;
}

/* --- what rank 0 announced --------------------------------------------------------------------
 * That it should be another list, the model oracle says; what ranks reduced with these buckets is
 * judged by them. */

/* Arguments of event bucket.param. */
enum { BUCKET, PARAM, OFFSET, COUNT };

/* Put the parameters that lie in bucket b, which follow each other without gaps, into it. False:
 * they do not. */
static bool gather(const struct harness_cell *cell, const struct harness_trace_event *const *list,
                   size_t b, struct harness_bucket *bucket)
{
    bool is_found = true;

    while (is_found) {
        is_found = false;
        for (size_t i = 0; i < cell->param_count && !is_found; i++) {
            const uint64_t *arg = list[i]->entry.arg;
            const struct ddp_param *param =
                arg[PARAM] < cell->param_count ? &cell->params[arg[PARAM]] : NULL;
            bool is_taken = false;

            for (uint32_t k = 0; k < bucket->param_count; k++) {
                is_taken = is_taken || bucket->params[k] == arg[PARAM];
            }
            if (param == NULL || is_taken || arg[BUCKET] != b ||
                arg[OFFSET] != bucket->elem_count || arg[COUNT] != param->elem_count ||
                (bucket->param_count > 0 && bucket->dtype != param->dtype)) {
                continue;
            }
            is_found = true;
            bucket->dtype = param->dtype;
            bucket->params[bucket->param_count] = (uint32_t)arg[PARAM];
            bucket->offsets[bucket->param_count] = bucket->elem_count;
            bucket->param_count++;
            bucket->elem_count += param->elem_count;
        }
    }
    return bucket->param_count > 0;
}

ddp_status harness_stage_announced(const struct harness_cell *cell,
                                   const struct harness_index *index, struct harness_buckets *out)
{
    const struct harness_trace_event *const *list;
    const struct harness_trace_event *const *rebuilt;
    struct harness_bucket *items;
    size_t count = 0;
    size_t rebuilt_count = 0;
    size_t gathered = 0;

    *out = (struct harness_buckets){NULL, 0};
    rebuilt = harness_index_list(index, 0, DDP_EVENT_BUCKET_REBUILT, &rebuilt_count);
    list = harness_index_list(index, 0, DDP_EVENT_BUCKET_PARAM, &count);
    if (rebuilt_count != 1 || rebuilt[0]->entry.arg[1] == cell->program.rebuilt_hash ||
        count != 2 * cell->param_count) {
        return DDP_OK;
    }
    list += cell->param_count;
    items = ddp_mem_array(cell->mem, cell->param_count, sizeof *items);
    for (size_t b = 0; items != NULL && gathered < cell->param_count; b++) {
        if (b == cell->param_count) {
            return DDP_OK; /* not whole */
        }
        items[b].params = ddp_mem_array(cell->mem, cell->param_count, sizeof *items[b].params);
        items[b].offsets = ddp_mem_array(cell->mem, cell->param_count, sizeof *items[b].offsets);
        if (items[b].params == NULL || items[b].offsets == NULL) {
            return DDP_E_NOMEM;
        }
        if (!gather(cell, list, b, &items[b])) {
            return DDP_OK;
        }
        gathered += items[b].param_count;
        out->count = gathered == cell->param_count ? b + 1 : 0;
    }
    out->items = items;
    return items == NULL ? DDP_E_NOMEM : DDP_OK;
}
