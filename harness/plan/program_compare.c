/* What a posted operation differs in. Rules, first match wins:
 *   1. an exchange in which verification explains a difference  NONE: the ranks report it
 *   2. past the end of the program                              EXTRA
 *   3. it is the planned operation                              NONE, or what the rank's step says
 *   4. it has the planned one's role and number                 its first other field that differs
 *      (of a BatchNorm's two operations: and its kind; unless it is another round of its hook)
 *   5. it is the previous operation again                       EXTRA    } where both hold, the
 *   6. it is one of the next 64 operations                      MISSING  } rank's step decides
 *      (or a bucket's whose turn comes later in the step, sent otherwise)
 *   7. it is another operation of the same step                 ORDER
 *   8. the first differing field: kind or role, dtype, reduction, root, count, bucket */
#include "harness/plan/program.h"

enum { LOOK_AHEAD = 64, EXPLANATION_COUNT = 2 };

/* First field in which a posted operation differs from a planned one. */
static enum harness_verdict first_difference(const struct harness_op *planned,
                                             const struct ddp_event_op *op, uint64_t elem_count)
{
    bool has_root = ddp_coll_kind_has_root(planned->kind) && planned->is_root_known;

    if (op->kind != planned->kind || op->role != planned->role) {
        return HARNESS_VERDICT_MISMATCH_OP;
    }
    if (planned->kind != DDP_COLL_BARRIER && op->dtype != planned->dtype) {
        return HARNESS_VERDICT_MISMATCH_DTYPE;
    }
    if (ddp_coll_kind_is_sum(planned->kind) && op->redop != planned->redop) {
        return HARNESS_VERDICT_MISMATCH_REDUCTION;
    }
    if (has_root && op->root != planned->root) {
        return HARNESS_VERDICT_MISMATCH_ROOT;
    }
    if (planned->kind != DDP_COLL_BARRIER && elem_count != planned->elem_count) {
        return HARNESS_VERDICT_MISMATCH_COUNT;
    }
    if (op->index != planned->index) {
        return op->role == DDP_ROLE_BUCKET ? HARNESS_VERDICT_MISMATCH_BUCKET
                                           : HARNESS_VERDICT_MISMATCH_ORDER;
    }
    return HARNESS_VERDICT_NONE;
}

static bool is_planned_at(const struct harness_program *program, uint64_t seq,
                          const struct ddp_event_op *op, uint64_t elem_count)
{
    const struct harness_op *planned = harness_program_at(program, seq);

    return planned != NULL && first_difference(planned, op, elem_count) == HARNESS_VERDICT_NONE;
}

/* The next place where the operation is planned, or 0. */
static uint64_t find_later(const struct harness_program *program, uint64_t seq,
                           const struct ddp_event_op *op, uint64_t elem_count)
{
    for (uint64_t later = seq + 1; later <= seq + LOOK_AHEAD; later++) {
        if (is_planned_at(program, later, op, elem_count)) {
            return later;
        }
    }
    return 0;
}

/* One of the next places where the operation is planned is in this step. */
static bool is_later_in_step(const struct harness_program *program, uint64_t seq, int32_t step,
                             const struct ddp_event_op *op, uint64_t elem_count)
{
    for (uint64_t later = seq + 1; later <= seq + LOOK_AHEAD; later++) {
        if (is_planned_at(program, later, op, elem_count) &&
            harness_program_at(program, later)->step == step) {
            return true;
        }
    }
    return false;
}

/* It is of a bucket whose turn comes later in this step, if not as it is sent there: a rank that
 * left one out may be behind in what its hook counts, and so sends the next one as it did before.
 * With all that is planned but the number, it is the due one under a wrong number. */
static bool is_later_bucket(const struct harness_program *program, uint64_t seq, int32_t step,
                            const struct ddp_event_op *op, enum harness_verdict difference)
{
    const struct harness_op *later;

    if (op->role != DDP_ROLE_BUCKET || difference == HARNESS_VERDICT_MISMATCH_BUCKET) {
        return false;
    }
    for (uint64_t ahead = 1; ahead <= LOOK_AHEAD; ahead++) {
        later = harness_program_at(program, seq + ahead);
        if (later != NULL && later->step == step && later->role == DDP_ROLE_BUCKET &&
            later->index == op->index) {
            return true;
        }
    }
    return false;
}

