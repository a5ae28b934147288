/* Plain values of YAML, as people write them: what is a number, what is text. */
#ifndef HARNESS_SCENARIO_SCALAR_H
#define HARNESS_SCENARIO_SCALAR_H

#include "harness/scenario/yaml.h"

#ifdef __cplusplus
extern "C" {
#endif

/* YAML 1.2 numbers: no hex, no octal, no '+', and unquoted. */
DDP_MUST_USE bool harness_scalar_int(const struct harness_yaml_node *node, int64_t *out);
DDP_MUST_USE bool harness_scalar_u64(const struct harness_yaml_node *node, uint64_t *out);
DDP_MUST_USE bool harness_scalar_number(const struct harness_yaml_node *node, double *out);
/* Unquoted, and this very text. */
bool harness_scalar_is(const struct harness_yaml_node *node, const char *text);
/* Plain text that YAML reads as something else: a number, a truth value, nothing. */
bool harness_scalar_is_typed(const struct harness_yaml_node *node);

#ifdef __cplusplus
}
#endif
#endif
