/* YAML text to a tree of nodes, by libfyaml's events. Only structure is judged here: what keys and
 * values mean is read later (read.c). Everything that could make two people read a file
 * differently (aliases, tags, second documents, duplicate keys) is refused with its position. */
#include "harness/scenario/yaml.h"

#include <libfyaml.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct builder {
    struct ddp_mem *mem;
    struct ddp_err *err;
    const char *origin;
    bool has_lines;
    bool is_done; /* the document's root is complete */
    struct harness_yaml_node *open[HARNESS_YAML_DEPTH_MAX];
    const struct harness_yaml_node *key[HARNESS_YAML_DEPTH_MAX]; /* waiting for its value */
    size_t depth;
    struct harness_yaml_node *root;
    struct harness_yaml_node last; /* the latest position, for events without one */
};

ddp_status harness_yaml_fail(const struct harness_yaml_node *node, struct ddp_err *err,
                             ddp_status status, const char *format, ...)
{
    char message[768];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    if (node->line == 0) {
        (void)ddp_err_set(err, status, "%.200s: %s", node->origin, message);
    } else {
        (void)ddp_err_set(err, status, "%.200s:%u:%u: %s", node->origin, node->line, node->column,
                          message);
    }
    return harness_yaml_one_line(err, status);
}

ddp_status harness_yaml_one_line(struct ddp_err *err, ddp_status status)
{
    for (char *c = err == NULL ? NULL : err->text; c != NULL && *c != '\0'; c++) {
        if ((unsigned char)*c < 0x20) {
            *c = ' ';
        }
    }
    return status;
}

static ddp_status grow(struct ddp_mem *mem, struct harness_yaml_node *node, struct ddp_err *err)
{
    size_t capacity = node->capacity == 0 ? 8 : node->capacity * 2;
    const struct harness_yaml_node **items = ddp_mem_array(mem, capacity, sizeof(*items));
    const struct harness_yaml_node **keys = NULL;

    if (node->kind == HARNESS_YAML_MAP) {
        keys = ddp_mem_array(mem, capacity, sizeof(*keys));
    }
    if (items == NULL || (node->kind == HARNESS_YAML_MAP && keys == NULL)) {
        return ddp_err_set(err, DDP_E_NOMEM, "%.200s: out of memory", node->origin);
    }
    if (node->count > 0) {
        memcpy(items, node->items, node->count * sizeof(*items));
        if (keys != NULL) {
            memcpy(keys, node->keys, node->count * sizeof(*keys));
        }
    }
    node->items = items;
    node->keys = keys;
    node->capacity = capacity;
    return DDP_OK;
}

/* key: of a map, else NULL. */
static ddp_status append(struct ddp_mem *mem, struct harness_yaml_node *parent,
                         const struct harness_yaml_node *key, const struct harness_yaml_node *node,
                         struct ddp_err *err)
{
    if (parent->count == parent->capacity) {
        DDP_TRY(grow(mem, parent, err));
    }
    parent->items[parent->count] = node;
    if (key != NULL) {
        DDP_ASSERT(parent->keys != NULL);
        parent->keys[parent->count] = key;
    }
    parent->count++;
    return DDP_OK;
}

const struct harness_yaml_node *harness_yaml_get(const struct harness_yaml_node *map,
                                                 const char *key)
{
    if (map == NULL || map->kind != HARNESS_YAML_MAP) {
        return NULL;
    }
    for (size_t i = 0; i < map->count; i++) {
        if (strcmp(map->keys[i]->text, key) == 0) {
            return map->items[i];
        }
    }
    return NULL;
}

/* Remember the position of an event; some events have none. */
static void note_mark(struct builder *builder, const struct fy_mark *mark)
{
    if (mark != NULL && builder->has_lines) {
        builder->last.line = (uint32_t)mark->line + 1;
        builder->last.column = (uint32_t)mark->column + 1;
    }
}

/* libfyaml reports an anchor, alias or quoted text at the first letter behind its sign (& * " ').
 * An error shall point to the sign. */
static void step_back(struct builder *builder)
{
    builder->last.column -= builder->last.column > 1 ? 1 : 0;
}

static ddp_status refuse_decoration(struct builder *builder, struct fy_event *event)
{
    struct fy_token *anchor = fy_event_get_anchor_token(event);
    struct fy_token *tag = fy_event_get_tag_token(event);

    if (anchor != NULL) {
        note_mark(builder, fy_token_start_mark(anchor));
        step_back(builder);
        return harness_yaml_fail(&builder->last, builder->err, DDP_E_PARSE,
                                 "anchors are not used in scenarios; write the value out");
    }
    if (tag != NULL) {
        note_mark(builder, fy_token_start_mark(tag));
        return harness_yaml_fail(&builder->last, builder->err, DDP_E_PARSE,
                                 "tags are not used in scenarios; write the value without '!'");
    }
    return DDP_OK;
}

