/* Bucket layout in `reverse` order: parameters from last to first, because backward passes finish
 * them in about that order.
 *
 * A bucket holds parameters of one type. Each type fills a bucket of its own, with caps of its own,
 * which closes once it holds at least its cap, or with the last parameter of the type. Buckets are
 * numbered in the order in which they close, because they are launched in order of their numbers:
 * no bucket waits for one that fills later. */
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

/* A bucket that is being filled, one for each type. */
struct open_bucket {
    size_t first, last; /* parameters, in walking order: last <= first */
    size_t param_count; /* 0: nothing is open */
    size_t size_bytes;
    size_t cap_bytes;
};

struct walk {
    const struct ddp_param *params;
    size_t param_count;
    struct ddp_layout *layout;
    struct open_bucket open[DDP_DTYPE_COUNT];
    size_t last_of[DDP_DTYPE_COUNT]; /* last parameter of each type, in walking order */
    size_t place;                    /* next free one in layout->order */
};

static void close_bucket(struct walk *walk, enum ddp_dtype dtype)
{
    struct open_bucket *open = &walk->open[dtype];
    struct ddp_layout *layout = walk->layout;
    struct ddp_bucket *bucket = &layout->buckets[layout->bucket_count];

    DDP_ASSERT(open->param_count > 0 && layout->bucket_count < walk->param_count);
    *bucket = (struct ddp_bucket){
        .dtype = dtype, .size_bytes = open->size_bytes, .first_place = walk->place};
    for (size_t param = open->first; bucket->param_count < open->param_count; param--) {
        DDP_ASSERT(param >= open->last);
        if (walk->params[param].dtype == dtype) {
            layout->order[walk->place++] = param;
            layout->bucket_of[param] = layout->bucket_count;
            layout->offset_of[param] = bucket->elem_count;
            bucket->elem_count += walk->params[param].elem_count;
            bucket->param_count++;
        }
    }
    DDP_ASSERT(bucket->size_bytes == bucket->elem_count * ddp_dtype_size_bytes(dtype));
    layout->bucket_count++;
    open->param_count = 0;
    open->size_bytes = 0;
}

static void assign(const struct ddp_param *params, size_t param_count,
                   const struct ddp_config *config, struct ddp_layout *layout)
{
    struct walk walk = {.params = params, .param_count = param_count, .layout = layout};

    for (size_t dtype = 0; dtype < DDP_DTYPE_COUNT; dtype++) {
        walk.open[dtype].cap_bytes = config->first_bucket_cap_bytes;
    }
    for (size_t param = param_count; param-- > 0;) {
        walk.last_of[params[param].dtype] = param;
    }
    for (size_t param = param_count; param-- > 0;) {
        struct open_bucket *open = &walk.open[params[param].dtype];

        open->first = open->param_count == 0 ? param : open->first;
        open->last = param;
        open->param_count++;
        open->size_bytes += ddp_param_size_bytes(&params[param]);
        if (open->size_bytes >= open->cap_bytes || param == walk.last_of[params[param].dtype]) {
            close_bucket(&walk, params[param].dtype);
            open->cap_bytes = config->bucket_cap_bytes;
        }
    }
    DDP_ASSERT(walk.place == param_count);
}

/* Whether all parameters together have a size in bytes. */
static bool is_size_known(const struct ddp_param *params, size_t param_count)
{
    size_t total_bytes = 0, size_bytes;

    for (size_t i = 0; i < param_count; i++) {
        if (__builtin_mul_overflow(params[i].elem_count, ddp_dtype_size_bytes(params[i].dtype),
                                   &size_bytes) ||
            __builtin_add_overflow(total_bytes, size_bytes, &total_bytes)) {
            return false;
        }
    }
    return true;
}

ddp_status ddp_layout_create(struct ddp_mem *mem, const struct ddp_param *params,
                             size_t param_count, const struct ddp_config *config,
                             struct ddp_layout *out)
{
    DDP_ASSERT(config->bucket_cap_bytes > 0 && config->first_bucket_cap_bytes > 0);
    memset(out, 0, sizeof(*out));
    if (!is_size_known(params, param_count)) {
        return DDP_E_OVERFLOW;
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
