/* Operations in words, for pictures of a cut. Internal to harness/monitor. */
#ifndef HARNESS_MONITOR_OP_TEXT_H
#define HARNESS_MONITOR_OP_TEXT_H

#include "harness/plan/program.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A bucket's line names so many parameters; program.txt has all. */
#define HARNESS_OP_TEXT_PARAMS_MAX 8

/* "all_reduce seq 12 (bucket 1: fc1.bias, fc1.weight)". */
void harness_op_text_add(const struct harness_program *program, struct ddp_event_op op,
                         uint64_t seq, struct ddp_text *out);
/* The same of the planned operation of seq, or that there is none. */
void harness_op_text_add_planned(const struct harness_program *program, uint64_t seq,
                                 struct ddp_text *out);

#ifdef __cplusplus
}
#endif
#endif
