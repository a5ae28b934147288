/* Rank 0 times; each call ends after the slowest rank has come to it. In every round each way has
 * its turn, in alternating order, and ratios are taken within a round: what else the machine does
 * meets them alike. Data are zeros, which stay what they are however often they are added. */
#include "tests/bench/guest_cost.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "ddpcore/base/clock.h"
#include "ddpcore/device/device.h"
#include "harness/guest/arena.h"
#include "reference/trainer.h"

enum { ROUNDS_MAX = 1000, BUCKETS = 7 };
#define MIB ((size_t)1 << 20)
/* PASSED: results are judged, but not of these calls. What it costs to judge one call in EVERY
 * follows: so much of the others, and that of a judged one. */
enum way { BARE, SHOWN, JUDGED, PASSED, WAYS };
enum { EVERY = 16 };

struct row {
    const char *name;
    size_t size_bytes;
    int calls, rounds;
    bool is_apart; /* input and output are two buffers */
    bool is_step;  /* each time after a forward and a backward pass */
};

static const struct row rows[] = {
    {"1 KiB", 1024, 50, 400, false, false},
    {"32 KiB", 32768, 20, 200, false, false},
    {"1 MiB", MIB, 3, 200, false, false},
    {"1 MiB, not in place", MIB, 3, 200, true, false},
    {"16 MiB", 16 * MIB, 1, 40, false, false},
    {"CPU: MLP-L step, 7 of 1 MiB", MIB, BUCKETS, 60, false, true},
};
/* A row takes so long at most. */
#define ROW_NS (6 * DDP_NS_PER_S)

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

/* Of ddprove: the ranks report what their data come to while the word in it is set. */
static struct guest_arena *open_arena(void)
{
    const char *where = getenv(GUEST_ARENA_VARIABLE);
    char path[256];
    void *arena;
    int fd;

    if (where == NULL || strrchr(where, ':') == NULL) {
        (void)fprintf(stderr, "run it under ddprove exec\n");
        exit(1);
    }
    (void)snprintf(path, sizeof path, "%.*s", (int)(strrchr(where, ':') - where), where);
    fd = open(path, O_RDWR | O_CLOEXEC);
    arena = fd >= 0
                ? mmap(NULL, sizeof(struct guest_arena), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
                : MAP_FAILED;
    if (arena == MAP_FAILED) {
        fail(path);
    }
    (void)close(fd);
    return arena;
}

/* MLP-L of the benchmarks of the core: 784-1024-1024-10, batch 64; 7.1 MiB of gradients. */
static struct ref_trainer *open_trainer(void)
{
    static const size_t batch_rows = 64;
    struct ref_job job = {
        .model = {.name = "mlp", .width_count = 4, .width = {784, 1024, 1024, 10}},
        .data = {.name = "synthetic", .feature_count = 784},
        .shard = {.world_size = 1, .is_shuffled = true, .batch_rows = &batch_rows},
        .micro_batches = 1};
    struct ref_trainer *trainer = NULL;
    struct ddp_device *device = NULL;
    struct ddp_err err = {""};

