/* Ranks of a world for tests: real processes, whose store the test hosts, as torchrun's agent does.
 * A rank's process tells by its exit code what went wrong. */
#ifndef TESTS_UNIT_WORLD_WORLD_RANKS_H
#define TESTS_UNIT_WORLD_WORLD_RANKS_H

#include <stdio.h>

#include "ddpcore/world/world.h"

enum { RANKS_MAX = 6, LOST_STEP = 3 };

/* When the ranks of a mask kill themselves in step LOST_STEP. */
enum when { AFTER_FIRST_BUCKET, BEFORE_FORWARD, AFTER_BACKWARD, IN_BARRIER };

struct plan {
    uint32_t world_size;
    uint32_t dying; /* mask */
    enum when when;
    int (*run)(struct ddp_world *world, const struct plan *plan);
};

/* In a rank's process: leave with a code that names the place, once something is not as it should.
 */
#define HOLDS(condition)                                                                \
    do {                                                                                \
        if (!(condition)) {                                                             \
            (void)fprintf(stderr, "line %d: %s does not hold\n", __LINE__, #condition); \
            return 1;                                                                   \
        }                                                                               \
    } while (0)

/* Runs plan->run on each rank, and checks how each ended: those of `dying` by SIGKILL, the others
 * well. */
void run_plan(const struct plan *plan);
/* The same, in a world of this config; 0 is 20 s and a heap of 1 MiB. */
void run_plan_in(const struct plan *plan, const struct ddp_world_config *config);
/* No rank gets such a world, and each is told this word. */
void refuse_world(uint32_t world_size, const char *word, const struct ddp_world_config *config);
/* As run_plan, with a transport other than shared memory. */
void run_plan_over(const struct plan *plan, enum ddp_world_transport transport);

#endif
