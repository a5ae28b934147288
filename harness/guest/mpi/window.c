/* What waits for ranks that are not known here: one-sided communication, files, the making of
 * communicators between groups. What is put and taken is not seen, only that a rank waits, for
 * whoever has not come there. So it is not taken for one in code of its own. */
#include "harness/guest/call.h"
#include "harness/guest/mpi/adapter.h"

/* Those that must come for others to go on count as messages do: who leaves one out is found by
 * that. MPI's own parameters: NOLINTBEGIN(readability-function-size) */
#define WAITING(mpi, name, function, show, parameters, arguments)                  \
    GUEST_MPI_SEEN int P##mpi##name parameters __attribute__((alias(#mpi #name))); \
    int mpi##name parameters                                                       \
    {                                                                              \
        int result = GUEST_MPI_LACKING;                                            \
        if (guest_mpi_world() != 0) {                                              \
            show(guest_mpi_world(), guest_wait_pack(-1, -1));                      \
        }                                                                          \
        if (function != NULL) {                                                    \
            result = function arguments;                                           \
        }                                                                          \
        guest_wait_show(0, 0);                                                     \
        return result;                                                             \
    }
#define WINDOW(name, parameters, arguments) \
    WAITING(MPI_, name, guest_mpi()->name, guest_wait_show, parameters, arguments)
#define SINGLE(name, parameters, arguments) \
    WAITING(MPI_, name, guest_mpi()->name, guest_wait_one_of, parameters, arguments)
#define EXTENDED(name, parameters, arguments) \
    WAITING(MPIX_, name, guest_mpi()->extended_##name, guest_wait_show, parameters, arguments)
#define COUNT          int
#define UNIT           int
#define ONE(count)     count
#define RESULT(number) number
#include "harness/guest/mpi/apart.def"
#include "harness/guest/mpi/window.def"
#undef WINDOW
#undef SINGLE
#undef EXTENDED
#undef COUNT
#undef UNIT
#undef ONE
#undef RESULT

/* As in collective.c. */
#define LARGE
#define WINDOW(name, parameters, arguments) \
    WAITING(MPI_, name##_c, GUEST_MPI_LARGE_OR(name), guest_wait_show, parameters, arguments)
#define SINGLE(name, parameters, arguments) \
    WAITING(MPI_, name##_c, GUEST_MPI_LARGE_OR(name), guest_wait_one_of, parameters, arguments)
#define COUNT          GUEST_MPI_COUNT
#define UNIT           GUEST_MPI_AINT
#define ONE(count)     guest_mpi_small_one(count)
#define RESULT(number) guest_mpi_small_result(number)
#include "harness/guest/mpi/apart.def"
#include "harness/guest/mpi/window.def"
/* NOLINTEND(readability-function-size) */
