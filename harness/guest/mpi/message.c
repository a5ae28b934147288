/* Messages between two ranks. What they carry is not shown, only for whom a rank waits: one that
 * waits for a rank that does not come is not to blame. */
#include "harness/guest/call.h"
#include "harness/guest/mpi/adapter.h"

#define BOTH(name, parameters)                                                      \
    GUEST_MPI_SEEN int PMPI_##name parameters __attribute__((alias("MPI_" #name))); \
    int MPI_##name parameters
#define WAITING(name, parameters, arguments, peer, other) \
    BOTH(name, parameters)                                \
    {                                                     \
        int result;                                       \
        guest_mpi_wait_begin(comm, peer, other);          \
        result = guest_mpi()->name arguments;             \
        guest_wait_show(0, 0);                            \
        return result;                                    \
    }
#define RETURNING(name, parameters, arguments, is_started, is_persistent)                 \
    BOTH(name, parameters)                                                                \
    {                                                                                     \
        const int result = guest_mpi()->name arguments;                                   \
        if (result == 0) {                                                                \
            guest_mpi_request_of_message(request, comm, peer, is_started, is_persistent); \
        }                                                                                 \
        return result;                                                                    \
    }

#define COUNT int
#define MESSAGE(name, parameters, arguments, peer, other) \
    WAITING(name, parameters, arguments, peer, other)
#define POSTED(name, parameters, arguments)  RETURNING(name, parameters, arguments, 1, 0)
#define READIED(name, parameters, arguments) RETURNING(name, parameters, arguments, 0, 1)
#include "harness/guest/mpi/message.def"
#undef COUNT
#undef MESSAGE
#undef POSTED
#undef READIED

#define LARGE
#define COUNT GUEST_MPI_COUNT
#define MESSAGE(name, parameters, arguments, peer, other) \
    WAITING(name##_c, parameters, arguments, peer, other)
#define POSTED(name, parameters, arguments)  RETURNING(name##_c, parameters, arguments, 1, 0)
#define READIED(name, parameters, arguments) RETURNING(name##_c, parameters, arguments, 0, 1)
#include "harness/guest/mpi/message.def"
