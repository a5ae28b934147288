/* What a communicator's past says of what comes next. */
#include "harness/watch/analyse.h"

/* So many calls of the past are compared. */
enum { CONTEXT_MAX = 8 };
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

/* What has followed the calls before `seq` wherever at least `length` of them came before, and how
 * often they did. NULL: not always the same, or nothing. */
static const struct harness_watch_call *followed(const struct harness_watch *watch,
                                                 const struct harness_watch_group *group,
                                                 uint64_t seq, uint32_t length, uint32_t *out_times)
{
    const struct harness_watch_call *next = NULL;
    bool is_always = true;

    *out_times = 0;
    for (uint64_t s = seq - 1; s > length; s--) {
        const struct harness_watch_call *later = harness_watch_any_call(watch, group, s);

        if (later == NULL) {
            break;
        }
        if (common_past(watch, group, s, seq) >= length) {
            (*out_times)++;
            is_always = is_always && (next == NULL || harness_watch_is_alike(later, next));
            next = later;
        }
    }
    return is_always ? next : NULL;
}

const struct harness_watch_call *harness_watch_expected_at(const struct harness_watch *watch,
                                                           const struct harness_watch_group *group,
                                                           uint64_t seq)
{
    for (uint32_t length = CONTEXT_MAX; length > 0; length--) {
        uint32_t times;
        const struct harness_watch_call *next = followed(watch, group, seq, length, &times);

        if (times >= TIMES_MIN) {
            return next;
        }
    }
    return NULL;
}

bool harness_watch_step_at(const struct harness_watch *watch,
                           const struct harness_watch_group *group, uint64_t seq, uint32_t *out)
{
    for (uint32_t length = CONTEXT_MAX; length > 0; length--) {
        uint32_t times = 0;
        uint32_t steps = 0;
        bool is_always = true;

        for (uint64_t s = seq - 1; s > length; s--) {
            const struct harness_watch_call *before = harness_watch_any_call(watch, group, s - 1);
            const struct harness_watch_call *later = harness_watch_any_call(watch, group, s);

            if (before == NULL || later == NULL) {
                break;
            }
            if (common_past(watch, group, s, seq) >= length) {
                is_always = is_always && (times == 0 || later->step - before->step == steps);
                steps = later->step - before->step;
                times++;
            }
        }
        if (times >= TIMES_MIN) {
            *out = harness_watch_any_call(watch, group, seq - 1)->step + steps;
            return is_always;
        }
    }
    return false;
}
