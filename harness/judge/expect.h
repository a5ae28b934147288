/* Findings against what a scenario expects of them. */
#ifndef HARNESS_JUDGE_EXPECT_H
#define HARNESS_JUDGE_EXPECT_H

#include "ddpcore/base/text.h"
#include "harness/judge/judge.h"

struct harness_culprit;
struct harness_expect;
struct harness_expect_finding;

#ifdef __cplusplus
extern "C" {
#endif

/* The ranks that a scenario means; in mem. */
struct harness_rank_set harness_expect_culprits(const struct harness_plan *plan,
                                                const struct harness_culprit *culprit,
                                                struct ddp_mem *mem);
/* True: the finding is all that the scenario states. Else `out`, which is empty before, has where
 * it differs, a sentence each. Time is judged if facts->is_time_enforced. */
bool harness_expect_compare(const struct harness_plan *plan,
                            const struct harness_judge_facts *facts,
                            const struct harness_expect_finding *expected,
                            const struct harness_finding *finding, struct ddp_mem *mem,
                            struct ddp_text *out);
/* The entry as text: "VALUE.LOST of rank 1 in step 2, bucket 1". */
const char *harness_expect_text(const struct harness_plan *plan,
                                const struct harness_expect_finding *expected, struct ddp_mem *mem,
                                char *out, size_t size_bytes);

/* The scenario allows that verdict beside the one that it expects. */
bool harness_expect_is_also(const struct harness_expect *expect, enum harness_verdict verdict);
/* Whether a rank was ended by a signal of its own, and no fault fired on it: that follows from
 * none.
 */
bool harness_expect_is_crash_unplanned(const struct harness_plan *plan,
                                       const struct harness_findings *findings,
                                       const uint32_t *fired_count);

#ifdef __cplusplus
}
#endif
#endif
