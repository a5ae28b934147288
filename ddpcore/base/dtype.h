/* Element types and 16-bit float conversion (round to nearest even). */
#ifndef DDPCORE_BASE_DTYPE_H
#define DDPCORE_BASE_DTYPE_H

#include <stddef.h>
#include <stdint.h>

#include "ddpcore/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* X(identifier, name, safetensors name, size in bytes) */
#define DDP_DTYPE_TABLE(X)               \
    X(DDP_DTYPE_F32, "f32", "F32", 4)    \
    X(DDP_DTYPE_F16, "f16", "F16", 2)    \
    X(DDP_DTYPE_BF16, "bf16", "BF16", 2) \
    X(DDP_DTYPE_F64, "f64", "F64", 8)    \
    X(DDP_DTYPE_I32, "i32", "I32", 4)    \
    X(DDP_DTYPE_I64, "i64", "I64", 8)    \
    X(DDP_DTYPE_U8, "u8", "U8", 1)

enum ddp_dtype {
#define X(id, name, st_name, size) id,
    DDP_DTYPE_TABLE(X)
#undef X
        DDP_DTYPE_COUNT
};

/* X(identifier, name) */
#define DDP_REDOP_TABLE(X)  \
    X(DDP_REDOP_SUM, "sum") \
    X(DDP_REDOP_MAX, "max") \
    X(DDP_REDOP_MIN, "min") \
    X(DDP_REDOP_PROD, "prod")

enum ddp_redop {
#define X(id, name) id,
    DDP_REDOP_TABLE(X)
#undef X
        DDP_REDOP_COUNT
};

size_t ddp_dtype_size_bytes(enum ddp_dtype dtype);
const char *ddp_dtype_name(enum ddp_dtype dtype);
const char *ddp_dtype_safetensors_name(enum ddp_dtype dtype);
DDP_MUST_USE ddp_status ddp_dtype_parse(const char *name, enum ddp_dtype *out);
const char *ddp_redop_name(enum ddp_redop redop);
DDP_MUST_USE ddp_status ddp_redop_parse(const char *name, enum ddp_redop *out);

float ddp_f16_to_f32(uint16_t bits);
uint16_t ddp_f16_from_f32(float value);
float ddp_bf16_to_f32(uint16_t bits);
uint16_t ddp_bf16_from_f32(float value);

#ifdef __cplusplus
}
#endif
#endif
