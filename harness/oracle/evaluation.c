/* Purpose: every sample is evaluated once, with the loss that the model has on it, and all ranks
 * come to the same result. Idea: the plan says which rank evaluates which samples after which step;
 * the emulation works out what they come to (harness/emulation/evaluate.c). The sums that ranks
 * report are added up again, in the order of the ranks. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ddpcore/base/hash.h"
#include "harness/oracle/subject.h"
#include "reference/data.h"

static double double_of(uint64_t bits)
{
    double value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The same number, or both are none. */
static bool is_same(double a, double b)
{
    return (isnan(a) && isnan(b)) || (a <= b && a >= b);
}

static const struct harness_trace_event *find_event(const struct harness_emulation *e,
                                                    uint32_t rank, uint32_t step)
{
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_in_step(&e->index, rank, DDP_EVENT_EVALUATED, step, &count);

    return count > 0 ? list[0] : NULL;
}

/* What a rank is to evaluate; of rank 0's evaluation, the others nothing. */
static uint64_t due_of(const struct harness_emulation *e, uint32_t rank, uint64_t total)
{
    if (e->input->plan->job.evaluation == HARNESS_EVALUATION_RANK0) {
        return rank == 0 ? total : 0;
    }
    return total / e->world + (rank < total % e->world ? 1 : 0);
}

static void begin(enum harness_verdict verdict, uint32_t rank, uint32_t step,
                  struct harness_findings *out, struct harness_finding *finding)
{
    harness_finding_init(finding, out->mem, verdict, HARNESS_ORACLE_LEDGER, HARNESS_MODE_LEDGER);
    harness_rank_set_add(&finding->culprits, rank);
    finding->step = (int32_t)step;
}

static bool check_count(const struct harness_emulation *e, uint32_t rank, uint32_t step,
                        uint64_t total, const struct harness_trace_event *event,
                        struct harness_findings *out)
{
    const uint64_t count = event->entry.arg[0];
    const uint64_t due = due_of(e, rank, total);
    struct harness_finding finding;

    if (count == due) {
        return true;
    }
    begin(count > due ? HARNESS_VERDICT_DATA_DUPLICATED : HARNESS_VERDICT_DATA_MISSING, rank, step,
          out, &finding);
    (void)snprintf(finding.text, sizeof finding.text,
                   "rank %u evaluated %llu samples after step %u, its share of %llu is %llu%s",
                   rank, (unsigned long long)count, step, (unsigned long long)total,
                   (unsigned long long)due, count > due ? ": some count twice in the metric" : "");
    harness_findings_add(out, &finding);
    return false;
}

/* What one rank's evaluation should come to; false: that is not known, or it evaluates nothing. */
static bool expect_loss(const struct harness_emulation *e, uint32_t rank, uint32_t step,
                        double *out)
{
    const size_t at = (step - e->start_step) * (size_t)e->world + rank;

    if (step >= e->end_step || !e->expected.is_evaluated[at]) {
        return false;
    }
    *out = e->expected.evaluated[at];
    return true;
}

/* The other rank whose share the rank evaluated, by its loss; world: none. */
static uint32_t find_share(const struct harness_emulation *e, uint32_t rank, uint32_t step,
                           double got)
{
    double loss;

    for (uint32_t r = 0; r < e->world; r++) {
        if (r != rank && !isnan(got) && expect_loss(e, r, step, &loss) && is_same(got, loss)) {
            return r;
        }
    }
    return e->world;
}

/* Of as many samples as are due: whether they were the rank's own, and their loss is right. */
static void check_loss(const struct harness_emulation *e, uint32_t rank, uint32_t step,
                       const struct harness_trace_event *event, struct harness_findings *out)
{
    const double got = double_of(event->entry.arg[1]);
    struct harness_finding finding;
    double loss;
    uint32_t other;

    if (!expect_loss(e, rank, step, &loss) || is_same(got, loss)) {
        return;
    }
    other = find_share(e, rank, step, got);
    if (other < e->world) {
        begin(HARNESS_VERDICT_DATA_DUPLICATED, rank, step, out, &finding);
        (void)snprintf(finding.text, sizeof finding.text,
                       "rank %u evaluated the samples of rank %u after step %u: they count twice "
                       "in the metric, and its own are left out",
                       rank, other, step);
    } else {
        begin(isfinite(got) ? HARNESS_VERDICT_VALUE_CORRUPTED : HARNESS_VERDICT_VALUE_NONFINITE,
              rank, step, out, &finding);
        (void)snprintf(finding.text, sizeof finding.text,
                       "rank %u has a loss of %.17g over its %llu samples after step %u, its model "
                       "has %.17g on them",
                       rank, got, (unsigned long long)event->entry.arg[0], step, loss);
    }
    harness_findings_add(out, &finding);
}

/* The collective in which the rank's sums went to all after that step; NULL: none. */
static const struct harness_trace_event *find_post(const struct harness_emulation *e, uint32_t rank,
                                                   uint32_t step)
{
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_in_step(&e->index, rank, DDP_EVENT_COLL_POST, step, &count);

    for (size_t i = 0; i < count; i++) {
        if (ddp_event_op_unpack(list[i]->entry.arg[1]).role == DDP_ROLE_EVALUATION) {
            return list[i];
        }
    }
    return NULL;
}

static uint64_t seq_of(const struct harness_emulation *e, uint32_t rank, uint32_t step)
{
    const struct harness_trace_event *post = find_post(e, rank, step);

    return post != NULL ? post->entry.arg[0] : 0;
}

