/* The heap inside the shared segment. Blocks lie end to end, each behind a 64-byte header; a search
 * walks them from the first. Few blocks, long lived (buckets, scratch), so no size classes. */
#include <string.h>

#include "ddpcore/transport/shm_segment.h"

#define HEADER_BYTES 64u

struct block {
    size_t size_bytes;   /* with header; multiple of 64 */
    size_t before_bytes; /* size of the block before; 0 for the first */
    uint64_t is_used;
};

static struct block *block_at(const struct ddp_shm_heap *heap, size_t offset)
{
    DDP_ASSERT(offset % HEADER_BYTES == 0 && offset < heap->size_bytes);
    return (void *)(heap->first + offset);
}

static struct block *block_after(const struct ddp_shm_heap *heap, const struct block *block)
{
    size_t offset = (size_t)((const uint8_t *)block - heap->first) + block->size_bytes;

    return offset < heap->size_bytes ? block_at(heap, offset) : NULL;
}

void ddp_shm_heap_init(struct ddp_shm_heap *heap, uint8_t *first, size_t size_bytes)
{
    struct block *whole;

    DDP_ASSERT(((uintptr_t)first & (HEADER_BYTES - 1)) == 0);
    heap->first = first;
    heap->size_bytes = size_bytes;
    heap->pristine = HEADER_BYTES;
    if (size_bytes > HEADER_BYTES) {
        whole = block_at(heap, 0);
        whole->size_bytes = size_bytes;
        whole->before_bytes = 0;
        whole->is_used = 0;
    }
}

/* Cut block to size_bytes; what is left over becomes a free block. */
static void split(struct ddp_shm_heap *heap, struct block *block, size_t size_bytes)
{
    size_t rest_bytes = block->size_bytes - size_bytes;
    struct block *rest, *after;

    DDP_ASSERT(block->is_used == 0 && block->size_bytes >= size_bytes);
    if (rest_bytes <= HEADER_BYTES) {
        return;
    }
    after = block_after(heap, block);
    block->size_bytes = size_bytes;
    rest = (void *)((uint8_t *)block + size_bytes);
    rest->size_bytes = rest_bytes;
    rest->before_bytes = size_bytes;
    rest->is_used = 0;
    if (after != NULL) {
        after->before_bytes = rest_bytes;
    }
}

void *ddp_shm_heap_alloc(struct ddp_shm_heap *heap, size_t size_bytes)
{
    struct block *block;
    size_t need_bytes, first, dirty;

    if (size_bytes == 0 || size_bytes > heap->size_bytes || heap->size_bytes <= HEADER_BYTES) {
        return NULL;
    }
    need_bytes = HEADER_BYTES + ((size_bytes + 63) & ~(size_t)63);
    block = block_at(heap, 0);
    while (block != NULL && (block->is_used != 0 || block->size_bytes < need_bytes)) {
        block = block_after(heap, block);
    }
    if (block == NULL) {
        return NULL;
    }
    split(heap, block, need_bytes);
    block->is_used = 1;
    first = (size_t)((uint8_t *)block - heap->first) + HEADER_BYTES;
    dirty = heap->pristine > first ? heap->pristine - first : 0;
    memset(heap->first + first, 0, dirty < size_bytes ? dirty : size_bytes);
    /* The header of the block behind is the farthest byte written so far. */
    if (heap->pristine < first + block->size_bytes) {
        heap->pristine = first + block->size_bytes;
    }
    return heap->first + first;
}

static void merge_with_next(struct ddp_shm_heap *heap, struct block *block)
{
    struct block *next = block_after(heap, block);
    struct block *after;

    DDP_ASSERT(block->is_used == 0 && (next == NULL || next->before_bytes == block->size_bytes));
    if (next == NULL || next->is_used != 0) {
        return;
    }
    block->size_bytes += next->size_bytes;
    after = block_after(heap, block);
    if (after != NULL) {
        after->before_bytes = block->size_bytes;
    }
}

void ddp_shm_heap_free(struct ddp_shm_heap *heap, void *data)
{
    struct block *block, *before;

    if (data == NULL) {
        return;
    }
    DDP_ASSERT(ddp_shm_heap_owns(heap, data));
    block = (void *)((uint8_t *)data - HEADER_BYTES);
    DDP_ASSERT(block->is_used == 1);
    block->is_used = 0;
    merge_with_next(heap, block);
    before = (void *)((uint8_t *)block - block->before_bytes); /* the first one is its own */
    if (before->is_used == 0) {
        merge_with_next(heap, before);
    }
}

bool ddp_shm_heap_owns(const struct ddp_shm_heap *heap, const void *data)
{
    const uint8_t *byte = data;

    return byte >= heap->first && byte < heap->first + heap->size_bytes;
}
