/* Purpose: see the header.
 * Idea: a gate in front of the simulator's transport holds every message back until it is let
 * through; one is, whenever nobody can go on. Which one of those that wait is a choice, and the
 * choices of a run are a number in a mixed radix that is counted up from run to run. */
#include "harness/lab/orders.h"

#include <stdio.h>
#include <string.h>

#include "ddpcore/device/cpu.h"
#include "ddpcore/transport/loop.h"
#include "harness/lab/choices.h"
#include "harness/lab/data.h"
#include "harness/lab/gated.h"

enum { RANKS = HARNESS_ORDERS_RANKS_MAX };

struct orders_rank {
    struct ddp_env env;
    struct ddp_mem_pool *pool;
    struct ddp_device *device;
    struct ddp_coll *coll;
    struct ddp_coll_work work;
    struct harness_lab_gated gated;
    float *input, *output;
};

struct world {
    const struct harness_orders_config *config;
    struct ddp_clock_virtual clock;
    struct ddp_loop_net *net;
    struct ddp_idle idle;
    struct orders_rank rank[RANKS];
    struct harness_lab_lane lane[RANKS][RANKS]; /* [to][from] */
    uint32_t let_through;                       /* messages so far */
    uint32_t spoiled; /* the number of the one that is; UINT32_MAX: none */
    enum harness_lab_spoiling spoiling;
    uint32_t killed, killed_before; /* a rank, and the message before which it dies; UINT32_MAX */
};

/* --- world ------------------------------------------------------------------------------------ */

static void ignore_wake(void *context, uint32_t rank, uint64_t at_ns)
{
    (void)context;
    (void)rank;
    (void)at_ns;
}

static void pass_time(struct ddp_idle *idle, const struct ddp_idle_hint *hint)
{
    struct world *world = (struct world *)(void *)((char *)idle - offsetof(struct world, idle));

    (void)hint;
    ddp_clock_virtual_advance_to(&world->clock, world->clock.time_ns + 1000);
}

static void let_progress(struct ddp_idle *idle)
{
    (void)idle;
}

static size_t in_count(const struct harness_orders_config *config)
{
    return config->elem_count * ddp_coll_input_blocks(config->kind, config->world);
}

static size_t out_count(const struct harness_orders_config *config)
{
    return config->elem_count * ddp_coll_output_blocks(config->kind, config->world, true);
}

static ddp_status open_buffers(struct world *world, struct orders_rank *rank)
{
    const struct harness_orders_config *config = world->config;
    struct ddp_mem *mem = rank->env.mem;

    rank->input = ddp_mem_array(mem, in_count(config) + 1, sizeof(float));
    rank->output = ddp_mem_array(mem, out_count(config) + 1, sizeof(float));
    if (rank->input == NULL || rank->output == NULL) {
        return DDP_E_NOMEM;
    }
    harness_lab_fill(rank->env.rank, rank->input, in_count(config));
    memset(rank->output, 0xff, out_count(config) * sizeof(float));
    return DDP_OK;
}

static ddp_status open_rank(struct world *world, uint32_t number, struct ddp_err *err)
{
    const struct harness_orders_config *config = world->config;
    struct orders_rank *rank = &world->rank[number];
    struct ddp_coll_schedule_config schedules = {
        .comm = 1, .is_checked = true, .emitter = config->emitter};

    struct ddp_transport *inner = NULL;

    DDP_TRY(ddp_mem_pool_create(&rank->pool));
    rank->env = (struct ddp_env){.rank = number,
                                 .world_size = config->world,
                                 .mem = ddp_mem_pool_mem(rank->pool),
                                 .clock = &world->clock.base,
                                 .idle = &world->idle};
    if (config->kind == DDP_COLL_ALL_REDUCE) {
        schedules.algorithm = config->algorithm;
    } else {
        schedules.of_kind[config->kind] = config->algorithm;
    }
    DDP_TRY(ddp_loop_create(world->net, &rank->env, "orders", number, config->world, NULL, &inner));
    harness_lab_gated_init(&rank->gated, inner, world->lane[number]);
    rank->gated.is_deaf = config->is_deaf;
    DDP_TRY(ddp_device_cpu_create(rank->env.mem, &rank->device));
    DDP_TRY(ddp_coll_schedule_create(&rank->env, &rank->gated.relay.base, rank->device, &schedules,
                                     &rank->coll, err));
    return open_buffers(world, rank);
}

