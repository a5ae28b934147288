/* Text building, strict numbers, nearest names. Numbers are parsed strictly and without a locale:
 * what a person mistyped is refused, not guessed. */
#include "ddpcore/base/text.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ddp_text_init(struct ddp_text *text, struct ddp_mem *mem)
{
    memset(text, 0, sizeof(*text));
    text->mem = mem;
}

void ddp_text_init_fixed(struct ddp_text *text, char *data, size_t capacity_bytes)
{
    DDP_ASSERT(capacity_bytes > 0);
    data[0] = '\0';
    *text = (struct ddp_text){.data = data, .capacity_bytes = capacity_bytes};
}

void ddp_text_fini(struct ddp_text *text)
{
    if (text->data != NULL) {
        ddp_mem_free(text->mem, text->data);
    }
    ddp_text_init(text, text->mem);
}

/* Room for added_bytes more and the NUL; false marks the text as failed. */
static bool reserve(struct ddp_text *text, size_t added_bytes)
{
    size_t needed;
    size_t capacity = text->capacity_bytes == 0 ? 64 : text->capacity_bytes;
    char *grown;

    DDP_ASSERT(text->size_bytes == 0 || text->size_bytes < text->capacity_bytes);
    if (text->is_failed) {
        return false;
    }
    if (added_bytes > SIZE_MAX / 4 - text->size_bytes) {
        text->is_failed = true;
        return false;
    }
    needed = text->size_bytes + added_bytes + 1;
    if (needed <= text->capacity_bytes) {
        return true;
    }
    if (text->mem == NULL) { /* fixed */
        text->is_failed = true;
        return false;
    }
    while (capacity < needed) {
        capacity *= 2;
    }
    grown = (char *)text->mem->alloc(text->mem, capacity);
    if (grown == NULL) {
        text->is_failed = true;
        return false;
    }
    if (text->data != NULL) {
        memcpy(grown, text->data, text->size_bytes + 1);
        ddp_mem_free(text->mem, text->data);
    }
    text->data = grown;
    text->capacity_bytes = capacity;
    return true;
}

/* A part of what is formatted: letters as they stand, a %s, or a number. */
struct piece {
    const char *data;
    size_t size_bytes;
    char digits[24];
};

static void set_number(struct piece *piece, unsigned long long magnitude, bool is_negative)
{
    char *at = piece->digits + sizeof piece->digits;

    do {
        *--at = (char)('0' + magnitude % 10);
        magnitude /= 10;
    } while (magnitude > 0);
    if (is_negative) {
        *--at = '-';
    }
    piece->data = at;
    piece->size_bytes = (size_t)(piece->digits + sizeof piece->digits - at);
}

/* The next part of a format that has only %s, %u, %d, %zu and %llu; false: it has another one. */
static bool take_piece(const char **format, va_list *args, struct piece *piece)
{
    const char *at = *format;

    if (*at != '%') {
        piece->data = at;
        piece->size_bytes = strcspn(at, "%");
        *format = at + piece->size_bytes;
    } else if (at[1] == 's') {
        const char *str = va_arg(*args, const char *);

        piece->data = str != NULL ? str : "(null)";
        piece->size_bytes = strlen(piece->data);
        *format = at + 2;
    } else if (at[1] == 'u') {
        set_number(piece, va_arg(*args, unsigned), false);
        *format = at + 2;
    } else if (at[1] == 'd') {
        int value = va_arg(*args, int);

        set_number(piece, value < 0 ? 0ULL - (unsigned long long)value : (unsigned long long)value,
                   value < 0);
        *format = at + 2;
    } else if (at[1] == 'z' && at[2] == 'u') {
        set_number(piece, va_arg(*args, size_t), false);
        *format = at + 3;
    } else if (at[1] == 'l' && at[2] == 'l' && at[3] == 'u') {
        set_number(piece, va_arg(*args, unsigned long long), false);
        *format = at + 4;
    } else {
        return false;
    }
    return true;
}

/* Most formats, without printf: a library that has taught it conversions of its own, as those of
 * Fortran do, has made it several times as slow. False: it is another format. */
