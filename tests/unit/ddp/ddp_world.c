/* The baton, the shared table of collectives, and what a rank needs around it. */
#include "tests/unit/ddp/ddp_world.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "ddpcore/transport/loop.h"
#include "tests/ct.h"

struct slot {
    struct ddp_coll_work *work[WORLD_SIZE_MAX];
    struct ddp_coll_args args;
    uint32_t posted_count;
    bool is_done;
};

struct world_coll {
    struct ddp_coll base;
    struct world *world;
};

struct world_idle {
    struct ddp_idle base;
    struct world *world;
    uint32_t rank;
};

struct world {
    struct world_config config;
    struct ddp_clock_virtual clock;
    struct world_rank ranks[WORLD_SIZE_MAX];
    struct world_coll colls[WORLD_SIZE_MAX];
    struct world_idle idles[WORLD_SIZE_MAX];
    struct slot slots[WORLD_SEQ_MAX];
    uint64_t done_count;
    bool is_mismatch, is_revoked, is_stuck;
    struct ddp_revocation revocation;
    int32_t dead_rank;

    pthread_mutex_t mutex;
    pthread_cond_t turn;
    uint32_t holder; /* who runs; world_size: nobody is left */
    bool is_finished[WORLD_SIZE_MAX];
    uint64_t deadline_ns[WORLD_SIZE_MAX];
    uint32_t stall_count; /* waits in a row without any activity */

    struct ddp_loop_net *net; /* is_loop */
    uint32_t tick_count;
};

/* Hand the baton to the next rank that has not finished. */
static void pass_baton(struct world *world, uint32_t from)
{
    const uint32_t size = world->config.world_size;

    world->holder = size;
    for (uint32_t i = 1; i <= size; i++) {
        const uint32_t next = (from + i) % size;

        if (!world->is_finished[next]) {
            world->holder = next;
            break;
        }
    }
    pthread_cond_broadcast(&world->turn);
}

static void take_turn(struct world *world, uint32_t rank)
{
    while (world->holder != rank) {
        pthread_cond_wait(&world->turn, &world->mutex);
    }
}

static void yield(struct ddp_idle *idle)
{
    struct world_idle *self = (struct world_idle *)idle;

    pass_baton(self->world, self->rank);
    take_turn(self->world, self->rank);
}

/* A rank that computes: it is not waiting, however often the others ask. */
static void progress(struct ddp_idle *idle)
{
    ((struct world_idle *)idle)->world->stall_count = 0;
    yield(idle);
}

#define TICK_NS    1000
#define TICK_COUNT 20000

/* Everybody waits: time passes until the first deadline, or by the loop's latency. */
static void pass_time(struct world *world)
{
    uint64_t first_ns = DDP_DEADLINE_NEVER;

    if (world->net != NULL && ++world->tick_count < TICK_COUNT) {
        first_ns = world->clock.time_ns + TICK_NS;
    }

    for (uint32_t r = 0; r < world->config.world_size; r++) {
        if (!world->is_finished[r] && world->deadline_ns[r] < first_ns) {
            first_ns = world->deadline_ns[r];
        }
    }
    if (first_ns == DDP_DEADLINE_NEVER) {
        CT_CHECK(world->is_stuck);
        world->is_stuck = true;
        return;
    }
    ddp_clock_virtual_advance_to(&world->clock, first_ns);
}

static void wait_turn(struct ddp_idle *idle, const struct ddp_idle_hint *hint)
{
    struct world_idle *self = (struct world_idle *)idle;
    struct world *world = self->world;

    world->deadline_ns[self->rank] = hint->deadline_ns;
    if (++world->stall_count > 2 * world->config.world_size) {
        world->stall_count = 0;
        pass_time(world);
    }
    yield(idle);
    world->deadline_ns[self->rank] = DDP_DEADLINE_NEVER;
}

static const struct ddp_idle_ops idle_ops = {wait_turn, progress};

