/* An input that nobody may write to while a call has it: also who puts back what was there is seen.
 * Internal. */
#ifndef HARNESS_LAB_SEALED_H
#define HARNESS_LAB_SEALED_H

#include <stddef.h>
#include <stdint.h>

/* The pages of [data, data + size_bytes) can be read alone until _unseal; a write by this process's
 * own instructions ends the seal, and goes on. At least a page of the caller's lies on both sides;
 * where pages are larger nothing is sealed. One input at a time. */
void harness_lab_seal(const unsigned char *data, size_t size_bytes);
/* The first byte of the input that was written to, from its beginning; -1: none. */
int64_t harness_lab_unseal(void);

#endif
