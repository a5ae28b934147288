/* A training loop that calls the core when it may not: inside of a backward pass, or outside of one
 * (point trainer/config). The core must say so on this rank, and nobody may wait for it. */
#include "ddpcore/ddp/average.h"
#include "ddpcore/ddp/clip.h"
#include "ddpcore/ddp/drift.h"
#include "harness/rank/session.h"

/* As trainer/config numbers them. */
enum {
    FORWARD_IN_PASS = 1,
    BACKWARD_IN_PASS,
    CLIP_IN_PASS,
    DRIFT_IN_PASS,
    JOIN_IN_PASS,
    JOIN_END_IN_PASS,
    AVERAGE_IN_PASS,
    UNSCALE_IN_PASS,
    GRADIENT_OUTSIDE,
    END_OUTSIDE,
    JOIN_END_OUTSIDE,
    CLIP_TO_NOTHING,
};

static ddp_status call(struct harness_session *session, int64_t number)
{
    const struct ddp_join_config join = {0};
    struct ddp_scaler scaler;
    struct ddp_drift drift;

    switch (number) {
    case FORWARD_IN_PASS:
        return ddp_forward_begin(session->ddp);
    case BACKWARD_IN_PASS:
        return ddp_backward_begin(session->ddp, NULL);
    case CLIP_IN_PASS:
        return ddp_clip_grad_norm(session->ddp, 1, NULL);
    case DRIFT_IN_PASS:
        return ddp_check_drift(session->ddp, &drift);
    case JOIN_IN_PASS:
        return ddp_join_begin(session->ddp, &join);
    case JOIN_END_IN_PASS:
    case JOIN_END_OUTSIDE:
        return ddp_join_end(session->ddp);
    case AVERAGE_IN_PASS:
        return ddp_average_params(session->ddp);
    case UNSCALE_IN_PASS:
        ddp_scaler_init(&scaler);
        return ddp_scaler_unscale(&scaler, session->ddp);
    case GRADIENT_OUTSIDE:
        return ddp_grad_ready(session->ddp, 0);
    case END_OUTSIDE:
        return ddp_backward_end(session->ddp);
    case CLIP_TO_NOTHING:
        return ddp_clip_grad_norm(session->ddp, 0, NULL);
    default:
        return ddp_err_set(session->err, DDP_E_INVALID, "no untimely call has the number %lld",
                           (long long)number);
    }
}

/* Once, in the second step that the rank makes: by then everything has been used as it should. */
ddp_status harness_session_untimely(struct harness_session *session, bool is_in_pass)
{
    const int64_t number = session->untimely < 0 ? -session->untimely : session->untimely;
    const bool is_ignored = session->untimely < 0;
    ddp_status status;

    if (number == 0 || (number < GRADIENT_OUTSIDE) != is_in_pass ||
        session->env->recorder->step == 0) {
        return DDP_OK;
    }
    session->untimely = 0;
    status = call(session, number);
    return is_ignored ? DDP_OK : status;
}