static bool measure(const char *format, va_list *args, size_t *out_size_bytes)
{
    struct piece piece;

    *out_size_bytes = 0;
    while (*format != '\0') {
        if (!take_piece(&format, args, &piece)) {
            return false;
        }
        *out_size_bytes += piece.size_bytes;
    }
    return true;
}

/* There is room for all of it. */
static void write_pieces(struct ddp_text *text, const char *format, va_list *args)
{
    struct piece piece;

    while (*format != '\0' && take_piece(&format, args, &piece)) {
        DDP_ASSERT(piece.size_bytes < text->capacity_bytes - text->size_bytes);
        memcpy(text->data + text->size_bytes, piece.data, piece.size_bytes);
        text->size_bytes += piece.size_bytes;
    }
    text->data[text->size_bytes] = '\0';
}

/* Format into the room that there is; only if that was too little, grow and format again. */
void ddp_text_add(struct ddp_text *text, const char *format, ...)
{
    size_t room = text->is_failed ? 0 : text->capacity_bytes - text->size_bytes;
    char *end = room == 0 ? NULL : text->data + text->size_bytes;
    size_t size_bytes;
    bool is_simple;
    va_list args;
    int length;

    va_start(args, format);
    is_simple = measure(format, &args, &size_bytes);
    va_end(args);
    if (is_simple) {
        if (size_bytes < room || reserve(text, size_bytes)) {
            va_start(args, format);
            write_pieces(text, format, &args);
            va_end(args);
        }
        return;
    }
    va_start(args, format);
    length = vsnprintf(end, room, format, args);
    va_end(args);
    if (length >= 0 && (size_t)length < room) {
        text->size_bytes += (size_t)length;
        return;
    }
    if (end != NULL) {
        *end = '\0'; /* what did not fit is left out whole */
    }
    if (length < 0) {
        text->is_failed = true;
        return;
    }
    if (!reserve(text, (size_t)length)) {
        return;
    }
    va_start(args, format);
    (void)vsnprintf(text->data + text->size_bytes, (size_t)length + 1, format, args);
    va_end(args);
    text->size_bytes += (size_t)length;
    DDP_ASSERT(text->size_bytes < text->capacity_bytes);
}

void ddp_text_add_bytes(struct ddp_text *text, const void *data, size_t size_bytes)
{
    if (!reserve(text, size_bytes)) {
        return;
    }
    if (size_bytes > 0) {
        memcpy(text->data + text->size_bytes, data, size_bytes);
    }
    text->size_bytes += size_bytes;
    DDP_ASSERT(text->size_bytes < text->capacity_bytes);
    text->data[text->size_bytes] = '\0';
}

/* Room for size_bytes more, at the end of the text; NULL: it has failed. */
static char *extend(struct ddp_text *text, size_t size_bytes)
{
    char *end;

    if (!reserve(text, size_bytes)) {
        return NULL;
    }
    end = text->data + text->size_bytes;
    text->size_bytes += size_bytes;
    text->data[text->size_bytes] = '\0';
    return end;
}

void ddp_text_add_u64(struct ddp_text *text, uint64_t value, size_t width)
{
    char digits[20];
    size_t count = 0;
    size_t padding;
    char *out;

    do {
        digits[count++] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    padding = width > count ? width - count : 0;
    out = extend(text, padding + count);
    if (out == NULL) {
        return;
    }
    memset(out, ' ', padding);
    for (size_t i = 0; i < count; i++) {
        out[padding + i] = digits[count - 1 - i];
    }
}

void ddp_text_add_hex(struct ddp_text *text, uint64_t value)
{
    char *out = extend(text, 16);

    for (size_t i = 0; out != NULL && i < 16; i++) {
        out[i] = "0123456789abcdef"[value >> (60 - 4 * i) & 15];
    }
}

void ddp_text_add_str(struct ddp_text *text, const char *str, size_t width)
{
    const size_t length = strlen(str);
    const size_t padding = width > length ? width - length : 0;
    char *out;

    ddp_text_add_bytes(text, str, length);
    out = extend(text, padding);
    if (out != NULL) {
        memset(out, ' ', padding);
    }
}

const char *ddp_text_str(const struct ddp_text *text)
{
    return text->data == NULL ? "" : text->data;
}

ddp_status ddp_text_parse_u64(const char *text, uint64_t *out)
{
    uint64_t value = 0;
    bool overflows = false;

    if (*text == '\0') {
        return DDP_E_PARSE;
    }
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9') {
            return DDP_E_PARSE;
        }
        overflows = overflows || __builtin_mul_overflow(value, (uint64_t)10, &value) ||
                    __builtin_add_overflow(value, (uint64_t)(*text - '0'), &value);
    }
    if (overflows) {
        return DDP_E_OVERFLOW;
    }
    *out = value;
    return DDP_OK;
}

