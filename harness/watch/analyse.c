/* Rules in order of certainty. What they say is named in analyse.h. */
#include "harness/watch/analyse.h"

#include <signal.h>
#include <string.h>

#include "ddpcore/base/clock.h"

/* --- ranks that are gone ---------------------------------------------------------------------- */

/* The call that it owes may be of a later step than it came to. */
static void say_where_it_ended(const struct harness_watch *watch, uint32_t rank,
                               struct harness_finding *finding)
{
    const struct harness_finding own = *finding;

    harness_watch_say_where(watch, rank, finding);
    if (watch->ranks[rank].is_attached) {
        finding->step = own.step;
        finding->micro = own.micro;
        finding->phase = own.phase;
    }
}

/* Real-time signals have no name. */
static void say_signal(const struct harness_watch *watch, uint32_t rank,
                       struct harness_finding *finding)
{
    const int number = watch->ranks[rank].code;
    const char *name = sigabbrev_np(number);

    if (name != NULL) {
        harness_watch_say(finding, "rank %u was ended by SIG%s", rank, name);
    } else {
        harness_watch_say(finding, "rank %u was ended by signal %d", rank, number);
    }
}

static void find_gone(const struct harness_watch *watch, struct harness_findings *out)
{
    for (uint32_t r = 0; r < watch->world_size; r++) {
        const struct harness_watch_rank *self = &watch->ranks[r];
        const enum harness_verdict verdict = harness_watch_crash_of(watch, r);
        struct harness_rank_set others = harness_rank_set_in(out->mem);
        struct harness_finding finding;

        if (verdict == HARNESS_VERDICT_NONE) {
            continue;
        }
        harness_watch_begin(watch, verdict, HARNESS_MODE_PROVABLE, r, out, &finding);
        finding.detect_ns = self->since_ns != 0 ? harness_watch_since(watch, self->since_ns) : -1;
        if (self->state == HARNESS_WATCH_SIGNALED) {
            say_signal(watch, r, &finding);
        } else if (verdict == HARNESS_VERDICT_CRASH_EXITED && self->code < 0) {
            harness_watch_say(&finding, "rank %u ended, and how is not known here", r);
        } else if (verdict == HARNESS_VERDICT_CRASH_EXITED) {
            harness_watch_say(&finding, "rank %u exited with code %d", r, self->code);
        } else if (verdict == HARNESS_VERDICT_LAUNCH_MISSING_RANK) {
            harness_watch_say(&finding, "rank %u ended and never showed itself", r);
        } else {
            harness_watch_say(&finding, "rank %u %s while others wait for it", r,
                              self->state == HARNESS_WATCH_EXITED ? "ended"
                                                                  : "said that it was done");
        }
        if (self->is_unended) {
            harness_watch_say(&finding, ", or will be, but the kernel has not ended it for %.1f s",
                              (double)(watch->now_ns - self->since_ns) / 1e9);
        }
        say_where_it_ended(watch, r, &finding);
        if (verdict == HARNESS_VERDICT_CRASH_FINISHED_EARLY &&
            harness_watch_is_either(watch, r, &others)) {
            harness_rank_set_add_all(&finding.culprits, &others);
            harness_watch_say(&finding, "; or those that wait made one call too many");
        }
        harness_watch_add_victims(watch, &finding);
        harness_findings_add(out, &finding);
    }
}

/* --- ranks that do not go on ------------------------------------------------------------------ */

/* Somebody waits for the rank, or inside a call that it has posted and not seen done. */
static bool is_held_up(const struct harness_watch *watch, uint32_t rank)
{
    if (harness_watch_is_needed(watch, rank, NULL)) {
        return true;
    }
    for (uint32_t r = 0; r < watch->world_size; r++) {
        for (uint32_t i = 0;
             r != rank && harness_watch_is_waiting(watch, r) && i < watch->ranks[r].wait_count;
             i++) {
            const struct harness_watch_wait *wait = &watch->ranks[r].waits[i];
            const enum harness_watch_reach reach =
                harness_watch_reach_of(watch, rank, wait->group, wait->seq);

            if (reach > HARNESS_WATCH_NOWHERE && reach < HARNESS_WATCH_DONE) {
                return true;
            }
        }
    }
    return false;
}

