/* A trainer on the installed headers of ddpcore alone, on the CPU or on a card a rank with NCCL;
 * its model and data are core_model.c. Worker threads make its batches, checkpoints go on with
 * any number of ranks, and `ddprove exec` sees its model, its samples and its collectives. The
 * variables of torchrun, mpirun or Slurm say who and where it is.
 *
 * Usage: core_trainer [--cuda] STEPS [CHECKPOINT]; it goes on from a checkpoint that exists.
 * CORE_TRAINER_TCP: sockets, not shared memory. CORE_TRAINER_NCCL, _CUBLAS: where these libraries
 * are.
 */
#include <core_model.h>
#ifdef CORE_TRAINER_CUDA
#include <ddpcore/cuda/cuda.h>
#endif
#include <ddpcore/ddp/clip.h>
#include <ddpcore/ddp/drift.h>
#include <ddpcore/device/math.h>
#include <ddpcore/world/state.h>
#include <ddprove_ddpcore.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct ddp_world world;
static struct ddp *ddp;
static struct ddprove_core_batches batches = {.env = &world.env};
static struct model model;

static const char *lookup(void *context, const char *name)
{
    (void)context;
    return getenv(name);
}

static ddp_status next_batch(void)
{
    struct ddp_loader_batch batch = {0};

    DDP_TRY(ddprove_core_next(&batches, DDP_DEADLINE_NEVER, &batch));
    return ddp_transfer_to_device(&world.transfer, &model.work->batch, batch.data,
                                  sizeof(struct batch));
}

/* Each gradient is handed over once it is complete: its sum overlaps with what is left to do. */
static ddp_status forward_backward(void)
{
    DDP_TRY(ddp_forward_begin(ddp));
    DDP_TRY(model_forward(&model));
    DDP_TRY(ddp_backward_begin(ddp, NULL));
    DDP_TRY(model_bias_backward(&model));
    DDP_TRY(ddp_grad_ready(ddp, BIAS));
    DDP_TRY(model_weight_backward(&model));
    DDP_TRY(ddp_grad_ready(ddp, WEIGHT));
    return ddp_backward_end(ddp);
}

static ddp_status train_step(uint64_t step)
{
    const struct ddprove_guest_optimizer told = {
        .size_bytes = sizeof told, .kind = DDPROVE_GUEST_SGD, .lr = 0.05F, .momentum = 0.9F};
    const struct ddp_sgd sgd = {.lr = 0.05F, .momentum = 0.9F, .is_first_step = step == 0};
    const struct ddp_param *tensors = model.tensors;
    void *const momenta[PARAMS] = {tensors[PARAMS].data, tensors[PARAMS + BIAS].data};
    const struct ddprove_core_update update = {.params = tensors,
                                               .param_count = PARAMS,
                                               .optimizer = &told,
                                               .state = {momenta, NULL},
                                               .update_count = step,
                                               .device = world.device};

    ddprove_guest_step(step);
    world.group.step = (uint32_t)step;
    DDP_TRY(next_batch());
    DDP_TRY(forward_backward());
    DDP_TRY(ddp_clip_grad_norm(ddp, 5, NULL));
    DDP_TRY(ddprove_core_update_begin(&update));
    for (int p = 0; p < PARAMS; p++) {
        DDP_TRY(world.device->math->sgd(world.device, NULL, &sgd, tensors[p].data, tensors[p].grad,
                                        momenta[p], tensors[p].elem_count));
    }
    return ddprove_core_updated(&update);
}

/* The mean loss of this rank's batch, and a hash of its replica. */
static ddp_status report(const char *when, uint64_t step)
{
    float losses[BATCH], sum = 0;
    uint64_t hash;

    DDP_TRY(ddp_transfer_to_host(&world.transfer, losses, model.work->losses,
                                 BATCH * sizeof losses[0]));
    for (int i = 0; i < BATCH; i++) {
        sum += losses[i];
    }
    DDP_TRY(ddp_hash_params(ddp, &hash));
    (void)printf("rank %" PRIu32 " %s step %" PRIu64 " loss %.6f hash %016" PRIx64 "\n",
                 world.where.rank, when, step, (double)sum / BATCH, hash);
    return DDP_OK;
}

