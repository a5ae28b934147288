/* A stand-in for NCCL, for tests only. Nothing it does is a GPU result.
 *
 * Communicators: making, asking, finalizing, destroying, aborting. Follows init.cc. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "tests/standin/nccl/internal.h"

#define BUS_ID_STEP 0x1000u

int standin_pointer_check(const void *pointer, const char *op_name, const char *name)
{
    if (pointer == NULL) {
        standin_warn("%s : %s argument is NULL", op_name, name);
        return STANDIN_INVALID_ARGUMENT;
    }
    return STANDIN_SUCCESS;
}

int standin_comm_check(struct standin_comm *comm, const char *op_name, const char *name)
{
    STANDIN_CHECK(standin_pointer_check(comm, op_name, name));
    if (comm->magic != STANDIN_MAGIC) {
        standin_warn("Error: corrupted comm object detected");
        return STANDIN_INVALID_ARGUMENT;
    }
    return STANDIN_SUCCESS;
}

void standin_comm_set_async(struct standin_comm *comm, int result)
{
    atomic_store(&comm->async_result, result);
}

int standin_comm_async(struct standin_comm *comm, int *async_error)
{
    STANDIN_CHECK(standin_comm_check(comm, "ncclGetAsyncError", "comm"));
    STANDIN_CHECK(standin_pointer_check(async_error, "ncclGetAsyncError", "asyncError"));
    int result = atomic_load(&comm->async_result);
    if (result == STANDIN_SUCCESS) {
        result = atomic_load(&comm->proxy_result);
    }
    if (result == STANDIN_SUCCESS) {
        result = standin_script_error("async", comm->rank);
    }
    *async_error = result;
    if (result == STANDIN_SUCCESS) {
        standin_group_complete(comm);
    }
    return STANDIN_SUCCESS;
}

int ncclCommGetAsyncError(struct standin_comm *comm, int *async_error)
{
    standin_log_question();
    return standin_comm_async(comm, async_error);
}

int standin_comm_ensure_ready(struct standin_comm *comm)
{
    int result = STANDIN_SUCCESS;
    if (atomic_load(comm->abort_source) != 0) {
        standin_group_abort(comm);
        return STANDIN_SUCCESS;
    }
    STANDIN_CHECK(standin_comm_async(comm, &result));
    if (result == STANDIN_IN_PROGRESS) {
        standin_warn(
            "Attempt to use communicator before the previous operation returned ncclSuccess");
        result = STANDIN_INVALID_ARGUMENT;
    }
    return result;
}

int standin_device_get(void)
{
    union {
        void *object;
        int (*function)(int *);
    } get = {dlsym(RTLD_DEFAULT, "cudaGetDevice")};
    int device = 0;
    return get.object != NULL && get.function(&device) == 0 ? device : 0;
}

void standin_device_set(int device)
{
    union {
        void *object;
        int (*function)(int);
    } set = {dlsym(RTLD_DEFAULT, "cudaSetDevice")};
    if (set.object != NULL) {
        (void)set.function(device);
    }
}

static uint64_t choose_bus_id(int device)
{
    static atomic_uint_fast64_t unique_count;
    if (standin_script_has("bus_id=unique")) {
        return BUS_ID_STEP * (1000 + atomic_fetch_add(&unique_count, 1));
    }
    return BUS_ID_STEP * (1 + (uint64_t)device);
}

static int channel_count(void)
{
    const char *text = getenv("NCCL_MAX_NCHANNELS");
    long count = text == NULL ? 2 : strtol(text, NULL, 10);
    return count < 1 ? 1 : count > STANDIN_CHANNELS_MAX ? STANDIN_CHANNELS_MAX : (int)count;
}

/* config: NULL for a blocking communicator. */
int standin_comm_create(const struct standin_config *config, struct standin_comm **out)
{
    bool is_blocking = true;
    STANDIN_CHECK(standin_config_read(config, &is_blocking));
    struct standin_comm *comm = calloc(1, sizeof *comm);
    if (comm == NULL) {
        return STANDIN_SYSTEM_ERROR;
    }
    comm->magic = STANDIN_MAGIC;
    comm->number = standin_log_number();
    comm->is_blocking = is_blocking;
    comm->abort_source = &comm->abort_flag;
    comm->channel_count = channel_count();
    comm->device = standin_device_get();
    comm->bus_id = choose_bus_id(comm->device);
    comm->op_tail = &comm->op_head;
    (void)pthread_mutex_init(&comm->lock, NULL);
    standin_live_add(comm);
    *out = comm;
    return STANDIN_SUCCESS;
}

