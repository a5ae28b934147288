/* The MPI adapter: shows an MPI program's collectives to ddprove. It is preloaded, so its MPI_
 * functions come before those of the program's MPI, which it finds by their second names (PMPI_).
 * It is compiled against that MPI's mpi.h and linked with nothing of it: it is loaded into
 * launchers and shells too, which have no MPI.
 *
 * Not seen: point-to-point messages, one-sided communication, files; calls from Fortran where MPI's
 * own wrappers go to PMPI_ at once (Open MPI); communicators between two groups. */
#ifndef HARNESS_GUEST_MPI_ADAPTER_H
#define HARNESS_GUEST_MPI_ADAPTER_H

#include <mpi.h>

#include "harness/guest/ddprove_guest.h"

/* The functions of MPI that the adapter calls. */
struct guest_mpi {
#define X(name) __typeof__(&PMPI_##name) name;
#include "harness/guest/mpi/function.def"
#undef X
};
/* The program's MPI. Ends the process if it has none, as then nobody could have called. */
const struct guest_mpi *guest_mpi(void);
/* The address of one of its data symbols; NULL: there is none of that name. */
void *guest_mpi_symbol(const char *name);

/* In Open MPI the names of its objects are addresses of data, which a library that is not linked
 * with it cannot use. */
#ifdef OPEN_MPI
#define GUEST_MPI_OBJECT(type, mpi_name, symbol) ((type)guest_mpi_symbol(symbol))
#else
#define GUEST_MPI_OBJECT(type, mpi_name, symbol) (mpi_name)
#endif

/* objects.c */
/* enum ddprove_guest_redop of an operation. */
uint32_t guest_mpi_redop(MPI_Op op);
/* enum ddprove_guest_dtype of a type; of one that is made of others, BYTES, and count elements of
 * it are *out_elem_count bytes. */
uint32_t guest_mpi_dtype(MPI_Datatype type, uint64_t count, uint64_t *out_elem_count);

/* comm.c */
/* The handle of a communicator; 0: it is not watched. */
uint32_t guest_mpi_comm(MPI_Comm comm);

/* The operation that a fault asks for; op: what the program asked for, if MPI has no name for it.
 */
MPI_Op guest_mpi_op_of(uint32_t redop, MPI_Op op);

/* blocking.c */
/* What a call is about. */
struct ddprove_guest_call guest_mpi_call(MPI_Comm comm, uint32_t kind, uint64_t count,
                                         MPI_Datatype type);
/* Where its data are, if they lie in memory as elements of a type that has a name. */
void guest_mpi_data(struct ddprove_guest_call *call, const void *in, void *out);
/* The same of a call in which the result lies on the root alone: there is none on other ranks. */
void guest_mpi_data_of_root(struct ddprove_guest_call *call, MPI_Comm comm, const void *in,
                            void *out);
/* A side of a call that takes or brings one part for each member, or one part. */
struct guest_mpi_side {
    const void *data;
    int count; /* of a part */
    MPI_Datatype type;
};
/* Where its data are, if both sides are elements of the same type that has a name and nothing is in
 * place. By the call's kind and root this rank has both sides or one. */
void guest_mpi_parts(struct ddprove_guest_call *call, MPI_Comm comm,
                     const struct guest_mpi_side *in, const struct guest_mpi_side *out);
/* After its beginning: what the program is to pass on in place of its own arguments. */
const void *guest_mpi_in(const struct ddprove_guest_call *call, const void *in);
int guest_mpi_count(const struct ddprove_guest_call *call, int count);
MPI_Op guest_mpi_op(const struct ddprove_guest_call *call, MPI_Op op);

#endif
