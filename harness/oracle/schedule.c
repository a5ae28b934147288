/* Purpose: the schedules that ran: each one proved by itself, the core's own with their rounds; the
 * one of the operation that was posted; and run by all: nobody completes an operation before those
 * on whom it depends posted it. Idea: a proof says what is wrong with an algorithm, and
 * blames the ranks whose part of it is not what the algorithm gives; the trace says which operation
 * used it first. Who posted and completed what, and when, is
 * in the trace, too. */
#include <stdio.h>
#include <string.h>

#include "harness/oracle/subject.h"

/* --- proofs ----------------------------------------------------------------------------------- */

static bool is_of_set(const struct harness_schedule *any, const struct ddp_event_op *op,
                      uint64_t elem_count)
{
    return op->role != DDP_ROLE_PROBE && op->kind == any->kind && op->dtype == any->dtype &&
           elem_count == any->elem_count &&
           (!ddp_coll_kind_has_root(any->kind) || op->root == any->root);
}

/* The first operation that a rank posted and this schedule serves; NULL: none. */
static const struct harness_trace_event *first_use(const struct harness_emulation *e, uint32_t rank,
                                                   const struct harness_schedule *any)
{
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(&e->index, rank, DDP_EVENT_COLL_POST, &count);

    for (size_t i = 0; i < count; i++) {
        struct ddp_event_op op = ddp_event_op_unpack(list[i]->entry.arg[1]);

        if (is_of_set(any, &op, list[i]->entry.arg[2])) {
            return list[i];
        }
    }
    return NULL;
}

/* Where it was used first. */
static void place(const struct harness_emulation *e, const struct harness_schedule *any,
                  struct harness_finding *finding)
{
    const struct harness_trace_event *first = NULL;

    for (uint32_t r = 0; r < e->world; r++) {
        const struct harness_trace_event *use = first_use(e, r, any);

        if (use != NULL && (first == NULL || use->entry.arg[0] < first->entry.arg[0])) {
            first = use;
        }
    }
    if (first != NULL) {
        harness_subject_set_posted(e, first, finding);
    }
}

/* Somebody else's algorithm: on a CPU nobody asks for its rounds, and it need not have any. */
static bool is_of_plugin(const struct harness_emulation *e, const struct harness_schedule *any)
{
    return any->kind == DDP_COLL_ALL_REDUCE && e->input->plan->job.collective.plugin != NULL;
}

/* The ranks whose part is not what the algorithm emits for them; nobody, if all have what it gives.
 */
static void blame(const struct harness_emulation *e, const struct harness_schedule_set *set,
                  struct harness_finding *finding)
{
    size_t used = strlen(finding->text);
    char ranks[HARNESS_RANKS_TEXT_BYTES];

    DDP_ASSERT(harness_rank_set_is_empty(&finding->culprits));
    for (uint32_t r = 0; e->input->is_emitted != NULL && r < set->size; r++) {
        if (set->member[r] != NULL &&
            !e->input->is_emitted(e->input->plan, e->input->mem, set->member[r])) {
            harness_rank_set_add(&finding->culprits, r);
        }
    }
    if (!harness_rank_set_is_empty(&finding->culprits)) {
        (void)snprintf(finding->text + used, sizeof(finding->text) - used,
                       "; what rank %s has is not what %s gives",
                       harness_rank_set_text(&finding->culprits, ranks), set->any->algorithm);
    }
}

static ddp_status prove_all(const struct harness_emulation *e, struct harness_findings *out)
{
    for (size_t s = 0; s < e->schedules.set_count; s++) {
        const struct harness_schedule_set *set = &e->schedules.sets[s];
        size_t before = out->count;

        DDP_TRY(harness_schedule_set_prove(set, out));
        if (!is_of_plugin(e, set->any)) {
            DDP_TRY(harness_schedule_set_prove_rounds(set, out));
        }
        for (size_t i = before; i < out->count; i++) {
            place(e, set->any, &out->items[i]);
            blame(e, set, &out->items[i]);
        }
    }
    return DDP_OK;
}

