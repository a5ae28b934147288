/* See the header. */
#include "tests/unit/collective/coll_world.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "tests/ct.h"

#define RING_ENTRIES 64u

static void add_wake(void *context, uint32_t rank, uint64_t at_ns)
{
    struct coll_world *world = context;

    (void)rank;
    if (world->wake_count == world->wake_capacity) {
        world->wake_capacity = world->wake_capacity * 2 + 64;
        world->wakes = realloc(world->wakes, world->wake_capacity * sizeof(uint64_t));
        DDP_ASSERT(world->wakes != NULL);
    }
    world->wakes[world->wake_count++] = at_ns;
}

/* Move the clock to the earliest wake that lies ahead. */
static bool advance(struct coll_world *world)
{
    uint64_t now_ns = world->clock.time_ns;
    uint64_t next_ns = UINT64_MAX;
    size_t kept = 0;

    for (size_t i = 0; i < world->wake_count; i++) {
        if (world->wakes[i] > now_ns) {
            world->wakes[kept++] = world->wakes[i];
            next_ns = world->wakes[i] < next_ns ? world->wakes[i] : next_ns;
        }
    }
    world->wake_count = kept;
    if (next_ns == UINT64_MAX) {
        return false;
    }
    ddp_clock_virtual_advance_to(&world->clock, next_ns);
    return true;
}

/* Lets other threads run, which need much more real time than virtual time passes. */
static void idle_wait(struct ddp_idle *idle, const struct ddp_idle_hint *hint)
{
    struct coll_world *world =
        (struct coll_world *)(void *)((char *)idle - offsetof(struct coll_world, idle));

    (void)hint;
    ddp_clock_virtual_advance_to(&world->clock, world->clock.time_ns + 1000);
    (void)sched_yield();
}

static enum ddp_fault_action fire(struct ddp_fault_hook *hook, enum ddp_fault_point point,
                                  struct ddp_fault_context *context)
{
    struct coll_rank *rank =
        (struct coll_rank *)(void *)((char *)hook - offsetof(struct coll_rank, hook));

    return point == DDP_FAULT_POINT_COLLECTIVE_ENQUEUE && context->seq > 0 ? rank->action
                                                                           : DDP_FAULT_GO;
}

static bool open_rank(struct coll_world *world, uint32_t number,
                      const struct coll_world_options *options)
{
    struct coll_rank *rank = &world->ranks[number];
    struct ddp_coll_schedule_config config = {.comm = 42,
                                              .algorithm = options->algorithm,
                                              .segment_bytes = options->segment_bytes,
                                              .is_checked = options->is_checked,
                                              .is_agreement = options->is_agreement,
                                              .observer = options->observer};
    struct ddp_transport *transport = NULL;
    struct ddp_err err = {""};

    config.node_of_rank = options->node_of_rank;
    if (options->other != NULL) {
        config.of_kind[options->other->kind] = options->other->id;
    }
    CT_CHECK_OK(ddp_mem_pool_create(&rank->pool));
    rank->env.rank = number;
    rank->env.world_size = world->count;
    rank->env.mem = ddp_mem_pool_mem(rank->pool);
    rank->env.clock = &world->clock.base;
    rank->env.idle = &world->idle;
    rank->env.faults = &rank->hook;
    rank->hook.fire = fire;
    if (options->is_observed) {
        size_t page_bytes = (ddp_recorder_size_bytes(RING_ENTRIES) + 4095) & ~(size_t)4095;

        rank->page = aligned_alloc(4096, page_bytes);
        memset(rank->page, 0, page_bytes);
        ddp_recorder_init(&rank->recorder, rank->page, RING_ENTRIES, &world->clock.base, number,
                          world->count, 1);
        rank->env.recorder = &rank->recorder;
    }
    CT_CHECK_OK(
        ddp_loop_create(world->net, &rank->env, "world", number, world->count, NULL, &transport));
    CT_CHECK_OK(ddp_device_cpu_create(rank->env.mem, &rank->device));
    if (options->make != NULL) {
        (void)options->make(options->context, rank, transport);
    } else {
        CT_CHECK_OK(ddp_coll_schedule_create(&rank->env, transport, rank->device, &config,
                                             &rank->coll, &err));
    }
    if (options->is_observed) {
        CT_CHECK_OK(ddp_coll_observer_create(rank->coll, true, &rank->coll));
    }
    CT_CHECK_STR(err.text, "");
    return rank->coll != NULL;
}

