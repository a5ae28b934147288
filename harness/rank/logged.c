/* What DDP says of this rank's job to whoever logs it, recorded as one number: the judge makes the
 * same text of what it knows of the job. */
#include "ddpcore/base/hash.h"
#include "ddpcore/ddp/logging.h"
#include "harness/rank/session.h"

ddp_status harness_session_log(struct harness_session *session)
{
    struct ddp_text text;
    ddp_status status = DDP_OK;

    if (!session->plan->job.logging) {
        return DDP_OK;
    }
    ddp_text_init(&text, session->env->mem);
    ddp_logging_data(session->ddp, &text);
    if (text.is_failed) {
        status = ddp_err_set(session->err, DDP_E_NOMEM, "no memory for what DDP logs");
    } else {
        ddp_recorder_event(session->env->recorder, DDP_EVENT_DDP_LOGGED,
                           ddp_hash_text(ddp_text_str(&text)), text.size_bytes, session->steps_done,
                           0, 0);
    }
    ddp_text_fini(&text);
    return status;
}