/* A rank has completed the sum whose order is not known. */
static bool is_completed(const struct harness_emulation *e, const struct harness_unknown_sum *sum)
{
    for (uint32_t r = 0; r < e->world; r++) {
        size_t count = 0;
        const struct harness_trace_event *const *list =
            harness_index_list(&e->index, r, DDP_EVENT_COLL_DONE, &count);

        for (size_t i = 0; i < count && !harness_index_is_apart(&e->index, r, e->world); i++) {
            struct ddp_event_op op = ddp_event_op_unpack(list[i]->entry.arg[1]);

            if (op.role == DDP_ROLE_BUCKET && op.index == sum->bucket &&
                list[i]->entry.step == sum->step &&
                (sum->elem_count == 0 || list[i]->entry.arg[2] == sum->elem_count) &&
                harness_index_status(list[i]->entry.arg[3]) == DDP_OK) {
                return true;
            }
        }
    }
    return false;
}

/* The planned reduction of a bucket in a step; NULL: there is none. */
static const struct harness_op *bucket_op(const struct harness_emulation *e, uint32_t step,
                                          uint32_t bucket)
{
    const struct harness_program *program = e->input->program;

    for (size_t i = 0; i < program->op_count; i++) {
        const struct harness_op *op = &program->ops[i];

        if (op->role == DDP_ROLE_BUCKET && op->index == bucket && op->step == (int32_t)step) {
            return op;
        }
    }
    return NULL;
}

/* A rank is known to have posted something else by then: no wonder that no schedule is left. */
static bool is_off_program(const struct harness_emulation *e, uint32_t step, uint32_t bucket,
                           const struct harness_findings *out)
{
    const struct harness_op *op = bucket_op(e, step, bucket);
    const uint64_t seq = op != NULL ? op->seq : 0;

    for (size_t i = 0; i < out->count; i++) {
        const struct harness_finding *finding = &out->items[i];

        if (finding->oracle == HARNESS_ORACLE_PROGRAM && finding->op.seq <= seq) {
            return true;
        }
    }
    return false;
}

/* A rank completed it without the others, and had never run one like it: that is why it left no
 * schedule, and what was found of it is the reason. */
static bool is_never_run(const struct harness_emulation *e, uint32_t step, uint32_t bucket,
                         const struct harness_findings *out)
{
    const struct harness_op *op = bucket_op(e, step, bucket);
    const struct harness_schedule_set *set =
        op == NULL ? NULL
                   : harness_schedules_find(&e->schedules, e->world, op->kind, NULL, op->elem_count,
                                            op->dtype, op->root);
    bool is_found = false;

    for (size_t i = 0; set != NULL && i < out->count; i++) {
        const struct harness_finding *finding = &out->items[i];

        for (uint32_t r = 0;
             r < set->size && finding->oracle == HARNESS_ORACLE_SCHEDULE &&
             finding->verdict == HARNESS_VERDICT_VALUE_LOST && finding->op.seq == op->seq;
             r++) {
            is_found =
                is_found || (set->member[r] == NULL && harness_rank_set_has(&finding->culprits, r));
        }
    }
    return is_found;
}

/* --- what ran --------------------------------------------------------------------------------- */

static void begin(const struct harness_emulation *e, enum harness_verdict verdict, uint32_t rank,
                  const struct harness_trace_event *event, struct harness_findings *out,
                  struct harness_finding *finding)
{
    harness_finding_init(finding, out->mem, verdict, HARNESS_ORACLE_SCHEDULE,
                         HARNESS_MODE_PROVABLE);
    harness_rank_set_add(&finding->culprits, rank);
    harness_subject_set_posted(e, event, finding);
}

/* The root of a schedule that the rank dumped for such a broadcast: the posted one if there is one,
 * else any; -1: it dumped none. */
static int64_t dumped_root(const struct harness_emulation *e, uint32_t rank,
                           const struct ddp_event_op *op, uint64_t elem_count)
{
    int64_t found = -1;

    for (size_t s = 0; s < e->schedules.set_count; s++) {
        const struct harness_schedule_set *set = &e->schedules.sets[s];

        if (rank >= set->size || set->member[rank] == NULL || set->any->kind != op->kind ||
            set->any->dtype != op->dtype || set->any->elem_count != elem_count) {
            continue;
        }
        if (set->any->root == op->root) {
            return op->root;
        }
        found = set->any->root;
    }
    return found;
}

