/* Purpose: whether ranks found gradients that are not finite is what the judge finds in their
 * averages, and what they agreed on is what they sent.
 * Idea: a wrong flag of one rank makes all leave out a step, or none, and no value shows it. */
#include <stdio.h>

#include "harness/oracle/subject.h"

/* Ranks whose flag is another one than is due, going in or coming out. */
static void compare(const struct harness_emulation *e, uint32_t step, const uint8_t *due,
                    enum ddp_event event, struct harness_rank_set *wrong)
{
    for (uint32_t r = 0; r < e->world; r++) {
        const uint8_t flag = due[event == DDP_EVENT_COLL_DONE ? e->world : r];
        const uint64_t got = harness_scaler_recorded(e, r, step, event);

        if (flag != HARNESS_FOUND_UNKNOWN && got != 0 &&
            got != harness_scaler_flag_hash(flag == HARNESS_FOUND_YES)) {
            harness_rank_set_add(wrong, r);
        }
    }
}

static const struct harness_op *op_of(const struct harness_emulation *e, uint32_t step)
{
    for (size_t i = 0; i < e->input->program->op_count; i++) {
        const struct harness_op *op = &e->input->program->ops[i];

        if (op->role == DDP_ROLE_FOUND_INF && op->step == (int32_t)step) {
            return op;
        }
    }
    return NULL;
}

void harness_reduction_check_found(const struct harness_emulation *e, struct harness_findings *out)
{
    for (uint32_t step = e->start_step; step < e->end_step; step++) {
        const uint8_t *due = &e->expected.found[(size_t)(step - e->start_step) * (e->world + 1)];
        const struct harness_op *op = op_of(e, step);
        struct harness_rank_set wrong = harness_rank_set_in(ddp_mem_pool_mem(e->sets));
        struct harness_finding finding;
        bool is_sent = true;
        char ranks[96];

        if (op == NULL) {
            continue;
        }
        compare(e, step, due, DDP_EVENT_COLL_POST, &wrong);
        if (harness_rank_set_is_empty(&wrong)) {
            is_sent = false;
            compare(e, step, due, DDP_EVENT_COLL_DONE, &wrong);
        }
        if (harness_rank_set_is_empty(&wrong)) {
            continue;
        }
        harness_finding_init(&finding, out->mem, HARNESS_VERDICT_VALUE_CORRUPTED,
                             HARNESS_ORACLE_REDUCTION, HARNESS_MODE_BITWISE);
        finding.culprits = wrong;
        finding.step = (int32_t)step;
        finding.op = (struct harness_finding_op){true, op->seq,        op->kind, op->role,
                                                 -1,   op->elem_count, op->index};
        (void)snprintf(finding.text, sizeof(finding.text),
                       is_sent ? "whether gradients are finite in step %u is not what %s sent"
                               : "whether to leave step %u out is not what ranks sent, on %s",
                       step, harness_subject_ranks_text(&wrong, ranks, sizeof(ranks)));
        harness_findings_add(out, &finding);
        return; /* the first; later ones follow */
    }
}
