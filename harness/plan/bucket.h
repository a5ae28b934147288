/* The plan's own bucket assigner: which parameter lies in which bucket, and where. It shares no
 * code with the core's, so that a wrong assignment there shows up as a difference. */
#ifndef HARNESS_PLAN_BUCKET_H
#define HARNESS_PLAN_BUCKET_H

#include "harness/plan/program.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HARNESS_BUCKET_CAP_BYTES       ((size_t)25 * 1024 * 1024)
#define HARNESS_FIRST_BUCKET_CAP_BYTES ((size_t)1024 * 1024)

/* The caps in force: a user's cap holds for the first bucket too, unless that has its own. */
void harness_bucket_caps(const struct harness_job *job, size_t *out_first_bytes, size_t *out_bytes);
/* Walk the parameters backwards. Each type has buckets of its own; a bucket closes once its bytes
 * are
 * >= its cap (the first one's of its type, then the common one), or with the type's last parameter.
 * Buckets are in the order in which they close. *out: harness_bucket[*out_count] and their arrays,
 * from mem. Errors: E_NOMEM. */
DDP_MUST_USE ddp_status harness_bucket_assign(struct ddp_mem *mem, const struct ddp_param *params,
                                              size_t param_count, size_t first_cap_bytes,
                                              size_t cap_bytes, struct harness_bucket **out,
                                              size_t *out_count);
void harness_bucket_free(struct ddp_mem *mem, struct harness_bucket *buckets, size_t count);

#ifdef __cplusplus
}
#endif
#endif
