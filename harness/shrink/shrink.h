/* The smallest plan that fails in the same way. A candidate replaces the plan if its signature is
 * the same: fewest faults first, then ranks, steps, settings, and the smallest model.
 *
 * What is kept: that the harness itself dies, if it does; else, of a plan whose expectation is not
 * met, that what is found is not what the model of the plan says; else the first finding, as it is
 * reported, and nothing that was found beside it. Faults that never fired go first, unless that
 * they did not is all that is wrong. */
#ifndef HARNESS_SHRINK_SHRINK_H
#define HARNESS_SHRINK_SHRINK_H

#include "harness/plan/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Who was named: how many, and whether faults were injected there. */
enum harness_shrink_named {
    HARNESS_SHRINK_NOBODY,
    HARNESS_SHRINK_INJECTED, /* ranks with faults alone */
    HARNESS_SHRINK_INNOCENT, /* ranks without faults alone */
    HARNESS_SHRINK_BOTH
};

/* What stays the same. */
struct harness_shrink_signature {
    enum harness_outcome outcome;
    enum harness_verdict verdict;
    enum harness_oracle_id oracle;
    enum harness_shrink_named named;
    bool is_one;      /* one rank was named */
    bool has_op;      /* an operation was named, */
    uint32_t op_role; /* enum ddp_coll_role: in this role */
    /* Of a plan that is compared with its model: what should not be there beside it. */
    enum harness_verdict also;
    enum harness_oracle_id also_oracle;
    enum harness_verdict restored; /* if nothing is found before: in the restore run */
    int death_signal;              /* of the harness itself; 0: it lives */
};

struct harness_shrink_config {
    enum harness_driver driver;
    uint64_t seed;
    const char *self_path;
    const char *work_dir; /* for runs that need a folder; removed behind them */
    unsigned runs_max;
    void *context;
    /* After each run: what is smallest so far. May be NULL. */
    void (*progress)(void *context, unsigned runs, const struct harness_plan *smallest);
};

struct harness_shrink_result {
    struct harness_shrink_signature signature;
    bool is_wrong; /* the answer is not what the model of the plan says; else it is what is expected
                    * of the plan now */
    unsigned runs;
    uint32_t faults, ranks, steps;
    char name[128]; /* of the scenario: what was found, and where its first fault is */
};

/* Shrink the plan of a text (the scenario format, one cell) and print what is left, as a scenario
 * of the id `<family>.<name>` that tells its story. Errors: E_INVALID (the plan finds nothing:
 * there is nothing to keep; it does not parse), E_NOMEM, the harness's own. */
DDP_MUST_USE ddp_status harness_shrink(const char *text, size_t size_bytes, const char *path,
                                       const struct harness_shrink_config *config,
                                       const char *family, struct ddp_text *out_scenario,
                                       struct harness_shrink_result *out, struct ddp_err *err);

#ifdef __cplusplus
}
#endif
#endif
