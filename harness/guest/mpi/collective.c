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

#define WAITING(name, function, parameters, arguments, about)   \
    BOTH(MPI_, name, parameters)                                \
    {                                                           \
        struct ddprove_guest_call call = about;                 \
        struct guest_mpi_small small = {.count = 0};            \
        int result = 0;                                         \
        for (int n = guest_mpi_call_begin(&call); n > 0; n--) { \
            result = function arguments;                        \
            guest_mpi_small_free(&small);                       \
        }                                                       \
        guest_mpi_call_end(&call, result);                      \
        return result;                                          \
    }

#define RETURNING(name, function, parameters, arguments, about)            \
    BOTH(MPI_, name, (UNPACK parameters, void *request))                   \
    {                                                                      \
        struct ddprove_guest_call call = about;                            \
        struct guest_mpi_small small = {.count = 0};                       \
        const int times = ddprove_guest_call_post(&call);                  \
        int result = 0;                                                    \
        if (times == 0) {                                                  \
            return leave_out(&call, request);                              \
        }                                                                  \
        for (int n = times; n > 0; n--) {                                  \
            small.count = 0; /* those of the call before are left to it */ \
            result = function(UNPACK arguments, request);                  \
        }                                                                  \
        if (result == 0) {                                                 \
            guest_mpi_request_of_call(request, &call);                     \
        }                                                                  \
        guest_mpi_request_keep(request, result, &small);                   \
        return result;                                                     \
    }

#define STARTED(mpi, name, function, parameters, arguments, about)           \
    BOTH(mpi, name, (UNPACK parameters, GUEST_MPI_INFO info, void *request)) \
    {                                                                        \
        const struct ddprove_guest_call call = about;                        \
        struct guest_mpi_small small = {.count = 0};                         \
        int result = GUEST_MPI_LACKING;                                      \
        if (function != NULL) {                                              \
            result = function(UNPACK arguments, info, request);              \
        }                                                                    \
        if (result == 0) {                                                   \
            guest_mpi_request_of_starts(request, &call, comm);               \
        }                                                                    \
        guest_mpi_request_keep(request, result, &small);                     \
        return result;                                                       \
    }

/* MPI's own parameters: NOLINTBEGIN(readability-function-size) */
#define COUNT              int
#define PLACE              int
#define ONE(count)         count
#define ARRAY(numbers)     numbers
#define AT_ROOT(numbers)   numbers
#define TO_NEAR(numbers)   numbers
#define FROM_NEAR(numbers) numbers
#define COLLECTIVE(name, small_name, parameters, arguments, about)                     \
    WAITING(name, guest_mpi()->name, parameters, arguments, about)                     \
    RETURNING(I##small_name, guest_mpi()->I##small_name, parameters, arguments, about) \
    STARTED(MPI_, name##_init, guest_mpi()->name##_init, parameters, arguments, about) \
    STARTED(MPIX_, name##_init, guest_mpi()->extended_##name##_init, parameters, arguments, about)
#include "harness/guest/mpi/collective.def"
#undef COUNT
#undef PLACE
#undef ONE
#undef ARRAY
#undef AT_ROOT
#undef TO_NEAR
#undef FROM_NEAR
#undef COLLECTIVE

/* Without large counts, the function with small ones takes their words. */
#define LARGE_OR(small_name, name)                                \
    (guest_mpi()->name != NULL || guest_mpi()->small_name == NULL \
         ? guest_mpi()->name                                      \
         : (__typeof__(guest_mpi()->name))(void (*)(void))guest_mpi()->small_name)
#define LARGE
#define COUNT              GUEST_MPI_COUNT
#define PLACE              intptr_t
#define ONE(count)         guest_mpi_small_one(count)
#define ARRAY(numbers)     guest_mpi_small_array(&small, numbers, comm)
#define AT_ROOT(numbers)   guest_mpi_small_array_at(&small, numbers, comm, root)
#define TO_NEAR(numbers)   guest_mpi_small_near(&small, numbers, comm, 1)
#define FROM_NEAR(numbers) guest_mpi_small_near(&small, numbers, comm, 0)
#define COLLECTIVE(name, small_name, parameters, arguments, about)                       \
    WAITING(name##_c, LARGE_OR(name, name##_c), parameters, arguments, about)            \
    RETURNING(I##small_name##_c, LARGE_OR(I##small_name, I##small_name##_c), parameters, \
              arguments, about)                                                          \
    STARTED(MPI_, name##_init_c, LARGE_OR(name##_init, name##_init_c), parameters, arguments, about)
#include "harness/guest/mpi/collective.def"
/* NOLINTEND(readability-function-size) */
