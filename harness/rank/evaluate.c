/* Evaluation: the mean loss over the whole dataset. On rank 0 alone, through the model itself, so
 * that nothing is posted; or each rank on its share, without padding, and one all-gather of what
 * the shares come to: every rank adds them up in the order of the ranks, so all have the same bits.
 */
#include <string.h>

#include "harness/rank/session.h"

/* What a rank's share comes to, and what is exchanged. */
struct tally {
    double loss; /* sum over samples */
    double count;
};

struct share {
    uint64_t first, stride, count;
};

/* Point evaluate: a fault may alter the share, or pad it, or leave the evaluation out. */
static ddp_status take_share(struct harness_session *session, struct share *out, bool *out_skipped)
{
    const bool is_sharded = session->plan->job.evaluation == HARNESS_EVALUATION_SHARDED;
    const uint64_t total = session->data->sample_count;
    struct ddp_fault_context place = DDP_FAULT_CONTEXT_NONE;
    int64_t options[] = {is_sharded ? session->env->rank : 0,
                         is_sharded ? session->plan->job.ranks : 1, 0};
    enum ddp_fault_action action;

    place.data = options;
    place.elem_count = sizeof options / sizeof options[0];
    place.dtype = DDP_DTYPE_I64;
    action = ddp_fault_point(session->env->faults, DDP_FAULT_POINT_EVALUATE, &place);
    *out_skipped = action == DDP_FAULT_SKIP;
    if (action == DDP_FAULT_FAIL) {
        return ddp_err_set(session->err, DDP_E_INJECTED, "the evaluation failed");
    }
    if (options[0] < 0 || options[1] < 1 || options[0] >= options[1]) {
        return ddp_err_set(session->err, DDP_E_INVALID,
                           "a fault made the evaluation one of share %lld of %lld",
                           (long long)options[0], (long long)options[1]);
    }
    *out = (struct share){(uint64_t)options[0], (uint64_t)options[1], 0};
    out->count = total > out->first ? (total - out->first - 1) / out->stride + 1 : 0;
    if (options[2] != 0) { /* as a DistributedSampler for training does it */
        out->count = (total + out->stride - 1) / out->stride;
    }
    return DDP_OK;
}

static ddp_status evaluate_rows(struct harness_session *session, uint32_t step,
                                const uint32_t *samples, size_t rows, struct tally *tally)
{
    const struct ref_data *data = session->data;
    const struct ref_batch batch = {.rank = session->env->rank,
                                    .step = step,
                                    .rows = rows,
                                    .samples = samples,
                                    .features = session->features,
                                    .labels = data->labels == NULL ? NULL : session->labels,
                                    .targets = data->targets == NULL ? NULL : session->targets};
    float loss;

    ref_data_gather(data, samples, rows, session->features, session->labels, session->targets);
    DDP_TRY(ref_model_forward(session->model, &batch, NULL, &loss));
    tally->loss += (double)loss * (double)rows;
    tally->count += (double)rows;
    return DDP_OK;
}

static ddp_status evaluate_share(struct harness_session *session, uint32_t step,
                                 const struct share *share, struct tally *tally)
{
    const uint64_t total = session->data->sample_count;
    uint32_t *samples = session->evaluated.samples;
    ddp_status status = DDP_OK;
    size_t rows = 0;

    for (uint64_t i = 0; i < share->count && status == DDP_OK; i++) {
        samples[rows++] = (uint32_t)((share->first + i * share->stride) % total);
        if (rows == session->batch_rows || i + 1 == share->count) {
            status = evaluate_rows(session, step, samples, rows, tally);
            session->env->idle->ops->progress(session->env->idle);
            rows = 0;
        }
    }
    return status;
}

/* Every rank's tally, and their sum in the order of the ranks. */
static ddp_status exchange(struct harness_session *session, const struct tally *own,
                           struct tally *out)
{
    struct ddp_device *device = session->device;
    const uint32_t ranks = session->plan->job.ranks;
    struct ddp_coll_args args = {.kind = DDP_COLL_ALL_GATHER,
                                 .dtype = DDP_DTYPE_F64,
                                 .role = DDP_ROLE_EVALUATION,
                                 .elem_count = sizeof *own / sizeof own->loss};
    struct tally *all = session->evaluated.tallies;

    device->hints->host_access(device, all, sizeof *own, true);
    all[0] = *own;
    args.input = &all[0];
    args.output = &all[1];
    DDP_TRY(ddp_group_run(&session->group, &args));
    device->hints->host_access(device, &all[1], ranks * sizeof *own, false);
    for (uint32_t r = 0; r < ranks; r++) {
        out->loss += all[1 + r].loss;
        out->count += all[1 + r].count;
    }
    return DDP_OK;
}

/* Kept from the first evaluation on. After a loss there are fewer ranks, never more. */
static ddp_status make_room(struct harness_session *session)
{
    struct ddp_device *device = session->device;
    void *block = NULL;

    if (session->evaluated.samples == NULL) {
        session->evaluated.samples = ddp_mem_array(session->env->mem, session->batch_rows,
                                                   sizeof session->evaluated.samples[0]);
    }
    if (session->evaluated.samples == NULL) {
        return DDP_E_NOMEM;
    }
    if (session->evaluated.tallies == NULL) {
        DDP_TRY(device->ops->alloc(device, (session->plan->job.ranks + 1) * sizeof(struct tally),
                                   DDP_SPACE_HOST, &block));
        session->evaluated.tallies = block;
    }
    return DDP_OK;
}

void harness_session_end_evaluations(struct harness_session *session)
{
    ddp_mem_free(session->env->mem, session->evaluated.samples);
    if (session->evaluated.tallies != NULL) {
        session->device->ops->free(session->device, DDP_SPACE_HOST, session->evaluated.tallies);
    }
    session->evaluated = (struct harness_evaluated){NULL, NULL};
}

static uint64_t bits_of(double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof bits);
    return bits;
}

ddp_status harness_session_evaluate(struct harness_session *session, uint32_t step)
{
    const struct harness_job *job = &session->plan->job;
    const bool is_sharded = job->evaluation == HARNESS_EVALUATION_SHARDED;
    struct tally own = {0}, total = {0};
    struct share share = {0};
    bool is_skipped;

    if (job->evaluate_every == 0 || (step + 1) % job->evaluate_every != 0 ||
        (!is_sharded && session->env->rank != 0)) {
        return DDP_OK;
    }
    harness_session_phase(session, DDP_PHASE_FORWARD);
    DDP_TRY(ddp_round_params(session->ddp));
    DDP_TRY(take_share(session, &share, &is_skipped));
    if (is_skipped) {
        return DDP_OK;
    }
    DDP_TRY(make_room(session));
    DDP_TRY(evaluate_share(session, step, &share, &own));
    total = own;
    if (is_sharded) {
        total = (struct tally){0};
        DDP_TRY(exchange(session, &own, &total));
    }
    ddp_recorder_event(session->env->recorder, DDP_EVENT_EVALUATED, (uint64_t)own.count,
                       bits_of(own.loss), (uint64_t)total.count, bits_of(total.loss), 0);
    return DDP_OK;
}
