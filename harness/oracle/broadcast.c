/* Purpose: broadcasts give every member the root's tensors, and under join come from the right
 * root; and what ranks hold once join has ended is the model of the last rank that had data.
 * Idea: the root's input and every member's output have the same hash. Under join the root is
 * worked out from the batches that ranks took, not from what they agreed on. After join that rank's
 * parameters are those that it recorded after its last step, which other oracles judge; its buffers
 * are the emulation's. What the others hold is compared with what it holds. */
#include <stdio.h>

#include "harness/oracle/subject.h"

/* Highest rank that trained on data in a step: of its first micro-batch, or (is_end) of the last
 * one that any rank had. -1: none did. */
static int64_t last_active(const struct harness_emulation *e, uint32_t step, bool is_end)
{
    int64_t found = -1;
    uint32_t last_micro = 0;

    for (uint32_t r = 0; r < e->world; r++) {
        size_t count = 0;
        const struct harness_trace_event *const *list =
            harness_index_in_step(&e->index, r, DDP_EVENT_DATA_BATCH, step, &count);
        uint32_t micro = count > 0 && is_end ? list[count - 1]->entry.micro : 0;

        if (count > 0 && micro >= last_micro) {
            found = r;
            last_micro = micro;
        }
    }
    return found;
}

/* The root of a broadcast under join, which depends on the ranks that still have data; -1: of any
 * other broadcast, or it cannot be told. */
static int64_t expected_root(const struct harness_emulation *e, uint64_t seq)
{
    const struct harness_op *planned = harness_program_at(e->input->program, seq);

    if (planned == NULL || planned->is_root_known || planned->kind != DDP_COLL_BROADCAST ||
        !e->input->plan->job.join.is_set) {
        return -1;
    }
    if (planned->phase == DDP_PHASE_JOIN) {
        return e->end_step > e->start_step ? last_active(e, e->end_step - 1, true) : -1;
    }
    /* Buffers are due in a step's first pass: only there does the pass before have reduced. */
    return planned->step < 0 ? -1 : last_active(e, (uint32_t)planned->step, false);
}

static void begin(const struct harness_emulation *e, enum harness_verdict verdict, uint32_t rank,
                  const struct harness_trace_event *done, struct harness_findings *out,
                  struct harness_finding *finding)
{
    harness_finding_init(finding, out->mem, verdict, HARNESS_ORACLE_BROADCAST,
                         HARNESS_MODE_BITWISE);
    harness_rank_set_add(&finding->culprits, rank);
    harness_subject_set_posted(e, done, finding);
}

/* What was received has another hash than what was sent. Another operation under that number is a
 * finding of the program oracle. */
static bool is_value_different(const struct ddp_event_entry *sent,
                               const struct ddp_event_entry *done)
{
    return sent->arg[1] == done->arg[1] && sent->arg[2] == done->arg[2] && sent->arg[4] != 0 &&
           done->arg[4] != 0 && sent->arg[4] != done->arg[4];
}

/* The rank completed it, and put it on no stream, as it did others: it sent nothing. Messages of
 * NCCL have no numbers of ours, so what the others took in its place was of another operation. */
static bool is_never_queued(const struct harness_emulation *e, uint32_t rank, uint64_t seq)
{
    const struct harness_trace_event *done =
        harness_index_with_seq(&e->index, rank, DDP_EVENT_COLL_DONE, seq);
    size_t queued_count = 0;

    (void)harness_index_list(&e->index, rank, DDP_EVENT_COLL_QUEUED, &queued_count);
    return queued_count > 0 && done != NULL && harness_index_status(done->entry.arg[3]) == DDP_OK &&
           harness_index_with_seq(&e->index, rank, DDP_EVENT_COLL_QUEUED, seq) == NULL;
}

