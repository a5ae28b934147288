/* Purpose: what was recorded of collectives that carry no gradients: presence under join,
 * verification, barriers, tensors that are handed out. Gradients have oracles of their own.
 * Idea: every member of a collective ends with the same bytes, and what goes into the small ones
 * follows from the plan: who has data in which pass. */
#include <stdio.h>

#include "ddpcore/base/hash.h"
#include "harness/evidence/internal.h"

struct walk {
    const struct harness_emulation *e;
    const struct harness_op *op;
    uint64_t pass; /* forward pass of the run that op belongs to, from 0 */
    bool is_clean; /* nothing was found: every rank completed everything */
    struct harness_gap *out;
};

static const struct ddp_event_entry *entry_of(const struct walk *walk, uint32_t rank,
                                              enum ddp_event event)
{
    const struct harness_trace_event *found =
        harness_index_with_seq(&walk->e->index, rank, event, walk->op->seq);

    return found != NULL ? &found->entry : NULL;
}

/* The rank has data for this pass. */
static bool is_active(const struct walk *walk, uint32_t rank, uint64_t pass)
{
    return harness_emulation_has_batch(walk->e, rank, pass);
}

/* The rank that gives its tensors away: of those with data, or that had some last, the highest. */
static bool is_candidate(const struct walk *walk, uint32_t rank)
{
    for (uint32_t r = 0; r < walk->e->world; r++) {
        if (is_active(walk, r, walk->pass)) {
            return is_active(walk, rank, walk->pass);
        }
    }
    return walk->pass == 0 || is_active(walk, rank, walk->pass - 1);
}

/* What a rank puts into a collective, as its hash; false: it is not known here. */
static bool expected_input(const struct walk *walk, uint32_t rank, uint64_t *out)
{
    const struct harness_op *op = walk->op;
    uint64_t micros = walk->e->input->job->micro_batches;
    bool is_on = is_active(walk, rank, walk->pass);
    int64_t member = is_candidate(walk, rank) ? (int64_t)rank : -1;
    float flag;
    char salt[64];

    (void)snprintf(salt, sizeof(salt), "%s/%u", ddp_coll_role_name(op->role), op->index);
    switch (op->role) {
    case DDP_ROLE_JOIN_PRESENT:
        flag = is_on == (op->index == 0) ? 1.0f : 0.0f;
        break;
    case DDP_ROLE_JOIN_SYNC_FLAG:
        flag = is_on && (walk->pass + 1) % micros == 0 ? 1.0f : 0.0f;
        break;
    case DDP_ROLE_JOIN_LAST:
        *out = ddp_hash_tensor(&member, sizeof(member), ddp_hash_text(salt), NULL);
        return true;
    case DDP_ROLE_BARRIER:
    case DDP_ROLE_MONITORED:
        *out = 0;
        return true;
    default:
        *out = 0;
        return false;
    }
    *out = ddp_hash_tensor(&flag, sizeof(flag), ddp_hash_text(salt), NULL);
    return true;
}

/* What a rank without data puts into a bucket's sum; 0 if there is no memory for it. */
static uint64_t zero_hash(const struct walk *walk)
{
    size_t elem_bytes = ddp_dtype_size_bytes(walk->op->dtype);
    void *zeros = ddp_mem_array(walk->e->mem, walk->op->elem_count, elem_bytes);
    uint64_t hash = 0;
    char salt[64];

    (void)snprintf(salt, sizeof(salt), "%s/%u", ddp_coll_role_name(walk->op->role),
                   walk->op->index);
    if (zeros != NULL) {
        hash = ddp_hash_tensor(zeros, walk->op->elem_count * elem_bytes, ddp_hash_text(salt), NULL);
    }
    ddp_mem_free(walk->e->mem, zeros);
    return hash;
}

/* Oracle reduction knows the values of a bucket, but of ranks that only mirror the step. first_out:
 * what a rank with data got. */
static void check_bucket(const struct walk *walk, uint32_t rank, const struct ddp_event_entry *post,
                         const struct ddp_event_entry *done, uint64_t *first_out)
{
    size_t k = (size_t)(walk->op->step - (int32_t)walk->e->start_step);
    unsigned long long seq = walk->op->seq;

    if (walk->op->step >= (int32_t)walk->e->end_step ||
        walk->e->expected.is_active[k * walk->e->world + rank]) {
        *first_out = done->arg[4];
        return;
    }
    if (*first_out != 0 && done->arg[4] != *first_out) {
        harness_gap_set(walk->out, "rank %u mirrored collective %llu and got another value", rank,
                        seq);
    }
    if (post->arg[4] != zero_hash(walk)) {
        harness_gap_set(walk->out, "rank %u mirrored collective %llu with more than zeros", rank,
                        seq);
    }
}

