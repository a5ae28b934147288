/* What the rows of the grammar draw with, and where they put it. Internal to harness/grammar. */
#ifndef HARNESS_GRAMMAR_DRAW_H
#define HARNESS_GRAMMAR_DRAW_H

#include "ddpcore/base/prng.h"
#include "harness/grammar/grammar.h"
#include "harness/plan/program.h"

struct harness_draw {
    const struct harness_grammar_options *options;
    struct ddp_mem *mem; /* of the plan */
    struct harness_plan *plan;
    struct ddp_prng prng; /* of the row that is being drawn, and of no other */
    bool is_healthy;      /* no fault will be drawn: nothing may go wrong */
    /* What the model and the data of the plan come to, once they are drawn. */
    size_t feature_count, class_count, target_count;
    ddp_status status; /* the first failure */
};

/* Uniform in [0, bound), in [low, high], and true so often. */
uint64_t harness_draw_below(struct harness_draw *draw, uint64_t bound);
uint64_t harness_draw_between(struct harness_draw *draw, uint64_t low, uint64_t high);
bool harness_draw_chance(struct harness_draw *draw, unsigned percent);
/* One of so many entries, by weight; a later entry of an equal weight is as likely. */
size_t harness_draw_weighted(struct harness_draw *draw, const unsigned *weights, size_t count);
double harness_draw_one_of(struct harness_draw *draw, const double *values, size_t count);
/* An array for the plan; NULL (and draw->status) when out of memory. */
void *harness_draw_array(struct harness_draw *draw, size_t count, size_t elem_bytes);

#define HARNESS_DRAW_ONE_OF(draw, ...)                         \
    harness_draw_one_of((draw), (const double[]){__VA_ARGS__}, \
                        sizeof((const double[]){__VA_ARGS__}) / sizeof(double))

/* Whether a key is a bool or a name of the job, and a draw of one: any value is as likely. */
bool harness_draw_is_choice(const struct harness_key *key);
void harness_draw_choice(struct harness_draw *draw, const struct harness_key *key);

/* A function for each row that is drawn. */
#define DRAWN(section, key, odds) void grammar_##section##_##key(struct harness_draw *draw);
#include "harness/grammar/grammar.def"

#endif
