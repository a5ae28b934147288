/* Bucket layout in `reverse` order: parameters from last to first, because backward passes finish
 * them about in that order; a bucket closes once it holds at least its cap. */
#include "ddpcore/ddp/bucket.h"

#include <string.h>

#define DDP_BUCKET_CAP_BYTES_DEFAULT       ((size_t)25 << 20)
#define DDP_FIRST_BUCKET_CAP_BYTES_DEFAULT ((size_t)1 << 20)

void ddp_config_fill(struct ddp_config *config)
{
    if (config->first_bucket_cap_bytes == 0) {
        config->first_bucket_cap_bytes = config->bucket_cap_bytes != 0
                                             ? config->bucket_cap_bytes
                                             : DDP_FIRST_BUCKET_CAP_BYTES_DEFAULT;
    }
    if (config->bucket_cap_bytes == 0) {
        config->bucket_cap_bytes = DDP_BUCKET_CAP_BYTES_DEFAULT;
    }
}

static void assign(const struct ddp_param *params, size_t param_count,
                   const struct ddp_config *config, struct ddp_layout *layout)
{
    size_t cap_bytes = config->first_bucket_cap_bytes;
    bool is_open = false;

    for (size_t place = 0; place < param_count; place++) {
        const size_t param = param_count - 1 - place;
        struct ddp_bucket *bucket;

        if (!is_open) {
            layout->buckets[layout->bucket_count].first_place = place;
            layout->bucket_count++;
            is_open = true;
        }
        bucket = &layout->buckets[layout->bucket_count - 1];
        layout->order[place] = param;
        layout->bucket_of[param] = layout->bucket_count - 1;
        layout->offset_of[param] = bucket->elem_count;
        bucket->elem_count += params[param].elem_count;
        bucket->param_count++;
        if (bucket->elem_count * sizeof(float) >= cap_bytes) {
            cap_bytes = config->bucket_cap_bytes;
            is_open = false;
        }
    }
}

ddp_status ddp_layout_create(struct ddp_mem *mem, const struct ddp_param *params,
                             size_t param_count, const struct ddp_config *config,
                             struct ddp_layout *out)
{
    size_t elem_count = 0, size_bytes;

    memset(out, 0, sizeof(*out));
    for (size_t i = 0; i < param_count; i++) {
        if (__builtin_add_overflow(elem_count, params[i].elem_count, &elem_count) ||
            __builtin_mul_overflow(elem_count, sizeof(float), &size_bytes)) {
            return DDP_E_OVERFLOW;
        }
    }
    out->buckets = ddp_mem_array(mem, param_count, sizeof(*out->buckets));
    out->order = ddp_mem_array(mem, param_count, sizeof(*out->order));
    out->bucket_of = ddp_mem_array(mem, param_count, sizeof(*out->bucket_of));
    out->offset_of = ddp_mem_array(mem, param_count, sizeof(*out->offset_of));
    if (out->buckets == NULL || out->order == NULL || out->bucket_of == NULL ||
        out->offset_of == NULL) {
        ddp_layout_destroy(mem, out);
        return DDP_E_NOMEM;
    }
    assign(params, param_count, config, out);
    return DDP_OK;
}

void ddp_layout_destroy(struct ddp_mem *mem, struct ddp_layout *layout)
{
    ddp_mem_free(mem, layout->buckets);
    ddp_mem_free(mem, layout->order);
    ddp_mem_free(mem, layout->bucket_of);
    ddp_mem_free(mem, layout->offset_of);
    memset(layout, 0, sizeof(*layout));
}
