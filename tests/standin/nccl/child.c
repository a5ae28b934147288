/* A stand-in for NCCL, for tests only. Nothing it does is a GPU result.
 *
 * Revoking, and communicators made from others. Not part of the old library. Follows init.cc and
 * bootstrapSplit of bootstrap.cc. */
#include <stdlib.h>
#include <string.h>

#include "tests/standin/nccl/internal.h"

static void set_abort_flags(struct standin_comm *comm, int value)
{
    atomic_store(&comm->child_abort_flag, value);
    atomic_store(&comm->abort_flag, value);
}

static int revoke_run(struct standin_job *job)
{
    struct standin_wait wait = {&job->comm->abort_flag, NULL};
    standin_work_wait(job->comm);
    set_abort_flags(job->comm, 0);
    (void)standin_script_hold("revoke", 0, job->comm->rank, &wait);
    standin_comm_set_async(job->comm, STANDIN_SUCCESS);
    return STANDIN_SUCCESS;
}

/* Nothing of the group is made. */
int ncclGroupSimulateEnd(void *info)
{
    (void)info;
    (void)standin_group_error(STANDIN_INTERNAL_ERROR);
    return standin_group_end() == STANDIN_INVALID_USAGE ? STANDIN_INVALID_USAGE : STANDIN_SUCCESS;
}

int ncclCommRevoke(struct standin_comm *comm, int flags)
{
    if (comm == NULL) {
        return STANDIN_SUCCESS;
    }
    standin_log(comm, "ncclCommRevoke");
    if (standin_script_hold("revoke_call", 0, comm->rank, NULL)) {
        return STANDIN_SYSTEM_ERROR;
    }
    if (flags != 0 || atomic_load(&comm->is_destroying) || atomic_load(&comm->is_finalize_called) ||
        atomic_load(&comm->is_revoked)) {
        return STANDIN_INVALID_ARGUMENT;
    }
    STANDIN_CHECK(standin_group_start());
    set_abort_flags(comm, 1);
    atomic_store(&comm->is_revoked, true);
    (void)standin_comm_ensure_ready(comm);
    atomic_store(&comm->is_finalize_called, true);
    struct standin_job *job = calloc(1, sizeof *job);
    int result = STANDIN_SYSTEM_ERROR;
    if (job != NULL) {
        job->run = revoke_run;
        job->comm = comm;
        result = standin_group_add_job(job);
    }
    if (result != STANDIN_SUCCESS && !comm->is_blocking) {
        standin_comm_set_async(comm, result);
    }
    (void)standin_group_error(result);
    STANDIN_CHECK(standin_group_end());
    if (!comm->is_blocking) {
        STANDIN_CHECK(standin_comm_async(comm, &result));
    }
    return result;
}

/* Who takes part: ranks of the parent in the child's order. */
struct members {
    int *rank;
    int count, self;
};

static int compare_ints(const void *a, const void *b)
{
    int left = *(const int *)a, right = *(const int *)b;
    return (left > right) - (left < right);
}

static void members_survivors(const struct standin_job *job, struct members *out)
{
    for (int i = 0; i < job->comm->rank_count; i++) {
        if (bsearch(&i, job->exclude, (size_t)job->exclude_count, sizeof i, compare_ints) == NULL) {
            out->self = i == job->comm->rank ? out->count : out->self;
            out->rank[out->count++] = i;
        }
    }
}

/* Everybody tells everybody its color and key. */
static int members_split(const struct standin_job *job, struct members *out)
{
    struct standin_comm *parent = job->comm;
    struct standin_frame frame;
    int *keys = calloc((size_t)parent->rank_count, sizeof *keys);
    int result = keys == NULL ? STANDIN_SYSTEM_ERROR : STANDIN_SUCCESS;
    memset(&frame, 0, sizeof frame);
    frame.tag = STANDIN_TAG_SPLIT;
    frame.color = job->color;
    frame.key = job->key;
    for (int i = 0; i < parent->rank_count && result == STANDIN_SUCCESS; i++) {
        result = i == parent->rank ? result : standin_control_send(parent, i, &frame);
    }
    for (int i = 0; i < parent->rank_count && result == STANDIN_SUCCESS; i++) {
        frame.color = job->color;
        frame.key = job->key;
        if (i != parent->rank) {
            result = standin_control_recv(parent, i, STANDIN_TAG_SPLIT, &frame);
        }
        if (result != STANDIN_SUCCESS || frame.color != job->color) {
            continue;
        }
        int place = out->count++;
        while (place > 0 && keys[place - 1] > frame.key) {
            keys[place] = keys[place - 1];
            out->rank[place] = out->rank[place - 1];
            place--;
        }
        keys[place] = frame.key;
        out->rank[place] = i;
    }
    for (int i = 0; i < out->count; i++) {
        out->self = out->rank[i] == parent->rank ? i : out->self;
    }
    free(keys);
    return result;
}