bool coll_world_open(struct coll_world *world, uint32_t count,
                     const struct coll_world_options *options)
{
    struct ddp_loop_config config = {.world_size = count,
                                     .seed = 11,
                                     .latency_ns = 2000,
                                     .latency_jitter_ns = 1500,
                                     .bytes_per_us = 10000,
                                     .mem = ddp_mem_system(),
                                     .wake = add_wake};
    static const struct ddp_idle_ops idle_ops = {.wait = idle_wait};
    bool is_open = true;

    memset(world, 0, sizeof(*world));
    ddp_clock_virtual_init(&world->clock, 1000);
    config.clock = &world->clock.base;
    config.wake_context = world;
    world->idle.ops = &idle_ops;
    world->count = count;
    CT_CHECK_OK(ddp_loop_net_create(&config, &world->net));
    for (uint32_t i = 0; i < count; i++) {
        is_open = open_rank(world, i, options) && is_open;
    }
    return is_open;
}

void coll_world_close(struct coll_world *world)
{
    for (uint32_t i = 0; i < world->count; i++) {
        struct coll_rank *rank = &world->ranks[i];

        if (rank->pool != NULL) {
            if (rank->coll != NULL) {
                rank->coll->ops->destroy(rank->coll);
            }
            rank->device->ops->destroy(rank->device);
            ddp_mem_pool_destroy(rank->pool);
        }
        free(rank->page);
    }
    ddp_loop_net_destroy(world->net);
    free(world->wakes);
}

ddp_status coll_world_post(struct coll_world *world, uint32_t rank)
{
    struct coll_rank *who = &world->ranks[rank];

    who->work.seq++;
    who->work.status = DDP_PENDING;
    return who->coll->ops->post(who->coll, &who->work);
}

bool coll_world_step(struct coll_world *world, bool *out_done)
{
    *out_done = true;
    for (uint32_t i = 0; i < world->count; i++) {
        struct coll_rank *rank = &world->ranks[i];

        if (rank->pool != NULL && rank->work.seq > 0 &&
            rank->coll->ops->poll(rank->coll, &rank->work) == DDP_PENDING) {
            *out_done = false;
        }
    }
    return *out_done || advance(world);
}

bool coll_world_run(struct coll_world *world)
{
    bool is_done = false;

    while (!is_done) {
        if (!coll_world_step(world, &is_done)) {
            return false;
        }
    }
    return true;
}

void coll_world_kill(struct coll_world *world, uint32_t rank)
{
    ddp_loop_net_kill(world->net, rank);
    ddp_mem_pool_destroy(world->ranks[rank].pool);
    world->ranks[rank].pool = NULL;
}

void *coll_world_alloc(struct coll_world *world, uint32_t rank, size_t size_bytes)
{
    struct coll_rank *who = &world->ranks[rank];

    return who->coll->ops->alloc(who->coll, size_bytes == 0 ? 1 : size_bytes, DDP_SPACE_DEVICE);
}

void coll_each_all_reduce(void (*check)(enum ddp_algorithm_id algorithm))
{
    size_t count;
    const struct ddp_algorithm *table = ddp_algorithm_table(&count);

    for (size_t i = 0; i < count; i++) {
        if (table[i].kind == DDP_COLL_ALL_REDUCE) {
            check(table[i].id);
        }
    }
}
