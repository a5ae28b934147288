/* Every kind of line of trace.txt, damaged as a file may be. */
#include <stdio.h>
#include <string.h>

#include "tests/suite/evidence.h"

/* What kind of line: the event's name, or "h finish"; "" for a comment. */
static void kind_of(const char *line, char kind[32])
{
    char who[32] = "";
    char place[64] = "";
    char phase[32] = "";
    char event[32] = "";

    kind[0] = '\0';
    if (line[0] == '#') {
        return;
    }
    if (strncmp(line, "ddprove-trace", 13) == 0) {
        (void)snprintf(kind, 32, "header");
    } else if (sscanf(line, "%*s %31s %63s %31s %31s", who, place, phase, event) >= 2 &&
               strcmp(who, "h") == 0) {
        (void)snprintf(kind, 32, "h %.28s", place);
    } else {
        (void)snprintf(kind, 32, "%.31s", event);
    }
}

struct line {
    const char *text;
    size_t size; /* with its newline */
    char kind[32];
};

static size_t cut(const struct sweep *sweep, struct line **out)
{
    size_t count = 0;

    for (const char *c = sweep->text; *c != '\0'; c++) {
        count += *c == '\n' ? 1 : 0;
    }
    *out = ddp_mem_array(sweep->mem, count, sizeof **out);
    count = 0;
    for (const char *c = sweep->text; *c != '\0'; c = strchr(c, '\n') + 1) {
        struct line *line = &(*out)[count++];

        line->text = c;
        line->size = (size_t)(strchr(c, '\n') + 1 - c);
        kind_of(c, line->kind);
    }
    return count;
}

/* The trace with one line, or all of its kind, damaged. */
static void damage_text(struct sweep *sweep, const struct line *lines, size_t count, size_t at,
                        enum way way)
{
    struct ddp_text text;

    ddp_text_init(&text, sweep->mem);
    for (size_t i = 0; i < count; i++) {
        if (way == DELETE_ALL && strcmp(lines[i].kind, lines[at].kind) == 0) {
            continue;
        }
        if (i != at) {
            ddp_text_add_bytes(&text, lines[i].text, lines[i].size);
        } else if (way == DOUBLE_ONE) {
            ddp_text_add_bytes(&text, lines[i].text, lines[i].size);
            ddp_text_add_bytes(&text, lines[i].text, lines[i].size);
        } else if (way == SWAP_ONE && i + 1 < count) {
            ddp_text_add_bytes(&text, lines[i + 1].text, lines[i + 1].size);
            ddp_text_add_bytes(&text, lines[i].text, lines[i].size);
            i++;
        } else if (way == ALTER_ONE) {
            char last = lines[i].text[lines[i].size - 2];

            ddp_text_add_bytes(&text, lines[i].text, lines[i].size - 2);
            ddp_text_add(&text, "%c\n", last == '1' ? '2' : '1');
        }
    }
    evidence_write(sweep, "trace.txt", ddp_text_str(&text), text.size_bytes);
    ddp_text_fini(&text);
}

/* The number of the n-th line of that kind. */
static size_t nth_of_kind(const struct line *lines, size_t count, const char *kind, size_t n)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(lines[i].kind, kind) == 0 && n-- == 0) {
            return i;
        }
    }
    return count;
}

void evidence_sweep_text(struct sweep *sweep)
{
    struct line *lines;
    size_t count = cut(sweep, &lines);
    char what[128];

    for (size_t i = 0; i < count; i++) {
        size_t of_kind = 0;

        if (lines[i].kind[0] == '\0' || nth_of_kind(lines, count, lines[i].kind, 0) != i) {
            continue; /* a comment, or not the first of its kind */
        }
        for (size_t k = i; k < count; k++) {
            of_kind += strcmp(lines[k].kind, lines[i].kind) == 0 ? 1 : 0;
        }
        for (unsigned way = 0; way < WAY_COUNT; way++) {
            size_t at = nth_of_kind(lines, count, lines[i].kind, evidence_pick(sweep, of_kind));

            if (way == SWAP_ONE && (at + 1 == count || lines[at + 1].kind[0] == '\0')) {
                continue; /* a comment may be anywhere */
            }
            damage_text(sweep, lines, count, at, (enum way)way);
            (void)snprintf(what, sizeof what, "line %zu (%s) %s", at + 1, lines[i].kind,
                           evidence_ways[way]);
            evidence_expect(sweep, what, true);
        }
    }
    evidence_write(sweep, "trace.txt", sweep->text, strlen(sweep->text));
}
