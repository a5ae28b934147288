/* What all readers of values need: refusals with their place, names, memory. */
#include "harness/scenario/reader.h"

#include <stdio.h>
#include <string.h>

enum { NAMES_MAX = 128, LISTED_MAX = 16, NOT_BYTES_MAX = 80 };

const struct harness_yaml_node *harness_reader_node(const struct harness_yaml_node *map,
                                                    enum harness_row row)
{
    return harness_yaml_get(map, harness_key(row)->key);
}

ddp_status harness_reader_out_of_memory(const struct harness_reader *reader)
{
    return ddp_err_set(reader->err, DDP_E_NOMEM, "%.200s: out of memory", reader->path);
}

ddp_status harness_reader_keep(const struct harness_reader *reader, const char *text,
                               const char **out)
{
    *out = NULL;
    if (text == NULL) {
        return DDP_OK;
    }
    *out = ddp_mem_strdup(reader->keep, text);
    return *out == NULL ? harness_reader_out_of_memory(reader) : DDP_OK;
}

/* What stands there instead, for messages. */
static const char *describe(const struct harness_yaml_node *node, char buffer[NOT_BYTES_MAX])
{
    if (node->kind != HARNESS_YAML_SCALAR) {
        return node->kind == HARNESS_YAML_LIST ? "a list" : "a map";
    }
    if (node->text[0] == '\0' && !node->is_quoted) {
        return "nothing";
    }
    (void)snprintf(buffer, NOT_BYTES_MAX, "%s\"%.60s\"", node->is_quoted ? "the quoted text " : "",
                   node->text);
    return buffer;
}

ddp_status harness_reader_refuse(const struct harness_reader *reader, const struct harness_key *key,
                                 const struct harness_yaml_node *node, const char *wanted)
{
    char buffer[NOT_BYTES_MAX];

    return harness_yaml_fail(node, reader->err, DDP_E_PARSE, "%s wants %s, not %s", key->key,
                             wanted, describe(node, buffer));
}

ddp_status harness_reader_refuse_name(const struct harness_reader *reader,
                                      const struct harness_yaml_node *node, const char *what,
                                      const char *const *all, size_t count)
{
    const char *near = ddp_text_nearest(node->text, all, count);
    struct ddp_text listed;
    ddp_status status;

    if (near != NULL) {
        return harness_yaml_fail(node, reader->err, DDP_E_PARSE,
                                 "unknown %s \"%.60s\"; did you mean \"%s\"?", what, node->text,
                                 near);
    }
    ddp_text_init(&listed, reader->scratch);
    for (size_t i = 0; i < count && i < LISTED_MAX; i++) {
        ddp_text_add(&listed, "%s%s", i == 0 ? "" : ", ", all[i]);
    }
    status = harness_yaml_fail(node, reader->err, DDP_E_PARSE,
                               "unknown %s \"%.60s\"; there are: %s%s", what, node->text,
                               ddp_text_str(&listed), count > LISTED_MAX ? ", ..." : "");
    ddp_text_fini(&listed);
    return status;
}

ddp_status harness_reader_find(const struct harness_reader *reader,
                               const struct harness_yaml_node *node, enum harness_names list,
                               size_t *out_index, int *out_value)
{
    const char *all[NAMES_MAX];
    const char *name;
    size_t count = 0;

    for (; (name = harness_names_at(list, count, out_value)) != NULL; count++) {
        DDP_ASSERT(count < NAMES_MAX);
        all[count] = name;
        if (strcmp(name, node->text) == 0) {
            *out_index = count;
            return DDP_OK;
        }
    }
    return harness_reader_refuse_name(reader, node, harness_names_what(list), all, count);
}
