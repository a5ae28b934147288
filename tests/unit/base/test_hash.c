/* Hashes of bytes and tensors. */
#include <string.h>

#include "ddpcore/base/hash.h"
#include "tests/ct.h"

/* XXH3's published value for empty input with seed 0 pins the algorithm. */
CT_TEST(hash, is_xxh3)
{
    CT_CHECK_EQ_U64(ddp_hash_bytes(NULL, 0, 0), UINT64_C(0x2d06800538d394c2));
    CT_CHECK_EQ_U64(ddp_hash_text(""), UINT64_C(0x2d06800538d394c2));
    CT_CHECK(ddp_hash_text("a") != ddp_hash_text("b"));
}

/* Combining depends on the order. */
CT_TEST(hash, combine_is_ordered)
{
    CT_CHECK(ddp_hash_combine(1, 2) != ddp_hash_combine(2, 1));
}

/* A tensor has one leaf per 4 KiB begun, and one when it is empty. */
CT_TEST(hash, leaf_count)
{
    CT_CHECK_EQ_U64(ddp_hash_leaf_count(0), 1);
    CT_CHECK_EQ_U64(ddp_hash_leaf_count(1), 1);
    CT_CHECK_EQ_U64(ddp_hash_leaf_count(4096), 1);
    CT_CHECK_EQ_U64(ddp_hash_leaf_count(4097), 2);
    CT_CHECK_EQ_U64(ddp_hash_leaf_count(SIZE_MAX), SIZE_MAX / 4096 + 1);
}

/* One flipped bit changes the root and exactly the leaf that holds it. */
CT_TEST(hash, difference_is_narrowed_to_a_leaf)
{
    static unsigned char data[10000];
    uint64_t before[3];
    uint64_t after[3];
    uint64_t root = ddp_hash_tensor(data, sizeof(data), 42, before);

    CT_CHECK_EQ_U64(ddp_hash_tensor(data, sizeof(data), 42, NULL), root);
    data[5000] ^= 4;
    CT_CHECK(ddp_hash_tensor(data, sizeof(data), 42, after) != root);
    CT_CHECK(before[0] == after[0] && before[1] != after[1] && before[2] == after[2]);
    data[5000] ^= 4;
}

/* Equal bytes under another salt, or one byte shorter, have another root; equal leaves differ. */
CT_TEST(hash, salt_place_and_length_count)
{
    static const unsigned char zeros[8192];
    uint64_t leaves[2];
    uint64_t root = ddp_hash_tensor(zeros, 8192, 1, leaves);

    CT_CHECK(leaves[0] != leaves[1]);
    CT_CHECK(root != ddp_hash_tensor(zeros, 8192, 2, NULL));
    CT_CHECK(root != ddp_hash_tensor(zeros, 8191, 1, NULL));
    CT_CHECK(ddp_hash_tensor(NULL, 0, 1, NULL) != ddp_hash_tensor(NULL, 0, 2, NULL));
}
