/* MPI's predefined types and operations, as the guest library names them. */
#include "harness/guest/mpi/adapter.h"

struct type_row {
    MPI_Datatype type;
    uint32_t dtype;
};
struct op_row {
    MPI_Op op;
    uint32_t redop;
};

uint32_t guest_mpi_redop(MPI_Op op)
{
    const struct op_row rows[] = {
        {GUEST_MPI_OBJECT(MPI_Op, MPI_SUM, "ompi_mpi_op_sum"), DDPROVE_GUEST_SUM},
        {GUEST_MPI_OBJECT(MPI_Op, MPI_MAX, "ompi_mpi_op_max"), DDPROVE_GUEST_MAX},
        {GUEST_MPI_OBJECT(MPI_Op, MPI_MIN, "ompi_mpi_op_min"), DDPROVE_GUEST_MIN},
        {GUEST_MPI_OBJECT(MPI_Op, MPI_PROD, "ompi_mpi_op_prod"), DDPROVE_GUEST_PROD},
        {GUEST_MPI_OBJECT(MPI_Op, MPI_LAND, "ompi_mpi_op_land"), DDPROVE_GUEST_LAND},
        {GUEST_MPI_OBJECT(MPI_Op, MPI_LOR, "ompi_mpi_op_lor"), DDPROVE_GUEST_LOR},
        {GUEST_MPI_OBJECT(MPI_Op, MPI_BAND, "ompi_mpi_op_band"), DDPROVE_GUEST_BAND},
        {GUEST_MPI_OBJECT(MPI_Op, MPI_BOR, "ompi_mpi_op_bor"), DDPROVE_GUEST_BOR},
        {GUEST_MPI_OBJECT(MPI_Op, MPI_BXOR, "ompi_mpi_op_bxor"), DDPROVE_GUEST_BXOR},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].op == op) {
            return rows[i].redop;
        }
    }
    return DDPROVE_GUEST_USER;
}

uint32_t guest_mpi_dtype(MPI_Datatype type, uint64_t count, uint64_t *out_elem_count)
{
    const struct type_row rows[] = {
        {GUEST_MPI_OBJECT(MPI_Datatype, MPI_FLOAT, "ompi_mpi_float"), DDPROVE_GUEST_F32},
        {GUEST_MPI_OBJECT(MPI_Datatype, MPI_DOUBLE, "ompi_mpi_double"), DDPROVE_GUEST_F64},
        {GUEST_MPI_OBJECT(MPI_Datatype, MPI_INT, "ompi_mpi_int"), DDPROVE_GUEST_I32},
        {GUEST_MPI_OBJECT(MPI_Datatype, MPI_UNSIGNED, "ompi_mpi_unsigned"), DDPROVE_GUEST_U32},
        {GUEST_MPI_OBJECT(MPI_Datatype, MPI_LONG, "ompi_mpi_long"),
         sizeof(long) == 8 ? DDPROVE_GUEST_I64 : DDPROVE_GUEST_I32},
        {GUEST_MPI_OBJECT(MPI_Datatype, MPI_UNSIGNED_LONG, "ompi_mpi_unsigned_long"),
         sizeof(long) == 8 ? DDPROVE_GUEST_U64 : DDPROVE_GUEST_U32},
        {GUEST_MPI_OBJECT(MPI_Datatype, MPI_LONG_LONG, "ompi_mpi_long_long_int"),
         DDPROVE_GUEST_I64},
        {GUEST_MPI_OBJECT(MPI_Datatype, MPI_UNSIGNED_LONG_LONG, "ompi_mpi_unsigned_long_long"),
         DDPROVE_GUEST_U64},
        {GUEST_MPI_OBJECT(MPI_Datatype, MPI_SHORT, "ompi_mpi_short"), DDPROVE_GUEST_I16},
        {GUEST_MPI_OBJECT(MPI_Datatype, MPI_UNSIGNED_SHORT, "ompi_mpi_unsigned_short"),
         DDPROVE_GUEST_U16},
        {GUEST_MPI_OBJECT(MPI_Datatype, MPI_SIGNED_CHAR, "ompi_mpi_signed_char"), DDPROVE_GUEST_I8},
        {GUEST_MPI_OBJECT(MPI_Datatype, MPI_UNSIGNED_CHAR, "ompi_mpi_unsigned_char"),
         DDPROVE_GUEST_U8},
        {GUEST_MPI_OBJECT(MPI_Datatype, MPI_CHAR, "ompi_mpi_char"), DDPROVE_GUEST_I8},
        {GUEST_MPI_OBJECT(MPI_Datatype, MPI_INT8_T, "ompi_mpi_int8_t"), DDPROVE_GUEST_I8},
        {GUEST_MPI_OBJECT(MPI_Datatype, MPI_UINT8_T, "ompi_mpi_uint8_t"), DDPROVE_GUEST_U8},
        {GUEST_MPI_OBJECT(MPI_Datatype, MPI_INT16_T, "ompi_mpi_int16_t"), DDPROVE_GUEST_I16},
        {GUEST_MPI_OBJECT(MPI_Datatype, MPI_UINT16_T, "ompi_mpi_uint16_t"), DDPROVE_GUEST_U16},
        {GUEST_MPI_OBJECT(MPI_Datatype, MPI_INT32_T, "ompi_mpi_int32_t"), DDPROVE_GUEST_I32},
        {GUEST_MPI_OBJECT(MPI_Datatype, MPI_UINT32_T, "ompi_mpi_uint32_t"), DDPROVE_GUEST_U32},
        {GUEST_MPI_OBJECT(MPI_Datatype, MPI_INT64_T, "ompi_mpi_int64_t"), DDPROVE_GUEST_I64},
        {GUEST_MPI_OBJECT(MPI_Datatype, MPI_UINT64_T, "ompi_mpi_uint64_t"), DDPROVE_GUEST_U64},
    };
    int size_bytes = 1;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].type == type) {
            *out_elem_count = count;
            return rows[i].dtype;
        }
    }
    (void)guest_mpi()->Type_size(type, &size_bytes);
    *out_elem_count = count * (uint64_t)(size_bytes > 0 ? size_bytes : 1);
    return DDPROVE_GUEST_BYTES;
}
