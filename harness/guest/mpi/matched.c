/* Messages that are found first and received later, by a handle of their own, which is followed as
 * a request is: who receives one may still wait for its sender, if it is long. It is one of a
 * rank's messages when it is received. */
#include <string.h>

#include "harness/guest/call.h"
#include "harness/guest/mpi/pending.h"

/* Found: whose it is says the status, which a program need not ask for (MPI_STATUS_IGNORE is 0 or
 * 1). */
struct found {
    void *status;
    uint64_t own[16]; /* as large as any MPI's */
};

static void *status_of(struct found *found, void *status)
{
    found->status = (uintptr_t)status <= 1 ? found->own : status;
    return found->status;
}

static void follow(const struct found *found, const void *message, uint64_t comm)
{
    const size_t at =
        (size_t)guest_mpi_names()->STATUS_ERROR_AT - (size_t)GUEST_MPI_SOURCE_BEFORE_ERROR;
    int source;

    memcpy(&source, (const char *)found->status + at, sizeof source);
    guest_mpi_request_of_message(message, comm, source, source, 1, 0);
}

int MPI_Mprobe(int peer, int tag, uint64_t comm, void *message, void *status)
{
    struct found found;
    int result;

    guest_mpi_probe_begin(comm, peer);
    result = guest_mpi()->Mprobe(peer, tag, comm, message, status_of(&found, status));
    guest_wait_show(0, 0);
    if (result == 0) {
        follow(&found, message, comm);
    }
    return result;
}
GUEST_MPI_ALSO(Mprobe);

int MPI_Improbe(int peer, int tag, uint64_t comm, int *flag, void *message, void *status)
{
    struct found found;
    const int result =
        guest_mpi()->Improbe(peer, tag, comm, flag, message, status_of(&found, status));

    if (result == 0 && *flag != 0) {
        follow(&found, message, comm);
    }
    if (result != 0 || *flag != 0) {
        guest_poll_over();
    } else {
        guest_mpi_poll(comm, peer, peer);
    }
    return result;
}
GUEST_MPI_ALSO(Improbe);

/* MPI may give the handle to another message before this one is received. Of one that is not
 * known, as it was found before anybody watched, it is not seen whose it is. */
static struct guest_mpi_pending taken(const void *message)
{
    const uint64_t handle = guest_mpi_load(message, 0);
    struct guest_mpi_pending pending;

    if (guest_mpi_pending_of(handle, &pending)) {
        guest_mpi_pending_forget(handle);
    } else {
        pending = (struct guest_mpi_pending){.comm = 0};
    }
    return pending;
}

#define BOTH(name, parameters)                                                      \
    GUEST_MPI_SEEN int PMPI_##name parameters __attribute__((alias("MPI_" #name))); \
    int MPI_##name parameters
#define RECEIVING(name, function, parameters, arguments)                 \
    BOTH(name, parameters)                                               \
    {                                                                    \
        const struct guest_mpi_pending pending = taken(message);         \
        int result;                                                      \
        guest_mpi_wait_begin(pending.comm, pending.peer, pending.other); \
        result = function arguments;                                     \
        guest_wait_show(0, 0);                                           \
        return result;                                                   \
    }
#define RETURNING(name, function, parameters, arguments)                                        \
    BOTH(name, parameters)                                                                      \
    {                                                                                           \
        const struct guest_mpi_pending pending = taken(message);                                \
        const int result = function arguments;                                                  \
        if (result == 0) {                                                                      \
            guest_mpi_request_of_message(request, pending.comm, pending.peer, pending.other, 1, \
                                         0);                                                    \
        }                                                                                       \
        return result;                                                                          \
    }
#define PROBE(...)
#define MESSAGE(...)
#define EXCHANGE(...)
#define POSTED(...)
#define READIED(...)
#define COUNT      int
#define ONE(count) count
#define MATCHED(name, parameters, arguments) \
    RECEIVING(name, guest_mpi()->name, parameters, arguments)
#define MATCHED_POSTED(name, parameters, arguments) \
    RETURNING(name, guest_mpi()->name, parameters, arguments)
#include "harness/guest/mpi/message.def"
#undef COUNT
#undef ONE
#undef MATCHED
#undef MATCHED_POSTED

/* As in collective.c. */
#define LARGE
#define COUNT      GUEST_MPI_COUNT
#define ONE(count) guest_mpi_small_one(count)
#define MATCHED(name, parameters, arguments) \
    RECEIVING(name##_c, GUEST_MPI_LARGE_OR(name), parameters, arguments)
#define MATCHED_POSTED(name, parameters, arguments) \
    RETURNING(name##_c, GUEST_MPI_LARGE_OR(name), parameters, arguments)
#include "harness/guest/mpi/message.def"
