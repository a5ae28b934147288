/* What the files of the CUDA device share. Each file calls only files of earlier lines:
 *   context.cu                  enter, errors
 *   memory.cu reduce.cu scale.cu rows.cu
 *   blas.cu fault.cu
 *   stream.cu math.cu           (math.cu: elementwise kernels and the table of math.h)
 *   device.cu                   the table of device.h, creation */
#ifndef DDPCORE_CUDA_STATE_CUH
#define DDPCORE_CUDA_STATE_CUH

#include <cuda_runtime.h>

#include "ddpcore/cuda/cuda.h"
#include "ddpcore/device/device.h"
#include "ddpcore/device/math.h"

struct ddp_stream {
    cudaStream_t handle;
    uint64_t zero_serial; /* allocations whose zero-fill it is ordered after */
    void *workspace;      /* of cuBLAS on this stream; NULL until its first product */
};

struct ddp_cuda_block; /* memory.cu */

enum {
    DDP_CUDA_TABLE_SLOTS = 1024,
    /* Blocks of 512 bytes to 64 TiB, four sizes an octave. */
    DDP_CUDA_SIZE_CLASSES = 4 * 37 + 1,
    DDP_CUDA_SPACES = 2,
    DDP_CUDA_MAPS = 16
};

struct ddp_cuda_memory {
    ddp_cuda_block *live[DDP_CUDA_TABLE_SLOTS]; /* by address */
    ddp_cuda_block *idle[DDP_CUDA_SPACES][DDP_CUDA_SIZE_CLASSES];
    uint64_t zero_serial; /* zero-fills so far */
    cudaEvent_t zeroed;   /* after the last of them, on the default stream */
};

/* Host memory that the device may write. */
struct ddp_cuda_map {
    unsigned char *memory;
    size_t size_bytes;
    unsigned char *device_view;
};

/* CUresult cuStreamWriteValue64(CUstream, CUdeviceptr, cuuint64_t, unsigned) */
typedef int ddp_cuda_write_value(cudaStream_t stream, unsigned long long address, uint64_t value,
                                 unsigned flags);

struct ddp_cuda_blas; /* blas.cu */

struct ddp_cuda_device {
    struct ddp_device base;
    int ordinal;
    int sm_count;
    int capability_major;
    bool is_lost; /* an error has stuck to the device */
    char error_text[256];
    struct ddp_stream main; /* the default stream */
    cudaEvent_t probe;      /* for single waits between streams, and to ask for errors */
    struct ddp_cuda_memory memory;
    struct ddp_cuda_map maps[DDP_CUDA_MAPS];
    ddp_cuda_write_value *write_value; /* NULL: a kernel stores words */
    struct ddp_cuda_blas *blas;
    uint32_t *stop; /* host memory; nonzero ends spinning kernels */
};

static inline ddp_cuda_device *ddp_cuda_of(struct ddp_device *device)
{
    return reinterpret_cast<ddp_cuda_device *>(device);
}

/* context.cu */
/* E_DEVICE_MEMORY for exhaustion; else E_DEVICE, keeping the text for last_error and finding out
 * whether the error has stuck. */
ddp_status ddp_cuda_check_failed(ddp_cuda_device *cuda, cudaError_t error, const char *call);
/* The same for errors of other libraries. */
ddp_status ddp_cuda_fail(ddp_cuda_device *cuda, const char *call, const char *name,
                         const char *text);

static inline ddp_status ddp_cuda_check(ddp_cuda_device *cuda, cudaError_t error, const char *call)
{
    return error == cudaSuccess ? DDP_OK : ddp_cuda_check_failed(cuda, error, call);
}

#define CUDA_TRY(cuda, function, ...) \
    DDP_TRY(ddp_cuda_check((cuda), function(__VA_ARGS__), #function))

/* First of every operation: makes the card current. E_DEVICE once the device is lost. */
ddp_status ddp_cuda_enter(ddp_cuda_device *cuda);
/* The same, and the stream to enqueue on, ordered after every zero-fill so far. */
ddp_status ddp_cuda_enter_stream(ddp_cuda_device *cuda, struct ddp_stream *stream,
                                 cudaStream_t *out);

/* memory.cu */
ddp_status ddp_cuda_alloc(struct ddp_device *device, size_t size_bytes, enum ddp_space space,
                          void **out);
void ddp_cuda_free(struct ddp_device *device, enum ddp_space space, void *data);
ddp_status ddp_cuda_memory_init(ddp_cuda_device *cuda);
void ddp_cuda_memory_fini(ddp_cuda_device *cuda);

/* stream.cu */
ddp_status ddp_cuda_stream_init(ddp_cuda_device *cuda);
void ddp_cuda_stream_fini(ddp_cuda_device *cuda);
void ddp_cuda_stream_fill_ops(struct ddp_device_ops *ops);

/* reduce.cu */
ddp_status ddp_cuda_reduce(struct ddp_device *device, struct ddp_stream *stream, void *target,
                           const void *source, size_t elem_count, enum ddp_dtype dtype,
                           enum ddp_redop op);
ddp_status ddp_cuda_reduce_preload(ddp_cuda_device *cuda);
/* scale.cu */
ddp_status ddp_cuda_scale(struct ddp_device *device, struct ddp_stream *stream, void *target,
                          enum ddp_dtype target_dtype, const void *source,
                          enum ddp_dtype source_dtype, size_t elem_count, double factor);
ddp_status ddp_cuda_scale_preload(ddp_cuda_device *cuda);

/* math.cu, rows.cu and blas.cu */
const struct ddp_math_ops *ddp_cuda_math();
ddp_status ddp_cuda_math_preload(ddp_cuda_device *cuda);
void ddp_cuda_rows_fill_ops(struct ddp_math_ops *ops);
ddp_status ddp_cuda_rows_preload(ddp_cuda_device *cuda);
ddp_status ddp_cuda_gemm(struct ddp_device *device, struct ddp_stream *stream,
                         const struct ddp_gemm *gemm);
/* Errors: E_NOT_FOUND with the names tried, E_DEVICE, E_DEVICE_MEMORY, E_NOMEM. */
ddp_status ddp_cuda_blas_create(ddp_cuda_device *cuda, const char *path, bool is_fast,
                                struct ddp_err *err);
void ddp_cuda_blas_destroy(ddp_cuda_device *cuda);
/* The stream is about to go. */
void ddp_cuda_blas_forget(ddp_cuda_device *cuda, const struct ddp_stream *stream);

/* fault.cu */
ddp_status ddp_cuda_inject(struct ddp_device *device, struct ddp_stream *stream,
                           enum ddp_device_fault fault, uint64_t ms);
ddp_status ddp_cuda_fault_init(ddp_cuda_device *cuda);
/* Ends the kernels that spin until the device ends. */
void ddp_cuda_fault_stop(ddp_cuda_device *cuda);

#endif
