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
        /* How long after a fault it came is worked out behind the run. */
        if (trace->diagnosis_time_ns[i] < trace->start_ns || finding->attribute_ns != -1 ||
            finding->detect_ns < -1 || finding->detect_ns > (int64_t)since_ns ||
            finding->micro < -1 || finding->micro >= (int64_t)e->input->job->micro_batches) {
            harness_gap_set(out, "diagnosis %zu has numbers that the monitor cannot give", i);
        }
    }
}
