/* Purpose: find the first call of a communicator that its members did not all post alike, and say
 * who is wrong. Idea: members that posted the same are a camp. Most of them are right; of two equal
 * camps, the one that did what the communicator always did in this place. What followed before
 * tells a call left out from one too many. */
#include "harness/guest/ddprove_guest.h"
#include "harness/watch/analyse.h"

/* Whoever posted this call in the group; world_size: nobody. */
static uint32_t rank_of(const struct harness_watch *watch, const struct harness_watch_group *group,
                        uint64_t seq, const struct harness_watch_call *call)
{
    uint32_t rank = 0;

    while (rank < watch->world_size && harness_watch_call_at(&group->members[rank], seq) != call) {
        rank++;
    }
    return rank;
}

/* The rank that posted this call has posted one, since its last one here, in another communicator
 * to which the one that posted the other belongs too. */
static bool has_call_between(const struct harness_watch *watch,
                             const struct harness_watch_group *group, uint64_t seq,
                             const struct harness_watch_call *call,
                             const struct harness_watch_call *of_other)
{
    const uint32_t rank = rank_of(watch, group, seq, call);
    const uint32_t other = rank_of(watch, group, seq, of_other);
    const struct harness_watch_call *before =
        rank < watch->world_size ? harness_watch_call_at(&group->members[rank], seq - 1) : NULL;

    for (size_t g = 0; before != NULL && other < watch->world_size && g < watch->group_count; g++) {
        const struct harness_watch_member *member = &watch->groups[g].members[rank];

        if (&watch->groups[g] == group || !watch->groups[g].members[other].is_there) {
            continue;
        }
        for (size_t i = member->call_count; i > 0; i--) {
            if (member->calls[i - 1].time_ns < before->time_ns) {
                break;
            }
            if (member->calls[i - 1].time_ns <= call->time_ns) {
                return true;
            }
        }
    }
    return false;
}

/* What was to come first comes next. So it does too if the wrong call is one too many, after one
 * like it; or if the right one was left out, a round later: then it is of a later step, or what is
 * to follow the wrong call. */
static bool is_swapped(const struct harness_watch *watch, const struct harness_watch_group *group,
                       uint64_t seq, const struct harness_watch_call *wrong,
                       const struct harness_watch_call *right)
{
    const uint32_t rank = rank_of(watch, group, seq, wrong);
    const struct harness_watch_call *then =
        rank < watch->world_size ? harness_watch_call_at(&group->members[rank], seq + 1) : NULL;
    const struct harness_watch_call *before =
        rank < watch->world_size ? harness_watch_call_at(&group->members[rank], seq - 1) : NULL;
    uint32_t steps = 0;
    const struct harness_watch_call *next =
        harness_watch_next_after(watch, group, seq, wrong, &steps);

    return then != NULL && (before == NULL || !harness_watch_is_same(group, before, wrong)) &&
           harness_watch_is_same(group, then, right) && !harness_watch_is_alike(wrong, right) &&
           (watch->ranks[rank].step_count > 0 ||
            (next != NULL && !harness_watch_is_alike(next, right)));
}

static const struct harness_watch_call *call_behind(const struct harness_watch *watch,
                                                    const struct harness_watch_group *group,
                                                    uint64_t seq,
                                                    const struct harness_watch_call *call)
{
    const uint32_t rank = rank_of(watch, group, seq, call);

    return rank < watch->world_size ? harness_watch_call_at(&group->members[rank], seq + 1) : NULL;
}

enum answer { ANSWER_NO, ANSWER_OPEN, ANSWER_YES };

/* Both posted the same, in different steps. It is one update less, not one call more, if the next
 * call is the same too, another one than this, and still a step behind: a rank that posts a call
 * too often is as far as the others with the next one, or posts another one there. */
