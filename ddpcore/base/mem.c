/* The process heap and pools. A pool is a list of separately allocated blocks, not a bump arena: a
 * memory checker then sees every block, and destroy can still release what a vanished rank never
 * freed. Behind every block of a pool lies a guard, which shows a write past the block's end; a
 * block that was given back is poisoned. Every block is a multiple of the cache line, zero-filled.
 */
#include "ddpcore/base/mem.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* More than any machine has. Refused here, because sanitizers abort the process instead of
 * returning NULL. */
#define DDP_ALLOC_BYTES_MAX ((size_t)1 << 39)

/* Zeroed, aligned storage; NULL on overflow or exhaustion. */
static void *alloc_zeroed(size_t size_bytes)
{
    const size_t line = DDP_CACHE_LINE_BYTES;
    size_t total;
    void *data;

    if (size_bytes > DDP_ALLOC_BYTES_MAX) {
        return NULL;
    }
    total = (size_bytes + line - 1) / line * line;
    data = aligned_alloc(line, total);
    if (data != NULL) {
        memset(data, 0, total);
    }
    return data;
}

static void *system_alloc(struct ddp_mem *mem, size_t size_bytes)
{
    (void)mem;
    DDP_ASSERT(size_bytes > 0);
    return alloc_zeroed(size_bytes);
}

static void system_free(struct ddp_mem *mem, void *data)
{
    (void)mem;
    free(data);
}

struct ddp_mem *ddp_mem_system(void)
{
    static struct ddp_mem system_mem = {system_alloc, system_free};

    return &system_mem;
}

void *ddp_mem_array(struct ddp_mem *mem, size_t elem_count, size_t elem_bytes)
{
    size_t size_bytes;

    if (__builtin_mul_overflow(elem_count, elem_bytes, &size_bytes)) {
        return NULL;
    }
    return mem->alloc(mem, size_bytes == 0 ? 1 : size_bytes);
}

void ddp_mem_free(struct ddp_mem *mem, void *data)
{
    mem->free(mem, data);
}

void *ddp_mem_grow(struct ddp_mem *mem, void *data, size_t elem_count, size_t *capacity,
                   size_t elem_bytes)
{
    size_t grown_capacity = *capacity == 0 ? 8 : 2 * *capacity;
    void *grown;

    DDP_ASSERT(elem_count <= *capacity && elem_bytes > 0);
    DDP_ASSERT((data == NULL) == (*capacity == 0));
    if (elem_count < *capacity) {
        return data;
    }
    if (grown_capacity < *capacity) {
        return NULL;
    }
    grown = ddp_mem_array(mem, grown_capacity, elem_bytes);
    if (grown == NULL) {
        return NULL;
    }
    if (elem_count > 0) {
        memcpy(grown, data, elem_count * elem_bytes);
    }
    ddp_mem_free(mem, data);
    *capacity = grown_capacity;
    return grown;
}

char *ddp_mem_strdup(struct ddp_mem *mem, const char *text)
{
    size_t size_bytes = strlen(text) + 1;
    char *copy = (char *)mem->alloc(mem, size_bytes);

    if (copy != NULL) {
        memcpy(copy, text, size_bytes);
    }
    return copy;
}

/* In front of a pool's block; one cache line, so that the data behind it stays aligned. */
struct pool_block {
    struct pool_block *prev;
    struct pool_block *next;
    struct ddp_mem_pool *pool;
    void *storage; /* what is to be freed */
    size_t size_bytes;
};

/* What a pool's block holds once it was given back, in front: a pointer that is read there leads
 * nowhere. */
enum { POISON = 0xdd, POISON_BYTES = 1024 };

static const uint8_t guard[8] = {0xd5, 0x9b, 0xe1, 0x3c, 0xa7, 0x5f, 0x81, 0xc9};

static uint8_t *guard_of(struct pool_block *block)
{
    return (uint8_t *)block + DDP_CACHE_LINE_BYTES + block->size_bytes;
}

static bool is_guarded(struct pool_block *block)
{
    return memcmp(guard_of(block), guard, sizeof(guard)) == 0;
}

struct ddp_mem_pool {
    struct ddp_mem mem;
    struct pool_block head; /* of a ring of blocks */
    size_t block_count;
    uint64_t alloc_count;
    bool fails;
    uint64_t fail_countdown;
    int64_t fail_repeat;
};

/* Whether this call must fail; counts down what fail_after asked for. */
static bool pool_fails_now(struct ddp_mem_pool *pool)
{
    if (!pool->fails || pool->fail_countdown > 0) {
        return false;
    }
    if (pool->fail_repeat < 0) {
        return true;
    }
    if (pool->fail_repeat == 0) {
        pool->fails = false;
        return false;
    }
    pool->fail_repeat--;
    return true;
}

