/* NCCL programs of other forms than nccl_program: groups around everything, messages alone, ranks
 * that have more communicators than others. All are correct; RANK may hang in one.
 *
 * Usage: nccl_forms FOLDER FORM [RANK]; FOLDER, empty, is where ranks find each other. Forms:
 * group: the first call of all opens a group; a rank that hangs does before it.
 * ring: messages in a ring, and nothing else; a rank that hangs never sends.
 * crowd: one rank has more communicators than can be shown; a rank that hangs does later.
 * pairs: two ranks have more pairs than can be shown, for a while.
 * crowded: the ring, where one rank cannot show its messages.
 * shrink: the crowd, without its last rank.
 * fresh: a stream for each call; a rank that hangs does when there were many.
 * full: ranks wait for room on their streams, and the last one for threads of theirs that look for
 * errors (DDP_STANDIN_QUEUE).
 * parts: rank 0 drives two ranks of a communicator, and rank 1 waits for them for a while.
 * again: a second communicator of the same id, while the first one lives (the script id=again); a
 * rank that hangs does between calls of the second one.
 * floats: sums of floats of 8 bits; a rank that "hangs" gathers those of the other sort.
 * simulated: rank 0 asks how long a sum would take that nobody makes; a rank that hangs does before
 * a sum in another communicator. ended, ended_later: all give their communicator back, whose end
 * does not come before that of the others (the script finalize=hang); a rank that hangs does before
 * it. streams: two communicators on two streams, which rank 1 takes in the other order. */
#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/standin/nccl/functions.h"

enum { COUNT = 64, STEPS = 20, CROWD = 66, PAIRED = 12 };

static const char *folder;
static int rank, size, hanging = -1;
static float *memory;
static cudaStream_t stream, other, fresh_streams[5 * STEPS];

#define TRY(call) check(call, __LINE__)

static void check(int result, int line)
{
    if (result != STANDIN_SUCCESS) {
        (void)fprintf(stderr, "rank %d, line %d: error %d\n", rank, line, result);
        exit(1);
    }
}

static void hang(void)
{
    if (rank == hanging) {
        (void)pause();
    }
}

/* The first of some ranks gives the id to the others through a pipe each. */
static struct standin_id share_id(const char *name, int first, int end, int apart)
{
    struct standin_id id;
    char path[512];
    int fd;

    if (rank == first) {
        TRY(ncclGetUniqueId(&id));
    }
    for (int r = first + apart; r < end; r += apart) {
        if (rank != first && rank != r) {
            continue;
        }
        (void)snprintf(path, sizeof path, "%s/%s.%d", folder, name, r);
        (void)mkfifo(path, 0600);
        fd = open(path, rank == first ? O_WRONLY : O_RDONLY);
        if (fd < 0 || (rank == first ? write(fd, &id, sizeof id) : read(fd, &id, sizeof id)) !=
                          (ssize_t)sizeof id) {
            exit(1);
        }
        (void)close(fd);
    }
    return id;
}

static struct standin_comm *make_comm(const char *name)
{
    struct standin_comm *comm = NULL;

    TRY(ncclCommInitRank(&comm, size, share_id(name, 0, size, 1), rank));
    return comm;
}

static void sum(struct standin_comm *comm, cudaStream_t on)
{
    TRY(ncclAllReduce(memory, memory, COUNT, STANDIN_FLOAT32, STANDIN_SUM, comm, on));
}

static void run_group(void)
{
    const struct standin_id id = share_id("world", 0, size, 1);
    struct standin_comm *world = NULL;

    hang();
    TRY(ncclGroupStart());
    TRY(ncclCommInitRank(&world, size, id, rank));
    TRY(ncclGroupEnd());
    for (int step = 0; step < STEPS; step++) {
        sum(world, stream);
        TRY(cudaStreamSynchronize(stream));
    }
    TRY(ncclCommDestroy(world));
}

