/* Purpose: the first call of each communicator that the learned program does not have there.
 * Idea: members post the same, or are compared with each other by somebody else. So one place in
 * the program is kept for a communicator; a call is looked at once all members have posted it, or
 * when some deviate and the others had time to come. Behind the record's end, that a job repeats
 * what the record shows is a guess: a record may be shorter than what the program does seldom. What
 * is as guessed is as recorded; what is not is left to those who compare members. */
#include <string.h>

#include "harness/observed/place.h"
#include "harness/watch/analyse.h"

struct harness_against {
    struct ddp_mem *mem;
    struct harness_watch *watch;
    const struct harness_learned *learned;
    struct learned_place *places; /* by communicator of the watch */
    size_t count, capacity;
    bool *is_found; /* [learned->count]: it has come to live */
    bool is_ended;
    uint64_t judged, unknown;
};

ddp_status harness_against_create(struct ddp_mem *mem, struct harness_watch *watch,
                                  const struct harness_learned *learned,
                                  struct harness_against **out)
{
    struct harness_against *against = ddp_mem_array(mem, 1, sizeof *against);

    *out = against;
    if (against == NULL) {
        return DDP_E_NOMEM;
    }
    against->mem = mem;
    against->watch = watch;
    against->learned = learned;
    against->is_found = ddp_mem_array(mem, learned->count, sizeof *against->is_found);
    return against->is_found != NULL ? DDP_OK : DDP_E_NOMEM;
}

/* --- which communicator
 * -------------------------------------------------------------------------------------------
 */

static uint32_t member_count(const struct harness_watch *watch,
                             const struct harness_watch_group *group)
{
    uint32_t count = 0;

    for (uint32_t r = 0; r < watch->world_size; r++) {
        count += group->members[r].is_there;
    }
    return count;
}

static bool has_same_members(const struct harness_watch *watch, const struct harness_watch_group *a,
                             const struct harness_watch_group *b)
{
    for (uint32_t r = 0; r < watch->world_size; r++) {
        if (a->members[r].is_there != b->members[r].is_there) {
            return false;
        }
    }
    return strcmp(a->name, b->name) == 0;
}

static bool is_counterpart(const struct harness_watch *watch,
                           const struct harness_watch_group *group, uint32_t nth,
                           const struct harness_learned_comm *comm)
{
    for (uint32_t i = 0; i < comm->rank_count; i++) {
        if (comm->ranks[i] >= watch->world_size || !group->members[comm->ranks[i]].is_there) {
            return false;
        }
    }
    return comm->nth == nth && comm->rank_count == member_count(watch, group) &&
           strcmp(comm->name, group->name) == 0;
}

/* Once all of its members have made it. */
static void find_counterpart(struct harness_against *against, size_t number)
{
    const struct harness_watch *watch = against->watch;
    const struct harness_watch_group *group = &watch->groups[number];
    struct learned_place *place = &against->places[number];
    uint32_t nth = 0;

    for (size_t g = 0; g < number; g++) {
        nth += has_same_members(watch, &watch->groups[g], group);
    }
    place->is_known = true;
    for (size_t c = 0; c < against->learned->count && place->comm == NULL; c++) {
        if (is_counterpart(watch, group, nth, &against->learned->comms[c])) {
            place->comm = &against->learned->comms[c];
            against->is_found[c] = true;
            place->list = harness_learned_step(against->learned, place->comm, 0, &place->count);
        }
    }
}

/* --- one call
 * -----------------------------------------------------------------------------------------------------
 */

static void advance(struct harness_against *against, struct learned_place *place,
                    const struct harness_watch_call *call)
{
    struct learned_at at;

    harness_learned_look_up(against->learned, place, call, &at);
    against->judged += at.list != NULL;
    against->unknown += at.list == NULL;
    place->seq++;
    place->step = call->step;
    place->list = at.list;
    place->count = at.count;
    place->index = at.index + 1;
    place->differs_ns = 0;
}

static struct harness_watch_call call_of(const struct harness_learned_call *learned, uint32_t step)
{
    return (struct harness_watch_call){.op = learned->op,
                                       .elem_count = learned->elem_count,
                                       .bucket = learned->bucket,
                                       .step = step};
}

static bool is_later(const struct learned_at *at, const struct harness_watch_call *call)
{
    for (size_t i = at->index + 1; i < at->count; i++) {
        if (harness_learned_is_alike(&at->list[i], call)) {
            return true;
        }
    }
    return false;
}

