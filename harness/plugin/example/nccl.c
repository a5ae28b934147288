/* The all-reduce of any library that exports NCCL's functions, as a plug-in: the library's path is
 * in DDPROVE_NCCL (else libnccl.so.2), that of CUDA's runtime in DDPROVE_CUDART (else
 * libcudart.so). Each rank takes the card of its number; numbers go to the card and back around
 * each call.
 *
 *   cc -shared -fPIC -I HEADERS -o nccl.so nccl.c
 *   DDPROVE_NCCL=./libmine.so ddprove coll check ./nccl.so */
#include <ddprove_coll.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* Of NCCL's and CUDA's interfaces, which say so in their headers. */
enum { NCCL_SUCCESS = 0, NCCL_IN_PROGRESS = 7, CUDA_SUCCESS = 0, CUDA_NOT_READY = 600 };
enum { TO_DEVICE = 1, TO_HOST = 2, NON_BLOCKING = 1, NO_TIMING = 2 };
struct nccl_id {
    char bytes[128];
};

static struct {
    int is_loaded;
    int (*get_id)(struct nccl_id *out);
    int (*init)(void **out, int size, struct nccl_id id, int rank);
    int (*all_reduce)(const void *input, void *output, size_t count, int dtype, int op, void *comm,
                      void *stream);
    int (*error)(void *comm, int *out);
    int (*destroy)(void *comm);
    int (*abort)(void *comm);
    int (*count_devices)(int *out);
    int (*set_device)(int device);
    int (*allocate)(void **out, size_t bytes);
    int (*release)(void *data);
    int (*allocate_host)(void **out, size_t bytes, unsigned flags);
    int (*release_host)(void *data);
    int (*create_stream)(void **out, unsigned flags);
    int (*destroy_stream)(void *stream);
    int (*create_event)(void **out, unsigned flags);
    int (*destroy_event)(void *event);
    int (*record)(void *event, void *stream);
    int (*query)(void *event);
    int (*copy)(void *dst, const void *src, size_t bytes, int kind, void *stream);
} api;

struct state {
    struct ddprove_coll_host host;
    void *comm, *stream, *done;
    int device;
    void *data;    /* on the card */
    void *staging; /* a copy to memory that is not pinned would block until the sum is there */
    size_t room_bytes;
    struct ddprove_coll_call call;
    size_t bytes; /* of its data */
    volatile int is_aborted;
};

static int find(void *library, const char *name, void *out)
{
    *(void **)out = dlsym(library, name);
    return *(void **)out != NULL;
}

static void *open_library(const char *variable, const char *otherwise)
{
    const char *path = getenv(variable);

    return dlopen(path != NULL && path[0] != '\0' ? path : otherwise, RTLD_NOW | RTLD_GLOBAL);
}

static int load(void)
{
    void *cuda = open_library("DDPROVE_CUDART", "libcudart.so");
    void *nccl = cuda != NULL ? open_library("DDPROVE_NCCL", "libnccl.so.2") : NULL;

    if (nccl == NULL || api.is_loaded) {
        return nccl != NULL;
    }
    api.is_loaded =
        find(nccl, "ncclGetUniqueId", &api.get_id) && find(nccl, "ncclCommInitRank", &api.init) &&
        find(nccl, "ncclAllReduce", &api.all_reduce) &&
        find(nccl, "ncclCommGetAsyncError", &api.error) &&
        find(nccl, "ncclCommDestroy", &api.destroy) && find(nccl, "ncclCommAbort", &api.abort) &&
        find(cuda, "cudaGetDeviceCount", &api.count_devices) &&
        find(cuda, "cudaSetDevice", &api.set_device) && find(cuda, "cudaMalloc", &api.allocate) &&
        find(cuda, "cudaFree", &api.release) && find(cuda, "cudaHostAlloc", &api.allocate_host) &&
        find(cuda, "cudaFreeHost", &api.release_host) &&
        find(cuda, "cudaStreamCreateWithFlags", &api.create_stream) &&
        find(cuda, "cudaStreamDestroy", &api.destroy_stream) &&
        find(cuda, "cudaEventCreateWithFlags", &api.create_event) &&
        find(cuda, "cudaEventDestroy", &api.destroy_event) &&
        find(cuda, "cudaEventRecord", &api.record) && find(cuda, "cudaEventQuery", &api.query) &&
        find(cuda, "cudaMemcpyAsync", &api.copy);
    return api.is_loaded;
}