/* Others left a schedule of the posted root, and one of them got the same: the rank's own was lost.
 * Over another root's it would have met no message of theirs. */
static bool is_got_alike(const struct harness_emulation *e, const struct harness_trace_event *done,
                         const struct ddp_event_op *op)
{
    const uint64_t *arg = done->entry.arg;
    const struct harness_members members = harness_emulation_members(e, done->rank, arg[0]);
    const struct harness_schedule_set *set = harness_schedules_find(
        &e->schedules, members.size, op->kind, NULL, arg[2], op->dtype, op->root);

    for (uint32_t m = 0; set != NULL && m < set->size; m++) {
        const struct harness_trace_event *other = harness_index_with_seq(
            &e->index, harness_members_rank(&members, m), DDP_EVENT_COLL_DONE, arg[0]);

        if (set->member[m] != NULL && other != NULL && other->entry.arg[4] == arg[4]) {
            return true;
        }
    }
    return false;
}

/* The first broadcast that a rank completed over another root's schedule. */
static void check_roots(const struct harness_emulation *e, uint32_t rank,
                        struct harness_findings *out)
{
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(&e->index, rank, DDP_EVENT_COLL_DONE, &count);

    for (size_t i = 0; i < count; i++) {
        const uint64_t *arg = list[i]->entry.arg;
        struct ddp_event_op op = ddp_event_op_unpack(arg[1]);
        struct harness_finding finding;
        int64_t root;

        if (op.kind != DDP_COLL_BROADCAST || harness_index_status(arg[3]) != DDP_OK) {
            continue;
        }
        root = dumped_root(e, rank, &op, arg[2]);
        if (root >= 0 && root != op.root && !is_got_alike(e, list[i], &op)) {
            begin(e, HARNESS_VERDICT_MISMATCH_ROOT, rank, list[i], out, &finding);
            (void)snprintf(finding.text, sizeof(finding.text),
                           "rank %u posted broadcast %llu (%s) from root %u and ran the schedule "
                           "of root %lld",
                           rank, (unsigned long long)arg[0], ddp_coll_role_name(op.role), op.root,
                           (long long)root);
            harness_subject_merge(&finding, out);
            return;
        }
    }
}

/* --- when ------------------------------------------------------------------------------------- */

/* Posts of each operation: by how many ranks, and the last one of them. */
struct posts {
    const struct harness_emulation *e;
    uint32_t *rank_count;                    /* [seq] */
    const struct harness_trace_event **last; /* [seq] */
    uint64_t seq_end;
};

static bool is_counted(const struct posts *posts, const struct harness_trace_event *event)
{
    return event->entry.arg[0] < posts->seq_end &&
           !harness_index_is_apart(&posts->e->index, event->rank, posts->e->world) &&
           ddp_event_op_unpack(event->entry.arg[1]).role != DDP_ROLE_PROBE;
}

static void count_posts(struct posts *posts, uint32_t rank)
{
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(&posts->e->index, rank, DDP_EVENT_COLL_POST, &count);

    for (size_t i = 0; i < count; i++) {
        uint64_t seq = list[i]->entry.arg[0];

        if (!is_counted(posts, list[i])) {
            continue;
        }
        posts->rank_count[seq]++;
        if (posts->last[seq] == NULL || list[i]->entry.time_ns > posts->last[seq]->entry.time_ns) {
            posts->last[seq] = list[i];
        }
    }
}

/* The rank posted it by then under whatever number: where groups count together, a rank that left
 * out something has another number for what follows. */
static bool is_posted_so(const struct harness_emulation *e, uint32_t rank,
                         const struct harness_trace_event *done)
{
    const struct harness_trace_event *own =
        harness_index_with_seq(&e->index, done->rank, DDP_EVENT_COLL_POST, done->entry.arg[0]);
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_in_step(&e->index, rank, DDP_EVENT_COLL_POST, done->entry.step, &count);

    for (size_t i = 0; own != NULL && i < count; i++) {
        if (list[i]->entry.arg[1] == done->entry.arg[1] &&
            list[i]->entry.arg[3] == own->entry.arg[3] &&
            list[i]->entry.time_ns <= done->entry.time_ns) {
            return true;
        }
    }
    return false;
}