static ddp_status open_world(struct world *world, const struct harness_orders_config *config,
                             struct ddp_err *err)
{
    static const struct ddp_idle_ops idle_ops = {pass_time, let_progress};
    struct ddp_loop_config net = {.world_size = config->world,
                                  .mem = ddp_mem_system(),
                                  .clock = &world->clock.base,
                                  .wake = ignore_wake};

    DDP_ASSERT(config->world >= 1 && config->world <= HARNESS_ORDERS_RANKS_MAX);
    memset(world, 0, sizeof *world);
    world->config = config;
    world->spoiled = UINT32_MAX;
    world->killed = UINT32_MAX;
    world->killed_before = UINT32_MAX;
    ddp_clock_virtual_init(&world->clock, 1000);
    world->idle.ops = &idle_ops;
    DDP_TRY(ddp_loop_net_create(&net, &world->net));
    for (uint32_t r = 0; r < config->world; r++) {
        DDP_TRY(open_rank(world, r, err));
    }
    return DDP_OK;
}

static void close_world(struct world *world)
{
    for (uint32_t r = 0; r < world->config->world; r++) {
        struct orders_rank *rank = &world->rank[r];

        if (rank->coll != NULL) {
            rank->coll->ops->destroy(rank->coll);
        }
        if (rank->device != NULL) {
            rank->device->ops->destroy(rank->device);
        }
        if (rank->pool != NULL) {
            ddp_mem_pool_destroy(rank->pool);
        }
    }
    ddp_loop_net_destroy(world->net);
}

/* --- a run ------------------------------------------------------------------------------------ */

/* Lets one of the messages that wait through. False: none does. */
static bool let_one_through(struct world *world, struct harness_lab_choices *choices)
{
    struct harness_lab_lane *waiting[RANKS * RANKS];
    size_t count = 0;
    struct harness_lab_lane *chosen;

    for (uint32_t to = 0; to < world->config->world; to++) {
        for (uint32_t from = 0; from < world->config->world; from++) {
            if (world->lane[to][from].is_waiting) {
                waiting[count++] = &world->lane[to][from];
            }
        }
    }
    if (count == 0) {
        return false;
    }
    chosen = waiting[count > 1 ? harness_lab_choose(choices, count) : 0];
    chosen->is_waiting = false;
    chosen->allowed++;
    chosen->spoiling = world->let_through++ == world->spoiled ? world->spoiling : HARNESS_LAB_KEPT;
    return true;
}

/* seq: 1, 2, ... */
static void post_all(struct world *world, uint64_t seq)
{
    const struct harness_orders_config *config = world->config;

    for (uint32_t r = 0; r < config->world; r++) {
        struct orders_rank *rank = &world->rank[r];

        rank->work = (struct ddp_coll_work){.args = {.kind = config->kind,
                                                     .dtype = DDP_DTYPE_F32,
                                                     .input = rank->input,
                                                     .output = rank->output,
                                                     .elem_count = config->elem_count},
                                            .seq = seq,
                                            .status = DDP_PENDING};
        rank->work.status =
            rank->coll->ops->post(rank->coll, &rank->work) == DDP_OK ? DDP_PENDING : DDP_E_STATE;
    }
}

/* It vanishes with its memory. False: it is not its time, or it is dead. */
static bool kill_one(struct world *world)
{
    struct orders_rank *rank = &world->rank[world->killed < (uint32_t)RANKS ? world->killed : 0];

    if (world->let_through != world->killed_before) {
        return false;
    }
    world->killed_before = UINT32_MAX;
    ddp_loop_net_kill(world->net, world->killed);
    ddp_mem_pool_destroy(rank->pool);
    *rank = (struct orders_rank){.work = {.status = DDP_E_PEER_DIED}};
    for (uint32_t from = 0; from < world->config->world; from++) {
        world->lane[world->killed][from].is_waiting = false;
    }
    return true;
}

/* Until all have ended, or nobody can go on: those are PENDING then. Polls move what they can, so
 * three rounds in which none ends and no message comes are the end of it. */
