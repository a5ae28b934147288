/* The judge's reading of dumped schedules: text in, its own steps out. It shares nothing with the
 * emitters and the executor but the text. */
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
#define HARNESS_MOVE_TABLE(X)                           \
    X(HARNESS_MOVE_SEND, "send", 1, 0, 1)               \
    X(HARNESS_MOVE_RECV, "recv", 0, 1, 1)               \
    X(HARNESS_MOVE_RECV_REDUCE, "recv_reduce", 0, 1, 1) \
    X(HARNESS_MOVE_REDUCE, "reduce", 1, 1, 0)           \
    X(HARNESS_MOVE_COPY, "copy", 1, 1, 0)               \
    X(HARNESS_MOVE_SCALE, "scale", 1, 1, 0)             \
    X(HARNESS_MOVE_CONVERT, "convert", 1, 1, 0)
enum harness_move_kind {
#define X(id, name, reads, writes, talks) id,
    HARNESS_MOVE_TABLE(X)
#undef X
        HARNESS_MOVE_KIND_COUNT
};
const char *harness_move_name(enum harness_move_kind kind);

/* Buffer numbers: 0 input, 1 output, 2 + n scratch n. */
struct harness_span {
    uint32_t buffer;
    size_t first, elem_count;
};

#define HARNESS_MOVE_DEPS_MAX 4
struct harness_move {
    enum harness_move_kind kind;
    uint32_t peer;
    struct harness_span src, dst;
    float factor;
    uint32_t dep_count;
    uint32_t dep[HARNESS_MOVE_DEPS_MAX]; /* earlier moves */
};

struct harness_schedule {
    struct ddp_mem *mem;
    enum ddp_coll_kind kind;
    char algorithm[32];
    uint32_t rank, size, root;
    size_t elem_count;
    enum ddp_dtype dtype;
    bool is_in_place; /* input and output are one buffer: every 0 below was turned into 1 */
    struct harness_move *moves;
    size_t move_count;
    size_t buffer_count;       /* 2 + scratch */
    size_t *buffer_elem_count; /* size_t[buffer_count] */
    enum ddp_dtype *buffer_dtype;
};

/* text: a whole dump, NUL-terminated. Errors: E_PARSE with "line n: what"; E_NOMEM. */
DDP_MUST_USE ddp_status harness_schedule_parse(struct ddp_mem *mem, const char *text,
                                               struct harness_schedule *out, struct ddp_err *err);
void harness_schedule_fini(struct harness_schedule *schedule);

#ifdef __cplusplus
}
#endif
#endif
