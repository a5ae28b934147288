/* A training program with collectives of its own, over sockets: linear regression on data that
 * every rank makes for itself. It is the example of how to show a program to ddprove - the lines
 * that do are those that name ddprove_guest - and what scenarios/guest runs.
 *
 * Usage: trainer [STEPS], with torchrun's variables. */
#include <arpa/inet.h>
#include <ddprove_guest.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { FEATURES = 64, BATCH = 16, BUCKETS = 2, RANKS_MAX = 64 };

static int rank, world_size;
static int peer[RANKS_MAX]; /* rank 0: sockets of the others; others: peer[0] is rank 0's */

static int number(const char *text)
{
    return text != NULL ? (int)strtol(text, NULL, 10) : 0;
}

static void fail(const char *what)
{
    (void)fprintf(stderr, "rank %d: %s: %s\n", rank, what, strerror(errno));
    exit(1);
}

static void move(int fd, void *data, size_t size_bytes, bool is_sending)
{
    for (size_t done = 0; done < size_bytes;) {
        ssize_t size = is_sending ? send(fd, (char *)data + done, size_bytes - done, MSG_NOSIGNAL)
                                  : recv(fd, (char *)data + done, size_bytes - done, 0);

        if (size <= 0) {
            fail(is_sending ? "send" : "recv");
        }
        done += (size_t)size;
    }
}

/* Rank 0 may not listen yet. */
static int connect_to_rank_0(const struct sockaddr_in *address)
{
    for (;;) {
        const int fd = socket(AF_INET, SOCK_STREAM, 0);

        if (connect(fd, (const struct sockaddr *)address, sizeof *address) == 0) {
            return fd;
        }
        if (errno != ECONNREFUSED) {
            fail("connect");
        }
        (void)close(fd);
        (void)poll(NULL, 0, 1);
    }
}

static void connect_all(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int one = 1;
    int listener;

    address.sin_port = htons((uint16_t)number(getenv("MASTER_PORT")));
    if (rank > 0) {
        peer[0] = connect_to_rank_0(&address);
        (void)setsockopt(peer[0], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        move(peer[0], &rank, sizeof rank, true);
        return;
    }
    listener = socket(AF_INET, SOCK_STREAM, 0);
    (void)setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(listener, RANKS_MAX) != 0) {
        fail("listen");
    }
    for (int i = 1; i < world_size; i++) {
        const int fd = accept(listener, NULL, NULL);
        int from = 0;

        move(fd, &from, sizeof from, false);
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        peer[from] = fd;
    }
    (void)close(listener);
}

/* The sum of all ranks' values, through rank 0. */
static void all_reduce(const float *in, float *out, size_t count)
{
    float other[FEATURES];

    if (rank > 0) {
        move(peer[0], (void *)(uintptr_t)in, count * sizeof *in, true);
        move(peer[0], out, count * sizeof *out, false);
        return;
    }
    memmove(out, in, count * sizeof *out);
    for (int r = 1; r < world_size; r++) {
        move(peer[r], other, count * sizeof *other, false);
        for (size_t i = 0; i < count; i++) {
            out[i] += other[i];
        }
    }
    for (int r = 1; r < world_size; r++) {
        move(peer[r], out, count * sizeof *out, true);
    }
}

/* The root's values for everybody, through rank 0. */
static void broadcast(float *values, size_t count, uint32_t root)
{
    if (rank > 0) {
        move(peer[0], values, count * sizeof *values, rank == (int)root);
    } else if (root > 0) {
        move(peer[root], values, count * sizeof *values, false);
    }
    for (int r = 1; rank == 0 && r < world_size; r++) {
        if (r != (int)root) {
            move(peer[r], values, count * sizeof *values, true);
        }
    }
}