/* Addresses travel over the parent's control sockets. */
static int exchange(struct standin_comm *parent, struct standin_comm *child,
                    const struct members *members, uint16_t port, struct standin_peer *peers)
{
    struct standin_frame frame;
    memset(&frame, 0, sizeof frame);
    frame.tag = STANDIN_TAG_CHILD;
    standin_comm_describe(child, port, &frame.peer);
    peers[members->self] = frame.peer;
    for (int i = 0; i < members->count; i++) {
        if (i != members->self) {
            STANDIN_CHECK(standin_control_send(parent, members->rank[i], &frame));
        }
    }
    for (int i = 0; i < members->count; i++) {
        if (i != members->self) {
            STANDIN_CHECK(
                standin_control_recv(parent, members->rank[i], STANDIN_TAG_CHILD, &frame));
            peers[i] = frame.peer;
        }
    }
    return STANDIN_SUCCESS;
}

static int child_connect(struct standin_job *job, const struct members *members)
{
    struct standin_comm *child = job->child, *parent = job->comm;
    uint64_t inputs[3] = {parent->hash, job->exclude == NULL ? parent->child_count : 0,
                          (uint64_t)job->color};
    int listen_fd = -1;
    uint16_t port = 0;
    child->rank = members->self;
    child->hash = standin_hash(3, inputs, sizeof inputs);
    STANDIN_CHECK(standin_comm_size(child, members->count));
    struct standin_peer *peers = calloc((size_t)members->count, sizeof *peers);
    int result = peers == NULL ? STANDIN_SYSTEM_ERROR : standin_listen(&listen_fd, &port);
    if (result == STANDIN_SUCCESS) {
        result = exchange(parent, child, members, port, peers);
    }
    if (result == STANDIN_SUCCESS) {
        result = standin_bootstrap_mesh(child, listen_fd, peers);
    }
    if (result == STANDIN_SUCCESS) {
        result = standin_comm_agree(child, peers);
    }
    standin_close(&listen_fd);
    free(peers);
    return result;
}

/* The child's handle reaches the caller only now, also if it failed: it has to be aborted then. */
static int child_run(struct standin_job *job)
{
    struct members members = {calloc((size_t)job->comm->rank_count, sizeof(int)), 0, 0};
    int result = members.rank == NULL ? STANDIN_SYSTEM_ERROR : STANDIN_SUCCESS;
    if (result == STANDIN_SUCCESS && job->exclude != NULL) {
        members_survivors(job, &members);
    } else if (result == STANDIN_SUCCESS) {
        result = members_split(job, &members);
    }
    if (result == STANDIN_SUCCESS && job->child != NULL) {
        result = child_connect(job, &members);
    }
    if (result == STANDIN_SUCCESS) {
        result = standin_script_error("child", job->comm->rank);
    }
    if (job->child != NULL) {
        job->child->abort_source = &job->child->abort_flag;
    }
    __atomic_store_n(job->slot, job->child, __ATOMIC_RELEASE);
    free(members.rank);
    return result;
}

static int check_exclude(const struct standin_comm *comm, int *exclude, int count)
{
    STANDIN_CHECK(standin_pointer_check(exclude, "ncclCommShrink", "excludeRanksList"));
    if (count <= 0) {
        return STANDIN_INVALID_ARGUMENT;
    }
    qsort(exclude, (size_t)count, sizeof *exclude, compare_ints);
    if (bsearch(&comm->rank, exclude, (size_t)count, sizeof *exclude, compare_ints) != NULL) {
        return STANDIN_INVALID_ARGUMENT;
    }
    return STANDIN_SUCCESS;
}

