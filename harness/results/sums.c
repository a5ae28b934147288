/* Purpose: judge the result of every call from what its members report of their data.
 * Idea: a call that all have ended is judged once. What is only moved must arrive bit for bit; what
 * all ranks get must be the same; a sum must be that of the contributions, up to rounding. */
#include "harness/results/sums.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "harness/guest/observe/sums.h"
#include "harness/results/results.h"

/* A value that is not finite spreads to all ranks: of those that are new, the first one counts. */
struct first {
    bool is_set;
    uint64_t time_ns;
    struct harness_finding finding;
};

static double value_of(uint64_t bits)
{
    double value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

static bool has_in(const struct harness_sums_case *the, uint32_t member)
{
    return guest_parts_in(the->kind, member, the->root, the->size).count > 0;
}

static bool has_out(const struct harness_sums_case *the, uint32_t member)
{
    return guest_parts_out(the->kind, member, the->root, the->size).count > 0;
}

/* All members get the same. */
static bool is_common(const struct harness_sums_case *the)
{
    return the->kind == DDPROVE_GUEST_ALL_REDUCE || the->kind == DDPROVE_GUEST_BROADCAST ||
           the->kind == DDPROVE_GUEST_ALL_GATHER;
}

static enum harness_watch_unjudged unjudged_of(const struct harness_sums_case *the)
{
    bool has_all_in = true;
    bool has_all_out = true;
    bool is_finite = true;

    if (guest_parts_in(the->kind, the->root, the->root, the->size).count == 0 ||
        (the->dtype == DDPROVE_GUEST_BYTES && !harness_sums_is_move(the)) ||
        (!harness_sums_is_sum(the) && (the->kind == DDPROVE_GUEST_REDUCE_SCATTER ||
                                       /* Of a and b it may make something else than of b and a. */
                                       the->redop == DDPROVE_GUEST_USER))) {
        return HARNESS_WATCH_UNJUDGED_KIND;
    }
    if (!harness_sums_is_sum(the) && !is_common(the)) {
        return HARNESS_WATCH_UNJUDGED_ONE_RESULT;
    }
    for (uint32_t i = 0; i < the->size; i++) {
        const struct harness_watch_call *call = the->members[i].call;

        /* The same data may be described as other elements, such as bytes. */
        has_all_out = has_all_out && call->op == the->call->op;
        has_all_in = has_all_in && (!has_in(the, i) || call->in.is_there);
        has_all_out = has_all_out && (!has_out(the, i) || call->out.is_there);
        is_finite = is_finite && (harness_sums_is_integer(the) || !call->out.is_there ||
                                  isfinite(value_of(call->out.sum)));
    }
    if (!has_all_out || (harness_sums_is_sum(the) && !has_all_in)) {
        return HARNESS_WATCH_UNJUDGED_HIDDEN;
    }
    /* A NaN has many bit patterns, and which one comes out is nobody's business. */
    return harness_sums_is_sum(the) || is_finite ? HARNESS_WATCH_UNJUDGED_COUNT
                                                 : HARNESS_WATCH_UNJUDGED_NOT_FINITE;
}

/* --- one call
 * -----------------------------------------------------------------------------------------------------
 */

/* off: of the result; NULL: that is not known. */
static void add_changed(const struct harness_sums_case *the, const struct harness_sums_off *off,
                        struct harness_findings *out)
{
    struct harness_finding finding;
    char ranks[HARNESS_RANKS_TEXT_BYTES];

    harness_sums_begin(the, HARNESS_VERDICT_VALUE_CORRUPTED, HARNESS_MODE_BITWISE, out, &finding);
    for (uint32_t i = 0; i < the->size; i++) {
        if (the->members[i].call->has_changed) {
            harness_rank_set_add(&finding.culprits, the->members[i].rank);
        }
    }
    harness_watch_say(&finding, "rank %s's input changed while the call was in flight",
                      harness_rank_set_text(&finding.culprits, ranks));
    if (off != NULL) {
        harness_sums_say_off(off, &finding);
    }
    harness_findings_add(out, &finding);
}

static bool is_finite(const struct harness_sums_case *the, const struct harness_watch_value *value)
{
    return harness_sums_is_integer(the) ||
           (isfinite(value_of(value->sum)) && isfinite(value_of(value->magnitude)));
}

static void keep_first(const struct harness_sums_case *the, const struct harness_finding *finding,
                       struct first *first)
{
    if (!first->is_set || the->call->time_ns < first->time_ns) {
        *first = (struct first){true, the->call->time_ns, *finding};
    }
}

/* Sums of values that are not finite. False: there are none. */
static bool find_not_finite(const struct harness_sums_case *the, struct harness_findings *out,
                            struct first *first)
{
    struct harness_finding finding;
    char ranks[HARNESS_RANKS_TEXT_BYTES];
    bool has_nan = false;

    harness_sums_begin(the, HARNESS_VERDICT_VALUE_NONFINITE, HARNESS_MODE_PROVABLE, out, &finding);
    for (uint32_t i = 0; i < the->size; i++) {
        const struct harness_watch_value *in = &the->members[i].call->in;

        if (!is_finite(the, in)) {
            harness_rank_set_add(&finding.culprits, the->members[i].rank);
            has_nan = has_nan || isnan(value_of(in->magnitude));
        }
    }
    if (harness_rank_set_is_empty(&finding.culprits)) {
        return false;
    }
    harness_watch_say(&finding, "rank %s put in %s",
                      harness_rank_set_text(&finding.culprits, ranks),
                      has_nan ? "a NaN" : "an infinite value");
    if (!the->call->may_overflow) {
        keep_first(the, &finding, first);
    }
    return true;
}

static void add_wrong(const struct harness_sums_case *the, const struct harness_sums_total *in,
                      const struct harness_sums_off *off, struct harness_findings *out,
                      struct first *first)
{
    struct harness_finding finding;

    if (!off->is_integer && !isfinite(off->off) && the->call->may_overflow) {
        return; /* finite values that are too large together */
    }
    if (!off->is_integer && !isfinite(off->off)) {
        harness_sums_begin(the, HARNESS_VERDICT_VALUE_NONFINITE, HARNESS_MODE_PROVABLE, out,
                           &finding);
        harness_sums_blame_all(the, &finding);
        harness_watch_say(
            &finding, "the result holds a NaN or an infinite value that nobody put in; the sum %s",
            in->magnitude < harness_sums_precision(the->dtype).largest ? "cannot be too large"
                                                                       : "may be too large");
        keep_first(the, &finding, first);
        return;
    }
    harness_sums_begin(the, HARNESS_VERDICT_VALUE_CORRUPTED,
                       harness_sums_is_move(the) || off->is_integer ? HARNESS_MODE_BITWISE
                                                                    : HARNESS_MODE_BOUND,
                       out, &finding);
    harness_watch_say(&finding, harness_sums_is_move(the)
                                    ? "what came out is not what was put in"
                                    : "the result is not the sum of what was put in");
    harness_sums_explain(the, in, off, &finding);
    harness_findings_add(out, &finding);
}

/* A result that all members who have it agree on. Returns whether it could be judged. */
static bool judge_result(const struct harness_sums_case *the, const struct harness_sums_total *in,
                         const struct harness_sums_off *off, struct harness_findings *out,
                         struct first *first)
{
    struct harness_watch_tally *tally = &the->watch->tally;
    const enum harness_sums_exact exact = harness_sums_judge_exact(the, off, out);

    if (exact == HARNESS_SUMS_WRONG) {
        return true;
    }
    if (off->is_wrong) {
        add_wrong(the, in, off, out, first);
        return true;
    }
    tally->bitwise += exact == HARNESS_SUMS_BITWISE;
    return exact != HARNESS_SUMS_NOT_KEPT || !harness_sums_is_blind(the, off);
}

/* What goes in and what comes out, altogether. */
static void add_up(const struct harness_sums_case *the, struct harness_sums_total *in,
                   struct harness_sums_total *result)
{
    for (uint32_t i = 0; i < the->size; i++) {
        const struct harness_watch_call *call = the->members[i].call;

        if (call->in.is_there && has_in(the, i)) {
            harness_sums_add(the, &call->in, in);
        }
        if (call->out.is_there && has_out(the, i)) {
            harness_sums_add(the, &call->out, result);
        }
    }
}

static bool has_changed(const struct harness_sums_case *the)
{
    for (uint32_t i = 0; i < the->size; i++) {
        if (the->members[i].call->has_changed) {
            return true;
        }
    }
    return false;
}

/* All members have a result, and it is to be the same. Returns whether it could be judged. */
static bool judge_common(const struct harness_sums_case *the, const struct harness_sums_total *in,
                         struct harness_sums_camp *camps, struct harness_findings *out,
                         struct first *first)
{
    const uint32_t count = harness_sums_find_camps(the, camps);

    the->watch->tally.compared += !harness_sums_is_sum(the);
    for (uint32_t c = 0; c < count && harness_sums_is_sum(the); c++) {
        camps[c].off = harness_sums_compare(the, in, &camps[c].total);
        camps[c].is_wrong = camps[c].off.is_wrong;
    }
    if (count > 1) {
        harness_sums_add_diverged(the, camps, count, harness_sums_is_sum(the), out);
        return true;
    }
    return !harness_sums_is_sum(the) || judge_result(the, in, &camps[0].off, out, first);
}

/* Some member's input is not what it was any more. What was kept before it changed tells the
 * element, if the result shows it; else the member is known. */
static void judge_changed(const struct harness_sums_case *the, enum harness_watch_unjudged unjudged,
                          struct harness_findings *out)
{
    struct harness_sums_total in = {0};
    struct harness_sums_total result = {0};
    struct harness_sums_off off;

    if (unjudged != HARNESS_WATCH_UNJUDGED_COUNT || the->kind != DDPROVE_GUEST_ALL_REDUCE ||
        !harness_sums_is_sum(the)) {
        add_changed(the, NULL, out);
        return;
    }
    add_up(the, &in, &result);
    result = (struct harness_sums_total){0};
    harness_sums_add(the, &the->members[0].call->out, &result);
    off = harness_sums_compare(the, &in, &result);
    if (harness_sums_judge_exact(the, &off, out) != HARNESS_SUMS_WRONG) {
        add_changed(the, &off, out);
    }
}

/* camps: [size], to use. Returns why it could not be judged; COUNT: it was. */
static enum harness_watch_unjudged judge(const struct harness_sums_case *the,
                                         struct harness_sums_camp *camps,
                                         struct harness_findings *out, struct first *first)
{
    const enum harness_watch_unjudged unjudged = unjudged_of(the);
    struct harness_sums_total in = {0};
    struct harness_sums_total result = {0};
    struct harness_sums_off off;
    bool is_judged;

    if (has_changed(the)) {
        judge_changed(the, unjudged, out);
        return HARNESS_WATCH_UNJUDGED_COUNT;
    }
    if (unjudged != HARNESS_WATCH_UNJUDGED_COUNT) {
        return unjudged;
    }
    if (harness_sums_is_sum(the) && !harness_sums_is_move(the) &&
        find_not_finite(the, out, first)) {
        return the->watch->is_spoilt || the->call->may_overflow ? HARNESS_WATCH_UNJUDGED_NOT_FINITE
                                                                : HARNESS_WATCH_UNJUDGED_COUNT;
    }
    add_up(the, &in, &result);
    if (harness_sums_is_sum(the) && !(in.magnitude < DBL_MAX / 8)) {
        return HARNESS_WATCH_UNJUDGED_BLIND;
    }
    if (is_common(the)) {
        is_judged = judge_common(the, &in, camps, out, first);
    } else {
        off = harness_sums_compare(the, &in, &result);
        is_judged = judge_result(the, &in, &off, out, first);
    }
    return is_judged ? HARNESS_WATCH_UNJUDGED_COUNT : HARNESS_WATCH_UNJUDGED_BLIND;
}

/* --- all calls
 * ----------------------------------------------------------------------------------------------------
 */

/* Collectives that bring data. */
static bool has_data(const struct harness_watch_call *call)
{
    const uint32_t kind = guest_op_kind(call->op);

    return kind != DDPROVE_GUEST_BARRIER && kind != DDPROVE_GUEST_COMM_CREATE &&
           call->elem_count > 0;
}

/* The members' calls. False: not all have ended it. *out_lost: one is not known any more. */
static bool collect(const struct harness_watch *watch, const struct harness_watch_group *group,
                    uint64_t seq, struct harness_sums_member *members, bool *out_lost)
{
    uint64_t count = 0;

    *out_lost = false;
    for (uint32_t r = 0; r < watch->world_size; r++) {
        const struct harness_watch_member *member = &group->members[r];
        const struct harness_watch_call *call = harness_watch_call_at(member, seq);

        if (!member->is_there) {
            continue;
        }
        *out_lost = *out_lost || (call == NULL && seq < member->kept_seq);
        if (call == NULL || !call->is_done || member->rank >= group->size) {
            return false;
        }
        members[member->rank] = (struct harness_sums_member){r, member->handle, call};
        count++;
    }
    return count == group->size;
}

/* Nobody has reported anything of it, as nobody was to. */
static bool is_passed_over(const struct harness_sums_case *the)
{
    bool is_so = !guest_is_drawn(the->watch->arena->observed_every, the->group->key, the->seq);

    for (uint32_t i = 0; i < the->size; i++) {
        const struct harness_watch_call *call = the->members[i].call;

        is_so = is_so && !call->in.is_there && !call->out.is_there && !call->has_changed;
    }
    return is_so;
}

static void judge_one(struct harness_watch *watch, const struct harness_watch_group *group,
                      uint64_t seq, const struct harness_sums_member *members,
                      struct harness_sums_camp *camps, struct harness_findings *out,
                      struct first *first)
{
    const struct harness_sums_case the = {.watch = watch,
                                          .group = group,
                                          .seq = seq,
                                          .call = members[0].call,
                                          .kind = guest_op_kind(members[0].call->op),
                                          .dtype = guest_op_dtype(members[0].call->op),
                                          .redop = guest_op_redop(members[0].call->op),
                                          .root = guest_op_root(members[0].call->op),
                                          .size = (uint32_t)group->size,
                                          .members = members};
    const uint64_t bitwise = watch->tally.bitwise;
    enum harness_watch_unjudged unjudged;

    if (!has_data(the.call)) {
        return;
    }
    unjudged =
        is_passed_over(&the) ? HARNESS_WATCH_UNJUDGED_PASSED_OVER : judge(&the, camps, out, first);
    if (unjudged == HARNESS_WATCH_UNJUDGED_COUNT) {
        watch->tally.judged++;
        watch->tally.broadcasts += the.kind == DDPROVE_GUEST_BROADCAST;
        watch->tally.bounded += harness_sums_is_sum(&the) && !harness_sums_is_move(&the) &&
                                !harness_sums_is_integer(&the) && watch->tally.bitwise == bitwise;
    } else {
        watch->tally.unjudged[unjudged]++;
    }
}

/* The last call that all members have posted alike. */
static uint64_t last_alike(const struct harness_watch_group *group)
{
    return group->is_wrong ? group->checked_seq - 1 : group->checked_seq;
}

/* A device writes the data, so that nobody reads them, and no thread sees the calls end. */
static bool is_of_device(const struct harness_watch *watch, const struct harness_watch_group *group)
{
    for (uint32_t r = 0; r < watch->world_size; r++) {
        if (group->members[r].is_of_device) {
            return true;
        }
    }
    return false;
}

static void pass_over(struct harness_watch *watch, struct harness_watch_group *group)
{
    for (; group->summed_seq < last_alike(group); group->summed_seq++) {
        const struct harness_watch_call *call =
            harness_watch_any_call(watch, group, group->summed_seq + 1);

        watch->tally.unjudged[HARNESS_WATCH_UNJUDGED_HIDDEN] += call != NULL && has_data(call);
    }
}

void harness_results_judge(struct harness_watch *watch, struct harness_findings *out)
{
    struct harness_sums_member *members;
    struct harness_sums_camp *camps;
    struct first first = {.is_set = false};

    if (watch->arena->is_observed == 0) {
        return;
    }
    members = ddp_mem_array(watch->mem, watch->world_size, sizeof *members);
    camps = ddp_mem_array(watch->mem, watch->world_size, sizeof *camps);
    watch->is_failed = watch->is_failed || members == NULL || camps == NULL;
    for (size_t g = 0; g < watch->group_count && !watch->is_failed; g++) {
        struct harness_watch_group *group = &watch->groups[g];
        bool is_lost = false;

        if (is_of_device(watch, group)) {
            pass_over(watch, group);
            continue;
        }
        while (group->summed_seq < last_alike(group) && group->size <= watch->world_size) {
            if (collect(watch, group, group->summed_seq + 1, members, &is_lost)) {
                judge_one(watch, group, group->summed_seq + 1, members, camps, out, &first);
            } else if (is_lost) {
                watch->tally.unjudged[HARNESS_WATCH_UNJUDGED_LOST]++;
            } else {
                break;
            }
            group->summed_seq++;
        }
    }
    if (first.is_set && !watch->is_spoilt) {
        watch->is_spoilt = true;
        harness_findings_add(out, &first.finding);
    }
    ddp_mem_free(watch->mem, members);
    ddp_mem_free(watch->mem, camps);
}

static enum harness_watch_unjudged left_because(const struct harness_watch_group *group,
                                                uint64_t seq, const struct harness_watch_call *call)
{
    if (call == NULL) {
        return HARNESS_WATCH_UNJUDGED_LOST;
    }
    return group->is_wrong && seq > last_alike(group) ? HARNESS_WATCH_UNJUDGED_DIFFER
                                                      : HARNESS_WATCH_UNJUDGED_UNENDED;
}

/* Of calls that were never judged: all that some member has posted. */
static void finish_group(struct harness_watch *watch, struct harness_watch_group *group)
{
    uint64_t posted = 0;

    for (uint32_t r = 0; r < watch->world_size; r++) {
        posted = group->members[r].posted > posted ? group->members[r].posted : posted;
    }
    for (; group->summed_seq < posted; group->summed_seq++) {
        const uint64_t seq = group->summed_seq + 1;
        const struct harness_watch_call *call = harness_watch_any_call(watch, group, seq);

        if (call == NULL || has_data(call)) {
            watch->tally.unjudged[left_because(group, seq, call)]++;
        }
    }
}

void harness_results_finish(struct harness_watch *watch)
{
    for (size_t g = 0; g < watch->group_count; g++) {
        finish_group(watch, &watch->groups[g]);
    }
    for (uint32_t r = 0; r < watch->world_size; r++) {
        watch->tally.has_lost = watch->tally.has_lost || watch->ranks[r].lost_count > 0;
    }
}
