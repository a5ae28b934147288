/* Whom others have waited for in a call for a while. It may compute, load or be asleep, which does
 * not show: that is no finding, but it tells whoever looks on where the job stands. */
#include "harness/watch/analyse.h"

/* The rank has made a call of its own and goes on in its own code. What lies before the first one,
 * as loading libraries, differs between ranks by seconds. */
static bool is_at_large(const struct harness_watch *watch, uint32_t rank)
{
    const struct harness_watch_rank *self = &watch->ranks[rank];
    bool has_posted = false;

    for (size_t g = 0; g < watch->group_count; g++) {
        has_posted = has_posted || watch->groups[g].members[rank].posted > 0;
    }
    return has_posted && self->is_attached && !self->is_detached && !self->is_ending &&
           !self->is_behind && self->state == HARNESS_WATCH_RUNNING &&
           !harness_watch_is_kept(watch, rank);
}

/* A call that others wait for it in. A message may be waited for as long as the program likes, and
 * who asks again and again does other things. */
static bool find_call(const struct harness_watch *watch, uint32_t rank,
                      struct harness_watch_wait *out)
{
    return is_at_large(watch, rank) && harness_watch_is_needed(watch, rank, out) &&
           !guest_wait_is_of_ranks(out->seq) && out->is_polled == 0;
}

/* For how long the ranks that are added to out have waited in the call for this one. */
static uint64_t find_waiting(const struct harness_watch *watch, uint32_t rank,
                             const struct harness_watch_wait *call, struct harness_rank_set *out)
{
    uint64_t longest_ns = 0;

    for (uint32_t i = 0; i < watch->waiter_count; i++) {
        const uint32_t r = watch->waiters[i];
        struct harness_watch_wait wait;

        if (!harness_watch_is_gone(watch, r) &&
            harness_watch_needs_in(watch, r, rank, call->group, &wait) && wait.seq == call->seq &&
            watch->now_ns > wait.enter_ns) {
            const uint64_t waited_ns = watch->now_ns - wait.enter_ns;

            longest_ns = waited_ns > longest_ns ? waited_ns : longest_ns;
            harness_rank_set_add(out, r);
        }
    }
    return longest_ns;
}

/* It has had a CPU for so long, and was not said to be late for this call, nor for any a short time
 * ago. */
static bool is_news(const struct harness_watch *watch, uint32_t rank,
                    const struct harness_watch_wait *call, uint64_t waited_ns,
                    const struct harness_watch_late *last)
{
    return waited_ns >= HARNESS_WATCH_LATE_NS &&
           waited_ns - HARNESS_WATCH_LATE_NS >= watch->ranks[rank].starved_ns &&
           (last->said_ns == 0 || ((last->group != call->group || last->seq != call->seq) &&
                                   watch->now_ns - last->said_ns >= HARNESS_WATCH_LATE_AGAIN_NS));
}

static void print(const struct harness_watch *watch, const struct harness_watch_wait *call,
                  uint64_t waited_ns, const struct harness_rank_set *late,
                  const struct harness_rank_set *waiting, struct ddp_text *out)
{
    const struct harness_watch_group *group = &watch->groups[call->group];
    const bool is_one = harness_rank_set_count(late) == 1;
    char ranks[HARNESS_RANKS_TEXT_BYTES];

    ddp_text_add(out, is_one ? "rank %s has not come to " : "ranks %s have not come to ",
                 harness_rank_set_text(late, ranks));
    harness_watch_print_call(group, call->seq, harness_watch_any_call(watch, group, call->seq),
                             out);
    ddp_text_add(out, " for %.1f s; ", (double)waited_ns / 1e9);
    ddp_text_add(out, harness_rank_set_count(waiting) == 1 ? "rank %s waits" : "ranks %s wait",
                 harness_rank_set_text(waiting, ranks));
}

bool harness_watch_say_late(const struct harness_watch *watch, struct harness_watch_late *last,
                            struct ddp_mem *mem, struct ddp_text *out)
{
    struct harness_rank_set late = harness_rank_set_in(mem);
    struct harness_rank_set waiting = harness_rank_set_in(mem);
    struct harness_watch_wait said = {.seq = 0};
    uint64_t longest_ns = 0;

    for (uint32_t r = 0; watch->waiter_count > 0 && r < watch->world_size; r++) {
        struct harness_rank_set of_rank = harness_rank_set_in(mem);
        struct harness_watch_wait call;
        uint64_t waited_ns;

        if (!find_call(watch, r, &call) ||
            (said.seq != 0 && (call.group != said.group || call.seq != said.seq))) {
            continue; /* those of another call are said in the next look */
        }
        waited_ns = find_waiting(watch, r, &call, &of_rank);
        if (!is_news(watch, r, &call, waited_ns, &last[r])) {
            continue;
        }
        said = call;
        longest_ns = waited_ns > longest_ns ? waited_ns : longest_ns;
        harness_rank_set_add(&late, r);
        harness_rank_set_add_all(&waiting, &of_rank);
        last[r] = (struct harness_watch_late){watch->now_ns, call.group, call.seq};
    }
    if (said.seq == 0) {
        return false;
    }
    print(watch, &said, longest_ns, &late, &waiting, out);
    return true;
}
