/* The walk over the keys of a section: unknown and missing keys, each value as its row says, then
 * what they mean together. Nothing here knows a single key. */
#include <string.h>

#include "harness/scenario/reader.h"

static ddp_status refuse_key(const struct harness_reader *reader,
                             const struct harness_yaml_node *key, enum harness_section section)
{
    const char *keys[HARNESS_ROW_COUNT];
    const char *title = harness_section_title(section);
    struct ddp_text listed;
    const char *near;
    size_t count = 0;
    ddp_status status;

    for (unsigned i = 0; i < HARNESS_ROW_COUNT; i++) {
        const struct harness_key *row = harness_key((enum harness_row)i);

        if (row->section == section) {
            keys[count++] = row->key;
        }
    }
    near = ddp_text_nearest(key->text, keys, count);
    if (near != NULL) {
        return harness_yaml_fail(key, reader->err, DDP_E_PARSE,
                                 "unknown key \"%.60s\" in %s; did you mean \"%s\"?", key->text,
                                 title, near);
    }
    ddp_text_init(&listed, reader->scratch);
    for (size_t i = 0; i < count; i++) {
        ddp_text_add(&listed, "%s%s", i == 0 ? "" : ", ", keys[i]);
    }
    status =
        harness_yaml_fail(key, reader->err, DDP_E_PARSE, "unknown key \"%.60s\" in %s; it has: %s",
                          key->text, title, ddp_text_str(&listed));
    ddp_text_fini(&listed);
    return status;
}

static bool is_key_of(enum harness_section section, const char *key)
{
    for (unsigned i = 0; i < HARNESS_ROW_COUNT; i++) {
        const struct harness_key *row = harness_key((enum harness_row)i);

        if (row->section == section && strcmp(row->key, key) == 0) {
            return true;
        }
    }
    return false;
}

/* Whether the key is read at all: of a guest's job only those that say something of it are. */
static bool is_read(const struct harness_key *key, const struct harness_yaml_node *map)
{
    return key->section != HARNESS_SECTION_JOB || harness_key_is_of_guest(key) ||
           harness_reader_node(map, HARNESS_ROW_JOB_guest) == NULL;
}

/* A guest does not say its steps unless it announces them. */
static bool is_required(const struct harness_key *key, const struct harness_yaml_node *map)
{
    return key->fallback == NULL && (key != harness_key(HARNESS_ROW_JOB_steps) ||
                                     harness_reader_node(map, HARNESS_ROW_JOB_guest) == NULL);
}

/* The map has no key that the section lacks, and all that it requires. */
static ddp_status check_keys(const struct harness_reader *reader, enum harness_section section,
                             const struct harness_yaml_node *map)
{
    for (size_t i = 0; i < map->count; i++) {
        if (!is_key_of(section, map->keys[i]->text)) {
            return refuse_key(reader, map->keys[i], section);
        }
    }
    for (unsigned i = 0; i < HARNESS_ROW_COUNT; i++) {
        const struct harness_key *key = harness_key((enum harness_row)i);

        if (key->section != section) {
            continue;
        }
        if (!is_read(key, map) && harness_yaml_get(map, key->key) != NULL) {
            return harness_yaml_fail(harness_yaml_get(map, key->key), reader->err, DDP_E_INVALID,
                                     "a guest's job does not take the key \"%s\": its program "
                                     "decides that; remove it",
                                     key->key);
        }
        if (is_read(key, map) && is_required(key, map) && harness_yaml_get(map, key->key) == NULL) {
            return harness_yaml_fail(map, reader->err, DDP_E_PARSE, "%s lacks the key \"%s\": %s",
                                     harness_section_title(section), key->key, key->doc);
        }
    }
    return DDP_OK;
}

static ddp_status read_subsection(const struct harness_reader *reader,
                                  const struct harness_key *key,
                                  const struct harness_yaml_node *node, void *member)
{
    if (node != NULL && node->kind != HARNESS_YAML_MAP) {
        return harness_reader_refuse(reader, key, node, harness_key_type_text(key->type));
    }
    if (key->type == HARNESS_KEY_OPTION) {
        *(bool *)member = node != NULL;
    }
    return harness_read_section(reader, (enum harness_section)key->of, node, member);
}

