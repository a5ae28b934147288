/* Purpose: ranks that go on after a loss are the right ones, and start from the right state.
 * Idea: who goes on follows from who came and who lives; where they start, from the steps that each
 * of them had done; and the state that they share is that of the emulated run until then. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ddpcore/base/hash.h"
#include "harness/evidence/evidence.h"
#include "harness/oracle/subject.h"

/* --- who, and from where ---------------------------------------------------------------------- */

/* What is checked of the announcements. */
struct roll {
    const struct harness_trace *trace;
    const struct harness_parting *parting;
    uint64_t settle_ns; /* how long ranks may take to come */
    struct harness_findings *out;
};

static bool is_blamed(const struct roll *roll, uint32_t rank)
{
    const struct harness_findings *diagnoses = &roll->trace->diagnoses;

    for (size_t i = 0; i < diagnoses->count; i++) {
        if (harness_rank_set_has(&diagnoses->items[i].culprits, rank)) {
            return true;
        }
    }
    return false;
}

static void begin(const struct roll *roll, enum harness_verdict verdict, uint32_t rank,
                  struct harness_finding *finding)
{
    harness_finding_init(finding, roll->out->mem, verdict, HARNESS_ORACLE_SURVIVORS,
                         HARNESS_MODE_PROVABLE);
    harness_rank_set_add(&finding->culprits, rank);
    finding->step = (int32_t)roll->parting->first_step;
    finding->phase = DDP_PHASE_RECOVERY;
}

/* All that are in a new group, and nobody else. */
static void blame_who_went_on(const struct harness_parting *parting,
                              struct harness_finding *finding)
{
    harness_rank_set_clear(&finding->culprits);
    for (uint32_t r = 0; r < parting->world_size; r++) {
        if (parting->by_rank[r].changed != NULL) {
            harness_rank_set_add(&finding->culprits, r);
        }
    }
}

static const char *list_text(const uint32_t *ranks, uint32_t count, char *text, size_t size_bytes)
{
    size_t used = 0;

    text[0] = '\0';
    for (uint32_t m = 0; m < count && used + 12 < size_bytes; m++) {
        used += (size_t)snprintf(text + used, size_bytes - used, "%s%" PRIu32, m == 0 ? "" : ", ",
                                 ranks[m]);
    }
    return text;
}

/* It has another list than most. */
static void check_list(const struct roll *roll, uint32_t rank)
{
    const struct harness_parting *parting = roll->parting;
    const struct harness_parting_rank *self = &parting->by_rank[rank];
    struct harness_finding finding;
    char own[96], others[96];

    if (self->list_count == parting->count &&
        memcmp(self->list, parting->ranks, parting->count * sizeof(*self->list)) == 0) {
        return;
    }
    begin(roll, HARNESS_VERDICT_MISMATCH_COMM, rank, &finding);
    (void)snprintf(finding.text, sizeof(finding.text),
                   "rank %" PRIu32 " goes on with ranks %s, where the others go on with %s", rank,
                   list_text(self->list, self->list_count, own, sizeof(own)),
                   list_text(parting->ranks, parting->count, others, sizeof(others)));
    harness_findings_add(roll->out, &finding);
}

/* It starts elsewhere than follows from what its members had done. */
static void check_start(const struct roll *roll, uint32_t rank)
{
    const struct harness_parting *parting = roll->parting;
    const uint64_t *arg = parting->by_rank[rank].changed->entry.arg;
    struct harness_finding finding;

    if (arg[2] == parting->first_step && arg[3] == parting->source) {
        return;
    }
    begin(roll, HARNESS_VERDICT_MISMATCH_ROOT, rank, &finding);
    (void)snprintf(finding.text, sizeof(finding.text),
                   "rank %" PRIu32 " goes on with step %" PRIu64 " and the state of member %" PRIu64
                   ", where step %" PRIu32 " and that of member %" PRIu32
                   " follow from what the survivors had done",
                   rank, arg[2], arg[3], parting->first_step, parting->source);
    harness_subject_merge(&finding, roll->out);
}

/* The new group has a rank that never came. */
static void check_strangers(const struct roll *roll)
{
    const struct harness_parting *parting = roll->parting;
    struct harness_finding finding;

    for (uint32_t m = 0; m < parting->count; m++) {
        if (parting->by_rank[parting->ranks[m]].lost != NULL) {
            continue;
        }
        begin(roll, HARNESS_VERDICT_MISMATCH_COMM, parting->ranks[0], &finding);
        blame_who_went_on(parting, &finding);
        (void)snprintf(finding.text, sizeof(finding.text),
                       "the survivors go on with rank %" PRIu32 ", which did not say that it lives",
                       parting->ranks[m]);
        harness_findings_add(roll->out, &finding);
        return;
    }
}

