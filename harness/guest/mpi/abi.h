/* What the adapter knows of MPI, declared here so that no mpi.h is needed to build and one library
 * serves every MPI. Communicators, types and the like are pointers in Open MPI and in the ABI of
 * the MPI-5 standard, and ints in MPICH and what is built on it. All of these are passed in
 * registers or words of their own, of which an int is the lower half; where they lie in memory
 * (arrays of requests, results), their size is the ABI's.
 * tests/guest/mpi_abi_check.c holds all of this against the mpi.h of each MPI that is installed.
 * Internal. */
#ifndef HARNESS_GUEST_MPI_ABI_H
#define HARNESS_GUEST_MPI_ABI_H

#include <stdint.h>

_Static_assert(sizeof(void *) == 8 && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "an int is the lower half of a word, and its first one in memory");

/* In an mpi.h these have types of their own, with which mpi_abi_check.c declares the same functions
 * once more. By value: */
#ifndef GUEST_MPI_COMM
#define GUEST_MPI_COMM    uint64_t
#define GUEST_MPI_TYPE    uint64_t
#define GUEST_MPI_OP      uint64_t
#define GUEST_MPI_GROUP   uint64_t
#define GUEST_MPI_INFO    uint64_t
#define GUEST_MPI_REQUEST uint64_t
#define GUEST_MPI_COUNT   int64_t
#define GUEST_MPI_AINT    int64_t
#define GUEST_MPI_WIN     uint64_t
#define GUEST_MPI_FILE    uint64_t
#define GUEST_MPI_OFFSET  int64_t
#define GUEST_MPI_SESSION uint64_t
#define GUEST_MPI_HANDLER uint64_t
/* In memory: */
#define GUEST_MPI_COMMS    void
#define GUEST_MPI_TYPES    void
#define GUEST_MPI_GROUPS   void
#define GUEST_MPI_REQUESTS void
#define GUEST_MPI_WINS     void
#define GUEST_MPI_FILES    void
#define GUEST_MPI_INFOS    void
#define GUEST_MPI_MESSAGES void
#define GUEST_MPI_SESSIONS void
#define GUEST_MPI_STATUSES void
typedef int guest_mpi_copy(uint64_t comm, int keyval, void *context, void *value, void *out,
                           int *flag);
typedef int guest_mpi_delete(uint64_t comm, int keyval, void *value, void *context);
#define GUEST_MPI_COPY   guest_mpi_copy *
#define GUEST_MPI_DELETE guest_mpi_delete *
#endif

/* Of MPICH's family, also Intel MPI and MVAPICH; of the standard. Open MPI's are addresses of its
 * data. X(what, Open MPI's symbol, MPICH's number, the standard's number) */
#define GUEST_MPI_HANDLE_TABLE(X)                           \
    X(COMM_WORLD, "ompi_mpi_comm_world", 0x44000000, 0x101) \
    X(COMM_SELF, "ompi_mpi_comm_self", 0x44000001, 0x102)   \
    X(COMM_NULL, "ompi_mpi_comm_null", 0x04000000, 0x100)   \
    X(REQUEST_NULL, "ompi_request_null", 0x2c000000, 0x180)
/* The same and the guest library's name. Types of Fortran have the sizes that their compilers give
 * them unless they are told otherwise. */
#define GUEST_MPI_OP_TABLE(X)                                 \
    X(SUM, "ompi_mpi_op_sum", 0x58000003, 0x21, SUM)          \
    X(MAX, "ompi_mpi_op_max", 0x58000001, 0x23, MAX)          \
    X(MIN, "ompi_mpi_op_min", 0x58000002, 0x22, MIN)          \
    X(PROD, "ompi_mpi_op_prod", 0x58000004, 0x24, PROD)       \
    X(LAND, "ompi_mpi_op_land", 0x58000005, 0x30, LAND)       \
    X(LOR, "ompi_mpi_op_lor", 0x58000007, 0x31, LOR)          \
    X(BAND, "ompi_mpi_op_band", 0x58000006, 0x28, BAND)       \
    X(BOR, "ompi_mpi_op_bor", 0x58000008, 0x29, BOR)          \
    X(BXOR, "ompi_mpi_op_bxor", 0x5800000a, 0x2a, BXOR)       \
    X(LXOR, "ompi_mpi_op_lxor", 0x58000009, 0x32, LXOR)       \
    X(MINLOC, "ompi_mpi_op_minloc", 0x5800000b, 0x38, MINLOC) \
    X(MAXLOC, "ompi_mpi_op_maxloc", 0x5800000c, 0x39, MAXLOC)
