/* Scenario files: strict YAML 1.2 in, plans out. The matrix is expanded, selectors (first, middle,
 * last, injected) are resolved, names are checked, every error carries file:line:col and what would
 * be right. */
#ifndef HARNESS_SCENARIO_SCENARIO_H
#define HARNESS_SCENARIO_SCENARIO_H

#include "harness/plan/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

struct harness_scenario {
    struct harness_plan *plans; /* one a cell, equal cells dropped */
    size_t plan_count;
    size_t *cells; /* of each plan: its number among all cells, the first axis outermost */
    size_t *axis_sizes;
    size_t axis_count; /* 0 if there is no matrix */
    struct ddp_mem_pool *pool;
};

/* text: a whole file, borrowed; path: for messages. sets: "dotted.key=value" overrides, applied
 * before the matrix (an override on an axis pins it).
 * Errors: E_PARSE, E_INVALID with "path:line:col: what, and what would be right". */
DDP_MUST_USE ddp_status harness_scenario_parse(const char *text, size_t size_bytes,
                                               const char *path, const char *const *sets,
                                               size_t set_count, struct harness_scenario *out,
                                               struct ddp_err *err);
/* A cell of a file, read with `sets`. */
struct harness_scenario_place {
    const char *path;
    const char *const *sets;
    size_t set_count, cell;
};
/* Where the file says a key of a plan's cell, as "faults.0.at": "path:line:col", or of the nearest
 * above it that is said. text: as of the parse that gave the plan. Errors: E_NOMEM, and those of a
 * file that is another by now. */
DDP_MUST_USE ddp_status harness_scenario_locate(const char *text, size_t size_bytes,
                                                const struct harness_scenario_place *place,
                                                const char *key, struct ddp_text *out,
                                                struct ddp_err *err);
void harness_scenario_fini(struct harness_scenario *scenario);
/* Which of an axis's values a plan has: 0 to axis_sizes[axis] - 1. */
size_t harness_scenario_value(const struct harness_scenario *scenario, size_t plan, size_t axis);
/* JSON Schema of the format, from the same rows as the parser. */
void harness_scenario_schema(struct ddp_text *out);
/* The key table as Markdown, for scenarios/README.md. */
void harness_scenario_keys(struct ddp_text *out);

/* The fault catalog (fault_row.def): what scenarios name in `covers`. Static storage. */
struct harness_fault_row {
    const char *id;
    const char *fault;
    const char *injectors; /* patterns, with spaces between; "": none */
};
const struct harness_fault_row *harness_fault_rows(size_t *out_count);
bool harness_fault_row_find(const char *id, size_t *out_index);
/* catalog.c: the plan injects the row's fault in one of the ways that the catalog knows. */
bool harness_fault_row_is_injected(const struct harness_fault_row *row,
                                   const struct harness_plan *plan);

#ifdef __cplusplus
}
#endif
#endif