static bool is_hang_known(const struct roll *roll)
{
    for (size_t i = 0; i < roll->trace->diagnoses.count; i++) {
        if (harness_verdict_family(roll->trace->diagnoses.items[i].verdict) ==
            HARNESS_FAMILY_HANG) {
            return true;
        }
    }
    return false;
}

/* Since the first rank had lost its group, ranks had as long to come as they are given. */
static bool is_time_over(const struct roll *roll)
{
    const struct harness_parting *parting = roll->parting;
    uint64_t first_ns = UINT64_MAX;

    for (uint32_t r = 0; r < parting->world_size; r++) {
        const struct harness_trace_event *lost = parting->by_rank[r].lost;

        first_ns = lost != NULL && lost->entry.time_ns < first_ns ? lost->entry.time_ns : first_ns;
    }
    return parting->is_set && parting->changed_ns >= first_ns &&
           parting->changed_ns - first_ns >= roll->settle_ns;
}

/* The others went on without it, though it had come in time. */
static void blame_others(const struct roll *roll, uint32_t rank)
{
    const struct harness_parting *parting = roll->parting;
    struct harness_finding finding;

    begin(roll, HARNESS_VERDICT_MISMATCH_COMM, rank, &finding);
    harness_rank_set_add(&finding.victims, rank);
    blame_who_went_on(parting, &finding);
    (void)snprintf(finding.text, sizeof(finding.text),
                   "rank %" PRIu32 " lives and has lost its group, and the others went on without "
                   "it",
                   rank);
    harness_findings_add(roll->out, &finding);
}

/* The error of its own with which the rank ended once it had lost its group; OK: it only learned of
 * others, or was in time for nothing. */
static ddp_status failure_after(const struct roll *roll, uint32_t rank)
{
    const struct harness_trace_event *lost = roll->parting->by_rank[rank].lost;

    for (size_t i = 0; i < roll->trace->event_count; i++) {
        const struct harness_trace_event *event = &roll->trace->events[i];
        const ddp_status status = harness_index_status(event->entry.arg[0]);

        if (lost != NULL && event->rank == rank && event->entry.event == DDP_EVENT_RANK_ERROR &&
            event->entry.index > lost->entry.index && status != DDP_E_PEER_DIED &&
            status != DDP_E_REVOKED && status != DDP_E_TIMEOUT && status != DDP_E_MEMBER) {
            return status;
        }
    }
    return DDP_OK;
}

static bool is_any_failed_after(const struct roll *roll)
{
    for (uint32_t r = 0; r < roll->parting->world_size; r++) {
        if (failure_after(roll, r) != DDP_OK) {
            return true;
        }
    }
    return false;
}

/* It failed by itself before it was in a new group: a group that has it as a member tells of that.
 */
static void blame_failed(const struct roll *roll, uint32_t rank, ddp_status status)
{
    struct harness_finding finding;

    begin(roll, harness_usage_verdict_of(status), rank, &finding);
    finding.status = status;
    finding.step = (int32_t)roll->parting->by_rank[rank].lost->entry.step;
    (void)snprintf(finding.text, sizeof(finding.text),
                   "rank %" PRIu32 " has lost its group, and failed as it went to join a new one: "
                   "it reported %s",
                   rank, ddp_status_name(status));
    harness_findings_add(roll->out, &finding);
}

/* It lives, has lost its group, and is in no new one. Whoever is known to have been dead or stopped
 * meanwhile is rightly left out. */
static void check_left_out(const struct roll *roll, uint32_t rank)
{
    const struct harness_parting *parting = roll->parting;
    const bool is_member = harness_parting_member(parting, rank) != UINT32_MAX;
    const struct harness_parting_rank *self = &parting->by_rank[rank];
    const enum harness_end_how how = roll->trace->ends[rank].how;
    const ddp_status failed = failure_after(roll, rank);
    struct harness_finding finding;

    if (self->lost == NULL || self->changed != NULL || is_blamed(roll, rank) ||
        (how != HARNESS_END_EXITED && (how != HARNESS_END_REAPED || is_hang_known(roll)))) {
        return;
    }
    if (failed != DDP_OK) {
        if (!is_member) {
            blame_failed(roll, rank, failed);
        }
        return;
    }
    if (!parting->is_set && is_any_failed_after(roll)) {
        return; /* it waits for that one */
    }
    if (parting->is_set && !is_member && !is_time_over(roll)) {
        blame_others(roll, rank);
        return;
    }
    begin(roll, HARNESS_VERDICT_HANG_RECOVERY, rank, &finding);
    finding.step = (int32_t)self->lost->entry.step;
    (void)snprintf(
        finding.text, sizeof(finding.text),
        "rank %" PRIu32 " lives and has lost its group, and did not come into a new one%s", rank,
        parting->is_set && !is_member
            ? ": when its time to say that it lives was over, the others went on"
            : "");
    harness_subject_merge(&finding, roll->out);
}

