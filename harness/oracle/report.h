/* Findings from differences: what every oracle fills in alike. */
#ifndef HARNESS_ORACLE_REPORT_H
#define HARNESS_ORACLE_REPORT_H

#include "harness/oracle/oracle.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One check each: adds findings; errors are the harness's own. oracle.def says what they prove. */
#define ORACLE(name)                                                           \
    ddp_status harness_check_##name(const struct harness_emulation *emulation, \
                                    struct harness_findings *out, struct ddp_err *err);
#define SOURCE(name)
#define X(kind, id, name, stage, proves) kind(name)
#include "harness/verdict/oracle.def"
#undef X
#undef SOURCE
#undef ORACLE

/* A run that started from another run's checkpoint. */
bool harness_report_is_restore(const struct harness_emulation *emulation);
/* A micro-batches' data of a rank may end before the job does: batches it has in all, or
 * UINT64_MAX. Worked out from the job, not with the reference's sampler. */
uint64_t harness_report_batch_count(const struct harness_emulation *emulation, uint32_t rank);
/* Step, ranks, operation and parameters of a difference, into a finding. */
void harness_report_difference(const struct harness_emulation *emulation,
                               const struct harness_difference *difference,
                               struct harness_finding *finding);
void harness_report_bucket(const struct harness_emulation *emulation, uint32_t bucket,
                           struct harness_finding *finding);
void harness_report_add_param(struct harness_finding *finding, uint32_t param);
const char *harness_report_param(const struct harness_emulation *emulation, int32_t param);
/* "ranks 1, 2" or "rank 1". */
const char *harness_report_ranks(const struct harness_rank_set *ranks, char *text,
                                 size_t size_bytes);

#ifdef __cplusplus
}
#endif
#endif