static int parent_ready(struct standin_comm *comm, bool is_shrink)
{
    int result = standin_comm_ensure_ready(comm);
    bool is_proxy_error =
        result != STANDIN_SUCCESS && atomic_load(&comm->async_result) == STANDIN_SUCCESS;
    if (is_shrink && is_proxy_error && standin_script_has("shrink_after_error=ok")) {
        standin_group_complete(comm);
        return STANDIN_SUCCESS;
    }
    return result;
}

static int child_create(struct standin_comm *parent, const struct standin_config *config,
                        struct standin_comm **out)
{
    STANDIN_CHECK(standin_comm_create(config, out));
    if (config == NULL) {
        (*out)->is_blocking = parent->is_blocking;
    }
    (*out)->abort_source = &parent->child_abort_flag;
    (*out)->device = parent->device;
    (*out)->bus_id = parent->bus_id;
    return STANDIN_SUCCESS;
}

/* ncclCommInitChildComm. exclude: NULL to split. */
static int child_init(struct standin_comm *comm, struct standin_job job, int *exclude,
                      const struct standin_config *config, const char *name, bool is_shrink)
{
    STANDIN_CHECK(standin_comm_check(comm, name, "comm"));
    STANDIN_CHECK(standin_pointer_check(job.slot, name, "newcomm"));
    if (is_shrink) {
        STANDIN_CHECK(check_exclude(comm, exclude, job.exclude_count));
    }
    STANDIN_CHECK(parent_ready(comm, is_shrink));
    *job.slot = NULL;
    if (is_shrink || job.color != STANDIN_NO_COLOR) {
        STANDIN_CHECK(child_create(comm, config, &job.child));
    }
    struct standin_job *copy = malloc(sizeof *copy);
    if (is_shrink && copy != NULL) {
        job.exclude = calloc((size_t)job.exclude_count, sizeof *exclude);
        if (job.exclude != NULL) {
            memcpy(job.exclude, exclude, (size_t)job.exclude_count * sizeof *exclude);
        }
    }
    if (copy == NULL || (is_shrink && job.exclude == NULL)) {
        if (job.child != NULL) {
            standin_comm_free(job.child);
        }
        free(copy);
        return STANDIN_SYSTEM_ERROR;
    }
    comm->child_count += is_shrink ? 0 : 1;
    job.run = child_run;
    job.comm = comm;
    *copy = job;
    int result = standin_group_add_job(copy);
    if (result != STANDIN_SUCCESS && job.child != NULL) {
        standin_comm_free(job.child);
    }
    return result;
}

int ncclCommShrink(struct standin_comm *comm, int *exclude, int exclude_count,
                   struct standin_comm **child, struct standin_config *config, int flags)
{
    struct standin_job job;
    memset(&job, 0, sizeof job);
    job.slot = child;
    job.exclude_count = exclude_count;
    if (comm != NULL) {
        standin_log(comm, "ncclCommShrink");
        (void)standin_script_hold("shrink_call", 0, comm->rank, NULL);
        STANDIN_CHECK(standin_script_error("shrink_call", comm->rank));
    }
    STANDIN_CHECK(standin_group_start());
    if ((flags & STANDIN_SHRINK_ABORT) != 0) {
        set_abort_flags(comm, 1);
        standin_work_wait(comm);
        set_abort_flags(comm, 0);
    }
    int result = child_init(comm, job, exclude, config, "ncclCommShrink", true);
    (void)standin_group_error(result);
    STANDIN_CHECK(standin_group_end());
    return result;
}

int ncclCommSplit(struct standin_comm *comm, int color, int key, struct standin_comm **child,
                  struct standin_config *config)
{
    struct standin_job job;
    memset(&job, 0, sizeof job);
    job.slot = child;
    job.color = color;
    job.key = key;
    STANDIN_CHECK(standin_group_start());
    int result = child_init(comm, job, NULL, config, "ncclCommSplit", false);
    (void)standin_group_error(result);
    STANDIN_CHECK(standin_group_end());
    return result;
}
