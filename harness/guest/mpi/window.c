/* What waits for ranks that are not known here: one-sided communication, files, the making of
 * communicators between groups. What is put and taken is not seen, only that a rank waits, for
 * whoever has not come there. So it is not taken for one in code of its own. */
#include "harness/guest/call.h"
#include "harness/guest/mpi/adapter.h"

/* MPI's own parameters: NOLINTBEGIN(readability-function-size) */
#define WAITING(name, function, parameters, arguments)                              \
    GUEST_MPI_SEEN int PMPI_##name parameters __attribute__((alias("MPI_" #name))); \
    int MPI_##name parameters                                                       \
    {                                                                               \
        int result = GUEST_MPI_LACKING;                                             \
        if (guest_mpi_world() != 0) {                                               \
            guest_wait_show(guest_mpi_world(), guest_wait_pack(-1, -1));            \
        }                                                                           \
        if (function != NULL) {                                                     \
            result = function arguments;                                            \
        }                                                                           \
        guest_wait_show(0, 0);                                                      \
        return result;                                                              \
    }
#define WINDOW(name, parameters, arguments) WAITING(name, guest_mpi()->name, parameters, arguments)
#define COUNT                               int
#define ONE(count)                          count
#include "harness/guest/mpi/apart.def"
#include "harness/guest/mpi/window.def"
#undef WINDOW
#undef COUNT
#undef ONE

/* As in collective.c. */
#define LARGE_OR(name)             \
    (guest_mpi()->name##_c != NULL \
         ? guest_mpi()->name##_c   \
         : (__typeof__(guest_mpi()->name##_c))(void (*)(void))guest_mpi()->name)
#define LARGE
#define WINDOW(name, parameters, arguments) WAITING(name##_c, LARGE_OR(name), parameters, arguments)
#define COUNT                               GUEST_MPI_COUNT
#define ONE(count)                          guest_mpi_small_one(count)
#include "harness/guest/mpi/apart.def"
/* NOLINTEND(readability-function-size) */
