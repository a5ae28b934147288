/* Text and numbers as YAML that reads back as the same value. */
#include "harness/plan/yaml_text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Whether plain style reads back as this very text, in a flow as in a block place. */
static bool is_plain_safe(const char *text)
{
    static const char *const special[] = {"true", "false", "null", "yes", "no", "on", "off"};
    size_t size_bytes = strlen(text);

    /* Digits, signs and dots first: it might read as a number. */
    if (size_bytes == 0 || strchr("-+.0123456789?:&*!|>%@`~= ", text[0]) != NULL ||
        text[size_bytes - 1] == ' ') {
        return false;
    }
    for (size_t i = 0; i < sizeof(special) / sizeof(special[0]); i++) {
        if (strcasecmp(text, special[i]) == 0) {
            return false;
        }
    }
    for (size_t i = 0; i < size_bytes; i++) {
        unsigned char byte = (unsigned char)text[i];

        if (byte < 0x20 || byte >= 0x7f || strchr(":#,[]{}\"'\\", byte) != NULL) {
            return false;
        }
    }
    return true;
}

/* A character that YAML does not print, of those above 0x7f, or takes for the end of a line: its
 * number, and how many bytes it has. 0: none of these. */
static unsigned unprintable_at(const char *text, size_t *out_bytes)
{
    const unsigned char *c = (const unsigned char *)text;

    *out_bytes = 1;
    if (c[0] == 0xc2 && c[1] >= 0x80 && c[1] <= 0xa0) {
        *out_bytes = 2;
        return c[1];
    }
    if ((c[0] == 0xe2 && c[1] == 0x80 && (c[2] == 0xa8 || c[2] == 0xa9)) ||
        (c[0] == 0xef && ((c[1] == 0xbb && c[2] == 0xbf) || (c[1] == 0xbf && c[2] >= 0xbe)))) {
        *out_bytes = 3;
        return (c[0] & 0x0fu) << 12 | (c[1] & 0x3fu) << 6 | (c[2] & 0x3fu);
    }
    return 0;
}

void harness_plan_print_text(const char *text, struct ddp_text *out)
{
    size_t size_bytes;

    if (is_plain_safe(text)) {
        ddp_text_add(out, "%s", text);
        return;
    }
    ddp_text_add(out, "\"");
    for (const char *c = text; *c != '\0'; c += size_bytes) {
        const unsigned number = unprintable_at(c, &size_bytes);

        if (number != 0) {
            ddp_text_add(out, "\\u%04x", number);
        } else if (*c == '"' || *c == '\\') {
            ddp_text_add(out, "\\%c", *c);
        } else if ((unsigned char)*c < 0x20 || *c == 0x7f) {
            ddp_text_add(out, "\\x%02x", (unsigned)(unsigned char)*c);
        } else {
            ddp_text_add_bytes(out, c, 1);
        }
    }
    ddp_text_add(out, "\"");
}

void harness_plan_print_number(double value, struct ddp_text *out)
{
    char buffer[40];

    if (!isfinite(value)) {
        ddp_text_add(out, "%s", isnan(value) ? ".nan" : value > 0 ? ".inf" : "-.inf");
        return;
    }
    for (int digits = 1; digits <= 17; digits++) {
        (void)snprintf(buffer, sizeof(buffer), "%.*g", digits, value);
        if (strtod(buffer, NULL) == value) {
            break;
        }
    }
    ddp_text_add(out, "%s", buffer);
}
