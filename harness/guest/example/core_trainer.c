/* A trainer on the installed headers of ddpcore alone: softmax regression on digits of its own, on
 * the CPU over shared memory, or on a card a rank with NCCL. It has a sampler and checkpoints, and
 * shows its model and its samples to `ddprove exec`. The variables of torchrun (or mpirun, Slurm)
 * say who and where it is.
 *
 * Usage: core_trainer [--cuda] STEPS [CHECKPOINT]; it goes on from a checkpoint that exists.
 * CORE_TRAINER_NCCL, CORE_TRAINER_CUBLAS: these libraries, where they are not in the usual place.
 */
#include <ddpcore/base/hash.h>
#include <ddpcore/base/prng.h>
#ifdef CORE_TRAINER_CUDA
#include <ddpcore/cuda/cuda.h>
#endif
#include <ddpcore/ddp/clip.h>
#include <ddpcore/ddp/drift.h>
#include <ddpcore/ddp/sampler.h>
#include <ddpcore/device/math.h>
#include <ddpcore/device/transfer.h>
#include <ddpcore/world/state.h>
#include <ddprove_ddpcore.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIXELS = 64, CLASSES = 10, SAMPLES = 600, BATCH = 10 };
enum { WEIGHT, BIAS, PARAMS, TENSORS = 2 * PARAMS };
static const struct ddp_sgd sgd = {.lr = 0.05F, .momentum = 0.9F};

static struct ddp_world world;
static struct ddp_device *device;
static struct ddp_transfer transfer; /* between the host and the device */
static struct ddp *ddp;
static struct ddp_param *params; /* behind them lie their momenta: a checkpoint holds all tensors */
static void *x, *logits, *d_logits, *losses, *labels; /* of a batch, on the device */
static uint32_t samples[SAMPLES];                     /* this rank's, of the epoch */
static uint64_t done;                                 /* steps */

static const char *lookup(void *context, const char *name)
{
    (void)context;
    return getenv(name);
}

static ddp_status alloc(size_t elem_count, void **out)
{
    return device->ops->alloc(device, elem_count * sizeof(float), DDP_SPACE_DEVICE, out);
}

static ddp_status make_tensor(int number, const char *name, size_t rows, size_t columns)
{
    params[number] = (struct ddp_param){
        .name = name, .elem_count = rows * columns, .ndim = 2, .shape = {rows, columns}};
    DDP_TRY(alloc(rows * columns, &params[number].data));
    return alloc(rows * columns, &params[number].grad);
}

static ddp_status make_tensors(void)
{
    struct ddp_prng prng = ddp_prng_make(world.where.rank, "init"); /* all get rank 0's */
    float values[CLASSES * PIXELS];

    for (int i = 0; i < CLASSES * PIXELS; i++) {
        values[i] = (ddp_prng_uniform(&prng) - 0.5F) * 0.2F;
    }
    params = ddp_mem_array(world.env.mem, TENSORS, sizeof *params);
    if (params == NULL) {
        return DDP_E_NOMEM;
    }
    DDP_TRY(make_tensor(WEIGHT, "weight", CLASSES, PIXELS));
    DDP_TRY(make_tensor(BIAS, "bias", CLASSES, 1));
    DDP_TRY(make_tensor(PARAMS + WEIGHT, "momentum.weight", CLASSES, PIXELS));
    DDP_TRY(make_tensor(PARAMS + BIAS, "momentum.bias", CLASSES, 1));
    DDP_TRY(alloc((size_t)BATCH * PIXELS, &x));
    DDP_TRY(alloc((size_t)BATCH * CLASSES, &logits));
    DDP_TRY(alloc((size_t)BATCH * CLASSES, &d_logits));
    DDP_TRY(alloc(BATCH, &losses));
    DDP_TRY(alloc(BATCH, &labels));
    return ddp_transfer_to_device(&transfer, params[WEIGHT].data, values, sizeof values);
}

/* The batch at this place of the rank's share. A sample is one of ten pictures, with noise. */
static ddp_status load_batch(uint32_t place)
{
    struct ddprove_guest_place next = {.size_bytes = sizeof next,
                                       .point = DDPROVE_GUEST_POINT_DATA_NEXT};
    float pixels[BATCH * PIXELS];
    int32_t answers[BATCH];
    uint64_t numbers[BATCH];

    place = ddprove_guest_pass(&next) > 0 ? place : 0; /* by a fault, the first ones come again */
    for (int b = 0; b < BATCH; b++) {
        struct ddp_prng noise = ddp_prng_make(samples[place + (uint32_t)b], "noise");
        struct ddp_prng picture = ddp_prng_make(samples[place + (uint32_t)b] % CLASSES, "picture");

        numbers[b] = samples[place + (uint32_t)b];
        answers[b] = (int32_t)(numbers[b] % CLASSES);
        for (int i = 0; i < PIXELS; i++) {
            pixels[b * PIXELS + i] = ddp_prng_uniform(&picture) + ddp_prng_uniform(&noise);
        }
    }
    ddprove_guest_batch(numbers, BATCH);
    DDP_TRY(ddp_transfer_to_device(&transfer, x, pixels, sizeof pixels));
    return ddp_transfer_to_device(&transfer, labels, answers, sizeof answers);
}