static void execute_all_reduce(struct world *world, struct slot *slot)
{
    struct ddp_device *device = world->ranks[0].device;
    const size_t size_bytes = slot->args.elem_count * ddp_dtype_size_bytes(slot->args.dtype);
    void *sum = malloc(size_bytes + 1);

    memcpy(sum, slot->work[0]->args.input, size_bytes);
    for (uint32_t r = 1; r < world->config.world_size; r++) {
        CT_CHECK_OK(device->ops->reduce(device, NULL, sum, slot->work[r]->args.input,
                                        slot->args.elem_count, slot->args.dtype, slot->args.redop));
    }
    for (uint32_t r = 0; r < world->config.world_size; r++) {
        memcpy(slot->work[r]->args.output, sum, size_bytes);
    }
    free(sum);
}

static void execute(struct world *world, struct slot *slot)
{
    const size_t size_bytes = slot->args.elem_count * ddp_dtype_size_bytes(slot->args.dtype);
    const uint32_t size = world->config.world_size;

    if (slot->args.kind == DDP_COLL_ALL_REDUCE) {
        execute_all_reduce(world, slot);
    }
    for (uint32_t r = 0; r < size && slot->args.kind == DDP_COLL_BROADCAST; r++) {
        if (r != slot->args.root) {
            memcpy(slot->work[r]->args.output, slot->work[slot->args.root]->args.input, size_bytes);
        }
    }
    for (uint32_t r = 0; r < size && slot->args.kind == DDP_COLL_ALL_GATHER; r++) {
        for (uint32_t k = 0; k < size; k++) {
            memcpy((char *)slot->work[r]->args.output + k * size_bytes, slot->work[k]->args.input,
                   size_bytes);
        }
    }
    slot->is_done = true;
    world->done_count++;
}

static bool is_same_operation(const struct ddp_coll_args *a, const struct ddp_coll_args *b)
{
    return a->kind == b->kind && a->redop == b->redop && a->dtype == b->dtype &&
           a->role == b->role && a->index == b->index && a->root == b->root &&
           a->elem_count == b->elem_count;
}

static ddp_status coll_post(struct ddp_coll *coll, struct ddp_coll_work *work)
{
    struct world *world = ((struct world_coll *)coll)->world;
    struct slot *slot;

    DDP_ASSERT(work->seq > 0 && work->seq <= WORLD_SEQ_MAX);
    slot = &world->slots[work->seq - 1];
    DDP_ASSERT(slot->work[coll->member] == NULL);
    world->stall_count = 0;
    if (slot->posted_count == 0) {
        slot->args = work->args;
    }
    world->is_mismatch = world->is_mismatch || !is_same_operation(&slot->args, &work->args);
    slot->work[coll->member] = work;
    if (++slot->posted_count == world->config.world_size && !world->is_mismatch) {
        execute(world, slot);
    }
    return DDP_OK;
}

static ddp_status coll_poll(struct ddp_coll *coll, struct ddp_coll_work *work)
{
    struct world *world = ((struct world_coll *)coll)->world;
    const struct slot *slot = &world->slots[work->seq - 1];

    if (slot->is_done) {
        work->status = DDP_OK;
    } else if (world->is_revoked) {
        work->status = DDP_E_REVOKED;
    } else if (world->is_mismatch) {
        work->status = DDP_E_MISMATCH;
    } else if (world->dead_rank >= 0 && slot->work[world->dead_rank] == NULL &&
               (coll->member + 1) % world->config.world_size == (uint32_t)world->dead_rank) {
        /* Only the neighbour notices a death by itself. */
        work->status = DDP_E_PEER_DIED;
    } else if (world->is_stuck) {
        work->status = DDP_E_SYSTEM;
    }
    return work->status;
}

