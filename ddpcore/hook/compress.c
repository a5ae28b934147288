/* Compression by rounding to a float of 16 bits, around another hook. The other hook works on the
 * rounded copy as if it were the bucket. */
#include "ddpcore/base/hash.h"
#include "ddpcore/device/device.h"
#include "ddpcore/hook/hooks.h"

enum { PIECE_ELEMS = 4096 }; /* of 8 KiB, beside 16 KiB of what they come from */

struct compress_hook {
    struct ddp_hook base;
    struct ddp_mem *mem;
    struct ddp_hook *inner;
    enum ddp_dtype dtype;
    bool is_plain; /* inner is the hook allreduce, of its own making: it is not asked */

    /* While open. What the inner hook sees: buckets of the other type, one block each. */
    const struct ddp_hook_site *site;
    struct ddp_hook_site inner_site;
    struct ddp_grad_bucket *buckets; /* [bucket_count] */
    struct ddp_block *blocks;        /* [bucket_count] */
    bool is_inner_open;
};

static struct compress_hook *self_of(struct ddp_hook *hook)
{
    return (struct compress_hook *)hook;
}

static uint64_t compress_identity(const struct ddp_hook *hook)
{
    const struct compress_hook *self = (const struct compress_hook *)hook;

    return ddp_hash_combine(ddp_hash_combine(ddp_hash_text("compress"), self->dtype),
                            self->inner->ops->identity(self->inner)) |
           1;
}

static ddp_status compress_open(struct ddp_hook *hook, const struct ddp_hook_site *site)
{
    struct compress_hook *self = self_of(hook);
    const size_t count = site->bucket_count;

    self->site = site;
    self->buckets = ddp_mem_array(site->mem, count, sizeof(*self->buckets));
    self->blocks = ddp_mem_array(site->mem, count, sizeof(*self->blocks));
    if (self->buckets == NULL || self->blocks == NULL) {
        return DDP_E_NOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        self->buckets[i] = site->buckets[i];
        self->buckets[i].dtype = self->dtype;
        DDP_TRY(ddp_hook_alloc(site, i,
                               site->buckets[i].elem_count * ddp_dtype_size_bytes(self->dtype),
                               &self->blocks[i]));
        self->buckets[i].data = self->blocks[i].data;
    }
    self->inner_site = *site;
    self->inner_site.buckets = self->buckets;
    self->is_inner_open = true;
    return self->inner->ops->open(self->inner, &self->inner_site);
}

static void compress_close(struct ddp_hook *hook)
{
    struct compress_hook *self = self_of(hook);

    if (self->site == NULL) {
        return;
    }
    if (self->is_inner_open) {
        self->inner->ops->close(self->inner);
    }
    for (size_t i = 0; self->blocks != NULL && i < self->site->bucket_count; i++) {
        ddp_hook_free(self->site, &self->blocks[i]);
    }
    ddp_mem_free(self->site->mem, self->blocks);
    ddp_mem_free(self->site->mem, self->buckets);
    self->blocks = NULL;
    self->buckets = NULL;
    self->is_inner_open = false;
    self->site = NULL;
}

/* Rounded, then divided, both in the narrow type, piece by piece where that is no work for a device
 * of its own: the second pass finds in the cache what the first one left there. */
static ddp_status round_and_divide(const struct compress_hook *self,
                                   const struct ddp_grad_bucket *bucket, void *rounded)
{
    struct ddp_device *device = self->site->device;
    const size_t piece = device->ops->is_host_memory ? PIECE_ELEMS : bucket->elem_count;
    const double factor = 1.0 / (double)bucket->divisor;

    for (size_t first = 0; first < bucket->elem_count; first += piece) {
        const size_t rest = bucket->elem_count - first;
        const size_t count = rest < piece ? rest : piece;
        char *to = (char *)rounded + first * ddp_dtype_size_bytes(self->dtype);
        const char *from = (const char *)bucket->data + first * ddp_dtype_size_bytes(bucket->dtype);

        DDP_TRY(device->ops->scale(device, NULL, to, self->dtype, from, bucket->dtype, count, 1.0));
        DDP_TRY(device->ops->scale(device, NULL, to, self->dtype, to, self->dtype, count, factor));
    }
    return DDP_OK;
}

