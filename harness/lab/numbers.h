/* What ranks put into trials, and what must come out, element by element. Internal. */
#ifndef HARNESS_LAB_NUMBERS_H
#define HARNESS_LAB_NUMBERS_H

#include "harness/lab/shared.h"

/* Small whole numbers, others for each rank and place, such that every sum is exact in every type;
 * of products ones and twos. seed: others for other calls. */
void harness_lab_put_whole(struct harness_lab_shared *shared, uint32_t slice, uint32_t seed);
/* Numbers whose sums depend on the order: floats alone. */
void harness_lab_put_any(struct harness_lab_shared *shared);
/* Subnormal numbers, zeros, infinities, NaNs: fp32. */
void harness_lab_put_special(struct harness_lab_shared *shared);

struct harness_lab_wrong {
    uint32_t rank;
    size_t elem;
    char text[300];
};
/* Whether what ranks have left in a slice is what must come out; false: *out says where and what is
 * wrong, the lowest element first. */
bool harness_lab_judge_whole(struct harness_lab_shared *shared, uint32_t slice, uint32_t seed,
                             struct harness_lab_wrong *out);
bool harness_lab_judge_special(struct harness_lab_shared *shared, struct harness_lab_wrong *out);
/* Whether sums are as near to the exact ones as some order of additions is, and copies are copies.
 */
bool harness_lab_judge_any(struct harness_lab_shared *shared, struct harness_lab_wrong *out);
/* Whether all ranks that should have the same have the same bits. */
bool harness_lab_judge_same(struct harness_lab_shared *shared, struct harness_lab_wrong *out);

#endif
