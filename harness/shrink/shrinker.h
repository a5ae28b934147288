/* What is smallest so far, and how a smaller plan takes its place. Internal to harness/shrink. */
#ifndef HARNESS_SHRINK_SHRINKER_H
#define HARNESS_SHRINK_SHRINKER_H

#include "harness/scenario/scenario.h"
#include "harness/shrink/trial.h"

struct harness_shrinker {
    const struct harness_shrink_config *config;
    struct ddp_mem *mem;
    struct harness_scenario best;      /* of one plan */
    struct harness_shrink_trial trial; /* its */
    bool is_modelled;                  /* compared with the model's answers */
    bool keeps_culprits;               /* the same ranks must be named */
    unsigned runs;
    unsigned runs_kept; /* of runs_max: what no pass but the last ones may use */
    ddp_status status;  /* the harness's own first failure */
};

const struct harness_plan *harness_shrinker_best(const struct harness_shrinker *shrinker);
/* A copy that may be changed: its own faults, arrays shared. */
struct harness_plan harness_shrinker_copy(struct harness_shrinker *shrinker);
/* What was found is expected. is_exact: with its place, which changes as the plan shrinks. */
void harness_shrinker_expect_found(const struct harness_shrinker *shrinker,
                                   struct harness_plan *plan, bool is_exact);
/* Run a changed plan, with settings as --set takes them; it becomes the best if it fails in the
 * same way. */
bool harness_shrinker_attempt(struct harness_shrinker *shrinker, struct harness_plan *plan,
                              const char *const *sets, size_t set_count);

/* passes.c, passes_job.c: each over what is smallest so far. */
void harness_shrink_drop_faults(struct harness_shrinker *shrinker);
void harness_shrink_drop_ranks(struct harness_shrinker *shrinker);
void harness_shrink_drop_steps(struct harness_shrinker *shrinker);
void harness_shrink_drop_options(struct harness_shrinker *shrinker);
void harness_shrink_set_defaults(struct harness_shrinker *shrinker);
void harness_shrink_model(struct harness_shrinker *shrinker);

#endif
