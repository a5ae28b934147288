/* One-sided communication: what is put and taken is not seen, only that a rank waits in a window,
 * for whoever has not come there. So it is not taken for one in code of its own. */
#include "harness/guest/call.h"
#include "harness/guest/mpi/adapter.h"

/* MPI's own parameters: NOLINTBEGIN(readability-function-size) */
#define WINDOW(name, parameters, arguments)                                         \
    GUEST_MPI_SEEN int PMPI_##name parameters __attribute__((alias("MPI_" #name))); \
    int MPI_##name parameters                                                       \
    {                                                                               \
        int result;                                                                 \
        if (guest_mpi_world() != 0) {                                               \
            guest_wait_show(guest_mpi_world(), guest_wait_pack(-1, -1));            \
        }                                                                           \
        result = guest_mpi()->name arguments;                                       \
        guest_wait_show(0, 0);                                                      \
        return result;                                                              \
    }
#include "harness/guest/mpi/window.def"
#undef WINDOW
/* NOLINTEND(readability-function-size) */
