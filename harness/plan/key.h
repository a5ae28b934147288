/* The keys of a scenario as data: key.def at run time. */
#ifndef HARNESS_PLAN_KEY_H
#define HARNESS_PLAN_KEY_H

#include "harness/plan/names.h"

#ifdef __cplusplus
extern "C" {
#endif

/* X(identifier, title for messages, what a plan keeps it in) */
#define HARNESS_SECTION_TABLE(X)                                       \
    X(TOP, "a scenario", struct harness_plan)                          \
    X(JOB, "job", struct harness_job)                                  \
    X(GUEST, "job.guest", struct harness_guest)                        \
    X(OPTIMIZER, "job.optimizer", struct harness_optimizer)            \
    X(JOIN, "job.join", struct harness_join)                           \
    X(MIXED, "job.mixed_precision", struct harness_mixed)              \
    X(FAULT, "a fault", struct harness_fault)                          \
    X(AT, "at", struct harness_trigger)                                \
    X(DO, "do", struct harness_action)                                 \
    X(IO, "do.io", struct harness_io_fault)                            \
    X(RESTORE, "restore", struct harness_restore)                      \
    X(EXPECT, "expect", struct harness_expect)                         \
    X(FINDING, "expect.findings", struct harness_expect_finding)       \
    X(OP, "expect.op", struct harness_expect_op)                       \
    X(SURVIVORS, "expect.survivors", struct harness_survivors)         \
    X(EXPECT_RESTORE, "expect.restore", struct harness_expect_restore) \
    X(FORBID, "forbid", struct harness_forbid)                         \
    X(CANARY, "canary", struct harness_canary)
enum harness_section {
#define X(id, title, kept) HARNESS_SECTION_##id,
    HARNESS_SECTION_TABLE(X)
#undef X
        HARNESS_SECTION_COUNT
};

/* X(identifier, what a right value is, for messages). Kept as the member that the row names. A
 * number without a default is kept as 0 if it is absent, an INDEX as -1, text as NULL. */
#define HARNESS_KEY_TYPE_TABLE(X)                                                     \
    X(TEXT, "text")                                                                   \
    X(MODEL, "a name")                                                                \
    X(DATASET, "a name")                                                              \
    X(NAME, "a name")                                                                 \
    X(COLLECTIVE, "a name")                                                           \
    X(INT, "a whole number")                                                          \
    X(INDEX, "a whole number")                                                        \
    X(U64, "a whole number")                                                          \
    X(NUMBER, "a number")                                                             \
    X(KIB, "a number")      /* kept in bytes */                                       \
    X(MS, "a whole number") /* kept in ns */                                          \
    X(BOOL, "true or false")                                                          \
    X(TRUE, "true") /* an action: no member */                                        \
    X(RANK, "a rank: a number, first, middle or last")                                \
    X(FOREVER, "a whole number or forever") /* forever: 0 */                          \
    X(VALUE, "a number or a name")          /* as `do` needs it */                    \
    X(TEXTS, "a list of text")                                                        \
    X(NAMES, "a list of names")                                                       \
    X(SET, "a list of names") /* bool for each name */                                \
    X(SIZES, "a list of whole numbers")                                               \
    X(PER_RANK, "a whole number or a list of them")                                   \
    X(CULPRIT, "injected, all, none or a list of ranks")                              \
    X(VICTIMS, "others, none or a list of ranks")                                     \
    X(BUDGETS, "a map of phases to ms")                                               \
    X(SECTION, "a map")                                                               \
    X(OPTION, "a map") /* a section that may be absent: its first member is is_set */ \
    X(FAULTS, "a list of maps")                                                       \
    X(FINDINGS, "a list of maps")                                                     \
    X(MATRIX, "a map of dotted paths to lists")
enum harness_key_type {
#define X(id, text) HARNESS_KEY_##id,
    HARNESS_KEY_TYPE_TABLE(X)
#undef X
        HARNESS_KEY_TYPE_COUNT
};

enum harness_row {
#define KEY(section, key, ...)                HARNESS_ROW_##section##_##key,
#define KEY_BARE(section, key, type, meaning) HARNESS_ROW_##section##_##key,
#include "harness/plan/key.def"
    HARNESS_ROW_COUNT
};

struct harness_key {
    enum harness_section section;
    enum harness_key_type type;
    int of; /* enum harness_names or enum harness_section */
    const char *key;
    size_t offset, size_bytes; /* of the member, in the section's struct; 0, 0: it has none */
    double lo, hi;
    const char *fallback; /* the default; "" = none, NULL = the key is required */
    const char *doc;
};

const struct harness_key *harness_key(enum harness_row row);
const char *harness_section_title(enum harness_section section);
const char *harness_key_type_text(enum harness_key_type type);

/* Sections where one key chooses which others mean something: an optimizer, an action, a checkpoint
 * edit. `keys`: those that this choice takes, as words of a text. */
struct harness_variant {
    const char *name, *keys, *meaning;
};
/* All variants of a list of names: OPTIMIZERS, ACTIONS, CORRUPTS or EDITS. */
const struct harness_variant *harness_variants(enum harness_names list, size_t *out_count);
/* The choice that a section has made, and the list that it chose from; NULL for a section without
 * choices. kept: its struct. */
const struct harness_variant *harness_section_variant(enum harness_section section,
                                                      const void *kept,
                                                      enum harness_names *out_list);
/* Whether the key means something beside the choice that its section has made. */
bool harness_key_applies(const struct harness_key *key, const void *kept);
/* Of job's keys: it says something of a guest's job. */
bool harness_key_is_of_guest(const struct harness_key *key);
/* Whether it depends on a choice at all. */
bool harness_key_is_chosen(const struct harness_key *key);

#ifdef __cplusplus
}
#endif
#endif
