/* The CUDA device. One per process and card; every rank is a process. All work is enqueued. What
 * waits for the device: creation and destruction, map and unmap, allocations that the cache cannot
 * serve, copies with memory of the host that is not page-locked, and the first matrix product of a
 * shape, for which cuBLAS may load a kernel. Abort communicators before destruction: a collective
 * that waits for a peer would hold it up. The CUDA runtime is linked statically, cuBLAS is loaded
 * when a device is created, so a program that contains this starts on a machine that has neither.
 *
 * A label that is out of range makes its row's loss and gradient NaN.
 *
 * In builds without the CUDA toolkit, or with sanitizers or coverage, the functions below return
 * E_UNSUPPORTED. */
#ifndef DDPCORE_CUDA_CUDA_H
#define DDPCORE_CUDA_CUDA_H

#include "ddpcore/device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ddp_device_cuda_config {
    int32_t ordinal;         /* as the CUDA runtime numbers the visible cards */
    const char *cublas_path; /* library to load; NULL: libcublas.so.13, then .12, by name */
    bool is_fast; /* TF32 in GEMMs and cuBLAS' own choice of algorithms: not bitwise repeatable.
                   * false: fp32 arithmetic, a fixed workspace, the same bits every time */
};

/* Errors: E_UNSUPPORTED (built without CUDA), E_NOT_FOUND (no driver, no such card, no cuBLAS; err
 * says which and what would help), E_NOMEM, E_DEVICE_MEMORY, E_DEVICE. */
DDP_MUST_USE ddp_status ddp_device_cuda_create(struct ddp_mem *mem,
                                               const struct ddp_device_cuda_config *config,
                                               struct ddp_device **out, struct ddp_err *err);

/* Properties of the machine's cards. The query initialises the driver in this process: a process
 * that forks ranks later makes it in a child. */
struct ddp_device_cuda_info {
    uint32_t card_count;
    uint32_t driver_version, runtime_version; /* 1000 * major + 10 * minor */
    char name[256];                           /* of the card asked for */
    uint32_t compute_capability;              /* 10 * major + minor */
    uint64_t memory_bytes;
};
/* Errors: as ddp_device_cuda_create, but cuBLAS is not looked for. */
DDP_MUST_USE ddp_status ddp_device_cuda_query(int32_t ordinal, struct ddp_device_cuda_info *out,
                                              struct ddp_err *err);

#ifdef __cplusplus
}
#endif
#endif
