/* Matrix products by cuBLAS, loaded when the device is created.
 *
 * Repeatable bits need three things (cuBLAS, "Results reproducibility"): no atomics, which is its
 * default; pedantic math, because an environment variable can make the default emulate fp32 with
 * other types; and a workspace of its own for every stream, because products that run beside each
 * other otherwise get different ones, and with them different algorithms. */
#include <climits>
#include <dlfcn.h>

#include "ddpcore/base/text.h"
#include "ddpcore/cuda/state.cuh"

/* The part of cublas_api.h that is used, by value, so that a build needs no cuBLAS. */
enum { OP_NONE = 0, OP_TRANSPOSE = 1, MATH_PEDANTIC = 2, MATH_TF32 = 3, STATUS_ALLOC_FAILED = 3 };
#if defined(__CUDACC__) && __has_include(<cublas_api.h>)
#include <cublas_api.h>
static_assert(int(OP_NONE) == int(CUBLAS_OP_N), "cublasOperation_t");
static_assert(int(OP_TRANSPOSE) == int(CUBLAS_OP_T), "cublasOperation_t");
static_assert(int(MATH_PEDANTIC) == int(CUBLAS_PEDANTIC_MATH), "cublasMath_t");
static_assert(int(MATH_TF32) == int(CUBLAS_TF32_TENSOR_OP_MATH), "cublasMath_t");
static_assert(int(STATUS_ALLOC_FAILED) == int(CUBLAS_STATUS_ALLOC_FAILED), "cublasStatus_t");
static_assert(sizeof(cublasStatus_t) == sizeof(int), "statuses are passed as int");
#endif

struct ddp_cuda_blas {
    void *library;
    int (*create)(void **handle);
    int (*destroy)(void *handle);
    int (*set_stream)(void *handle, cudaStream_t stream);
    int (*set_math_mode)(void *handle, int mode);
    int (*set_workspace)(void *handle, void *workspace, size_t size_bytes);
    int (*sgemm)(void *handle, int op_a, int op_b, int m, int n, int k, const float *alpha,
                 const float *a, int lda, const float *b, int ldb, const float *beta, float *c,
                 int ldc);
    const char *(*status_string)(int status); /* may be NULL */
    void *handle;
    bool is_fast;
    size_t workspace_bytes;
    const struct ddp_stream *bound; /* what the handle enqueues on */
};

static ddp_status check(ddp_cuda_device *cuda, int status, const char *call)
{
    if (status == 0) {
        return DDP_OK;
    }
    if (status == STATUS_ALLOC_FAILED) {
        return DDP_E_DEVICE_MEMORY;
    }
    return ddp_cuda_fail(cuda, call, "cuBLAS",
                         cuda->blas->status_string != NULL ? cuda->blas->status_string(status)
                                                           : "its library does not say why");
}

