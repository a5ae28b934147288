/* Paths from other samples than the sampler gives, and from counts of those who have any, to what
 * they lead to. */
#include "harness/judge/samples.h"

/* Wrong counts make a rank leave operations out, or post from another root. They change neither
 * what it adds up nor how many elements it sends. */
static bool is_decided_by_count(const struct harness_finding *b)
{
    return b->verdict == HARNESS_VERDICT_MISMATCH_MISSING ||
           b->verdict == HARNESS_VERDICT_MISMATCH_ROOT;
}

/* A rank that leaves a step out under join, and goes on, is a step ahead of the others from then
 * on. The others go by its count. */
bool harness_samples_is_step_ahead(const struct harness_paths *paths,
                                   const struct harness_finding *a, const struct harness_finding *b)
{
    return paths->plan->job.join.is_set && a->verdict == HARNESS_VERDICT_DATA_MISSING &&
           b->step >= a->step && is_decided_by_count(b) &&
           (harness_path_is_of(b, a)
                ? harness_path_is_ahead(paths, a, false)
                : harness_path_is_ahead(paths, a, true) &&
                      harness_path_is_steered(paths, harness_path_first_seq(paths, a->step), b));
}

bool harness_samples_is_count_wrong(const struct harness_finding *a)
{
    bool is_met_so = a->verdict == HARNESS_VERDICT_MISMATCH_REDUCTION ||
                     a->verdict == HARNESS_VERDICT_MISMATCH_BUCKET;

    return !is_met_so || harness_path_is_steering(a->op.role);
}

bool harness_samples_is_ended_by_count(const struct harness_paths *paths,
                                       const struct harness_finding *a,
                                       const struct harness_finding *b)
{
    return b->status == DDP_E_STATE && harness_samples_is_count_wrong(a) &&
           harness_path_is_steered(paths, a->op.seq, b);
}

bool harness_samples_is_miscounted(const struct harness_paths *paths,
                                   const struct harness_finding *a, const struct harness_finding *b)
{
    DDP_ASSERT(a != b);
    return a->op.seq != 0 && b->op.seq > a->op.seq && is_decided_by_count(b) &&
           harness_samples_is_count_wrong(a) && harness_path_is_steered(paths, a->op.seq, b);
}

/* The rank took all of its shard but one batch, and not all that the step needs. */
static bool is_used_up(const struct harness_paths *paths, uint32_t rank, int32_t step)
{
    const struct harness_job *job = &paths->plan->job;
    const uint64_t before = (uint64_t)job->start_step * job->micro_batches; /* of a restored run */
    size_t count = 0;
    size_t in_step = 0;

    if (job->shard_sizes == NULL || step < 0 || rank >= paths->index.world_size) {
        return false;
    }
    (void)harness_index_list(&paths->index, rank, DDP_EVENT_DATA_BATCH, &count);
    (void)harness_index_in_step(&paths->index, rank, DDP_EVENT_DATA_BATCH, (uint32_t)step,
                                &in_step);
    return in_step < job->micro_batches &&
           (before + count + 1) * job->batch_per_rank[rank] >= job->shard_sizes[rank];
}

/* Without join a rank whose data ends posts nothing more: one that left a batch out, a batch early.
 */
bool harness_samples_is_used_up(const struct harness_paths *paths, const struct harness_finding *a,
                                const struct harness_finding *b)
{
    bool is_missing = a->verdict == HARNESS_VERDICT_DATA_MISSING &&
                      b->verdict == HARNESS_VERDICT_MISMATCH_MISSING;

    DDP_ASSERT(a != b);
    if (paths->plan->job.join.is_set || !is_missing || !harness_path_is_of(b, a) ||
        !harness_path_is_in_time(a, b)) {
        return false;
    }
    for (uint32_t i = 0; i < harness_rank_set_count(&b->culprits); i++) {
        if (!is_used_up(paths, harness_rank_set_at(&b->culprits, i), b->step)) {
            return false;
        }
    }
    return true;
}

/* All ranks say that one's data ended; what it took instead of its data ended so early. */
bool harness_samples_is_ended_so(const struct harness_paths *paths, const struct harness_finding *a,
                                 const struct harness_finding *b)
{
    (void)paths;
    DDP_ASSERT(harness_verdict_family(a->verdict) == HARNESS_FAMILY_DATA);
    return a->oracle == HARNESS_ORACLE_LEDGER && b->oracle == HARNESS_ORACLE_USAGE &&
           harness_path_is_of(b, a) && harness_path_is_in_time(a, b);
}

/* Whether a division by one rank more, or less, explains it. The only number of a bucket that is
 * not zero has many factors, and shows none. */
static bool is_of_other_count(uint32_t ranks, const struct harness_finding *b)
{
    bool is = false;

    for (uint32_t n = 1; n < ranks; n++) {
        const double more = (double)(n + 1) / (double)n;
        const double less = (double)n / (double)(n + 1);

        is = is || (b->factor_low <= more && more <= b->factor_high) ||
             (b->factor_low <= less && less <= b->factor_high);
    }
    return is;
}

/* The rank is a step ahead of the others from then on, and its data ends a step earlier. So counts
 * of ranks with data are those of other steps, for all of them, where these divide averages; and in
 * the end another rank may be the last with data, whose buffers all have. */
static bool is_counted_so(const struct harness_paths *paths, const struct harness_finding *a,
                          const struct harness_finding *b)
{
    bool is_average = b->stage == HARNESS_STAGE_INPUT || b->stage == HARNESS_STAGE_FINAL;
    bool is_factor = b->verdict == HARNESS_VERDICT_VALUE_SCALED ||
                     b->verdict == HARNESS_VERDICT_VALUE_DUPLICATED ||
                     (b->verdict == HARNESS_VERDICT_VALUE_CORRUPTED &&
                      is_of_other_count(paths->plan->job.ranks, b));

    DDP_ASSERT(a != b);
    if (b->oracle == HARNESS_ORACLE_JOINED) {
        return b->params.count == 0;
    }
    return a->step < b->step && !paths->plan->job.join.divide_by_initial_world_size && is_average &&
           is_factor;
}

/* Another rank's contribution is divided by what is counted so; that makes it neither zero nor a
 * NaN. */
static bool is_own_loss(const struct harness_finding *a, const struct harness_finding *b)
{
    DDP_ASSERT(a != b);
    return b->stage == HARNESS_STAGE_INPUT && !harness_path_is_common(a, b) &&
           (b->verdict == HARNESS_VERDICT_VALUE_LOST ||
            b->verdict == HARNESS_VERDICT_VALUE_NONFINITE);
}

/* Values are judged for the batches that were taken: only the mean over the global batch has other
 * samples. But a rank that left a step out under join took none in it, or those of the next one. */
bool harness_samples_is_trained_so(const struct harness_paths *paths,
                                   const struct harness_finding *a, const struct harness_finding *b)
{
    bool is_ahead = paths->plan->job.join.is_set && a->verdict == HARNESS_VERDICT_DATA_MISSING &&
                    harness_path_is_ahead(paths, a, true);

    DDP_ASSERT(a != b);
    if (is_ahead && is_counted_so(paths, a, b)) {
        return true;
    }
    return a->step >= 0 && a->step == b->step &&
           (b->oracle == HARNESS_ORACLE_GLOBAL_BATCH ||
            (is_ahead && !is_own_loss(a, b) &&
             (b->stage == HARNESS_STAGE_INPUT || b->stage == HARNESS_STAGE_FINAL ||
              b->op.role == DDP_ROLE_USED_MAP)));
}
