/* The check of a tree against the rows: unknown and missing keys, types, ranges, names. What keys
 * mean together is checked where plans are made (parse_*.c). */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "harness/scenario/schema.h"

enum { LIST_MAX = 1024, NOT_BYTES_MAX = 80 };

struct checker {
    const struct harness_reader *reader;
    const struct harness_schema_row *row;
};

static ddp_status check_value(const struct checker *checker, const struct harness_yaml_node *node);

/* [-] digits [. digits] [e [sign] digits], at least one digit in front; is_int: only the first. */
static bool is_decimal(const char *text, bool is_int)
{
    size_t digits;

    text += *text == '-' ? 1 : 0;
    digits = strspn(text, "0123456789");
    if (digits == 0 || (digits > 1 && text[0] == '0')) {
        return false;
    }
    text += digits;
    if (*text == '\0' || is_int) {
        return *text == '\0';
    }
    if (*text == '.') {
        text++;
        text += strspn(text, "0123456789");
    }
    if (*text == 'e' || *text == 'E') {
        text++;
        text += *text == '-' || *text == '+' ? 1 : 0;
        digits = strspn(text, "0123456789");
        text += digits;
        if (digits == 0) {
            return false;
        }
    }
    return *text == '\0';
}

bool harness_schema_is_int(const struct harness_yaml_node *node, int64_t *out)
{
    return node->kind == HARNESS_YAML_SCALAR && !node->is_quoted && is_decimal(node->text, true) &&
           ddp_text_parse_i64(node->text, out) == DDP_OK;
}

bool harness_schema_is_number(const struct harness_yaml_node *node, double *out)
{
    if (node->kind != HARNESS_YAML_SCALAR || node->is_quoted) {
        return false;
    }
    if (strcmp(node->text, ".inf") == 0 || strcmp(node->text, "-.inf") == 0) {
        *out = node->text[0] == '-' ? -__builtin_inf() : __builtin_inf();
        return true;
    }
    return is_decimal(node->text, false) && ddp_text_parse_f64(node->text, out) == DDP_OK;
}

bool harness_schema_is_typed(const struct harness_yaml_node *node)
{
    static const char *const words[] = {"", "~", "null", "true", "false", ".nan", ".inf"};
    const char *text = node->text;

    if (node->is_quoted) {
        return false;
    }
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcasecmp(text, words[i]) == 0) {
            return true;
        }
    }
    text += *text == '-' || *text == '+' ? 1 : 0;
    return text[strspn(text, "0123456789.eE+-")] == '\0' ||
           (text[0] == '0' && (text[1] == 'x' || text[1] == 'o'));
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

static ddp_status refuse_type(const struct checker *checker, const struct harness_yaml_node *node,
                              const char *wanted)
{
    char buffer[NOT_BYTES_MAX];

    return harness_yaml_fail(node, checker->reader->err, DDP_E_PARSE, "%s wants %s, not %s",
                             checker->row->key, wanted, describe(node, buffer));
}

static ddp_status check_text(const struct checker *checker, const struct harness_yaml_node *node)
{
    if (node->kind != HARNESS_YAML_SCALAR || harness_schema_is_typed(node) ||
        node->text[0] == '\0') {
        return refuse_type(checker, node, "text (quote it if it looks like something else)");
    }
    for (const char *c = node->text; *c != '\0'; c++) {
        if ((unsigned char)*c < 0x20 || (unsigned char)*c >= 0x7f) {
            return harness_yaml_fail(node, checker->reader->err, DDP_E_PARSE,
                                     "%s wants one line of printable ASCII", checker->row->key);
        }
    }
    return DDP_OK;
}

static ddp_status check_name(const struct checker *checker, const struct harness_yaml_node *node)
{
    enum harness_names list = (enum harness_names)checker->row->of;
    size_t index;

    if (!harness_names_is_known(checker->reader->names, list)) {
        return check_text(checker, node);
    }
    if (node->kind != HARNESS_YAML_SCALAR || (node->text[0] == '\0' && !node->is_quoted)) {
        return refuse_type(checker, node, "a name");
    }
    return harness_names_find(checker->reader, node, list, &index);
}

