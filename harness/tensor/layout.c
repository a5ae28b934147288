/* Purpose: where each tensor lies in its block. It knows no values. */
#include "harness/tensor/layout.h"

#include "ddpcore/base/hash.h"

enum { ALIGN_BYTES = 8 };

void harness_layout_add(struct harness_layout *layout, const char *name, enum ddp_dtype dtype,
                        size_t elem_count)
{
    struct harness_layout_item *item = &layout->items[layout->count++];

    *item = (struct harness_layout_item){.name = name,
                                         .dtype = dtype,
                                         .elem_count = elem_count,
                                         .size_bytes = elem_count * ddp_dtype_size_bytes(dtype),
                                         .first_byte = layout->size_bytes,
                                         .salt = ddp_hash_text(name)};
    layout->size_bytes += (item->size_bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
}

struct harness_tensor harness_layout_at(const struct harness_layout *layout, void *blocks,
                                        size_t number, size_t index)
{
    const struct harness_layout_item *item = &layout->items[index];

    DDP_ASSERT(index < layout->count);
    return (struct harness_tensor){.dtype = item->dtype,
                                   .elem_count = item->elem_count,
                                   .size_bytes = item->size_bytes,
                                   .data = (char *)blocks + number * layout->size_bytes +
                                           item->first_byte};
}

uint64_t harness_layout_hash(const struct harness_layout *layout, void *blocks, size_t number,
                             size_t index)
{
    const struct harness_tensor tensor = harness_layout_at(layout, blocks, number, index);

    return ddp_hash_tensor(tensor.data, tensor.size_bytes, layout->items[index].salt, NULL);
}
