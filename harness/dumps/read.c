#include "harness/dumps/read.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ddpcore/base/text.h"
#include "harness/dumps/flight.h"
#include "harness/dumps/pickle.h"

enum { LINE_MAX_BYTES = 8192, RANK_DIGITS_MAX = 7 };

/* The number that ends right before `end`, at most RANK_DIGITS_MAX digits; -1: none. */
static int64_t number_before(const char *start, const char *end)
{
    const char *digits = end;
    int64_t number = 0;

    while (digits > start && isdigit((unsigned char)digits[-1]) != 0) {
        digits--;
    }
    if (digits == end || end - digits > RANK_DIGITS_MAX) {
        return -1;
    }
    for (; digits < end; digits++) {
        number = 10 * number + (*digits - '0');
    }
    return number < HARNESS_WORLD_MAX ? number : -1;
}

/* Behind "rank", and one sign between. */
static int64_t rank_behind_word(const char *name, size_t size)
{
    int64_t found = -1;

    for (size_t i = 0; i + 4 < size; i++) {
        size_t at = i + 4;
        size_t end;

        if (strncmp(name + i, "rank", 4) != 0) {
            continue;
        }
        at += name[at] == '_' || name[at] == '-' || name[at] == '.' || name[at] == '=';
        for (end = at; end < size && isdigit((unsigned char)name[end]) != 0; end++) {
        }
        if (end > at) {
            found = number_before(name + at, name + end);
        }
    }
    return found;
}

int64_t harness_diag_path_rank(const char *path)
{
    const char *name = strrchr(path, '/');
    const char *dot;
    size_t size;
    int64_t rank;

    name = name != NULL ? name + 1 : path;
    rank = rank_behind_word(name, strlen(name));
    if (rank >= 0) {
        return rank;
    }
    dot = strchr(name, '.');
    size = dot != NULL && dot > name ? (size_t)(dot - name) : strlen(name);
    for (size_t i = size; i > 0; i--) {
        if (isdigit((unsigned char)name[i - 1]) != 0) {
            return number_before(name, name + i);
        }
    }
    while (name > path) { /* .../attempt_0/3/stdout.log */
        const char *end = name - 1;
        const char *folder = end;

        while (folder > path && folder[-1] != '/') {
            folder--;
        }
        rank = number_before(folder, end);
        if (rank >= 0 && end - folder <= RANK_DIGITS_MAX &&
            strspn(folder, "0123456789") == (size_t)(end - folder)) {
            return rank;
        }
        name = folder;
    }
    return -1;
}

static ddp_status read_flight(struct harness_diag_evidence *evidence, json_t *root,
                              const char *path, uint64_t written_ns, bool is_short,
                              struct ddp_err *err)
{
    int64_t rank = harness_diag_path_rank(path);

    if (rank < 0) {
        return ddp_err_set(err, DDP_E_PARSE,
                           "a Flight Recorder dump does not say whose it is, and no number in the "
                           "name does; name it ..._rank_<r>");
    }
    return harness_diag_flight_read(evidence, root, path, (uint32_t)rank, written_ns, is_short,
                                    err);
}

static ddp_status read_pickle(struct harness_diag_evidence *evidence, const char *path,
                              const char *data, size_t size_bytes, uint64_t written_ns,
                              struct ddp_err *err)
{
    json_t *root = NULL;
    bool is_short = false;
    ddp_status status = harness_diag_pickle_read(data, size_bytes, &root, &is_short, err);

    if (status == DDP_OK) {
        status = harness_diag_is_flight(root)
                     ? read_flight(evidence, root, path, written_ns, is_short, err)
                     : ddp_err_set(err, DDP_E_UNSUPPORTED,
                                   is_short ? "a pickle that ends before it says what it is"
                                            : "a pickle, but no Flight Recorder dump: it has no "
                                              "version and entries");
    }
    json_decref(root);
    return status;
}

static ddp_status read_document(struct harness_diag_evidence *evidence, json_t *root,
                                const char *path, uint64_t written_ns, struct ddp_err *err)
{
    const char *file = harness_diag_keep(evidence, path);

    if (harness_diag_is_flight(root)) {
        return read_flight(evidence, root, path, written_ns, false, err);
    }
    if (harness_diag_is_ras(root)) {
        harness_diag_ras_read(evidence, root, file);
    } else if (harness_diag_is_stacks(root)) {
        harness_diag_stacks_read(evidence, root, file, harness_diag_path_rank(path));
    } else if (harness_diag_is_error(root)) {
        harness_diag_error_read(evidence, root, file, harness_diag_path_rank(path));
    } else {
        return ddp_err_set(err, DDP_E_UNSUPPORTED,
                           "JSON, but neither a Flight Recorder dump, nor an error file of "
                           "torchrun, nor py-spy's, nor NCCL RAS's");
    }
    return DDP_OK;
}

