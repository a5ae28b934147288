/* Purpose: every rank wrapped the model of the plan, and laid its parameters out as planned.
 * Idea: ranks can only compare models with each other, and two ranks that differ are both right in
 * their own eyes. The plan says whose parameter has another shape. If none has, and all described
 * the same model, then a rank that still saw a difference compared something else than was sent. */
#include <stdio.h>
#include <string.h>

#include "harness/evidence/evidence.h"
#include "harness/oracle/subject.h"

/* The first parameter of a rank that the plan's model does not have so. */
struct drift {
    bool is_set;
    uint32_t param;
    const uint64_t *dims; /* [DDP_NDIM_MAX]; NULL: the rank does not have the parameter */
};

/* Notes each parameter that differs in `finding`. */
static struct drift find_drift(const struct harness_emulation *e, uint32_t rank,
                               struct harness_finding *finding)
{
    struct drift out = {.is_set = false};
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(&e->index, rank, DDP_EVENT_PARAM_SHAPE, &count);

    for (size_t i = 0; i < count; i++) {
        const uint64_t *arg = list[i]->entry.arg;

        if (harness_emulation_has_shape(e, arg[0], &arg[1])) {
            continue;
        }
        if (!out.is_set) {
            out = (struct drift){true, (uint32_t)arg[0], &arg[1]};
        }
        if (arg[0] < e->params.count) {
            harness_finding_add_param(finding, (uint32_t)arg[0]);
        }
    }
    /* A rank without any died before it wrapped a model. */
    if (!out.is_set && count > 0 && count < e->params.count) {
        out = (struct drift){true, (uint32_t)count, NULL};
        harness_finding_add_param(finding, out.param);
    }
    return out;
}

static bool is_same(const struct drift *a, const struct drift *b)
{
    return a->is_set && b->is_set && a->param == b->param &&
           (a->dims == NULL) == (b->dims == NULL) &&
           (a->dims == NULL || memcmp(a->dims, b->dims, DDP_NDIM_MAX * sizeof(*a->dims)) == 0);
}

/* "[32,64]". */
static void say_shape(const uint64_t *dims, char *text, size_t size_bytes)
{
    size_t used = (size_t)snprintf(text, size_bytes, "[");

    for (uint32_t k = 0; k < DDP_NDIM_MAX && dims[k] != 0 && used < size_bytes; k++) {
        used += (size_t)snprintf(text + used, size_bytes - used, "%s%llu", k == 0 ? "" : ",",
                                 (unsigned long long)dims[k]);
    }
    if (used < size_bytes) {
        (void)snprintf(text + used, size_bytes - used, "]");
    }
}

static void say_planned(const struct harness_emulation *e, uint32_t param, char *text,
                        size_t size_bytes)
{
    uint64_t dims[DDP_NDIM_MAX] = {0};

    if (param >= e->params.count) {
        (void)snprintf(text, size_bytes, "missing");
        return;
    }
    for (uint32_t k = 0; k < e->input->params[param].ndim; k++) {
        dims[k] = e->input->params[param].shape[k];
    }
    say_shape(dims, text, size_bytes);
}

static void describe(const struct harness_emulation *e, const struct drift *drift,
                     struct harness_finding *finding)
{
    char ranks[96];
    char own[96] = "missing";
    char planned[96];

    harness_subject_set_comparison(e, 1, finding);
    if (drift->dims != NULL) {
        say_shape(drift->dims, own, sizeof(own));
    }
    say_planned(e, drift->param, planned, sizeof(planned));
    (void)snprintf(finding->text, sizeof(finding->text),
                   "%s: parameter %u (%s) is %s, and %s in the plan's model",
                   harness_subject_ranks_text(&finding->culprits, ranks, sizeof(ranks)),
                   drift->param, harness_subject_param_name(e, (int32_t)drift->param), own,
                   planned);
}

/* The first operation of every rank is its description of the model, and they are all alike. */
static bool is_described_alike(const struct harness_emulation *e)
{
    const struct ddp_event_entry *first = NULL;

    for (uint32_t r = 0; r < e->world; r++) {
        const struct harness_trace_event *post =
            harness_index_with_seq(&e->index, r, DDP_EVENT_COLL_POST, 1);

        if (post == NULL || ddp_event_op_unpack(post->entry.arg[1]).role != DDP_ROLE_VERIFY) {
            return false;
        }
        first = first == NULL ? &post->entry : first;
        if (post->entry.arg[1] != first->arg[1] || post->entry.arg[2] != first->arg[2] ||
            post->entry.arg[4] != first->arg[4]) {
            return false;
        }
    }
    return first != NULL && first->arg[4] != 0; /* 0: values were not recorded */
}

