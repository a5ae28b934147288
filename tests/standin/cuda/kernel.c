/* CUDA runtime stand-in, for tests on machines without a GPU; nothing here is a GPU result.
 * Kernels: enqueued with a copy of their arguments, run on the stream's worker, where the threads
 * of a block are coroutines if they talk to each other. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/standin/cuda/fiber.h"
#include "tests/standin/cuda/state.h"

enum { LANES = 32, ARGS_BYTES = 512, MAX_BLOCK_THREADS = 1024, MAX_GRID_YZ = 65535 };

enum thread_state { READY, AT_WARP, AT_BLOCK, DONE };

struct thread {
    struct standin_fiber *fiber;
    enum thread_state state;
    /* The word it brought to a shuffle or barrier of its warp, and the word it got. */
    uint32_t mask, source;
    bool is_ballot;
    uint64_t word;
};

/* What a worker keeps for the kernels of its stream. */
struct engine {
    struct standin_fiber_home home;
    const struct ddp_standin_kernel *kernel;
    const void *args;
    uint64_t block_count, block_index;
    uint32_t thread_count, fiber_count;
    struct thread *current;
    int error;
    struct thread threads[MAX_BLOCK_THREADS];
};

static _Thread_local struct engine *engine; /* NULL until the first kernel */

static void run_all(struct engine *self)
{
    const struct ddp_standin_kernel *kernel = self->kernel;

    for (uint64_t b = 0; b < self->block_count; b++) {
        for (uint32_t t = 0; t < self->thread_count; t++) {
            kernel->select(kernel, b, t);
            kernel->call(kernel->kernel, self->args);
        }
    }
}

/* The body of a fiber: one thread, or the whole grid if threads do not talk to each other. */
static void fiber_body(void *context)
{
    struct engine *self = context;

    if (self->kernel->is_warp) {
        self->kernel->call(self->kernel->kernel, self->args);
    } else {
        run_all(self);
    }
    self->current->state = DONE;
}

static bool threads_prepare(struct engine *self, uint32_t count)
{
    for (; self->fiber_count < count; self->fiber_count++) {
        struct standin_fiber *fiber = standin_fiber_create(&self->home, fiber_body, self);
        if (fiber == NULL) {
            return false;
        }
        self->threads[self->fiber_count].fiber = fiber;
    }
    return true;
}

static void threads_drop(struct engine *self)
{
    while (self->fiber_count > 0) {
        standin_fiber_destroy(self->threads[--self->fiber_count].fiber);
    }
}

/* Runs the thread to its next shuffle or barrier, or to its end. */
static void resume(struct engine *self, struct thread *thread)
{
    self->current = thread;
    if (self->kernel->is_warp) {
        self->kernel->select(self->kernel, self->block_index, (uint32_t)(thread - self->threads));
    }
    standin_fiber_enter(thread->fiber);
}

/* In a kernel: leave to the engine until the meeting has taken place. */
static void meet(enum thread_state state)
{
    if (!engine->kernel->is_warp) {
        ddp_standin_kernel_trap(cudaErrorLaunchFailure);
    }
    engine->current->state = state;
    standin_fiber_leave(engine->current->fiber);
}

uint64_t ddp_standin_lane_exchange(uint32_t mask, uint64_t word, uint32_t source)
{
    struct thread *thread = engine->current;

    thread->mask = mask;
    thread->word = word;
    thread->source = source;
    thread->is_ballot = false;
    meet(AT_WARP);
    return thread->word;
}

uint32_t ddp_standin_lane_ballot(uint32_t mask, bool is_true)
{
    struct thread *thread = engine->current;

    thread->mask = mask;
    thread->word = is_true ? 1 : 0;
    thread->is_ballot = true;
    meet(AT_WARP);
    return (uint32_t)thread->word;
}

void ddp_standin_block_meet(void)
{
    meet(AT_BLOCK);
}

void ddp_standin_kernel_trap(int cuda_error)
{
    engine->error = cuda_error;
    standin_fiber_leave(engine->current->fiber);
    abort(); /* a fiber of a kernel that has ended is never entered again */
}

uint64_t ddp_standin_globaltimer_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* All lanes that `first` waits for are here: lanes that have left do not count (CUDA C++
 * Programming Guide, "Warp Shuffle Functions"). Different masks or kinds of meeting never come
 * together. */
