/* All-reduce over shared memory: forked processes, fp32 sum in core-allocated buffers, in place.
 * Prints the median time of a call, where a call lasts as long as its slowest rank's, and the bus
 * bandwidth as nccl-tests define it: bytes / time * 2 (n - 1) / n. With --check every rank compares
 * every element instead of timing.
 *
 *   bench_allreduce [--ranks N] [--algorithm NAME] [--segment BYTES] [--max BYTES] [--checked]
 *                   [--check] */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ddpcore/collective/collective.h"
#include "ddpcore/transport/shm.h"

#define SAMPLES_MAX 4096
#define RANKS_MAX   32
#define TIMEOUT_NS  (60 * DDP_NS_PER_S)

static const size_t sizes[] = {1024, 32768, 1 << 20, 16 << 20, 64 << 20};
static const int repeats[] = {4000, 2000, 300, 31, 11};

struct options {
    uint32_t ranks;
    enum ddp_algorithm_id algorithm;
    size_t segment_bytes;
    size_t max_bytes;
    bool is_checked;
    bool is_check_run;
};

/* Times of every rank: uint64_t[RANKS_MAX][SAMPLES_MAX], shared. */
struct samples {
    uint64_t ns[RANKS_MAX][SAMPLES_MAX];
};

struct rank {
    const struct options *options;
    struct samples *samples;
    struct ddp_env env;
    struct ddp_idle_process idle;
    struct ddp_store *store;
    struct ddp_coll *coll;
    struct ddp_device *device;
    float *data;
    uint64_t seq;
};

static void die(const char *what, ddp_status status, const struct ddp_err *err)
{
    (void)fprintf(stderr, "bench_allreduce: %s: %s %s\n", what, ddp_status_name(status),
                  err == NULL ? "" : err->text);
    exit(3);
}

struct pending {
    struct ddp_coll *coll;
    struct ddp_coll_work *work;
};

static ddp_status pending_poll(void *self)
{
    const struct pending *pending = self;

    return pending->coll->ops->poll(pending->coll, pending->work);
}

static void pending_hint(void *self, struct ddp_idle_hint *hint)
{
    const struct pending *pending = self;

    pending->coll->ops->hint(pending->coll, hint);
}

static void run(struct rank *rank, enum ddp_coll_kind kind, size_t elem_count)
{
    struct ddp_coll_work work = {0};
    struct pending pending = {rank->coll, &work};
    const struct ddp_pollable pollable = {pending_poll, pending_hint, &pending};
    ddp_status status;

    work.args.kind = kind;
    work.args.dtype = kind == DDP_COLL_BARRIER ? DDP_DTYPE_U8 : DDP_DTYPE_F32;
    work.args.input = rank->data;
    work.args.output = rank->data;
    work.args.elem_count = elem_count;
    work.seq = ++rank->seq;
    status = rank->coll->ops->post(rank->coll, &work);
    if (status == DDP_OK) {
        status = ddp_wait(rank->env.idle, rank->env.clock, &pollable,
                          ddp_clock_deadline_ns(rank->env.clock, TIMEOUT_NS));
    }
    if (status != DDP_OK) {
        die("collective", status, NULL);
    }
}

/* Small integers: every order of addition gives the same exact sum. */
static float value_at(uint32_t rank, size_t index)
{
    return (float)((index * 7 + rank * 13) % 64);
}

static void check(struct rank *rank, size_t elem_count)
{
    for (size_t i = 0; i < elem_count; i++) {
        rank->data[i] = value_at(rank->env.rank, i);
    }
    run(rank, DDP_COLL_ALL_REDUCE, elem_count);
    for (size_t i = 0; i < elem_count; i++) {
        float expected = 0.0f;

        for (uint32_t other = 0; other < rank->options->ranks; other++) {
            expected += value_at(other, i);
        }
        if (rank->data[i] != expected) {
            (void)fprintf(stderr, "rank %u: element %zu of %zu is %g, not %g\n", rank->env.rank, i,
                          elem_count, (double)rank->data[i], (double)expected);
            exit(1);
        }
    }
}

static int compare_u64(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a;
    uint64_t right = *(const uint64_t *)b;

    return left < right ? -1 : left > right;
}

static void print_median(const struct rank *rank, size_t size_bytes, int repeat)
{
    static uint64_t slowest[SAMPLES_MAX];
    uint32_t ranks = rank->options->ranks;
    double us, bus;

    for (int i = 0; i < repeat; i++) {
        slowest[i] = 0;
        for (uint32_t other = 0; other < ranks; other++) {
            uint64_t ns = rank->samples->ns[other][i];

            slowest[i] = ns > slowest[i] ? ns : slowest[i];
        }
    }
    qsort(slowest, (size_t)repeat, sizeof(slowest[0]), compare_u64);
    us = (double)slowest[repeat / 2] / 1000.0;
    bus = (double)size_bytes / us / 1000.0 * 2.0 * (double)(ranks - 1) / (double)ranks;
    (void)printf("%-20s n=%-2u %9zu B  median %10.2f us  min %10.2f us  busbw %7.2f GB/s\n",
                 ddp_algorithm_name(rank->options->algorithm), ranks, size_bytes, us,
                 (double)slowest[0] / 1000.0, bus);
    (void)fflush(stdout);
}

static void measure(struct rank *rank, size_t size_bytes, int repeat)
{
    size_t elem_count = size_bytes / sizeof(float);

    memset(rank->data, 0, size_bytes);
    for (int i = -5; i < repeat; i++) {
        uint64_t begin_ns;

        run(rank, DDP_COLL_BARRIER, 0);
        begin_ns = ddp_clock_now_ns(rank->env.clock);
        run(rank, DDP_COLL_ALL_REDUCE, elem_count);
        if (i >= 0) {
            rank->samples->ns[rank->env.rank][i] = ddp_clock_now_ns(rank->env.clock) - begin_ns;
        }
    }
    run(rank, DDP_COLL_BARRIER, 0);
    if (rank->env.rank == 0) {
        print_median(rank, size_bytes, repeat);
    }
    run(rank, DDP_COLL_BARRIER, 0);
}