    ref_optimizer_defaults(&job.optimizer, REF_OPTIMIZER_SGD);
    if (ddp_blas_open(NULL, &err) != DDP_OK ||
        ddp_device_cpu_create(ddp_mem_system(), &device) != DDP_OK ||
        ref_trainer_create(device, &job, &trainer, &err) != DDP_OK) {
        (void)fprintf(stderr, "trainer: %s\n", err.text);
        exit(1);
    }
    return trainer;
}

struct bench {
    const struct cost_program *program;
    struct guest_arena *arena;
    struct ref_trainer *trainer;
    float *in, *out;
    uint32_t step;
};

/* Of a step, what this rank has computed counts, and not when: it is long enough for the machine to
 * do something else meanwhile. */
static uint64_t now_ns(const struct row *row)
{
    struct timespec now;

    (void)clock_gettime(row->is_step ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * DDP_NS_PER_S + (uint64_t)now.tv_nsec;
}

/* Microseconds of a call, or of a step. */
static double time_once(struct bench *bench, const struct row *row, enum way way)
{
    const struct cost_program *program = bench->program;
    const size_t count = row->size_bytes / sizeof(float);
    const float *in = row->is_apart ? bench->in : bench->out;
    uint64_t begin_ns;
    float loss;

    program->barrier();
    if (program->rank == 0) {
        __atomic_store_n(&bench->arena->observed_every, way == PASSED ? UINT64_MAX : 1,
                         __ATOMIC_RELEASE);
        __atomic_store_n(&bench->arena->is_observed, way >= JUDGED, __ATOMIC_RELEASE);
    }
    program->barrier();
    begin_ns = now_ns(row);
    if (row->is_step && ref_trainer_global_step(bench->trainer, bench->step++, &loss) != DDP_OK) {
        fail("step");
    }
    for (int i = 0; i < row->calls; i++) {
        (way == BARE ? program->bare : program->shown)(in, bench->out, count);
    }
    program->barrier();
    return (double)(now_ns(row) - begin_ns) * 1e-3 / (row->is_step ? 1 : row->calls);
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;

    return (x > y) - (x < y);
}

static void print_row(const struct row *row, double times[WAYS][ROUNDS_MAX], int rounds)
{
    static double ratios[WAYS][ROUNDS_MAX];

    for (int w = 0; w < WAYS; w++) {
        for (int i = 0; i < rounds; i++) {
            ratios[w][i] = times[w][i] / times[BARE][i];
        }
        qsort(ratios[w], (size_t)rounds, sizeof(double), compare);
    }
    for (int w = WAYS - 1; w >= 0; w--) {
        qsort(times[w], (size_t)rounds, sizeof(double), compare);
    }
    (void)printf("  %-28s %10.1f", row->name, times[BARE][0]);
    for (int w = SHOWN; w < WAYS; w++) {
        (void)printf("   %+9.2f %6.3f %6.3f", times[w][0] - times[BARE][0],
                     times[w][0] / times[BARE][0], ratios[w][rounds / 2]);
    }
    (void)printf("   %6.3f\n",
                 ((EVERY - 1) * times[PASSED][0] + times[JUDGED][0]) / EVERY / times[BARE][0]);
    (void)fflush(stdout);
}

/* All ranks do as many rounds: rank 0 says whether there is another one. */
static bool is_more(const struct bench *bench, const struct row *row, int rounds, uint64_t begin_ns)
{
    const struct cost_program *program = bench->program;
    float is_over = 0;

    if (program->rank == 0) {
        is_over =
            rounds == row->rounds || ddp_clock_now_ns(ddp_clock_monotonic()) - begin_ns > ROW_NS
                ? 1.0F
                : 0.0F;
    }
    program->bare(&is_over, &is_over, 1); /* the others add 0 */
    return is_over == 0;
}

void cost_measure(const struct cost_program *program)
{
    static double times[WAYS][ROUNDS_MAX];
    struct bench bench = {.program = program, .arena = open_arena(), .trainer = open_trainer()};
    const size_t largest = 16 * MIB;

    bench.in = calloc(1, largest);
    bench.out = calloc(1, largest);
    if (bench.in == NULL || bench.out == NULL) {
        fail("memory");
    }
    memset(bench.in, 0, largest); /* in memory of its own */
    memset(bench.out, 0, largest);
    if (program->rank == 0) {
        (void)printf("%s, %d ranks; us, ratio of bests, median ratio\n", program->name,
                     program->ranks);
        (void)printf("  %-28s %10s   %23s   %23s   %23s   one in %d\n", "", "bare", "watched",
                     "results judged", "passed over", EVERY);
    }
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        uint64_t begin_ns;
        int rounds;

        (void)time_once(&bench, &rows[r], JUDGED);
        begin_ns = ddp_clock_now_ns(ddp_clock_monotonic());
        for (rounds = 0; rounds == 0 || is_more(&bench, &rows[r], rounds, begin_ns); rounds++) {
            for (int w = 0; w < WAYS; w++) {
                const enum way way = (enum way)(rounds % 2 == 0 ? w : WAYS - 1 - w);

                times[way][rounds] = time_once(&bench, &rows[r], way);
            }
        }
        if (program->rank == 0) {
            print_row(&rows[r], times, rounds);
        }
    }
    free(bench.in);
    free(bench.out);
    ref_trainer_destroy(bench.trainer);
}
