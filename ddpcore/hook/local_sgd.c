/* Post-local SGD's hook (Lin, Stich, Patel, Jaggi, "Don't Use Large Mini-Batches, Use Local SGD",
 * ICLR 2020): gradients are averaged at first, then parameters are instead. */
#include "ddpcore/base/hash.h"
#include "ddpcore/device/device.h"
#include "ddpcore/hook/hooks.h"

struct local_sgd_hook {
    struct ddp_hook base;
    struct ddp_mem *mem;
    struct ddp_device *device; /* while open */
    uint64_t start_iteration;
    int64_t iteration; /* passes begun */
    bool is_local;     /* the present pass is */
    struct ddp_param state;
};

static uint64_t local_sgd_identity(const struct ddp_hook *hook)
{
    return ddp_hash_combine(ddp_hash_text(hook->ops->name),
                            ((const struct local_sgd_hook *)hook)->start_iteration) |
           1;
}

static ddp_status local_sgd_open(struct ddp_hook *hook, const struct ddp_hook_site *site)
{
    struct local_sgd_hook *self = (struct local_sgd_hook *)hook;

    if (!site->device->ops->is_host_memory) {
        return DDP_E_UNSUPPORTED; /* its state lies in the host's */
    }
    self->device = site->device;
    self->state = (struct ddp_param){.name = "local_sgd.iteration",
                                     .dtype = DDP_DTYPE_I64,
                                     .data = &self->iteration,
                                     .elem_count = 1,
                                     .ndim = 1,
                                     .shape = {1}};
    return DDP_OK;
}

static void local_sgd_close(struct ddp_hook *hook)
{
    ((struct local_sgd_hook *)hook)->device = NULL;
}

static ddp_status local_sgd_round(struct ddp_hook *hook, const struct ddp_grad_bucket *bucket,
                                  uint32_t round, struct ddp_coll_args *out, bool *out_is_over)
{
    struct local_sgd_hook *self = (struct local_sgd_hook *)hook;

    (void)out;
    if (round == 0 && bucket->index == 0) {
        self->is_local = (uint64_t)self->iteration++ >= self->start_iteration;
    }
    *out_is_over = self->is_local || round > 0;
    return *out_is_over || bucket->elem_count == 0
               ? DDP_OK
               : self->device->ops->scale(self->device, NULL, bucket->data, bucket->dtype,
                                          bucket->data, bucket->dtype, bucket->elem_count,
                                          1.0 / (double)bucket->divisor);
}

static const struct ddp_param *local_sgd_state(struct ddp_hook *hook, size_t *out_count)
{
    *out_count = 1;
    return &((struct local_sgd_hook *)hook)->state;
}

static void local_sgd_destroy(struct ddp_hook *hook)
{
    ddp_mem_free(((struct local_sgd_hook *)hook)->mem, hook);
}

static const struct ddp_hook_ops local_sgd_ops = {
    .name = "local_sgd",
    .needs = "a device whose memory is the host's",
    .identity = local_sgd_identity,
    .open = local_sgd_open,
    .close = local_sgd_close,
    .round = local_sgd_round,
    .state = local_sgd_state,
    .destroy = local_sgd_destroy,
};

ddp_status ddp_hook_local_sgd_create(struct ddp_mem *mem, uint64_t start_iteration,
                                     struct ddp_hook **out)
{
    struct local_sgd_hook *self = ddp_mem_array(mem, 1, sizeof(*self));

    *out = NULL;
    if (self == NULL) {
        return DDP_E_NOMEM;
    }
    self->base.ops = &local_sgd_ops;
    self->mem = mem;
    self->start_iteration = start_iteration;
    *out = &self->base;
    return DDP_OK;
}
