/* One element of any type, as a number. Internal. */
#ifndef HARNESS_LAB_ELEMENT_H
#define HARNESS_LAB_ELEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ddpcore/base/dtype.h"

void harness_lab_store(unsigned char *data, size_t i, enum ddp_dtype dtype, int64_t value);
/* Of a long i64 the nearest number that there is. */
double harness_lab_load(const unsigned char *data, size_t i, enum ddp_dtype dtype);
/* Floats are compared as values: a zero may have either sign. */
bool harness_lab_is_whole(const unsigned char *data, size_t i, enum ddp_dtype dtype,
                          int64_t expected);
/* The element as a whole number. False: it is none. */
bool harness_lab_load_whole(const unsigned char *data, size_t i, enum ddp_dtype dtype,
                            int64_t *out);

#endif
