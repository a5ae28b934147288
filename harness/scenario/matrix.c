/* Overrides and the matrix: dotted paths into the tree. Cells are counted like the digits of a
 * number, the first axis being the highest digit. */
#include "harness/scenario/matrix.h"

#include <stdio.h>
#include <string.h>

/* The map without one key; the map itself if the key is absent. */
static ddp_status without_key(const struct harness_reader *reader,
                              const struct harness_yaml_node *map, const char *key,
                              const struct harness_yaml_node **out)
{
    struct harness_yaml_node *copy;
    size_t kept = 0;

    *out = map;
    if (harness_yaml_get(map, key) == NULL) {
        return DDP_OK;
    }
    copy = ddp_mem_array(reader->scratch, 1, sizeof(*copy));
    if (copy == NULL) {
        return ddp_err_set(reader->err, DDP_E_NOMEM, "out of memory");
    }
    *copy = *map;
    copy->keys = ddp_mem_array(reader->scratch, map->count, sizeof(*copy->keys));
    copy->items = ddp_mem_array(reader->scratch, map->count, sizeof(*copy->items));
    if (copy->keys == NULL || copy->items == NULL) {
        return ddp_err_set(reader->err, DDP_E_NOMEM, "out of memory");
    }
    for (size_t i = 0; i < map->count; i++) {
        if (strcmp(map->keys[i]->text, key) != 0) {
            copy->keys[kept] = map->keys[i];
            copy->items[kept] = map->items[i];
            kept++;
        }
    }
    copy->count = kept;
    copy->capacity = map->count;
    *out = copy;
    return DDP_OK;
}

/* Whether an override's path is the axis or holds it. */
static bool is_pinned_by(const char *axis, const char *path)
{
    size_t size_bytes = strlen(path);

    return strncmp(axis, path, size_bytes) == 0 &&
           (axis[size_bytes] == '\0' || axis[size_bytes] == '.');
}

/* Take the axes that a path pins out of the tree's matrix. */
static ddp_status pin_axes(const struct harness_reader *reader,
                           const struct harness_yaml_node **tree, const char *path)
{
    const struct harness_yaml_node *matrix = harness_yaml_get(*tree, "matrix");
    const struct harness_yaml_node *left = matrix;

    if (matrix == NULL || matrix->kind != HARNESS_YAML_MAP) {
        return DDP_OK;
    }
    for (size_t i = 0; i < matrix->count; i++) {
        if (is_pinned_by(matrix->keys[i]->text, path)) {
            DDP_TRY(without_key(reader, left, matrix->keys[i]->text, &left));
        }
    }
    if (left == matrix) {
        return DDP_OK;
    }
    if (left->count == 0) {
        return without_key(reader, *tree, "matrix", tree);
    }
    return harness_yaml_set(reader->scratch, *tree, "matrix", matrix, left, tree, reader->err);
}

static ddp_status apply_set(const struct harness_reader *reader, const char *set,
                            const struct harness_yaml_node **tree)
{
    const char *equals = strchr(set, '=');
    const struct harness_yaml_node *value = NULL;
    struct harness_yaml_node where;
    char *origin = ddp_mem_array(reader->scratch, strlen(set) + 8, 1);
    char *path = ddp_mem_strdup(reader->scratch, set);

    if (origin == NULL || path == NULL) {
        return ddp_err_set(reader->err, DDP_E_NOMEM, "out of memory");
    }
    if (equals == NULL || equals == set) {
        (void)ddp_err_set(reader->err, DDP_E_INVALID,
                          "--set %.100s: an override is dotted.key=value, as in job.ranks=4", set);
        return harness_yaml_one_line(reader->err, DDP_E_INVALID);
    }
    (void)snprintf(origin, strlen(set) + 8, "--set %s", set);
    path[equals - set] = '\0';
    DDP_TRY(harness_yaml_parse(reader->scratch, equals + 1, strlen(equals + 1), origin, false,
                               &value, reader->err));
    memset(&where, 0, sizeof(where));
    where.origin = origin;
    DDP_TRY(pin_axes(reader, tree, path));
    return harness_yaml_set(reader->scratch, *tree, path, &where, value, tree, reader->err);
}

/* A table of names, as the list that it stands for. */
static ddp_status expand_table(const struct harness_reader *reader,
                               const struct harness_yaml_node *word,
                               const struct harness_yaml_node **out)
{
    struct harness_yaml_node *list = ddp_mem_array(reader->scratch, 1, sizeof(*list));
    const char *words[HARNESS_AXIS_COUNT];
    size_t count = 0;
    unsigned axis;

    for (axis = 0; axis < HARNESS_AXIS_COUNT; axis++) {
        words[axis] = harness_axis_word((enum harness_axis)axis);
        if (strcmp(word->text, words[axis]) == 0) {
            break;
        }
    }
    if (axis == HARNESS_AXIS_COUNT) {
        return harness_reader_refuse_name(reader, word, "table of an axis", words, axis);
    }
    while (harness_axis_at((enum harness_axis)axis, count) != NULL) {
        count++;
    }
    if (list == NULL) {
        return ddp_err_set(reader->err, DDP_E_NOMEM, "out of memory");
    }
    *list = *word;
    list->kind = HARNESS_YAML_LIST;
    list->items = ddp_mem_array(reader->scratch, count, sizeof(*list->items));
    for (; list->items != NULL && list->count < count; list->count++) {
        struct harness_yaml_node *item = ddp_mem_array(reader->scratch, 1, sizeof(*item));

        if (item == NULL) {
            break;
        }
        *item = *word;
        item->text = harness_axis_at((enum harness_axis)axis, list->count);
        list->items[list->count] = item;
    }
    *out = list;
    return list->count == count ? DDP_OK : ddp_err_set(reader->err, DDP_E_NOMEM, "out of memory");
}

