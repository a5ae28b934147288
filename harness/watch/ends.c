/* Which ends of ranks are crashes, and which only follow from another one's. */
#include <signal.h>

#include "harness/guest/ddprove_guest.h"
#include "harness/watch/analyse.h"

/* Somebody waits for the rank. In what one rank sends to all, a rank that was only to listen seldom
 * keeps the others: they may be about to have it, and that the rank left it out is found at the
 * end. Where they do not get it for as long as waits without a way out take, it does keep them. */
static bool is_needed(const struct harness_watch *watch, uint32_t rank)
{
    struct harness_watch_wait wait;
    const struct harness_watch_group *group;
    const struct harness_watch_call *call;
    uint32_t kind;

    if (!harness_watch_is_needed(watch, rank, &wait)) {
        return false;
    }
    group = &watch->groups[wait.group];
    call = harness_watch_any_call(watch, group, wait.seq);
    kind = call != NULL ? guest_op_kind(call->op) : DDPROVE_GUEST_OTHER;
    return (kind != DDPROVE_GUEST_BROADCAST && kind != DDPROVE_GUEST_SCATTER) ||
           !group->members[rank].is_there || group->members[rank].rank == guest_op_root(call->op) ||
           harness_watch_unchanged_ns(watch) >= HARNESS_WATCH_CYCLE_HOLD_NS;
}

/* An error that nobody has caught ended the rank: a library may give up so in a thread of its own,
 * with calls that nobody has seen fail. */
static bool has_aborted(const struct harness_watch_rank *rank)
{
    return rank->state == HARNESS_WATCH_SIGNALED && rank->code == SIGABRT;
}

/* The rank has left, as if all were well, inside a call that did not fail on it: the first one that
 * another rank has posted, has not seen done, and failed in. */
static bool has_left_inside(const struct harness_watch *watch, uint32_t rank,
                            const struct harness_watch_member *own,
                            const struct harness_watch_member *other)
{
    const struct harness_watch_rank *self = &watch->ranks[rank];

    if (self->state != HARNESS_WATCH_EXITED || self->code != 0 || self->is_detached ||
        own->has_broken) {
        return false;
    }
    for (size_t i = 0; i < other->call_count; i++) {
        if (!other->calls[i].is_done) {
            const struct harness_watch_call *call = harness_watch_call_at(own, other->kept_seq + i);

            return call != NULL && !call->is_done;
        }
    }
    return false;
}

/* Somebody waits for the rank, or has failed in a call that this one owes, or left in the middle:
 * who fails waits no more. */
static bool is_missed(const struct harness_watch *watch, uint32_t rank)
{
    for (size_t g = 0; g < watch->group_count; g++) {
        const struct harness_watch_member *own = &watch->groups[g].members[rank];

        for (uint32_t r = 0; own->is_there && r < watch->world_size; r++) {
            const struct harness_watch_member *other = &watch->groups[g].members[r];

            if (r != rank && other->is_there &&
                (other->has_broken || has_aborted(&watch->ranks[r])) &&
                (other->posted > own->posted || has_left_inside(watch, rank, own, other))) {
                return true;
            }
        }
    }
    return is_needed(watch, rank);
}

static bool is_done_well(const struct harness_watch_rank *rank)
{
    return rank->is_attached &&
           (rank->is_detached || (rank->state == HARNESS_WATCH_EXITED && rank->code == 0));
}

/* A rank is done, and others wait for it in a call of a group: who of them is wrong? So many
 * members are done without that call, have posted it, and may still do either. */
struct rest {
    uint32_t done, wanting, open;
};

/* It waits, in another call, for one that waits in this: as all make their calls in one order, it
 * has gone on without this call. */
static bool is_beyond(const struct harness_watch *watch, const struct harness_watch_wait *wanted,
                      uint32_t rank)
{
    const struct harness_watch_group *group = &watch->groups[wanted->group];
    struct harness_watch_wait wait;

    for (uint32_t r = 0; r < watch->world_size; r++) {
        if (group->members[r].is_there && group->members[r].posted >= wanted->seq &&
            harness_watch_needs(watch, rank, r, &wait) && wait.group != wanted->group) {
            return true;
        }
    }
    return false;
}

static struct rest count_rest(const struct harness_watch *watch,
                              const struct harness_watch_wait *wanted, bool is_told)
{
    const struct harness_watch_group *group = &watch->groups[wanted->group];
    struct rest rest = {0};

    for (uint32_t r = 0; r < watch->world_size; r++) {
        const struct harness_watch_member *member = &group->members[r];

        if (!member->is_there) {
            continue;
        }
        if (member->posted >= wanted->seq) {
            rest.wanting++;
        } else if (is_done_well(&watch->ranks[r]) || (!is_told && is_beyond(watch, wanted, r))) {
            rest.done++;
        } else if (!harness_watch_is_gone(watch, r)) {
            rest.open++;
        }
    }
    return rest;
}

/* It said itself that it was done; or it ended well after it had freed all communicators that it
 * had, as who ends in the middle of its work does not. */
