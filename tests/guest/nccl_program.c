/* An NCCL program that knows nothing of ddprove: three communicators and messages, in groups and
 * alone, on one stream. What goes wrong in it is asked for on the command line. It takes no NCCL or
 * CUDA header: declarations are those of the stand-ins.
 *
 * Usage: nccl_program FOLDER [FAULT RANK STEP]; FOLDER, empty, is where ranks find each other.
 * In the environment: NCCL_PROGRAM_ASYNC=1, calls do not block, and a rank looks for errors while
 * it waits. */
#include <cuda_runtime_api.h>
#include <ddp_standin.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/standin/nccl/functions.h"

enum { COUNT = 256, STEPS = 60, LATE = 10 };

static const char *folder, *fault = "";
static int fault_rank = -1, fault_step = -1;
static int rank, size;
static float *memory;
static cudaStream_t stream;
static struct standin_comm *world, *half, *copy;
static bool is_async;

#define TRY(call) check(call, __LINE__)

/* What was asked for goes on in another thread until no communicator says so any more. */
static int finish(void)
{
    struct standin_comm *const all[] = {world, half, copy};
    int result = STANDIN_SUCCESS;

    for (size_t i = 0; i < 3; i++) {
        int error = STANDIN_IN_PROGRESS;

        while (all[i] != NULL && error == STANDIN_IN_PROGRESS) {
            if (ncclCommGetAsyncError(all[i], &error) != STANDIN_SUCCESS) {
                return -1;
            }
            (void)sched_yield();
        }
        result = all[i] != NULL && error != STANDIN_SUCCESS ? error : result;
    }
    return result;
}

static void check(int result, int line)
{
    if (result == STANDIN_IN_PROGRESS && is_async) {
        result = finish();
    }
    if (result != STANDIN_SUCCESS) {
        (void)fprintf(stderr, "rank %d, line %d: error %d\n", rank, line, result);
        exit(1);
    }
}

