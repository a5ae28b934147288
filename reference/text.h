/* The embedded text. See reference/data/README.md. */
#ifndef REFERENCE_TEXT_H
#define REFERENCE_TEXT_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

extern const size_t ref_text_size_bytes;
extern const unsigned char ref_text[];

#ifdef __cplusplus
}
#endif
#endif