/* Open path, or the names that NVIDIA gives the library. `tried` collects the loader's messages. */
static void *open_library(const char *path, struct ddp_text *tried)
{
    static const char *const names[] = {"libcublas.so.13", "libcublas.so.12"};
    const char *const *wanted = path != NULL ? &path : names;
    size_t count = path != NULL ? 1 : sizeof(names) / sizeof(names[0]);

    for (size_t i = 0; i < count; i++) {
        /* Never unloaded: it leaves handlers behind that run at exit. */
        void *library = dlopen(wanted[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
        const char *why;
        if (library != NULL) {
            return library;
        }
        why = dlerror();
        ddp_text_add(tried, "%s%s", i > 0 ? "; " : "", why != NULL ? why : wanted[i]);
    }
    return NULL;
}

/* False if the library lacks the function. */
template <typename Function> static bool find(void *library, const char *name, Function *out)
{
    *out = reinterpret_cast<Function>(dlsym(library, name));
    return *out != NULL;
}

static bool adopt(ddp_cuda_blas *blas)
{
    (void)find(blas->library, "cublasGetStatusString", &blas->status_string);
    return find(blas->library, "cublasCreate_v2", &blas->create) &&
           find(blas->library, "cublasDestroy_v2", &blas->destroy) &&
           find(blas->library, "cublasSetStream_v2", &blas->set_stream) &&
           find(blas->library, "cublasSetMathMode", &blas->set_math_mode) &&
           find(blas->library, "cublasSetWorkspace_v2", &blas->set_workspace) &&
           find(blas->library, "cublasSgemm_v2", &blas->sgemm);
}

/* Make the handle enqueue on stream. */
static ddp_status bind(ddp_cuda_device *cuda, struct ddp_stream *stream)
{
    ddp_cuda_blas *blas = cuda->blas;

    DDP_ASSERT(stream != NULL);
    if (blas->bound == stream) {
        return DDP_OK;
    }
    if (!blas->is_fast && stream->workspace == NULL) {
        DDP_TRY(ddp_cuda_alloc(&cuda->base, blas->workspace_bytes, DDP_SPACE_DEVICE,
                               &stream->workspace));
    }
    blas->bound = NULL;
    DDP_TRY(check(cuda, blas->set_stream(blas->handle, stream->handle), "cublasSetStream"));
    if (!blas->is_fast) {
        /* cublasSetStream has put the default workspace back. */
        DDP_TRY(check(cuda,
                      blas->set_workspace(blas->handle, stream->workspace, blas->workspace_bytes),
                      "cublasSetWorkspace"));
    }
    blas->bound = stream;
    return DDP_OK;
}

static ddp_status open_blas(ddp_cuda_device *cuda, const char *path, struct ddp_err *err)
{
    ddp_cuda_blas *blas = cuda->blas;
    struct ddp_text tried;

    ddp_text_init(&tried, cuda->base.mem);
    blas->library = open_library(path, &tried);
    if (blas->library == NULL) {
        ddp_status status =
            ddp_err_set(err, DDP_E_NOT_FOUND,
                        "no cuBLAS: %s; install CUDA's libraries, or put their folder into "
                        "LD_LIBRARY_PATH",
                        ddp_text_str(&tried));
        ddp_text_fini(&tried);
        return status;
    }
    ddp_text_fini(&tried);
    if (!adopt(blas)) {
        const char *why = dlerror();
        return ddp_err_set(err, DDP_E_NOT_FOUND, "cuBLAS is not usable: %s",
                           why != NULL ? why : "a function is missing");
    }
    DDP_TRY(check(cuda, blas->create(&blas->handle), "cublasCreate"));
    DDP_TRY(check(cuda,
                  blas->set_math_mode(blas->handle, blas->is_fast ? MATH_TF32 : MATH_PEDANTIC),
                  "cublasSetMathMode"));
    return bind(cuda, &cuda->main);
}

ddp_status ddp_cuda_blas_create(ddp_cuda_device *cuda, const char *path, bool is_fast,
                                struct ddp_err *err)
{
    /* What NVIDIA recommends for the two generations. */
    const size_t hopper_bytes = static_cast<size_t>(32) << 20;
    const size_t ampere_bytes = static_cast<size_t>(4) << 20;

    cuda->blas =
        static_cast<ddp_cuda_blas *>(ddp_mem_array(cuda->base.mem, 1, sizeof(*cuda->blas)));
    if (cuda->blas == NULL) {
        return DDP_E_NOMEM;
    }
    cuda->blas->is_fast = is_fast;
    cuda->blas->workspace_bytes = cuda->capability_major >= 9 ? hopper_bytes : ampere_bytes;
    return open_blas(cuda, path, err);
}

void ddp_cuda_blas_forget(ddp_cuda_device *cuda, const struct ddp_stream *stream)
{
    if (cuda->blas->bound == stream && bind(cuda, &cuda->main) != DDP_OK) {
        cuda->blas->bound = NULL;
    }
}

void ddp_cuda_blas_destroy(ddp_cuda_device *cuda)
{
    if (cuda->blas == NULL) {
        return;
    }
    if (cuda->blas->handle != NULL) {
        (void)cuda->blas->destroy(cuda->blas->handle);
    }
    if (cuda->blas->library != NULL) {
        (void)dlclose(cuda->blas->library);
    }
    ddp_mem_free(cuda->base.mem, cuda->blas);
    cuda->blas = NULL;
}

ddp_status ddp_cuda_gemm(struct ddp_device *device, struct ddp_stream *stream,
                         const struct ddp_gemm *gemm)
{
    ddp_cuda_device *cuda = ddp_cuda_of(device);
    const struct ddp_gemm g = *gemm;
    struct ddp_stream *target = stream != NULL ? stream : &cuda->main;
    cudaStream_t handle;

    DDP_TRY(ddp_cuda_enter(cuda));
    if (g.m > INT_MAX || g.n > INT_MAX || g.k > INT_MAX) {
        return DDP_E_INVALID;
    }
    if (g.m == 0 || g.n == 0) {
        return DDP_OK;
    }
    if (g.k == 0) {
        if (g.beta == 0.0F) {
            return device->ops->zero(device, stream, g.c, g.m * g.n * sizeof(float));
        }
        return ddp_cuda_scale(device, stream, g.c, DDP_DTYPE_F32, g.c, DDP_DTYPE_F32, g.m * g.n,
                              g.beta);
    }
    DDP_TRY(bind(cuda, target));
    DDP_TRY(ddp_cuda_enter_stream(cuda, stream, &handle));
    /* cuBLAS is column-major, where our row-major C is its transpose: C^T = op(B)^T op(A)^T. A
     * matrix stored row-major with packed rows is there the transposed one, its leading dimension
     * the length of a row. */
    return check(cuda,
                 cuda->blas->sgemm(cuda->blas->handle, g.transpose_b ? OP_TRANSPOSE : OP_NONE,
                                   g.transpose_a ? OP_TRANSPOSE : OP_NONE, static_cast<int>(g.n),
                                   static_cast<int>(g.m), static_cast<int>(g.k), &g.alpha, g.b,
                                   static_cast<int>(g.transpose_b ? g.k : g.n), g.a,
                                   static_cast<int>(g.transpose_a ? g.m : g.k), &g.beta, g.c,
                                   static_cast<int>(g.n)),
                 "cublasSgemm");
}
