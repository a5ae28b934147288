/* Where ranks first differ from the emulation, stage by stage. */
#ifndef HARNESS_EMULATION_COMPARE_H
#define HARNESS_EMULATION_COMPARE_H

#include "harness/emulation/emulation.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where ranks first differ from the emulation in one stage. */
struct harness_difference {
    bool is_set;
    uint32_t step;
    int32_t bucket, param, slot;   /* of the first one; -1 = none */
    uint64_t seq, elem_count;      /* of the operation, if there is one */
    struct harness_rank_set ranks; /* all that differ in that step; they live with the emulation */
    uint32_t rank;                 /* the first */
    struct ddp_event_op op;
    uint64_t expected, got; /* hashes, or bits of the loss */
    bool is_missing;        /* nothing was recorded where something should be */
    bool is_loss;
};

/* First difference of a stage. DATA is the ledger's own. */
void harness_compare_stage(const struct harness_emulation *emulation, enum harness_stage stage,
                           struct harness_difference *out);
/* The difference that a stage may report: unset if it follows from a difference in an earlier stage
 * or step. Ranks that differ in an earlier stage of the same step are taken out. */
void harness_compare_first(const struct harness_emulation *emulation, enum harness_stage stage,
                           struct harness_difference *out);
/* Whether everything up to the end of a step was as emulated. */
bool harness_compare_is_clean_until(const struct harness_emulation *emulation, uint32_t step);

#ifdef __cplusplus
}
#endif
#endif