static ddp_status read_axes(const struct harness_reader *reader,
                            const struct harness_yaml_node *map, struct harness_matrix *out)
{
    if (map->kind != HARNESS_YAML_MAP) {
        return harness_yaml_fail(map, reader->err, DDP_E_PARSE,
                                 "matrix wants a map of dotted paths to lists, as in "
                                 "{job.ranks: [2, 4]}");
    }
    out->axes = ddp_mem_array(reader->scratch, map->count, sizeof(*out->axes));
    if (out->axes == NULL) {
        return ddp_err_set(reader->err, DDP_E_NOMEM, "out of memory");
    }
    for (size_t i = 0; i < map->count; i++) {
        const struct harness_yaml_node *values = map->items[i];

        if (values->kind == HARNESS_YAML_SCALAR && !harness_yaml_is_typed(values)) {
            DDP_TRY(expand_table(reader, values, &values));
        }
        if (values->kind != HARNESS_YAML_LIST || values->count == 0) {
            return harness_yaml_fail(
                values, reader->err, DDP_E_PARSE,
                "the axis \"%.60s\" wants a list of at least one value, or a table "
                "such as schedules",
                map->keys[i]->text);
        }
        /* Both factors are bounded, so the product cannot overflow. */
        if (values->count > HARNESS_MATRIX_CELLS_MAX ||
            out->cell_count * values->count > HARNESS_MATRIX_CELLS_MAX) {
            return harness_yaml_fail(values, reader->err, DDP_E_INVALID,
                                     "the matrix has more than %d cells; split the scenario",
                                     HARNESS_MATRIX_CELLS_MAX);
        }
        out->cell_count *= values->count;
        out->axes[i].path = map->keys[i]->text;
        out->axes[i].where = map->keys[i];
        out->axes[i].values = values;
    }
    out->axis_count = map->count;
    return DDP_OK;
}

ddp_status harness_matrix_open(const struct harness_reader *reader,
                               const struct harness_yaml_node *top, const char *const *sets,
                               size_t set_count, struct harness_matrix *out)
{
    const struct harness_yaml_node *map;

    memset(out, 0, sizeof(*out));
    out->cell_count = 1;
    for (size_t i = 0; i < set_count; i++) {
        DDP_TRY(apply_set(reader, sets[i], &top));
    }
    if (top->kind != HARNESS_YAML_MAP) {
        return harness_yaml_fail(top, reader->err, DDP_E_PARSE,
                                 "a scenario is a map that starts with id:");
    }
    map = harness_yaml_get(top, "matrix");
    if (map != NULL) {
        DDP_TRY(read_axes(reader, map, out));
        if (harness_yaml_get(top, "cell") != NULL) {
            return harness_yaml_fail(
                map, reader->err, DDP_E_INVALID,
                "a plan that is one cell has no matrix; remove matrix or cell");
        }
    }
    return without_key(reader, top, "matrix", &out->base);
}

ddp_status harness_matrix_cell(const struct harness_reader *reader,
                               const struct harness_matrix *matrix, size_t index,
                               const struct harness_yaml_node **out, const char **out_name)
{
    const struct harness_yaml_node *tree = matrix->base;
    struct ddp_text name;
    size_t cells_below = matrix->cell_count;

    ddp_text_init(&name, reader->scratch);
    for (size_t i = 0; i < matrix->axis_count; i++) {
        const struct harness_matrix_axis *axis = &matrix->axes[i];
        const struct harness_yaml_node *value;

        cells_below /= axis->values->count;
        value = axis->values->items[index / cells_below % axis->values->count];
        if (strncmp(axis->path, "matrix", 6) == 0 || strcmp(axis->path, "cell") == 0) {
            return harness_yaml_fail(axis->where, reader->err, DDP_E_INVALID,
                                     "\"%.60s\" cannot be an axis", axis->path);
        }
        DDP_TRY(harness_yaml_set(reader->scratch, tree, axis->path, axis->where, value, &tree,
                                 reader->err));
        ddp_text_add(&name, "%s%s=", i == 0 ? "" : ",", axis->path);
        harness_yaml_print(value, &name);
    }
    if (name.is_failed) {
        return ddp_err_set(reader->err, DDP_E_NOMEM, "out of memory");
    }
    *out = tree;
    *out_name = ddp_text_str(&name);
    return DDP_OK;
}
