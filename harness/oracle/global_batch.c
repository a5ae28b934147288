/* Purpose: the averaged gradient stays within a derived bound of the mean over the global batch.
 * Idea: with unequal batches the two differ by the weights alone: |1/D - n_r/N| |g_r| summed over
 * ranks, plus the roundings. The bound is taken while steps are emulated (emulation/bound.c). */
#include <math.h>
#include <stdio.h>

#include "harness/oracle/subject.h"
#include "harness/sums/arith.h"

/* Survivors of a loss took over such a value: how it came about was judged before the loss. */
static bool is_taken_over(const struct harness_emulation *e)
{
    const struct harness_handover *start = e->input->start;

    for (size_t p = 0; start != NULL && start->is_taken && p < e->params.count; p++) {
        const struct harness_tensor tensor = harness_layout_at(&e->params, start->param, 0, p);
        const size_t width = ddp_dtype_size_bytes(tensor.dtype);

        for (size_t i = 0; i < tensor.elem_count; i++) {
            double value;

            harness_arith_widen(&value, (const char *)tensor.data + i * width, tensor.dtype, 1);
            if (!isfinite(value)) {
                return true;
            }
        }
    }
    return false;
}

ddp_status harness_check_global_batch(const struct harness_emulation *e,
                                      struct harness_findings *out, struct ddp_err *err)
{
    struct harness_finding finding;
    char ranks[96];

    (void)err;
    if (!e->excess.is_set || (e->excess.is_nonfinite && is_taken_over(e))) {
        return DDP_OK;
    }
    harness_finding_init(&finding, out->mem, HARNESS_VERDICT_VALUE_CORRUPTED,
                         HARNESS_ORACLE_GLOBAL_BATCH, HARNESS_MODE_BOUND);
    finding.step = (int32_t)e->excess.step;
    harness_subject_set_bucket(
        e, harness_emulation_bucketing(e, finding.step)->bucket_of[e->excess.param], &finding);
    harness_list_clear(&finding.params);
    harness_finding_add_param(&finding, e->excess.param);
    (void)snprintf(
        finding.text, sizeof(finding.text),
        "the averaged gradient of %s[%zu] in step %u is %g from the global batch's mean, "
        "more than weighting (%g) and rounding allow: %g",
        harness_subject_param_name(e, (int32_t)e->excess.param), e->excess.elem, e->excess.step,
        e->excess.distance, e->excess.weight_gap, e->excess.bound);
    if (e->excess.is_nonfinite) {
        finding.verdict = HARNESS_VERDICT_VALUE_NONFINITE;
        finding.culprits = e->excess.ranks;
        (void)snprintf(finding.text, sizeof(finding.text),
                       "training itself led to values that are not finite: the averaged gradient "
                       "of %s[%zu] in step %u, from %s",
                       harness_subject_param_name(e, (int32_t)e->excess.param), e->excess.elem,
                       e->excess.step,
                       harness_subject_ranks_text(&e->excess.ranks, ranks, sizeof(ranks)));
    }
    harness_findings_add(out, &finding);
    return DDP_OK;
}
