/* Purpose: what a diagnosis says in numbers is what the program and the record have.
 * Idea: the monitor concludes from pages, which leave nothing behind. But the operation that it
 * names is one that the program has, or that a rank posted, and the parameters are those of its
 * bucket. What it says beside that is for people (tests/suite/damaged.py). */
#include "harness/evidence/internal.h"

/* The operation under that number is the one that the diagnosis names. */
static bool is_op(const struct harness_finding_op *named, enum ddp_coll_kind kind,
                  enum ddp_coll_role role, uint32_t index, uint64_t elem_count)
{
    const int64_t bucket = role == DDP_ROLE_BUCKET ? (int64_t)index : -1;

    return named->kind == kind && named->role == role && named->bucket == bucket &&
           named->elem_count == elem_count;
}

static bool is_known(const struct harness_emulation *e, const struct harness_finding_op *named)
{
    const struct harness_op *planned = harness_program_at(e->input->program, named->seq);

    if (planned != NULL &&
        is_op(named, planned->kind, planned->role, planned->index, planned->elem_count)) {
        return true;
    }
    for (uint32_t r = 0; r < e->world; r++) {
        const struct harness_trace_event *post =
            harness_index_with_seq(&e->index, r, DDP_EVENT_COLL_POST, named->seq);
        const struct ddp_event_op op =
            post != NULL ? ddp_event_op_unpack(post->entry.arg[1]) : (struct ddp_event_op){0};

        if (post != NULL && is_op(named, op.kind, op.role, op.index, post->entry.arg[2])) {
            return true;
        }
    }
    return false;
}

/* It is what the program has under that number, in that step and that group. */
static bool is_post_planned(const struct harness_emulation *e, const struct ddp_event_entry *post)
{
    const struct harness_program *program = e->input->program;
    const struct harness_post posted = {
        .seq = post->arg[0],
        .step = harness_program_step_of(program, post->phase, post->step),
        .op = ddp_event_op_unpack(post->arg[1]),
        .elem_count = post->arg[2],
        .comm = post->arg[3]};

    return harness_program_compare_post(program, &posted) == HARNESS_VERDICT_NONE;
}

static bool is_completed(const struct harness_emulation *e, uint32_t rank, uint64_t seq)
{
    const struct harness_trace_event *done =
        harness_index_with_seq(&e->index, rank, DDP_EVENT_COLL_DONE, seq);

    return done != NULL && harness_index_status(done->entry.arg[3]) == DDP_OK;
}

/* The rank completed the operation, and another one that posted it did not: so it is where a rank
 * takes no part in it. */
static bool is_alone(const struct harness_emulation *e, uint32_t rank, uint64_t seq)
{
    bool is_waited = false;

    for (uint32_t r = 0; r < e->world; r++) {
        is_waited =
            is_waited || (!is_completed(e, r, seq) &&
                          harness_index_with_seq(&e->index, r, DDP_EVENT_COLL_POST, seq) != NULL);
    }
    return is_waited && is_completed(e, rank, seq);
}

/* A rank that is said to have posted something else under that number recorded that it posted what
 * is planned, or nothing (where groups count together, it may have another number). Under join the
 * program here is that of the batches which ranks took, and the monitor's that of the plan. */
bool harness_evidence_is_refuted(const struct harness_emulation *e,
                                 const struct harness_finding *finding)
{
    const uint64_t seq = finding->op.seq;
    const bool is_of_post = finding->oracle == HARNESS_ORACLE_MONITOR && seq != 0 &&
                            !e->input->plan->job.join.is_set &&
                            finding->mode == HARNESS_MODE_PROVABLE &&
                            harness_verdict_family(finding->verdict) == HARNESS_FAMILY_MISMATCH;

    for (uint32_t i = 0; is_of_post && i < harness_rank_set_count(&finding->culprits); i++) {
        const uint32_t rank = harness_rank_set_at(&finding->culprits, i);
        const struct harness_trace_event *post =
            harness_index_with_seq(&e->index, rank, DDP_EVENT_COLL_POST, seq);
        const bool is_silent =
            finding->verdict == HARNESS_VERDICT_MISMATCH_MISSING && is_alone(e, rank, seq);

        if (post == NULL ? e->input->program->group_count == 0
                         : !is_silent && is_post_planned(e, &post->entry)) {
            return true;
        }
    }
    return false;
}

