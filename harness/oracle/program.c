/* Purpose: what each rank really posted, against the program, by sequence number.
 * Idea: what a rank posts after a deviation follows from it, unless only the way of combining was
 * another one. Ranks that deviate alike are one finding. */
#include <stdio.h>
#include <string.h>

#include "harness/oracle/subject.h"

struct deviation {
    bool is_set;
    enum harness_verdict verdict;
    struct harness_post post;
    int32_t recorded; /* its step, as the rank counts it */
    uint8_t phase;
    bool is_end; /* nothing was posted where something was planned */
};

static uint32_t posted_root(const struct harness_emulation *e, uint32_t rank, uint64_t seq)
{
    const struct harness_trace_event *event =
        harness_index_with_seq(&e->index, rank, DDP_EVENT_COLL_POST, seq);

    return event == NULL ? UINT32_MAX : ddp_event_op_unpack(event->entry.arg[1]).root;
}

/* The root of a broadcast whose root the ranks agree on: the planned one if a rank posted it, else
 * the one that most posted. */
static uint32_t agreed_root(const struct harness_emulation *e, const struct harness_op *planned)
{
    uint32_t best = planned->root;
    uint32_t best_votes = 0;

    for (uint32_t r = 0; r < e->world; r++) {
        if (posted_root(e, r, planned->seq) == planned->root) {
            return planned->root;
        }
    }
    for (uint32_t r = 0; r < e->world; r++) {
        uint32_t root = posted_root(e, r, planned->seq);
        uint32_t votes = 0;

        for (uint32_t q = 0; root != UINT32_MAX && q < e->world; q++) {
            votes += posted_root(e, q, planned->seq) == root;
        }
        if (votes > best_votes) {
            best = root;
            best_votes = votes;
        }
    }
    return best;
}

/* A rank broadcasts from another root than the others agreed on. */
static bool is_root_foreign(const struct harness_emulation *e, const struct harness_post *post)
{
    const struct harness_op *planned = harness_program_at(e->input->program, post->seq);

    return planned != NULL && planned->kind == DDP_COLL_BROADCAST && !planned->is_root_known &&
           agreed_root(e, planned) != post->op.root;
}

/* The rank judged the other ranks' models without having asked for them. */
static bool is_model_judged_unseen(const struct harness_emulation *e, uint32_t rank, uint64_t last)
{
    const struct harness_trace_event *end = harness_index_end(&e->index, rank);

    return last == 0 && end != NULL && harness_index_status(end->entry.arg[0]) == DDP_E_MODEL;
}

/* All gradients of a bucket were ready in the pass of a post, before the entry `limit`. */
static bool is_ready(const struct harness_emulation *e, uint32_t rank,
                     const struct harness_bucket *bucket, const struct ddp_event_entry *post,
                     uint64_t limit)
{
    static const enum ddp_event settles[] = {DDP_EVENT_GRAD_READY, DDP_EVENT_PARAM_UNUSED};

    for (uint32_t p = 0; p < bucket->param_count; p++) {
        bool is_found = false;

        for (size_t k = 0; k < sizeof(settles) / sizeof(settles[0]); k++) {
            size_t count = 0;
            const struct harness_trace_event *const *list =
                harness_index_in_step(&e->index, rank, settles[k], post->step, &count);

            for (size_t i = 0; i < count && !is_found; i++) {
                is_found = list[i]->entry.arg[0] == bucket->params[p] &&
                           list[i]->entry.micro == post->micro && list[i]->entry.index < limit;
            }
        }
        if (!is_found) {
            return false;
        }
    }
    return true;
}

static bool is_post_planned_at(const struct harness_emulation *e,
                               const struct ddp_event_entry *post, uint64_t seq)
{
    struct ddp_event_op op = ddp_event_op_unpack(post->arg[1]);

    return harness_program_at(e->input->program, seq) != NULL &&
           harness_program_compare(e->input->program, seq, &op, post->arg[2]) ==
               HARNESS_VERDICT_NONE;
}