/* One collective, shown to ddprove, which may change what it is about. */
static void reduce(uint32_t comm, uint32_t bucket, const float *in, float *out, size_t count)
{
    struct ddprove_guest_call call = {.size_bytes = sizeof call,
                                      .comm = comm,
                                      .kind = DDPROVE_GUEST_ALL_REDUCE,
                                      .dtype = DDPROVE_GUEST_F32,
                                      .redop = DDPROVE_GUEST_SUM,
                                      .elem_count = count,
                                      .bucket = bucket,
                                      .in = in,
                                      .out = out};

    for (int times = ddprove_guest_call_begin(&call); times > 0; times--) {
        all_reduce(call.in != NULL ? call.in : in, out, comm != 0 ? call.elem_count : count);
    }
    ddprove_guest_call_end(&call);
}

static void share(uint32_t comm, float *values, size_t count)
{
    struct ddprove_guest_call call = {.size_bytes = sizeof call,
                                      .comm = comm,
                                      .kind = DDPROVE_GUEST_BROADCAST,
                                      .dtype = DDPROVE_GUEST_F32,
                                      .elem_count = count,
                                      .in = values,
                                      .out = values};

    for (int times = ddprove_guest_call_begin(&call); times > 0; times--) {
        broadcast(values, call.elem_count, call.root);
    }
    ddprove_guest_call_end(&call);
}

/* The gradient of the mean squared error of a batch. Returns the error. */
static float backward(const float *weights, uint32_t *seed, float *gradient)
{
    float sum = 0;

    memset(gradient, 0, FEATURES * sizeof *gradient);
    for (int s = 0; s < BATCH; s++) {
        float x[FEATURES];
        float error = 0;

        for (int i = 0; i < FEATURES; i++) {
            *seed = *seed * 1664525u + 1013904223u;
            x[i] = (float)(*seed >> 9) / (float)(1 << 22) - 1;
            error += (weights[i] - (float)i / FEATURES) * x[i];
        }
        sum += error * error;
        for (int i = 0; i < FEATURES; i++) {
            gradient[i] += 2 * error * x[i] / BATCH;
        }
    }
    return sum / BATCH;
}

int main(int argc, char **argv)
{
    const int steps = argc > 1 ? number(argv[1]) : 10;
    float weights[FEATURES];
    float loss = 0;
    float mean = 0;
    uint32_t world, metrics;
    uint32_t seed;

    rank = number(getenv("RANK"));
    world_size = number(getenv("WORLD_SIZE"));
    seed = 17u * (uint32_t)rank + 1;
    (void)ddprove_guest_attach(rank, world_size);
    connect_all();
    world = ddprove_guest_comm_create(1, (uint32_t)rank, (uint32_t)world_size, "world");
    metrics = ddprove_guest_comm_create(2, (uint32_t)rank, (uint32_t)world_size, "metrics");
    for (int i = 0; i < FEATURES; i++) {
        weights[i] = (float)rank; /* until rank 0's arrive */
    }
    share(world, weights, FEATURES);
    for (int step = 0; step < steps; step++) {
        float gradient[FEATURES];
        float sum[FEATURES];

        ddprove_guest_step((uint64_t)step);
        ddprove_guest_phase(DDPROVE_GUEST_PHASE_BACKWARD);
        loss = backward(weights, &seed, gradient);
        ddprove_guest_phase(DDPROVE_GUEST_PHASE_REDUCE);
        for (uint32_t b = 0; b < BUCKETS; b++) {
            const size_t first = b * FEATURES / BUCKETS;

            reduce(world, b + 1, gradient + first, sum + first, FEATURES / BUCKETS);
        }
        ddprove_guest_phase(DDPROVE_GUEST_PHASE_OPTIMIZER);
        for (int i = 0; i < FEATURES; i++) {
            weights[i] -= 0.1F * sum[i] / (float)world_size;
        }
        reduce(metrics, 0, &loss, &mean, 1);
    }
    ddprove_guest_detach();
    if (rank == 0) {
        (void)printf("loss %.6f weights %.6f %.6f\n", (double)mean / world_size, (double)weights[1],
                     (double)weights[FEATURES - 1]);
    }
    return 0;
}
