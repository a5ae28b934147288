#include "harness/dumps/flight.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ddpcore/base/hash.h"
#include "ddpcore/base/text.h"
#include "harness/dumps/scan.h"

enum { OWN_FRAMES = 2 }; /* of the program's own lines, so many are shown */

bool harness_diag_is_flight(json_t *root)
{
    return json_is_string(json_object_get(root, "version")) &&
           (json_is_array(json_object_get(root, "entries")) ||
            json_is_object(json_object_get(root, "pg_status")) ||
            json_is_object(json_object_get(root, "pg_config")));
}

static const char *text_of(json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text != NULL ? text : "";
}

/* Numbers are texts in some places of the JSON form. */
static int64_t number_of(json_t *object, const char *key, int64_t otherwise)
{
    json_t *value = json_object_get(object, key);
    int64_t number = otherwise;

    if (json_is_integer(value)) {
        return json_integer_value(value);
    }
    return json_is_string(value) && ddp_text_parse_i64(json_string_value(value), &number) == DDP_OK
               ? number
               : otherwise;
}

/* "[0, 1, 2]" */
static void add_ranks(const char *text, struct harness_rank_set *out, uint32_t *highest)
{
    *highest = 0;
    text += strspn(text, "[ ");
    while (*text >= '0' && *text <= '9') {
        char *end = NULL;
        unsigned long rank = strtoul(text, &end, 10);

        if (rank >= HARNESS_WORLD_MAX) {
            return;
        }
        if (out != NULL) {
            harness_rank_set_add(out, (uint32_t)rank);
        }
        *highest = *highest > rank ? *highest : (uint32_t)rank;
        text = end + strspn(end, ", ");
    }
}

static void read_config(struct harness_diag_evidence *evidence, json_t *config)
{
    const char *key;
    json_t *value;

    json_object_foreach(config, key, value)
    {
        json_t *list = json_object_get(value, "ranks");
        uint32_t highest = 0;
        size_t index;

        if (!json_is_string(list)) {
            continue;
        }
        if (key[0] == '\0') { /* gloo's: any group, counted within it */
            add_ranks(json_string_value(list), NULL, &highest);
            evidence->world = evidence->world > highest + 1 ? evidence->world : highest + 1;
            continue;
        }
        index = harness_diag_group(evidence, key, text_of(value, "desc"));
        if (index != SIZE_MAX) {
            add_ranks(json_string_value(list), &evidence->groups[index].ranks, &highest);
            evidence->groups[index].is_complete = true;
        }
    }
}

/* Elements of each tensor. A shape that is no list of numbers counts as unknown. */
static const char *counts_of(struct harness_diag_evidence *evidence, json_t *sizes)
{
    struct ddp_text text;
    const char *kept;
    json_t *tensor;
    size_t i;

    if (!json_is_array(sizes)) {
        return "";
    }
    ddp_text_init(&text, evidence->mem);
    json_array_foreach(sizes, i, tensor)
    {
        json_t *extent;
        uint64_t count = 1;
        size_t k;

        json_array_foreach(tensor, k, extent)
        {
            count *= (uint64_t)json_integer_value(extent);
        }
        ddp_text_add(&text, "%s%llu", i > 0 ? "," : "", (unsigned long long)count);
    }
    kept = harness_diag_keep(evidence, ddp_text_str(&text));
    ddp_text_fini(&text);
    return kept;
}

static const char *dump_of(struct harness_diag_evidence *evidence, json_t *value)
{
    char *text = value != NULL ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    const char *kept = text != NULL ? harness_diag_keep(evidence, text) : "";

    free(text);
    return kept;
}

static const char *dtype_of(struct harness_diag_evidence *evidence, json_t *dtypes)
{
    const char *first = json_string_value(json_array_get(dtypes, 0));
    size_t i;
    json_t *dtype;

    json_array_foreach(dtypes, i, dtype)
    {
        const char *text = json_string_value(dtype);

        if (text == NULL || first == NULL || strcmp(text, first) != 0) {
            return dump_of(evidence, dtypes);
        }
    }
    return first != NULL ? harness_diag_keep(evidence, first) : "";
}

/* A line that no library holds: what the user wrote. */
static bool is_of_library(const char *file)
{
    static const char *const parts[] = {"torch/",   "/torch/",     "site-packages", "<frozen",
                                        "python3/", "/lib/python", "dist-packages", "??"};

    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (i == 0 || i == 5 ? strncmp(file, parts[i], strlen(parts[i])) == 0
                             : strstr(file, parts[i]) != NULL) {
            return true;
        }
    }
    return false;
}