/* What the wrapper around the hook allreduce comes to. */
static ddp_status plain_round(const struct compress_hook *self,
                              const struct ddp_grad_bucket *bucket, uint32_t round, void *rounded,
                              bool *out_is_over)
{
    struct ddp_device *device = self->site->device;

    *out_is_over = round > 0;
    if (bucket->elem_count == 0) {
        return DDP_OK;
    }
    return round == 0 ? round_and_divide(self, bucket, rounded)
                      : device->ops->scale(device, NULL, bucket->data, bucket->dtype, rounded,
                                           self->dtype, bucket->elem_count, 1.0);
}

static ddp_status compress_round(struct ddp_hook *hook, const struct ddp_grad_bucket *bucket,
                                 uint32_t round, struct ddp_coll_args *out, bool *out_is_over)
{
    struct compress_hook *self = self_of(hook);
    struct ddp_device *device = self->site->device;
    struct ddp_grad_bucket rounded = *bucket;

    DDP_ASSERT(bucket->index < self->site->bucket_count);
    rounded.dtype = self->dtype;
    rounded.data = self->blocks[bucket->index].data;
    out->dtype = rounded.dtype;
    out->input = rounded.data;
    out->output = rounded.data;
    if (self->is_plain) {
        return plain_round(self, bucket, round, rounded.data, out_is_over);
    }
    if (round == 0 && bucket->elem_count > 0) {
        DDP_TRY(device->ops->scale(device, NULL, rounded.data, rounded.dtype, bucket->data,
                                   bucket->dtype, bucket->elem_count, 1.0));
    }
    DDP_TRY(self->inner->ops->round(self->inner, &rounded, round, out, out_is_over));
    return !*out_is_over || bucket->elem_count == 0
               ? DDP_OK
               : device->ops->scale(device, NULL, bucket->data, bucket->dtype, rounded.data,
                                    rounded.dtype, bucket->elem_count, 1.0);
}

static const struct ddp_param *compress_state(struct ddp_hook *hook, size_t *out_count)
{
    struct compress_hook *self = self_of(hook);

    *out_count = 0;
    return self->inner->ops->state != NULL ? self->inner->ops->state(self->inner, out_count) : NULL;
}

static bool compress_is_state_own(const struct ddp_hook *hook, size_t index)
{
    const struct ddp_hook *inner = ((const struct compress_hook *)hook)->inner;

    return inner->ops->is_state_own != NULL && inner->ops->is_state_own(inner, index);
}

static void compress_destroy(struct ddp_hook *hook)
{
    struct compress_hook *self = self_of(hook);

    ddp_hook_destroy(self->inner);
    ddp_mem_free(self->mem, self);
}

static const struct ddp_hook_ops f16_ops = {
    .name = "fp16",
    .identity = compress_identity,
    .open = compress_open,
    .close = compress_close,
    .round = compress_round,
    .state = compress_state,
    .is_state_own = compress_is_state_own,
    .destroy = compress_destroy,
};
static const struct ddp_hook_ops bf16_ops = {
    .name = "bf16",
    .identity = compress_identity,
    .open = compress_open,
    .close = compress_close,
    .round = compress_round,
    .state = compress_state,
    .is_state_own = compress_is_state_own,
    .destroy = compress_destroy,
};

ddp_status ddp_hook_compress_create(struct ddp_mem *mem, enum ddp_dtype dtype,
                                    struct ddp_hook *inner, struct ddp_hook **out)
{
    struct compress_hook *self = NULL;
    bool is_plain = false;
    ddp_status status = dtype == DDP_DTYPE_F16 || dtype == DDP_DTYPE_BF16 ? DDP_OK : DDP_E_INVALID;

    *out = NULL;
    if (status == DDP_OK && inner == NULL) {
        is_plain = true;
        status = ddp_hook_allreduce_create(mem, &inner);
    }
    if (status == DDP_OK) {
        self = ddp_mem_array(mem, 1, sizeof(*self));
        status = self == NULL ? DDP_E_NOMEM : DDP_OK;
    }
    if (status != DDP_OK) {
        ddp_hook_destroy(inner);
        return status;
    }
    self->base.ops = dtype == DDP_DTYPE_F16 ? &f16_ops : &bf16_ops;
    self->mem = mem;
    self->inner = inner;
    self->dtype = dtype;
    self->is_plain = is_plain;
    *out = &self->base;
    return DDP_OK;
}
