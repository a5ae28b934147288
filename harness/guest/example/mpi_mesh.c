/* An MPI training program in the shape of large ones, which knows nothing of ddprove: messages from
 * rank to rank, sums in pairs of ranks, gradients in a sum over all that was made ready once and is
 * started in each step, and a second thread with a communicator of its own. What scenarios/guest
 * asks of several communicators, threads, messages and persistent calls is asked of it.
 *
 * Usage: mpi_mesh [STEPS [opposite|mute|unsent RANK STEP]], under mpirun: in that step the rank
 * takes part in the sums in the opposite order, or does not send its message, and goes on no more,
 * or goes on. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef OPEN_MPI
#include <mpi-ext.h>
#endif
#if MPI_VERSION >= 4 || (defined OPEN_MPI && OMPI_MAJOR_VERSION >= 5)
#define ALLREDUCE_INIT MPI_Allreduce_init
#else
#define ALLREDUCE_INIT MPIX_Allreduce_init
#endif

enum { FEATURES = 32, HIDDEN = 8 };

struct job {
    int steps, rank, size;
    const char *fault;
    int fault_rank, fault_step;
    MPI_Comm rows, gradients, metrics;
    MPI_Request sum; /* of the gradients */
    float gradient[FEATURES], mean[FEATURES];
};

static int number(const char *text)
{
    return (int)strtol(text, NULL, 10);
}

static int is_now(const struct job *job, const char *fault, int step)
{
    return strcmp(job->fault, fault) == 0 && job->rank == job->fault_rank &&
           step == job->fault_step;
}

/* The second thread: how far all ranks' losses are. */
static void *measure(void *context)
{
    struct job *job = context;

    for (int step = 0; step < job->steps; step++) {
        double loss = job->rank + 1.0 / (step + 1);
        double worst = 0;

        (void)MPI_Allreduce(&loss, &worst, 1, MPI_DOUBLE, MPI_MAX, job->metrics);
        if (worst < loss) {
            (void)MPI_Abort(MPI_COMM_WORLD, 9);
        }
    }
    return NULL;
}

/* What the rank before has worked out goes into this one's, and on to the next. */
static void pass_on(struct job *job, int step, float hidden[HIDDEN])
{
    if (job->rank > 0) {
        float before[HIDDEN];

        (void)MPI_Recv(before, HIDDEN, MPI_FLOAT, job->rank - 1, step, MPI_COMM_WORLD,
                       MPI_STATUS_IGNORE);
        for (int i = 0; i < HIDDEN; i++) {
            hidden[i] += 0.5F * before[i];
        }
    }
    if (is_now(job, "mute", step)) {
        (void)pause();
    }
    if (job->rank + 1 < job->size && !is_now(job, "unsent", step)) {
        (void)MPI_Send(hidden, HIDDEN, MPI_FLOAT, job->rank + 1, step, MPI_COMM_WORLD);
    }
}

static void reduce_gradients(struct job *job)
{
    (void)MPI_Start(&job->sum);
    (void)MPI_Wait(&job->sum, MPI_STATUS_IGNORE); /* NOLINT: MPI_Start is not known there */
}

static void train(struct job *job, int step)
{
    const int is_opposite = is_now(job, "opposite", step);
    float hidden[HIDDEN];
    float both[HIDDEN];

    for (int i = 0; i < FEATURES; i++) {
        job->gradient[i] = (float)((job->rank * 31 + step * 7 + i * 3) % 23) / 23 + 0.1F;
    }
    memcpy(hidden, job->gradient, sizeof hidden);
    pass_on(job, step, hidden);
    if (is_opposite) {
        reduce_gradients(job);
    }
    (void)MPI_Allreduce(hidden, both, HIDDEN, MPI_FLOAT, MPI_SUM, job->rows);
    if (!is_opposite) {
        reduce_gradients(job);
    }
}

int main(int argc, char **argv)
{
    struct job job = {.steps = argc > 1 ? number(argv[1]) : 10, .fault = argc > 4 ? argv[2] : ""};
    pthread_t thread;
    int provided = 0;

    if (argc > 4) {
        job.fault_rank = number(argv[3]);
        job.fault_step = number(argv[4]);
    }
    (void)MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &job.size);
    (void)MPI_Comm_split(MPI_COMM_WORLD, job.rank / 2, job.rank, &job.rows);
    (void)MPI_Comm_dup(MPI_COMM_WORLD, &job.gradients);
    (void)MPI_Comm_dup(MPI_COMM_WORLD, &job.metrics);
    if (provided != MPI_THREAD_MULTIPLE ||
        ALLREDUCE_INIT(job.gradient, job.mean, FEATURES, MPI_FLOAT, MPI_SUM, job.gradients,
                       MPI_INFO_NULL, &job.sum) != MPI_SUCCESS ||
        pthread_create(&thread, NULL, measure, &job) != 0) {
        return MPI_Abort(MPI_COMM_WORLD, 8);
    }
    for (int step = 0; step < job.steps; step++) {
        train(&job, step);
    }
    (void)pthread_join(thread, NULL);
    (void)MPI_Request_free(&job.sum);
    (void)MPI_Comm_free(&job.rows);
    (void)MPI_Comm_free(&job.gradients);
    (void)MPI_Comm_free(&job.metrics);
    if (job.rank == 0) {
        (void)printf("mean gradient %.6f\n", (double)job.mean[1] / job.size);
    }
    return MPI_Finalize();
}
