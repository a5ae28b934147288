/* An independent judge of schedules, by symbolic execution of all ranks with no buffering: a
 * message moves only when both its send and its receive are ready. Internal to the tests. */
#ifndef TESTS_UNIT_SCHEDULE_SCHEDULE_CHECKER_H
#define TESTS_UNIT_SCHEDULE_SCHEDULE_CHECKER_H

#include "ddpcore/schedule/algorithm.h"
#include "ddpcore/schedule/schedule.h"

struct schedule_case {
    const struct ddp_algorithm *algorithm;
    uint32_t size;
    size_t elem_count;
    uint32_t root;
    size_t segment_elem_count;
    bool is_in_place;
};

/* Emit for every rank and judge: deadlock, counts, contributions, data hazards. "" or what is
 * wrong. text: char[256]. */
void schedule_check(const struct schedule_case *test, char *text);
/* As schedule_check, after `mutate` changed the schedule of rank 0. */
void schedule_check_mutated(const struct schedule_case *test,
                            void (*mutate)(struct ddp_schedule *schedule), char *text);

#endif
