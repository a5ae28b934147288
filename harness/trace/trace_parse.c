/* Strict reader of the trace's text form. Tokens are separated by blanks; anything unexpected is an
 * error with line and column. A line that can be read may still not be one that was written:
 * numbers, order and seals say so (E_CORRUPT). */
#include <inttypes.h>
#include <string.h>

#include "ddpcore/base/hash.h"
#include "harness/trace/event_format.h"
#include "harness/trace/line.h"

/* "3.0": step and micro-batch. */
static ddp_status parse_place(struct harness_line *reader, char *text,
                              struct ddp_event_entry *entry)
{
    char *dot = strchr(text, '.');
    uint64_t step;
    uint64_t micro;

    if (dot == NULL) {
        return harness_line_refuse(reader, text, "expected step.micro");
    }
    *dot = '\0';
    if (ddp_text_parse_u64(text, &step) != DDP_OK || step > UINT32_MAX ||
        ddp_text_parse_u64(dot + 1, &micro) != DDP_OK || micro > UINT16_MAX) {
        return harness_line_refuse(reader, text, "expected step.micro");
    }
    entry->step = (uint32_t)step;
    entry->micro = (uint16_t)micro;
    return DDP_OK;
}

/* "r1#57": rank 1's event number 57. */
static ddp_status parse_number(struct harness_line *reader, char *text,
                               struct harness_trace_event *event)
{
    char *hash = strchr(text, '#');
    uint64_t rank = 0;

    if (hash != NULL) {
        *hash = '\0';
    }
    if (hash == NULL || ddp_text_parse_u64(text + 1, &rank) != DDP_OK ||
        rank >= reader->world_size || ddp_text_parse_u64(hash + 1, &event->entry.index) != DDP_OK) {
        return harness_line_refuse(reader, text, "expected r<rank>#<number>");
    }
    event->rank = (uint32_t)rank;
    return DDP_OK;
}

/* Lines come as the merge puts them: none is missing, doubled or in another place. */
static ddp_status check_order(struct harness_line *reader, const struct harness_trace_event *event)
{
    const struct harness_trace_event *before = event - 1;
    uint64_t due = reader->trace->ends[event->rank].event_count + 1;

    if (event->entry.index != due || reader->is_behind_events) {
        return ddp_err_set(reader->err, DDP_E_CORRUPT,
                           "line %u is event %" PRIu64 " of rank %u where event %" PRIu64
                           " is due: lines are missing, doubled or out of order",
                           reader->line, event->entry.index, event->rank, due);
    }
    if (reader->trace->event_count > 0 && harness_trace_compare(before, event) >= 0) {
        return ddp_err_set(reader->err, DDP_E_CORRUPT,
                           "line %u comes before the line above it: lines are out of order",
                           reader->line);
    }
    return DDP_OK;
}

static ddp_status parse_event(struct harness_line *reader, uint64_t time_ns)
{
    struct harness_trace_event *event = &reader->trace->events[reader->trace->event_count];
    enum ddp_event id;
    enum ddp_phase phase;

    DDP_ASSERT(reader->trace->event_count < reader->trace->event_capacity);
    if (reader->token_count < 5) {
        return harness_line_refuse(reader, reader->token[1],
                                   "expected r<rank>#<number> step.micro phase event");
    }
    event->entry.time_ns = time_ns;
    DDP_TRY(parse_number(reader, reader->token[1], event));
    DDP_TRY(parse_place(reader, reader->token[2], &event->entry));
    if (ddp_phase_parse(reader->token[3], &phase) != DDP_OK) {
        return harness_line_refuse(reader, reader->token[3], "unknown phase");
    }
    event->entry.phase = (uint8_t)phase;
    if (ddp_event_parse(reader->token[4], &id) != DDP_OK) {
        return harness_line_refuse(reader, reader->token[4], "unknown event");
    }
    event->entry.event = (uint8_t)id;
    for (unsigned i = 0; ddp_event_arg(id, i)[0] != '\0'; i++) {
        const char *format = ddp_event_arg(id, i);
        const char *name = strchr(format, ':') + 1;
        const char *value =
            5 + i < reader->token_count ? harness_line_value_of(reader->token[5 + i], name) : NULL;

        if (value == NULL ||
            harness_event_arg_parse(format, value, &event->entry.arg[i]) != DDP_OK ||
            !harness_event_arg_is_possible(format, event->entry.arg[i])) {
            return harness_line_refuse(reader, reader->token[4], "missing or malformed argument");
        }
    }
    DDP_TRY(check_order(reader, event));
    reader->trace->ends[event->rank].event_count++;
    reader->trace->event_count++;
    return DDP_OK;
}

