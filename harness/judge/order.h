/* Findings in the order in which people should read them: each cause, then what follows from it.
 * Internal to harness/judge. */
#ifndef HARNESS_JUDGE_ORDER_H
#define HARNESS_JUDGE_ORDER_H

#include "harness/judge/path.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Sets what each finding follows from, and sorts: causes of their own by step, provable ones first,
 * each with its consequences behind it. Errors: E_NOMEM; then all are causes of their own. */
DDP_MUST_USE ddp_status harness_findings_order(const struct harness_paths *paths,
                                               struct harness_findings *findings);

#ifdef __cplusplus
}
#endif
#endif
