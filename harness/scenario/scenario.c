/* A scenario file to its plans: head comment, tree, overrides, matrix, one plan a cell. Cells are
 * equal when their plans print the same, so the printer must leave out nothing that matters. */
#include "harness/scenario/scenario.h"

#include <stdio.h>
#include <string.h>

#include "ddpcore/base/hash.h"
#include "harness/scenario/matrix.h"
#include "harness/scenario/reader.h"

/* Printed plans of the cells kept so far, by hash. */
struct seen {
    uint64_t *hashes;
    char **texts;
    size_t count;
};

/* The text of a comment line, without '#' and spaces; size 0 if it has none. Returns false for a
 * line that is no comment: the head of the file ends there. */
static bool comment_of(const char *line, const char *line_end, const char **out_text,
                       size_t *out_bytes)
{
    while (line_end > line && strchr(" \t\r", line_end[-1]) != NULL) {
        line_end--;
    }
    while (line < line_end && (*line == ' ' || *line == '\t')) {
        line++;
    }
    if (line < line_end && *line != '#') {
        return false;
    }
    while (line < line_end && strchr("# \t", *line) != NULL) {
        line++;
    }
    *out_text = line;
    *out_bytes = (size_t)(line_end - line);
    return true;
}

/* The comment lines at the head of the file, joined by spaces. */
static ddp_status read_purpose(const struct harness_reader *reader, const char *text,
                               size_t size_bytes, struct ddp_text *out)
{
    const char *end = text + size_bytes;

    while (text < end) {
        const char *line_end = text;
        const char *comment;
        size_t comment_bytes;

        while (line_end < end && *line_end != '\n' && *line_end != '\r') {
            line_end++; /* YAML ends a line at either */
        }

        if (!comment_of(text, line_end, &comment, &comment_bytes)) {
            break;
        }
        if (comment_bytes > 0) {
            ddp_text_add(out, out->size_bytes == 0 ? "" : " ");
            ddp_text_add_bytes(out, comment, comment_bytes);
        }
        text = line_end < end ? line_end + 1 : end;
        text += text < end && *line_end == '\r' && *text == '\n';
    }
    if (out->is_failed) {
        return ddp_err_set(reader->err, DDP_E_NOMEM, "%.200s: out of memory", reader->path);
    }
    if (out->size_bytes == 0) {
        return ddp_err_set(reader->err, DDP_E_INVALID,
                           "%.200s:1:1: the file starts with no comment; say in a sentence what "
                           "the scenario is for",
                           reader->path);
    }
    return DDP_OK;
}

static ddp_status parse_plan(struct harness_reader *reader, const struct harness_yaml_node *top,
                             const char *cell, const char *purpose, struct harness_plan *plan)
{
    reader->plan = plan;
    DDP_TRY(harness_reader_keep(reader, reader->path, &plan->file));
    DDP_TRY(harness_reader_keep(reader, purpose, &plan->purpose));
    DDP_TRY(harness_read_section(reader, HARNESS_SECTION_TOP, top, plan));
    return plan->cell != NULL ? DDP_OK : harness_reader_keep(reader, cell, &plan->cell);
}

/* Whether an equal plan was kept before; else it is remembered. */
static ddp_status note_seen(struct seen *seen, struct ddp_mem *mem, struct harness_plan *plan,
                            bool *out_is_new)
{
    const char *cell = plan->cell;
    struct ddp_text text;
    uint64_t hash;

    ddp_text_init(&text, mem);
    plan->cell = "";
    harness_plan_print(plan, &text);
    plan->cell = cell;
    if (text.is_failed) {
        return DDP_E_NOMEM;
    }
    hash = ddp_hash_text(text.data);
    *out_is_new = true;
    for (size_t i = 0; i < seen->count; i++) {
        if (seen->hashes[i] == hash && strcmp(seen->texts[i], text.data) == 0) {
            *out_is_new = false;
            ddp_text_fini(&text);
            return DDP_OK;
        }
    }
    seen->hashes[seen->count] = hash;
    seen->texts[seen->count] = text.data;
    seen->count++;
    return DDP_OK;
}

static ddp_status parse_cells(struct harness_reader *reader, const struct harness_matrix *matrix,
                              const char *purpose, struct harness_scenario *out)
{
    struct seen seen = {NULL, NULL, 0};

    out->plans = ddp_mem_array(reader->keep, matrix->cell_count, sizeof(*out->plans));
    out->cells = ddp_mem_array(reader->keep, matrix->cell_count, sizeof(*out->cells));
    out->axis_sizes = ddp_mem_array(reader->keep, matrix->axis_count + 1, sizeof(*out->axis_sizes));
    seen.hashes = ddp_mem_array(reader->scratch, matrix->cell_count, sizeof(*seen.hashes));
    seen.texts = ddp_mem_array(reader->scratch, matrix->cell_count, sizeof(*seen.texts));
    if (out->plans == NULL || out->cells == NULL || out->axis_sizes == NULL ||
        seen.hashes == NULL || seen.texts == NULL) {
        return ddp_err_set(reader->err, DDP_E_NOMEM, "%.200s: out of memory", reader->path);
    }
    out->axis_count = matrix->axis_count;
    for (size_t i = 0; i < matrix->axis_count; i++) {
        out->axis_sizes[i] = matrix->axes[i].values->count;
    }
    for (size_t i = 0; i < matrix->cell_count; i++) {
        struct harness_plan *plan = &out->plans[out->plan_count];
        const struct harness_yaml_node *tree = NULL;
        const char *cell = "";
        bool is_new = false;
        ddp_status status;

        memset(plan, 0, sizeof(*plan));
        plan->pool = out->pool;
        out->cells[out->plan_count] = i;
        DDP_TRY(harness_matrix_cell(reader, matrix, i, &tree, &cell));
        status = parse_plan(reader, tree, cell, purpose, plan);
        if (status == DDP_OK) {
            status = note_seen(&seen, reader->scratch, plan, &is_new);
        }
        if (status == DDP_E_NOMEM) {
            return ddp_err_set(reader->err, status, "%.200s: out of memory", reader->path);
        }
        if (status != DDP_OK && cell[0] != '\0' && reader->err != NULL) {
            struct ddp_err inner = *reader->err;

            (void)ddp_err_set(reader->err, status, "%.700s (cell %.200s)", inner.text, cell);
            return harness_yaml_one_line(reader->err, status);
        }
        DDP_TRY(status);
        out->plan_count += is_new ? 1 : 0;
    }
    return DDP_OK;
}