static void pass_around(struct standin_comm *comm)
{
    hang();
    for (int step = 0; step < STEPS; step++) {
        TRY(ncclGroupStart());
        TRY(ncclSend(memory, COUNT, STANDIN_FLOAT32, (rank + 1) % size, comm, stream));
        TRY(ncclRecv(memory + COUNT, COUNT, STANDIN_FLOAT32, (rank + size - 1) % size, comm,
                     stream));
        TRY(ncclGroupEnd());
        TRY(cudaStreamSynchronize(stream));
    }
}

static void run_ring(void)
{
    struct standin_comm *world = make_comm("world");

    pass_around(world);
    TRY(ncclCommDestroy(world));
}

static struct standin_comm *make_crowd(void)
{
    struct standin_comm *world = make_comm("world");

    for (int i = 0; i < CROWD; i++) {
        struct standin_comm *own = NULL;

        TRY(ncclCommSplit(world, rank == 0 ? 0 : STANDIN_NO_COLOR, rank, &own, NULL));
    }
    return world;
}

static void run_crowded(void)
{
    pass_around(make_crowd());
}

static void run_crowd(void)
{
    struct standin_comm *late;

    (void)make_crowd();
    late = make_comm("late");
    for (int step = 0; step < STEPS; step++) {
        if (step == STEPS / 2) {
            hang();
        }
        sum(late, stream);
        TRY(cudaStreamSynchronize(stream));
    }
}

static void run_shrink(void)
{
    struct standin_comm *late;
    struct standin_comm *left = NULL;
    int last = size - 1;

    (void)make_crowd();
    late = make_comm("late");
    sum(late, stream);
    TRY(cudaStreamSynchronize(stream));
    if (rank != last) {
        TRY(ncclCommShrink(late, &last, 1, &left, NULL, 0));
        sum(left, stream);
        TRY(cudaStreamSynchronize(stream));
    }
}

/* A message from the first rank of a communicator to its second. */
static void pass(struct standin_comm *comm, int self, size_t count)
{
    if (self == 0) {
        TRY(ncclSend(memory, count, STANDIN_FLOAT32, 1, comm, stream));
    } else {
        TRY(ncclRecv(memory, count, STANDIN_FLOAT32, 0, comm, stream));
    }
    TRY(cudaStreamSynchronize(stream));
}

/* Ranks 0 and 2 have many pairs when 0 and 1 make theirs. */
static void run_pairs(void)
{
    struct standin_comm *many[2 * PAIRED] = {NULL};
    struct standin_comm *two = NULL;

    for (int i = 0; rank != 1 && i < 2 * PAIRED; i++) {
        char name[16];

        (void)snprintf(name, sizeof name, "many%d", i);
        TRY(ncclCommInitRank(&many[i], 2, share_id(name, 0, 3, 2), rank / 2));
        pass(many[i], rank / 2, 8);
    }
    if (rank != 2) {
        TRY(ncclCommInitRank(&two, 2, share_id("two", 0, 2, 1), rank));
        pass(two, rank, 8);
    }
    for (int i = 0; rank != 1 && i < 2 * PAIRED; i++) {
        TRY(ncclCommDestroy(many[i]));
    }
    for (int step = 0; rank != 2 && step < STEPS; step++) {
        pass(two, rank, 16);
    }
}

static void run_streams(void)
{
    struct standin_comm *world = make_comm("world");
    struct standin_comm *copy = make_comm("copy");

    /* For their first calls ranks connect, and a thread waits for that. */
    sum(world, stream);
    sum(copy, stream);
    TRY(cudaStreamSynchronize(stream));
    for (int step = 0; step < STEPS; step++) {
        sum(rank == 1 ? copy : world, rank == 1 ? other : stream);
        sum(rank == 1 ? world : copy, rank == 1 ? stream : other);
        TRY(cudaStreamSynchronize(stream));
        TRY(cudaStreamSynchronize(other));
    }
}

