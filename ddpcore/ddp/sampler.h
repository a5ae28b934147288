/* Distributed sampler: which samples a rank sees in an epoch.
 * As torch.utils.data.DistributedSampler (PyTorch 2.15), index by index; shares of given sizes are
 * beside it. */
#ifndef DDPCORE_DDP_SAMPLER_H
#define DDPCORE_DDP_SAMPLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ddpcore/base/mem.h"
#include "ddpcore/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ddp_sampler_config {
    size_t sample_count;
    uint32_t rank, world_size;
    bool is_shuffled;
    bool drop_last; /* false: pad with samples from the head of the (shuffled) list */
    bool is_exact;  /* nothing is padded or left out: ranks may see one sample more or less */
    uint64_t seed;
    /* Entries of the list that were used before: the rest is dealt out, padded from the list's head
     * too: with as many ranks as before, the same as without a stop. With shards, of each shard. */
    size_t first;
    /* size_t[world_size]: rank r sees the next shard_size[r] entries of the list, and drop_last
     * means nothing. NULL: all ranks see the same number. */
    const size_t *shard_size;
};
/* Where a run stands in the middle of its data, for a checkpoint: a run that goes on, with any
 * number of ranks, begins with that epoch, and its `first` is `used`. True of ranks that have all
 * taken equally many samples. With shards, of the same shards alone; a rank whose shard has ended
 * has taken as many as the others. */
struct ddp_sampler_state {
    uint64_t epoch;
    size_t used; /* entries of the epoch's list that all ranks together have used; with shards, of
                  * each shard */
};
/* Once each rank has taken so many samples of an epoch, of which `first` were used before; or had
 * room for so many, as a last batch may be a short one. */
struct ddp_sampler_state ddp_sampler_state(const struct ddp_sampler_config *config, uint64_t epoch,
                                           uint64_t taken);
/* Samples of this rank: what is left of shard_size[rank], or of the N that are left floor(N/W) if
 * drop_last, else ceil(N/W), or, exactly, one of the two. rank < world. */
size_t ddp_sampler_count(const struct ddp_sampler_config *config);
/* indices: uint32_t[ddp_sampler_count]: every W-th entry of the epoch's list, from rank on; or the
 * rank's shard of it. Errors: E_INVALID (rank >= world, more samples in the shards than there are,
 * first beyond the end), E_NOMEM. */
DDP_MUST_USE ddp_status ddp_sampler_epoch(const struct ddp_sampler_config *config, uint64_t epoch,
                                          struct ddp_mem *mem, uint32_t *indices);
/* The same without an allocation. list: uint32_t[sample_count], of the caller's, overwritten. */
DDP_MUST_USE ddp_status ddp_sampler_deal(const struct ddp_sampler_config *config, uint64_t epoch,
                                         uint32_t *list, uint32_t *indices);

#ifdef __cplusplus
}
#endif
#endif