/* first_in: of the first member that recorded any. */
static void check_input(const struct walk *walk, uint32_t rank, const struct ddp_event_entry *post,
                        const struct ddp_event_entry *done, uint64_t *first_in)
{
    bool is_broadcast = walk->op->kind == DDP_COLL_BROADCAST;
    const char *role = ddp_coll_role_name(walk->op->role);
    unsigned long long seq = walk->op->seq;
    uint64_t expected = 0;

    if (expected_input(walk, rank, &expected) && post->arg[4] != expected) {
        harness_gap_set(walk->out,
                        "rank %u put another value into collective %llu (%s) than it has", rank,
                        seq, role);
    }
    if (is_broadcast &&
        post->arg[4] != (ddp_event_op_unpack(post->arg[1]).root == rank ? done->arg[4] : 0)) {
        harness_gap_set(walk->out,
                        "rank %u put another value into collective %llu (%s) than came "
                        "out of it",
                        rank, seq, role);
    }
    *first_in = *first_in == 0 ? post->arg[4] : *first_in;
    if (walk->op->role == DDP_ROLE_VERIFY && !is_broadcast && post->arg[4] != *first_in) {
        harness_gap_set(walk->out, "rank %u had another model verified in collective %llu", rank,
                        seq);
    }
}

/* first_out: of the first member that recorded any. */
static void check_output(const struct walk *walk, uint32_t rank, const struct ddp_event_entry *done,
                         uint64_t *first_out)
{
    unsigned long long seq = walk->op->seq;

    *first_out = *first_out == 0 ? done->arg[4] : *first_out;
    if (done->arg[4] != *first_out || (done->arg[4] == 0) != (walk->op->kind == DDP_COLL_BARRIER)) {
        harness_gap_set(walk->out,
                        "rank %u got another value out of collective %llu (%s) than "
                        "the others",
                        rank, seq, ddp_coll_role_name(walk->op->role));
    }
}

/* Oracle reduction knows the values of what a job posts, wherever there are any. */
static void check_posted(const struct walk *walk, uint32_t rank, const struct ddp_event_entry *post,
                         const struct ddp_event_entry *done)
{
    const struct harness_op *op = walk->op;
    const struct harness_members members = harness_emulation_members(walk->e, rank, op->seq);
    bool is_root = op->root == members.member;
    bool is_any = op->kind != DDP_COLL_BARRIER && op->elem_count > 0;
    bool has_input = is_any && (op->kind != DDP_COLL_BROADCAST || is_root);
    bool has_output = is_any && ddp_coll_output_blocks(op->kind, members.size, is_root) > 0;

    if (has_output && entry_of(walk, rank, DDP_EVENT_COLL_TAKEN) == NULL) {
        harness_gap_set(walk->out,
                        "rank %u did not record what it found behind collective %llu (%s)", rank,
                        (unsigned long long)op->seq, ddp_coll_role_name(op->role));
    }
    if ((post->arg[4] != 0) != has_input || (done->arg[4] != 0) != has_output) {
        harness_gap_set(walk->out,
                        "rank %u recorded no values of collective %llu (%s), or too many", rank,
                        (unsigned long long)op->seq, ddp_coll_role_name(op->role));
    }
}

/* It failed in that step, in something that it posted before it came to wait, or it failed later
 * and had never ended the step's pass, whose last bucket was not complete. */
static bool is_never_waiting(const struct walk *walk, uint32_t rank, uint32_t step)
{
    const struct harness_trace_event *end = harness_index_end(&walk->e->index, rank);
    size_t count = 0;

    (void)harness_index_in_step(&walk->e->index, rank, DDP_EVENT_GRAD_FINAL, step, &count);
    return end != NULL && harness_index_status(end->entry.arg[0]) != DDP_OK &&
           (end->entry.step == step || count == 0);
}

static void check_member(const struct walk *walk, uint32_t rank, uint64_t *first_in,
                         uint64_t *first_out)
{
    const struct ddp_event_entry *post = entry_of(walk, rank, DDP_EVENT_COLL_POST);
    const struct ddp_event_entry *done = entry_of(walk, rank, DDP_EVENT_COLL_DONE);
    unsigned long long seq = walk->op->seq;

    const bool is_waited = entry_of(walk, rank, DDP_EVENT_COLL_WAITED) != NULL;
    const bool is_done =
        post != NULL && done != NULL && harness_index_status(done->arg[3]) == DDP_OK;

    if (!is_done) {
        if (walk->is_clean) { /* else the rank may be behind the one on which the fault acted */
            harness_gap_set(walk->out, "rank %u did not complete collective %llu (%s)", rank, seq,
                            ddp_coll_role_name(walk->op->role));
        }
        return;
    }
    if (!is_waited && !harness_evidence_is_disturbed(walk->e, rank, post->step) &&
        !is_never_waiting(walk, rank, post->step)) {
        harness_gap_set(walk->out, "rank %u did not wait for collective %llu (%s)", rank, seq,
                        ddp_coll_role_name(walk->op->role));
    }
    if (walk->op->role == DDP_ROLE_BUCKET) {
        check_bucket(walk, rank, post, done, first_out);
        return;
    }
    if (walk->op->role == DDP_ROLE_USER) {
        check_posted(walk, rank, post, done);
        return;
    }
    check_input(walk, rank, post, done, first_in);
    check_output(walk, rank, done, first_out);
}

