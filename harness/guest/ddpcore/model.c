/* The model of a trainer on ddpcore, in the guest library's words. */
#include <string.h>

#include "harness/guest/ddpcore/ddprove_ddpcore.h"

static const uint8_t dtypes[DDP_DTYPE_COUNT] = {
    [DDP_DTYPE_F32] = DDPROVE_GUEST_F32,   [DDP_DTYPE_F16] = DDPROVE_GUEST_F16,
    [DDP_DTYPE_BF16] = DDPROVE_GUEST_BF16, [DDP_DTYPE_F64] = DDPROVE_GUEST_F64,
    [DDP_DTYPE_I32] = DDPROVE_GUEST_I32,   [DDP_DTYPE_I64] = DDPROVE_GUEST_I64,
    [DDP_DTYPE_U8] = DDPROVE_GUEST_U8};

/* In the order in which they lie in the bucket. */
static uint32_t names_of(const struct ddp *ddp, size_t bucket, const struct ddp_param *params,
                         size_t param_count, const char **names)
{
    const size_t elem_count = ddp_bucket_elem_count(ddp, bucket);
    uint32_t count = 0;

    for (size_t place = 0; place < elem_count;) {
        size_t next = elem_count;

        for (size_t p = 0; p < param_count; p++) {
            const size_t offset = ddp_bucket_offset_of_param(ddp, p);

            if (ddp_bucket_of_param(ddp, p) != bucket || offset < place) {
                continue;
            }
            if (offset == place) {
                names[count++] = params[p].name;
            } else {
                next = offset < next ? offset : next;
            }
        }
        place = next;
    }
    return count;
}

ddp_status ddprove_core_model(const struct ddp *ddp, struct ddp_mem *mem,
                              const struct ddp_param *params, size_t param_count)
{
    const char **names;

    if (!ddprove_guest_is_watched()) {
        return DDP_OK;
    }
    names = ddp_mem_array(mem, param_count, sizeof(*names));
    if (names == NULL) {
        return DDP_E_NOMEM;
    }
    for (size_t bucket = 0; bucket < ddp_bucket_count(ddp); bucket++) {
        const uint32_t count = names_of(ddp, bucket, params, param_count, names);

        ddprove_guest_bucket(0, (uint32_t)bucket, names, count);
    }
    ddp_mem_free(mem, names);
    return DDP_OK;
}

static ddp_status tell(const struct ddprove_core_update *update,
                       void (*hear)(const struct ddprove_guest_tensor *tensors, uint32_t count))
{
    struct ddprove_guest_tensor *tensors =
        ddp_mem_array(update->device->mem, update->param_count, sizeof(*tensors));

    if (tensors == NULL) {
        return DDP_E_NOMEM;
    }
    for (size_t p = 0; p < update->param_count; p++) {
        const struct ddp_param *param = &update->params[p];

        tensors[p] =
            (struct ddprove_guest_tensor){.size_bytes = sizeof(*tensors),
                                          .role = DDPROVE_GUEST_PARAMETER,
                                          .dtype = dtypes[param->dtype],
                                          .elem_count = param->elem_count,
                                          .name = param->name,
                                          .data = param->data,
                                          .gradient = param->is_grad_defined ? param->grad : NULL,
                                          .update_count = update->update_count,
                                          .optimizer = update->optimizer};
        for (int s = 0; s < 2; s++) {
            tensors[p].state[s] = update->state[s] != NULL ? update->state[s][p] : NULL;
        }
    }
    hear(tensors, (uint32_t)update->param_count);
    ddp_mem_free(update->device->mem, tensors);
    return DDP_OK;
}

static bool is_readable(const struct ddprove_core_update *update)
{
    return update->device->ops->is_host_memory;
}

ddp_status ddprove_core_update_begin(const struct ddprove_core_update *update)
{
    return is_readable(update) && ddprove_guest_asks_update_begin()
               ? tell(update, ddprove_guest_update_begin)
               : DDP_OK;
}

ddp_status ddprove_core_updated(const struct ddprove_core_update *update)
{
    return is_readable(update) && ddprove_guest_asks_updated() ? tell(update, ddprove_guest_updated)
                                                               : DDP_OK;
}

/* Of an epoch that a loader has begun, or goes on with: samples that were used before are left out.
 */
static void tell_epoch(const struct ddp_loader *loader, uint64_t number)
{
    const struct ddp_sampler_config *sampler = ddp_loader_sampler(loader);
    const uint64_t dealt = ddp_sampler_count(sampler) * (uint64_t)sampler->world_size;
    const uint64_t left = sampler->sample_count - sampler->first;
    const struct ddprove_guest_epoch epoch = {.size_bytes = sizeof epoch,
                                              .number = number,
                                              .sample_count = sampler->sample_count,
                                              .padded = dealt > left ? dealt - left : 0,
                                              .dropped = sampler->first +
                                                         (dealt < left ? left - dealt : 0)};

    ddprove_guest_epoch(&epoch);
}

static ddp_status tell_batch(struct ddp_mem *mem, const struct ddp_loader_batch *batch)
{
    uint64_t *numbers = ddp_mem_array(mem, batch->rows, sizeof(*numbers));

    if (numbers == NULL) {
        return DDP_E_NOMEM;
    }
    for (size_t i = 0; i < batch->rows; i++) {
        numbers[i] = batch->samples[i];
    }
    ddprove_guest_batch_of(numbers, batch->rows, batch->index);
    ddp_mem_free(mem, numbers);
    return DDP_OK;
}

ddp_status ddprove_core_next(struct ddprove_core_batches *batches, uint64_t deadline_ns,
                             struct ddp_loader_batch *out)
{
    struct ddp_env *env = batches->env;
    struct ddprove_guest_place next = {.size_bytes = sizeof next,
                                       .point = DDPROVE_GUEST_POINT_DATA_NEXT};
    const int times = ddprove_guest_pass(&next);
    const int given = batches->is_again ? 0 : times == 0 ? 2 : 1;

    for (int i = 0; i < given; i++) {
        DDP_TRY(
            ddp_loader_next(batches->loader, env->idle, env->clock, deadline_ns, &batches->batch));
        if (batches->batch.index == 0 && batches->batch.rows > 0) {
            tell_epoch(batches->loader, batches->batch.epoch);
        }
    }
    batches->is_again = times > 1 && batches->batch.rows > 0;
    *out = batches->batch;
    return out->rows > 0 ? tell_batch(env->mem, out) : DDP_OK;
}