static enum answer is_update_less(const struct harness_watch *watch,
                                  const struct harness_watch_group *group, uint64_t seq,
                                  const struct harness_watch_call *wrong,
                                  const struct harness_watch_call *right)
{
    const struct harness_watch_call *next = call_behind(watch, group, seq, wrong);
    const struct harness_watch_call *due = call_behind(watch, group, seq, right);

    if (!harness_watch_is_alike(wrong, right) || wrong->step >= right->step ||
        (next != NULL && (harness_watch_is_alike(next, wrong) || next->step != wrong->step)) ||
        (due != NULL && (harness_watch_is_alike(due, right) || due->step != right->step))) {
        return ANSWER_NO;
    }
    if (next == NULL || due == NULL) {
        return ANSWER_OPEN;
    }
    return harness_watch_is_alike(next, due) ? ANSWER_YES : ANSWER_NO;
}

/* All that differs is what the bucket holds. */
static bool is_other_list(const struct harness_watch_call *a, const struct harness_watch_call *b)
{
    return harness_watch_is_alike(a, b) && a->step == b->step && !harness_watch_holds_same(a, b);
}

/* What is summed is no bucket, as nobody has summed before, where a bucket was due: the program has
 * come to a part of its own, as an evaluation that one rank makes. Neither can stand for the other.
 */
static bool is_beside_buckets(const struct harness_watch *watch,
                              const struct harness_watch_group *group, uint64_t seq,
                              const struct harness_watch_call *wrong,
                              const struct harness_watch_call *right)
{
    return wrong->bucket == 0 && right->bucket != 0 &&
           harness_watch_difference_of(wrong, right) == HARNESS_VERDICT_MISMATCH_COUNT &&
           harness_watch_like_before(watch, group, seq, wrong) == 0;
}

/* The wrong ones posted what comes next, or what came before. Where both may be, or what comes next
 * is not known, what they and the others did elsewhere in between tells; where that does not
 * either, the calls differ. */
static enum harness_verdict verdict_of(const struct harness_watch *watch,
                                       const struct harness_watch_group *group, uint64_t seq,
                                       const struct harness_watch_call *wrong,
                                       const struct harness_watch_call *right)
{
    const struct harness_watch_call *before =
        seq > 1 ? harness_watch_any_call(watch, group, seq - 1) : NULL;
    uint32_t steps = 0;
    const struct harness_watch_call *next =
        harness_watch_next_after(watch, group, seq, right, &steps);
    const bool is_next = next != NULL && !harness_watch_is_alike(wrong, right) &&
                         harness_watch_is_alike(wrong, next) &&
                         guest_op_dtype(wrong->op) == guest_op_dtype(next->op) &&
                         wrong->step == right->step + steps;
    /* What is posted again follows at once. */
    const bool is_again = before != NULL && !harness_watch_is_alike(wrong, right) &&
                          harness_watch_is_alike(wrong, before) && wrong->step == before->step &&
                          !has_call_between(watch, group, seq, wrong, wrong);
    enum harness_watch_fit fit;

    if (is_other_list(wrong, right)) {
        return HARNESS_VERDICT_MISMATCH_MODEL;
    }
    if (is_update_less(watch, group, seq, wrong, right) == ANSWER_YES) {
        return HARNESS_VERDICT_VALUE_STALE;
    }
    if (is_swapped(watch, group, seq, wrong, right)) {
        return HARNESS_VERDICT_MISMATCH_ORDER;
    }
    if (is_again &&
        ((next != NULL && !is_next) || has_call_between(watch, group, seq, right, wrong))) {
        return HARNESS_VERDICT_MISMATCH_EXTRA;
    }
    fit = harness_watch_fit_of(watch, group, seq, rank_of(watch, group, seq, wrong),
                               rank_of(watch, group, seq, right));
    if (!is_again && fit == HARNESS_WATCH_FIT_LEFT_OUT) {
        return HARNESS_VERDICT_MISMATCH_MISSING;
    }
    if (is_next && !is_again && fit != HARNESS_WATCH_FIT_REPLACED) {
        return HARNESS_VERDICT_MISMATCH_MISSING;
    }
    return fit != HARNESS_WATCH_FIT_REPLACED && is_beside_buckets(watch, group, seq, wrong, right)
               ? HARNESS_VERDICT_MISMATCH_EXTRA
               : harness_watch_difference_of(wrong, right);
}

/* other: NULL, or a call that they do not have in common with it. One that has not told what its
 * bucket holds is like both. */
