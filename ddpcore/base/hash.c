/* XXH3 with a seed, and a chain over 4 KiB leaves. The root depends on every leaf and its place;
 * a leaf's own hash covers its length, so a shortened tensor cannot keep its root. */
#include "ddpcore/base/hash.h"

#include <string.h>
#include <xxhash.h>

uint64_t ddp_hash_bytes(const void *data, size_t size_bytes, uint64_t seed)
{
    return XXH3_64bits_withSeed(data, size_bytes, seed);
}

uint64_t ddp_hash_text(const char *text)
{
    return XXH3_64bits(text, strlen(text));
}

uint64_t ddp_hash_combine(uint64_t a, uint64_t b)
{
    const uint64_t pair[2] = {a, b};

    return XXH3_64bits(pair, sizeof(pair));
}

size_t ddp_hash_leaf_count(size_t size_bytes)
{
    /* ceil(size / leaf) without overflow; an empty tensor has one empty leaf. */
    return size_bytes == 0 ? 1 : (size_bytes - 1) / DDP_HASH_LEAF_BYTES + 1;
}

uint64_t ddp_hash_tensor(const void *data, size_t size_bytes, uint64_t salt, uint64_t *leaves)
{
    const unsigned char *bytes = (const unsigned char *)data;
    size_t leaf_count = ddp_hash_leaf_count(size_bytes);
    uint64_t root = salt;

    for (size_t i = 0; i < leaf_count; i++) {
        size_t offset = i * DDP_HASH_LEAF_BYTES;
        size_t left = size_bytes - offset;
        size_t leaf_bytes = left < DDP_HASH_LEAF_BYTES ? left : DDP_HASH_LEAF_BYTES;
        uint64_t leaf =
            ddp_hash_bytes(leaf_bytes == 0 ? NULL : bytes + offset, leaf_bytes, salt ^ i);

        if (leaves != NULL) {
            leaves[i] = leaf;
        }
        root = ddp_hash_combine(root, leaf);
    }
    return root;
}
