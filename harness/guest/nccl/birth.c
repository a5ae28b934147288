/* Purpose: how communicators come to be, and end.
 * Idea: their key is the hash of the id that all of their members are given, or made from the
 * parent's, so it is the same on all of them without a message. Making one is a call in which its
 * members wait for each other, and is shown as such. */
#include <pthread.h>
#include <string.h>

#include "harness/guest/lane.h"
#include "harness/guest/nccl/adapter.h"

enum { PENDING_MAX = 16 };

/* Children that NCCL makes in another thread. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct guest_nccl_birth pending[PENDING_MAX];
static size_t pending_count;

/* --- births
 * -------------------------------------------------------------------------------------------------------
 */

/* It is there: learn who this process is in it. */
static void adopt(struct guest_nccl_birth *birth)
{
    struct ncclComm *comm = *birth->out;
    int rank = 0;
    int size = 0;

    if (comm == NULL) {
        return; /* a rank that is in no part */
    }
    if (birth->handle == 0 && birth->key != 0 &&
        guest_nccl()->CommUserRank(comm, &rank) == GUEST_NCCL_SUCCESS &&
        guest_nccl()->CommCount(comm, &size) == GUEST_NCCL_SUCCESS) {
        birth->handle =
            guest_nccl_comm_add(birth->key, (uint32_t)rank, (uint32_t)size, GUEST_NCCL_SPLIT);
    }
    guest_nccl_comm_set(birth->handle, comm);
}

/* Until its parent says that it is there. */
static void wait_for(const struct guest_nccl_birth *birth)
{
    int has_place;

    (void)pthread_mutex_lock(&lock);
    has_place = pending_count < PENDING_MAX;
    if (has_place) {
        pending[pending_count++] = *birth;
    }
    (void)pthread_mutex_unlock(&lock);
    if (!has_place) {
        guest_comm_lost();
    }
}

static void end(struct guest_nccl_birth *birth, int result)
{
    const int is_in_progress = result == GUEST_NCCL_IN_PROGRESS;

    ddprove_guest_call_wait_end(&birth->call);
    if (result == GUEST_NCCL_SUCCESS || is_in_progress) {
        /* How long NCCL takes in another thread is not followed. */
        ddprove_guest_call_done(&birth->call);
        if (is_in_progress && birth->parent != NULL) {
            wait_for(birth);
        } else {
            adopt(birth);
        }
    } else {
        guest_lane_launch(birth->call.comm, birth->call.seq, birth->call.seq, GUEST_LAUNCH_FAILED);
        guest_nccl_comm_drop(birth->handle);
    }
}

/* Show the call: a thread makes it, so it has begun once it is launched. */
static int begin(struct guest_nccl_birth *birth, uint32_t comm)
{
    int times;

    birth->end = end;
    birth->call = (struct ddprove_guest_call){
        .size_bytes = sizeof birth->call, .comm = comm, .kind = DDPROVE_GUEST_COMM_CREATE};
    times = ddprove_guest_call_post(&birth->call);
    if (birth->call.seq != 0) {
        guest_lane_launch(comm, birth->call.seq, birth->call.seq, 0);
    }
    if (times > 0 && !guest_nccl_is_in_group()) {
        ddprove_guest_call_wait_begin(&birth->call);
    }
    return times;
}

static void settle(struct ncclComm *parent)
{
    struct guest_nccl_birth ready[PENDING_MAX];
    size_t count = 0;

    (void)pthread_mutex_lock(&lock);
    for (size_t i = pending_count; i-- > 0;) {
        if (pending[i].parent == parent) {
            ready[count++] = pending[i];
            pending[i] = pending[--pending_count];
        }
    }
    (void)pthread_mutex_unlock(&lock);
    while (count > 0) {
        adopt(&ready[--count]);
    }
}

/* --- from ids
 * ----------------------------------------------------------------------------------------------------
 */

/* Begin a communicator whose size and rank are known. Returns how often to make the call; 0 with
 * is_shown 0 never. */
static int begin_known(struct guest_nccl_birth *birth, uint64_t key, int rank, int size,
                       enum guest_nccl_origin origin)
{
    birth->handle = guest_nccl_comm_add(key, (uint32_t)rank, (uint32_t)size, origin);
    return begin(birth, birth->handle);
}

/* As if the program had not come here. */
static int left_out(struct guest_nccl_birth *birth)
{
    guest_nccl_comm_drop(birth->handle);
    *birth->out = NULL;
    guest_nccl_leave();
    return GUEST_NCCL_SUCCESS;
}

#define MAKE(birth, begin_call, function_call)                       \
    do {                                                             \
        const int is_shown = guest_nccl_enter();                     \
        int times = is_shown ? (begin_call) : 1;                     \
        int result = GUEST_NCCL_SUCCESS;                             \
        if (times == 0) {                                            \
            return left_out(&(birth));                               \
        }                                                            \
        for (; times > 0 && result == GUEST_NCCL_SUCCESS; times--) { \
            result = guest_nccl()->function_call;                    \
        }                                                            \
        guest_nccl_leave();                                          \
        if (is_shown) {                                              \
            guest_nccl_born(&(birth), result);                       \
        }                                                            \
        return result;                                               \
    } while (0)

int ncclCommInitRank(struct ncclComm **out, int size, struct guest_nccl_id id, int rank)
{
    struct guest_nccl_birth birth = {.out = out};

    (void)ddprove_guest_attach(-1, -1);
    MAKE(birth,
         begin_known(&birth, guest_nccl_hash(0, &id, sizeof id), rank, size, GUEST_NCCL_INIT),
         CommInitRank(out, size, id, rank));
}

