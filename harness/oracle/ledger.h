/* The sampler's rules, as the judge wrote them down: which samples a rank trains on. */
#ifndef HARNESS_ORACLE_LEDGER_H
#define HARNESS_ORACLE_LEDGER_H

#include "harness/emulation/emulation.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The first recorded batch that breaks the rules. */
DDP_MUST_USE ddp_status harness_ledger_compare(const struct harness_emulation *emulation,
                                               struct harness_batch_difference *out);
/* Micro-batches that a rank's data gives in all; UINT64_MAX if it starts again each epoch. */
uint64_t harness_ledger_batch_count(const struct harness_emulation *emulation, uint32_t rank);

#ifdef __cplusplus
}
#endif
#endif
