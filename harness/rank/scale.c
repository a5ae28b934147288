/* The scale of the loss: between steps, and in a checkpoint's metadata. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ddpcore/base/text.h"
#include "ddpcore/checkpoint/state_dict.h"
#include "harness/rank/session.h"

static bool is_scaling(const struct harness_session *session)
{
    return session->plan->job.optimizer.loss_scale > 0;
}

ddp_status harness_session_unscale(struct harness_session *session)
{
    return is_scaling(session) ? ddp_scaler_unscale(&session->scaler, session->ddp) : DDP_OK;
}

void harness_session_rescale(struct harness_session *session)
{
    if (is_scaling(session)) {
        ddp_scaler_update(&session->scaler);
    }
}

static ddp_status set(struct ddp_state_dict *dict, const char *key, uint64_t value)
{
    char text[24];

    (void)snprintf(text, sizeof text, "%" PRIu64, value);
    return ddp_state_dict_set_meta(dict, key, text);
}

/* The scale as the bits of a float, so that it comes back as it was. */
ddp_status harness_session_save_scale(const struct harness_session *session,
                                      struct ddp_state_dict *dict)
{
    uint32_t bits;

    if (!is_scaling(session)) {
        return DDP_OK;
    }
    memcpy(&bits, &session->scaler.scale, sizeof bits);
    DDP_TRY(set(dict, "loss_scale_bits", bits));
    return set(dict, "growth_tracker", session->scaler.growth_tracker);
}

static ddp_status get(const struct harness_session *session, const struct ddp_state_dict *dict,
                      const char *key, uint64_t *out)
{
    const char *text = ddp_state_dict_meta(dict, key);

    return text != NULL && ddp_text_parse_u64(text, out) == DDP_OK
               ? DDP_OK
               : ddp_err_set(session->err, DDP_E_CORRUPT, "%s of the checkpoint is \"%.40s\"", key,
                             text != NULL ? text : "missing");
}

ddp_status harness_session_load_scale(struct harness_session *session,
                                      const struct ddp_state_dict *dict)
{
    uint64_t bits = 0;
    uint32_t word;
    float scale;

    if (!is_scaling(session)) {
        return DDP_OK;
    }
    DDP_TRY(get(session, dict, "loss_scale_bits", &bits));
    DDP_TRY(get(session, dict, "growth_tracker", &session->scaler.growth_tracker));
    word = (uint32_t)bits;
    memcpy(&scale, &word, sizeof scale);
    if (bits > UINT32_MAX || !(scale > 0.0f)) {
        return ddp_err_set(session->err, DDP_E_CORRUPT,
                           "loss_scale_bits of the checkpoint is %" PRIu64 ", no scale", bits);
    }
    session->scaler.scale = scale;
    return DDP_OK;
}
