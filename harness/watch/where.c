/* What every finding about a rank says: where it is, what it owes, who waits. */
#include "ddpcore/seam/phase.h"
#include "harness/watch/analyse.h"

void harness_watch_begin(const struct harness_watch *watch, enum harness_verdict verdict,
                         enum harness_mode mode, uint32_t rank, struct harness_findings *out,
                         struct harness_finding *finding)
{
    const struct harness_watch_rank *self = &watch->ranks[rank];

    harness_finding_init(finding, out->mem, verdict, HARNESS_ORACLE_MONITOR, mode);
    harness_rank_set_add(&finding->culprits, rank);
    if (self->is_attached) {
        finding->step = (int32_t)self->step;
        finding->micro = (int32_t)self->micro;
        finding->phase = self->phase < DDP_PHASE_COUNT ? (int32_t)self->phase : -1;
    }
}

/* Everybody that is left and waits, other than the culprits, is a victim. */
void harness_watch_add_victims(const struct harness_watch *watch, struct harness_finding *finding)
{
    char ranks[HARNESS_RANKS_TEXT_BYTES];

    for (uint32_t r = 0; r < watch->world_size; r++) {
        if (harness_watch_is_waiting(watch, r) && !harness_rank_set_has(&finding->culprits, r)) {
            harness_rank_set_add(&finding->victims, r);
        }
    }
    if (!harness_rank_set_is_empty(&finding->victims)) {
        const bool is_one = harness_rank_set_count(&finding->victims) == 1;

        harness_watch_say(finding, is_one ? "; rank %s waits" : "; ranks %s wait",
                          harness_rank_set_text(&finding->victims, ranks));
    }
}

/* Of calls that others have posted and the rank has not, the first one that is earlier than
 * *first_ns; 0: of all. False: there is none. */
static bool find_first_owed(const struct harness_watch *watch, uint32_t rank, uint64_t *first_ns,
                            struct harness_watch_wait *out)
{
    bool is_found = false;

    for (size_t g = 0; g < watch->group_count; g++) {
        const struct harness_watch_group *group = &watch->groups[g];
        const uint64_t seq = group->members[rank].posted + 1;
        const uint64_t time_ns = harness_watch_first_posted_ns(watch, group, seq);

        if (group->members[rank].is_there && !group->is_pair && time_ns != 0 &&
            (*first_ns == 0 || time_ns < *first_ns)) {
            *first_ns = time_ns;
            *out = (struct harness_watch_wait){.group = g, .seq = seq};
            is_found = true;
        }
    }
    return is_found;
}

/* Others may be waiting in a later call than the first one that is owed to them. Left as it is, if
 * the rank has posted the call that *out is. */
static void choose_first_owed(const struct harness_watch *watch, uint32_t rank,
                              struct harness_watch_wait *out)
{
    uint64_t first_ns = harness_watch_first_posted_ns(watch, &watch->groups[out->group], out->seq);

    if (first_ns != 0 &&
        harness_watch_reach_of(watch, rank, out->group, out->seq) == HARNESS_WATCH_NOWHERE) {
        (void)find_first_owed(watch, rank, &first_ns, out);
    }
}

/* The call that others wait for, or the one that the rank itself is in, or the one in which others
 * have waited for it until that failed. */
void harness_watch_say_where(const struct harness_watch *watch, uint32_t rank,
                             struct harness_finding *finding)
{
    const struct harness_watch_rank *self = &watch->ranks[rank];
    struct harness_watch_wait wait;
    bool is_owed = harness_watch_is_needed(watch, rank, &wait);
    uint64_t first_ns = 0;
    enum harness_watch_reach reach;
    const struct harness_watch_group *group;
    const struct harness_watch_call *call;
    struct ddp_text text;

    if (self->is_attached) {
        harness_watch_say(finding, ", step %llu", (unsigned long long)self->step);
    }
    if (is_owed) {
        choose_first_owed(watch, rank, &wait);
    } else if (self->wait_count == 0) {
        is_owed = find_first_owed(watch, rank, &first_ns, &wait);
    }
    reach =
        is_owed ? harness_watch_reach_of(watch, rank, wait.group, wait.seq) : HARNESS_WATCH_BEGUN;
    if (!is_owed && self->wait_count == 0) {
        return;
    }
    wait = is_owed ? wait : self->waits[0];
    group = &watch->groups[wait.group];
    call = harness_watch_any_call(watch, group, wait.seq);
    ddp_text_init(&text, watch->mem);
    harness_watch_print_call(group, wait.seq, call, &text);
    harness_watch_say(finding, "%s%s",
                      guest_wait_is_of_ranks(wait.seq) && is_owed ? ", which is asked for "
                      : reach == HARNESS_WATCH_NOWHERE            ? ", before posting "
                      : reach < HARNESS_WATCH_BEGUN               ? ", before its device came to "
                                                                  : ", inside ",
                      ddp_text_str(&text));
    ddp_text_fini(&text);
    harness_watch_set_op(group, wait.seq, call, finding);
}
