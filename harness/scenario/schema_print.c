/* The rows as a JSON Schema and as Markdown. Names of other layers (models, algorithms) are left
 * open in the schema: it must not depend on what one build contains. */
#include <string.h>

#include "harness/scenario/schema.h"

static void print_range(const struct harness_schema_row *row, const char *type,
                        struct ddp_text *out)
{
    ddp_text_add(out, "\"type\": \"%s\", \"minimum\": %.17g, \"maximum\": %.17g", type, row->lo,
                 row->hi);
}

/* {"enum": [...]} of a list of names, or any text if the list is not this layer's. */
static void print_enum(const struct harness_schema_row *row, struct ddp_text *out)
{
    enum harness_names list = (enum harness_names)row->of;
    const char *name;

    if (!harness_names_is_known(NULL, list)) {
        ddp_text_add(out, "\"type\": \"string\"");
        return;
    }
    ddp_text_add(out, "\"enum\": [");
    for (size_t i = 0; (name = harness_names_at(NULL, list, i)) != NULL; i++) {
        ddp_text_add(out, "%s\"%s\"", i == 0 ? "" : ", ", name);
    }
    ddp_text_add(out, "]");
}

static void print_reference(const struct harness_schema_row *row, struct ddp_text *out)
{
    ddp_text_add(out, "\"$ref\": \"#/$defs/%s\"",
                 harness_section_title((enum harness_section)row->of));
}

static void print_budgets(const struct harness_schema_row *row, struct ddp_text *out)
{
    ddp_text_add(out, "\"type\": \"object\", \"propertyNames\": {");
    print_enum(row, out);
    ddp_text_add(out, "}, \"additionalProperties\": {");
    print_range(row, "integer", out);
    ddp_text_add(out, "}");
}

/* {"anyOf": [{range}, <other>]} */
static void print_range_or(const struct harness_schema_row *row, const char *other,
                           struct ddp_text *out)
{
    ddp_text_add(out, "\"anyOf\": [{");
    print_range(row, "integer", out);
    ddp_text_add(out, "}, %s]", other);
}

static void print_list(const struct harness_schema_row *row,
                       void (*print_entry)(const struct harness_schema_row *row,
                                           struct ddp_text *out),
                       struct ddp_text *out)
{
    ddp_text_add(out, "\"type\": \"array\", \"items\": {");
    print_entry(row, out);
    ddp_text_add(out, "}");
}

static void print_text_type(const struct harness_schema_row *row, struct ddp_text *out)
{
    (void)row;
    ddp_text_add(out, "\"type\": \"string\", \"minLength\": 1");
}

static void print_int_type(const struct harness_schema_row *row, struct ddp_text *out)
{
    print_range(row, "integer", out);
}

static void print_rank_type(const struct harness_schema_row *row, struct ddp_text *out)
{
    print_range_or(row, "{\"enum\": [\"first\", \"middle\", \"last\"]}", out);
}

static void print_list_or(const struct harness_schema_row *row, const char *other,
                          void (*print_entry)(const struct harness_schema_row *row,
                                              struct ddp_text *out),
                          struct ddp_text *out)
{
    ddp_text_add(out, "\"anyOf\": [");
    ddp_text_add(out, "%s, {", other);
    print_list(row, print_entry, out);
    ddp_text_add(out, "}]");
}

