#include "harness/diagnose/answer.h"

struct harness_diag_finding harness_diag_finding_make(struct harness_diag_evidence *evidence,
                                                      enum harness_verdict verdict)
{
    return (struct harness_diag_finding){.verdict = verdict,
                                         .culprits = harness_rank_set_in(evidence->mem),
                                         .suspects = harness_rank_set_in(evidence->mem),
                                         .victims = harness_rank_set_in(evidence->mem),
                                         .group = SIZE_MAX,
                                         .what = "",
                                         .why = ""};
}

void harness_diag_finding_line(struct harness_diag_finding *finding, const char *line)
{
    if (finding->line_count < HARNESS_DIAG_LINES_MAX) {
        finding->lines[finding->line_count++] = line;
    }
}

void harness_diag_answer_unknown(struct harness_diag_answer *answer, const char *line)
{
    if (answer->unknown_count < HARNESS_DIAG_LINES_MAX) {
        answer->unknown[answer->unknown_count++] = line;
    }
}

void harness_diag_finding_or(struct harness_diag_finding *finding, enum harness_verdict alternative)
{
    for (size_t i = 0; i < finding->alternative_count; i++) {
        if (finding->alternatives[i] == alternative) {
            return;
        }
    }
    if (finding->alternative_count < HARNESS_DIAG_ALTERNATIVES_MAX &&
        alternative != finding->verdict) {
        finding->alternatives[finding->alternative_count++] = alternative;
    }
}

void harness_diag_answer_add(struct harness_diag_evidence *evidence,
                             struct harness_diag_answer *answer,
                             const struct harness_diag_finding *finding)
{
    struct harness_diag_finding *grown =
        ddp_mem_grow(evidence->mem, answer->findings, answer->finding_count,
                     &answer->finding_capacity, sizeof *grown);

    if (grown == NULL) {
        evidence->is_failed = true;
        return;
    }
    answer->findings = grown;
    grown[answer->finding_count++] = *finding;
}