#define GUEST_MPI_TYPE_TABLE(X)                                                  \
    X(FLOAT, "ompi_mpi_float", 0x4c00040a, 0x210, F32)                           \
    X(DOUBLE, "ompi_mpi_double", 0x4c00080b, 0x214, F64)                         \
    X(INT, "ompi_mpi_int", 0x4c000405, 0x209, I32)                               \
    X(UNSIGNED, "ompi_mpi_unsigned", 0x4c000406, 0x20d, U32)                     \
    X(LONG, "ompi_mpi_long", 0x4c000807, 0x20a, I64)                             \
    X(UNSIGNED_LONG, "ompi_mpi_unsigned_long", 0x4c000808, 0x20e, U64)           \
    X(LONG_LONG, "ompi_mpi_long_long_int", 0x4c000809, 0x20b, I64)               \
    X(UNSIGNED_LONG_LONG, "ompi_mpi_unsigned_long_long", 0x4c000819, 0x20f, U64) \
    X(SHORT, "ompi_mpi_short", 0x4c000203, 0x208, I16)                           \
    X(UNSIGNED_SHORT, "ompi_mpi_unsigned_short", 0x4c000204, 0x20c, U16)         \
    X(SIGNED_CHAR, "ompi_mpi_signed_char", 0x4c000118, 0x244, I8)                \
    X(UNSIGNED_CHAR, "ompi_mpi_unsigned_char", 0x4c000102, 0x245, U8)            \
    X(CHAR, "ompi_mpi_char", 0x4c000101, 0x243, I8)                              \
    X(INT8_T, "ompi_mpi_int8_t", 0x4c000137, 0x240, I8)                          \
    X(UINT8_T, "ompi_mpi_uint8_t", 0x4c00013b, 0x241, U8)                        \
    X(INT16_T, "ompi_mpi_int16_t", 0x4c000238, 0x248, I16)                       \
    X(UINT16_T, "ompi_mpi_uint16_t", 0x4c00023c, 0x249, U16)                     \
    X(INT32_T, "ompi_mpi_int32_t", 0x4c000439, 0x250, I32)                       \
    X(UINT32_T, "ompi_mpi_uint32_t", 0x4c00043d, 0x251, U32)                     \
    X(INT64_T, "ompi_mpi_int64_t", 0x4c00083a, 0x258, I64)                       \
    X(UINT64_T, "ompi_mpi_uint64_t", 0x4c00083e, 0x259, U64)                     \
    X(INTEGER, "ompi_mpi_integer", 0x4c00041b, 0x219, I32)                       \
    X(REAL, "ompi_mpi_real", 0x4c00041c, 0x21a, F32)                             \
    X(DOUBLE_PRECISION, "ompi_mpi_dblprec", 0x4c00081f, 0x21c, F64)

enum guest_mpi_family {
    GUEST_MPI_OPEN,     /* Open MPI 4 and 5 */
    GUEST_MPI_MPICH,    /* MPICH, Intel MPI, MVAPICH, Cray MPICH */
    GUEST_MPI_STANDARD, /* the ABI of MPI 5.0, whatever is behind it */
    GUEST_MPI_FAMILY_COUNT
};
/* X(what, Open MPI's, MPICH's, the standard's) */
#define GUEST_MPI_NUMBER_TABLE(X)  \
    X(IN_PLACE, 1, -1, 1)          \
    X(ANY_SOURCE, -1, -2, -1)      \
    X(PROC_NULL, -2, -1, -3)       \
    X(THREAD_MULTIPLE, 3, 3, 4096) \
    X(CART, 1, 2, 211)             \
    X(GRAPH, 2, 1, 212)            \
    X(DIST_GRAPH, 3, 3, 213)       \
    X(HANDLE_BYTES, 8, 4, 8)       \
    X(STATUS_ERROR_AT, 8, 16, 8)               /* where a status has its error, an int */
#define GUEST_MPI_SOURCE_BEFORE_ERROR 8        /* bytes, in all of them */
#define GUEST_MPI_UNDEFINED           (-32766) /* in all of them */

#endif
