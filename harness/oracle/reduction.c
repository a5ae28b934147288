/* Purpose: what went into and came out of each bucket's all-reduce, against scaled local gradients
 * and the sums that the dumped schedules make of them; and those schedules themselves.
 * Idea: a wrong input names its rank; a wrong output with right inputs names the ranks that hold
 * it. */
#include <stdio.h>

#include "harness/oracle/subject.h"

static bool is_completed(const struct harness_emulation *e, uint32_t step, uint32_t bucket)
{
    for (uint32_t r = 0; r < e->world; r++) {
        size_t count = 0;
        const struct harness_trace_event *const *list =
            harness_index_list(&e->index, r, DDP_EVENT_COLL_DONE, &count);

        for (size_t i = 0; i < count; i++) {
            struct ddp_event_op op = ddp_event_op_unpack(list[i]->entry.arg[1]);

            if (op.role == DDP_ROLE_BUCKET && op.index == bucket && list[i]->entry.step == step &&
                harness_index_status(list[i]->entry.arg[3]) == DDP_OK) {
                return true;
            }
        }
    }
    return false;
}

/* A rank is known to have posted something else by then: no wonder that no schedule is left. */
static bool is_off_program(const struct harness_emulation *e, uint32_t step, uint32_t bucket,
                           const struct harness_findings *out)
{
    const struct harness_program *program = e->input->program;
    uint64_t seq = 0;

    for (size_t i = 0; i < program->op_count && seq == 0; i++) {
        const struct harness_op *op = &program->ops[i];
        bool is_bucket = op->role == DDP_ROLE_BUCKET && op->index == bucket;

        seq = is_bucket && op->step == (int32_t)step ? op->seq : 0;
    }
    for (size_t i = 0; i < out->count; i++) {
        const struct harness_finding *finding = &out->items[i];

        if (finding->oracle == HARNESS_ORACLE_PROGRAM && finding->op.seq <= seq) {
            return true;
        }
    }
    return false;
}

ddp_status harness_check_schedule(const struct harness_emulation *e, struct harness_findings *out,
                                  struct ddp_err *err)
{
    (void)err;
    for (size_t s = 0; s < e->schedules.set_count; s++) {
        DDP_TRY(harness_schedule_set_prove(&e->schedules.sets[s], out));
    }
    if (e->unknown_sum.is_set && is_completed(e, e->unknown_sum.step, e->unknown_sum.bucket) &&
        !is_off_program(e, e->unknown_sum.step, e->unknown_sum.bucket, out)) {
        out->is_evidence_lost = true;
        (void)snprintf(out->lost_text, sizeof(out->lost_text),
                       "bucket %u was reduced in step %u, and its order is not known: %s",
                       e->unknown_sum.bucket, e->unknown_sum.step, e->unknown_sum.why);
    }
    return DDP_OK;
}

/* What is wrong with a tensor of each stage: while it is not at hand, and whose it is. */
static const struct {
    const char *what, *whose;
} words[HARNESS_STAGE_COUNT] = {
    [HARNESS_STAGE_INPUT] = {"the input is not the scaled local gradients:", "input"},
    [HARNESS_STAGE_OUTPUT] =
        {"the output is not the inputs' sum in the declared or measured order:", "output"},
    [HARNESS_STAGE_FINAL] = {"the gradient copied back is not the reduced one:",
                             "gradient copied back"},
};

static void report(const struct harness_emulation *e, const struct harness_difference *difference,
                   struct harness_findings *out)
{
    const struct harness_description *what = &difference->first.what;
    struct harness_finding finding;
    char ranks[96];

    harness_finding_init(&finding, out->mem, harness_subject_verdict(difference),
                         HARNESS_ORACLE_REDUCTION, HARNESS_MODE_BITWISE);
    finding.stage = (int32_t)difference->stage;
    harness_subject_set_difference(e, difference, &finding);
    (void)harness_subject_ranks_text(&difference->ranks, ranks, sizeof(ranks));
    if (what->text != NULL) {
        (void)snprintf(finding.text, sizeof(finding.text), "step %u, bucket %d, %s of %s: %s",
                       difference->step, difference->first.bucket, words[difference->stage].whose,
                       ranks, what->text);
    } else {
        (void)snprintf(finding.text, sizeof(finding.text),
                       "%s of bucket %d in step %u (%s%s) on %s", words[difference->stage].what,
                       difference->first.bucket, difference->step,
                       harness_subject_param_name(e, (int32_t)harness_list_at(&finding.params, 0)),
                       finding.params.count > 1 ? ", ..." : "", ranks);
    }
    harness_findings_add(out, &finding);
}

ddp_status harness_check_reduction(const struct harness_emulation *e, struct harness_findings *out,
                                   struct ddp_err *err)
{
    (void)err;
    for (size_t i = 0; i < e->compare.count && !harness_emulation_is_restore(e); i++) {
        if (words[e->compare.items[i].stage].what != NULL) {
            report(e, &e->compare.items[i], out);
        }
    }
    return DDP_OK;
}