/* next: what the member posted behind it; NULL: nothing yet. */
static enum harness_verdict verdict_of(const struct learned_at *at,
                                       const struct harness_watch_call *call,
                                       const struct harness_watch_call *next)
{
    struct harness_watch_call due;

    if (at->due == NULL) {
        return HARNESS_VERDICT_MISMATCH_EXTRA;
    }
    if (at->is_behind) {
        return HARNESS_VERDICT_MISMATCH_MISSING;
    }
    if (is_later(at, call)) {
        return next != NULL && harness_learned_is_alike(at->due, next)
                   ? HARNESS_VERDICT_MISMATCH_ORDER
                   : HARNESS_VERDICT_MISMATCH_MISSING;
    }
    if (at->index > 0 && harness_learned_is_alike(&at->list[at->index - 1], call)) {
        return HARNESS_VERDICT_MISMATCH_EXTRA;
    }
    due = call_of(at->due, call->step);
    due.elem_count = due.elem_count == HARNESS_LEARNED_ANY ? call->elem_count : due.elem_count;
    return harness_watch_difference_of(call, &due);
}

/* A record of a program that announces no steps is one step, from its beginning to its end. */
static void say_length(const struct harness_against *against, struct harness_finding *finding)
{
    if (against->learned->step_count == 1) {
        harness_watch_say(finding, " (of a run of one step, or of a program that announces none: "
                                   "it holds for runs of the same length)");
    }
}

/* deviating: a member's call that is not as recorded. */
static void add(struct harness_against *against, size_t number,
                const struct harness_watch_call *deviating, enum harness_verdict verdict,
                const struct harness_rank_set *culprits, struct harness_findings *out)
{
    struct harness_watch_group *group = &against->watch->groups[number];
    struct learned_place *place = &against->places[number];
    struct harness_finding finding;
    struct harness_watch_call due = {.op = 0};
    char ranks[HARNESS_RANKS_TEXT_BYTES];
    struct learned_at at;

    harness_learned_look_up(against->learned, place, deviating, &at);
    harness_finding_init(&finding, out->mem, verdict, HARNESS_ORACLE_PROGRAM,
                         HARNESS_MODE_PROVABLE);
    harness_rank_set_add_all(&finding.culprits, culprits);
    if (at.due != NULL) {
        due = call_of(at.due, at.step);
        due.phase = deviating->phase;
    }
    harness_watch_set_op(group, place->seq + 1, at.due != NULL ? &due : deviating, &finding);
    finding.detect_ns = harness_watch_since(against->watch, deviating->time_ns);
    harness_watch_say(&finding, "rank %s posted ", harness_rank_set_text(culprits, ranks));
    harness_watch_say_call(against->watch, group, place->seq + 1, deviating, &finding);
    harness_watch_say(&finding, " in step %u, where the record has ", deviating->step);
    if (at.due == NULL) {
        harness_watch_say(&finding, "nothing");
        say_length(against, &finding);
    } else {
        harness_watch_say_call(against->watch, group, place->seq + 1, &due, &finding);
        if (at.is_behind) {
            harness_watch_say(&finding, " in step %u", due.step);
        }
    }
    harness_findings_add(out, &finding);
    place->is_done = true;
    /* What follows in it is confusion: nobody compares it. */
    group->is_wrong = true;
    group->wrong_seq = place->seq + 1;
}

/* What members posted as the next call. */
struct posted {
    uint32_t count;
    const struct harness_watch_call *any;
    const struct harness_watch_call *deviating, *next; /* of the first one who deviates */
    struct harness_rank_set culprits;
    bool has_gone;
};

static struct posted collect(const struct harness_against *against, size_t number,
                             struct ddp_mem *mem)
{
    const struct harness_watch *watch = against->watch;
    const struct harness_watch_group *group = &watch->groups[number];
    const struct learned_place *place = &against->places[number];
    struct posted posted = {.culprits = harness_rank_set_in(mem)};

