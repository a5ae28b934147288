/* Holds what the MPI adapter declares for itself against the mpi.h that this is compiled with: with
 * its types the declarations of function.def, collective.def, message.def, window.def and apart.def
 * repeat its own, or do not compile; what things are called is compared when it runs. It needs no
 * MPI_Init. */
#include <dlfcn.h>
#include <mpi.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define GUEST_MPI_COMM    MPI_Comm
#define GUEST_MPI_TYPE    MPI_Datatype
#define GUEST_MPI_OP      MPI_Op
#define GUEST_MPI_GROUP   MPI_Group
#define GUEST_MPI_INFO    MPI_Info
#define GUEST_MPI_REQUEST MPI_Request
#define GUEST_MPI_COUNT   MPI_Count
#define GUEST_MPI_AINT    MPI_Aint
#define GUEST_MPI_WIN     MPI_Win
#define GUEST_MPI_FILE    MPI_File
#define GUEST_MPI_OFFSET  MPI_Offset
#define GUEST_MPI_HANDLER MPI_Errhandler
#ifdef MPI_SESSION_NULL
#define GUEST_MPI_SESSION  MPI_Session
#define GUEST_MPI_SESSIONS MPI_Session
#else
#define GUEST_MPI_SESSION  uint64_t
#define GUEST_MPI_SESSIONS void
#endif
#define GUEST_MPI_COMMS    MPI_Comm
#define GUEST_MPI_TYPES    MPI_Datatype
#define GUEST_MPI_GROUPS   MPI_Group
#define GUEST_MPI_REQUESTS MPI_Request
#define GUEST_MPI_MESSAGES MPI_Message
#define GUEST_MPI_STATUSES MPI_Status
#define GUEST_MPI_WINS     MPI_Win
#define GUEST_MPI_FILES    MPI_File
#define GUEST_MPI_INFOS    MPI_Info
#define GUEST_MPI_COPY     MPI_Comm_copy_attr_function *
#define GUEST_MPI_DELETE   MPI_Comm_delete_attr_function *
#include "harness/guest/mpi/abi.h"

#define X(name, parameters)      extern int MPI_##name parameters;
#define CALLED(name, parameters) extern int MPI_##name parameters;
#define MPIX(name, parameters)
#include "harness/guest/mpi/every.def"
#undef X
#undef CALLED
#undef MPIX

#ifdef OPEN_MPI
static const enum guest_mpi_family family = GUEST_MPI_OPEN;
#else
static const enum guest_mpi_family family =
    sizeof(MPI_Comm) == sizeof(int) ? GUEST_MPI_MPICH : GUEST_MPI_STANDARD;
#endif

static int differences;

static void compare(const char *name, uint64_t ours, uint64_t theirs)
{
    if (ours != theirs) {
        (void)printf("%s is %#llx, not %#llx\n", name, (unsigned long long)theirs,
                     (unsigned long long)ours);
        differences++;
    }
}

static uint64_t handle_of(const char *symbol, uint64_t mpich, uint64_t standard)
{
    return family == GUEST_MPI_OPEN    ? (uint64_t)(uintptr_t)dlsym(RTLD_DEFAULT, symbol)
           : family == GUEST_MPI_MPICH ? mpich
                                       : standard;
}

int main(void)
{
    enum {
        MPI_HANDLE_BYTES = sizeof(MPI_Comm),
        MPI_STATUS_ERROR_AT = offsetof(MPI_Status, MPI_ERROR)
    };

#define X(name, symbol, mpich, standard, ...)                           \
    compare("MPI_" #name, handle_of(symbol, mpich, standard),           \
            family == GUEST_MPI_MPICH ? (uint32_t)(uintptr_t)MPI_##name \
                                      : (uint64_t)(uintptr_t)MPI_##name);
    GUEST_MPI_HANDLE_TABLE(X)
    GUEST_MPI_OP_TABLE(X)
    GUEST_MPI_TYPE_TABLE(X)
#undef X
#define X(name, open, mpich, standard)                                                      \
    compare("MPI_" #name,                                                                   \
            (uint64_t)((const int[GUEST_MPI_FAMILY_COUNT]){open, mpich, standard})[family], \
            (uint64_t)(intptr_t)MPI_##name);
    GUEST_MPI_NUMBER_TABLE(X)
#undef X
    compare("a status's source is so far before its error", GUEST_MPI_SOURCE_BEFORE_ERROR,
            offsetof(MPI_Status, MPI_ERROR) - offsetof(MPI_Status, MPI_SOURCE));
    compare("sizeof(MPI_Message)", sizeof(MPI_Message), sizeof(MPI_Comm));
    compare("MPI_STATUS_IGNORE is not 0 or 1", (uintptr_t)MPI_STATUS_IGNORE > 1, 0);
    compare("MPI_UNDEFINED", (uint64_t)GUEST_MPI_UNDEFINED, (uint64_t)MPI_UNDEFINED);
    compare("sizeof(MPI_Request)", sizeof(MPI_Request), sizeof(MPI_Comm));
    compare("sizeof(MPI_Count)", sizeof(MPI_Count), sizeof(int64_t));
    compare("a status is longer than 128 bytes", sizeof(MPI_Status) > 128, 0);
    (void)printf("%d differences\n", differences);
    return differences != 0;
}
