/* The CPU device: memory of the caller's allocator, everything done at once on the calling thread.
 * Has no streams and no events to wait for. 16-bit elements are widened block by block into fp32 on
 * the stack, so that one set of loops serves them at the speed of the caches. */
#include "ddpcore/device/cpu.h"

#include <string.h>

#include "ddpcore/device/clones.h"
#include "ddpcore/device/cpu_16.h"
#include "ddpcore/device/cpu_f16c.h"
#include "ddpcore/device/cpu_layers.h"

/* Elements widened at a time: 2 blocks of 4 * 512 bytes stay in the first-level cache. */
enum { BLOCK_ELEMS = 512 };

static ddp_status cpu_alloc(struct ddp_device *device, size_t size_bytes, enum ddp_space space,
                            void **out)
{
    (void)space;
    *out = ddp_mem_array(device->mem, size_bytes, 1);
    return *out != NULL ? DDP_OK : DDP_E_NOMEM;
}

static void cpu_free(struct ddp_device *device, enum ddp_space space, void *data)
{
    (void)space;
    ddp_mem_free(device->mem, data);
}

static ddp_status cpu_copy(struct ddp_device *device, struct ddp_stream *stream, void *target,
                           const void *source, size_t size_bytes)
{
    const uintptr_t to = (uintptr_t)target;
    const uintptr_t from = (uintptr_t)source;

    (void)device;
    (void)stream;
    DDP_ASSERT(size_bytes <= (to < from ? from - to : to - from) || size_bytes == 0);
    if (size_bytes > 0) {
        memcpy(target, source, size_bytes);
    }
    return DDP_OK;
}

static ddp_status cpu_zero(struct ddp_device *device, struct ddp_stream *stream, void *target,
                           size_t size_bytes)
{
    (void)device;
    (void)stream;
    if (size_bytes > 0) {
        memset(target, 0, size_bytes);
    }
    return DDP_OK;
}

typedef void reduce_function(void *target, const void *source, size_t elem_count);

#define DEFINE_REDUCE(name, type, expression)                                        \
    DDP_CLONES static void name(void *target, const void *source, size_t elem_count) \
    {                                                                                \
        type *restrict t = (type *)target;                                           \
        const type *restrict s = (const type *)source;                               \
                                                                                     \
        for (size_t i = 0; i < elem_count; i++) {                                    \
            type a = t[i];                                                           \
            type b = s[i];                                                           \
            t[i] = (type)(expression);                                               \
        }                                                                            \
    }

/* fmaxf and fminf, written so that they vectorise: if one operand is a NaN, the other is the
 * result. Integers wrap, which unsigned arithmetic makes defined; u8 is widened to unsigned before
 * the product. */
