/* Messages of PyTorch's watchdog, of torchrun, and of Python's tracebacks. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/dumps/read.h"
#include "harness/dumps/scan.h"

static struct harness_diag_place place_of(const struct harness_diag_lines *lines)
{
    return (struct harness_diag_place){lines->file, lines->line, -1};
}

/* An error that a lost or late peer causes. */
static bool is_symptom(const char *text)
{
    static const char *const parts[] = {"Connection reset by peer",
                                        "Connection closed by peer",
                                        "Connection refused",
                                        "Broken pipe",
                                        "timed out",
                                        "Timed out",
                                        "Timeout",
                                        "timeout",
                                        "ncclRemoteError",
                                        "ncclSystemError",
                                        "NCCL communicator was aborted",
                                        "Socket Timeout",
                                        "DistBackendError",
                                        "DistNetworkError",
                                        "DistStoreError",
                                        "gloo/transport",
                                        "monitoredBarrier",
                                        "failed to recv, got 0 bytes",
                                        "remote process exited",
                                        "Detected mismatch between"};

    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (strstr(text, parts[i]) != NULL) {
            return true;
        }
    }
    return false;
}

/* The number behind a word; false: the word is not there. */
static bool number_behind(const char *text, const char *word, int64_t *out)
{
    const char *at = strstr(text, word);

    if (at == NULL) {
        return false;
    }
    at += strlen(word);
    return harness_scan_i64(&at, out);
}

/* The watchdog counts within groups, and says which: "PG GUID 0(default_pg)", "PG 0". Its groups
 * are kept apart from those of dumps: they tell less of a call. */
static size_t group_of(struct harness_diag_evidence *evidence, const char *text)
{
    char guid[64] = "0";
    char desc[64] = "";
    const char *found = strstr(text, "PG GUID ");
    size_t index;

    if (found != NULL) {
        (void)sscanf(found, "PG GUID %63[^( ](%63[^)]", guid, desc);
    } else if ((found = strstr(text, "[PG ")) != NULL) {
        (void)sscanf(found, "[PG %63[^] ]", guid);
    }
    index = harness_diag_group(evidence, harness_diag_keep_format(evidence, "watchdog's %s", guid),
                               desc);
    if (index != SIZE_MAX) {
        evidence->groups[index].is_world =
            strcmp(guid, "0") == 0 || strcmp(desc, "default_pg") == 0;
    }
    return index;
}

/* Whose line it is: the prefix of PyTorch 2.2 and later has the rank in the job; "Rank N" of the
 * message is the rank in the group, which is the same in the default group only. */
static int64_t rank_of(const struct harness_diag_lines *lines, const char *text)
{
    int64_t rank = lines->line_rank;

    if (rank < 0 && !number_behind(text, " Rank ", &rank)) {
        (void)number_behind(text, "[Rank ", &rank);
    }
    return rank >= 0 && rank < HARNESS_WORLD_MAX ? rank : -1;
}

static struct harness_diag_part *part_of(struct harness_diag_lines *lines, const char *text,
                                         uint32_t rank)
{
    struct harness_diag_evidence *evidence = lines->evidence;
    size_t group = group_of(evidence, text);
    struct harness_diag_record *record = NULL;

    for (size_t i = 0; i < evidence->record_count && record == NULL; i++) {
        if (evidence->records[i].rank == rank && evidence->records[i].is_log) {
            record = &evidence->records[i];
        }
    }
    if (record == NULL) {
        record = harness_diag_record_add(evidence, rank, lines->file);
    }
    if (record == NULL) {
        return NULL;
    }
    record->is_log = true;
    return harness_diag_record_part(evidence, record, group);
}

static void add_timeout(struct harness_diag_lines *lines, const char *text,
                        struct harness_diag_part *part, uint32_t rank)
{
    struct harness_diag_call call = {.root = -1, .redop = "", .dtype = "", .site = "", .peer = -1};
    int64_t count = 0;
    char kind[64] = "";
    const char *found = strstr(text, "OpType=");

