/* A training program with collectives of its own (star.h): linear regression on data that
 * every rank makes for itself. It is the example of how to show a program to ddprove - the lines
 * that do are those that name ddprove_guest, and the call that is shown - and what scenarios/guest
 * runs. With star.c its ranks talk over sockets, with star_mpi.c over MPI.
 *
 * Usage: trainer [STEPS], with torchrun's variables or under mpirun. */
#include <ddprove_guest.h>
#include <star.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FEATURES = 64, BATCH = 16, BUCKETS = 2 };

static int number(const char *text)
{
    return text != NULL ? (int)strtol(text, NULL, 10) : 0;
}

/* One collective, shown to ddprove, which may change what it is about. */
static void collective(bool is_sum, uint32_t comm, uint32_t bucket, const float *in, float *out,
                       size_t count)
{
    struct ddprove_guest_call call = {.size_bytes = sizeof call,
                                      .comm = comm,
                                      .kind = is_sum ? DDPROVE_GUEST_ALL_REDUCE
                                                     : DDPROVE_GUEST_BROADCAST,
                                      .dtype = DDPROVE_GUEST_F32,
                                      .redop = is_sum ? DDPROVE_GUEST_SUM : DDPROVE_GUEST_NO_REDOP,
                                      .elem_count = count,
                                      .bucket = bucket,
                                      .in = in,
                                      .out = out};

    for (int times = ddprove_guest_call_begin(&call); times > 0; times--) {
        if (is_sum) {
            star_all_reduce(call.in != NULL ? call.in : in, out, call.elem_count);
        } else {
            star_broadcast(out, call.elem_count, call.root);
        }
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
    int rank, world_size;

    star_begin(&rank, &world_size);
    seed = 17u * (uint32_t)rank + 1;
    (void)ddprove_guest_attach(rank, world_size);
    star_connect(rank, world_size, number(getenv("MASTER_PORT")));
    world = ddprove_guest_comm_create(1, (uint32_t)rank, (uint32_t)world_size, "world");
    metrics = ddprove_guest_comm_create(2, (uint32_t)rank, (uint32_t)world_size, "metrics");
    for (int i = 0; i < FEATURES; i++) {
        weights[i] = (float)rank; /* until rank 0's arrive */
    }
    collective(false, world, 0, weights, weights, FEATURES);
    for (int step = 0; step < steps; step++) {
        float gradient[FEATURES];
        float sum[FEATURES];

        ddprove_guest_step((uint64_t)step);
        ddprove_guest_phase(DDPROVE_GUEST_PHASE_BACKWARD);
        loss = backward(weights, &seed, gradient);
        ddprove_guest_phase(DDPROVE_GUEST_PHASE_REDUCE);
        for (uint32_t b = 0; b < BUCKETS; b++) {
            const size_t first = b * FEATURES / BUCKETS;

            collective(true, world, b + 1, gradient + first, sum + first, FEATURES / BUCKETS);
        }
        ddprove_guest_phase(DDPROVE_GUEST_PHASE_OPTIMIZER);
        for (int i = 0; i < FEATURES; i++) {
            weights[i] -= 0.1F * sum[i] / (float)world_size;
        }
        collective(true, metrics, 0, &loss, &mean, 1);
    }
    ddprove_guest_detach();
    star_end();
    if (rank == 0) {
        (void)printf("loss %.6f weights %.6f %.6f\n", (double)mean / world_size, (double)weights[1],
                     (double)weights[FEATURES - 1]);
    }
    return 0;
}
