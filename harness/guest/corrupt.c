/* Damage to data, element by element. */
#include <math.h>
#include <string.h>

#include "harness/guest/fault.h"
#include "harness/guest/observe/half.h"

uint64_t guest_dtype_size_bytes(uint32_t dtype)
{
    static const uint8_t sizes[DDPROVE_GUEST_DTYPE_COUNT] = {
#define X(id, name, size_bytes) [DDPROVE_GUEST_##id] = size_bytes,
        DDPROVE_GUEST_DTYPE_TABLE(X)
#undef X
    };

    return dtype < DDPROVE_GUEST_DTYPE_COUNT ? sizes[dtype] : 0;
}

static double double_of(uint64_t bits)
{
    double value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

static int is_half(uint32_t dtype)
{
    return dtype == DDPROVE_GUEST_F16 || dtype == DDPROVE_GUEST_BF16;
}

/* What follows returns whether it changed anything: that a rank lost zeros, nobody can see. */

static int zero(uint8_t *data, uint64_t size_bytes)
{
    int is_other = 0;

    for (uint64_t i = 0; i < size_bytes; i++) {
        is_other |= data[i] != 0;
        data[i] = 0;
    }
    return is_other;
}

static int scale(void *data, uint64_t elem_count, uint32_t dtype, double factor)
{
    const uint64_t elem_bytes = guest_dtype_size_bytes(dtype);
    int is_other = 0;

    for (uint64_t i = 0; i < elem_count; i++) {
        uint8_t *elem = (uint8_t *)data + i * elem_bytes;
        uint64_t before = 0;

        memcpy(&before, elem, elem_bytes);
        if (dtype == DDPROVE_GUEST_F32) {
            ((float *)data)[i] *= (float)factor;
        } else if (dtype == DDPROVE_GUEST_F64) {
            ((double *)data)[i] *= factor;
        } else if (is_half(dtype)) {
            uint16_t *half = (uint16_t *)data + i;

            *half = guest_half_encode(dtype, guest_half_decode(dtype, *half) * (float)factor);
        } else {
            return 0;
        }
        is_other |= memcmp(&before, elem, elem_bytes) != 0;
    }
    return is_other;
}

/* The first ones are repeated at the end of what moved. */
static int shift(uint8_t *data, uint64_t size_bytes, uint64_t shift_bytes)
{
    const uint64_t moved_bytes = shift_bytes < size_bytes ? size_bytes - shift_bytes : 0;
    const int is_other = memcmp(data + size_bytes - moved_bytes, data, moved_bytes) != 0;

    memmove(data + size_bytes - moved_bytes, data, moved_bytes);
    return is_other;
}

static int set(void *data, uint32_t dtype, uint64_t elem, double value)
{
    switch ((enum ddprove_guest_dtype)dtype) {
    case DDPROVE_GUEST_F32:
        ((float *)data)[elem] = (float)value;
        return 1;
    case DDPROVE_GUEST_F64:
        ((double *)data)[elem] = value;
        return 1;
    case DDPROVE_GUEST_I32:
        ((int32_t *)data)[elem] = (int32_t)value;
        return !isnan(value);
    case DDPROVE_GUEST_I64:
        ((int64_t *)data)[elem] = (int64_t)value;
        return !isnan(value);
    case DDPROVE_GUEST_F16:
    case DDPROVE_GUEST_BF16:
        ((uint16_t *)data)[elem] = guest_half_encode(dtype, (float)value);
        return 1;
    default:
        return 0;
    }
}

static int set_one(void *data, uint32_t dtype, uint64_t elem, double value)
{
    const uint64_t elem_bytes = guest_dtype_size_bytes(dtype);
    const uint8_t *place = (const uint8_t *)data + elem * elem_bytes;
    uint64_t before = 0;

    memcpy(&before, place, elem_bytes);
    return set(data, dtype, elem, value) && memcmp(&before, place, elem_bytes) != 0;
}

int guest_corrupt(void *data, uint64_t elem_count, uint32_t dtype, const struct guest_fault *fault)
{
    const uint64_t elem_bytes = guest_dtype_size_bytes(dtype);

    if (elem_bytes == 0 || fault->elem >= elem_count) {
        return 0;
    }
    switch ((enum guest_action)fault->action) {
    case GUEST_ACTION_ZERO:
        return zero(data, elem_count * elem_bytes);
    case GUEST_ACTION_SCALE:
        return scale(data, elem_count, dtype, double_of(fault->value));
    case GUEST_ACTION_SHIFT:
        return shift(data, elem_count * elem_bytes,
                     (fault->value < elem_count ? fault->value : elem_count) * elem_bytes);
    case GUEST_ACTION_FLIP:
        if (fault->value >= 8 * elem_bytes) {
            return 0;
        }
        ((uint8_t *)data)[fault->elem * elem_bytes + fault->value / 8] ^=
            (uint8_t)(1u << fault->value % 8);
        return 1;
    case GUEST_ACTION_SET:
        return set_one(data, dtype, fault->elem, double_of(fault->value));
    case GUEST_ACTION_NAN_VALUE:
        return set_one(data, dtype, fault->elem, (double)NAN);
    default:
        return 0;
    }
}
