/* What calls of a guest came to: results against what was put in. */
#ifndef HARNESS_RESULTS_RESULTS_H
#define HARNESS_RESULTS_RESULTS_H

#include "harness/watch/watch.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Judge the results of calls that all members have posted alike, as harness_watch_analyse found,
 * and seen done, from what ranks report of their data; nothing, if the arena does not ask for it.
 * out->mem: a pool. */
void harness_results_judge(struct harness_watch *watch, struct harness_findings *out);
/* Count what is left when the job has ended. Once. */
void harness_results_finish(struct harness_watch *watch);

#ifdef __cplusplus
}
#endif
#endif
