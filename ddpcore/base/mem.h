/* Allocators. Everything a rank allocates comes from its struct ddp_mem, so that a simulated rank
 * that is killed in mid-operation vanishes whole (its pool is destroyed), and tests can count. */
#ifndef DDPCORE_BASE_MEM_H
#define DDPCORE_BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ddpcore/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DDP_CACHE_LINE_BYTES 64

struct ddp_mem {
    /* size_bytes > 0 bytes, 64-byte aligned, zero-filled; NULL when exhausted. */
    void *(*alloc)(struct ddp_mem *mem, size_t size_bytes);
    /* Give back what alloc returned. data may be NULL. */
    void (*free)(struct ddp_mem *mem, void *data);
};

/* The process heap. Static storage, thread-safe. */
struct ddp_mem *ddp_mem_system(void);

/* Zero-filled array of elem_count elements of elem_bytes; NULL on overflow or exhaustion.
 * elem_count 0 yields a valid pointer that must be freed. */
void *ddp_mem_array(struct ddp_mem *mem, size_t elem_count, size_t elem_bytes);
void ddp_mem_free(struct ddp_mem *mem, void *data);
/* Make room behind the elem_count elements of an array: data while *capacity is larger, else a copy
 * with twice the capacity (8 at first), zero-filled behind the elements, and data is freed. NULL on
 * overflow or exhaustion; data and *capacity are then as they were. */
void *ddp_mem_grow(struct ddp_mem *mem, void *data, size_t elem_count, size_t *capacity,
                   size_t elem_bytes);
/* NUL-terminated copy; NULL when exhausted. */
char *ddp_mem_strdup(struct ddp_mem *mem, const char *text);

/* A heap of its own whose blocks are all released by _destroy, whether freed or not.
 * Not thread-safe. _create takes its own storage from the process heap. */
struct ddp_mem_pool;
DDP_MUST_USE ddp_status ddp_mem_pool_create(struct ddp_mem_pool **out);
void ddp_mem_pool_destroy(struct ddp_mem_pool *pool);
struct ddp_mem *ddp_mem_pool_mem(struct ddp_mem_pool *pool);
/* Whether nobody wrote behind the end of a live block. */
bool ddp_mem_pool_is_whole(const struct ddp_mem_pool *pool);
/* Live blocks now, and calls to alloc since creation. */
size_t ddp_mem_pool_block_count(const struct ddp_mem_pool *pool);
uint64_t ddp_mem_pool_alloc_count(const struct ddp_mem_pool *pool);
/* After `countdown` further successful allocations, alloc fails `repeat` times (-1: for ever). */
void ddp_mem_pool_fail_after(struct ddp_mem_pool *pool, uint64_t countdown, int64_t repeat);

#ifdef __cplusplus
}
#endif
#endif
