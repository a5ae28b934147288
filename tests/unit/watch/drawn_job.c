#include "tests/unit/watch/drawn_job.h"

#include <string.h>

#include "tests/ct.h"

enum { BODY_MAX = 8, ROUNDS_AFTER = 4, EXTRAS_MAX = 3 };

/* A call of a round: of all parts of a slot, or of some. */
struct call {
    uint32_t slot, parts;
    uint64_t elem_count;
    bool is_async;
};

static uint32_t below(struct drawn_job *drawn, uint32_t bound)
{
    return (uint32_t)ddp_prng_below(&drawn->prng, bound);
}

/* --- what is drawn
 * ------------------------------------------------------------------------------------------------
 */

/* Slot 0 is the world, the others split it. */
static void draw_groups(struct drawn_job *drawn)
{
    drawn->world_size = 2 + below(drawn, DRAWN_RANKS_MAX - 1);
    drawn->slot_count = 2 + below(drawn, DRAWN_SLOTS_MAX - 1);
    for (uint32_t s = 0; s < drawn->slot_count; s++) {
        const uint32_t parts = s == 0 ? 1 : 1 + below(drawn, (drawn->world_size + 1) / 2);

        for (uint32_t r = 0; r < drawn->world_size; r++) {
            drawn->part[s][r] = below(drawn, parts);
            drawn->part_size[s][drawn->part[s][r]]++;
        }
    }
}

static struct call draw_call(struct drawn_job *drawn, const struct drawn_shape *shape)
{
    struct call call = {.slot = below(drawn, drawn->slot_count),
                        .parts = UINT32_MAX,
                        .elem_count = 10 + below(drawn, 2)};

    if (below(drawn, 8) == 0) {
        call.parts = 1 + below(drawn, 255);
    }
    call.is_async = shape->has_async && below(drawn, 2) == 0;
    return call;
}

static void add_action(struct drawn_job *drawn, uint32_t rank, struct drawn_action action)
{
    if (drawn->action_count[rank] < DRAWN_ACTIONS_MAX) {
        drawn->actions[rank][drawn->action_count[rank]++] = action;
    }
}

static void add_calls(struct drawn_job *drawn, const struct call *calls, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t r = 0; r < drawn->world_size; r++) {
            if ((calls[i].parts >> drawn->part[calls[i].slot][r] & 1) != 0) {
                add_action(
                    drawn, r,
                    (struct drawn_action){calls[i].slot, calls[i].elem_count, calls[i].is_async});
            }
        }
    }
}

/* A round is begun by what is not awaited of the last one. */
static void end_round(struct drawn_job *drawn, const struct drawn_shape *shape)
{
    for (uint32_t r = 0; shape->has_async && r < drawn->world_size; r++) {
        add_action(drawn, r, (struct drawn_action){.slot = DRAWN_SLOTS_MAX});
    }
}

static void draw_program(struct drawn_job *drawn, const struct drawn_shape *shape)
{
    const uint32_t body_count = 2 + below(drawn, BODY_MAX - 1);
    const uint32_t extra_count = 1 + below(drawn, EXTRAS_MAX);
    const uint32_t every = 2 + below(drawn, 6);
    const uint32_t rest = below(drawn, every);
    const uint32_t loop_from = below(drawn, body_count);
    const uint32_t loop_count = 1 + below(drawn, body_count - loop_from);
    struct call body[BODY_MAX];
    struct call extras[EXTRAS_MAX];

    for (uint32_t i = 0; i < body_count; i++) {
        body[i] = draw_call(drawn, shape);
    }
    for (uint32_t i = 0; i < extra_count; i++) {
        extras[i] = draw_call(drawn, shape);
    }
    add_calls(drawn, extras, below(drawn, extra_count + 1));
    for (uint32_t round = 0; round < shape->rounds + 1 + ROUNDS_AFTER; round++) {
        for (uint32_t r = 0; round == shape->rounds && r < drawn->world_size; r++) {
            drawn->fault_from[r] = drawn->action_count[r];
        }
        add_calls(drawn, body, body_count);
        for (uint32_t k = shape->is_irregular ? below(drawn, 3) : 0; k > 0; k--) {
            add_calls(drawn, body + loop_from, loop_count);
        }
        if (shape->has_extras && round % every == rest) {
            add_calls(drawn, extras, extra_count);
        }
        end_round(drawn, shape);
        for (uint32_t r = 0; round == shape->rounds && r < drawn->world_size; r++) {
            drawn->fault_end[r] = drawn->action_count[r];
        }
    }
}

/* --- the fault
 * ----------------------------------------------------------------------------------------------------
 */

static bool can_fail(const struct drawn_job *drawn, uint32_t rank, uint32_t at)
{
    const struct drawn_action *actions = drawn->actions[rank];

    return actions[at].slot < DRAWN_SLOTS_MAX &&
           drawn->part_size[actions[at].slot][drawn->part[actions[at].slot][rank]] > 1 &&
           (drawn->fault != DRAWN_SWAPPED ||
            (at + 1 < drawn->action_count[rank] && actions[at + 1].slot != actions[at].slot));
}

