/* Purpose: fill in what a finding is about: operation, bucket, parameters, ranks as text.
 * It chooses no verdict. */
#include "harness/oracle/subject.h"

#include <stdio.h>
#include <string.h>

const char *harness_subject_param_name(const struct harness_emulation *e, int32_t param)
{
    return param >= 0 && (size_t)param < e->params.count ? e->input->params[param].name : "?";
}

void harness_subject_set_bucket(const struct harness_emulation *e, uint32_t bucket,
                                struct harness_finding *finding)
{
    const struct harness_bucket *planned =
        harness_program_bucket(e->input->program, finding->step, bucket);

    if (planned == NULL) {
        return;
    }
    for (uint32_t i = 0; i < planned->param_count; i++) {
        harness_finding_add_param(finding, planned->params[i]);
    }
    finding->op.is_set = true;
    finding->op.kind = DDP_COLL_ALL_REDUCE;
    finding->op.role = DDP_ROLE_BUCKET;
    finding->op.bucket = (int32_t)bucket;
    finding->op.elem_count = planned->elem_count;
}

/* The planned sequence number of a bucket's reduction in a step, of its last round; or 0. */
static uint64_t planned_seq(const struct harness_emulation *e, uint32_t step, int32_t bucket)
{
    const struct harness_program *program = e->input->program;

    for (size_t i = program->op_count; i-- > 0;) {
        if (program->ops[i].role == DDP_ROLE_BUCKET && program->ops[i].step == (int32_t)step &&
            (int32_t)program->ops[i].index == bucket) {
            return program->ops[i].seq;
        }
    }
    return 0;
}

enum harness_verdict harness_subject_verdict(const struct harness_difference *difference)
{
    enum harness_verdict verdict = difference->first.what.verdict;

    return verdict == HARNESS_VERDICT_NONE ||
                   (!difference->is_alike && verdict != HARNESS_VERDICT_VALUE_NONFINITE)
               ? HARNESS_VERDICT_VALUE_CORRUPTED
               : verdict;
}

void harness_subject_set_difference(const struct harness_emulation *e,
                                    const struct harness_difference *difference,
                                    struct harness_finding *finding)
{
    const struct harness_deviation *first = &difference->first;

    finding->step = (int32_t)difference->step;
    finding->culprits = difference->ranks;
    if (first->bucket >= 0) {
        harness_subject_set_bucket(e, (uint32_t)first->bucket, finding);
        finding->op.seq =
            first->seq != 0 ? first->seq : planned_seq(e, difference->step, first->bucket);
    }
    if (difference->params.count > 0) {
        harness_list_clear(&finding->params);
    }
    for (uint32_t i = 0; i < difference->params.count; i++) {
        harness_finding_add_param(finding, harness_list_at(&difference->params, i));
    }
}

const char *harness_subject_ranks_text(const struct harness_rank_set *ranks, char *text,
                                       size_t size_bytes)
{
    uint32_t count = harness_rank_set_count(ranks);
    size_t used = (size_t)snprintf(text, size_bytes, count == 1 ? "rank" : "ranks");

    for (uint32_t i = 0; i < count && i < HARNESS_NAMED_MAX && used < size_bytes; i++) {
        used += (size_t)snprintf(text + used, size_bytes - used, "%s%u", i == 0 ? " " : ", ",
                                 harness_rank_set_at(ranks, i));
    }
    if (count > HARNESS_NAMED_MAX && used < size_bytes) {
        (void)snprintf(text + used, size_bytes - used, " and %u more", count - HARNESS_NAMED_MAX);
    }
    return text;
}

void harness_subject_merge(const struct harness_finding *finding, struct harness_findings *out)
{
    for (size_t i = 0; i < out->count; i++) {
        struct harness_finding *same = &out->items[i];

        if (same->oracle == finding->oracle && same->verdict == finding->verdict &&
            same->op.seq == finding->op.seq && !harness_rank_set_is_empty(&same->culprits)) {
            harness_rank_set_add_all(&same->culprits, &finding->culprits);
            return;
        }
    }
    harness_findings_add(out, finding);
}

void harness_subject_set_posted(const struct harness_emulation *e,
                                const struct harness_trace_event *event,
                                struct harness_finding *finding)
{
    struct ddp_event_op op = ddp_event_op_unpack(event->entry.arg[1]);
    const struct harness_op *planned = harness_program_at(e->input->program, event->entry.arg[0]);
    const struct harness_group *group =
        harness_program_group_of(e->input->program, event->entry.arg[3]);

    finding->step = planned != NULL ? planned->step : (int32_t)event->entry.step;
    finding->phase = event->entry.phase;
    if (op.role == DDP_ROLE_BUCKET) {
        harness_subject_set_bucket(e, op.index, finding);
    }
    finding->op.is_set = true;
    finding->op.seq = event->entry.arg[0];
    finding->op.kind = op.kind;
    finding->op.role = op.role;
    finding->op.elem_count = event->entry.arg[2];
    finding->op.index = op.index;
    if (group != NULL) {
        (void)snprintf(finding->guest.comm, sizeof(finding->guest.comm), "%s", group->name);
    }
}

void harness_subject_set_op(const struct harness_emulation *e, uint64_t seq,
                            struct harness_finding *finding)
{
    for (uint32_t r = 0; seq != 0 && r < e->world; r++) {
        const struct harness_trace_event *post =
            harness_index_with_seq(&e->index, r, DDP_EVENT_COLL_POST, seq);

        if (post != NULL) {
            const int32_t step = finding->step;
            const int32_t phase = finding->phase;

            harness_subject_set_posted(e, post, finding);
            finding->step = step;
            finding->phase = phase;
            return;
        }
    }
}

uint64_t harness_subject_open_seq(const struct harness_emulation *e,
                                  const struct harness_rank_set *ranks)
{
    size_t count = 0;
    const struct harness_trace_event *const *list;
    const struct harness_trace_event *done;
    uint64_t seq;

    if (harness_rank_set_is_empty(ranks) || harness_rank_set_at(ranks, 0) >= e->world) {
        return 0;
    }
    list =
        harness_index_list(&e->index, harness_rank_set_at(ranks, 0), DDP_EVENT_COLL_POST, &count);
    if (count == 0) {
        return 0;
    }
    seq = list[count - 1]->entry.arg[0];
    done =
        harness_index_with_seq(&e->index, harness_rank_set_at(ranks, 0), DDP_EVENT_COLL_DONE, seq);
    return done != NULL && harness_index_status(done->entry.arg[3]) == DDP_OK ? 0 : seq;
}

void harness_subject_set_comparison(const struct harness_emulation *e, uint64_t seq,
                                    struct harness_finding *finding)
{
    const struct harness_op *verify = harness_program_at(e->input->program, seq);

    finding->step = 0;
    finding->phase = DDP_PHASE_INIT;
    if (verify != NULL) {
        finding->op = (struct harness_finding_op){
            true, verify->seq, verify->kind, verify->role, -1, verify->elem_count, 0};
    }
}

uint64_t harness_subject_hash(const struct harness_emulation *e, uint32_t rank, enum ddp_event kind,
                              uint32_t step, uint64_t subject)
{
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_in_step(&e->index, rank, kind, step, &count);

    for (size_t i = 0; i < count; i++) {
        if (list[i]->entry.arg[0] == subject && list[i]->entry.arg[1] != 0) {
            return list[i]->entry.arg[1];
        }
    }
    return 0;
}
