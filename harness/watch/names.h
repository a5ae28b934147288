/* Names of what a guest reports. Static storage; "?" for a number that has none. */
#ifndef HARNESS_WATCH_NAMES_H
#define HARNESS_WATCH_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "harness/watch/watch.h"

#ifdef __cplusplus
extern "C" {
#endif

const char *harness_watch_kind_name(uint32_t kind);
const char *harness_watch_dtype_name(uint32_t dtype);
const char *harness_watch_redop_name(uint32_t redop);
const char *harness_watch_state_name(enum harness_watch_state state);
/* The number of a name; false: there is none. */
bool harness_watch_kind_find(const char *name, uint32_t *out);
bool harness_watch_dtype_find(const char *name, uint32_t *out);
bool harness_watch_redop_find(const char *name, uint32_t *out);
bool harness_watch_state_find(const char *name, enum harness_watch_state *out);

#ifdef __cplusplus
}
#endif
#endif
