/* The built-in algorithms: pure functions that emit a schedule. To add one: write <name>.c with an
 * emit function, name the file in CMakeLists.txt, add a row to algorithm.def. Everything that lists
 * algorithms follows from that table. */
#ifndef DDPCORE_SCHEDULE_ALGORITHM_H
#define DDPCORE_SCHEDULE_ALGORITHM_H

#include <stddef.h>

#include "ddpcore/base/dtype.h"
#include "ddpcore/base/status.h"
#include "ddpcore/seam/recorder.h"

#ifdef __cplusplus
extern "C" {
#endif

enum ddp_algorithm_id {
    DDP_ALGORITHM_NONE, /* no choice was made: the kind's default */
#define X(id, kind, name, emit, segment_bytes, meaning) DDP_ALGORITHM_##id,
#include "ddpcore/schedule/algorithm.def"
#undef X
    DDP_ALGORITHM_COUNT
};

struct ddp_schedule;
struct ddp_algorithm {
    enum ddp_algorithm_id id;
    enum ddp_coll_kind kind;
    const char *name;
    const char *meaning;  /* one line for people */
    size_t segment_bytes; /* longest message where the caller did not choose; > 0 */
    /* Emits the steps of the rank schedule->params.rank; an error stays in schedule->status. Pure:
     * the same params give the same steps. Supports any size >= 1 and any elem_count. */
    void (*emit)(struct ddp_schedule *schedule);
};

/* All rows of algorithm.def, in its order; *out_count says how many. Static storage. */
const struct ddp_algorithm *ddp_algorithm_table(size_t *out_count);

/* The algorithm that runs collectives of a kind when `id` was chosen; NONE: the kind's default.
 * NULL if id is an algorithm of another kind. Static storage. */
const struct ddp_algorithm *ddp_algorithm_find(enum ddp_coll_kind kind, enum ddp_algorithm_id id);

/* The same, or E_NOT_FOUND with an error that lists the kind's algorithms. */
DDP_MUST_USE ddp_status ddp_algorithm_require(enum ddp_coll_kind kind, enum ddp_algorithm_id id,
                                              const struct ddp_algorithm **out,
                                              struct ddp_err *err);

/* The name in algorithm.def; "none" for DDP_ALGORITHM_NONE. */
const char *ddp_algorithm_name(enum ddp_algorithm_id id);
/* The algorithm of that kind and name. E_NOT_FOUND (then *out is DDP_ALGORITHM_NONE). */
DDP_MUST_USE ddp_status ddp_algorithm_parse(const char *name, enum ddp_coll_kind kind,
                                            enum ddp_algorithm_id *out);

/* Elements of the longest message, at least 1. segment_bytes 0: the algorithm's default. */
size_t ddp_algorithm_segment_elem_count(const struct ddp_algorithm *algorithm, size_t segment_bytes,
                                        enum ddp_dtype dtype);

#ifdef __cplusplus
}
#endif
#endif
