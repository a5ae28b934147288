/* The heap and pools. */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ddpcore/base/mem.h"
#include "tests/ct.h"

static bool is_zero(const void *data, size_t size_bytes)
{
    const unsigned char *bytes = (const unsigned char *)data;

    for (size_t i = 0; i < size_bytes; i++) {
        if (bytes[i] != 0) {
            return false;
        }
    }
    return true;
}

/* Blocks of both allocators are zeroed and 64-byte aligned, at any size and after reuse. */
CT_TEST(mem, blocks_are_zeroed_and_aligned)
{
    static const size_t sizes[] = {1, 63, 64, 65, 4096, 100000};
    struct ddp_mem_pool *pool;

    CT_REQUIRE_OK(ddp_mem_pool_create(&pool));
    for (int which = 0; which < 2; which++) {
        struct ddp_mem *mem = which == 0 ? ddp_mem_system() : ddp_mem_pool_mem(pool);

        for (size_t i = 0; i < 2 * sizeof(sizes) / sizeof(sizes[0]); i++) {
            size_t size_bytes = sizes[i / 2];
            void *data = mem->alloc(mem, size_bytes);

            CT_REQUIRE(data != NULL);
            CT_CHECK_EQ_U64((uintptr_t)data % DDP_CACHE_LINE_BYTES, 0);
            CT_CHECK(is_zero(data, size_bytes));
            memset(data, 0xee, size_bytes);
            ddp_mem_free(mem, data);
        }
    }
    ddp_mem_pool_destroy(pool);
}

/* An array whose size overflows is refused; an empty one is a pointer that can be freed. */
CT_TEST(mem, array_checks_overflow)
{
    struct ddp_mem *mem = ddp_mem_system();
    void *empty = ddp_mem_array(mem, 0, 8);

    CT_CHECK(ddp_mem_array(mem, SIZE_MAX / 4, 8) == NULL);
    CT_CHECK(ddp_mem_array(mem, SIZE_MAX - 8, 1) == NULL);
    CT_CHECK(empty != NULL);
    ddp_mem_free(mem, empty);
    ddp_mem_free(mem, NULL);
}

/* A growing array keeps its elements, allocates only when it is full, and stays whole on failure.
 */
CT_TEST(mem, grow_keeps_the_elements)
{
    struct ddp_mem_pool *pool;
    struct ddp_mem *mem;
    uint32_t *array = NULL;
    size_t capacity = 0;

    CT_REQUIRE_OK(ddp_mem_pool_create(&pool));
    mem = ddp_mem_pool_mem(pool);
    for (size_t count = 0; count < 33; count++) {
        array = (uint32_t *)ddp_mem_grow(mem, array, count, &capacity, sizeof(*array));
        CT_REQUIRE(array != NULL);
        CT_REQUIRE(capacity > count);
        CT_CHECK(is_zero(array + count, (capacity - count) * sizeof(*array)));
        array[count] = (uint32_t)count;
    }
    for (uint32_t i = 0; i < 33; i++) {
        CT_CHECK_EQ_U64(array[i], i);
    }
    CT_CHECK_EQ_U64(capacity, 64);
    CT_CHECK_EQ_U64(ddp_mem_pool_alloc_count(pool), 4);
    CT_CHECK_EQ_U64(ddp_mem_pool_block_count(pool), 1);
    ddp_mem_pool_fail_after(pool, 0, 1);
    CT_CHECK(ddp_mem_grow(mem, array, 64, &capacity, sizeof(*array)) == NULL);
    CT_CHECK_EQ_U64(capacity, 64);
    CT_CHECK_EQ_U64(array[32], 32);
    capacity = SIZE_MAX / 2 + 1;
    CT_CHECK(ddp_mem_grow(mem, array, capacity, &capacity, 1) == NULL);
    ddp_mem_pool_destroy(pool);
}

