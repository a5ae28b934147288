/* How many entries a rank's ring needs so that its whole history stays in it. */
#include "harness/launch/launch.h"
#include "harness/rank/rank.h"

/* Batches that a rank evaluates, if it does so alone. */
static uint64_t evaluated_batches(const struct harness_plan *plan)
{
    const struct harness_job *job = &plan->job;
    uint64_t rows = UINT64_MAX; /* the smallest batch */

    if (job->evaluate_every == 0) {
        return 0;
    }
    for (uint32_t r = 0; r < job->ranks; r++) {
        rows = job->batch_per_rank[r] < rows ? job->batch_per_rank[r] : rows;
    }
    DDP_ASSERT(rows > 0);
    return ((uint64_t)job->steps / job->evaluate_every + 1) *
           (harness_rank_sample_count(plan) / rows + 1);
}

/* What an observed GPU adds: accesses and edges of every kernel, and of every collective with its
 * copies for hashing. */
static uint64_t device_entry_count(const struct harness_plan *plan,
                                   const struct harness_program *program, uint64_t micros)
{
    if (!harness_plan_is_cuda(plan)) {
        return 0;
    }
    return micros * (48 * program->param_count + 64) +
           evaluated_batches(plan) * (16 * program->param_count + 32) +
           program->op_count * (32 + 12 * (uint64_t)plan->job.ranks);
}

/* Events of a step and micro-batch are a few a parameter, one a buffer, two a collective, one a
 * sample, and a handful. All of it is doubled, for failures and joins; memory that is not written
 * costs nothing.
 */
uint64_t harness_launch_ring_entry_count(const struct harness_plan *plan,
                                         const struct harness_program *program)
{
    uint64_t micros = ((uint64_t)plan->job.steps + 2) *
                      (plan->job.micro_batches != 0 ? plan->job.micro_batches : 1);
    uint64_t batch = 0;
    uint64_t need;
    uint64_t count = 4096;

    for (uint32_t r = 0; r < plan->job.ranks; r++) {
        batch = plan->job.batch_per_rank[r] > batch ? plan->job.batch_per_rank[r] : batch;
    }
    need = 2 * (micros * (32 + 8 * program->param_count + 2 * program->buffer_count +
                          4 * harness_program_bucket_max(program) + batch) +
                8 * program->op_count + 16 * program->param_count + 512 +
                device_entry_count(plan, program, micros));
    if (plan->job.on_loss == HARNESS_ON_LOSS_CONTINUE) {
        need *= 2; /* a beginning more, and all of the state */
    }
    while (count < need) {
        count *= 2;
    }
    return count;
}