static ddp_status check_number(const struct checker *checker, const struct harness_yaml_node *node)
{
    const struct harness_schema_row *row = checker->row;
    bool is_int = row->type != HARNESS_KEY_NUMBER;
    char wanted[128];
    int64_t integer = 0;
    double number = 0;
    bool is_number;

    is_number =
        is_int ? harness_schema_is_int(node, &integer) : harness_schema_is_number(node, &number);
    number = is_int ? (double)integer : number;
    if (is_number && number >= row->lo && number <= row->hi) {
        return DDP_OK;
    }
    (void)snprintf(wanted, sizeof(wanted), "%s from %.10g to %.10g",
                   is_int ? "a whole number" : "a number", row->lo, row->hi);
    return refuse_type(checker, node, wanted);
}

static ddp_status check_u64(const struct checker *checker, const struct harness_yaml_node *node)
{
    uint64_t value;

    if (node->kind != HARNESS_YAML_SCALAR || node->is_quoted || !is_decimal(node->text, true) ||
        ddp_text_parse_u64(node->text, &value) != DDP_OK) {
        return refuse_type(checker, node, "a whole number below 2^64");
    }
    return DDP_OK;
}

static bool is_plain(const struct harness_yaml_node *node, const char *text)
{
    return node->kind == HARNESS_YAML_SCALAR && !node->is_quoted && strcmp(node->text, text) == 0;
}

/* Words of types that are a number or one of a few words. */
static bool is_word_of(const struct harness_yaml_node *node, enum harness_key_type type)
{
    switch (type) {
    case HARNESS_KEY_BOOL:
        return is_plain(node, "true") || is_plain(node, "false");
    case HARNESS_KEY_TRUE:
        return is_plain(node, "true");
    case HARNESS_KEY_RANK:
        return is_plain(node, "first") || is_plain(node, "middle") || is_plain(node, "last");
    case HARNESS_KEY_INT_OR_FOREVER:
        return is_plain(node, "forever");
    case HARNESS_KEY_CULPRIT:
        return is_plain(node, "injected") || is_plain(node, "all") || is_plain(node, "none");
    default:
        return false;
    }
}

static ddp_status check_entries(const struct checker *checker, const struct harness_yaml_node *node,
                                enum harness_key_type entry_type)
{
    struct harness_schema_row entry = *checker->row;
    struct checker inner = {checker->reader, &entry};

    if (node->kind != HARNESS_YAML_LIST) {
        return refuse_type(checker, node, harness_key_type_text(checker->row->type));
    }
    if (node->count > LIST_MAX ||
        (node->count == 0 && checker->row->type != HARNESS_KEY_NAME_LIST &&
         checker->row->type != HARNESS_KEY_SECTIONS)) {
        return harness_yaml_fail(node, checker->reader->err, DDP_E_PARSE,
                                 "%s wants from 1 to %d entries, not %zu", checker->row->key,
                                 LIST_MAX, node->count);
    }
    entry.type = entry_type;
    for (size_t i = 0; i < node->count; i++) {
        DDP_TRY(check_value(&inner, node->items[i]));
    }
    return DDP_OK;
}

/* A map whose keys are names and whose values are numbers. */
static ddp_status check_budgets(const struct checker *checker, const struct harness_yaml_node *node)
{
    struct harness_schema_row entry = *checker->row;
    struct checker inner = {checker->reader, &entry};
    size_t index;

    if (node->kind != HARNESS_YAML_MAP) {
        return refuse_type(checker, node, harness_key_type_text(checker->row->type));
    }
    entry.type = HARNESS_KEY_INT;
    for (size_t i = 0; i < node->count; i++) {
        DDP_TRY(harness_names_find(checker->reader, node->keys[i],
                                   (enum harness_names)checker->row->of, &index));
        entry.key = node->keys[i]->text;
        DDP_TRY(check_value(&inner, node->items[i]));
    }
    return DDP_OK;
}

static ddp_status check_section_value(const struct checker *checker,
                                      const struct harness_yaml_node *node)
{
    if (node->kind != HARNESS_YAML_MAP) {
        return refuse_type(checker, node, "a map");
    }
    return harness_schema_check(checker->reader, node, (enum harness_section)checker->row->of);
}

