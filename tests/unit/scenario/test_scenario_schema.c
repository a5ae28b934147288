/* What the rows give besides the parser: the JSON Schema and the key table. */
#include <jansson.h>

#include "tests/unit/scenario/scenario_testing.h"

/* The schema is JSON, closed at every level, and knows the keys that the parser knows. */
CT_TEST(schema, is_json_with_every_section)
{
    static const char *const sections[] = {"job", "job.optimizer", "a fault", "at",
                                           "do",  "expect.op",     "canary"};
    struct ddp_text text;
    json_error_t error;
    json_t *root;
    json_t *definitions;

    ddp_text_init(&text, ddp_mem_system());
    harness_scenario_schema(&text);
    root = json_loads(ddp_text_str(&text), JSON_REJECT_DUPLICATES, &error);
    if (root == NULL) {
        CT_FAIL("line %d: %s\n%s", error.line, error.text, ddp_text_str(&text));
        ddp_text_fini(&text);
        return;
    }
    definitions = json_object_get(root, "$defs");
    CT_CHECK(json_is_false(json_object_get(root, "additionalProperties")));
    CT_CHECK_EQ_U64(json_array_size(json_object_get(root, "required")), 3);
    for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++) {
        json_t *section = json_object_get(definitions, sections[i]);

        CT_CHECK(json_is_false(json_object_get(section, "additionalProperties")));
        CT_CHECK(json_object_size(json_object_get(section, "properties")) > 0);
    }
    CT_CHECK(json_object_get(json_object_get(json_object_get(definitions, "job"), "properties"),
                             "find_unused_parameters") != NULL);
    json_decref(root);
    ddp_text_fini(&text);
}

/* The Markdown table has a line for a key, with its default and its meaning. */
CT_TEST(schema, lists_keys_as_markdown)
{
    struct ddp_text text;

    ddp_text_init(&text, ddp_mem_system());
    harness_scenario_keys(&text);
    CT_CHECK(strstr(ddp_text_str(&text), "### job.optimizer\n") != NULL);
    CT_CHECK(strstr(ddp_text_str(&text),
                    "| `micro_batches` | a whole number | `1` | backward passes in a step; only "
                    "the last one reduces |\n") != NULL);
    CT_CHECK(strstr(ddp_text_str(&text), "| `ranks` | a whole number | `required` |") != NULL);
    ddp_text_fini(&text);
}
