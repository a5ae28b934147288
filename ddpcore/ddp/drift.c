/* Hashes of parameters, compared over all ranks. */
#include "ddpcore/ddp/drift.h"

#include "ddpcore/base/hash.h"
#include "ddpcore/ddp/core.h"

static ddp_status hash_param(struct ddp *ddp, size_t index, uint64_t *out)
{
    const struct ddp_param *param = &ddp->params[index];
    const size_t size_bytes = ddp_param_size_bytes(param);
    const void *seen;

    DDP_TRY(ddp_transfer_view(&ddp->transfer, param->data, size_bytes, &seen));
    *out = ddp_hash_tensor(seen, size_bytes, ddp_hash_text(param->name), NULL);
    return DDP_OK;
}

ddp_status ddp_hash_params(struct ddp *ddp, uint64_t *out)
{
    uint64_t one;

    *out = ddp->param_count;
    for (size_t p = 0; p < ddp->param_count; p++) {
        DDP_TRY(hash_param(ddp, p, &one));
        *out = ddp_hash_combine(*out, one);
    }
    return DDP_OK;
}

/* A parameter's hashes on all members; [member][param_count]. */
struct column {
    const uint64_t *all;
    size_t param, param_count;
    uint32_t member_count;
};

static uint64_t at(const struct column *column, uint32_t member)
{
    DDP_ASSERT(member < column->member_count);
    return column->all[member * column->param_count + column->param];
}

static uint32_t count_like(const struct column *column, uint32_t member)
{
    uint32_t count = 0;

    for (uint32_t m = 0; m < column->member_count; m++) {
        count += at(column, m) == at(column, member);
    }
    return count;
}

/* The first member that is not of the largest set of equal ones; -1: all are, or there are two such
 * sets. *out_count: members that are not. */
static int32_t find_minority(const struct column *column, uint32_t *out_count)
{
    uint32_t best = 0;
    bool is_tie = false;

    for (uint32_t m = 1; m < column->member_count; m++) {
        const uint32_t count = count_like(column, m);
        const uint32_t most = count_like(column, best);

        if (count > most) {
            best = m;
            is_tie = false;
        } else if (count == most && at(column, m) != at(column, best)) {
            is_tie = true;
        }
    }
    DDP_ASSERT(count_like(column, best) > 0);
    *out_count = is_tie ? 0 : column->member_count - count_like(column, best);
    for (uint32_t m = 0; m < column->member_count && !is_tie; m++) {
        if (at(column, m) != at(column, best)) {
            return (int32_t)m;
        }
    }
    return -1;
}

static bool compare(const struct ddp *ddp, const uint64_t *all, struct ddp_drift *out)
{
    struct column column = {.all = all,
                            .param_count = ddp->param_count,
                            .member_count = ddp->group->coll->member_count};

    *out = (struct ddp_drift){.rank = -1};
    for (size_t p = 0; p < ddp->param_count; p++) {
        column.param = p;
        if (count_like(&column, 0) == column.member_count) {
            continue;
        }
        if (out->differ_count++ == 0) {
            out->param = p;
            const int32_t member = find_minority(&column, &out->rank_count);

            out->rank =
                member < 0 ? -1 : (int32_t)ddp_coll_rank_of(ddp->group->coll, (uint32_t)member);
        }
    }
    DDP_ASSERT(out->rank_count < column.member_count && out->differ_count <= ddp->param_count);
    return out->differ_count > 0;
}

/* Room for the hashes is kept from the first look on: later ones allocate nothing. */
static ddp_status make_room(struct ddp *ddp)
{
    const size_t count = (1 + (size_t)ddp->group->coll->member_count) * ddp->param_count;

    return ddp->hashes.data != NULL
               ? DDP_OK
               : ddp_block_alloc(ddp, DDP_SPACE_HOST, count * sizeof(uint64_t), &ddp->hashes);
}

static ddp_status hash_own(struct ddp *ddp)
{
    DDP_TRY(make_room(ddp));
    ddp->device->hints->host_access(ddp->device, ddp->hashes.data,
                                    ddp->param_count * sizeof(uint64_t), true);
    for (size_t p = 0; p < ddp->param_count; p++) {
        DDP_TRY(hash_param(ddp, p, (uint64_t *)ddp->hashes.data + p));
    }
    return DDP_OK;
}

/* own, then all. */
static ddp_status gather(struct ddp *ddp, uint64_t *own)
{
    const size_t size_bytes = ddp->param_count * sizeof(*own);
    const size_t all_bytes = size_bytes * ddp->group->coll->member_count;
    const struct ddp_coll_args args = {.kind = DDP_COLL_ALL_GATHER,
                                       .dtype = DDP_DTYPE_U8,
                                       .role = DDP_ROLE_DRIFT,
                                       .input = own,
                                       .output = own + ddp->param_count,
                                       .elem_count = size_bytes};

    DDP_TRY(ddp_group_run(ddp->group, &args));
    ddp->device->hints->host_access(ddp->device, args.output, all_bytes, false);
    return DDP_OK;
}

ddp_status ddp_check_drift(struct ddp *ddp, struct ddp_drift *out)
{
    uint64_t *own;
    ddp_status status;

    *out = (struct ddp_drift){.rank = -1};
    if (ddp->pass != DDP_PASS_IDLE) {
        return ddp_core_fail_state(ddp);
    }
    if (ddp->group->failure.status == DDP_OK) {
        DDP_TRY(ddp_core_needs_all(ddp));
    }
    if (ddp->param_count == 0) {
        return DDP_OK;
    }
    status = hash_own(ddp);
    if (status != DDP_OK) {
        return ddp_core_fail(ddp, status, 0); /* the others wait for this rank */
    }
    own = ddp->hashes.data;
    DDP_TRY(gather(ddp, own));
    return compare(ddp, own + ddp->param_count, out) ? DDP_E_MODEL : DDP_OK;
}
