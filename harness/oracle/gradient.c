/* Purpose: each rank's local gradients, bit for bit those that the reference computes for the
 * same batch on the same parameters; and before them the statistics that BatchNorms exchange.
 * Idea: hashes show that a gradient differs; tensors that a replay kept show how. */
#include <stdio.h>

#include "harness/oracle/subject.h"

static void write_loss(const struct harness_difference *difference, const char *ranks,
                       struct harness_finding *finding)
{
    (void)snprintf(finding->text, sizeof(finding->text),
                   "the loss of step %u differs on %s: bits %08llx, the reference has %08llx",
                   difference->step, ranks, (unsigned long long)difference->first.got,
                   (unsigned long long)difference->first.expected);
}

static void write_statistic(const struct harness_difference *difference, const char *ranks,
                            struct harness_finding *finding)
{
    const char *text = difference->first.what.text;

    (void)snprintf(finding->text, sizeof(finding->text), "step %u, on %s: %s", difference->step,
                   ranks,
                   text != NULL ? text : "what a BatchNorm exchanges is not the reference's");
}

static void report(const struct harness_emulation *e, const struct harness_difference *difference,
                   struct harness_findings *out)
{
    const struct harness_description *what = &difference->first.what;
    struct harness_finding finding;
    char ranks[96];

    harness_finding_init(&finding, out->mem, harness_subject_verdict(difference),
                         HARNESS_ORACLE_GRADIENT, HARNESS_MODE_BITWISE);
    finding.stage =
        (int32_t)(difference->first.is_result ? HARNESS_STAGE_OUTPUT : difference->stage);
    harness_subject_set_difference(e, difference, &finding);
    (void)harness_subject_ranks_text(&difference->ranks, ranks, sizeof(ranks));
    if (difference->stage == HARNESS_STAGE_STATISTIC) {
        harness_subject_set_op(e, difference->first.seq, &finding);
        write_statistic(difference, ranks, &finding);
    } else if (difference->first.is_loss) {
        write_loss(difference, ranks, &finding);
    } else if (what->text != NULL) {
        (void)snprintf(finding.text, sizeof(finding.text),
                       "step %u, the local gradient on %s: %s%s", difference->step, ranks,
                       what->text, difference->params.count > 1 ? ", and others" : "");
    } else {
        (void)snprintf(finding.text, sizeof(finding.text),
                       "the local gradient of %s in step %u is not the reference's on %s",
                       harness_subject_param_name(e, difference->first.param), difference->step,
                       ranks);
    }
    harness_findings_add(out, &finding);
}

ddp_status harness_check_gradient(const struct harness_emulation *e, struct harness_findings *out,
                                  struct ddp_err *err)
{
    (void)err;
    for (size_t i = 0; i < e->compare.count && !harness_emulation_is_restore(e); i++) {
        if (e->compare.items[i].stage == HARNESS_STAGE_GRADIENT ||
            e->compare.items[i].stage == HARNESS_STAGE_STATISTIC) {
            report(e, &e->compare.items[i], out);
        }
    }
    return DDP_OK;
}
