/* A training program with an all-reduce of its own (star.h), shown to ddprove by the guest library:
 * linear regression on data that every rank makes for itself. It is the test of `ddprove exec`
 * without a scenario: what goes wrong in it is asked for on the command line.
 *
 * Usage: trainer [STEPS [FAULT RANK STEP]], with torchrun's variables. */
#include <ddprove_guest.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <star.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FEATURES = 64, BATCH = 16, BUCKETS = 2 };

static int rank, world_size;

static int number(const char *text)
{
    return text != NULL ? (int)strtol(text, NULL, 10) : 0;
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
    } else if (strcmp(fault, "slow") == 0) {
        (void)poll(NULL, 0, 3000);
    }
    return strcmp(fault, "finish") == 0;
}

int main(int argc, char **argv)
{
    const int steps = argc > 1 ? number(argv[1]) : 10;
    const char *fault = argc > 4 ? argv[2] : "";
    static const float nothing[FEATURES];
    float weights[FEATURES] = {0};
    uint32_t comm;
    uint32_t seed;

    rank = number(getenv("RANK"));
    world_size = number(getenv("WORLD_SIZE"));
    seed = 17u * (uint32_t)rank + 1;
    star_connect(rank, world_size, number(getenv("MASTER_PORT")));
    (void)ddprove_guest_attach(rank, world_size);
    comm = ddprove_guest_comm_create(1, (uint32_t)rank, (uint32_t)world_size, "world");
    for (int step = 0; step < steps; step++) {
        const bool is_faulty =
            fault[0] != '\0' && rank == number(argv[3]) && step == number(argv[4]);
        const bool is_forgotten = is_faulty && strcmp(fault, "forget") == 0;
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
                star_all_reduce(is_forgotten && b == 1 ? nothing : part, part, call.elem_count);
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
