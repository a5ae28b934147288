/* The line of a diagnosis: a whole finding. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/trace/line.h"

static ddp_status parse_list(struct harness_line *reader, const char *name, uint32_t limit,
                             void (*add)(struct harness_finding *finding, uint64_t item),
                             struct harness_finding *finding)
{
    const char *value = harness_line_find(reader, name);
    char *end = NULL;

    if (value == NULL) {
        return harness_line_refuse(reader, reader->buffer, "a list is missing");
    }
    while (*value != '\0') {
        uint64_t item = strtoull(value, &end, 10);

        if (end == value || item >= limit || (*end != ',' && *end != '\0')) {
            return harness_line_refuse(reader, value, "malformed list");
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

static int digit_of(char letter)
{
    return letter >= '0' && letter <= '9'   ? letter - '0'
           : letter >= 'A' && letter <= 'F' ? letter - 'A' + 10
                                            : -1;
}

/* As trace_print.c writes it. False: it is too long. */
static bool read_group(const char *word, char *name, size_t size_bytes)
{
    size_t size = 0;

    for (const char *at = word; *at != '\0'; at++) {
        const int high = *at == '%' ? digit_of(at[1]) : -1;
        const int low = high >= 0 ? digit_of(at[2]) : -1;
        const int byte = low >= 0 ? high * 16 + low : (unsigned char)*at;

        if (size + 1 >= size_bytes) {
            return false;
        }
        at += low >= 0 ? 2 : 0;
        name[size++] = (char)byte;
    }
    name[size] = '\0';
    return true;
}

static ddp_status parse_finding_op(struct harness_line *reader, struct harness_finding *finding)
{
    const char *kind = harness_line_find(reader, "kind");
    const char *role = harness_line_find(reader, "role");
    const char *group = harness_line_find(reader, "group");
    int64_t bucket = -1;

    if (kind == NULL || role == NULL) {
        return harness_line_refuse(reader, reader->buffer, "kind= and role= are missing");
    }
    finding->op.is_set = strcmp(kind, "-") != 0;
    if (finding->op.is_set && (ddp_coll_kind_parse(kind, &finding->op.kind) != DDP_OK ||
                               ddp_coll_role_parse(role, &finding->op.role) != DDP_OK)) {
        return harness_line_refuse(reader, kind, "unknown kind or role");
    }
    DDP_TRY(harness_line_find_u64(reader, "seq", &finding->op.seq));
    DDP_TRY(harness_line_find_u64(reader, "count", &finding->op.elem_count));
    DDP_TRY(harness_line_find_i64(reader, "bucket", &bucket));
    finding->op.bucket = (int32_t)bucket;
    if (group != NULL && !read_group(group, finding->guest.comm, sizeof(finding->guest.comm))) {
        return harness_line_refuse(reader, group, "too long a group");
    }
    return DDP_OK;
}

ddp_status harness_line_finding(struct harness_line *reader, struct ddp_mem *mem,
                                struct harness_finding *out)
{
    const char *verdict = harness_line_find(reader, "verdict");
    const char *oracle = harness_line_find(reader, "oracle");
    const char *mode = harness_line_find(reader, "mode");
    const char *phase_name = harness_line_find(reader, "phase");
    enum harness_verdict parsed;
    enum harness_oracle_id parsed_oracle;
    enum harness_mode parsed_mode;
    enum ddp_phase phase;
    int64_t step = -1;
    int64_t micro = -1;

    if (verdict == NULL || oracle == NULL || mode == NULL || phase_name == NULL ||
        harness_verdict_parse(verdict, &parsed) != DDP_OK ||
        harness_oracle_parse(oracle, &parsed_oracle) != DDP_OK ||
        harness_mode_parse(mode, &parsed_mode) != DDP_OK) {
        return harness_line_refuse(reader, reader->buffer,
                                   "expected verdict=, oracle=, mode= and phase=");
    }
    harness_finding_init(out, mem, parsed, parsed_oracle, parsed_mode);
    DDP_TRY(parse_list(reader, "culprit", reader->world_size, add_culprit, out));
    DDP_TRY(parse_list(reader, "victim", reader->world_size, add_victim, out));
    DDP_TRY(parse_list(reader, "params", UINT32_MAX, add_param, out));
    DDP_TRY(parse_finding_op(reader, out));
    DDP_TRY(harness_line_find_i64(reader, "step", &step));
    DDP_TRY(harness_line_find_i64(reader, "micro", &micro));
    DDP_TRY(harness_line_find_i64(reader, "detect", &out->detect_ns));
    DDP_TRY(harness_line_find_i64(reader, "attribute", &out->attribute_ns));
    out->step = (int32_t)step;
    out->micro = (int32_t)micro;
    if (strcmp(phase_name, "-") != 0) {
        if (ddp_phase_parse(phase_name, &phase) != DDP_OK) {
            return harness_line_refuse(reader, phase_name, "unknown phase");
        }
        out->phase = (int32_t)phase;
    }
    if (reader->tail != NULL) {
        (void)strncpy(out->text, reader->tail, sizeof out->text - 1);
    }
    return harness_finding_is_failed(out) ? DDP_E_NOMEM : DDP_OK;
}

ddp_status harness_trace_parse_diagnosis(struct ddp_mem *mem, const char *line, size_t size_bytes,
                                         uint64_t *out_time_ns, struct harness_finding *out,
                                         struct ddp_err *err)
{
    struct harness_line reader = {.err = err, .line = 1, .world_size = HARNESS_WORLD_MAX};
    ddp_status status = harness_line_open(&reader, mem, size_bytes);

    if (status != DDP_OK) {
        return status;
    }
    status = harness_line_tokenise(&reader, line, size_bytes);
    if (status == DDP_OK &&
        (reader.token_count < 3 || ddp_text_parse_u64(reader.token[0], out_time_ns) != DDP_OK ||
         strcmp(reader.token[1], "h") != 0 || strcmp(reader.token[2], "diagnosis") != 0)) {
        status = harness_line_refuse(&reader, reader.buffer, "expected: time_ns h diagnosis ...");
    }
    status = status == DDP_OK ? harness_line_finding(&reader, mem, out) : status;
    ddp_mem_free(mem, reader.buffer);
    return status;
}