/* The rank asked what differs, or said that something does. *out_seq: the exchange after which. */
static bool is_difference_seen(const struct harness_emulation *e, uint32_t rank, uint64_t *out_seq)
{
    const struct harness_trace_event *end = harness_index_end(&e->index, rank);
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(&e->index, rank, DDP_EVENT_COLL_POST, &count);
    bool is_seen = end != NULL && harness_index_status(end->entry.arg[0]) == DDP_E_MODEL &&
                   harness_evidence_rebuilt(e, rank) == NULL; /* else it is about buckets */

    *out_seq = 0;
    for (size_t i = 0; i < count; i++) {
        struct ddp_event_op op = ddp_event_op_unpack(list[i]->entry.arg[1]);

        if (op.role != DDP_ROLE_VERIFY) {
            continue;
        }
        if (op.kind == DDP_COLL_ALL_GATHER && op.index > 0) {
            is_seen = true;
            continue;
        }
        *out_seq = list[i]->entry.arg[0];
    }
    return is_seen;
}

static void add_misread(const struct harness_emulation *e, uint32_t rank, uint64_t seq,
                        struct harness_findings *out)
{
    struct harness_finding finding;

    harness_finding_init(&finding, out->mem, HARNESS_VERDICT_VALUE_CORRUPTED, HARNESS_ORACLE_MODEL,
                         HARNESS_MODE_PROVABLE);
    harness_rank_set_add(&finding.culprits, rank);
    harness_subject_set_comparison(e, seq, &finding);
    (void)snprintf(finding.text, sizeof(finding.text),
                   "rank %u saw another model in the exchange %llu, and all ranks described the "
                   "plan's: what it compared is not what was sent",
                   rank, (unsigned long long)seq);
    harness_findings_add(out, &finding);
}

static void check_comparison(const struct harness_emulation *e, struct harness_findings *out)
{
    if (!is_described_alike(e)) {
        return;
    }
    for (uint32_t r = 0; r < e->world; r++) {
        uint64_t seq;

        if (is_difference_seen(e, r, &seq)) {
            add_misread(e, r, seq, out);
        }
    }
}

static bool is_same_place(const struct ddp_event_entry *a, const struct ddp_event_entry *b)
{
    return a != NULL && b != NULL && memcmp(a->arg, b->arg, sizeof(a->arg)) == 0;
}

/* The first parameter of a rank that lies in another place than planned; NULL: none does, or the
 * rank has another model. */
static const struct ddp_event_entry *find_moved(const struct harness_emulation *e, uint32_t rank)
{
    const struct ddp_event_entry *entry = NULL;

    return harness_emulation_has_model(e, rank) &&
                   harness_evidence_placement(e, rank, &entry) == HARNESS_PLACEMENT_OTHER
               ? entry
               : NULL;
}

static bool is_behind_rebuild(const struct harness_emulation *e, uint32_t rank,
                              const struct ddp_event_entry *entry)
{
    const struct ddp_event_entry *rebuilt = harness_evidence_rebuilt(e, rank);

    return rebuilt != NULL && rebuilt->index < entry->index;
}

/* Where rank 0's list of the new buckets is handed out. */
static void place_at_rebuild(const struct harness_emulation *e, struct harness_finding *finding)
{
    const struct harness_program *program = e->input->program;

    finding->step = program->rebuilt_step != INT32_MAX ? program->rebuilt_step : -1;
    finding->phase = DDP_PHASE_BUFFER;
    for (size_t i = 0; i < program->op_count; i++) {
        const struct harness_op *op = &program->ops[i];

        if (op->role == DDP_ROLE_REBUILD && op->index == 0) {
            finding->op = (struct harness_finding_op){true, op->seq,        op->kind, op->role,
                                                      -1,   op->elem_count, op->index};
            return;
        }
    }
}

/* The rank took part in the broadcasts of the list: what it left out, the program oracle says. */
static bool is_list_received(const struct harness_emulation *e, uint32_t rank)
{
    const struct harness_program *program = e->input->program;

    for (size_t i = 0; i < program->op_count; i++) {
        const struct harness_op *op = &program->ops[i];
        const struct harness_trace_event *done =
            op->role == DDP_ROLE_REBUILD && op->kind == DDP_COLL_BROADCAST
                ? harness_index_with_seq(&e->index, rank, DDP_EVENT_COLL_DONE, op->seq)
                : NULL;

        if (op->role == DDP_ROLE_REBUILD && op->kind == DDP_COLL_BROADCAST &&
            (done == NULL || ddp_event_op_unpack(done->entry.arg[1]).role != op->role ||
             ddp_event_op_unpack(done->entry.arg[1]).index != op->index)) {
            return false;
        }
    }
    return true;
}

/* Lists of new buckets that are not what rank 0's gradients give. Rank 0 made the list: who has the
 * same wrong one as rank 0 only got it. */
