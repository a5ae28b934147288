/* A difference in the making: the values that describe.c compares, and describe_stage.c fetches.
 * Not for oracles. */
#ifndef HARNESS_EMULATION_DESCRIBING_H
#define HARNESS_EMULATION_DESCRIBING_H

#include "harness/emulation/internal.h"
#include "harness/sums/schedule_sums.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { HARNESS_DESCRIBING_TEXT_BYTES = 320 };

/* Values are held as fp32, which holds those of the 16-bit types exactly. */
struct harness_describing {
    struct harness_emulation *e;
    const struct harness_bucket *bucket; /* NULL: one parameter */
    size_t elem_count;
    float *expected, *got;
    float *before, *raw; /* NULL: unknown */
    bool is_before_likely;
    float scale;
    enum ddp_dtype dtype;
    struct harness_description *out;
};

/* A tensor's values in new memory. */
DDP_MUST_USE ddp_status harness_describing_decode(struct harness_emulation *emulation,
                                                  const struct harness_tensor *tensor, float **out);
void harness_describing_release(struct harness_describing *view);
/* Names the difference, into view->out. param: the one that is described, if it is not a bucket. */
void harness_describing_run(struct harness_describing *view, size_t param, const char *before_name);
/* describe_sum.c: what a rank's sum of a bucket holds, if its values tell no more. Errors:
 * E_NOMEM. */
DDP_MUST_USE ddp_status harness_describing_explain_sum(struct harness_describing *view,
                                                       uint32_t rank, size_t bucket);

/* --- sum.c: one element ----------------------------------------------------------------------- */

/* How harness_emulation_sum adds each element of one sum, as it is known of a tree or of schedules,
 * or of neither. */
struct harness_sum_order {
    const struct harness_tree_map *tree;    /* NULL: not measured */
    const struct harness_schedule_set *set; /* NULL: not needed, or none */
    struct harness_schedule_sums sums;
};

/* out is to be released with _close, also after an error. Errors: E_NOMEM. */
DDP_MUST_USE ddp_status harness_sum_order_open(const struct harness_emulation *emulation,
                                               enum ddp_dtype dtype, size_t elem_count,
                                               struct harness_sum_order *out);
void harness_sum_order_close(struct harness_sum_order *order);
/* Add values as that element of a rank's output is: input holds value_count values of each rank,
 * output as many sums. Errors: E_NOT_FOUND (it is not known how), E_UNSUPPORTED, E_NOMEM. */
DDP_MUST_USE ddp_status harness_sum_order_apply(const struct harness_sum_order *order,
                                                uint32_t rank, size_t elem, void *const *input,
                                                size_t value_count, void *output);

#ifdef __cplusplus
}
#endif
#endif
