#include "harness/dumps/pickle.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "harness/dumps/pickle_stack.h"

static ddp_status cut_short(struct harness_pickle *reader)
{
    reader->is_short = true;
    return harness_pickle_fail(reader, DDP_E_PARSE, "the pickle ends here, cut short");
}

static uint64_t little_endian(const unsigned char *data, size_t bytes)
{
    uint64_t value = 0;

    for (size_t i = 0; i < bytes; i++) {
        value |= (uint64_t)data[i] << (8 * i);
    }
    return value;
}

/* The operand's bytes; NULL: the file ends before. */
static const unsigned char *operand(struct harness_pickle *reader, size_t bytes)
{
    const unsigned char *found = reader->data + reader->next;

    if (reader->size_bytes - reader->next < bytes) {
        return NULL;
    }
    reader->next += bytes;
    return found;
}

/* A whole number of up to 8 bytes, the lowest first, with its sign in the highest bit. */
static ddp_status push_long(struct harness_pickle *reader)
{
    const unsigned char *size = operand(reader, 1);
    const unsigned char *bytes = size != NULL ? operand(reader, *size) : NULL;
    uint64_t value;

    if (bytes == NULL) {
        return cut_short(reader);
    }
    if (*size > 9 || (*size == 9 && bytes[8] != 0)) {
        return harness_pickle_fail(reader, DDP_E_PARSE, "a number of more than 64 bits");
    }
    value = little_endian(bytes, *size > 8 ? 8 : *size);
    if (*size > 0 && *size < 8 && (bytes[*size - 1] & 0x80) != 0) {
        value |= ~UINT64_C(0) << (8 * *size);
    }
    return harness_pickle_push(reader, PICKLE_SHARED, json_integer((json_int_t)value), 0);
}

/* BINFLOAT: 8 bytes, the highest first. What is not finite becomes null. */
static ddp_status push_float(struct harness_pickle *reader)
{
    const unsigned char *bytes = operand(reader, 8);
    uint64_t bits = 0;
    json_t *number;
    double value;

    if (bytes == NULL) {
        return cut_short(reader);
    }
    for (int i = 0; i < 8; i++) {
        bits = bits << 8 | bytes[i];
    }
    memcpy(&value, &bits, sizeof value);
    number = json_real(value);
    return harness_pickle_push(reader, PICKLE_SHARED, number != NULL ? number : json_null(), 0);
}

static ddp_status push_int(struct harness_pickle *reader, size_t bytes)
{
    const unsigned char *found = operand(reader, bytes);
    uint64_t value;

    if (found == NULL) {
        return cut_short(reader);
    }
    value = little_endian(found, bytes);
    return harness_pickle_push(
        reader, PICKLE_SHARED,
        json_integer(bytes == 4 ? (json_int_t)(int32_t)(uint32_t)value : (json_int_t)value), 0);
}

static ddp_status push_text(struct harness_pickle *reader, size_t size_bytes_bytes)
{
    const unsigned char *size = operand(reader, size_bytes_bytes);
    const unsigned char *bytes;
    uint64_t length;

    if (size == NULL) {
        return cut_short(reader);
    }
    length = little_endian(size, size_bytes_bytes);
    bytes = length <= reader->size_bytes ? operand(reader, (size_t)length) : NULL;
    if (bytes == NULL) {
        return cut_short(reader);
    }
    return harness_pickle_push(reader, PICKLE_SHARED,
                               json_stringn((const char *)bytes, (size_t)length), 0);
}

static ddp_status read_numbered(struct harness_pickle *reader, unsigned char code)
{
    bool is_long = code == 'r' || code == 'j';
    const unsigned char *bytes = operand(reader, is_long ? 4 : 1);
    uint64_t index;

    if (bytes == NULL) {
        return cut_short(reader);
    }
    index = little_endian(bytes, is_long ? 4 : 1);
    return code == 'q' || code == 'r' ? harness_pickle_put(reader, index)
                                      : harness_pickle_get(reader, index);
}

static ddp_status read_group(struct harness_pickle *reader, unsigned char code)
{
    size_t marked = harness_pickle_above_mark(reader);

    switch (code) {
    case 'a': /* APPEND */
    case 's': /* SETITEM */
        if (reader->count < (code == 'a' ? 2u : 3u)) {
            return harness_pickle_fail(reader, DDP_E_PARSE, "the stack is empty");
        }
        marked = reader->count - (code == 'a' ? 1 : 2);
        return code == 'a' ? harness_pickle_append(reader, marked, marked)
                           : harness_pickle_set_items(reader, marked, marked);
    case 0x85: /* TUPLE1 to TUPLE3 */
    case 0x86:
    case 0x87:
        if (reader->count < code - 0x84u) {
            return harness_pickle_fail(reader, DDP_E_PARSE, "the stack is empty");
        }
        return harness_pickle_make_tuple(reader, reader->count - (code - 0x84u), false);
    default:
        break;
    }
    if (marked == 0) {
        return harness_pickle_fail(reader, DDP_E_PARSE, "there is no mark");
    }
    return code == 'e'   ? harness_pickle_append(reader, marked - 1, marked)
           : code == 'u' ? harness_pickle_set_items(reader, marked - 1, marked)
                         : harness_pickle_make_tuple(reader, marked, true);
}

