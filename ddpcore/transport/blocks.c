#include "ddpcore/transport/blocks.h"

#include <stdint.h>

#include "ddpcore/base/status.h"

/* Lies in front of the memory that is handed out. One cache line: what is behind it stays aligned.
 */
struct ddp_blocks_item {
    struct ddp_blocks_item *next, *previous;
    size_t size_bytes;
    char pad[DDP_CACHE_LINE_BYTES - 2 * sizeof(struct ddp_blocks_item *) - sizeof(size_t)];
};
_Static_assert(sizeof(struct ddp_blocks_item) == DDP_CACHE_LINE_BYTES, "one cache line");

void *ddp_blocks_alloc(struct ddp_blocks *blocks, struct ddp_mem *mem, size_t size_bytes)
{
    struct ddp_blocks_item *block;

    if (size_bytes == 0 || size_bytes > SIZE_MAX - sizeof *block) {
        return NULL;
    }
    block = (struct ddp_blocks_item *)mem->alloc(mem, sizeof *block + size_bytes);
    if (block == NULL) {
        return NULL;
    }
    DDP_ASSERT(((uintptr_t)block & (DDP_CACHE_LINE_BYTES - 1)) == 0);
    block->size_bytes = size_bytes;
    block->next = blocks->first;
    block->previous = NULL;
    if (block->next != NULL) {
        block->next->previous = block;
    }
    blocks->first = block;
    return block + 1;
}

void ddp_blocks_free(struct ddp_blocks *blocks, struct ddp_mem *mem, void *data)
{
    struct ddp_blocks_item *block = (struct ddp_blocks_item *)data - 1;

    DDP_ASSERT(block->next == NULL || block->next->previous == block);
    DDP_ASSERT((block->previous == NULL) == (blocks->first == block));
    if (block->next != NULL) {
        block->next->previous = block->previous;
    }
    if (block->previous != NULL) {
        block->previous->next = block->next;
    } else {
        blocks->first = block->next;
    }
    ddp_mem_free(mem, block);
}

void ddp_blocks_fini(struct ddp_blocks *blocks, struct ddp_mem *mem)
{
    while (blocks->first != NULL) {
        ddp_blocks_free(blocks, mem, blocks->first + 1);
    }
}

size_t ddp_blocks_size(const void *data)
{
    const struct ddp_blocks_item *block = (const struct ddp_blocks_item *)data - 1;

    DDP_ASSERT(block->size_bytes > 0);
    return block->size_bytes;
}

bool ddp_blocks_hold(const struct ddp_blocks *blocks, const void *data)
{
    for (const struct ddp_blocks_item *at = blocks->first; at != NULL; at = at->next) {
        if ((uintptr_t)data - (uintptr_t)(at + 1) < at->size_bytes) {
            return true;
        }
    }
    return false;
}