static ddp_status parse_diagnosis(struct harness_line *reader, uint64_t time_ns)
{
    struct harness_finding finding;
    struct ddp_mem_pool *pool;
    ddp_status status = ddp_mem_pool_create(&pool);

    if (status != DDP_OK) {
        return status;
    }
    status = harness_line_finding(reader, ddp_mem_pool_mem(pool), &finding);
    if (status == DDP_OK) {
        status = harness_trace_add_diagnosis(reader->trace, time_ns, &finding);
    }
    ddp_mem_pool_destroy(pool);
    return status;
}

/* The rank's lines are those that were written. */
static ddp_status check_rank_seal(struct harness_line *reader, uint64_t rank)
{
    uint64_t read_count = reader->trace->ends[rank].event_count;
    uint64_t count = 0;
    uint64_t digest = 0;

    DDP_TRY(harness_line_find_u64(reader, "events", &count));
    DDP_TRY(harness_line_find_hex(reader, "digest", &digest));
    if (reader->is_ended[rank]) {
        return ddp_err_set(reader->err, DDP_E_CORRUPT, "line %u: rank %" PRIu64 " has two ends",
                           reader->line, rank);
    }
    reader->is_ended[rank] = true;
    if (count != read_count) {
        return ddp_err_set(reader->err, DDP_E_CORRUPT,
                           "rank %" PRIu64 " recorded %" PRIu64 " events, and %" PRIu64
                           " are there",
                           rank, count, read_count);
    }
    return digest == reader->digest[rank]
               ? DDP_OK
               : ddp_err_set(reader->err, DDP_E_CORRUPT,
                             "an event of rank %" PRIu64 " was altered: its lines do not have the "
                             "recorded digest",
                             rank);
}

static ddp_status find_bool(struct harness_line *reader, const char *name, bool *out)
{
    uint64_t number = 0;

    DDP_TRY(harness_line_find_u64(reader, name, &number));
    *out = number != 0;
    return number <= 1 ? DDP_OK : harness_line_refuse(reader, reader->buffer, "expected 0 or 1");
}

static ddp_status parse_end(struct harness_line *reader, uint64_t time_ns)
{
    const char *how = harness_line_find(reader, "how");
    struct harness_rank_end *end;
    uint64_t rank = 0;
    bool is_stopped = false;
    int64_t code = 0;

    DDP_TRY(harness_line_find_u64(reader, "rank", &rank));
    DDP_TRY(harness_line_find_i64(reader, "code", &code));
    DDP_TRY(find_bool(reader, "stopped", &is_stopped));
    if (rank >= reader->world_size || how == NULL) {
        return harness_line_refuse(reader, reader->buffer, "expected rank= and how=");
    }
    DDP_TRY(check_rank_seal(reader, rank));
    end = &reader->trace->ends[rank];
    for (unsigned i = 0; i < HARNESS_END_HOW_COUNT; i++) {
        if (strcmp(how, harness_end_names[i]) == 0) {
            end->how = (enum harness_end_how)i;
            end->code = (int)code;
            end->time_ns = time_ns;
            end->is_stopped = is_stopped;
            return !is_stopped || end->how > HARNESS_END_EXITED
                       ? DDP_OK
                       : harness_line_refuse(reader, how, "who ended by itself was not stopped");
        }
    }
    return harness_line_refuse(reader, how, "unknown way to end");
}

static ddp_status parse_files(struct harness_line *reader)
{
    const char *name = harness_line_find(reader, "name");
    struct harness_trace_files *files = NULL;

    for (unsigned i = 0; name != NULL && i < HARNESS_FILES_COUNT; i++) {
        if (strcmp(name, harness_files_name((enum harness_files)i)) == 0) {
            files = &reader->trace->files[i];
        }
    }
    if (files == NULL || reader->is_listed[files - reader->trace->files]) {
        return harness_line_refuse(reader, reader->buffer,
                                   "expected files of a known name, once each");
    }
    reader->is_listed[files - reader->trace->files] = true;
    DDP_TRY(harness_line_find_u64(reader, "count", &files->count));
    DDP_TRY(harness_line_find_u64(reader, "bytes", &files->size_bytes));
    return harness_line_find_hex(reader, "digest", &files->digest);
}