/* A pool counts what lives, and destroying it releases the rest (the leak checker watches). */
CT_TEST(mem, pool_says_whether_it_is_whole)
{
    struct ddp_mem_pool *pool;
    struct ddp_mem *mem;
    char *first, *second;

    CT_REQUIRE(ddp_mem_pool_create(&pool) == DDP_OK);
    CT_CHECK(ddp_mem_pool_is_whole(pool));
    mem = ddp_mem_pool_mem(pool);
    first = ddp_mem_array(mem, 3, 1);
    second = ddp_mem_array(mem, 5, 1);
    CT_REQUIRE(first != NULL && second != NULL);
    CT_CHECK(ddp_mem_pool_is_whole(pool));
    second[5] ^= 1;
    CT_CHECK(!ddp_mem_pool_is_whole(pool));
    second[5] ^= 1;
    first[3] ^= 1;
    CT_CHECK(!ddp_mem_pool_is_whole(pool));
    first[3] ^= 1;
    CT_CHECK(ddp_mem_pool_is_whole(pool));
    ddp_mem_pool_destroy(pool);
}

CT_TEST(mem, pool_counts_and_releases)
{
    struct ddp_mem_pool *pool;
    struct ddp_mem *mem;
    void *first;
    char *text;

    CT_REQUIRE_OK(ddp_mem_pool_create(&pool));
    mem = ddp_mem_pool_mem(pool);
    first = mem->alloc(mem, 100);
    text = ddp_mem_strdup(mem, "abc");
    CT_CHECK_STR(text, "abc");
    (void)mem->alloc(mem, 50);
    CT_CHECK_EQ_U64(ddp_mem_pool_block_count(pool), 3);
    ddp_mem_free(mem, first);
    CT_CHECK_EQ_U64(ddp_mem_pool_block_count(pool), 2);
    CT_CHECK_EQ_U64(ddp_mem_pool_alloc_count(pool), 3);
    ddp_mem_pool_destroy(pool);
    ddp_mem_pool_destroy(NULL);
}

/* How a process ends that writes so many bytes behind a block's end and then frees it, or destroys
 * its pool. */
static int status_after_overrun(size_t overrun_bytes, bool is_freed)
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0) {
        struct ddp_mem_pool *pool;
        struct ddp_mem *mem;
        char *data;

        if (freopen("/dev/null", "w", stderr) == NULL || ddp_mem_pool_create(&pool) != DDP_OK) {
            _exit(1);
        }
        mem = ddp_mem_pool_mem(pool);
        data = mem->alloc(mem, 100);
        memset(data + 100, 0, overrun_bytes);
        if (is_freed) {
            ddp_mem_free(mem, data);
        }
        ddp_mem_pool_destroy(pool);
        _exit(0);
    }
    CT_CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
    return status;
}

/* A byte of 0 behind the end is seen, too. */
CT_TEST(mem, pool_sees_writes_behind_a_block)
{
    int freed = status_after_overrun(1, true);
    int destroyed = status_after_overrun(8, false);
    int kept_to = status_after_overrun(0, true);

    CT_CHECK(WIFSIGNALED(freed) && WTERMSIG(freed) == SIGABRT);
    CT_CHECK(WIFSIGNALED(destroyed) && WTERMSIG(destroyed) == SIGABRT);
    CT_CHECK(WIFEXITED(kept_to) && WEXITSTATUS(kept_to) == 0);
}

/* After the countdown a pool fails as often as asked, then works again; -1 never recovers. */
CT_TEST(mem, pool_fails_on_demand)
{
    struct ddp_mem_pool *pool;
    struct ddp_mem *mem;

    CT_REQUIRE_OK(ddp_mem_pool_create(&pool));
    mem = ddp_mem_pool_mem(pool);
    ddp_mem_pool_fail_after(pool, 2, 2);
    CT_CHECK(mem->alloc(mem, 1) != NULL);
    CT_CHECK(mem->alloc(mem, 1) != NULL);
    CT_CHECK(mem->alloc(mem, 1) == NULL);
    CT_CHECK(ddp_mem_strdup(mem, "x") == NULL);
    CT_CHECK(mem->alloc(mem, 1) != NULL);
    ddp_mem_pool_fail_after(pool, 0, -1);
    for (int i = 0; i < 10; i++) {
        CT_CHECK(mem->alloc(mem, 1) == NULL);
    }
    CT_CHECK_EQ_U64(ddp_mem_pool_block_count(pool), 3);
    CT_CHECK_EQ_U64(ddp_mem_pool_alloc_count(pool), 15);
    ddp_mem_pool_destroy(pool);
}