static void add_members(const struct harness_watch *watch, const struct harness_watch_group *group,
                        uint64_t seq, const struct harness_watch_camp *camp,
                        const struct harness_watch_call *other, struct harness_rank_set *out)
{
    for (uint32_t r = 0; r < watch->world_size; r++) {
        const struct harness_watch_call *call = harness_watch_call_at(&group->members[r], seq);

        if (call != NULL && harness_watch_is_same(group, call, camp->call) &&
            (other == NULL || !harness_watch_is_same(group, call, other))) {
            harness_rank_set_add(out, r);
        }
    }
}

static void add(const struct harness_watch *watch, const struct harness_watch_group *group,
                uint64_t seq, const struct harness_watch_camp *wrong,
                const struct harness_watch_camp *right, struct harness_findings *out)
{
    struct harness_finding finding;
    char ranks[HARNESS_RANKS_TEXT_BYTES];

    harness_finding_init(&finding, out->mem,
                         verdict_of(watch, group, seq, wrong->call, right->call),
                         HARNESS_ORACLE_MONITOR, HARNESS_MODE_PROVABLE);
    add_members(watch, group, seq, wrong, right->call, &finding.culprits);
    harness_watch_set_op(group, seq, right->call, &finding);
    finding.step =
        (int32_t)(wrong->call->step < right->call->step ? wrong->call->step : right->call->step);
    finding.detect_ns = harness_watch_since(watch, wrong->call->time_ns);
    harness_watch_say(&finding, "rank %s posted ", harness_rank_set_text(&finding.culprits, ranks));
    harness_watch_say_call(watch, group, seq, wrong->call, &finding);
    harness_watch_say(&finding, " in step %u, where %s posted ", wrong->call->step,
                      right->count == 1 ? "the other rank" : "the others");
    harness_watch_say_call(watch, group, seq, right->call, &finding);
    if (wrong->call->step != right->call->step) {
        harness_watch_say(&finding, " in step %u", right->call->step);
    }
    if (finding.verdict == HARNESS_VERDICT_MISMATCH_MODEL) {
        harness_watch_say_lists(&finding, wrong->call->list, right->call->list);
    } else if (finding.verdict == HARNESS_VERDICT_VALUE_STALE) {
        harness_watch_say(&finding, "; it left an update out");
    } else if (finding.verdict == HARNESS_VERDICT_MISMATCH_EXTRA && wrong->call->bucket == 0 &&
               right->call->bucket != 0) {
        harness_watch_say(&finding, "; it made one call more, or left out all that was due before");
    } else if (wrong->call->step < right->call->step &&
               harness_watch_is_alike(wrong->call, right->call)) {
        harness_watch_say(&finding, "; it made one call more, or an update less");
    }
    harness_findings_add(out, &finding);
}

/* Nobody can say who is right: all are named together, never one that may be right alone. */
static void add_unclear(const struct harness_watch *watch, const struct harness_watch_group *group,
                        uint64_t seq, const struct harness_watch_camp *camps, uint32_t count,
                        struct harness_findings *out)
{
    const bool is_ahead = camps[0].call->step > camps[1].call->step; /* it may have left one out */
    const struct harness_watch_call *behind = camps[is_ahead ? 0 : 1].call;
    const struct harness_watch_call *ahead = camps[is_ahead ? 1 : 0].call;
    const enum harness_verdict verdict = verdict_of(watch, group, seq, behind, ahead);
    const bool is_either = verdict == verdict_of(watch, group, seq, ahead, behind);
    struct harness_finding finding;

    harness_finding_init(&finding, out->mem,
                         is_either ? verdict : harness_watch_difference_of(behind, ahead),
                         HARNESS_ORACLE_MONITOR, HARNESS_MODE_PROVABLE);
    harness_watch_set_op(group, seq, camps[0].call, &finding);
    finding.detect_ns = harness_watch_since(watch, camps[0].call->time_ns);
    for (uint32_t c = 0; c < count; c++) {
        struct harness_rank_set members = harness_rank_set_in(out->mem);
        char ranks[HARNESS_RANKS_TEXT_BYTES];

        add_members(watch, group, seq, &camps[c], NULL, &members);
        harness_rank_set_add_all(&finding.culprits, &members);
        finding.step = (int32_t)camps[c].call->step < finding.step ? (int32_t)camps[c].call->step
                                                                   : finding.step;
        harness_watch_say(&finding, "%srank %s posted ", c == 0 ? "" : ", ",
                          harness_rank_set_text(&members, ranks));
        harness_watch_say_call(watch, group, seq, camps[c].call, &finding);
        harness_watch_say(&finding, " in step %u", camps[c].call->step);
    }
    harness_watch_say(&finding, "; which of them is right, nothing tells");
    harness_findings_add(out, &finding);
}