/* Rank 0 makes the number that all of them meet by. */
static int share_id(const struct ddprove_coll_host *host, struct nccl_id *id)
{
    int result = DDPROVE_COLL_OK;

    if (host->rank == 0) {
        result = api.get_id(id) == NCCL_SUCCESS ? DDPROVE_COLL_OK : DDPROVE_COLL_FAILED;
        for (uint32_t rank = 1; rank < host->size && result == DDPROVE_COLL_OK; rank++) {
            result = ddprove_coll_exchange(host, rank, id, sizeof *id, 0, NULL, 0);
        }
        return result;
    }
    return ddprove_coll_exchange(host, 0, NULL, 0, 0, id, sizeof *id);
}

static void release_room(struct state *state)
{
    if (state->data != NULL) {
        (void)api.release(state->data);
    }
    if (state->staging != NULL) {
        (void)api.release_host(state->staging);
    }
    state->data = NULL;
    state->staging = NULL;
    state->room_bytes = 0;
}

static void close_nccl(void *self)
{
    struct state *state = self;

    (void)api.set_device(state->device);
    if (state->comm != NULL) {
        (void)api.destroy(state->comm);
    }
    release_room(state);
    if (state->done != NULL) {
        (void)api.destroy_event(state->done);
    }
    if (state->stream != NULL) {
        (void)api.destroy_stream(state->stream);
    }
    free(state);
}

static int open_nccl(const struct ddprove_coll_host *host, void **out_self)
{
    struct state *state = calloc(1, sizeof *state);
    struct nccl_id id = {{0}};
    int devices = 0;

    if (state == NULL || !load() || api.count_devices(&devices) != CUDA_SUCCESS || devices < 1) {
        free(state);
        return DDPROVE_COLL_FAILED;
    }
    state->host = *host;
    state->device = (int)(host->rank % (uint32_t)devices);
    if (api.set_device(state->device) != CUDA_SUCCESS ||
        api.create_stream(&state->stream, NON_BLOCKING) != CUDA_SUCCESS ||
        api.create_event(&state->done, NO_TIMING) != CUDA_SUCCESS ||
        share_id(host, &id) != DDPROVE_COLL_OK ||
        api.init(&state->comm, (int)host->size, id, (int)host->rank) != NCCL_SUCCESS) {
        close_nccl(state);
        return DDPROVE_COLL_FAILED;
    }
    *out_self = state;
    return DDPROVE_COLL_OK;
}

/* NCCL's number of a type, and its size; -1: it has none. */
static int type_of(uint32_t dtype, size_t *out_bytes)
{
    static const struct {
        int number;
        size_t bytes;
    } types[] = {
        [DDPROVE_COLL_F32] = {7, 4}, [DDPROVE_COLL_F16] = {6, 2}, [DDPROVE_COLL_BF16] = {9, 2},
        [DDPROVE_COLL_F64] = {8, 8}, [DDPROVE_COLL_I32] = {2, 4}, [DDPROVE_COLL_I64] = {4, 8},
        [DDPROVE_COLL_U8] = {1, 1}};

    if (dtype < DDPROVE_COLL_F32 || dtype > DDPROVE_COLL_U8) {
        return -1;
    }
    *out_bytes = types[dtype].bytes;
    return types[dtype].number;
}