static void find_stopped(const struct harness_watch *watch, struct harness_findings *out)
{
    struct harness_rank_set culprits = harness_rank_set_in(out->mem);
    struct harness_finding finding;
    char ranks[HARNESS_RANKS_TEXT_BYTES];

    for (uint32_t r = 0; r < watch->world_size; r++) {
        const struct harness_watch_rank *self = &watch->ranks[r];

        if (self->state == HARNESS_WATCH_STOPPED &&
            watch->now_ns - self->since_ns >= HARNESS_WATCH_STOP_HOLD_NS && is_held_up(watch, r)) {
            harness_rank_set_add(&culprits, r);
        }
    }
    if (harness_rank_set_is_empty(&culprits)) {
        return;
    }
    harness_watch_begin(watch, HARNESS_VERDICT_HANG_STOPPED, HARNESS_MODE_PROVABLE,
                        harness_rank_set_at(&culprits, 0), out, &finding);
    finding.culprits = culprits;
    finding.detect_ns =
        harness_watch_since(watch, watch->ranks[harness_rank_set_at(&culprits, 0)].since_ns);
    harness_watch_say(&finding, "rank %s is stopped (SIGSTOP)",
                      harness_rank_set_text(&culprits, ranks));
    harness_watch_say_where(watch, harness_rank_set_at(&culprits, 0), &finding);
    harness_watch_add_victims(watch, &finding);
    harness_findings_add(out, &finding);
}

/* What each of them waits in. */
static void say_waits(const struct harness_watch *watch, const struct harness_rank_set *ranks,
                      struct harness_finding *finding)
{
    for (uint32_t i = 0; i < harness_rank_set_count(ranks) && i < HARNESS_NAMED_MAX; i++) {
        const uint32_t rank = harness_rank_set_at(ranks, i);
        const struct harness_watch_wait *wait = &watch->ranks[rank].waits[0];
        const struct harness_watch_group *group = &watch->groups[wait->group];
        struct ddp_text text;

        ddp_text_init(&text, watch->mem);
        harness_watch_print_call(group, wait->seq, harness_watch_any_call(watch, group, wait->seq),
                                 &text);
        harness_watch_say(finding, "; rank %u in %s", rank, ddp_text_str(&text));
        ddp_text_fini(&text);
    }
}

/* First what is certain. Who waits for a stream in the device's library does not show it; so long
 * after anything last changed it is presumed. */
static enum harness_mode find_stuck(const struct harness_watch *watch,
                                    const struct harness_watch_limits *limits,
                                    struct harness_rank_set *out)
{
    if (watch->now_ns - watch->change_ns >= HARNESS_WATCH_SURE_HOLD_NS) {
        harness_watch_find_stuck(watch, false, out);
    }
    if (harness_rank_set_is_empty(out) && harness_watch_unchanged_ns(watch) > limits->silent_ns) {
        harness_watch_find_stuck(watch, true, out);
        return HARNESS_MODE_BUDGET;
    }
    return HARNESS_MODE_PROVABLE;
}

/* What the finding's culprits have not come to, or one came to in place of what was due. */
static void say_missed(const struct harness_watch *watch, const struct harness_watch_wait *missed,
                       struct harness_finding *finding)
{
    const struct harness_watch_group *group = &watch->groups[missed->group];
    const struct harness_watch_call *call = harness_watch_any_call(watch, group, missed->seq);
    struct ddp_text text;
    char ranks[HARNESS_RANKS_TEXT_BYTES];
    const struct harness_watch_rank *first =
        &watch->ranks[harness_rank_set_at(&finding->culprits, 0)];
    bool is_one_more = false;

    for (uint32_t w = 0; w < first->thread_wait_count; w++) {
        is_one_more = is_one_more || (first->waits[w].group == missed->group &&
                                      first->waits[w].seq == missed->seq);
    }
    ddp_text_init(&text, watch->mem);
    harness_watch_print_call(group, missed->seq, call, &text);
    if (watch->strayed.usual > 0) {
        harness_watch_say(finding,
                          ", as rank %s waited for messages %u time%s before %s, and %u time%s "
                          "before each earlier one",
                          harness_rank_set_text(&finding->culprits, ranks), watch->strayed.messages,
                          watch->strayed.messages == 1 ? "" : "s", ddp_text_str(&text),
                          watch->strayed.usual, watch->strayed.usual == 1 ? "" : "s");
    } else {
        harness_watch_say(
            finding, is_one_more ? ", as rank %s went on to %s" : ", as rank %s has not come to %s",
            harness_rank_set_text(&finding->culprits, ranks), ddp_text_str(&text));
    }
    ddp_text_fini(&text);
    harness_watch_set_op(group, missed->seq, call, finding);
}

/* The call that it lacks may be of a step that it has not come to. */
static void date_stray(const struct harness_watch *watch, uint32_t rank,
                       struct harness_finding *finding)
{
    const struct harness_watch_rank *self = &watch->ranks[rank];

    if (self->step_count > 0 && (int64_t)self->step < finding->step) {
        finding->step = (int32_t)self->step;
    }
}

