/* Purpose: broadcasts give every member the root's tensors, and under join come from the right
 * root. Idea: the root's input and every member's output have one hash. Who is the root while ranks
 * run out of data is worked out from the batches they took, not from what they agreed on. */
#include <stdio.h>

#include "harness/oracle/subject.h"

/* The rank's own record of posting operation `seq`, or NULL. */
static const struct ddp_event_entry *find_post(const struct harness_emulation *e, uint32_t rank,
                                               uint64_t seq)
{
    size_t count = 0;
    size_t low = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(&e->index, rank, DDP_EVENT_COLL_POST, &count);
    size_t high = count;

    while (low < high) { /* sequence numbers grow */
        size_t middle = low + (high - low) / 2;

        if (list[middle]->entry.arg[0] < seq) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < count && list[low]->entry.arg[0] == seq ? &list[low]->entry : NULL;
}

/* Highest rank that trained on data in a step, or -1. */
static int64_t last_active(const struct harness_emulation *e, uint32_t step)
{
    for (uint32_t r = e->world; r-- > 0;) {
        size_t count = 0;
        const struct harness_trace_event *const *list =
            harness_index_list(&e->index, r, DDP_EVENT_DATA_BATCH, &count);

        while (count > 0 && list[count - 1]->entry.step > step) {
            count--;
        }
        if (count > 0 && list[count - 1]->entry.step == step) {
            return r;
        }
    }
    return -1;
}

/* The root that only the run can know; -1: the program knows it, or nobody can tell here. */
static int64_t expected_root(const struct harness_emulation *e, uint64_t seq)
{
    const struct harness_op *planned = harness_program_at(e->input->program, seq);

    /* With micro-batches data may end within a step. */
    if (planned == NULL || planned->is_root_known || planned->kind != DDP_COLL_BROADCAST ||
        !e->input->plan->job.is_join || e->input->job->micro_batches > 1) {
        return -1;
    }
    if (planned->phase == DDP_PHASE_JOIN) {
        for (uint32_t step = e->end_step; step > e->start_step; step--) {
            int64_t root = last_active(e, step - 1);

            if (root >= 0) {
                return root;
            }
        }
        return -1;
    }
    return planned->step < 0 ? -1 : last_active(e, (uint32_t)planned->step);
}

static void begin(enum harness_verdict verdict, const struct ddp_event_entry *entry, uint32_t rank,
                  struct harness_findings *out, struct harness_finding *finding)
{
    struct ddp_event_op op = ddp_event_op_unpack(entry->arg[1]);

    harness_finding_init(finding, out->mem, verdict, HARNESS_ORACLE_BROADCAST,
                         HARNESS_MODE_BITWISE);
    harness_rank_set_add(&finding->culprits, rank);
    finding->step = (int32_t)entry->step;
    finding->phase = entry->phase;
    finding->op =
        (struct harness_finding_op){true, entry->arg[0], op.kind, op.role, -1, entry->arg[2]};
}

/* A broadcast that the rank completed; true: something is wrong with it. */
static bool check_one(const struct harness_emulation *e, const struct ddp_event_entry *done,
                      uint32_t rank, struct harness_findings *out)
{
    struct ddp_event_op op = ddp_event_op_unpack(done->arg[1]);
    const struct ddp_event_entry *sent =
        op.root < e->world ? find_post(e, op.root, done->arg[0]) : NULL;
    int64_t root = expected_root(e, done->arg[0]);
    struct harness_finding finding;

    if (root >= 0 && (uint32_t)root != op.root) {
        begin(HARNESS_VERDICT_MISMATCH_ROOT, done, rank, out, &finding);
        (void)snprintf(finding.text, sizeof(finding.text),
                       "rank %u took the %s broadcast from rank %u, and rank %lld has the say",
                       rank, ddp_coll_role_name(op.role), op.root, (long long)root);
        harness_findings_add(out, &finding);
        return true;
    }
    /* Another operation under that number is a mismatch, which is not for hashes to say. */
    if (sent == NULL || sent->arg[1] != done->arg[1] || sent->arg[2] != done->arg[2] ||
        sent->arg[4] == 0 || done->arg[4] == 0 || sent->arg[4] == done->arg[4]) {
        return false;
    }
    begin(HARNESS_VERDICT_VALUE_CORRUPTED, done, rank, out, &finding);
    (void)snprintf(finding.text, sizeof(finding.text),
                   "rank %u got other values from the %s broadcast %llu than rank %u sent", rank,
                   ddp_coll_role_name(op.role), (unsigned long long)done->arg[0], op.root);
    harness_findings_add(out, &finding);
    return true;
}

ddp_status harness_check_broadcast(const struct harness_emulation *e, struct harness_findings *out,
                                   struct ddp_err *err)
{
    (void)err;
    for (uint32_t r = 0; r < e->world; r++) {
        size_t count = 0;
        const struct harness_trace_event *const *list =
            harness_index_list(&e->index, r, DDP_EVENT_COLL_DONE, &count);

        for (size_t i = 0; i < count; i++) {
            const struct ddp_event_entry *entry = &list[i]->entry;

            if (ddp_event_op_unpack(entry->arg[1]).kind == DDP_COLL_BROADCAST &&
                harness_index_status(entry->arg[3]) == DDP_OK && check_one(e, entry, r, out)) {
                break;
            }
        }
    }
    return DDP_OK;
}
