/* Opening NCCL, and translating its types and results. */
#include <dlfcn.h>
#include <string.h>

#include "ddpcore/nccl/abi.h"

/* Before 2.19, an abort from another thread freed a communicator while a call in progress still
 * used it, and errors of the proxy thread were not reported. */
#define OLDEST_VERSION 21900u
#define DEFAULT_NAME   "libnccl.so.2"

/* dlsym returns functions as data pointers; POSIX guarantees that the conversion works. */
static bool find(void *handle, const char *symbol, void *out_function)
{
    void *address = dlsym(handle, symbol);

    memcpy(out_function, &address, sizeof(address));
    return address != NULL;
}

static ddp_status find_all(struct ddp_nccl_library *library, const char *name, struct ddp_err *err)
{
    int version = 0;

    /* The version first: if functions are missing because the library is old, say that. */
    if (!find(library->handle, "ncclGetVersion", &library->calls.get_version) ||
        library->calls.get_version(&version) != DDP_NCCL_SUCCESS) {
        return ddp_err_set(err, DDP_E_NOT_FOUND, "%s lacks ncclGetVersion: it is not NCCL", name);
    }
    library->version = (uint32_t)version;
    if (library->version < OLDEST_VERSION) {
        return ddp_err_set(
            err, DDP_E_UNSUPPORTED,
            "%s is NCCL %u.%u.%u; non-blocking communicators that any thread can abort "
            "need 2.19 or newer",
            name, library->version / 10000, library->version / 100 % 100, library->version % 100);
    }
#define X(field, symbol, result, parameters)                                                  \
    if (!find(library->handle, #symbol, &library->calls.field)) {                             \
        return ddp_err_set(err, DDP_E_NOT_FOUND, "%s lacks %s: it is not a whole NCCL", name, \
                           #symbol);                                                          \
    }
    DDP_NCCL_CALL_TABLE(X)
#undef X
#define X(field, symbol, result, parameters) \
    (void)find(library->handle, #symbol, &library->calls.field);
    DDP_NCCL_OPTIONAL_TABLE(X)
#undef X
    return DDP_OK;
}

ddp_status ddp_nccl_library_open(struct ddp_mem *mem, const char *path,
                                 struct ddp_nccl_library **out, struct ddp_err *err)
{
    const char *name = path != NULL ? path : DEFAULT_NAME;
    struct ddp_nccl_library *library = ddp_mem_array(mem, 1, sizeof(*library));
    ddp_status status;

    if (library == NULL) {
        return ddp_err_set(err, DDP_E_NOMEM, "no memory for NCCL's functions");
    }
    library->mem = mem;
    /* Never unmapped: NCCL's own threads, or an abort that hung, may still run its code. */
    library->handle = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library->handle == NULL) {
        status = ddp_err_set(err, DDP_E_NOT_FOUND, "NCCL cannot be loaded: %s", dlerror());
        goto out;
    }
    status = find_all(library, name, err);
    if (status == DDP_OK) {
        *out = library;
        return DDP_OK;
    }
out:
    ddp_nccl_library_close(library);
    return status;
}

void ddp_nccl_library_close(struct ddp_nccl_library *library)
{
    if (library == NULL) {
        return;
    }
    if (library->handle != NULL) {
        (void)dlclose(library->handle);
    }
    ddp_mem_free(library->mem, library);
}

uint32_t ddp_nccl_library_version(const struct ddp_nccl_library *library)
{
    return library->version;
}

ddp_status ddp_nccl_unique_id(const struct ddp_nccl_library *library, uint8_t *id,
                              struct ddp_err *err)
{
    struct ddp_nccl_id made;
    int result = library->calls.get_unique_id(&made);

    if (result != DDP_NCCL_SUCCESS) {
        return ddp_nccl_err(library, result, "ncclGetUniqueId", err);
    }
    memcpy(id, made.internal, DDP_NCCL_ID_BYTES);
    return DDP_OK;
}

ddp_status ddp_nccl_status(int result)
{
    switch (result) {
    case DDP_NCCL_SUCCESS:
        return DDP_OK;
    case DDP_NCCL_IN_PROGRESS:
        return DDP_PENDING;
    case DDP_NCCL_REMOTE_ERROR:
        return DDP_E_PEER_DIED;
    case DDP_NCCL_INVALID_USAGE:
        return DDP_E_STATE;
    case DDP_NCCL_INVALID_ARGUMENT:
        return DDP_E_INVALID;
    case DDP_NCCL_CUDA_ERROR:
        return DDP_E_DEVICE;
    default:
        return DDP_E_SYSTEM;
    }
}

ddp_status ddp_nccl_err(const struct ddp_nccl_library *library, int result, const char *what,
                        struct ddp_err *err)
{
    const char *name = library->calls.get_error_string(result);
    /* No version uses the argument: there is one text per process. */
    const char *last = library->calls.get_last_error(NULL);
    bool has_last = last != NULL && last[0] != '\0';

    return ddp_err_set(err, ddp_nccl_status(result), "%s: %s%s%s%s", what,
                       name != NULL ? name : "unknown result", has_last ? " (" : "",
                       has_last ? last : "", has_last ? ")" : "");
}

int ddp_nccl_dtype_of(enum ddp_dtype dtype)
{
    static const int of[DDP_DTYPE_COUNT] = {
        [DDP_DTYPE_F32] = DDP_NCCL_F32,   [DDP_DTYPE_F16] = DDP_NCCL_F16,
        [DDP_DTYPE_BF16] = DDP_NCCL_BF16, [DDP_DTYPE_F64] = DDP_NCCL_F64,
        [DDP_DTYPE_I32] = DDP_NCCL_I32,   [DDP_DTYPE_I64] = DDP_NCCL_I64,
        [DDP_DTYPE_U8] = DDP_NCCL_U8};

    DDP_ASSERT((unsigned)dtype < DDP_DTYPE_COUNT);
    return of[dtype];
}

int ddp_nccl_redop_of(enum ddp_redop redop)
{
    static const int of[DDP_REDOP_COUNT] = {[DDP_REDOP_SUM] = DDP_NCCL_SUM,
                                            [DDP_REDOP_MAX] = DDP_NCCL_MAX,
                                            [DDP_REDOP_MIN] = DDP_NCCL_MIN,
                                            [DDP_REDOP_PROD] = DDP_NCCL_PROD};

    DDP_ASSERT((unsigned)redop < DDP_REDOP_COUNT);
    return of[redop];
}