int standin_comm_size(struct standin_comm *comm, int rank_count)
{
    size_t count = (size_t)rank_count;
    comm->rank_count = rank_count;
    comm->data_fd = malloc(count * sizeof *comm->data_fd);
    comm->control_fd = malloc(count * sizeof *comm->control_fd);
    comm->is_send_connected = calloc(count, sizeof *comm->is_send_connected);
    comm->is_recv_connected = calloc(count, sizeof *comm->is_recv_connected);
    if (comm->data_fd == NULL || comm->control_fd == NULL || comm->is_send_connected == NULL ||
        comm->is_recv_connected == NULL) {
        comm->rank_count = 0;
        return STANDIN_SYSTEM_ERROR;
    }
    memset(comm->data_fd, 0xff, count * sizeof *comm->data_fd);
    memset(comm->control_fd, 0xff, count * sizeof *comm->control_fd);
    return STANDIN_SUCCESS;
}

void standin_comm_free(struct standin_comm *comm)
{
    standin_worker_stop(comm);
    standin_live_remove(comm);
    for (int i = 0; i < comm->rank_count; i++) {
        standin_close(&comm->data_fd[i]);
        standin_close(&comm->control_fd[i]);
    }
    while (comm->stash != NULL) {
        struct standin_stash *next = comm->stash->next;
        free(comm->stash);
        comm->stash = next;
    }
    standin_ops_free(comm->op_head);
    free(comm->data_fd);
    free(comm->control_fd);
    free(comm->is_send_connected);
    free(comm->is_recv_connected);
    (void)pthread_mutex_destroy(&comm->lock);
    memset(comm, 0, sizeof *comm);
    free(comm);
}

void standin_comm_describe(struct standin_comm *comm, uint16_t port, struct standin_peer *out)
{
    memset(out, 0, sizeof *out);
    out->host_hash = standin_host_hash() + comm->hash;
    out->bus_id = comm->bus_id;
    out->rank = comm->rank;
    out->rank_count = comm->rank_count;
    out->version = standin_script_version();
    out->port = port;
}

int standin_comm_agree(struct standin_comm *comm, const struct standin_peer *peers)
{
    const struct standin_peer *self = &peers[comm->rank];
    for (int i = 0; i < comm->rank_count; i++) {
        if (peers[i].version != self->version) {
            standin_warn("Mismatched NCCL version detected : rank %d version %d rank %d version %d",
                         i, peers[i].version, comm->rank, self->version);
            return STANDIN_INVALID_USAGE;
        }
        if (i != comm->rank && peers[i].host_hash == self->host_hash &&
            peers[i].bus_id == self->bus_id) {
            standin_warn("Duplicate GPU detected : rank %d and rank %d both on CUDA device %lx",
                         comm->rank, i, (unsigned long)self->bus_id);
            return STANDIN_INVALID_USAGE;
        }
    }
    struct standin_frame frame;
    memset(&frame, 0, sizeof frame);
    frame.tag = STANDIN_TAG_BARRIER;
    for (int i = 0; i < comm->rank_count; i++) {
        if (i != comm->rank) {
            STANDIN_CHECK(standin_control_send(comm, i, &frame));
        }
    }
    for (int i = 0; i < comm->rank_count; i++) {
        if (i != comm->rank) {
            STANDIN_CHECK(standin_control_recv(comm, i, STANDIN_TAG_BARRIER, &frame));
        }
    }
    return STANDIN_SUCCESS;
}

