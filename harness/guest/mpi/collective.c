/* MPI's collectives in their forms: those that return when their part is done, those that return at
 * once, and those that are made ready to be started again and again. What a fault makes of a call
 * (once, not at all, twice) is in the count that its post returns. */
#include "harness/guest/mpi/adapter.h"

#define SIDE(side)  ((struct guest_mpi_side){side, (uint64_t)side##_count, side##_type})
#define UNPACK(...) __VA_ARGS__

/* A fault leaves the call out: then its request is one that is done. */
static int leave_out(struct ddprove_guest_call *call, void *request)
{
    guest_mpi_store(request, 0, guest_mpi_names()->REQUEST_NULL);
    ddprove_guest_call_done(call);
    return 0;
}

/* The function, under both of its names. */
#define BOTH(mpi, name, parameters)                                                \
    GUEST_MPI_SEEN int P##mpi##name parameters __attribute__((alias(#mpi #name))); \
    int mpi##name parameters

#define WAITING(name, parameters, arguments, about)             \
    BOTH(MPI_, name, parameters)                                \
    {                                                           \
        struct ddprove_guest_call call = about;                 \
        int result = 0;                                         \
        for (int n = guest_mpi_call_begin(&call); n > 0; n--) { \
            result = guest_mpi()->name arguments;               \
        }                                                       \
        guest_mpi_call_end(&call, result);                      \
        return result;                                          \
    }

#define RETURNING(name, parameters, arguments, about)              \
    BOTH(MPI_, name, (UNPACK parameters, void *request))           \
    {                                                              \
        struct ddprove_guest_call call = about;                    \
        const int times = ddprove_guest_call_post(&call);          \
        int result = 0;                                            \
        if (times == 0) {                                          \
            return leave_out(&call, request);                      \
        }                                                          \
        for (int n = times; n > 0; n--) {                          \
            result = guest_mpi()->name(UNPACK arguments, request); \
        }                                                          \
        if (result == 0) {                                         \
            guest_mpi_request_of_call(request, &call);             \
        }                                                          \
        return result;                                             \
    }

#define STARTED(mpi, name, function, parameters, arguments, about)                 \
    BOTH(mpi, name, (UNPACK parameters, GUEST_MPI_INFO info, void *request))       \
    {                                                                              \
        const struct ddprove_guest_call call = about;                              \
        const int result = guest_mpi()->function(UNPACK arguments, info, request); \
        if (result == 0) {                                                         \
            guest_mpi_request_of_starts(request, &call);                           \
        }                                                                          \
        return result;                                                             \
    }

#define COUNT int
#define PLACE int
#define COLLECTIVE(name, small, parameters, arguments, about)             \
    WAITING(name, parameters, arguments, about)                           \
    RETURNING(I##small, parameters, arguments, about)                     \
    STARTED(MPI_, name##_init, name##_init, parameters, arguments, about) \
    STARTED(MPIX_, name##_init, extended_##name##_init, parameters, arguments, about)
#include "harness/guest/mpi/collective.def"
#undef COUNT
#undef PLACE
#undef COLLECTIVE

#define LARGE
#define COUNT GUEST_MPI_COUNT
#define PLACE intptr_t
#define COLLECTIVE(name, small, parameters, arguments, about) \
    WAITING(name##_c, parameters, arguments, about)           \
    RETURNING(I##small##_c, parameters, arguments, about)     \
    STARTED(MPI_, name##_init_c, name##_init_c, parameters, arguments, about)
#include "harness/guest/mpi/collective.def"
