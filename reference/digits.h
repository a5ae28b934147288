/* The embedded digits: each row is 64 pixels (0..16) and a label. See reference/data/README.md. */
#ifndef REFERENCE_DIGITS_H
#define REFERENCE_DIGITS_H

#ifdef __cplusplus
extern "C" {
#endif

#define REF_DIGITS_COUNT  1797
#define REF_DIGITS_PIXELS 64

extern const unsigned char ref_digits[REF_DIGITS_COUNT][REF_DIGITS_PIXELS + 1];

#ifdef __cplusplus
}
#endif
#endif