/* A block with room for so many bytes behind it, zeroed. Unlike memory that is cleared here, what
 * calloc hands out costs nothing until it is used, and most of a large ring or table never is. */
static struct pool_block *alloc_block(size_t size_bytes)
{
    const size_t line = DDP_CACHE_LINE_BYTES;
    void *storage =
        size_bytes > DDP_ALLOC_BYTES_MAX ? NULL : calloc(1, size_bytes + 2 * line + sizeof(guard));
    struct pool_block *block;

    if (storage == NULL) {
        return NULL;
    }
    block = (struct pool_block *)(void *)(((uintptr_t)storage + line - 1) / line * line);
    block->storage = storage;
    block->size_bytes = size_bytes;
    memcpy(guard_of(block), guard, sizeof(guard));
    return block;
}

static void *pool_alloc(struct ddp_mem *mem, size_t size_bytes)
{
    struct ddp_mem_pool *pool = (struct ddp_mem_pool *)mem;
    struct pool_block *block;

    DDP_ASSERT(size_bytes > 0);
    pool->alloc_count++;
    if (pool_fails_now(pool)) {
        return NULL;
    }
    block = alloc_block(size_bytes);
    if (block == NULL) {
        return NULL;
    }
    if (pool->fails) {
        pool->fail_countdown--;
    }
    block->pool = pool;
    block->prev = pool->head.prev;
    block->next = &pool->head;
    block->prev->next = block;
    block->next->prev = block;
    pool->block_count++;
    return (char *)block + DDP_CACHE_LINE_BYTES;
}

static void pool_free(struct ddp_mem *mem, void *data)
{
    struct ddp_mem_pool *pool = (struct ddp_mem_pool *)mem;
    struct pool_block *block;

    if (data == NULL) {
        return;
    }
    block = (struct pool_block *)(void *)((char *)data - DDP_CACHE_LINE_BYTES);
    DDP_ASSERT(block->pool == pool); /* not freed before, and not somewhere else's */
    DDP_ASSERT(is_guarded(block));   /* nobody wrote behind its end */
    DDP_ASSERT(pool->block_count > 0);
    DDP_ASSERT(block->prev->next == block && block->next->prev == block);
    block->prev->next = block->next;
    block->next->prev = block->prev;
    block->pool = NULL;
    pool->block_count--;
    memset(data, POISON, block->size_bytes < POISON_BYTES ? block->size_bytes : POISON_BYTES);
    free(block->storage);
}

ddp_status ddp_mem_pool_create(struct ddp_mem_pool **out)
{
    struct ddp_mem_pool *pool;

    _Static_assert(sizeof(struct pool_block) <= DDP_CACHE_LINE_BYTES, "a block header is one line");
    pool = (struct ddp_mem_pool *)alloc_zeroed(sizeof(*pool));
    if (pool == NULL) {
        return DDP_E_NOMEM;
    }
    pool->mem.alloc = pool_alloc;
    pool->mem.free = pool_free;
    pool->head.prev = &pool->head;
    pool->head.next = &pool->head;
    *out = pool;
    return DDP_OK;
}

void ddp_mem_pool_destroy(struct ddp_mem_pool *pool)
{
    struct pool_block *block;

    if (pool == NULL) {
        return;
    }
    block = pool->head.next;
    while (block != &pool->head) {
        struct pool_block *next = block->next;

        DDP_ASSERT(is_guarded(block));
        free(block->storage);
        block = next;
    }
    free(pool);
}

struct ddp_mem *ddp_mem_pool_mem(struct ddp_mem_pool *pool)
{
    return &pool->mem;
}

bool ddp_mem_pool_is_whole(const struct ddp_mem_pool *pool)
{
    struct pool_block *block = pool->head.next;

    for (size_t i = 0; i < pool->block_count; i++) {
        if (block == &pool->head || !is_guarded(block)) {
            return false;
        }
        block = block->next;
    }
    return block == &pool->head;
}

size_t ddp_mem_pool_block_count(const struct ddp_mem_pool *pool)
{
    return pool->block_count;
}

uint64_t ddp_mem_pool_alloc_count(const struct ddp_mem_pool *pool)
{
    return pool->alloc_count;
}

void ddp_mem_pool_fail_after(struct ddp_mem_pool *pool, uint64_t countdown, int64_t repeat)
{
    DDP_ASSERT(repeat >= -1);
    pool->fails = true;
    pool->fail_countdown = countdown;
    pool->fail_repeat = repeat;
}