static bool is_in_same_step(const struct harness_program *program, uint64_t seq, int32_t step,
                            const struct ddp_event_op *op, uint64_t elem_count)
{
    for (uint64_t earlier = seq; earlier-- > 1;) {
        if (harness_program_at(program, earlier)->step != step) {
            return false;
        }
        if (is_planned_at(program, earlier, op, elem_count)) {
            return true;
        }
    }
    return false;
}

/* Of the operations that a hook makes of one bucket it is the one before, or a later one of this
 * step or the rank's. */
static bool is_other_round(const struct harness_program *program, uint64_t seq, int32_t step,
                           const struct ddp_event_op *op, uint64_t elem_count)
{
    const struct harness_op *planned = harness_program_at(program, seq);
    const bool is_again = is_planned_at(program, seq - 1, op, elem_count) &&
                          harness_program_at(program, seq - 1)->step == step;

    return op->role == DDP_ROLE_BUCKET &&
           (is_again || is_later_in_step(program, seq, planned->step, op, elem_count) ||
            is_later_in_step(program, seq, step, op, elem_count));
}

/* Strict verification that found a difference takes two more exchanges to name it, numbers 1 and 2
 * after number 0; training never starts then. */
static bool is_explanation(const struct harness_program *program, uint64_t seq,
                           const struct ddp_event_op *op)
{
    const struct harness_op *first = harness_program_at(program, 1);
    const struct harness_op *planned = harness_program_at(program, seq);

    return first != NULL && first->role == DDP_ROLE_VERIFY && op->role == DDP_ROLE_VERIFY &&
           op->kind == DDP_COLL_ALL_GATHER && op->index >= 1 && op->index <= EXPLANATION_COUNT &&
           seq == op->index + 1 && (planned == NULL || planned->role != DDP_ROLE_VERIFY);
}

/* When all inputs have ended under join, ranks are in different steps. */
static bool is_join_end(const struct harness_program *program, const struct harness_op *planned)
{
    return planned->phase == DDP_PHASE_JOIN && planned->step == harness_program_end(program);
}

/* Steps often post the same operations; then only the step in which a rank posted one shows whose
 * it is. A rank that is in a later step than planned left operations out, one in an earlier step
 * posted too many. */
static enum harness_verdict compare_place(const struct harness_program *program,
                                          const struct harness_op *planned, int32_t step)
{
    if (step == HARNESS_STEP_UNKNOWN || planned->step == step || is_join_end(program, planned)) {
        return HARNESS_VERDICT_NONE;
    }
    return step > planned->step ? HARNESS_VERDICT_MISMATCH_MISSING : HARNESS_VERDICT_MISMATCH_EXTRA;
}

int32_t harness_program_end(const struct harness_program *program)
{
    return program->op_count == 0 ? -1 : program->ops[program->op_count - 1].step;
}

int32_t harness_program_step_at(const struct harness_program *program, uint64_t seq)
{
    const struct harness_op *op = harness_program_at(program, seq);

    return op != NULL ? op->step : harness_program_end(program);
}

int32_t harness_program_step_of(const struct harness_program *program, uint64_t phase,
                                uint64_t step)
{
    if (phase <= DDP_PHASE_INIT || phase == DDP_PHASE_RECOVERY) {
        return -1;
    }
    return phase >= DDP_PHASE_TEARDOWN ? harness_program_end(program) : (int32_t)step;
}

bool harness_program_is_open(const struct harness_program *program, uint64_t seq, int32_t step,
                             const struct ddp_event_op *op, uint64_t elem_count)
{
    const struct harness_op *planned = harness_program_at(program, seq);
    const uint64_t later = find_later(program, seq, op, elem_count);

    return planned != NULL && later != 0 && planned->step == step &&
           planned->role == DDP_ROLE_USER && op->role == DDP_ROLE_USER &&
           harness_program_at(program, later)->step == step &&
           harness_program_at(program, later)->group != planned->group &&
           !is_planned_at(program, seq, op, elem_count);
}

