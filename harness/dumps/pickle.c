#include "harness/dumps/pickle.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* What may be on the stack. LIST and MAP can still grow. */
enum form { MARK, SHARED, LIST, MAP };

struct item {
    enum form form;
    json_t *value; /* owned; NULL: a mark */
    unsigned depth;
    size_t weight;  /* values in it, itself too, each time that it is there */
    size_t memo;    /* 1 + its number in the memo; 0: it has none */
    bool is_closed; /* in the memo: it is no longer on the stack, so it grows no more */
};

/* What is fetched from the memo again and again unfolds the file: to no more than so many times its
 * size, and some. */
enum { UNFOLD_TIMES = 16, UNFOLD_MORE = 4096 };

struct reader {
    const unsigned char *data;
    size_t size_bytes, at; /* at: of the opcode that is being read */
    size_t next;
    struct item *stack;
    size_t count, capacity;
    struct item *memo;
    size_t memo_count, memoized;
    size_t unfolded; /* weights of all that was fetched */
    bool is_short;   /* the bytes ended before STOP */
    struct ddp_err *err;
};

static ddp_status fail(const struct reader *reader, ddp_status status, const char *what)
{
    return ddp_err_set(reader->err, status, "offset %zu: %s", reader->at, what);
}

static ddp_status cut_short(struct reader *reader)
{
    reader->is_short = true;
    return fail(reader, DDP_E_PARSE, "the pickle ends here, cut short");
}

