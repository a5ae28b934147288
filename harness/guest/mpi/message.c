/* Messages between two ranks. What they carry is not shown, only for whom a rank waits: one that
 * waits for a rank that does not come is not to blame. */
#include "harness/guest/call.h"
#include "harness/guest/mpi/adapter.h"

#define BOTH(name, parameters)                                                      \
    GUEST_MPI_SEEN int PMPI_##name parameters __attribute__((alias("MPI_" #name))); \
    int MPI_##name parameters
#define WAITING(name, function, parameters, arguments, peer, other) \
    BOTH(name, parameters)                                          \
    {                                                               \
        int result;                                                 \
        guest_mpi_wait_begin(comm, peer, other);                    \
        result = function arguments;                                \
        guest_wait_show(0, 0);                                      \
        return result;                                              \
    }
#define LOOKING(name, function, parameters, arguments) \
    BOTH(name, parameters)                             \
    {                                                  \
        int result;                                    \
        guest_mpi_probe_begin(comm, peer);             \
        result = function arguments;                   \
        guest_wait_show(0, 0);                         \
        return result;                                 \
    }
/* Both halves by themselves, as MPI itself makes them: which of the two ranks is late is seen. */
#define EXCHANGING(name, function, receive, send, parameters, arguments)                \
    BOTH(name, parameters)                                                              \
    {                                                                                   \
        uint64_t requests[2] = {0};                                                     \
        int result;                                                                     \
        if (guest_mpi_world() == 0 || to == from || to < 0 || from < 0) {               \
            guest_mpi_wait_begin(comm, to, from);                                       \
            result = function arguments;                                                \
            guest_wait_show(0, 0);                                                      \
            return result;                                                              \
        }                                                                               \
        result = receive(in, ONE(in_count), in_type, from, in_tag, comm, &requests[0]); \
        if (result == 0) {                                                              \
            result = send(data, ONE(count), type, to, tag, comm, &requests[1]);         \
            result = guest_mpi_exchange_end(comm, to, from, requests, result, status);  \
        }                                                                               \
        return result;                                                                  \
    }
/* Some are in MPI 4 alone, and with the adapter they are there. */
#define RETURNING(name, function, parameters, arguments, peer, other, is_started, is_persistent) \
    BOTH(name, parameters)                                                                       \
    {                                                                                            \
        int result = GUEST_MPI_LACKING;                                                          \
        if (function != NULL) {                                                                  \
            result = function arguments;                                                         \
        }                                                                                        \
        if (result == 0) {                                                                       \
            guest_mpi_request_of_message(request, comm, peer, other, is_started, is_persistent); \
        }                                                                                        \
        return result;                                                                           \
    }

/* MPI's own parameters: NOLINTBEGIN(readability-function-size) */
#define COUNT      int
#define ONE(count) count
#define MESSAGE(name, parameters, arguments, peer, other) \
    WAITING(name, guest_mpi()->name, parameters, arguments, peer, other)
#define EXCHANGE(name, parameters, arguments, peer, other)                                  \
    EXCHANGING(name, guest_mpi()->name, guest_mpi()->Irecv, guest_mpi()->Isend, parameters, \
               arguments)
#define PROBE(name, parameters, arguments) LOOKING(name, guest_mpi()->name, parameters, arguments)
#define MATCHED(name, parameters, arguments)
#define MATCHED_POSTED(name, parameters, arguments)
#define POSTED(name, parameters, arguments, peer, other) \
    RETURNING(name, guest_mpi()->name, parameters, arguments, peer, other, 1, 0)
#define READIED(name, parameters, arguments) \
    RETURNING(name, guest_mpi()->name, parameters, arguments, peer, peer, 0, 1)
#include "harness/guest/mpi/message.def"
#undef COUNT
#undef ONE
#undef MESSAGE
#undef EXCHANGE
#undef POSTED
#undef READIED
#undef PROBE

/* As in collective.c. */
#define LARGE
#define COUNT      GUEST_MPI_COUNT
#define ONE(count) guest_mpi_small_one(count)
#define MESSAGE(name, parameters, arguments, peer, other) \
    WAITING(name##_c, GUEST_MPI_LARGE_OR(name), parameters, arguments, peer, other)
#define EXCHANGE(name, parameters, arguments, peer, other)                    \
    EXCHANGING(name##_c, GUEST_MPI_LARGE_OR(name), GUEST_MPI_LARGE_OR(Irecv), \
               GUEST_MPI_LARGE_OR(Isend), parameters, arguments)
#define POSTED(name, parameters, arguments, peer, other) \
    RETURNING(name##_c, GUEST_MPI_LARGE_OR(name), parameters, arguments, peer, other, 1, 0)
#define READIED(name, parameters, arguments) \
    RETURNING(name##_c, GUEST_MPI_LARGE_OR(name), parameters, arguments, peer, peer, 0, 1)
#include "harness/guest/mpi/message.def"
/* NOLINTEND(readability-function-size) */