static void check_lists(const struct harness_emulation *e, struct harness_findings *out)
{
    const uint64_t planned = e->input->program->rebuilt_hash;
    const struct ddp_event_entry *first = harness_evidence_rebuilt(e, 0);
    const bool is_made_wrong = first != NULL && first->arg[1] != planned;
    struct harness_finding finding;
    char ranks[96];

    harness_finding_init(&finding, out->mem, HARNESS_VERDICT_MISMATCH_MODEL, HARNESS_ORACLE_MODEL,
                         HARNESS_MODE_PROVABLE);
    for (uint32_t r = 0; r < e->world; r++) {
        const struct ddp_event_entry *rebuilt = harness_evidence_rebuilt(e, r);

        if (rebuilt != NULL && is_list_received(e, r) && rebuilt->arg[1] != planned &&
            !(is_made_wrong && rebuilt->arg[1] == first->arg[1])) {
            harness_rank_set_add(&finding.culprits, r);
        }
    }
    if (is_made_wrong) {
        harness_rank_set_add(&finding.culprits, 0);
    }
    if (harness_rank_set_is_empty(&finding.culprits)) {
        return;
    }
    place_at_rebuild(e, &finding);
    (void)snprintf(finding.text, sizeof(finding.text),
                   "%s: the list of new buckets is not the one that the order of rank 0's "
                   "gradients gives",
                   harness_subject_ranks_text(&finding.culprits, ranks, sizeof(ranks)));
    harness_findings_add(out, &finding);
}

/* Ranks with another layout of buckets are configured otherwise. Alike ones are one finding. */
static void check_layouts(const struct harness_emulation *e, struct harness_findings *out)
{
    for (uint32_t r = 0; r < e->world; r++) {
        const struct ddp_event_entry *moved = find_moved(e, r);
        struct harness_finding finding;
        char ranks[96];
        bool is_listed = false;

        harness_finding_init(&finding, out->mem, HARNESS_VERDICT_MISMATCH_MODEL,
                             HARNESS_ORACLE_MODEL, HARNESS_MODE_PROVABLE);
        for (uint32_t q = 0; moved != NULL && q < e->world; q++) {
            if (is_same_place(moved, find_moved(e, q))) {
                is_listed = is_listed || q < r;
                harness_rank_set_add(&finding.culprits, q);
            }
        }
        if (moved == NULL || is_listed) {
            continue;
        }
        if (is_behind_rebuild(e, r, moved)) {
            place_at_rebuild(e, &finding);
        } else {
            harness_subject_set_comparison(e, 1, &finding);
        }
        harness_finding_add_param(&finding, (uint32_t)moved->arg[1]);
        (void)snprintf(finding.text, sizeof(finding.text),
                       "%s: parameter %llu (%s) lies in bucket %llu at %llu, where the plan's "
                       "configuration does not put it",
                       harness_subject_ranks_text(&finding.culprits, ranks, sizeof(ranks)),
                       (unsigned long long)moved->arg[1],
                       harness_subject_param_name(e, (int32_t)moved->arg[1]),
                       (unsigned long long)moved->arg[0], (unsigned long long)moved->arg[2]);
        harness_findings_add(out, &finding);
    }
}

/* Ranks that drifted alike are one finding. */
ddp_status harness_check_model(const struct harness_emulation *e, struct harness_findings *out,
                               struct ddp_err *err)
{
    struct harness_finding finding;
    struct harness_finding other;
    size_t before = out->count;

    (void)err;
    for (uint32_t r = 0; r < e->world; r++) {
        struct drift drift;
        bool is_listed = false;

        harness_finding_init(&finding, out->mem, HARNESS_VERDICT_MISMATCH_MODEL,
                             HARNESS_ORACLE_MODEL, HARNESS_MODE_PROVABLE);
        drift = find_drift(e, r, &finding);
        for (uint32_t q = 0; drift.is_set && q < e->world; q++) {
            struct drift same;

            harness_finding_init(&other, out->mem, HARNESS_VERDICT_MISMATCH_MODEL,
                                 HARNESS_ORACLE_MODEL, HARNESS_MODE_PROVABLE);
            same = find_drift(e, q, &other);
            if (is_same(&drift, &same)) {
                is_listed = is_listed || q < r;
                harness_rank_set_add(&finding.culprits, q);
            }
        }
        if (drift.is_set && !is_listed) {
            describe(e, &drift, &finding);
            harness_findings_add(out, &finding);
        }
    }
    harness_model_check_buffers(e, out);
    harness_model_check_config(e, out);
    check_lists(e, out);
    if (out->count == before) {
        check_layouts(e, out);
    }
    if (out->count == before) {
        check_comparison(e, out);
    }
    if (out->count == before) {
        return harness_model_check_logged(e, out);
    }
    return DDP_OK;
}
