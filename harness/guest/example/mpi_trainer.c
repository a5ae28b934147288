/* A training program over MPI that knows nothing of ddprove: linear regression on data that every
 * rank makes for itself. scenarios/guest runs it with the MPI adapter loaded in front of MPI.
 *
 * Usage: mpirun -n N mpi_trainer [STEPS] */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FEATURES = 64, FIRST = 48, BATCH = 16 };

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

/* The mean gradient: one bucket blocks, the other does not. */
static void reduce(const float *gradient, float *mean, int size)
{
    MPI_Request request;

    (void)MPI_Iallreduce(gradient, mean, FIRST, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
    (void)MPI_Allreduce(gradient + FIRST, mean + FIRST, FEATURES - FIRST, MPI_FLOAT, MPI_SUM,
                        MPI_COMM_WORLD);
    (void)MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int i = 0; i < FEATURES; i++) {
        mean[i] /= (float)size;
    }
}

int main(int argc, char **argv)
{
    const int steps = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 10;
    float weights[FEATURES];
    float gradient[FEATURES];
    float mean[FEATURES];
    double loss = 0;
    double worst = 0;
    MPI_Comm metrics;
    uint32_t seed;
    int rank = 0;
    int size = 0;

    (void)MPI_Init(&argc, &argv);
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &size);
    (void)MPI_Comm_dup(MPI_COMM_WORLD, &metrics);
    seed = 17u * (uint32_t)rank + 1;
    for (int i = 0; i < FEATURES; i++) {
        weights[i] = (float)rank; /* until rank 0's arrive */
    }
    (void)MPI_Bcast(weights, FEATURES, MPI_FLOAT, 0, MPI_COMM_WORLD);
    for (int step = 0; step < steps; step++) {
        loss = (double)backward(weights, &seed, gradient);
        reduce(gradient, mean, size);
        for (int i = 0; i < FEATURES; i++) {
            weights[i] -= 0.1F * mean[i];
        }
        (void)MPI_Reduce(&loss, &worst, 1, MPI_DOUBLE, MPI_MAX, 0, metrics);
    }
    (void)MPI_Barrier(metrics);
    if (rank == 0) {
        (void)printf("loss %.6f weights %.6f %.6f\n", worst, (double)weights[1],
                     (double)weights[FEATURES - 1]);
    }
    (void)MPI_Comm_free(&metrics);
    return MPI_Finalize();
}