/* A rank on which the completed operation depends and that had not posted it by then; -1: none. A
 * broadcast depends on its root, all else on everybody; but of a reduction to a root, who is not
 * the root has only sent, and where a job posts no elements, nobody depends on anybody. What the
 * rank had not posted itself by then is no completion of its. */
static int64_t missing_rank(const struct posts *posts, const struct harness_trace_event *done)
{
    const struct harness_emulation *e = posts->e;
    uint64_t seq = done->entry.arg[0];
    struct ddp_event_op op = ddp_event_op_unpack(done->entry.arg[1]);
    const struct harness_trace_event *own =
        harness_index_with_seq(&e->index, done->rank, DDP_EVENT_COLL_POST, seq);
    const struct harness_members members = harness_emulation_members(e, done->rank, seq);
    uint32_t first = op.kind == DDP_COLL_BROADCAST ? op.root : 0;
    uint32_t end = op.kind == DDP_COLL_BROADCAST ? op.root + 1 : members.size;

    if (own == NULL || own->entry.index > done->entry.index ||
        own->entry.arg[1] != done->entry.arg[1] ||
        (op.kind == DDP_COLL_REDUCE && members.member != op.root) ||
        (op.role == DDP_ROLE_USER && op.kind != DDP_COLL_BARRIER && done->entry.arg[2] == 0)) {
        return -1;
    }
    if (posts->rank_count[seq] == members.size &&
        posts->last[seq]->entry.time_ns <= done->entry.time_ns) {
        return -1;
    }
    for (uint32_t m = first; m < end && m < members.size; m++) {
        const uint32_t r = harness_members_rank(&members, m);
        const struct harness_trace_event *post =
            harness_index_with_seq(&e->index, r, DDP_EVENT_COLL_POST, seq);

        if ((post == NULL || post->entry.time_ns > done->entry.time_ns) &&
            !(e->input->program->group_count > 0 && is_posted_so(e, r, done))) {
            return r;
        }
    }
    return -1;
}

/* The first operation that a rank completed alone. Where a message says that the rank took no part
 * in it, that is what is found: it says so too when the others had posted by then. */
static void check_order(const struct posts *posts, uint32_t rank, struct harness_findings *out)
{
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(&posts->e->index, rank, DDP_EVENT_COLL_DONE, &count);

    for (size_t i = 0; i < count; i++) {
        const uint64_t *arg = list[i]->entry.arg;
        struct harness_finding finding;
        int64_t missing = -1;

        if (is_counted(posts, list[i]) && harness_index_status(arg[3]) == DDP_OK) {
            missing = missing_rank(posts, list[i]);
        }
        if (missing >= 0 && harness_usage_is_absent(posts->e, rank, arg[0])) {
            return;
        }
        if (missing >= 0) {
            begin(posts->e, HARNESS_VERDICT_VALUE_LOST, rank, list[i], out, &finding);
            (void)snprintf(
                finding.text, sizeof(finding.text),
                "rank %u completed %s %llu (%s) before rank %lld had posted it", rank,
                ddp_coll_kind_name(ddp_event_op_unpack(arg[1]).kind), (unsigned long long)arg[0],
                ddp_coll_role_name(ddp_event_op_unpack(arg[1]).role), (long long)missing);
            harness_subject_merge(&finding, out);
            return;
        }
    }
}

/* Whether another rank that posted it has not completed it, or got something else. */
static bool is_different_elsewhere(const struct harness_emulation *e, uint32_t rank, uint64_t seq,
                                   uint64_t hash)
{
    bool is_found = false;

    for (uint32_t r = 0; r < e->world; r++) {
        const struct harness_trace_event *post =
            harness_index_with_seq(&e->index, r, DDP_EVENT_COLL_POST, seq);
        const struct harness_trace_event *done =
            harness_index_with_seq(&e->index, r, DDP_EVENT_COLL_DONE, seq);

        is_found = is_found || (r != rank && post != NULL &&
                                (done == NULL || done->entry.arg[4] != hash ||
                                 harness_index_status(done->entry.arg[3]) != DDP_OK));
    }
    return is_found;
}