static int init_run(struct standin_job *job)
{
    struct standin_comm *comm = job->comm;
    struct standin_wait wait = {comm->abort_source, NULL};
    if (standin_script_hold("init", 0, job->rank, &wait) && standin_wait_is_over(&wait)) {
        return STANDIN_INTERNAL_ERROR;
    }
    STANDIN_CHECK(standin_script_error("init", job->rank));
    int listen_fd = -1;
    uint16_t port = 0;
    comm->hash = standin_hash(2, job->id.internal, sizeof job->id.internal);
    STANDIN_CHECK(standin_comm_size(comm, job->rank_count));
    struct standin_peer *peers = calloc((size_t)job->rank_count, sizeof *peers);
    int result = peers == NULL ? STANDIN_SYSTEM_ERROR : standin_listen(&listen_fd, &port);
    if (result == STANDIN_SUCCESS) {
        result = standin_bootstrap_root(comm, &job->id, port, peers);
    }
    if (result == STANDIN_SUCCESS) {
        result = standin_bootstrap_mesh(comm, listen_fd, peers);
    }
    if (result == STANDIN_SUCCESS) {
        result = standin_comm_agree(comm, peers);
    }
    standin_close(&listen_fd);
    free(peers);
    return result;
}

/* ncclCommInitRankDev */
static int init_rank(struct standin_comm **slot, int rank_count, const struct standin_id *id,
                     int rank, const struct standin_config *config)
{
    STANDIN_CHECK(standin_pointer_check(slot, "CommInitRank", "newcomm"));
    *slot = NULL;
    if (rank_count < 1 || rank < 0 || rank >= rank_count) {
        standin_warn("Invalid rank requested : %d/%d", rank, rank_count);
        return STANDIN_INVALID_ARGUMENT;
    }
    STANDIN_CHECK(standin_script_error("init_call", rank));
    struct standin_comm *comm = NULL;
    STANDIN_CHECK(standin_comm_create(config, &comm));
    struct standin_job *job = calloc(1, sizeof *job);
    if (job == NULL) {
        standin_comm_free(comm);
        return STANDIN_SYSTEM_ERROR;
    }
    *slot = comm;
    comm->rank = rank;
    standin_log(comm, "ncclCommInitRankConfig %d %d", rank, rank_count);
    job->run = init_run;
    job->comm = comm;
    job->id = *id;
    job->rank_count = rank_count;
    job->rank = rank;
    int result = standin_group_add_job(job);
    if (result != STANDIN_SUCCESS) {
        standin_comm_free(comm);
        *slot = NULL;
    }
    return result;
}

int ncclCommInitRank(struct standin_comm **comm, int rank_count, struct standin_id id, int rank)
{
    return standin_group_error(init_rank(comm, rank_count, &id, rank, NULL));
}

int ncclCommInitRankConfig(struct standin_comm **comm, int rank_count, struct standin_id id,
                           int rank, struct standin_config *config)
{
    STANDIN_CHECK(standin_group_start());
    int result = standin_group_error(init_rank(comm, rank_count, &id, rank, config));
    if (result == STANDIN_SUCCESS) {
        result = standin_group_error(standin_script_error("init_handle", rank));
    }
    if (result != STANDIN_SUCCESS && comm != NULL && *comm != NULL && !(*comm)->is_blocking) {
        standin_comm_set_async(*comm, result);
    }
    STANDIN_CHECK(standin_group_end());
    if (comm != NULL && *comm != NULL && !(*comm)->is_blocking) {
        (void)standin_comm_async(*comm, &result);
    }
    return result;
}

static int finalize_run(struct standin_job *job)
{
    struct standin_wait wait = {job->comm->abort_source, NULL};
    (void)standin_script_hold("finalize", 0, job->comm->rank, &wait);
    standin_work_wait(job->comm);
    return STANDIN_SUCCESS;
}

