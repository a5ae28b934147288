/* Distributed sampler: entry j of rank r is list[(f + r + j*W) mod N], where f entries were used
 * before, or with shards of given sizes list[s + f + j], where s is the sum of the sizes of lower
 * ranks, and f entries of each shard were used before.
 *
 * PyTorch pads the list with its own head, repeated as often as needed, up to a multiple of W; the
 * mod is that padding. With drop_last no index reaches N, so it changes nothing. Each of R ranks
 * that took k entries before has used f = k*R of them, so R ranks go on as if they had not stopped.
 */
#include "ddpcore/ddp/sampler.h"

#include "ddpcore/ddp/permutation.h"

static size_t left_of_shard(const struct ddp_sampler_config *config, uint32_t rank)
{
    const size_t size = config->shard_size[rank];

    return size > config->first ? size - config->first : 0;
}

size_t ddp_sampler_count(const struct ddp_sampler_config *config)
{
    const size_t left = config->sample_count - config->first;
    const size_t whole = left / config->world_size;
    const bool has_rest = left % config->world_size != 0;

    DDP_ASSERT(config->rank < config->world_size && config->first <= config->sample_count);
    if (config->shard_size != NULL) {
        return left_of_shard(config, config->rank);
    }
    if (config->is_exact) {
        return whole + (config->rank < left % config->world_size ? 1 : 0);
    }
    return whole + (has_rest && !config->drop_last ? 1 : 0);
}

/* Of the rank that has most: all ranks must come to the same place. */
static size_t most_left(const struct ddp_sampler_config *config)
{
    const size_t left = config->sample_count - config->first;
    const bool is_cut = config->drop_last && !config->is_exact;
    size_t most = 0;

    if (config->shard_size == NULL) {
        return left / config->world_size + (left % config->world_size != 0 && !is_cut ? 1 : 0);
    }
    for (uint32_t r = 0; r < config->world_size; r++) {
        most = left_of_shard(config, r) > most ? left_of_shard(config, r) : most;
    }
    return most;
}

struct ddp_sampler_state ddp_sampler_state(const struct ddp_sampler_config *config, uint64_t epoch,
                                           uint64_t taken)
{
    const size_t each = config->shard_size != NULL ? 1 : config->world_size;

    DDP_ASSERT(config->world_size > 0 && config->first <= config->sample_count);
    if (taken >= most_left(config)) {
        return (struct ddp_sampler_state){.epoch = epoch + 1};
    }
    return (struct ddp_sampler_state){.epoch = epoch, .used = config->first + (size_t)taken * each};
}

/* Sum of the sizes of the first `count` shards; false: more than there are samples. */
static bool add_shards(const struct ddp_sampler_config *config, uint32_t count, size_t *out_sum)
{
    *out_sum = 0;
    for (uint32_t r = 0; r < count; r++) {
        if (config->shard_size[r] > config->sample_count - *out_sum) {
            return false;
        }
        *out_sum += config->shard_size[r];
    }
    return true;
}

ddp_status ddp_sampler_deal(const struct ddp_sampler_config *config, uint64_t epoch, uint32_t *list,
                            uint32_t *indices)
{
    size_t first = 0, count;

    if (config->world_size == 0 || config->rank >= config->world_size ||
        config->sample_count > UINT32_MAX || config->first > config->sample_count) {
        return DDP_E_INVALID;
    }
    if (config->shard_size != NULL && (!add_shards(config, config->world_size, &first) ||
                                       !add_shards(config, config->rank, &first))) {
        return DDP_E_INVALID;
    }
    count = ddp_sampler_count(config);
    if (config->is_shuffled) {
        ddp_permutation(config->seed + epoch, list, config->sample_count);
    }
    for (size_t j = 0; j < count; j++) {
        const size_t place = config->shard_size != NULL
                                 ? first + config->first + j
                                 : (config->first + config->rank + j * (size_t)config->world_size) %
                                       config->sample_count;

        DDP_ASSERT(place < config->sample_count);
        indices[j] = config->is_shuffled ? list[place] : (uint32_t)place;
    }
    return DDP_OK;
}

ddp_status ddp_sampler_epoch(const struct ddp_sampler_config *config, uint64_t epoch,
                             struct ddp_mem *mem, uint32_t *indices)
{
    uint32_t *list;
    ddp_status status;

    if (config->sample_count > UINT32_MAX) {
        return DDP_E_INVALID;
    }
    list = ddp_mem_array(mem, config->is_shuffled ? config->sample_count : 0, sizeof(*list));
    if (list == NULL) {
        return DDP_E_NOMEM;
    }
    status = ddp_sampler_deal(config, epoch, list, indices);
    ddp_mem_free(mem, list);
    return status;
}
