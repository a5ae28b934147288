/* Purpose: each rank's local gradients, bit for bit those that the reference computes for the
 * same batch on the same parameters.
 * Idea: hashes show that a gradient differs; the payload run shows how (describe.c). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "harness/oracle/subject.h"

static bool is_finite_bits(uint64_t bits)
{
    uint32_t word = (uint32_t)bits;
    float value;

    memcpy(&value, &word, sizeof(value));
    return isfinite(value);
}

static void describe_loss(const struct harness_difference *difference,
                          struct harness_finding *finding)
{
    char ranks[96];

    if (is_finite_bits(difference->expected) && !is_finite_bits(difference->got)) {
        finding->verdict = HARNESS_VERDICT_VALUE_NONFINITE;
    }
    (void)snprintf(finding->text, sizeof(finding->text),
                   "the loss of step %u differs on %s: bits %08llx, the reference has %08llx",
                   difference->step,
                   harness_subject_ranks_text(&difference->ranks, ranks, sizeof(ranks)),
                   (unsigned long long)difference->got, (unsigned long long)difference->expected);
}

ddp_status harness_check_gradient(const struct harness_emulation *e, struct harness_findings *out,
                                  struct ddp_err *err)
{
    struct harness_difference difference;
    struct harness_finding finding;
    char ranks[96];

    (void)err;
    harness_compare_first(e, HARNESS_STAGE_GRADIENT, &difference);
    if (!difference.is_set || harness_emulation_is_restore(e)) {
        return DDP_OK;
    }
    harness_finding_init(&finding, out->mem, HARNESS_VERDICT_VALUE_CORRUPTED,
                         HARNESS_ORACLE_GRADIENT, HARNESS_MODE_BITWISE);
    finding.stage = HARNESS_STAGE_GRADIENT;
    harness_subject_set_difference(e, &difference, &finding);
    if (difference.is_loss) {
        describe_loss(&difference, &finding);
    } else {
        (void)snprintf(finding.text, sizeof(finding.text),
                       "the local gradient of %s in step %u is not the reference's on %s",
                       harness_subject_param_name(e, difference.param), difference.step,
                       harness_subject_ranks_text(&difference.ranks, ranks, sizeof(ranks)));
    }
    harness_findings_add(out, &finding);
    return DDP_OK;
}