static ddp_status train(uint64_t steps, const char *path, struct ddp_err *err)
{
    const struct ddp_config config = {.bucket_cap_bytes = 40}; /* two buckets */
    const struct ddp_model wrapped = {.params = model.tensors, .param_count = PARAMS};
    struct ddp_world_state state = {.tensors = model.tensors, .tensor_count = TENSORS};
    struct ddp_loader_config load = {.sampler = {.sample_count = SAMPLES,
                                                 .rank = world.where.rank,
                                                 .world_size = world.where.world_size,
                                                 .is_shuffled = true,
                                                 .drop_last = true,
                                                 .seed = 1},
                                     .batch_rows = BATCH,
                                     .slot_count = 4,
                                     .slot_bytes = sizeof(struct batch),
                                     .worker_count = 2,
                                     .is_endless = true,
                                     .device = world.device,
                                     .read = model_read};
    ddp_status status;

    DDP_TRY(model_make(&world, &model));
    status = path != NULL ? ddp_world_load(&world, path, &state, err) : DDP_OK;
    DDP_TRY(status == DDP_E_NOT_FOUND ? DDP_OK : status);
    load.sampler.first = state.samples.used;
    DDP_TRY(ddp_loader_create(world.env.mem, &load, state.samples.epoch, &batches.loader, err));
    DDP_TRY(ddp_create(&world.group, world.device, &wrapped, &config, &ddp, err));
    DDP_TRY(ddprove_core_model(ddp, world.env.mem, model.tensors, PARAMS));
    for (uint64_t first = state.steps_done; state.steps_done < steps; state.steps_done++) {
        DDP_TRY(train_step(state.steps_done));
        DDP_TRY(state.steps_done == first ? report("first", first + 1) : DDP_OK);
    }
    ddprove_guest_epoch_break();
    DDP_TRY(report("last", state.steps_done));
    state.samples = ddp_loader_state(batches.loader);
    DDP_TRY(path != NULL ? ddp_world_save(&world, path, &state, err) : DDP_OK);
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
#endif
    *out = NULL;
    return is_cuda ? ddp_err_set(err, DDP_E_UNSUPPORTED, "built without CORE_TRAINER_CUDA")
                   : ddp_blas_open(NULL, err);
}

int main(int argc, char **argv)
{
    const int is_cuda = argc > 1 && strcmp(argv[1], "--cuda") == 0;
    struct ddp_world_config config = {.timeout_ns = 20 * DDP_NS_PER_S,
                                      .transport = getenv("CORE_TRAINER_TCP") != NULL
                                                       ? DDP_WORLD_TRANSPORT_TCP
                                                       : DDP_WORLD_TRANSPORT_SHM,
                                      .nccl_path = getenv("CORE_TRAINER_NCCL"),
                                      .decorate = ddprove_core_watch};
    struct ddp_err err = {{0}};
    ddp_status status = open_device(is_cuda, &config.device, &err);

    status = status == DDP_OK ? ddp_world_open(&world, lookup, NULL, &config, &err) : status;
    if (status == DDP_OK) {
        status = train(argc > 1 + is_cuda ? strtoull(argv[1 + is_cuda], NULL, 10) : 20,
                       argc > 2 + is_cuda ? argv[2 + is_cuda] : NULL, &err);
    }
    if (status != DDP_OK) {
        ddp_world_describe(&world, status, &err);
        (void)fprintf(stderr, "core_trainer: %s\n", err.text);
    } else {
        ddprove_guest_detach();
    }
    ddp_loader_destroy(batches.loader);
    ddp_destroy(ddp);
    ddp_world_close(&world);
    return status == DDP_OK ? 0 : 1;
}