    if (found != NULL) {
        (void)sscanf(found, "OpType=%63[A-Za-z0-9_]", kind);
    }
    harness_diag_note(lines->evidence, HARNESS_DIAG_NOTE_TIMEOUT, rank, 0, place_of(lines),
                      harness_diag_keep_format(lines->evidence, "its watchdog gave up on %s",
                                               kind[0] != '\0' ? kind : "a collective"));
    if (part == NULL || kind[0] == '\0' || !number_behind(text, "SeqNum=", &call.seq)) {
        return;
    }
    for (size_t i = 0; i < part->count; i++) {
        if (part->calls[i].seq == call.seq) {
            return;
        }
    }
    call.kind = harness_diag_keep(lines->evidence, kind);
    call.order = lines->line;
    call.counts = number_behind(text, "NumelIn=", &count)
                      ? harness_diag_keep_format(lines->evidence, "%lld", (long long)count)
                      : "";
    call.state = HARNESS_DIAG_STARTED;
    call.place = place_of(lines);
    harness_diag_call_add(lines->evidence, part, &call);
}

bool harness_diag_watchdog_line(struct harness_diag_lines *lines, const char *text)
{
    bool is_timeout = strstr(text, "Watchdog caught collective operation timeout") != NULL ||
                      strstr(text, "Timeout at NCCL work: ") != NULL;
    bool is_status = strstr(text, "last enqueued work: ") != NULL ||
                     strstr(text, "ast enqueued NCCL work: ") != NULL;
    struct harness_diag_part *part;
    int64_t posted = 0;
    int64_t done = -1;
    int64_t rank;

    if (!is_timeout && !is_status) {
        return false;
    }
    rank = rank_of(lines, text);
    if (rank < 0) {
        harness_diag_note(lines->evidence, HARNESS_DIAG_NOTE_AUDIT, -1, 0, place_of(lines),
                          "a message of a watchdog that does not say of which rank; not used");
        return true;
    }
    part = part_of(lines, text, (uint32_t)rank);
    if (part != NULL && (number_behind(text, "last enqueued work: ", &posted) ||
                         number_behind(text, "ast enqueued NCCL work: ", &posted))) {
        part->posted = posted > part->posted ? posted : part->posted;
    }
    if (part != NULL && (number_behind(text, "last completed work: ", &done) ||
                         number_behind(text, "ast completed NCCL work: ", &done))) {
        part->done = done;
    }
    if (is_timeout) {
        add_timeout(lines, text, part, (uint32_t)rank);
    }
    return true;
}

/* "rank      : 2 (local_rank: 0)" */
static bool scan_summary_rank(const char *at, int64_t *out)
{
    int64_t local = 0;

    return harness_scan_text(&at, "rank : ") && harness_scan_i64(&at, out) &&
           harness_scan_text(&at, " (local_rank: ") && harness_scan_i64(&at, &local) && *out >= 0 &&
           *out < HARNESS_WORLD_MAX;
}

/* "exitcode  : -9 (pid: 12)" */
static bool scan_exit_code(const char *at, int64_t *out)
{
    return harness_scan_text(&at, "exitcode : ") && harness_scan_i64(&at, out) && *out > -128 &&
           *out < 65536;
}

/* A line of torchrun's summary. */
static bool take_summary(struct harness_diag_lines *lines, const char *text)
{
    struct harness_diag_evidence *evidence = lines->evidence;
    const char *at = text + strspn(text, " ");
    int64_t number = 0;

    if (scan_summary_rank(at, &number)) {
        lines->tail_rank = number;
        return true;
    }
    if (lines->tail_rank < 0) {
        return false;
    }
    if (scan_exit_code(at, &number)) {
        if (number < 0) {
            harness_diag_note(
                evidence, HARNESS_DIAG_NOTE_SIGNAL, lines->tail_rank, -number, place_of(lines),
                harness_diag_keep_format(evidence, "ended by signal %lld", (long long)-number));
        } else {
            harness_diag_note(
                evidence, HARNESS_DIAG_NOTE_EXIT, lines->tail_rank, number, place_of(lines),
                harness_diag_keep_format(evidence, "exited with %lld", (long long)number));
        }
        return true;
    }
    return strncmp(at, "traceback : ", 12) == 0 || strncmp(at, "error_file: ", 12) == 0;
}

