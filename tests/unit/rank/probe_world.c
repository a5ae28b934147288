/* See the header. */
#include "tests/unit/rank/probe_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ddpcore/device/observer.h"
#include "tests/ct.h"

/* --- the table -------------------------------------------------------------------------------- */

struct table {
    struct ddp_coll base;
    struct probe_rank *rank;
};

static void execute(struct probe_world *world, struct probe_slot *slot)
{
    void *input[PROBE_RANKS_MAX];
    void *output[PROBE_RANKS_MAX];
    uint32_t count = world->config.count;
    size_t size_bytes =
        slot->work[0]->args.elem_count * ddp_dtype_size_bytes(slot->work[0]->args.dtype);

    for (uint32_t r = 0; r < count; r++) {
        /* In place collectives: the inputs are needed until every output is made. */
        input[r] = malloc(size_bytes + 1);
        DDP_ASSERT(input[r] != NULL);
        memcpy(input[r], slot->work[r]->args.input, size_bytes);
        output[r] = slot->work[r]->args.output;
    }
    world->config.sum(world, world->call++, &slot->work[0]->args, input, output);
    for (uint32_t r = 0; r < count; r++) {
        slot->work[r]->status = DDP_OK;
        free(input[r]);
        harness_sim_scheduler_wake(&world->scheduler, r, world->scheduler.clock.time_ns);
    }
    memset(slot, 0, sizeof *slot);
}

static ddp_status table_post(struct ddp_coll *coll, struct ddp_coll_work *work)
{
    struct probe_rank *rank = ((struct table *)coll)->rank;
    struct probe_slot *slot = &rank->world->slots[rank->post_count++ % 2];

    work->status = DDP_PENDING;
    rank->world->is_serving = rank->world->is_serving && rank->rank != 0;
    DDP_ASSERT(slot->work[rank->rank] == NULL);
    slot->work[rank->rank] = work;
    if (++slot->posted == rank->world->config.count) {
        execute(rank->world, slot);
    }
    return DDP_OK;
}

static ddp_status table_poll(struct ddp_coll *coll, struct ddp_coll_work *work)
{
    const struct probe_world *world = ((struct table *)coll)->rank->world;

    if (work->status == DDP_PENDING && world->is_revoked) {
        work->status = DDP_E_REVOKED;
    } else if (work->status == DDP_PENDING && world->dead >= 0) {
        work->status = DDP_E_PEER_DIED;
    }
    return work->status;
}

static void wake_all(struct probe_world *world)
{
    for (uint32_t r = 0; r < world->config.count; r++) {
        harness_sim_scheduler_wake(&world->scheduler, r, world->scheduler.clock.time_ns);
    }
}

static void table_revoke(struct ddp_coll *coll, const struct ddp_revocation *revocation)
{
    struct probe_world *world = ((struct table *)coll)->rank->world;

    world->revocation = world->is_revoked ? world->revocation : *revocation;
    world->is_revoked = true;
    wake_all(world);
}

static bool table_is_revoked(struct ddp_coll *coll, struct ddp_revocation *out)
{
    const struct probe_world *world = ((struct table *)coll)->rank->world;

    if (world->is_revoked) {
        *out = world->revocation;
    }
    return world->is_revoked;
}

static int32_t table_dead_rank(struct ddp_coll *coll)
{
    return ((struct table *)coll)->rank->world->dead;
}

void probe_world_die(struct probe_rank *rank)
{
    rank->world->dead = (int32_t)rank->rank;
    wake_all(rank->world);
}

static void *table_alloc(struct ddp_coll *coll, size_t size_bytes, enum ddp_space space)
{
    (void)coll;
    (void)size_bytes;
    (void)space;
    return NULL; /* the prober falls back to the device's memory */
}

static void table_free(struct ddp_coll *coll, enum ddp_space space, void *data)
{
    (void)coll;
    (void)space;
    DDP_ASSERT(data == NULL);
}

static void table_hint(struct ddp_coll *coll, struct ddp_idle_hint *hint)
{
    (void)coll;
    (void)hint;
}

static void table_destroy(struct ddp_coll *coll)
{
    ddp_mem_free(coll->env->mem, coll);
}

static const struct ddp_coll_ops table_ops = {.post = table_post,
                                              .poll = table_poll,
                                              .revoke = table_revoke,
                                              .is_revoked = table_is_revoked,
                                              .dead_rank = table_dead_rank,
                                              .alloc = table_alloc,
                                              .free = table_free,
                                              .hint = table_hint,
                                              .destroy = table_destroy};