static void run_fresh(void)
{
    struct standin_comm *world = make_comm("world");

    for (int step = 0; step < 5 * STEPS; step++) {
        cudaStream_t fresh;

        if (step == 4 * STEPS) {
            hang();
        }
        TRY(cudaStreamCreateWithFlags(&fresh, cudaStreamNonBlocking));
        sum(world, fresh);
        TRY(cudaStreamSynchronize(fresh));
        fresh_streams[step] = fresh; /* so that each has an address of its own */
    }
    for (int step = 0; step < 5 * STEPS; step++) {
        TRY(cudaStreamDestroy(fresh_streams[step]));
    }
}

static void run_parts(void)
{
    const struct standin_id id = share_id("world", 0, size, 1);
    const int count = rank == 0 ? 2 : 1;
    const cudaStream_t on[] = {stream, other};
    struct standin_comm *parts[2] = {NULL, NULL};

    TRY(ncclGroupStart());
    for (int i = 0; i < count; i++) {
        TRY(ncclCommInitRank(&parts[i], size + 1, id, rank == 0 ? i : rank + 1));
    }
    TRY(ncclGroupEnd());
    for (int step = 0; step < STEPS; step++) {
        if (rank == 0 && step == STEPS / 2) {
            (void)poll(NULL, 0, 500);
        }
        TRY(ncclGroupStart());
        for (int i = 0; i < count; i++) {
            sum(parts[i], on[i]);
        }
        TRY(ncclGroupEnd());
        for (int i = 0; i < count; i++) {
            TRY(cudaStreamSynchronize(on[i]));
        }
    }
}

static void run_again(void)
{
    const struct standin_id id = share_id("world", 0, size, 1);
    struct standin_comm *two[2] = {NULL, NULL};

    for (int i = 0; i < 2; i++) {
        TRY(ncclCommInitRank(&two[i], size, id, rank));
    }
    for (int step = 0; step < STEPS; step++) {
        if (step == STEPS / 2) {
            hang();
        }
        sum(two[1], stream);
        TRY(cudaStreamSynchronize(stream));
        if (step < STEPS / 4) {
            sum(two[0], stream);
        }
    }
    TRY(ncclCommDestroy(two[1]));
    TRY(ncclCommDestroy(two[0]));
}

static void run_simulated(void)
{
    struct standin_comm *world = make_comm("world");
    struct standin_comm *copy = make_comm("copy");

    for (int step = 0; step < STEPS; step++) {
        sum(world, stream);
        if (rank == 0 && step == STEPS / 2) {
            TRY(ncclGroupStart());
            TRY(ncclAllReduce(memory, memory, 2, STANDIN_FLOAT32, STANDIN_SUM, world, stream));
            TRY(ncclGroupSimulateEnd(NULL));
        }
        if (step == STEPS - 2) {
            hang();
        }
        sum(copy, stream);
        TRY(cudaStreamSynchronize(stream));
    }
}

static void run_floats(void)
{
    struct standin_comm *world = make_comm("world");

    for (int step = 0; step < STEPS; step++) {
        const bool is_other = rank == hanging && step == STEPS / 2;

        TRY(ncclAllGather(memory, memory + COUNT, 4,
                          is_other ? STANDIN_FLOAT8_E5M2 : STANDIN_FLOAT8_E4M3, world, stream));
        TRY(cudaStreamSynchronize(stream));
    }
}

/* Wait for what NCCL does in another thread. */
static void settle(struct standin_comm *comm)
{
    int error = STANDIN_IN_PROGRESS;

    while (error == STANDIN_IN_PROGRESS) {
        TRY(ncclCommGetAsyncError(comm, &error));
        (void)poll(NULL, 0, 1);
    }
    TRY(error);
}

