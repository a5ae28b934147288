/* Calls the profiler's plug-in as NCCL does: a communicator, collectives that go to the device, and
 * channels of their kernels that run. Ranks meet in a file of counters in place of a card.
 *
 * Usage: nccl_profiler_program PLUGIN VERSION FOLDER [FAULT RANK STEP] */
#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "harness/guest/nccl/profiler.h"

enum { STEPS = 40, CHANNELS = 2, KEY = 77 };

static int rank, size;
static const struct guest_profiler_v4 *v4;
static const struct guest_profiler_v5 *v5;
static void *context;
static atomic_uint *arrived; /* ranks that have come to each step's call */

static void fail(const char *what)
{
    (void)fprintf(stderr, "rank %d: %s\n", rank, what);
    exit(1);
}

static void open_plugin(const char *path, const char *version)
{
    char name[32];
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *found;

    (void)snprintf(name, sizeof name, "ncclProfiler_v%s", version);
    found = library != NULL ? dlsym(library, name) : NULL;
    if (found == NULL) {
        fail(dlerror());
    }
    v4 = strcmp(version, "4") == 0 ? found : NULL;
    v5 = v4 == NULL ? found : NULL;
}

static void init(void)
{
    int mask = 0;
    const int result = v4 != NULL ? v4->init(&context, &mask, NULL, KEY, 1, size, rank, NULL)
                                  : v5->init(&context, KEY, &mask, NULL, 1, size, rank, NULL);

    if (result != 0 || mask != (GUEST_PROFILE_COLL | GUEST_PROFILE_KERNEL_CH)) {
        fail("init");
    }
}

static void *start(const struct guest_profile_event *event)
{
    void *handle = NULL;

    if ((v4 != NULL ? v4->start : v5->start)(context, &handle, event) != 0) {
        fail("start");
    }
    return handle;
}

static void stop(void *handle)
{
    if ((v4 != NULL ? v4->stop : v5->stop)(handle) != 0) {
        fail("stop");
    }
}

/* The kernel's channels start, all ranks come, the channels end. */
static void run_kernel(void *call, int step)
{
    const struct guest_profile_event event = {.type = GUEST_PROFILE_KERNEL_CH, .parent = call};
    void *channel[CHANNELS];

    for (int i = 0; i < CHANNELS; i++) {
        channel[i] = start(&event);
    }
    atomic_fetch_add(&arrived[step], 1);
    while (atomic_load(&arrived[step]) < (unsigned)size) {
        (void)sched_yield();
    }
    for (int i = 0; i < CHANNELS; i++) {
        stop(channel[i]);
    }
}

static void train(const char *fault, int step)
{
    struct guest_profile_event event = {
        .type = GUEST_PROFILE_COLL,
        .rank = rank,
        .coll = {
            .func = "AllReduce", .count = 64, .type = "ncclFloat32", .channel_count = CHANNELS}};
    const struct guest_profile_event group = {.type = 1};
    void *call;

    if (strcmp(fault, "kill") == 0) {
        (void)raise(SIGKILL);
    } else if (strcmp(fault, "hang") == 0) {
        (void)pause();
    } else if (strcmp(fault, "count") == 0) {
        event.coll.count = 32;
    }
    if (start(&group) != NULL) { /* of kinds that were not asked for */
        fail("group");
    }
    call = start(&event);
    stop(call); /* it is enqueued */
    run_kernel(call, step);
}

int main(int argc, char **argv)
{
    char path[512];
    int fd;

    rank = (int)strtol(getenv("RANK"), NULL, 10);
    size = (int)strtol(getenv("WORLD_SIZE"), NULL, 10);
    (void)snprintf(path, sizeof path, "%s/arrived", argv[3]);
    fd = open(path, O_RDWR | O_CREAT, 0600);
    if (fd < 0 || ftruncate(fd, STEPS * sizeof *arrived) != 0) {
        fail(path);
    }
    arrived = mmap(NULL, STEPS * sizeof *arrived, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    open_plugin(argv[1], argv[2]);
    init();
    for (int step = 0; step < STEPS; step++) {
        const bool is_now = argc > 6 && rank == (int)strtol(argv[5], NULL, 10) &&
                            step == (int)strtol(argv[6], NULL, 10);

        train(is_now ? argv[4] : "", step);
    }
    return (v4 != NULL ? v4->finalize : v5->finalize)(context);
}
