/* MPI's predefined types and operations, as the guest library names them. Their addresses are
 * looked up once: that takes a microsecond each. */
#include <pthread.h>

#include "harness/guest/mpi/adapter.h"

/* X(MPI's name, Open MPI's symbol, the guest library's name) */
#define OP_TABLE(X)                       \
    X(MPI_SUM, "ompi_mpi_op_sum", SUM)    \
    X(MPI_MAX, "ompi_mpi_op_max", MAX)    \
    X(MPI_MIN, "ompi_mpi_op_min", MIN)    \
    X(MPI_PROD, "ompi_mpi_op_prod", PROD) \
    X(MPI_LAND, "ompi_mpi_op_land", LAND) \
    X(MPI_LOR, "ompi_mpi_op_lor", LOR)    \
    X(MPI_BAND, "ompi_mpi_op_band", BAND) \
    X(MPI_BOR, "ompi_mpi_op_bor", BOR)    \
    X(MPI_BXOR, "ompi_mpi_op_bxor", BXOR)
#define LONG_TYPE  (sizeof(long) == 8 ? DDPROVE_GUEST_I64 : DDPROVE_GUEST_I32)
#define ULONG_TYPE (sizeof(long) == 8 ? DDPROVE_GUEST_U64 : DDPROVE_GUEST_U32)
#define TYPE_TABLE(X)                                                           \
    X(MPI_FLOAT, "ompi_mpi_float", DDPROVE_GUEST_F32)                           \
    X(MPI_DOUBLE, "ompi_mpi_double", DDPROVE_GUEST_F64)                         \
    X(MPI_INT, "ompi_mpi_int", DDPROVE_GUEST_I32)                               \
    X(MPI_UNSIGNED, "ompi_mpi_unsigned", DDPROVE_GUEST_U32)                     \
    X(MPI_LONG, "ompi_mpi_long", LONG_TYPE)                                     \
    X(MPI_UNSIGNED_LONG, "ompi_mpi_unsigned_long", ULONG_TYPE)                  \
    X(MPI_LONG_LONG, "ompi_mpi_long_long_int", DDPROVE_GUEST_I64)               \
    X(MPI_UNSIGNED_LONG_LONG, "ompi_mpi_unsigned_long_long", DDPROVE_GUEST_U64) \
    X(MPI_SHORT, "ompi_mpi_short", DDPROVE_GUEST_I16)                           \
    X(MPI_UNSIGNED_SHORT, "ompi_mpi_unsigned_short", DDPROVE_GUEST_U16)         \
    X(MPI_SIGNED_CHAR, "ompi_mpi_signed_char", DDPROVE_GUEST_I8)                \
    X(MPI_UNSIGNED_CHAR, "ompi_mpi_unsigned_char", DDPROVE_GUEST_U8)            \
    X(MPI_CHAR, "ompi_mpi_char", DDPROVE_GUEST_I8)                              \
    X(MPI_INT8_T, "ompi_mpi_int8_t", DDPROVE_GUEST_I8)                          \
    X(MPI_UINT8_T, "ompi_mpi_uint8_t", DDPROVE_GUEST_U8)                        \
    X(MPI_INT16_T, "ompi_mpi_int16_t", DDPROVE_GUEST_I16)                       \
    X(MPI_UINT16_T, "ompi_mpi_uint16_t", DDPROVE_GUEST_U16)                     \
    X(MPI_INT32_T, "ompi_mpi_int32_t", DDPROVE_GUEST_I32)                       \
    X(MPI_UINT32_T, "ompi_mpi_uint32_t", DDPROVE_GUEST_U32)                     \
    X(MPI_INT64_T, "ompi_mpi_int64_t", DDPROVE_GUEST_I64)                       \
    X(MPI_UINT64_T, "ompi_mpi_uint64_t", DDPROVE_GUEST_U64)

#define COUNT_ROW(mpi_name, symbol, name) +1
enum { OP_COUNT = 0 OP_TABLE(COUNT_ROW), TYPE_COUNT = 0 TYPE_TABLE(COUNT_ROW) };

static struct {
    MPI_Op op[OP_COUNT];
    MPI_Datatype type[TYPE_COUNT];
} mpi_objects;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void fill(void)
{
    size_t i = 0;

#define X(mpi_name, symbol, name) mpi_objects.op[i++] = GUEST_MPI_OBJECT(MPI_Op, mpi_name, symbol);
    OP_TABLE(X)
#undef X
    i = 0;
#define X(mpi_name, symbol, name) \
    mpi_objects.type[i++] = GUEST_MPI_OBJECT(MPI_Datatype, mpi_name, symbol);
    TYPE_TABLE(X)
#undef X
}

static const uint32_t redops[OP_COUNT] = {
#define X(mpi_name, symbol, name) DDPROVE_GUEST_##name,
    OP_TABLE(X)
#undef X
};

uint32_t guest_mpi_redop(MPI_Op op)
{
    (void)pthread_once(&once, fill);
    for (size_t i = 0; i < OP_COUNT; i++) {
        if (mpi_objects.op[i] == op) {
            return redops[i];
        }
    }
    return DDPROVE_GUEST_USER;
}

MPI_Op guest_mpi_op_of(uint32_t redop, MPI_Op op)
{
    (void)pthread_once(&once, fill);
    for (size_t i = 0; i < OP_COUNT; i++) {
        if (redops[i] == redop) {
            return mpi_objects.op[i];
        }
    }
    return op;
}

uint32_t guest_mpi_dtype(MPI_Datatype type, uint64_t count, uint64_t *out_elem_count)
{
    static const uint32_t dtypes[TYPE_COUNT] = {
#define X(mpi_name, symbol, name) name,
        TYPE_TABLE(X)
#undef X
    };
    int size_bytes = 1;

    (void)pthread_once(&once, fill);
    for (size_t i = 0; i < TYPE_COUNT; i++) {
        if (mpi_objects.type[i] == type) {
            *out_elem_count = count;
            return dtypes[i];
        }
    }
    (void)guest_mpi()->Type_size(type, &size_bytes);
    *out_elem_count = count * (uint64_t)(size_bytes > 0 ? size_bytes : 1);
    return DDPROVE_GUEST_BYTES;
}
