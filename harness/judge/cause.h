/* What explains what: a crash explains that others wait for the dead rank, a wrong sum that the
 * replicas which hold it differ. Internal to harness/judge. */
#ifndef HARNESS_JUDGE_CAUSE_H
#define HARNESS_JUDGE_CAUSE_H

#include "harness/judge/path.h"
#include "harness/verdict/verdict.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Why b is a consequence of a, as words that follow a's verdict; NULL: it is none. Never set for a
 * pair in both directions, nor around a circle. */
const char *harness_cause_of(const struct harness_paths *paths, const struct harness_finding *a,
                             const struct harness_finding *b);

#ifdef __cplusplus
}
#endif
#endif
