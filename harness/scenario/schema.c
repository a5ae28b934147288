/* The rows as a table, and typed access by row. Access functions trust that the tree passed
 * harness_schema_check; a default is read from the row by the same code as a value. */
#include "harness/scenario/schema.h"

#include <string.h>

#define S(section) (int)HARNESS_SECTION_##section
#define N(list)    (int)HARNESS_NAMES_##list

static const struct harness_schema_row rows[HARNESS_ROW_COUNT] = {
#define X(section, key, type, of, lo, hi, required, fallback, doc) \
    {HARNESS_SECTION_##section, HARNESS_KEY_##type, of, required, #key, lo, hi, fallback, doc},
#include "harness/scenario/schema.def"
#undef X
};

const struct harness_schema_row *harness_schema_row(enum harness_row row)
{
    DDP_ASSERT((unsigned)row < HARNESS_ROW_COUNT);
    return &rows[row];
}

const char *harness_section_title(enum harness_section section)
{
    static const char *const titles[HARNESS_SECTION_COUNT] = {
#define X(id, title) title,
        HARNESS_SECTION_TABLE(X)
#undef X
    };

    return titles[section];
}

const char *harness_key_type_text(enum harness_key_type type)
{
    static const char *const texts[HARNESS_KEY_TYPE_COUNT] = {
#define X(id, text) text,
        HARNESS_KEY_TYPE_TABLE(X)
#undef X
    };

    return texts[type];
}

/* A plain scalar with the text of a row's default. */
static struct harness_yaml_node fallback_node(const struct harness_schema_row *row)
{
    struct harness_yaml_node node;

    memset(&node, 0, sizeof(node));
    node.kind = HARNESS_YAML_SCALAR;
    node.origin = row->key;
    node.text = row->fallback;
    return node;
}

const struct harness_yaml_node *harness_schema_node(const struct harness_yaml_node *map,
                                                    enum harness_row row)
{
    return harness_yaml_get(map, harness_schema_row(row)->key);
}

int64_t harness_schema_int(const struct harness_yaml_node *map, enum harness_row row)
{
    struct harness_yaml_node fallback = fallback_node(harness_schema_row(row));
    const struct harness_yaml_node *node = harness_schema_node(map, row);
    int64_t value = 0;

    DDP_ASSERT(harness_schema_is_int(node == NULL ? &fallback : node, &value));
    return value;
}

int64_t harness_schema_optional(const struct harness_yaml_node *map, enum harness_row row)
{
    return harness_schema_node(map, row) == NULL ? -1 : harness_schema_int(map, row);
}

uint64_t harness_schema_u64(const struct harness_yaml_node *map, enum harness_row row)
{
    const struct harness_yaml_node *node = harness_schema_node(map, row);
    const char *text = node == NULL ? harness_schema_row(row)->fallback : node->text;
    uint64_t value = 0;

    DDP_ASSERT(ddp_text_parse_u64(text, &value) == DDP_OK);
    return value;
}

double harness_schema_number(const struct harness_yaml_node *map, enum harness_row row)
{
    struct harness_yaml_node fallback = fallback_node(harness_schema_row(row));
    const struct harness_yaml_node *node = harness_schema_node(map, row);
    double value = 0;

    DDP_ASSERT(harness_schema_is_number(node == NULL ? &fallback : node, &value));
    return value;
}

bool harness_schema_bool(const struct harness_yaml_node *map, enum harness_row row)
{
    return strcmp(harness_schema_text(map, row), "true") == 0;
}

const char *harness_schema_text(const struct harness_yaml_node *map, enum harness_row row)
{
    const struct harness_yaml_node *node = harness_schema_node(map, row);

    if (node != NULL) {
        return node->text;
    }
    return harness_schema_row(row)->fallback[0] == '\0' ? NULL : harness_schema_row(row)->fallback;
}

int64_t harness_schema_name(const struct harness_reader *reader,
                            const struct harness_yaml_node *map, enum harness_row row)
{
    const char *text = harness_schema_text(map, row);
    enum harness_names list = (enum harness_names)harness_schema_row(row)->of;
    const char *name;

    if (text == NULL) {
        return -1;
    }
    for (size_t i = 0; (name = harness_names_at(reader->names, list, i)) != NULL; i++) {
        if (strcmp(name, text) == 0) {
            return (int64_t)i;
        }
    }
    return -1;
}
