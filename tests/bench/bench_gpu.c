/* What a GPU makes of it, as ratios in one run: bucket kernels against the measured copy bandwidth,
 * a data-parallel world of one over NCCL against the bare trainer, watched against unwatched. Steps
 * a second of the bare trainer are printed for ci/bench/torch_gpu.py, which puts PyTorch beside
 * them. Usage: bench_gpu [seconds a figure [Ki elements a kernel]]. Libraries: DDPROVE_CUBLAS,
 * DDPROVE_NCCL. Exit 77: no card. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ddpcore/cuda/cuda.h"
#include "ddpcore/ddp/ddp.h"
#include "ddpcore/device/observer.h"
#include "ddpcore/nccl/nccl.h"
#include "ddpcore/transport/shm.h"
#include "reference/trainer.h"

enum { WINDOWS = 6, RING_ENTRIES = 1 << 20 };
#define TIMEOUT_NS (60 * DDP_NS_PER_S)

struct bench_row {
    const char *name;
    size_t width[4];
    size_t batch_rows;
};

static const struct bench_row rows[] = {
    {"MLP-S", {64, 256, 256, 10}, 32},
    {"MLP-L", {784, 1024, 1024, 10}, 64},
};

static ddp_status create_device(struct ddp_device **out, struct ddp_err *err)
{
    const struct ddp_device_cuda_config config = {.cublas_path = getenv("DDPROVE_CUBLAS")};

    return ddp_device_cuda_create(ddp_mem_system(), &config, out, err);
}

/* --- kernels -----------------------------------------------------------------------------------*/

enum kernel { KERNEL_COPY, KERNEL_SCALE, KERNEL_NARROW, KERNEL_REDUCE, KERNEL_COUNT };

static const struct {
    const char *name;
    double bytes_per_elem; /* read and written */
} kernels[KERNEL_COUNT] = {{"copy f32", 8.0},
                           {"scale f32 (a gradient into its bucket)", 8.0},
                           {"scale f32 to bf16", 6.0},
                           {"reduce f32 sum", 12.0}};

static ddp_status enqueue(struct ddp_device *device, enum kernel kernel, float *target,
                          const float *source, size_t elem_count)
{
    const struct ddp_device_ops *ops = device->ops;

    switch (kernel) {
    case KERNEL_COPY:
        return ops->copy(device, NULL, target, source, elem_count * sizeof(float));
    case KERNEL_SCALE:
        return ops->scale(device, NULL, target, DDP_DTYPE_F32, source, DDP_DTYPE_F32, elem_count,
                          0.125f);
    case KERNEL_NARROW:
        return ops->scale(device, NULL, target, DDP_DTYPE_BF16, source, DDP_DTYPE_F32, elem_count,
                          0.125f);
    default:
        return ops->reduce(device, NULL, target, source, elem_count, DDP_DTYPE_F32, DDP_REDOP_SUM);
    }
}

static ddp_status finish(struct ddp_device *device, struct ddp_device_event *event)
{
    ddp_status status = device->ops->event_record(device, event, NULL);

    while (status == DDP_OK && (status = device->ops->event_query(device, event)) == DDP_PENDING) {
        status = DDP_OK;
    }
    return status;
}

/* Best of the windows, in bytes a nanosecond (GB/s). */
static ddp_status time_kernel(struct ddp_device *device, enum kernel kernel, float *target,
                              const float *source, size_t elem_count, double *out)
{
    enum { REPEATS = 20 };
    struct ddp_device_event *event;
    ddp_status status;

    *out = 0.0;
    DDP_TRY(device->ops->event_create(device, &event));
    status = enqueue(device, kernel, target, source, elem_count);
    status = status == DDP_OK ? finish(device, event) : status;
    for (int window = 0; window < WINDOWS && status == DDP_OK; window++) {
        uint64_t begin_ns = ddp_clock_now_ns(ddp_clock_monotonic());
        double rate;

        for (int i = 0; i < REPEATS && status == DDP_OK; i++) {
            status = enqueue(device, kernel, target, source, elem_count);
        }
        status = status == DDP_OK ? finish(device, event) : status;
        rate = REPEATS * kernels[kernel].bytes_per_elem * (double)elem_count /
               (double)(ddp_clock_now_ns(ddp_clock_monotonic()) - begin_ns);
        *out = rate > *out ? rate : *out;
    }
    device->ops->event_destroy(device, event);
    return status;
}

