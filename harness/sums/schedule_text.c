/* Purpose: parse a dumped schedule strictly: known keys, ranges inside their buffers, dependencies
 * on earlier steps only.
 * Idea: a line is words, a word is key=value or a move's name. It runs and proves nothing. */
#include "harness/sums/schedule_text.h"

#include <stdlib.h>
#include <string.h>

#include "ddpcore/base/text.h"

const char *harness_move_name(enum harness_move_kind kind)
{
    static const char *const names[] = {
#define X(id, name, reads, writes, talks) name,
        HARNESS_MOVE_TABLE(X)
#undef X
    };

    return kind < HARNESS_MOVE_KIND_COUNT ? names[kind] : "?";
}

struct reader {
    char *cursor; /* rest of the copy of the text */
    char *words;  /* rest of the present line */
    int line;
    size_t move_capacity;
    struct harness_schedule *out;
    struct ddp_err *err;
};

static ddp_status fail(const struct reader *reader, const char *what, const char *word)
{
    return ddp_err_set(reader->err, DDP_E_PARSE, "line %d: %s: '%s'", reader->line, what, word);
}

static bool next_line(struct reader *reader)
{
    while (*reader->cursor != '\0') {
        char *end = strchr(reader->cursor, '\n');

        reader->words = reader->cursor;
        reader->line++;
        if (end != NULL) {
            *end = '\0';
            reader->cursor = end + 1;
        } else {
            reader->cursor += strlen(reader->cursor);
        }
        if (reader->words[0] != '\0' && reader->words[0] != '#') {
            return true;
        }
    }
    return false;
}

static char *next_word(struct reader *reader)
{
    char *word;

    while (*reader->words == ' ') {
        reader->words++;
    }
    if (*reader->words == '\0') {
        return NULL;
    }
    word = reader->words;
    reader->words += strcspn(word, " ");
    if (*reader->words == ' ') {
        *reader->words++ = '\0';
    }
    return word;
}

/* The value behind "key=", or NULL if word is another key. */
static const char *value_of(const char *word, const char *key)
{
    size_t length = strlen(key);

    return strncmp(word, key, length) == 0 && word[length] == '=' ? word + length + 1 : NULL;
}

static ddp_status parse_u32(const struct reader *reader, const char *text, uint32_t *out)
{
    uint64_t value = 0;

    if (ddp_text_parse_u64(text, &value) != DDP_OK || value > UINT32_MAX) {
        return fail(reader, "not a number", text);
    }
    *out = (uint32_t)value;
    return DDP_OK;
}

static ddp_status parse_size(const struct reader *reader, const char *text, size_t *out)
{
    uint64_t value = 0;

    if (ddp_text_parse_u64(text, &value) != DDP_OK || value > SIZE_MAX / 16) {
        return fail(reader, "not a count", text);
    }
    *out = (size_t)value;
    return DDP_OK;
}

static ddp_status parse_header_word(struct reader *reader, const char *word)
{
    struct harness_schedule *out = reader->out;
    const char *value;
    uint32_t flag = 0;

    if ((value = value_of(word, "kind")) != NULL) {
        return ddp_coll_kind_parse(value, &out->kind) == DDP_OK ? DDP_OK
                                                                : fail(reader, "kind", value);
    }
    if ((value = value_of(word, "algorithm")) != NULL) {
        if (strlen(value) >= sizeof(out->algorithm)) {
            return fail(reader, "algorithm", value);
        }
        memcpy(out->algorithm, value, strlen(value) + 1);
        return DDP_OK;
    }
    if ((value = value_of(word, "rank")) != NULL) {
        return parse_u32(reader, value, &out->rank);
    }
    if ((value = value_of(word, "size")) != NULL) {
        return parse_u32(reader, value, &out->size);
    }
    if ((value = value_of(word, "count")) != NULL) {
        return parse_size(reader, value, &out->elem_count);
    }
    if ((value = value_of(word, "dtype")) != NULL) {
        return ddp_dtype_parse(value, &out->dtype) == DDP_OK ? DDP_OK
                                                             : fail(reader, "dtype", value);
    }
    if ((value = value_of(word, "root")) != NULL) {
        return parse_u32(reader, value, &out->root);
    }
    if ((value = value_of(word, "in_place")) != NULL) {
        DDP_TRY(parse_u32(reader, value, &flag));
        out->is_in_place = flag != 0;
        return DDP_OK;
    }
    /* How the emitter was asked (segment length, channels, nodes) shows in the steps. */
    return strchr(word, '=') != NULL ? DDP_OK : fail(reader, "expected key=value", word);
}

