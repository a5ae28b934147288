/* Quantisation to 8 bits per bucket (PyTorch's quantization_pertensor_hook): each rank's gradients
 * as steps of its own width, gathered, and averaged by who receives them.
 *
 * With lo = min(0, least gradient) and hi = max(0, greatest), a rank's width is s = (hi - lo) /
 * 255, at least 2^-23, and its zero point z = clamp(-round(lo / s)). A gradient g travels as q =
 * clamp(round(g / s + z)), and arrives as s * (q - z). All in fp32, halves to even. A rank with a
 * gradient that is not finite sends the width NaN, and so makes all averages NaN. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "ddpcore/base/hash.h"
#include "ddpcore/device/device.h"
#include "ddpcore/hook/hooks.h"

/* What a bucket needs, behind each other in one block: f32[2] of this rank and of all, then
 * u8[elem_count] of this rank and of all. */
struct quantize_hook {
    struct ddp_hook base;
    struct ddp_mem *mem;
    const struct ddp_hook_site *site; /* while open */
    struct ddp_block *blocks;         /* [bucket_count] */
};

static uint64_t quantize_identity(const struct ddp_hook *hook)
{
    return ddp_hash_text(hook->ops->name) | 1;
}

static size_t params_bytes(const struct ddp_hook_site *site)
{
    return (1 + (size_t)site->member_count) * 2 * sizeof(float);
}

static ddp_status quantize_open(struct ddp_hook *hook, const struct ddp_hook_site *site)
{
    struct quantize_hook *self = (struct quantize_hook *)hook;

    self->site = site;
    self->blocks = ddp_mem_array(site->mem, site->bucket_count, sizeof(*self->blocks));
    if (self->blocks == NULL) {
        return DDP_E_NOMEM;
    }
    for (size_t i = 0; i < site->bucket_count; i++) {
        if (!site->device->ops->is_host_memory || site->buckets[i].dtype != DDP_DTYPE_F32) {
            return DDP_E_UNSUPPORTED;
        }
        DDP_TRY(ddp_hook_alloc(site, i,
                               params_bytes(site) +
                                   (1 + (size_t)site->member_count) * site->buckets[i].elem_count,
                               &self->blocks[i]));
    }
    return DDP_OK;
}

static void quantize_close(struct ddp_hook *hook)
{
    struct quantize_hook *self = (struct quantize_hook *)hook;

    if (self->site == NULL) {
        return;
    }
    for (size_t i = 0; self->blocks != NULL && i < self->site->bucket_count; i++) {
        ddp_hook_free(self->site, &self->blocks[i]);
    }
    ddp_mem_free(self->site->mem, self->blocks);
    self->blocks = NULL;
    self->site = NULL;
}

static float clamp(float value)
{
    return value < 0.0F ? 0.0F : value > 255.0F ? 255.0F : value;
}

/* out: width and zero point. */
static void choose(const float *values, size_t elem_count, float out[2])
{
    float lo = 0.0F;
    float hi = 0.0F;
    bool is_finite = true;

    for (size_t i = 0; i < elem_count; i++) {
        is_finite = is_finite && isfinite(values[i]);
        lo = values[i] < lo ? values[i] : lo;
        hi = values[i] > hi ? values[i] : hi;
    }
    out[0] = (hi - lo) / 255.0F;
    out[0] = out[0] < FLT_EPSILON ? FLT_EPSILON : out[0];
    out[1] = clamp(0.0F - nearbyintf(lo / out[0])); /* never -0, which is another bit pattern */
    if (!is_finite || !isfinite(out[0])) {
        out[0] = NAN;
        out[1] = 0.0F;
    }
}

static void quantize(const float *values, size_t elem_count, const float params[2], uint8_t *out)
{
    for (size_t i = 0; i < elem_count; i++) {
        const float place = values[i] / params[0] + params[1];

        out[i] = isnan(place) ? 0 : (uint8_t)clamp(nearbyintf(place));
    }
}

/* Members in order. */
static void average(const struct ddp_grad_bucket *bucket, const float *params, const uint8_t *all,
                    uint32_t member_count)
{
    float *out = bucket->data;

    for (size_t i = 0; i < bucket->elem_count; i++) {
        float sum = 0.0F;

        for (uint32_t m = 0; m < member_count; m++) {
            const float steps = (float)all[m * bucket->elem_count + i] - params[2 * (size_t)m + 1];

            sum += params[2 * (size_t)m] * steps;
        }
        out[i] = sum / (float)bucket->divisor;
    }
}

static ddp_status quantize_round(struct ddp_hook *hook, const struct ddp_grad_bucket *bucket,
                                 uint32_t round, struct ddp_coll_args *out, bool *out_is_over)
{
    const struct quantize_hook *self = (const struct quantize_hook *)hook;
    float *params = self->blocks[bucket->index].data;
    uint8_t *own = (uint8_t *)params + params_bytes(self->site);

    out->kind = DDP_COLL_ALL_GATHER;
    if (round == 0) {
        choose(bucket->data, bucket->elem_count, params);
        out->dtype = DDP_DTYPE_F32;
        out->elem_count = 2;
        out->input = params;
        out->output = params + 2;
    } else if (round == 1) {
        quantize(bucket->data, bucket->elem_count, params, own);
        out->dtype = DDP_DTYPE_U8;
        out->input = own;
        out->output = own + bucket->elem_count;
    } else {
        average(bucket, params + 2, own + bucket->elem_count, self->site->member_count);
        *out_is_over = true;
    }
    return DDP_OK;
}

static void quantize_destroy(struct ddp_hook *hook)
{
    ddp_mem_free(((struct quantize_hook *)hook)->mem, hook);
}

static const struct ddp_hook_ops quantize_ops = {
    .name = "quantize",
    .needs = "gradients of f32 in the host's memory",
    .identity = quantize_identity,
    .open = quantize_open,
    .close = quantize_close,
    .round = quantize_round,
    .destroy = quantize_destroy,
};

ddp_status ddp_hook_quantize_create(struct ddp_mem *mem, struct ddp_hook **out)
{
    struct quantize_hook *self = ddp_mem_array(mem, 1, sizeof(*self));

    *out = NULL;
    if (self == NULL) {
        return DDP_E_NOMEM;
    }
    self->base.ops = &quantize_ops;
    self->mem = mem;
    *out = &self->base;
    return DDP_OK;
}
