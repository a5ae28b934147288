/* Element types of checkpoint files, those that nothing here trains with too: what a value is, how
 * far two are apart. Elements lie as in the file, little-endian and unaligned.
 * Source: the dtypes of the safetensors format, and those of torch that have one. */
#ifndef HARNESS_CKPT_DTYPE_H
#define HARNESS_CKPT_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(identifier, name in safetensors, what is said, bytes, kind, bits of the mantissa, bits that are
 * all set if a value is not finite). E4M3 has no infinities, and one NaN of either sign. */
#define HARNESS_CKPT_DTYPE_TABLE(X)                                     \
    X(HARNESS_CKPT_F64, "F64", "f64", 8, FLOAT, 52, 0x7ff0000000000000) \
    X(HARNESS_CKPT_F32, "F32", "f32", 4, FLOAT, 23, 0x7f800000)         \
    X(HARNESS_CKPT_F16, "F16", "f16", 2, FLOAT, 10, 0x7c00)             \
    X(HARNESS_CKPT_BF16, "BF16", "bf16", 2, FLOAT, 7, 0x7f80)           \
    X(HARNESS_CKPT_F8_E5M2, "F8_E5M2", "f8_e5m2", 1, FLOAT, 2, 0x7c)    \
    X(HARNESS_CKPT_F8_E4M3, "F8_E4M3", "f8_e4m3", 1, FLOAT, 3, 0x7f)    \
    X(HARNESS_CKPT_I64, "I64", "i64", 8, SIGNED, 0, 0)                  \
    X(HARNESS_CKPT_I32, "I32", "i32", 4, SIGNED, 0, 0)                  \
    X(HARNESS_CKPT_I16, "I16", "i16", 2, SIGNED, 0, 0)                  \
    X(HARNESS_CKPT_I8, "I8", "i8", 1, SIGNED, 0, 0)                     \
    X(HARNESS_CKPT_U64, "U64", "u64", 8, UNSIGNED, 0, 0)                \
    X(HARNESS_CKPT_U32, "U32", "u32", 4, UNSIGNED, 0, 0)                \
    X(HARNESS_CKPT_U16, "U16", "u16", 2, UNSIGNED, 0, 0)                \
    X(HARNESS_CKPT_U8, "U8", "u8", 1, UNSIGNED, 0, 0)                   \
    X(HARNESS_CKPT_BOOL, "BOOL", "bool", 1, UNSIGNED, 0, 0)

enum harness_ckpt_dtype {
#define X(id, name, said, size, kind, mantissa, special) id,
    HARNESS_CKPT_DTYPE_TABLE(X)
#undef X
        HARNESS_CKPT_DTYPE_COUNT
};

/* By the name that safetensors has for it; false: there is none. */
bool harness_ckpt_dtype_find(const char *name, enum harness_ckpt_dtype *out);
const char *harness_ckpt_dtype_name(enum harness_ckpt_dtype dtype); /* "F32" */
const char *harness_ckpt_dtype_said(enum harness_ckpt_dtype dtype); /* "f32" */
size_t harness_ckpt_dtype_bytes(enum harness_ckpt_dtype dtype);
bool harness_ckpt_dtype_is_float(enum harness_ckpt_dtype dtype);

/* The bits of one element. */
uint64_t harness_ckpt_bits(enum harness_ckpt_dtype dtype, const uint8_t *data, size_t elem);
/* Always true of what is no float. */
bool harness_ckpt_is_finite(enum harness_ckpt_dtype dtype, uint64_t bits);
/* As a double: exact of floats, rounded of whole numbers beyond 2^53; NaN and infinity stay. */
double harness_ckpt_value(enum harness_ckpt_dtype dtype, uint64_t bits);
/* Of two finite floats: how many steps of the type they are apart; zeros of both signs are one. Of
 * whole numbers: their difference, exactly. */
uint64_t harness_ckpt_distance(enum harness_ckpt_dtype dtype, uint64_t a, uint64_t b);
/* How many of elem_count elements are not finite; *out_first: the first one, if there is any. */
size_t harness_ckpt_not_finite(enum harness_ckpt_dtype dtype, const uint8_t *data,
                               size_t elem_count, size_t *out_first);

#ifdef __cplusplus
}
#endif
#endif