/* A broadcast that the rank completed. */
static void check_one(const struct harness_emulation *e, const struct harness_trace_event *event,
                      uint32_t rank, struct harness_findings *out)
{
    const struct ddp_event_entry *done = &event->entry;
    struct ddp_event_op op = ddp_event_op_unpack(done->arg[1]);
    const struct harness_trace_event *sent =
        op.root < e->world
            ? harness_index_with_seq(&e->index, op.root, DDP_EVENT_COLL_POST, done->arg[0])
            : NULL;
    int64_t root = expected_root(e, done->arg[0]);
    struct harness_finding finding;

    if (root >= 0 && (uint32_t)root != op.root) {
        begin(e, HARNESS_VERDICT_MISMATCH_ROOT, rank, event, out, &finding);
        (void)snprintf(finding.text, sizeof(finding.text),
                       "rank %u took the %s broadcast from rank %u, but the root is rank %lld",
                       rank, ddp_coll_role_name(op.role), op.root, (long long)root);
        harness_subject_merge(&finding, out);
        return;
    }
    if (sent == NULL || !is_value_different(&sent->entry, done)) {
        return;
    }
    if (is_never_queued(e, op.root, done->arg[0])) {
        begin(e, HARNESS_VERDICT_MISMATCH_MISSING, op.root, event, out, &finding);
        (void)snprintf(finding.text, sizeof(finding.text),
                       "rank %u completed the %s broadcast %llu and sent nothing: no stream got it",
                       op.root, ddp_coll_role_name(op.role), (unsigned long long)done->arg[0]);
        harness_subject_merge(&finding, out);
        return;
    }
    begin(e, HARNESS_VERDICT_VALUE_CORRUPTED, rank, event, out, &finding);
    (void)snprintf(finding.text, sizeof(finding.text),
                   "rank %u got other values from the %s broadcast %llu than rank %u sent", rank,
                   ddp_coll_role_name(op.role), (unsigned long long)done->arg[0], op.root);
    harness_subject_merge(&finding, out);
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
                harness_index_status(entry->arg[3]) == DDP_OK) {
                check_one(e, list[i], r, out);
            }
        }
    }
    return DDP_OK;
}

/* --- after join --------------------------------------------------------------------------------
 */

/* The hash of a tensor that a rank recorded after join; 0: none. */
static uint64_t joined_hash(const struct harness_emulation *e, uint32_t rank, size_t tensor)
{
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(&e->index, rank, DDP_EVENT_JOIN_TENSOR, &count);

    return tensor < count && list[tensor]->entry.arg[0] == tensor ? list[tensor]->entry.arg[1] : 0;
}

/* The step in which a rank recorded it: -1: it did not. */
static int32_t joined_step(const struct harness_emulation *e, uint32_t rank)
{
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(&e->index, rank, DDP_EVENT_JOIN_TENSOR, &count);

    return count == 0 ? -1 : (int32_t)list[0]->entry.step;
}

/* The last hash of a parameter after a step; 0: none. */
static uint64_t updated_hash(const struct harness_emulation *e, uint32_t rank, size_t param)
{
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(&e->index, rank, DDP_EVENT_PARAM_UPDATED, &count);

    for (size_t i = count; i-- > 0;) {
        if (list[i]->entry.arg[0] == param) {
            return list[i]->entry.arg[1];
        }
    }
    return 0;
}

/* The highest rank that took the last micro-batch of all, as recorded; -1: no rank took one. */
static int64_t last_rank(const struct harness_emulation *e)
{
    uint64_t last_pass = 0;
    int64_t found = -1;

    for (uint32_t r = 0; r < e->world; r++) {
        size_t count = 0;
        const struct harness_trace_event *const *list =
            harness_index_list(&e->index, r, DDP_EVENT_DATA_BATCH, &count);
        uint64_t pass = count == 0
                            ? 0
                            : (uint64_t)list[count - 1]->entry.step * e->input->job->micro_batches +
                                  list[count - 1]->entry.micro;

        if (count > 0 && pass >= last_pass) {
            last_pass = pass;
            found = r;
        }
    }
    return found;
}

static uint64_t expected_hash(const struct harness_emulation *e, uint32_t root, size_t tensor)
{
    if (tensor < e->params.count) {
        return updated_hash(e, root, tensor);
    }
    return e->expected.is_joined && harness_buffers_are_known(e, root)
               ? e->expected.joined_hash[tensor - e->params.count]
               : joined_hash(e, root, tensor);
}