/* Wait for the stream; an error of a communicator ends them all. */
static void await_stream(void)
{
    struct standin_comm *const all[] = {world, half, copy};
    cudaEvent_t event;

    if (!is_async) {
        TRY(cudaStreamSynchronize(stream));
        return;
    }
    TRY(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    TRY(cudaEventRecord(event, stream));
    while (cudaEventQuery(event) == cudaErrorNotReady) {
        if (finish() != STANDIN_SUCCESS) {
            /* Together, since work of one may stand behind that of another. */
            (void)ncclGroupStart();
            for (size_t i = 0; i < 3; i++) {
                (void)ncclCommAbort(all[i]);
            }
            (void)ncclGroupEnd();
            exit(1);
        }
        (void)sched_yield();
    }
    TRY(cudaEventDestroy(event));
}

static bool is_now(const char *name, int step)
{
    return rank == fault_rank && step == fault_step && strcmp(fault, name) == 0;
}

static bool is_fault(const char *name)
{
    return strcmp(fault, name) == 0;
}

/* Rank 0 gives the id to all others through a pipe each; opening it waits for both ends. */
static struct standin_id share_id(const char *name)
{
    struct standin_id id;
    char path[512];
    int fd;

    if (rank == 0) {
        TRY(ncclGetUniqueId(&id));
    }
    for (int r = 1; r < size; r++) {
        if (rank != 0 && rank != r) {
            continue;
        }
        (void)snprintf(path, sizeof path, "%s/%s.%d", folder, name, r);
        (void)mkfifo(path, 0600);
        fd = open(path, rank == 0 ? O_WRONLY : O_RDONLY);
        if (fd < 0 || (rank == 0 ? write(fd, &id, sizeof id) : read(fd, &id, sizeof id)) !=
                          (ssize_t)sizeof id) {
            exit(1);
        }
        (void)close(fd);
    }
    return id;
}

static void make_comm(const char *name, struct standin_comm **out)
{
    const struct standin_id id = share_id(name);
    struct standin_config config = {.size = offsetof(struct standin_config, cga_cluster_size),
                                    .magic = STANDIN_CONFIG_MAGIC,
                                    .version = 21400,
                                    .blocking = 0};

    if (is_fault("absent") && rank == fault_rank) {
        (void)pause();
    }
    if (is_async) {
        TRY(ncclCommInitRankConfig(out, size, id, rank, &config));
    } else {
        TRY(ncclCommInitRank(out, size, id, rank));
    }
}

/* One process with two ranks of a communicator: nobody can say which of them is the job's. */
static void be_two(void)
{
    struct standin_comm *both[2] = {NULL, NULL};
    cudaStream_t streams[2] = {stream, NULL};
    struct standin_id id;

    TRY(cudaStreamCreateWithFlags(&streams[1], cudaStreamNonBlocking));
    TRY(ncclGetUniqueId(&id));
    TRY(ncclGroupStart());
    for (int r = 0; r < 2; r++) {
        TRY(ncclCommInitRank(&both[r], 2, id, r));
    }
    TRY(ncclGroupEnd());
    for (int i = 0; i < 10; i++) {
        TRY(ncclGroupStart());
        for (int r = 0; r < 2; r++) {
            TRY(ncclAllReduce(memory, memory, 8, STANDIN_FLOAT32, STANDIN_SUM, both[r],
                              streams[r]));
        }
        TRY(ncclGroupEnd());
        TRY(cudaStreamSynchronize(streams[0]));
        TRY(cudaStreamSynchronize(streams[1]));
    }
    exit(0);
}

static void die(int step)
{
    if (is_now("kill", step)) {
        (void)raise(SIGKILL);
    }
    if (is_now("stop", step)) {
        (void)raise(SIGSTOP);
    }
    if (is_now("hang", step)) {
        (void)pause();
    }
    if (is_now("leave", step)) {
        _exit(0);
    }
}

static void sum(struct standin_comm *comm, size_t count, int op)
{
    TRY(ncclAllReduce(memory, memory, count, STANDIN_FLOAT32, op, comm, stream));
}

/* A ring of messages, each rank to the next one. */
static void pass_on(int step)
{
    TRY(ncclGroupStart());
    TRY(ncclSend(memory, is_now("short", step) ? 8 : 16, STANDIN_FLOAT32, (rank + 1) % size, world,
                 stream));
    TRY(ncclRecv(memory + COUNT, 16, STANDIN_FLOAT32, (rank + size - 1) % size, world, stream));
    TRY(ncclGroupEnd());
}

/* Rank 1 takes two communicators in another order than the others, and nobody waits between. */
static void cross(void)
{
    sum(rank == 1 ? copy : world, 8, STANDIN_SUM);
    sum(rank == 1 ? world : copy, 8, STANDIN_SUM);
}

static void train(int step)
{
    const bool is_captured = is_fault("capture") && step > LATE;

    die(step);
    if (is_captured) {
        ddp_standin_stream_capture(stream, true);
    }
    if (is_fault("kinds")) {
        TRY(ncclBroadcast(memory, memory, 16, STANDIN_FLOAT32, 0, world, stream));
        sum(world, 8, STANDIN_SUM);
    }
    if (!is_now("skip", step)) {
        sum(world, is_now("count", step) ? COUNT / 2 : COUNT,
            is_now("max", step) ? STANDIN_MAX : STANDIN_SUM);
    }
    TRY(ncclGroupStart());
    sum(half, COUNT / 4, STANDIN_SUM);
    if (is_now("inside", step)) {
        (void)pause();
    }
    TRY(ncclBroadcast(memory, memory, 16, STANDIN_FLOAT32, is_now("root", step) ? 1 : 0, copy,
                      stream));
    TRY(ncclGroupEnd());
    pass_on(step);
    if (is_fault("cross") && step == fault_step) {
        cross();
    }
    await_stream();
    ddp_standin_stream_capture(stream, false);
}

static void begin(void)
{
    char host[32];

    /* The ranks have one card, which NCCL refuses on one host. */
    (void)snprintf(host, sizeof host, "host-%d", rank);
    (void)setenv("NCCL_HOSTID", host, 1);
    TRY(cudaSetDevice(0));
    TRY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    TRY(cudaMalloc((void **)&memory, 2 * COUNT * sizeof *memory));
    TRY(cudaMemsetAsync(memory, 0, 2 * COUNT * sizeof *memory, stream));
    if (is_fault("two")) {
        be_two();
    }
    make_comm("world", &world);
    TRY(ncclCommSplit(world, rank % 2, rank, &half, NULL));
    make_comm("copy", &copy);
}

int main(int argc, char **argv)
{
    struct ddp_standin_report report;

    rank = (int)strtol(getenv("RANK"), NULL, 10);
    size = (int)strtol(getenv("WORLD_SIZE"), NULL, 10);
    folder = argv[1];
    is_async = getenv("NCCL_PROGRAM_ASYNC") != NULL;
    if (argc > 4) {
        fault = argv[2];
        fault_rank = (int)strtol(argv[3], NULL, 10);
        fault_step = (int)strtol(argv[4], NULL, 10);
    }
    begin();
    for (int step = 0; step < STEPS; step++) {
        train(step);
    }
    TRY(ncclCommDestroy(half));
    TRY(ncclCommDestroy(copy));
    TRY(ncclCommDestroy(world));
    ddp_standin_report_get(&report);
    return report.captured_count == 0 ? 0 : 4;
}
