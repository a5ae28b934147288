/* The cuBLAS stand-in against a plain loop. Nothing that runs on it is a GPU result. */
#include <ddp_standin.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/ct.h"
#include "tests/standin/cublas/cublas.h"
#include "tests/standin/standin_testing.h"

enum { M = 5, N = 4, K = 7, LD = 9, COUNT = LD * LD };

static float element(const float *data, int op, int i, int j)
{
    return op == CUBLAS_OP_N ? data[i + j * LD] : data[j + i * LD];
}

static void check_product(const float *a, const float *b, const float *before, const float *after,
                          int op_a, int op_b)
{
    for (int j = 0; j < LD; j++) {
        for (int i = 0; i < LD; i++) {
            double sum = 0.0;
            for (int l = 0; l < K; l++) {
                sum += (double)element(a, op_a, i % M, l) * (double)element(b, op_b, l, j % N);
            }
            double expected = 2.0 * sum + 0.5 * (double)before[i + j * LD];
            if (i >= M || j >= N) {
                expected = (double)before[i + j * LD]; /* beside C */
            }
            CT_CHECK(fabs((double)after[i + j * LD] - expected) < 1e-5);
        }
    }
}

static float *device_copy(const float *host, cudaStream_t stream)
{
    void *data = NULL;

    if (cudaMalloc(&data, COUNT * sizeof(float)) != cudaSuccess ||
        cudaMemcpyAsync(data, host, COUNT * sizeof(float), cudaMemcpyDefault, stream) !=
            cudaSuccess) {
        CT_FAIL("no device memory");
        return NULL;
    }
    return data;
}

CT_TEST(standin_cublas, multiplies)
{
    float host[3][COUNT], after[COUNT];
    const float alpha = 2.0F, beta = 0.5F;
    struct cublasContext *handle;
    cudaStream_t stream;

    for (int i = 0; i < 3 * COUNT; i++) {
        host[i / COUNT][i % COUNT] = (float)((i * 37) % 101 - 50) / 32.0F;
    }
    CUDA_REQUIRE(stream_create(&stream));
    CT_REQUIRE(cublasCreate_v2(&handle) == CUBLAS_STATUS_SUCCESS);
    CT_CHECK(cublasSetStream_v2(handle, stream) == CUBLAS_STATUS_SUCCESS);
    for (int ops = 0; ops < 4; ops++) {
        int op_a = ops & 1, op_b = ops >> 1;
        float *a = device_copy(host[0], stream), *b = device_copy(host[1], stream);
        float *c = device_copy(host[2], stream);
        CT_REQUIRE(a != NULL && b != NULL && c != NULL);
        CT_CHECK(cublasSgemm_v2(handle, op_a, op_b, M, N, K, &alpha, a, LD, b, LD, &beta, c, LD) ==
                 CUBLAS_STATUS_SUCCESS);
        CUDA_CHECK(cudaMemcpyAsync(after, c, sizeof(after), cudaMemcpyDefault, stream));
        check_product(host[0], host[1], host[2], after, op_a, op_b);
        CUDA_CHECK(cudaFree(a));
        CUDA_CHECK(cudaFree(b));
        CUDA_CHECK(cudaFree(c));
    }
    CT_CHECK(cublasDestroy_v2(handle) == CUBLAS_STATUS_SUCCESS);
    CUDA_CHECK(cudaStreamDestroy(stream));
    check_nothing_left();
}

CT_TEST(standin_cublas, beta_zero_does_not_read_c)
{
    const float host[COUNT] = {3.0F}, alpha = 1.0F, beta = 0.0F;
    struct cublasContext *handle;
    float *a = device_copy(host, NULL);
    void *c, *workspace;
    float result = 0.0F;
    uint32_t scribble = 0;

    CUDA_REQUIRE(cudaMalloc(&c, sizeof(float))); /* a NaN */
    CUDA_REQUIRE(cudaMalloc(&workspace, 256));
    CT_REQUIRE(a != NULL && cublasCreate_v2(&handle) == CUBLAS_STATUS_SUCCESS);
    CT_CHECK(cublasSetWorkspace_v2(handle, (char *)workspace + 4, 4) ==
             CUBLAS_STATUS_INVALID_VALUE);
    CT_CHECK(cublasSetWorkspace_v2(handle, workspace, 256) == CUBLAS_STATUS_SUCCESS);
    CT_CHECK(cublasSgemm_v2(handle, 0, 0, 1, 1, 1, &alpha, a, 1, a, 1, &beta, c, 1) ==
             CUBLAS_STATUS_SUCCESS);
    CT_CHECK(cublasSgemm_v2(handle, 0, 0, 2, 1, 1, &alpha, a, 1, a, 1, &beta, c, 2) ==
             CUBLAS_STATUS_INVALID_VALUE); /* lda < m */
    CUDA_CHECK(cudaMemcpyAsync(&result, c, sizeof(result), cudaMemcpyDefault, NULL));
    CUDA_CHECK(cudaMemcpyAsync(&scribble, workspace, 4, cudaMemcpyDefault, NULL));
    CT_CHECK(result == 9.0F);
    CT_CHECK_EQ_U64(scribble, UINT32_MAX);
    ddp_standin_device_fail(cudaErrorIllegalAddress);
    CT_CHECK(cublasSgemm_v2(handle, 0, 0, 1, 1, 1, &alpha, a, 1, a, 1, &beta, c, 1) ==
             CUBLAS_STATUS_EXECUTION_FAILED);
    CT_CHECK(cublasDestroy_v2(handle) == CUBLAS_STATUS_SUCCESS);
}
