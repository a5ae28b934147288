/* Strict reader of the trace's text form. Tokens are separated by blanks; anything unexpected is an
 * error with line and column. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "harness/trace/event_format.h"
#include "harness/trace/trace.h"

#define TOKENS_MAX 32

struct reader {
    struct harness_trace *trace; /* NULL: of a single line */
    uint32_t world_size;
    struct ddp_err *err;
    unsigned line;
    uint64_t *next_index; /* [world_size] */
    char *buffer;         /* the line, cut into tokens; room for the longest one */
    size_t buffer_bytes;
    char *token[TOKENS_MAX];
    unsigned token_count;
    const char *tail; /* what follows " text=", or NULL */
};

static ddp_status refuse(struct reader *reader, const char *at, const char *what)
{
    size_t column = at >= reader->buffer && at < reader->buffer + reader->buffer_bytes
                        ? (size_t)(at - reader->buffer) + 1
                        : 1;

    return ddp_err_set(reader->err, DDP_E_PARSE, "%u:%zu: %s", reader->line, column, what);
}

/* Value of token "name=value", or NULL. */
static const char *value_of(const char *token, const char *name)
{
    size_t size = strlen(name);

    return strncmp(token, name, size) == 0 && token[size] == '=' ? token + size + 1 : NULL;
}

static const char *find_value(const struct reader *reader, const char *name)
{
    for (unsigned i = 0; i < reader->token_count; i++) {
        const char *value = value_of(reader->token[i], name);

        if (value != NULL) {
            return value;
        }
    }
    return NULL;
}

static ddp_status find_u64(struct reader *reader, const char *name, uint64_t *out)
{
    const char *value = find_value(reader, name);

    if (value == NULL || ddp_text_parse_u64(value, out) != DDP_OK) {
        return ddp_err_set(reader->err, DDP_E_PARSE, "%u:1: %s=<number> is missing", reader->line,
                           name);
    }
    return DDP_OK;
}

static ddp_status find_i64(struct reader *reader, const char *name, int64_t *out)
{
    const char *value = find_value(reader, name);

    if (value == NULL || ddp_text_parse_i64(value, out) != DDP_OK) {
        return ddp_err_set(reader->err, DDP_E_PARSE, "%u:1: %s=<number> is missing", reader->line,
                           name);
    }
    return DDP_OK;
}

/* Split the line in place; " text=" begins the free tail. */
static ddp_status tokenise(struct reader *reader, const char *line, size_t size)
{
    char *text;
    char *save = NULL;

    DDP_ASSERT(size < reader->buffer_bytes); /* open_buffer measured the lines */
    memcpy(reader->buffer, line, size);
    reader->buffer[size] = '\0';
    if (memchr(reader->buffer, '\0', size) != NULL) {
        return refuse(reader, reader->buffer, "line has a NUL byte");
    }
    text = strstr(reader->buffer, " text=");
    reader->tail = NULL;
    if (text != NULL) {
        *text = '\0';
        reader->tail = text + strlen(" text=");
    }
    reader->token_count = 0;
    for (char *token = strtok_r(reader->buffer, " ", &save); token != NULL;
         token = strtok_r(NULL, " ", &save)) {
        if (reader->token_count == TOKENS_MAX) {
            return refuse(reader, token, "line has too many fields");
        }
        reader->token[reader->token_count++] = token;
    }
    return DDP_OK;
}

/* "3.0": step and micro-batch. */
static ddp_status parse_place(struct reader *reader, char *text, struct ddp_event_entry *entry)
{
    char *dot = strchr(text, '.');
    uint64_t step;
    uint64_t micro;

    if (dot == NULL) {
        return refuse(reader, text, "expected step.micro");
    }
    *dot = '\0';
    if (ddp_text_parse_u64(text, &step) != DDP_OK || step > UINT32_MAX ||
        ddp_text_parse_u64(dot + 1, &micro) != DDP_OK || micro > UINT16_MAX) {
        return refuse(reader, text, "expected step.micro");
    }
    entry->step = (uint32_t)step;
    entry->micro = (uint16_t)micro;
    return DDP_OK;
}

