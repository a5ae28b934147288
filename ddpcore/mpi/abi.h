/* What libddp_mpi.so offers. MPI has headers but no stable ABI, so everything that depends on an
 * installation is in that module, compiled against its mpi.h; the program knows this table alone.
 * Both sides are built from this file; a change of it changes DDP_MPI_ABI. Internal. */
#ifndef DDPCORE_MPI_ABI_H
#define DDPCORE_MPI_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DDP_MPI_ABI    1u
#define DDP_MPI_SYMBOL "ddp_mpi_module"

enum ddp_mpi_kind { DDP_MPI_ALL_REDUCE, DDP_MPI_BROADCAST, DDP_MPI_ALL_GATHER, DDP_MPI_BARRIER };
enum ddp_mpi_type {
    DDP_MPI_F32,
    DDP_MPI_F64,
    DDP_MPI_I32,
    DDP_MPI_I64,
    DDP_MPI_U8,
    DDP_MPI_BITS16 /* moved, never added */
};
enum ddp_mpi_op { DDP_MPI_SUM, DDP_MPI_MAX, DDP_MPI_MIN, DDP_MPI_PROD };

/* An MPI_Comm or MPI_Request, which are pointers or numbers. */
struct ddp_mpi_handle {
    uint64_t bits;
};

struct ddp_mpi_call {
    enum ddp_mpi_kind kind;
    enum ddp_mpi_type type;
    enum ddp_mpi_op op;
    int root;
    int elem_count;
    const void *input; /* NULL: in place */
    void *output;
};

/* Results are MPI's: 0 is success, error_text explains the others. */
struct ddp_mpi_module {
    uint32_t abi; /* DDP_MPI_ABI; everything else is defined by it */
    /* MPI_Get_library_version, at any time. */
    void (*describe)(char *out, size_t size_bytes);
    void (*error_text)(int result, char *out, size_t size_bytes);
    /* Both block until every process has called; one thread calls both, once. After begin any
     * thread may call the others, one at a time. */
    int (*begin)(int *out_rank, int *out_size);
    int (*end)(void);
    /* A communicator of all processes: *comm is valid when *request is done, and is not moved until
     * then. */
    int (*comm_start)(struct ddp_mpi_handle *comm, struct ddp_mpi_handle *request);
    int (*start)(const struct ddp_mpi_handle *comm, const struct ddp_mpi_call *call,
                 struct ddp_mpi_handle *request);
    int (*test)(struct ddp_mpi_handle *request, bool *out_is_done);
    /* Let MPI work for other processes, while this one has no collective under way. */
    int (*progress)(const struct ddp_mpi_handle *comm);
};

typedef const struct ddp_mpi_module *ddp_mpi_module_fn(void);

#endif
