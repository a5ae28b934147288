/* BatchNorms whose statistics are over all ranks' batches (job.sync_batchnorm), in the emulation.
 * Not for oracles. */
#ifndef HARNESS_EMULATION_BATCH_NORM_H
#define HARNESS_EMULATION_BATCH_NORM_H

#include "harness/emulation/internal.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a rank's model exchanges with the others in a step. */
struct harness_batch_norm {
    struct harness_emulation *e;
    struct harness_task *task;
    uint32_t rank, step, micro; /* micro: of the pass that runs */
    bool is_excused;            /* it is not known what the rank trained on: nothing is noted */
    struct ref_exchange exchange;
};

/* Fill it in; its exchange is then the model's. */
void harness_batch_norm_begin(struct harness_batch_norm *norm, struct harness_emulation *emulation,
                              struct harness_task *task, uint32_t rank, uint32_t step);
/* Whether every rank has a batch in every pass of a step; only then can statistics be exchanged. */
bool harness_batch_norm_is_met(const struct harness_emulation *emulation, uint32_t step);

#ifdef __cplusplus
}
#endif
#endif
