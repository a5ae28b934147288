/* Parameters whose all-reduce is delayed: they lie behind all others, in one bucket a type. The
 * others are assigned to buckets as if those were not there. Since buckets are launched in their
 * order, what is delayed is reduced last, whenever it was ready. */
#include <string.h>

#include "ddpcore/ddp/bucket.h"

/* The others. */
struct kept {
    struct ddp_mem *mem;
    struct ddp_param *params;
    int32_t *index; /* which parameter each of them is */
    int32_t *walk;
    size_t count;
};

static void kept_fini(struct kept *kept)
{
    ddp_mem_free(kept->mem, kept->params);
    ddp_mem_free(kept->mem, kept->index);
    ddp_mem_free(kept->mem, kept->walk);
}

/* walk: NULL, or an order of all parameters. */
static ddp_status kept_init(struct ddp_mem *mem, const struct ddp_param *params, size_t param_count,
                            const bool *is_delayed, const int32_t *walk, struct kept *out)
{
    int32_t *place = ddp_mem_array(mem, param_count, sizeof(*place));
    size_t walked = 0;

    *out = (struct kept){.mem = mem};
    out->params = ddp_mem_array(mem, param_count, sizeof(*out->params));
    out->index = ddp_mem_array(mem, param_count, sizeof(*out->index));
    out->walk = ddp_mem_array(mem, param_count, sizeof(*out->walk));
    if (place == NULL || out->params == NULL || out->index == NULL || out->walk == NULL) {
        ddp_mem_free(mem, place);
        kept_fini(out);
        return DDP_E_NOMEM;
    }
    for (size_t i = 0; i < param_count; i++) {
        if (!is_delayed[i]) {
            place[i] = (int32_t)out->count;
            out->index[out->count] = (int32_t)i;
            out->params[out->count++] = params[i];
        }
    }
    for (size_t i = 0; walk != NULL && i < param_count; i++) {
        if (!is_delayed[walk[i]]) {
            out->walk[walked++] = place[walk[i]];
        }
    }
    DDP_ASSERT(walk == NULL || walked == out->count);
    ddp_mem_free(mem, place);
    return DDP_OK;
}

/* Behind the list of kept->count parameters in *inout_count buckets. */
static void append(const struct ddp_param *params, size_t param_count, const bool *is_delayed,
                   size_t place, int32_t *order, int32_t *sizes, size_t *inout_count)
{
    for (size_t dtype = 0; dtype < DDP_DTYPE_COUNT; dtype++) {
        int32_t size = 0;

        for (size_t i = 0; i < param_count; i++) {
            if (is_delayed[i] && params[i].dtype == (enum ddp_dtype)dtype) {
                order[place++] = (int32_t)i;
                size++;
            }
        }
        if (size > 0) {
            sizes[(*inout_count)++] = size;
        }
    }
    DDP_ASSERT(place == param_count);
}

ddp_status ddp_bucket_assign_config(struct ddp_mem *mem, const struct ddp_param *params,
                                    size_t param_count, const struct ddp_config *config,
                                    const int32_t *walk, const size_t caps[2], int32_t *out_order,
                                    int32_t *out_sizes, size_t *out_count)
{
    struct kept kept;
    ddp_status status;

    if (config->is_delayed == NULL) {
        return ddp_bucket_assign(mem, params, param_count, walk, caps, out_order, out_sizes,
                                 out_count);
    }
    DDP_TRY(kept_init(mem, params, param_count, config->is_delayed, walk, &kept));
    status = ddp_bucket_assign(mem, kept.params, kept.count, walk != NULL ? kept.walk : NULL, caps,
                               out_order, out_sizes, out_count);
    for (size_t i = 0; status == DDP_OK && i < kept.count; i++) {
        out_order[i] = kept.index[out_order[i]];
    }
    if (status == DDP_OK) {
        append(params, param_count, config->is_delayed, kept.count, out_order, out_sizes,
               out_count);
    }
    kept_fini(&kept);
    return status;
}

/* The layout of the others as a list. */
static void list_layout(const struct kept *kept, const struct ddp_layout *layout, int32_t *order,
                        int32_t *sizes)
{
    for (size_t i = 0; i < kept->count; i++) {
        order[i] = kept->index[layout->order[i]];
    }
    for (size_t b = 0; b < layout->bucket_count; b++) {
        sizes[b] = (int32_t)layout->buckets[b].param_count;
    }
}

ddp_status ddp_layout_create_delayed(struct ddp_mem *mem, const struct ddp_param *params,
                                     size_t param_count, const struct ddp_config *config,
                                     struct ddp_layout *out)
{
    struct ddp_config plain = *config;
    struct ddp_layout layout = {.buckets = NULL};
    int32_t *lists = ddp_mem_array(mem, 2 * param_count, sizeof(*lists));
    size_t bucket_count = 0;
    struct kept kept;
    ddp_status status;

    if (lists == NULL) {
        return DDP_E_NOMEM;
    }
    plain.is_delayed = NULL;
    status = kept_init(mem, params, param_count, config->is_delayed, NULL, &kept);
    if (status != DDP_OK) {
        ddp_mem_free(mem, lists);
        return status;
    }
    status = ddp_layout_create(mem, kept.params, kept.count, &plain, &layout);
    if (status == DDP_OK) {
        bucket_count = layout.bucket_count;
        list_layout(&kept, &layout, lists, lists + param_count);
        append(params, param_count, config->is_delayed, kept.count, lists, lists + param_count,
               &bucket_count);
        status = ddp_layout_adopt(mem, params, param_count, lists, lists + param_count,
                                  bucket_count, out);
    }
    ddp_layout_destroy(mem, &layout);
    kept_fini(&kept);
    ddp_mem_free(mem, lists);
    return status;
}