void harness_survivors_check_roll(const struct harness_trace *trace,
                                  const struct harness_parting *parting, uint64_t settle_ns,
                                  struct harness_findings *out)
{
    const struct roll roll = {trace, parting, settle_ns, out};
    struct harness_gap gap;

    harness_evidence_roll(trace, parting, &gap);
    if (gap.is_set && !out->is_evidence_lost) {
        out->is_evidence_lost = true;
        (void)snprintf(out->lost_text, sizeof(out->lost_text), "%s", gap.text);
    }
    for (uint32_t r = 0; r < parting->world_size; r++) {
        check_left_out(&roll, r);
        if (parting->by_rank[r].changed != NULL) {
            check_list(&roll, r);
            check_start(&roll, r);
        }
    }
    check_strangers(&roll);
}

/* --- their state ------------------------------------------------------------------------------ */

/* Tensor `index` of the state as the survivors share it: parameters, buffers, the optimizer's
 * slots, the steps taken. false: there is none of that number. */
static bool find_tensor(const struct harness_emulation *e, uint32_t index,
                        struct harness_tensor *out)
{
    const struct harness_handover *start = e->input->start;
    size_t i = index;

    if (i < e->params.count) {
        *out = harness_layout_at(&e->params, start->param, 0, i);
        return true;
    }
    i -= e->params.count;
    if (i < e->buffers.count) {
        *out = harness_layout_at(&e->buffers, start->buffer, 0, i);
        return true;
    }
    i -= e->buffers.count;
    if (i < e->slot_count * e->params.count) {
        *out =
            harness_layout_at(&e->params, start->slot[i / e->params.count], 0, i % e->params.count);
        return true;
    }
    *out = (struct harness_tensor){.dtype = DDP_DTYPE_I64,
                                   .elem_count = e->params.count,
                                   .size_bytes = e->params.count * sizeof(uint64_t),
                                   .data = start->taken};
    return i == e->slot_count * e->params.count;
}

/* What the rank handed out with this operation is part of the state, and not the emulation's. */
static bool is_other_state(const struct harness_emulation *e, uint32_t rank,
                           const struct harness_trace_event *post)
{
    const struct ddp_event_op op = ddp_event_op_unpack(post->entry.arg[1]);
    struct harness_tensor tensor;
    char salt[64];

    (void)snprintf(salt, sizeof(salt), "%s/%u", ddp_coll_role_name(op.role), op.index);
    return op.role == DDP_ROLE_STATE && op.root == rank && post->entry.arg[4] != 0 &&
           find_tensor(e, op.index, &tensor) && tensor.elem_count == post->entry.arg[2] &&
           ddp_hash_tensor(tensor.data, tensor.size_bytes, ddp_hash_text(salt), NULL) !=
               post->entry.arg[4];
}

/* The model that the new group's DDP spreads from this rank, the parameters of a type one behind
 * the other, is another one than the state's. */
static ddp_status is_other_model(const struct harness_emulation *e, uint32_t rank,
                                 const struct harness_trace_event *post, bool *out)
{
    const struct ddp_event_op op = ddp_event_op_unpack(post->entry.arg[1]);
    const size_t size_bytes = post->entry.arg[2] * ddp_dtype_size_bytes(op.dtype);
    size_t used_bytes = 0;
    char salt[64];
    char *model;

    *out = false;
    if (op.role != DDP_ROLE_PARAM_SYNC || post->entry.phase != DDP_PHASE_INIT || op.root != rank ||
        post->entry.arg[4] == 0 || size_bytes > e->params.size_bytes) {
        return DDP_OK;
    }
    model = ddp_mem_array(e->mem, size_bytes, 1);
    if (model == NULL) {
        return DDP_E_NOMEM;
    }
    for (size_t p = 0; p < e->params.count; p++) {
        const struct harness_tensor tensor =
            harness_layout_at(&e->params, e->input->start->param, 0, p);

        if (tensor.dtype == op.dtype && tensor.size_bytes <= size_bytes - used_bytes) {
            memcpy(model + used_bytes, tensor.data, tensor.size_bytes);
            used_bytes += tensor.size_bytes;
        }
    }
    (void)snprintf(salt, sizeof(salt), "%s/%u", ddp_coll_role_name(op.role), op.index);
    *out = used_bytes == size_bytes &&
           ddp_hash_tensor(model, size_bytes, ddp_hash_text(salt), NULL) != post->entry.arg[4];
    ddp_mem_free(e->mem, model);
    return DDP_OK;
}

