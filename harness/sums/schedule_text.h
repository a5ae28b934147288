/* Dumped schedules as the judge reads them: text in, its own steps out. The text is all that it
 * shares with the emitters and the executor. */
#ifndef HARNESS_SUMS_SCHEDULE_TEXT_H
#define HARNESS_SUMS_SCHEDULE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ddpcore/base/dtype.h"
#include "ddpcore/base/mem.h"
#include "ddpcore/seam/recorder.h"

#ifdef __cplusplus
extern "C" {
#endif

/* X(identifier, name, reads src, writes dst, talks to a peer) */
#define HARNESS_STEP_TABLE(X)                           \
    X(HARNESS_STEP_SEND, "send", 1, 0, 1)               \
    X(HARNESS_STEP_RECV, "recv", 0, 1, 1)               \
    X(HARNESS_STEP_RECV_REDUCE, "recv_reduce", 0, 1, 1) \
    X(HARNESS_STEP_REDUCE, "reduce", 1, 1, 0)           \
    X(HARNESS_STEP_COPY, "copy", 1, 1, 0)               \
    X(HARNESS_STEP_CONVERT, "convert", 1, 1, 0)
enum harness_step_kind {
#define X(id, name, reads, writes, talks) id,
    HARNESS_STEP_TABLE(X)
#undef X
        HARNESS_STEP_KIND_COUNT
};
const char *harness_step_name(enum harness_step_kind kind);

/* Buffer numbers: 0 input, 1 output, 2 + n scratch n. */
struct harness_span {
    uint32_t buffer;
    size_t first, elem_count;
};

/* Members beyond which a schedule is refused: its set holds arrays of that many. */
#define HARNESS_SCHEDULE_MEMBERS_MAX 65536u
#define HARNESS_STEP_DEPS_MAX        4
struct harness_schedule_step {
    enum harness_step_kind kind;
    uint32_t round;
    uint32_t peer; /* UINT32_MAX: it is no message */
    struct harness_span src, dst;
    uint32_t dep_count;
    uint32_t dep[HARNESS_STEP_DEPS_MAX]; /* earlier steps of this schedule */
};

struct harness_schedule {
    struct ddp_mem *mem;
    enum ddp_coll_kind kind;
    char algorithm[32];
    uint32_t rank, size, root;
    size_t elem_count;
    enum ddp_dtype dtype;
    /* Input and output are one buffer, the longer of the two: every range names buffer 1, and lies
     * where it is there. */
    bool is_in_place;
    struct harness_schedule_step *steps;
    size_t step_count, step_capacity;
    size_t buffer_count;       /* 2 + scratch */
    size_t *buffer_elem_count; /* size_t[buffer_count] */
    enum ddp_dtype *buffer_dtype;
};

/* text: a whole dump, NUL-terminated, borrowed. out: filled, to be released with _fini; after an
 * error it needs none. Errors: E_PARSE with "line n: what"; E_NOMEM. */
DDP_MUST_USE ddp_status harness_schedule_parse(struct ddp_mem *mem, const char *text,
                                               struct harness_schedule *out, struct ddp_err *err);
void harness_schedule_fini(struct harness_schedule *schedule);
/* Where the rank's contribution lies before the first step; no elements where it has none (a
 * broadcast's members but the root). */
struct harness_span harness_schedule_input(const struct harness_schedule *schedule);
/* Where its result lies after the last step; no elements where it has none (a reduction's members
 * but the root). */
struct harness_span harness_schedule_output(const struct harness_schedule *schedule);

/* schedule_shape.c. Whether a rank has an output: a reduction to a root leaves nothing elsewhere;
 * how many elements its input and output have; whether one of them holds a block for each rank. */
bool harness_schedule_has_output(const struct harness_schedule *schedule);
size_t harness_schedule_input_elems(const struct harness_schedule *schedule);
size_t harness_schedule_output_elems(const struct harness_schedule *schedule);
bool harness_schedule_is_of_all(enum ddp_coll_kind kind);

/* schedule_make.c: schedules that were not read from text, but put together from steps. */

/* head: what the operation is, and scratch_count buffers from buffer 2 on; its steps, the lengths
 * and types of buffers 0 and 1, and mem are not used. out as of harness_schedule_parse, without
 * steps; _add_step checks as the parser does. step: input and output are buffers 0 and 1 also in
 * place. Errors: E_INVALID with what is wrong; E_NOMEM. */
DDP_MUST_USE ddp_status harness_schedule_make(struct ddp_mem *mem,
                                              const struct harness_schedule *head, size_t step_max,
                                              struct harness_schedule *out, struct ddp_err *err);
DDP_MUST_USE ddp_status harness_schedule_add_step(struct harness_schedule *schedule,
                                                  const struct harness_schedule_step *step,
                                                  struct ddp_err *err);
/* Whether two of the same operation have the same buffers and steps. */
bool harness_schedule_is_equal(const struct harness_schedule *a, const struct harness_schedule *b);
/* What both ways check. NULL: it is right; else what is wrong. _head sets buffers 0 and 1. */
const char *harness_schedule_check_head(struct harness_schedule *schedule);
const char *harness_schedule_check_step(const struct harness_schedule_step *step);
/* Of a range of input (is_input), output or scratch: to where it is if they are one buffer. False:
 * it is outside. */
bool harness_schedule_place_span(const struct harness_schedule *schedule, bool is_input,
                                 struct harness_span *span);

#ifdef __cplusplus
}
#endif
#endif
