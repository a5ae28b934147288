/* See the header. */
#include "ddpcore/collective/control.h"

#include <string.h>

ddp_status ddp_control_open(struct ddp_control *control, const struct ddp_env *env,
                            struct ddp_transport *transport, uint64_t comm,
                            const uint32_t *member_rank, struct ddp_err *err)
{
    const struct ddp_coll_schedule_config config = {
        .comm = comm, .is_agreement = true, .member_rank = member_rank};

    control->env = *env;
    control->env.faults = NULL;
    if (ddp_device_cpu_create(control->env.mem, &control->host) != DDP_OK) {
        return ddp_err_set(err, DDP_E_NOMEM, "no memory for a control channel");
    }
    return ddp_coll_schedule_create(&control->env, transport, control->host, &config,
                                    &control->coll, err);
}

void ddp_control_leave(struct ddp_control *control)
{
    if (control->coll != NULL) {
        control->coll->ops->destroy(control->coll);
        control->coll = NULL;
    }
}

void ddp_control_close(struct ddp_control *control)
{
    ddp_control_leave(control);
    if (control->host != NULL) {
        control->host->ops->destroy(control->host);
        control->host = NULL;
    }
}

ddp_status ddp_control_agree(struct ddp_control *control, struct ddp_coll_work *agreement,
                             const struct ddp_coll_work *work)
{
    memset(agreement, 0, sizeof(*agreement));
    agreement->args = work->args;
    agreement->seq = work->seq;
    return control->coll->ops->post(control->coll, agreement);
}

bool ddp_control_is_revoked(struct ddp_control *control)
{
    struct ddp_revocation revocation;

    return control->coll->ops->is_revoked(control->coll, &revocation);
}

int32_t ddp_control_dead_rank(struct ddp_control *control)
{
    return control->coll->ops->dead_rank(control->coll);
}

ddp_status ddp_control_look_for_death(struct ddp_control *control)
{
    uint64_t now_ns;

    if (ddp_control_dead_rank(control) < 0) {
        return DDP_PENDING;
    }
    now_ns = ddp_clock_now_ns(control->env.clock);
    if (control->death_known_ns == 0) {
        control->death_known_ns = now_ns;
    }
    return now_ns - control->death_known_ns >= DDP_TRANSPORT_DEATH_GRACE_NS ? DDP_E_PEER_DIED
                                                                            : DDP_PENDING;
}

ddp_status ddp_control_look_at_members(struct ddp_control *control)
{
    return ddp_control_is_revoked(control) ? DDP_E_REVOKED : ddp_control_look_for_death(control);
}

void ddp_control_tell(struct ddp_control *control, ddp_status status, uint64_t seq)
{
    const struct ddp_recorder *recorder = control->env.recorder;
    const struct ddp_revocation revocation = {control->env.rank, status,
                                              recorder != NULL ? recorder->step : 0, seq};

    if (status != DDP_E_REVOKED && status != DDP_E_PEER_DIED && !ddp_control_is_revoked(control)) {
        control->coll->ops->revoke(control->coll, &revocation);
    }
}
