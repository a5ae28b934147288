/* One line of the trace's text form: tokens, and values by name. */
#include "harness/trace/line.h"

#include <string.h>

#include "harness/trace/event_format.h"

ddp_status harness_line_refuse(struct harness_line *reader, const char *at, const char *what)
{
    size_t column = at >= reader->buffer && at < reader->buffer + reader->buffer_bytes
                        ? (size_t)(at - reader->buffer) + 1
                        : 1;

    return ddp_err_set(reader->err, DDP_E_PARSE, "%u:%zu: %s", reader->line, column, what);
}

const char *harness_line_value_of(const char *token, const char *name)
{
    size_t size = strlen(name);

    return strncmp(token, name, size) == 0 && token[size] == '=' ? token + size + 1 : NULL;
}

const char *harness_line_find(const struct harness_line *reader, const char *name)
{
    for (unsigned i = 0; i < reader->token_count; i++) {
        const char *value = harness_line_value_of(reader->token[i], name);

        if (value != NULL) {
            return value;
        }
    }
    return NULL;
}

ddp_status harness_line_find_u64(struct harness_line *reader, const char *name, uint64_t *out)
{
    const char *value = harness_line_find(reader, name);

    if (value == NULL || ddp_text_parse_u64(value, out) != DDP_OK) {
        return ddp_err_set(reader->err, DDP_E_PARSE, "%u:1: %s=<number> is missing", reader->line,
                           name);
    }
    return DDP_OK;
}

ddp_status harness_line_find_i64(struct harness_line *reader, const char *name, int64_t *out)
{
    const char *value = harness_line_find(reader, name);

    if (value == NULL || ddp_text_parse_i64(value, out) != DDP_OK) {
        return ddp_err_set(reader->err, DDP_E_PARSE, "%u:1: %s=<number> is missing", reader->line,
                           name);
    }
    return DDP_OK;
}

ddp_status harness_line_find_hex(struct harness_line *reader, const char *name, uint64_t *out)
{
    const char *value = harness_line_find(reader, name);

    if (value == NULL || harness_event_arg_parse("x:", value, out) != DDP_OK) {
        return ddp_err_set(reader->err, DDP_E_PARSE, "%u:1: %s=<16 hex digits> is missing",
                           reader->line, name);
    }
    return DDP_OK;
}

ddp_status harness_line_tokenise(struct harness_line *reader, const char *line, size_t size)
{
    char *text;
    char *save = NULL;

    DDP_ASSERT(size < reader->buffer_bytes); /* _open measured the lines */
    memcpy(reader->buffer, line, size);
    reader->buffer[size] = '\0';
    if (memchr(reader->buffer, '\0', size) != NULL) {
        return harness_line_refuse(reader, reader->buffer, "line has a NUL byte");
    }
    text = strstr(reader->buffer, " text=");
    reader->tail = NULL;
    if (text != NULL) {
        *text = '\0';
        reader->tail = text + strlen(" text=");
    }
    reader->token_count = 0;
    for (char *token = strtok_r(reader->buffer, " ", &save); token != NULL;
         token = strtok_r(NULL, " ", &save)) {
        if (reader->token_count == HARNESS_LINE_TOKENS_MAX) {
            return harness_line_refuse(reader, token, "line has too many fields");
        }
        reader->token[reader->token_count++] = token;
    }
    return DDP_OK;
}

ddp_status harness_line_open(struct harness_line *reader, struct ddp_mem *mem, size_t line_bytes)
{
    reader->buffer_bytes = line_bytes + 1;
    reader->buffer = ddp_mem_array(mem, reader->buffer_bytes, 1);
    return reader->buffer != NULL ? DDP_OK : DDP_E_NOMEM;
}
