/* Stacks that py-spy took, as text and as JSON. */
#include <stdio.h>
#include <string.h>

#include "harness/dumps/read.h"
#include "harness/dumps/scan.h"

enum { INNERMOST = 4 };

/* A frame in which a rank waits for others. */
static bool is_waiting(const char *function, const char *file)
{
    static const char *const functions[] = {"all_reduce",
                                            "broadcast",
                                            "barrier",
                                            "monitored_barrier",
                                            "all_gather",
                                            "reduce_scatter",
                                            "reduce",
                                            "gather",
                                            "scatter",
                                            "all_to_all",
                                            "recv",
                                            "send",
                                            "wait",
                                            "synchronize",
                                            "_sync_buffers",
                                            "all_gather_into_tensor",
                                            "reduce_scatter_tensor",
                                            "all_to_all_single",
                                            "all_gather_object",
                                            "broadcast_object_list",
                                            "_all_gather_base",
                                            "batch_isend_irecv"};

    if (strcmp(function, "_engine_run_backward") == 0) {
        return true;
    }
    if (strstr(file, "distributed/") == NULL && strstr(file, "distributed_c10d") == NULL) {
        return false;
    }
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        if (strcmp(function, functions[i]) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_of_library(const char *file)
{
    return strstr(file, "torch/") != NULL || strstr(file, "site-packages") != NULL ||
           strstr(file, "/lib/python") != NULL || file[0] == '<' ||
           (strchr(file, '/') == NULL &&
            (strcmp(file, "threading.py") == 0 || strcmp(file, "queue.py") == 0));
}

/* One frame more, from the innermost on. */
static void take_frame(struct harness_diag_lines *lines, const char *function, const char *file,
                       int64_t line)
{
    bool is_loading = strstr(file, "utils/data/") != NULL;

    if (lines->stack_depth++ < INNERMOST && is_waiting(function, file)) {
        lines->stack_kind = HARNESS_DIAG_NOTE_INSIDE;
    } else if (is_loading && lines->stack_kind == HARNESS_DIAG_NOTE_OUTSIDE) {
        lines->stack_kind = HARNESS_DIAG_NOTE_LOADING;
    }
    if (lines->stack_site[0] == '\0' && !is_of_library(file)) {
        lines->stack_site = harness_diag_keep_format(lines->evidence, "%.200s:%lld in %.100s", file,
                                                     (long long)line, function);
    }
}

static void begin(struct harness_diag_lines *lines)
{
    harness_diag_stack_end(lines);
    lines->is_main_thread = true;
    lines->stack_kind = HARNESS_DIAG_NOTE_OUTSIDE;
}

void harness_diag_stack_end(struct harness_diag_lines *lines)
{
    const char *state = lines->stack_kind == HARNESS_DIAG_NOTE_INSIDE    ? "is inside a collective"
                        : lines->stack_kind == HARNESS_DIAG_NOTE_LOADING ? "fetches data"
                                                                         : "is in code of its own";
    struct harness_diag_place place = {lines->file, lines->line, -1};

    if (lines->is_main_thread && lines->stack_depth > 0) {
        if (lines->file_rank < 0) {
            harness_diag_note(
                lines->evidence, HARNESS_DIAG_NOTE_AUDIT, -1, 0, place,
                "a stack does not say of which rank; put the rank into the file's name");
        } else {
            harness_diag_note(
                lines->evidence, lines->stack_kind, lines->file_rank, 0, place,
                harness_diag_keep_format(lines->evidence, "its main thread %s%s%s", state,
                                         lines->stack_site[0] != '\0' ? ", called from " : "",
                                         lines->stack_site));
        }
    }
    lines->is_main_thread = false;
    lines->stack_depth = 0;
    lines->stack_site = "";
}

bool harness_diag_stack_line(struct harness_diag_lines *lines, const char *text)
{
    const char *at = text;
    char function[128];
    char file[256];
    int64_t line = 0;

    if (strncmp(text, "Thread ", 7) == 0 && strstr(text, "): \"") != NULL) {
        if (strstr(text, "\"MainThread\"") != NULL) {
            begin(lines);
        } else {
            harness_diag_stack_end(lines);
        }
        return true;
    }
    if (strncmp(text, "Process ", 8) == 0 && strstr(text, ": ") != NULL) {
        harness_diag_stack_end(lines);
        return true;
    }
    if (lines->is_main_thread && harness_scan_text(&at, " ") &&
        harness_scan_until(&at, " (", function, sizeof function) && harness_scan_text(&at, " (") &&
        harness_scan_until(&at, ":)", file, sizeof file) && harness_scan_text(&at, ":") &&
        harness_scan_i64(&at, &line)) {
        take_frame(lines, function, file, line);
        return true;
    }
    return false;
}

bool harness_diag_is_stacks(json_t *root)
{
    return json_is_array(json_object_get(json_array_get(root, 0), "frames"));
}

void harness_diag_stacks_read(struct harness_diag_evidence *evidence, json_t *root,
                              const char *file, int64_t rank)
{
    struct harness_diag_lines lines = {
        .evidence = evidence, .file = file, .file_rank = rank, .stack_site = ""};
    json_t *thread;
    size_t i;

    json_array_foreach(root, i, thread)
    {
        const char *name = json_string_value(json_object_get(thread, "thread_name"));
        json_t *frame;
        size_t k;

        if (name == NULL || strcmp(name, "MainThread") != 0) {
            continue;
        }
        begin(&lines);
        json_array_foreach(json_object_get(thread, "frames"), k, frame)
        {
            const char *function = json_string_value(json_object_get(frame, "name"));
            const char *path = json_string_value(json_object_get(frame, "filename"));

            if (function != NULL && path != NULL) {
                take_frame(&lines, function, path,
                           json_integer_value(json_object_get(frame, "line")));
            }
        }
        harness_diag_stack_end(&lines);
    }
}