static void coll_revoke(struct ddp_coll *coll, const struct ddp_revocation *revocation)
{
    struct world *world = ((struct world_coll *)coll)->world;

    world->stall_count = 0;
    if (!world->is_revoked || revocation->step < world->revocation.step ||
        (revocation->step == world->revocation.step && revocation->rank < world->revocation.rank)) {
        world->revocation = *revocation;
    }
    world->is_revoked = true;
}

static bool coll_is_revoked(struct ddp_coll *coll, struct ddp_revocation *out)
{
    const struct world *world = ((struct world_coll *)coll)->world;

    *out = world->revocation;
    return world->is_revoked;
}

static int32_t coll_dead_rank(struct ddp_coll *coll)
{
    return ((struct world_coll *)coll)->world->dead_rank;
}

static void *coll_alloc(struct ddp_coll *coll, size_t size_bytes, enum ddp_space space)
{
    (void)space;
    return coll->env->mem->alloc(coll->env->mem, size_bytes);
}

static void coll_free(struct ddp_coll *coll, enum ddp_space space, void *data)
{
    (void)space;
    coll->env->mem->free(coll->env->mem, data);
}

static const char *coll_last_error(struct ddp_coll *coll)
{
    (void)coll;
    return "";
}

static void coll_hint(struct ddp_coll *coll, struct ddp_idle_hint *hint)
{
    (void)coll;
    (void)hint;
}

static void coll_destroy(struct ddp_coll *coll)
{
    (void)coll;
}

static const struct ddp_coll_ops coll_ops = {
    coll_post, coll_poll,       coll_revoke, coll_is_revoked, coll_dead_rank, coll_alloc,
    coll_free, coll_last_error, coll_hint,   coll_destroy,    NULL,
};

static void *rank_main(void *arg)
{
    struct world_rank *rank = arg;
    struct world *world = rank->world;

    pthread_mutex_lock(&world->mutex);
    take_turn(world, rank->rank);
    world->config.program(rank);
    ddp_group_fini(&rank->group);
    world->is_finished[rank->rank] = true;
    pass_baton(world, rank->rank);
    pthread_mutex_unlock(&world->mutex);
    return NULL;
}

static void wake_nobody(void *context, uint32_t rank, uint64_t at_ns)
{
    /* Ranks poll in turn anyway. */
    (void)context;
    (void)rank;
    (void)at_ns;
}

static void create_net(struct world *world)
{
    const struct ddp_loop_config config = {.world_size = world->config.world_size,
                                           .seed = 1,
                                           .latency_ns = TICK_NS,
                                           .latency_jitter_ns = TICK_NS,
                                           .clock = &world->clock.base,
                                           .mem = ddp_mem_system(),
                                           .wake = wake_nobody};

    DDP_ASSERT(ddp_loop_net_create(&config, &world->net) == DDP_OK);
}

static struct ddp_coll *create_loop_coll(struct world *world, struct world_rank *rank)
{
    const uint32_t members[WORLD_SIZE_MAX] = {0, 1, 2, 3, 4, 5, 6, 7};
    const struct ddp_coll_schedule_config config = {.comm = 1, .is_checked = true};
    struct ddp_transport *transport = NULL;
    struct ddp_coll *executor = NULL, *observer = NULL;
    struct ddp_err err = {""};

    DDP_ASSERT(ddp_loop_create(world->net, &rank->env, "ddp", rank->rank, world->config.world_size,
                               members, &transport) == DDP_OK);
    DDP_ASSERT(ddp_coll_schedule_create(&rank->env, transport, rank->device, &config, &executor,
                                        &err) == DDP_OK);
    DDP_ASSERT(ddp_coll_observer_create(executor, true, &observer) == DDP_OK);
    return observer;
}

