/* Purpose: have streams say how far they are.
 * Idea: a stream works in order. A word that it writes in front of a launch says that it has come
 * there, one behind it that it has left it behind. The words lie in the arena, so nobody has to
 * fetch them. */
#include <pthread.h>
#include <string.h>

#include "harness/guest/lane.h"
#include "harness/guest/nccl/adapter.h"

/* What this process knows of a lane. */
struct lane_state {
    uint32_t comm; /* handle; 0: nobody uses it */
    int is_left;   /* the communicator is gone */
    void *stream;
    uint64_t last; /* what the stream will have written in the end */
    uint64_t owed; /* a launch that NCCL makes in another thread: not marked behind yet; 0: none */
};

static struct {
#define X(field, symbol, parameters) int(*field) parameters;
    GUEST_CUDA_CALL_TABLE(X)
#undef X
} driver;
static pthread_once_t driver_once = PTHREAD_ONCE_INIT;
static int has_driver;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct lane_state states[GUEST_LANES_MAX];
static enum { NOT_TRIED, IMPOSSIBLE, REGISTERED } registration;
static unsigned long long lanes_address; /* for the device */

static void find_driver(void)
{
    void *address;

    has_driver = 1;
#define X(field, symbol, parameters)                 \
    address = guest_nccl_driver_symbol(#symbol);     \
    memcpy(&driver.field, &address, sizeof address); \
    has_driver = has_driver && address != NULL;
    GUEST_CUDA_CALL_TABLE(X)
#undef X
}

/* Make the lanes known to the device, once, before the process gives NCCL any calls. The driver may
 * refuse it to a thread while a graph is being captured, unless that thread says that it knows what
 * it does. */
static int is_registered(void)
{
    struct guest_lane *lanes = guest_lanes();
    int mode = GUEST_CUDA_CAPTURE_RELAXED;
    void *context = NULL;

    if (registration == NOT_TRIED && driver.context_current(&context) == GUEST_CUDA_SUCCESS &&
        context != NULL && driver.capture_mode(&mode) == GUEST_CUDA_SUCCESS) {
        const int is_done =
            driver.host_register(lanes, GUEST_PAGE_BYTES,
                                 GUEST_CUDA_REGISTER_PORTABLE | GUEST_CUDA_REGISTER_DEVICEMAP) ==
                GUEST_CUDA_SUCCESS &&
            driver.host_address(&lanes_address, lanes, 0) == GUEST_CUDA_SUCCESS;

        (void)driver.capture_mode(&mode);
        registration = is_done ? REGISTERED : IMPOSSIBLE;
    }
    return registration == REGISTERED;
}

/* The stream's next work goes to the device, not into a graph. */
static int may_mark(void *stream)
{
    int status = GUEST_CUDA_CAPTURE_NONE;

    (void)pthread_once(&driver_once, find_driver);
    return has_driver && driver.stream_capture(stream, &status) == GUEST_CUDA_SUCCESS &&
           status == GUEST_CUDA_CAPTURE_NONE && is_registered();
}

/* word: one of a lane's. May wait until the stream has room. */
static int mark(void *stream, const uint64_t *word, uint64_t value)
{
    const size_t offset_bytes = (size_t)((const char *)word - (const char *)guest_lanes());

    return driver.stream_write(stream, lanes_address + offset_bytes, value,
                               GUEST_CUDA_WRITE_VALUE_DEFAULT) == GUEST_CUDA_SUCCESS;
}

/* The device has nothing more to say: the stream is past the launch, or its failure. */
static void mark_end(uint32_t lane, void *stream, uint64_t last)
{
    struct guest_lane *self = &guest_lanes()[lane - 1];

    if (!mark(stream, &self->ended, last)) {
        __atomic_store_n(&self->ended, last, __ATOMIC_RELEASE);
    }
}

/* Behind what NCCL has done in another thread, if anything. The lock is held. */
static void mark_owed(uint32_t lane)
{
    struct lane_state *state = &states[lane - 1];
    const uint64_t owed = state->owed;

    state->owed = 0;
    if (owed != 0) {
        mark_end(lane, state->stream, owed);
    }
}

/* Lanes of communicators that are gone, and that the device has left, are free. */
static void sweep(void)
{
    for (uint32_t i = 0; i < GUEST_LANES_MAX; i++) {
        const struct guest_lane *lane = &guest_lanes()[i];

        if (states[i].is_left &&
            __atomic_load_n(&lane->ended, __ATOMIC_ACQUIRE) == states[i].last) {
            memset(&states[i], 0, sizeof states[i]);
            guest_lane_give(i + 1);
        }
    }
}

/* Programs make streams and leave them: a lane whose stream has nothing to do is given to another
 * one, of the same communicator first. Returns 0 if there is none. */
static uint32_t take_idle(uint32_t comm, void *stream)
{
    uint32_t found = 0;

    for (uint32_t i = 0; i < GUEST_LANES_MAX; i++) {
        const struct guest_lane *lane = &guest_lanes()[i];

        if (states[i].comm != 0 && states[i].owed == 0 &&
            __atomic_load_n(&lane->ended, __ATOMIC_ACQUIRE) == states[i].last &&
            (found == 0 || states[i].comm == comm)) {
            found = i + 1;
        }
    }
    if (found != 0) {
        const uint64_t past = states[found - 1].comm == comm ? states[found - 1].last : 0;

        memset(&states[found - 1], 0, sizeof states[0]);
        guest_lane_give(found);
        found = guest_lane_take(comm, (uint64_t)(uintptr_t)stream, past);
    }
    return found;
}

static uint32_t find_lane(uint32_t comm, void *stream)
{
    uint32_t lane;

    for (uint32_t i = 0; i < GUEST_LANES_MAX; i++) {
        if (states[i].comm == comm && states[i].stream == stream && !states[i].is_left) {
            return i + 1;
        }
    }
    sweep();
    lane = guest_lane_take(comm, (uint64_t)(uintptr_t)stream, 0);
    lane = lane != 0 ? lane : take_idle(comm, stream);
    if (lane != 0) {
        states[lane - 1] = (struct lane_state){
            .comm = comm, .stream = stream, .last = guest_lanes()[lane - 1].ended};
    }
    return lane;
}

/* Streams are marked without the lock: while one is full the program's other threads may look for
 * errors, or give up what it is full of. */
void guest_nccl_launch_begin(struct guest_nccl_launch *launch)
{
    uint64_t before = 0;

    (void)pthread_mutex_lock(&lock);
    launch->lane = guest_lanes() != NULL && may_mark(launch->stream)
                       ? find_lane(launch->comm, launch->stream)
                       : 0;
    if (launch->lane != 0) {
        mark_owed(launch->lane);
        before = states[launch->lane - 1].last;
        states[launch->lane - 1].last = launch->last;
    }
    (void)pthread_mutex_unlock(&lock);
    guest_lane_launch(launch->comm, launch->first, launch->last, launch->lane);
    if (launch->lane != 0 &&
        !mark(launch->stream, &guest_lanes()[launch->lane - 1].begun, launch->last)) {
        guest_lane_launch(launch->comm, launch->first, launch->last, 0);
        (void)pthread_mutex_lock(&lock);
        states[launch->lane - 1].last = before;
        (void)pthread_mutex_unlock(&lock);
        launch->lane = 0;
    }
}

void guest_nccl_launch_end(const struct guest_nccl_launch *launch, int result)
{
    const int is_in_progress = result == GUEST_NCCL_IN_PROGRESS;

    if (result != GUEST_NCCL_SUCCESS && !is_in_progress) {
        guest_lane_launch(launch->comm, launch->first, launch->last, GUEST_LAUNCH_FAILED);
    }
    if (launch->lane == 0 || guest_lanes() == NULL) {
        return;
    }
    if (is_in_progress) {
        (void)pthread_mutex_lock(&lock);
        states[launch->lane - 1].owed = launch->last;
        (void)pthread_mutex_unlock(&lock);
    } else {
        mark_end(launch->lane, launch->stream, launch->last);
    }
}

void guest_nccl_launch_settle(uint32_t comm)
{
    (void)pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < GUEST_LANES_MAX && guest_lanes() != NULL; i++) {
        if (states[i].comm == comm) {
            mark_owed(i + 1);
        }
    }
    (void)pthread_mutex_unlock(&lock);
}

int guest_nccl_is_under_way(uint32_t comm)
{
    int is_any = 0;

    (void)pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < GUEST_LANES_MAX && guest_lanes() != NULL; i++) {
        is_any = is_any ||
                 (states[i].comm == comm &&
                  __atomic_load_n(&guest_lanes()[i].ended, __ATOMIC_ACQUIRE) != states[i].last);
    }
    (void)pthread_mutex_unlock(&lock);
    return is_any;
}

void guest_nccl_forget_lanes(uint32_t comm)
{
    (void)pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < GUEST_LANES_MAX && guest_lanes() != NULL; i++) {
        if (states[i].comm == comm) {
            mark_owed(i + 1);
            states[i].is_left = 1;
        }
    }
    (void)pthread_mutex_unlock(&lock);
}
