/* How each element of a collective was added, read off its schedules: symbolic values instead of
 * numbers. A sum is the same node as another one if both add the same operands in the same tree and
 * type; which operand comes first does not count, since the additions commute bit for bit. */
#ifndef HARNESS_SUMS_SCHEDULE_SUMS_H
#define HARNESS_SUMS_SCHEDULE_SUMS_H

#include "ddpcore/base/text.h"
#include "harness/sums/schedule_set.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HARNESS_SUM_NONE UINT32_MAX

/* The numbers of nodes below `size` are the ranks' own data, number r that of rank r. */
struct harness_sum_node {
    uint32_t left, right; /* operands; of data: HARNESS_SUM_NONE; of a rounding: right is */
    enum ddp_dtype dtype; /* of the data, or to which the sum, or the rounding, is rounded */
    uint32_t depth;       /* most additions that a rank's data go through */
    uint64_t hash;        /* equal for equal trees, also of other sets (wrong: 2^-64) */
};

struct harness_schedule_sums {
    struct ddp_mem *mem;
    const struct harness_schedule_set *set; /* borrowed */
    uint32_t size;
    struct harness_sum_node *nodes;
    size_t node_count, node_capacity;
    uint32_t *slots; /* hash table of node numbers */
    size_t slot_count;
    uint32_t ***value; /* [rank][buffer][element]: a node, or NONE: nobody wrote it */
};

/* Runs an ordered set. out is to be released with _fini, also after an error. Errors: E_STATE (not
 * ordered), E_INVALID (a message of another length than is taken), E_NOMEM. */
DDP_MUST_USE ddp_status harness_schedule_sums_make(const struct harness_schedule_set *set,
                                                   struct ddp_mem *mem,
                                                   struct harness_schedule_sums *out);
void harness_schedule_sums_fini(struct harness_schedule_sums *sums,
                                const struct harness_schedule_set *set);
/* The node of an element of a rank's output. */
uint32_t harness_schedule_sums_at(const struct harness_schedule_sums *sums, uint32_t rank,
                                  size_t elem);
/* The nodes of all elements of a rank's output, in a row. */
const uint32_t *harness_schedule_sums_row(const struct harness_schedule_sums *sums, uint32_t rank);
/* A node as text, "((0 1) 2)", the operand with the lowest rank first, "bf16((0 1))" what is
 * rounded to another type than it was added in; a long one is cut off. Errors: E_NOMEM. */
DDP_MUST_USE ddp_status harness_schedule_sums_print(const struct harness_schedule_sums *sums,
                                                    uint32_t node, struct ddp_text *out);

/* schedule_value.c: the output of a rank of a kind that adds, bit for bit, from all ranks' inputs
 * in host memory. Errors: E_UNSUPPORTED (elements that are no floats of 16 or 32 bits), E_NOMEM. */
DDP_MUST_USE ddp_status harness_schedule_sums_predict(const struct harness_schedule_sums *sums,
                                                      uint32_t rank, void *const *input,
                                                      void *output);
/* Add values in the tree of one element of a rank's output: input holds value_count values of each
 * rank, output as many sums. Errors: E_NOT_FOUND (nobody wrote the element), as above. */
DDP_MUST_USE ddp_status harness_schedule_sums_apply(const struct harness_schedule_sums *sums,
                                                    uint32_t rank, size_t elem, void *const *input,
                                                    size_t value_count, void *output);
/* The most that an element of any rank's output may be wrong by, as a part of the sum of its
 * contributions' magnitudes: (1 + u)^n - 1 for n roundings in a row to a type with the unit
 * roundoff u, if none overflows and none is rounded to less than the smallest normal number. */
DDP_MUST_USE ddp_status harness_schedule_sums_bound(const struct harness_schedule_sums *sums,
                                                    double *out);

#ifdef __cplusplus
}
#endif
#endif
