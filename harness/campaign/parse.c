/* A campaign's file. */
#include <stdio.h>
#include <string.h>

#include "ddpcore/base/hash.h"
#include "harness/campaign/campaign.h"
#include "harness/scenario/yaml.h"

static ddp_status read_count(const struct harness_yaml_node *node, const char *key, uint64_t most,
                             uint64_t *out, struct ddp_err *err)
{
    if (node->kind == HARNESS_YAML_SCALAR && harness_yaml_u64(node, out) && *out <= most) {
        return DDP_OK;
    }
    return harness_yaml_fail(node, err, DDP_E_INVALID, "%s wants a whole number up to %llu", key,
                             (unsigned long long)most);
}

static ddp_status read_small(const struct harness_yaml_node *node, const char *key, uint64_t most,
                             uint32_t *out, struct ddp_err *err)
{
    uint64_t value = 0;

    DDP_TRY(read_count(node, key, most, &value, err));
    *out = (uint32_t)value;
    return DDP_OK;
}

static ddp_status read_name(const struct harness_yaml_node *node, struct harness_campaign *out,
                            struct ddp_err *err)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789_";

    if (node->kind != HARNESS_YAML_SCALAR || node->text[0] == '\0' ||
        node->text[strspn(node->text, letters)] != '\0' || strlen(node->text) >= sizeof out->name) {
        return harness_yaml_fail(node, err, DDP_E_INVALID,
                                 "campaign wants a short name of a-z, 0-9 and _");
    }
    (void)snprintf(out->name, sizeof out->name, "%s", node->text);
    return DDP_OK;
}

static ddp_status read_drivers(const struct harness_yaml_node *node, struct harness_campaign *out,
                               struct ddp_err *err)
{
    if (node->kind != HARNESS_YAML_LIST || node->count == 0) {
        return harness_yaml_fail(node, err, DDP_E_INVALID, "drivers wants a list, as in [sim]");
    }
    memset(out->is_driver, 0, sizeof out->is_driver);
    for (size_t i = 0; i < node->count; i++) {
        enum harness_driver driver = HARNESS_DRIVER_SIM;

        if (node->items[i]->kind != HARNESS_YAML_SCALAR ||
            harness_driver_parse(node->items[i]->text, &driver) != DDP_OK) {
            return harness_yaml_fail(node->items[i], err, DDP_E_INVALID,
                                     "unknown driver; known: sim, proc");
        }
        out->is_driver[driver] = true;
    }
    return DDP_OK;
}

static ddp_status read_faults(const struct harness_yaml_node *node, struct harness_campaign *out,
                              struct ddp_err *err)
{
    struct harness_grammar_options *options = &out->options;

    if (node->kind != HARNESS_YAML_LIST || node->count != 2) {
        return harness_yaml_fail(node, err, DDP_E_INVALID, "faults wants [LEAST, MOST]");
    }
    DDP_TRY(read_small(node->items[0], "faults", 3, &options->fault_min, err));
    DDP_TRY(read_small(node->items[1], "faults", 3, &options->fault_max, err));
    return options->fault_min <= options->fault_max
               ? DDP_OK
               : harness_yaml_fail(node, err, DDP_E_INVALID, "faults: the least comes first");
}

/* "job.optimizer.lr": a section's title and a key; a key of the top alone. */
static bool is_key(const struct harness_key *key, const char *path)
{
    const char *title = harness_section_title(key->section);
    size_t size = strlen(title);

    if (key->section == HARNESS_SECTION_TOP) {
        return strcmp(path, key->key) == 0;
    }
    return strncmp(path, title, size) == 0 && path[size] == '.' &&
           strcmp(path + size + 1, key->key) == 0;
}

static ddp_status read_odds(const struct harness_yaml_node *node, struct harness_campaign *out,
                            struct ddp_err *err)
{
    if (node->kind != HARNESS_YAML_MAP) {
        return harness_yaml_fail(node, err, DDP_E_INVALID, "odds wants a map of keys to percents");
    }
    for (size_t i = 0; i < node->count; i++) {
        unsigned row = 0;
        uint64_t percent = 0;

        while (row < HARNESS_ROW_COUNT &&
               !(harness_grammar_is_drawn((enum harness_row)row) &&
                 is_key(harness_key((enum harness_row)row), node->keys[i]->text))) {
            row++;
        }
        if (row == HARNESS_ROW_COUNT) {
            return harness_yaml_fail(node->keys[i], err, DDP_E_INVALID,
                                     "\"%.60s\" is no key that campaigns draw",
                                     node->keys[i]->text);
        }
        DDP_TRY(read_count(node->items[i], "odds", 100, &percent, err));
        out->options.odds[row] = (uint8_t)percent;
    }
    return DDP_OK;
}