static ddp_status parse_finish(struct harness_line *reader, uint64_t time_ns)
{
    if (reader->is_finished) {
        return harness_line_refuse(reader, reader->buffer, "a second line \"finish\"");
    }
    reader->is_finished = true;
    DDP_TRY(harness_line_find_u64(reader, "start", &reader->trace->start_ns));
    DDP_TRY(harness_line_find_u64(reader, "lost", &reader->trace->lost_count));
    DDP_TRY(find_bool(reader, "leak_process", &reader->trace->leak_process));
    DDP_TRY(find_bool(reader, "leak_shm", &reader->trace->leak_shm));
    DDP_TRY(find_bool(reader, "leak_fd", &reader->trace->leak_fd));
    reader->trace->end_ns = time_ns;
    if ((reader->trace->leak_process || reader->trace->leak_shm || reader->trace->leak_fd) !=
        (reader->tail != NULL && reader->tail[0] != '\0')) {
        return harness_line_refuse(reader, reader->buffer, "what was left behind has to be said");
    }
    if (reader->trace->start_ns > time_ns ||
        (reader->trace->event_count > 0 &&
         reader->trace->start_ns > reader->trace->events[0].entry.time_ns)) {
        return harness_line_refuse(reader, reader->buffer, "it began behind what it recorded");
    }
    if (reader->tail != NULL) {
        (void)strncpy(reader->trace->leak_text, reader->tail, sizeof reader->trace->leak_text - 1);
    }
    return DDP_OK;
}

/* The last line: of all lines that are not a rank's, the header included. */
static ddp_status parse_seal(struct harness_line *reader)
{
    uint64_t digest = 0;

    DDP_TRY(harness_line_find_hex(reader, "digest", &digest));
    for (uint32_t rank = 0; rank < reader->world_size; rank++) {
        if (!reader->is_ended[rank]) {
            return ddp_err_set(reader->err, DDP_E_CORRUPT, "the end of rank %u is missing", rank);
        }
    }
    if (!reader->is_finished) {
        return ddp_err_set(reader->err, DDP_E_CORRUPT, "the line \"finish\" is missing");
    }
    return digest == reader->own_digest
               ? DDP_OK
               : ddp_err_set(
                     reader->err, DDP_E_CORRUPT,
                     "a line of the harness was altered, doubled, moved or left out: they do "
                     "not have the recorded digest");
}

static ddp_status parse_own_line(struct harness_line *reader, uint64_t time_ns)
{
    reader->is_behind_events = true;
    if (strcmp(reader->token[2], "end") == 0) {
        return parse_end(reader, time_ns);
    }
    if (strcmp(reader->token[2], "diagnosis") == 0) {
        return parse_diagnosis(reader, time_ns);
    }
    if (strcmp(reader->token[2], "files") == 0) {
        return parse_files(reader);
    }
    if (strcmp(reader->token[2], "finish") == 0) {
        return parse_finish(reader, time_ns);
    }
    if (strcmp(reader->token[2], "seal") == 0) {
        return parse_seal(reader);
    }
    return harness_line_refuse(reader, reader->token[2],
                               "expected end, diagnosis, files, finish or seal");
}

static ddp_status parse_line(struct harness_line *reader)
{
    uint64_t time_ns;

    if (reader->token_count < 3 || ddp_text_parse_u64(reader->token[0], &time_ns) != DDP_OK) {
        return harness_line_refuse(reader, reader->buffer, "expected: time_ns r<rank>|h ...");
    }
    if (reader->token[1][0] == 'r') {
        return parse_event(reader, time_ns);
    }
    if (strcmp(reader->token[1], "h") != 0) {
        return harness_line_refuse(reader, reader->token[1], "expected r<rank> or h");
    }
    return parse_own_line(reader, time_ns);
}

static size_t count_lines(const char *text, size_t *out_longest_bytes)
{
    size_t count = 1;
    size_t size_bytes = 0;

    *out_longest_bytes = 0;
    for (const char *c = text; *c != '\0'; c++) {
        size_bytes = *c == '\n' ? 0 : size_bytes + 1;
        *out_longest_bytes = size_bytes > *out_longest_bytes ? size_bytes : *out_longest_bytes;
        count += *c == '\n' ? 1 : 0;
    }
    return count;
}

static ddp_status parse_made(struct harness_line *reader)
{
    const char *launcher = harness_line_find(reader, "launcher");

    if (launcher != NULL && strcmp(launcher, "mpirun") == 0) {
        reader->trace->launcher = "mpirun";
    } else if (launcher == NULL || strcmp(launcher, "own") != 0) {
        return harness_line_refuse(reader, reader->buffer, "expected launcher=own or mpirun");
    }
    return harness_line_find_u64(reader, "seed", &reader->trace->seed);
}

