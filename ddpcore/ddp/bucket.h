/* Buckets: which parameters travel together. Pure layout, plus each bucket's storage and state. */
#ifndef DDPCORE_DDP_BUCKET_H
#define DDPCORE_DDP_BUCKET_H

#include "ddpcore/ddp/ddp.h"

#ifdef __cplusplus
extern "C" {
#endif

/* All parameters of a bucket have its type. */
struct ddp_bucket {
    enum ddp_dtype dtype;
    size_t elem_count;
    size_t size_bytes;
    size_t first_place; /* its parameters are order[first_place .. first_place + param_count) */
    size_t param_count;
    void *data;           /* elem_count elements, from the collective's memory */
    size_t pending_count; /* parameters not yet ready in this backward pass */
    struct ddp_coll_work work;
    bool is_open; /* the communication hook has not finished with it in this pass */
};

struct ddp_layout {
    struct ddp_bucket *buckets;
    size_t bucket_count;
    size_t *order;     /* [param_count] parameter index by place: bucket by bucket */
    size_t *bucket_of; /* [param_count] */
    size_t *offset_of; /* [param_count] first element in its bucket */
};

/* Caps of 0 replaced by what they stand for. */
void ddp_config_fill(struct ddp_config *config);
/* config: filled. Errors: E_NOMEM, E_OVERFLOW. */
DDP_MUST_USE ddp_status ddp_layout_create(struct ddp_mem *mem, const struct ddp_param *params,
                                          size_t param_count, const struct ddp_config *config,
                                          struct ddp_layout *out);
/* PyTorch's assignment (compute_bucket_assignment_by_size). Walks the parameters in the order
 * `walk`, or forwards if it is NULL, and lists them bucket by bucket: out_order[param_count],
 * out_sizes[param_count] (parameters of each bucket), *out_count buckets. caps: of a type's first
 * bucket, and of its others. walk NULL: buckets are in the falling order of their first parameter,
 * else in the order in which they close, then those still open by their last parameter. Errors:
 * E_NOMEM. */
DDP_MUST_USE ddp_status ddp_bucket_assign(struct ddp_mem *mem, const struct ddp_param *params,
                                          size_t param_count, const int32_t *walk,
                                          const size_t caps[2], int32_t *out_order,
                                          int32_t *out_sizes, size_t *out_count);
/* The same of a config, whose delayed parameters come last, in buckets of their own, and with its
 * caps; those do not count yet in a first layout (walk NULL) that will be rebuilt. */
DDP_MUST_USE ddp_status ddp_bucket_assign_config(struct ddp_mem *mem,
                                                 const struct ddp_param *params, size_t param_count,
                                                 const struct ddp_config *config,
                                                 const int32_t *walk, int32_t *out_order,
                                                 int32_t *out_sizes, size_t *out_count);
/* The layout that such a list describes. Errors: E_INVALID (it does not hold each parameter once,
 * or a bucket is empty or of several types), E_NOMEM. */
DDP_MUST_USE ddp_status ddp_layout_adopt(struct ddp_mem *mem, const struct ddp_param *params,
                                         size_t param_count, const int32_t *order,
                                         const int32_t *sizes, size_t bucket_count,
                                         struct ddp_layout *out);
/* Does not free the buckets' data. */
void ddp_layout_destroy(struct ddp_mem *mem, struct ddp_layout *layout);

#ifdef __cplusplus
}
#endif
#endif