static void print_type(const struct harness_schema_row *row, struct ddp_text *out)
{
    switch (row->type) {
    case HARNESS_KEY_TEXT:
        print_text_type(row, out);
        break;
    case HARNESS_KEY_NAME:
        print_enum(row, out);
        break;
    case HARNESS_KEY_INT:
        print_int_type(row, out);
        break;
    case HARNESS_KEY_U64:
        ddp_text_add(out, "\"type\": \"integer\", \"minimum\": 0");
        break;
    case HARNESS_KEY_NUMBER:
        print_range(row, "number", out);
        break;
    case HARNESS_KEY_BOOL:
        ddp_text_add(out, "\"type\": \"boolean\"");
        break;
    case HARNESS_KEY_TRUE:
        ddp_text_add(out, "\"const\": true");
        break;
    case HARNESS_KEY_SCALAR:
        ddp_text_add(out, "\"type\": [\"number\", \"string\"]");
        break;
    case HARNESS_KEY_RANK:
        print_rank_type(row, out);
        break;
    case HARNESS_KEY_INT_OR_FOREVER:
        print_range_or(row, "{\"const\": \"forever\"}", out);
        break;
    case HARNESS_KEY_TEXTS:
        print_list(row, print_text_type, out);
        break;
    case HARNESS_KEY_NAME_LIST:
        print_list(row, print_enum, out);
        break;
    case HARNESS_KEY_INTS:
        print_list(row, print_int_type, out);
        break;
    case HARNESS_KEY_INT_OR_INTS:
        print_list_or(row, "{\"type\": \"integer\"}", print_int_type, out);
        break;
    case HARNESS_KEY_CULPRIT:
        print_list_or(row, "{\"enum\": [\"injected\", \"all\", \"none\"]}", print_rank_type, out);
        break;
    case HARNESS_KEY_BUDGETS:
        print_budgets(row, out);
        break;
    case HARNESS_KEY_SECTION:
        print_reference(row, out);
        break;
    case HARNESS_KEY_SECTIONS:
        print_list(row, print_reference, out);
        break;
    default:
        ddp_text_add(out, "\"type\": \"object\", \"additionalProperties\": {\"type\": \"array\", "
                          "\"minItems\": 1}");
        break;
    }
}

/* The body of one section: properties, which are required, nothing else. */
static void print_section(enum harness_section section, const char *indent, struct ddp_text *out)
{
    const char *separator = "";

    ddp_text_add(out, "%s\"type\": \"object\",\n%s\"additionalProperties\": false,\n", indent,
                 indent);
    ddp_text_add(out, "%s\"properties\": {", indent);
    for (unsigned i = 0; i < HARNESS_ROW_COUNT; i++) {
        const struct harness_schema_row *row = harness_schema_row((enum harness_row)i);

        if (row->section != section) {
            continue;
        }
        ddp_text_add(out, "%s\n%s  \"%s\": {\"description\": \"%s\", ", separator, indent, row->key,
                     row->doc);
        print_type(row, out);
        ddp_text_add(out, "}");
        separator = ",";
    }
    ddp_text_add(out, "\n%s},\n%s\"required\": [", indent, indent);
    separator = "";
    for (unsigned i = 0; i < HARNESS_ROW_COUNT; i++) {
        const struct harness_schema_row *row = harness_schema_row((enum harness_row)i);

        if (row->section == section && row->is_required) {
            ddp_text_add(out, "%s\"%s\"", separator, row->key);
            separator = ", ";
        }
    }
    ddp_text_add(out, "]");
}

void harness_scenario_schema(struct ddp_text *out)
{
    ddp_text_add(out, "{\n  \"$schema\": \"https://json-schema.org/draft/2020-12/schema\",\n"
                      "  \"title\": \"ddprove scenario\",\n");
    print_section(HARNESS_SECTION_TOP, "  ", out);
    ddp_text_add(out, ",\n  \"$defs\": {");
    for (unsigned i = HARNESS_SECTION_TOP + 1; i < HARNESS_SECTION_COUNT; i++) {
        enum harness_section section = (enum harness_section)i;

        ddp_text_add(out, "%s\n    \"%s\": {\n", i == HARNESS_SECTION_TOP + 1 ? "" : ",",
                     harness_section_title(section));
        print_section(section, "      ", out);
        ddp_text_add(out, "\n    }");
    }
    ddp_text_add(out, "\n  }\n}\n");
}

void harness_scenario_keys(struct ddp_text *out)
{
    for (unsigned s = 0; s < HARNESS_SECTION_COUNT; s++) {
        enum harness_section section = (enum harness_section)s;

        ddp_text_add(out, "%s### %s\n\n| key | value | default | meaning |\n|---|---|---|---|\n",
                     s == 0 ? "" : "\n", harness_section_title(section));
        for (unsigned i = 0; i < HARNESS_ROW_COUNT; i++) {
            const struct harness_schema_row *row = harness_schema_row((enum harness_row)i);
            const char *fallback = row->fallback;

            if (row->section != section) {
                continue;
            }
            if (row->is_required) {
                fallback = "required";
            }
            ddp_text_add(out, "| `%s` | %s | %s%s%s | %s |\n", row->key,
                         harness_key_type_text(row->type), fallback[0] == '\0' ? "" : "`", fallback,
                         fallback[0] == '\0' ? "" : "`", row->doc);
        }
    }
}