static void setup_rank(struct world *world, uint32_t r)
{
    struct world_rank *rank = &world->ranks[r];
    const uint32_t size = world->config.world_size;

    rank->world = world;
    rank->rank = r;
    rank->arg = world->config.arg;
    DDP_ASSERT(ddp_mem_pool_create(&rank->pool) == DDP_OK);
    world->idles[r] = (struct world_idle){{&idle_ops, NULL}, world, r};
    rank->env = (struct ddp_env){.rank = r,
                                 .world_size = size,
                                 .mem = ddp_mem_pool_mem(rank->pool),
                                 .clock = &world->clock.base,
                                 .idle = &world->idles[r].base,
                                 .recorder = &rank->recorder};
    rank->recorder_storage = aligned_alloc(4096, ddp_recorder_size_bytes(WORLD_RING_COUNT));
    memset(rank->recorder_storage, 0, ddp_recorder_size_bytes(WORLD_RING_COUNT));
    ddp_recorder_init(&rank->recorder, rank->recorder_storage, WORLD_RING_COUNT, &world->clock.base,
                      r, size, 1);
    DDP_ASSERT(ddp_device_cpu_create(ddp_mem_system(), &rank->device) == DDP_OK);
    world->colls[r] =
        (struct world_coll){{&coll_ops, &rank->env, rank->device, 1, r, size, NULL}, world};
    ddp_group_init(&rank->group, &rank->env,
                   world->net != NULL ? create_loop_coll(world, rank) : &world->colls[r].base,
                   world->config.semantics, world->config.timeout_ns);
    world->deadline_ns[r] = DDP_DEADLINE_NEVER;
}

void world_run(const struct world_config *config)
{
    struct world *world = calloc(1, sizeof(*world));
    pthread_t threads[WORLD_SIZE_MAX];

    world->config = *config;
    world->dead_rank = -1;
    ddp_clock_virtual_init(&world->clock, 1000);
    pthread_mutex_init(&world->mutex, NULL);
    pthread_cond_init(&world->turn, NULL);
    if (config->is_loop) {
        create_net(world);
    }
    for (uint32_t r = 0; r < config->world_size; r++) {
        setup_rank(world, r);
    }
    for (uint32_t r = 0; r < config->world_size; r++) {
        DDP_ASSERT(pthread_create(&threads[r], NULL, rank_main, &world->ranks[r]) == 0);
    }
    for (uint32_t r = 0; r < config->world_size; r++) {
        pthread_join(threads[r], NULL);
    }
    CT_CHECK(!world->is_stuck);
    for (uint32_t r = 0; r < config->world_size; r++) {
        struct world_rank *rank = &world->ranks[r];

        /* After a failure what was lent to peers stays with the rank. */
        if (world->dead_rank != (int32_t)r && rank->group.failure.status == DDP_OK) {
            CT_CHECK_EQ_U64(ddp_mem_pool_block_count(rank->pool), 0);
        }
        rank->device->ops->destroy(rank->device);
        ddp_mem_pool_destroy(rank->pool);
        free(rank->recorder_storage);
    }
    if (world->net != NULL) {
        ddp_loop_net_destroy(world->net);
    }
    pthread_cond_destroy(&world->turn);
    pthread_mutex_destroy(&world->mutex);
    free(world);
}

void world_die(struct world_rank *rank)
{
    rank->world->dead_rank = (int32_t)rank->rank;
    rank->world->stall_count = 0;
}

uint64_t world_done_count(const struct world *world)
{
    return world->done_count;
}

const struct ddp_coll_args *world_executed(const struct world *world, uint64_t seq)
{
    return world->slots[seq - 1].is_done ? &world->slots[seq - 1].args : NULL;
}

uint64_t world_events(const struct world_rank *rank, enum ddp_event event,
                      struct ddp_event_entry *out)
{
    struct ddp_event_entry entry;
    uint64_t count = 0;

    for (uint64_t i = 1; ddp_ring_read(rank->recorder.ring, WORLD_RING_COUNT, i, &entry) == DDP_OK;
         i++) {
        if (entry.event == event) {
            count++;
            *out = entry;
        }
    }
    return count;
}
