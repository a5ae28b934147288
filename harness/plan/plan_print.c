/* A plan as YAML in the scenario format: a walk over the keys. A key that has a default is written
 * whatever its value, so that the text keeps its meaning when defaults change; one that has none is
 * left out where it was not stated. */
#include <string.h>

#include "harness/plan/key.h"
#include "harness/plan/plan.h"
#include "harness/plan/yaml_text.h"

static void print_section(enum harness_section section, const void *kept, const char *indent,
                          struct ddp_text *out);

static uint64_t load_u64(const struct harness_key *key, const void *member)
{
    uint32_t narrow;
    uint64_t wide;

    if (key->size_bytes == sizeof(narrow)) {
        memcpy(&narrow, member, sizeof(narrow));
        return narrow;
    }
    DDP_ASSERT(key->size_bytes == sizeof(wide));
    memcpy(&wide, member, sizeof(wide));
    return wide;
}

static int load_name(const struct harness_key *key, const void *member)
{
    int value;

    if (key->size_bytes == sizeof(bool)) {
        return *(const bool *)member;
    }
    DDP_ASSERT(key->size_bytes == sizeof(value));
    memcpy(&value, member, sizeof(value));
    return value;
}

/* Of a key without a default: whether there is something to print. */
static bool is_stated(const struct harness_key *key, const void *member)
{
    const char *text;

    switch (key->type) {
    case HARNESS_KEY_TEXT:
        memcpy(&text, member, sizeof(text));
        return text != NULL && text[0] != '\0';
    case HARNESS_KEY_NAME:
        return load_name(key, member) != harness_names_absent((enum harness_names)key->of);
    case HARNESS_KEY_INT:
    case HARNESS_KEY_KIB:
        return load_u64(key, member) != 0;
    case HARNESS_KEY_INDEX:
        return *(const int64_t *)member >= 0;
    case HARNESS_KEY_TEXTS:
        return ((const struct harness_texts *)member)->count > 0;
    case HARNESS_KEY_NAMES:
        return ((const struct harness_verdicts *)member)->count > 0;
    case HARNESS_KEY_SET:
        return key->fallback[0] != '\0' || memchr(member, true, key->size_bytes) != NULL;
    case HARNESS_KEY_SIZES:
        return ((const struct harness_sizes *)member)->count > 0;
    case HARNESS_KEY_PER_RANK:
        return *(size_t *const *)member != NULL;
    case HARNESS_KEY_FINDINGS:
        return ((const struct harness_expect_findings *)member)->count > 0;
    case HARNESS_KEY_CULPRIT:
    case HARNESS_KEY_VICTIMS:
        return ((const struct harness_culprit *)member)->is_stated;
    case HARNESS_KEY_OPTION:
        return *(const bool *)member;
    default:
        return true;
    }
}

/* The entry's separator in a list or in a map of one line. */
static const char *comma(bool *is_open)
{
    const char *text = *is_open ? ", " : "";

    *is_open = true;
    return text;
}

static void print_sizes(const size_t *values, size_t count, struct ddp_text *out)
{
    ddp_text_add(out, "[");
    for (size_t i = 0; i < count; i++) {
        ddp_text_add(out, "%s%zu", i == 0 ? "" : ", ", values[i]);
    }
    ddp_text_add(out, "]");
}

static void print_texts(const struct harness_texts *texts, struct ddp_text *out)
{
    ddp_text_add(out, "[");
    for (size_t i = 0; i < texts->count; i++) {
        ddp_text_add(out, i == 0 ? "" : ", ");
        harness_plan_print_text(texts->items[i], out);
    }
    ddp_text_add(out, "]");
}

static void print_names(const struct harness_key *key, const struct harness_verdicts *list,
                        struct ddp_text *out)
{
    ddp_text_add(out, "[");
    for (size_t i = 0; i < list->count; i++) {
        ddp_text_add(out, "%s%s", i == 0 ? "" : ", ",
                     harness_names_of((enum harness_names)key->of, (int)list->items[i]));
    }
    ddp_text_add(out, "]");
}