static ddp_status check_value(const struct checker *checker, const struct harness_yaml_node *node)
{
    bool is_list = node->kind == HARNESS_YAML_LIST;

    if (is_word_of(node, checker->row->type)) {
        return DDP_OK;
    }
    switch (checker->row->type) {
    case HARNESS_KEY_TEXT:
        return check_text(checker, node);
    case HARNESS_KEY_NAME:
        return check_name(checker, node);
    case HARNESS_KEY_U64:
        return check_u64(checker, node);
    case HARNESS_KEY_INT:
    case HARNESS_KEY_NUMBER:
        return check_number(checker, node);
    case HARNESS_KEY_RANK:
    case HARNESS_KEY_INT_OR_FOREVER:
        if (node->kind == HARNESS_YAML_SCALAR && !harness_schema_is_typed(node)) {
            return refuse_type(checker, node, harness_key_type_text(checker->row->type));
        }
        return check_number(checker, node);
    case HARNESS_KEY_SCALAR:
        if (node->kind != HARNESS_YAML_SCALAR || node->text[0] == '\0') {
            return refuse_type(checker, node, harness_key_type_text(checker->row->type));
        }
        return DDP_OK;
    case HARNESS_KEY_TEXTS:
        return check_entries(checker, node, HARNESS_KEY_TEXT);
    case HARNESS_KEY_NAME_LIST:
        return check_entries(checker, node, HARNESS_KEY_NAME);
    case HARNESS_KEY_INTS:
        return check_entries(checker, node, HARNESS_KEY_INT);
    case HARNESS_KEY_INT_OR_INTS:
        return is_list ? check_entries(checker, node, HARNESS_KEY_INT)
                       : check_number(checker, node);
    case HARNESS_KEY_CULPRIT:
        return check_entries(checker, node, HARNESS_KEY_RANK);
    case HARNESS_KEY_BUDGETS:
        return check_budgets(checker, node);
    case HARNESS_KEY_SECTION:
        return check_section_value(checker, node);
    case HARNESS_KEY_SECTIONS:
        return check_entries(checker, node, HARNESS_KEY_SECTION);
    default:
        return refuse_type(checker, node, harness_key_type_text(checker->row->type));
    }
}

static const struct harness_schema_row *find_row(enum harness_section section, const char *key)
{
    for (unsigned i = 0; i < HARNESS_ROW_COUNT; i++) {
        const struct harness_schema_row *row = harness_schema_row((enum harness_row)i);

        if (row->section == section && strcmp(row->key, key) == 0) {
            return row;
        }
    }
    return NULL;
}

static ddp_status refuse_key(const struct harness_reader *reader,
                             const struct harness_yaml_node *key, enum harness_section section)
{
    const char *keys[HARNESS_ROW_COUNT];
    const char *title = harness_section_title(section);
    const char *near;
    size_t count = 0;

    for (unsigned i = 0; i < HARNESS_ROW_COUNT; i++) {
        const struct harness_schema_row *row = harness_schema_row((enum harness_row)i);

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
    {
        struct ddp_text listed;
        ddp_status status;

        ddp_text_init(&listed, reader->scratch);
        for (size_t i = 0; i < count; i++) {
            ddp_text_add(&listed, "%s%s", i == 0 ? "" : ", ", keys[i]);
        }
        status = harness_yaml_fail(key, reader->err, DDP_E_PARSE,
                                   "unknown key \"%.60s\" in %s; it has: %s", key->text, title,
                                   ddp_text_str(&listed));
        ddp_text_fini(&listed);
        return status;
    }
}

ddp_status harness_schema_check(const struct harness_reader *reader,
                                const struct harness_yaml_node *node, enum harness_section section)
{
    for (size_t i = 0; i < node->count; i++) {
        struct checker checker = {reader, find_row(section, node->keys[i]->text)};

        if (checker.row == NULL) {
            return refuse_key(reader, node->keys[i], section);
        }
        DDP_TRY(check_value(&checker, node->items[i]));
    }
    for (unsigned i = 0; i < HARNESS_ROW_COUNT; i++) {
        const struct harness_schema_row *row = harness_schema_row((enum harness_row)i);

        if (row->section == section && row->is_required &&
            harness_yaml_get(node, row->key) == NULL) {
            return harness_yaml_fail(node, reader->err, DDP_E_PARSE, "%s lacks the key \"%s\": %s",
                                     harness_section_title(section), row->key, row->doc);
        }
    }
    return DDP_OK;
}