/* Takes over value. */
static ddp_status push(struct reader *reader, enum form form, json_t *value, unsigned depth)
{
    if (value == NULL && form != MARK) {
        return fail(reader, DDP_E_PARSE, "a text that is not UTF-8, or memory is out");
    }
    if (depth > HARNESS_DIAG_PICKLE_DEPTH_MAX) {
        json_decref(value);
        return fail(reader, DDP_E_PARSE, "nested too deeply for a record of collectives");
    }
    if (reader->count == reader->capacity) {
        size_t capacity = reader->capacity == 0 ? 64 : 2 * reader->capacity;
        struct item *grown = realloc(reader->stack, capacity * sizeof *grown);

        if (grown == NULL) {
            json_decref(value);
            return fail(reader, DDP_E_NOMEM, "memory is out");
        }
        reader->stack = grown;
        reader->capacity = capacity;
    }
    reader->stack[reader->count++] = (struct item){form, value, depth, 1, 0, false};
    return DDP_OK;
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
static const unsigned char *operand(struct reader *reader, size_t bytes)
{
    const unsigned char *found = reader->data + reader->next;

    if (reader->size_bytes - reader->next < bytes) {
        return NULL;
    }
    reader->next += bytes;
    return found;
}

/* Where the items above the last mark begin; 0: there is no mark. */
static size_t above_mark(const struct reader *reader)
{
    size_t i = reader->count;

    while (i > 0 && reader->stack[i - 1].form != MARK) {
        i--;
    }
    return i;
}

/* Leave only so many items on the stack. */
static void drop_to(struct reader *reader, size_t count)
{
    while (reader->count > count) {
        json_decref(reader->stack[--reader->count].value);
    }
}

/* It has become a part of something. */
static void close_item(struct reader *reader, const struct item *item)
{
    if (item->memo > 0) {
        struct item *kept = &reader->memo[item->memo - 1];

        kept->is_closed = true;
        kept->depth = item->depth;
        kept->weight = item->weight;
    }
}

/* Move items from first on into the list below `below`. */
static ddp_status append(struct reader *reader, size_t below, size_t first)
{
    struct item *list = below > 0 ? &reader->stack[below - 1] : NULL;

    if (list == NULL || list->form != LIST) {
        return fail(reader, DDP_E_PARSE, "values are appended to what is no list");
    }
    for (size_t i = first; i < reader->count; i++) {
        struct item *item = &reader->stack[i];
        unsigned depth = item->depth + 1;

        if (item->form == MARK || depth > HARNESS_DIAG_PICKLE_DEPTH_MAX) {
            return fail(reader, DDP_E_PARSE, "nested too deeply, or a mark where a value belongs");
        }
        if (json_array_append(list->value, item->value) != 0) {
            return fail(reader, DDP_E_NOMEM, "memory is out");
        }
        list->depth = list->depth > depth ? list->depth : depth;
        list->weight += item->weight;
        close_item(reader, item);
    }
    drop_to(reader, below);
    return DDP_OK;
}

static ddp_status set_items(struct reader *reader, size_t below, size_t first)
{
    struct item *map = below > 0 ? &reader->stack[below - 1] : NULL;

    if (map == NULL || map->form != MAP || (reader->count - first) % 2 != 0) {
        return fail(reader, DDP_E_PARSE, "keys and values are put into what is no map");
    }
    for (size_t i = first; i < reader->count; i += 2) {
        struct item *value = &reader->stack[i + 1];
        unsigned depth = value->depth + 1;

        if (!json_is_string(reader->stack[i].value) || value->form == MARK ||
            depth > HARNESS_DIAG_PICKLE_DEPTH_MAX) {
            return fail(reader, DDP_E_PARSE, "a key that is no text, or nested too deeply");
        }
        if (json_object_set(map->value, json_string_value(reader->stack[i].value), value->value) !=
            0) {
            return fail(reader, DDP_E_PARSE, "a key that cannot be kept");
        }
        map->depth = map->depth > depth ? map->depth : depth;
        map->weight += value->weight + 1;
        close_item(reader, value);
    }
    drop_to(reader, below);
    return DDP_OK;
}

/* The last items become one array. */
static ddp_status make_tuple(struct reader *reader, size_t first, bool has_mark)
{
    json_t *array = json_array();
    unsigned depth = 0;
    size_t weight = 1;
    ddp_status status;

    for (size_t i = first; i < reader->count; i++) {
        struct item *item = &reader->stack[i];

        if (item->form == MARK || json_array_append(array, item->value) != 0) {
            json_decref(array);
            return fail(reader, DDP_E_PARSE, "a mark where a value belongs, or memory is out");
        }
        close_item(reader, item);
        depth = depth > item->depth + 1 ? depth : item->depth + 1;
        weight += item->weight;
    }
    drop_to(reader, first - (has_mark ? 1 : 0));
    status = push(reader, SHARED, array, depth);
    if (status == DDP_OK) {
        reader->stack[reader->count - 1].weight = weight;
    }
    return status;
}

/* Notes the top of the stack. */
static ddp_status put(struct reader *reader, uint64_t index)
{
    struct item *top = reader->count > 0 ? &reader->stack[reader->count - 1] : NULL;

    if (top == NULL || top->form == MARK) {
        return fail(reader, DDP_E_PARSE, "nothing is there to be remembered");
    }
    if (index > reader->size_bytes) {
        return fail(reader, DDP_E_PARSE, "a number in the memo beyond the file's size");
    }
    if (index >= reader->memo_count) {
        size_t count = 2 * (size_t)index + 64;
        struct item *grown = realloc(reader->memo, count * sizeof *grown);

        if (grown == NULL) {
            return fail(reader, DDP_E_NOMEM, "memory is out");
        }
        memset(grown + reader->memo_count, 0, (count - reader->memo_count) * sizeof *grown);
        reader->memo = grown;
        reader->memo_count = count;
    }
    json_decref(reader->memo[index].value);
    reader->memo[index] = *top;
    reader->memo[index].value = json_incref(top->value);
    reader->memo[index].is_closed = top->form == SHARED;
    top->memo = (size_t)index + 1;
    return DDP_OK;
}

static ddp_status get(struct reader *reader, uint64_t index)
{
    const struct item *kept;
    ddp_status status;

    if (index >= reader->memo_count || reader->memo[index].form == MARK) {
        return fail(reader, DDP_E_PARSE, "the memo has no such number");
    }
    kept = &reader->memo[index];
    reader->unfolded += kept->weight;
    if (!kept->is_closed || reader->unfolded / UNFOLD_TIMES > reader->size_bytes + UNFOLD_MORE) {
        return fail(reader, DDP_E_UNSUPPORTED,
                    kept->is_closed ? "it unfolds to many times its size"
                                    : "a list or map within itself is refused");
    }
    status = push(reader, SHARED, json_incref(kept->value), kept->depth);
    if (status == DDP_OK) {
        reader->stack[reader->count - 1].weight = kept->weight;
    }
    return status;
}

/* A whole number of up to 8 bytes, the lowest first, with its sign in the highest bit. */
static ddp_status push_long(struct reader *reader)
{
    const unsigned char *size = operand(reader, 1);
    const unsigned char *bytes = size != NULL ? operand(reader, *size) : NULL;
    uint64_t value;

    if (bytes == NULL) {
        return cut_short(reader);
    }
    if (*size > 9 || (*size == 9 && bytes[8] != 0)) {
        return fail(reader, DDP_E_PARSE, "a number of more than 64 bits");
    }
    value = little_endian(bytes, *size > 8 ? 8 : *size);
    if (*size > 0 && *size < 8 && (bytes[*size - 1] & 0x80) != 0) {
        value |= ~UINT64_C(0) << (8 * *size);
    }
    return push(reader, SHARED, json_integer((json_int_t)value), 0);
}

/* BINFLOAT: 8 bytes, the highest first. What is not finite becomes null. */
static ddp_status push_float(struct reader *reader)
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
    return push(reader, SHARED, number != NULL ? number : json_null(), 0);
}

static ddp_status push_int(struct reader *reader, size_t bytes)
{
    const unsigned char *found = operand(reader, bytes);
    uint64_t value;

    if (found == NULL) {
        return cut_short(reader);
    }
    value = little_endian(found, bytes);
    return push(reader, SHARED,
                json_integer(bytes == 4 ? (json_int_t)(int32_t)(uint32_t)value : (json_int_t)value),
                0);
}

static ddp_status push_text(struct reader *reader, size_t size_bytes_bytes)
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
    return push(reader, SHARED, json_stringn((const char *)bytes, (size_t)length), 0);
}