static bool is_in_quotes(struct fy_token *token)
{
    enum fy_scalar_style style = token == NULL ? FYSS_PLAIN : fy_token_scalar_style(token);

    return style == FYSS_SINGLE_QUOTED || style == FYSS_DOUBLE_QUOTED;
}

static ddp_status make_node(struct builder *builder, struct fy_event *event,
                            struct harness_yaml_node **out)
{
    struct harness_yaml_node *node = ddp_mem_array(builder->mem, 1, sizeof(*node));

    if (node == NULL) {
        return ddp_err_set(builder->err, DDP_E_NOMEM, "%.200s: out of memory", builder->origin);
    }
    *node = builder->last;
    if (event->type == FYET_SCALAR) {
        size_t size_bytes = 0;
        struct fy_token *token = event->scalar.value;
        const char *bytes = token == NULL ? NULL : fy_token_get_text(token, &size_bytes);
        char *copy = ddp_mem_array(builder->mem, size_bytes + 1, 1);

        if (copy == NULL) {
            return ddp_err_set(builder->err, DDP_E_NOMEM, "%.200s: out of memory", builder->origin);
        }
        if (bytes != NULL) {
            memcpy(copy, bytes, size_bytes);
        }
        if (strlen(copy) != size_bytes) {
            return harness_yaml_fail(&builder->last, builder->err, DDP_E_PARSE,
                                     "text holds a NUL character; remove it");
        }
        node->kind = HARNESS_YAML_SCALAR;
        node->text = copy;
        node->is_quoted = token != NULL && fy_token_scalar_style(token) != FYSS_PLAIN;
    } else {
        node->kind = event->type == FYET_MAPPING_START ? HARNESS_YAML_MAP : HARNESS_YAML_LIST;
    }
    *out = node;
    return DDP_OK;
}

/* Put a complete or just opened node where it belongs. */
static ddp_status place(struct builder *builder, struct harness_yaml_node *node)
{
    struct harness_yaml_node *parent;
    size_t top;

    if (builder->depth == 0) {
        builder->root = node;
        return DDP_OK;
    }
    top = builder->depth - 1;
    parent = builder->open[top];
    if (parent->kind == HARNESS_YAML_LIST) {
        return append(builder->mem, parent, NULL, node, builder->err);
    }
    if (builder->key[top] == NULL) {
        if (node->kind != HARNESS_YAML_SCALAR) {
            return harness_yaml_fail(node, builder->err, DDP_E_PARSE,
                                     "a key must be text, not a list or a map");
        }
        if (harness_yaml_get(parent, node->text) != NULL) {
            return harness_yaml_fail(node, builder->err, DDP_E_PARSE,
                                     "the key \"%.100s\" appears twice; keep one of them",
                                     node->text);
        }
        builder->key[top] = node;
        return DDP_OK;
    }
    DDP_TRY(append(builder->mem, parent, builder->key[top], node, builder->err));
    builder->key[top] = NULL;
    return DDP_OK;
}

static ddp_status take_event(struct builder *builder, struct fy_event *event)
{
    struct harness_yaml_node *node = NULL;

    note_mark(builder, fy_event_start_mark(event));
    switch (event->type) {
    case FYET_DOCUMENT_START:
        if (builder->is_done) {
            return harness_yaml_fail(&builder->last, builder->err, DDP_E_PARSE,
                                     "a second document starts here; one file is one scenario");
        }
        return DDP_OK;
    case FYET_DOCUMENT_END:
        builder->is_done = true;
        return DDP_OK;
    case FYET_ALIAS:
        step_back(builder);
        return harness_yaml_fail(&builder->last, builder->err, DDP_E_PARSE,
                                 "aliases are not used in scenarios; write the value out");
    case FYET_SCALAR:
        DDP_TRY(refuse_decoration(builder, event));
        if (is_in_quotes(event->scalar.value)) {
            step_back(builder);
        }
        DDP_TRY(make_node(builder, event, &node));
        return place(builder, node);
    case FYET_MAPPING_START:
    case FYET_SEQUENCE_START:
        DDP_TRY(refuse_decoration(builder, event));
        if (builder->depth == HARNESS_YAML_DEPTH_MAX) {
            return harness_yaml_fail(&builder->last, builder->err, DDP_E_PARSE,
                                     "nested deeper than %d levels; no key needs that",
                                     HARNESS_YAML_DEPTH_MAX);
        }
        DDP_TRY(make_node(builder, event, &node));
        DDP_TRY(place(builder, node));
        builder->open[builder->depth] = node;
        builder->key[builder->depth] = NULL;
        builder->depth++;
        return DDP_OK;
    case FYET_MAPPING_END:
    case FYET_SEQUENCE_END:
        DDP_ASSERT(builder->depth > 0);
        builder->depth--;
        return DDP_OK;
    default:
        return DDP_OK;
    }
}

