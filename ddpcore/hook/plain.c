/* The hooks that keep nothing: allreduce and noop. */
#include "ddpcore/base/hash.h"
#include "ddpcore/device/device.h"
#include "ddpcore/hook/hooks.h"

struct plain_hook {
    struct ddp_hook base;
    struct ddp_mem *mem;
    struct ddp_device *device; /* while open */
};

static uint64_t plain_identity(const struct ddp_hook *hook)
{
    return ddp_hash_text(hook->ops->name) | 1;
}

static ddp_status plain_open(struct ddp_hook *hook, const struct ddp_hook_site *site)
{
    ((struct plain_hook *)hook)->device = site->device;
    return DDP_OK;
}

static void plain_close(struct ddp_hook *hook)
{
    ((struct plain_hook *)hook)->device = NULL;
}

static void plain_destroy(struct ddp_hook *hook)
{
    struct plain_hook *plain = (struct plain_hook *)hook;

    DDP_ASSERT(plain->device == NULL);
    ddp_mem_free(plain->mem, plain);
}

static ddp_status allreduce_round(struct ddp_hook *hook, const struct ddp_grad_bucket *bucket,
                                  uint32_t round, struct ddp_coll_args *out, bool *out_is_over)
{
    struct ddp_device *device = ((struct plain_hook *)hook)->device;

    (void)out;
    *out_is_over = round > 0;
    return round > 0 || bucket->elem_count == 0
               ? DDP_OK
               : device->ops->scale(device, NULL, bucket->data, bucket->dtype, bucket->data,
                                    bucket->dtype, bucket->elem_count,
                                    1.0 / (double)bucket->divisor);
}

static ddp_status noop_round(struct ddp_hook *hook, const struct ddp_grad_bucket *bucket,
                             uint32_t round, struct ddp_coll_args *out, bool *out_is_over)
{
    (void)hook;
    (void)bucket;
    (void)round;
    (void)out;
    *out_is_over = true;
    return DDP_OK;
}

static const struct ddp_hook_ops allreduce_ops = {
    .name = "allreduce",
    .identity = plain_identity,
    .open = plain_open,
    .close = plain_close,
    .round = allreduce_round,
    .destroy = plain_destroy,
};
static const struct ddp_hook_ops noop_ops = {
    .name = "noop",
    .identity = plain_identity,
    .open = plain_open,
    .close = plain_close,
    .round = noop_round,
    .destroy = plain_destroy,
};

static ddp_status create(struct ddp_mem *mem, const struct ddp_hook_ops *ops, struct ddp_hook **out)
{
    struct plain_hook *plain = ddp_mem_array(mem, 1, sizeof(*plain));

    *out = NULL;
    if (plain == NULL) {
        return DDP_E_NOMEM;
    }
    plain->base.ops = ops;
    plain->mem = mem;
    *out = &plain->base;
    return DDP_OK;
}

ddp_status ddp_hook_allreduce_create(struct ddp_mem *mem, struct ddp_hook **out)
{
    return create(mem, &allreduce_ops, out);
}

ddp_status ddp_hook_noop_create(struct ddp_mem *mem, struct ddp_hook **out)
{
    return create(mem, &noop_ops, out);
}
