/* Paths from a cause a, that ranks have another list of rebuilt buckets than planned, to what it
 * leads to. Internal to harness/judge. */
#ifndef HARNESS_JUDGE_BUCKETS_H
#define HARNESS_JUDGE_BUCKETS_H

#include "harness/judge/path.h"

#ifdef __cplusplus
extern "C" {
#endif

/* a: a batch that rank 0 did not take. b: another list: who has no batch in that pass has no order
 * of gradients, under join. */
bool harness_buckets_is_listed_so(const struct harness_paths *paths,
                                  const struct harness_finding *a, const struct harness_finding *b);
/* b: another operation than planned. */
bool harness_buckets_is_posted_so(const struct harness_paths *paths,
                                  const struct harness_finding *a, const struct harness_finding *b);
/* b: a value of a bucket. */
bool harness_buckets_is_laid_so(const struct harness_paths *paths, const struct harness_finding *a,
                                const struct harness_finding *b);
/* a: a pass that the rank left out, after which buckets are rebuilt. b: a value of a bucket that it
 * still has from the beginning. */
bool harness_buckets_is_unlisted(const struct harness_paths *paths, const struct harness_finding *a,
                                 const struct harness_finding *b);
/* b: ranks that gave up. */
bool harness_buckets_is_refused(const struct harness_paths *paths, const struct harness_finding *a,
                                const struct harness_finding *b);

#ifdef __cplusplus
}
#endif
#endif
