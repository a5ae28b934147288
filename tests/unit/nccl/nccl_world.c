/* See the header. */
#include "tests/unit/nccl/nccl_world.h"

#include <sched.h>
#include <string.h>

#include "tests/ct.h"

#define STACK_BYTES (1024u * 1024u)

static void ignore_wake(void *context, uint32_t rank, uint64_t at_ns)
{
    (void)context;
    (void)rank;
    (void)at_ns;
}

void nccl_world_advance(struct nccl_world *world, uint64_t ns)
{
    ddp_clock_virtual_advance_to(&world->clock, world->clock.time_ns + ns);
}

static void run_devices(struct nccl_world *world)
{
    for (uint32_t i = 0; i < world->count; i++) {
        if (!world->ranks[i].device.is_killed) {
            (void)nccl_device_run(&world->ranks[i].device);
        }
    }
}

/* Lets other threads run, which need much more real time than virtual time passes. */
static void pass(struct nccl_world *world)
{
    run_devices(world);
    ddp_nccl_standin_turn();
    nccl_world_advance(world, world->options.pass_ns != 0 ? world->options.pass_ns : 1000);
    if (world->pass_count++ % 16 == 0) { /* a yield is long on a busy machine */
        (void)sched_yield();
    }
}

static void idle_wait(struct ddp_idle *idle, const struct ddp_idle_hint *hint)
{
    struct nccl_world *world =
        (struct nccl_world *)(void *)((char *)idle - offsetof(struct nccl_world, idle));

    (void)hint;
    if (world->running != NULL) {
        harness_fiber_yield(world->running);
    } else {
        pass(world);
    }
}

static enum ddp_fault_action fire(struct ddp_fault_hook *hook, enum ddp_fault_point point,
                                  struct ddp_fault_context *context)
{
    struct nccl_rank *rank =
        (struct nccl_rank *)(void *)((char *)hook - offsetof(struct nccl_rank, hook));

    rank->fired[point]++;
    if (point != DDP_FAULT_POINT_PROBE_SUM) { /* that is on the host, and of no collective */
        CT_CHECK(context->device == &rank->device.base);
        CT_CHECK(context->stream != NULL && context->seq > 0);
    }
    return point == rank->point ? rank->action : DDP_FAULT_GO;
}

void nccl_world_begin(struct nccl_world *world, uint32_t count,
                      const struct nccl_world_options *options)
{
    static const struct ddp_idle_ops idle_ops = {.wait = idle_wait};
    struct ddp_loop_config config = {.world_size = count,
                                     .seed = 11,
                                     .latency_ns = 2000,
                                     .clock = &world->clock.base,
                                     .mem = ddp_mem_system(),
                                     .wake = ignore_wake};

    memset(world, 0, sizeof(*world));
    ddp_clock_virtual_init(&world->clock, 1000);
    world->idle.ops = &idle_ops;
    world->options = *options;
    world->count = count;
    world->library = nccl_turns_open(options->has_revoke);
    ddp_nccl_standin_device(nccl_device_enqueue);
    nccl_world_script(world, "");
    CT_CHECK_OK(ddp_loop_net_create(&config, &world->net));
    for (uint32_t i = 0; i < count; i++) {
        struct nccl_rank *rank = &world->ranks[i];

        CT_CHECK_OK(ddp_mem_pool_create(&rank->pool));
        rank->env.rank = i;
        rank->env.world_size = count;
        rank->env.mem = ddp_mem_pool_mem(rank->pool);
        rank->env.clock = &world->clock.base;
        rank->env.idle = &world->idle;
        rank->env.faults = &rank->hook;
        rank->env.recorder = i == 0 ? options->recorder : NULL;
        rank->hook.fire = fire;
        rank->hook.armed = UINT64_MAX;
        rank->point = DDP_FAULT_POINT_COUNT;
        CT_CHECK(nccl_device_open(&rank->device));
        CT_CHECK_OK(ddp_loop_store_create(world->net, &rank->env, &rank->store));
    }
}

ddp_status nccl_world_join(struct nccl_world *world, uint32_t number)
{
    struct nccl_rank *rank = &world->ranks[number];
    const struct ddp_coll_nccl_config config = {.library = world->library,
                                                .store = rank->store,
                                                .name = "world",
                                                .comm = 42,
                                                .is_checked = world->options.is_checked,
                                                .init_timeout_ns = world->options.init_timeout_ns,
                                                .abort_timeout_ns = world->options.abort_timeout_ns,
                                                .algorithm = world->options.algorithm,
                                                .segment_bytes = world->options.segment_bytes,
                                                .progress =
                                                    number == 0 ? world->options.progress : NULL};
    struct ddp_transport *transport = NULL;

    rank->created =
        ddp_loop_create(world->net, &rank->env, "control", number, world->count, NULL, &transport);
    if (rank->created == DDP_OK) {
        rank->created = ddp_coll_nccl_create(&rank->env, transport, &rank->device.base, &config,
                                             &rank->coll, &rank->err);
    }
    return rank->created;
}

