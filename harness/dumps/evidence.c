#include "harness/dumps/evidence.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void harness_diag_evidence_init(struct harness_diag_evidence *evidence, struct ddp_mem *mem)
{
    memset(evidence, 0, sizeof *evidence);
    evidence->mem = mem;
    evidence->named = harness_rank_set_in(mem);
}

/* Bytes of the UTF-8 sign at text; 0: it is none, or would steer a terminal. */
static size_t sign_bytes(const unsigned char *text)
{
    size_t more = text[0] >= 0xf0 ? 3 : text[0] >= 0xe0 ? 2 : text[0] >= 0xc2 ? 1 : 0;
    uint32_t sign = more == 0 ? text[0] : text[0] & (0x3fu >> more);

    if ((more == 0 && text[0] >= 0x80) || text[0] > 0xf4 || text[0] < ' ' || text[0] == 0x7f) {
        return 0;
    }
    for (size_t i = 1; i <= more; i++) {
        if ((text[i] & 0xc0) != 0x80) {
            return 0;
        }
        sign = sign << 6 | (text[i] & 0x3fu);
    }
    if ((more == 1 && sign < 0xa0) || (more == 2 && sign < 0x800) ||
        (more == 3 && sign < 0x10000) || sign > 0x10ffff || (sign >= 0xd800 && sign < 0xe000)) {
        return 0;
    }
    return more + 1;
}

/* What was read goes to terminals and into JSON: what does not belong there becomes '?'. */
const char *harness_diag_keep(struct harness_diag_evidence *evidence, const char *text)
{
    char *copy = text[0] != '\0' ? ddp_mem_strdup(evidence->mem, text) : NULL;

    evidence->is_failed = evidence->is_failed || (copy == NULL && text[0] != '\0');
    for (char *at = copy; at != NULL && *at != '\0';) {
        size_t size = sign_bytes((const unsigned char *)at);

        *at = (char)(size == 0 ? '?' : *at);
        at += size == 0 ? 1 : size;
    }
    return copy != NULL ? copy : "";
}

const char *harness_diag_keep_format(struct harness_diag_evidence *evidence, const char *format,
                                     ...)
{
    char text[1024];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return harness_diag_keep(evidence, text);
}

/* Room for one more; NULL and is_failed when memory is out. */
static void *grow(struct harness_diag_evidence *evidence, void *data, size_t count,
                  size_t *capacity, size_t elem_bytes)
{
    void *grown = ddp_mem_grow(evidence->mem, data, count, capacity, elem_bytes);

    evidence->is_failed = evidence->is_failed || grown == NULL;
    return grown;
}

size_t harness_diag_group(struct harness_diag_evidence *evidence, const char *name,
                          const char *desc)
{
    struct harness_diag_group *grown;

    name = strcmp(name, "0") == 0 || strcmp(name, "default_pg") == 0 ? "" : name;
    for (size_t i = 0; i < evidence->group_count; i++) {
        struct harness_diag_group *group = &evidence->groups[i];

        if (strcmp(group->name, name) == 0) {
            group->desc = group->desc[0] == '\0' ? harness_diag_keep(evidence, desc) : group->desc;
            return i;
        }
    }
    grown = grow(evidence, evidence->groups, evidence->group_count, &evidence->group_capacity,
                 sizeof *grown);
    if (grown == NULL) {
        return SIZE_MAX;
    }
    evidence->groups = grown;
    grown[evidence->group_count] =
        (struct harness_diag_group){.name = harness_diag_keep(evidence, name),
                                    .desc = harness_diag_keep(evidence, desc),
                                    .title = "",
                                    .ranks = harness_rank_set_in(evidence->mem)};
    return evidence->group_count++;
}

struct harness_diag_record *harness_diag_record_add(struct harness_diag_evidence *evidence,
                                                    uint32_t rank, const char *file)
{
    struct harness_diag_record *grown = grow(evidence, evidence->records, evidence->record_count,
                                             &evidence->record_capacity, sizeof *grown);

    if (grown == NULL) {
        return NULL;
    }
    evidence->records = grown;
    grown[evidence->record_count] =
        (struct harness_diag_record){.rank = rank, .file = harness_diag_keep(evidence, file)};
    harness_rank_set_add(&evidence->named, rank);
    return &grown[evidence->record_count++];
}

struct harness_diag_part *harness_diag_record_part(struct harness_diag_evidence *evidence,
                                                   struct harness_diag_record *record, size_t group)
{
    struct harness_diag_part *grown;

    for (size_t i = 0; i < record->part_count; i++) {
        if (record->parts[i].group == group) {
            return &record->parts[i];
        }
    }
    grown = group == SIZE_MAX ? NULL
                              : grow(evidence, record->parts, record->part_count,
                                     &record->part_capacity, sizeof *grown);
    if (grown == NULL) {
        return NULL;
    }
    record->parts = grown;
    grown[record->part_count] = (struct harness_diag_part){.group = group, .done = -1};
    return &grown[record->part_count++];
}