static ddp_status forward(void)
{
    const struct ddp_gemm product = {.transpose_b = true,
                                     .m = BATCH,
                                     .n = CLASSES,
                                     .k = PIXELS,
                                     .alpha = 1,
                                     .a = x,
                                     .b = params[WEIGHT].data,
                                     .c = logits};
    const struct ddp_loss loss = {.losses = losses,
                                  .dx = d_logits,
                                  .x = logits,
                                  .rows = BATCH,
                                  .columns = CLASSES,
                                  .scale = 1.0F / BATCH};

    DDP_TRY(device->math->gemm(device, NULL, &product));
    DDP_TRY(
        device->math->add_bias(device, NULL, logits, logits, params[BIAS].data, BATCH, CLASSES));
    return device->math->softmax_cross_entropy(device, NULL, &loss, labels);
}

/* Each gradient is handed over once it is complete: its sum overlaps with what is left to do. */
static ddp_status backward(void)
{
    const struct ddp_gemm product = {.transpose_a = true,
                                     .m = CLASSES,
                                     .n = PIXELS,
                                     .k = BATCH,
                                     .alpha = 1,
                                     .a = d_logits,
                                     .b = x,
                                     .c = params[WEIGHT].grad};

    DDP_TRY(
        device->math->sum_rows(device, NULL, params[BIAS].grad, d_logits, BATCH, CLASSES, false));
    DDP_TRY(ddp_grad_ready(ddp, BIAS));
    DDP_TRY(device->math->gemm(device, NULL, &product));
    return ddp_grad_ready(ddp, WEIGHT);
}

static ddp_status update(void)
{
    const struct ddprove_guest_optimizer told = {.size_bytes = sizeof told,
                                                 .kind = DDPROVE_GUEST_SGD,
                                                 .lr = (double)sgd.lr,
                                                 .momentum = (double)sgd.momentum};
    void *const momentum[PARAMS] = {params[PARAMS].data, params[PARAMS + BIAS].data};
    const struct ddprove_core_update shown = {params,           PARAMS, &told,
                                              {momentum, NULL}, done,   device};
    struct ddp_sgd step = sgd;

    step.is_first_step = done == 0;
    DDP_TRY(ddprove_core_update_begin(&shown));
    for (int p = 0; p < PARAMS; p++) {
        DDP_TRY(device->math->sgd(device, NULL, &step, params[p].data, params[p].grad,
                                  params[PARAMS + p].data, params[p].elem_count));
    }
    return ddprove_core_updated(&shown);
}

/* Now and then: do all ranks still hold the same model? */
static ddp_status watch_drift(void)
{
    struct ddp_drift drift;
    const ddp_status status = done % 10 == 0 ? ddp_check_drift(ddp, &drift) : DDP_OK;

    if (status == DDP_E_MODEL && world.where.rank == 0) {
        (void)fprintf(stderr, "core_trainer: rank %" PRId32 " has another %s than most\n",
                      drift.rank, params[drift.param].name);
    }
    return status == DDP_E_MODEL ? DDP_OK : status; /* an alarm, and training goes on */
}

static ddp_status train_step(uint32_t place)
{
    ddprove_guest_step(done);
    world.group.step = (uint32_t)done;
    DDP_TRY(load_batch(place));
    DDP_TRY(ddp_forward_begin(ddp));
    DDP_TRY(forward());
    DDP_TRY(ddp_backward_begin(ddp, NULL));
    DDP_TRY(backward());
    DDP_TRY(ddp_backward_end(ddp));
    DDP_TRY(ddp_clip_grad_norm(ddp, 5, NULL));
    DDP_TRY(update());
    done++;
    return watch_drift();
}

/* This rank's share of the samples, as DistributedSampler deals them out. */
static struct ddp_sampler_config sampler(void)
{
    return (struct ddp_sampler_config){.sample_count = SAMPLES,
                                       .rank = world.where.rank,
                                       .world_size = world.where.world_size,
                                       .is_shuffled = true,
                                       .drop_last = true,
                                       .seed = 1};
}

/* left: of the epoch, batches that are not done. */
static ddp_status begin_epoch(uint64_t number, uint64_t left)
{
    const struct ddp_sampler_config config = sampler();
    const struct ddprove_guest_epoch epoch = {.size_bytes = sizeof epoch,
                                              .number = number,
                                              .sample_count = SAMPLES,
                                              .dropped =
                                                  SAMPLES - left * BATCH * config.world_size};

    ddprove_guest_epoch(&epoch);
    return ddp_sampler_epoch(&config, number, world.env.mem, samples);
}