int ncclCommInitRankConfig(struct ncclComm **out, int size, struct guest_nccl_id id, int rank,
                           void *config)
{
    struct guest_nccl_birth birth = {.out = out};

    (void)ddprove_guest_attach(-1, -1);
    MAKE(birth,
         begin_known(&birth, guest_nccl_hash(0, &id, sizeof id), rank, size, GUEST_NCCL_INIT),
         CommInitRankConfig(out, size, id, rank, config));
}

int ncclCommInitRankScalable(struct ncclComm **out, int size, int rank, int id_count,
                             struct guest_nccl_id *ids, void *config)
{
    struct guest_nccl_birth birth = {.out = out};

    (void)ddprove_guest_attach(-1, -1);
    if (guest_nccl()->CommInitRankScalable == NULL || id_count <= 0) {
        return GUEST_NCCL_INVALID_USAGE;
    }
    MAKE(birth,
         begin_known(&birth, guest_nccl_hash(0, ids, (size_t)id_count * sizeof *ids), rank, size,
                     GUEST_NCCL_INIT),
         CommInitRankScalable(out, size, rank, id_count, ids, config));
}

/* All ranks are this process's. */
int ncclCommInitAll(struct ncclComm **out, int count, const int *devices)
{
    int is_shown;
    int result;

    if (guest_nccl()->CommInitAll == NULL) {
        return GUEST_NCCL_INVALID_USAGE;
    }
    (void)ddprove_guest_attach(-1, -1);
    is_shown = guest_nccl_enter();
    result = guest_nccl()->CommInitAll(out, count, devices);
    guest_nccl_leave();
    if (is_shown && count > 1) {
        guest_comm_lost();
    }
    return result;
}

/* --- from another communicator
 * ----------------------------------------------------------------------------------- */

/* A call of the parent, which all of its members make, also those that are in no part. */
static int begin_split(struct guest_nccl_birth *birth, uint32_t parent, int color)
{
    birth->key = ddprove_guest_comm_child_key(parent, (uint64_t)(uint32_t)color);
    return begin(birth, parent);
}

int ncclCommSplit(struct ncclComm *comm, int color, int key, struct ncclComm **out, void *config)
{
    struct guest_nccl_birth birth = {.out = out, .parent = comm};

    if (guest_nccl()->CommSplit == NULL) {
        return GUEST_NCCL_INVALID_USAGE;
    }
    MAKE(birth, begin_split(&birth, guest_nccl_comm_handle(comm), color),
         CommSplit(comm, color, key, out, config));
}

/* A call of those that are left: the others need not even live. */
static int begin_shrink(struct guest_nccl_birth *birth, const int *excluded, int excluded_count)
{
    struct guest_nccl_comm parent;
    uint64_t mark = 0;
    uint32_t before = 0;

    if (!guest_nccl_comm_find(birth->parent, &parent) || parent.handle == 0) {
        return 1;
    }
    for (int i = 0; i < excluded_count; i++) {
        mark += guest_nccl_hash(1, &excluded[i], sizeof excluded[i]); /* in whatever order */
        before += excluded[i] < (int)parent.rank;
    }
    return begin_known(birth, ddprove_guest_comm_child_key(parent.handle, mark),
                       (int)(parent.rank - before), (int)parent.size - excluded_count,
                       GUEST_NCCL_SHRINK);
}

int ncclCommShrink(struct ncclComm *comm, int *excluded, int excluded_count, struct ncclComm **out,
                   void *config, int flags)
{
    struct guest_nccl_birth birth = {.out = out, .parent = comm};

    if (guest_nccl()->CommShrink == NULL) {
        return GUEST_NCCL_INVALID_USAGE;
    }
    MAKE(birth, begin_shrink(&birth, excluded, excluded_count),
         CommShrink(comm, excluded, excluded_count, out, config, flags));
}

/* --- ends
 * --------------------------------------------------------------------------------------------------------
 */

/* Its address is free for another one as soon as NCCL returns, so it is taken out before. */
#define END(comm, is_aborting, function_call)                                               \
    do {                                                                                    \
        struct guest_nccl_comm taken;                                                       \
        const int is_shown = guest_nccl_enter();                                            \
        const int is_known = is_shown && guest_nccl_comm_take(comm, &taken);                \
        const int is_broken = is_known && (is_aborting) && guest_nccl_comm_is_busy(&taken); \
        const int result = guest_nccl()->function_call;                                     \
        guest_nccl_leave();                                                                 \
        if (is_known) {                                                                     \
            guest_nccl_comm_end(&taken, is_broken);                                         \
        }                                                                                   \
        return result;                                                                      \
    } while (0)

int ncclCommDestroy(struct ncclComm *comm)
{
    END(comm, 0, CommDestroy(comm));
}

int ncclCommAbort(struct ncclComm *comm)
{
    END(comm, 1, CommAbort(comm));
}

int ncclCommGetAsyncError(struct ncclComm *comm, int *error)
{
    const int is_shown = guest_nccl_enter();
    const int result = guest_nccl()->CommGetAsyncError(comm, error);

    if (is_shown && result == GUEST_NCCL_SUCCESS) {
        if (*error == GUEST_NCCL_SUCCESS) {
            guest_nccl_comm_settle(comm);
            settle(comm);
        } else if (*error != GUEST_NCCL_IN_PROGRESS) {
            guest_nccl_comm_failed(comm);
        }
    }
    guest_nccl_leave();
    return result;
}
