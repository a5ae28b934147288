/* Counting decorators of an allocator and of files: what was taken and not given back. A thread of
 * a library may allocate too. */
#ifndef DDPCORE_SEAM_COUNTED_H
#define DDPCORE_SEAM_COUNTED_H

#include "ddpcore/base/file.h"
#include "ddpcore/base/mem.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ddp_counted_mem {
    struct ddp_mem base; /* first: the allocator's pointer is the counter's */
    struct ddp_mem *inner;
    uint64_t block_count;
};

struct ddp_counted_files {
    struct ddp_files base; /* first */
    struct ddp_files *inner;
    uint64_t open_count; /* for writing */
};

/* Count from 0 what goes through base to inner, which is borrowed. */
void ddp_counted_mem_init(struct ddp_counted_mem *counted, struct ddp_mem *inner);
uint64_t ddp_counted_mem_blocks(const struct ddp_counted_mem *counted);
void ddp_counted_files_init(struct ddp_counted_files *counted, struct ddp_files *inner);

#ifdef __cplusplus
}
#endif
#endif
