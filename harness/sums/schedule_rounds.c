/* Purpose: prove that a set's round numbers can be followed, by an engine that runs a round at a
 * time, and that they are no larger than they must be.
 * Idea: numbers are compared along edges alone: both ends of a message, a step and what it waits
 * for, a send and the last message that its values came by. Whatever runs round by round in this
 * order ends, since nothing of a round waits for a later one. */
#include <stdio.h>

#include "harness/sums/schedule_prove.h"

#define NEVER UINT32_MAX

struct rounds {
    const struct harness_schedule_set *set;
    struct harness_step_place *place;
    char *text;
    size_t size_bytes;
    bool is_right;
};

static bool is_message(const struct harness_schedule_step *step)
{
    return step->peer != UINT32_MAX;
}

static void refuse(struct rounds *rounds, uint32_t rank, size_t step, uint32_t round,
                   const char *why, uint32_t other)
{
    const struct harness_schedule *member = rounds->set->member[rank];

    DDP_ASSERT(rounds->is_right && step < member->step_count);
    rounds->is_right = false;
    *rounds->place = (struct harness_step_place){rank, (int64_t)step, -1};
    (void)snprintf(rounds->text, rounds->size_bytes, "step %zu of rank %u (%s) is of round %u%s%u",
                   step, rank, harness_step_name(member->steps[step].kind), round, why, other);
}

/* Both ends of each message. */
static void check_ends(struct rounds *rounds)
{
    const struct harness_schedule_set *set = rounds->set;

    for (size_t e = 0; rounds->is_right && e < set->event_count; e++) {
        const struct harness_schedule_event *event = &set->events[e];

        DDP_ASSERT(event->rank < set->size);
        if (event->from_rank != HARNESS_NO_RANK) {
            uint32_t taken = set->member[event->rank]->steps[event->step].round;
            uint32_t sent = set->member[event->from_rank]->steps[event->from_step].round;

            if (taken != sent) {
                refuse(rounds, event->rank, event->step, taken, ", its message is sent in round ",
                       sent);
            }
        }
    }
}

/* Messages of a pair match in the order in which they were emitted, which is that of their rounds.
 * last: [2 * peer + (0 sends, 1 receives)] the round of the last one. */
static void check_turns(struct rounds *rounds, uint32_t rank, uint32_t *last)
{
    const struct harness_schedule *member = rounds->set->member[rank];

    for (size_t i = 0; i < 2 * (size_t)member->size; i++) {
        last[i] = 0;
    }
    for (size_t s = 0; rounds->is_right && s < member->step_count; s++) {
        const struct harness_schedule_step *step = &member->steps[s];

        DDP_ASSERT(!is_message(step) || step->peer < member->size);
        if (is_message(step)) {
            uint32_t *before =
                &last[2 * (size_t)step->peer + (step->kind == HARNESS_STEP_SEND ? 0 : 1)];

            if (step->round < *before) {
                refuse(rounds, rank, s, step->round, ", behind one of its peer's of round ",
                       *before);
            }
            *before = step->round;
        }
    }
}

/* What one step waits for; arrived, first: of check_member. */
static void check_waits(struct rounds *rounds, uint32_t rank, size_t s, uint32_t *arrived,
                        uint32_t *first)
{
    const struct harness_schedule *member = rounds->set->member[rank];
    const struct harness_schedule_step *step = &member->steps[s];

    for (uint32_t d = 0; rounds->is_right && d < step->dep_count; d++) {
        uint32_t dep = step->dep[d];
        uint32_t round = member->steps[dep].round;

        DDP_ASSERT(dep < s);
        if (round > step->round) {
            refuse(rounds, rank, s, step->round, " and waits for a step of round ", round);
        }
        arrived[s] = arrived[dep] > arrived[s] ? arrived[dep] : arrived[s];
        first[dep] = step->round < first[dep] ? step->round : first[dep];
    }
}

/* Of one member: steps and what they wait for. arrived[step]: 1 + the round of the last message
 * that is waited for on the way to the step; first[step]: the first round of one that waits for it,
 * or NEVER. */
