/* Calls that are equal in all that is recorded, but come from other lines of the program on one
 * rank. That may be meant, or be two calls in each other's place. */
#include "harness/diagnose/answer.h"

static const struct harness_diag_member *find_other(const struct harness_diag_group *group,
                                                    int64_t seq,
                                                    const struct harness_diag_call **first)
{
    *first = NULL;
    for (size_t i = 0; i < group->member_count; i++) {
        const struct harness_diag_call *call = harness_diag_call_at(&group->members[i], seq);

        if (call == NULL || call->stack == 0) {
            continue;
        }
        if (*first != NULL && (*first)->stack != call->stack) {
            return &group->members[i];
        }
        *first = call;
    }
    return NULL;
}

void harness_diag_sites(struct harness_diag_evidence *evidence, struct harness_diag_answer *answer)
{
    for (size_t g = 0; g < evidence->group_count; g++) {
        const struct harness_diag_group *group = &evidence->groups[g];
        const struct harness_diag_member *longest = NULL;

        for (size_t i = 0; i < group->member_count; i++) {
            if (longest == NULL || group->members[i].call_count > longest->call_count) {
                longest = &group->members[i];
            }
        }
        for (size_t i = 0; longest != NULL && i < longest->call_count; i++) {
            const struct harness_diag_call *one;
            int64_t seq = longest->calls[i].seq;
            const struct harness_diag_member *other = find_other(group, seq, &one);

            if (other == NULL) {
                continue;
            }
            harness_diag_answer_unknown(
                answer, harness_diag_keep_format(
                            evidence,
                            "whether %s of %s is one and the same call: on rank %u it comes from "
                            "other lines (%s) than on the rank before it (%s)",
                            harness_diag_call_text(evidence, one), harness_diag_group_name(group),
                            other->rank, harness_diag_call_at(other, seq)->site, one->site));
            break;
        }
    }
}
