/* What the parts of the trace's reader share: the present line, cut into tokens. Internal. */
#ifndef HARNESS_TRACE_LINE_H
#define HARNESS_TRACE_LINE_H

#include "harness/trace/trace.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HARNESS_LINE_TOKENS_MAX 32

struct harness_line {
    struct harness_trace *trace; /* NULL: of a single line */
    uint32_t world_size;
    struct ddp_err *err;
    unsigned line;
    uint64_t *digest;      /* [world_size] of each rank's lines so far */
    uint64_t own_digest;   /* of the harness's */
    bool *is_ended;        /* [world_size] its end line was read */
    bool is_behind_events; /* the harness's lines have begun */
    bool is_finished;      /* "finish" was there */
    bool is_listed[HARNESS_FILES_COUNT];
    char *buffer; /* the line, cut into tokens; room for the longest one */
    size_t buffer_bytes;
    char *token[HARNESS_LINE_TOKENS_MAX];
    unsigned token_count;
    const char *tail; /* what follows " text=", or NULL */
};

/* Room for lines of that many bytes. Errors: E_NOMEM. */
DDP_MUST_USE ddp_status harness_line_open(struct harness_line *reader, struct ddp_mem *mem,
                                          size_t line_bytes);
/* Cut a line at its blanks; " text=" begins the free tail. Errors: E_PARSE. */
DDP_MUST_USE ddp_status harness_line_tokenise(struct harness_line *reader, const char *line,
                                              size_t size);
/* E_PARSE at that place of the line. */
ddp_status harness_line_refuse(struct harness_line *reader, const char *at, const char *what);
/* Value of token "name=value", or NULL. */
const char *harness_line_value_of(const char *token, const char *name);
const char *harness_line_find(const struct harness_line *reader, const char *name);
DDP_MUST_USE ddp_status harness_line_find_u64(struct harness_line *reader, const char *name,
                                              uint64_t *out);
DDP_MUST_USE ddp_status harness_line_find_i64(struct harness_line *reader, const char *name,
                                              int64_t *out);
/* 16 hex digits. */
DDP_MUST_USE ddp_status harness_line_find_hex(struct harness_line *reader, const char *name,
                                              uint64_t *out);

/* parse_finding.c: the finding of a diagnosis line. */
DDP_MUST_USE ddp_status harness_line_finding(struct harness_line *reader, struct ddp_mem *mem,
                                             struct harness_finding *out);

#ifdef __cplusplus
}
#endif
#endif