/* The sums that the rank says that it has, a loss and a number, are those that it gave away. */
static bool is_share_given(const struct harness_emulation *e, uint32_t rank, uint32_t step,
                           const struct harness_trace_event *event)
{
    const struct harness_trace_event *post = find_post(e, rank, step);
    const double share[] = {double_of(event->entry.arg[1]), (double)event->entry.arg[0]};
    char salt[64];

    if (post == NULL || post->entry.arg[4] == 0) {
        return true;
    }
    (void)snprintf(salt, sizeof salt, "%s/%u", ddp_coll_role_name(DDP_ROLE_EVALUATION),
                   ddp_event_op_unpack(post->entry.arg[1]).index);
    return ddp_hash_tensor(share, sizeof share, ddp_hash_text(salt), NULL) == post->entry.arg[4];
}

/* Then it is the rank's own fault that totals are not those of what ranks say. */
static void check_given(const struct harness_emulation *e, uint32_t rank, uint32_t step,
                        const struct harness_trace_event *event, struct harness_findings *out)
{
    struct harness_finding finding;

    if (is_share_given(e, rank, step, event)) {
        return;
    }
    begin(HARNESS_VERDICT_VALUE_CORRUPTED, rank, step, out, &finding);
    (void)snprintf(finding.text, sizeof finding.text,
                   "rank %u gave away other sums after step %u than a loss of %.17g over its %llu "
                   "samples",
                   rank, step, double_of(event->entry.arg[1]),
                   (unsigned long long)event->entry.arg[0]);
    harness_findings_add(out, &finding);
}

/* What the rank has made of all ranks' sums. Of a rank that left operations out before they met
 * those of another step. */
static void check_total(const struct harness_emulation *e, uint32_t rank, uint32_t step,
                        const struct harness_trace_event *event, struct harness_findings *out)
{
    const bool is_sharded = e->input->plan->job.evaluation == HARNESS_EVALUATION_SHARDED;
    struct harness_finding finding;
    uint64_t count = 0;
    double loss = 0;
    double got = double_of(event->entry.arg[3]);

    for (uint32_t r = 0; r < e->world; r++) {
        const struct harness_trace_event *other =
            is_sharded || r == rank ? find_event(e, r, step) : NULL;

        if (is_sharded && (other == NULL || seq_of(e, r, step) != seq_of(e, rank, step) ||
                           !is_share_given(e, r, step, other))) {
            return; /* what it would have given is not known */
        }
        count += other != NULL ? other->entry.arg[0] : 0;
        loss += other != NULL ? double_of(other->entry.arg[1]) : 0;
    }
    if (count == event->entry.arg[2] && is_same(loss, got)) {
        return;
    }
    begin(isnan(got) ? HARNESS_VERDICT_VALUE_NONFINITE : HARNESS_VERDICT_VALUE_CORRUPTED, rank,
          step, out, &finding);
    (void)snprintf(finding.text, sizeof finding.text,
                   "rank %u has a loss of %.17g over %llu samples after step %u, the ranks' shares "
                   "come to %.17g over %llu",
                   rank, got, (unsigned long long)event->entry.arg[2], step, loss,
                   (unsigned long long)count);
    harness_findings_add(out, &finding);
}

/* Whether the rank took the step's last micro-batch. If it did not, it left the step out or its
 * data ended. Another finding says that, and it is why the rank did not evaluate. */
static bool is_step_run(const struct harness_emulation *e, uint32_t rank, uint32_t step)
{
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_in_step(&e->index, rank, DDP_EVENT_DATA_BATCH, step, &count);

    return count > 0 && list[count - 1]->entry.micro + 1U == e->input->plan->job.micro_batches;
}

/* Of rank 0's own evaluation nothing is posted that could be missed. */
static void check_left_out(const struct harness_emulation *e, uint32_t step,
                           struct harness_findings *out)
{
    struct harness_finding finding;

    if (e->input->plan->job.evaluation != HARNESS_EVALUATION_RANK0 ||
        !harness_index_is_ended_ok(&e->index, 0) || find_event(e, 0, step) != NULL ||
        !is_step_run(e, 0, step)) {
        return;
    }
    begin(HARNESS_VERDICT_DATA_MISSING, 0, step, out, &finding);
    (void)snprintf(finding.text, sizeof finding.text, "rank 0 evaluated nothing after step %u",
                   step);
    harness_findings_add(out, &finding);
}

ddp_status harness_check_evaluations(const struct harness_emulation *e,
                                     struct harness_findings *out, struct ddp_err *err)
{
    const struct harness_job *job = &e->input->plan->job;
    const struct ref_data_config config = {
        .name = job->data, .sample_count = job->samples, .feature_count = job->features};
    struct ref_data_sizes data;

    if (job->evaluate_every == 0) {
        return DDP_OK;
    }
    DDP_TRY(ref_data_describe(&config, &data, err));
    for (uint32_t step = e->start_step; step < job->steps; step++) {
        if ((step + 1) % job->evaluate_every != 0) {
            continue;
        }
        check_left_out(e, step, out);
        for (uint32_t r = 0; r < e->world; r++) {
            const struct harness_trace_event *event = find_event(e, r, step);

            if (event != NULL && check_count(e, r, step, data.sample_count, event, out)) {
                check_loss(e, r, step, event, out);
                check_given(e, r, step, event, out);
                check_total(e, r, step, event, out);
            }
        }
    }
    return DDP_OK;
}