/* What was planned at seq the rank posted later in the same pass: it was not left out. */
static bool is_posted_later(const struct harness_emulation *e, uint64_t seq,
                            const struct harness_trace_event *const *post, size_t post_count)
{
    for (size_t i = 1; i < post_count; i++) {
        if (post[i]->entry.step != post[0]->entry.step ||
            post[i]->entry.micro != post[0]->entry.micro) {
            return false;
        }
        if (is_post_planned_at(e, &post[i]->entry, seq)) {
            return true;
        }
    }
    return false;
}

/* All that the rank posted from there on, in the same pass, is what is planned one further: it left
 * an operation out. With hooks what was planned there may look like a later round of its bucket. */
static bool is_one_further(const struct harness_emulation *e,
                           const struct harness_trace_event *const *post, size_t post_count)
{
    size_t i = 0;

    while (i < post_count && post[i]->entry.step == post[0]->entry.step &&
           post[i]->entry.micro == post[0]->entry.micro) {
        if (!is_post_planned_at(e, &post[i]->entry, post[i]->entry.arg[0] + 1)) {
            return false;
        }
        i++;
    }
    return i > 1;
}

/* A bucket where another one of the same size is planned was left out, was posted twice, changed
 * places, or has another one's number. post[0] cannot tell; what the rank posted next does, or
 * which gradients it had: no rank reduces a bucket whose gradients are not ready. In another step
 * there is no doubt. */
static enum harness_verdict settle_bucket(const struct harness_emulation *e, uint32_t rank,
                                          const struct deviation *deviation,
                                          const struct harness_trace_event *const *post,
                                          size_t post_count, bool is_first)
{
    const struct harness_program *program = e->input->program;
    const struct harness_op *planned = harness_program_at(program, deviation->post.seq);
    const struct ddp_event_entry *entry = &post[0]->entry;
    const struct harness_buckets *buckets =
        harness_program_buckets(program, harness_program_step_at(program, deviation->post.seq));
    uint64_t seq = deviation->post.seq;
    bool is_missing = deviation->verdict == HARNESS_VERDICT_MISMATCH_MISSING;
    bool is_again = deviation->verdict == HARNESS_VERDICT_MISMATCH_EXTRA ||
                    deviation->verdict == HARNESS_VERDICT_MISMATCH_ORDER;

    if (planned == NULL || planned->role != DDP_ROLE_BUCKET || (!is_missing && !is_again) ||
        deviation->post.op.role != DDP_ROLE_BUCKET || deviation->post.step != planned->step ||
        deviation->post.op.index == planned->index || deviation->post.op.index >= buckets->count) {
        return deviation->verdict;
    }
    if (deviation->post.elem_count != planned->elem_count) {
        return is_missing && is_posted_later(e, seq, post, post_count) &&
                       !is_one_further(e, post, post_count)
                   ? HARNESS_VERDICT_MISMATCH_ORDER
                   : deviation->verdict;
    }
    if (post_count > 1 && is_missing && is_post_planned_at(e, entry, seq + 1) &&
        is_post_planned_at(e, &post[1]->entry, seq)) {
        return HARNESS_VERDICT_MISMATCH_ORDER;
    }
    if (post_count > 1) {
        return is_post_planned_at(e, &post[1]->entry, seq + 1) ? HARNESS_VERDICT_MISMATCH_BUCKET
                                                               : deviation->verdict;
    }
    if (!is_ready(e, rank, &buckets->items[planned->index], entry, entry->index)) {
        return deviation->verdict;
    }
    return is_missing
               ? (is_ready(e, rank, &buckets->items[deviation->post.op.index], entry, entry->index)
                      ? deviation->verdict
                      : HARNESS_VERDICT_MISMATCH_BUCKET)
           /* Its gradients became ready after the operation before: they were its own. */
           : !is_first &&
                   !is_ready(e, rank, &buckets->items[planned->index], entry, post[-1]->entry.index)
               ? HARNESS_VERDICT_MISMATCH_BUCKET
               : deviation->verdict;
}

