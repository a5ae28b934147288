/* A training program with an all-reduce of its own over sockets, shown to ddprove by the guest
 * library: linear regression on data that every rank makes for itself. It is the example of how to
 * instrument a program, and the test of `ddprove exec`: what goes wrong in it is asked for on the
 * command line.
 *
 * Usage: trainer [STEPS [FAULT RANK STEP]], with torchrun's variables. */
#include <arpa/inet.h>
#include <ddprove_guest.h>
#include <errno.h>
#include <math.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
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

static void connect_all(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int one = 1;
    int listener;

    address.sin_port = htons((uint16_t)number(getenv("MASTER_PORT")));
    if (rank > 0) {
        peer[0] = socket(AF_INET, SOCK_STREAM, 0);
        while (connect(peer[0], (struct sockaddr *)&address, sizeof address) != 0) {
            const struct timespec wait = {0, 1000000};

            if (errno != ECONNREFUSED) {
                fail("connect");
            }
            (void)nanosleep(&wait, NULL);
            (void)close(peer[0]);
            peer[0] = socket(AF_INET, SOCK_STREAM, 0);
        }
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
        int fd = accept(listener, NULL, NULL);
        int from = 0;

        move(fd, &from, sizeof from, false);
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        peer[from] = fd;
    }
    (void)close(listener);
}

/* The sum of all ranks' values, through rank 0. forgotten: whom it leaves out; -1: nobody. */
static void all_reduce(float *values, size_t count, int forgotten)
{
    float other[FEATURES];

    if (rank > 0) {
        move(peer[0], values, count * sizeof *values, true);
        move(peer[0], values, count * sizeof *values, false);
        return;
    }
    for (int r = 1; r < world_size; r++) {
        move(peer[r], other, count * sizeof *other, false);
        for (size_t i = 0; i < count && r != forgotten; i++) {
            values[i] += other[i];
        }
    }
    for (int r = 1; r < world_size; r++) {
        move(peer[r], values, count * sizeof *values, true);
    }
}

/* What a rank puts in may lie apart from what it gets. */
static float apart[FEATURES / BUCKETS];

static const float *input_of(const char *fault, const float *part)
{
    memcpy(apart, part, sizeof apart);
    return strcmp(fault, "memory") == 0 ? apart : part;
}

/* What a rank puts in is damaged on its way. */
static void damage(const char *fault, float *values, size_t count)
{
    uint32_t bits;

    if (strcmp(fault, "zero") == 0) {
        memset(values, 0, count * sizeof *values);
    } else if (strcmp(fault, "double") == 0 || strcmp(fault, "scale") == 0) {
        for (size_t i = 0; i < count; i++) {
            values[i] *= fault[0] == 'd' ? 2.0F : 0.3F;
        }
    } else if (strcmp(fault, "flip") == 0 || strcmp(fault, "memory") == 0) {
        memcpy(&bits, &values[5], sizeof bits);
        bits ^= 1u << 25;
        memcpy(&values[5], &bits, sizeof bits);
        apart[5] = values[5];
    }
}

/* The gradient of the mean squared error of a batch. */
static void backward(const float *weights, uint32_t *seed, float *gradient)
{
    memset(gradient, 0, FEATURES * sizeof *gradient);
    for (int s = 0; s < BATCH; s++) {
        float x[FEATURES];
        float error = 0;

        for (int i = 0; i < FEATURES; i++) {
            *seed = *seed * 1664525u + 1013904223u;
            x[i] = (float)(*seed >> 9) / (float)(1 << 22) - 1;
            error += (weights[i] - (float)i / FEATURES) * x[i];
        }
        for (int i = 0; i < FEATURES; i++) {
            gradient[i] += 2 * error * x[i] / BATCH;
        }
    }
}

/* The rank does not go on. Returns whether it is to leave as if its work were done. */
static bool fall_out(const char *fault)
{
    if (strcmp(fault, "kill") == 0) {
        (void)raise(SIGKILL);
    } else if (strcmp(fault, "stop") == 0) {
        (void)raise(SIGSTOP);
    } else if (strcmp(fault, "exit") == 0) {
        exit(3);
    } else if (strcmp(fault, "hang") == 0) {
        (void)pause();
    }
    return strcmp(fault, "finish") == 0;
}

int main(int argc, char **argv)
{
    const int steps = argc > 1 ? number(argv[1]) : 10;
    const char *fault = argc > 4 ? argv[2] : "";
    float weights[FEATURES] = {0};
    uint32_t comm;
    uint32_t seed;

    rank = number(getenv("RANK"));
    world_size = number(getenv("WORLD_SIZE"));
    seed = 17u * (uint32_t)rank + 1;
    connect_all();
    (void)ddprove_guest_attach(rank, world_size);
    comm = ddprove_guest_comm_create(1, (uint32_t)rank, (uint32_t)world_size, "world");
    for (int step = 0; step < steps; step++) {
        const bool is_faulty =
            fault[0] != '\0' && rank == number(argv[3]) && step == number(argv[4]);
        const bool is_forgetting = strcmp(fault, "forget") == 0 && step == number(argv[4]);
        float gradient[FEATURES];

        ddprove_guest_step((uint64_t)step);
        ddprove_guest_phase(DDPROVE_GUEST_PHASE_BACKWARD);
        backward(weights, &seed, gradient);
        if (is_faulty && strcmp(fault, "nan") == 0) {
            gradient[FEATURES - 1] = NAN;
        }
        if (is_faulty && fall_out(fault)) {
            break;
        }
        ddprove_guest_phase(DDPROVE_GUEST_PHASE_REDUCE);
        for (uint32_t b = 0; b < BUCKETS; b++) {
            float *part = gradient + b * FEATURES / BUCKETS;
            struct ddprove_guest_call call = {.size_bytes = sizeof call,
                                              .comm = comm,
                                              .kind = DDPROVE_GUEST_ALL_REDUCE,
                                              .dtype = DDPROVE_GUEST_F32,
                                              .redop = is_faulty && strcmp(fault, "max") == 0
                                                           ? DDPROVE_GUEST_MAX
                                                           : DDPROVE_GUEST_SUM,
                                              .elem_count = FEATURES / BUCKETS,
                                              .bucket = b + 1,
                                              .in = input_of(is_faulty ? fault : "", part),
                                              .out = part};

            if (is_faulty && strcmp(fault, "skip") == 0 && b == 1) {
                continue;
            }
            call.elem_count -= is_faulty && strcmp(fault, "count") == 0 && b == 1;
            for (int times = ddprove_guest_call_begin(&call); times > 0; times--) {
                if (is_faulty && b == 1) {
                    damage(fault, part, call.elem_count);
                }
                all_reduce(part, call.elem_count, is_forgetting && b == 1 ? number(argv[3]) : -1);
            }
            if (is_faulty && strcmp(fault, "diverge") == 0 && b == 1) {
                part[3] += 1;
            }
            ddprove_guest_call_end(&call);
        }
        ddprove_guest_phase(DDPROVE_GUEST_PHASE_OPTIMIZER);
        for (int i = 0; i < FEATURES; i++) {
            weights[i] -= 0.1F * gradient[i] / (float)world_size;
        }
    }
    ddprove_guest_detach();
    if (rank == 0) {
        (void)printf("weights %.6f %.6f\n", (double)weights[1], (double)weights[FEATURES - 1]);
    }
    return 0;
}