static void end_world(bool is_later)
{
    const struct standin_id id = share_id("world", 0, size, 1);
    struct standin_config config = {.size = offsetof(struct standin_config, cga_cluster_size),
                                    .magic = STANDIN_CONFIG_MAGIC,
                                    .version = 22800,
                                    .blocking = !is_later};
    struct standin_comm *world = NULL;
    int result;

    result = ncclCommInitRankConfig(&world, size, id, rank, &config);
    TRY(result == STANDIN_IN_PROGRESS ? STANDIN_SUCCESS : result);
    settle(world);
    for (int step = 0; step < STEPS; step++) {
        result = ncclAllReduce(memory, memory, COUNT, STANDIN_FLOAT32, STANDIN_SUM, world, stream);
        TRY(result == STANDIN_IN_PROGRESS ? STANDIN_SUCCESS : result);
        settle(world);
        TRY(cudaStreamSynchronize(stream));
    }
    hang();
    result = ncclCommFinalize(world);
    TRY(result == STANDIN_IN_PROGRESS ? STANDIN_SUCCESS : result);
    settle(world);
    TRY(ncclCommDestroy(world));
}

static void run_ended(void)
{
    end_world(false);
}

static void run_ended_later(void)
{
    end_world(true);
}

static atomic_int posted;

/* Looks for errors once the program's own thread has not got on for a while; then the last rank may
 * go on. */
static void *look(void *comm)
{
    char path[512];
    int before = -1;
    int error = STANDIN_SUCCESS;
    int fd;

    (void)snprintf(path, sizeof path, "%s/full.%d", folder, rank);
    fd = open(path, O_WRONLY);
    while (before != atomic_load(&posted)) {
        before = atomic_load(&posted);
        (void)poll(NULL, 0, 100);
    }
    TRY(ncclCommGetAsyncError(comm, &error));
    TRY(error);
    return write(fd, "", 1) == 1 ? NULL : comm;
}

static void run_full(void)
{
    struct standin_comm *world = make_comm("world");
    pthread_t thread;
    char path[512];

    for (int r = 0; r + 1 < size; r++) {
        (void)snprintf(path, sizeof path, "%s/full.%d", folder, r);
        (void)mkfifo(path, 0600);
    }
    sum(world, stream);
    TRY(cudaStreamSynchronize(stream));
    for (int r = 0; rank + 1 == size && r + 1 < size; r++) {
        char byte;
        int fd;

        (void)snprintf(path, sizeof path, "%s/full.%d", folder, r);
        fd = open(path, O_RDONLY);
        TRY(read(fd, &byte, 1) != 1);
    }
    TRY(rank + 1 < size && pthread_create(&thread, NULL, look, world) != 0);
    for (int i = 0; i < 10 * STEPS; i++) {
        sum(world, stream);
        atomic_fetch_add(&posted, 1);
    }
    TRY(rank + 1 < size && pthread_join(thread, NULL) != 0);
    TRY(cudaStreamSynchronize(stream));
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } forms[] = {{"group", run_group},        {"ring", run_ring},
                 {"crowd", run_crowd},        {"pairs", run_pairs},
                 {"shrink", run_shrink},      {"crowded", run_crowded},
                 {"full", run_full},          {"fresh", run_fresh},
                 {"parts", run_parts},        {"streams", run_streams},
                 {"again", run_again},        {"floats", run_floats},
                 {"ended", run_ended},        {"ended_later", run_ended_later},
                 {"simulated", run_simulated}};
    char host[32];

    rank = (int)strtol(getenv("RANK"), NULL, 10);
    size = (int)strtol(getenv("WORLD_SIZE"), NULL, 10);
    folder = argv[1];
    hanging = argc > 3 ? (int)strtol(argv[3], NULL, 10) : -1;
    /* The ranks have one card, which NCCL refuses on one host. */
    (void)snprintf(host, sizeof host, "host-%d", rank);
    (void)setenv("NCCL_HOSTID", host, 1);
    TRY(cudaSetDevice(0));
    TRY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    TRY(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    TRY(cudaMalloc((void **)&memory, 2 * COUNT * sizeof *memory));
    TRY(cudaMemsetAsync(memory, 0, 2 * COUNT * sizeof *memory, stream));
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        if (strcmp(argv[2], forms[i].name) == 0) {
            forms[i].run();
            return 0;
        }
    }
    return 2;
}