static ddp_status check_model(const struct harness_emulation *e, uint32_t rank,
                              const struct harness_trace_event *post, struct harness_findings *out)
{
    struct harness_finding finding;
    bool is_other;

    DDP_TRY(is_other_model(e, rank, post, &is_other));
    if (!is_other) {
        return DDP_OK;
    }
    harness_finding_init(&finding, out->mem, HARNESS_VERDICT_VALUE_CORRUPTED,
                         HARNESS_ORACLE_SURVIVORS, HARNESS_MODE_BITWISE);
    harness_rank_set_add(&finding.culprits, rank);
    harness_subject_set_posted(e, post, &finding);
    finding.step = (int32_t)e->input->restored_step;
    (void)snprintf(finding.text, sizeof(finding.text),
                   "the model that rank %u hands to the new group's DDP is not the one of the "
                   "state that they share",
                   rank);
    harness_findings_add(out, &finding);
    return DDP_OK;
}

static void check_sent(const struct harness_emulation *e, uint32_t rank,
                       const struct harness_trace_event *post, struct harness_findings *out)
{
    const struct ddp_event_op op = ddp_event_op_unpack(post->entry.arg[1]);
    const char *name = "another part";
    struct harness_finding finding;

    if (!is_other_state(e, rank, post)) {
        return;
    }
    harness_finding_init(&finding, out->mem, HARNESS_VERDICT_VALUE_STALE, HARNESS_ORACLE_SURVIVORS,
                         HARNESS_MODE_BITWISE);
    harness_rank_set_add(&finding.culprits, rank);
    harness_subject_set_posted(e, post, &finding);
    finding.step = (int32_t)e->input->restored_step;
    if (op.index < e->params.count) {
        harness_finding_add_param(&finding, op.index);
        name = e->params.items[op.index].name;
    } else if (op.index < e->params.count + e->buffers.count) {
        finding.stage = HARNESS_STAGE_BUFFER;
        name = e->buffers.items[op.index - e->params.count].name;
    }
    (void)snprintf(finding.text, sizeof(finding.text),
                   "rank %u hands out %.90s of the state that is not what %u steps give", rank,
                   name, e->input->restored_step);
    harness_subject_merge(&finding, out);
}

/* Some rank handed out another one of the state's tensors before this one. */
static bool is_handed_otherwise(const struct harness_emulation *e, size_t before)
{
    for (uint32_t r = 0; r < e->world; r++) {
        size_t count = 0;
        const struct harness_trace_event *const *list =
            harness_index_list(&e->index, r, DDP_EVENT_COLL_POST, &count);

        for (size_t i = 0; i < count; i++) {
            if (ddp_event_op_unpack(list[i]->entry.arg[1]).index < before &&
                is_other_state(e, r, list[i])) {
                return true;
            }
        }
    }
    return false;
}

bool harness_survivors_know_buffers(const struct harness_emulation *e)
{
    return e->input->start == NULL || !e->input->start->is_taken ||
           !is_handed_otherwise(e, e->params.count + e->buffers.count);
}

ddp_status harness_check_survivors(const struct harness_emulation *e, struct harness_findings *out,
                                   struct ddp_err *err)
{
    bool is_as_shared;

    (void)err;
    if (e->input->start == NULL || !e->input->start->is_taken) {
        return DDP_OK;
    }
    /* Else the model is what that rank handed out. */
    is_as_shared = !is_handed_otherwise(e, e->params.count);
    for (uint32_t r = 0; r < e->world; r++) {
        size_t count = 0;
        const struct harness_trace_event *const *list =
            harness_index_list(&e->index, r, DDP_EVENT_COLL_POST, &count);

        for (size_t i = 0; i < count; i++) {
            check_sent(e, r, list[i], out);
            DDP_TRY(is_as_shared ? check_model(e, r, list[i], out) : DDP_OK);
        }
    }
    return DDP_OK;
}
