/* Tensors found by their hashes: the right one, or none. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ddpcore/base/file.h"
#include "ddpcore/base/hash.h"
#include "harness/tensor/kept.h"
#include "tests/ct.h"

static const float values[4] = {1.0f, 2.0f, -3.0f, 4.0f};

static void write_tensor(struct ddp_files *files, uint64_t hash, const void *data, size_t bytes)
{
    char path[64];

    (void)snprintf(path, sizeof path, "kept/%016llx", (unsigned long long)hash);
    CT_CHECK_OK(ddp_files_write_whole(files, path, data, bytes, NULL));
}

CT_TEST(kept, hashes_are_sorted_and_once)
{
    struct harness_hashes hashes = {.mem = ddp_mem_system()};
    const uint64_t added[] = {9, 2, 7, 2, UINT64_MAX, 9};

    CT_CHECK(!harness_hashes_has(&hashes, 2));
    for (size_t i = 0; i < sizeof added / sizeof added[0]; i++) {
        harness_hashes_add(&hashes, added[i]);
    }
    harness_hashes_sort(&hashes);
    CT_CHECK_EQ_U64(hashes.count, 4);
    CT_CHECK(hashes.items[0] == 2 && hashes.items[3] == UINT64_MAX);
    CT_CHECK(harness_hashes_has(&hashes, 7) && !harness_hashes_has(&hashes, 8));
    CT_CHECK(!hashes.is_failed);
    harness_hashes_fini(&hashes);
}

/* A file that is not what its name says is no evidence: altered, cut short, or of another name. */
CT_TEST(kept, only_what_its_hash_says_is_found)
{
    struct ddp_mem *mem = ddp_mem_system();
    uint64_t salt = ddp_hash_text("fc0.bias");
    uint64_t right = ddp_hash_tensor(values, sizeof values, salt, NULL);
    uint64_t altered = right ^ 1;
    uint64_t absent = right ^ 2;
    struct harness_hashes hashes = {.mem = mem};
    struct ddp_files_memory *memory = NULL;
    struct harness_kept *kept = NULL;
    const void *found;

    CT_REQUIRE(ddp_files_memory_create(&memory) == DDP_OK);
    write_tensor(ddp_files_memory_files(memory), right, values, sizeof values);
    write_tensor(ddp_files_memory_files(memory), altered, values, sizeof values);
    harness_hashes_add(&hashes, absent);
    harness_hashes_add(&hashes, altered);
    harness_hashes_add(&hashes, right);
    harness_hashes_sort(&hashes);
    CT_REQUIRE(harness_kept_load(mem, ddp_files_memory_files(memory), "kept", &hashes, &kept,
                                 NULL) == DDP_OK);
    found = harness_kept_find(kept, right, sizeof values, salt);
    CT_CHECK(found != NULL && memcmp(found, values, sizeof values) == 0);
    CT_CHECK(harness_kept_find(kept, right, sizeof values - 4, salt) == NULL);
    CT_CHECK(harness_kept_find(kept, right, sizeof values, ddp_hash_text("fc1.bias")) == NULL);
    CT_CHECK(harness_kept_find(kept, altered, sizeof values, salt) == NULL);
    CT_CHECK(harness_kept_find(kept, absent, sizeof values, salt) == NULL);
    CT_CHECK(harness_kept_find(NULL, right, sizeof values, salt) == NULL);
    harness_kept_destroy(kept);
    harness_hashes_fini(&hashes);
    ddp_files_memory_destroy(memory);
}
