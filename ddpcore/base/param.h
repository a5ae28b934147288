/* A model's parameters and buffers, as a trainer shows them to the DDP core: a table of tensors,
 * nothing about the model that owns them. */
#ifndef DDPCORE_BASE_PARAM_H
#define DDPCORE_BASE_PARAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ddpcore/base/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DDP_NDIM_MAX 4

struct ddp_param {
    const char *name; /* borrowed as long as anything uses the table */
    enum ddp_dtype dtype;
    void *data; /* elem_count elements on the device */
    void *grad; /* the same number, of the same type; NULL: see gradient_as_bucket_view of ddp.h */
    size_t elem_count;
    uint32_t ndim;
    size_t shape[DDP_NDIM_MAX];
    bool is_grad_defined; /* false: no gradient (PyTorch's None); kept by trainer and core alike */
};

struct ddp_buffer {
    const char *name;
    enum ddp_dtype dtype;
    void *data; /* elem_count elements on the device */
    size_t elem_count;
};

static inline size_t ddp_param_size_bytes(const struct ddp_param *param)
{
    return param->elem_count * ddp_dtype_size_bytes(param->dtype);
}

static inline size_t ddp_buffer_size_bytes(const struct ddp_buffer *buffer)
{
    return buffer->elem_count * ddp_dtype_size_bytes(buffer->dtype);
}

#ifdef __cplusplus
}
#endif
#endif
