/* Purpose: give every communicator a handle, from MPI_Init on.
 * Idea: a communicator carries its handle as an attribute, so MPI itself forgets it when the
 * communicator is freed. */
#include "harness/guest/mpi/adapter.h"

static int keyval;
static int has_keyval;
static uint32_t world_handle;
static int has_end; /* the rank's end will be told */

static int forget(uint64_t comm, int key, void *value, void *context)
{
    (void)comm;
    (void)key;
    (void)context;
    ddprove_guest_comm_free((uint32_t)(uintptr_t)value);
    return 0; /* MPI_SUCCESS */
}

static int do_not_copy(uint64_t comm, int key, void *context, void *value, void *out, int *flag)
{
    (void)comm;
    (void)key;
    (void)context;
    (void)value;
    (void)out;
    *flag = 0;
    return 0;
}

/* Its handle, and above that its topology; 0: it is not watched. */
static uint64_t value_of(uint64_t comm)
{
    void *value = NULL;
    int flag = 0;

    /* 0 is no communicator, and what a request in one has that is not watched: MPI refuses it. */
    if (!has_keyval || comm == 0 || guest_mpi()->Comm_get_attr(comm, keyval, &value, &flag) != 0 ||
        flag == 0) {
        return 0;
    }
    return (uint64_t)(uintptr_t)value;
}

uint32_t guest_mpi_comm(uint64_t comm)
{
    return (uint32_t)value_of(comm);
}

enum guest_mpi_topology guest_mpi_topology_of(uint64_t comm)
{
    return (enum guest_mpi_topology)(value_of(comm) >> 32);
}

uint32_t guest_mpi_world(void)
{
    return world_handle;
}

void guest_mpi_adopt(uint64_t comm, uint64_t key, const char *name,
                     enum guest_mpi_topology topology)
{
    const struct guest_mpi *mpi = guest_mpi();
    int rank = 0;
    int size = 0;
    int is_inter = 0;
    uint32_t handle;

    if (mpi->Comm_test_inter(comm, &is_inter) != 0 || is_inter != 0 ||
        mpi->Comm_rank(comm, &rank) != 0 || mpi->Comm_size(comm, &size) != 0) {
        return;
    }
    handle = ddprove_guest_comm_create(key, (uint32_t)rank, (uint32_t)size, name);
    if (handle != 0) {
        (void)mpi->Comm_set_attr(comm, keyval,
                                 (void *)(uintptr_t)(handle | (uint64_t)topology << 32));
        guest_mpi_show_near(comm, handle, topology);
    }
}

/* At its end MPI first gives back what hangs on MPI_COMM_SELF, the last one hung there first: what
 * the program has hung there may still make calls, this has been there before. */
static int finish(uint64_t comm, int key, void *value, void *context)
{
    (void)comm;
    (void)key;
    (void)value;
    (void)context;
    has_end = 0;
    ddprove_guest_detach();
    return 0;
}

static void hang_end(void)
{
    const struct guest_mpi *mpi = guest_mpi();
    int end_key = 0;

    has_end = mpi->Comm_create_keyval(do_not_copy, finish, &end_key, NULL) == 0 &&
              mpi->Comm_set_attr(guest_mpi_names()->COMM_SELF, end_key, NULL) == 0;
}

/* A process that others have started has ranks of its own, which are not the job's. */
static int is_started_by_ranks(void)
{
    const uint64_t none = guest_mpi_names()->COMM_NULL;
    uint64_t parent = none;

    return guest_mpi()->Comm_get_parent(&parent) == 0 && guest_mpi_load(&parent, 0) != none;
}

static void begin(void)
{
    const struct guest_mpi *mpi = guest_mpi();
    const struct guest_mpi_names *names = guest_mpi_names();
    int rank = 0;
    int size = 0;
    int level = names->THREAD_MULTIPLE;

    if (is_started_by_ranks() || mpi->Comm_rank(names->COMM_WORLD, &rank) != 0 ||
        mpi->Comm_size(names->COMM_WORLD, &size) != 0 || ddprove_guest_attach(rank, size) == 0) {
        return;
    }
    if (mpi->Query_thread(&level) == 0 && level != names->THREAD_MULTIPLE) {
        ddprove_guest_one_thread();
    }
    has_keyval = mpi->Comm_create_keyval(do_not_copy, forget, &keyval, NULL) == 0;
    if (has_keyval) {
        guest_mpi_adopt(names->COMM_WORLD, 1, "MPI_COMM_WORLD", GUEST_MPI_NO_TOPOLOGY);
        world_handle = guest_mpi_comm(names->COMM_WORLD);
    }
    hang_end();
}

int MPI_Init(int *argc, char ***argv)
{
    const int result = guest_mpi()->Init(argc, argv);

    begin();
    return result;
}
GUEST_MPI_ALSO(Init);

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    const int result = guest_mpi()->Init_thread(argc, argv, required, provided);

    begin();
    return result;
}
GUEST_MPI_ALSO(Init_thread);

int MPI_Finalize(void)
{
    if (!has_end) {
        ddprove_guest_detach();
    }
    return guest_mpi()->Finalize();
}
GUEST_MPI_ALSO(Finalize);
