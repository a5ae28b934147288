/* From a launcher's variables to a process group. */
#include "ddpcore/world/world.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ddpcore/world/connect.h"

#define DEFAULT_TIMEOUT_NS (600 * DDP_NS_PER_S)
#define GROUP_NAME         "world"
#define GROUP_COMM         1u

/* Memory of the device that the world frees. */
struct ddp_world_block {
    struct ddp_world_block *next;
    void *data;
};

static bool is_strict(const struct ddp_world_config *config)
{
    return config->semantics == DDP_SEMANTICS_STRICT;
}

/* The engine that AUTO stands for. */
static enum ddp_world_engine engine_of(const struct ddp_world_config *config,
                                       const struct ddp_device *device)
{
    if (config->engine != DDP_WORLD_ENGINE_AUTO) {
        return config->engine;
    }
    return device->ops->is_host_memory ? DDP_WORLD_ENGINE_SCHEDULE : DDP_WORLD_ENGINE_NCCL;
}

static bool is_by_schedules(const struct ddp_world_config *config)
{
    const bool is_on_host = config->device == NULL || config->device->ops->is_host_memory;

    return config->engine == DDP_WORLD_ENGINE_SCHEDULE ||
           (config->engine == DDP_WORLD_ENGINE_AUTO && is_on_host);
}

/* What only schedules take, and of it what does not go together. */
static ddp_status check_schedules(const struct ddp_world_config *config, struct ddp_err *err)
{
    bool is_any =
        config->tuned_path != NULL || config->segment_bytes > 0 || config->node_of_rank != NULL;

    for (size_t k = 0; k < (size_t)DDP_COLL_KIND_COUNT; k++) {
        is_any = is_any || config->of_kind[k] != DDP_ALGORITHM_NONE;
    }
    if (is_any && !is_by_schedules(config)) {
        return ddp_err_set(
            err, DDP_E_INVALID,
            "of_kind, segment_bytes, tuned_path and node_of_rank are about the engine "
            "SCHEDULE, and this world has another one");
    }
    if (config->tuned_path != NULL && config->algorithm != DDP_ALGORITHM_NONE) {
        return ddp_err_set(err, DDP_E_INVALID, "tuned_path chooses the algorithm, and so does %s",
                           ddp_algorithm_name(config->algorithm));
    }
    if (config->tuned_path != NULL && config->transport != DDP_WORLD_TRANSPORT_SHM) {
        return ddp_err_set(err, DDP_E_INVALID, "tuned_path is about shared memory, not TCP");
    }
    return DDP_OK;
}

static ddp_status check(const struct ddp_world_config *config, struct ddp_err *err)
{
    if (config->engine == DDP_WORLD_ENGINE_MPI && config->mpi_path == NULL) {
        return ddp_err_set(err, DDP_E_INVALID, "the engine MPI needs mpi_path: libddp_mpi.so");
    }
    if (config->engine == DDP_WORLD_ENGINE_MPI && config->algorithm != DDP_ALGORITHM_NONE) {
        return ddp_err_set(err, DDP_E_INVALID, "MPI chooses its algorithms itself, not %s",
                           ddp_algorithm_name(config->algorithm));
    }
    DDP_TRY(check_schedules(config, err));
    if (config->engine == DDP_WORLD_ENGINE_SCHEDULE && config->device != NULL &&
        !config->device->ops->is_host_memory) {
        return ddp_err_set(err, DDP_E_INVALID,
                           "schedules over shared memory cannot reach the memory of %s: "
                           "take the engine NCCL",
                           config->device->ops->name);
    }
    return DDP_OK;
}

static ddp_status open_device(struct ddp_world *world, const struct ddp_world_config *config,
                              struct ddp_err *err)
{
    ddp_status status;

    world->device = config->device;
    if (world->device == NULL) {
        status = ddp_device_cpu_create(world->env.mem, &world->device);
        if (status != DDP_OK) {
            return ddp_err_set(err, status, "no CPU device: %s", ddp_status_text(status));
        }
        world->is_own_device = true;
    }
    return ddp_transfer_init(&world->transfer, world->device, world->env.idle, world->env.clock,
                             world->timeout_ns);
}