static void find_cycle(struct harness_watch *watch, const struct harness_watch_limits *limits,
                       struct harness_findings *out)
{
    struct harness_rank_set stuck = harness_rank_set_in(out->mem);
    struct harness_rank_set strays = harness_rank_set_in(out->mem);
    struct harness_watch_wait missed = {0};
    struct harness_finding finding;
    const enum harness_mode mode = find_stuck(watch, limits, &stuck);
    char ranks[HARNESS_RANKS_TEXT_BYTES];

    /* Nobody can come any more, or so much time has passed that nobody is presumed to. */
    if (harness_rank_set_is_empty(&stuck) ||
        (mode == HARNESS_MODE_PROVABLE &&
         harness_watch_unchanged_ns(watch) < HARNESS_WATCH_CYCLE_HOLD_NS &&
         !harness_watch_is_sure(watch, &stuck))) {
        return;
    }
    harness_watch_find_strays(watch, &stuck, &strays, &missed);
    harness_watch_begin(watch, HARNESS_VERDICT_HANG_CYCLE, mode, harness_rank_set_at(&stuck, 0),
                        out, &finding);
    finding.detect_ns = harness_watch_since(watch, watch->change_ns);
    if (harness_rank_set_is_empty(&strays)) {
        harness_watch_find_circle(watch, &stuck, &finding.culprits);
        harness_watch_say(&finding, "ranks %s wait for each other in a circle",
                          harness_rank_set_text(&finding.culprits, ranks));
        if (harness_rank_set_count(&finding.culprits) < harness_rank_set_count(&stuck)) {
            harness_watch_say(&finding, ", and others for them");
        }
    } else {
        finding.culprits = strays;
        harness_watch_say(&finding, "ranks %s wait for each other in a circle",
                          harness_rank_set_text(&stuck, ranks));
        say_missed(watch, &missed, &finding);
        date_stray(watch, harness_rank_set_at(&strays, 0), &finding);
    }
    for (uint32_t i = 0; i < harness_rank_set_count(&stuck); i++) {
        if (!harness_rank_set_has(&finding.culprits, harness_rank_set_at(&stuck, i))) {
            harness_rank_set_add(&finding.victims, harness_rank_set_at(&stuck, i));
        }
    }
    say_waits(watch, &stuck, &finding);
    harness_findings_add(out, &finding);
}

/* --- limits of time --------------------------------------------------------------------------- */

static void find_overdue(const struct harness_watch *watch,
                         const struct harness_watch_limits *limits, struct harness_findings *out)
{
    for (uint32_t r = 0; r < watch->world_size; r++) {
        const struct harness_watch_rank *self = &watch->ranks[r];
        struct harness_finding finding;

        /* That it is stopped is found by itself, and sooner. */
        if (self->state == HARNESS_WATCH_STOPPED || !harness_watch_is_overdue(watch, limits, r) ||
            harness_watch_is_before_start(watch, limits, r)) {
            continue;
        }
        harness_watch_begin(watch,
                            self->is_attached ? HARNESS_VERDICT_HANG_NOT_JOINED
                                              : HARNESS_VERDICT_LAUNCH_MISSING_RANK,
                            HARNESS_MODE_BUDGET, r, out, &finding);
        harness_watch_say(&finding, "rank %u %s for %.1f s", r,
                          self->is_attached ? "is in code of its own, and was waited for"
                                            : "was waited for without a sign",
                          (double)harness_watch_waited_for_ns(watch, r) / 1e9);
        harness_watch_say_where(watch, r, &finding);
        harness_watch_add_victims(watch, &finding);
        harness_findings_add(out, &finding);
    }
}

/* Why a rank that lives and waits for nobody does not move. */
static enum harness_verdict stillness_of(const struct harness_watch *watch, uint32_t rank)
{
    const struct harness_watch_rank *self = &watch->ranks[rank];

    if (!self->is_attached || harness_watch_is_gone(watch, rank) ||
        harness_watch_is_waiting(watch, rank)) {
        return HARNESS_VERDICT_NONE;
    }
    return self->state == HARNESS_WATCH_STOPPED ? HARNESS_VERDICT_HANG_STOPPED
           : self->is_detached                  ? HARNESS_VERDICT_HANG_TEARDOWN
                                                : HARNESS_VERDICT_HANG_HOST;
}

/* All that is left waits, and for whom is not seen. */
static void find_all_waiting(const struct harness_watch *watch, struct harness_findings *out)
{
    struct harness_rank_set culprits = harness_rank_set_in(out->mem);
    struct harness_finding finding;
    char ranks[HARNESS_RANKS_TEXT_BYTES];

    for (uint32_t r = 0; r < watch->world_size; r++) {
        if (harness_watch_is_waiting(watch, r)) {
            harness_rank_set_add(&culprits, r);
        }
    }
    if (harness_rank_set_is_empty(&culprits)) {
        return;
    }
    harness_watch_begin(watch, HARNESS_VERDICT_HANG_CYCLE, HARNESS_MODE_BUDGET,
                        harness_rank_set_at(&culprits, 0), out, &finding);
    finding.culprits = culprits;
    harness_watch_say(
        &finding, "rank %s waits, for whom is not seen of each, and nothing has moved for %.1f s",
        harness_rank_set_text(&culprits, ranks), (double)(watch->now_ns - watch->change_ns) / 1e9);
    say_waits(watch, &culprits, &finding);
    harness_findings_add(out, &finding);
}

