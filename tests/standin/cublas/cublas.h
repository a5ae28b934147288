/* A stand-in for cuBLAS on the CUDA runtime stand-in, for tests on machines without a GPU. Nothing
 * that runs on it is a GPU result.
 *
 * cuBLAS' ABI (cublas_api.h of CUDA 13) for what ddprove loads by name; enums are ints. */
#ifndef TESTS_STANDIN_CUBLAS_CUBLAS_H
#define TESTS_STANDIN_CUBLAS_CUBLAS_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(name, number) */
#define STANDIN_CUBLAS_STATUS_TABLE(X)  \
    X(CUBLAS_STATUS_SUCCESS, 0)         \
    X(CUBLAS_STATUS_NOT_INITIALIZED, 1) \
    X(CUBLAS_STATUS_ALLOC_FAILED, 3)    \
    X(CUBLAS_STATUS_INVALID_VALUE, 7)   \
    X(CUBLAS_STATUS_EXECUTION_FAILED, 13)

enum standin_cublas_status {
#define X(name, number) name = (number),
    STANDIN_CUBLAS_STATUS_TABLE(X)
#undef X
};

enum { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1, CUBLAS_OP_C = 2 };

struct cublasContext;

int cublasCreate_v2(struct cublasContext **handle);
/* Waits for the device, as cuBLAS does. */
int cublasDestroy_v2(struct cublasContext *handle);
int cublasGetVersion_v2(struct cublasContext *handle, int *version);
/* Takes the workspace away again, as cuBLAS does. */
int cublasSetStream_v2(struct cublasContext *handle, cudaStream_t stream);
/* Device memory, 256-byte aligned. Products scribble over it, so that sharing it is seen. */
int cublasSetWorkspace_v2(struct cublasContext *handle, void *workspace, size_t size_bytes);
int cublasSetMathMode(struct cublasContext *handle, int mode);
int cublasSetAtomicsMode(struct cublasContext *handle, int mode);
/* Column-major C(m x n) = alpha * op(A) * op(B) + beta * C; alpha and beta are the host's. Sums run
 * over ascending k in fp32. C is not read if beta is 0. */
int cublasSgemm_v2(struct cublasContext *handle, int op_a, int op_b, int m, int n, int k,
                   const float *alpha, const float *a, int lda, const float *b, int ldb,
                   const float *beta, float *c, int ldc);
const char *cublasGetStatusName(int status);
const char *cublasGetStatusString(int status);

#ifdef __cplusplus
}
#endif
#endif
