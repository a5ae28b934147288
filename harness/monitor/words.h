/* Operations in words, for pictures of a cut. Internal to harness/monitor. */
#ifndef HARNESS_MONITOR_WORDS_H
#define HARNESS_MONITOR_WORDS_H

#include "harness/plan/program.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A bucket's line names so many parameters; program.txt has all. */
#define HARNESS_WORDS_PARAMS_MAX 8

/* "all_reduce seq 12 (bucket 1: fc1.bias, fc1.weight)". */
void harness_words_op(const struct harness_program *program, struct ddp_event_op op, uint64_t seq,
                      struct ddp_text *out);
/* The same of the planned operation of seq, or that there is none. */
void harness_words_planned(const struct harness_program *program, uint64_t seq,
                           struct ddp_text *out);

#ifdef __cplusplus
}
#endif
#endif