void nccl_world_script(const struct nccl_world *world, const char *text)
{
    nccl_turns_script(world->options.is_lazy ? "" : "connect=eager", text);
}

struct part {
    nccl_world_part *run;
    struct nccl_world *world;
    uint32_t rank;
    void *context;
};

static void run_part(void *context)
{
    const struct part *part = context;

    part->run(part->world, part->rank, part->context);
}

void nccl_world_together(struct nccl_world *world, uint32_t count, nccl_world_part *part,
                         void *context)
{
    struct part parts[NCCL_MEMBERS_MAX];
    struct harness_fiber *fibers[NCCL_MEMBERS_MAX];
    uint32_t done_count = 0;

    for (uint32_t i = 0; i < count; i++) {
        parts[i] = (struct part){part, world, i, context};
        CT_REQUIRE_OK(harness_fiber_create(STACK_BYTES, run_part, &parts[i], &fibers[i]));
    }
    while (done_count < count) {
        for (uint32_t i = 0; i < count; i++) {
            if (!harness_fiber_is_done(fibers[i])) {
                world->running = fibers[i];
                harness_fiber_resume(fibers[i]);
                world->running = NULL;
                done_count += harness_fiber_is_done(fibers[i]) ? 1 : 0;
            }
        }
        pass(world);
    }
    for (uint32_t i = 0; i < count; i++) {
        harness_fiber_destroy(fibers[i]);
    }
}

static void join_part(struct nccl_world *world, uint32_t rank, void *context)
{
    (void)context;
    CT_CHECK_OK(nccl_world_join(world, rank));
}

bool nccl_world_open(struct nccl_world *world, uint32_t count,
                     const struct nccl_world_options *options)
{
    bool is_open = true;

    nccl_world_begin(world, count, options);
    nccl_world_together(world, count, join_part, NULL);
    for (uint32_t i = 0; i < count; i++) {
        CT_CHECK_STR(world->ranks[i].err.text, "");
        is_open = is_open && world->ranks[i].coll != NULL;
    }
    return is_open;
}

void nccl_world_close(struct nccl_world *world)
{
    for (uint32_t i = 0; i < world->count; i++) {
        struct nccl_rank *rank = &world->ranks[i];

        if (rank->coll != NULL) {
            rank->coll->ops->destroy(rank->coll);
        }
        if (!rank->device.is_killed) {
            rank->store->ops->destroy(rank->store);
            CT_CHECK_EQ_U64(ddp_mem_pool_block_count(rank->pool), 0);
        }
        nccl_device_close(&rank->device);
        ddp_mem_pool_destroy(rank->pool);
    }
    ddp_loop_net_destroy(world->net);
    nccl_turns_close(world->library);
}

ddp_status nccl_world_post(struct nccl_world *world, uint32_t number,
                           const struct ddp_coll_args *args)
{
    struct nccl_rank *rank = &world->ranks[number];
    struct ddp_coll_work *work = &rank->works[rank->work_count++];

    DDP_ASSERT(rank->work_count <= NCCL_WORKS_MAX);
    work->args = *args;
    work->seq = rank->work_count;
    work->status = DDP_PENDING;
    return rank->coll->ops->post(rank->coll, work);
}

bool nccl_world_step(struct nccl_world *world)
{
    bool is_done = true;

    for (uint32_t i = 0; i < world->count; i++) {
        struct nccl_rank *rank = &world->ranks[i];

        for (uint32_t j = 0; rank->coll != NULL && j < rank->work_count; j++) {
            is_done = rank->coll->ops->poll(rank->coll, &rank->works[j]) != DDP_PENDING && is_done;
        }
    }
    pass(world);
    return is_done;
}

void nccl_world_run(struct nccl_world *world)
{
    while (!nccl_world_step(world)) {
    }
}

void nccl_world_settle(struct nccl_world *world)
{
    for (int i = 0; i < 200; i++) {
        (void)nccl_world_step(world);
    }
}

void nccl_world_abort(struct nccl_world *world, uint32_t number)
{
    struct ddp_queue *queue = ddp_queue_of(world->ranks[number].coll, &ddp_nccl_engine);

    ddp_queue_fail(queue, DDP_E_STATE);
    while (!ddp_nccl_coll_is_gone((struct ddp_nccl_coll *)queue)) {
        ddp_queue_drain(queue);
        pass(world);
    }
    CT_CHECK_OK(ddp_nccl_comm_poll(((struct ddp_nccl_coll *)queue)->comm));
}

void nccl_world_kill(struct nccl_world *world, uint32_t number)
{
    struct nccl_rank *rank = &world->ranks[number];

    /* What the operating system does to a process: its sockets close, its memory goes. */
    nccl_world_abort(world, number);
    ddp_loop_net_kill(world->net, number);
    ddp_nccl_comm_destroy(((struct ddp_nccl_coll *)rank->coll)->comm);
    rank->coll = NULL;
    rank->device.is_killed = true;
}
