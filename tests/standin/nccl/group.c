/* A stand-in for NCCL, for tests only. Nothing it does is a GPU result.
 *
 * Groups: what one thread calls between start and end is launched by the outermost end, in a thread
 * of its own if the communicators are non-blocking. Follows group.cc. */
#include <stdlib.h>
#include <string.h>

#include "tests/standin/nccl/internal.h"

struct standin_group {
    struct standin_comm *comms;
    struct standin_job *jobs;
    atomic_int is_aborted, is_joined, reference_count;
    struct standin_thread thread;
};

static _Thread_local int group_depth;
static _Thread_local int group_latched;
static _Thread_local int group_blocking = -1;
static _Thread_local struct standin_comm *group_comms;
static _Thread_local struct standin_job *group_jobs;

static pthread_mutex_t jobs_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t jobs_changed = PTHREAD_COND_INITIALIZER;

int standin_group_start(void)
{
    group_depth++;
    return STANDIN_SUCCESS;
}

int standin_group_error(int result)
{
    if (group_depth > 0 && result != STANDIN_SUCCESS && result != STANDIN_IN_PROGRESS) {
        group_latched = result;
    }
    return result;
}

static void job_free(struct standin_job *job)
{
    free(job->exclude);
    free(job);
}

int standin_group_add_job(struct standin_job *job)
{
    job->is_destroying = atomic_load(&job->comm->is_destroying);
    if (group_depth == 0) {
        int result = job->run(job);
        job_free(job);
        return result;
    }
    if (job->is_destroying) {
        group_blocking = 1;
    } else if (group_blocking == -1) {
        group_blocking = job->comm->is_blocking;
    } else if (group_blocking != (int)job->comm->is_blocking) {
        standin_warn("Blocking and nonblocking communicators are not allowed in the same group.");
        job_free(job);
        return STANDIN_INVALID_ARGUMENT;
    }
    struct standin_job **tail = &group_jobs;
    while (*tail != NULL) {
        tail = &(*tail)->next;
    }
    *tail = job;
    return STANDIN_SUCCESS;
}

void standin_group_add_comm(struct standin_comm *comm)
{
    if (comm->is_in_group) {
        return;
    }
    comm->is_in_group = true;
    comm->group_next = NULL;
    struct standin_comm **tail = &group_comms;
    while (*tail != NULL) {
        tail = &(*tail)->group_next;
    }
    *tail = comm;
    group_blocking = comm->is_blocking;
}

static void *job_main(void *context)
{
    struct standin_job *job = context;
    standin_device_set(job->comm->device);
    job->result = job->run(job);
    pthread_mutex_lock(&jobs_lock);
    atomic_store(&job->is_done, 1);
    pthread_cond_broadcast(&jobs_changed);
    pthread_mutex_unlock(&jobs_lock);
    return NULL;
}

/* Joins those that are done; returns whether all are. */
static bool jobs_join(struct standin_job *jobs, int *result)
{
    bool is_complete = true;
    for (struct standin_job *job = jobs; job != NULL; job = job->next) {
        if (!job->is_joined && atomic_load(&job->is_done) != 0) {
            standin_thread_join(&job->thread);
            job->is_joined = true;
            *result = *result == STANDIN_SUCCESS ? job->result : *result;
        }
        is_complete = is_complete && job->is_joined;
    }
    return is_complete;
}

/* One failed job, or the group's abort, aborts the communicators of all. */
static void jobs_abort(struct standin_job *jobs)
{
    for (struct standin_job *job = jobs; job != NULL; job = job->next) {
        if (!job->is_destroying) {
            atomic_store(&job->comm->abort_flag, 1);
            atomic_store(&job->comm->child_abort_flag, 1);
        }
    }
}

static int jobs_run(struct standin_job *jobs, const atomic_int *is_aborted)
{
    int result = STANDIN_SUCCESS;
    if (jobs == NULL) {
        return result;
    }
    if (jobs->next == NULL) {
        standin_device_set(jobs->comm->device);
        return jobs->run(jobs);
    }
    for (struct standin_job *job = jobs; job != NULL; job = job->next) {
        if (standin_thread_start(&job->thread, job_main, job) != 0) {
            job->is_joined = true;
            result = STANDIN_SYSTEM_ERROR;
        }
    }
    pthread_mutex_lock(&jobs_lock);
    while (!jobs_join(jobs, &result)) {
        if (result != STANDIN_SUCCESS || atomic_load(is_aborted) != 0) {
            jobs_abort(jobs);
        }
        standin_cond_wait(&jobs_changed, &jobs_lock, STANDIN_POLL_MS);
    }
    pthread_mutex_unlock(&jobs_lock);
    return result;
}