static ddp_status parse_event(struct reader *reader, uint64_t time_ns)
{
    struct harness_trace_event *event = &reader->trace->events[reader->trace->event_count];
    enum ddp_event id;
    enum ddp_phase phase;
    uint64_t rank;

    DDP_ASSERT(reader->trace->event_count < reader->trace->event_capacity);
    memset(event, 0, sizeof *event);
    if (reader->token_count < 5 || ddp_text_parse_u64(reader->token[1] + 1, &rank) != DDP_OK ||
        rank >= reader->world_size) {
        return refuse(reader, reader->token[1], "expected r<rank> step.micro phase event");
    }
    event->rank = (uint32_t)rank;
    event->entry.time_ns = time_ns;
    event->entry.index = ++reader->next_index[rank];
    DDP_TRY(parse_place(reader, reader->token[2], &event->entry));
    if (ddp_phase_parse(reader->token[3], &phase) != DDP_OK) {
        return refuse(reader, reader->token[3], "unknown phase");
    }
    event->entry.phase = (uint8_t)phase;
    if (ddp_event_parse(reader->token[4], &id) != DDP_OK) {
        return refuse(reader, reader->token[4], "unknown event");
    }
    event->entry.event = (uint8_t)id;
    for (unsigned i = 0; ddp_event_arg(id, i)[0] != '\0'; i++) {
        const char *format = ddp_event_arg(id, i);
        const char *name = strchr(format, ':') + 1;
        const char *value =
            5 + i < reader->token_count ? value_of(reader->token[5 + i], name) : NULL;

        if (value == NULL ||
            harness_event_arg_parse(format, value, &event->entry.arg[i]) != DDP_OK) {
            return refuse(reader, reader->token[4], "missing or malformed argument");
        }
    }
    reader->trace->event_count++;
    return DDP_OK;
}

static ddp_status parse_list(struct reader *reader, const char *name, uint32_t limit,
                             void (*add)(struct harness_finding *finding, uint64_t item),
                             struct harness_finding *finding)
{
    const char *value = find_value(reader, name);
    char *end = NULL;

    if (value == NULL) {
        return refuse(reader, reader->buffer, "a list is missing");
    }
    while (*value != '\0') {
        uint64_t item = strtoull(value, &end, 10);

        if (end == value || item >= limit || (*end != ',' && *end != '\0')) {
            return refuse(reader, value, "malformed list");
        }
        add(finding, item);
        value = *end == ',' ? end + 1 : end;
    }
    return DDP_OK;
}

static void add_culprit(struct harness_finding *finding, uint64_t item)
{
    harness_rank_set_add(&finding->culprits, (uint32_t)item);
}

static void add_victim(struct harness_finding *finding, uint64_t item)
{
    harness_rank_set_add(&finding->victims, (uint32_t)item);
}

static void add_param(struct harness_finding *finding, uint64_t item)
{
    harness_finding_add_param(finding, (uint32_t)item);
}

static ddp_status parse_finding_op(struct reader *reader, struct harness_finding *finding)
{
    const char *kind = find_value(reader, "kind");
    const char *role = find_value(reader, "role");
    int64_t bucket = -1;

    if (kind == NULL || role == NULL) {
        return refuse(reader, reader->buffer, "kind= and role= are missing");
    }
    finding->op.is_set = strcmp(kind, "-") != 0;
    if (finding->op.is_set && (ddp_coll_kind_parse(kind, &finding->op.kind) != DDP_OK ||
                               ddp_coll_role_parse(role, &finding->op.role) != DDP_OK)) {
        return refuse(reader, kind, "unknown kind or role");
    }
    DDP_TRY(find_u64(reader, "seq", &finding->op.seq));
    DDP_TRY(find_u64(reader, "count", &finding->op.elem_count));
    DDP_TRY(find_i64(reader, "bucket", &bucket));
    finding->op.bucket = (int32_t)bucket;
    return DDP_OK;
}

static ddp_status parse_finding(struct reader *reader, struct ddp_mem *mem,
                                struct harness_finding *out)
{
    const char *verdict = find_value(reader, "verdict");
    const char *oracle = find_value(reader, "oracle");
    const char *mode = find_value(reader, "mode");
    const char *phase_name = find_value(reader, "phase");
    enum harness_verdict parsed;
    enum harness_oracle_id parsed_oracle;
    enum harness_mode parsed_mode;
    enum ddp_phase phase;
    int64_t step = -1;
    int64_t micro = -1;