static void print_set(const struct harness_key *key, const bool *is_in, struct ddp_text *out)
{
    const char *name;
    bool is_open = false;
    int value;

    ddp_text_add(out, "[");
    for (size_t i = 0; (name = harness_names_at((enum harness_names)key->of, i, &value)) != NULL;
         i++) {
        if (is_in[value]) {
            ddp_text_add(out, "%s%s", comma(&is_open), name);
        }
    }
    ddp_text_add(out, "]");
}

static void print_culprit(const struct harness_culprit *culprit, struct ddp_text *out)
{
    if (culprit->is_injected || culprit->is_all || culprit->is_others ||
        harness_rank_set_is_empty(&culprit->ranks)) {
        ddp_text_add(out, "%s",
                     culprit->is_injected ? "injected"
                     : culprit->is_all    ? "all"
                     : culprit->is_others ? "others"
                                          : "none");
        return;
    }
    for (uint32_t i = 0; i < harness_rank_set_count(&culprit->ranks); i++) {
        ddp_text_add(out, "%s%u", i == 0 ? "[" : ", ", harness_rank_set_at(&culprit->ranks, i));
    }
    ddp_text_add(out, "]");
}

static void print_budgets(const uint64_t *budget_ms, struct ddp_text *out)
{
    ddp_text_add(out, "{");
    for (unsigned i = 0; i < DDP_PHASE_COUNT; i++) {
        ddp_text_add(out, "%s%s: %llu", i == 0 ? "" : ", ", ddp_phase_name((enum ddp_phase)i),
                     (unsigned long long)budget_ms[i]);
    }
    ddp_text_add(out, "}");
}

/* `value` of an action: a corruption's number, or an argument. */
static void print_value(const struct harness_action *action, struct ddp_text *out)
{
    static const enum harness_names lists[HARNESS_ARG_FIELD_COUNT] = {
#define X(id, name, list) [id] = HARNESS_NAMES_##list,
        HARNESS_ARG_TABLE(X)
#undef X
    };

    if (action->kind != HARNESS_ACTION_ARG) {
        harness_plan_print_number(action->value, out);
    } else if (lists[action->arg] != HARNESS_NAMES_NONE) {
        ddp_text_add(out, "%s", harness_names_of(lists[action->arg], (int)action->arg_value));
    } else {
        ddp_text_add(out, "%llu", (unsigned long long)action->arg_value);
    }
}

static void print_number(const struct harness_key *key, const void *member, struct ddp_text *out)
{
    uint64_t value = load_u64(key, member);

    if (key->type == HARNESS_KEY_NUMBER) {
        harness_plan_print_number(*(const double *)member, out);
    } else if (key->type == HARNESS_KEY_KIB) {
        harness_plan_print_number((double)value / 1024.0, out); /* exact: a power of two */
    } else if (key->type == HARNESS_KEY_FOREVER && value == 0) {
        ddp_text_add(out, "forever");
    } else {
        ddp_text_add(out, "%llu",
                     (unsigned long long)(key->type == HARNESS_KEY_MS ? value / 1000000 : value));
    }
}

static void print_findings(const struct harness_expect_findings *findings, struct ddp_text *out)
{
    ddp_text_add(out, "[");
    for (size_t i = 0; i < findings->count; i++) {
        ddp_text_add(out, i == 0 ? "" : ", ");
        print_section(HARNESS_SECTION_FINDING, &findings->items[i], NULL, out);
    }
    ddp_text_add(out, "]");
}

