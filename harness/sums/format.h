/* Floating point formats that a program may round values to on their way, by the judge's own
 * arithmetic. */
#ifndef HARNESS_SUMS_FORMAT_H
#define HARNESS_SUMS_FORMAT_H

#include <stdbool.h>
#include <stddef.h>

#include "ddpcore/base/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

enum harness_format {
    HARNESS_FORMAT_BF16,
    HARNESS_FORMAT_F16,
    HARNESS_FORMAT_TF32,
    HARNESS_FORMAT_COUNT
};

/* To nearest even; what is beyond the format's range becomes infinite. What is not finite stays. */
float harness_format_round(enum harness_format format, float value);
/* It holds fewer bits of a value than the type does. */
bool harness_format_is_narrower(enum harness_format format, enum ddp_dtype dtype);
/* "f16 or tf32", of a set with bit i for format i. */
void harness_format_write(unsigned formats, char *text, size_t size_bytes);

#ifdef __cplusplus
}
#endif
#endif
