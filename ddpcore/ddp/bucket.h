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
/* Does not free the buckets' data. */
void ddp_layout_destroy(struct ddp_mem *mem, struct ddp_layout *layout);

#ifdef __cplusplus
}
#endif
#endif