static int connect_peer(struct standin_comm *comm, const struct standin_op *op, bool is_waiting)
{
    bool is_send = op->func == STANDIN_SEND;
    bool *is_connected = is_send ? comm->is_send_connected : comm->is_recv_connected;
    struct standin_frame frame;
    memset(&frame, 0, sizeof frame);
    frame.tag = is_send ? STANDIN_TAG_SENDER : STANDIN_TAG_RECEIVER;
    if (!is_waiting) {
        return standin_control_send(comm, op->root, &frame);
    }
    is_connected[op->root] = true;
    return standin_control_recv(comm, op->root, is_send ? STANDIN_TAG_RECEIVER : STANDIN_TAG_SENDER,
                                &frame);
}

/* Whether op is the first of its list that needs its connection. */
static bool needs_peer(const struct standin_comm *comm, const struct standin_op *op)
{
    if ((op->func != STANDIN_SEND && op->func != STANDIN_RECV) || op->root == comm->rank) {
        return false;
    }
    for (const struct standin_op *other = comm->op_head; other != op; other = other->next) {
        if (other->func == op->func && other->root == op->root) {
            return false;
        }
    }
    return op->func == STANDIN_SEND ? !comm->is_send_connected[op->root]
                                    : !comm->is_recv_connected[op->root];
}

static int connect_ring(struct standin_comm *comm)
{
    int next = (comm->rank + 1) % comm->rank_count;
    int previous = (comm->rank + comm->rank_count - 1) % comm->rank_count;
    struct standin_frame frame;
    memset(&frame, 0, sizeof frame);
    frame.tag = STANDIN_TAG_RING;
    comm->is_ring_connected = true;
    STANDIN_CHECK(standin_control_send(comm, next, &frame));
    if (previous != next) {
        STANDIN_CHECK(standin_control_send(comm, previous, &frame));
        STANDIN_CHECK(standin_control_recv(comm, previous, STANDIN_TAG_RING, &frame));
    }
    return standin_control_recv(comm, next, STANDIN_TAG_RING, &frame);
}

/* Before the launch: connections that are used for the first time need the other side. */
static int prepare_run(struct standin_job *job)
{
    struct standin_comm *comm = job->comm;
    struct standin_wait wait = {comm->abort_source, NULL};
    struct standin_verdict verdict = standin_script_ask("launch", ++comm->launch_count, comm->rank);
    if (standin_script_hold("launch", comm->launch_count, comm->rank, &wait) &&
        standin_wait_is_over(&wait)) {
        return STANDIN_INTERNAL_ERROR;
    }
    if (verdict.action == STANDIN_ACT_ERROR) {
        standin_warn("stand-in script: launch%llu=%d", (unsigned long long)comm->launch_count,
                     verdict.result);
        return verdict.result;
    }
    if (standin_script_has("connect=eager")) {
        return STANDIN_SUCCESS;
    }
    bool is_ring = false;
    for (struct standin_op *op = comm->op_head; op != NULL; op = op->next) {
        is_ring = is_ring || (op->func != STANDIN_SEND && op->func != STANDIN_RECV);
        op->is_connecting = needs_peer(comm, op);
    }
    for (int is_waiting = 0; is_waiting < 2; is_waiting++) {
        for (struct standin_op *op = comm->op_head; op != NULL; op = op->next) {
            if (op->is_connecting) {
                STANDIN_CHECK(connect_peer(comm, op, is_waiting != 0));
            }
        }
    }
    if (is_ring && comm->rank_count > 1 && !comm->is_ring_connected) {
        STANDIN_CHECK(connect_ring(comm));
    }
    return STANDIN_SUCCESS;
}

static void jobs_free(struct standin_job *jobs)
{
    while (jobs != NULL) {
        struct standin_job *next = jobs->next;
        job_free(jobs);
        jobs = next;
    }
}

static int prepare_comms(struct standin_group *group)
{
    struct standin_job *jobs = NULL;
    int result = STANDIN_SUCCESS;
    for (struct standin_comm *comm = group->comms; comm != NULL; comm = comm->group_next) {
        struct standin_job *job = calloc(1, sizeof *job);
        if (job == NULL) {
            result = STANDIN_SYSTEM_ERROR;
            break;
        }
        job->run = prepare_run;
        job->comm = comm;
        job->next = jobs;
        jobs = job;
    }
    if (result == STANDIN_SUCCESS) {
        result = jobs_run(jobs, &group->is_aborted);
    }
    jobs_free(jobs);
    return result;
}

void standin_ops_free(struct standin_op *head)
{
    while (head != NULL) {
        struct standin_op *next = head->next;
        free(head);
        head = next;
    }
}

/* Lets go of everything: the group has been launched, or is discarded with an error. The state is
 * set last, for from then on others may use the communicator. */