static ddp_status bench_kernels(size_t elem_count, struct ddp_err *err)
{
    struct ddp_device *device;
    void *target = NULL;
    void *source = NULL;
    double copy = 0.0;
    ddp_status status;

    DDP_TRY(create_device(&device, err));
    status = device->ops->alloc(device, elem_count * sizeof(float), DDP_SPACE_DEVICE, &target);
    if (status == DDP_OK) {
        status = device->ops->alloc(device, elem_count * sizeof(float), DDP_SPACE_DEVICE, &source);
    }
    for (int kernel = 0; kernel < KERNEL_COUNT && status == DDP_OK; kernel++) {
        double rate;

        status = time_kernel(device, (enum kernel)kernel, target, source, elem_count, &rate);
        copy = kernel == KERNEL_COPY ? rate : copy;
        if (status == DDP_OK) {
            printf("kernel %-40s %8.1f GB/s  %.3f of copy\n", kernels[kernel].name, rate,
                   rate / copy);
        }
    }
    device->ops->destroy(device);
    return status;
}

/* --- training ----------------------------------------------------------------------------------*/

/* A trainer, and around its model whatever a world of one needs. */
struct world {
    struct ddp_device *device;
    struct ref_trainer *trainer;
    struct ddp_env env;
    struct ddp_idle_process idle;
    struct ddp_recorder recorder;
    void *recorder_storage;
    struct ddp_progress *progress;
    struct ddp_store *store;
    struct ddp_nccl_library *library;
    struct ddp_group group;
    bool is_group;
    struct ddp *ddp;
    uint32_t step;
};

static ddp_status open_trainer(struct world *world, const struct bench_row *row,
                               struct ddp_err *err)
{
    struct ref_job job = {.model = {.name = "mlp", .width_count = 4},
                          .data = {.name = "synthetic", .feature_count = row->width[0]},
                          .shard = {.world_size = 1, .is_shuffled = true},
                          .micro_batches = 1};

    for (size_t i = 0; i < 4; i++) {
        job.model.width[i] = row->width[i];
    }
    job.shard.batch_rows = &row->batch_rows;
    ref_optimizer_defaults(&job.optimizer, REF_OPTIMIZER_SGD);
    return ref_trainer_create(world->device, &job, &world->trainer, err);
}

/* The recorder, the device's observer and the words, as in a run that is watched and not judged. */
static ddp_status watch(struct world *world)
{
    size_t size_bytes = ddp_recorder_size_bytes(RING_ENTRIES);
    struct ddp_device *outer;

    world->recorder_storage = aligned_alloc(4096, size_bytes);
    if (world->recorder_storage == NULL) {
        return DDP_E_NOMEM;
    }
    memset(world->recorder_storage, 0, size_bytes);
    ddp_recorder_init(&world->recorder, world->recorder_storage, RING_ENTRIES, world->env.clock, 0,
                      1, 1);
    world->env.recorder = &world->recorder;
    DDP_TRY(ddp_device_observer_create(world->device, &world->env, false, &outer));
    world->device = outer;
    world->progress = ddp_recorder_progress(&world->recorder);
    DDP_TRY(outer->ops->map(outer, world->progress, DDP_PROGRESS_SIZE_BYTES));
    ddp_progress_set_mapped(world->progress, true);
    outer->hints->set_progress(outer, world->progress);
    return DDP_OK;
}

static ddp_status open_store(struct world *world, struct ddp_err *err)
{
    struct ddp_store_server *server;
    uint16_t port;
    int fd;

    DDP_TRY(ddp_store_listen("127.0.0.1", 0, &fd, &port, err));
    DDP_TRY(ddp_store_server_create(world->env.mem, fd, &server, err));
    return ddp_store_host_create(&world->env, server, &world->store);
}

