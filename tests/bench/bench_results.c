/* What it costs a program that its results are judged: all-reduces of 1 MiB over sockets, through
 * rank 0 as in tests/guest/trainer.c, with the guest library around them; in turn the library
 * reports what the data come to, and does not. Prints both and their ratios.
 *
 *     bench_results [RANKS [ROUNDS]]
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "harness/guest/ddprove_guest.h"
#include "harness/watch/arena.h"

enum { RANKS_MAX = 16, ELEMS = 1 << 18, CALLS = 10, ROUNDS_MAX = 1000 };

static int peer[RANKS_MAX]; /* rank 0: sockets of the others; others: peer[0] is rank 0's */
static float other[ELEMS];

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

/* Over TCP, as the trainer's. */
static void connect_pair(int ends[2])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    const int one = 1;

    ends[1] = socket(AF_INET, SOCK_STREAM, 0);
    if (listener < 0 || ends[1] < 0 || bind(listener, (struct sockaddr *)&address, size) != 0 ||
        listen(listener, 1) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &size) != 0 ||
        connect(ends[1], (struct sockaddr *)&address, size) != 0) {
        fail("connect");
    }
    ends[0] = accept(listener, NULL, NULL);
    for (int i = 0; i < 2; i++) {
        (void)setsockopt(ends[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    }
    (void)close(listener);
}

static void move(int fd, void *data, size_t size_bytes, int is_sending)
{
    for (size_t done = 0; done < size_bytes;) {
        const ssize_t size = is_sending ? write(fd, (char *)data + done, size_bytes - done)
                                        : read(fd, (char *)data + done, size_bytes - done);

        if (size <= 0) {
            fail("socket");
        }
        done += (size_t)size;
    }
}

static void all_reduce(int rank, int ranks, float *values, size_t count)
{
    if (rank > 0) {
        move(peer[0], values, count * sizeof *values, 1);
        move(peer[0], values, count * sizeof *values, 0);
        return;
    }
    for (int r = 1; r < ranks; r++) {
        move(peer[r], other, count * sizeof *other, 0);
        for (size_t i = 0; i < count; i++) {
            values[i] += other[i];
        }
    }
    for (int r = 1; r < ranks; r++) {
        move(peer[r], values, count * sizeof *values, 1);
    }
}

static double now_s(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Seconds of one call in rank 0, when nobody reports (0) and when all do (1). */
static void be_rank(int rank, int ranks, int rounds, struct guest_arena *arena,
                    double seconds[2][ROUNDS_MAX])
{
    float *values = malloc(ELEMS * sizeof *values);
    float nothing = 0;
    uint32_t comm;

    if (values == NULL || ddprove_guest_attach(rank, ranks) == 0) {
        fail("attach");
    }
    comm = ddprove_guest_comm_create(1, (uint32_t)rank, (uint32_t)ranks, "world");
    for (int round = 0; round < 2 * rounds; round++) {
        double begin;

        for (size_t i = 0; i < ELEMS; i++) {
            values[i] = (float)(i % 1000) * 1e-9F * (float)(rank + 1);
        }
        all_reduce(rank, ranks, &nothing, 1);
        if (rank == 0) {
            arena->is_observed = round % 2 == 1;
        }
        all_reduce(rank, ranks, &nothing, 1);
        begin = now_s();
        for (int i = 0; i < CALLS; i++) {
            struct ddprove_guest_call call = {.size_bytes = sizeof call,
                                              .comm = comm,
                                              .kind = DDPROVE_GUEST_ALL_REDUCE,
                                              .dtype = DDPROVE_GUEST_F32,
                                              .redop = DDPROVE_GUEST_SUM,
                                              .elem_count = ELEMS,
                                              .in = values,
                                              .out = values};

            (void)ddprove_guest_call_begin(&call);
            all_reduce(rank, ranks, values, ELEMS);
            ddprove_guest_call_end(&call);
        }
        all_reduce(rank, ranks, &nothing, 1);
        seconds[round % 2][round / 2] = (now_s() - begin) / CALLS;
    }
    free(values);
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;

    return (x > y) - (x < y);
}

static void print(int ranks, int rounds, double seconds[2][ROUNDS_MAX])
{
    double without;
    double with;

    qsort(seconds[0], (size_t)rounds, sizeof(double), compare);
    qsort(seconds[1], (size_t)rounds, sizeof(double), compare);
    without = seconds[0][rounds / 2];
    with = seconds[1][rounds / 2];
    (void)printf(
        "all-reduce of 1 MiB over sockets, %d ranks, %d rounds of %d: best %.0f us, with results "
        "judged %.0f us: %.3f times as long; median %.0f us, %.0f us: %.3f times\n",
        ranks, rounds, CALLS, seconds[0][0] * 1e6, seconds[1][0] * 1e6,
        seconds[1][0] / seconds[0][0], without * 1e6, with * 1e6, with / without);
}

int main(int argc, char **argv)
{
    static double seconds[2][ROUNDS_MAX];
    const int ranks = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 4;
    const int rounds = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 20;
    struct harness_watch_arena arena;
    struct ddp_err err = {{0}};
    pid_t pids[RANKS_MAX] = {0};
    int ends[RANKS_MAX][2];
    int status = 0;

    if (ranks < 2 || ranks > RANKS_MAX || rounds < 1 || rounds > ROUNDS_MAX ||
        harness_watch_arena_create((uint32_t)ranks, 1 << 12, &arena, &err) != DDP_OK) {
        (void)fprintf(stderr, "usage: bench_results [RANKS 2..%d [ROUNDS]] %s\n", RANKS_MAX,
                      err.text);
        return 1;
    }
    (void)setenv(GUEST_ARENA_VARIABLE, arena.where, 1);
    for (int r = 1; r < ranks; r++) {
        connect_pair(ends[r]);
    }
    for (int r = 1; r < ranks; r++) {
        pids[r] = fork();
        if (pids[r] == 0) {
            peer[0] = ends[r][1];
            be_rank(r, ranks, rounds, arena.head, seconds);
            _exit(0);
        }
        (void)close(ends[r][1]);
        peer[r] = ends[r][0];
    }
    be_rank(0, ranks, rounds, arena.head, seconds);
    for (int r = 1; r < ranks; r++) {
        int one = 1;

        (void)waitpid(pids[r], &one, 0);
        status = one != 0 ? 1 : status;
    }
    print(ranks, rounds, seconds);
    harness_watch_arena_destroy(&arena);
    return status;
}
