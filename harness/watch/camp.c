/* Members that posted the same at a call are a camp. Most of them are right; of two equal camps,
 * the one that did what the communicator always did in this place, or what others do in
 * communicators of the same split. */
#include <string.h>

#include "harness/watch/analyse.h"

bool harness_watch_is_same(const struct harness_watch_group *group,
                           const struct harness_watch_call *a, const struct harness_watch_call *b)
{
    return harness_watch_is_alike(a, b) && harness_watch_holds_same(a, b) &&
           (a->step == b->step || a->is_before_steps || b->is_before_steps || group->is_pair);
}

uint32_t harness_watch_find_camps(const struct harness_watch *watch,
                                  const struct harness_watch_group *group, uint64_t seq,
                                  struct harness_watch_camp *out, uint64_t *out_posted)
{
    uint32_t count = 0;

    *out_posted = 0;
    for (uint32_t r = 0; r < watch->world_size; r++) {
        const struct harness_watch_call *call = harness_watch_call_at(&group->members[r], seq);
        uint32_t c = 0;

        if (call == NULL) {
            continue;
        }
        (*out_posted)++;
        while (c < count && !harness_watch_is_same(group, out[c].call, call)) {
            c++;
        }
        if (c == count) {
            out[count++] = (struct harness_watch_camp){.call = call, .rank = r};
        } else if (out[c].call->is_before_steps && !call->is_before_steps) {
            out[c].call = call; /* its step tells it from others */
            out[c].rank = r;
        }
        out[c].count++;
    }
    return count;
}

/* Index of the one camp that did what used to come here, if what the others did never has: behind
 * the longest run of calls that tells. */
static uint32_t pick_by_habit(const struct harness_watch *watch,
                              const struct harness_watch_group *group, uint64_t seq,
                              const struct harness_watch_camp *camps, uint32_t count,
                              bool is_step_judged)
{
    /* A call of every tenth step is foretold only by what goes back to the last such one. */
    static const uint32_t lengths[] = {64, 48, 32, 24, 16, 12, 8, 7, 6, 5, 4, 3, 2, 1};

    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        const uint32_t length = lengths[i];
        uint32_t of[HARNESS_WATCH_HABITUAL + 1] = {0}; /* camps of each habit */
        uint32_t habitual = count;

        for (uint32_t c = 0; c < count; c++) {
            const enum harness_watch_habit habit =
                harness_watch_habit_of(watch, group, seq, camps[c].call, is_step_judged, length);

            of[habit]++;
            habitual = habit == HARNESS_WATCH_HABITUAL ? c : habitual;
        }
        if (of[HARNESS_WATCH_HABITUAL] == 1 && of[HARNESS_WATCH_NEVER] == count - 1) {
            return habitual;
        }
        /* One that came now and then, and others never: a shorter run may have come oftener. */
        if (of[HARNESS_WATCH_TOO_NEW] == 0 &&
            (of[HARNESS_WATCH_SELDOM] != 1 || of[HARNESS_WATCH_NEVER] != count - 1)) {
            return count;
        }
    }
    return count;
}

/* Index of the one camp that posts such a call as often in a step as all did in the steps before;
 * count: none, or several are. All posted the same call, in different steps. */
static uint32_t pick_by_step(const struct harness_watch *watch,
                             const struct harness_watch_group *group, uint64_t seq,
                             const struct harness_watch_camp *camps, uint32_t count)
{
    uint32_t first = camps[0].call->step;
    uint32_t found = count;
    uint32_t usual;
    uint32_t made;

    for (uint32_t c = 1; c < count; c++) {
        if (!harness_watch_is_alike(camps[c].call, camps[0].call)) {
            return count;
        }
        first = camps[c].call->step < first ? camps[c].call->step : first;
    }
    usual = harness_watch_usual_in_step(watch, group, seq, camps[0].call, first, &made);
    for (uint32_t c = 0; usual > 0 && c < count; c++) {
        const bool is_usual = camps[c].call->step == first
                                  ? made < usual
                                  : camps[c].call->step == first + 1 && made == usual;

        if (is_usual && found < count) {
            return count;
        }
        found = is_usual ? c : found;
    }
    return found;
}

/* The same call may have been posted in different steps: then the step that was due tells, or how
 * many such calls a step has. */
static uint32_t pick_expected(const struct harness_watch *watch,
                              const struct harness_watch_group *group, uint64_t seq,
                              const struct harness_watch_camp *camps, uint32_t count)
{
    uint32_t picked = pick_by_habit(watch, group, seq, camps, count, false);

    picked = picked < count ? picked : pick_by_habit(watch, group, seq, camps, count, true);
    return picked < count ? picked : pick_by_step(watch, group, seq, camps, count);
}

