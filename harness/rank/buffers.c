/* Buffers change in the forward pass. A step that is done again after a loss must begin with those
 * that it had begun with. Parameters and the optimizer's state change only once a step is complete.
 */
#include <string.h>

#include "harness/rank/session.h"

static size_t count_of(const struct harness_session *session)
{
    return session->tensor_count - session->param_count;
}

static ddp_status make_room(struct harness_session *session)
{
    struct ddp_mem *mem = session->env->mem;

    session->kept_buffers = ddp_mem_array(mem, count_of(session), sizeof(*session->kept_buffers));
    if (session->kept_buffers == NULL) {
        return DDP_E_NOMEM;
    }
    for (size_t i = 0; i < count_of(session); i++) {
        session->kept_buffers[i] = ddp_mem_array(
            mem, ddp_param_size_bytes(&session->tensors[session->param_count + i]), 1);
        if (session->kept_buffers[i] == NULL) {
            return DDP_E_NOMEM;
        }
    }
    return DDP_OK;
}

ddp_status harness_session_keep_buffers(struct harness_session *session, uint64_t step)
{
    if (session->plan->job.on_loss != HARNESS_ON_LOSS_CONTINUE || count_of(session) == 0) {
        return DDP_OK;
    }
    if (session->kept_buffers == NULL) {
        DDP_TRY(make_room(session));
    }
    for (size_t i = 0; i < count_of(session); i++) {
        const struct ddp_param *buffer = &session->tensors[session->param_count + i];

        memcpy(session->kept_buffers[i], buffer->data, ddp_param_size_bytes(buffer));
    }
    session->kept_step = step;
    return DDP_OK;
}

void harness_session_put_back_buffers(struct harness_session *session, uint64_t step)
{
    for (size_t i = 0;
         session->kept_buffers != NULL && session->kept_step == step && i < count_of(session);
         i++) {
        const struct ddp_param *buffer = &session->tensors[session->param_count + i];

        memcpy(buffer->data, session->kept_buffers[i], ddp_param_size_bytes(buffer));
    }
}

void harness_session_drop_buffers(struct harness_session *session)
{
    for (size_t i = 0; session->kept_buffers != NULL && i < count_of(session); i++) {
        ddp_mem_free(session->env->mem, session->kept_buffers[i]);
    }
    ddp_mem_free(session->env->mem, session->kept_buffers);
    session->kept_buffers = NULL;
}