static bool is_complete(const struct thread *warp, uint32_t lane_count, const struct thread *first)
{
    for (uint32_t l = 0; l < lane_count; l++) {
        bool is_named = (first->mask >> l & 1) != 0;
        bool is_same = warp[l].state == AT_WARP && warp[l].mask == first->mask &&
                       warp[l].is_ballot == first->is_ballot;
        if (is_named && !is_same && warp[l].state != DONE) {
            return false;
        }
    }
    return true;
}

/* Gives each lane of the meeting its result and lets it go on. Returns 0, or the error that the
 * kernel made. */
static int conclude(struct thread *warp, uint32_t lane_count, uint32_t mask, bool is_ballot)
{
    uint64_t words[LANES] = {0}, ballot = 0;

    for (uint32_t l = 0; l < lane_count; l++) {
        if ((mask >> l & 1) != 0 && warp[l].state == AT_WARP) {
            words[l] = warp[l].word;
            ballot |= warp[l].word != 0 ? UINT64_C(1) << l : 0;
        }
    }
    for (uint32_t l = 0; l < lane_count; l++) {
        uint32_t source = warp[l].source;
        if ((mask >> l & 1) == 0 || warp[l].state != AT_WARP) {
            continue;
        }
        if (is_ballot) {
            warp[l].word = ballot;
        } else if (source >= lane_count || (mask >> source & 1) == 0 ||
                   warp[source].state == DONE) {
            return cudaErrorLaunchFailure; /* undefined on a GPU */
        } else {
            warp[l].word = words[source];
        }
    }
    for (uint32_t l = 0; l < lane_count; l++) {
        if ((mask >> l & 1) != 0 && warp[l].state == AT_WARP) {
            warp[l].state = READY;
        }
    }
    return 0;
}

static int warp_meet(struct thread *warp, uint32_t lane_count)
{
    for (uint32_t l = 0; l < lane_count; l++) {
        if (warp[l].state != AT_WARP) {
            continue;
        }
        if ((warp[l].mask >> l & 1) == 0) {
            return cudaErrorLaunchFailure; /* a lane must name itself */
        }
        if (is_complete(warp, lane_count, &warp[l])) {
            int error = conclude(warp, lane_count, warp[l].mask, warp[l].is_ballot);
            if (error != 0) {
                return error;
            }
        }
    }
    return 0;
}

static uint32_t count_state(const struct engine *self, enum thread_state state)
{
    uint32_t count = 0;

    for (uint32_t t = 0; t < self->thread_count; t++) {
        count += self->threads[t].state == state ? 1 : 0;
    }
    return count;
}

static void block_meet(struct engine *self)
{
    for (uint32_t t = 0; t < self->thread_count; t++) {
        if (self->threads[t].state == AT_BLOCK) {
            self->threads[t].state = READY;
        }
    }
}

/* One block of a kernel whose threads talk. An odd seed turns the order of the lanes around. */
static int block_run(struct engine *self)
{
    const uint32_t count = self->thread_count;
    const bool is_reversed = (standin_device.seed & 1) != 0;

    for (uint32_t t = 0; t < count; t++) {
        self->threads[t].state = READY;
    }
    for (;;) {
        for (uint32_t i = 0; i < count; i++) {
            struct thread *thread = &self->threads[is_reversed ? count - 1 - i : i];
            if (thread->state == READY) {
                resume(self, thread);
            }
            if (self->error != 0) {
                return self->error;
            }
        }
        for (uint32_t first = 0; first < count; first += LANES) {
            uint32_t lane_count = count - first < LANES ? count - first : LANES;
            int error = warp_meet(&self->threads[first], lane_count);
            if (error != 0) {
                return error;
            }
        }
        if (count_state(self, READY) > 0) {
            continue;
        }
        if (count_state(self, DONE) == count) {
            return 0;
        }
        if (count_state(self, AT_WARP) > 0) {
            return cudaErrorLaunchFailure; /* a lane waits for one that never comes */
        }
        block_meet(self);
    }
}

static int engine_run(struct engine *self)
{
    int error = 0;

    if (!threads_prepare(self, self->kernel->is_warp ? self->thread_count : 1)) {
        return cudaErrorMemoryAllocation;
    }
    if (self->kernel->is_warp) {
        for (self->block_index = 0; self->block_index < self->block_count && error == 0;
             self->block_index++) {
            error = block_run(self);
        }
    } else {
        resume(self, &self->threads[0]);
        error = self->error;
    }
    if (error != 0) {
        threads_drop(self); /* they stand in the middle of a kernel */
    }
    return error;
}

