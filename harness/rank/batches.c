/* The judge derives the same batches from the plan, with code of its own. */
#include "harness/rank/batches.h"

static ddp_status deal(struct harness_batches *batches, uint64_t epoch)
{
    if (batches->is_dealt && (batches->epoch == epoch || !batches->sampler.is_shuffled)) {
        return DDP_OK;
    }
    DDP_TRY(ddp_sampler_epoch(&batches->sampler, epoch, batches->mem, batches->share));
    batches->epoch = epoch;
    batches->is_dealt = true;
    return DDP_OK;
}

ddp_status harness_batches_init(struct harness_batches *batches, struct ddp_mem *mem,
                                const struct ddp_sampler_config *sampler, size_t row_count,
                                bool is_one_epoch)
{
    *batches = (struct harness_batches){
        .mem = mem, .sampler = *sampler, .row_count = row_count, .is_one_epoch = is_one_epoch};
    if (row_count == 0 || sampler->rank >= sampler->world_size) {
        return DDP_E_INVALID;
    }
    batches->share_count = ddp_sampler_count(sampler);
    batches->share = ddp_mem_array(mem, batches->share_count, sizeof batches->share[0]);
    return batches->share == NULL ? DDP_E_NOMEM : deal(batches, 0);
}

void harness_batches_fini(struct harness_batches *batches)
{
    if (batches->mem != NULL) {
        ddp_mem_free(batches->mem, batches->share);
    }
    *batches = (struct harness_batches){0};
}

static size_t batches_per_epoch(const struct harness_batches *batches)
{
    return (batches->share_count + batches->row_count - 1) / batches->row_count;
}

bool harness_batches_begins_epoch(const struct harness_batches *batches, uint64_t index)
{
    size_t per_epoch = batches_per_epoch(batches);

    return per_epoch > 0 && !batches->is_one_epoch && index / per_epoch != batches->epoch;
}

void harness_batches_keep_order(struct harness_batches *batches, uint64_t index)
{
    DDP_ASSERT(harness_batches_begins_epoch(batches, index) && batches->is_dealt);
    batches->epoch = index / batches_per_epoch(batches);
}

ddp_status harness_batches_take(struct harness_batches *batches, uint64_t index,
                                uint32_t **out_samples, size_t *out_rows)
{
    size_t rows = batches->row_count;
    size_t per_epoch = batches_per_epoch(batches);
    size_t first;

    *out_samples = batches->share;
    *out_rows = 0;
    if (per_epoch == 0 || (batches->is_one_epoch && index >= per_epoch)) {
        return DDP_OK;
    }
    DDP_TRY(deal(batches, index / per_epoch));
    first = (size_t)(index % per_epoch) * rows;
    *out_samples = batches->share + first;
    *out_rows = batches->share_count - first < rows ? batches->share_count - first : rows;
    return DDP_OK;
}
