/* A difference in the making: the values that describe.c compares, and describe_stage.c fetches.
 * Not for oracles. */
#ifndef HARNESS_EMULATION_DESCRIBING_H
#define HARNESS_EMULATION_DESCRIBING_H

#include "harness/emulation/internal.h"

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

#ifdef __cplusplus
}
#endif
#endif