#define DEFINE_REDUCE_FLOAT(suffix, type)                         \
    DEFINE_REDUCE(sum_##suffix, type, a + b)                      \
    DEFINE_REDUCE(max_##suffix, type, (a >= b || b != b) ? a : b) \
    DEFINE_REDUCE(min_##suffix, type, (a <= b || b != b) ? a : b) \
    DEFINE_REDUCE(prod_##suffix, type, a *b)
#define DEFINE_REDUCE_INT(suffix, type, unsigned_type) \
    DEFINE_REDUCE(sum_##suffix, unsigned_type, a + b)  \
    DEFINE_REDUCE(max_##suffix, type, a >= b ? a : b)  \
    DEFINE_REDUCE(min_##suffix, type, a <= b ? a : b)  \
    DEFINE_REDUCE(prod_##suffix, unsigned_type, a *b)

DEFINE_REDUCE_FLOAT(f32, float)
DEFINE_REDUCE_FLOAT(f64, double)
DEFINE_REDUCE_INT(i32, int32_t, uint32_t)
DEFINE_REDUCE_INT(i64, int64_t, uint64_t)
DEFINE_REDUCE_INT(u8, uint8_t, uint8_t)

#define REDUCE_ROW(suffix)                                                \
    {                                                                     \
        [DDP_REDOP_SUM] = sum_##suffix, [DDP_REDOP_MAX] = max_##suffix,   \
        [DDP_REDOP_MIN] = min_##suffix, [DDP_REDOP_PROD] = prod_##suffix, \
    }

/* 16-bit dtypes have no row: they go through f32. */
static reduce_function *const reduce_table[DDP_DTYPE_COUNT][DDP_REDOP_COUNT] = {
    [DDP_DTYPE_F32] = REDUCE_ROW(f32), [DDP_DTYPE_F64] = REDUCE_ROW(f64),
    [DDP_DTYPE_I32] = REDUCE_ROW(i32), [DDP_DTYPE_I64] = REDUCE_ROW(i64),
    [DDP_DTYPE_U8] = REDUCE_ROW(u8),
};

static float float_from_bits(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

static uint32_t bits_from_float(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

/* The conversions of base/dtype.h for f16, without branches, inlined for the vectoriser; a test
 * holds them together. Subnormals of f16 are normal in f32: the exponent is moved into
 * place by the processor's own subtraction and addition, which are exact, or round to nearest even.
 */
DDP_CLONES static void widen_f16(float *restrict target, const uint16_t *restrict source,
                                 size_t elem_count)
{
    for (size_t i = 0; i < elem_count; i++) {
        const uint32_t shifted = ((uint32_t)source[i] & 0x7fffu) << 13;
        const uint32_t exponent = shifted & 0x0f800000u;
        /* Biases 15 and 127 differ by 112; all ones stay all ones. */
        const uint32_t normal = shifted + (exponent == 0x0f800000u ? 224u << 23 : 112u << 23);
        const uint32_t small =
            bits_from_float(float_from_bits(shifted + (113u << 23)) - float_from_bits(113u << 23));

        target[i] = float_from_bits((exponent == 0 ? small : normal) |
                                    ((uint32_t)source[i] & 0x8000u) << 16);
    }
}

DDP_CLONES static void narrow_f16(uint16_t *restrict target, const float *restrict source,
                                  size_t elem_count)
{
    for (size_t i = 0; i < elem_count; i++) {
        const uint32_t bits = bits_from_float(source[i]);
        const uint32_t magnitude = bits & 0x7fffffffu;
        const uint32_t rebased = magnitude - (112u << 23);
        const uint32_t normal = (rebased + 0xfffu + ((rebased >> 13) & 1u)) >> 13;
        /* Below 2^-14: added to 1/2, the last bit of the sum is 2^-24, one unit of f16's. */
        const uint32_t small = bits_from_float(float_from_bits(magnitude) + 0.5f) - 0x3f000000u;
        const uint32_t infinite = 0x7c00u;
        const uint32_t nan = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
        uint32_t kept = magnitude < 0x38800000u ? small : normal;

        kept = magnitude >= 0x477ff000u ? infinite : kept;
        kept = magnitude > 0x7f800000u ? nan : kept;
        target[i] = (uint16_t)(kept | ((bits >> 16) & 0x8000u));
    }
}

DDP_CLONES static void multiply(float *target, const float *source, float factor, size_t elem_count)
{
    for (size_t i = 0; i < elem_count; i++) {
        target[i] = source[i] * factor;
    }
}

/* target[0..count) = float(source[first..first + count)) */
static void widen(float *target, const void *source, enum ddp_dtype dtype, size_t first,
                  size_t count)
{
    if (dtype == DDP_DTYPE_F32) {
        memcpy(target, (const float *)source + first, count * sizeof(float));
    } else if (dtype == DDP_DTYPE_BF16) {
        ddp_cpu_widen_bf16(target, (const uint16_t *)source + first, count);
    } else if (dtype == DDP_DTYPE_F16) {
        const uint16_t *from = (const uint16_t *)source + first;
        const size_t done = ddp_cpu_widen_f16c(target, from, count);

        widen_f16(target + done, from + done, count - done);
    } else {
        for (size_t i = 0; i < count; i++) {
            target[i] = (float)((const double *)source)[first + i];
        }
    }
}

/* target[first..first + count) = round_to(dtype, source[0..count)) */
static void narrow(void *target, const float *source, enum ddp_dtype dtype, size_t first,
                   size_t count)
{
    if (dtype == DDP_DTYPE_F32) {
        memcpy((float *)target + first, source, count * sizeof(float));
    } else if (dtype == DDP_DTYPE_BF16) {
        ddp_cpu_narrow_bf16((uint16_t *)target + first, source, count);
    } else if (dtype == DDP_DTYPE_F16) {
        uint16_t *to = (uint16_t *)target + first;
        const size_t done = ddp_cpu_narrow_f16c(to, source, count);

        narrow_f16(to + done, source + done, count - done);
    } else {
        for (size_t i = 0; i < count; i++) {
            ((double *)target)[first + i] = (double)source[i];
        }
    }
}

static size_t block_elems(size_t first, size_t elem_count)
{
    return elem_count - first < BLOCK_ELEMS ? elem_count - first : BLOCK_ELEMS;
}

static ddp_status cpu_reduce(struct ddp_device *device, struct ddp_stream *stream, void *target,
                             const void *source, size_t elem_count, enum ddp_dtype dtype,
                             enum ddp_redop op)
{
    float a[BLOCK_ELEMS];
    float b[BLOCK_ELEMS];

    (void)device;
    (void)stream;
    if ((unsigned)dtype >= DDP_DTYPE_COUNT || (unsigned)op >= DDP_REDOP_COUNT) {
        return DDP_E_INVALID;
    }
    if (reduce_table[dtype][op] != NULL) {
        reduce_table[dtype][op](target, source, elem_count);
        return DDP_OK;
    }
    for (size_t first = op == DDP_REDOP_SUM ? ddp_cpu_add_16(target, source, elem_count, dtype) : 0;
         first < elem_count; first += BLOCK_ELEMS) {
        size_t count = block_elems(first, elem_count);
        widen(a, target, dtype, first, count);
        widen(b, source, dtype, first, count);
        reduce_table[DDP_DTYPE_F32][op](a, b, count);
        narrow(target, a, dtype, first, count);
    }
    return DDP_OK;
}

static bool is_float_dtype(enum ddp_dtype dtype)
{
    return dtype == DDP_DTYPE_F32 || dtype == DDP_DTYPE_F16 || dtype == DDP_DTYPE_BF16 ||
           dtype == DDP_DTYPE_F64;
}

static ddp_status cpu_scale(struct ddp_device *device, struct ddp_stream *stream, void *target,
                            enum ddp_dtype target_dtype, const void *source,
                            enum ddp_dtype source_dtype, size_t elem_count, double factor)
{
    float block[BLOCK_ELEMS];

    (void)device;
    (void)stream;
    if (!is_float_dtype(target_dtype) || !is_float_dtype(source_dtype)) {
        return DDP_E_INVALID;
    }
    DDP_ASSERT(target != source || target_dtype == source_dtype);
    if (target_dtype == DDP_DTYPE_F32 && source_dtype == DDP_DTYPE_F32) {
        multiply((float *)target, (const float *)source, (float)factor, elem_count);
        return DDP_OK;
    }
    if (target_dtype == DDP_DTYPE_F64 && source_dtype == DDP_DTYPE_F64) {
        for (size_t i = 0; i < elem_count; i++) {
            ((double *)target)[i] = ((const double *)source)[i] * factor;
        }
        return DDP_OK;
    }
    for (size_t first = ddp_cpu_scale_16(target, target_dtype, source, source_dtype, elem_count,
                                         (float)factor);
         first < elem_count; first += BLOCK_ELEMS) {
        size_t count = block_elems(first, elem_count);
        widen(block, source, source_dtype, first, count);
        multiply(block, block, (float)factor, count);
        narrow(target, block, target_dtype, first, count);
    }
    return DDP_OK;
}

static ddp_status cpu_stream_create(struct ddp_device *device, struct ddp_stream **out)
{
    (void)device;
    *out = NULL;
    return DDP_OK;
}

static void cpu_stream_destroy(struct ddp_device *device, struct ddp_stream *stream)
{
    (void)device;
    (void)stream;
}

static ddp_status cpu_event_create(struct ddp_device *device, struct ddp_device_event **out)
{
    (void)device;
    *out = NULL;
    return DDP_OK;
}

static void cpu_event_destroy(struct ddp_device *device, struct ddp_device_event *event)
{
    (void)device;
    (void)event;
}

static ddp_status cpu_event_record(struct ddp_device *device, struct ddp_device_event *event,
                                   struct ddp_stream *stream)
{
    (void)device;
    (void)event;
    (void)stream;
    return DDP_OK;
}

static ddp_status cpu_event_query(struct ddp_device *device, struct ddp_device_event *event)
{
    (void)device;
    (void)event;
    return DDP_OK;
}

static ddp_status cpu_stream_wait_event(struct ddp_device *device, struct ddp_stream *stream,
                                        struct ddp_device_event *event)
{
    (void)device;
    (void)stream;
    (void)event;
    return DDP_OK;
}

static void *cpu_native_stream(struct ddp_device *device, struct ddp_stream *stream)
{
    (void)device;
    (void)stream;
    return NULL;
}

static ddp_status cpu_map(struct ddp_device *device, void *memory, size_t size_bytes)
{
    (void)device;
    (void)memory;
    (void)size_bytes;
    return DDP_OK;
}

static void cpu_unmap(struct ddp_device *device, void *memory)
{
    (void)device;
    (void)memory;
}

static ddp_status cpu_store_word(struct ddp_device *device, struct ddp_stream *stream,
                                 uint64_t *word, uint64_t value)
{
    (void)device;
    (void)stream;
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
    return DDP_OK;
}

static ddp_status cpu_inject(struct ddp_device *device, struct ddp_stream *stream,
                             enum ddp_device_fault fault, uint64_t ms)
{
    (void)device;
    (void)stream;
    (void)fault;
    (void)ms;
    return DDP_E_UNSUPPORTED;
}

static const char *cpu_last_error(struct ddp_device *device)
{
    (void)device;
    return "";
}

static void cpu_destroy(struct ddp_device *device)
{
    ddp_mem_free(device->mem, device);
}

static const struct ddp_device_ops cpu_ops = {
    .name = "cpu",
    .is_host_memory = true,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .copy = cpu_copy,
    .zero = cpu_zero,
    .reduce = cpu_reduce,
    .scale = cpu_scale,
    .stream_create = cpu_stream_create,
    .stream_destroy = cpu_stream_destroy,
    .event_create = cpu_event_create,
    .event_destroy = cpu_event_destroy,
    .event_record = cpu_event_record,
    .event_query = cpu_event_query,
    .stream_wait_event = cpu_stream_wait_event,
    .native_stream = cpu_native_stream,
    .map = cpu_map,
    .unmap = cpu_unmap,
    .store_word = cpu_store_word,
    .inject = cpu_inject,
    .last_error = cpu_last_error,
    .destroy = cpu_destroy,
};

ddp_status ddp_device_cpu_create(struct ddp_mem *mem, struct ddp_device **out)
{
    struct ddp_device *device = (struct ddp_device *)ddp_mem_array(mem, 1, sizeof(*device));

    *out = device;
    if (device == NULL) {
        return DDP_E_NOMEM;
    }
    device->ops = &cpu_ops;
    device->math = &ddp_device_cpu_math;
    device->layers = &ddp_device_cpu_layers;
    device->hints = &ddp_device_no_hints;
    device->mem = mem;
    return DDP_OK;
}
