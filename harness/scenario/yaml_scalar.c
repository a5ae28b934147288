/* Plain values of YAML, as people write them: what is a number, what is text. */
#include <string.h>
#include <strings.h>

#include "harness/scenario/yaml.h"

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

bool harness_yaml_int(const struct harness_yaml_node *node, int64_t *out)
{
    return node->kind == HARNESS_YAML_SCALAR && !node->is_quoted && is_decimal(node->text, true) &&
           ddp_text_parse_i64(node->text, out) == DDP_OK;
}

bool harness_yaml_u64(const struct harness_yaml_node *node, uint64_t *out)
{
    return node->kind == HARNESS_YAML_SCALAR && !node->is_quoted && is_decimal(node->text, true) &&
           ddp_text_parse_u64(node->text, out) == DDP_OK;
}

bool harness_yaml_number(const struct harness_yaml_node *node, double *out)
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

bool harness_yaml_is_typed(const struct harness_yaml_node *node)
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

bool harness_yaml_is(const struct harness_yaml_node *node, const char *text)
{
    return node->kind == HARNESS_YAML_SCALAR && !node->is_quoted && strcmp(node->text, text) == 0;
}
