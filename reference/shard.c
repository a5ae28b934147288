/* Which samples a rank trains on: the rules of torch.utils.data.DistributedSampler, or shards of
 * given sizes. Shares no code with the sampler under test.
 *
 * Without shard sizes the epoch's list of N entries is read round and round: entry j of rank r is
 * number (r + j*W) mod N, which is exactly "pad from the head, then take every W-th". */
#include "reference/data.h"
#include "reference/permutation.h"

/* Entries of an epoch's list that a rank owns. */
static size_t shard_entries(const struct ref_shard_config *config, uint32_t rank)
{
    if (config->shard_size != NULL) {
        return config->shard_size[rank];
    }
    return (config->sample_count + config->world_size - 1) / config->world_size;
}

/* Position in the epoch's list of entry number `entry` of a rank. */
static size_t shard_position(const struct ref_shard_config *config, uint32_t rank, size_t entry)
{
    size_t first = 0;

    if (config->shard_size == NULL) {
        return (rank + entry * config->world_size) % config->sample_count;
    }
    for (uint32_t r = 0; r < rank; r++) {
        first += config->shard_size[r];
    }
    return first + entry;
}

static size_t batches_per_epoch(const struct ref_shard_config *config, uint32_t rank)
{
    size_t rows = config->batch_rows[rank];

    return (shard_entries(config, rank) + rows - 1) / rows;
}

static ddp_status shard_check(const struct ref_shard_config *config)
{
    size_t left = config->sample_count;

    if (config->world_size == 0 || config->sample_count == 0 || config->sample_count > UINT32_MAX) {
        return DDP_E_INVALID;
    }
    for (uint32_t r = 0; r < config->world_size; r++) {
        size_t size = config->shard_size != NULL ? config->shard_size[r] : 0;
        if (config->batch_rows[r] == 0 || size > left) {
            return DDP_E_INVALID;
        }
        left -= size;
    }
    return DDP_OK;
}

ddp_status ref_shard_cursor_init(struct ref_shard_cursor *cursor,
                                 const struct ref_shard_config *config, struct ddp_mem *mem)
{
    *cursor = (struct ref_shard_cursor){0};
    DDP_TRY(shard_check(config));
    cursor->list = (uint32_t *)ddp_mem_array(mem, config->sample_count, sizeof(uint32_t));
    if (cursor->list == NULL) {
        return DDP_E_NOMEM;
    }
    cursor->config = config;
    cursor->mem = mem;
    return DDP_OK;
}

void ref_shard_cursor_fini(struct ref_shard_cursor *cursor)
{
    if (cursor->mem != NULL) {
        ddp_mem_free(cursor->mem, cursor->list);
    }
    *cursor = (struct ref_shard_cursor){0};
}

static void cursor_turn_to(struct ref_shard_cursor *cursor, uint64_t epoch)
{
    const struct ref_shard_config *config = cursor->config;

    if (cursor->is_list_valid && (cursor->epoch == epoch || !config->is_shuffled)) {
        return;
    }
    if (config->is_shuffled) {
        ref_permutation(config->seed + epoch, cursor->list, config->sample_count);
    } else {
        for (size_t i = 0; i < config->sample_count; i++) {
            cursor->list[i] = (uint32_t)i;
        }
    }
    cursor->epoch = epoch;
    cursor->is_list_valid = true;
}

size_t ref_shard_batch_rows(const struct ref_shard_config *config, uint32_t rank, uint64_t index)
{
    size_t per_epoch = batches_per_epoch(config, rank);
    size_t rows = config->batch_rows[rank];
    size_t left;

    if (per_epoch == 0 || (config->is_one_epoch && index >= per_epoch)) {
        return 0;
    }
    left = shard_entries(config, rank) - (size_t)(index % per_epoch) * rows;
    return left < rows ? left : rows;
}

ddp_status ref_shard_cursor_batch(struct ref_shard_cursor *cursor, uint32_t rank, uint64_t index,
                                  uint32_t *out_samples, size_t *out_rows)
{
    const struct ref_shard_config *config = cursor->config;
    size_t per_epoch;
    size_t first;

    *out_rows = 0;
    if (rank >= config->world_size) {
        return DDP_E_INVALID;
    }
    *out_rows = ref_shard_batch_rows(config, rank, index);
    if (*out_rows == 0) {
        return DDP_OK;
    }
    per_epoch = batches_per_epoch(config, rank);
    cursor_turn_to(cursor, index / per_epoch);
    first = (size_t)(index % per_epoch) * config->batch_rows[rank];
    for (size_t b = 0; b < *out_rows; b++) {
        out_samples[b] = cursor->list[shard_position(config, rank, first + b)];
    }
    return DDP_OK;
}

size_t ref_shard_batch_count(const struct ref_shard_config *config, uint32_t rank)
{
    size_t per_epoch = batches_per_epoch(config, rank);

    return config->is_one_epoch || per_epoch == 0 ? per_epoch : SIZE_MAX;
}
