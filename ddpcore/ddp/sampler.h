/* Distributed sampler: which samples a rank sees in an epoch.
 * Source: torch.utils.data.DistributedSampler (PyTorch 2.7), except for the permutation itself,
 * which comes from ddp_prng_make(seed + epoch, "sampler"). */
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
    uint64_t seed;
};
/* Samples per rank: drop_last ? floor(N/W) : ceil(N/W). */
size_t ddp_sampler_count(const struct ddp_sampler_config *config);
/* indices: uint32_t[ddp_sampler_count]: every W-th entry of the epoch's list, from rank on.
 * Errors: E_INVALID (rank >= world), E_NOMEM. */
DDP_MUST_USE ddp_status ddp_sampler_epoch(const struct ddp_sampler_config *config, uint64_t epoch,
                                          struct ddp_mem *mem, uint32_t *indices);

#ifdef __cplusplus
}
#endif
#endif