void harness_diag_call_add(struct harness_diag_evidence *evidence, struct harness_diag_part *part,
                           const struct harness_diag_call *call)
{
    bool is_number = call->seq >= 0 && call->seq <= HARNESS_DIAG_SEQ_MAX;
    struct harness_diag_call *grown =
        is_number ? grow(evidence, part->calls, part->count, &part->capacity, sizeof *grown) : NULL;

    if (grown != NULL) {
        part->calls = grown;
        part->calls[part->count++] = *call;
    }
}

void harness_diag_note(struct harness_diag_evidence *evidence, enum harness_diag_note_kind kind,
                       int64_t rank, int64_t number, struct harness_diag_place place,
                       const char *text)
{
    struct harness_diag_note *grown = grow(evidence, evidence->notes, evidence->note_count,
                                           &evidence->note_capacity, sizeof *grown);

    if (grown == NULL) {
        return;
    }
    evidence->notes = grown;
    grown[evidence->note_count++] = (struct harness_diag_note){
        .kind = kind, .rank = rank, .number = number, .text = text, .place = place};
    if (rank >= 0 && rank < HARNESS_WORLD_MAX) {
        harness_rank_set_add(&evidence->named, (uint32_t)rank);
    }
}

struct harness_diag_member *harness_diag_member_of(const struct harness_diag_group *group,
                                                   uint32_t rank)
{
    for (size_t i = 0; i < group->member_count; i++) {
        if (group->members[i].rank == rank) {
            return &group->members[i];
        }
    }
    return NULL;
}

const struct harness_diag_call *harness_diag_call_at(const struct harness_diag_member *member,
                                                     int64_t seq)
{
    size_t low = 0;
    size_t high = member->call_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (member->calls[middle].seq == seq) {
            return &member->calls[middle];
        }
        low = member->calls[middle].seq < seq ? middle + 1 : low;
        high = member->calls[middle].seq < seq ? high : middle;
    }
    return NULL;
}

const char *harness_diag_group_name(const struct harness_diag_group *group)
{
    return group->title;
}

const char *harness_diag_call_text(struct harness_diag_evidence *evidence,
                                   const struct harness_diag_call *call)
{
    const char *root =
        call->root < 0 ? ""
                       : harness_diag_keep_format(evidence, ", root %lld", (long long)call->root);

    if (call->counts[0] == '\0') {
        return harness_diag_keep_format(evidence, "%s %lld%s", call->kind, (long long)call->seq,
                                        root);
    }
    return harness_diag_keep_format(evidence, "%s %lld (%.60s x %.20s%s%s%s)", call->kind,
                                    (long long)call->seq, call->counts,
                                    call->dtype[0] != '\0' ? call->dtype : "?",
                                    call->redop[0] != '\0' ? ", " : "", call->redop, root);
}

const char *harness_diag_place_text(struct harness_diag_evidence *evidence,
                                    struct harness_diag_place place)
{
    if (place.line > 0) {
        return harness_diag_keep_format(evidence, "%s:%lld", place.file, (long long)place.line);
    }
    if (place.entry >= 0) {
        return harness_diag_keep_format(evidence, "%s, entry %lld", place.file,
                                        (long long)place.entry);
    }
    return place.file != NULL ? place.file : "";
}

/* The dump is not older than the lines, and not cut. */
static bool tells_as_much(const struct harness_diag_member *dump,
                          const struct harness_diag_member *lines)
{
    return dump != NULL && dump->has_record && !dump->is_log && !dump->is_short &&
           dump->posted >= lines->posted;
}

bool harness_diag_is_retold(const struct harness_diag_evidence *evidence, size_t group)
{
    static const char by_watchdog[] = "watchdog's ";
    const struct harness_diag_group *lines = &evidence->groups[group];
    bool is_retold = false;

    for (size_t g = 0; g < evidence->group_count; g++) {
        const struct harness_diag_group *dumps = &evidence->groups[g];

        if (strncmp(lines->name, by_watchdog, sizeof by_watchdog - 1) != 0 ||
            (strcmp(lines->name + sizeof by_watchdog - 1, dumps->name) != 0 &&
             !(lines->is_world && dumps->name[0] == '\0'))) { /* the world has no name there */
            continue;
        }
        is_retold = true;
        for (size_t i = 0; i < lines->member_count; i++) {
            const struct harness_diag_member *member = &lines->members[i];

            is_retold =
                is_retold && (!member->has_record ||
                              tells_as_much(harness_diag_member_of(dumps, member->rank), member));
        }
    }
    return is_retold;
}
