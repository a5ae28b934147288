/* Rank programs on the loop net. Each rank is a thread, but only the holder of the baton runs: the
 * scheduler hands it to the rank whose wake time is the earliest, after moving the clock there. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ddpcore/transport/loop.h"
#include "tests/ct.h"
#include "tests/unit/transport/transport_ranks.h"

#define SCHEDULER RANKS_MAX
#define WAKES_MAX 4096u

struct wake {
    uint64_t at_ns;
    uint32_t rank;
};

struct loop_rank {
    struct rank_context context;
    struct ddp_env env;
    struct ddp_idle idle;
    struct ddp_mem_pool *pool;
    pthread_t thread;
    bool is_finished;
    uint32_t number;
    struct loop_runner *runner;
};

struct loop_runner {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint32_t baton; /* rank that may run, or SCHEDULER */
    struct ddp_clock_virtual clock;
    struct ddp_loop_net *net;
    rank_program *program;
    uint32_t count;
    struct loop_rank ranks[RANKS_MAX];
    struct wake wakes[WAKES_MAX];
    uint32_t wake_count;
};

static void add_wake(void *self, uint32_t rank, uint64_t at_ns)
{
    struct loop_runner *runner = self;

    for (uint32_t i = 0; i < runner->wake_count; i++) {
        if (runner->wakes[i].rank == rank && runner->wakes[i].at_ns == at_ns) {
            return;
        }
    }
    DDP_ASSERT(runner->wake_count < WAKES_MAX);
    runner->wakes[runner->wake_count].at_ns = at_ns;
    runner->wakes[runner->wake_count].rank = rank;
    runner->wake_count++;
}

static void pass_baton(struct loop_runner *runner, uint32_t to, uint32_t own)
{
    (void)pthread_mutex_lock(&runner->lock);
    runner->baton = to;
    (void)pthread_cond_broadcast(&runner->changed);
    while (own != UINT32_MAX && runner->baton != own) {
        (void)pthread_cond_wait(&runner->changed, &runner->lock);
    }
    (void)pthread_mutex_unlock(&runner->lock);
}

static void loop_wait(struct ddp_idle *idle, const struct ddp_idle_hint *hint)
{
    struct loop_rank *rank =
        (struct loop_rank *)(void *)((char *)idle - offsetof(struct loop_rank, idle));

    add_wake(rank->runner, rank->number, hint->deadline_ns);
    pass_baton(rank->runner, SCHEDULER, rank->number);
}

static void loop_progress(struct ddp_idle *idle)
{
    (void)idle;
}

/* What was in the rank's memory is gone when its thread ends; ASan sees every later touch. */
static void finish(struct loop_rank *rank)
{
    ddp_mem_pool_destroy(rank->pool);
    rank->is_finished = true;
    pass_baton(rank->runner, SCHEDULER, UINT32_MAX);
}

static void loop_die(struct rank_context *context)
{
    struct loop_rank *rank = context->runner;

    ddp_loop_net_kill(rank->runner->net, rank->number);
    finish(rank);
    pthread_exit(NULL);
}

static void *rank_main(void *self)
{
    static const struct ddp_idle_ops idle_ops = {loop_wait, loop_progress};
    struct loop_rank *rank = self;
    struct loop_runner *runner = rank->runner;
    struct rank_context *context = &rank->context;

    (void)pthread_mutex_lock(&runner->lock);
    while (runner->baton != rank->number) {
        (void)pthread_cond_wait(&runner->changed, &runner->lock);
    }
    (void)pthread_mutex_unlock(&runner->lock);
    rank->idle.ops = &idle_ops;
    rank->env.rank = rank->number;
    rank->env.world_size = runner->count;
    rank->env.mem = ddp_mem_pool_mem(rank->pool);
    rank->env.clock = &runner->clock.base;
    rank->env.idle = &rank->idle;
    context->env = &rank->env;
    context->rank = rank->number;
    context->count = runner->count;
    context->die = loop_die;
    context->runner = rank;
    RANK_CHECK(context, ddp_loop_create(runner->net, &rank->env, "test", rank->number,
                                        runner->count, NULL, &context->transport) == DDP_OK);
    RANK_CHECK(context, ddp_loop_store_create(runner->net, &rank->env, &context->store) == DDP_OK);
    if (context->failure[0] == '\0') {
        runner->program(context);
    }
    if (context->transport != NULL) {
        context->transport->ops->destroy(context->transport);
    }
    context->store->ops->destroy(context->store);
    if (context->failure[0] == '\0' && ddp_mem_pool_block_count(rank->pool) != 0) {
        (void)snprintf(context->failure, sizeof(context->failure), "rank %u leaks %zu blocks",
                       rank->number, ddp_mem_pool_block_count(rank->pool));
    }
    finish(rank);
    return NULL;
}

/* Hand the baton to the next rank; false when none is left. */
static bool step(struct loop_runner *runner)
{
    uint32_t next = UINT32_MAX;

    for (uint32_t i = 0; i < runner->wake_count;) {
        const struct wake *wake = &runner->wakes[i];

        if (runner->ranks[wake->rank].is_finished) {
            runner->wakes[i] = runner->wakes[--runner->wake_count];
            continue;
        }
        if (next == UINT32_MAX || wake->at_ns < runner->wakes[next].at_ns ||
            (wake->at_ns == runner->wakes[next].at_ns && wake->rank < runner->wakes[next].rank)) {
            next = i;
        }
        i++;
    }
    if (next == UINT32_MAX) {
        return false;
    }
    ddp_clock_virtual_advance_to(&runner->clock, runner->wakes[next].at_ns);
    uint32_t rank = runner->wakes[next].rank;

    runner->wakes[next] = runner->wakes[--runner->wake_count];
    pass_baton(runner, rank, SCHEDULER);
    return true;
}

void ranks_run_loop(uint32_t count, rank_program *program)
{
    struct loop_runner *runner = calloc(1, sizeof(*runner));
    struct ddp_loop_config config = {.world_size = count,
                                     .seed = 7,
                                     .latency_ns = 5000,
                                     .latency_jitter_ns = 3000,
                                     .bytes_per_us = 10000,
                                     .mem = ddp_mem_system(),
                                     .wake = add_wake};

    CT_REQUIRE(runner != NULL);
    (void)pthread_mutex_init(&runner->lock, NULL);
    (void)pthread_cond_init(&runner->changed, NULL);
    runner->baton = SCHEDULER;
    runner->program = program;
    runner->count = count;
    ddp_clock_virtual_init(&runner->clock, 1000);
    config.clock = &runner->clock.base;
    config.wake_context = runner;
    CT_REQUIRE_OK(ddp_loop_net_create(&config, &runner->net));
    for (uint32_t i = 0; i < count; i++) {
        struct loop_rank *rank = &runner->ranks[i];

        rank->number = i;
        rank->runner = runner;
        CT_CHECK_OK(ddp_mem_pool_create(&rank->pool));
        add_wake(runner, i, 1000);
        CT_CHECK(pthread_create(&rank->thread, NULL, rank_main, rank) == 0);
    }
    while (step(runner)) {
    }
    for (uint32_t i = 0; i < count; i++) {
        (void)pthread_join(runner->ranks[i].thread, NULL);
        CT_CHECK(runner->ranks[i].is_finished);
        CT_CHECK_STR(runner->ranks[i].context.failure, "");
    }
    ddp_loop_net_destroy(runner->net);
    (void)pthread_cond_destroy(&runner->changed);
    (void)pthread_mutex_destroy(&runner->lock);
    free(runner);
}
