/* The data of a call of which all members have kept theirs in files. Internal to harness/results.
 */
#ifndef HARNESS_RESULTS_KEPT_H
#define HARNESS_RESULTS_KEPT_H

#include "harness/results/orders.h"
#include "harness/results/sums.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { HARNESS_KEPT_WRONG_MAX = 64 };

/* The files of a call, and what they hold. */
struct harness_kept {
    const struct harness_sums_case *the;
    struct ddp_mem *mem;
    uint64_t count;
    uint32_t elem_bytes;
    unsigned char **raw_in; /* [size], with the files' heads */
    unsigned char *raw_out;
    double *in, *out; /* [size * count], [count] */
    struct harness_orders *orders;
    struct harness_orders_fit fit;
    bool has_changed; /* some member's input is not what it was when the call was posted */
    bool is_by_order; /* the order gives all elements but the wrong ones */
    uint64_t wrong_count;
    uint64_t wrong[HARNESS_KEPT_WRONG_MAX];
};

/* Read a call's files. False: something is missing, or is not what was reported. In any case to be
 * closed. */
bool harness_kept_open(const struct harness_sums_case *the, struct harness_kept *out);
void harness_kept_close(struct harness_kept *kept);
/* The bits of an element of one of the files, and the number that they stand for. */
uint64_t harness_kept_bits(const struct harness_kept *kept, const unsigned char *raw,
                           uint64_t elem);
double harness_kept_decode(uint32_t dtype, uint64_t bits);

#ifdef __cplusplus
}
#endif
#endif
