/* Which samples a rank trains on: the rules of torch.utils.data.DistributedSampler, or shards of
 * given sizes. Shares no code with the sampler under test.
 *
 * Without shard sizes the epoch's list of N entries is read round and round: entry j of rank r is
 * number (r + j*W) mod N, which is exactly "pad from the head, then take every W-th". A run that
 * goes on where u entries were used reads on from there. */
#include "reference/data.h"
#include "reference/permutation.h"

/* Entries that a rank owns of an epoch's list, of which `used` were used before. */
static size_t shard_entries(const struct ref_shard_config *config, uint32_t rank, size_t used)
{
    const size_t left = config->sample_count - used;

    if (config->shard_size != NULL) {
        return config->shard_size[rank];
    }
    return (left + (config->drop_last ? 0 : config->world_size - 1)) / config->world_size;
}

/* Position in the epoch's list of entry number `entry` of a rank. */
static size_t shard_position(const struct ref_shard_config *config, uint32_t rank, size_t used,
                             size_t entry)
{
    size_t first = 0;

    if (config->shard_size == NULL) {
        return (used + rank + entry * config->world_size) % config->sample_count;
    }
    for (uint32_t r = 0; r < rank; r++) {
        first += config->shard_size[r];
    }
    return first + entry;
}

static size_t batches_per_epoch(const struct ref_shard_config *config, uint32_t rank, size_t used)
{
    size_t rows = config->batch_rows[rank];

    return (shard_entries(config, rank, used) + rows - 1) / rows;
}

/* A micro-batch in its epoch. */
struct shard_place {
    uint64_t epoch;
    size_t used;  /* entries of the list that an earlier run used */
    size_t first; /* of the rank's entries */
    size_t rows;  /* 0: the data has ended */
};

static struct shard_place shard_place(const struct ref_shard_config *config, uint32_t rank,
                                      uint64_t index)
{
    const struct ref_shard_start *start = &config->start;
    const bool is_going_on = start->index > 0 && index >= start->index;
    const size_t whole = batches_per_epoch(config, rank, 0);
    struct shard_place place = {0};
    uint64_t rest = 0, number = index;
    size_t left;

    if (is_going_on) {
        place = (struct shard_place){.epoch = start->epoch, .used = start->used};
        rest = batches_per_epoch(config, rank, start->used);
        number = index - start->index;
    }
    if (number >= rest) {
        if (whole == 0 || (config->is_one_epoch && number >= whole)) {
            return place;
        }
        number -= rest;
        place.epoch += (is_going_on ? 1 : 0) + number / whole;
        place.used = 0;
        number %= whole;
    }
    place.first = (size_t)number * config->batch_rows[rank];
    left = shard_entries(config, rank, place.used) - place.first;
    place.rows = left < config->batch_rows[rank] ? left : config->batch_rows[rank];
    return place;
}

static ddp_status shard_check(const struct ref_shard_config *config)
{
    size_t left = config->sample_count;

    if (config->world_size == 0 || config->sample_count == 0 || config->sample_count > UINT32_MAX ||
        config->start.used > config->sample_count ||
        (config->start.index > 0 && config->shard_size != NULL)) {
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
    return shard_place(config, rank, index).rows;
}

ddp_status ref_shard_cursor_batch(struct ref_shard_cursor *cursor, uint32_t rank, uint64_t index,
                                  uint32_t *out_samples, size_t *out_rows)
{
    const struct ref_shard_config *config = cursor->config;
    struct shard_place place;

    *out_rows = 0;
    if (rank >= config->world_size) {
        return DDP_E_INVALID;
    }
    place = shard_place(config, rank, index);
    *out_rows = place.rows;
    if (place.rows == 0) {
        return DDP_OK;
    }
    cursor_turn_to(cursor, place.epoch);
    for (size_t b = 0; b < place.rows; b++) {
        out_samples[b] = cursor->list[shard_position(config, rank, place.used, place.first + b)];
    }
    return DDP_OK;
}

size_t ref_shard_batch_count(const struct ref_shard_config *config, uint32_t rank)
{
    size_t per_epoch = batches_per_epoch(config, rank, 0);

    return config->is_one_epoch || per_epoch == 0 ? per_epoch : SIZE_MAX;
}
