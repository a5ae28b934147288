/* Communicators that are made from others. Whoever makes one does so in the order in which all
 * members of the other one do, in a call that is shown as one of that one's; which of the parts it
 * belongs to is told by the rank that is first in it. Where only the members of the new one come,
 * its key follows from who they are. */
#include <pthread.h>
#include <stdlib.h>

#include "harness/guest/call.h"
#include "harness/guest/mpi/adapter.h"

/* --- made by all members of another one
 * -----------------------------------------------------------------
 */

/* The parent's rank of who is first in a communicator that was made from it. */
static uint64_t first_of(uint64_t parent, uint64_t child)
{
    const struct guest_mpi *mpi = guest_mpi();
    uint64_t of_parent = 0;
    uint64_t of_child = 0;
    const int zero = 0;
    int first = 0;

    if (mpi->Comm_group(parent, &of_parent) != 0 || mpi->Comm_group(child, &of_child) != 0) {
        return 0;
    }
    (void)mpi->Group_translate_ranks(of_child, 1, &zero, of_parent, &first);
    (void)mpi->Group_free(&of_parent);
    (void)mpi->Group_free(&of_child);
    return (uint64_t)first;
}

static struct ddprove_guest_call making(uint64_t parent)
{
    struct ddprove_guest_call call = guest_mpi_about(parent, DDPROVE_GUEST_COMM_CREATE, 0);

    guest_call_show(&call);
    return call;
}

static void making_begin(const struct ddprove_guest_call *call)
{
    if (call->comm != 0) {
        ddprove_guest_call_wait_begin(call);
    } else {
        guest_wait_show(guest_mpi_world(), guest_wait_pack(-1, -1));
    }
}

/* All members of the parent have come here, also those that are in no part. */
static int made(int result, struct ddprove_guest_call *call, uint64_t parent, const void *child,
                const char *name, enum guest_mpi_topology topology)
{
    const uint64_t made_comm = result == 0 ? guest_mpi_load(child, 0) : 0;
    const int is_part = result == 0 && made_comm != guest_mpi_names()->COMM_NULL;
    uint64_t key;

    guest_wait_show(0, 0);
    ddprove_guest_call_done(call);
    if (call->comm != 0) {
        key = ddprove_guest_comm_child_key(call->comm, is_part ? first_of(parent, made_comm) : 0);
        if (is_part) {
            guest_mpi_adopt(made_comm, key, name, topology);
        }
    }
    return result;
}

/* A function that makes *out from comm. */
#define MAKE(name, topology, function_call)                                            \
    do {                                                                               \
        struct ddprove_guest_call call = making(comm);                                 \
        making_begin(&call);                                                           \
        return made(guest_mpi()->function_call, &call, comm, out, (name), (topology)); \
    } while (0)

int MPI_Comm_dup(uint64_t comm, void *out)
{
    MAKE("MPI_Comm_dup", guest_mpi_topology_of(comm), Comm_dup(comm, out));
}
GUEST_MPI_ALSO(Comm_dup);

int MPI_Comm_dup_with_info(uint64_t comm, uint64_t info, void *out)
{
    MAKE("MPI_Comm_dup", guest_mpi_topology_of(comm), Comm_dup_with_info(comm, info, out));
}
GUEST_MPI_ALSO(Comm_dup_with_info);

int MPI_Comm_split(uint64_t comm, int color, int key, void *out)
{
    MAKE("MPI_Comm_split", GUEST_MPI_NO_TOPOLOGY, Comm_split(comm, color, key, out));
}
GUEST_MPI_ALSO(Comm_split);

int MPI_Comm_split_type(uint64_t comm, int type, int key, uint64_t info, void *out)
{
    MAKE("MPI_Comm_split_type", GUEST_MPI_NO_TOPOLOGY, Comm_split_type(comm, type, key, info, out));
}
GUEST_MPI_ALSO(Comm_split_type);

int MPI_Comm_create(uint64_t comm, uint64_t group, void *out)
{
    MAKE("MPI_Comm_create", GUEST_MPI_NO_TOPOLOGY, Comm_create(comm, group, out));
}
GUEST_MPI_ALSO(Comm_create);

int MPI_Cart_create(uint64_t comm, int ndims, const int dims[], const int periods[], int reorder,
                    void *out)
{
    MAKE("MPI_Cart_create", GUEST_MPI_GRID, Cart_create(comm, ndims, dims, periods, reorder, out));
}
GUEST_MPI_ALSO(Cart_create);

int MPI_Cart_sub(uint64_t comm, const int remain[], void *out)
{
    MAKE("MPI_Cart_sub", GUEST_MPI_GRID, Cart_sub(comm, remain, out));
}
GUEST_MPI_ALSO(Cart_sub);

int MPI_Graph_create(uint64_t comm, int count, const int index[], const int edges[], int reorder,
                     void *out)
{
    MAKE("MPI_Graph_create", GUEST_MPI_GRAPH,
         Graph_create(comm, count, index, edges, reorder, out));
}
GUEST_MPI_ALSO(Graph_create);

/* MPI's own parameters: NOLINTNEXTLINE(readability-function-size) */
int MPI_Dist_graph_create(uint64_t comm, int count, const int sources[], const int degrees[],
                          const int destinations[], const int weights[], uint64_t info, int reorder,
                          void *out)
{
    MAKE("MPI_Dist_graph_create", GUEST_MPI_DIRECTED,
         Dist_graph_create(comm, count, sources, degrees, destinations, weights, info, reorder,
                           out));
}
GUEST_MPI_ALSO(Dist_graph_create);