/* First line: "ddprove-trace 2 driver=sim world=4 launcher=own seed=0". */
static ddp_status parse_header(struct harness_line *reader, struct ddp_mem *mem, size_t line_count)
{
    const char *driver = harness_line_find(reader, "driver");
    uint64_t world = 0;

    if (reader->token_count < 4 || strcmp(reader->token[0], "ddprove-trace") != 0 ||
        strcmp(reader->token[1], "2") != 0 || driver == NULL) {
        return harness_line_refuse(
            reader, reader->buffer,
            "not a trace: expected \"ddprove-trace 2 driver=... world=...\"");
    }
    if (strcmp(driver, "sim") != 0 && strcmp(driver, "proc") != 0) {
        return harness_line_refuse(reader, driver, "unknown driver");
    }
    DDP_TRY(harness_line_find_u64(reader, "world", &world));
    if (world == 0 || world > HARNESS_WORLD_MAX) {
        return harness_line_refuse(reader, reader->buffer, "world= is out of range");
    }
    harness_trace_init(reader->trace, mem, (uint32_t)world,
                       strcmp(driver, "sim") == 0 ? "sim" : "proc");
    reader->world_size = (uint32_t)world;
    DDP_TRY(parse_made(reader));
    reader->trace->events = ddp_mem_array(mem, line_count, sizeof *reader->trace->events);
    reader->trace->event_capacity = line_count;
    reader->digest = ddp_mem_array(mem, world, sizeof *reader->digest);
    reader->is_ended = ddp_mem_array(mem, world, sizeof *reader->is_ended);
    return reader->trace->events != NULL && reader->digest != NULL && reader->is_ended != NULL
               ? DDP_OK
               : DDP_E_NOMEM;
}

/* One line. Its bytes go into the digest of whoever it belongs to, but the seal's into none. */
static ddp_status take_line(struct harness_line *reader, struct ddp_mem *mem, const char *line,
                            size_t size, size_t line_count)
{
    size_t event_count = reader->trace->event_count;
    bool is_own = true;
    uint64_t *digest;

    DDP_TRY(harness_line_tokenise(reader, line, size));
    if (reader->trace->mem == NULL) {
        DDP_TRY(parse_header(reader, mem, line_count));
    } else {
        DDP_TRY(parse_line(reader));
        is_own = reader->trace->event_count == event_count;
    }
    digest =
        is_own ? &reader->own_digest : &reader->digest[reader->trace->events[event_count].rank];
    *digest = ddp_hash_bytes(line, size, *digest);
    return DDP_OK;
}

/* Line by line; the header is the first line that is not a comment. */
static ddp_status parse_text(struct harness_line *reader, struct ddp_mem *mem, const char *text)
{
    size_t longest_bytes;
    size_t line_count = count_lines(text, &longest_bytes);
    bool is_sealed = false;

    DDP_TRY(harness_line_open(reader, mem, longest_bytes));

    for (const char *line = text; *line != '\0';) {
        const char *newline = strchr(line, '\n');
        size_t size = newline != NULL ? (size_t)(newline - line) : strlen(line);

        reader->line++;
        if (line[0] != '#' && size > 0) {
            DDP_TRY(take_line(reader, mem, line, size, line_count));
            is_sealed = reader->token_count > 2 && strcmp(reader->token[2], "seal") == 0;
        }
        line += size + (newline != NULL ? 1 : 0);
    }
    if (!is_sealed) {
        return ddp_err_set(reader->err, DDP_E_PARSE,
                           "%u:1: the trace ends without its seal: it is incomplete", reader->line);
    }
    return DDP_OK;
}

ddp_status harness_trace_parse(struct ddp_mem *mem, const char *text, struct harness_trace *out,
                               struct ddp_err *err)
{
    struct harness_line *reader = ddp_mem_array(mem, 1, sizeof *reader);
    ddp_status status;

    memset(out, 0, sizeof *out);
    if (reader == NULL) {
        return DDP_E_NOMEM;
    }
    reader->trace = out;
    reader->err = err;
    status = parse_text(reader, mem, text);
    if (status != DDP_OK) {
        harness_trace_fini(out);
    }
    ddp_mem_free(mem, reader->digest);
    ddp_mem_free(mem, reader->is_ended);
    ddp_mem_free(mem, reader->buffer);
    ddp_mem_free(mem, reader);
    return status;
}
