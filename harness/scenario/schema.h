/* The rows of schema.def as data, the check of a tree against them, and typed access to a tree that
 * passed the check. */
#ifndef HARNESS_SCENARIO_SCHEMA_H
#define HARNESS_SCENARIO_SCHEMA_H

#include "harness/scenario/scenario.h"
#include "harness/scenario/yaml.h"

#ifdef __cplusplus
extern "C" {
#endif

/* X(identifier, title): titles stand in messages. */
#define HARNESS_SECTION_TABLE(X)        \
    X(TOP, "a scenario")                \
    X(JOB, "job")                       \
    X(OPTIMIZER, "job.optimizer")       \
    X(JOIN, "job.join")                 \
    X(FAULT, "a fault")                 \
    X(AT, "at")                         \
    X(DO, "do")                         \
    X(RESTORE, "restore")               \
    X(EXPECT, "expect")                 \
    X(OP, "expect.op")                  \
    X(SURVIVORS, "expect.survivors")    \
    X(EXPECT_RESTORE, "expect.restore") \
    X(FORBID, "forbid")                 \
    X(CANARY, "canary")
enum harness_section {
#define X(id, title) HARNESS_SECTION_##id,
    HARNESS_SECTION_TABLE(X)
#undef X
        HARNESS_SECTION_COUNT
};

/* X(identifier, what a right value is, for messages) */
#define HARNESS_KEY_TYPE_TABLE(X)                        \
    X(TEXT, "text")                                      \
    X(NAME, "a name")                                    \
    X(INT, "a whole number")                             \
    X(U64, "a whole number")                             \
    X(NUMBER, "a number")                                \
    X(BOOL, "true or false")                             \
    X(TRUE, "true")                                      \
    X(SCALAR, "a number or a name")                      \
    X(RANK, "a rank: a number, first, middle or last")   \
    X(INT_OR_FOREVER, "a whole number or forever")       \
    X(TEXTS, "a list of text")                           \
    X(NAME_LIST, "a list of names")                      \
    X(INTS, "a list of whole numbers")                   \
    X(INT_OR_INTS, "a whole number or a list of them")   \
    X(CULPRIT, "injected, all, none or a list of ranks") \
    X(BUDGETS, "a map of phases to ms")                  \
    X(SECTION, "a map")                                  \
    X(SECTIONS, "a list of maps")                        \
    X(MATRIX, "a map of dotted paths to lists")
enum harness_key_type {
#define X(id, text) HARNESS_KEY_##id,
    HARNESS_KEY_TYPE_TABLE(X)
#undef X
        HARNESS_KEY_TYPE_COUNT
};

/* Lists of names. X(identifier, what an entry is, for messages) */
#define HARNESS_NAMES_TABLE(X)   \
    X(NONE, "")                  \
    X(DRIVERS, "driver")         \
    X(PHASES, "phase")           \
    X(POINTS, "fault point")     \
    X(VERDICTS, "verdict")       \
    X(STATUSES, "status")        \
    X(OUTCOMES, "outcome")       \
    X(ORACLES, "oracle")         \
    X(MODES, "mode")             \
    X(SIGNALS, "signal")         \
    X(CORRUPTS, "corruption")    \
    X(ARGS, "argument")          \
    X(EDITS, "edit")             \
    X(OPTIMIZERS, "optimizer")   \
    X(ORDERS, "bucket order")    \
    X(SCALES, "gradient scale")  \
    X(SEMANTICS, "semantics")    \
    X(INTOS, "target")           \
    X(PREFIXES, "prefix rule")   \
    X(EQUALS, "comparison")      \
    X(ACCUSE, "choice")          \
    X(LEAKS, "leak")             \
    X(MODELS, "model")           \
    X(DATA, "dataset")           \
    X(COLLECTIVES, "collective") \
    X(DEVICES, "device")         \
    X(BRANCHES, "branch rule")   \
    X(KINDS, "collective kind")  \
    X(DTYPES, "dtype")           \
    X(REDOPS, "reduction")
enum harness_names {
#define X(id, what) HARNESS_NAMES_##id,
    HARNESS_NAMES_TABLE(X)
#undef X
        HARNESS_NAMES_COUNT
};

enum harness_row {
#define X(section, key, type, of, lo, hi, required, fallback, doc) HARNESS_ROW_##section##_##key,
#include "harness/scenario/schema.def"
#undef X
    HARNESS_ROW_COUNT
};

struct harness_schema_row {
    enum harness_section section;
    enum harness_key_type type;
    int of; /* enum harness_section or enum harness_names */
    bool is_required;
    const char *key;
    double lo, hi;
    const char *fallback; /* "" = none */
    const char *doc;
};

/* What the parser works with. */
struct harness_reader {
    struct ddp_mem *scratch; /* dropped when parsing ends */
    struct ddp_mem *keep;    /* the plans' */
    const struct harness_scenario_names *names;
    struct ddp_err *err;
    const char *path;
};

const struct harness_schema_row *harness_schema_row(enum harness_row row);
const char *harness_section_title(enum harness_section section);
const char *harness_key_type_text(enum harness_key_type type);
const char *harness_names_what(enum harness_names list);

/* Entry `index` of a list of names, NULL past its end. For lists that mirror an enumeration the
 * index is its value. names: for the lists of other layers; those are empty if not given. */
const char *harness_names_at(const struct harness_scenario_names *names, enum harness_names list,
                             size_t index);
/* Whether the names of a list are checked at all. */
bool harness_names_is_known(const struct harness_scenario_names *names, enum harness_names list);
/* Index of a name in its list. Errors: E_PARSE, with the nearest name. */
DDP_MUST_USE ddp_status harness_names_find(const struct harness_reader *reader,
                                           const struct harness_yaml_node *node,
                                           enum harness_names list, size_t *out);

/* Unknown and missing keys, wrong types, ranges and names, of a whole tree. */
DDP_MUST_USE ddp_status harness_schema_check(const struct harness_reader *reader,
                                             const struct harness_yaml_node *node,
                                             enum harness_section section);
/* YAML 1.2 numbers as people write them: no hex, no octal, no '+', and unquoted. */
DDP_MUST_USE bool harness_schema_is_int(const struct harness_yaml_node *node, int64_t *out);
DDP_MUST_USE bool harness_schema_is_number(const struct harness_yaml_node *node, double *out);
/* Plain text that YAML reads as something else: a number, a truth value, nothing. */
bool harness_schema_is_typed(const struct harness_yaml_node *node);

/* Values of a checked map, or the row's default. */
const struct harness_yaml_node *harness_schema_node(const struct harness_yaml_node *map,
                                                    enum harness_row row);
int64_t harness_schema_int(const struct harness_yaml_node *map, enum harness_row row);
/* The value, or -1 if it is absent. */
int64_t harness_schema_optional(const struct harness_yaml_node *map, enum harness_row row);
uint64_t harness_schema_u64(const struct harness_yaml_node *map, enum harness_row row);
double harness_schema_number(const struct harness_yaml_node *map, enum harness_row row);
bool harness_schema_bool(const struct harness_yaml_node *map, enum harness_row row);
/* NULL: absent and without default. Borrowed. */
const char *harness_schema_text(const struct harness_yaml_node *map, enum harness_row row);
/* Index in the row's list of names; -1: absent and without default. */
int64_t harness_schema_name(const struct harness_reader *reader,
                            const struct harness_yaml_node *map, enum harness_row row);

#ifdef __cplusplus
}
#endif
#endif