static bool break_one(struct drawn_job *drawn)
{
    struct drawn_action *actions;
    uint32_t *count;
    uint32_t at = 0;
    bool is_found = false;

    drawn->fault = (enum drawn_fault)below(drawn, DRAWN_FAULT_COUNT);
    for (int i = 0; i < 64 && !is_found; i++) {
        uint32_t span;

        drawn->culprit = below(drawn, drawn->world_size);
        span = drawn->fault_end[drawn->culprit] - drawn->fault_from[drawn->culprit];
        at = drawn->fault_from[drawn->culprit] + (span > 0 ? below(drawn, span) : 0);
        is_found = span > 0 && can_fail(drawn, drawn->culprit, at);
    }
    if (!is_found) {
        return false;
    }
    actions = drawn->actions[drawn->culprit];
    count = &drawn->action_count[drawn->culprit];
    if (drawn->fault == DRAWN_SKIP) {
        memmove(&actions[at], &actions[at + 1], (--*count - at) * sizeof *actions);
    } else if (drawn->fault == DRAWN_SWAPPED) {
        const struct drawn_action kept = actions[at];

        actions[at] = actions[at + 1];
        actions[at + 1] = kept;
    } else if (*count < DRAWN_ACTIONS_MAX) {
        memmove(&actions[at + 1], &actions[at], ((*count)++ - at) * sizeof *actions);
    }
    return true;
}

void drawn_job_open(struct drawn_job *drawn, uint64_t seed, const struct drawn_shape *shape)
{
    memset(drawn, 0, sizeof *drawn);
    do {
        const uint64_t next = seed;

        memset(drawn, 0, sizeof *drawn);
        drawn->prng = ddp_prng_make(next, "drawn_job");
        seed += UINT64_C(1) << 32;
        draw_groups(drawn);
        draw_program(drawn, shape);
    } while (!break_one(drawn));
    fake_job_open(&drawn->job, drawn->world_size, 8192);
    for (uint32_t r = 0; r < drawn->world_size; r++) {
        fake_attach(&drawn->job, r);
        guest_arena_page(drawn->job.arena.head, r)->is_one_thread = 1;
        for (uint32_t s = 0; s < drawn->slot_count; s++) {
            uint32_t index = 0;

            for (uint32_t other = 0; other < r; other++) {
                index += drawn->part[s][other] == drawn->part[s][r];
            }
            fake_comm(&drawn->job, r, s, s == 0 ? 1 : 100 * s + drawn->part[s][r], index,
                      drawn->part_size[s][drawn->part[s][r]]);
        }
    }
}

void drawn_job_close(struct drawn_job *drawn)
{
    fake_job_close(&drawn->job);
}

/* --- the play
 * -----------------------------------------------------------------------------------------------------
 */

struct player {
    uint32_t next; /* action */
    bool is_waiting;
    uint32_t wait_slot;
    uint64_t wait_seq;
    uint32_t open_count; /* calls to be waited for */
    struct {
        uint32_t slot;
        uint64_t seq;
    } open[DRAWN_ACTIONS_MAX];
};

static uint64_t posted(const struct drawn_job *drawn, uint32_t rank, uint32_t slot)
{
    return guest_arena_page(drawn->job.arena.head, rank)->comms[slot].posted;
}

static bool have_all_come(const struct drawn_job *drawn, uint32_t rank, uint32_t slot, uint64_t seq)
{
    for (uint32_t r = 0; r < drawn->world_size; r++) {
        if (drawn->part[slot][r] == drawn->part[slot][rank] && posted(drawn, r, slot) < seq) {
            return false;
        }
    }
    return true;
}

static void wait_for(struct drawn_job *drawn, struct player *players, uint32_t rank, uint32_t slot,
                     uint64_t seq)
{
    players[rank].is_waiting = true;
    players[rank].wait_slot = slot;
    players[rank].wait_seq = seq;
    fake_wait(&drawn->job, rank, 0, slot, seq);
}

/* One move of a rank. False: it cannot move. */
static bool move_on(struct drawn_job *drawn, struct player *players, uint32_t rank)
{
    struct player *self = &players[rank];
    const struct drawn_action *action = &drawn->actions[rank][self->next];

    drawn->job.now_ns += 1 + below(drawn, 1000);
    if (self->is_waiting) {
        if (!have_all_come(drawn, rank, self->wait_slot, self->wait_seq)) {
            return false;
        }
        fake_done(&drawn->job, rank, self->wait_slot, self->wait_seq);
        fake_wait(&drawn->job, rank, 0, 0, 0);
        self->is_waiting = false;
        return true;
    }
    if (self->next == drawn->action_count[rank] || action->slot == DRAWN_SLOTS_MAX) {
        if (self->open_count > 0) {
            wait_for(drawn, players, rank, self->open[0].slot, self->open[0].seq);
            memmove(self->open, self->open + 1, --self->open_count * sizeof self->open[0]);
            return true;
        }
        return self->next++ < drawn->action_count[rank] || self->next-- == 0;
    }
    self->next++;
    {
        const uint64_t seq = fake_post(&drawn->job, rank, action->slot, action->elem_count, 0);

        if (action->is_async) {
            self->open[self->open_count].slot = action->slot;
            self->open[self->open_count++].seq = seq;
        } else {
            wait_for(drawn, players, rank, action->slot, seq);
        }
    }
    return true;
}

bool drawn_job_play(struct drawn_job *drawn)
{
    static struct player players[DRAWN_RANKS_MAX];
    uint32_t still = 0;
    uint32_t waiting = 0;

    memset(players, 0, sizeof players);
    while (still < drawn->world_size) {
        const uint32_t first = below(drawn, drawn->world_size);

        for (still = 0; still < drawn->world_size; still++) {
            if (move_on(drawn, players, (first + still) % drawn->world_size)) {
                break;
            }
        }
        if (drawn->on_move != NULL) {
            drawn->on_move(drawn);
        }
    }
    for (uint32_t r = 0; r < drawn->world_size; r++) {
        waiting += players[r].is_waiting;
    }
    return waiting > 0;
}