static ddp_status read_sets(const struct harness_yaml_node *node, struct harness_campaign *out,
                            struct ddp_err *err)
{
    const size_t most = sizeof out->sets / sizeof out->sets[0];

    if (node->kind != HARNESS_YAML_LIST || node->count > most) {
        return harness_yaml_fail(node, err, DDP_E_INVALID,
                                 "set wants a list of at most %zu, as in [job.ranks=4]", most);
    }
    for (size_t i = 0; i < node->count; i++) {
        const struct harness_yaml_node *item = node->items[i];

        if (item->kind != HARNESS_YAML_SCALAR || strchr(item->text, '=') == NULL ||
            strlen(item->text) >= sizeof out->sets[i]) {
            return harness_yaml_fail(item, err, DDP_E_INVALID, "set wants key=value");
        }
        (void)snprintf(out->sets[i], sizeof out->sets[i], "%s", item->text);
    }
    out->set_count = node->count;
    return DDP_OK;
}

static ddp_status read_key(const char *key, const struct harness_yaml_node *node,
                           struct harness_campaign *out, struct ddp_err *err)
{
    if (strcmp(key, "campaign") == 0) {
        return read_name(node, out, err);
    }
    if (strcmp(key, "cases") == 0) {
        return read_count(node, key, 1000000000, &out->case_count, err);
    }
    if (strcmp(key, "seed") == 0) {
        return read_count(node, key, UINT64_MAX, &out->seed, err);
    }
    if (strcmp(key, "drivers") == 0) {
        return read_drivers(node, out, err);
    }
    if (strcmp(key, "faults") == 0) {
        return read_faults(node, out, err);
    }
    if (strcmp(key, "ranks_max") == 0) {
        return read_small(node, key, 16, &out->options.ranks_max, err);
    }
    if (strcmp(key, "steps_max") == 0) {
        return read_small(node, key, 8, &out->options.steps_max, err);
    }
    if (strcmp(key, "odds") == 0) {
        return read_odds(node, out, err);
    }
    if (strcmp(key, "set") == 0) {
        return read_sets(node, out, err);
    }
    return harness_yaml_fail(node, err, DDP_E_INVALID,
                             "unknown key \"%.60s\"; known: campaign, cases, seed, drivers, "
                             "faults, ranks_max, steps_max, odds, set",
                             key);
}

/* The comment that the file begins with, its lines joined. */
static ddp_status read_purpose(const char *text, const char *path, struct harness_campaign *out,
                               struct ddp_err *err)
{
    size_t used = 0;

    while (text[0] == '#') {
        const char *line = text + 1 + strspn(text + 1, " \t");
        size_t size = strcspn(line, "\n");

        used += (size_t)snprintf(out->purpose + used, sizeof out->purpose - used, "%s%.*s",
                                 used > 0 ? " " : "", (int)size, line);
        used = used < sizeof out->purpose ? used : sizeof out->purpose - 1;
        text = line[size] == '\n' ? line + size + 1 : line + size;
    }
    return used > 0 ? DDP_OK
                    : ddp_err_set(err, DDP_E_INVALID,
                                  "%s:1:1: the file starts with no comment; say in a sentence "
                                  "what the campaign is for",
                                  path);
}

ddp_status harness_campaign_parse(const char *text, size_t size_bytes, const char *path,
                                  struct harness_campaign *out, struct ddp_err *err)
{
    const struct harness_yaml_node *top = NULL;
    struct ddp_mem_pool *pool;
    ddp_status status;

    memset(out, 0, sizeof *out);
    harness_grammar_init(&out->options, out->name);
    out->is_driver[HARNESS_DRIVER_SIM] = true;
    out->hash = ddp_hash_bytes(text, size_bytes, 0);
    DDP_TRY(read_purpose(text, path, out, err));
    DDP_TRY(ddp_mem_pool_create(&pool));
    status = harness_yaml_parse(ddp_mem_pool_mem(pool), text, size_bytes, path, true, &top, err);
    if (status == DDP_OK && top->kind != HARNESS_YAML_MAP) {
        status = harness_yaml_fail(top, err, DDP_E_INVALID, "a campaign is a map");
    }
    for (size_t i = 0; status == DDP_OK && i < top->count; i++) {
        status = read_key(top->keys[i]->text, top->items[i], out, err);
    }
    if (status == DDP_OK && (out->name[0] == '\0' || out->case_count == 0)) {
        status = harness_yaml_fail(top, err, DDP_E_INVALID, "a campaign needs campaign and cases");
    }
    ddp_mem_pool_destroy(pool);
    return status;
}