static ddp_status open_group(struct world *world, struct ddp_err *err)
{
    const struct ddp_shm_config shm = {.group_name = "bench", .member_count = 1};
    uint64_t deadline_ns = ddp_clock_deadline_ns(world->env.clock, TIMEOUT_NS);
    struct ddp_coll_nccl_config config = {.name = "bench",
                                          .comm = 1,
                                          .is_checked = true,
                                          .init_timeout_ns = TIMEOUT_NS,
                                          .progress = world->progress};
    struct ddp_transport *transport;
    struct ddp_coll *coll, *outer;

    DDP_TRY(open_store(world, err));
    DDP_TRY(ddp_nccl_library_open(world->env.mem, getenv("DDPROVE_NCCL"), &world->library, err));
    DDP_TRY(ddp_shm_create(&world->env, world->store, &shm, deadline_ns, &transport, err));
    config.library = world->library;
    config.store = world->store;
    DDP_TRY(ddp_coll_nccl_create(&world->env, transport, world->device, &config, &coll, err));
    if (ddp_coll_observer_create(coll, false, &outer) != DDP_OK) {
        coll->ops->destroy(coll);
        return DDP_E_NOMEM;
    }
    ddp_group_init(&world->group, &world->env, outer, DDP_SEMANTICS_STRICT, TIMEOUT_NS);
    world->is_group = true;
    return DDP_OK;
}

static ddp_status world_open(struct world *world, const struct bench_row *row, bool is_ddp,
                             bool is_watched, struct ddp_err *err)
{
    const struct ddp_config config = {.bucket_cap_bytes = 0};
    struct ddp_model model = {.params = NULL};

    memset(world, 0, sizeof *world);
    ddp_env_init_process(&world->env, &world->idle, 0, 1);
    DDP_TRY(create_device(&world->device, err));
    DDP_TRY(is_watched ? watch(world) : DDP_OK);
    DDP_TRY(open_trainer(world, row, err));
    if (!is_ddp) {
        return DDP_OK;
    }
    DDP_TRY(open_group(world, err));
    model.params = ref_model_params(ref_trainer_model(world->trainer), &model.param_count);
    return ddp_create(&world->group, world->device, &model, &config, &world->ddp, err);
}

static void world_close(struct world *world)
{
    ddp_destroy(world->ddp);
    if (world->is_group) {
        ddp_group_fini(&world->group);
    }
    ref_trainer_destroy(world->trainer);
    if (world->device != NULL) {
        world->device->hints->set_progress(world->device, NULL);
        if (world->progress != NULL) {
            world->device->ops->unmap(world->device, world->progress);
        }
        world->device->ops->destroy(world->device);
    }
    if (world->store != NULL) {
        world->store->ops->destroy(world->store);
    }
    if (world->library != NULL) {
        ddp_nccl_library_close(world->library);
    }
    free(world->recorder_storage);
}

static ddp_status on_grad_ready(void *context, size_t param)
{
    return ddp_grad_ready((struct ddp *)context, param);
}

/* Marks as the rank program of the harness sets them. */
static ddp_status mark(const struct world *world, enum ddp_mark kind)
{
    uint64_t word;

    if (world->progress == NULL) {
        return DDP_OK;
    }
    word = ddp_progress_next(world->progress, DDP_PROGRESS_COMPUTE, kind, 0);
    return world->device->ops->store_word(
        world->device, NULL, &world->progress->stream[DDP_PROGRESS_COMPUTE].reached, word);
}