static bool is_hang_of(const struct harness_findings *found, uint32_t rank)
{
    for (size_t i = 0; i < found->count; i++) {
        if (harness_verdict_family(found->items[i].verdict) == HARNESS_FAMILY_HANG &&
            harness_rank_set_has(&found->items[i].culprits, rank)) {
            return true;
        }
    }
    return false;
}

/* In one group the rank posted before it did in another (harness_program_is_open). What it did next
 * tells; NONE: it came to hang in there, and so it was found already. */
static enum harness_verdict settle_open(const struct harness_emulation *e, uint32_t rank,
                                        uint64_t seq, const struct harness_trace_event *const *post,
                                        size_t post_count, const struct harness_findings *found)
{
    if (is_posted_later(e, seq, post, post_count)) {
        return HARNESS_VERDICT_MISMATCH_ORDER;
    }
    for (size_t i = 1; i < post_count; i++) {
        if (post[i]->entry.step != post[0]->entry.step ||
            post[i]->entry.phase >= DDP_PHASE_TEARDOWN) {
            return HARNESS_VERDICT_MISMATCH_MISSING;
        }
    }
    if (harness_index_is_ended_ok(&e->index, rank)) {
        return HARNESS_VERDICT_MISMATCH_MISSING;
    }
    return is_hang_of(found, rank) ? HARNESS_VERDICT_NONE : HARNESS_VERDICT_MISMATCH_ORDER;
}

/* Trees are measured when all that construction posts has been posted: a rank that measures left
 * out what is still planned there. */
static const struct harness_trace_event *begin_of_probes(const struct harness_emulation *e,
                                                         uint32_t rank, uint64_t seq)
{
    const struct harness_op *planned = harness_program_at(e->input->program, seq);
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(&e->index, rank, DDP_EVENT_PHASE, &count);

    for (size_t i = 0; planned != NULL && planned->phase <= DDP_PHASE_INIT && i < count; i++) {
        if (list[i]->entry.arg[0] == DDP_PHASE_PROBE) {
            return list[i];
        }
    }
    return NULL;
}

/* What is wrong with a post, behind the rank's last one; out: the post, and how it is called. */
static void compare(const struct harness_emulation *e, uint64_t due, struct deviation *out)
{
    const struct harness_program *program = e->input->program;

    out->verdict = harness_program_compare_post(program, &out->post);
    if (out->verdict != HARNESS_VERDICT_NONE && program->group_count > 0 && due < out->post.seq) {
        /* It counted operations of groups that it is not in, and left out one before them. */
        out->post.seq = due;
        out->verdict = harness_program_compare_post(program, &out->post);
        out->verdict =
            out->verdict == HARNESS_VERDICT_NONE ? HARNESS_VERDICT_MISMATCH_ORDER : out->verdict;
    }
}

/* Of a post that the program has. */
static enum harness_verdict compare_place(const struct harness_emulation *e, uint64_t due,
                                          const struct harness_post *post)
{
    if (post->seq != due) {
        return HARNESS_VERDICT_MISMATCH_ORDER;
    }
    return is_root_foreign(e, post) ? HARNESS_VERDICT_MISMATCH_ROOT : HARNESS_VERDICT_NONE;
}

/* last: the number of what the rank posted before; 0: nothing. */
static struct harness_post read_post(const struct harness_emulation *e, uint32_t rank,
                                     const struct ddp_event_entry *entry, uint64_t last)
{
    const struct harness_trace_event *waited =
        harness_index_with_seq(&e->index, rank, DDP_EVENT_COLL_WAITED, last);

    return (struct harness_post){
        .seq = entry->arg[0],
        .step = harness_program_step_of(e->input->program, entry->phase, entry->step),
        .op = ddp_event_op_unpack(entry->arg[1]),
        .elem_count = entry->arg[2],
        .comm = entry->arg[3],
        .is_waited = waited != NULL && waited->entry.index < entry->index};
}