void harness_evidence_collectives(const struct harness_emulation *e, int32_t end_step,
                                  struct harness_gap *out)
{
    const struct harness_program *program = e->input->program;
    uint64_t first = (uint64_t)e->input->restored_step * e->input->job->micro_batches;
    struct walk walk = {e, NULL, first, end_step == INT32_MAX, out};
    bool is_begun = false;

    for (size_t i = 0; i < program->op_count && !out->is_set; i++) {
        uint64_t first_in = 0;
        uint64_t first_out = 0;

        walk.op = &program->ops[i];
        if (walk.op->role == DDP_ROLE_JOIN_PRESENT && walk.op->index == 0) {
            walk.pass += is_begun ? 1 : 0;
            is_begun = true;
        }
        if (walk.op->step >= end_step) {
            return;
        }
        for (uint32_t r = 0; r < e->world; r++) {
            if (harness_program_has_member(program, walk.op->seq, r)) {
                check_member(&walk, r, &first_in, &first_out);
            }
        }
    }
}

static uint32_t count_active(const struct walk *walk, uint64_t pass)
{
    uint32_t count = 0;

    for (uint32_t r = 0; r < walk->e->world; r++) {
        count += is_active(walk, r, pass);
    }
    return count;
}

/* Who hands out the model behind join is the root of what the rank posted for that. */
static bool is_other_root(const struct harness_emulation *e, uint32_t rank, uint64_t root)
{
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(&e->index, rank, DDP_EVENT_COLL_POST, &count);

    for (size_t i = count; i > 0; i--) {
        const struct ddp_event_op op = ddp_event_op_unpack(list[i - 1]->entry.arg[1]);

        if (list[i - 1]->entry.phase == DDP_PHASE_JOIN && op.kind == DDP_COLL_BROADCAST) {
            return op.root != root;
        }
    }
    return false; /* a model without tensors, or another finding's */
}

/* Returns the pass behind the last one that the rank recorded. */
static uint64_t check_join_events(const struct walk *walk, uint32_t rank)
{
    const struct harness_emulation *e = walk->e;
    const uint64_t first = (uint64_t)e->input->restored_step * e->input->job->micro_batches;
    const bool is_initial = e->input->plan->job.join.divide_by_initial_world_size;
    uint64_t pass = first;
    uint64_t divisor = e->world; /* that of the pass before */
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(&e->index, rank, DDP_EVENT_JOIN, &count);

    /* The kinds are those of enum ddp_join_event: present, ended, mirror, terminated, done. */
    for (size_t i = 0; i < count; i++) {
        const uint64_t *arg = list[i]->entry.arg;
        bool is_pass = arg[0] == 0 || arg[0] == 2;
        uint32_t active = count_active(walk, pass);

        divisor = is_pass && !is_initial ? active : divisor;
        if ((is_pass && (arg[1] != active || is_active(walk, rank, pass) != (arg[0] == 0))) ||
            arg[2] != divisor || (!is_pass && arg[0] != (i + 1 == count ? 4 : 1)) ||
            (arg[0] == 1 && arg[1] != 0) || (arg[0] == 4 && is_other_root(e, rank, arg[1]))) {
            harness_gap_set(walk->out, "rank %u recorded another pass under join than number %llu",
                            rank, (unsigned long long)pass);
        }
        pass += is_pass ? 1 : 0;
    }
    if (count != (size_t)(pass - first) + 2) {
        harness_gap_set(walk->out, "rank %u recorded %zu events of join for %llu passes", rank,
                        count, (unsigned long long)(pass - first));
    }
    return pass;
}

/* The tensors that are handed out behind join: each once, in their order. */
void harness_evidence_joined(const struct harness_emulation *e, uint32_t rank,
                             struct harness_gap *out)
{
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(&e->index, rank, DDP_EVENT_JOIN_TENSOR, &count);

    for (size_t i = 0; i < count; i++) {
        if (list[i]->entry.arg[0] != i) {
            harness_gap_set(out, "rank %u recorded tensor %llu after join where %zu is due", rank,
                            (unsigned long long)list[i]->entry.arg[0], i);
        }
    }
}

/* Each kind of join's events as often as the rank's data says, about as many ranks. */
void harness_evidence_join(const struct harness_emulation *e, uint32_t rank,
                           struct harness_gap *out)
{
    const struct walk walk = {e, NULL, 0, true, out};
    uint64_t pass = check_join_events(&walk, rank);

    for (uint32_t r = 0; r < e->world; r++) {
        if (is_active(&walk, r, pass)) {
            harness_gap_set(out, "rank %u recorded no pass %llu, for which rank %u has data", rank,
                            (unsigned long long)pass, r);
        }
    }
}