static ddp_status read_faults(const struct harness_reader *reader, const struct harness_key *key,
                              const struct harness_yaml_node *node, void *member)
{
    size_t count = node == NULL ? 0 : node->count;
    struct harness_plan *plan = reader->plan;

    if (node != NULL && node->kind != HARNESS_YAML_LIST) {
        return harness_reader_refuse(reader, key, node, harness_key_type_text(key->type));
    }
    DDP_ASSERT(member == &plan->faults);
    plan->faults = ddp_mem_array(reader->keep, count, sizeof(*plan->faults));
    if (plan->faults == NULL) {
        return harness_reader_out_of_memory(reader);
    }
    for (size_t i = 0; i < count; i++) {
        if (node->items[i]->kind != HARNESS_YAML_MAP) {
            return harness_reader_refuse(reader, key, node->items[i], "a map");
        }
        DDP_TRY(harness_read_section(reader, (enum harness_section)key->of, node->items[i],
                                     &plan->faults[i]));
    }
    plan->fault_count = (uint32_t)count;
    return DDP_OK;
}

static ddp_status read_findings(const struct harness_reader *reader, const struct harness_key *key,
                                const struct harness_yaml_node *node, void *member)
{
    struct harness_expect_findings *findings = member;
    size_t count = node == NULL ? 0 : node->count;

    *findings = (struct harness_expect_findings){.count = count};
    if (node != NULL && (node->kind != HARNESS_YAML_LIST || count == 0)) {
        return harness_reader_refuse(reader, key, node, "a list of maps that is not empty");
    }
    findings->items = ddp_mem_array(reader->keep, count, sizeof(*findings->items));
    if (findings->items == NULL) {
        return harness_reader_out_of_memory(reader);
    }
    for (size_t i = 0; i < count; i++) {
        if (node->items[i]->kind != HARNESS_YAML_MAP) {
            return harness_reader_refuse(reader, key, node->items[i], "a map");
        }
        DDP_TRY(harness_read_section(reader, (enum harness_section)key->of, node->items[i],
                                     &findings->items[i]));
    }
    return DDP_OK;
}

/* The matrix was taken out of the tree before (matrix.c). */
static ddp_status read_matrix(const struct harness_reader *reader, const struct harness_key *key,
                              const struct harness_yaml_node *node, void *member)
{
    (void)reader;
    (void)key;
    (void)member;
    DDP_ASSERT(node == NULL);
    return DDP_OK;
}

static harness_read_value *const read_value[HARNESS_KEY_TYPE_COUNT] = {
    [HARNESS_KEY_TEXT] = harness_read_text,
    [HARNESS_KEY_MODEL] = harness_read_model,
    [HARNESS_KEY_DATASET] = harness_read_dataset,
    [HARNESS_KEY_NAME] = harness_read_name,
    [HARNESS_KEY_COLLECTIVE] = harness_read_collective,
    [HARNESS_KEY_INT] = harness_read_int,
    [HARNESS_KEY_INDEX] = harness_read_index,
    [HARNESS_KEY_U64] = harness_read_u64,
    [HARNESS_KEY_NUMBER] = harness_read_number,
    [HARNESS_KEY_KIB] = harness_read_kib,
    [HARNESS_KEY_MS] = harness_read_ms,
    [HARNESS_KEY_BOOL] = harness_read_bool,
    [HARNESS_KEY_TRUE] = harness_read_true,
    [HARNESS_KEY_RANK] = harness_read_rank,
    [HARNESS_KEY_FOREVER] = harness_read_forever,
    [HARNESS_KEY_VALUE] = harness_read_scalar,
    [HARNESS_KEY_TEXTS] = harness_read_texts,
    [HARNESS_KEY_NAMES] = harness_read_names,
    [HARNESS_KEY_SET] = harness_read_set,
    [HARNESS_KEY_SIZES] = harness_read_sizes,
    [HARNESS_KEY_PER_RANK] = harness_read_per_rank,
    [HARNESS_KEY_CULPRIT] = harness_read_culprit,
    [HARNESS_KEY_VICTIMS] = harness_read_culprit,
    [HARNESS_KEY_BUDGETS] = harness_read_budgets,
    [HARNESS_KEY_SECTION] = read_subsection,
    [HARNESS_KEY_OPTION] = read_subsection,
    [HARNESS_KEY_FAULTS] = read_faults,
    [HARNESS_KEY_FINDINGS] = read_findings,
    [HARNESS_KEY_MATRIX] = read_matrix,
};

