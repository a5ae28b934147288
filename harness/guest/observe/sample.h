/* What some elements of a buffer come to, in the same signs in every call of a communicator: what a
 * wrong sum is, if it is made of an earlier call's data, or of data that moved by an element. */
#ifndef HARNESS_GUEST_SAMPLE_H
#define HARNESS_GUEST_SAMPLE_H

#include "harness/guest/ddprove_guest.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Of each part of a buffer so many elements at most, in its middle, without the first and the last
 * of all. */
enum { GUEST_SAMPLE_MAX = 128 };

struct guest_sample {
    double still;     /* sum of sign times element */
    double up, down;  /* the same of the element before, and behind: what the sum would be, had all
                         elements moved up, or down, by one */
    double magnitude; /* sum of absolute values of all that were read */
};

/* Add to *out. A buffer of fewer than three elements, or of BYTES, adds nothing. */
void guest_sample(const void *data, uint64_t elem_count, uint32_t dtype, uint64_t seed,
                  struct guest_sample *out);

#ifdef __cplusplus
}
#endif
#endif
