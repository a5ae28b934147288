/* Opcodes that name, call or build something. What a name stands for, and what comes of a call, the
 * rules of the file's kind say; here is only what they are called with. */
#include <string.h>

#include "harness/dumps/pickle.h"
#include "harness/dumps/pickle_stack.h"

enum { NAME_BYTES_MAX = 256 };

/* The n-th item from the top, 1 is the top. NULL: there are fewer, or it is a mark. */
static const struct harness_pickle_item *item(const struct harness_pickle *reader, size_t n)
{
    return reader->count >= n && reader->stack[reader->count - n].form != PICKLE_MARK
               ? &reader->stack[reader->count - n]
               : NULL;
}

/* The rules' own text, behind the opcode's place. */
static ddp_status refused(const struct harness_pickle *reader, ddp_status status)
{
    return ddp_err_wrap(reader->err, status, "offset %zu", reader->at);
}

static ddp_status name_it(struct harness_pickle *reader, const char *module, const char *name)
{
    json_t *value = NULL;
    ddp_status status = reader->rules->name(reader->context, module, name, &value, reader->err);

    return status == DDP_OK ? harness_pickle_push(reader, PICKLE_SHARED, value, 1)
                            : refused(reader, status);
}

/* Up to the line's end, which is passed. False: there is none within the bounds. */
static bool read_line(struct harness_pickle *reader, char *out)
{
    const unsigned char *line = reader->data + reader->next;
    const size_t left = reader->size_bytes - reader->next;
    const unsigned char *end =
        memchr(line, '\n', left < NAME_BYTES_MAX ? left : (size_t)NAME_BYTES_MAX);

    if (end == NULL || memchr(line, '\0', (size_t)(end - line)) != NULL) {
        return false;
    }
    memcpy(out, line, (size_t)(end - line));
    out[end - line] = '\0';
    reader->next += (size_t)(end - line) + 1;
    return true;
}

static ddp_status read_global(struct harness_pickle *reader)
{
    char module[NAME_BYTES_MAX], name[NAME_BYTES_MAX];

    if (!read_line(reader, module) || !read_line(reader, name)) {
        return harness_pickle_fail(reader, DDP_E_PARSE, "a name without an end");
    }
    return name_it(reader, module, name);
}

/* A text of the stack. False: it is none, too long, or has a zero byte. */
static bool take_text(const json_t *value, char *out)
{
    const char *text = json_string_value(value);

    if (text == NULL || json_string_length(value) >= NAME_BYTES_MAX ||
        strlen(text) != json_string_length(value)) {
        return false;
    }
    memcpy(out, text, strlen(text) + 1);
    return true;
}

static ddp_status read_stack_global(struct harness_pickle *reader)
{
    const struct harness_pickle_item *first = item(reader, 2), *second = item(reader, 1);
    char module[NAME_BYTES_MAX], name[NAME_BYTES_MAX];

    if (first == NULL || second == NULL || !take_text(first->value, module) ||
        !take_text(second->value, name)) {
        return harness_pickle_fail(reader, DDP_E_PARSE, "a name that is no text");
    }
    harness_pickle_drop_to(reader, reader->count - 2);
    return name_it(reader, module, name);
}

static ddp_status call_it(struct harness_pickle *reader)
{
    const struct harness_pickle_item *callee = item(reader, 2), *arguments = item(reader, 1);
    json_t *value = NULL;
    ddp_status status;
    bool is_map;

    if (callee == NULL || arguments == NULL || !json_is_array(arguments->value)) {
        return harness_pickle_fail(reader, DDP_E_PARSE, "a call without a name or arguments");
    }
    status =
        reader->rules->call(reader->context, callee->value, arguments->value, &value, reader->err);
    if (status != DDP_OK) {
        return refused(reader, status);
    }
    harness_pickle_drop_to(reader, reader->count - 2);
    is_map = json_is_object(value) && json_object_size(value) == 0;
    return harness_pickle_push(reader, is_map ? PICKLE_MAP : PICKLE_SHARED, value, 1);
}

/* Attributes of a map, such as _metadata of torch's state dicts, say nothing of what is in it. */
static ddp_status drop_attributes(struct harness_pickle *reader)
{
    const struct harness_pickle_item *built = item(reader, 2);

    if (built == NULL || item(reader, 1) == NULL || !json_is_object(built->value) ||
        (built->form != PICKLE_MAP && built->form != PICKLE_HELD)) {
        return harness_diag_pickle_refuse(reader->at, 'b', reader->rules->what, reader->err);
    }
    harness_pickle_drop_to(reader, reader->count - 1);
    return DDP_OK;
}

static ddp_status find_persistent(struct harness_pickle *reader)
{
    const struct harness_pickle_item *id = item(reader, 1);
    json_t *value = NULL;
    ddp_status status;

    if (id == NULL) {
        return harness_pickle_fail(reader, DDP_E_PARSE, "the stack is empty");
    }
    status = reader->rules->persistent(reader->context, id->value, &value, reader->err);
    if (status != DDP_OK) {
        return refused(reader, status);
    }
    harness_pickle_drop_to(reader, reader->count - 1);
    return harness_pickle_push(reader, PICKLE_SHARED, value, 1);
}

ddp_status harness_pickle_named(struct harness_pickle *reader, unsigned char code)
{
    DDP_ASSERT(reader->rules != NULL);
    switch (code) {
    case 'c': /* GLOBAL */
        return read_global(reader);
    case 0x93: /* STACK_GLOBAL */
        return read_stack_global(reader);
    case 'R': /* REDUCE */
        return call_it(reader);
    case 'b': /* BUILD */
        return drop_attributes(reader);
    case 'Q': /* BINPERSID */
        return find_persistent(reader);
    default:
        return harness_diag_pickle_refuse(reader->at, code, reader->rules->what, reader->err);
    }
}
