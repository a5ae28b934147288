/* Paths from a cause a, that a rank took other samples than the sampler gives it, or left some out,
 * to what it leads to. Values, and what is posted, are judged for the batches that were taken, so
 * hardly anything follows. Internal to harness/judge. */
#ifndef HARNESS_JUDGE_SAMPLES_H
#define HARNESS_JUDGE_SAMPLES_H

#include "harness/judge/path.h"

#ifdef __cplusplus
extern "C" {
#endif

/* b: an operation that was not the planned one. */
bool harness_samples_is_step_ahead(const struct harness_paths *paths,
                                   const struct harness_finding *a,
                                   const struct harness_finding *b);
/* b: an operation that the rank left out. */
bool harness_samples_is_used_up(const struct harness_paths *paths, const struct harness_finding *a,
                                const struct harness_finding *b);
/* b: data that ended early. */
bool harness_samples_is_ended_so(const struct harness_paths *paths, const struct harness_finding *a,
                                 const struct harness_finding *b);
/* b: a value that differs. */
bool harness_samples_is_trained_so(const struct harness_paths *paths,
                                   const struct harness_finding *a,
                                   const struct harness_finding *b);

#ifdef __cplusplus
}
#endif
#endif
