/* The walk over the keys. Each has a stream of numbers of its own, derived from the case's, so that
 * one that is added, or left out by its odds, changes nothing that the others draw. */
#include "harness/grammar/grammar.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ddpcore/base/hash.h"
#include "harness/grammar/draw.h"
#include "harness/grammar/model.h"
#include "harness/scenario/scenario.h"

typedef void draw_row(struct harness_draw *draw);

static const struct row {
    enum harness_row key;
    uint8_t odds;
    draw_row *draw; /* NULL: left */
} rows[] = {
#define DRAWN(section, key, odds) {HARNESS_ROW_##section##_##key, odds, grammar_##section##_##key},
#define LEFT(section, key, why)   {HARNESS_ROW_##section##_##key, 0, NULL},
#include "harness/grammar/grammar.def"
};
enum { ROW_COUNT = sizeof rows / sizeof rows[0], CHOICE_ODDS = 50 };

/* NULL: the key has no row. */
static const struct row *row_of(enum harness_row key)
{
    for (size_t i = 0; i < ROW_COUNT; i++) {
        if (rows[i].key == key) {
            return &rows[i];
        }
    }
    return NULL;
}

static bool is_free_choice(enum harness_row key)
{
    return row_of(key) == NULL && harness_draw_is_choice(harness_key(key));
}

void harness_grammar_init(struct harness_grammar_options *options, const char *name)
{
    memset(options, 0, sizeof *options);
    options->name = name;
    for (unsigned key = 0; key < HARNESS_ROW_COUNT; key++) {
        const struct row *row = row_of((enum harness_row)key);

        options->odds[key] = row != NULL                             ? row->odds
                             : is_free_choice((enum harness_row)key) ? CHOICE_ODDS
                                                                     : 0;
    }
}

bool harness_grammar_is_drawn(enum harness_row key)
{
    const struct row *row = row_of(key);

    return row != NULL ? row->draw != NULL : is_free_choice(key);
}

/* What a plan is before anything is drawn: every default of key.def, as the parser sets them. What
 * has no default is drawn. */
static ddp_status parse_defaults(struct harness_scenario *out, struct ddp_err *err)
{
    static const char text[] = "# A case that a campaign drew.\n"
                               "id: campaign.case\n"
                               "job: {ranks: 1, steps: 1, model: mlp, batch_per_rank: 1}\n"
                               "expect: {verdict: NONE}\n";

    return harness_scenario_parse(text, sizeof text - 1, "defaults", NULL, 0, out, err);
}

/* A key's own stream is split off by its name, so that a new key moves nobody else's. */
static bool is_drawn_now(struct harness_draw *draw, const struct ddp_prng *own,
                         enum harness_row row)
{
    const struct harness_key *key = harness_key(row);

    draw->prng = ddp_prng_split(own, ddp_hash_text(key->key) + key->section);
    return harness_draw_chance(draw, draw->options->odds[row]);
}

static ddp_status draw_keys(struct harness_draw *draw, uint64_t seed, uint64_t number)
{
    struct ddp_prng root = ddp_prng_make(seed, "campaign");
    struct ddp_prng own = ddp_prng_split(&root, number);

    for (unsigned key = 0; key < HARNESS_ROW_COUNT; key++) {
        if (is_free_choice((enum harness_row)key) &&
            is_drawn_now(draw, &own, (enum harness_row)key)) {
            harness_draw_choice(draw, harness_key((enum harness_row)key));
        }
    }
    for (size_t i = 0; i < ROW_COUNT; i++) {
        if (rows[i].draw != NULL && is_drawn_now(draw, &own, rows[i].key)) {
            rows[i].draw(draw);
        }
        DDP_TRY(draw->status);
    }
    return DDP_OK;
}

ddp_status harness_grammar_draw(const struct harness_grammar_options *options, uint64_t seed,
                                uint64_t number, struct ddp_text *out, struct ddp_err *err)
{
    struct harness_scenario defaults;
    struct harness_plan plan;
    struct harness_draw draw = {.options = options, .plan = &plan};
    struct harness_model model;
    char id[128];
    ddp_status status;

    DDP_TRY(parse_defaults(&defaults, err));
    plan = defaults.plans[0];
    draw.mem = ddp_mem_pool_mem(defaults.pool);
    draw.is_healthy = options->fault_max == 0;
    (void)snprintf(id, sizeof id, "campaign.%.80s_%" PRIu64, options->name, number);
    plan.id = id;
    status = draw_keys(&draw, seed, number);
    if (status == DDP_OK) {
        status = harness_model_of(&plan, draw.mem, &model, err);
    }
    if (status == DDP_OK) {
        plan.expect = model.accepted[0];
        harness_plan_print(&plan, out);
        status = out->is_failed ? DDP_E_NOMEM : DDP_OK;
    }
    harness_scenario_fini(&defaults);
    return status;
}
