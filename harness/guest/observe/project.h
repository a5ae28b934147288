/* What many elements come to in a few numbers. */
#ifndef HARNESS_GUEST_PROJECT_H
#define HARNESS_GUEST_PROJECT_H

#include "harness/guest/ddprove_guest.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Elements are read in pieces of so many bytes. */
#define GUEST_PIECE_BYTES 4096u

/* Of a range of elements. The signs are drawn from a seed, and depend on the place of an element in
 * the range alone. */
struct guest_projection {
    double sum;       /* of floats: sum of sign times element; NaN or infinite if one of them is */
    double magnitude; /* sum of absolute values, up to 2^-16 of itself; NaN if one is NaN, else
                         infinite if one is; what is too large for it is the largest number */
    uint64_t whole;   /* of integers: the sum, modulo 2^64 */
    uint64_t hash;    /* of the bytes; ranges' hashes add up to that of them together, each in the
                         place that its seed stands for */
};

/* What is asked for. A magnitude only with the sum. PLUS_ZERO: -0 is hashed as 0. */
enum {
    GUEST_PROJECT_SUM = 1,
    GUEST_PROJECT_MAGNITUDE = 2,
    GUEST_PROJECT_HASH = 4,
    GUEST_PROJECT_PLUS_ZERO = 8
};

/* How many additions of doubles an element goes through on its way to guest_projection.sum: of each
 * group of 256, eight lanes add 32; they are added to the lanes of the groups before; then the
 * lanes are added up. */
static inline uint64_t guest_project_chain(uint64_t elem_count)
{
    return 32 + (elem_count / 256 + 1) + 8;
}

/* Add to *out, which is zeroed before the first range. Of BYTES only the hash is
 * known. */
void guest_project(const void *data, uint64_t elem_count, uint32_t dtype, uint64_t seed,
                   unsigned wanted, struct guest_projection *out);
/* For tests: from now on use the loops for processors with wide registers, or do not. Returns
 * whether they are used; without this they are where the processor has them. The first projection
 * must have been made. */
int guest_project_widen(int is_wanted);

/* An integer type's width; 0: it is none. */
static inline uint32_t guest_project_width_bits(uint32_t dtype)
{
    switch ((enum ddprove_guest_dtype)dtype) {
    case DDPROVE_GUEST_U8:
    case DDPROVE_GUEST_I8:
        return 8;
    case DDPROVE_GUEST_I16:
    case DDPROVE_GUEST_U16:
        return 16;
    case DDPROVE_GUEST_I32:
    case DDPROVE_GUEST_U32:
        return 32;
    case DDPROVE_GUEST_I64:
    case DDPROVE_GUEST_U64:
        return 64;
    default:
        return 0;
    }
}

#ifdef __cplusplus
}
#endif
#endif
