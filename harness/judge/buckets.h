/* Paths from a cause a, that ranks have another list of rebuilt buckets than planned, to what it
 * leads to. Internal to harness/judge. */
#ifndef HARNESS_JUDGE_BUCKETS_H
#define HARNESS_JUDGE_BUCKETS_H

#include "harness/judge/path.h"

#ifdef __cplusplus
extern "C" {
#endif

/* b: another operation than planned. */
bool harness_buckets_is_posted_so(const struct harness_paths *paths,
                                  const struct harness_finding *a, const struct harness_finding *b);
/* b: a value of a bucket. */
bool harness_buckets_is_laid_so(const struct harness_paths *paths, const struct harness_finding *a,
                                const struct harness_finding *b);
/* b: ranks that gave up. */
bool harness_buckets_is_refused(const struct harness_paths *paths, const struct harness_finding *a,
                                const struct harness_finding *b);

#ifdef __cplusplus
}
#endif
#endif
