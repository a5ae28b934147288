/* The keys as a JSON Schema and as Markdown. */
#include "harness/plan/key.h"
#include "harness/scenario/scenario.h"
#include "reference/data.h"
#include "reference/model.h"

static void print_range(const struct harness_key *key, const char *type, struct ddp_text *out)
{
    ddp_text_add(out, "\"type\": \"%s\", \"minimum\": %.17g, \"maximum\": %.17g", type, key->lo,
                 key->hi);
}

/* {"enum": [...]} of a list of names. */
static void print_enum(const struct harness_key *key, struct ddp_text *out)
{
    const char *name;

    ddp_text_add(out, "\"enum\": [");
    for (size_t i = 0; (name = harness_names_at((enum harness_names)key->of, i, NULL)) != NULL;
         i++) {
        ddp_text_add(out, "%s\"%s\"", i == 0 ? "" : ", ", name);
    }
    ddp_text_add(out, "]");
}

static void print_known(const char *const *known, struct ddp_text *out)
{
    ddp_text_add(out, "\"enum\": [");
    for (size_t i = 0; known[i] != NULL; i++) {
        ddp_text_add(out, "%s\"%s\"", i == 0 ? "" : ", ", known[i]);
    }
    ddp_text_add(out, "]");
}

static void print_reference(const struct harness_key *key, struct ddp_text *out)
{
    ddp_text_add(out, "\"$ref\": \"#/$defs/%s\"",
                 harness_section_title((enum harness_section)key->of));
}

static void print_budgets(const struct harness_key *key, struct ddp_text *out)
{
    ddp_text_add(out, "\"type\": \"object\", \"propertyNames\": {");
    print_enum(key, out);
    ddp_text_add(out, "}, \"additionalProperties\": {");
    print_range(key, "integer", out);
    ddp_text_add(out, "}");
}

/* {"anyOf": [{range}, <other>]} */
static void print_range_or(const struct harness_key *key, const char *other, struct ddp_text *out)
{
    ddp_text_add(out, "\"anyOf\": [{");
    print_range(key, "integer", out);
    ddp_text_add(out, "}, %s]", other);
}

static void print_list(const struct harness_key *key,
                       void (*print_entry)(const struct harness_key *key, struct ddp_text *out),
                       struct ddp_text *out)
{
    ddp_text_add(out, "\"type\": \"array\", \"items\": {");
    print_entry(key, out);
    ddp_text_add(out, "}");
}

static void print_text_type(const struct harness_key *key, struct ddp_text *out)
{
    (void)key;
    ddp_text_add(out, "\"type\": \"string\", \"minLength\": 1");
}

static void print_int_type(const struct harness_key *key, struct ddp_text *out)
{
    print_range(key, "integer", out);
}

static void print_rank_type(const struct harness_key *key, struct ddp_text *out)
{
    (void)key;
    ddp_text_add(out, "\"anyOf\": [{\"type\": \"integer\", \"minimum\": 0}, {\"enum\": "
                      "[\"first\", \"middle\", \"last\"]}]");
}

/* Lists, or a table of names in the place of one. */
static void print_matrix(struct ddp_text *out)
{
    ddp_text_add(out, "\"type\": \"object\", \"additionalProperties\": {\"anyOf\": [{\"type\": "
                      "\"array\", \"minItems\": 1}, {\"enum\": [");
    for (unsigned i = 0; i < HARNESS_AXIS_COUNT; i++) {
        ddp_text_add(out, "%s\"%s\"", i == 0 ? "" : ", ", harness_axis_word((enum harness_axis)i));
    }
    ddp_text_add(out, "]}]}");
}

static void print_list_or(const struct harness_key *key, const char *other,
                          void (*print_entry)(const struct harness_key *key, struct ddp_text *out),
                          struct ddp_text *out)
{
    ddp_text_add(out, "\"anyOf\": [");
    ddp_text_add(out, "%s, {", other);
    print_list(key, print_entry, out);
    ddp_text_add(out, "}]");
}

