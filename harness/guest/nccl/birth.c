/* Purpose: how communicators come to be, and end.
 * Idea: their key is the hash of the id that all of their members are given, or made from the
 * parent's, so it is the same on all of them without a message. Making one is a call in which its
 * members wait for each other, and is shown as such. */
#include <pthread.h>
#include <string.h>

#include "harness/guest/call.h"
#include "harness/guest/lane.h"
#include "harness/guest/nccl/adapter.h"

enum { PENDING_MAX = 16 };

/* What NCCL makes in another thread, and the communicator that says when it is there: the parent,
 * or itself. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct pending {
    struct guest_nccl_birth birth;
    struct ncclComm *asked;
} pending[PENDING_MAX];
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
    if (birth->number == 0 && birth->key != 0 &&
        guest_nccl()->CommUserRank(comm, &rank) == GUEST_NCCL_SUCCESS &&
        guest_nccl()->CommCount(comm, &size) == GUEST_NCCL_SUCCESS) {
        birth->handle = guest_nccl_comm_add(birth->key, (uint32_t)rank, (uint32_t)size,
                                            GUEST_NCCL_SPLIT, &birth->number);
    }
    guest_nccl_comm_set(birth->number, comm);
}

/* Until whoever is asked says that it is there. Returns whether there is a place. */
static int wait_for(const struct guest_nccl_birth *birth, struct ncclComm *asked)
{
    int has_place;

    (void)pthread_mutex_lock(&lock);
    has_place = asked != NULL && pending_count < PENDING_MAX;
    if (has_place) {
        pending[pending_count++] = (struct pending){*birth, asked};
    }
    (void)pthread_mutex_unlock(&lock);
    return has_place;
}

static void end(struct guest_nccl_birth *birth, int result)
{
    ddprove_guest_call_wait_end(&birth->call);
    if (result == GUEST_NCCL_SUCCESS) {
        ddprove_guest_call_done(&birth->call);
        adopt(birth);
    } else if (result == GUEST_NCCL_IN_PROGRESS && birth->parent == NULL) {
        struct ncclComm *comm = *birth->out;

        adopt(birth);
        birth->out = NULL; /* the program may keep it elsewhere by then */
        if (!wait_for(birth, comm)) {
            ddprove_guest_call_done(&birth->call);
        }
    } else if (result == GUEST_NCCL_IN_PROGRESS) {
        if (!wait_for(birth, birth->parent)) {
            ddprove_guest_call_done(&birth->call);
            guest_comm_lost();
        }
    } else {
        guest_lane_launch(birth->call.comm, birth->call.seq, birth->call.seq, GUEST_LAUNCH_FAILED);
        guest_nccl_comm_drop(birth->number);
    }
}