static void read_frames(struct harness_diag_evidence *evidence, json_t *frames,
                        struct harness_diag_call *call)
{
    json_t *frame;
    size_t own = 0;
    size_t i;

    call->site = "";
    json_array_foreach(frames, i, frame)
    {
        const char *file = text_of(frame, "filename");
        int64_t line = number_of(frame, "line", 0);

        call->stack = ddp_hash_bytes(file, strlen(file), call->stack + (uint64_t)line * 31 + 1);
        if (own < OWN_FRAMES && !is_of_library(file)) {
            call->site = harness_diag_keep_format(evidence, "%.300s%s%.150s:%lld in %.80s",
                                                  call->site, own > 0 ? " < " : "", file,
                                                  (long long)line, text_of(frame, "name"));
            own++;
        }
    }
}

/* "send 1->2" and "recv 2<-1": ranks of the group. out_peer: set if it is such a text. */
static bool scan_message(const char *at, char *out_verb, size_t verb_bytes, int64_t *out_peer)
{
    int64_t self = -1;
    int64_t peer = -1;

    if (!harness_scan_of(&at, "abcdefghijklmnopqrstuvwxyz", out_verb, verb_bytes) ||
        !harness_scan_i64(&at, &self) || (strncmp(at, "->", 2) != 0 && strncmp(at, "<-", 2) != 0)) {
        return false;
    }
    at += 2;
    if (!harness_scan_i64(&at, &peer)) {
        return false;
    }
    *out_peer = peer;
    return true;
}

/* Behind "nccl:" or "gloo:", if it has that. */
static void read_kind(struct harness_diag_evidence *evidence, const char *name,
                      struct harness_diag_call *call)
{
    const char *colon = strchr(name, ':');
    const char *kind = colon != NULL ? colon + 1 : name;
    char verb[16];

    call->peer = -1;
    if (scan_message(kind, verb, sizeof verb, &call->peer)) {
        kind = verb;
    }
    if (strcmp(kind, "send") == 0 || strcmp(kind, "recv") == 0 ||
        strcmp(kind, "recvAnySource") == 0) {
        call->is_message = true;
        call->is_send = kind[0] == 's';
    }
    call->kind = harness_diag_keep(evidence, kind);
}

static enum harness_diag_state state_of(json_t *entry)
{
    const char *state = text_of(entry, "state");

    if (strcmp(state, "completed") == 0) {
        return HARNESS_DIAG_DONE;
    }
    if (json_is_false(json_object_get(entry, "retired"))) {
        return strcmp(state, "started") == 0 ? HARNESS_DIAG_STARTED : HARNESS_DIAG_PENDING;
    }
    return HARNESS_DIAG_UNKNOWN;
}

/* An entry that lacks what it needs was being written when the file was cut: false. */
static bool read_entry(struct harness_diag_evidence *evidence, json_t *entry, const char *file,
                       size_t index, struct harness_diag_record *record)
{
    struct harness_diag_call call = {.root = -1, .redop = "", .place = {file, 0, (int64_t)index}};
    json_t *group = json_object_get(entry, "process_group");
    const char *name = json_string_value(json_array_get(group, 0));
    const char *desc = json_string_value(json_array_get(group, 1));
    struct harness_diag_part *part;
    char number[32];

    if (text_of(entry, "profiling_name")[0] == '\0' ||
        json_object_get(entry, "input_sizes") == NULL) {
        return false;
    }
    read_kind(evidence, text_of(entry, "profiling_name"), &call);
    call.is_message = call.is_message || json_is_true(json_object_get(entry, "is_p2p"));
    call.seq = number_of(entry, call.is_message ? "p2p_seq_id" : "collective_seq_id",
                         number_of(entry, "seq_id", 0));
    call.order = number_of(entry, "record_id", number_of(entry, "id", (int64_t)index));
    call.counts = counts_of(evidence, json_object_get(entry, "input_sizes"));
    call.dtype = dtype_of(evidence, json_object_get(entry, "input_dtypes"));
    call.state = state_of(entry);
    call.created_ns = (uint64_t)number_of(entry, "time_created_ns", 0);
    read_frames(evidence, json_object_get(entry, "frames"), &call);
    (void)snprintf(number, sizeof number, "%lld", (long long)number_of(entry, "pg_id", 0));
    part = harness_diag_record_part(
        evidence, record,
        harness_diag_group(evidence, name != NULL ? name : number, desc != NULL ? desc : ""));
    if (part != NULL) {
        harness_diag_call_add(evidence, part, &call);
        evidence->groups[part->group].is_gloo =
            evidence->groups[part->group].is_gloo ||
            strncmp(text_of(entry, "profiling_name"), "gloo:", 5) == 0;
    }
    record->has_stacks = record->has_stacks || call.stack != 0;
    record->newest_ns = record->newest_ns > call.created_ns ? record->newest_ns : call.created_ns;
    record->is_cut = record->is_cut || (index == 0 && call.order > 0);
    return true;
}