/* A line, as text: what would end it or hide it is a space. out: size + 1 bytes. */
static void copy_line(const char *data, size_t size, char *out)
{
    for (size_t i = 0; i < size; i++) {
        out[i] = data[i];
        if (data[i] == '\0' || data[i] == '\r') {
            out[i] = ' ';
        }
    }
    out[size] = '\0';
}

/* "[rank3]:" and torchrun's "[default3]:" at the start of a line. Returns what follows. */
static const char *take_prefix(const char *text, int64_t *rank)
{
    static const char *const words[] = {"[rank", "[default"};

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        size_t size = strlen(words[i]);
        char *end = NULL;
        long number;

        if (strncmp(text, words[i], size) != 0 || isdigit((unsigned char)text[size]) == 0) {
            continue;
        }
        number = strtol(text + size, &end, 10);
        if (end[0] == ']' && number >= 0 && number < (long)HARNESS_WORLD_MAX) {
            *rank = number;
            end += end[1] == ':' ? 2 : 1;
            return end + (*end == ' ');
        }
    }
    return text;
}

static ddp_status read_text(struct harness_diag_evidence *evidence, const char *path,
                            const char *data, size_t size_bytes, struct ddp_err *err)
{
    struct harness_diag_lines lines = {.evidence = evidence,
                                       .file = harness_diag_keep(evidence, path),
                                       .file_rank = harness_diag_path_rank(path),
                                       .tail_rank = -1,
                                       .trace_rank = -2,
                                       .stack_site = ""};
    char text[LINE_MAX_BYTES] = "";
    size_t known = 0;

    while (size_bytes > 0) {
        const char *newline = memchr(data, '\n', size_bytes);
        size_t size = newline != NULL ? (size_t)(newline - data) : size_bytes;
        size_t kept = size < sizeof text - 1 ? size : sizeof text - 1;
        const char *rest;

        copy_line(data, kept, text);
        lines.line++;
        lines.line_rank = lines.file_rank;
        rest = take_prefix(text, &lines.line_rank);
        rest = take_prefix(rest, &lines.line_rank); /* torchrun's, then PyTorch's */
        known += harness_diag_watchdog_line(&lines, rest) || harness_diag_nccl_line(&lines, rest) ||
                 harness_diag_stack_line(&lines, rest) || harness_diag_error_line(&lines, rest);
        data += size + (newline != NULL);
        size_bytes -= size + (newline != NULL);
    }
    harness_diag_stack_end(&lines);
    if (known == 0) {
        return ddp_err_set(err, DDP_E_UNSUPPORTED,
                           "nothing in it is known: no Flight Recorder dump, watchdog or torchrun "
                           "message, error, stack, RAS status or NCCL line");
    }
    return DDP_OK;
}

ddp_status harness_diag_read(struct harness_diag_evidence *evidence, const char *path,
                             const char *data, size_t size_bytes, uint64_t written_ns,
                             struct ddp_err *err)
{
    size_t space = strspn(data, " \t\r\n");
    json_error_t error;
    json_t *root;
    ddp_status status;

    if (size_bytes == 0) {
        return ddp_err_set(err, DDP_E_PARSE, "the file is empty");
    }
    if (harness_diag_is_pickle(data, size_bytes)) {
        status = read_pickle(evidence, path, data, size_bytes, written_ns, err);
    } else if (data[space] == '{' || data[space] == '[') {
        root = json_loadb(data, size_bytes, JSON_DISABLE_EOF_CHECK, &error);
        if (root == NULL && data[space] == '[') {
            return read_text(evidence, path, data, size_bytes, err);
        }
        if (root == NULL) {
            return ddp_err_set(err, DDP_E_PARSE,
                               "line %d, column %d: JSON that cannot be read (%.100s); if it was "
                               "cut short, dump it again or name the pickle",
                               error.line, error.column, error.text);
        }
        status = read_document(evidence, root, path, written_ns, err);
        json_decref(root);
        if (status == DDP_E_UNSUPPORTED && data[space] == '[') {
            status = read_text(evidence, path, data, size_bytes, err);
        }
    } else {
        status = read_text(evidence, path, data, size_bytes, err);
    }
    return evidence->is_failed ? ddp_err_set(err, DDP_E_NOMEM, "memory is out") : status;
}
