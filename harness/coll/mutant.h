/* Mechanical mutants of schedules: one step of one rank is changed, as somebody who writes an
 * algorithm might get it wrong. They show that the proof notices; and a change that nothing notices
 * shows a step, or a dependency, that the algorithm does not need. */
#ifndef HARNESS_COLL_MUTANT_H
#define HARNESS_COLL_MUTANT_H

#include "harness/coll/coll.h"

#ifdef __cplusplus
extern "C" {
#endif

/* X(identifier, name, whether a mutant can be right: what it takes away may not be needed) */
#define HARNESS_COLL_MUTATION_TABLE(X)                       \
    X(HARNESS_COLL_STEP_LOST, "step_lost", false)            \
    X(HARNESS_COLL_KIND_CHANGED, "kind_changed", false)      \
    X(HARNESS_COLL_TARGET_SHIFTED, "target_shifted", false)  \
    X(HARNESS_COLL_SOURCE_SHIFTED, "source_shifted", false)  \
    X(HARNESS_COLL_SHORTENED, "shortened", false)            \
    X(HARNESS_COLL_PEER_CHANGED, "peer_changed", false)      \
    X(HARNESS_COLL_ORDER_CHANGED, "order_changed", false)    \
    X(HARNESS_COLL_DEPENDENCY_LOST, "dependency_lost", true) \
    X(HARNESS_COLL_BUFFER_CHANGED, "buffer_changed", true)   \
    X(HARNESS_COLL_ROUND_CHANGED, "round_changed", false)
enum harness_coll_mutation {
#define X(id, name, may_be_right) id,
    HARNESS_COLL_MUTATION_TABLE(X)
#undef X
        HARNESS_COLL_MUTATION_COUNT
};
const char *harness_coll_mutation_name(enum harness_coll_mutation mutation);
bool harness_coll_mutation_may_be_right(enum harness_coll_mutation mutation);

struct harness_coll_mutant {
    enum harness_coll_mutation mutation;
    uint32_t rank, step;
    uint32_t which; /* of several: which dependency */
};

/* Calls visit for each mutant of the case: set is the mutated one, in order or stuck; text says
 * what is proved to be wrong with it, "" for nothing. Stops at the first error. Errors: those of
 * visit and emission; E_STATE: the case itself is wrong; E_NOMEM. */
DDP_MUST_USE ddp_status
harness_coll_mutants(struct harness_coll_source *source, const struct harness_coll_case *test,
                     ddp_status (*visit)(void *context, const struct harness_coll_mutant *mutant,
                                         const struct harness_schedule_set *set, const char *text),
                     void *context, struct ddp_err *err);

#ifdef __cplusplus
}
#endif
#endif
