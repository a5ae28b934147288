/* What a shared object exports, without loading it. */
#ifndef HARNESS_SCENARIO_EXPORTS_H
#define HARNESS_SCENARIO_EXPORTS_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Whether the file is a shared object of this machine that defines the symbol. False for what is
 * damaged, cut short, or something else. */
bool harness_file_exports(const char *path, const char *symbol);
/* The same of bytes in memory. */
bool harness_bytes_export(const unsigned char *bytes, size_t size_bytes, const char *symbol);

#ifdef __cplusplus
}
#endif
#endif
