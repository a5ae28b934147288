/* A stand-in for NCCL, for tests only. Nothing it does is a GPU result.
 *
 * Work on streams: what NCCL would launch as one kernel runs in the thread of the CUDA stand-in's
 * stream, or in a worker of the communicator where there is no such stand-in. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "tests/standin/nccl/hooks.h"
#include "tests/standin/nccl/internal.h"

struct work {
    uint64_t number; /* of its device in turns; 0: not on it */
    bool is_started;
    struct standin_comm *comm;
    struct standin_op *ops;
    uint64_t turn;
    struct work *next;
};

/* Runs works in order where there is no stream to run them. */
struct standin_worker {
    struct standin_thread thread;
    struct work *head, **tail;
    bool is_stopping;
};

typedef int enqueue_fn(void *stream, int (*run)(void *context, const volatile int *is_cancelled),
                       void *context);

static pthread_mutex_t work_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work_changed = PTHREAD_COND_INITIALIZER;
static struct standin_comm *live;
static ddp_nccl_standin_enqueue_fn *turns_enqueue;
static struct work *turns_works; /* on the device, not ended */
static uint64_t turns_number;

void standin_live_add(struct standin_comm *comm)
{
    pthread_mutex_lock(&work_lock);
    comm->live_next = live;
    live = comm;
    pthread_mutex_unlock(&work_lock);
}

void standin_live_remove(struct standin_comm *comm)
{
    pthread_mutex_lock(&work_lock);
    struct standin_comm **link = &live;
    while (*link != comm) {
        link = &(*link)->live_next;
    }
    *link = comm->live_next;
    pthread_mutex_unlock(&work_lock);
}

uint64_t ddp_nccl_standin_comm_count(void)
{
    uint64_t count = 0;
    pthread_mutex_lock(&work_lock);
    for (struct standin_comm *comm = live; comm != NULL; comm = comm->live_next) {
        count++;
    }
    pthread_mutex_unlock(&work_lock);
    return count;
}

uint64_t ddp_nccl_standin_pending(void *handle)
{
    struct standin_comm *comm = handle;
    pthread_mutex_lock(&work_lock);
    uint64_t count = comm->work_posted - comm->work_ended;
    pthread_mutex_unlock(&work_lock);
    return count;
}

void standin_work_wait(struct standin_comm *comm)
{
    pthread_mutex_lock(&work_lock);
    while (comm->work_posted != comm->work_ended) {
        standin_cond_wait(&work_changed, &work_lock, -1);
    }
    pthread_mutex_unlock(&work_lock);
}

static bool all_are_idle(void)
{
    for (struct standin_comm *comm = live; comm != NULL; comm = comm->live_next) {
        if (comm->work_posted != comm->work_ended) {
            return false;
        }
    }
    return true;
}

void standin_work_wait_all(void)
{
    pthread_mutex_lock(&work_lock);
    while (!all_are_idle()) {
        standin_cond_wait(&work_changed, &work_lock, -1);
    }
    pthread_mutex_unlock(&work_lock);
}

/* Works of one communicator run one after the other, whatever streams they are on. */
static bool work_wait_turn(struct work *work, const struct standin_wait *wait)
{
    for (;;) {
        pthread_mutex_lock(&work_lock);
        bool is_turn = work->comm->work_turn == work->turn;
        pthread_mutex_unlock(&work_lock);
        if (is_turn || standin_wait_is_over(wait)) {
            return is_turn;
        }
        standin_wait_pause(STANDIN_POLL_MS, wait);
    }
}

static void ops_end(struct standin_comm *comm, const struct standin_op *ops)
{
    for (const struct standin_op *op = ops; op != NULL; op = op->next) {
        if (op->async_error != STANDIN_SUCCESS) {
            standin_warn("stand-in script: async_after_op");
            atomic_store(&comm->proxy_result, op->async_error);
        }
    }
}

/* Takes it from the list of the device in turns; to be locked. */
static void turns_forget(const struct work *work)
{
    struct work **link = &turns_works;
    while (*link != work) {
        link = &(*link)->next;
    }
    *link = work->next;
}

/* As a kernel: ends when done or when told to, never by itself because a peer is gone. */
static int work_run(void *context, const volatile int *is_cancelled)
{
    struct work *work = context;
    struct standin_comm *comm = work->comm;
    struct standin_wait wait = {&comm->abort_flag, is_cancelled};
    if (work_wait_turn(work, &wait) && !standin_wait_is_over(&wait)) {
        int result = standin_ops_run(comm, work->ops, &wait);
        if (result != STANDIN_SUCCESS) {
            if (!standin_wait_is_over(&wait)) {
                atomic_store(&comm->proxy_result, result);
            }
            standin_wait_park(&wait);
        } else {
            ops_end(comm, work->ops);
        }
    }
    standin_ops_free(work->ops);
    pthread_mutex_lock(&work_lock);
    comm->work_ended++;
    if (comm->work_turn <= work->turn) {
        comm->work_turn = work->turn + 1;
    }
    if (work->number != 0) {
        turns_forget(work);
    }
    pthread_cond_broadcast(&work_changed);
    pthread_mutex_unlock(&work_lock);
    free(work);
    return 0;
}