int ncclCommFinalize(struct standin_comm *comm)
{
    int result = STANDIN_SUCCESS;
    STANDIN_CHECK(standin_group_start());
    if (comm != NULL) {
        standin_log(comm, "ncclCommFinalize");
        result = standin_comm_ensure_ready(comm);
        if (result == STANDIN_SUCCESS) {
            result = standin_script_error("finalize", comm->rank);
        }
        if (result == STANDIN_SUCCESS && atomic_exchange(&comm->is_finalize_called, true)) {
            result = STANDIN_INVALID_ARGUMENT;
        }
        struct standin_job *job = result == STANDIN_SUCCESS ? calloc(1, sizeof *job) : NULL;
        if (job != NULL) {
            job->run = finalize_run;
            job->comm = comm;
            result = standin_group_add_job(job);
        } else if (result == STANDIN_SUCCESS) {
            result = STANDIN_SYSTEM_ERROR;
        }
        if (result != STANDIN_SUCCESS && !comm->is_blocking) {
            standin_comm_set_async(comm, result);
        }
    }
    (void)standin_group_error(result);
    STANDIN_CHECK(standin_group_end());
    if (comm != NULL && !comm->is_blocking) {
        STANDIN_CHECK(standin_comm_async(comm, &result));
    }
    return result;
}

/* Frees memory, which waits for the device: for every communicator's work if the script says so. */
static int reclaim_run(struct standin_job *job)
{
    standin_work_wait(job->comm);
    const char *strict = getenv("DDP_NCCL_STANDIN_STRICT_ABORT");
    if (standin_script_has("strict_abort=1") || (strict != NULL && strcmp(strict, "1") == 0)) {
        standin_work_wait_all();
    }
    standin_comm_free(job->comm);
    return STANDIN_SUCCESS;
}

static int reclaim(struct standin_comm *comm)
{
    struct standin_job *job = calloc(1, sizeof *job);
    int result = STANDIN_SYSTEM_ERROR;
    if (job != NULL) {
        job->run = reclaim_run;
        job->comm = comm;
        result = standin_group_add_job(job);
    }
    (void)standin_group_error(result);
    STANDIN_CHECK(standin_group_end());
    return result;
}

/* An error before the job leaves the group open, as in init.cc: NCCLCHECK returns from its midst.
 */
int ncclCommDestroy(struct standin_comm *comm)
{
    if (comm == NULL) {
        return STANDIN_SUCCESS;
    }
    standin_log(comm, "ncclCommDestroy");
    STANDIN_CHECK(standin_group_start());
    atomic_store(&comm->is_destroying, true);
    STANDIN_CHECK(standin_comm_ensure_ready(comm));
    return reclaim(comm);
}

int ncclCommAbort(struct standin_comm *comm)
{
    if (comm == NULL) {
        return STANDIN_SUCCESS;
    }
    standin_log(comm, "ncclCommAbort");
    (void)standin_script_hold("abort", 0, comm->rank, NULL);
    if (atomic_load(&comm->is_revoked)) {
        (void)standin_script_hold("abort_after_revoke", 0, comm->rank, NULL);
    }
    STANDIN_CHECK(standin_group_start());
    atomic_store(&comm->child_abort_flag, 1);
    atomic_store(&comm->abort_flag, 1);
    atomic_store(&comm->is_destroying, true);
    (void)standin_comm_ensure_ready(comm);
    return reclaim(comm);
}

static int ask_ready(struct standin_comm *comm, const char *name, const int *out,
                     const char *out_name)
{
    STANDIN_CHECK(standin_comm_check(comm, name, "comm"));
    STANDIN_CHECK(standin_pointer_check(out, name, out_name));
    return standin_comm_ensure_ready(comm);
}

int ncclCommCount(struct standin_comm *comm, int *count)
{
    STANDIN_CHECK(ask_ready(comm, "CommCount", count, "count"));
    *count = comm->rank_count;
    return STANDIN_SUCCESS;
}

int ncclCommCuDevice(struct standin_comm *comm, int *device)
{
    STANDIN_CHECK(ask_ready(comm, "CommCuDevice", device, "devid"));
    *device = comm->device;
    return STANDIN_SUCCESS;
}

int ncclCommUserRank(struct standin_comm *comm, int *rank)
{
    STANDIN_CHECK(ask_ready(comm, "CommUserRank", rank, "rank"));
    *rank = comm->rank;
    return STANDIN_SUCCESS;
}
