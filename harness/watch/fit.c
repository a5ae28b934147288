/* Purpose: of a rank that posted another call than was due, tell one that left calls out from one
 * that posted something else in their place.
 * Idea: the call it posted may be the one that comes later, or a wrong one that looks like it. What
 * the rank posts after it tells: who left calls out stays ahead of the others, who posted something
 * else is with them again. What is due after a call, the past says. */
#include "harness/watch/analyse.h"

/* So many calls left out in a row, and so many behind them, are looked at. */
enum { LEFT_OUT_MAX = 64, LOOKED_AT = 8 };

/* A rank's calls from `seq` on, and those that were due there. */
struct fit {
    const struct harness_watch *watch;
    const struct harness_watch_group *group;
    uint64_t seq;
    uint64_t like;  /* an earlier call, behind the same past as `seq`; 0: none */
    uint32_t wrong; /* who posted the other call */
    uint32_t right; /* who posted the one that was due */
};

static const struct harness_watch_call *posted_at(const struct fit *fit, uint64_t ahead)
{
    return harness_watch_call_at(&fit->group->members[fit->wrong], fit->seq + ahead);
}

/* By the past alone: how far the others are already, chance decides. */
static const struct harness_watch_call *due_at(const struct fit *fit, uint64_t ahead)
{
    if (ahead == 0) {
        return harness_watch_call_at(&fit->group->members[fit->right], fit->seq);
    }
    return fit->like != 0 && fit->like + ahead < fit->seq
               ? harness_watch_any_call(fit->watch, fit->group, fit->like + ahead)
               : NULL;
}

/* The call that is due so many calls later, and in how many steps from the one that is due now. */
static const struct harness_watch_call *later_at(const struct fit *fit, uint64_t ahead,
                                                 uint32_t *out_steps)
{
    const struct harness_watch_call *call = due_at(fit, ahead);
    const struct harness_watch_call *now =
        call != NULL ? harness_watch_any_call(fit->watch, fit->group, fit->like) : NULL;

    *out_steps = now != NULL ? call->step - now->step : 0;
    return call;
}

/* What follows the first call is what was due so many calls later. *out_count: so many calls say
 * so. */
static bool is_ahead_by(const struct fit *fit, uint64_t ahead, uint32_t *out_count)
{
    *out_count = 0;
    for (uint64_t i = 1; i <= LOOKED_AT; i++) {
        const struct harness_watch_call *posted = posted_at(fit, i);
        const struct harness_watch_call *due = due_at(fit, ahead + i);

        if (posted == NULL || due == NULL) {
            break;
        }
        if (!harness_watch_is_alike(posted, due)) {
            return false;
        }
        (*out_count)++;
    }
    return true;
}

/* In how many ways two calls differ that are not alike. */
static uint32_t count_differences(const struct harness_watch_call *a,
                                  const struct harness_watch_call *b)
{
    const bool differs[] = {guest_op_kind(a->op) != guest_op_kind(b->op),
                            guest_op_dtype(a->op) != guest_op_dtype(b->op),
                            guest_op_redop(a->op) != guest_op_redop(b->op),
                            guest_op_root(a->op) != guest_op_root(b->op),
                            a->bucket != b->bucket,
                            a->elem_count != b->elem_count};
    uint32_t count = 0;

    for (size_t i = 0; i < sizeof differs / sizeof differs[0]; i++) {
        count += differs[i];
    }
    return count;
}

enum harness_watch_fit harness_watch_fit_of(const struct harness_watch *watch,
                                            const struct harness_watch_group *group, uint64_t seq,
                                            uint32_t wrong, uint32_t right)
{
    struct fit fit = {.watch = watch, .group = group, .seq = seq, .wrong = wrong, .right = right};
    const struct harness_watch_call *posted = posted_at(&fit, 0);
    const struct harness_watch_call *due = due_at(&fit, 0);
    const struct harness_watch_call *next;
    uint32_t with_them = 0;
    bool is_with_them;

    if (posted == NULL || due == NULL || harness_watch_is_alike(posted, due)) {
        return HARNESS_WATCH_FIT_UNKNOWN;
    }
    next = posted_at(&fit, 1);
    if (next != NULL && harness_watch_is_alike(next, due) && next->step == due->step) {
        return HARNESS_WATCH_FIT_UNKNOWN; /* it has changed the order, or made one call more */
    }
    fit.like = harness_watch_like_before(watch, group, seq, due);
    is_with_them = is_ahead_by(&fit, 0, &with_them);
    for (uint64_t ahead = 1; ahead <= LEFT_OUT_MAX; ahead++) {
        uint32_t steps = 0;
        const struct harness_watch_call *later = later_at(&fit, ahead, &steps);
        uint32_t count = 0;

        if (later == NULL) {
            break;
        }
        if (!harness_watch_is_alike(posted, later) ||
            guest_op_dtype(posted->op) != guest_op_dtype(later->op) ||
            posted->step != due->step + steps || !is_ahead_by(&fit, ahead, &count)) {
            continue;
        }
        if (is_with_them) { /* nothing follows yet, or only what fits both */
            return ahead == 1 || count_differences(posted, due) < 2 ? HARNESS_WATCH_FIT_OPEN
                                                                    : HARNESS_WATCH_FIT_LEFT_OUT;
        }
        return HARNESS_WATCH_FIT_LEFT_OUT;
    }
    return is_with_them && with_them > 0 ? HARNESS_WATCH_FIT_REPLACED : HARNESS_WATCH_FIT_UNKNOWN;
}
