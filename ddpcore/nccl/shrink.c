/* A smaller group made from one in which a member hangs or is missing: the parent is stopped, and
 * NCCL connects the remaining members over the parent's connections. */
#include "ddpcore/nccl/state.h"

struct shrinking {
    struct ddp_nccl_coll *parent, *child;
};

static ddp_status poll_parent(void *self)
{
    struct shrinking *shrinking = self;
    ddp_status status = ddp_nccl_comm_poll(shrinking->parent->comm);

    return status != DDP_PENDING ? status : ddp_queue_check_members(&shrinking->child->queue);
}

static ddp_status wait_parent(struct shrinking *shrinking, struct ddp_err *err)
{
    struct ddp_env *env = shrinking->parent->queue.base.env;
    const struct ddp_pollable pollable = {poll_parent, NULL, shrinking};
    /* The communicator has its own deadlines. */
    ddp_status status = ddp_wait(env->idle, env->clock, &pollable, DDP_DEADLINE_NEVER);

    if (status != DDP_OK) {
        const char *text = ddp_nccl_comm_error(shrinking->parent->comm);

        return ddp_err_set(err, status, "%s", text[0] != '\0' ? text : ddp_status_text(status));
    }
    ddp_queue_drain(&shrinking->parent->queue);
    return DDP_OK;
}

/* Whether the transport is one of the remaining members. */
static bool is_rest(const struct ddp_nccl_coll *parent, const struct ddp_transport *transport,
                    const uint32_t *excluded, uint32_t excluded_count)
{
    uint32_t below = 0;

    for (uint32_t i = 0; i < excluded_count; i++) {
        if (excluded[i] >= parent->queue.base.member_count ||
            excluded[i] == parent->queue.base.member) {
            return false;
        }
        for (uint32_t j = 0; j < i; j++) {
            if (excluded[j] == excluded[i]) {
                return false;
            }
        }
        below += excluded[i] < parent->queue.base.member ? 1 : 0;
    }
    return excluded_count > 0 &&
           transport->member_count == parent->queue.base.member_count - excluded_count &&
           transport->member == parent->queue.base.member - below;
}

static ddp_status check(const struct ddp_nccl_coll *parent, const struct ddp_transport *transport,
                        const uint32_t *excluded, uint32_t excluded_count, struct ddp_err *err)
{
    if (parent->library->calls.shrink == NULL) {
        return ddp_err_set(err, DDP_E_UNSUPPORTED, "NCCL %u cannot shrink a group; 2.27 can",
                           parent->library->version);
    }
    if (parent->queue.failed != DDP_OK) {
        return ddp_err_set(err, DDP_E_STATE,
                           "a group that failed has been aborted, there is nothing to shrink");
    }
    if (!is_rest(parent, transport, excluded, excluded_count)) {
        return ddp_err_set(err, DDP_E_INVALID,
                           "member %u of %u is not what is left of member %u of %u without the %u "
                           "excluded ones",
                           transport->member, transport->member_count, parent->queue.base.member,
                           parent->queue.base.member_count, excluded_count);
    }
    return DDP_OK;
}

static ddp_status shrink(struct shrinking *shrinking, const struct ddp_coll_nccl_config *config,
                         const uint32_t *excluded, uint32_t excluded_count, struct ddp_err *err)
{
    struct ddp_nccl_coll *parent = shrinking->parent;
    ddp_status status = ddp_nccl_comm_poll(parent->comm);

    ddp_queue_close(&parent->queue, DDP_E_REVOKED);
    if (status < 0) {
        return ddp_err_set(err, status, "%s", ddp_nccl_comm_error(parent->comm));
    }
    if (ddp_nccl_comm_revoke(parent->comm)) {
        DDP_TRY(wait_parent(shrinking, err));
    } else if (status == DDP_PENDING) {
        return ddp_err_set(err, DDP_E_UNSUPPORTED,
                           "a call is in progress, and NCCL %u cannot revoke it; 2.28.7 can",
                           parent->library->version);
    }
    ddp_nccl_comm_shrink(parent->comm, excluded, excluded_count, config->init_timeout_ns);
    DDP_TRY(wait_parent(shrinking, err));
    /* Not earlier: an allocation may wait for the parent's kernels, which wait for the member that
     * hangs. */
    DDP_TRY(ddp_nccl_coll_prepare_device(shrinking->child, err));
    return ddp_nccl_comm_take_child(parent->comm, &shrinking->child->comm) == DDP_OK
               ? DDP_OK
               : ddp_err_set(err, DDP_E_NOMEM, "no memory for a communicator");
}

ddp_status ddp_coll_nccl_shrink(struct ddp_coll *coll, struct ddp_transport *transport,
                                const struct ddp_coll_nccl_config *config, const uint32_t *excluded,
                                uint32_t excluded_count, struct ddp_coll **out, struct ddp_err *err)
{
    struct shrinking shrinking = {(struct ddp_nccl_coll *)ddp_queue_of(coll, &ddp_nccl_engine),
                                  NULL};
    struct ddp_nccl_coll *parent = shrinking.parent;
    ddp_status status;

    status = check(parent, transport, excluded, excluded_count, err);
    if (status != DDP_OK) {
        transport->ops->destroy(transport);
        return status;
    }
    DDP_TRY(ddp_nccl_coll_make(coll->env, transport, parent->queue.base.device, parent->library,
                               config, &shrinking.child, err));
    status = shrink(&shrinking, config, excluded, excluded_count, err);
    if (status != DDP_OK) {
        ddp_nccl_comm_abort(parent->comm);
        return ddp_nccl_coll_give_up(shrinking.child, config->name, status, err);
    }
    *out = &shrinking.child->queue.base;
    return DDP_OK;
}
