/* Overrides and the matrix: which trees a file stands for. */
#ifndef HARNESS_SCENARIO_MATRIX_H
#define HARNESS_SCENARIO_MATRIX_H

#include "harness/scenario/reader.h"

#ifdef __cplusplus
extern "C" {
#endif

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