static ddp_status open_table(struct probe_rank *rank)
{
    struct table *table = ddp_mem_array(rank->env.mem, 1, sizeof *table);

    if (table == NULL) {
        return DDP_E_NOMEM;
    }
    table->base = (struct ddp_coll){.ops = &table_ops,
                                    .env = &rank->env,
                                    .comm = 1,
                                    .member = rank->rank,
                                    .member_count = rank->world->config.count};
    table->rank = rank;
    rank->coll = &table->base;
    return DDP_OK;
}

/* --- a store that a rank hosts ---------------------------------------------------------------- */

struct hosted {
    struct ddp_store base;
    struct ddp_store *inner;
    struct probe_rank *rank;
};

/* Whether this call is served. */
static bool is_served(struct ddp_store *store)
{
    struct probe_rank *rank = ((struct hosted *)store)->rank;
    struct probe_world *world = rank->world;

    if (rank->rank == 0 && !world->is_serving) {
        world->is_serving = true;
        for (uint32_t r = 1; r < world->config.count; r++) {
            harness_sim_scheduler_wake(&world->scheduler, r, world->scheduler.clock.time_ns);
        }
    }
    return world->is_serving;
}

static ddp_status hosted_set(struct ddp_store *store, const char *key, const void *value,
                             size_t size_bytes)
{
    struct ddp_store *inner = ((struct hosted *)store)->inner;

    return is_served(store) ? inner->ops->set(inner, key, value, size_bytes) : DDP_PENDING;
}

static ddp_status hosted_get(struct ddp_store *store, const char *key, void *value,
                             size_t *out_size_bytes)
{
    struct ddp_store *inner = ((struct hosted *)store)->inner;

    return is_served(store) ? inner->ops->get(inner, key, value, out_size_bytes) : DDP_PENDING;
}

static ddp_status hosted_add(struct ddp_store *store, const char *key, int64_t amount, int64_t *out)
{
    struct ddp_store *inner = ((struct hosted *)store)->inner;

    return is_served(store) ? inner->ops->add(inner, key, amount, out) : DDP_PENDING;
}

static void hosted_hint(struct ddp_store *store, struct ddp_idle_hint *hint)
{
    struct ddp_store *inner = ((struct hosted *)store)->inner;

    inner->ops->hint(inner, hint);
}

static void hosted_destroy(struct ddp_store *store)
{
    struct hosted *hosted = (struct hosted *)store;

    hosted->inner->ops->destroy(hosted->inner);
    ddp_mem_free(hosted->rank->env.mem, hosted);
}

static const struct ddp_store_ops hosted_ops = {hosted_set, hosted_get, hosted_add, hosted_hint,
                                                hosted_destroy};

static ddp_status open_store(struct probe_rank *rank)
{
    struct hosted *hosted;

    DDP_TRY(ddp_loop_store_create(rank->world->net, &rank->env, &rank->store));
    if (!rank->world->config.is_hosted) {
        return DDP_OK;
    }
    hosted = ddp_mem_array(rank->env.mem, 1, sizeof *hosted);
    if (hosted == NULL) {
        return DDP_E_NOMEM;
    }
    hosted->base =
        (struct ddp_store){.ops = &hosted_ops, .dead_rank = -1, .is_host = rank->rank == 0};
    hosted->inner = rank->store;
    hosted->rank = rank;
    rank->store = &hosted->base;
    return DDP_OK;
}

/* --- the world -------------------------------------------------------------------------------- */

static void wake(void *context, uint32_t rank, uint64_t at_ns)
{
    harness_sim_scheduler_wake(&((struct probe_world *)context)->scheduler, rank, at_ns);
}

static enum ddp_fault_action fire(struct ddp_fault_hook *hook, enum ddp_fault_point point,
                                  struct ddp_fault_context *context)
{
    struct probe_rank *rank =
        (struct probe_rank *)(void *)((char *)hook - offsetof(struct probe_rank, hook));

    (void)point;
    (void)context;
    rank->hook_count++;
    return DDP_FAULT_GO;
}