static ddp_status parse_header(struct reader *reader)
{
    struct harness_schedule *out = reader->out;
    char *word;

    if (!next_line(reader)) {
        return ddp_err_set(reader->err, DDP_E_PARSE, "the schedule is empty");
    }
    word = next_word(reader);
    if (word == NULL || strcmp(word, "schedule") != 0) {
        return fail(reader, "expected 'schedule 1'", word == NULL ? "" : word);
    }
    word = next_word(reader);
    if (word == NULL || strcmp(word, "1") != 0) {
        return fail(reader, "unknown version", word == NULL ? "" : word);
    }
    while ((word = next_word(reader)) != NULL) {
        DDP_TRY(parse_header_word(reader, word));
    }
    if (out->size == 0 || out->rank >= out->size || out->root >= out->size) {
        return fail(reader, "rank or root outside of the group", "");
    }
    out->buffer_count = 2;
    out->buffer_elem_count[0] = out->elem_count;
    out->buffer_elem_count[1] =
        out->elem_count * (out->kind == DDP_COLL_ALL_GATHER ? out->size : 1);
    out->buffer_dtype[0] = out->dtype;
    out->buffer_dtype[1] = out->dtype;
    return DDP_OK;
}

static ddp_status parse_scratch(struct reader *reader)
{
    struct harness_schedule *out = reader->out;
    char *word = next_word(reader);
    size_t number = 0;

    if (word == NULL) {
        return fail(reader, "scratch without a number", "");
    }
    DDP_TRY(parse_size(reader, word, &number));
    if (number + 2 != out->buffer_count) {
        return fail(reader, "scratch out of order", word);
    }
    while ((word = next_word(reader)) != NULL) {
        const char *value;

        if ((value = value_of(word, "dtype")) != NULL) {
            if (ddp_dtype_parse(value, &out->buffer_dtype[out->buffer_count]) != DDP_OK) {
                return fail(reader, "dtype", value);
            }
        } else if ((value = value_of(word, "count")) != NULL) {
            DDP_TRY(parse_size(reader, value, &out->buffer_elem_count[out->buffer_count]));
        } else {
            return fail(reader, "unknown key of a scratch", word);
        }
    }
    out->buffer_count++;
    return DDP_OK;
}

/* "out:25+10": buffer, first element, count. */
static ddp_status parse_span(const struct reader *reader, char *text, struct harness_span *out)
{
    const struct harness_schedule *schedule = reader->out;
    char *colon = strchr(text, ':');
    char *plus = strchr(text, '+');

    if (colon == NULL || plus == NULL || plus < colon) {
        return fail(reader, "expected buffer:first+count", text);
    }
    *colon = '\0';
    *plus = '\0';
    if (strcmp(text, "in") == 0) {
        out->buffer = schedule->is_in_place ? 1 : 0;
    } else if (strcmp(text, "out") == 0) {
        out->buffer = 1;
    } else if (text[0] == 's') {
        DDP_TRY(parse_u32(reader, text + 1, &out->buffer));
        out->buffer = out->buffer > UINT32_MAX - 2 ? UINT32_MAX : out->buffer + 2;
    } else {
        return fail(reader, "unknown buffer", text);
    }
    DDP_TRY(parse_size(reader, colon + 1, &out->first));
    DDP_TRY(parse_size(reader, plus + 1, &out->elem_count));
    if (out->buffer >= schedule->buffer_count ||
        out->first + out->elem_count > schedule->buffer_elem_count[out->buffer]) {
        return fail(reader, "range outside of its buffer", text);
    }
    return DDP_OK;
}

static ddp_status parse_deps(const struct reader *reader, char *text, struct harness_move *move)
{
    while (*text != '\0') {
        char *comma = strchr(text, ',');

        if (comma != NULL) {
            *comma = '\0';
        }
        if (move->dep_count == HARNESS_MOVE_DEPS_MAX) {
            return fail(reader, "too many dependencies", text);
        }
        DDP_TRY(parse_u32(reader, text, &move->dep[move->dep_count]));
        if (move->dep[move->dep_count] >= reader->out->move_count) {
            return fail(reader, "dependency on a later step", text);
        }
        move->dep_count++;
        if (comma == NULL) {
            break;
        }
        text = comma + 1;
    }
    return DDP_OK;
}

static ddp_status parse_move_word(struct reader *reader, char *word, struct harness_move *move)
{
    char *value = strchr(word, '=');
    double factor = 0.0;

    if (value == NULL) {
        return fail(reader, "expected key=value", word);
    }
    *value++ = '\0';
    if (strcmp(word, "src") == 0) {
        return parse_span(reader, value, &move->src);
    }
    if (strcmp(word, "dst") == 0) {
        return parse_span(reader, value, &move->dst);
    }
    if (strcmp(word, "deps") == 0) {
        return parse_deps(reader, value, move);
    }
    if (strcmp(word, "peer") == 0) {
        DDP_TRY(parse_u32(reader, value, &move->peer));
        return move->peer < reader->out->size && move->peer != reader->out->rank
                   ? DDP_OK
                   : fail(reader, "peer is no other member", value);
    }
    if (strcmp(word, "factor") == 0) {
        if (ddp_text_parse_f64(value, &factor) != DDP_OK) {
            return fail(reader, "factor", value);
        }
        move->factor = (float)factor;
        return DDP_OK;
    }
    return strcmp(word, "round") == 0 ? DDP_OK : fail(reader, "unknown key of a step", word);
}

