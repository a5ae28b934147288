/* Bucket layouts. The `reverse` order: parameters from last to first, because backward passes
 * finish them in about that order.
 *
 * A bucket holds parameters of one type. Each type fills a bucket of its own, with caps of its own,
 * which closes once it holds at least its cap, or with the last parameter of the type. Buckets are
 * numbered in the order in which they close, because they are launched in order of their numbers:
 * no bucket waits for one that fills later. PyTorch's order is assignment.c. */
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
    config->find_unused_parameters = config->find_unused_parameters && !config->is_static_graph;
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

static ddp_status alloc_layout(struct ddp_mem *mem, const struct ddp_param *params,
                               size_t param_count, struct ddp_layout *out)
{
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
    return DDP_OK;
}

/* PyTorch's first layout. */
static ddp_status create_pytorch(struct ddp_mem *mem, const struct ddp_param *params,
                                 size_t param_count, const struct ddp_config *config,
                                 struct ddp_layout *out)
{
    int32_t *lists = ddp_mem_array(mem, 2 * param_count, sizeof(*lists));
    size_t bucket_count = 0;
    ddp_status status = lists == NULL ? DDP_E_NOMEM : DDP_OK;

    if (status == DDP_OK) {
        status = ddp_bucket_assign_config(mem, params, param_count, config, NULL, lists,
                                          lists + param_count, &bucket_count);
    }
    if (status == DDP_OK) {
        status = ddp_layout_adopt(mem, params, param_count, lists, lists + param_count,
                                  bucket_count, out);
    }
    ddp_mem_free(mem, lists);
    return status;
}

/* The parameters at places [first, first + count) of the order as a bucket. */
static bool adopt_bucket(const struct ddp_param *params, size_t param_count, const int32_t *order,
                         size_t first, size_t count, struct ddp_layout *layout)
{
    struct ddp_bucket *bucket = &layout->buckets[layout->bucket_count];

    for (size_t place = first; place < first + count; place++) {
        const size_t param = (size_t)order[place];

        if (order[place] < 0 || param >= param_count || layout->bucket_of[param] != SIZE_MAX ||
            params[param].dtype != params[order[first]].dtype) {
            return false;
        }
        layout->order[place] = param;
        layout->bucket_of[param] = layout->bucket_count;
        layout->offset_of[param] = bucket->elem_count;
        bucket->elem_count += params[param].elem_count;
    }
    bucket->dtype = params[order[first]].dtype;
    bucket->size_bytes = bucket->elem_count * ddp_dtype_size_bytes(bucket->dtype);
    bucket->first_place = first;
    bucket->param_count = count;
    layout->bucket_count++;
    return true;
}

ddp_status ddp_layout_adopt(struct ddp_mem *mem, const struct ddp_param *params, size_t param_count,
                            const int32_t *order, const int32_t *sizes, size_t bucket_count,
                            struct ddp_layout *out)
{
    size_t place = 0;
    bool is_valid = bucket_count <= param_count;

    DDP_TRY(alloc_layout(mem, params, param_count, out));
    for (size_t i = 0; i < param_count; i++) {
        out->bucket_of[i] = SIZE_MAX;
    }
    for (size_t b = 0; is_valid && b < bucket_count; b++) {
        is_valid = sizes[b] > 0 && (size_t)sizes[b] <= param_count - place &&
                   adopt_bucket(params, param_count, order, place, (size_t)sizes[b], out);
        place += is_valid ? (size_t)sizes[b] : 0;
    }
    if (!is_valid || place != param_count) {
        ddp_layout_destroy(mem, out);
        return DDP_E_INVALID;
    }
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

/* Delayed parameters lie behind all others, in one bucket a type; the others are assigned as if
 * those were not there. Since buckets are launched in their order, they are reduced last. */

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
                                    const int32_t *walk, int32_t *out_order, int32_t *out_sizes,
                                    size_t *out_count)
{
    const bool is_capped = walk != NULL || config->find_unused_parameters;
    const size_t caps[2] = {is_capped ? config->first_bucket_cap_bytes : SIZE_MAX,
                            is_capped ? config->bucket_cap_bytes : SIZE_MAX};
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

/* ddp_layout_create of a config that delays parameters. */
static ddp_status create_delayed(struct ddp_mem *mem, const struct ddp_param *params,
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

ddp_status ddp_layout_create(struct ddp_mem *mem, const struct ddp_param *params,
                             size_t param_count, const struct ddp_config *config,
                             struct ddp_layout *out)
{
    DDP_ASSERT(config->bucket_cap_bytes > 0 && config->first_bucket_cap_bytes > 0);
    if (config->bucket_order == DDP_BUCKET_ORDER_PYTORCH) {
        return create_pytorch(mem, params, param_count, config, out);
    }
    if (config->is_delayed != NULL) {
        return create_delayed(mem, params, param_count, config, out);
    }
    DDP_TRY(alloc_layout(mem, params, param_count, out));
    assign(params, param_count, config, out);
    return DDP_OK;
}
