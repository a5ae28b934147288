/* Where the samples of a job go on, in the metadata of its checkpoint. */
#include <inttypes.h>
#include <stdio.h>

#include "ddpcore/checkpoint/state_dict.h"
#include "harness/rank/session.h"

#define SAMPLER_EPOCH "sampler_epoch"
#define SAMPLER_USED  "sampler_used"

static ddp_status set_number(struct ddp_state_dict *dict, const char *key, uint64_t value)
{
    char text[24];

    (void)snprintf(text, sizeof text, "%" PRIu64, value);
    return ddp_state_dict_set_meta(dict, key, text);
}

/* Where the samples go on. Of shares of given sizes, and of ranks that take more or fewer samples
 * at a time than others, no one place says that. */
ddp_status harness_session_put_position(const struct harness_session *session,
                                        struct ddp_state_dict *dict)
{
    const struct harness_job *job = &session->plan->job;
    const uint64_t index = session->steps_done * session->job.micro_batches;
    const struct ddp_sampler_state state = harness_batches_state(&session->batches, index);

    for (uint32_t r = 0; r < job->ranks; r++) {
        if (job->shard_sizes != NULL || job->batch_per_rank[r] != job->batch_per_rank[0]) {
            return DDP_OK;
        }
    }
    DDP_TRY(set_number(dict, SAMPLER_EPOCH, state.epoch));
    return set_number(dict, SAMPLER_USED, state.used);
}

/* A file that says nothing of samples is gone on from by its steps alone. */
ddp_status harness_session_take_position(struct harness_session *session,
                                         const struct ddp_state_dict *file)
{
    const char *epoch = ddp_state_dict_meta(file, SAMPLER_EPOCH);
    const char *used = ddp_state_dict_meta(file, SAMPLER_USED);
    uint64_t samples = 0;

    if (epoch == NULL && used == NULL) {
        return DDP_OK;
    }
    if (epoch == NULL || used == NULL ||
        ddp_text_parse_u64(epoch, &session->resume.epoch) != DDP_OK ||
        session->resume.epoch > INT32_MAX || ddp_text_parse_u64(used, &samples) != DDP_OK ||
        samples >= session->data->sample_count) {
        return ddp_err_set(session->err, DDP_E_CORRUPT,
                           "the checkpoint goes on in epoch \"%.20s\" behind \"%.20s\" of %zu "
                           "samples",
                           epoch != NULL ? epoch : "", used != NULL ? used : "",
                           session->data->sample_count);
    }
    session->resume.used = (size_t)samples;
    session->is_resuming = true;
    return DDP_OK;
}
