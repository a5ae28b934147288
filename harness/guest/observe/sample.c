#include "harness/guest/observe/sample.h"

#include <math.h>
#include <string.h>

#include "harness/guest/fault.h"
#include "harness/guest/observe/half.h"
#include "harness/guest/observe/project.h"

/* As a double, which holds most integers of 64 bits only nearly. */
static double value_at(const unsigned char *data, uint64_t i, uint32_t dtype)
{
    const uint64_t elem_bytes = guest_dtype_size_bytes(dtype);
    const unsigned unused_bits = 64 - 8 * (unsigned)elem_bytes;
    uint64_t bits = 0;
    float narrow;
    double value;

    memcpy(&bits, data + i * elem_bytes, elem_bytes);
    switch ((enum ddprove_guest_dtype)dtype) {
    case DDPROVE_GUEST_F16:
    case DDPROVE_GUEST_BF16:
        return (double)guest_half_decode(dtype, (uint16_t)bits);
    case DDPROVE_GUEST_F32:
        memcpy(&narrow, &bits, sizeof narrow);
        return (double)narrow;
    case DDPROVE_GUEST_F64:
        memcpy(&value, &bits, sizeof value);
        return value;
    case DDPROVE_GUEST_I8:
    case DDPROVE_GUEST_I16:
    case DDPROVE_GUEST_I32:
    case DDPROVE_GUEST_I64:
        return (double)((int64_t)(bits << unused_bits) >> unused_bits);
    default:
        return (double)bits;
    }
}

/* Of the type that nearly all buffers have, without asking for it at each element. */
static void read_values(const unsigned char *data, uint64_t count, uint32_t dtype, double *out)
{
    float values[GUEST_SAMPLE_MAX + 2];

    if (dtype != DDPROVE_GUEST_F32) {
        for (uint64_t i = 0; i < count; i++) {
            out[i] = value_at(data, i, dtype);
        }
        return;
    }
    memcpy(values, data, count * sizeof *values);
    for (uint64_t i = 0; i < count; i++) {
        out[i] = (double)values[i];
    }
}

void guest_sample(const void *data, uint64_t elem_count, uint32_t dtype, uint64_t seed,
                  struct guest_sample *out)
{
    const uint64_t inner = elem_count > 2 ? elem_count - 2 : 0;
    const uint64_t count = inner < GUEST_SAMPLE_MAX ? inner : GUEST_SAMPLE_MAX;
    const uint64_t before = (elem_count - count) / 2 - 1; /* the first of those that are read */
    double values[GUEST_SAMPLE_MAX + 2];
    uint64_t bits = 0;

    if (count == 0 || dtype == DDPROVE_GUEST_BYTES) {
        return;
    }
    read_values((const unsigned char *)data + before * guest_dtype_size_bytes(dtype), count + 2,
                dtype, values);
    out->magnitude += fabs(values[0]) + fabs(values[count + 1]);
    for (uint64_t i = 0; i < count; i++) {
        double sign;

        bits = i % 64 == 0 ? guest_mix(seed + i / 64) : bits >> 1;
        sign = (bits & 1) != 0 ? -1 : 1;
        out->up += sign * values[i];
        out->still += sign * values[i + 1];
        out->down += sign * values[i + 2];
        out->magnitude += fabs(values[i + 1]);
    }
}