    for (uint32_t r = 0; r < watch->world_size; r++) {
        const struct harness_watch_member *member = &group->members[r];
        const struct harness_watch_call *call = harness_watch_call_at(member, place->seq + 1);
        struct learned_at at;

        posted.has_gone = posted.has_gone || (member->is_there && harness_watch_is_gone(watch, r));
        if (call == NULL) {
            continue;
        }
        posted.count++;
        posted.any = call;
        harness_learned_look_up(against->learned, place, call, &at);
        if (!at.is_alike) {
            harness_rank_set_add(&posted.culprits, r);
            posted.next = posted.deviating == NULL ? harness_watch_call_at(member, place->seq + 2)
                                                   : posted.next;
            posted.deviating = posted.deviating == NULL ? call : posted.deviating;
        }
    }
    return posted;
}

/* From here on nobody knows what the communicator is to post. */
static void leave(struct learned_place *place)
{
    place->is_done = true;
    place->is_left = true;
}

/* Judge the next call of a communicator. False: wait for more. */
static bool judge_next(struct harness_against *against, size_t number, struct harness_findings *out)
{
    const struct harness_watch *watch = against->watch;
    const struct harness_watch_group *group = &watch->groups[number];
    struct learned_place *place = &against->places[number];
    const struct posted posted = collect(against, number, out->mem);
    enum harness_verdict verdict;
    struct learned_at at;
    bool is_over;

    if (posted.deviating == NULL) {
        if (posted.any == NULL || posted.count < group->size) {
            return false;
        }
        advance(against, place, posted.any);
        return true;
    }
    harness_learned_look_up(against->learned, place, posted.deviating, &at);
    if (at.step >= against->learned->step_count) {
        leave(place);
        return false;
    }
    place->differs_ns = place->differs_ns == 0 ? watch->now_ns : place->differs_ns;
    is_over = posted.has_gone || watch->now_ns - place->differs_ns >= HARNESS_WATCH_DIFFER_HOLD_NS;
    verdict = verdict_of(&at, posted.deviating, posted.next);
    /* Whether a call is missing or comes later, the next one tells. */
    if (!is_over && (posted.count < group->size || (verdict == HARNESS_VERDICT_MISMATCH_MISSING &&
                                                    !at.is_behind && posted.next == NULL))) {
        return false;
    }
    add(against, number, posted.deviating, verdict, &posted.culprits, out);
    return false;
}

/* --- all of them
 * --------------------------------------------------------------------------------------------------
 */

/* Finding without a call that somebody posted. */
static void add_absence(const struct harness_against *against, enum harness_verdict verdict,
                        const struct harness_learned_comm *comm, struct harness_findings *out,
                        struct harness_finding *finding)
{
    harness_finding_init(finding, out->mem, verdict, HARNESS_ORACLE_PROGRAM, HARNESS_MODE_PROVABLE);
    for (uint32_t i = 0; comm != NULL && i < comm->rank_count; i++) {
        if (comm->ranks[i] < against->watch->world_size) {
            harness_rank_set_add(&finding->culprits, comm->ranks[i]);
        }
    }
}

static void add_unknown_comm(struct harness_against *against, size_t number,
                             struct harness_findings *out)
{
    struct harness_watch_group *group = &against->watch->groups[number];
    struct harness_finding finding;

    add_absence(against, HARNESS_VERDICT_MISMATCH_EXTRA, NULL, out, &finding);
    for (uint32_t r = 0; r < against->watch->world_size; r++) {
        if (group->members[r].is_there) {
            harness_rank_set_add(&finding.culprits, r);
        }
    }
    harness_watch_set_op(group, 1, harness_watch_any_call(against->watch, group, 1), &finding);
    harness_watch_say(&finding, "the record has no communicator \"%s\" of these ranks",
                      group->name);
    harness_findings_add(out, &finding);
    against->places[number].is_done = true;
    group->is_wrong = true;
}

static void judge_group(struct harness_against *against, size_t number,
                        struct harness_findings *out)
{
    const struct harness_watch *watch = against->watch;
    const struct harness_watch_group *group = &watch->groups[number];
    struct learned_place *place = &against->places[number];

    if (place->is_done || group->is_wrong || group->is_pair) {
        return;
    }
    if (!place->is_known) {
        if (member_count(watch, group) < group->size) {
            return;
        }
        find_counterpart(against, number);
    }
    if (place->comm == NULL) {
        const struct harness_watch_call *first = harness_watch_any_call(watch, group, 1);

        if (first != NULL && first->step < against->learned->step_count) {
            add_unknown_comm(against, number, out);
        } else if (first != NULL) {
            leave(place);
        }
        return;
    }
    while (!place->is_done && judge_next(against, number, out)) {
    }
}