static ddp_status open_loop(struct probe_rank *rank)
{
    struct probe_world *world = rank->world;
    const struct ddp_coll_schedule_config config = {.comm = 42,
                                                    .algorithm = world->config.algorithm,
                                                    .is_checked = true,
                                                    .observer = world->config.observer};
    struct ddp_transport *transport = NULL;
    struct ddp_err err = {""};

    DDP_TRY(ddp_loop_create(world->net, &rank->env, "world", rank->rank, world->config.count, NULL,
                            &transport));
    return ddp_coll_schedule_create(&rank->env, transport, rank->device, &config, &rank->coll,
                                    &err);
}

static void run_rank(void *context)
{
    struct probe_rank *rank = context;
    struct ddp_device *device = NULL;
    uint64_t events;

    CT_REQUIRE_OK(open_store(rank));
    CT_REQUIRE_OK(ddp_store_barrier(&rank->env, rank->store, "up", rank->world->config.count,
                                    DDP_DEADLINE_NEVER));
    CT_REQUIRE_OK(ddp_device_cpu_create(rank->env.mem, &device));
    CT_REQUIRE_OK(ddp_device_observer_create(device, &rank->env, true, &rank->device));
    CT_REQUIRE_OK(rank->world->config.sum != NULL ? open_table(rank) : open_loop(rank));
    events = rank->recorder.page->event_count;
    rank->world->config.program(rank);
    rank->end_events = rank->recorder.page->event_count - events;
    /* Nobody leaves the net while others still need an acknowledgement. */
    CT_CHECK_OK(ddp_store_barrier(&rank->env, rank->store, "down", rank->world->config.count,
                                  DDP_DEADLINE_NEVER));
    rank->coll->ops->destroy(rank->coll);
    rank->device->ops->destroy(rank->device);
    rank->store->ops->destroy(rank->store);
    CT_CHECK_EQ_U64(ddp_mem_pool_block_count(rank->pool), 0);
}

static bool open_rank(struct probe_world *world, uint32_t number)
{
    struct probe_rank *rank = &world->ranks[number];
    size_t page_bytes = (ddp_recorder_size_bytes(PROBE_RING_COUNT) + 4095) & ~(size_t)4095;

    if (ddp_mem_pool_create(&rank->pool) != DDP_OK) {
        return false;
    }
    rank->page = aligned_alloc(4096, page_bytes);
    DDP_ASSERT(rank->page != NULL);
    memset(rank->page, 0, page_bytes);
    ddp_recorder_init(&rank->recorder, rank->page, PROBE_RING_COUNT, &world->scheduler.clock.base,
                      number, world->config.count, 1);
    rank->hook.fire = fire;
    rank->hook.armed = ~(UINT64_C(1) << DDP_FAULT_POINT_PROBE_SUM); /* the probes' own */
    rank->env = (struct ddp_env){.rank = number,
                                 .world_size = world->config.count,
                                 .mem = ddp_mem_pool_mem(rank->pool),
                                 .clock = &world->scheduler.clock.base,
                                 .files = ddp_files_memory_files(world->files),
                                 .idle = &world->scheduler.actors[number].idle,
                                 .recorder = &rank->recorder,
                                 .faults = &rank->hook};
    return true;
}

static bool open_world(struct probe_world *world)
{
    const struct harness_sim_scheduler_config config = {.actor_count = world->config.count,
                                                        .seed = world->config.seed,
                                                        .start_ns = 1000,
                                                        .entry = run_rank,
                                                        .contexts = (char *)world->ranks,
                                                        .context_bytes = sizeof world->ranks[0]};
    struct ddp_loop_config loop = {.world_size = world->config.count,
                                   .seed = world->config.seed,
                                   .latency_ns = 2000,
                                   .latency_jitter_ns = 1500,
                                   .bytes_per_us = 10000,
                                   .wake = wake,
                                   .wake_context = world};

    if (ddp_mem_pool_create(&world->pool) != DDP_OK ||
        harness_sim_scheduler_init(&world->scheduler, ddp_mem_pool_mem(world->pool), &config) !=
            DDP_OK ||
        ddp_files_memory_create(&world->files) != DDP_OK) {
        return false;
    }
    loop.clock = &world->scheduler.clock.base;
    loop.mem = ddp_mem_pool_mem(world->pool);
    return ddp_loop_net_create(&loop, &world->net) == DDP_OK;
}