/* The group that this rank's entries call by that number. "0" is the default group where none
 * does: it comes first. */
static size_t group_of_number(struct harness_diag_evidence *evidence, json_t *entries,
                              const char *number)
{
    json_t *entry;
    size_t i;
    int64_t wanted = -1;

    if (ddp_text_parse_i64(number, &wanted) != DDP_OK) {
        return SIZE_MAX;
    }
    json_array_foreach(entries, i, entry)
    {
        json_t *group = json_object_get(entry, "process_group");

        if (number_of(entry, "pg_id", -1) == wanted && json_is_string(json_array_get(group, 0))) {
            return harness_diag_group(evidence, json_string_value(json_array_get(group, 0)), "");
        }
    }
    return wanted == 0 ? harness_diag_group(evidence, "", "") : SIZE_MAX;
}

static void read_status(struct harness_diag_evidence *evidence, json_t *root,
                        struct harness_diag_record *record)
{
    const char *key;
    json_t *value;

    json_object_foreach(json_object_get(root, "pg_status"), key, value)
    {
        size_t group = group_of_number(evidence, json_object_get(root, "entries"), key);
        struct harness_diag_part *part =
            group != SIZE_MAX ? harness_diag_record_part(evidence, record, group) : NULL;

        if (part != NULL) {
            int64_t posted = number_of(value, "last_enqueued_collective", -1);

            part->posted = posted > 0 ? posted : 0;
            part->done = number_of(value, "last_completed_collective", -1);
        }
    }
}

ddp_status harness_diag_flight_read(struct harness_diag_evidence *evidence, json_t *root,
                                    const char *file, uint32_t rank, uint64_t written_ns,
                                    bool is_short, struct ddp_err *err)
{
    const char *version = text_of(root, "version");
    json_t *entries = json_object_get(root, "entries");
    struct harness_diag_record *record;
    json_t *entry;
    size_t i;

    if (strncmp(version, "2.", 2) != 0) {
        return ddp_err_set(err, DDP_E_PARSE,
                           "a Flight Recorder dump of version \"%.20s\"; 2.1 to 2.10 are known, so "
                           "dump it with PyTorch 2.3 or later",
                           version);
    }
    record = harness_diag_record_add(evidence, rank, file);
    if (record == NULL) {
        return DDP_E_NOMEM;
    }
    record->written_ns = written_ns;
    record->is_short = is_short;
    read_config(evidence, json_object_get(root, "pg_config"));
    json_array_foreach(entries, i, entry)
    {
        if (is_short && i + 1 == json_array_size(entries)) {
            break; /* the one that was being written lacks some of its values */
        }
        if (!read_entry(evidence, entry, record->file, i, record)) {
            break;
        }
    }
    if (i < json_array_size(entries) && !is_short) {
        record->is_short = true;
        harness_diag_note(evidence, HARNESS_DIAG_NOTE_AUDIT, rank, 0,
                          (struct harness_diag_place){record->file, 0, (int64_t)i},
                          "an entry without name or sizes; what follows it is not used");
    }
    if (record->written_ns < record->newest_ns) {
        record->written_ns = 0; /* the file's time is not that of the dump */
    }
    read_status(evidence, root, record);
    if (is_short) {
        harness_diag_note(evidence, HARNESS_DIAG_NOTE_AUDIT, rank, 0,
                          (struct harness_diag_place){record->file, 0, -1},
                          harness_diag_keep_format(evidence,
                                                   "cut short after %zu entries: later calls of "
                                                   "rank %u are not known from it",
                                                   i, rank));
    }
    return evidence->is_failed ? DDP_E_NOMEM : DDP_OK;
}