static void open_rank(struct rank *rank, int listen_fd, uint16_t port)
{
    const struct options *options = rank->options;
    uint64_t deadline_ns;
    struct ddp_store_server *server = NULL;
    struct ddp_transport *transport;
    struct ddp_shm_config shm = {.group_name = "bench", .member_count = options->ranks};
    struct ddp_coll_schedule_config config = {.comm = 1, .algorithm = options->algorithm};
    struct ddp_err err;
    ddp_status status = DDP_OK;

    deadline_ns = ddp_clock_deadline_ns(rank->env.clock, TIMEOUT_NS);
    if (rank->env.rank == 0) {
        status = ddp_store_server_create(rank->env.mem, listen_fd, &server, &err);
        if (status == DDP_OK) {
            status = ddp_store_host_create(&rank->env, server, &rank->store);
        }
    } else {
        (void)close(listen_fd);
        status =
            ddp_store_tcp_create(&rank->env, "127.0.0.1", port, 0, deadline_ns, &rank->store, &err);
    }
    shm.member = rank->env.rank;
    shm.heap_bytes = 3 * options->max_bytes + (1 << 20);
    if (status == DDP_OK) {
        status = ddp_shm_create(&rank->env, rank->store, &shm, deadline_ns, &transport, &err);
    }
    if (status == DDP_OK) {
        status = ddp_device_cpu_create(rank->env.mem, &rank->device);
    }
    config.segment_bytes = options->segment_bytes;
    config.is_checked = options->is_checked;
    if (status == DDP_OK) {
        status = ddp_coll_schedule_create(&rank->env, transport, rank->device, &config, &rank->coll,
                                          &err);
    }
    if (status != DDP_OK) {
        die("start", status, &err);
    }
    rank->data = rank->coll->ops->alloc(rank->coll, options->max_bytes, DDP_SPACE_DEVICE);
    if (rank->data == NULL) {
        die("buffer", DDP_E_NOMEM, NULL);
    }
}

static int run_rank(const struct options *options, struct samples *samples, uint32_t number,
                    int listen_fd, uint16_t port)
{
    struct rank rank = {.options = options, .samples = samples};

    ddp_env_init_process(&rank.env, &rank.idle, number, options->ranks);
    open_rank(&rank, listen_fd, port);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        if (sizes[i] > options->max_bytes) {
            break;
        }
        if (options->is_check_run) {
            check(&rank, sizes[i] / sizeof(float));
            check(&rank, sizes[i] / sizeof(float) - 3);
        } else {
            measure(&rank, sizes[i], repeats[i]);
        }
    }
    rank.coll->ops->free(rank.coll, DDP_SPACE_DEVICE, rank.data);
    rank.coll->ops->destroy(rank.coll);
    rank.device->ops->destroy(rank.device);
    rank.store->ops->destroy(rank.store);
    return 0;
}

static bool parse(int argc, char **argv, struct options *out)
{
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;

        if (strcmp(argv[i], "--check") == 0) {
            out->is_check_run = true;
            continue;
        }
        if (strcmp(argv[i], "--checked") == 0) {
            out->is_checked = true;
            continue;
        }
        if (value == NULL) {
            return false;
        }
        if (strcmp(argv[i], "--ranks") == 0) {
            out->ranks = (uint32_t)strtoul(value, NULL, 10);
        } else if (strcmp(argv[i], "--algorithm") == 0) {
            if (ddp_algorithm_parse(value, DDP_COLL_ALL_REDUCE, &out->algorithm) != DDP_OK) {
                return false;
            }
        } else if (strcmp(argv[i], "--segment") == 0) {
            out->segment_bytes = strtoull(value, NULL, 10);
        } else if (strcmp(argv[i], "--max") == 0) {
            out->max_bytes = strtoull(value, NULL, 10);
        } else {
            return false;
        }
        i++;
    }
    return out->ranks >= 1 && out->ranks <= RANKS_MAX;
}

int main(int argc, char **argv)
{
    struct options options = {.ranks = 2, .algorithm = DDP_ALGORITHM_RING, .max_bytes = 64 << 20};
    struct samples *samples;
    struct ddp_err err;
    int listen_fd;
    int failed = 0;
    uint16_t port;

    if (!parse(argc, argv, &options)) {
        (void)fprintf(stderr, "usage: bench_allreduce [--ranks N] [--algorithm NAME] "
                              "[--segment BYTES] [--max BYTES] [--checked] [--check]\n");
        return 2;
    }
    samples =
        mmap(NULL, sizeof(*samples), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (samples == MAP_FAILED ||
        ddp_store_listen("127.0.0.1", 0, &listen_fd, &port, &err) != DDP_OK) {
        (void)fprintf(stderr, "bench_allreduce: cannot start\n");
        return 3;
    }
    for (uint32_t number = 0; number < options.ranks; number++) {
        pid_t pid = fork();

        if (pid == 0) {
            exit(run_rank(&options, samples, number, listen_fd, port));
        }
        failed |= pid < 0;
    }
    (void)close(listen_fd);
    for (;;) {
        int status;
        pid_t pid = wait(&status);

        if (pid < 0) {
            break;
        }
        failed |= !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    }
    if (options.is_check_run && !failed) {
        (void)printf("%s n=%u: every element is right\n", ddp_algorithm_name(options.algorithm),
                     options.ranks);
    }
    return failed ? 1 : 0;
}
