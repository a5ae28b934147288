/* What probes of one all-reduce showed, element by element: ranges of elements and their trees, or
 * why there are none. Pure: values in, text out. Of rank and lab. */
#ifndef HARNESS_RANK_PROBE_MAP_H
#define HARNESS_RANK_PROBE_MAP_H

#include "ddpcore/base/dtype.h"
#include "ddpcore/base/mem.h"
#include "harness/rank/probe_tree.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What became of it; the names stand in the file. X(identifier, name) */
#define HARNESS_PROBE_RESULT_TABLE(X)                                                           \
    X(HARNESS_PROBE_MEASURED, "measured")                                                       \
    X(HARNESS_PROBE_UNKNOWN, "unknown")       /* out of reach of this method */                 \
    X(HARNESS_PROBE_LOST, "lost")             /* a member's contribution did not arrive */      \
    X(HARNESS_PROBE_DUPLICATED, "duplicated") /* it arrived twice */                            \
    X(HARNESS_PROBE_NONFINITE, "nonfinite")                                                     \
    X(HARNESS_PROBE_VALUE, "value")     /* the result is no number of units */                  \
    X(HARNESS_PROBE_ORDER, "order")     /* every sum is possible, but no one order gives all */ \
    X(HARNESS_PROBE_MEMBERS, "members") /* members got different results */
enum harness_probe_result {
#define X(id, name) id,
    HARNESS_PROBE_RESULT_TABLE(X)
#undef X
        HARNESS_PROBE_RESULT_COUNT
};
const char *harness_probe_result_name(enum harness_probe_result result);

struct harness_probe_run; /* elements in a row for which a probe gave the same */

struct harness_probe_row {
    struct harness_probe_run *runs;
    size_t count, capacity;
};

struct harness_probe_range {
    size_t first, elem_count;
    struct harness_probe_tree tree;
    uint8_t kept[HARNESS_PROBE_NODES_MAX]; /* bit k: width k passed through the node */
};

struct harness_probe_map {
    struct ddp_mem *mem;
    uint32_t member_count;
    size_t elem_count;
    enum ddp_dtype dtype;
    struct harness_probe_row *rows; /* [pair_count] */
    uint32_t pair_count;
    size_t run_count;
    struct harness_probe_range *ranges;
    size_t range_count, range_capacity;
    enum harness_probe_result result;
    uint64_t members; /* bit set of those to blame */
    char text[160];   /* why it is not measured */
};

/* Members beyond which a type cannot be measured: 64 for fp32 and bf16, 16 for fp16, else 0. */
uint32_t harness_probe_member_limit(enum ddp_dtype dtype);

/* member_count >= 2 and within the limit. Errors: E_NOMEM. */
DDP_MUST_USE ddp_status harness_probe_map_init(struct harness_probe_map *map, struct ddp_mem *mem,
                                               uint32_t member_count, enum ddp_dtype dtype,
                                               size_t elem_count);
/* Zeroed is fine too. */
void harness_probe_map_fini(struct harness_probe_map *map);

/* The probe of pair (i, j), i < j, number `pair` in the order (0,1), (0,2), ..., (1,2), ...: one
 * member's contribution; then what came out. data: elements of the map's type. */
void harness_probe_map_fill(const struct harness_probe_map *map, uint32_t i, uint32_t j,
                            uint32_t member, void *data);
DDP_MUST_USE ddp_status harness_probe_map_take(struct harness_probe_map *map, uint32_t pair,
                                               const void *data);
/* After all pairs: ranges and trees, or a result other than MEASURED. Errors: E_NOMEM. */
DDP_MUST_USE ddp_status harness_probe_map_solve(struct harness_probe_map *map);

/* Is an inner node rounded to the data's type before it is added on, or kept wider? Probe number
 * index < width_count adds 2^12 and a little of it at the node, then -2^12 at its parent, or the
 * little once more: what is lost twice must not come back. Only for a MEASURED map. */
uint32_t harness_probe_width_count(const struct harness_probe_map *map);
void harness_probe_map_fill_width(const struct harness_probe_map *map, uint32_t index,
                                  uint32_t member, void *data);
void harness_probe_map_take_width(struct harness_probe_map *map, uint32_t index, const void *data);
void harness_probe_map_solve_width(struct harness_probe_map *map);

/* result line, then "first count tree" a line. */
void harness_probe_map_print(const struct harness_probe_map *map, struct ddp_text *out);

#ifdef __cplusplus
}
#endif
#endif
