/* The reference's own torch.randperm, for whoever judges a sampler: it shares no code with the
 * core's. */
#ifndef REFERENCE_PERMUTATION_H
#define REFERENCE_PERMUTATION_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* out: uint32_t[count], torch.randperm(count) of torch.Generator().manual_seed(seed); for up to
 * 2^32 / 20 elements. */
void ref_permutation(uint64_t seed, uint32_t *out, size_t count);

#ifdef __cplusplus
}
#endif
#endif