/* The bucket's, in its order, and no others; of what is no bucket none. */
static bool is_listed(const struct harness_buckets *buckets, const struct harness_finding *finding)
{
    const int32_t bucket = finding->op.bucket;

    if (bucket < 0) {
        return finding->params.count == 0;
    }
    if ((size_t)bucket >= buckets->count ||
        finding->params.count != buckets->items[bucket].param_count) {
        return false;
    }
    for (uint32_t i = 0; i < finding->params.count; i++) {
        if (harness_list_at(&finding->params, i) != buckets->items[bucket].params[i]) {
            return false;
        }
    }
    return true;
}

/* The monitor says nothing twice at once. */
static bool is_said(const struct harness_trace *trace, size_t number)
{
    const struct harness_finding *finding = &trace->diagnoses.items[number];

    for (size_t i = 0; i < number; i++) {
        const struct harness_finding *earlier = &trace->diagnoses.items[i];

        if (trace->diagnosis_time_ns[i] == trace->diagnosis_time_ns[number] &&
            earlier->verdict == finding->verdict &&
            harness_rank_set_is_equal(&earlier->culprits, &finding->culprits)) {
            return true;
        }
    }
    return false;
}

/* Whom the monitor calls dead, the launcher has not seen end in another way. Ranks that go on after
 * a loss are judged under other numbers. */
static bool is_ended_so(const struct harness_emulation *e, const struct harness_finding *finding)
{
    bool is_so = true;

    if (e->input->plan->job.on_loss == HARNESS_ON_LOSS_CONTINUE) {
        return true;
    }
    for (uint32_t i = 0; i < harness_rank_set_count(&finding->culprits); i++) {
        const uint32_t rank = harness_rank_set_at(&finding->culprits, i);
        const enum harness_end_how how = e->input->trace->ends[rank].how;

        is_so = is_so &&
                (how != HARNESS_END_EXITED || finding->verdict != HARNESS_VERDICT_CRASH_SIGNALED);
        is_so = is_so &&
                (how != HARNESS_END_SIGNALED || finding->verdict != HARNESS_VERDICT_CRASH_EXITED);
    }
    return is_so;
}

void harness_evidence_diagnoses(const struct harness_emulation *e, struct harness_gap *out)
{
    const struct harness_trace *trace = e->input->trace;
    const struct harness_program *program = e->input->program;

    DDP_ASSERT(trace->start_ns <= trace->end_ns);
    for (size_t i = 0; i < trace->diagnoses.count; i++) {
        const struct harness_finding *finding = &trace->diagnoses.items[i];
        const struct harness_finding_op *op = &finding->op;
        const bool is_right = op->is_set
                                  ? is_known(e, op) && (is_listed(&program->first, finding) ||
                                                        is_listed(&program->rebuilt, finding))
                                  : op->seq == 0 && op->elem_count == 0 && op->bucket == -1 &&
                                        finding->params.count == 0;
        const uint64_t since_ns = trace->diagnosis_time_ns[i] - trace->start_ns;

        if (is_said(trace, i)) {
            harness_gap_set(out, "diagnosis %zu is there twice", i);
        }
        if (!is_right) {
            harness_gap_set(out, "diagnosis %zu names an operation that no rank posted so", i);
        }
        if (!is_ended_so(e, finding)) {
            harness_gap_set(out, "diagnosis %zu says that a rank ended as it did not", i);
        }
        /* How long after a fault it came is worked out behind the run. */
        if (trace->diagnosis_time_ns[i] < trace->start_ns || finding->attribute_ns != -1 ||
            finding->detect_ns < -1 || finding->detect_ns > (int64_t)since_ns ||
            finding->micro < -1 || finding->micro >= (int64_t)e->input->job->micro_batches) {
            harness_gap_set(out, "diagnosis %zu has numbers that the monitor cannot give", i);
        }
    }
}
