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
/* PyTorch's assignment. walk: the order in which parameters are taken; NULL: forwards, and then the
 * bucket with the highest first parameter comes first. Else buckets are in the order in which they
 * reach their caps; those that never do come last, by their last parameters. Errors: E_NOMEM. */
DDP_MUST_USE ddp_status harness_bucket_assign_pytorch(
    struct ddp_mem *mem, const struct ddp_param *params, size_t param_count, const uint32_t *walk,
    size_t first_cap_bytes, size_t cap_bytes, struct harness_bucket **out, size_t *out_count);
/* The job's buckets before and after they are rebuilt; *rebuilt stays empty if they never are. */
DDP_MUST_USE ddp_status harness_bucket_assign_job(struct ddp_mem *mem,
                                                  const struct harness_job *job,
                                                  const struct harness_tables *model,
                                                  struct harness_buckets *first,
                                                  struct harness_buckets *rebuilt);
/* The same of a model without delayed parameters. */
DDP_MUST_USE ddp_status harness_bucket_assign_prompt(struct ddp_mem *mem,
                                                     const struct harness_job *job,
                                                     const struct harness_tables *model,
                                                     struct harness_buckets *first,
                                                     struct harness_buckets *rebuilt);
/* Other buckets in the place of *target, as a copy. Errors: E_NOMEM, then *target is as before. */
DDP_MUST_USE ddp_status harness_bucket_replace(struct ddp_mem *mem,
                                               const struct harness_buckets *source,
                                               struct harness_buckets *target);
/* Whether the job's buckets are rebuilt after the first pass that reduces. */
bool harness_bucket_is_rebuilt(const struct harness_job *job);
void harness_bucket_free(struct ddp_mem *mem, struct harness_bucket *buckets, size_t count);

#ifdef __cplusplus
}
#endif
#endif