/* Every rank says that it is done. */
static bool has_ended(const struct harness_watch *watch)
{
    bool is_some = false;

    for (uint32_t r = 0; r < watch->world_size; r++) {
        if (watch->ranks[r].is_attached && !watch->ranks[r].is_detached) {
            return false;
        }
        is_some = is_some || watch->ranks[r].is_attached;
    }
    return is_some;
}

/* The step in which the job ended is short of calls. A job of fewer steps than the record's is
 * fine.
 */
static void find_rest(struct harness_against *against, size_t number, struct harness_findings *out)
{
    const struct harness_watch_group *group = &against->watch->groups[number];
    const struct learned_place *place = &against->places[number];
    struct harness_watch_call due;
    struct harness_finding finding;

    if (place->is_done || group->is_wrong || place->comm == NULL || place->list == NULL ||
        place->index >= place->count || place->step >= against->learned->step_count) {
        return;
    }
    due = call_of(&place->list[place->index], place->step);
    add_absence(against, HARNESS_VERDICT_MISMATCH_MISSING, place->comm, out, &finding);
    harness_watch_set_op(group, place->seq + 1, &due, &finding);
    harness_watch_say(&finding, "no rank posted ");
    harness_watch_say_call(against->watch, group, place->seq + 1, &due, &finding);
    harness_watch_say(&finding, ", which the record has in step %u", place->step);
    say_length(against, &finding);
    harness_findings_add(out, &finding);
}

static void find_unmade(struct harness_against *against, struct harness_findings *out)
{
    uint64_t steps = 0;

    for (uint32_t r = 0; r < against->watch->world_size; r++) {
        const uint64_t count = against->watch->ranks[r].step_count;

        steps = count > steps ? count : steps;
    }
    for (size_t c = 0; c < against->learned->count; c++) {
        const struct harness_learned_comm *comm = &against->learned->comms[c];
        struct harness_finding finding;

        if (against->is_found[c] || comm->count == 0 ||
            (comm->steps[0].first > 0 && comm->steps[0].first >= steps)) {
            continue;
        }
        add_absence(against, HARNESS_VERDICT_MISMATCH_MISSING, comm, out, &finding);
        finding.step = (int32_t)comm->steps[0].first;
        harness_watch_say(&finding,
                          "no rank made the communicator \"%s\", which the record uses from step "
                          "%u on",
                          comm->name, comm->steps[0].first);
        harness_findings_add(out, &finding);
    }
}

ddp_status harness_against_judge(struct harness_against *against, struct harness_findings *out)
{
    while (against->count < against->watch->group_count) {
        struct learned_place *places = ddp_mem_grow(against->mem, against->places, against->count,
                                                    &against->capacity, sizeof *places);

        if (places == NULL) {
            return DDP_E_NOMEM;
        }
        against->places = places;
        against->count++;
    }
    for (size_t g = 0; g < against->count; g++) {
        judge_group(against, g, out);
    }
    if (!against->is_ended && has_ended(against->watch)) {
        against->is_ended = true;
        for (size_t g = 0; g < against->count; g++) {
            find_rest(against, g, out);
        }
        find_unmade(against, out);
    }
    return DDP_OK;
}

/* What members posted in the communicator from its place on. */
static uint64_t count_left(const struct harness_watch *watch,
                           const struct harness_watch_group *group,
                           const struct learned_place *place)
{
    uint64_t posted = place->seq;

    for (uint32_t r = 0; r < watch->world_size; r++) {
        posted = group->members[r].posted > posted ? group->members[r].posted : posted;
    }
    return posted - place->seq;
}

void harness_against_account(const struct harness_against *against,
                             struct harness_watch_accounts *out)
{
    uint64_t left = 0;

    for (size_t g = 0; g < against->count; g++) {
        left += against->places[g].is_left
                    ? count_left(against->watch, &against->watch->groups[g], &against->places[g])
                    : 0;
    }
    if (left > 0) {
        harness_watch_add_lack(out, HARNESS_ORACLE_PROGRAM, left,
                               "of steps behind the record that do not repeat it: record a longer "
                               "run");
    }
    out->of[HARNESS_ORACLE_PROGRAM].judged += against->judged;
    if (against->unknown > 0) {
        harness_watch_add_lack(out, HARNESS_ORACLE_PROGRAM, against->unknown,
                               "of steps that the record says nothing of");
    }
}