static ddp_status read_opcode(struct harness_pickle *reader, unsigned char code)
{
    switch (code) {
    case 0x80: /* PROTO */
        return operand(reader, 1) != NULL ? DDP_OK : cut_short(reader);
    case 0x95: /* FRAME */
        return operand(reader, 8) != NULL ? DDP_OK : cut_short(reader);
    case '(':
        return harness_pickle_push(reader, PICKLE_MARK, NULL, 0);
    case '}':
        return harness_pickle_push(reader, PICKLE_MAP, json_object(), 1);
    case ']':
        return harness_pickle_push(reader, PICKLE_LIST, json_array(), 1);
    case ')':
        return harness_pickle_push(reader, PICKLE_SHARED, json_array(), 1);
    case 'N':
        return harness_pickle_push(reader, PICKLE_SHARED, json_null(), 0);
    case 0x88:
    case 0x89:
        return harness_pickle_push(reader, PICKLE_SHARED, json_boolean(code == 0x88), 0);
    case 'J':
        return push_int(reader, 4);
    case 'K':
        return push_int(reader, 1);
    case 'M':
        return push_int(reader, 2);
    case 0x8a:
        return push_long(reader);
    case 'G':
        return push_float(reader);
    case 'X':
        return push_text(reader, 4);
    case 0x8c:
        return push_text(reader, 1);
    case 0x94: /* MEMOIZE */
        return harness_pickle_put(reader, reader->memoized++);
    case 'q':
    case 'r':
    case 'h':
    case 'j':
        return read_numbered(reader, code);
    case 'a':
    case 's':
    case 'e':
    case 'u':
    case 't':
    case 0x85:
    case 0x86:
    case 0x87:
        return read_group(reader, code);
    default:
        return reader->rules != NULL ? harness_pickle_named(reader, code)
                                     : harness_diag_pickle_refuse(
                                           reader->at, code, "a Flight Recorder dump", reader->err);
    }
}

bool harness_diag_is_pickle(const void *data, size_t size_bytes)
{
    const unsigned char *bytes = data;

    return size_bytes >= 2 && bytes[0] == 0x80 && bytes[1] >= 2 && bytes[1] <= 5;
}

/* The file has ended: put together what is on the stack, from the innermost mark outwards. A value
 * that was being built is kept with what it has. */
static ddp_status salvage(struct harness_pickle *reader)
{
    ddp_status status = DDP_OK;

    while (status == DDP_OK && reader->count > 1) {
        size_t marked = harness_pickle_above_mark(reader);
        enum harness_pickle_form below = marked >= 2 ? reader->stack[marked - 2].form : PICKLE_MARK;

        if (marked == 0) {
            below = reader->stack[0].form;
            status = below == PICKLE_LIST ? harness_pickle_append(reader, 1, 1) : DDP_E_PARSE;
        } else if (below == PICKLE_LIST) {
            status = harness_pickle_append(reader, marked - 1, marked);
        } else if (below == PICKLE_MAP) {
            harness_pickle_drop_to(reader, reader->count - (reader->count - marked) % 2);
            status = harness_pickle_set_items(reader, marked - 1, marked);
        } else {
            harness_pickle_drop_to(reader, marked - 1); /* a tuple: not there yet */
        }
    }
    return status == DDP_OK && reader->count == 1 && reader->stack[0].form == PICKLE_MAP
               ? DDP_OK
               : harness_pickle_fail(reader, DDP_E_PARSE, "the pickle ends here, cut short");
}

/* Up to STOP, or to an error. */
static ddp_status read_opcodes(struct harness_pickle *reader)
{
    for (;;) {
        unsigned char code;

        reader->at = reader->next;
        if (reader->next == reader->size_bytes) {
            return cut_short(reader);
        }
        code = reader->data[reader->next++];
        if (code == '.') {
            return DDP_OK;
        }
        DDP_TRY(read_opcode(reader, code));
    }
}

/* *out: the one value that is there, if all went well. */
static ddp_status end(struct harness_pickle *reader, ddp_status status, json_t **out)
{
    if (status == DDP_OK && (reader->count != 1 || reader->stack[0].form == PICKLE_MARK)) {
        status =
            harness_pickle_fail(reader, DDP_E_PARSE, "the pickle ends with other than one value");
    }
    if (status == DDP_OK) {
        DDP_ASSERT(reader->stack != NULL && reader->count == 1);
        *out = json_incref(reader->stack[0].value);
    }
    harness_pickle_drop_to(reader, 0);
    for (size_t i = 0; i < reader->memo_count; i++) {
        json_decref(reader->memo[i].value);
    }
    free(reader->stack);
    free(reader->memo);
    return status;
}

ddp_status harness_diag_pickle_read(const void *data, size_t size_bytes, json_t **out,
                                    bool *is_short, struct ddp_err *err)
{
    struct harness_pickle reader = {.data = data, .size_bytes = size_bytes, .err = err};
    ddp_status status;

    *out = NULL;
    status = read_opcodes(&reader);
    *is_short = reader.is_short;
    if (reader.is_short) {
        status = salvage(&reader);
    }
    return end(&reader, status, out);
}

ddp_status harness_pickle_read_named(const void *data, size_t size_bytes,
                                     const struct harness_pickle_rules *rules, void *context,
                                     json_t **out, size_t *out_used, struct ddp_err *err)
{
    struct harness_pickle reader = {
        .data = data, .size_bytes = size_bytes, .err = err, .rules = rules, .context = context};
    ddp_status status;

    *out = NULL;
    status = read_opcodes(&reader);
    *out_used = reader.next;
    return end(&reader, status, out);
}
