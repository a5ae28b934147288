/* What compression by a communication hook is worth: the collective part of a backward pass (a
 * bucket that is full, until its averages are there) plain and through the hooks fp16 and bf16,
 * over shared memory and over TCP on loopback, in one run and in turns. Prints median and minimum
 * of the slowest rank, and their ratios to the plain one.
 *
 *   bench_hook [--ranks N] [--max BYTES] */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ddpcore/ddp/ddp.h"
#include "ddpcore/hook/hooks.h"
#include "ddpcore/transport/shm.h"
#include "ddpcore/transport/tcp.h"

enum { SAMPLES_MAX = 64, RANKS_MAX = 16, HOOK_COUNT = 3 };
#define TIMEOUT_NS (60 * DDP_NS_PER_S)

static const size_t sizes[] = {64 << 10, 1 << 20, 4 << 20, 16 << 20};
static const int repeats[] = {61, 41, 21, 11};
static const char *const hook_names[HOOK_COUNT] = {"none", "fp16", "bf16"};

struct options {
    uint32_t ranks;
    size_t max_bytes;
    bool is_tcp;
};

/* Times of every rank, shared. */
struct samples {
    uint64_t ns[HOOK_COUNT][RANKS_MAX][SAMPLES_MAX];
};

struct rank {
    const struct options *options;
    struct samples *samples;
    struct ddp_env env;
    struct ddp_idle_process idle;
    struct ddp_store *store;
    struct ddp_group group;
    struct ddp_device *device;
    struct ddp_param param;
};

static void check(ddp_status status, const char *what, const struct ddp_err *err)
{
    if (status != DDP_OK) {
        (void)fprintf(stderr, "bench_hook: %s: %s %s\n", what, ddp_status_name(status),
                      err == NULL ? "" : err->text);
        exit(3);
    }
}

static void open_rank(struct rank *rank, int listen_fd, uint16_t port)
{
    const struct options *options = rank->options;
    const uint64_t deadline_ns = ddp_clock_deadline_ns(rank->env.clock, TIMEOUT_NS);
    struct ddp_store_server *server = NULL;
    struct ddp_transport *transport = NULL;
    struct ddp_coll *coll = NULL;
    const struct ddp_coll_schedule_config config = {.comm = 1, .is_checked = true};
    struct ddp_err err = {""};

    if (rank->env.rank == 0) {
        check(ddp_store_server_create(rank->env.mem, listen_fd, &server, &err), "store", &err);
        check(ddp_store_host_create(&rank->env, server, &rank->store), "store", NULL);
    } else {
        (void)close(listen_fd);
        check(
            ddp_store_tcp_create(&rank->env, "127.0.0.1", port, 0, deadline_ns, &rank->store, &err),
            "store", &err);
    }
    if (options->is_tcp) {
        const struct ddp_tcp_config tcp = {.group_name = "bench",
                                           .member = rank->env.rank,
                                           .member_count = options->ranks,
                                           .address = "127.0.0.1"};

        check(ddp_tcp_create(&rank->env, rank->store, &tcp, deadline_ns, &transport, &err), "tcp",
              &err);
    } else {
        const struct ddp_shm_config shm = {.group_name = "bench",
                                           .member = rank->env.rank,
                                           .member_count = options->ranks,
                                           .heap_bytes = 10 * options->max_bytes + (1 << 20)};

        check(ddp_shm_create(&rank->env, rank->store, &shm, deadline_ns, &transport, &err), "shm",
              &err);
    }
    check(ddp_device_cpu_create(rank->env.mem, &rank->device), "device", NULL);
    check(ddp_coll_schedule_create(&rank->env, transport, rank->device, &config, &coll, &err),
          "collective", &err);
    ddp_group_init(&rank->group, &rank->env, coll, DDP_SEMANTICS_STRICT, TIMEOUT_NS);
}

static struct ddp_hook *make_hook(struct rank *rank, int which)
{
    struct ddp_hook *hook = NULL;

    if (which > 0) {
        check(ddp_hook_compress_create(rank->env.mem, which == 1 ? DDP_DTYPE_F16 : DDP_DTYPE_BF16,
                                       NULL, &hook),
              "hook", NULL);
    }
    return hook;
}

/* Gradients are views of the bucket: what is measured is the reduction alone. */
static void pass(struct rank *rank, struct ddp *ddp, uint64_t *out_ns)
{
    uint64_t begin_ns;

    check(ddp_forward_begin(ddp), "forward", NULL);
    check(ddp_backward_begin(ddp, NULL), "backward", NULL);
    check(ddp_group_barrier(&rank->group), "barrier", NULL);
    begin_ns = ddp_clock_now_ns(rank->env.clock);
    check(ddp_grad_ready(ddp, 0), "gradient", NULL);
    check(ddp_backward_end(ddp), "backward", NULL);
    *out_ns = ddp_clock_now_ns(rank->env.clock) - begin_ns;
}

static int compare_u64(const void *a, const void *b)
{
    const uint64_t left = *(const uint64_t *)a;
    const uint64_t right = *(const uint64_t *)b;

    return left < right ? -1 : left > right;
}

/* Of the slowest rank's times. */
struct figure {
    double median_us, min_us;
};

static struct figure figure_of(const struct rank *rank, int hook, int repeat)
{
    uint64_t slowest[SAMPLES_MAX] = {0};

