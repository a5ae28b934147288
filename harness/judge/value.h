/* Paths from a cause a to a value b that differs, for the table of causes. Values are judged from
 * what was recorded before them, so hardly anything explains more than one stage. Internal to
 * harness/judge. */
#ifndef HARNESS_JUDGE_VALUE_H
#define HARNESS_JUDGE_VALUE_H

#include "harness/judge/path.h"

#ifdef __cplusplus
extern "C" {
#endif

/* a: an operation that was not the planned one. */
bool harness_value_is_mixed(const struct harness_paths *paths, const struct harness_finding *a,
                            const struct harness_finding *b);
bool harness_value_is_of_own_batch(const struct harness_paths *paths,
                                   const struct harness_finding *a,
                                   const struct harness_finding *b);
/* a: a broadcast that went otherwise; b: a failure. */
bool harness_value_is_measured_so(const struct harness_paths *paths,
                                  const struct harness_finding *a, const struct harness_finding *b);
/* a: an operation that was left out; b: of what the rank's hook keeps. */
bool harness_value_is_hook_behind(const struct harness_paths *paths,
                                  const struct harness_finding *a, const struct harness_finding *b);
/* a: a wrong schedule or tree. */
bool harness_value_is_summed_so(const struct harness_paths *paths, const struct harness_finding *a,
                                const struct harness_finding *b);
/* a: device work without an order. */
bool harness_value_is_raced_for(const struct harness_paths *paths, const struct harness_finding *a,
                                const struct harness_finding *b);
/* a: a use of the core that kept a pass from ending. */
bool harness_value_is_unreduced(const struct harness_paths *paths, const struct harness_finding *a,
                                const struct harness_finding *b);
/* a: an operation. */
bool harness_value_is_left_unreduced(const struct harness_paths *paths,
                                     const struct harness_finding *a,
                                     const struct harness_finding *b);
/* a: what a rank has of an operation in which it took no part. */
bool harness_value_is_displaced(const struct harness_paths *paths, const struct harness_finding *a,
                                const struct harness_finding *b);
bool harness_value_is_overtaken(const struct harness_paths *paths, const struct harness_finding *a,
                                const struct harness_finding *b);
/* a: an operation that the program has not. */
bool harness_value_is_extra_work(const struct harness_paths *paths, const struct harness_finding *a,
                                 const struct harness_finding *b);
bool harness_value_is_extra_use(const struct harness_paths *paths, const struct harness_finding *a,
                                const struct harness_finding *b);
/* a: another value that differs. */
bool harness_value_is_held_by_some(const struct harness_paths *paths,
                                   const struct harness_finding *a,
                                   const struct harness_finding *b);
bool harness_value_is_left(const struct harness_paths *paths, const struct harness_finding *a,
                           const struct harness_finding *b);
bool harness_value_is_received(const struct harness_paths *paths, const struct harness_finding *a,
                               const struct harness_finding *b);
bool harness_value_is_copied_so(const struct harness_paths *paths, const struct harness_finding *a,
                                const struct harness_finding *b);
bool harness_value_is_configured_so(const struct harness_paths *paths,
                                    const struct harness_finding *a,
                                    const struct harness_finding *b);
bool harness_value_is_forbidden_so(const struct harness_paths *paths,
                                   const struct harness_finding *a,
                                   const struct harness_finding *b);
/* a: that a rank was told of a world of another size: b is what it computed in a group of its own.
 */
bool harness_value_is_apart(const struct harness_paths *paths, const struct harness_finding *a,
                            const struct harness_finding *b);
bool harness_value_is_misread(const struct harness_paths *paths, const struct harness_finding *a,
                              const struct harness_finding *b);

#ifdef __cplusplus
}
#endif
#endif