/* kept: the section that the member is in. */
static void print_value_of(const struct harness_key *key, const void *kept, struct ddp_text *out)
{
    const void *member = (const char *)kept + key->offset;

    switch (key->type) {
    case HARNESS_KEY_TEXT:
    case HARNESS_KEY_MODEL:
    case HARNESS_KEY_DATASET:
        harness_plan_print_text(*(const char *const *)member, out);
        break;
    case HARNESS_KEY_NAME:
        ddp_text_add(out, "%s",
                     harness_names_of((enum harness_names)key->of, load_name(key, member)));
        break;
    case HARNESS_KEY_COLLECTIVE:
        harness_plan_print_text(harness_collective_name(*(const struct harness_collective *)member),
                                out);
        break;
    case HARNESS_KEY_BOOL:
        ddp_text_add(out, *(const bool *)member ? "true" : "false");
        break;
    case HARNESS_KEY_TRUE:
        ddp_text_add(out, "true");
        break;
    case HARNESS_KEY_VALUE:
        print_value(kept, out);
        break;
    case HARNESS_KEY_TEXTS:
        print_texts(member, out);
        break;
    case HARNESS_KEY_NAMES:
        print_names(key, member, out);
        break;
    case HARNESS_KEY_SET:
        print_set(key, member, out);
        break;
    case HARNESS_KEY_SIZES:
        print_sizes(((const struct harness_sizes *)member)->items,
                    ((const struct harness_sizes *)member)->count, out);
        break;
    case HARNESS_KEY_PER_RANK:
        print_sizes(*(size_t *const *)member, ((const struct harness_job *)kept)->ranks, out);
        break;
    case HARNESS_KEY_CULPRIT:
    case HARNESS_KEY_VICTIMS:
        print_culprit(member, out);
        break;
    case HARNESS_KEY_BUDGETS:
        print_budgets(member, out);
        break;
    case HARNESS_KEY_FINDINGS:
        print_findings(member, out);
        break;
    case HARNESS_KEY_SECTION:
    case HARNESS_KEY_OPTION:
        print_section((enum harness_section)key->of, member, NULL, out);
        break;
    default:
        print_number(key, member, out);
        break;
    }
}

static bool is_printed(const struct harness_key *key, const void *kept)
{
    bool has_default = key->fallback == NULL || key->fallback[0] != '\0';

    if (key->type == HARNESS_KEY_MATRIX || !harness_key_applies(key, kept)) {
        return false;
    }
    /* What is chosen may be 0, unless that is no value of it. */
    return has_default ||
           (harness_key_is_chosen(key) && !(key->type == HARNESS_KEY_INT && key->lo > 0)) ||
           is_stated(key, (const char *)kept + key->offset);
}

/* Sections whose keys get a line each; the others are maps of one line. */
static const char *indent_of(const struct harness_key *key)
{
    if (key->type != HARNESS_KEY_SECTION) {
        return NULL;
    }
    return key->of == HARNESS_SECTION_JOB || key->of == HARNESS_SECTION_EXPECT ? "  " : NULL;
}

static void print_faults(const struct harness_plan *plan, struct ddp_text *out)
{
    if (plan->fault_count > 0) {
        ddp_text_add(out, "faults:\n");
    }
    for (uint32_t i = 0; i < plan->fault_count; i++) {
        size_t start = out->size_bytes;

        print_section(HARNESS_SECTION_FAULT, &plan->faults[i], "    ", out);
        if (!out->is_failed) {
            out->data[start + 2] = '-'; /* of the first line's indent: an entry starts here */
        }
    }
}

/* indent: before each line; NULL: the section is a map of one line. */
static void print_section(enum harness_section section, const void *kept, const char *indent,
                          struct ddp_text *out)
{
    bool is_open = false;

    ddp_text_add(out, indent == NULL ? "{" : "");
    for (unsigned i = 0; i < HARNESS_ROW_COUNT; i++) {
        const struct harness_key *key = harness_key((enum harness_row)i);
        const void *member = (const char *)kept + key->offset;

        if (key->section != section || !is_printed(key, kept)) {
            continue;
        }
        if (key->type == HARNESS_KEY_FAULTS) {
            print_faults(kept, out);
        } else if (indent_of(key) != NULL) {
            ddp_text_add(out, "%s:\n", key->key);
            print_section((enum harness_section)key->of, member, indent_of(key), out);
        } else {
            ddp_text_add(out, "%s%s: ", indent == NULL ? comma(&is_open) : indent, key->key);
            print_value_of(key, kept, out);
            ddp_text_add(out, indent == NULL ? "" : "\n");
        }
    }
    ddp_text_add(out, indent == NULL ? "}" : "");
}

void harness_plan_print(const struct harness_plan *plan, struct ddp_text *out)
{
    ddp_text_add(out, "# %s\n", plan->purpose);
    print_section(HARNESS_SECTION_TOP, plan, "", out);
}
