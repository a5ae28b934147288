/* 64-bit hashes (XXH3): of bytes, and of tensors with a name salt and 4 KiB leaves.
 *
 * The salt makes two equal-shaped tensors that were swapped hash differently; the leaves let a
 * difference be narrowed to a 4 KiB range without keeping payloads. */
#ifndef DDPCORE_BASE_HASH_H
#define DDPCORE_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DDP_HASH_LEAF_BYTES 4096u

uint64_t ddp_hash_bytes(const void *data, size_t size_bytes, uint64_t seed);
uint64_t ddp_hash_text(const char *text);
/* Order-dependent combination of two hashes. */
uint64_t ddp_hash_combine(uint64_t a, uint64_t b);

/* Number of leaves of a tensor of size_bytes: ceil(size_bytes / 4096), at least 1. */
size_t ddp_hash_leaf_count(size_t size_bytes);
/* Root over the leaf hashes, each leaf = hash(bytes, seed = salt ^ leaf index).
 * leaves: uint64_t[ddp_hash_leaf_count(size_bytes)] receives them, or NULL. */
uint64_t ddp_hash_tensor(const void *data, size_t size_bytes, uint64_t salt, uint64_t *leaves);

#ifdef __cplusplus
}
#endif
#endif
