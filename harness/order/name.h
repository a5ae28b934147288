/* What a rank's device memory holds, from device.name and bucket.param. Internal to the
 * happens-before checker. */
#ifndef HARNESS_ORDER_NAME_H
#define HARNESS_ORDER_NAME_H

#include "ddpcore/base/param.h"
#include "ddpcore/seam/access.h"
#include "harness/trace/trace.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HARNESS_NOT_NAMED SIZE_MAX

struct harness_named_range {
    uint64_t allocation, first, end;
    uint64_t index; /* of the bucket, parameter or buffer */
};
struct harness_bucket_param {
    uint64_t param, bucket;
    size_t place; /* of the record: the last one counts */
};

struct harness_bucket_index {
    uint64_t index;
    size_t range; /* number of the named range */
};

struct harness_order_names {
    struct ddp_mem *mem;
    const struct ddp_param *params;
    size_t param_count;
    /* by kind; sorted by allocation and first byte */
    struct harness_named_range *ranges[DDP_RANGE_COUNT];
    size_t range_count[DDP_RANGE_COUNT];
    struct harness_bucket_index *buckets; /* the bucket ranges, sorted by index */
    struct harness_bucket_param *map;     /* sorted by parameter, one each */
    size_t map_count;
};

DDP_MUST_USE ddp_status harness_order_names_init(struct harness_order_names *names,
                                                 struct ddp_mem *mem,
                                                 const struct harness_trace_event *const *events,
                                                 size_t event_count, const struct ddp_param *params,
                                                 size_t param_count);
void harness_order_names_fini(struct harness_order_names *names);
/* First range of a kind, from number *cursor on (0 to begin), that overlaps [first, end) of an
 * allocation; leaves *cursor behind it. HARNESS_NOT_NAMED: no more. Ranges of one kind do not
 * overlap each other. */
size_t harness_order_names_next(const struct harness_order_names *names, enum ddp_range_kind kind,
                                uint64_t allocation, uint64_t first, uint64_t end, size_t *cursor);
/* The same for ranges of a bucket by its index. Usually there is one. */
size_t harness_order_names_of_bucket(const struct harness_order_names *names, uint64_t bucket,
                                     size_t *cursor);
/* Bucket of a parameter; false if none was recorded. */
bool harness_order_names_bucket(const struct harness_order_names *names, uint64_t param,
                                uint64_t *out);
/* "bucket 1 (fc1.bias, fc1.weight)", "the gradient of fc1.weight", "parameter fc1.weight",
 * "buffer 0". */
void harness_order_names_describe(const struct harness_order_names *names, enum ddp_range_kind kind,
                                  uint64_t index, char *text, size_t size_bytes);

#ifdef __cplusplus
}
#endif
#endif