static void group_leave(struct standin_group *group, int result)
{
    bool has_comms = group->comms != NULL;
    struct standin_comm *comm = group->comms;
    group->comms = NULL;
    while (comm != NULL) {
        struct standin_comm *next = comm->group_next;
        standin_ops_free(comm->op_head);
        comm->op_head = NULL;
        comm->op_tail = &comm->op_head;
        comm->is_in_group = false;
        comm->group_next = NULL;
        if (!comm->is_blocking) {
            standin_comm_set_async(comm, result);
        }
        comm = next;
    }
    while (group->jobs != NULL) {
        struct standin_job *job = group->jobs;
        group->jobs = job->next;
        if (!job->is_destroying && !job->comm->is_blocking &&
            (!has_comms || result != STANDIN_SUCCESS)) {
            standin_comm_set_async(job->comm, result);
        }
        job_free(job);
    }
}

static int group_launch(struct standin_group *group)
{
    int result = jobs_run(group->jobs, &group->is_aborted);
    if (result == STANDIN_SUCCESS) {
        result = prepare_comms(group);
    }
    for (struct standin_comm *comm = group->comms; comm != NULL && result == STANDIN_SUCCESS;
         comm = comm->group_next) {
        result = standin_work_launch(comm);
    }
    group_leave(group, result);
    return result;
}

static void *group_main(void *context)
{
    (void)group_launch(context);
    return NULL;
}

static void group_release(struct standin_group *group, bool is_aborting)
{
    if (atomic_exchange(&group->is_joined, 1) == 0) {
        if (is_aborting) {
            atomic_store(&group->is_aborted, 1);
        }
        standin_thread_join(&group->thread);
    }
    if (atomic_fetch_sub(&group->reference_count, 1) == 1) {
        free(group);
    }
}

static struct standin_group *group_take(struct standin_comm *comm)
{
    pthread_mutex_lock(&comm->lock);
    struct standin_group *group = comm->group;
    comm->group = NULL;
    pthread_mutex_unlock(&comm->lock);
    return group;
}

void standin_group_complete(struct standin_comm *comm)
{
    struct standin_group *group = group_take(comm);
    if (group != NULL) {
        group_release(group, false);
    }
}

void standin_group_abort(struct standin_comm *comm)
{
    struct standin_group *group = group_take(comm);
    if (group != NULL) {
        group_release(group, true);
    }
}

static void group_link(struct standin_group *group, struct standin_comm *comm)
{
    standin_comm_set_async(comm, STANDIN_IN_PROGRESS);
    pthread_mutex_lock(&comm->lock);
    if (comm->group == NULL) {
        comm->group = group;
        atomic_fetch_add(&group->reference_count, 1);
    }
    pthread_mutex_unlock(&comm->lock);
}

static int group_launch_apart(struct standin_group *group)
{
    for (struct standin_job *job = group->jobs; job != NULL; job = job->next) {
        group_link(group, job->comm);
    }
    for (struct standin_comm *comm = group->comms; comm != NULL; comm = comm->group_next) {
        group_link(group, comm);
    }
    if (standin_thread_start(&group->thread, group_main, group) != 0) {
        atomic_store(&group->is_joined, 1);
        group_leave(group, STANDIN_SYSTEM_ERROR);
        return STANDIN_SYSTEM_ERROR;
    }
    return STANDIN_IN_PROGRESS;
}

int standin_group_end(void)
{
    if (group_depth == 0) {
        standin_warn("ncclGroupEnd: not in a group call.");
        return STANDIN_INVALID_USAGE;
    }
    if (--group_depth > 0) {
        return STANDIN_SUCCESS;
    }
    int result = group_latched;
    bool is_blocking = group_blocking != 0;
    struct standin_group *group = calloc(1, sizeof *group);
    struct standin_group local;
    memset(&local, 0, sizeof local);
    struct standin_group *used = group != NULL ? group : &local;
    used->comms = group_comms;
    used->jobs = group_jobs;
    group_comms = NULL;
    group_jobs = NULL;
    group_latched = STANDIN_SUCCESS;
    group_blocking = -1;
    if (result == STANDIN_SUCCESS && group == NULL) {
        result = STANDIN_SYSTEM_ERROR;
    }
    if (result != STANDIN_SUCCESS) {
        group_leave(used, result);
    } else if (used->comms != NULL || used->jobs != NULL) {
        if (!is_blocking) {
            return group_launch_apart(used);
        }
        /* As group.cc: what was current in the caller's thread is made current again. */
        int device = standin_device_get();
        result = group_launch(used);
        standin_device_set(device);
    }
    free(group);
    return result;
}

int ncclGroupStart(void)
{
    return standin_group_start();
}

int ncclGroupEnd(void)
{
    return standin_group_end();
}