static bool run_all(struct probe_world *world)
{
    struct harness_sim_scheduler *scheduler = &world->scheduler;

    while (scheduler->live_count > 0) {
        harness_sim_scheduler_deliver(scheduler);
        if (scheduler->ready_count > 0) {
            uint32_t index = harness_sim_scheduler_run_one(scheduler);

            if (harness_fiber_is_done(scheduler->actors[index].fiber)) {
                harness_sim_scheduler_remove(scheduler, index);
            }
        } else {
            uint64_t next_ns = harness_sim_scheduler_next_ns(scheduler);

            if (next_ns == DDP_DEADLINE_NEVER) {
                CT_FAIL("%u ranks wait for ever", scheduler->live_count);
                return false;
            }
            ddp_clock_virtual_advance_to(&scheduler->clock, next_ns);
        }
    }
    return true;
}

bool probe_world_run(struct probe_world *world, const struct probe_config *config)
{
    memset(world, 0, sizeof *world);
    world->config = *config;
    world->dead = -1;
    for (uint32_t r = 0; r < config->count; r++) {
        world->ranks[r].world = world;
        world->ranks[r].rank = r;
    }
    if (!open_world(world)) {
        CT_FAIL("no world");
        return false;
    }
    for (uint32_t r = 0; r < config->count; r++) {
        if (!open_rank(world, r)) {
            CT_FAIL("no rank %u", r);
            return false;
        }
    }
    return run_all(world);
}

void probe_world_close(struct probe_world *world)
{
    for (size_t i = 0; i < world->map_count; i++) {
        harness_tree_fini(&world->maps[i]);
    }
    for (uint32_t r = 0; r < world->config.count; r++) {
        if (world->ranks[r].pool != NULL) {
            ddp_mem_pool_destroy(world->ranks[r].pool);
        }
        free(world->ranks[r].page);
    }
    if (world->net != NULL) {
        ddp_loop_net_destroy(world->net);
    }
    harness_sim_scheduler_fini(&world->scheduler);
    if (world->files != NULL) {
        ddp_files_memory_destroy(world->files);
    }
    if (world->pool != NULL) {
        ddp_mem_pool_destroy(world->pool);
    }
}

const char *probe_world_file(struct probe_world *world, const char *path)
{
    struct ddp_files *files = ddp_files_memory_files(world->files);
    void *text = NULL;
    size_t size_bytes = 0;

    return files->ops->read_all(files, path, ddp_mem_pool_mem(world->pool), &text, &size_bytes,
                                NULL) == DDP_OK
               ? text
               : NULL;
}

ddp_status probe_round(struct probe_rank *rank, enum harness_probe_round round,
                       const struct harness_probe_request *requests, size_t count)
{
    const struct harness_probe config = {.env = &rank->env,
                                         .coll = rank->coll,
                                         .device = rank->device,
                                         .store = rank->store,
                                         .name = "world",
                                         .run_dir = PROBE_DIR,
                                         .requests = requests,
                                         .request_count = count,
                                         .round = round,
                                         .timeout_ns = PROBE_TIMEOUT_NS};
    struct ddp_err err = {""};

    return harness_probe_run(&config, &err);
}

static const char *path_of(const struct harness_probe_request *request,
                           enum harness_probe_round round, char *path, size_t size_bytes)
{
    (void)snprintf(path, size_bytes, "%s/trees/all_reduce.n%zu.%s.%s.txt", PROBE_DIR,
                   request->elem_count, ddp_dtype_name(request->dtype),
                   round == HARNESS_PROBE_FIRST ? "first" : "last");
    return path;
}

bool probe_read_trees(struct probe_world *world, const struct harness_probe_request *request,
                      enum harness_probe_round round, struct harness_tree_map *out)
{
    struct ddp_mem *mem = ddp_mem_pool_mem(world->pool);
    struct harness_tree_map *maps;
    struct ddp_err err = {""};
    char path[160];
    const char *text = probe_world_file(world, path_of(request, round, path, sizeof(path)));

    if (text == NULL) {
        CT_FAIL("%s was not written", path);
        return false;
    }
    maps = ddp_mem_grow(mem, world->maps, world->map_count, &world->map_capacity, sizeof *maps);
    CT_CHECK(maps != NULL);
    world->maps = maps;
    if (harness_tree_parse(mem, text, out, &err) != DDP_OK) {
        CT_FAIL("%s: %s", path, err.text);
        return false;
    }
    world->maps[world->map_count++] = *out;
    return true;
}