static void run(struct world *world, uint64_t seq, struct harness_lab_choices *choices)
{
    enum { QUIET_ROUNDS = 3 };
    uint32_t quiet = 0;
    bool is_late = world->killed == UINT32_MAX;

    post_all(world, seq);
    for (;;) {
        bool is_done = true;

        ddp_clock_virtual_advance_to(&world->clock, world->clock.time_ns + 1000);
        for (uint32_t r = 0; r < world->config->world; r++) {
            struct orders_rank *rank = &world->rank[r];

            if (rank->work.status == DDP_PENDING &&
                rank->coll->ops->poll(rank->coll, &rank->work) == DDP_PENDING) {
                is_done = false;
            }
        }
        if (is_done) {
            return;
        }
        if (++quiet < (uint32_t)QUIET_ROUNDS) {
            continue;
        }
        quiet = 0;
        if (kill_one(world) || let_one_through(world, choices)) {
            continue;
        }
        if (is_late) {
            return;
        }
        is_late = true; /* a death is told after a while */
        ddp_clock_virtual_advance_to(&world->clock,
                                     world->clock.time_ns + 2 * DDP_TRANSPORT_DEATH_GRACE_NS);
    }
}

/* --- judging ---------------------------------------------------------------------------------- */

static bool has_output(const struct harness_orders_config *config, uint32_t rank)
{
    return config->kind != DDP_COLL_REDUCE || rank == 0;
}

/* The bits that a run in which all went well has left; to be freed. */
static float *keep(const struct world *world)
{
    size_t count = out_count(world->config);
    float *kept = ddp_mem_array(ddp_mem_system(), count * world->config->world + 1, sizeof(float));

    for (uint32_t r = 0; kept != NULL && r < world->config->world; r++) {
        memcpy(kept + r * count, world->rank[r].output, count * sizeof(float));
    }
    return kept;
}

static bool is_same(const struct world *world, const float *kept, uint32_t rank)
{
    size_t count = out_count(world->config);

    return !has_output(world->config, rank) ||
           memcmp(kept + rank * count, world->rank[rank].output, count * sizeof(float)) == 0;
}

static void judge_order(const struct world *world, const float *kept,
                        struct harness_orders_result *out)
{
    for (uint32_t r = 0; r < world->config->world && out->wrong[0] == '\0'; r++) {
        ddp_status status = world->rank[r].work.status;

        out->rank = r;
        if (status != DDP_OK) {
            (void)snprintf(out->wrong, sizeof out->wrong,
                           "in order %llu of the messages rank %u %s",
                           (unsigned long long)out->run_count, r,
                           status == DDP_PENDING ? "waits for ever" : ddp_status_text(status));
        } else if (kept != NULL && !is_same(world, kept, r)) {
            (void)snprintf(out->wrong, sizeof out->wrong,
                           "in order %llu of the messages rank %u has other bits than in the first",
                           (unsigned long long)out->run_count, r);
        }
    }
}

ddp_status harness_orders_all(const struct harness_orders_config *config,
                              struct harness_orders_result *out, struct ddp_err *err)
{
    static struct world world;
    static struct harness_lab_choices choices;
    static struct ddp_prng drawn;
    float *kept = NULL;
    ddp_status status = DDP_OK;

    memset(&choices, 0, sizeof choices);
    drawn = ddp_prng_make(1, "orders");
    *out = (struct harness_orders_result){0};
    while (status == DDP_OK && out->run_count < config->runs_max && out->wrong[0] == '\0') {
        /* The first half in turn, which may be all there are; then drawn ones. */
        bool is_drawn = out->run_count >= config->runs_max / 2;

        if (is_drawn) {
            choices.drawn = &drawn;
        } else if (out->run_count > 0 && !harness_lab_count_up(&choices)) {
            out->is_exhaustive = true;
            break;
        }
        choices.count = 0;
        status = open_world(&world, config, err);
        if (status == DDP_OK) {
            run(&world, 1, &choices);
            out->run_count++;
            judge_order(&world, kept, out);
            kept = kept == NULL ? keep(&world) : kept;
            status = kept != NULL ? DDP_OK : DDP_E_NOMEM;
        }
        close_world(&world);
    }
    ddp_mem_free(ddp_mem_system(), kept);
    return status;
}

/* Whether a rank has an error, or goes on waiting. */
static bool is_noticed(const struct world *world)
{
    for (uint32_t r = 0; r < world->config->world; r++) {
        if (world->rank[r].work.status != DDP_OK) {
            return true;
        }
    }
    return false;
}

/* A wrong result. Messages have numbers, so that no rank may take one for right. A bit that changes
 * is only to be noticed, by some rank, in the next call at the latest. */
static void judge_spoiled(struct world *world, const float *kept,
                          struct harness_lab_choices *choices, struct harness_orders_result *out)
{
    static const char *const names[HARNESS_LAB_SPOILINGS] = {"", "is lost", "comes twice",
                                                             "is cut short", "is changed"};
    uint32_t wrong = UINT32_MAX;

