/* The grammar of random plans: from a seed and a case's number to a plan, in the scenario format.
 * Pure: the same options, seed and number give the same text, whatever else was drawn before.
 *
 * What a case should be found to do is not drawn but worked out from the plan (model.h), so that it
 * can be worked out again for a plan that was changed by hand, or made smaller. */
#ifndef HARNESS_GRAMMAR_GRAMMAR_H
#define HARNESS_GRAMMAR_GRAMMAR_H

#include "ddpcore/base/text.h"
#include "harness/plan/key.h"
#include "harness/plan/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

struct harness_grammar_options {
    const char *name;                /* in the ids of cases: campaign.<name>_<number> */
    uint32_t fault_min, fault_max;   /* how many faults a case has */
    uint32_t ranks_max, steps_max;   /* 0: the grammar's own */
    uint32_t ranks, steps;           /* exactly so many; 0: drawn */
    uint8_t odds[HARNESS_ROW_COUNT]; /* of each key, in percent; see harness_grammar_init */
};

/* The grammar's own odds, no faults. */
void harness_grammar_init(struct harness_grammar_options *options, const char *name);
/* Whether a key can be drawn at all; false for a key that the grammar leaves alone. */
bool harness_grammar_is_drawn(enum harness_row row);
/* Draw one case. out: the plan as YAML. Errors: E_NOMEM; of the tables of a model. */
DDP_MUST_USE ddp_status harness_grammar_draw(const struct harness_grammar_options *options,
                                             uint64_t seed, uint64_t number, struct ddp_text *out,
                                             struct ddp_err *err);

#ifdef __cplusplus
}
#endif
#endif
