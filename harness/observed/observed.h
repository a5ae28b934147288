/* What ranks of a guest report of their model and of their samples, judged: replicas are equal
 * after every update, updates are those of the optimizer's options, samples are used as an epoch
 * asks. */
#ifndef HARNESS_OBSERVED_OBSERVED_H
#define HARNESS_OBSERVED_OBSERVED_H

#include "harness/record/account.h"

#ifdef __cplusplus
extern "C" {
#endif

struct harness_observed;

/* From now on the watch passes on what it reads. The watch lives as long as this. Errors: E_NOMEM.
 */
DDP_MUST_USE ddp_status harness_observed_create(struct harness_watch *watch,
                                                struct harness_observed **out);
void harness_observed_destroy(struct harness_observed *observed);
/* Add what is wrong; each error once, and nothing that follows from what was found before. earlier:
 * all findings so far; out may hold those of this look. out->mem: a pool. */
void harness_observed_judge(struct harness_observed *observed,
                            const struct harness_findings *earlier, struct harness_findings *out);
/* The job has ended and was read to its end: the next time nothing is held back. */
void harness_observed_end(struct harness_observed *observed);
/* Something is known to be wrong with the rank that is not said yet, since others may come to the
 * same: that it ends by an error follows from it. */
bool harness_observed_is_pending(const struct harness_observed *observed, uint32_t rank);
/* What was judged, and what was not. The job has ended. */
void harness_observed_account(const struct harness_observed *observed,
                              struct harness_watch_accounts *out);
/* Memory ran out: what follows is not all of it. */
bool harness_observed_is_failed(const struct harness_observed *observed);

#ifdef __cplusplus
}
#endif
#endif
