/* Initial parameters and buffers from a file, so that a run starts from what another framework
 * wrote. Inside reference/. */
#ifndef REFERENCE_INITIAL_H
#define REFERENCE_INITIAL_H

#include "ddpcore/base/mem.h"
#include "reference/model_kind.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The tensors of a safetensors file. Zero-initialised is valid for _close. */
struct ref_initial;
/* Errors: E_NOT_FOUND, E_IO, E_CORRUPT (with the place), E_NOMEM. */
DDP_MUST_USE ddp_status ref_initial_open(struct ddp_mem *mem, const char *path,
                                         struct ref_initial **out, struct ddp_err *err);
void ref_initial_close(struct ref_initial *initial);
/* What the file says of a tensor: its elements, in *out. It must have that type and shape, but that
 * a tensor of one element may have no dimension. Errors: E_KEYS (it is not there), E_SHAPE. */
DDP_MUST_USE ddp_status ref_initial_find(const struct ref_initial *initial, const char *name,
                                         enum ddp_dtype dtype, uint32_t ndim, const size_t *shape,
                                         const void **out, struct ddp_err *err);
/* Of the bytes of a file, which are borrowed; for tests. */
DDP_MUST_USE ddp_status ref_initial_parse(struct ddp_mem *mem, const void *data, size_t size_bytes,
                                          struct ref_initial **out, struct ddp_err *err);

#ifdef __cplusplus
}
#endif
#endif
