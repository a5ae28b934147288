/* Status names and error text. Error text is cut, never overrun: the outermost words matter most,
 * so a full buffer loses its tail. */
#include "ddpcore/base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *ddp_status_name(ddp_status status)
{
    switch (status) {
#define X(id, value, name, meaning) \
    case id:                        \
        return name;
        DDP_STATUS_TABLE(X)
#undef X
    }
    return "UNKNOWN";
}

const char *ddp_status_text(ddp_status status)
{
    switch (status) {
#define X(id, value, name, meaning) \
    case id:                        \
        return meaning;
        DDP_STATUS_TABLE(X)
#undef X
    }
    return "not a status";
}

ddp_status ddp_status_parse(const char *name, ddp_status *out)
{
    static const struct {
        ddp_status status;
        const char *name;
    } rows[] = {
#define X(id, value, status_name, meaning) {id, status_name},
        DDP_STATUS_TABLE(X)
#undef X
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (strcmp(rows[i].name, name) == 0) {
            *out = rows[i].status;
            return DDP_OK;
        }
    }
    return DDP_E_NOT_FOUND;
}

ddp_status ddp_err_set(struct ddp_err *err, ddp_status status, const char *format, ...)
{
    va_list args;

    if (err == NULL) {
        return status;
    }
    va_start(args, format);
    if (vsnprintf(err->text, sizeof(err->text), format, args) < 0) {
        err->text[0] = '\0';
    }
    va_end(args);
    return status;
}

ddp_status ddp_err_wrap(struct ddp_err *err, ddp_status status, const char *format, ...)
{
    char inner[sizeof(err->text)];
    va_list args;
    size_t used;

    if (err == NULL) {
        return status;
    }
    memcpy(inner, err->text, sizeof(inner));
    inner[sizeof(inner) - 1] = '\0';
    va_start(args, format);
    if (vsnprintf(err->text, sizeof(err->text), format, args) < 0) {
        err->text[0] = '\0';
    }
    va_end(args);
    used = strlen(err->text);
    (void)snprintf(err->text + used, sizeof(err->text) - used, ": %s",
                   inner[0] != '\0' ? inner : ddp_status_text(status));
    return status;
}

void ddp_assert_fail(const char *condition, const char *file, int line, const char *function)
{
    (void)fprintf(stderr, "%s:%d: %s: assertion failed: %s\n", file, line, function, condition);
    abort();
}
