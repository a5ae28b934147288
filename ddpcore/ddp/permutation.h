/* The order in which an epoch's samples are dealt out: torch.randperm(count) of a CPU generator
 * with torch.Generator().manual_seed(seed), element by element, for up to 2^32 / 20 elements. */
#ifndef DDPCORE_DDP_PERMUTATION_H
#define DDPCORE_DDP_PERMUTATION_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* indices: uint32_t[count], gets 0 to count - 1. Of the seed the lowest 32 bits count, as in
 * PyTorch. */
void ddp_permutation(uint64_t seed, uint32_t *indices, size_t count);

#ifdef __cplusplus
}
#endif
#endif