static void check_member(struct rounds *rounds, uint32_t rank, uint32_t *arrived, uint32_t *first)
{
    const struct harness_schedule *member = rounds->set->member[rank];

    for (size_t s = 0; s < member->step_count; s++) {
        arrived[s] = 0;
        first[s] = NEVER;
    }
    for (size_t s = 0; rounds->is_right && s < member->step_count; s++) {
        const struct harness_schedule_step *step = &member->steps[s];

        check_waits(rounds, rank, s, arrived, first);
        if (rounds->is_right && step->kind == HARNESS_STEP_SEND && arrived[s] > step->round) {
            refuse(rounds, rank, s, step->round,
                   " and sends what comes in that round, or later: in ", arrived[s] - 1);
        }
        if (is_message(step) && step->kind != HARNESS_STEP_SEND && arrived[s] <= step->round) {
            arrived[s] = step->round + 1;
        }
    }
}

/* What moves no message runs as soon as it can, or just when it is needed. first: of
 * check_member. */
static void check_moves(struct rounds *rounds, uint32_t rank, const uint32_t *first)
{
    const struct harness_schedule *member = rounds->set->member[rank];

    for (size_t s = 0; rounds->is_right && s < member->step_count; s++) {
        const struct harness_schedule_step *step = &member->steps[s];
        uint32_t soonest = 0;

        for (uint32_t d = 0; d < step->dep_count; d++) {
            uint32_t round = member->steps[step->dep[d]].round;

            soonest = round > soonest ? round : soonest;
        }
        if (!is_message(step) && step->round != soonest &&
            (first[s] == NEVER || step->round != first[s])) {
            refuse(rounds, rank, s, step->round, ", and can run in round ", soonest);
        }
    }
}

static void check_members(struct rounds *rounds, uint32_t *arrived, uint32_t *first, uint32_t *last)
{
    for (uint32_t r = 0; rounds->is_right && r < rounds->set->size; r++) {
        check_turns(rounds, r, last);
        check_member(rounds, r, arrived, first);
        check_moves(rounds, r, first);
    }
}

/* Each round up to the last one has a message. is_used: one more than there are messages. */
static void check_gaps(struct rounds *rounds, bool *is_used, size_t message_count)
{
    const struct harness_schedule_set *set = rounds->set;
    size_t gap = 0;

    for (size_t e = 0; e < set->event_count; e++) {
        const struct harness_schedule_event *event = &set->events[e];
        uint32_t round = set->member[event->rank]->steps[event->step].round;

        if (event->from_rank != HARNESS_NO_RANK && round < message_count) {
            is_used[round] = true;
        }
    }
    while (is_used[gap]) {
        gap++;
    }
    for (size_t e = 0; rounds->is_right && e < set->event_count; e++) {
        const struct harness_schedule_event *event = &set->events[e];
        uint32_t round = set->member[event->rank]->steps[event->step].round;

        DDP_ASSERT(gap <= message_count);
        if (event->from_rank != HARNESS_NO_RANK && round > gap) {
            refuse(rounds, event->rank, event->step, round, ", and no message is of round ",
                   (uint32_t)gap);
        }
    }
}

ddp_status harness_schedule_rounds_check(const struct harness_schedule_set *set, bool *out_is_right,
                                         struct harness_step_place *place, char *text,
                                         size_t size_bytes)
{
    struct rounds rounds = {set, place, text, size_bytes, true};
    size_t most = 0;
    size_t message_count = 0;
    uint32_t *arrived;
    uint32_t *first;
    uint32_t *last;
    bool *is_used;
    ddp_status status = DDP_E_NOMEM;

    DDP_ASSERT(set->is_ordered);
    for (uint32_t r = 0; r < set->size; r++) {
        most = set->member[r]->step_count > most ? set->member[r]->step_count : most;
    }
    for (size_t e = 0; e < set->event_count; e++) {
        message_count += set->events[e].from_rank != HARNESS_NO_RANK ? 1 : 0;
    }
    arrived = ddp_mem_array(set->mem, most, sizeof(*arrived));
    first = ddp_mem_array(set->mem, most, sizeof(*first));
    last = ddp_mem_array(set->mem, 2 * (size_t)set->size, sizeof(*last));
    is_used = ddp_mem_array(set->mem, message_count + 1, sizeof(*is_used));
    if (arrived != NULL && first != NULL && last != NULL && is_used != NULL) {
        check_ends(&rounds);
        check_members(&rounds, arrived, first, last);
        check_gaps(&rounds, is_used, message_count);
        *out_is_right = rounds.is_right;
        status = DDP_OK;
    }
    ddp_mem_free(set->mem, arrived);
    ddp_mem_free(set->mem, first);
    ddp_mem_free(set->mem, last);
    ddp_mem_free(set->mem, is_used);
    return status;
}
