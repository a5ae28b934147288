/* OpenBLAS, loaded at run time: the core type must be in its environment before its constructor
 * runs, which a linked library does not allow. Keeps the process-wide state that the contract in
 * device.h asks for; everything else about the CPU device is in cpu.c. */
#include "ddpcore/device/blas.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>

enum { ROW_MAJOR = 101, NO_TRANSPOSE = 111, TRANSPOSE = 112 };

typedef void sgemm_function(int order, int transpose_a, int transpose_b, int m, int n, int k,
                            float alpha, const float *a, int lda, const float *b, int ldb,
                            float beta, float *c, int ldc);

/* Set once by ddp_blas_open before ranks and threads start; read-only afterwards. */
static struct {
    void *library;
    sgemm_function *sgemm;
    char core_type[32];
    char description[256];
} blas;

/* OpenBLAS's serial build gives out its buffers without a lock of its own: of two threads that
 * multiply at once, each may write into the other's. */
static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

/* In order of preference: Debian's serial build, then whatever the loader finds. */
static const char *const library_names[] = {
#ifdef DDP_MULTIARCH
    "/usr/lib/" DDP_MULTIARCH "/openblas-serial/libopenblas.so.0",
#endif
    "/usr/lib/openblas-serial/libopenblas.so.0",
    "libopenblas.so.0",
    "libopenblas.so",
};

#if defined(__x86_64__)
static bool has_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512cd");
}

/* OpenBLAS 0.3.21 does not know CPUs newer than itself and falls back to a slower core type, so
 * the choice follows the instruction sets instead. */
static const char *core_type_of_cpu(void)
{
    if (has_avx512()) {
        return "SkylakeX";
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        return "Haswell";
    }
    return "Nehalem";
}

/* A forced core type is not checked by OpenBLAS: the wrong one ends in SIGILL. */
static bool is_core_type_runnable(const char *core_type)
{
    static const char *const avx512[] = {"SkylakeX", "Cooperlake", "Sapphirerapids"};
    static const char *const avx2[] = {"Haswell", "Zen", "Excavator"};

    for (size_t i = 0; i < sizeof(avx512) / sizeof(avx512[0]); i++) {
        if (strcasecmp(core_type, avx512[i]) == 0) {
            return has_avx512();
        }
    }
    for (size_t i = 0; i < sizeof(avx2) / sizeof(avx2[0]); i++) {
        if (strcasecmp(core_type, avx2[i]) == 0) {
            return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
        }
    }
    return true;
}
#else
static const char *core_type_of_cpu(void)
{
    return NULL; /* other CPUs: one core type for each machine, OpenBLAS's own choice */
}

static bool is_core_type_runnable(const char *core_type)
{
    (void)core_type;
    return true;
}
#endif

/* POSIX gives function addresses as object pointers; memcpy turns one into the other. */
static bool resolve(void *library, const char *symbol, void *out_function)
{
    void *address = dlsym(library, symbol);

    memcpy(out_function, &address, sizeof(address));
    return address != NULL;
}

static void *open_library(char *tried, size_t tried_bytes)
{
    size_t used = 0;

    for (size_t i = 0; i < sizeof(library_names) / sizeof(library_names[0]); i++) {
        /* Lazy: of its thousands of functions a handful is called. */
        void *library = dlopen(library_names[i], RTLD_LAZY | RTLD_LOCAL);
        if (library != NULL) {
            return library;
        }
        int added = snprintf(tried + used, tried_bytes - used, "%s%s", i == 0 ? "" : ", ",
                             library_names[i]);
        if (added > 0 && (size_t)added < tried_bytes - used) {
            used += (size_t)added;
        }
    }
    return NULL;
}