/* The first one from the post `first` on, which is then where to go on. */
static struct deviation next_deviation(const struct harness_emulation *e, uint32_t rank,
                                       const struct harness_findings *found, size_t *first)
{
    const struct harness_program *program = e->input->program;
    struct deviation out = {.is_set = false};
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(&e->index, rank, DDP_EVENT_COLL_POST, &count);
    uint64_t last = *first > 0 ? list[*first - 1]->entry.arg[0] : 0;
    uint64_t due = 0;

    for (size_t i = *first; i < count; i++) {
        const struct ddp_event_entry *entry = &list[i]->entry;

        out.post = read_post(e, rank, entry, last);
        if (out.post.op.role == DDP_ROLE_PROBE) {
            continue; /* no trigger, sequence number or hit counter sees a probe */
        }
        out.phase = entry->phase;
        out.recorded = entry->phase <= DDP_PHASE_INIT ? -1 : (int32_t)entry->step;
        due = harness_program_next(program, last, rank);
        compare(e, due, &out);
        if (out.verdict != HARNESS_VERDICT_NONE &&
            harness_program_is_open(program, out.post.seq, out.post.step, &out.post.op,
                                    out.post.elem_count)) {
            out.verdict = settle_open(e, rank, out.post.seq, &list[i], count - i, found);
            out.is_set = out.verdict != HARNESS_VERDICT_NONE;
            *first = i + 1;
            return out;
        }
        if (out.verdict == HARNESS_VERDICT_NONE) {
            out.verdict = compare_place(e, due, &out.post);
        }
        if (out.verdict != HARNESS_VERDICT_NONE) {
            out.is_set = true;
            out.verdict = settle_bucket(e, rank, &out, &list[i], count - i, i == 0);
            *first = i + 1;
            return out;
        }
        last = out.post.seq;
    }
    due = harness_program_next(program, last, rank);
    if (due <= program->op_count &&
        (harness_index_is_ended_ok(&e->index, rank) || is_model_judged_unseen(e, rank, last) ||
         begin_of_probes(e, rank, due) != NULL)) {
        const struct harness_trace_event *probes = begin_of_probes(e, rank, due);

        out.is_set = true;
        out.is_end = true;
        out.recorded =
            probes != NULL ? -1 : (int32_t)harness_index_end(&e->index, rank)->entry.step;
        out.verdict = HARNESS_VERDICT_MISMATCH_MISSING;
        out.post.seq = due;
    }
    return out;
}

/* The rank's data ended in this step, without join: the cause of all that follows. */
static bool is_out_of_data(const struct harness_emulation *e, uint32_t rank,
                           const struct deviation *deviation)
{
    const struct harness_op *planned = harness_program_at(e->input->program, deviation->post.seq);
    uint64_t batches = harness_emulation_batch_count(e, rank);

    return !e->input->plan->job.join.is_set && batches != UINT64_MAX && planned != NULL &&
           planned->step >= 0 && (uint64_t)planned->step < e->input->plan->job.steps &&
           batches < ((uint64_t)planned->step + 1) * e->input->job->micro_batches;
}

/* group: NULL, or of some ranks. */
static void set_op(const struct harness_emulation *e, const struct ddp_event_op *op,
                   uint64_t elem_count, const struct harness_group *group,
                   struct harness_finding *finding)
{
    finding->op = (struct harness_finding_op){.is_set = true,
                                              .kind = op->kind,
                                              .role = op->role,
                                              .bucket = -1,
                                              .elem_count = elem_count,
                                              .index = op->index};
    if (group != NULL) {
        (void)snprintf(finding->guest.comm, sizeof(finding->guest.comm), "%s", group->name);
    }
    if (op->role == DDP_ROLE_BUCKET) {
        harness_subject_set_bucket(e, op->index, finding);
    }
}

static const char *group_text(const struct harness_group *group, char *out, size_t out_bytes)
{
    (void)snprintf(out, out_bytes, "%s%s", group != NULL ? " in group " : "",
                   group != NULL ? group->name : "");
    return out;
}

