/* Text: a growing builder, strict number parsing, nearest-name search. */
#ifndef DDPCORE_BASE_TEXT_H
#define DDPCORE_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ddpcore/base/mem.h"
#include "ddpcore/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Grows in `mem`; after a failed growth it stays truncated and is_failed is set, so that a long
 * run of appends needs one check at its end. Zero-initialise `data`, or use _init. */
struct ddp_text {
    struct ddp_mem *mem;
    char *data; /* NUL-terminated once anything was appended, else NULL */
    size_t size_bytes;
    size_t capacity_bytes;
    bool is_failed;
};
void ddp_text_init(struct ddp_text *text, struct ddp_mem *mem);
/* Never grows beyond the caller's `data`, whose last byte is for the NUL; an append that does not
 * fit is left out whole and sets is_failed. No _fini. */
void ddp_text_init_fixed(struct ddp_text *text, char *data, size_t capacity_bytes);
void ddp_text_fini(struct ddp_text *text);
void ddp_text_add(struct ddp_text *text, const char *format, ...) DDP_PRINTF(2, 3);
void ddp_text_add_bytes(struct ddp_text *text, const void *data, size_t size_bytes);
/* What a trace has millions of, without a format to read: as "%*llu", "%016llx" and "%-*s". */
void ddp_text_add_u64(struct ddp_text *text, uint64_t value, size_t width);
void ddp_text_add_hex(struct ddp_text *text, uint64_t value);
void ddp_text_add_str(struct ddp_text *text, const char *str, size_t width);
/* The text so far; "" when empty. Valid until the next append. */
const char *ddp_text_str(const struct ddp_text *text);

/* Whole-string parses: no leading space, no trailing junk. Errors: E_PARSE, E_OVERFLOW. */
DDP_MUST_USE ddp_status ddp_text_parse_u64(const char *text, uint64_t *out);
DDP_MUST_USE ddp_status ddp_text_parse_i64(const char *text, int64_t *out);
DDP_MUST_USE ddp_status ddp_text_parse_f64(const char *text, double *out);
/* Exactly `digit_count` (1 to 16) digits of 0-9 and a-f, as "%0*x" prints them. */
DDP_MUST_USE ddp_status ddp_text_parse_hex(const char *text, size_t digit_count, uint64_t *out);

/* The entry of names[count] nearest to `name` by edit distance, or NULL when none is within a
 * third of its length (so that nonsense gets no suggestion). */
const char *ddp_text_nearest(const char *name, const char *const *names, size_t count);

#ifdef __cplusplus
}
#endif
#endif
