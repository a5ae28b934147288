/* cuBLAS stand-in, for tests on machines without a GPU; nothing here is a GPU result. */
#include "tests/standin/cublas/cublas.h"

#include <ddp_standin.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { VERSION = 130000, WORKSPACE_ALIGN_BYTES = 256, MAX_MATH_MODE = 5 };

struct cublasContext {
    cudaStream_t stream;
    unsigned char *workspace;
    size_t workspace_bytes;
};

struct matrix {
    const float *data;
    size_t row_stride, column_stride;
};

struct product {
    struct matrix a, b;
    float *c;
    size_t m, n, k, ldc;
    float alpha, beta;
    unsigned char *workspace;
    size_t workspace_bytes;
};

static int product_run(void *context, const volatile int *is_cancelled)
{
    struct product *p = context;
    bool is_dropped = __atomic_load_n(is_cancelled, __ATOMIC_RELAXED) != 0;

    if (!is_dropped && p->workspace != NULL) {
        memset(p->workspace, 0xff, p->workspace_bytes);
    }
    for (size_t j = 0; j < p->n && !is_dropped; j++) {
        for (size_t i = 0; i < p->m; i++) {
            const float *a = p->a.data + i * p->a.row_stride;
            const float *b = p->b.data + j * p->b.column_stride;
            float *c = p->c + i + j * p->ldc;
            float sum = 0.0F;

            for (size_t l = 0; l < p->k; l++) {
                sum += a[l * p->a.column_stride] * b[l * p->b.row_stride];
            }
            *c = p->beta == 0.0F ? p->alpha * sum : p->alpha * sum + p->beta * *c;
        }
    }
    free(p);
    return cudaSuccess;
}

/* cuBLAS loads the kernels of a shape with its first product, which may wait for all that runs,
 * unless the environment asks for all kernels at the start ("Lazy Loading" in CUDA's guide). */
static int load_kernels(int op_a, int op_b, int m, int n, int k)
{
    static struct shape {
        struct shape *next;
        int of[5];
    } * shapes;
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    const int of[5] = {op_a, op_b, m, n, k};
    const char *loading = getenv("CUDA_MODULE_LOADING");
    struct shape *shape;
    bool is_new;

    if (loading != NULL && strcmp(loading, "EAGER") == 0) {
        return CUBLAS_STATUS_SUCCESS;
    }
    pthread_mutex_lock(&lock);
    for (shape = shapes; shape != NULL && memcmp(shape->of, of, sizeof(of)) != 0;) {
        shape = shape->next;
    }
    is_new = shape == NULL;
    if (is_new && (shape = malloc(sizeof(*shape))) != NULL) {
        shape->next = shapes;
        memcpy(shape->of, of, sizeof(of));
        shapes = shape;
    }
    pthread_mutex_unlock(&lock);
    if (shape == NULL) {
        return CUBLAS_STATUS_ALLOC_FAILED;
    }
    return is_new && cudaDeviceSynchronize() != cudaSuccess ? CUBLAS_STATUS_EXECUTION_FAILED
                                                            : CUBLAS_STATUS_SUCCESS;
}

/* Element (i, j) of op(X) lies at i * row_stride + j * column_stride. */
static struct matrix matrix_of(const float *data, int op, int ld)
{
    size_t stride = (size_t)ld;
    return op == CUBLAS_OP_N ? (struct matrix){data, 1, stride} : (struct matrix){data, stride, 1};
}

static bool is_op(int op)
{
    return op == CUBLAS_OP_N || op == CUBLAS_OP_T || op == CUBLAS_OP_C;
}

/* A matrix is stored in columns of ld elements, at least `rows` of them used. */
static bool is_ld(int ld, int rows)
{
    return ld >= (rows > 1 ? rows : 1);
}

