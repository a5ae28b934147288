/* MPI's predefined types and operations, as the guest library names them. Where they are addresses
 * they are looked up once: that takes a microsecond each. */
#include <pthread.h>

#include "harness/guest/mpi/adapter.h"

#define COUNT_ROW(...) +1
enum { OP_COUNT = 0 GUEST_MPI_OP_TABLE(COUNT_ROW), TYPE_COUNT = 0 GUEST_MPI_TYPE_TABLE(COUNT_ROW) };

static struct {
    uint64_t op[OP_COUNT], type[TYPE_COUNT];
} mpi_objects;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static const uint32_t redops[OP_COUNT] = {
#define X(name, symbol, mpich, standard, redop) DDPROVE_GUEST_##redop,
    GUEST_MPI_OP_TABLE(X)
#undef X
};
static const uint32_t dtypes[TYPE_COUNT] = {
#define X(name, symbol, mpich, standard, dtype) DDPROVE_GUEST_##dtype,
    GUEST_MPI_TYPE_TABLE(X)
#undef X
};

static void fill(void)
{
    size_t i = 0;

#define X(name, symbol, mpich, standard, of) \
    mpi_objects.op[i++] = guest_mpi_handle(symbol, mpich, standard);
    GUEST_MPI_OP_TABLE(X)
#undef X
    i = 0;
#define X(name, symbol, mpich, standard, of) \
    mpi_objects.type[i++] = guest_mpi_handle(symbol, mpich, standard);
    GUEST_MPI_TYPE_TABLE(X)
#undef X
}

uint32_t guest_mpi_redop(uint64_t op)
{
    (void)pthread_once(&once, fill);
    op = guest_mpi_clean(op);
    for (size_t i = 0; i < OP_COUNT; i++) {
        if (mpi_objects.op[i] == op) {
            return redops[i];
        }
    }
    return DDPROVE_GUEST_USER;
}

uint64_t guest_mpi_op_of(uint32_t redop, uint64_t op)
{
    (void)pthread_once(&once, fill);
    for (size_t i = 0; i < OP_COUNT; i++) {
        if (redops[i] == redop) {
            return mpi_objects.op[i];
        }
    }
    return op;
}

/* A type may hold nothing, or more bytes than an int can say. */
static uint64_t size_bytes_of(uint64_t type)
{
    int size_bytes = 1;
    int64_t large = 1;

    if (guest_mpi()->Type_size(type, &size_bytes) == 0 && size_bytes < 0 &&
        guest_mpi()->Type_size_x != NULL) {
        (void)guest_mpi()->Type_size_x(type, &large);
        return large > 0 ? (uint64_t)large : 1;
    }
    return size_bytes >= 0 ? (uint64_t)size_bytes : 1;
}

uint32_t guest_mpi_dtype(uint64_t type, uint64_t count, uint64_t *out_elem_count)
{

    (void)pthread_once(&once, fill);
    type = guest_mpi_clean(type);
    for (size_t i = 0; i < TYPE_COUNT; i++) {
        if (mpi_objects.type[i] == type) {
            *out_elem_count = count;
            return dtypes[i];
        }
    }
    *out_elem_count = count * size_bytes_of(type);
    return DDPROVE_GUEST_BYTES;
}

uint64_t guest_mpi_type_of(uint32_t dtype, uint64_t type)
{
    uint64_t elem_count = 0;

    (void)pthread_once(&once, fill);
    /* 0 is none: an MPI that is asked for its size ends the program. */
    if (type != 0 && guest_mpi_dtype(type, 0, &elem_count) == dtype) {
        return type;
    }
    for (size_t i = 0; i < TYPE_COUNT; i++) {
        if (dtypes[i] == dtype) {
            return mpi_objects.type[i];
        }
    }
    return type;
}
