/* From a checked tree to a plan: one function a story. All strings are copied into the plan's
 * memory. Errors: E_INVALID, E_NOMEM. */
#ifndef HARNESS_SCENARIO_PARSE_H
#define HARNESS_SCENARIO_PARSE_H

#include "harness/scenario/schema.h"

#ifdef __cplusplus
extern "C" {
#endif

DDP_MUST_USE ddp_status harness_parse_job(const struct harness_reader *reader,
                                          const struct harness_yaml_node *map,
                                          struct harness_job *job);
/* top: the whole scenario; the plan's job is filled in. */
DDP_MUST_USE ddp_status harness_parse_faults(const struct harness_reader *reader,
                                             const struct harness_yaml_node *top,
                                             struct harness_plan *plan);
/* expect, restore, forbid and canary. The plan's job and faults are filled in. */
DDP_MUST_USE ddp_status harness_parse_expect(const struct harness_reader *reader,
                                             const struct harness_yaml_node *top,
                                             struct harness_plan *plan);
/* A rank: number, first, middle or last; below ranks. */
DDP_MUST_USE ddp_status harness_parse_rank(const struct harness_reader *reader,
                                           const struct harness_yaml_node *node, uint32_t ranks,
                                           uint32_t *out);
/* Copies into the plan's memory. NULL text gives NULL. */
DDP_MUST_USE ddp_status harness_parse_keep(const struct harness_reader *reader, const char *text,
                                           const char **out);
DDP_MUST_USE ddp_status harness_parse_texts(const struct harness_reader *reader,
                                            const struct harness_yaml_node *list, const char ***out,
                                            uint32_t *out_count);

/* The matrix's cells. A cell is a tree without `matrix` and the name that its axes give it. */
struct harness_matrix_axis {
    const char *path;
    const struct harness_yaml_node *where;
    const struct harness_yaml_node *values; /* list */
};
struct harness_matrix {
    const struct harness_yaml_node *base; /* the tree without `matrix` */
    struct harness_matrix_axis *axes;
    size_t axis_count;
    size_t cell_count; /* 1 if there is no matrix */
};
#define HARNESS_MATRIX_CELLS_MAX 4096
/* Apply sets ("dotted.key=value"), then read the matrix. */
DDP_MUST_USE ddp_status harness_matrix_open(const struct harness_reader *reader,
                                            const struct harness_yaml_node *top,
                                            const char *const *sets, size_t set_count,
                                            struct harness_matrix *out);
/* Cell `index`, the first axis outermost. The name lives in scratch. */
DDP_MUST_USE ddp_status harness_matrix_cell(const struct harness_reader *reader,
                                            const struct harness_matrix *matrix, size_t index,
                                            const struct harness_yaml_node **out,
                                            const char **out_name);

#ifdef __cplusplus
}
#endif
#endif