/* --- communicators of the same split ---------------------------------------------------------- */

/* So many calls before have to be alike, all that are known up to the second number. */
enum { SIBLING_PAST_MIN = 3, SIBLING_PAST_MAX = 64, SIBLING_SAYING_SO_MIN = 2 };

/* Ranks have made both in the same place of the program, and none is in both. */
static bool is_sibling(const struct harness_watch *watch, const struct harness_watch_group *group,
                       const struct harness_watch_group *other)
{
    uint64_t handle = 0;

    if (group == other || strcmp(group->name, other->name) != 0) {
        return false;
    }
    for (uint32_t r = 0; r < watch->world_size; r++) {
        const struct harness_watch_member *of = &group->members[r];
        const struct harness_watch_member *of_other = &other->members[r];
        const uint64_t own = of->is_there ? of->handle : of_other->is_there ? of_other->handle : 0;

        if ((of->is_there && of_other->is_there) || (handle != 0 && own != 0 && own != handle)) {
            return false;
        }
        handle = own != 0 ? own : handle;
    }
    return true;
}

static bool is_past_alike(const struct harness_watch *watch, const struct harness_watch_group *a,
                          const struct harness_watch_group *b, uint64_t seq)
{
    uint32_t count = 0;

    while (count < SIBLING_PAST_MAX && count + 1 < seq) {
        const struct harness_watch_call *of_a = harness_watch_any_call(watch, a, seq - 1 - count);
        const struct harness_watch_call *of_b = harness_watch_any_call(watch, b, seq - 1 - count);

        if (of_a == NULL || of_b == NULL || !harness_watch_is_alike(of_a, of_b)) {
            return false;
        }
        count++;
    }
    return count >= SIBLING_PAST_MIN;
}

/* What the members of a communicator posted, if enough did, and all the same; NULL: not so. */
static const struct harness_watch_call *agreed_call(const struct harness_watch *watch,
                                                    const struct harness_watch_group *group,
                                                    uint64_t seq)
{
    const struct harness_watch_call *first = harness_watch_any_call(watch, group, seq);
    uint32_t count = 0;

    for (uint32_t r = 0; first != NULL && r < watch->world_size; r++) {
        const struct harness_watch_call *call = harness_watch_call_at(&group->members[r], seq);

        if (call != NULL && !harness_watch_is_same(group, call, first)) {
            return NULL;
        }
        count += call != NULL;
    }
    return count >= SIBLING_SAYING_SO_MIN ? first : NULL;
}

bool harness_watch_may_siblings_tell(const struct harness_watch *watch,
                                     const struct harness_watch_group *group, uint64_t seq)
{
    for (size_t g = 0; g < watch->group_count; g++) {
        const struct harness_watch_group *other = &watch->groups[g];

        if (other->size >= SIBLING_SAYING_SO_MIN && is_sibling(watch, group, other) &&
            is_past_alike(watch, group, other, seq) && agreed_call(watch, other, seq) == NULL) {
            return true;
        }
    }
    return false;
}

/* Index of the one camp that posted what others did in a communicator of the same split; count:
 * none did, or several. */
static uint32_t pick_by_siblings(const struct harness_watch *watch,
                                 const struct harness_watch_group *group, uint64_t seq,
                                 const struct harness_watch_camp *camps, uint32_t count)
{
    uint32_t found = count;

    for (size_t g = 0; g < watch->group_count; g++) {
        const struct harness_watch_group *other = &watch->groups[g];
        const struct harness_watch_call *call;

        if (!is_sibling(watch, group, other) || !is_past_alike(watch, group, other, seq)) {
            continue;
        }
        call = agreed_call(watch, other, seq);
        for (uint32_t c = 0; call != NULL && c < count; c++) {
            if (harness_watch_is_alike(call, camps[c].call)) {
                if (found < count && found != c) {
                    return count;
                }
                found = c;
            }
        }
    }
    return found;
}

uint32_t harness_watch_pick_right(const struct harness_watch *watch,
                                  const struct harness_watch_group *group, uint64_t seq,
                                  const struct harness_watch_camp *camps, uint32_t count)
{
    uint32_t largest = 0;
    uint32_t rivals = 0;

    for (uint32_t c = 1; c < count; c++) {
        largest = camps[c].count > camps[largest].count ? c : largest;
    }
    for (uint32_t c = 0; c < count; c++) {
        rivals += camps[c].count == camps[largest].count;
    }
    if (rivals == 1) {
        return largest;
    }
    largest = pick_expected(watch, group, seq, camps, count);
    return largest < count ? largest : pick_by_siblings(watch, group, seq, camps, count);
}