    for (uint32_t r = world->config->world; r-- > 0;) {
        wrong = world->rank[r].work.status == DDP_OK && !is_same(world, kept, r) ? r : wrong;
    }
    if (wrong == UINT32_MAX) {
        return;
    }
    if (world->spoiling == HARNESS_LAB_FLIPPED) {
        if (!is_noticed(world)) {
            run(world, 2, choices);
        }
        if (is_noticed(world)) {
            return;
        }
    }
    out->rank = wrong;
    (void)snprintf(out->wrong, sizeof out->wrong,
                   "message %u %s, and rank %u takes what it has for the result", world->spoiled,
                   names[world->spoiling], wrong);
}

/* One call, whose message `number` is spoiled in a way; UINT32_MAX: none is, and what it leaves is
 * kept. */
static ddp_status spoil(const struct harness_orders_config *config, uint32_t number,
                        enum harness_lab_spoiling way, float **kept, uint32_t *message_count,
                        struct harness_orders_result *out, struct ddp_err *err)
{
    static struct world world;
    static struct harness_lab_choices choices;
    ddp_status status;

    memset(&choices, 0, sizeof choices);
    status = open_world(&world, config, err);
    if (status == DDP_OK) {
        world.spoiled = number;
        world.spoiling = way;
        run(&world, 1, &choices);
        out->run_count++;
        if (number == UINT32_MAX) {
            *message_count = world.let_through;
            *kept = keep(&world);
            status = *kept != NULL ? DDP_OK : DDP_E_NOMEM;
        } else {
            judge_spoiled(&world, *kept, &choices, out);
        }
    }
    close_world(&world);
    return status;
}

ddp_status harness_orders_spoiled(const struct harness_orders_config *config,
                                  struct harness_orders_result *out, struct ddp_err *err)
{
    unsigned way_count =
        config->is_flipping ? (unsigned)HARNESS_LAB_SPOILINGS : (unsigned)HARNESS_LAB_FLIPPED;
    uint32_t message_count = 0;
    float *kept = NULL;
    ddp_status status;

    *out = (struct harness_orders_result){.is_exhaustive = true};
    status = spoil(config, UINT32_MAX, HARNESS_LAB_KEPT, &kept, &message_count, out, err);
    for (uint32_t i = 0; status == DDP_OK && i < message_count * (way_count - 1); i++) {
        if (out->wrong[0] == '\0') {
            status = spoil(config, i / (way_count - 1),
                           (enum harness_lab_spoiling)(1 + i % (way_count - 1)), &kept,
                           &message_count, out, err);
        }
    }
    ddp_mem_free(ddp_mem_system(), kept);
    return status;
}

/* Whether some rank that lives goes on waiting, or takes something else for the result. */
static void judge_killed(const struct world *world, const float *kept, uint32_t number,
                         struct harness_orders_result *out)
{
    for (uint32_t r = 0; r < world->config->world && out->wrong[0] == '\0'; r++) {
        ddp_status status = world->rank[r].work.status;
        bool is_wrong = status == DDP_OK && !is_same(world, kept, r);

        if (r != world->killed && (status == DDP_PENDING || is_wrong)) {
            out->rank = r;
            (void)snprintf(out->wrong, sizeof out->wrong,
                           "rank %u dies before message %u, and rank %u %s", world->killed, number,
                           r, is_wrong ? "takes what it has for the result" : "waits for ever");
        }
    }
}

ddp_status harness_orders_killed(const struct harness_orders_config *config,
                                 struct harness_orders_result *out, struct ddp_err *err)
{
    static struct world world;
    static struct harness_lab_choices choices;
    uint32_t message_count = 0;
    float *kept = NULL;
    ddp_status status;

    *out = (struct harness_orders_result){.is_exhaustive = true};
    status = spoil(config, UINT32_MAX, HARNESS_LAB_KEPT, &kept, &message_count, out, err);
    for (uint32_t i = 0; status == DDP_OK && i < (message_count + 1) * config->world; i++) {
        if (out->wrong[0] != '\0') {
            break;
        }
        memset(&choices, 0, sizeof choices);
        status = open_world(&world, config, err);
        if (status == DDP_OK) {
            world.killed = i % config->world;
            world.killed_before = i / config->world;
            run(&world, 1, &choices);
            out->run_count++;
            judge_killed(&world, kept, i / config->world, out);
        }
        close_world(&world);
    }
    ddp_mem_free(ddp_mem_system(), kept);
    return status;
}