static void print_list_type(const struct harness_key *key, struct ddp_text *out)
{
    switch (key->type) {
    case HARNESS_KEY_TEXTS:
        print_list(key, print_text_type, out);
        break;
    case HARNESS_KEY_NAMES:
    case HARNESS_KEY_SET:
        print_list(key, print_enum, out);
        break;
    case HARNESS_KEY_SIZES:
        print_list(key, print_int_type, out);
        break;
    case HARNESS_KEY_PER_RANK:
        print_list_or(key, "{\"type\": \"integer\"}", print_int_type, out);
        break;
    case HARNESS_KEY_CULPRIT:
        print_list_or(key, "{\"enum\": [\"injected\", \"all\", \"none\"]}", print_rank_type, out);
        break;
    case HARNESS_KEY_VICTIMS:
        print_list_or(key, "{\"enum\": [\"others\", \"none\"]}", print_rank_type, out);
        break;
    case HARNESS_KEY_FAULTS:
    case HARNESS_KEY_FINDINGS:
        print_list(key, print_reference, out);
        break;
    case HARNESS_KEY_BUDGETS:
        print_budgets(key, out);
        break;
    case HARNESS_KEY_MATRIX:
        print_matrix(out);
        break;
    default:
        print_reference(key, out);
        break;
    }
}

static void print_type(const struct harness_key *key, struct ddp_text *out)
{
    switch (key->type) {
    case HARNESS_KEY_TEXT:
        print_text_type(key, out);
        break;
    case HARNESS_KEY_MODEL:
        print_known(ref_model_names(), out);
        break;
    case HARNESS_KEY_DATASET:
        print_known(ref_data_names(), out);
        break;
    case HARNESS_KEY_NAME:
        print_enum(key, out);
        break;
    case HARNESS_KEY_COLLECTIVE:
        ddp_text_add(out, "\"anyOf\": [{");
        print_enum(key, out);
        ddp_text_add(out, "}, {\"type\": \"string\", \"pattern\": \"^[./]\"}]");
        break;
    case HARNESS_KEY_INT:
    case HARNESS_KEY_INDEX:
    case HARNESS_KEY_MS:
        print_int_type(key, out);
        break;
    case HARNESS_KEY_U64:
        ddp_text_add(out, "\"type\": \"integer\", \"minimum\": 0");
        break;
    case HARNESS_KEY_NUMBER:
    case HARNESS_KEY_KIB:
        print_range(key, "number", out);
        break;
    case HARNESS_KEY_BOOL:
        ddp_text_add(out, "\"type\": \"boolean\"");
        break;
    case HARNESS_KEY_TRUE:
        ddp_text_add(out, "\"const\": true");
        break;
    case HARNESS_KEY_VALUE:
        ddp_text_add(out, "\"type\": [\"number\", \"string\"]");
        break;
    case HARNESS_KEY_RANK:
        print_rank_type(key, out);
        break;
    case HARNESS_KEY_FOREVER:
        print_range_or(key, "{\"const\": \"forever\"}", out);
        break;
    default:
        print_list_type(key, out);
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
        const struct harness_key *key = harness_key((enum harness_row)i);

        if (key->section != section) {
            continue;
        }
        ddp_text_add(out, "%s\n%s  \"%s\": {\"description\": \"%s\", ", separator, indent, key->key,
                     key->doc);
        print_type(key, out);
        ddp_text_add(out, "}");
        separator = ",";
    }
    ddp_text_add(out, "\n%s},\n%s\"required\": [", indent, indent);
    separator = "";
    for (unsigned i = 0; i < HARNESS_ROW_COUNT; i++) {
        const struct harness_key *key = harness_key((enum harness_row)i);

        if (key->section == section && key->fallback == NULL) {
            ddp_text_add(out, "%s\"%s\"", separator, key->key);
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
            const struct harness_key *key = harness_key((enum harness_row)i);
            const char *fallback = key->fallback == NULL ? "required" : key->fallback;

            if (key->section != section) {
                continue;
            }
            ddp_text_add(out, "| `%s` | %s | %s%s%s | %s |\n", key->key,
                         harness_key_type_text(key->type), fallback[0] == '\0' ? "" : "`", fallback,
                         fallback[0] == '\0' ? "" : "`", key->doc);
        }
    }
    ddp_text_add(out, "\n### tables that an axis of the matrix may name\n\n| table | values "
                      "|\n|---|---|\n");
    for (unsigned i = 0; i < HARNESS_AXIS_COUNT; i++) {
        ddp_text_add(out, "| `%s` | %s |\n", harness_axis_word((enum harness_axis)i),
                     harness_axis_meaning((enum harness_axis)i));
    }
}
