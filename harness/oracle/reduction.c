/* Purpose: what went into and came out of each bucket's all-reduce, against scaled local gradients
 * and the sums that the dumped schedules make of them.
 * Idea: a wrong input names its rank; a wrong output with right inputs names the ranks that hold
 * it. */
#include <stdio.h>

#include "harness/oracle/subject.h"

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
