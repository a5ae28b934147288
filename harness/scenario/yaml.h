/* A YAML document as a plain tree with positions. Stricter than YAML: one document, no anchors, no
 * aliases, no tags, text keys only, each once. Trees share their nodes and are never changed. */
#ifndef HARNESS_SCENARIO_YAML_H
#define HARNESS_SCENARIO_YAML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ddpcore/base/mem.h"
#include "ddpcore/base/text.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HARNESS_YAML_BYTES_MAX (1u << 20)
#define HARNESS_YAML_DEPTH_MAX 32

enum harness_yaml_kind { HARNESS_YAML_SCALAR, HARNESS_YAML_LIST, HARNESS_YAML_MAP };

struct harness_yaml_node {
    enum harness_yaml_kind kind;
    const char *origin;                     /* file, or "--set key=value" */
    uint32_t line, column;                  /* from 1; line 0: the origin has no lines */
    const char *text;                       /* scalar; NULL else */
    bool is_quoted;                         /* scalar: never a number, truth value or null */
    const struct harness_yaml_node **keys;  /* map: scalars, [count] */
    const struct harness_yaml_node **items; /* list and map: [count] */
    size_t count, capacity;
};

/* Parse one document; everything lives in mem. has_lines false: positions are not reported.
 * Errors: E_PARSE, E_NOMEM. */
DDP_MUST_USE ddp_status harness_yaml_parse(struct ddp_mem *mem, const char *text, size_t size_bytes,
                                           const char *origin, bool has_lines,
                                           const struct harness_yaml_node **out,
                                           struct ddp_err *err);
/* Value of a key, or NULL. */
const struct harness_yaml_node *harness_yaml_get(const struct harness_yaml_node *map,
                                                 const char *key);
/* YAML 1.2 numbers: no hex, no octal, no '+', and unquoted. */
DDP_MUST_USE bool harness_yaml_int(const struct harness_yaml_node *node, int64_t *out);
DDP_MUST_USE bool harness_yaml_u64(const struct harness_yaml_node *node, uint64_t *out);
DDP_MUST_USE bool harness_yaml_number(const struct harness_yaml_node *node, double *out);
/* Unquoted, and this very text. */
bool harness_yaml_is(const struct harness_yaml_node *node, const char *text);
/* Plain text that YAML reads as something else: a number, a truth value, nothing. */
bool harness_yaml_is_typed(const struct harness_yaml_node *node);
/* A tree equal to `root` but for `value` at the dotted path ("faults.0.at.rank"). Maps grow, and
 * missing maps on the way are made; lists must be long enough. where: what to blame in errors.
 * Errors: E_INVALID, E_NOMEM. */
DDP_MUST_USE ddp_status harness_yaml_set(struct ddp_mem *mem, const struct harness_yaml_node *root,
                                         const char *path, const struct harness_yaml_node *where,
                                         const struct harness_yaml_node *value,
                                         const struct harness_yaml_node **out, struct ddp_err *err);
/* One-line rendering of a node, for cell names and messages. */
void harness_yaml_print(const struct harness_yaml_node *node, struct ddp_text *out);
/* "origin:line:col: message" into err; returns status. */
ddp_status harness_yaml_fail(const struct harness_yaml_node *node, struct ddp_err *err,
                             ddp_status status, const char *format, ...) DDP_PRINTF(4, 5);
/* Text from files and overrides may hold anything, but an error is one line. Returns status. */
ddp_status harness_yaml_one_line(struct ddp_err *err, ddp_status status);

#ifdef __cplusplus
}
#endif
#endif