static ddp_status read_numbered(struct reader *reader, unsigned char code)
{
    bool is_long = code == 'r' || code == 'j';
    const unsigned char *bytes = operand(reader, is_long ? 4 : 1);
    uint64_t index;

    if (bytes == NULL) {
        return cut_short(reader);
    }
    index = little_endian(bytes, is_long ? 4 : 1);
    return code == 'q' || code == 'r' ? put(reader, index) : get(reader, index);
}

static ddp_status read_group(struct reader *reader, unsigned char code)
{
    size_t marked = above_mark(reader);

    switch (code) {
    case 'a': /* APPEND */
    case 's': /* SETITEM */
        if (reader->count < (code == 'a' ? 2u : 3u)) {
            return fail(reader, DDP_E_PARSE, "the stack is empty");
        }
        marked = reader->count - (code == 'a' ? 1 : 2);
        return code == 'a' ? append(reader, marked, marked) : set_items(reader, marked, marked);
    case 0x85: /* TUPLE1 to TUPLE3 */
    case 0x86:
    case 0x87:
        if (reader->count < code - 0x84u) {
            return fail(reader, DDP_E_PARSE, "the stack is empty");
        }
        return make_tuple(reader, reader->count - (code - 0x84u), false);
    default:
        break;
    }
    if (marked == 0) {
        return fail(reader, DDP_E_PARSE, "there is no mark");
    }
    return code == 'e'   ? append(reader, marked - 1, marked)
           : code == 'u' ? set_items(reader, marked - 1, marked)
                         : make_tuple(reader, marked, true);
}

static ddp_status read_opcode(struct reader *reader, unsigned char code)
{
    switch (code) {
    case 0x80: /* PROTO */
        return operand(reader, 1) != NULL ? DDP_OK : cut_short(reader);
    case 0x95: /* FRAME */
        return operand(reader, 8) != NULL ? DDP_OK : cut_short(reader);
    case '(':
        return push(reader, MARK, NULL, 0);
    case '}':
        return push(reader, MAP, json_object(), 1);
    case ']':
        return push(reader, LIST, json_array(), 1);
    case ')':
        return push(reader, SHARED, json_array(), 1);
    case 'N':
        return push(reader, SHARED, json_null(), 0);
    case 0x88:
    case 0x89:
        return push(reader, SHARED, json_boolean(code == 0x88), 0);
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
        return put(reader, reader->memoized++);
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
        return harness_diag_pickle_refuse(reader->at, code, reader->err);
    }
}

bool harness_diag_is_pickle(const void *data, size_t size_bytes)
{
    const unsigned char *bytes = data;

    return size_bytes >= 2 && bytes[0] == 0x80 && bytes[1] >= 2 && bytes[1] <= 5;
}

/* The file has ended: put together what is on the stack, from the innermost mark outwards. A value
 * that was being built is kept with what it has. */
static ddp_status salvage(struct reader *reader)
{
    ddp_status status = DDP_OK;

    while (status == DDP_OK && reader->count > 1) {
        size_t marked = above_mark(reader);
        enum form below = marked >= 2 ? reader->stack[marked - 2].form : MARK;

        if (marked == 0) {
            below = reader->stack[0].form;
            status = below == LIST ? append(reader, 1, 1) : DDP_E_PARSE;
        } else if (below == LIST) {
            status = append(reader, marked - 1, marked);
        } else if (below == MAP) {
            drop_to(reader, reader->count - (reader->count - marked) % 2);
            status = set_items(reader, marked - 1, marked);
        } else {
            drop_to(reader, marked - 1); /* a tuple: not there yet */
        }
    }
    return status == DDP_OK && reader->count == 1 && reader->stack[0].form == MAP
               ? DDP_OK
               : fail(reader, DDP_E_PARSE, "the pickle ends here, cut short");
}

ddp_status harness_diag_pickle_read(const void *data, size_t size_bytes, json_t **out,
                                    bool *is_short, struct ddp_err *err)
{
    struct reader reader = {.data = data, .size_bytes = size_bytes, .err = err};
    ddp_status status = DDP_OK;
    bool is_done = false;

    *out = NULL;
    while (status == DDP_OK && !is_done) {
        reader.at = reader.next;
        if (reader.next == size_bytes) {
            status = cut_short(&reader);
        } else if (reader.data[reader.next] == '.') {
            is_done = true;
        } else {
            reader.next++;
            status = read_opcode(&reader, reader.data[reader.at]);
        }
    }
    *is_short = reader.is_short;
    if (reader.is_short) {
        status = salvage(&reader);
    }
    if (status == DDP_OK && (reader.count != 1 || reader.stack[0].form == MARK)) {
        status = fail(&reader, DDP_E_PARSE, "the pickle ends with other than one value");
    }
    if (status == DDP_OK) {
        DDP_ASSERT(reader.stack != NULL && reader.count == 1);
        *out = json_incref(reader.stack[0].value);
    }
    drop_to(&reader, 0);
    for (size_t i = 0; i < reader.memo_count; i++) {
        json_decref(reader.memo[i].value);
    }
    free(reader.stack);
    free(reader.memo);
    return status;
}
