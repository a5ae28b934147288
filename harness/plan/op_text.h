/* Operations as text, for printed cuts. */
#ifndef HARNESS_PLAN_OP_TEXT_H
#define HARNESS_PLAN_OP_TEXT_H

#include "harness/plan/program.h"

#ifdef __cplusplus
extern "C" {
#endif

/* "all_reduce seq 12 (bucket 1: fc1.bias, fc1.weight)". */
void harness_op_text_add(const struct harness_program *program, struct ddp_event_op op,
                         uint64_t seq, struct ddp_text *out);
/* The planned operation of seq in the same form, or "seq 12 (not planned)". */
void harness_op_text_add_planned(const struct harness_program *program, uint64_t seq,
                                 struct ddp_text *out);

#ifdef __cplusplus
}
#endif
#endif
