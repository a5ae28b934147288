/* Text and numbers as YAML that reads back as the same value. */
#ifndef HARNESS_PLAN_YAML_TEXT_H
#define HARNESS_PLAN_YAML_TEXT_H

#include "ddpcore/base/text.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Plain style if that is safe, else quoted. */
void harness_plan_print_text(const char *text, struct ddp_text *out);
/* The shortest decimal that reads back as the same number. */
void harness_plan_print_number(double value, struct ddp_text *out);

#ifdef __cplusplus
}
#endif
#endif
