/* What follows from a finding about samples: a rank took other samples than the sampler gives it,
 * or left some out; or, under join, ranks took a wrong count of those that still have any. Values
 * and posted operations are judged for the samples that were taken, so little follows. Internal to
 * harness/judge. */
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
/* Messages of other operations were taken for those of a's that count. If the messages still meet,
 * nobody waits for that, and only what this operation itself counts is wrong. */
bool harness_samples_is_count_wrong(const struct harness_finding *a);
/* b: a rank that ended, since counts cannot be those that it took from a's operation under join. */
bool harness_samples_is_ended_by_count(const struct harness_paths *paths,
                                       const struct harness_finding *a,
                                       const struct harness_finding *b);
/* b: an operation that ranks did not post, as such counts say. */
bool harness_samples_is_miscounted(const struct harness_paths *paths,
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
