/* The MPI adapter: shows an MPI program's collectives to ddprove, and for whom its messages wait.
 * It is preloaded, so its functions come before those of the program's MPI, which it finds by their
 * second names (PMPI_). It is linked with no MPI: it is loaded into launchers and shells too, which
 * have none. It goes by both names itself, as MPI's own wrappers for Fortran call either.
 *
 * Not seen: what messages carry, one-sided communication, files; of these, of communicators between
 * two groups and of those beyond 64, only that a rank waits in one.
 * tests/guest/mpi_functions.py holds the list of functions against what each mpi.h declares. */
#ifndef HARNESS_GUEST_MPI_ADAPTER_H
#define HARNESS_GUEST_MPI_ADAPTER_H

#include <stddef.h>

#include "harness/guest/ddprove_guest.h"
#include "harness/guest/mpi/abi.h"

#define GUEST_MPI_SEEN __attribute__((visibility("default")))

/* Behind a function's definition: its second name. */
#define GUEST_MPI_ALSO(name) \
    GUEST_MPI_SEEN extern __typeof__(MPI_##name) PMPI_##name __attribute__((alias("MPI_" #name)))

#define CALLED(name, parameters)
#define X(name, parameters)    GUEST_MPI_SEEN int MPI_##name parameters;
#define MPIX(name, parameters) GUEST_MPI_SEEN int MPIX_##name parameters;
#include "harness/guest/mpi/every.def"
#undef CALLED
#undef X
#undef MPIX

/* The program's MPI: its functions, and NULL for those that it has not, which then nobody calls. */
struct guest_mpi {
#define X(name, parameters)      int(*name) parameters;
#define CALLED(name, parameters) int(*name) parameters;
#define MPIX(name, parameters)   int(*extended_##name) parameters;
#include "harness/guest/mpi/every.def"
#undef X
#undef CALLED
#undef MPIX
};

/* What it calls things. */
struct guest_mpi_names {
    enum guest_mpi_family family;
#define X(name, ...) uint64_t name;
    GUEST_MPI_HANDLE_TABLE(X)
#undef X
#define X(name, ...) int name;
    GUEST_MPI_NUMBER_TABLE(X)
#undef X
};

/* What a function returns that this MPI has not: programs ask whether it is there, and with the
 * adapter it is. MPI_ERR_OTHER, or no error class at all. */
enum { GUEST_MPI_LACKING = 16 };

/* library.c */
/* Ends the process if it has no MPI, as then nobody could have called. */
const struct guest_mpi *guest_mpi(void);
const struct guest_mpi_names *guest_mpi_names(void);
/* The one of three that is this MPI's; of Open MPI, the address of its data of that name. */
uint64_t guest_mpi_handle(const char *symbol, uint64_t mpich, uint64_t standard);
/* It has functions with large counts. A program may ask that by whether they are there, and with
 * the adapter they are: then they are made with small ones. */
int guest_mpi_is_large(void);
/* A handle as it lies in memory, i-th of an array, or in a register. */
uint64_t guest_mpi_load(const void *handles, size_t i);
void guest_mpi_store(void *handles, size_t i, uint64_t handle);
uint64_t guest_mpi_clean(uint64_t handle);

/* objects.c */
/* enum ddprove_guest_redop of an operation. */
uint32_t guest_mpi_redop(uint64_t op);
/* enum ddprove_guest_dtype of a type; of one that is made of others, BYTES, and count elements of
 * it are *out_elem_count bytes. */
uint32_t guest_mpi_dtype(uint64_t type, uint64_t count, uint64_t *out_elem_count);
/* The operation, or type, that a fault asks for; else what the program asked for. */
uint64_t guest_mpi_op_of(uint32_t redop, uint64_t op);
uint64_t guest_mpi_type_of(uint32_t dtype, uint64_t type);

/* world.c */
/* The handle of a communicator; 0: it is not watched. */
uint32_t guest_mpi_comm(uint64_t comm);
/* That of all ranks; 0: nobody watches. */
uint32_t guest_mpi_world(void);
/* Who is whose neighbour in a communicator, as it was made. */
enum guest_mpi_topology {
    GUEST_MPI_NO_TOPOLOGY,
    GUEST_MPI_GRID,
    GUEST_MPI_GRAPH,
    GUEST_MPI_DIRECTED /* MPI_Dist_graph_create: who is sent to need send nothing back */
};
enum guest_mpi_topology guest_mpi_topology_of(uint64_t comm);
/* A communicator that was asked for is there: show it, as members of its parent know it by key. */
void guest_mpi_adopt(uint64_t comm, uint64_t key, const char *name,
                     enum guest_mpi_topology topology);

/* near.c */
/* So many neighbours does this rank send to, or receive from; 0: the communicator has no topology.
 */
int guest_mpi_near_count(uint64_t comm, int is_sent);
void guest_mpi_show_near(uint64_t comm, uint32_t handle, enum guest_mpi_topology topology);

/* about.c: what a call is about. Of variants in which each rank has counts of its own, only the
 * kind and the root are the same on all. */
struct ddprove_guest_call guest_mpi_about(uint64_t comm, uint32_t kind, int root);
struct ddprove_guest_call guest_mpi_about_op(uint64_t comm, uint32_t kind, uint64_t op);
/* Elements of one type. op: NULL, nothing is reduced. */
struct ddprove_guest_call guest_mpi_about_data(uint64_t comm, uint32_t kind, uint64_t count,
                                               uint64_t type, const uint64_t *op, int root,
                                               const void *in, void *out);
/* One part for each member, or one part, on either side. */
struct guest_mpi_side {
    const void *data;
    uint64_t count; /* of a part */
    uint64_t type;
};
struct ddprove_guest_call guest_mpi_about_parts(uint64_t comm, uint32_t kind, int root,
                                                struct guest_mpi_side in,
                                                struct guest_mpi_side out);
/* After its post: what the program is to pass on in place of its own arguments. part: of a call
 * about parts. */
const void *guest_mpi_in(const struct ddprove_guest_call *call, const void *in);
int64_t guest_mpi_count(const struct ddprove_guest_call *call, int64_t count);
int64_t guest_mpi_part(const struct ddprove_guest_call *call, int64_t count);
uint64_t guest_mpi_type(const struct ddprove_guest_call *call, uint64_t type);
uint64_t guest_mpi_op(const struct ddprove_guest_call *call, uint64_t op);

/* small.c: arguments for an MPI without large counts; nothing is changed for others. */
struct guest_mpi_small {
    void *arrays[4];
    int count;
};
/* The function with large counts; if MPI has none, the one with small counts takes their words. */
#define GUEST_MPI_LARGE_OR(name)   \
    (guest_mpi()->name##_c != NULL \
         ? guest_mpi()->name##_c   \
         : (__typeof__(guest_mpi()->name##_c))(void (*)(void))guest_mpi()->name)
/* A count that is too large is one that every MPI refuses. */
int64_t guest_mpi_small_one(int64_t count);
/* One number for each member, of 64 bits, as ints. They live until they are given back. */
void *guest_mpi_small_array(struct guest_mpi_small *small, const void *numbers, uint64_t comm);
/* Of a call in which the root's alone is read, and another rank's may be no array. */
void *guest_mpi_small_array_at(struct guest_mpi_small *small, const void *numbers, uint64_t comm,
                               int root);
/* One number for each neighbour that is sent to, or received from. */
void *guest_mpi_small_near(struct guest_mpi_small *small, const void *numbers, uint64_t comm,
                           int is_sent);
/* A number that the library writes, maybe as an int, which is its lower half. */
int64_t *guest_mpi_small_result(int64_t *number);
void guest_mpi_small_free(struct guest_mpi_small *small);

/* wait.c */
/* A call that waits: how often to make it. Of one in a communicator that is not watched only the
 * wait is shown. */
int guest_mpi_call_begin(struct ddprove_guest_call *call);
void guest_mpi_call_end(struct ddprove_guest_call *call, int result);
/* Show that the calling thread waits for one or two ranks of a communicator, as MPI names them; or
 * for anybody's. */
void guest_mpi_wait_begin(uint64_t comm, int peer, int other);
/* The same of a rank that looks whether a message has come, and takes none. */
void guest_mpi_probe_begin(uint64_t comm, int peer);
/* A message was asked for, and one was sent, with this result: ends when both are there. */
int guest_mpi_exchange_end(uint64_t comm, int to, int from, uint64_t requests[2], int result,
                           void *status);
/* It asks whether a rank's message has come, and it has not. */
void guest_mpi_poll(uint64_t comm, int peer, int other);
/* The same of one of several: what is waited for, where. */
enum { GUEST_MPI_WAITS_MAX = 8 };
struct guest_mpi_waits {
    int count; /* more than there is room for: it may be for anybody */
    struct {
        uint32_t comm; /* handle */
        uint64_t what; /* a call's number, or guest_wait_pack */
    } items[GUEST_MPI_WAITS_MAX];
    int places[GUEST_MPI_WAITS_MAX];
};
/* Of calls of one communicator the first one is kept, as whoever lacks it lacks the others. */
void guest_mpi_waits_add_call(struct guest_mpi_waits *waits, const struct ddprove_guest_call *call);
void guest_mpi_waits_add_message(struct guest_mpi_waits *waits, uint64_t comm, int peer, int other);
/* Somebody who is not known. */
void guest_mpi_waits_add_any(struct guest_mpi_waits *waits);
void guest_mpi_waits_begin(struct guest_mpi_waits *waits);
void guest_mpi_waits_end(struct guest_mpi_waits *waits);

/* request.c: what requests are about. */
/* A call was posted. */
void guest_mpi_request_of_call(const void *request, const struct ddprove_guest_call *call);
/* A call is ready to be started, again and again. */
void guest_mpi_request_of_starts(const void *request, const struct ddprove_guest_call *call,
                                 uint64_t comm);
/* A message is under way, or ready to be started; other: as peer, or whom it comes from. */
void guest_mpi_request_of_message(const void *request, uint64_t comm, int peer, int other,
                                  int is_started, int is_persistent);
/* What it was posted with is its, until it is done; with an error, nobody's. */
void guest_mpi_request_keep(const void *request, int result, struct guest_mpi_small *small);
/* A communicator is being made, in a call that is shown in its parent. */
void guest_mpi_request_of_comm(const void *request, const struct ddprove_guest_call *call,
                               const void *comm, uint64_t key, enum guest_mpi_topology topology);

#endif
