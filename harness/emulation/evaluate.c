/* Purpose: the loss that each rank should find when it evaluates its share of the dataset.
 * Idea: rank r takes samples r, r + world, ... without padding, in batches as large as those that
 * it trains with, on the model that it holds after the step; or rank 0 takes all of them. A batch's
 * mean is a float, and the means are added up, times their rows, in doubles. */
#include <string.h>

#include "harness/emulation/internal.h"

/* First sample and distance of a rank's samples; false: it evaluates nothing. */
static bool share_of(const struct harness_emulation *e, uint32_t rank, uint64_t *out_first,
                     uint64_t *out_stride)
{
    const bool is_sharded = e->input->plan->job.evaluation == HARNESS_EVALUATION_SHARDED;

    *out_first = is_sharded ? rank : 0;
    *out_stride = is_sharded ? e->world : 1;
    return is_sharded || rank == 0;
}

/* The rank's model is known, and its batches are as large as they should be. */
static bool is_known(const struct harness_emulation *e, uint32_t rank)
{
    const struct harness_camp *camp = harness_emulation_camp(e, rank);

    for (size_t i = 0; i < e->batch_count; i++) {
        if (e->batches[i].rank == rank && e->batches[i].verdict == HARNESS_VERDICT_DATA_BATCH) {
            return false;
        }
    }
    return !e->is_lost && memchr(camp->is_known, false, e->params.count) == NULL;
}

static ddp_status evaluate_rank(struct harness_emulation *e, struct harness_trainer *trainer,
                                uint32_t rank, uint32_t step, uint32_t *samples, double *out_loss)
{
    const uint64_t total = ref_trainer_data(trainer->trainer)->sample_count;
    const size_t rows_max = e->shard.batch_rows[rank];
    struct ref_samples given = {samples, 0};
    uint64_t first;
    uint64_t stride;
    double sum = 0;

    DDP_TRY(harness_trainer_load(e, trainer, rank, rank));
    (void)share_of(e, rank, &first, &stride);
    for (uint64_t sample = first; sample < total; sample += stride) {
        samples[given.rows++] = (uint32_t)sample;
        if (given.rows == rows_max || sample + stride >= total) {
            float mean;

            DDP_TRY(ref_trainer_loss_of(trainer->trainer, step, &given, &mean));
            sum += (double)mean * (double)given.rows;
            given.rows = 0;
        }
    }
    *out_loss = sum;
    return DDP_OK;
}

ddp_status harness_emulation_evaluate(struct harness_emulation *e, uint32_t step,
                                      struct ddp_err *err)
{
    const uint32_t every = e->input->plan->job.evaluate_every;
    struct harness_trainer *trainer = NULL;
    ddp_status status = DDP_OK;

    if (!e->is_judging || every == 0 || (step + 1) % every != 0) {
        return DDP_OK;
    }
    DDP_TRY(harness_trainer_take(e, &trainer, err));
    for (uint32_t r = 0; status == DDP_OK && r < e->world; r++) {
        const size_t at = (step - e->start_step) * (size_t)e->world + r;
        uint64_t first;
        uint64_t stride;
        uint32_t *samples;

        if (!share_of(e, r, &first, &stride) || !is_known(e, r)) {
            continue;
        }
        samples = ddp_mem_array(e->mem, e->shard.batch_rows[r], sizeof *samples);
        status = samples == NULL
                     ? DDP_E_NOMEM
                     : evaluate_rank(e, trainer, r, step, samples, &e->expected.evaluated[at]);
        e->expected.is_evaluated[at] = status == DDP_OK;
        ddp_mem_free(e->mem, samples);
    }
    harness_trainer_give(e, trainer);
    return status;
}
