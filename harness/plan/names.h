/* Lists of names: what a key that wants a name may be set to, and the value that each name means.
 */
#ifndef HARNESS_PLAN_NAMES_H
#define HARNESS_PLAN_NAMES_H

#include "harness/plan/kind.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Beside the tables of kind.h. X(identifier, what an entry is, for messages) */
#define HARNESS_NAMES_TABLE(X)     \
    X(NONE, "")                    \
    X(PHASES, "phase")             \
    X(POINTS, "fault point")       \
    X(VERDICTS, "verdict")         \
    X(STATUSES, "status")          \
    X(OUTCOMES, "outcome")         \
    X(ORACLES, "oracle")           \
    X(MODES, "mode")               \
    X(SIGNALS, "signal")           \
    X(ERRNOS, "errno")             \
    X(ACTIONS, "action")           \
    X(INTOS, "target")             \
    X(EQUALS, "comparison")        \
    X(ACCUSE, "choice")            \
    X(COLLECTIVES, "collective")   \
    X(KINDS, "collective kind")    \
    X(GUEST_KINDS, "kind of call") \
    X(DTYPES, "dtype")             \
    X(REDOPS, "reduction")
enum harness_names {
#define X(id, ...) HARNESS_NAMES_##id,
    HARNESS_NAMES_TABLE(X) HARNESS_KIND_NAMES_TABLE(X)
#undef X
        HARNESS_NAMES_COUNT
};

/* "driver", ...: for messages. */
const char *harness_names_what(enum harness_names list);
/* Entry `index`, counted from 0; NULL past the end. out_value: what it means, may be NULL; a
 * collective's is its index. Static storage. */
const char *harness_names_at(enum harness_names list, size_t index, int *out_value);
/* The name of a value; NULL if the list has none for it. */
const char *harness_names_of(enum harness_names list, int value);
/* What an absent key is kept as: 0 where no name means it, else -1. */
int harness_names_absent(enum harness_names list);
/* Tables that a matrix axis may name instead of writing a list. X(identifier, word, meaning) */
#define HARNESS_AXIS_TABLE(X)                                                     \
    X(SCHEDULES, "schedules", "every all-reduce schedule of the core: ring, ...") \
    X(CUDA_COLLECTIVES, "cuda_collectives", "nccl, and every schedule over it: nccl/ring, ...")
enum harness_axis {
#define X(id, word, meaning) HARNESS_AXIS_##id,
    HARNESS_AXIS_TABLE(X)
#undef X
        HARNESS_AXIS_COUNT
};
/* Entry `index` of a table; NULL past the end. */
const char *harness_axis_at(enum harness_axis axis, size_t index);
const char *harness_axis_word(enum harness_axis axis);
const char *harness_axis_meaning(enum harness_axis axis);

#ifdef __cplusplus
}
#endif
#endif