static ddp_status train_step(struct world *world)
{
    struct ref_model *model = ref_trainer_model(world->trainer);
    const struct ref_model_observer observer = {.context = world->ddp, .grad_ready = on_grad_ready};
    const struct ref_model_observer *seen = world->ddp != NULL ? &observer : NULL;
    struct ref_batch batch;
    float loss;

    DDP_TRY(ref_trainer_batch(world->trainer, 0, world->step++, 0, &batch));
    ref_model_zero_grad(model);
    DDP_TRY(mark(world, DDP_MARK_FORWARD));
    DDP_TRY(world->ddp != NULL ? ddp_forward_begin(world->ddp) : DDP_OK);
    DDP_TRY(ref_model_forward(model, &batch, NULL, &loss));
    DDP_TRY(mark(world, DDP_MARK_BACKWARD));
    DDP_TRY(world->ddp != NULL ? ddp_backward_begin(world->ddp, NULL) : DDP_OK);
    DDP_TRY(ref_model_backward(model, 1.0f, seen));
    DDP_TRY(world->ddp != NULL ? ddp_backward_end(world->ddp) : DDP_OK);
    DDP_TRY(mark(world, DDP_MARK_OPTIMIZER));
    return ref_optimizer_step(ref_trainer_optimizer(world->trainer), NULL, NULL);
}

static ddp_status run_window(struct world *world, double seconds, double *best)
{
    uint64_t begin_ns = ddp_clock_now_ns(ddp_clock_monotonic());
    uint64_t now_ns = begin_ns;
    uint32_t first = world->step;
    double rate;

    while ((double)(now_ns - begin_ns) < seconds * 1e9) {
        DDP_TRY(train_step(world));
        now_ns = ddp_clock_now_ns(ddp_clock_monotonic());
    }
    rate = (double)(world->step - first) * 1e9 / (double)(now_ns - begin_ns);
    *best = rate > *best ? rate : *best;
    return DDP_OK;
}

enum { BARE, WRAPPED, WATCHED, VARIANT_COUNT };

/* Windows of the three take turns, so that a change of clocks meets all of them. */
static ddp_status bench_training(const struct bench_row *row, double seconds, struct ddp_err *err)
{
    struct world worlds[VARIANT_COUNT];
    double best[VARIANT_COUNT] = {0};
    ddp_status status = DDP_OK;

    memset(worlds, 0, sizeof worlds);
    for (int i = 0; i < VARIANT_COUNT && status == DDP_OK; i++) {
        status = world_open(&worlds[i], row, i != BARE, i == WATCHED, err);
        status = status == DDP_OK ? train_step(&worlds[i]) : status;
    }
    for (int window = 0; window < WINDOWS && status == DDP_OK; window++) {
        for (int i = 0; i < VARIANT_COUNT && status == DDP_OK; i++) {
            status = run_window(&worlds[i], seconds / WINDOWS, &best[i]);
        }
    }
    if (status == DDP_OK) {
        printf("reference %s batch %zu: %.0f steps/s\n", row->name, row->batch_rows, best[BARE]);
        printf("ddp %s, world 1 over NCCL: %.0f steps/s  %.3f of the reference\n", row->name,
               best[WRAPPED], best[WRAPPED] / best[BARE]);
        printf("watched %s (recorder, observer, words): %.0f steps/s  %.3f of unwatched\n",
               row->name, best[WATCHED], best[WATCHED] / best[WRAPPED]);
    }
    for (int i = 0; i < VARIANT_COUNT; i++) {
        world_close(&worlds[i]);
    }
    return status;
}

int main(int argc, char **argv)
{
    double seconds = argc > 1 ? strtod(argv[1], NULL) : 6.0;
    size_t elem_count = (size_t)(argc > 2 ? strtoul(argv[2], NULL, 10) : 16384) << 10;
    struct ddp_device_cuda_info info;
    struct ddp_err err = {""};
    ddp_status status = ddp_device_cuda_query(0, &info, &err);

    if (status != DDP_OK) {
        printf("no card: %s\n", err.text);
        return 77;
    }
    printf("%s, driver %u, runtime %u\n", info.name, info.driver_version, info.runtime_version);
    status = bench_kernels(elem_count, &err);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]) && status == DDP_OK; i++) {
        status = bench_training(&rows[i], seconds, &err);
    }
    if (status != DDP_OK) {
        fprintf(stderr, "bench_gpu: %s %s\n", ddp_status_name(status), err.text);
        return 1;
    }
    return 0;
}