/* Members that may still post this call: those that have not, and live. */
static uint64_t count_coming(const struct harness_watch *watch,
                             const struct harness_watch_group *group, uint64_t seq)
{
    uint64_t coming = group->size;

    for (uint32_t r = 0; r < watch->world_size; r++) {
        const bool is_member = group->members[r].is_there || group->size == watch->world_size;

        if (is_member && coming > 0 &&
            (harness_watch_call_at(&group->members[r], seq) != NULL ||
             harness_watch_is_gone(watch, r))) {
            coming--;
        }
    }
    return coming;
}

/* Whoever has not posted this call was ended by the launcher, because another rank had ended. What
 * the others posted behind it still tells why that one did. */
static bool is_cut_short(const struct harness_watch *watch, const struct harness_watch_group *group,
                         uint64_t seq)
{
    for (uint32_t r = 0; r < watch->world_size; r++) {
        if (group->members[r].is_there && harness_watch_call_at(&group->members[r], seq) == NULL &&
            (!harness_watch_is_gone(watch, r) ||
             !harness_watch_may_be_of_launcher(&watch->ranks[r]))) {
            return false;
        }
    }
    return count_coming(watch, group, seq) == 0;
}

/* Nobody who comes yet could change who is right. Ranks that have posted may be gone by then: their
 * library refused what the others posted. */
static bool is_decided(const struct harness_watch_camp *camps, uint32_t count, uint64_t coming)
{
    uint32_t first = 0;
    uint32_t second = 0;

    for (uint32_t c = 0; c < count; c++) {
        second = camps[c].count > first ? first : camps[c].count > second ? camps[c].count : second;
        first = camps[c].count > first ? camps[c].count : first;
    }
    return coming == 0 || first > second + coming;
}

/* The rank is still inside. Of what they ask for, only the operator, the root or the bucket differ,
 * and everybody has come: the libraries do not notice that, and the call ends. */
static bool may_end(const struct harness_watch *watch, const struct harness_watch_group *group,
                    uint64_t seq, const struct harness_watch_camp *wrong,
                    const struct harness_watch_camp *right)
{
    const struct harness_watch_wait wait = {.group = (size_t)(group - watch->groups), .seq = seq};

    const struct harness_watch_rank *self = &watch->ranks[wrong->rank];
    bool is_inside = false;

    for (uint32_t w = 0; w < self->wait_count; w++) {
        is_inside = is_inside || (self->waits[w].group == wait.group && self->waits[w].seq == seq);
    }
    return is_inside && guest_op_kind(wrong->call->op) == guest_op_kind(right->call->op) &&
           guest_op_dtype(wrong->call->op) == guest_op_dtype(right->call->op) &&
           wrong->call->elem_count == right->call->elem_count &&
           harness_watch_count_come(watch, &wait) == group->size;
}

/* A call that does not block may be followed at once by the one that was to come first; any call by
 * one that tells whether calls were left out before it. How long to wait for that. */
