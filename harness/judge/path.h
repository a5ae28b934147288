/* Paths: how one thing that was found can have led to another, as the trace and the program show.
 * Each predicate is one step of an argument; cause.c puts them together. Without a record there is
 * no path. Internal to harness/judge. */
#ifndef HARNESS_JUDGE_PATH_H
#define HARNESS_JUDGE_PATH_H

#include "harness/plan/program.h"
#include "harness/trace/index.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What is looked up. Borrows the plan, the program and the trace; these two may be NULL: unknown.
 */
struct harness_paths {
    const struct harness_plan *plan;
    const struct harness_program *program; /* for the batches that ranks took */
    const struct harness_trace *trace;
    struct harness_index index; /* of the trace, if there is one */
};
/* Errors: E_NOMEM; then there is nothing to release. */
DDP_MUST_USE ddp_status harness_paths_open(struct ddp_mem *mem, const struct harness_plan *plan,
                                           const struct harness_program *program,
                                           const struct harness_trace *trace,
                                           struct harness_paths *out);
void harness_paths_close(struct harness_paths *paths);

/* --- ranks ------------------------------------------------------------------------------------ */

/* All whom b blames are blamed by a, too, and there are such. */
bool harness_path_is_of(const struct harness_finding *b, const struct harness_finding *a);
/* Each of them is blamed by a or one of its victims. */
bool harness_path_is_beset(const struct harness_finding *b, const struct harness_finding *a);
/* Some rank is blamed by both. */
bool harness_path_is_common(const struct harness_finding *a, const struct harness_finding *b);
/* a is not after b. A step that is not known comes before all. */
bool harness_path_is_in_time(const struct harness_finding *a, const struct harness_finding *b);

/* --- operations ------------------------------------------------------------------------------- */

/* Every rank that b names as waiting (its culprits, or its victims if it has no culprits) posted
 * operation seq, or a later one, and did not complete it. If b has no operation: they never posted
 * any. */
bool harness_path_is_open(const struct harness_paths *paths, const struct harness_finding *b,
                          uint64_t seq);
/* Ranks did not come to an operation: one that a blames, and such as wait for all that a blames in
 * an earlier one. */
bool harness_path_is_held_back(const struct harness_paths *paths, const struct harness_finding *a,
                               const struct harness_finding *b);
/* path_group.c: the circle goes through a rank that passed over what was due in another group; or
 * all wait. */
bool harness_path_is_crossed(const struct harness_paths *paths, const struct harness_finding *a,
                             const struct harness_finding *b);
/* The circle goes through a rank that did not wait for an operation, and waits in another group,
 * where it moves nothing of that operation on; another rank is inside it. */
bool harness_path_is_deserted(const struct harness_paths *paths, const struct harness_finding *a,
                              const struct harness_finding *b);
/* Ranks did not come to the first operation: one that a blames, and such as wait for it, or for
 * each other, where their groups are formed. */
bool harness_path_is_unformed(const struct harness_paths *paths, const struct harness_finding *a,
                              const struct harness_finding *b);
/* The store's process ended, and b is about ranks that had not met: they find nobody there. */
bool harness_path_is_storeless(const struct harness_paths *paths, const struct harness_finding *a,
                               const struct harness_finding *b);
/* Of the ranks that b says wait for each other (its victims if it has no culprits) at least one
 * measures reduction trees, and the others measure, too, or are in operation seq or a later one. */
bool harness_path_is_apart(const struct harness_paths *paths, const struct harness_finding *b,
                           uint64_t seq);
/* A rank that a blames did not complete b's operation. */
bool harness_path_is_owed(const struct harness_paths *paths, const struct harness_finding *a,
                          const struct harness_finding *b);
/* The ranks that a blames completed its operation without a message of the others: what came out of
 * a sum is what they had put in, or they completed something else before it was posted. And nobody
 * checks messages, so that the next ones are taken for these. */
bool harness_path_is_displacing(const struct harness_paths *paths, const struct harness_finding *a);
/* Values of an operation of this role decide what its members post next: join's counts. */
bool harness_path_is_steering(enum ddp_coll_role role);
/* Every rank that b blames completed such an operation, from number `from` on and before b's. */
bool harness_path_is_steered(const struct harness_paths *paths, uint64_t from,
                             const struct harness_finding *b);
/* The planned first operation of a step, and its used map; 0: there is none. */
uint64_t harness_path_first_seq(const struct harness_paths *paths, int32_t step);
uint64_t harness_path_map_seq(const struct harness_paths *paths, int32_t step);
/* A rank that left out a broadcast of parameters or buffers, or made it another one, trains on what
 * it had: b is about its values. */
bool harness_path_is_not_received(const struct harness_paths *paths,
                                  const struct harness_finding *a, const struct harness_finding *b);
/* The operation from which b's value comes: its own, else that of its parameter's bucket, or of the
 * buffers, in its step. 0: not known. */
uint64_t harness_path_seq(const struct harness_paths *paths, const struct harness_finding *b);

/* --- tensors ---------------------------------------------------------------------------------- */

/* The bucket that b is about, or that holds its first parameter; -1: none. */
int64_t harness_path_bucket(const struct harness_paths *paths, const struct harness_finding *b);
/* They name the same bucket or a common parameter. */
bool harness_path_is_same_tensor(const struct harness_paths *paths, const struct harness_finding *a,
                                 const struct harness_finding *b);
/* b's value was reduced or broadcast by an operation of a's kind and length. */
bool harness_path_is_same_shape(const struct harness_paths *paths, const struct harness_finding *a,
                                const struct harness_finding *b);
/* A rank that both blame did not finish the backward pass of b's step: its gradients were used as
 * they were. */
bool harness_path_is_unfinished(const struct harness_paths *paths, const struct harness_finding *a,
                                const struct harness_finding *b);
/* Every rank that b blames had a loss in b's step, and no gradient that was reduced. */
bool harness_path_is_unreduced(const struct harness_paths *paths, const struct harness_finding *b);
/* The ranks that b blames, and a too, took no loss in a's step: they left it out. */
bool harness_path_is_step_left_out(const struct harness_paths *paths,
                                   const struct harness_finding *a,
                                   const struct harness_finding *b);

/* The ranks that a blames took no batch in a's step and went on to a later one: what they post
 * from then on belongs to an earlier step of the others. is_training: they took batches there. */
bool harness_path_is_ahead(const struct harness_paths *paths, const struct harness_finding *a,
                           bool is_training);

/* path_file.c */
/* a: operations, or samples, that a rank left out. b: the checkpoint of that step is not there, or
 * the rank's model is what it was before. */
bool harness_path_is_not_reached(const struct harness_paths *paths, const struct harness_finding *a,
                                 const struct harness_finding *b);
/* b: what it saved. */
bool harness_path_is_saved_so(const struct harness_paths *paths, const struct harness_finding *a,
                              const struct harness_finding *b);

#ifdef __cplusplus
}
#endif
#endif
