/* What every part of a rank's run needs: its phase, fault points without payload, where its
 * checkpoint lies. */
#include "harness/rank/session.h"

void harness_session_phase(struct harness_session *session, enum ddp_phase phase)
{
    struct ddp_recorder *recorder = session->env->recorder;

    if (recorder != NULL && recorder->phase != phase) {
        ddp_recorder_phase(recorder, phase);
    }
}

ddp_status harness_session_ask(struct harness_session *session, enum ddp_fault_point point,
                               enum ddp_fault_action *out)
{
    struct ddp_fault_context place = DDP_FAULT_CONTEXT_NONE;

    place.device = session->device;
    *out = ddp_fault_point(session->env->faults, point, &place);
    return *out == DDP_FAULT_FAIL
               ? ddp_err_set(session->err, DDP_E_INJECTED, "%s", ddp_fault_point_name(point))
               : DDP_OK;
}

ddp_status harness_session_point(struct harness_session *session, enum ddp_fault_point point,
                                 bool *out_skip)
{
    enum ddp_fault_action action;
    ddp_status status = harness_session_ask(session, point, &action);

    if (out_skip != NULL) {
        *out_skip = action == DDP_FAULT_SKIP;
    }
    return status;
}

ddp_status harness_session_checkpoint_path(const struct harness_session *session,
                                           struct ddp_text *out)
{
    ddp_text_init(out, session->env->mem);
    if (session->options->checkpoint_path != NULL) {
        ddp_text_add(out, "%s", session->options->checkpoint_path);
    } else if (session->options->run_dir != NULL) {
        ddp_text_add(out, "%s/checkpoint.safetensors", session->options->run_dir);
    } else {
        return ddp_err_set(session->err, DDP_E_INVALID, "a checkpoint is due, but has no path");
    }
    return out->is_failed ? DDP_E_NOMEM : DDP_OK;
}