static int kernel_run(const struct ddp_standin_kernel *kernel, const void *args)
{
    if (engine == NULL) {
        engine = calloc(1, sizeof(*engine));
    }
    if (engine == NULL) {
        return cudaErrorMemoryAllocation;
    }
    engine->kernel = kernel;
    engine->args = args;
    engine->error = 0;
    engine->thread_count = kernel->block[0] * kernel->block[1] * kernel->block[2];
    engine->block_count = (uint64_t)kernel->grid[0] * kernel->grid[1] * kernel->grid[2];
    return engine_run(engine);
}

void standin_kernel_fini(void)
{
    if (engine != NULL) {
        threads_drop(engine);
        free(engine);
        engine = NULL;
    }
}

/* Kernels that are on the device. */
static struct {
    pthread_mutex_t lock;
    struct loaded {
        struct loaded *next;
        const void *kernel;
    } * first;
} loaded = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The lock is held. */
static bool is_loaded(const void *kernel)
{
    const struct loaded *entry = loaded.first;

    while (entry != NULL && entry->kernel != kernel) {
        entry = entry->next;
    }
    return entry != NULL;
}

static cudaError_t load(const void *kernel)
{
    cudaError_t error = cudaSuccess;

    pthread_mutex_lock(&loaded.lock);
    if (!is_loaded(kernel)) {
        struct loaded *entry = malloc(sizeof(*entry));
        if (entry != NULL) {
            *entry = (struct loaded){loaded.first, kernel};
            loaded.first = entry;
        } else {
            error = cudaErrorMemoryAllocation;
        }
    }
    pthread_mutex_unlock(&loaded.lock);
    return error;
}

static bool may_launch(void (*kernel)(void))
{
    const void *address;
    bool is_there;

    memcpy(&address, &kernel, sizeof(address));
    pthread_mutex_lock(&loaded.lock);
    is_there = is_loaded(address);
    pthread_mutex_unlock(&loaded.lock);
    return is_there;
}

struct launch {
    _Alignas(16) unsigned char args[ARGS_BYTES];
    struct ddp_standin_kernel kernel;
};

static int launch_run(void *context, const volatile int *is_cancelled)
{
    const struct launch *launch = context;

    (void)is_cancelled;
    atomic_fetch_add_explicit(&standin_device.kernel_count, 1, memory_order_relaxed);
    return kernel_run(&launch->kernel, launch->args);
}

static bool is_valid_shape(const struct ddp_standin_kernel *kernel)
{
    const uint32_t *grid = kernel->grid, *block = kernel->block;
    uint64_t thread_count = (uint64_t)block[0] * block[1];

    return grid[0] > 0 && grid[0] <= INT32_MAX && grid[1] > 0 && grid[1] <= MAX_GRID_YZ &&
           grid[2] > 0 && grid[2] <= MAX_GRID_YZ && thread_count > 0 && block[2] > 0 &&
           thread_count <= MAX_BLOCK_THREADS && block[2] <= MAX_BLOCK_THREADS &&
           thread_count * block[2] <= MAX_BLOCK_THREADS;
}

cudaError_t ddp_standin_launch(const struct ddp_standin_kernel *kernel, const void *args,
                               size_t args_bytes, cudaStream_t stream)
{
    struct standin_item item = {.run = launch_run, .drop = free, .needs_memory = true};
    cudaError_t error = standin_enter();
    struct launch *launch;

    if (error == cudaSuccess && !is_valid_shape(kernel)) {
        error = cudaErrorInvalidConfiguration;
    }
    if (error == cudaSuccess && args_bytes > ARGS_BYTES) {
        error = cudaErrorInvalidValue;
    }
    if (error == cudaSuccess && !may_launch(kernel->kernel)) {
        error = cudaErrorInvalidDeviceFunction;
    }
    if (error != cudaSuccess) {
        return standin_leave(error);
    }
    launch = aligned_alloc(_Alignof(struct launch), sizeof(*launch));
    if (launch == NULL) {
        return standin_leave(cudaErrorMemoryAllocation);
    }
    launch->kernel = *kernel;
    memcpy(launch->args, args, args_bytes);
    item.context = launch;
    error = standin_stream_push(standin_stream_resolve(stream), &item);
    if (error != cudaSuccess) {
        free(launch);
    }
    return standin_leave(error);
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *kernel)
{
    cudaError_t error = standin_enter();

    if (error == cudaSuccess && kernel == NULL) {
        error = cudaErrorInvalidValue;
    }
    if (error == cudaSuccess) {
        error = load(kernel);
    }
    *attributes = (struct cudaFuncAttributes){.maxThreadsPerBlock = MAX_BLOCK_THREADS};
    return standin_leave(error);
}
