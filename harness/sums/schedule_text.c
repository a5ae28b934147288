/* Purpose: parse a dumped schedule strictly: known keys, ranges inside their buffers, dependencies
 * on earlier steps only.
 * Idea: a line is words, a word is key=value or a step's name. Nothing is run or proved here. */
#include "harness/sums/schedule_text.h"

#include <stdlib.h>
#include <string.h>

#include "ddpcore/base/text.h"

struct reader {
    char *cursor; /* rest of the copy of the text */
    char *words;  /* rest of the present line */
    int line;
    size_t step_capacity;
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

    if (*reader->words == '\0') {
        return NULL;
    }
    word = reader->words;
    while (*reader->words != ' ' && *reader->words != '\0') { /* words are short */
        reader->words++;
    }
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
    /* Other keys say how the emitter was asked (segment length, nodes): the steps show that. */
    return strchr(word, '=') != NULL ? DDP_OK : fail(reader, "expected key=value", word);
}

static ddp_status parse_header(struct reader *reader)
{
    struct harness_schedule *out = reader->out;
    const char *why;
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
    why = harness_schedule_check_head(out);
    return why == NULL ? DDP_OK : fail(reader, why, "");
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
    DDP_ASSERT(out->buffer_count <= reader->step_capacity + 2); /* a line each */
    return DDP_OK;
}

/* Cheaper than a call for each of the words that it is not. */
static bool is_word(const char *word, const char *name)
{
    while (*word == *name && *word != '\0') {
        word++;
        name++;
    }
    return *word == *name;
}

/* Cuts "out:25+10" into its three parts; false: it has no such parts. */
static bool split_span(char *text, char **out_first, char **out_count)
{
    char *at = text;

    while (*at != ':' && *at != '+' && *at != '\0') {
        at++;
    }
    if (*at != ':') {
        return false;
    }
    *at++ = '\0';
    *out_first = at;
    while (*at != '+' && *at != '\0') {
        at++;
    }
    if (*at != '+') {
        return false;
    }
    *at++ = '\0';
    *out_count = at;
    return true;
}

/* "out:25+10": buffer, first element, count. */
static ddp_status parse_span(const struct reader *reader, char *text, struct harness_span *out)
{
    const struct harness_schedule *schedule = reader->out;
    char *first = NULL;
    char *count = NULL;
    bool is_input;

    if (!split_span(text, &first, &count)) {
        return fail(reader, "expected buffer:first+count", text);
    }
    is_input = is_word(text, "in");
    if (is_input) {
        out->buffer = 0;
    } else if (is_word(text, "out")) {
        out->buffer = 1;
    } else if (text[0] == 's') {
        DDP_TRY(parse_u32(reader, text + 1, &out->buffer));
        out->buffer = out->buffer > UINT32_MAX - 2 ? UINT32_MAX : out->buffer + 2;
    } else {
        return fail(reader, "unknown buffer", text);
    }
    DDP_TRY(parse_size(reader, first, &out->first));
    DDP_TRY(parse_size(reader, count, &out->elem_count));
    return harness_schedule_place_span(schedule, is_input, out)
               ? DDP_OK
               : ddp_err_set(reader->err, DDP_E_PARSE,
                             "line %d: range outside of its buffer: %zu+%zu", reader->line,
                             out->first, out->elem_count);
}

static ddp_status parse_deps(const struct reader *reader, char *text,
                             struct harness_schedule_step *step)
{
    while (*text != '\0') {
        char *comma = strchr(text, ',');

        if (comma != NULL) {
            *comma = '\0';
        }
        DDP_ASSERT(step->dep_count <= HARNESS_STEP_DEPS_MAX);
        if (step->dep_count == HARNESS_STEP_DEPS_MAX) {
            return fail(reader, "too many dependencies", text);
        }
        DDP_TRY(parse_u32(reader, text, &step->dep[step->dep_count]));
        if (step->dep[step->dep_count] >= reader->out->step_count) {
            return fail(reader, "dependency on a later step", text);
        }
        step->dep_count++;
        if (comma == NULL) {
            break;
        }
        text = comma + 1;
    }
    return DDP_OK;
}

static ddp_status parse_step_word(struct reader *reader, const char *word, char *value,
                                  struct harness_schedule_step *step)
{
    if (is_word(word, "src")) {
        return parse_span(reader, value, &step->src);
    }
    if (is_word(word, "dst")) {
        return parse_span(reader, value, &step->dst);
    }
    if (is_word(word, "deps")) {
        return parse_deps(reader, value, step);
    }
    if (is_word(word, "peer")) {
        DDP_TRY(parse_u32(reader, value, &step->peer));
        return step->peer < reader->out->size && step->peer != reader->out->rank
                   ? DDP_OK
                   : fail(reader, "peer is no other member", value);
    }
    if (is_word(word, "round")) {
        return parse_u32(reader, value, &step->round);
    }
    return fail(reader, "unknown key of a step", word);
}

static enum harness_step_kind step_of(const char *word)
{
    int kind = 0;

    while (kind < HARNESS_STEP_KIND_COUNT &&
           !is_word(word, harness_step_name((enum harness_step_kind)kind))) {
        kind++;
    }
    return (enum harness_step_kind)kind;
}

static ddp_status parse_step(struct reader *reader, const char *number)
{
    struct harness_schedule *out = reader->out;
    struct harness_schedule_step step = {.peer = UINT32_MAX};
    const char *why;
    size_t index = 0;
    char *word;

    DDP_TRY(parse_size(reader, number, &index));
    if (index != out->step_count || index == reader->step_capacity) {
        return fail(reader, "step out of order", number);
    }
    step.kind = HARNESS_STEP_KIND_COUNT;
    while ((word = next_word(reader)) != NULL) {
        char *value = word;

        while (*value != '=' && *value != '\0') {
            value++;
        }
        if (*value == '=') {
            *value++ = '\0';
            DDP_TRY(parse_step_word(reader, word, value, &step));
            continue;
        }
        step.kind = step_of(word);
        if (step.kind == HARNESS_STEP_KIND_COUNT) {
            return fail(reader, "unknown step", word);
        }
    }
    if (step.kind == HARNESS_STEP_KIND_COUNT) {
        return fail(reader, "a step without a name", number);
    }
    why = harness_schedule_check_step(&step);
    if (why != NULL) {
        return fail(reader, why, harness_step_name(step.kind));
    }
    DDP_ASSERT(out->step_count < reader->step_capacity);
    out->steps[out->step_count++] = step;
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
            DDP_TRY(parse_step(reader, word));
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
    reader.step_capacity = line_count;
    /* A line makes at most one step or one scratch: no growing. */
    out->steps = ddp_mem_array(mem, line_count, sizeof(*out->steps));
    out->buffer_elem_count = ddp_mem_array(mem, line_count + 2, sizeof(size_t));
    out->buffer_dtype = ddp_mem_array(mem, line_count + 2, sizeof(*out->buffer_dtype));
    if (copy != NULL && out->steps != NULL && out->buffer_elem_count != NULL &&
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
