/* One-line YAML maps: "{a: 1, b: 2}". */
#ifndef HARNESS_PLAN_FLOW_H
#define HARNESS_PLAN_FLOW_H

#include <stdbool.h>

#include "ddpcore/base/text.h"

#ifdef __cplusplus
extern "C" {
#endif

struct harness_flow {
    struct ddp_text *out;
    bool is_open;
};
void harness_flow_add(struct harness_flow *flow, const char *format, ...) DDP_PRINTF(2, 3);
void harness_flow_number(struct harness_flow *flow, const char *key, double value);
void harness_flow_text(struct harness_flow *flow, const char *key, const char *value);
/* Nothing if value < 0. */
void harness_flow_optional(struct harness_flow *flow, const char *key, int64_t value);
void harness_flow_close(const struct harness_flow *flow);
/* The shortest decimal that reads back as the same number. */
void harness_flow_print_number(double value, struct ddp_text *out);

#ifdef __cplusplus
}
#endif
#endif