ddp_status ddp_text_parse_i64(const char *text, int64_t *out)
{
    bool is_negative = *text == '-';
    uint64_t limit = (uint64_t)INT64_MAX + (is_negative ? 1u : 0u);
    uint64_t magnitude;

    DDP_TRY(ddp_text_parse_u64(is_negative ? text + 1 : text, &magnitude));
    if (magnitude > limit) {
        return DDP_E_OVERFLOW;
    }
    /* -m as -(m-1) - 1, because -INT64_MIN does not fit. */
    *out = is_negative && magnitude > 0 ? -(int64_t)(magnitude - 1) - 1 : (int64_t)magnitude;
    return DDP_OK;
}

ddp_status ddp_text_parse_hex(const char *text, size_t digit_count, uint64_t *out)
{
    DDP_ASSERT(digit_count >= 1 && digit_count <= 16);
    if (strlen(text) != digit_count || strspn(text, "0123456789abcdef") != digit_count) {
        return DDP_E_PARSE;
    }
    *out = strtoull(text, NULL, 16);
    return DDP_OK;
}

ddp_status ddp_text_parse_f64(const char *text, double *out)
{
    const char *digits = *text == '-' ? text + 1 : text;
    char *end;
    double value;

    /* strtod would take spaces, '+', "inf" and "nan" here. */
    if (*digits != '.' && (*digits < '0' || *digits > '9')) {
        return DDP_E_PARSE;
    }
    errno = 0;
    value = strtod(text, &end);
    if (end == text || *end != '\0') {
        return DDP_E_PARSE;
    }
    if (errno == ERANGE && (value == HUGE_VAL || value == -HUGE_VAL)) {
        return DDP_E_OVERFLOW;
    }
    *out = value;
    return DDP_OK;
}

enum { NAME_MAX_BYTES = 96 };

static size_t min_of(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Edit distance where swapping two neighbours counts once. Both lengths <= NAME_MAX_BYTES. */
static size_t edit_distance(const char *a, size_t a_bytes, const char *b, size_t b_bytes)
{
    /* Row i holds the distances of a's first i bytes to every prefix of b; three rows are enough.
     */
    size_t rows[3][NAME_MAX_BYTES + 1];
    size_t *before = rows[0];
    size_t *last = rows[1];
    size_t *row = rows[2];

    for (size_t j = 0; j <= b_bytes; j++) {
        last[j] = j;
        before[j] = 0;
    }
    for (size_t i = 1; i <= a_bytes; i++) {
        size_t *freed = before;

        row[0] = i;
        for (size_t j = 1; j <= b_bytes; j++) {
            size_t cost = a[i - 1] == b[j - 1] ? 0 : 1;

            row[j] = min_of(min_of(last[j], row[j - 1]) + 1, last[j - 1] + cost);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                row[j] = min_of(row[j], before[j - 2] + 1);
            }
        }
        before = last;
        last = row;
        row = freed;
    }
    return last[b_bytes];
}

const char *ddp_text_nearest(const char *name, const char *const *names, size_t count)
{
    size_t name_bytes = strlen(name);
    size_t best_distance = SIZE_MAX;
    const char *best = NULL;

    if (name_bytes > NAME_MAX_BYTES) {
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        size_t other_bytes = strlen(names[i]);
        size_t distance;

        if (other_bytes > NAME_MAX_BYTES) {
            continue;
        }
        distance = edit_distance(name, name_bytes, names[i], other_bytes);
        if (distance < best_distance) {
            best_distance = distance;
            best = names[i];
        }
    }
    return best != NULL && best_distance <= name_bytes / 3 ? best : NULL;
}
