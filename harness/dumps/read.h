/* Readers of what a job leaves behind. What a file is, its content says; whose it is, its content
 * or else its name. */
#ifndef HARNESS_DUMPS_READ_H
#define HARNESS_DUMPS_READ_H

#include <jansson.h>

#include "harness/dumps/evidence.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Any file. data ends with a NUL that size_bytes does not count. written_ns: 0 if unknown. Errors:
 * E_PARSE and E_UNSUPPORTED, one line without the path that says where, what and what to do. */
DDP_MUST_USE ddp_status harness_diag_read(struct harness_diag_evidence *evidence, const char *path,
                                          const char *data, size_t size_bytes, uint64_t written_ns,
                                          struct ddp_err *err);
/* The rank that a path names: behind "rank", else the last number of the name, else a folder that
 * is a number. -1: none. */
int64_t harness_diag_path_rank(const char *path);

/* One line of a text at a time. Each returns whether the line was one of its kind. */
struct harness_diag_lines {
    struct harness_diag_evidence *evidence;
    const char *file;
    int64_t line;       /* from 1 */
    int64_t file_rank;  /* the path's; -1 */
    int64_t line_rank;  /* the line's own, else the path's; -1 */
    int64_t tail_rank;  /* of torchrun's summary: whose failure is being listed; -1 */
    int64_t trace_rank; /* a traceback is being printed, of this rank; -2: none */
    const char *trace_site;
    bool is_main_thread;  /* of py-spy: its main thread is being listed */
    unsigned stack_depth; /* lines of its stack so far */
    enum harness_diag_note_kind stack_kind;
    const char *stack_site;
    struct harness_diag_nccl *nccl; /* what NCCL's lines have told so far; NULL: none */
};
bool harness_diag_watchdog_line(struct harness_diag_lines *lines, const char *text);
bool harness_diag_error_line(struct harness_diag_lines *lines, const char *text);
bool harness_diag_stack_line(struct harness_diag_lines *lines, const char *text);
/* The last stack has ended. */
void harness_diag_stack_end(struct harness_diag_lines *lines);
bool harness_diag_nccl_line(struct harness_diag_lines *lines, const char *text);

/* JSON documents. */
bool harness_diag_is_ras(json_t *root);
void harness_diag_ras_read(struct harness_diag_evidence *evidence, json_t *root, const char *file);
bool harness_diag_is_stacks(json_t *root);
void harness_diag_stacks_read(struct harness_diag_evidence *evidence, json_t *root,
                              const char *file, int64_t rank);
bool harness_diag_is_error(json_t *root);
void harness_diag_error_read(struct harness_diag_evidence *evidence, json_t *root, const char *file,
                             int64_t rank);

#ifdef __cplusplus
}
#endif
#endif
