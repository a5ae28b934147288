/* Purpose: give every communicator a handle, from MPI_Init on.
 * Idea: a communicator carries its handle as an attribute, so MPI itself forgets it when the
 * communicator is freed. Whoever makes a communicator from another one does so in the order in
 * which all its members do; which of the parts it belongs to is told by the rank that is first in
 * it. */
#include <stdint.h>

#include "harness/guest/mpi/adapter.h"

static int keyval;
static int has_keyval;

static int forget(MPI_Comm comm, int key, void *value, void *context)
{
    (void)comm;
    (void)key;
    (void)context;
    ddprove_guest_comm_free((uint32_t)(uintptr_t)value);
    return 0; /* MPI_SUCCESS */
}

static int do_not_copy(MPI_Comm comm, int key, void *context, void *value, void *out, int *flag)
{
    (void)comm;
    (void)key;
    (void)context;
    (void)value;
    (void)out;
    *flag = 0;
    return 0;
}

uint32_t guest_mpi_comm(MPI_Comm comm)
{
    void *value = NULL;
    int flag = 0;

    if (!has_keyval || guest_mpi()->Comm_get_attr(comm, keyval, &value, &flag) != 0 || flag == 0) {
        return 0;
    }
    return (uint32_t)(uintptr_t)value;
}

static void adopt(MPI_Comm comm, uint64_t key, const char *name)
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
        (void)mpi->Comm_set_attr(comm, keyval, (void *)(uintptr_t)handle);
    }
}

static void begin(void)
{
    const struct guest_mpi *mpi = guest_mpi();
    MPI_Comm world = GUEST_MPI_OBJECT(MPI_Comm, MPI_COMM_WORLD, "ompi_mpi_comm_world");
    int rank = 0;
    int size = 0;
    int level = MPI_THREAD_MULTIPLE;

    if (mpi->Comm_rank(world, &rank) != 0 || mpi->Comm_size(world, &size) != 0 ||
        ddprove_guest_attach(rank, size) == 0) {
        return;
    }
    if (mpi->Query_thread(&level) == 0 && level != MPI_THREAD_MULTIPLE) {
        ddprove_guest_one_thread();
    }
    has_keyval = mpi->Comm_create_keyval(do_not_copy, forget, &keyval, NULL) == 0;
    if (has_keyval) {
        adopt(world, 1, "MPI_COMM_WORLD");
    }
}

int MPI_Init(int *argc, char ***argv)
{
    const int result = guest_mpi()->Init(argc, argv);

    begin();
    return result;
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    const int result = guest_mpi()->Init_thread(argc, argv, required, provided);

    begin();
    return result;
}

int MPI_Finalize(void)
{
    ddprove_guest_detach();
    return guest_mpi()->Finalize();
}

/* The parent's rank of who is first in a communicator that was made from it. */
static uint64_t first_of(MPI_Comm parent, MPI_Comm child)
{
    const struct guest_mpi *mpi = guest_mpi();
    MPI_Group of_parent;
    MPI_Group of_child;
    int zero = 0;
    int first = 0;

    if (mpi->Comm_group(parent, &of_parent) != 0 || mpi->Comm_group(child, &of_child) != 0) {
        return 0;
    }
    (void)mpi->Group_translate_ranks(of_child, 1, &zero, of_parent, &first);
    (void)mpi->Group_free(&of_parent);
    (void)mpi->Group_free(&of_child);
    return (uint64_t)first;
}

/* All members of the parent have come here, also those that are in no part. */
static int made(int result, MPI_Comm parent, const MPI_Comm *child, const char *name)
{
    const uint32_t handle = guest_mpi_comm(parent);
    const int is_part =
        result == 0 && *child != GUEST_MPI_OBJECT(MPI_Comm, MPI_COMM_NULL, "ompi_mpi_comm_null");
    uint64_t key;

    if (handle != 0) {
        key = ddprove_guest_comm_child_key(handle, is_part ? first_of(parent, *child) : 0);
        if (is_part) {
            adopt(*child, key, name);
        }
    }
    return result;
}

int MPI_Comm_dup(MPI_Comm comm, MPI_Comm *out)
{
    return made(guest_mpi()->Comm_dup(comm, out), comm, out, "MPI_Comm_dup");
}

int MPI_Comm_dup_with_info(MPI_Comm comm, MPI_Info info, MPI_Comm *out)
{
    return made(guest_mpi()->Comm_dup_with_info(comm, info, out), comm, out, "MPI_Comm_dup");
}

int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm *out)
{
    return made(guest_mpi()->Comm_split(comm, color, key, out), comm, out, "MPI_Comm_split");
}

int MPI_Comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *out)
{
    return made(guest_mpi()->Comm_split_type(comm, type, key, info, out), comm, out,
                "MPI_Comm_split_type");
}

int MPI_Comm_create(MPI_Comm comm, MPI_Group group, MPI_Comm *out)
{
    return made(guest_mpi()->Comm_create(comm, group, out), comm, out, "MPI_Comm_create");
}

int MPI_Cart_create(MPI_Comm comm, int ndims, const int dims[], const int periods[], int reorder,
                    MPI_Comm *out)
{
    return made(guest_mpi()->Cart_create(comm, ndims, dims, periods, reorder, out), comm, out,
                "MPI_Cart_create");
}

int MPI_Cart_sub(MPI_Comm comm, const int remain[], MPI_Comm *out)
{
    return made(guest_mpi()->Cart_sub(comm, remain, out), comm, out, "MPI_Cart_sub");
}