/* Takes over transport, also on failure; as the one below. */
static ddp_status open_nccl(struct ddp_world *world, const struct ddp_world_config *config,
                            struct ddp_transport *transport, struct ddp_err *err)
{
    struct ddp_coll_nccl_config nccl = {.store = world->store,
                                        .name = GROUP_NAME,
                                        .comm = GROUP_COMM,
                                        .is_checked = is_strict(config),
                                        .init_timeout_ns = world->timeout_ns,
                                        .algorithm = config->algorithm};
    ddp_status status = ddp_nccl_library_open(world->env.mem, config->nccl_path, &world->nccl, err);

    if (status != DDP_OK) {
        transport->ops->destroy(transport);
        return status;
    }
    nccl.library = world->nccl;
    return ddp_coll_nccl_create(&world->env, transport, world->device, &nccl, &world->engine, err);
}

static ddp_status open_mpi(struct ddp_world *world, const struct ddp_world_config *config,
                           struct ddp_transport *transport, struct ddp_err *err)
{
    struct ddp_coll_mpi_config mpi = {
        .comm = GROUP_COMM, .is_checked = is_strict(config), .init_timeout_ns = world->timeout_ns};
    ddp_status status = ddp_mpi_library_open(config->mpi_path, &world->mpi, err);

    if (status != DDP_OK) {
        transport->ops->destroy(transport);
        return status;
    }
    mpi.library = world->mpi;
    return ddp_coll_mpi_create(&world->env, transport, world->device, &mpi, &world->engine, err);
}

static ddp_status open_engine(struct ddp_world *world, const struct ddp_world_config *config,
                              const struct ddp_world_members *members,
                              struct ddp_transport *transport, struct ddp_err *err)
{
    switch (engine_of(config, world->device)) {
    case DDP_WORLD_ENGINE_NCCL:
        return open_nccl(world, config, transport, err);
    case DDP_WORLD_ENGINE_MPI:
        return open_mpi(world, config, transport, err);
    case DDP_WORLD_ENGINE_AUTO:
    case DDP_WORLD_ENGINE_SCHEDULE:
        break;
    }
    return ddp_world_schedules(world, members, GROUP_COMM, transport, &world->engine, err);
}

static ddp_status open_group(struct ddp_world *world, const struct ddp_world_config *config,
                             struct ddp_err *err)
{
    struct ddp_coll *coll;
    ddp_status status = ddp_world_decorate(world, GROUP_NAME, world->engine, &coll, err);

    if (status != DDP_OK) {
        world->engine = NULL;
        return status;
    }
    ddp_group_init(&world->group, &world->env, coll, config->semantics, world->timeout_ns);
    return DDP_OK;
}

ddp_status ddp_world_open(struct ddp_world *world,
                          const char *(*lookup)(void *context, const char *name), void *context,
                          const struct ddp_world_config *config, struct ddp_err *err)
{
    struct ddp_world_members all = {.group_name = GROUP_NAME};
    struct ddp_transport *transport = NULL;
    uint64_t deadline_ns;
    ddp_status status;

    memset(world, 0, sizeof(*world));
    DDP_TRY(check(config, err));
    DDP_TRY(ddp_rendezvous_parse(lookup, context, &world->where, err));
    world->timeout_ns = config->timeout_ns != 0 ? config->timeout_ns : DEFAULT_TIMEOUT_NS;
    world->config = *config;
    ddp_env_init_process(&world->env, &world->idle, world->where.rank, world->where.world_size);
    deadline_ns = ddp_clock_deadline_ns(world->env.clock, world->timeout_ns);
    status = ddp_rendezvous_store(&world->env, &world->where, deadline_ns, &world->store, err);
    if (status == DDP_OK) {
        status = open_device(world, config, err);
    }
    if (status == DDP_OK) {
        status = ddp_world_take_tuned(world, deadline_ns, err);
    }
    if (status == DDP_OK) {
        status = ddp_world_find_nodes(world, deadline_ns, err);
    }
    if (status == DDP_OK) {
        /* Data travels in it, or beside NCCL and MPI the notices of deaths, revocations and
         * agreements. */
        all.member = world->where.rank;
        all.member_count = world->where.world_size;
        status = ddp_world_connect(world, &all, deadline_ns, &transport, err);
    }
    if (status == DDP_OK) {
        status = open_engine(world, config, &all, transport, err);
    }
    if (status == DDP_OK) {
        status = open_group(world, config, err);
    }
    if (status != DDP_OK) {
        ddp_world_close(world);
    }
    return status;
}