static uint64_t order_hold_ns(const struct harness_watch *watch,
                              const struct harness_watch_group *group, uint64_t seq,
                              const struct harness_watch_camp *camps, uint32_t count,
                              uint32_t right)
{
    const struct harness_watch_camp *wrong = &camps[right == 0 ? 1 : 0];
    uint32_t steps = 0;
    const struct harness_watch_call *next;

    if (count != 2 || right >= count || harness_watch_is_gone(watch, wrong->rank)) {
        return 0;
    }
    if (harness_watch_is_alike(wrong->call, camps[right].call)) {
        return is_update_less(watch, group, seq, wrong->call, camps[right].call) == ANSWER_OPEN &&
                       !harness_watch_is_gone(watch, camps[right].rank)
                   ? HARNESS_WATCH_UPDATE_HOLD_NS
                   : 0;
    }
    if (harness_watch_is_waiting(watch, wrong->rank)) {
        return may_end(watch, group, seq, wrong, &camps[right]) &&
                       harness_watch_fit_of(watch, group, seq, wrong->rank, camps[right].rank) ==
                           HARNESS_WATCH_FIT_OPEN
                   ? HARNESS_WATCH_FIT_HOLD_NS
                   : 0;
    }
    next = harness_watch_next_after(watch, group, seq, camps[right].call, &steps);
    return next != NULL && harness_watch_is_alike(wrong->call, next) &&
                   harness_watch_call_at(&group->members[wrong->rank], seq + 1) == NULL
               ? HARNESS_WATCH_ORDER_HOLD_NS
               : 0;
}

/* On a busy machine members get up to so many times as long to post. */
enum { STARVED_TIMES = 4 };

/* Judge one call. False: wait for more members. */
static bool compare(struct harness_watch *watch, struct harness_watch_group *group, uint64_t seq,
                    struct harness_watch_camp *camps, struct harness_findings *out)
{
    uint64_t posted;
    const uint32_t count = harness_watch_find_camps(watch, group, seq, camps, &posted);
    /* Ranks that wait for others in a loop want a CPU all the time, and do not get on by it. */
    const uint64_t starved_ns = watch->starved_ns < STARVED_TIMES * HARNESS_WATCH_DIFFER_HOLD_NS
                                    ? watch->starved_ns
                                    : STARVED_TIMES * HARNESS_WATCH_DIFFER_HOLD_NS;
    const uint64_t hold_ns = HARNESS_WATCH_DIFFER_HOLD_NS + starved_ns;
    uint64_t order_ns;
    uint32_t right;

    if (count < 2) {
        group->differs_ns = 0;
        return posted == group->size || is_cut_short(watch, group, seq);
    }
    group->differs_ns = group->differs_ns == 0 ? watch->now_ns : group->differs_ns;
    if (watch->now_ns - group->differs_ns < hold_ns &&
        !is_decided(camps, count, count_coming(watch, group, seq))) {
        return false;
    }
    right = harness_watch_pick_right(watch, group, seq, camps, count);
    order_ns = right == count && harness_watch_may_siblings_tell(watch, group, seq)
                   ? HARNESS_WATCH_FIT_HOLD_NS
                   : order_hold_ns(watch, group, seq, camps, count, right);
    if (order_ns > 0 && watch->now_ns - group->differs_ns < order_ns + starved_ns) {
        return false;
    }
    if (right == count) {
        add_unclear(watch, group, seq, camps, count, out);
    }
    for (uint32_t c = 0; c < count; c++) {
        if (right < count && c != right) {
            add(watch, group, seq, &camps[c], &camps[right], out);
        }
    }
    group->is_wrong = true;
    group->wrong_seq = seq;
    return true;
}

/* Of a member's calls it is not known which they are. */
static bool is_lost(const struct harness_watch *watch, const struct harness_watch_group *group)
{
    for (uint32_t r = 0; r < watch->world_size; r++) {
        if (group->members[r].is_there && watch->ranks[r].lost_count > 0) {
            return true;
        }
    }
    return false;
}

void harness_watch_find_differences(struct harness_watch *watch, struct harness_findings *out)
{
    struct harness_watch_camp *camps = ddp_mem_array(watch->mem, watch->world_size, sizeof *camps);

    if (camps == NULL) {
        watch->is_failed = true;
        return;
    }
    for (size_t g = 0; g < watch->group_count; g++) {
        struct harness_watch_group *group = &watch->groups[g];

        group->is_wrong = group->is_wrong || is_lost(watch, group);
        while (!group->is_wrong &&
               harness_watch_any_call(watch, group, group->checked_seq + 1) != NULL &&
               compare(watch, group, group->checked_seq + 1, camps, out)) {
            group->checked_seq++;
        }
    }
    for (size_t g = 0; g < watch->group_count; g++) {
        harness_watch_find_left_out(watch, &watch->groups[g], out);
        harness_watch_forget(watch, &watch->groups[g]);
    }
    ddp_mem_free(watch->mem, camps);
}
