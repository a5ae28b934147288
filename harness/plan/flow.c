/* Pieces of YAML output: text, numbers, one-line maps. */
#include "harness/plan/flow.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "harness/plan/plan.h"

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

void harness_plan_print_text(const char *text, struct ddp_text *out)
{
    if (is_plain_safe(text)) {
        ddp_text_add(out, "%s", text);
        return;
    }
    ddp_text_add(out, "\"");
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '"' || *c == '\\') {
            ddp_text_add(out, "\\%c", *c);
        } else if ((unsigned char)*c < 0x20 || *c == 0x7f) {
            ddp_text_add(out, "\\x%02x", (unsigned)(unsigned char)*c);
        } else {
            ddp_text_add_bytes(out, c, 1);
        }
    }
    ddp_text_add(out, "\"");
}

/* The shortest decimal that reads back as the same number. */
void harness_flow_print_number(double value, struct ddp_text *out)
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

void harness_flow_add(struct harness_flow *flow, const char *format, ...)
{
    char buffer[256];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(buffer, sizeof(buffer), format, args);
    va_end(args);
    ddp_text_add(flow->out, "%s%s", flow->is_open ? ", " : "{", buffer);
    flow->is_open = true;
}

void harness_flow_number(struct harness_flow *flow, const char *key, double value)
{
    harness_flow_add(flow, "%s: ", key);
    harness_flow_print_number(value, flow->out);
}

void harness_flow_text(struct harness_flow *flow, const char *key, const char *value)
{
    harness_flow_add(flow, "%s: ", key);
    harness_plan_print_text(value, flow->out);
}

void harness_flow_optional(struct harness_flow *flow, const char *key, int64_t value)
{
    if (value >= 0) {
        harness_flow_add(flow, "%s: %lld", key, (long long)value);
    }
}

void harness_flow_close(const struct harness_flow *flow)
{
    ddp_text_add(flow->out, flow->is_open ? "}\n" : "{}\n");
}