static ddp_status adopt_library(void *library, const char *core_type, struct ddp_err *err)
{
    sgemm_function *sgemm;
    char *(*get_config)(void);
    char *(*get_corename)(void);
    void (*set_num_threads)(int);

    if (!resolve(library, "cblas_sgemm", &sgemm) ||
        !resolve(library, "openblas_get_config", &get_config) ||
        !resolve(library, "openblas_get_corename", &get_corename) ||
        !resolve(library, "openblas_set_num_threads", &set_num_threads)) {
        return ddp_err_set(err, DDP_E_NOT_FOUND, "OpenBLAS lacks a function: %s", dlerror());
    }
    set_num_threads(1);
    if (core_type != NULL && strcasecmp(core_type, get_corename()) != 0) {
        return ddp_err_set(err, DDP_E_INVALID, "OpenBLAS has no core type %s; it chose %s",
                           core_type, get_corename());
    }
    blas.library = library;
    blas.sgemm = sgemm;
    (void)snprintf(blas.core_type, sizeof(blas.core_type), "%s", get_corename());
    (void)snprintf(blas.description, sizeof(blas.description), "%s, core %s, 1 thread",
                   get_config(), blas.core_type);
    return DDP_OK;
}

/* OpenBLAS asks for its buffer at the first product, and asks for ever if there is no room. */
static ddp_status check_buffer(struct ddp_err *err)
{
    const size_t size_bytes = (size_t)128 << 20;
    void *buffer =
        mmap(NULL, size_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (buffer == MAP_FAILED) {
        return ddp_err_set(err, DDP_E_NOMEM,
                           "OpenBLAS needs %zu MiB of address space: %s; raise the limit (ulimit "
                           "-v)",
                           size_bytes >> 20, strerror(errno));
    }
    (void)munmap(buffer, size_bytes);
    return DDP_OK;
}

ddp_status ddp_blas_open(const char *core_type, struct ddp_err *err)
{
    char tried[512] = "";
    const char *chosen = core_type != NULL ? core_type : core_type_of_cpu();
    void *library;
    ddp_status status;

    if (blas.library != NULL) {
        if (core_type != NULL && strcasecmp(core_type, blas.core_type) != 0) {
            return ddp_err_set(err, DDP_E_STATE, "OpenBLAS is open with core type %s, not %s",
                               blas.core_type, core_type);
        }
        return DDP_OK;
    }
    if (chosen != NULL && !is_core_type_runnable(chosen)) {
        return ddp_err_set(err, DDP_E_INVALID, "this CPU cannot run OpenBLAS core type %s", chosen);
    }
    if ((chosen != NULL && setenv("OPENBLAS_CORETYPE", chosen, 1) != 0) ||
        setenv("OPENBLAS_NUM_THREADS", "1", 1) != 0) {
        return ddp_err_set(err, DDP_E_NOMEM, "the environment cannot grow");
    }
    library = open_library(tried, sizeof(tried));
    if (library == NULL) {
        return ddp_err_set(err, DDP_E_NOT_FOUND,
                           "no OpenBLAS; tried %s; on Debian: apt install libopenblas0-serial",
                           tried);
    }
    status = check_buffer(err);
    if (status == DDP_OK) {
        status = adopt_library(library, core_type, err);
    }
    if (status != DDP_OK) {
        dlclose(library);
    }
    return status;
}

const char *ddp_blas_describe(void)
{
    return blas.library != NULL ? blas.description : "none";
}

const char *ddp_blas_core_type(void)
{
    return blas.core_type;
}

static size_t at_least_one(size_t value)
{
    return value > 0 ? value : 1;
}

ddp_status ddp_blas_gemm(const struct ddp_gemm *gemm)
{
    /* Packed rows: the leading dimension is the stored matrix's column count. */
    size_t lda = at_least_one(gemm->transpose_a ? gemm->m : gemm->k);
    size_t ldb = at_least_one(gemm->transpose_b ? gemm->k : gemm->n);

    if (blas.sgemm == NULL) {
        return DDP_E_STATE;
    }
    if (gemm->m > INT_MAX || gemm->n > INT_MAX || gemm->k > INT_MAX) {
        return DDP_E_INVALID;
    }
    if (gemm->m == 0 || gemm->n == 0) {
        return DDP_OK;
    }
    (void)pthread_mutex_lock(&one_at_a_time);
    blas.sgemm(ROW_MAJOR, gemm->transpose_a ? TRANSPOSE : NO_TRANSPOSE,
               gemm->transpose_b ? TRANSPOSE : NO_TRANSPOSE, (int)gemm->m, (int)gemm->n,
               (int)gemm->k, gemm->alpha, gemm->a, (int)lda, gemm->b, (int)ldb, gemm->beta, gemm->c,
               (int)gemm->n);
    (void)pthread_mutex_unlock(&one_at_a_time);
    return DDP_OK;
}