static void report(const struct harness_emulation *e, uint32_t root, size_t tensor,
                   const struct harness_rank_set *ranks, struct harness_findings *out)
{
    const struct harness_layout *layout = tensor < e->params.count ? &e->params : &e->buffers;
    struct harness_finding finding;
    char text[96];

    harness_finding_init(&finding, out->mem, HARNESS_VERDICT_VALUE_DIVERGED, HARNESS_ORACLE_JOINED,
                         HARNESS_MODE_BITWISE);
    finding.culprits = *ranks;
    finding.step = joined_step(e, harness_rank_set_at(ranks, 0));
    finding.phase = DDP_PHASE_JOIN;
    if (tensor < e->params.count) {
        harness_finding_add_param(&finding, (uint32_t)tensor);
    }
    (void)snprintf(finding.text, sizeof(finding.text),
                   "after join %.90s is not as rank %u, the last with data, had it: %s",
                   layout->items[tensor < e->params.count ? tensor : tensor - e->params.count].name,
                   root, harness_subject_ranks_text(ranks, text, sizeof(text)));
    harness_findings_add(out, &finding);
}

/* What the last rank with data hands out is not what its passes gave: others take it over, and are
 * right in that. */
static void report_root(const struct harness_emulation *e, uint32_t root, size_t tensor,
                        struct harness_findings *out)
{
    const struct harness_layout *layout = tensor < e->params.count ? &e->params : &e->buffers;
    struct harness_finding finding;

    harness_finding_init(&finding, out->mem, HARNESS_VERDICT_VALUE_CORRUPTED, HARNESS_ORACLE_JOINED,
                         HARNESS_MODE_BITWISE);
    harness_rank_set_add(&finding.culprits, root);
    finding.step = joined_step(e, root);
    finding.phase = DDP_PHASE_JOIN;
    if (tensor < e->params.count) {
        harness_finding_add_param(&finding, (uint32_t)tensor);
    }
    (void)snprintf(
        finding.text, sizeof(finding.text),
        "rank %u, the last with data, hands out another %.90s after join than its passes "
        "gave",
        root, layout->items[tensor < e->params.count ? tensor : tensor - e->params.count].name);
    harness_findings_add(out, &finding);
}

/* The root has something else than its passes gave, and another rank has that, too. */
static bool is_handed_out(const struct harness_emulation *e, uint32_t root, size_t tensor,
                          uint64_t expected)
{
    const uint64_t had = joined_hash(e, root, tensor);
    bool is_taken_over = false;

    for (uint32_t r = 0; r < e->world; r++) {
        is_taken_over = is_taken_over || (r != root && joined_hash(e, r, tensor) == had);
    }
    return had != 0 && expected != 0 && had != expected && is_taken_over;
}

/* Every rank that went through join, tensor by tensor; the first that differs is reported. */
static void compare_all(const struct harness_emulation *e, uint32_t root,
                        struct harness_findings *out)
{
    for (size_t t = 0; t < e->params.count + e->buffers.count; t++) {
        const uint64_t expected = expected_hash(e, root, t);
        const bool is_out = is_handed_out(e, root, t, expected);
        struct harness_rank_set ranks = harness_rank_set_in(ddp_mem_pool_mem(e->sets));

        for (uint32_t r = 0; r < e->world; r++) {
            const uint64_t got = joined_hash(e, r, t);

            if (expected != 0 && got != 0 && got != expected &&
                !(is_out && got == joined_hash(e, root, t))) {
                harness_rank_set_add(&ranks, r);
            }
        }
        if (is_out) {
            report_root(e, root, t, out);
        }
        if (!harness_rank_set_is_empty(&ranks)) {
            report(e, root, t, &ranks, out);
        }
        if (is_out || !harness_rank_set_is_empty(&ranks)) {
            return;
        }
    }
}

ddp_status harness_check_joined(const struct harness_emulation *e, struct harness_findings *out,
                                struct ddp_err *err)
{
    int64_t root = e->input->plan->job.join.is_set ? last_rank(e) : -1;

    (void)err;
    if (root < 0 || updated_hash(e, (uint32_t)root, 0) == 0) {
        return DDP_OK; /* nobody trained, or values were not recorded */
    }
    for (uint32_t r = 0; r < e->world && !out->is_evidence_lost; r++) {
        size_t count = 0;

        (void)harness_index_list(&e->index, r, DDP_EVENT_JOIN_TENSOR, &count);
        if (harness_index_is_ended_ok(&e->index, r) &&
            count != e->params.count + e->buffers.count) {
            out->is_evidence_lost = true;
            (void)snprintf(out->lost_text, sizeof(out->lost_text),
                           "rank %u went through join without recording %s", r,
                           ddp_event_name(DDP_EVENT_JOIN_TENSOR));
        }
    }
    compare_all(e, (uint32_t)root, out);
    return DDP_OK;
}