static int op_of(uint32_t op)
{
    static const int ops[] = {[DDPROVE_COLL_SUM] = 0,
                              [DDPROVE_COLL_MAX] = 2,
                              [DDPROVE_COLL_MIN] = 3,
                              [DDPROVE_COLL_PROD] = 1};

    return op <= DDPROVE_COLL_PROD ? ops[op] : -1;
}

static int make_room(struct state *state, size_t bytes)
{
    if (bytes <= state->room_bytes) {
        return 1;
    }
    release_room(state);
    if (api.allocate(&state->data, bytes) != CUDA_SUCCESS ||
        api.allocate_host(&state->staging, bytes, 0) != CUDA_SUCCESS) {
        return 0;
    }
    state->room_bytes = bytes;
    return 1;
}

static int copy(struct state *state, void *dst, const void *src, int kind)
{
    return state->bytes == 0 ||
           api.copy(dst, src, state->bytes, kind, state->stream) == CUDA_SUCCESS;
}

/* Only this thread may use the communicator. It ends what is on the card, too. */
static int end(struct state *state)
{
    if (state->comm != NULL) {
        (void)api.abort(state->comm);
        state->comm = NULL;
    }
    return DDPROVE_COLL_ABORTED;
}

static int post(void *self, const struct ddprove_coll_call *call)
{
    struct state *state = self;
    size_t elem_bytes = 0;
    int dtype = type_of(call->dtype, &elem_bytes);
    int op = op_of(call->op);

    if (dtype < 0 || op < 0) {
        return DDPROVE_COLL_UNSUPPORTED;
    }
    if (state->is_aborted) {
        return end(state);
    }
    state->call = *call;
    state->bytes = (size_t)call->count * elem_bytes;
    if (api.set_device(state->device) != CUDA_SUCCESS || !make_room(state, state->bytes + 1)) {
        return DDPROVE_COLL_FAILED;
    }
    if (state->bytes > 0) {
        memcpy(state->staging, call->input, state->bytes);
    }
    if (!copy(state, state->data, state->staging, TO_DEVICE) ||
        api.all_reduce(state->data, state->data, (size_t)call->count, dtype, op, state->comm,
                       state->stream) != NCCL_SUCCESS ||
        !copy(state, state->staging, state->data, TO_HOST) ||
        api.record(state->done, state->stream) != CUDA_SUCCESS) {
        return DDPROVE_COLL_FAILED;
    }
    return DDPROVE_COLL_OK;
}

static int poll_nccl(void *self)
{
    struct state *state = self;
    int error = NCCL_SUCCESS;
    int queried;

    if (state->is_aborted) {
        return end(state);
    }
    queried = api.query(state->done);
    if (queried == CUDA_SUCCESS) {
        if (state->bytes > 0) {
            memcpy(state->call.output, state->staging, state->bytes);
        }
        return DDPROVE_COLL_OK;
    }
    if (queried != CUDA_NOT_READY || api.error(state->comm, &error) != NCCL_SUCCESS ||
        (error != NCCL_SUCCESS && error != NCCL_IN_PROGRESS)) {
        (void)end(state);
        return DDPROVE_COLL_FAILED;
    }
    state->host.wait(state->host.context);
    return DDPROVE_COLL_AGAIN;
}

/* From any thread: the next poll sees it. */
static void abort_nccl(void *self)
{
    ((struct state *)self)->is_aborted = 1;
}

const struct ddprove_coll_opaque ddprove_coll_opaque_plugin = {
    .version = DDPROVE_COLL_OPAQUE_VERSION,
    .struct_bytes = sizeof(struct ddprove_coll_opaque),
    .name = "nccl",
    .kind = DDPROVE_COLL_ALL_REDUCE,
    .claims = DDPROVE_COLL_SAME_BITS | DDPROVE_COLL_TELLS_DEATH,
    .open = open_nccl,
    .close = close_nccl,
    .post = post,
    .poll = poll_nccl,
    .abort = abort_nccl,
};