enum harness_verdict harness_program_compare_step(const struct harness_program *program,
                                                  uint64_t seq, int32_t step,
                                                  const struct ddp_event_op *op,
                                                  uint64_t elem_count)
{
    const struct harness_op *planned = harness_program_at(program, seq);
    enum harness_verdict difference;
    uint64_t later;
    bool is_repeated;

    if (is_explanation(program, seq, op)) {
        return HARNESS_VERDICT_NONE;
    }
    if (planned == NULL) {
        return HARNESS_VERDICT_MISMATCH_EXTRA;
    }
    difference = first_difference(planned, op, elem_count);
    if (difference == HARNESS_VERDICT_NONE) {
        return compare_place(program, planned, step);
    }
    if (op->role == planned->role && op->index == planned->index &&
        (op->kind == planned->kind || op->role != DDP_ROLE_BATCH_NORM) &&
        !is_other_round(program, seq, step, op, elem_count)) {
        return difference;
    }
    if (is_explanation(program, seq + 1, op)) {
        return HARNESS_VERDICT_MISMATCH_MISSING;
    }
    /* A rank that repeats an operation is still in that operation's step; one that left some out
     * is in the step of what it posts. Unknown: the step that the program is in. */
    step = step == HARNESS_STEP_UNKNOWN ? planned->step : step;
    later = find_later(program, seq, op, elem_count);
    is_repeated = is_planned_at(program, seq - 1, op, elem_count);
    if (is_repeated && harness_program_at(program, seq - 1)->step != step &&
        (is_later_in_step(program, seq, step, op, elem_count) ||
         is_later_bucket(program, seq, step, op, difference))) {
        is_repeated = false;
    }
    if (is_repeated) {
        return HARNESS_VERDICT_MISMATCH_EXTRA;
    }
    if (later != 0) {
        const struct harness_op *next = harness_program_at(program, later);
        bool is_same_step =
            next->step == planned->step || next->step == step || is_join_end(program, next);

        /* Planned earlier in this step and only again in a later one, which the rank is not in:
         * out of order, not missing. */
        if (!is_same_step && is_in_same_step(program, seq, planned->step, op, elem_count)) {
            return HARNESS_VERDICT_MISMATCH_ORDER;
        }
        return HARNESS_VERDICT_MISMATCH_MISSING;
    }
    if (is_in_same_step(program, seq, planned->step, op, elem_count)) {
        return HARNESS_VERDICT_MISMATCH_ORDER;
    }
    return is_later_bucket(program, seq, step, op, difference) ? HARNESS_VERDICT_MISMATCH_MISSING
                                                               : difference;
}

enum harness_verdict harness_program_compare(const struct harness_program *program, uint64_t seq,
                                             const struct ddp_event_op *op, uint64_t elem_count)
{
    return harness_program_compare_step(program, seq, HARNESS_STEP_UNKNOWN, op, elem_count);
}

/* Where another bucket's turn is, the rank goes on with the next round of the bucket that it has
 * waited for. */
static bool is_next_round(const struct harness_program *program, const struct harness_post *post)
{
    const struct harness_op *planned = harness_program_at(program, post->seq);

    return post->is_waited && planned != NULL && planned->role == DDP_ROLE_BUCKET &&
           post->op.role == DDP_ROLE_BUCKET && planned->index != post->op.index &&
           is_later_in_step(program, post->seq, post->step, &post->op, post->elem_count);
}

enum harness_verdict harness_program_compare_post(const struct harness_program *program,
                                                  const struct harness_post *post)
{
    const enum harness_verdict verdict =
        harness_program_compare_step(program, post->seq, post->step, &post->op, post->elem_count);

    if (verdict == HARNESS_VERDICT_MISMATCH_EXTRA && is_next_round(program, post)) {
        return HARNESS_VERDICT_MISMATCH_MISSING;
    }
    return verdict == HARNESS_VERDICT_NONE &&
                   harness_program_is_comm_wrong(program, post->seq, post->comm)
               ? HARNESS_VERDICT_MISMATCH_COMM
               : verdict;
}
