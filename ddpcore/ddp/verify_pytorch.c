/* Verification as PyTorch 2.7 does it: first the number of parameters on all ranks, then shapes and
 * strides against rank 0's, where only the other ranks raise an error. Names, types and options are
 * not compared. A rank with another number of dimensions in all posts a broadcast of another size
 * than its peers, as in PyTorch. */
#include <string.h>

#include "ddpcore/ddp/core.h"

static size_t dimension_count(const struct ddp *ddp)
{
    size_t count = 0;

    for (size_t i = 0; i < ddp->param_count; i++) {
        count += ddp->params[i].ndim;
    }
    return count;
}

/* Sizes, then row-major strides, of each parameter in turn. */
static void list_shapes(const struct ddp *ddp, int64_t *out)
{
    for (size_t i = 0; i < ddp->param_count; i++) {
        const struct ddp_param *param = &ddp->params[i];
        int64_t stride = 1;

        for (uint32_t k = param->ndim; k-- > 0;) {
            out[k] = (int64_t)param->shape[k];
            out[param->ndim + k] = stride;
            stride *= (int64_t)param->shape[k];
        }
        out += 2 * (size_t)param->ndim;
    }
}

/* First parameter whose sizes or strides differ; param_count if none. */
static size_t first_difference(const struct ddp *ddp, const int64_t *own, const int64_t *other)
{
    for (size_t i = 0; i < ddp->param_count; i++) {
        const size_t count = 2 * (size_t)ddp->params[i].ndim;

        if (count > 0 && memcmp(own, other, count * sizeof(*own)) != 0) {
            return i;
        }
        own += count;
        other += count;
    }
    return ddp->param_count;
}

static ddp_status compare_shapes(struct ddp *ddp, struct ddp_err *err)
{
    const size_t count = 2 * dimension_count(ddp);
    struct ddp_mem *mem = ddp->group->env->mem;
    int64_t *own = ddp_mem_array(mem, count, sizeof(*own));
    struct ddp_block block = {0};
    struct ddp_coll_args args = {.kind = DDP_COLL_BROADCAST,
                                 .dtype = DDP_DTYPE_I64,
                                 .role = DDP_ROLE_VERIFY,
                                 .index = 1,
                                 .elem_count = count};
    ddp_status status = own == NULL
                            ? DDP_E_NOMEM
                            : ddp_block_alloc(ddp, DDP_SPACE_HOST, count * sizeof(*own), &block);

    if (status == DDP_OK) {
        list_shapes(ddp, own);
        ddp->device->hints->host_access(ddp->device, block.data, count * sizeof(*own), true);
        memcpy(block.data, own, count * sizeof(*own));
        args.input = block.data;
        args.output = block.data;
        status = ddp_group_run(ddp->group, &args);
    }
    if (status == DDP_OK) {
        const size_t param = first_difference(ddp, own, block.data);

        ddp->device->hints->host_access(ddp->device, block.data, count * sizeof(*own), false);
        if (param < ddp->param_count) {
            status = ddp_verify_fail(ddp, (int32_t)ddp->group->coll->member);
            (void)ddp_err_set(err, status,
                              "parameter %zu \"%s\" of rank %u has another shape than on rank %u",
                              param, ddp->params[param].name, ddp->group->env->rank,
                              ddp_coll_rank_of(ddp->group->coll, 0));
        }
    }
    ddp_block_free(ddp, &block);
    ddp_mem_free(mem, own);
    return status;
}

ddp_status ddp_verify_pytorch(struct ddp *ddp, struct ddp_err *err)
{
    const uint32_t rank_count = ddp->group->coll->member_count;
    const int64_t own = (int64_t)ddp->param_count;
    int64_t *all = ddp_mem_array(ddp->group->env->mem, rank_count, sizeof(*all));
    ddp_status status =
        all == NULL ? DDP_E_NOMEM : ddp_verify_gather(ddp, 0, &own, sizeof(own), all);

    for (uint32_t r = 0; status == DDP_OK && r < rank_count; r++) {
        if (all[r] != own) {
            status = ddp_verify_fail(ddp, (int32_t)r);
            (void)ddp_err_set(err, status, "rank %u has %zu parameters, rank %u has %lld",
                              ddp->group->env->rank, ddp->param_count,
                              ddp_coll_rank_of(ddp->group->coll, r), (long long)all[r]);
        }
    }
    ddp_mem_free(ddp->group->env->mem, all);
    if (status == DDP_OK) {
        status = compare_shapes(ddp, err);
    } else if (status != DDP_E_MODEL) {
        (void)ddp_err_set(err, status, "the models could not be compared: %s",
                          ddp_status_text(status));
    }
    return status;
}
