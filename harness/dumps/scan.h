/* What a line says, taken from its front piece by piece. Each function moves *at behind its piece
 * and returns true, or returns false, and then *at may be anywhere in the line. */
#ifndef HARNESS_DUMPS_SCAN_H
#define HARNESS_DUMPS_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* These letters. A space stands for any white space, none too: programs pad. */
bool harness_scan_text(const char **at, const char *text);
/* A decimal number, with white space and a sign before it; one that does not fit is none. */
bool harness_scan_i64(const char **at, int64_t *out);
/* The same without a sign. */
bool harness_scan_u64(const char **at, uint64_t *out);
/* A hexadecimal one, with 0x or without; nothing before it. */
bool harness_scan_hex(const char **at, uint64_t *out);
/* All that are of `letters`, or that are none of `stops`: at least one, and with its NUL it fits
 * out_bytes. */
bool harness_scan_of(const char **at, const char *letters, char *out, size_t out_bytes);
bool harness_scan_until(const char **at, const char *stops, char *out, size_t out_bytes);
/* What is not white space, at least one letter, with white space before it. */
bool harness_scan_skip_word(const char **at);

#ifdef __cplusplus
}
#endif
#endif