/* Show the call: a thread makes it, so it has begun once it is launched. */
static int begin(struct guest_nccl_birth *birth, uint32_t comm)
{
    int times;

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

/* Take those that this communicator is asked for. Returns how many there were. */
static size_t take_pending(const struct ncclComm *asked, struct guest_nccl_birth *out)
{
    size_t count = 0;

    (void)pthread_mutex_lock(&lock);
    for (size_t i = pending_count; i-- > 0;) {
        if (pending[i].asked == asked) {
            out[count++] = pending[i].birth;
            pending[i] = pending[--pending_count];
        }
    }
    (void)pthread_mutex_unlock(&lock);
    return count;
}

/* NCCL says that nothing is in progress any more. */
static void settle(const struct ncclComm *asked)
{
    struct guest_nccl_birth ready[PENDING_MAX];
    size_t count = take_pending(asked, ready);

    if (count > 0) {
        guest_poll_over();
    }
    while (count-- > 0) {
        if (guest_wait_is_of_ranks(ready[count].call.seq)) {
            continue; /* the end of one */
        }
        ddprove_guest_call_done(&ready[count].call);
        if (ready[count].out != NULL) {
            adopt(&ready[count]);
        }
    }
}

/* They will not be there. Returns whether any was being made. */
static int give_up(const struct ncclComm *asked)
{
    struct guest_nccl_birth lost[PENDING_MAX];
    const size_t count = take_pending(asked, lost);
    int is_any = 0;

    if (count > 0) {
        guest_poll_over();
    }
    for (size_t i = 0; i < count; i++) {
        if (guest_wait_is_of_ranks(lost[i].call.seq)) {
            continue;
        }
        is_any = 1;
        guest_lane_launch(lost[i].call.comm, lost[i].call.seq, lost[i].call.seq,
                          GUEST_LAUNCH_FAILED);
        if (lost[i].parent != NULL) {
            guest_nccl_comm_drop(lost[i].number);
        }
    }
    return is_any;
}

/* Still in progress: the thread waits for it, by asking again and again. */
static void show_pending(const struct ncclComm *asked)
{
    struct ddprove_guest_call call = {.comm = 0};

    (void)pthread_mutex_lock(&lock);
    for (size_t i = 0; i < pending_count && call.comm == 0; i++) {
        if (pending[i].asked == asked && pending[i].birth.call.seq != 0) {
            call = pending[i].birth.call;
        }
    }
    (void)pthread_mutex_unlock(&lock);
    if (call.comm != 0) { /* else the thread need not be known as one that waits */
        guest_poll_show(call.comm, call.seq);
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
    birth->handle =
        guest_nccl_comm_add(key, (uint32_t)rank, (uint32_t)size, origin, &birth->number);
    return begin(birth, birth->handle);
}

/* As if the program had not come here. */
static int left_out(struct guest_nccl_birth *birth)
{
    guest_nccl_comm_drop(birth->number);
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
    struct guest_nccl_birth birth = {.end = end, .out = out};

    (void)ddprove_guest_attach(-1, -1);
    MAKE(birth,
         begin_known(&birth, guest_nccl_hash(0, &id, sizeof id), rank, size, GUEST_NCCL_INIT),
         CommInitRank(out, size, id, rank));
}

int ncclCommInitRankConfig(struct ncclComm **out, int size, struct guest_nccl_id id, int rank,
                           void *config)
{
    struct guest_nccl_birth birth = {.end = end, .out = out};

    (void)ddprove_guest_attach(-1, -1);
    MAKE(birth,
         begin_known(&birth, guest_nccl_hash(0, &id, sizeof id), rank, size, GUEST_NCCL_INIT),
         CommInitRankConfig(out, size, id, rank, config));
}

int ncclCommInitRankScalable(struct ncclComm **out, int size, int rank, int id_count,
                             struct guest_nccl_id *ids, void *config)
{
    struct guest_nccl_birth birth = {.end = end, .out = out};

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
    struct guest_nccl_birth birth = {.end = end, .out = out, .parent = comm};

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
    struct guest_nccl_birth birth = {.end = end, .out = out, .parent = comm};

    if (guest_nccl()->CommShrink == NULL) {
        return GUEST_NCCL_INVALID_USAGE;
    }
    MAKE(birth, begin_shrink(&birth, excluded, excluded_count),
         CommShrink(comm, excluded, excluded_count, out, config, flags));
}

/* Those that are in it already are not given the id, so nothing makes a key that all have. */
int ncclCommGrow(struct ncclComm *comm, int size, const struct guest_nccl_id *id, int rank,
                 struct ncclComm **out, void *config)
{
    int is_shown;
    int result;

    if (guest_nccl()->CommGrow == NULL) {
        return GUEST_NCCL_INVALID_USAGE;
    }
    (void)ddprove_guest_attach(-1, -1);
    is_shown = guest_nccl_enter();
    result = guest_nccl()->CommGrow(comm, size, id, rank, out, config);
    guest_nccl_leave();
    if (is_shown && (result == GUEST_NCCL_SUCCESS || result == GUEST_NCCL_IN_PROGRESS)) {
        guest_comm_lost();
    }
    return result;
}

/* --- ends
 * --------------------------------------------------------------------------------------------------------
 */

/* The thread waits for other ranks, whichever have not come as far: NCCL does not say for whom. */
static void wait_for_anybody(uint32_t handle)
{
    if (handle != 0) {
        guest_wait_show(handle, guest_wait_pack(-1, -1));
    }
}

static void wait_over(uint32_t handle)
{
    if (handle != 0) {
        guest_wait_show(0, 0);
    }
}

/* Its address is free for another one as soon as NCCL returns, so it is taken out before. */
int ncclCommDestroy(struct ncclComm *comm)
{
    struct guest_nccl_comm taken;
    const int is_shown = guest_nccl_enter();
    const int is_known = is_shown && guest_nccl_comm_take(comm, &taken);
    int result;

    (void)give_up(comm);
    wait_for_anybody(is_known ? taken.handle : 0);
    result = guest_nccl()->CommDestroy(comm);
    wait_over(is_known ? taken.handle : 0);
    guest_nccl_leave();
    if (is_known) {
        guest_nccl_comm_end(&taken, 0);
    }
    return result;
}

int ncclCommAbort(struct ncclComm *comm)
{
    struct guest_nccl_comm taken;
    const int is_shown = guest_nccl_enter();
    const int is_known = is_shown && guest_nccl_comm_take(comm, &taken);
    const int is_unborn = give_up(comm);
    const int is_broken = is_known && (guest_nccl_comm_is_busy(&taken) || is_unborn);
    const int result = guest_nccl()->CommAbort(comm);

    guest_nccl_leave();
    if (is_known) {
        guest_nccl_comm_end(&taken, is_broken);
    }
    return result;
}

/* What is under way comes to its end, now or in another thread. */
static int come_to_rest(int (*function)(struct ncclComm *comm, int flags), struct ncclComm *comm,
                        int flags)
{
    const int is_shown = guest_nccl_enter();
    const uint32_t handle = is_shown ? guest_nccl_comm_handle(comm) : 0;
    const struct guest_nccl_birth end = {.call = {.comm = handle, .seq = guest_wait_pack(-1, -1)}};
    int result;

    wait_for_anybody(handle);
    result = function(comm, flags);
    wait_over(handle);
    if (handle != 0 && result == GUEST_NCCL_IN_PROGRESS) {
        (void)wait_for(&end, comm);
    }
    guest_nccl_leave();
    return result;
}

static int finalize(struct ncclComm *comm, int flags)
{
    (void)flags;
    return guest_nccl()->CommFinalize(comm);
}

static int revoke(struct ncclComm *comm, int flags)
{
    return guest_nccl()->CommRevoke(comm, flags);
}

int ncclCommFinalize(struct ncclComm *comm)
{
    return guest_nccl()->CommFinalize == NULL ? GUEST_NCCL_INVALID_USAGE
                                              : come_to_rest(finalize, comm, 0);
}

int ncclCommRevoke(struct ncclComm *comm, int flags)
{
    return guest_nccl()->CommRevoke == NULL ? GUEST_NCCL_INVALID_USAGE
                                            : come_to_rest(revoke, comm, flags);
}

int ncclCommGetAsyncError(struct ncclComm *comm, int *error)
{
    const int is_shown = guest_nccl_enter();
    const int result = guest_nccl()->CommGetAsyncError(comm, error);

    if (is_shown && result == GUEST_NCCL_SUCCESS) {
        if (*error == GUEST_NCCL_SUCCESS) {
            guest_nccl_comm_settle(comm);
            settle(comm);
        } else if (*error == GUEST_NCCL_IN_PROGRESS) {
            show_pending(comm);
        } else {
            guest_nccl_comm_failed(comm);
            (void)give_up(comm);
        }
    }
    guest_nccl_leave();
    return result;
}
