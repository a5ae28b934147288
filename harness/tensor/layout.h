/* Tensors of one kind, one behind the other in a block of bytes; and views of them. */
#ifndef HARNESS_TENSOR_LAYOUT_H
#define HARNESS_TENSOR_LAYOUT_H

#include "ddpcore/base/dtype.h"
#include "ddpcore/base/mem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A view. */
struct harness_tensor {
    enum ddp_dtype dtype;
    size_t elem_count, size_bytes;
    void *data;
};

struct harness_layout_item {
    const char *name; /* borrowed */
    enum ddp_dtype dtype;
    size_t elem_count, size_bytes;
    size_t first_byte; /* a multiple of 8, so that any element type is aligned */
    uint64_t salt;     /* of its hashes: the name's */
};

struct harness_layout {
    struct harness_layout_item *items; /* [capacity] from the caller */
    size_t count;
    size_t size_bytes; /* of a block */
};

/* Behind the others. items must have room. */
void harness_layout_add(struct harness_layout *layout, const char *name, enum ddp_dtype dtype,
                        size_t elem_count);
/* Tensor `index` of block number `number` in an array of blocks. */
struct harness_tensor harness_layout_at(const struct harness_layout *layout, void *blocks,
                                        size_t number, size_t index);
uint64_t harness_layout_hash(const struct harness_layout *layout, void *blocks, size_t number,
                             size_t index);

#ifdef __cplusplus
}
#endif
#endif
