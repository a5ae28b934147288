/* The walk over the rows. Each row has a stream of numbers of its own, derived from the case's, so
 * that a row that is added, or left out by its odds, changes nothing that the others draw. */
#include "harness/grammar/grammar.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ddpcore/base/hash.h"
#include "harness/grammar/draw.h"
#include "harness/grammar/model.h"

struct row {
    enum harness_row key;
    uint8_t odds;
    void (*draw)(struct harness_draw *draw); /* NULL: left */
};

static const struct row rows[] = {
#define DRAWN(section, key, odds) {HARNESS_ROW_##section##_##key, odds, grammar_##section##_##key},
#define LEFT(section, key, why)   {HARNESS_ROW_##section##_##key, 0, NULL},
#include "harness/grammar/grammar.def"
};
enum { ROW_COUNT = sizeof rows / sizeof rows[0] };

/* Every key has a row: what has none is not declared here. */
enum {
#define DRAWN(section, key, odds) HAS_##section##_##key,
#define LEFT(section, key, why)   HAS_##section##_##key,
#include "harness/grammar/grammar.def"
};
#define KEY(section, key, ...)                sizeof(char[1 + HAS_##section##_##key]),
#define KEY_BARE(section, key, type, meaning) sizeof(char[1 + HAS_##section##_##key]),
/* Answers, not choices. */
#define EXPECT(...)
#define FINDING(...)
#define OP(...)
#define SURVIVORS(...)
#define EXPECT_RESTORE(...)
#define FORBID(...)
#define CANARY(...)
static const size_t every_key_has_a_row[] = {
#include "harness/plan/key.def"
};
_Static_assert(sizeof every_key_has_a_row / sizeof every_key_has_a_row[0] == ROW_COUNT,
               "grammar.def has a row for each key, and no key twice");

void harness_grammar_init(struct harness_grammar_options *options, const char *name)
{
    memset(options, 0, sizeof *options);
    options->name = name;
    for (size_t i = 0; i < ROW_COUNT; i++) {
        options->odds[rows[i].key] = rows[i].odds;
    }
}

bool harness_grammar_is_drawn(enum harness_row row)
{
    for (size_t i = 0; i < ROW_COUNT; i++) {
        if (rows[i].key == row) {
            return rows[i].draw != NULL;
        }
    }
    return false;
}

/* What a plan is before anything is drawn: every default of key.def. */
static void set_defaults(struct harness_plan *plan, struct ddp_mem *mem)
{
    struct harness_job *job = &plan->job;

    memset(plan, 0, sizeof *plan);
    plan->title = "";
    plan->cell = "";
    plan->is_driver[HARNESS_DRIVER_SIM] = true;
    plan->is_driver[HARNESS_DRIVER_PROC] = true;
    job->micro_batches = 1;
    job->is_shuffled = true;
    job->broadcast_buffers = true;
    job->is_checkpoint_wrapped = true;
    job->ranks_per_gpu = 1;
    job->timeout_ns = 10 * DDP_NS_PER_S;
    job->join.divide_by_initial_world_size = true;
    for (unsigned phase = 0; phase < DDP_PHASE_COUNT; phase++) {
        job->phase_budget_ms[phase] = ddp_phase_budget_ms((enum ddp_phase)phase);
    }
    job->collective = (struct harness_collective){HARNESS_ENGINE_SCHEDULE, DDP_ALGORITHM_RING};
    job->optimizer.lr = 1e-3;
    job->optimizer.beta1 = 0.9;
    job->optimizer.beta2 = 0.999;
    job->optimizer.eps = 1e-8;
    plan->restore.is_wrapped = true;
    plan->forbid.accuse_others = true;
    for (unsigned leak = 0; leak < HARNESS_LEAK_COUNT; leak++) {
        plan->forbid.is_leak[leak] = true;
    }
    plan->expect.step = -1;
    plan->expect.phase = -1;
    plan->expect.culprit.ranks = harness_rank_set_in(mem);
}

static ddp_status draw_rows(struct harness_draw *draw, uint64_t seed, uint64_t number)
{
    struct ddp_prng root = ddp_prng_make(seed, "campaign");
    struct ddp_prng own = ddp_prng_split(&root, number);

    for (size_t i = 0; i < ROW_COUNT; i++) {
        const char *key = harness_key(rows[i].key)->key;

        if (rows[i].draw == NULL) {
            continue;
        }
        /* By name, so that a new key of key.def moves nobody's stream. */
        draw->prng = ddp_prng_split(&own, ddp_hash_text(key) + harness_key(rows[i].key)->section);
        if (harness_draw_chance(draw, draw->options->odds[rows[i].key])) {
            rows[i].draw(draw);
        }
        DDP_TRY(draw->status);
    }
    return DDP_OK;
}

ddp_status harness_grammar_draw(const struct harness_grammar_options *options, uint64_t seed,
                                uint64_t number, struct ddp_text *out, struct ddp_err *err)
{
    struct ddp_mem_pool *pool;
    struct harness_plan plan;
    struct harness_draw draw = {.options = options, .plan = &plan};
    struct harness_model model;
    char id[128];
    ddp_status status;

    DDP_TRY(ddp_mem_pool_create(&pool));
    draw.mem = ddp_mem_pool_mem(pool);
    draw.is_healthy = options->fault_max == 0;
    set_defaults(&plan, draw.mem);
    (void)snprintf(id, sizeof id, "campaign.%.80s_%" PRIu64, options->name, number);
    plan.id = id;
    plan.purpose = "A case that a campaign drew.";
    status = draw_rows(&draw, seed, number);
    if (status == DDP_OK) {
        status = harness_model_of(&plan, draw.mem, &model, err);
    }
    if (status == DDP_OK) {
        plan.expect = model.accepted[0];
        harness_plan_print(&plan, out);
        status = out->is_failed ? DDP_E_NOMEM : DDP_OK;
    }
    ddp_mem_pool_destroy(pool);
    return status;
}
