/* The simulator's scheduler: virtual time, wakes, deadlines, seeds. */
#include <string.h>

#include "harness/sim/scheduler.h"
#include "tests/ct.h"

enum { ACTORS = 4, LOG_MAX = 256 };

struct stage;

struct player {
    struct stage *stage;
    uint32_t index;
    uint64_t woken_ns;
};

struct stage {
    struct harness_sim_scheduler scheduler;
    struct player players[ACTORS];
    void (*act)(struct player *player);
    uint32_t log[LOG_MAX];
    size_t log_count;
};

static struct harness_sim_actor *actor_of(struct player *player)
{
    return &player->stage->scheduler.actors[player->index];
}

static uint64_t now_ns(const struct stage *stage)
{
    return stage->scheduler.clock.time_ns;
}

static void entry(void *context)
{
    struct player *player = context;

    player->stage->act(player);
}

static void stage_open(struct stage *stage, uint64_t seed, void (*act)(struct player *player))
{
    struct harness_sim_scheduler_config config = {.actor_count = ACTORS,
                                                  .seed = seed,
                                                  .start_ns = 1000,
                                                  .entry = entry,
                                                  .contexts = (char *)stage->players,
                                                  .context_bytes = sizeof stage->players[0]};

    memset(stage, 0, sizeof *stage);
    stage->act = act;
    for (uint32_t i = 0; i < ACTORS; i++) {
        stage->players[i] = (struct player){.stage = stage, .index = i};
    }
    CT_REQUIRE_OK(harness_sim_scheduler_init(&stage->scheduler, ddp_mem_system(), &config));
}

/* Run until nothing can happen. */
static void stage_play(struct stage *stage)
{
    struct harness_sim_scheduler *scheduler = &stage->scheduler;

    for (;;) {
        harness_sim_scheduler_deliver(scheduler);
        if (scheduler->ready_count > 0) {
            uint32_t index = harness_sim_scheduler_run_one(scheduler);

            if (harness_fiber_is_done(scheduler->actors[index].fiber)) {
                harness_sim_scheduler_remove(scheduler, index);
            }
        } else {
            uint64_t next_ns = harness_sim_scheduler_next_ns(scheduler);

            if (next_ns == DDP_DEADLINE_NEVER) {
                return;
            }
            ddp_clock_virtual_advance_to(&scheduler->clock, next_ns);
        }
    }
}

static void sleep_by_index(struct player *player)
{
    struct stage *stage = player->stage;

    harness_sim_actor_sleep(actor_of(player), (ACTORS - player->index) * DDP_NS_PER_S);
    stage->log[stage->log_count++] = player->index;
}

/* Sleepers come back in the order of their deadlines, and the hours between cost nothing. */
CT_TEST(scheduler, sleepers_wake_in_order)
{
    struct stage stage;

    stage_open(&stage, 1, sleep_by_index);
    stage_play(&stage);
    CT_REQUIRE(stage.log_count == ACTORS);
    for (uint32_t i = 0; i < ACTORS; i++) {
        CT_CHECK_EQ_U64(stage.log[i], ACTORS - 1 - i);
    }
    CT_CHECK(now_ns(&stage) >= ACTORS * DDP_NS_PER_S &&
             now_ns(&stage) < ACTORS * DDP_NS_PER_S + DDP_NS_PER_MS);
    CT_CHECK_EQ_U64(stage.scheduler.live_count, 0);
    harness_sim_scheduler_fini(&stage.scheduler);
}

static void wait_until(struct player *player, uint64_t deadline_ns)
{
    struct ddp_idle *idle = &actor_of(player)->idle;
    const struct ddp_idle_hint hint = {.deadline_ns = deadline_ns, .fd = -1};

    idle->ops->wait(idle, &hint);
    player->woken_ns = now_ns(player->stage);
}

static void wait_for_ever_or_wake(struct player *player)
{
    if (player->index == 0) {
        harness_sim_scheduler_wake(&player->stage->scheduler, 1, 5 * DDP_NS_PER_MS);
        return;
    }
    wait_until(player, player->index == 2 ? 9 * DDP_NS_PER_MS : DDP_DEADLINE_NEVER);
}

