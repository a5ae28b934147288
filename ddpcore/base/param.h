/* A model's parameters and buffers, as a trainer shows them to the DDP core: a table of tensors,
 * nothing about the model that owns them. */
#ifndef DDPCORE_BASE_PARAM_H
#define DDPCORE_BASE_PARAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DDP_NDIM_MAX 4

struct ddp_param {
    const char *name; /* borrowed as long as anything uses the table */
    float *data;      /* float[elem_count] on the device */
    float *grad;      /* float[elem_count] on the device */
    size_t elem_count;
    uint32_t ndim;
    size_t shape[DDP_NDIM_MAX];
    bool is_grad_defined; /* false: no gradient (PyTorch's None); kept by trainer and core alike */
};

struct ddp_buffer {
    const char *name;
    float *data; /* float[elem_count] on the device */
    size_t elem_count;
};

#ifdef __cplusplus
}
#endif
#endif