int cublasSgemm_v2(struct cublasContext *handle, int op_a, int op_b, int m, int n, int k,
                   const float *alpha, const float *a, int lda, const float *b, int ldb,
                   const float *beta, float *c, int ldc)
{
    struct product *p;
    int status;

    if (handle == NULL) {
        return CUBLAS_STATUS_NOT_INITIALIZED;
    }
    if (!is_op(op_a) || !is_op(op_b) || m < 0 || n < 0 || k < 0 || alpha == NULL || beta == NULL ||
        !is_ld(lda, op_a == CUBLAS_OP_N ? m : k) || !is_ld(ldb, op_b == CUBLAS_OP_N ? k : n) ||
        !is_ld(ldc, m)) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (m == 0 || n == 0) {
        return CUBLAS_STATUS_SUCCESS;
    }
    status = load_kernels(op_a, op_b, m, n, k);
    if (status != CUBLAS_STATUS_SUCCESS) {
        return status;
    }
    p = malloc(sizeof(*p));
    if (p == NULL) {
        return CUBLAS_STATUS_ALLOC_FAILED;
    }
    *p = (struct product){
        .a = matrix_of(a, op_a, lda),
        .b = matrix_of(b, op_b, ldb),
        .c = c,
        .m = (size_t)m,
        .n = (size_t)n,
        .k = (size_t)k,
        .ldc = (size_t)ldc,
        .alpha = *alpha,
        .beta = *beta,
        .workspace = handle->workspace,
        .workspace_bytes = handle->workspace_bytes,
    };
    if (ddp_standin_stream_enqueue(handle->stream, product_run, p) != 0) {
        free(p);
        return CUBLAS_STATUS_EXECUTION_FAILED;
    }
    return CUBLAS_STATUS_SUCCESS;
}

int cublasCreate_v2(struct cublasContext **handle)
{
    int card;

    *handle = NULL;
    if (cudaGetDevice(&card) != cudaSuccess) {
        return CUBLAS_STATUS_NOT_INITIALIZED;
    }
    *handle = calloc(1, sizeof(**handle));
    return *handle != NULL ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}

int cublasDestroy_v2(struct cublasContext *handle)
{
    if (handle == NULL) {
        return CUBLAS_STATUS_NOT_INITIALIZED;
    }
    (void)cudaDeviceSynchronize();
    free(handle);
    return CUBLAS_STATUS_SUCCESS;
}

int cublasGetVersion_v2(struct cublasContext *handle, int *version)
{
    (void)handle;
    *version = VERSION;
    return CUBLAS_STATUS_SUCCESS;
}

int cublasSetStream_v2(struct cublasContext *handle, cudaStream_t stream)
{
    if (handle == NULL) {
        return CUBLAS_STATUS_NOT_INITIALIZED;
    }
    *handle = (struct cublasContext){.stream = stream};
    return CUBLAS_STATUS_SUCCESS;
}

int cublasSetWorkspace_v2(struct cublasContext *handle, void *workspace, size_t size_bytes)
{
    if (handle == NULL) {
        return CUBLAS_STATUS_NOT_INITIALIZED;
    }
    if ((uintptr_t)workspace % WORKSPACE_ALIGN_BYTES != 0) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    handle->workspace = workspace;
    handle->workspace_bytes = workspace != NULL ? size_bytes : 0;
    return CUBLAS_STATUS_SUCCESS;
}

int cublasSetMathMode(struct cublasContext *handle, int mode)
{
    if (handle == NULL) {
        return CUBLAS_STATUS_NOT_INITIALIZED;
    }
    return mode >= 0 && mode <= MAX_MATH_MODE ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

int cublasSetAtomicsMode(struct cublasContext *handle, int mode)
{
    if (handle == NULL) {
        return CUBLAS_STATUS_NOT_INITIALIZED;
    }
    return mode == 0 || mode == 1 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

const char *cublasGetStatusName(int status)
{
    switch (status) {
#define X(name, number) \
    case name:          \
        return #name;
        STANDIN_CUBLAS_STATUS_TABLE(X)
#undef X
    default:
        return "CUBLAS_STATUS unknown";
    }
}

const char *cublasGetStatusString(int status)
{
    return cublasGetStatusName(status);
}