static bool has_finished(const struct harness_watch *watch, uint32_t rank)
{
    bool has_freed = false;

    if (watch->ranks[rank].is_detached) {
        return true;
    }
    for (size_t g = 0; g < watch->group_count; g++) {
        const struct harness_watch_member *member = &watch->groups[g].members[rank];

        if (member->is_there && !member->is_freed) {
            return false;
        }
        has_freed = has_freed || member->is_there;
    }
    return has_freed && is_done_well(&watch->ranks[rank]);
}

/* It said itself that it was done, and so did as many members as possible of the group in which it
 * is waited for; or more may, and get the time for that. Whoever waits has made one call more than
 * they: *is_extra. */
static bool is_done_as_others(const struct harness_watch *watch, uint32_t rank, bool *is_extra)
{
    struct harness_watch_wait wanted;
    struct rest rest;

    *is_extra = false;
    if (!has_finished(watch, rank) || !harness_watch_is_needed(watch, rank, &wanted) ||
        guest_wait_is_of_ranks(wanted.seq) || !watch->groups[wanted.group].members[rank].is_there) {
        return false;
    }
    rest = count_rest(watch, &wanted, watch->ranks[rank].is_detached);
    *is_extra = rest.done > rest.wanting + rest.open;
    return *is_extra || (rest.open > 0 && rest.done + rest.open > rest.wanting &&
                         harness_watch_unchanged_ns(watch) < HARNESS_WATCH_DIFFER_HOLD_NS);
}

bool harness_watch_is_either(const struct harness_watch *watch, uint32_t rank,
                             struct harness_rank_set *others)
{
    struct harness_watch_wait wanted;
    struct rest rest;

    if (!watch->ranks[rank].is_detached || !harness_watch_is_needed(watch, rank, &wanted) ||
        guest_wait_is_of_ranks(wanted.seq) || wanted.seq == 1 ||
        watch->groups[wanted.group].members[rank].posted + 1 != wanted.seq) {
        return false;
    }
    rest = count_rest(watch, &wanted, true);
    for (uint32_t r = 0; r < watch->world_size; r++) {
        const struct harness_watch_member *member = &watch->groups[wanted.group].members[r];

        if (member->is_there && member->posted >= wanted.seq) {
            if (watch->ranks[r].step > watch->ranks[rank].step) {
                return false; /* it has gone on */
            }
            harness_rank_set_add(others, r);
        }
    }
    return rest.done == rest.wanting && rest.open == 0;
}

void harness_watch_find_extra(struct harness_watch *watch, struct harness_findings *out)
{
    for (uint32_t r = 0; r < watch->world_size; r++) {
        struct harness_watch_wait wanted;
        struct harness_watch_group *group;
        const struct harness_watch_call *call;
        struct harness_finding finding;
        char ranks[HARNESS_RANKS_TEXT_BYTES];
        bool is_extra;

        if (!is_done_as_others(watch, r, &is_extra) || !is_extra ||
            !harness_watch_is_needed(watch, r, &wanted) || watch->groups[wanted.group].is_wrong) {
            continue;
        }
        group = &watch->groups[wanted.group];
        call = harness_watch_any_call(watch, group, wanted.seq);
        harness_finding_init(&finding, out->mem, HARNESS_VERDICT_MISMATCH_EXTRA,
                             HARNESS_ORACLE_MONITOR, HARNESS_MODE_PROVABLE);
        harness_watch_set_op(group, wanted.seq, call, &finding);
        for (uint32_t m = 0; m < watch->world_size; m++) {
            if (group->members[m].is_there && group->members[m].posted >= wanted.seq) {
                harness_rank_set_add(&finding.culprits, m);
            }
        }
        harness_watch_say(&finding, "rank %s posted ",
                          harness_rank_set_text(&finding.culprits, ranks));
        harness_watch_say_call(watch, group, wanted.seq, call, &finding);
        harness_watch_say(&finding, ", and most members are done without it");
        harness_findings_add(out, &finding);
        group->is_wrong = true;
    }
}

/* A launcher has ended ranks of which one had said that it was done, behind the end of this one,
 * which never said so: a rank that leaves without that takes them along. */
static bool has_left_others(const struct harness_watch *watch, uint32_t rank)
{
    const struct harness_watch_rank *self = &watch->ranks[rank];
    bool is_so = false;

    for (uint32_t r = 0; !self->is_detached && r < watch->world_size; r++) {
        const struct harness_watch_rank *other = &watch->ranks[r];

        if (r == rank || !harness_watch_is_gone(watch, r) || is_done_well(other)) {
            is_so = is_so ||
                    (r != rank && other->is_detached && harness_watch_may_be_of_launcher(other) &&
                     harness_watch_ended_before(self, other));
            continue;
        }
        if (!harness_watch_may_be_of_launcher(other)) {
            return false;
        }
    }
    return is_so;
}

