/* Lines of the record about names, and what all lines' readers need. */
#include <stdlib.h>
#include <string.h>

#include "harness/record/parser.h"

enum { NAMES_MAX = 1 << 20 };

ddp_status record_refuse(struct record_parser *parser, const char *what)
{
    return harness_line_refuse(&parser->line, parser->line.buffer, what);
}

/* name=<number>, at most limit. */
ddp_status record_number_of(struct record_parser *parser, const char *name, uint64_t limit,
                            uint64_t *out)
{
    DDP_TRY(harness_line_find_u64(&parser->line, name, out));
    return *out <= limit ? DDP_OK : record_refuse(parser, "a number is too large");
}

/* The number behind the line's first word. */
ddp_status record_subject_of(struct record_parser *parser, uint64_t limit, uint64_t *out)
{
    if (parser->line.token_count < 2 || ddp_text_parse_u64(parser->line.token[1], out) != DDP_OK ||
        *out >= limit) {
        return record_refuse(parser, "the number behind the first word is not there, or too large");
    }
    return DDP_OK;
}

/* A name that ranks told. */
ddp_status record_parse_name(struct record_parser *parser)
{
    struct harness_watch *watch = &parser->out->watch;
    const uint32_t count = watch->names.count;
    uint64_t number = 0;
    uint32_t index = 0;

    DDP_TRY(record_subject_of(parser, NAMES_MAX, &number));
    if (number != count || parser->line.tail == NULL || parser->line.tail[0] == '\0' ||
        watch->lists != NULL || watch->group_count > 0) {
        return record_refuse(parser,
                             "names are numbered one after the other, before what they are of");
    }
    if (!harness_watch_name(watch, parser->line.tail, &index)) {
        return DDP_E_NOMEM;
    }
    return index == count ? DDP_OK : record_refuse(parser, "a name is told once");
}

/* list N names=0,1,2: some of them in a row. */
ddp_status record_parse_list(struct record_parser *parser)
{
    struct harness_watch *watch = &parser->out->watch;
    const char *value = harness_line_find(&parser->line, "names");
    uint32_t count = 0;
    uint32_t *names;
    uint64_t number = 0;

    DDP_TRY(record_subject_of(parser, NAMES_MAX, &number));
    if (number != (watch->lists != NULL ? watch->lists->number + 1 : 0) || value == NULL ||
        watch->group_count > 0) {
        return record_refuse(parser,
                             "lists are numbered one after the other, before communicators");
    }
    names = ddp_mem_array(parser->mem, strlen(value) + 1, sizeof *names);
    if (names == NULL) {
        return DDP_E_NOMEM;
    }
    while (*value != '\0') {
        char *end = NULL;
        const unsigned long name = strtoul(value, &end, 10);

        if (end == value || name >= watch->names.count || (*end != ',' && *end != '\0')) {
            return record_refuse(parser, "names= wants numbers of names");
        }
        names[count++] = (uint32_t)name;
        value = *end == ',' ? end + 1 : end;
    }
    if (harness_watch_list_of(watch, names, count) == NULL) {
        return DDP_E_NOMEM;
    }
    return watch->lists->number == number ? DDP_OK : record_refuse(parser, "a list is there once");
}

/* Whose bucket a call is of, and what that holds; a call may have neither. */
ddp_status record_parse_bucket(struct record_parser *parser, struct harness_watch_call *call)
{
    uint64_t model = 0;
    uint64_t number = 0;

    DDP_TRY(harness_line_find_u64(&parser->line, "bucket", &call->bucket));
    if (harness_line_find(&parser->line, "model") != NULL) {
        DDP_TRY(record_number_of(parser, "model", UINT32_MAX, &model));
        call->model = (uint32_t)model;
    }
    if (harness_line_find(&parser->line, "list") == NULL) {
        return DDP_OK;
    }
    DDP_TRY(harness_line_find_u64(&parser->line, "list", &number));
    call->list = parser->out->watch.lists;
    while (call->list != NULL && call->list->number != number) {
        call->list = call->list->next;
    }
    return call->list != NULL ? DDP_OK : record_refuse(parser, "there is no such list");
}