ddp_status harness_scenario_parse(const char *text, size_t size_bytes, const char *path,
                                  const char *const *sets, size_t set_count,
                                  struct harness_scenario *out, struct ddp_err *err)
{
    struct ddp_mem_pool *scratch = NULL;
    struct harness_reader reader = {.err = err, .path = path};
    const struct harness_yaml_node *top = NULL;
    struct harness_matrix matrix;
    struct ddp_text purpose;
    ddp_status status;

    memset(out, 0, sizeof(*out));
    if (ddp_mem_pool_create(&scratch) != DDP_OK) {
        return ddp_err_set(err, DDP_E_NOMEM, "%.200s: out of memory", path);
    }
    status = ddp_mem_pool_create(&out->pool);
    if (status != DDP_OK) {
        status = ddp_err_set(err, DDP_E_NOMEM, "%.200s: out of memory", path);
        goto out;
    }
    reader.scratch = ddp_mem_pool_mem(scratch);
    reader.keep = ddp_mem_pool_mem(out->pool);
    ddp_text_init(&purpose, reader.scratch);
    status = harness_yaml_parse(reader.scratch, text, size_bytes, path, true, &top, err);
    if (status == DDP_OK) {
        status = read_purpose(&reader, text, size_bytes, &purpose);
    }
    if (status == DDP_OK) {
        status = harness_matrix_open(&reader, top, sets, set_count, &matrix);
    }
    if (status == DDP_OK) {
        status = parse_cells(&reader, &matrix, ddp_text_str(&purpose), out);
    }
out:
    if (status != DDP_OK) {
        harness_scenario_fini(out);
    }
    ddp_mem_pool_destroy(scratch);
    return status;
}

/* The node at a dotted path, or the last one on the way. */
static const struct harness_yaml_node *walk_to(const struct harness_yaml_node *top, const char *key)
{
    const struct harness_yaml_node *node = top;

    while (*key != '\0') {
        const struct harness_yaml_node *next = NULL;
        const size_t size = strcspn(key, ".");

        for (size_t i = 0; i < node->count && next == NULL; i++) {
            char number[24];
            const char *name = number;

            (void)snprintf(number, sizeof number, "%zu", i);
            name = node->kind == HARNESS_YAML_MAP ? node->keys[i]->text : name;
            if (strlen(name) == size && strncmp(name, key, size) == 0) {
                next = node->items[i];
            }
        }
        if (next == NULL) {
            break;
        }
        node = next;
        key += size;
        key += *key == '.' ? 1 : 0;
    }
    return node;
}

ddp_status harness_scenario_locate(const char *text, size_t size_bytes,
                                   const struct harness_scenario_place *place, const char *key,
                                   struct ddp_text *out, struct ddp_err *err)
{
    struct ddp_mem_pool *scratch = NULL;
    struct harness_reader reader = {.err = err, .path = place->path};
    const struct harness_yaml_node *top = NULL;
    struct harness_matrix matrix;
    const char *name;
    ddp_status status;

    DDP_TRY(ddp_mem_pool_create(&scratch));
    reader.scratch = ddp_mem_pool_mem(scratch);
    reader.keep = reader.scratch;
    status = harness_yaml_parse(reader.scratch, text, size_bytes, place->path, true, &top, err);
    if (status == DDP_OK) {
        status = harness_matrix_open(&reader, top, place->sets, place->set_count, &matrix);
    }
    if (status == DDP_OK) {
        status = harness_matrix_cell(&reader, &matrix, place->cell, &top, &name);
    }
    if (status == DDP_OK) {
        const struct harness_yaml_node *node = walk_to(top, key);

        ddp_text_add(out, "%s", node->origin);
        if (node->line > 0) {
            ddp_text_add(out, ":%u:%u", node->line, node->column);
        }
    }
    ddp_mem_pool_destroy(scratch);
    return status;
}

size_t harness_scenario_value(const struct harness_scenario *scenario, size_t plan, size_t axis)
{
    size_t cells_below = 1;

    DDP_ASSERT(plan < scenario->plan_count && axis < scenario->axis_count);
    for (size_t i = axis + 1; i < scenario->axis_count; i++) {
        cells_below *= scenario->axis_sizes[i];
    }
    return scenario->cells[plan] / cells_below % scenario->axis_sizes[axis];
}

void harness_scenario_fini(struct harness_scenario *scenario)
{
    if (scenario->pool != NULL) {
        ddp_mem_pool_destroy(scenario->pool);
    }
    memset(scenario, 0, sizeof(*scenario));
}
