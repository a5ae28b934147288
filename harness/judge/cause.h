/* What explains what: a crash explains its victims' time-outs, a lost gradient the parameters that
 * differ from then on. Internal to harness/judge. */
#ifndef HARNESS_JUDGE_CAUSE_H
#define HARNESS_JUDGE_CAUSE_H

#include "harness/verdict/verdict.h"

#ifdef __cplusplus
extern "C" {
#endif

/* b is a consequence of a. Never true of a pair in both directions, nor around a circle. */
bool harness_finding_explains(const struct harness_finding *a, const struct harness_finding *b);

#ifdef __cplusplus
}
#endif
#endif
