/* Records as they were read become streams: for each rank one record, for each group its members,
 * and for each of these its calls, rising by sequence. */
#include <stdlib.h>
#include <string.h>

#include "harness/dumps/evidence.h"

/* Which of two records of one rank tells more: the later one, else the one with stacks. */
static bool is_better(const struct harness_diag_record *one, const struct harness_diag_record *than)
{
    if (one->newest_ns != than->newest_ns) {
        return one->newest_ns > than->newest_ns;
    }
    return one->has_stacks && !than->has_stacks;
}

/* Both tell of groups in common; those of a dump and of a log are held apart by their names. */
static bool is_same_source(const struct harness_diag_record *a, const struct harness_diag_record *b)
{
    for (size_t i = 0; i < a->part_count; i++) {
        for (size_t k = 0; k < b->part_count; k++) {
            if (a->parts[i].group == b->parts[k].group) {
                return true;
            }
        }
    }
    return a->part_count == 0 && b->part_count == 0;
}

static bool is_used(struct harness_diag_evidence *evidence, size_t index)
{
    struct harness_diag_record *record = &evidence->records[index];

    for (size_t i = 0; i < evidence->record_count; i++) {
        struct harness_diag_record *other = &evidence->records[i];

        if (i == index || other->rank != record->rank || !is_same_source(record, other)) {
            continue;
        }
        if (is_better(other, record) || (!is_better(record, other) && i < index)) {
            if (other->newest_ns != record->newest_ns && record->newest_ns != 0) {
                struct harness_diag_place place = {record->file, 0, -1};

                harness_diag_note(evidence, HARNESS_DIAG_NOTE_AUDIT, record->rank, 0, place,
                                  harness_diag_keep_format(
                                      evidence, "an older record of rank %u than %s; not used",
                                      record->rank, other->file));
            }
            return false;
        }
    }
    return true;
}

/* A call of several operations has one sequence: they become one call. */
static void join(struct harness_diag_evidence *evidence, struct harness_diag_call *call,
                 const struct harness_diag_call *next)
{
    if (strcmp(next->kind, "coalesced") == 0) {
        call->state = next->state;
        return;
    }
    if (strcmp(call->kind, next->kind) != 0 && strcmp(call->kind, "coalesced") != 0) {
        call->kind = harness_diag_keep_format(evidence, "%.100s+%.100s", call->kind, next->kind);
    } else {
        call->kind = next->kind;
    }
    call->counts = harness_diag_keep_format(evidence, "%.400s%s%.400s", call->counts,
                                            call->counts[0] != '\0' ? "," : "", next->counts);
    call->dtype = call->dtype[0] != '\0' ? call->dtype : next->dtype;
    call->state = call->state < next->state ? call->state : next->state;
}

static int compare_calls(const void *left, const void *right)
{
    const struct harness_diag_call *a = left;
    const struct harness_diag_call *b = right;

    if (a->seq != b->seq) {
        return a->seq < b->seq ? -1 : 1;
    }
    return (a->order > b->order) - (a->order < b->order);
}

/* A group that was made again counts from the start again: only its last life is kept. */
static size_t start_of_last_life(const struct harness_diag_part *part)
{
    size_t start = 0;
    int64_t last = -1;

    for (size_t i = 0; i < part->count; i++) {
        if (part->calls[i].is_message) {
            continue;
        }
        if (part->calls[i].seq < last) {
            start = i;
        }
        last = part->calls[i].seq;
    }
    return start;
}

static void add_call(struct harness_diag_evidence *evidence, struct harness_diag_call **calls,
                     size_t *count, size_t *capacity, const struct harness_diag_call *call)
{
    struct harness_diag_call *grown =
        ddp_mem_grow(evidence->mem, *calls, *count, capacity, sizeof *grown);

    if (grown == NULL) {
        evidence->is_failed = true;
        return;
    }
    *calls = grown;
    grown[(*count)++] = *call;
}

static void take_part(struct harness_diag_evidence *evidence, struct harness_diag_member *member,
                      const struct harness_diag_record *record,
                      const struct harness_diag_part *part)
{
    size_t start = start_of_last_life(part);
    size_t kept = 0;

    member->has_record = true;
    member->is_cut = record->is_cut && start == 0;
    member->is_log = record->is_log;
    member->is_short = record->is_short;
    member->is_open = record->is_short && part->posted == 0;
    member->file = record->file;
    member->written_ns = record->written_ns;
    member->done =
        part->done > member->done && part->done <= HARNESS_DIAG_SEQ_MAX ? part->done : member->done;
    for (size_t i = start; i < part->count; i++) {
        const struct harness_diag_call *call = &part->calls[i];

        if (call->is_message) {
            add_call(evidence, &member->messages, &member->message_count, &member->message_capacity,
                     call);
        } else {
            add_call(evidence, &member->calls, &member->call_count, &member->call_capacity, call);
        }
    }
    if (member->call_count > 0) {
        qsort(member->calls, member->call_count, sizeof *member->calls, compare_calls);
    }
    for (size_t i = 0; i < member->call_count; i++) {
        if (kept > 0 && member->calls[kept - 1].seq == member->calls[i].seq) {
            join(evidence, &member->calls[kept - 1], &member->calls[i]);
        } else {
            member->calls[kept++] = member->calls[i];
        }
    }
    member->call_count = kept;
    if (record->is_short && kept > 0) {
        member->posted =
            member->calls[kept - 1].seq; /* one of several entries may be behind the cut */
        member->call_count = --kept;
    }
    if (part->posted > member->posted && part->posted <= HARNESS_DIAG_SEQ_MAX) {
        member->posted = part->posted;
    }
    if (kept > 0 && member->calls[kept - 1].seq > member->posted) {
        member->posted = member->calls[kept - 1].seq;
    }
}

