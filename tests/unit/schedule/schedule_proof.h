/* The schedules of all members of one collective, emitted, printed, read back and proven by the
 * judge's own prover (harness/sums), which shares nothing with the emitters but the text. */
#ifndef TESTS_UNIT_SCHEDULE_SCHEDULE_PROOF_H
#define TESTS_UNIT_SCHEDULE_SCHEDULE_PROOF_H

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

/* What an emission of member `rank` is asked for. */
struct ddp_schedule_params schedule_case_params(const struct schedule_case *test, uint32_t rank);
#define SCHEDULE_PROOF_TEXT_BYTES 1024
/* Proves the case. mutate: changes the schedule of rank 0 first; may be NULL.
 * text: char[SCHEDULE_PROOF_TEXT_BYTES]: "", or the case and every finding, or the error. */
void schedule_prove(const struct schedule_case *test, void (*mutate)(struct ddp_schedule *schedule),
                    char *text);

#endif
