/* Changing and rendering YAML trees. A change copies the nodes along its path and shares the rest,
 * so that a matrix of many cells costs little more than its values. */
#include <stdio.h>
#include <string.h>

#include "harness/plan/yaml_text.h"
#include "harness/scenario/yaml.h"

enum { SEGMENT_BYTES_MAX = 64 };

struct setter {
    struct ddp_mem *mem;
    struct ddp_err *err;
    const struct harness_yaml_node *where;
    const struct harness_yaml_node *value;
    const char *path;
};

/* A copy of node with room for one more entry. */
static struct harness_yaml_node *copy_node(struct ddp_mem *mem,
                                           const struct harness_yaml_node *node)
{
    struct harness_yaml_node *copy = ddp_mem_array(mem, 1, sizeof(*copy));

    if (copy == NULL) {
        return NULL;
    }
    *copy = *node;
    copy->capacity = node->count + 1;
    copy->items = ddp_mem_array(mem, copy->capacity, sizeof(*copy->items));
    copy->keys = ddp_mem_array(mem, copy->capacity, sizeof(*copy->keys));
    if (copy->items == NULL || copy->keys == NULL) {
        return NULL;
    }
    if (node->count > 0) {
        memcpy(copy->items, node->items, node->count * sizeof(*copy->items));
        if (node->kind == HARNESS_YAML_MAP) {
            memcpy(copy->keys, node->keys, node->count * sizeof(*copy->keys));
        }
    }
    return copy;
}

/* Which entry of the copy a segment names: an old one, or a new key at the end. */
static ddp_status find_entry(const struct setter *setter, struct harness_yaml_node *copy,
                             const char *segment, size_t *out)
{
    uint64_t index;

    if (copy->kind == HARNESS_YAML_LIST) {
        if (ddp_text_parse_u64(segment, &index) != DDP_OK || index >= copy->count) {
            return harness_yaml_fail(setter->where, setter->err, DDP_E_INVALID,
                                     "\"%.100s\": \"%s\" is no entry of a list of %zu; they are "
                                     "counted from 0",
                                     setter->path, segment, copy->count);
        }
        *out = (size_t)index;
        return DDP_OK;
    }
    for (size_t i = 0; i < copy->count; i++) {
        if (strcmp(copy->keys[i]->text, segment) == 0) {
            *out = i;
            return DDP_OK;
        }
    }
    {
        struct harness_yaml_node *key = ddp_mem_array(setter->mem, 1, sizeof(*key));

        if (key == NULL) {
            return ddp_err_set(setter->err, DDP_E_NOMEM, "out of memory");
        }
        *key = *setter->where;
        key->kind = HARNESS_YAML_SCALAR;
        key->text = ddp_mem_strdup(setter->mem, segment);
        if (key->text == NULL) {
            return ddp_err_set(setter->err, DDP_E_NOMEM, "out of memory");
        }
        copy->keys[copy->count] = key;
        *out = copy->count++;
    }
    return DDP_OK;
}

/* The first segment of a path; *rest is NULL after the last one. */
static ddp_status split_segment(const struct setter *setter, const char *path, char *segment,
                                const char **rest)
{
    size_t size_bytes = strcspn(path, ".");

    if (size_bytes == 0 || size_bytes >= SEGMENT_BYTES_MAX) {
        return harness_yaml_fail(setter->where, setter->err, DDP_E_INVALID,
                                 "\"%.100s\" is not a dotted path such as faults.0.at.rank",
                                 setter->path);
    }
    memcpy(segment, path, size_bytes);
    segment[size_bytes] = '\0';
    *rest = path[size_bytes] == '.' ? path + size_bytes + 1 : NULL;
    return DDP_OK;
}

ddp_status harness_yaml_set(struct ddp_mem *mem, const struct harness_yaml_node *root,
                            const char *path, const struct harness_yaml_node *where,
                            const struct harness_yaml_node *value,
                            const struct harness_yaml_node **out, struct ddp_err *err)
{
    struct setter setter = {mem, err, where, value, path};
    const struct harness_yaml_node *node = root;
    const struct harness_yaml_node **slot = out;
    const char *rest = path;

    for (size_t depth = 0; rest != NULL; depth++) {
        struct harness_yaml_node empty_map = *where;
        char segment[SEGMENT_BYTES_MAX] = "";
        struct harness_yaml_node *copy;
        size_t entry = 0;

        empty_map.kind = HARNESS_YAML_MAP;
        empty_map.text = NULL;
        empty_map.count = 0;
        DDP_TRY(split_segment(&setter, rest, segment, &rest));
        if (depth == HARNESS_YAML_DEPTH_MAX ||
            (node != NULL && node->kind == HARNESS_YAML_SCALAR)) {
            return harness_yaml_fail(where, err, DDP_E_INVALID,
                                     "\"%.100s\" goes into a plain value at \"%s\"", path, segment);
        }
        if (node == NULL && segment[0] >= '0' && segment[0] <= '9') {
            return harness_yaml_fail(where, err, DDP_E_INVALID,
                                     "\"%.100s\" names entry %s of a list that is not there", path,
                                     segment);
        }
        copy = copy_node(mem, node == NULL ? &empty_map : node);
        if (copy == NULL) {
            return ddp_err_set(err, DDP_E_NOMEM, "out of memory");
        }
        DDP_TRY(find_entry(&setter, copy, segment, &entry));
        *slot = copy;
        node = copy->items[entry];
        slot = &copy->items[entry];
    }
    *slot = value;
    return DDP_OK;
}

/* Recursion is bounded by the depth that the parser allows. */
void harness_yaml_print(const struct harness_yaml_node *node, struct ddp_text *out)
{
    bool is_map = node->kind == HARNESS_YAML_MAP;

    if (node->kind == HARNESS_YAML_SCALAR && node->is_quoted) {
        harness_plan_print_text(node->text, out);
        return;
    }
    if (node->kind == HARNESS_YAML_SCALAR) {
        ddp_text_add(out, "%s", node->text);
        return;
    }
    ddp_text_add(out, is_map ? "{" : "[");
    for (size_t i = 0; i < node->count; i++) {
        ddp_text_add(out, i == 0 ? "" : ", ");
        if (is_map) {
            harness_plan_print_text(node->keys[i]->text, out);
            ddp_text_add(out, ": ");
        }
        harness_yaml_print(node->items[i], out);
    }
    ddp_text_add(out, is_map ? "}" : "]");
}
