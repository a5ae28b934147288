/* What a communicator's past says of what comes next. */
#include "harness/watch/analyse.h"

enum { CONTEXT_MAX = HARNESS_WATCH_CONTEXT_MAX };
/* What followed so often, and nothing else did, follows (tests/unit/watch/test_camps.c: with 3,
 * twice as many ranks of irregular programs are wrongly named; from the seventh round on it
 * costs nothing). */
enum { TIMES_MIN = 4 };

/* How many calls behind these two are alike, up to CONTEXT_MAX. */
static uint32_t common_past(const struct harness_watch *watch,
                            const struct harness_watch_group *group, uint64_t a, uint64_t b)
{
    uint32_t length = 0;

    while (length < CONTEXT_MAX && a > length + 1 && b > length + 1) {
        const struct harness_watch_call *of_a =
            harness_watch_any_call(watch, group, a - 1 - length);
        const struct harness_watch_call *of_b =
            harness_watch_any_call(watch, group, b - 1 - length);

        if (of_a == NULL || of_b == NULL || !harness_watch_is_alike(of_a, of_b)) {
            break;
        }
        length++;
    }
    return length;
}

const struct harness_watch_call *
harness_watch_next_after(const struct harness_watch *watch, const struct harness_watch_group *group,
                         uint64_t seq, const struct harness_watch_call *call, uint32_t *out_steps)
{
    const struct harness_watch_call *next = NULL;
    uint32_t longest = 0;
    uint32_t times = 0;
    bool is_always = true;

    for (uint64_t s = seq; s > 2; s--) {
        const struct harness_watch_call *earlier = harness_watch_any_call(watch, group, s - 2);
        const struct harness_watch_call *later = harness_watch_any_call(watch, group, s - 1);
        uint32_t length;

        if (earlier == NULL) {
            break;
        }
        length =
            harness_watch_is_alike(earlier, call) ? 1 + common_past(watch, group, s - 2, seq) : 0;
        if (length > longest) {
            longest = length;
            next = later;
            times = 0;
            is_always = true;
            *out_steps = later->step - earlier->step;
        }
        if (length > 0 && length == longest) {
            times++;
            is_always = is_always && harness_watch_is_alike(later, next);
        }
    }
    return is_always && (longest > 1 || times > 1) ? next : NULL;
}

uint64_t harness_watch_like_before(const struct harness_watch *watch,
                                   const struct harness_watch_group *group, uint64_t seq,
                                   const struct harness_watch_call *call)
{
    uint32_t longest = 0;
    uint64_t found = 0;

    for (uint64_t s = seq - 1; s > 0 && longest <= CONTEXT_MAX; s--) {
        const struct harness_watch_call *earlier = harness_watch_any_call(watch, group, s);
        uint32_t length;

        if (earlier == NULL) {
            break;
        }
        length = harness_watch_is_alike(earlier, call) ? 1 + common_past(watch, group, s, seq) : 0;
        if (length > longest) {
            longest = length;
            found = s;
        }
    }
    return found;
}

/* How often at least `length` calls came as before `seq`, and how often such a call followed them:
 * *out_alike, in whatever step; *out_due, so many steps later as this one was. */
static uint32_t count_followed(const struct harness_watch *watch,
                               const struct harness_watch_group *group, uint64_t seq,
                               uint32_t length, const struct harness_watch_call *call,
                               uint32_t *out_alike, uint32_t *out_due)
{
    const struct harness_watch_call *before = harness_watch_any_call(watch, group, seq - 1);
    uint32_t times = 0;

    *out_alike = 0;
    *out_due = 0;
    for (uint64_t s = seq - 1; s > length; s--) {
        const struct harness_watch_call *later = harness_watch_any_call(watch, group, s);

        if (later == NULL) {
            break;
        }
        if (common_past(watch, group, s, seq) >= length) {
            /* a past of `length` calls has one before this */
            const struct harness_watch_call *earlier = harness_watch_any_call(watch, group, s - 1);
            const bool is_alike = harness_watch_is_alike(later, call);

            times++;
            *out_alike += is_alike;
            *out_due += is_alike && later->step - earlier->step == call->step - before->step;
        }
    }
    return times;
}

enum harness_watch_habit harness_watch_habit_of(const struct harness_watch *watch,
                                                const struct harness_watch_group *group,
                                                uint64_t seq, const struct harness_watch_call *call,
                                                bool is_step_judged, uint32_t length)
{
    uint32_t alike;
    uint32_t due;
    const uint32_t times =
        seq > 1 ? count_followed(watch, group, seq, length, call, &alike, &due) : 0;
    const uint32_t count = times == 0 ? 0 : is_step_judged ? due : alike;

    return times < TIMES_MIN    ? HARNESS_WATCH_TOO_NEW
           : count >= TIMES_MIN ? HARNESS_WATCH_HABITUAL
           : count == 0         ? HARNESS_WATCH_NEVER
                                : HARNESS_WATCH_SELDOM;
}

uint32_t harness_watch_usual_in_step(const struct harness_watch *watch,
                                     const struct harness_watch_group *group, uint64_t seq,
                                     const struct harness_watch_call *call, uint32_t step,
                                     uint32_t *out_made)
{
    uint32_t made[TIMES_MIN + 1] = {0}; /* in the step itself, and in those before it */

    for (uint64_t s = seq - 1; s > 0; s--) {
        const struct harness_watch_call *earlier = harness_watch_any_call(watch, group, s);

        if (earlier == NULL || earlier->step + TIMES_MIN < step) {
            break;
        }
        if (earlier->step <= step) {
            made[step - earlier->step] += harness_watch_is_alike(earlier, call);
        }
    }
    *out_made = made[0];
    for (uint32_t i = 2; i <= TIMES_MIN; i++) {
        if (made[i] != made[1]) {
            return 0;
        }
    }
    return made[1];
}

/* Calls that nobody needs any more: all members have posted them, or they are not compared, and
 * their successors say what followed. */
enum { KEPT_CALLS = 4096 };

void harness_watch_forget(struct harness_watch *watch, struct harness_watch_group *group)
{
    for (uint32_t r = 0; r < watch->world_size; r++) {
        struct harness_watch_member *member = &group->members[r];
        const uint64_t until = group->is_wrong ? member->posted : group->checked_seq;
        size_t count = 0;

        while (count < member->call_count && member->kept_seq + count + KEPT_CALLS <= until) {
            count++;
        }
        if (count >= KEPT_CALLS) { /* seldom, so that moving the rest is cheap */
            for (size_t i = count; i < member->call_count; i++) {
                member->calls[i - count] = member->calls[i];
            }
            member->call_count -= count;
            member->kept_seq += count;
        }
    }
}