/* The first error that libfyaml reported, as one line. */
static ddp_status report_syntax(struct builder *builder, struct fy_diag *diag)
{
    void *cursor = NULL;
    const struct fy_diag_error *found = fy_diag_errors_iterate(diag, &cursor);

    if (found == NULL || found->msg == NULL) {
        return harness_yaml_fail(&builder->last, builder->err, DDP_E_PARSE,
                                 "this is not YAML; check quotes, brackets and indentation");
    }
    if (builder->has_lines && found->line > 0) {
        builder->last.line = (uint32_t)found->line;
        builder->last.column = (uint32_t)(found->column > 0 ? found->column : 1);
    }
    return harness_yaml_fail(&builder->last, builder->err, DDP_E_PARSE, "not YAML: %s", found->msg);
}

/* Bytes that YAML forbids and libfyaml may let through; UTF-8 itself is checked by libfyaml.
 * Directives are refused because nothing here needs them and some make libfyaml 0.7 spin. */
static ddp_status check_bytes(struct builder *builder, const char *text, size_t size_bytes)
{
    struct harness_yaml_node at = builder->last;

    if (size_bytes > HARNESS_YAML_BYTES_MAX) {
        return ddp_err_set(builder->err, DDP_E_PARSE,
                           "%.200s: %zu bytes; a scenario has at most %u", builder->origin,
                           size_bytes, HARNESS_YAML_BYTES_MAX);
    }
    if (size_bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
        return harness_yaml_fail(&at, builder->err, DDP_E_PARSE,
                                 "the file starts with a byte order mark; remove it");
    }
    for (size_t i = 0; i < size_bytes; i++) {
        unsigned char byte = (unsigned char)text[i];

        if ((byte < 0x20 && byte != '\n' && byte != '\r' && byte != '\t') || byte == 0x7f) {
            return harness_yaml_fail(&at, builder->err, DDP_E_PARSE,
                                     "control character 0x%02x; remove it", byte);
        }
        if (byte == '%' && (i == 0 || text[i - 1] == '\n' || text[i - 1] == '\r')) {
            return harness_yaml_fail(&at, builder->err, DDP_E_PARSE,
                                     "a line that starts with %% is a YAML directive; scenarios "
                                     "need none");
        }
        at.column++;
        if (byte == '\n' && builder->has_lines) {
            at.line++;
            at.column = 1;
        }
    }
    return DDP_OK;
}

static ddp_status take_all(struct builder *builder, struct fy_parser *parser, struct fy_diag *diag)
{
    struct fy_event *event;

    while ((event = fy_parser_parse(parser)) != NULL) {
        ddp_status status = take_event(builder, event);
        bool is_end = event->type == FYET_STREAM_END;

        fy_parser_event_free(parser, event);
        DDP_TRY(status);
        if (is_end) {
            break;
        }
    }
    if (fy_parser_get_stream_error(parser) || fy_diag_got_error(diag)) {
        return report_syntax(builder, diag);
    }
    if (builder->root == NULL) {
        return harness_yaml_fail(&builder->last, builder->err, DDP_E_PARSE,
                                 "nothing is here but comments; a scenario starts with id:");
    }
    return DDP_OK;
}

ddp_status harness_yaml_parse(struct ddp_mem *mem, const char *text, size_t size_bytes,
                              const char *origin, bool has_lines,
                              const struct harness_yaml_node **out, struct ddp_err *err)
{
    struct fy_parse_cfg config;
    struct builder builder;
    struct fy_parser *parser = NULL;
    struct fy_diag *diag = NULL;
    ddp_status status;

    memset(&config, 0, sizeof(config));
    memset(&builder, 0, sizeof(builder));
    builder.mem = mem;
    builder.err = err;
    builder.origin = origin;
    builder.has_lines = has_lines;
    builder.last.origin = origin;
    builder.last.line = has_lines ? 1 : 0;
    builder.last.column = 1;
    status = check_bytes(&builder, text, size_bytes);
    if (status != DDP_OK) {
        return status;
    }
    diag = fy_diag_create(NULL);
    if (diag == NULL) {
        return ddp_err_set(err, DDP_E_NOMEM, "%.200s: out of memory", origin);
    }
    fy_diag_set_collect_errors(diag, true);
    config.flags = FYPCF_QUIET | FYPCF_COLLECT_DIAG | FYPCF_DEFAULT_VERSION_1_2;
    config.diag = diag;
    parser = fy_parser_create(&config);
    if (parser == NULL || fy_parser_set_string(parser, text, size_bytes) != 0) {
        status = ddp_err_set(err, DDP_E_NOMEM, "%.200s: the YAML parser did not start", origin);
        goto out;
    }
    status = take_all(&builder, parser, diag);
    *out = builder.root;
out:
    fy_parser_destroy(parser);
    fy_diag_destroy(diag);
    return status;
}