/* The mean loss of this rank's batch, and a hash of its replica. */
static ddp_status report(const char *when)
{
    float values[CLASSES * PIXELS], sum = 0;
    uint64_t hash = 0;

    DDP_TRY(ddp_transfer_to_host(&transfer, values, losses, BATCH * sizeof values[0]));
    for (int i = 0; i < BATCH; i++) {
        sum += values[i];
    }
    for (int p = 0; p < PARAMS; p++) {
        const size_t size_bytes = ddp_param_size_bytes(&params[p]);

        DDP_TRY(ddp_transfer_to_host(&transfer, values, params[p].data, size_bytes));
        hash = ddp_hash_combine(hash, ddp_hash_bytes(values, size_bytes, 0));
    }
    (void)printf("rank %" PRIu32 " %s step %" PRIu64 " loss %.6f hash %016" PRIx64 "\n",
                 world.where.rank, when, done, (double)sum / BATCH, hash);
    return DDP_OK;
}

/* A file that is not there yet is none to go on from. */
static ddp_status load(const char *path, struct ddp_err *err)
{
    struct ddp_world_state state = {.tensors = params, .tensor_count = TENSORS};
    ddp_status status = path != NULL ? ddp_world_load(&world, path, &state, err) : DDP_E_NOT_FOUND;

    done = state.steps_done;
    return status == DDP_E_NOT_FOUND ? DDP_OK : status;
}

static ddp_status save(const char *path, struct ddp_err *err)
{
    const struct ddp_world_state state = {params, TENSORS, done};

    return path != NULL ? ddp_world_save(&world, path, &state, err) : DDP_OK;
}

static ddp_status train(uint64_t steps, const char *path, struct ddp_err *err)
{
    struct ddp_model model = {.param_count = PARAMS};
    const struct ddp_config config = {.bucket_cap_bytes = 40}; /* two buckets */
    const struct ddp_sampler_config share = sampler();
    const uint64_t batches = ddp_sampler_count(&share) / BATCH;

    device = world.device;
    DDP_TRY(ddp_transfer_init(&transfer, device, world.env.idle, world.env.clock, 0));
    DDP_TRY(make_tensors());
    model.params = params;
    DDP_TRY(load(path, err));
    DDP_TRY(ddp_create(&world.group, device, &model, &config, &ddp, err));
    DDP_TRY(ddprove_core_model(ddp, world.env.mem, params, PARAMS));
    for (const uint64_t first = done; done < steps;) {
        if (done % batches == 0 || done == first) {
            DDP_TRY(begin_epoch(done / batches, batches - done % batches));
        }
        DDP_TRY(train_step((uint32_t)(done % batches * BATCH)));
        DDP_TRY(done == first + 1 ? report("first") : DDP_OK);
    }
    ddprove_guest_epoch_break();
    DDP_TRY(report("last"));
    DDP_TRY(save(path, err));
    return ddp_world_finish(&world);
}

/* NULL: the CPU, whose device the world makes itself. */
static ddp_status open_device(int is_cuda, struct ddp_device **out, struct ddp_err *err)
{
#ifdef CORE_TRAINER_CUDA
    const char *local = getenv("LOCAL_RANK");
    const struct ddp_device_cuda_config card = {
        .ordinal = local != NULL ? (int32_t)strtol(local, NULL, 10) : 0,
        .cublas_path = getenv("CORE_TRAINER_CUBLAS")};

    if (is_cuda) {
        return ddp_device_cuda_create(ddp_mem_system(), &card, out, err);
    }
#else
    if (is_cuda) {
        return ddp_err_set(err, DDP_E_UNSUPPORTED, "built without CORE_TRAINER_CUDA");
    }
#endif
    *out = NULL;
    return ddp_blas_open(NULL, err);
}

int main(int argc, char **argv)
{
    const int is_cuda = argc > 1 && strcmp(argv[1], "--cuda") == 0;
    const char *steps = argc > 1 + is_cuda ? argv[1 + is_cuda] : "20";
    const char *path = argc > 2 + is_cuda ? argv[2 + is_cuda] : NULL;
    struct ddp_world_config config = {.timeout_ns = 20 * DDP_NS_PER_S,
                                      .nccl_path = getenv("CORE_TRAINER_NCCL"),
                                      .decorate = ddprove_core_watch};
    struct ddp_err err = {{0}};
    ddp_status status = open_device(is_cuda, &config.device, &err);

    if (status == DDP_OK) {
        status = ddp_world_open(&world, lookup, NULL, &config, &err);
    }
    if (status == DDP_OK) {
        status = train(strtoull(steps, NULL, 10), path, &err);
    }
    if (status != DDP_OK) {
        ddp_world_describe(&world, status, &err);
        (void)fprintf(stderr, "core_trainer: %s\n", err.text);
    } else {
        ddprove_guest_detach();
    }
    ddp_destroy(ddp);
    ddp_transfer_fini(&transfer);
    ddp_world_close(&world);
    return status == DDP_OK ? 0 : 1;
}