    if (verdict == NULL || oracle == NULL || mode == NULL || phase_name == NULL ||
        harness_verdict_parse(verdict, &parsed) != DDP_OK || harness_verdict_is_planned(parsed) ||
        harness_oracle_parse(oracle, &parsed_oracle) != DDP_OK ||
        harness_mode_parse(mode, &parsed_mode) != DDP_OK) {
        return refuse(reader, reader->buffer, "expected verdict=, oracle=, mode= and phase=");
    }
    harness_finding_init(out, mem, parsed, parsed_oracle, parsed_mode);
    DDP_TRY(parse_list(reader, "culprit", reader->world_size, add_culprit, out));
    DDP_TRY(parse_list(reader, "victim", reader->world_size, add_victim, out));
    DDP_TRY(parse_list(reader, "params", UINT32_MAX, add_param, out));
    DDP_TRY(parse_finding_op(reader, out));
    DDP_TRY(find_i64(reader, "step", &step));
    DDP_TRY(find_i64(reader, "micro", &micro));
    DDP_TRY(find_i64(reader, "detect", &out->detect_ns));
    DDP_TRY(find_i64(reader, "attribute", &out->attribute_ns));
    out->step = (int32_t)step;
    out->micro = (int32_t)micro;
    if (strcmp(phase_name, "-") != 0) {
        if (ddp_phase_parse(phase_name, &phase) != DDP_OK) {
            return refuse(reader, phase_name, "unknown phase");
        }
        out->phase = (int32_t)phase;
    }
    if (reader->tail != NULL) {
        (void)strncpy(out->text, reader->tail, sizeof out->text - 1);
    }
    return harness_finding_is_failed(out) ? DDP_E_NOMEM : DDP_OK;
}

static ddp_status parse_diagnosis(struct reader *reader, uint64_t time_ns)
{
    struct harness_finding finding;
    struct ddp_mem_pool *pool;
    ddp_status status = ddp_mem_pool_create(&pool);

    if (status != DDP_OK) {
        return status;
    }
    status = parse_finding(reader, ddp_mem_pool_mem(pool), &finding);
    if (status == DDP_OK) {
        status = harness_trace_add_diagnosis(reader->trace, time_ns, &finding);
    }
    ddp_mem_pool_destroy(pool);
    return status;
}

static ddp_status parse_end(struct reader *reader, uint64_t time_ns)
{
    const char *how = find_value(reader, "how");
    struct harness_rank_end *end;
    uint64_t rank = 0;
    uint64_t stopped = 0;
    int64_t code = 0;

    DDP_TRY(find_u64(reader, "rank", &rank));
    DDP_TRY(find_i64(reader, "code", &code));
    DDP_TRY(find_u64(reader, "stopped", &stopped));
    if (rank >= reader->world_size || how == NULL) {
        return refuse(reader, reader->buffer, "expected rank= and how=");
    }
    end = &reader->trace->ends[rank];
    for (unsigned i = 0; i < HARNESS_END_HOW_COUNT; i++) {
        if (strcmp(how, harness_end_names[i]) == 0) {
            end->how = (enum harness_end_how)i;
            end->code = (int)code;
            end->time_ns = time_ns;
            end->is_stopped = stopped != 0;
            return DDP_OK;
        }
    }
    return refuse(reader, how, "unknown way to end");
}

static ddp_status parse_finish(struct reader *reader, uint64_t time_ns)
{
    uint64_t leak[3] = {0};

    DDP_TRY(find_u64(reader, "start", &reader->trace->start_ns));
    DDP_TRY(find_u64(reader, "lost", &reader->trace->lost_count));
    DDP_TRY(find_u64(reader, "leak_process", &leak[0]));
    DDP_TRY(find_u64(reader, "leak_shm", &leak[1]));
    DDP_TRY(find_u64(reader, "leak_fd", &leak[2]));
    reader->trace->leak_process = leak[0] != 0;
    reader->trace->leak_shm = leak[1] != 0;
    reader->trace->leak_fd = leak[2] != 0;
    reader->trace->end_ns = time_ns;
    if (reader->tail != NULL) {
        (void)strncpy(reader->trace->leak_text, reader->tail, sizeof reader->trace->leak_text - 1);
    }
    return DDP_OK;
}