/* What a move needs: its ranges present and equal in length. */
static ddp_status check_move(const struct reader *reader, const struct harness_move *move)
{
    static const struct {
        bool reads, writes, talks;
    } needs[] = {
#define X(id, name, reads, writes, talks) {reads, writes, talks},
        HARNESS_MOVE_TABLE(X)
#undef X
    };
    bool is_read = move->src.elem_count > 0;
    bool is_written = move->dst.elem_count > 0;

    if (is_read != needs[move->kind].reads || is_written != needs[move->kind].writes ||
        (move->peer != UINT32_MAX) != needs[move->kind].talks) {
        return fail(reader, "a range or a peer is missing or too many",
                    harness_move_name(move->kind));
    }
    if (is_read && is_written && move->src.elem_count != move->dst.elem_count) {
        return fail(reader, "source and target differ in length", harness_move_name(move->kind));
    }
    return DDP_OK;
}

static ddp_status parse_move(struct reader *reader, const char *number)
{
    struct harness_schedule *out = reader->out;
    struct harness_move move = {.peer = UINT32_MAX, .factor = 1.0f};
    size_t index = 0;
    char *word;

    DDP_TRY(parse_size(reader, number, &index));
    if (index != out->move_count || index == reader->move_capacity) {
        return fail(reader, "step out of order", number);
    }
    move.kind = HARNESS_MOVE_KIND_COUNT;
    while ((word = next_word(reader)) != NULL) {
        if (strchr(word, '=') != NULL) {
            DDP_TRY(parse_move_word(reader, word, &move));
            continue;
        }
        for (int k = 0; k < HARNESS_MOVE_KIND_COUNT; k++) {
            if (strcmp(word, harness_move_name((enum harness_move_kind)k)) == 0) {
                move.kind = (enum harness_move_kind)k;
            }
        }
        if (move.kind == HARNESS_MOVE_KIND_COUNT) {
            return fail(reader, "unknown step", word);
        }
    }
    if (move.kind == HARNESS_MOVE_KIND_COUNT) {
        return fail(reader, "a step without a name", number);
    }
    DDP_TRY(check_move(reader, &move));
    out->moves[out->move_count++] = move;
    return DDP_OK;
}

static ddp_status parse_all(struct reader *reader)
{
    char *word;

    DDP_TRY(parse_header(reader));
    while (next_line(reader)) {
        word = next_word(reader);
        if (word == NULL) {
            continue;
        }
        if (strcmp(word, "scratch") == 0) {
            DDP_TRY(parse_scratch(reader));
        } else {
            DDP_TRY(parse_move(reader, word));
        }
    }
    return DDP_OK;
}

ddp_status harness_schedule_parse(struct ddp_mem *mem, const char *text,
                                  struct harness_schedule *out, struct ddp_err *err)
{
    struct reader reader = {.out = out, .err = err};
    size_t line_count = 1;
    char *copy = ddp_mem_strdup(mem, text);
    ddp_status status = DDP_E_NOMEM;

    for (const char *c = text; *c != '\0'; c++) {
        line_count += *c == '\n';
    }
    *out = (struct harness_schedule){.mem = mem};
    reader.move_capacity = line_count;
    /* A line makes at most one move or one scratch: no growing. */
    out->moves = ddp_mem_array(mem, line_count, sizeof(*out->moves));
    out->buffer_elem_count = ddp_mem_array(mem, line_count + 2, sizeof(size_t));
    out->buffer_dtype = ddp_mem_array(mem, line_count + 2, sizeof(*out->buffer_dtype));
    if (copy != NULL && out->moves != NULL && out->buffer_elem_count != NULL &&
        out->buffer_dtype != NULL) {
        reader.cursor = copy;
        status = parse_all(&reader);
    }
    ddp_mem_free(mem, copy);
    if (status != DDP_OK) {
        harness_schedule_fini(out);
    }
    return status;
}

void harness_schedule_fini(struct harness_schedule *schedule)
{
    ddp_mem_free(schedule->mem, schedule->moves);
    ddp_mem_free(schedule->mem, schedule->buffer_elem_count);
    ddp_mem_free(schedule->mem, schedule->buffer_dtype);
    schedule->moves = NULL;
    schedule->buffer_elem_count = NULL;
    schedule->buffer_dtype = NULL;
}