/* The first sum that a rank says is done and never began: others left a schedule of it and this
 * rank none, what came out is what went in, and others have something else. */
static void check_begun(const struct harness_emulation *e, uint32_t rank,
                        struct harness_findings *out)
{
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(&e->index, rank, DDP_EVENT_COLL_DONE, &count);

    for (size_t i = 0; i < count; i++) {
        const uint64_t *arg = list[i]->entry.arg;
        const struct ddp_event_op op = ddp_event_op_unpack(arg[1]);
        const struct harness_trace_event *post =
            harness_index_with_seq(&e->index, rank, DDP_EVENT_COLL_POST, arg[0]);
        const struct harness_members members = harness_emulation_members(e, rank, arg[0]);
        const struct harness_schedule_set *set = harness_emulation_schedules(e, rank, arg);
        struct harness_finding finding;

        if (op.kind != DDP_COLL_ALL_REDUCE || harness_index_status(arg[3]) != DDP_OK ||
            post == NULL || set == NULL || members.member >= set->size ||
            set->member[members.member] != NULL || arg[4] == 0 || post->entry.arg[4] != arg[4] ||
            !is_different_elsewhere(e, rank, arg[0], arg[4])) {
            continue;
        }
        begin(e, HARNESS_VERDICT_VALUE_LOST, rank, list[i], out, &finding);
        (void)snprintf(finding.text, sizeof(finding.text),
                       "rank %u completed %s %llu (%s) without a step of it: what came out is what "
                       "it put in, and it left no schedule",
                       rank, ddp_coll_kind_name(op.kind), (unsigned long long)arg[0],
                       ddp_coll_role_name(op.role));
        harness_subject_merge(&finding, out);
        return;
    }
}

static ddp_status check_orders(const struct harness_emulation *e, struct harness_findings *out)
{
    /* Ranks number their operations from 1 without gaps, and each leaves several events. */
    struct posts posts = {.e = e, .seq_end = e->input->trace->event_count + 1};
    ddp_status status = DDP_OK;

    posts.rank_count = ddp_mem_array(e->mem, posts.seq_end, sizeof(*posts.rank_count));
    posts.last = ddp_mem_array(e->mem, posts.seq_end, sizeof(*posts.last));
    if (posts.rank_count == NULL || posts.last == NULL) {
        status = DDP_E_NOMEM;
    }
    for (uint32_t r = 0; status == DDP_OK && r < e->world; r++) {
        count_posts(&posts, r);
    }
    for (uint32_t r = 0; status == DDP_OK && r < e->world; r++) {
        check_order(&posts, r, out);
    }
    ddp_mem_free(e->mem, posts.rank_count);
    ddp_mem_free(e->mem, posts.last);
    return status;
}

ddp_status harness_check_schedule(const struct harness_emulation *e, struct harness_findings *out,
                                  struct ddp_err *err)
{
    (void)err;
    DDP_TRY(prove_all(e, out));
    for (uint32_t r = 0; r < e->world; r++) {
        check_roots(e, r, out);
    }
    for (uint32_t r = 0; r < e->world; r++) {
        check_begun(e, r, out);
    }
    if (e->input->trace->lost_count == 0) {
        /* Else a post may be one of the lost events; the run is inconclusive anyway. */
        DDP_TRY(check_orders(e, out));
    }
    if (e->unknown_sum.is_set && is_completed(e, &e->unknown_sum) &&
        !is_off_program(e, e->unknown_sum.step, e->unknown_sum.bucket, out) &&
        !is_never_run(e, e->unknown_sum.step, e->unknown_sum.bucket, out)) {
        out->is_evidence_lost = true;
        (void)snprintf(out->lost_text, sizeof(out->lost_text),
                       "bucket %u was reduced in step %u, and its order is not known: %s",
                       e->unknown_sum.bucket, e->unknown_sum.step, e->unknown_sum.why);
    }
    return DDP_OK;
}