/* The value that stands there, else the default if that is a plain value. */
static ddp_status read_key(const struct harness_reader *reader, const struct harness_key *key,
                           const struct harness_yaml_node *map, void *kept)
{
    const struct harness_yaml_node *node = harness_yaml_get(map, key->key);
    struct harness_yaml_node fallback;

    if (node == NULL && key->fallback != NULL && strchr("[{", key->fallback[0]) == NULL) {
        memset(&fallback, 0, sizeof(fallback));
        fallback.kind = HARNESS_YAML_SCALAR;
        fallback.origin = key->key;
        fallback.text = key->fallback;
        node = &fallback;
    }
    return read_value[key->type](reader, key, node, (char *)kept + key->offset);
}

/* Keys that depend on a choice (an optimizer, an action, an edit): those that it does not take are
 * mistakes, because they would be read and do nothing; those that it takes must be there. */
static ddp_status check_choice(const struct harness_reader *reader, enum harness_section section,
                               const struct harness_yaml_node *map, const void *kept)
{
    enum harness_names list = HARNESS_NAMES_NONE;
    const struct harness_variant *variant = harness_section_variant(section, kept, &list);

    for (unsigned i = 0; variant != NULL && map != NULL && i < HARNESS_ROW_COUNT; i++) {
        const struct harness_key *key = harness_key((enum harness_row)i);
        const struct harness_yaml_node *node = NULL;
        bool is_taken;

        if (key->section != section || !harness_key_is_chosen(key)) {
            continue;
        }
        for (size_t k = 0; k < map->count && node == NULL; k++) {
            node = strcmp(map->keys[k]->text, key->key) == 0 ? map->keys[k] : NULL;
        }
        is_taken = harness_key_applies(key, kept);
        if (node != NULL && !is_taken) {
            return harness_yaml_fail(node, reader->err, DDP_E_INVALID,
                                     "the %s %s does not take the key \"%s\"; remove it",
                                     harness_names_what(list), variant->name, key->key);
        }
        if (node == NULL && is_taken && key->type == HARNESS_KEY_TEXT && key->fallback[0] == '\0') {
            return harness_yaml_fail(map, reader->err, DDP_E_INVALID,
                                     "the %s %s needs the key \"%s\": %s", harness_names_what(list),
                                     variant->name, key->key, key->doc);
        }
    }
    return DDP_OK;
}

ddp_status harness_read_section(const struct harness_reader *reader, enum harness_section section,
                                const struct harness_yaml_node *map, void *kept)
{
    static harness_scenario_check_section *const check[HARNESS_SECTION_COUNT] = {
        [HARNESS_SECTION_TOP] = harness_scenario_check_top,
        [HARNESS_SECTION_JOB] = harness_scenario_check_job,
        [HARNESS_SECTION_OPTIMIZER] = harness_scenario_check_optimizer,
        [HARNESS_SECTION_FAULT] = harness_scenario_check_fault,
        [HARNESS_SECTION_AT] = harness_scenario_check_trigger,
        [HARNESS_SECTION_DO] = harness_scenario_check_action,
        [HARNESS_SECTION_IO] = harness_scenario_check_io,
        [HARNESS_SECTION_EXPECT] = harness_scenario_check_expect,
        [HARNESS_SECTION_OP] = harness_scenario_check_op,
        [HARNESS_SECTION_EXPECT_RESTORE] = harness_scenario_check_restore,
        [HARNESS_SECTION_CANARY] = harness_scenario_check_canary,
    };

    if (map != NULL) {
        DDP_TRY(check_keys(reader, section, map));
    }
    for (unsigned i = 0; i < HARNESS_ROW_COUNT; i++) {
        const struct harness_key *key = harness_key((enum harness_row)i);

        if (key->section == section && is_read(key, map)) {
            DDP_TRY(read_key(reader, key, map, kept));
        }
    }
    if (check[section] != NULL) {
        DDP_TRY(check[section](reader, map, kept));
    }
    return check_choice(reader, section, map, kept);
}