static ddp_status parse_line(struct reader *reader)
{
    uint64_t time_ns;

    if (reader->token_count < 3 || ddp_text_parse_u64(reader->token[0], &time_ns) != DDP_OK) {
        return refuse(reader, reader->buffer, "expected: time_ns r<rank>|h ...");
    }
    if (reader->token[1][0] == 'r') {
        return parse_event(reader, time_ns);
    }
    if (strcmp(reader->token[1], "h") != 0) {
        return refuse(reader, reader->token[1], "expected r<rank> or h");
    }
    if (strcmp(reader->token[2], "end") == 0) {
        return parse_end(reader, time_ns);
    }
    if (strcmp(reader->token[2], "diagnosis") == 0) {
        return parse_diagnosis(reader, time_ns);
    }
    if (strcmp(reader->token[2], "finish") == 0) {
        return parse_finish(reader, time_ns);
    }
    return refuse(reader, reader->token[2], "expected end, diagnosis or finish");
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

/* launcher= and seed=; traces of older versions have neither. */
static ddp_status parse_made(struct reader *reader)
{
    const char *launcher = find_value(reader, "launcher");

    if (launcher != NULL && strcmp(launcher, "mpirun") == 0) {
        reader->trace->launcher = "mpirun";
    } else if (launcher != NULL && strcmp(launcher, "own") != 0) {
        return refuse(reader, launcher, "unknown launcher");
    }
    return find_value(reader, "seed") != NULL ? find_u64(reader, "seed", &reader->trace->seed)
                                              : DDP_OK;
}

/* First line: "ddprove-trace 1 driver=sim world=4 launcher=own seed=0". */
static ddp_status parse_header(struct reader *reader, struct ddp_mem *mem, size_t line_count)
{
    const char *driver = find_value(reader, "driver");
    uint64_t world = 0;

    if (reader->token_count < 4 || strcmp(reader->token[0], "ddprove-trace") != 0 ||
        strcmp(reader->token[1], "1") != 0 || driver == NULL) {
        return refuse(reader, reader->buffer,
                      "not a trace: expected \"ddprove-trace 1 driver=... world=...\"");
    }
    if (strcmp(driver, "sim") != 0 && strcmp(driver, "proc") != 0) {
        return refuse(reader, driver, "unknown driver");
    }
    DDP_TRY(find_u64(reader, "world", &world));
    if (world == 0 || world > HARNESS_WORLD_MAX) {
        return refuse(reader, reader->buffer, "world= is out of range");
    }
    harness_trace_init(reader->trace, mem, (uint32_t)world,
                       strcmp(driver, "sim") == 0 ? "sim" : "proc");
    reader->world_size = (uint32_t)world;
    DDP_TRY(parse_made(reader));
    reader->trace->events = ddp_mem_array(mem, line_count, sizeof *reader->trace->events);
    reader->trace->event_capacity = line_count;
    reader->next_index = ddp_mem_array(mem, world, sizeof *reader->next_index);
    return reader->trace->events != NULL && reader->next_index != NULL ? DDP_OK : DDP_E_NOMEM;
}

static ddp_status open_buffer(struct reader *reader, struct ddp_mem *mem, size_t line_bytes)
{
    reader->buffer_bytes = line_bytes + 1;
    reader->buffer = ddp_mem_array(mem, reader->buffer_bytes, 1);
    return reader->buffer != NULL ? DDP_OK : DDP_E_NOMEM;
}

/* Line by line; the header is the first line that is not a comment. */
static ddp_status parse_text(struct reader *reader, struct ddp_mem *mem, const char *text)
{
    size_t longest_bytes;
    size_t line_count = count_lines(text, &longest_bytes);
    bool is_finished = false;

    DDP_TRY(open_buffer(reader, mem, longest_bytes));

    for (const char *line = text; *line != '\0';) {
        const char *newline = strchr(line, '\n');
        size_t size = newline != NULL ? (size_t)(newline - line) : strlen(line);

        reader->line++;
        if (line[0] != '#' && size > 0) {
            DDP_TRY(tokenise(reader, line, size));
            DDP_TRY(reader->trace->mem == NULL ? parse_header(reader, mem, line_count)
                                               : parse_line(reader));
            is_finished = reader->token_count > 2 && strcmp(reader->token[2], "finish") == 0;
        }
        line += size + (newline != NULL ? 1 : 0);
    }
    if (!is_finished) {
        return ddp_err_set(reader->err, DDP_E_PARSE,
                           "%u:1: the trace ends without its finish line: it is incomplete",
                           reader->line);
    }
    return DDP_OK;
}

ddp_status harness_trace_parse(struct ddp_mem *mem, const char *text, struct harness_trace *out,
                               struct ddp_err *err)
{
    struct reader *reader = ddp_mem_array(mem, 1, sizeof *reader);
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
    ddp_mem_free(mem, reader->next_index);
    ddp_mem_free(mem, reader->buffer);
    ddp_mem_free(mem, reader);
    return status;
}

ddp_status harness_trace_parse_diagnosis(struct ddp_mem *mem, const char *line, size_t size_bytes,
                                         uint64_t *out_time_ns, struct harness_finding *out,
                                         struct ddp_err *err)
{
    struct reader reader = {.err = err, .line = 1, .world_size = HARNESS_WORLD_MAX};
    ddp_status status = open_buffer(&reader, mem, size_bytes);

    if (status != DDP_OK) {
        return status;
    }
    status = tokenise(&reader, line, size_bytes);
    if (status == DDP_OK &&
        (reader.token_count < 3 || ddp_text_parse_u64(reader.token[0], out_time_ns) != DDP_OK ||
         strcmp(reader.token[1], "h") != 0 || strcmp(reader.token[2], "diagnosis") != 0)) {
        status = refuse(&reader, reader.buffer, "expected: time_ns h diagnosis ...");
    }
    status = status == DDP_OK ? parse_finding(&reader, mem, out) : status;
    ddp_mem_free(mem, reader.buffer);
    return status;
}