/* "RuntimeError: text", "torch.OutOfMemoryError: ...": the last line of a traceback. */
static bool is_error(const char *text)
{
    size_t size = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_.0123456789");

    if (size < 5 || (text[size] != ':' && text[size] != '\0') ||
        isalpha((unsigned char)text[0]) == 0) {
        return false;
    }
    return (size >= 5 && strncmp(text + size - 5, "Error", 5) == 0) ||
           (size >= 9 && strncmp(text + size - 9, "Exception", 9) == 0);
}

/* is_last: the process ended with it, which a console does not tell. */
static void add_error(struct harness_diag_evidence *evidence, int64_t rank, const char *text,
                      const char *site, struct harness_diag_place place, bool is_last)
{
    bool is_launchers = strstr(text, "ChildFailedError") != NULL ||
                        strstr(text, "SignalException") != NULL ||
                        strstr(text, "RendezvousGracefulExitError") != NULL;

    if (is_launchers || rank < 0) {
        return;
    }
    harness_diag_note(evidence,
                      is_symptom(text) ? HARNESS_DIAG_NOTE_LOST : HARNESS_DIAG_NOTE_RAISED, rank,
                      is_last, place,
                      harness_diag_keep_format(evidence, "raised %.400s%s%s", text,
                                               site[0] != '\0' ? " at " : "", site));
}

/* `File "train.py", line 12` */
static bool scan_site(const char *at, char *out_file, size_t file_bytes, int64_t *out_line)
{
    return harness_scan_text(&at, "File \"") &&
           harness_scan_until(&at, "\"", out_file, file_bytes) &&
           harness_scan_text(&at, "\", line ") && harness_scan_i64(&at, out_line);
}

bool harness_diag_error_line(struct harness_diag_lines *lines, const char *text)
{
    int64_t rank = lines->tail_rank >= 0 && text[0] == ' ' ? lines->tail_rank : lines->line_rank;
    const char *at = text + strspn(text, " ");
    char file[256];
    int64_t line = 0;

    if (take_summary(lines, text)) {
        return true;
    }
    if (strncmp(at, "Traceback (most recent call last)", 33) == 0) {
        lines->trace_rank = rank;
        lines->trace_site = "";
        return true;
    }
    if (scan_site(at, file, sizeof file, &line)) {
        if (strstr(file, "site-packages") == NULL && strstr(file, "/torch/") == NULL) {
            lines->trace_site =
                harness_diag_keep_format(lines->evidence, "%s:%lld", file, (long long)line);
        }
        return lines->trace_rank != -2;
    }
    if ((lines->trace_rank != -2 || lines->line_rank >= 0) && is_error(at)) {
        add_error(lines->evidence, lines->trace_rank >= 0 ? lines->trace_rank : rank, at,
                  lines->trace_site != NULL ? lines->trace_site : "", place_of(lines), false);
        lines->trace_rank = -2;
        lines->trace_site = "";
        return true;
    }
    return false;
}

bool harness_diag_is_error(json_t *root)
{
    return json_object_get(root, "message") != NULL;
}

void harness_diag_error_read(struct harness_diag_evidence *evidence, json_t *root, const char *file,
                             int64_t rank)
{
    struct harness_diag_place place = {file, 0, -1};
    json_t *message = json_object_get(root, "message");
    json_t *text = json_is_object(message) ? json_object_get(message, "message") : message;
    json_t *extra = json_object_get(message, "extraInfo");
    json_t *time = json_object_get(extra, "timestamp");

    if (!json_is_string(text)) {
        return;
    }
    if (rank < 0) {
        harness_diag_note(evidence, HARNESS_DIAG_NOTE_AUDIT, -1, 0, place,
                          "an error file does not say whose it is; keep it in torchrun's folder "
                          "attempt_0/<rank>, or put the rank into its name");
        return;
    }
    add_error(evidence, rank, json_string_value(text), "", place, true);
    if (json_is_string(time) || json_is_integer(time)) {
        evidence->timed_errors++;
    }
}
