#include "harness/ckpt/dtype.h"

#include <math.h>
#include <string.h>

#include "ddpcore/base/status.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "elements are read as they lie in files");

enum kind { FLOAT, SIGNED, UNSIGNED };

static const struct row {
    const char *name, *said;
    uint64_t special;
    enum kind kind;
    uint8_t size_bytes;
    uint8_t mantissa_bits;
} rows[] = {
#define X(id, name, said, size, kind, mantissa, special) \
    {name, said, special, kind, size, mantissa},
    HARNESS_CKPT_DTYPE_TABLE(X)
#undef X
};

static const struct row *row_of(enum harness_ckpt_dtype dtype)
{
    DDP_ASSERT((unsigned)dtype < HARNESS_CKPT_DTYPE_COUNT);
    return &rows[dtype];
}

bool harness_ckpt_dtype_find(const char *name, enum harness_ckpt_dtype *out)
{
    for (int i = 0; i < (int)HARNESS_CKPT_DTYPE_COUNT; i++) {
        if (strcmp(rows[i].name, name) == 0) {
            *out = (enum harness_ckpt_dtype)i;
            return true;
        }
    }
    return false;
}

const char *harness_ckpt_dtype_name(enum harness_ckpt_dtype dtype)
{
    return row_of(dtype)->name;
}

const char *harness_ckpt_dtype_said(enum harness_ckpt_dtype dtype)
{
    return row_of(dtype)->said;
}

size_t harness_ckpt_dtype_bytes(enum harness_ckpt_dtype dtype)
{
    return row_of(dtype)->size_bytes;
}

bool harness_ckpt_dtype_is_float(enum harness_ckpt_dtype dtype)
{
    return row_of(dtype)->kind == FLOAT;
}

uint64_t harness_ckpt_bits(enum harness_ckpt_dtype dtype, const uint8_t *data, size_t elem)
{
    const size_t size_bytes = row_of(dtype)->size_bytes;
    uint64_t bits = 0;

    memcpy(&bits, data + elem * size_bytes, size_bytes);
    return bits;
}

bool harness_ckpt_is_finite(enum harness_ckpt_dtype dtype, uint64_t bits)
{
    const struct row *row = row_of(dtype);

    return row->kind != FLOAT || (bits & row->special) != row->special;
}

static uint64_t sign_bit(const struct row *row)
{
    return UINT64_C(1) << (8 * row->size_bytes - 1);
}

/* A whole number in two's complement, as wide as its type. */
static int64_t signed_of(const struct row *row, uint64_t bits)
{
    const uint64_t sign = sign_bit(row);

    return (int64_t)((bits ^ sign) - sign);
}

/* The bits below the sign are exponent, then mantissa. With b bits of exponent its bias is
 * 2^(b-1) - 1; a value is (1 + m / 2^mantissa_bits) * 2^(e - bias), and without the 1 and with
 * e = 1 if e is 0. */
static double float_of(const struct row *row, uint64_t bits, bool is_finite)
{
    const uint64_t sign = sign_bit(row), magnitude = bits & (sign - 1);
    const uint64_t mantissa = magnitude & ((UINT64_C(1) << row->mantissa_bits) - 1);
    const int exponent = (int)(magnitude >> row->mantissa_bits);
    const int exponent_bits = 8 * row->size_bytes - 1 - row->mantissa_bits;
    const int bias = (1 << (exponent_bits - 1)) - 1;
    double value;

    if (!is_finite) {
        /* E4M3's one special magnitude is NaN, and has mantissa bits. */
        value = mantissa != 0 ? (double)NAN : (double)INFINITY;
    } else if (exponent == 0) {
        value = ldexp((double)mantissa, 1 - bias - row->mantissa_bits);
    } else {
        value = ldexp((double)(mantissa | UINT64_C(1) << row->mantissa_bits),
                      exponent - bias - row->mantissa_bits);
    }
    return (bits & sign) != 0 ? -value : value;
}

double harness_ckpt_value(enum harness_ckpt_dtype dtype, uint64_t bits)
{
    const struct row *row = row_of(dtype);

    switch (row->kind) {
    case FLOAT:
        return float_of(row, bits, harness_ckpt_is_finite(dtype, bits));
    case SIGNED:
        return (double)signed_of(row, bits);
    case UNSIGNED:
        break;
    }
    return (double)bits;
}

/* Floats are ordered as their magnitudes are, so steps are differences of these. */
uint64_t harness_ckpt_distance(enum harness_ckpt_dtype dtype, uint64_t a, uint64_t b)
{
    const struct row *row = row_of(dtype);
    const uint64_t sign = sign_bit(row);

    if (row->kind == FLOAT) {
        const uint64_t left = a & (sign - 1), right = b & (sign - 1);

        if ((a & sign) != (b & sign)) {
            return left + right;
        }
        return left > right ? left - right : right - left;
    }
    if (row->kind == SIGNED) { /* shifted so that the order is that of unsigned numbers */
        a ^= sign;
        b ^= sign;
    }
    return a > b ? a - b : b - a;
}

/* Inlined with each size, so that a copy is one load: there may be billions. */
static inline __attribute__((always_inline)) size_t
count_special(const uint8_t *data, size_t elem_count, size_t size_bytes, uint64_t special,
              size_t *out_first)
{
    size_t count = 0;

    for (size_t i = 0; i < elem_count; i++) {
        uint64_t bits = 0;

        memcpy(&bits, data + i * size_bytes, size_bytes);
        if ((bits & special) == special) {
            *out_first = count == 0 ? i : *out_first;
            count++;
        }
    }
    return count;
}

size_t harness_ckpt_not_finite(enum harness_ckpt_dtype dtype, const uint8_t *data,
                               size_t elem_count, size_t *out_first)
{
    const struct row *row = row_of(dtype);

    if (row->kind != FLOAT) {
        return 0;
    }
    switch (row->size_bytes) {
    case 1:
        return count_special(data, elem_count, 1, row->special, out_first);
    case 2:
        return count_special(data, elem_count, 2, row->special, out_first);
    case 4:
        return count_special(data, elem_count, 4, row->special, out_first);
    default:
        return count_special(data, elem_count, 8, row->special, out_first);
    }
}