/* The finding is about the planned operation that is missing or differs, or about the extra one. */
static void describe(const struct harness_emulation *e, uint32_t rank,
                     const struct deviation *deviation, struct harness_finding *finding)
{
    const struct harness_program *program = e->input->program;
    const struct harness_op *planned = harness_program_at(program, deviation->post.seq);
    const struct ddp_event_op *got_op = &deviation->post.op;
    const struct harness_group *due =
        planned != NULL ? harness_program_group(program, planned) : NULL;
    const struct harness_group *used = harness_program_group_of(program, deviation->post.comm);
    char expected[128] = "the end";
    char got[160] = "nothing";
    char name[HARNESS_GROUP_NAME_BYTES + 16];

    if (planned != NULL) {
        (void)snprintf(expected, sizeof(expected), "%s %s/%u of %llu%s in step %d",
                       ddp_coll_kind_name(planned->kind), ddp_coll_role_name(planned->role),
                       planned->index, (unsigned long long)planned->elem_count,
                       group_text(due, name, sizeof(name)), planned->step);
    }
    if (planned != NULL && deviation->verdict != HARNESS_VERDICT_MISMATCH_EXTRA) {
        const struct ddp_event_op op = {
            .kind = planned->kind, .role = planned->role, .index = planned->index};

        finding->step = planned->step;
        finding->phase = (int32_t)planned->phase;
        set_op(e, &op, planned->elem_count, due, finding);
    } else {
        finding->step = deviation->post.step;
        finding->phase = deviation->phase;
        set_op(e, got_op, deviation->post.elem_count, used, finding);
    }
    if (finding->step == harness_program_end(program)) {
        finding->step = deviation->recorded; /* everybody counts what follows to the last step */
    }
    finding->op.seq = deviation->post.seq;
    if (!deviation->is_end) {
        (void)snprintf(got, sizeof(got), "%s %s/%u of %llu (%s, %s, root %u)%s in step %d",
                       ddp_coll_kind_name(got_op->kind), ddp_coll_role_name(got_op->role),
                       got_op->index, (unsigned long long)deviation->post.elem_count,
                       ddp_dtype_name(got_op->dtype), ddp_redop_name(got_op->redop), got_op->root,
                       group_text(used, name, sizeof(name)), deviation->post.step);
    }
    (void)snprintf(finding->text, sizeof(finding->text),
                   "rank %u: collective %llu should be %s, and was %s", rank,
                   (unsigned long long)deviation->post.seq, expected, got);
}

/* Ranks that did the same are one finding: what is said of them differs in the rank alone. */
static bool is_said_alike(const struct harness_finding *a, const struct harness_finding *b)
{
    return a->verdict == b->verdict && a->oracle == b->oracle &&
           strcmp(strchr(a->text, ':'), strchr(b->text, ':')) == 0;
}

static void add(const struct harness_emulation *e, uint32_t rank, const struct deviation *deviation,
                struct harness_findings *out)
{
    struct harness_finding finding;

    harness_finding_init(&finding, out->mem,
                         is_out_of_data(e, rank, deviation) ? HARNESS_VERDICT_DATA_UNEVEN
                                                            : deviation->verdict,
                         HARNESS_ORACLE_PROGRAM, HARNESS_MODE_PROVABLE);
    harness_rank_set_add(&finding.culprits, rank);
    describe(e, rank, deviation, &finding);
    for (size_t i = 0; i < out->count; i++) {
        if (is_said_alike(&out->items[i], &finding)) {
            harness_rank_set_add(&out->items[i].culprits, rank);
            return;
        }
    }
    harness_findings_add(out, &finding);
}

ddp_status harness_check_program(const struct harness_emulation *e, struct harness_findings *out,
                                 struct ddp_err *err)
{
    (void)err;
    for (uint32_t r = 0; r < e->world; r++) {
        struct deviation deviation;
        size_t first = 0;

        do {
            deviation = next_deviation(e, r, out, &first);
            if (deviation.is_set) {
                add(e, r, &deviation, out);
            }
        } while (deviation.is_set && deviation.verdict == HARNESS_VERDICT_MISMATCH_REDUCTION);
    }
    return DDP_OK;
}
