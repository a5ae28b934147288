/* Ways to add up, right and wrong, for the table of probe_world. */
#ifndef TESTS_UNIT_RANK_PROBE_SUMS_H
#define TESTS_UNIT_RANK_PROBE_SUMS_H

#include "tests/unit/rank/probe_world.h"

/* From left to right, rounded to the type at every hop. */
void probe_sum_chain(struct probe_world *world, uint64_t call, const struct ddp_coll_args *args,
                     void *const *input, void *const *output);
/* The same, kept in fp32 (16-bit types) or fp64 (fp32) until the end. */
void probe_sum_wide_chain(struct probe_world *world, uint64_t call,
                          const struct ddp_coll_args *args, void *const *input,
                          void *const *output);
/* The same, kept in 20 bits, which is no type: wider than 16-bit ones and less than fp32. */
void probe_sum_compensated(struct probe_world *world, uint64_t call,
                           const struct ddp_coll_args *args, void *const *input,
                           void *const *output);
void probe_sum_odd_chain(struct probe_world *world, uint64_t call, const struct ddp_coll_args *args,
                         void *const *input, void *const *output);
/* The exact sum of all, rounded once; of all but the last, rounded, then the last. */
void probe_sum_exact(struct probe_world *world, uint64_t call, const struct ddp_coll_args *args,
                     void *const *input, void *const *output);
void probe_sum_exact_groups(struct probe_world *world, uint64_t call,
                            const struct ddp_coll_args *args, void *const *input,
                            void *const *output);
/* Of 4 members: the last two, then that and the others at once, each rounded once. */
void probe_sum_exact_pair(struct probe_world *world, uint64_t call,
                          const struct ddp_coll_args *args, void *const *input,
                          void *const *output);
/* Aligned to the largest operand, cut off below, added, rounded. */
void probe_sum_aligned(struct probe_world *world, uint64_t call, const struct ddp_coll_args *args,
                       void *const *input, void *const *output);

/* A chain in an order of its own for every call. */
void probe_sum_random(struct probe_world *world, uint64_t call, const struct ddp_coll_args *args,
                      void *const *input, void *const *output);
/* Of 4 members: a chain from the left in the calls of one round, from the right in later ones. */
void probe_sum_changing(struct probe_world *world, uint64_t call, const struct ddp_coll_args *args,
                        void *const *input, void *const *output);
/* Chains: without member 2; with member 1 twice; with a NaN in element 3; halved; in another order
 * on the last member. */
void probe_sum_losing(struct probe_world *world, uint64_t call, const struct ddp_coll_args *args,
                      void *const *input, void *const *output);
void probe_sum_doubling(struct probe_world *world, uint64_t call, const struct ddp_coll_args *args,
                        void *const *input, void *const *output);
void probe_sum_nan(struct probe_world *world, uint64_t call, const struct ddp_coll_args *args,
                   void *const *input, void *const *output);
void probe_sum_scaled(struct probe_world *world, uint64_t call, const struct ddp_coll_args *args,
                      void *const *input, void *const *output);
/* A chain but for the last three elements, which are member 1's alone. */
void probe_sum_tail(struct probe_world *world, uint64_t call, const struct ddp_coll_args *args,
                    void *const *input, void *const *output);
void probe_sum_dissenting(struct probe_world *world, uint64_t call,
                          const struct ddp_coll_args *args, void *const *input,
                          void *const *output);

/* A chain over inputs as they come, to every output. */
void probe_sum_ordered(const struct ddp_coll_args *args, void *const *input, void *const *output,
                       uint32_t count);

/* Random values of a member, of magnitudes that differ enough for order and rounding to show. */
void probe_fill_random(const struct harness_probe_request *request, uint32_t member, void *data);

#endif
