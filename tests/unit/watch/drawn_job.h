/* Jobs drawn at random that repeat themselves, of which one rank does one call wrong, played until
 * nobody can go on. */
#ifndef TESTS_UNIT_WATCH_DRAWN_JOB_H
#define TESTS_UNIT_WATCH_DRAWN_JOB_H

#include "ddpcore/base/prng.h"
#include "tests/unit/watch/fake_rank.h"

enum { DRAWN_RANKS_MAX = 7, DRAWN_SLOTS_MAX = 4, DRAWN_ACTIONS_MAX = 1024 };

enum drawn_fault { DRAWN_SKIP, DRAWN_TWICE, DRAWN_SWAPPED, DRAWN_FAULT_COUNT };

/* What a rank does next: post a call in the communicator of a slot, and wait for it or not. */
struct drawn_action {
    uint32_t slot;
    uint64_t elem_count;
    bool is_async;
};

/* What is to be drawn. */
struct drawn_shape {
    uint32_t rounds;   /* that repeat, before the one with the fault */
    bool has_async;    /* some calls are waited for at the end of the round */
    bool has_extras;   /* some rounds have calls more, the first time at random */
    bool is_irregular; /* how often a part of a round is repeated changes */
};

struct drawn_job {
    struct fake_job job;
    struct ddp_prng prng;
    uint32_t world_size, slot_count;
    uint32_t part[DRAWN_SLOTS_MAX][DRAWN_RANKS_MAX];
    uint32_t part_size[DRAWN_SLOTS_MAX][DRAWN_RANKS_MAX]; /* by part */
    struct drawn_action actions[DRAWN_RANKS_MAX][DRAWN_ACTIONS_MAX];
    uint32_t action_count[DRAWN_RANKS_MAX];
    uint32_t fault_from[DRAWN_RANKS_MAX],
        fault_end[DRAWN_RANKS_MAX]; /* actions of the round with the fault */
    enum drawn_fault fault;
    uint32_t culprit;
    void (*on_move)(struct drawn_job *drawn); /* called after each move; NULL: nobody looks */
};

void drawn_job_open(struct drawn_job *drawn, uint64_t seed, const struct drawn_shape *shape);
void drawn_job_close(struct drawn_job *drawn);
/* Until nobody can go on. Returns whether somebody waits then. */
bool drawn_job_play(struct drawn_job *drawn);

#endif