/* A wait ends with a wake or at its deadline; one that has neither never ends. */
CT_TEST(scheduler, waits_end_by_wake_or_deadline)
{
    struct stage stage;

    stage_open(&stage, 2, wait_for_ever_or_wake);
    stage_play(&stage);
    CT_CHECK(stage.players[1].woken_ns / DDP_NS_PER_MS == 5);
    CT_CHECK(stage.players[2].woken_ns / DDP_NS_PER_MS == 9);
    CT_CHECK_EQ_U64(stage.players[3].woken_ns, 0);
    CT_CHECK_EQ_U64(stage.scheduler.live_count, 1);
    CT_CHECK(harness_sim_scheduler_is_stable(&stage.scheduler));
    harness_sim_scheduler_fini(&stage.scheduler);
}

static void sleep_through_wakes(struct player *player)
{
    if (player->index == 0) {
        harness_sim_scheduler_wake(&player->stage->scheduler, 1, 2 * DDP_NS_PER_MS);
    } else if (player->index == 1) {
        harness_sim_actor_sleep(actor_of(player), 8 * DDP_NS_PER_MS);
        player->woken_ns = now_ns(player->stage);
        wait_until(player, 90 * DDP_NS_PER_MS);
    }
}

/* Host code that takes its time is not cut short by a message; but what has come meanwhile is
 * looked at before the next wait, since it may lie behind what was looked at last. */
CT_TEST(scheduler, sleep_ignores_wakes)
{
    struct stage stage;

    stage_open(&stage, 3, sleep_through_wakes);
    stage_play(&stage);
    CT_CHECK(stage.players[1].woken_ns / DDP_NS_PER_MS == 8);
    CT_CHECK(now_ns(&stage) / DDP_NS_PER_MS == 8);
    harness_sim_scheduler_fini(&stage.scheduler);
}

static void wait_twice(struct player *player)
{
    if (player->index != 0) {
        return;
    }
    harness_sim_scheduler_wake(&player->stage->scheduler, 0, 2 * DDP_NS_PER_MS);
    wait_until(player, 50 * DDP_NS_PER_MS);
    /* The timer of the first wait is still there; it must neither end nor delay this one. */
    wait_until(player, 90 * DDP_NS_PER_MS);
    harness_sim_scheduler_wake(&player->stage->scheduler, 0, 92 * DDP_NS_PER_MS);
    wait_until(player, DDP_DEADLINE_NEVER);
    wait_until(player, 95 * DDP_NS_PER_MS);
}

/* Timers of waits that ended otherwise are moved on, not obeyed. */
CT_TEST(scheduler, stale_timers_are_harmless)
{
    struct stage stage;

    stage_open(&stage, 4, wait_twice);
    stage_play(&stage);
    CT_CHECK(stage.players[0].woken_ns / DDP_NS_PER_MS == 95);
    CT_CHECK_EQ_U64(stage.scheduler.live_count, 0);
    harness_sim_scheduler_fini(&stage.scheduler);
}

static void make_progress(struct player *player)
{
    struct stage *stage = player->stage;
    struct ddp_idle *idle = &actor_of(player)->idle;

    for (int i = 0; i < 20; i++) {
        stage->log[stage->log_count++] = player->index;
        idle->ops->progress(idle);
    }
}

/* A seed is an interleaving: the same seed the same one, another seed another one. */
CT_TEST(scheduler, seed_decides_the_order)
{
    struct stage a, b, c;

    stage_open(&a, 5, make_progress);
    stage_play(&a);
    stage_open(&b, 5, make_progress);
    stage_play(&b);
    stage_open(&c, 6, make_progress);
    stage_play(&c);
    CT_CHECK_BYTES(a.log, b.log, sizeof a.log);
    CT_CHECK_EQ_U64(now_ns(&a), now_ns(&b));
    CT_CHECK(memcmp(a.log, c.log, sizeof a.log) != 0);
    harness_sim_scheduler_fini(&a.scheduler);
    harness_sim_scheduler_fini(&b.scheduler);
    harness_sim_scheduler_fini(&c.scheduler);
}