/* A rank that detached, or that nobody waits for, may end with 0. */
static enum harness_verdict crash_of(const struct harness_watch *watch, uint32_t rank)
{
    const struct harness_watch_rank *self = &watch->ranks[rank];
    bool is_extra;

    if (self->state == HARNESS_WATCH_SIGNALED) {
        return HARNESS_VERDICT_CRASH_SIGNALED;
    }
    if (self->state == HARNESS_WATCH_EXITED && self->code != 0) {
        return HARNESS_VERDICT_CRASH_EXITED;
    }
    if (self->state == HARNESS_WATCH_EXITED && !self->is_attached) {
        return harness_watch_is_needed(watch, rank, NULL) ? HARNESS_VERDICT_LAUNCH_MISSING_RANK
                                                          : HARNESS_VERDICT_NONE;
    }
    return ((self->state == HARNESS_WATCH_EXITED || self->is_detached) && is_missed(watch, rank) &&
            !is_done_as_others(watch, rank, &is_extra)) ||
                   (self->state == HARNESS_WATCH_EXITED && has_left_others(watch, rank))
               ? HARNESS_VERDICT_CRASH_FINISHED_EARLY
               : HARNESS_VERDICT_NONE;
}

/* It is inside a call, or one has failed on it. */
static bool is_within(const struct harness_watch_rank *rank)
{
    return rank->wait_count > 0 || rank->has_broken;
}

/* The end of `other` may have taken along a rank that failed inside a call: it was in none that
 * failed, or was ended by a signal. Who aborted there may be the one that was taken along: by a
 * rank that left with code 0, which met no error; and of a rank that aborted itself, neither that
 * nor the signal of a launcher tells. */
static bool may_take_along(const struct harness_watch *watch, uint32_t rank, uint32_t other)
{
    const struct harness_watch_rank *self = &watch->ranks[rank];
    const struct harness_watch_rank *by = &watch->ranks[other];
    const bool has_met_error = has_aborted(self) || self->code != 0;

    if (crash_of(watch, other) == HARNESS_VERDICT_NONE) {
        return false;
    }
    if (!is_within(by)) {
        return true;
    }
    return by->state == HARNESS_WATCH_SIGNALED && (!has_aborted(by) || has_met_error) &&
           (!has_aborted(self) || (!has_aborted(by) && !harness_watch_may_be_of_launcher(by)));
}

/* It ended by an error of its own inside a call that another rank, which is gone too or about to
 * be, had not come to, or came to no more: such as a connection that was reset. A process closes
 * its connections before its end can be seen, so the order of ends does not tell. */
static bool is_taken_along(const struct harness_watch *watch, uint32_t rank)
{
    const struct harness_watch_rank *self = &watch->ranks[rank];

    if ((self->state != HARNESS_WATCH_EXITED && !has_aborted(self)) || !is_within(self)) {
        return false;
    }
    for (uint32_t r = 0; r < watch->world_size; r++) {
        const struct harness_watch_rank *other = &watch->ranks[r];

        /* A rank that the others still needed, also if it has threads that wait. */
        if (r != rank && harness_watch_is_gone(watch, r) && is_missed(watch, r) &&
            !is_missed(watch, rank)) {
            return true;
        }
        if (r != rank && (other->is_ending || may_take_along(watch, rank, r))) {
            return true;
        }
    }
    return false;
}

/* A launcher ends the ranks that are left once one has ended by itself. They end behind it; where
 * that was not seen, by SIGTERM, which is asked with first, and waiting for others. */
static bool is_ended_by_launcher(const struct harness_watch *watch, uint32_t rank)
{
    bool is_so = false;

    for (uint32_t r = 0;
         harness_watch_may_be_of_launcher(&watch->ranks[rank]) && r < watch->world_size; r++) {
        is_so = is_so || (r != rank && crash_of(watch, r) != HARNESS_VERDICT_NONE &&
                          harness_watch_ended_before(&watch->ranks[r], &watch->ranks[rank]));
    }
    return is_so;
}

/* A program that fails exits with a code, or by one of these signals. */
static bool is_error(enum harness_verdict verdict, const struct harness_watch_rank *rank)
{
    return verdict == HARNESS_VERDICT_CRASH_EXITED ||
           (verdict == HARNESS_VERDICT_CRASH_SIGNALED &&
            (rank->code == SIGABRT || rank->code == SIGSEGV || rank->code == SIGBUS ||
             rank->code == SIGFPE || rank->code == SIGILL));
}

enum harness_verdict harness_watch_crash_of(const struct harness_watch *watch, uint32_t rank)
{
    const enum harness_verdict verdict = crash_of(watch, rank);

    return is_taken_along(watch, rank) || is_ended_by_launcher(watch, rank) ||
                   (is_error(verdict, &watch->ranks[rank]) &&
                    harness_watch_is_refused(watch, rank)) ||
                   (verdict == HARNESS_VERDICT_CRASH_EXITED &&
                    harness_watch_has_given_up(watch, rank))
               ? HARNESS_VERDICT_NONE
               : verdict;
}