ddp_status ddp_world_finish(struct ddp_world *world)
{
    DDP_TRY(ddp_group_barrier(&world->group));
    return world->mpi != NULL ? ddp_coll_mpi_finish(world->engine, world->timeout_ns) : DDP_OK;
}

void ddp_world_close(struct ddp_world *world)
{
    if (world->engine != NULL) {
        ddp_group_fini(&world->group);
    }
    while (world->blocks != NULL) {
        struct ddp_world_block *block = world->blocks;

        world->blocks = block->next;
        world->device->ops->free(world->device, DDP_SPACE_DEVICE, block->data);
        ddp_mem_free(world->env.mem, block);
    }
    ddp_transfer_fini(&world->transfer);
    if (world->is_own_device) {
        world->device->ops->destroy(world->device);
    }
    if (world->nccl != NULL) {
        ddp_nccl_library_close(world->nccl);
    }
    if (world->mpi != NULL) {
        ddp_mpi_library_close(world->mpi);
    }
    if (world->store != NULL) {
        world->store->ops->destroy(world->store);
    }
    if (world->tuned != NULL) {
        ddp_mem_free(world->env.mem, world->tuned);
    }
    if (world->node_of_rank != NULL) {
        ddp_mem_free(world->env.mem, world->node_of_rank);
    }
    memset(world, 0, sizeof(*world));
}

ddp_status ddp_world_alloc(struct ddp_world *world, size_t size_bytes, void **out)
{
    struct ddp_world_block *block = ddp_mem_array(world->env.mem, 1, sizeof(*block));
    ddp_status status;

    *out = NULL;
    if (block == NULL) {
        return DDP_E_NOMEM;
    }
    status = world->device->ops->alloc(world->device, size_bytes, DDP_SPACE_DEVICE, &block->data);
    if (status != DDP_OK) {
        ddp_mem_free(world->env.mem, block);
        return status;
    }
    block->next = world->blocks;
    world->blocks = block;
    *out = block->data;
    return DDP_OK;
}

ddp_status ddp_world_param(struct ddp_world *world, const char *name, size_t rows, size_t columns,
                           struct ddp_param *out)
{
    *out = (struct ddp_param){.name = name,
                              .elem_count = rows * (columns > 0 ? columns : 1),
                              .ndim = columns > 0 ? 2 : 1,
                              .shape = {rows, columns}};
    DDP_TRY(ddp_world_alloc(world, ddp_param_size_bytes(out), &out->data));
    return ddp_world_alloc(world, ddp_param_size_bytes(out), &out->grad);
}

void ddp_world_describe(const struct ddp_world *world, ddp_status status, struct ddp_err *err)
{
    const struct ddp_failure *failure = &world->group.failure;
    char words[sizeof(err->text)];

    memcpy(words, err->text, sizeof(words));
    words[sizeof(words) - 1] = '\0';
    (void)ddp_err_set(err, status, "rank %" PRIu32 ": %s: %.700s", world->where.rank,
                      ddp_status_name(status), words[0] != '\0' ? words : ddp_status_text(status));
    if (world->engine != NULL && failure->status == status && failure->rank >= 0 &&
        (uint32_t)failure->rank != world->where.rank) {
        const size_t length = strlen(err->text);

        (void)snprintf(err->text + length, sizeof(err->text) - length,
                       " (because of rank %" PRId32 ", step %" PRIu32 ")", failure->rank,
                       failure->step);
    }
}