/* A rank with a record that has nothing of this group has posted nothing there, unless the record
 * has lost its beginning. */
static void take_record(struct harness_diag_evidence *evidence, struct harness_diag_group *group,
                        size_t index, const struct harness_diag_record *record)
{
    struct harness_diag_member *member = harness_diag_member_of(group, record->rank);

    if (member == NULL) {
        return;
    }
    for (size_t i = 0; i < record->part_count; i++) {
        if (record->parts[i].group == index) {
            take_part(evidence, member, record, &record->parts[i]);
            return;
        }
    }
    if (!record->is_log && !record->is_cut && !record->is_short && !member->has_record &&
        !group->is_local) {
        member->has_record = true;
        member->file = record->file;
        member->written_ns = record->written_ns;
    }
}

/* Every rank of the job is a member of the default group. Gloo notes all groups under one name,
 * with the ranks counted within them, so that what is written down there is only a lower bound. */
static void complete_default(struct harness_diag_evidence *evidence,
                             struct harness_diag_group *group)
{
    uint32_t count = harness_rank_set_count(&evidence->named);
    uint32_t world = evidence->world;
    struct harness_rank_set all;

    if ((group->name[0] != '\0' && !group->is_world) || group->is_complete) {
        return;
    }
    if (count > 0 && harness_rank_set_at(&evidence->named, count - 1) >= world) {
        world = harness_rank_set_at(&evidence->named, count - 1) + 1;
    }
    /* In order: a number in front of others costs a copy of these. */
    all = harness_rank_set_in(group->ranks.ranks.mem);
    for (uint32_t rank = 0; rank < world; rank++) {
        harness_rank_set_add(&all, rank);
    }
    harness_rank_set_add_all(&all, &group->ranks);
    group->ranks = all;
    group->is_complete = true;
}

/* In a job of two ranks a group has both, whoever has called in it. */
static void complete_pair(struct harness_diag_evidence *evidence, struct harness_diag_group *group)
{
    uint32_t count = harness_rank_set_count(&evidence->named);

    if (!group->is_complete && !group->is_local && evidence->world == 2 && count > 0 &&
        harness_rank_set_at(&evidence->named, count - 1) < 2) {
        harness_rank_set_add(&group->ranks, 0);
        harness_rank_set_add(&group->ranks, 1);
        group->is_complete = true;
    }
}

/* Names that are numbers say nothing by themselves. */
static const char *title_of(struct harness_diag_evidence *evidence,
                            const struct harness_diag_group *group)
{
    bool has_desc = group->desc[0] != '\0' && strcmp(group->desc, "undefined") != 0;
    const char *word = strspn(group->name, "0123456789") == strlen(group->name) ? "group " : "";

    if (group->name[0] == '\0') {
        return has_desc ? group->desc : "the default group";
    }
    return has_desc ? harness_diag_keep_format(evidence, "%s%.100s (%.60s)", word, group->name,
                                               group->desc)
                    : harness_diag_keep_format(evidence, "%s%.100s", word, group->name);
}

static void make_members(struct harness_diag_evidence *evidence, struct harness_diag_group *group)
{
    uint32_t count = harness_rank_set_count(&group->ranks);

    group->members = ddp_mem_array(evidence->mem, count, sizeof *group->members);
    if (group->members == NULL) {
        evidence->is_failed = true;
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        group->members[i].rank = harness_rank_set_at(&group->ranks, i);
        group->members[i].done = -1;
    }
    group->member_count = count;
}

/* torchrun's folder of the try that the file is of; 0: none is named. */
static long attempt_of(const char *file)
{
    const char *found = file != NULL ? strstr(file, "attempt_") : NULL;

    return found != NULL ? strtol(found + strlen("attempt_"), NULL, 10) : 0;
}

/* What an earlier try ended with is not why the last one hung. */
static void drop_earlier_attempts(struct harness_diag_evidence *evidence)
{
    long last = 0;

    for (size_t i = 0; i < evidence->note_count; i++) {
        long attempt = attempt_of(evidence->notes[i].place.file);

        last = attempt > last ? attempt : last;
    }
    for (size_t i = 0; i < evidence->note_count; i++) {
        struct harness_diag_note *note = &evidence->notes[i];

        if (strstr(note->place.file != NULL ? note->place.file : "", "attempt_") != NULL &&
            attempt_of(note->place.file) < last) {
            note->kind = HARNESS_DIAG_NOTE_AUDIT;
            note->text = "of an earlier attempt; not used";
        }
    }
}

void harness_diag_settle(struct harness_diag_evidence *evidence)
{
    size_t record_count = evidence->record_count;

    drop_earlier_attempts(evidence);
    for (size_t r = 0; r < record_count; r++) {
        for (size_t p = 0; p < evidence->records[r].part_count; p++) {
            struct harness_diag_group *group =
                &evidence->groups[evidence->records[r].parts[p].group];

            harness_rank_set_add(&group->ranks, evidence->records[r].rank);
        }
    }
    for (size_t g = 0; g < evidence->group_count; g++) {
        complete_default(evidence, &evidence->groups[g]);
        complete_pair(evidence, &evidence->groups[g]);
        evidence->groups[g].title = title_of(evidence, &evidence->groups[g]);
        make_members(evidence, &evidence->groups[g]);
    }
    for (size_t r = 0; r < record_count; r++) {
        if (!is_used(evidence, r)) {
            continue;
        }
        for (size_t g = 0; g < evidence->group_count; g++) {
            take_record(evidence, &evidence->groups[g], g, &evidence->records[r]);
        }
    }
}