static void *worker_main(void *context)
{
    struct standin_worker *worker = context;
    static const volatile int is_never_cancelled;
    pthread_mutex_lock(&work_lock);
    while (!worker->is_stopping || worker->head != NULL) {
        struct work *work = worker->head;
        if (work == NULL) {
            standin_cond_wait(&work_changed, &work_lock, -1);
            continue;
        }
        worker->head = work->next;
        if (worker->head == NULL) {
            worker->tail = &worker->head;
        }
        pthread_mutex_unlock(&work_lock);
        (void)work_run(work, &is_never_cancelled);
        pthread_mutex_lock(&work_lock);
    }
    pthread_mutex_unlock(&work_lock);
    return NULL;
}

void standin_worker_stop(struct standin_comm *comm)
{
    if (comm->worker == NULL) {
        return;
    }
    pthread_mutex_lock(&work_lock);
    comm->worker->is_stopping = true;
    pthread_cond_broadcast(&work_changed);
    pthread_mutex_unlock(&work_lock);
    standin_thread_join(&comm->worker->thread);
    free(comm->worker);
    comm->worker = NULL;
}

static int worker_enqueue(struct standin_comm *comm, struct work *work)
{
    if (comm->worker == NULL) {
        struct standin_worker *worker = calloc(1, sizeof *worker);
        if (worker == NULL) {
            return STANDIN_SYSTEM_ERROR;
        }
        worker->tail = &worker->head;
        if (standin_thread_start(&worker->thread, worker_main, worker) != 0) {
            free(worker);
            return STANDIN_SYSTEM_ERROR;
        }
        comm->worker = worker;
    }
    pthread_mutex_lock(&work_lock);
    *comm->worker->tail = work;
    comm->worker->tail = &work->next;
    pthread_cond_broadcast(&work_changed);
    pthread_mutex_unlock(&work_lock);
    return STANDIN_SUCCESS;
}

void ddp_nccl_standin_device(ddp_nccl_standin_enqueue_fn *enqueue)
{
    turns_enqueue = enqueue;
}

static void *turns_main(void *context)
{
    static const volatile int is_never_cancelled;
    (void)work_run(context, &is_never_cancelled);
    return NULL;
}

/* The stream has come to the work of this number; one that is not in the list has ended. */
static bool turns_poll(void *number)
{
    pthread_mutex_lock(&work_lock);
    struct work *work = turns_works;
    while (work != NULL && work->number != (uintptr_t)number) {
        work = work->next;
    }
    bool is_new = work != NULL && !work->is_started;
    if (is_new) {
        work->is_started = true;
    }
    pthread_mutex_unlock(&work_lock);
    return work == NULL || (is_new && standin_turn_start(turns_main, work) != 0);
}

static void turns_launch(struct work *work, void *stream)
{
    pthread_mutex_lock(&work_lock);
    work->number = ++turns_number;
    work->next = turns_works;
    turns_works = work;
    pthread_mutex_unlock(&work_lock);
    turns_enqueue(stream, turns_poll, (void *)(uintptr_t)work->number);
}

static pthread_once_t enqueue_once = PTHREAD_ONCE_INIT;
static enqueue_fn *stream_enqueue;

static void enqueue_find(void)
{
    union {
        void *object;
        enqueue_fn *function;
    } found = {dlsym(RTLD_DEFAULT, "ddp_standin_stream_enqueue")};
    stream_enqueue = found.function;
}

int standin_work_launch(struct standin_comm *comm)
{
    if (comm->op_head == NULL) {
        return STANDIN_SUCCESS;
    }
    for (const struct standin_op *op = comm->op_head; op != NULL; op = op->next) {
        if (op->stream != comm->op_head->stream) {
            standin_warn("stand-in: a group uses one stream per communicator here");
            return STANDIN_INVALID_USAGE;
        }
    }
    struct work *work = calloc(1, sizeof *work);
    if (work == NULL) {
        return STANDIN_SYSTEM_ERROR;
    }
    void *stream = comm->op_head->stream;
    work->comm = comm;
    work->ops = comm->op_head;
    comm->op_head = NULL;
    comm->op_tail = &comm->op_head;
    pthread_mutex_lock(&work_lock);
    work->turn = comm->work_posted++;
    pthread_mutex_unlock(&work_lock);
    if (standin_turns_are_on() && turns_enqueue != NULL) {
        turns_launch(work, stream);
        return STANDIN_SUCCESS;
    }
    (void)pthread_once(&enqueue_once, enqueue_find);
    int error = stream_enqueue != NULL ? stream_enqueue(stream, work_run, work) : 0;
    int result = STANDIN_SUCCESS;
    if (error != 0) {
        standin_warn("Cuda failure %d", error);
        result = STANDIN_CUDA_ERROR;
    } else if (stream_enqueue == NULL) {
        result = worker_enqueue(comm, work);
    }
    if (result != STANDIN_SUCCESS) {
        standin_ops_free(work->ops);
        free(work);
        pthread_mutex_lock(&work_lock);
        comm->work_posted--;
        pthread_mutex_unlock(&work_lock);
    }
    return result;
}
