/* The blocks of memory that one endpoint handed out. Those that its user did not free after a
 * failure go with the endpoint. Not thread-safe: an endpoint has one thread. */
#ifndef DDPCORE_TRANSPORT_BLOCKS_H
#define DDPCORE_TRANSPORT_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>

#include "ddpcore/base/mem.h"

struct ddp_blocks_item;

/* Zero: none yet. Only these functions read it. */
struct ddp_blocks {
    struct ddp_blocks_item *first;
};

/* size_bytes of host memory, 64-byte aligned, zero-filled; NULL when exhausted, or for no bytes. */
void *ddp_blocks_alloc(struct ddp_blocks *blocks, struct ddp_mem *mem, size_t size_bytes);
/* data came from ddp_blocks_alloc of the same blocks and mem, and was not freed. */
void ddp_blocks_free(struct ddp_blocks *blocks, struct ddp_mem *mem, void *data);
/* Frees all that are left. */
void ddp_blocks_fini(struct ddp_blocks *blocks, struct ddp_mem *mem);
/* The size that data was asked for with. */
size_t ddp_blocks_size(const void *data);
/* Whether data points into a block that was not freed. */
bool ddp_blocks_hold(const struct ddp_blocks *blocks, const void *data);

#endif