/* The rank has given its device a call that another member has not posted, and how far the device
 * is with it does not show: a thread may wait for that. */
static bool may_wait_for_device(const struct harness_watch *watch, uint32_t rank)
{
    for (size_t g = 0; g < watch->group_count; g++) {
        const struct harness_watch_group *group = &watch->groups[g];
        const struct harness_watch_member *own = &group->members[rank];

        for (uint32_t r = 0; own->is_of_device && !own->is_freed && r < watch->world_size; r++) {
            const struct harness_watch_member *other = &group->members[r];

            if (other->is_there && other->posted < own->posted) {
                return true;
            }
        }
    }
    return false;
}

/* Of ranks that are in code of their own, those that wait for no device, if there are any. */
static void leave_out_devices(const struct harness_watch *watch, struct harness_rank_set *ranks)
{
    struct harness_rank_set others = harness_rank_set_in(ranks->ranks.mem);

    for (uint32_t i = 0; i < harness_rank_set_count(ranks); i++) {
        if (!may_wait_for_device(watch, harness_rank_set_at(ranks, i))) {
            harness_rank_set_add(&others, harness_rank_set_at(ranks, i));
        }
    }
    *ranks = harness_rank_set_is_empty(&others) ? *ranks : others;
}

/* Nobody posts, waits for others, announces a step or ends: not even the first time. First what is
 * sure to be wrong; that a rank which was done lives on counts if there is nothing else. */
static void find_still(const struct harness_watch *watch, const struct harness_watch_limits *limits,
                       struct harness_findings *out)
{
    static const struct {
        enum harness_verdict verdict;
        const char *words[2]; /* of one rank, of several */
    } kinds[] = {{HARNESS_VERDICT_HANG_STOPPED, {"is stopped (SIGSTOP)", "are stopped (SIGSTOP)"}},
                 {HARNESS_VERDICT_HANG_HOST, {"is in code of its own", "are in code of their own"}},
                 {HARNESS_VERDICT_HANG_TEARDOWN,
                  {"was done and has not ended", "were done and have not ended"}}};
    struct harness_finding finding;
    char ranks[HARNESS_RANKS_TEXT_BYTES];

    if (limits->still_ns == 0 || watch->change_ns == 0 ||
        harness_watch_unchanged_ns(watch) <= limits->still_ns) {
        return;
    }
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        struct harness_rank_set culprits = harness_rank_set_in(out->mem);

        for (uint32_t r = 0; r < watch->world_size; r++) {
            if (stillness_of(watch, r) == kinds[k].verdict) {
                harness_rank_set_add(&culprits, r);
            }
        }
        if (kinds[k].verdict == HARNESS_VERDICT_HANG_HOST) {
            leave_out_devices(watch, &culprits);
        }
        if (!harness_rank_set_is_empty(&culprits)) {
            harness_watch_begin(watch, kinds[k].verdict, HARNESS_MODE_BUDGET,
                                harness_rank_set_at(&culprits, 0), out, &finding);
            finding.culprits = culprits;
            harness_watch_say(&finding, "%s %s %s, and nothing has moved for %.1f s",
                              harness_rank_set_count(&culprits) > 1 ? "ranks" : "rank",
                              harness_rank_set_text(&culprits, ranks),
                              kinds[k].words[harness_rank_set_count(&culprits) > 1],
                              (double)(watch->now_ns - watch->change_ns) / 1e9);
            harness_findings_add(out, &finding);
            return;
        }
    }
    find_all_waiting(watch, out);
}

void harness_watch_analyse(struct harness_watch *watch, const struct harness_watch_limits *limits,
                           struct harness_findings *out)
{
    harness_watch_find_launch(watch, out);
    harness_watch_find_differences(watch, out);
    harness_watch_find_extra(watch, out);
    find_gone(watch, out);
    harness_watch_find_given_up(watch, out);
    find_stopped(watch, out);
    find_cycle(watch, limits, out);
    find_overdue(watch, limits, out);
    if (out->count == 0) {
        harness_watch_find_endless(watch, limits, out);
        harness_watch_find_absent(watch, limits, out);
    }
    if (out->count == 0) {
        find_still(watch, limits, out);
    }
}