/* MPI's own parameters: NOLINTNEXTLINE(readability-function-size) */
int MPI_Dist_graph_create_adjacent(uint64_t comm, int in_degree, const int sources[],
                                   const int in_weights[], int out_degree, const int destinations[],
                                   const int out_weights[], uint64_t info, int reorder, void *out)
{
    MAKE("MPI_Dist_graph_create", GUEST_MPI_DIRECTED,
         Dist_graph_create_adjacent(comm, in_degree, sources, in_weights, out_degree, destinations,
                                    out_weights, info, reorder, out));
}
GUEST_MPI_ALSO(Dist_graph_create_adjacent);

/* The new one is there when the request is done; its key is counted now, as on all members. */
static int made_later(int result, const struct ddprove_guest_call *call, uint64_t parent,
                      const void *out, const void *request)
{
    const uint64_t key = call->comm != 0 ? ddprove_guest_comm_child_key(call->comm, 0) : 0;

    if (result == 0) {
        guest_mpi_request_of_comm(request, call, out, key, guest_mpi_topology_of(parent));
    }
    return result;
}

int MPI_Comm_idup(uint64_t comm, void *out, void *request)
{
    const struct ddprove_guest_call call = making(comm);

    return made_later(guest_mpi()->Comm_idup(comm, out, request), &call, comm, out, request);
}
GUEST_MPI_ALSO(Comm_idup);

int MPI_Comm_idup_with_info(uint64_t comm, uint64_t info, void *out, void *request)
{
    const struct ddprove_guest_call call = making(comm);

    return guest_mpi()->Comm_idup_with_info == NULL
               ? made_later(GUEST_MPI_LACKING, &call, comm, out, request)
               : made_later(guest_mpi()->Comm_idup_with_info(comm, info, out, request), &call, comm,
                            out, request);
}
GUEST_MPI_ALSO(Comm_idup_with_info);

/* --- made by its members alone
 * --------------------------------------------------------------------------
 */

/* How often communicators of the same members were made, by a number that follows from who they
 * are; all members have made the same ones. 0: there is no memory. */
static uint64_t count_of(uint64_t members)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct known {
        uint64_t members, count;
    } * known;
    static size_t known_count, capacity;
    uint64_t count = 0;
    size_t i = 0;

    (void)pthread_mutex_lock(&lock);
    while (i < known_count && known[i].members != members) {
        i++;
    }
    if (i == capacity) {
        struct known *grown = realloc(known, (capacity + 64) * 2 * sizeof *known);

        known = grown != NULL ? grown : known;
        capacity = grown != NULL ? (capacity + 64) * 2 : capacity;
    }
    if (i < capacity && i == known_count) {
        known[known_count++] = (struct known){.members = members};
    }
    if (i < capacity) {
        count = ++known[i].count;
    }
    (void)pthread_mutex_unlock(&lock);
    return count;
}

/* Follows from the ranks in MPI_COMM_WORLD of a group's members; 0: one has none, or there is no
 * memory. */
static uint64_t members_of(uint64_t group, uint64_t world, int size)
{
    int *ranks = malloc(2 * (size_t)size * sizeof *ranks);
    uint64_t members = 1;

    for (int i = 0; ranks != NULL && i < size; i++) {
        ranks[i] = i;
    }
    if (ranks == NULL ||
        guest_mpi()->Group_translate_ranks(group, size, ranks, world, ranks + size) != 0) {
        members = 0;
    }
    for (int i = 0; members != 0 && i < size; i++) {
        members = ranks[size + i] < 0 ? 0 : guest_mix(members + (uint64_t)ranks[size + i]);
    }
    free(ranks);
    return members;
}

static int made_by_members(int result, const void *out, const char *name)
{
    const struct guest_mpi *mpi = guest_mpi();
    const struct guest_mpi_names *names = guest_mpi_names();
    const uint64_t comm = result == 0 ? guest_mpi_load(out, 0) : names->COMM_NULL;
    uint64_t group = 0;
    uint64_t world = 0;
    uint64_t members = 0;
    uint64_t count;
    int size = 0;

    guest_wait_show(0, 0);
    if (comm == names->COMM_NULL || guest_mpi_world() == 0 || mpi->Comm_group(comm, &group) != 0 ||
        mpi->Comm_group(names->COMM_WORLD, &world) != 0) {
        return result;
    }
    if (mpi->Group_size(group, &size) == 0 && size > 0) {
        members = members_of(group, world, size);
    }
    (void)mpi->Group_free(&group);
    (void)mpi->Group_free(&world);
    count = members != 0 ? count_of(members) : 0;
    if (count != 0) {
        guest_mpi_adopt(comm, guest_mix(members ^ guest_mix(count)), name, GUEST_MPI_NO_TOPOLOGY);
    }
    return result;
}

int MPI_Comm_create_group(uint64_t comm, uint64_t group, int tag, void *out)
{
    guest_wait_show(guest_mpi_world(), guest_wait_pack(-1, -1));
    return made_by_members(guest_mpi()->Comm_create_group(comm, group, tag, out), out,
                           "MPI_Comm_create_group");
}
GUEST_MPI_ALSO(Comm_create_group);

int MPI_Intercomm_merge(uint64_t comm, int high, void *out)
{
    guest_wait_show(guest_mpi_world(), guest_wait_pack(-1, -1));
    return made_by_members(guest_mpi()->Intercomm_merge(comm, high, out), out,
                           "MPI_Intercomm_merge");
}
GUEST_MPI_ALSO(Intercomm_merge);