    for (int i = 0; i < repeat; i++) {
        for (uint32_t r = 0; r < rank->options->ranks; r++) {
            const uint64_t ns = rank->samples->ns[hook][r][i];

            slowest[i] = ns > slowest[i] ? ns : slowest[i];
        }
    }
    qsort(slowest, (size_t)repeat, sizeof(slowest[0]), compare_u64);
    return (struct figure){(double)slowest[repeat / 2] / 1000.0, (double)slowest[0] / 1000.0};
}

static void measure(struct rank *rank, size_t size_bytes, int repeat)
{
    struct ddp *ddps[HOOK_COUNT] = {NULL};
    struct ddp_hook *hooks[HOOK_COUNT] = {NULL};
    struct ddp_err err = {""};
    struct figure plain;

    rank->param.elem_count = rank->param.shape[0] = size_bytes / sizeof(float);
    for (int h = 0; h < HOOK_COUNT; h++) {
        const struct ddp_model model = {.params = &rank->param, .param_count = 1};
        const struct ddp_config config = {.hook = hooks[h] = make_hook(rank, h)};

        check(ddp_create(&rank->group, rank->device, &model, &config, &ddps[h], &err), "DDP", &err);
    }
    for (int i = -3; i < repeat; i++) {
        for (int h = 0; h < HOOK_COUNT; h++) {
            uint64_t ns;

            pass(rank, ddps[h], &ns);
            if (i >= 0) {
                rank->samples->ns[h][rank->env.rank][i] = ns;
            }
        }
    }
    check(ddp_group_barrier(&rank->group), "barrier", NULL);
    plain = figure_of(rank, 0, repeat);
    for (int h = 0; h < HOOK_COUNT && rank->env.rank == 0; h++) {
        const struct figure own = figure_of(rank, h, repeat);

        (void)printf(
            "%-4s n=%-2u %9zu B  hook %-5s median %10.2f us (%4.2f x plain)  min %10.2f us "
            "(%4.2f x)\n",
            rank->options->is_tcp ? "tcp" : "shm", rank->options->ranks, size_bytes, hook_names[h],
            own.median_us, plain.median_us / own.median_us, own.min_us, plain.min_us / own.min_us);
    }
    check(ddp_group_barrier(&rank->group), "barrier", NULL);
    for (int h = 0; h < HOOK_COUNT; h++) {
        ddp_destroy(ddps[h]);
        ddp_hook_destroy(hooks[h]);
    }
}

static int run_rank(const struct options *options, struct samples *samples, uint32_t number,
                    int listen_fd, uint16_t port)
{
    struct rank rank = {.options = options, .samples = samples};

    ddp_env_init_process(&rank.env, &rank.idle, number, options->ranks);
    open_rank(&rank, listen_fd, port);
    rank.param = (struct ddp_param){.name = "weight",
                                    .data = calloc(options->max_bytes, 1),
                                    .grad = calloc(options->max_bytes, 1),
                                    .ndim = 1};
    if (rank.param.data == NULL || rank.param.grad == NULL) {
        check(DDP_E_NOMEM, "parameter", NULL);
    }
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && sizes[i] <= options->max_bytes;
         i++) {
        measure(&rank, sizes[i], repeats[i]);
    }
    (void)fflush(stdout);
    free(rank.param.data);
    free(rank.param.grad);
    ddp_group_fini(&rank.group);
    rank.device->ops->destroy(rank.device);
    rank.store->ops->destroy(rank.store);
    return 0;
}

static bool parse(int argc, char **argv, struct options *out)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--ranks") == 0) {
            out->ranks = (uint32_t)strtoul(argv[i + 1], NULL, 10);
        } else if (strcmp(argv[i], "--max") == 0) {
            out->max_bytes = strtoull(argv[i + 1], NULL, 10);
        } else {
            return false;
        }
    }
    return argc % 2 == 1 && out->ranks >= 1 && out->ranks <= RANKS_MAX;
}

/* 0, or 1 if a rank failed. */
static int run_world(const struct options *options, struct samples *samples)
{
    struct ddp_err err;
    int listen_fd;
    int failed = 0;
    int status;
    uint16_t port;

    check(ddp_store_listen("127.0.0.1", 0, &listen_fd, &port, &err), "listen", &err);
    (void)fflush(stdout);
    for (uint32_t number = 0; number < options->ranks; number++) {
        const pid_t pid = fork();

        if (pid == 0) {
            exit(run_rank(options, samples, number, listen_fd, port));
        }
        failed |= pid < 0;
    }
    (void)close(listen_fd);
    while (wait(&status) >= 0) {
        failed |= !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    }
    return failed;
}

int main(int argc, char **argv)
{
    struct options options = {.ranks = 2, .max_bytes = 16 << 20};
    struct samples *samples;
    int failed;

    if (!parse(argc, argv, &options)) {
        (void)fprintf(stderr, "usage: bench_hook [--ranks N] [--max BYTES]\n");
        return 2;
    }
    samples =
        mmap(NULL, sizeof(*samples), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (samples == MAP_FAILED) {
        (void)fprintf(stderr, "bench_hook: cannot start\n");
        return 3;
    }
    failed = run_world(&options, samples);
    options.is_tcp = true;
    failed |= run_world(&options, samples);
    return failed;
}
