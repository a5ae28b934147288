/* The NCCL adapter: shows an NCCL program's collectives to ddprove. It is preloaded, so its nccl
 * functions come before those of the program's NCCL, which it finds by their second names (pnccl)
 * or behind itself. It is linked with neither NCCL nor CUDA: it is loaded into launchers and shells
 * too, which have none.
 *
 * Tests run it on the stand-ins of tests/standin; README's table says what of it a card has run.
 *
 * A call returns before the device has come to it. So it is seen at four moments: posted, launched
 * (outside of a group at once, else when the outermost group ends), begun and ended on the stream.
 * The last two the stream itself tells, by a word that it writes into the arena before and behind
 * the call (cuStreamWriteValue64): no thread, no callback, no wait, and it goes on while the host
 * is stopped. Where that is not possible (no such function in the driver, a card that refuses it),
 * a call is seen until its launch.
 *
 * A rank is a process, told by its launcher's variables (RANK, ...), not by NCCL's numbers. Making
 * a communicator is its call number 1; splitting it is a call of its own.
 *
 * Not seen:
 * - values: contributions are written by the device after the post, so none are recorded and none
 *   can be changed (ability.h);
 * - calls that are captured into a CUDA graph, beyond their one post and launch: nothing is put
 *   into the graph, and its replays are not seen;
 * - communicators of which one process drives several ranks (ncclCommInitAll, a thread for each):
 *   the arena has one place for a rank's part. They are counted as lost, and nothing is judged;
 * - messages of a process with more than 24 pairs of sender and receiver, and the communicators of
 *   ncclCommGrow. They are counted as lost too;
 * - for whom a communicator's end waits (ncclCommFinalize, Destroy, Revoke), only that a rank waits
 *   there;
 * - communicators of which calls were asked about (ncclGroupSimulateEnd): that they would not be
 *   made is known after they were shown, so from then on nothing of these is. Counted as lost;
 * - calls that one side alone makes (put, signal), and those that kernels make;
 * - which operator of the program's own a reduction uses: all of them are "user";
 * - NCCL that is linked statically (profiler.c is for that), or whose functions the program looks
 *   up in a handle of its own. */
#ifndef HARNESS_GUEST_NCCL_ADAPTER_H
#define HARNESS_GUEST_NCCL_ADAPTER_H

#include "harness/guest/ddprove_guest.h"
#include "harness/guest/nccl/abi.h"

/* --- library.c: the program's NCCL */

struct guest_nccl {
#define X(name, parameters) GUEST_NCCL_RESULT(*name) parameters;
#include "harness/guest/nccl/function.def"
#undef X
    int (*CommCount)(struct ncclComm *comm, int *count);
    int (*CommUserRank)(struct ncclComm *comm, int *rank);
};
/* Functions that its version lacks are NULL. Ends the process if there is no NCCL, as then nobody
 * could have called. */
const struct guest_nccl *guest_nccl(void);
/* The calling thread goes into NCCL, whose own calls of these functions are not the program's.
 * Returns whether it was outside and the process is watched: only then the call is one to show. */
int guest_nccl_enter(void);
void guest_nccl_leave(void);
int guest_nccl_is_inside(void);
/* The address of a function of the CUDA driver, wherever the program has it from; NULL. */
void *guest_nccl_driver_symbol(const char *name);

/* --- device.c: marks on streams */

/* Calls of one communicator on one stream that NCCL is given together. */
struct guest_nccl_launch {
    uint32_t comm; /* handle */
    uint32_t lane; /* place + 1; 0: how far the device is is not seen */
    void *stream;
    uint64_t first, last;
};
/* Before NCCL is given them, and after; result: NCCL's. */
void guest_nccl_launch_begin(struct guest_nccl_launch *launch);
void guest_nccl_launch_end(const struct guest_nccl_launch *launch, int result);
/* What NCCL did in another thread is done: the communicator's streams may be marked. */
void guest_nccl_launch_settle(uint32_t comm);
/* The communicator has calls under way. */
int guest_nccl_is_under_way(uint32_t comm);
/* The communicator is gone; its lanes are used again once the device has left them. */
void guest_nccl_forget_lanes(uint32_t comm);

/* --- comm.c: communicators of this process */

enum guest_nccl_origin {
    GUEST_NCCL_INIT,
    GUEST_NCCL_SPLIT,
    GUEST_NCCL_SHRINK,
    GUEST_NCCL_ORIGIN_COUNT
};
struct guest_nccl_comm {
    struct ncclComm *comm; /* NULL: it is being made */
    uint64_t number;       /* of this process's communicators, from 1 */
    uint32_t handle;       /* 0: it is not watched, as this process drives several of its ranks */
    uint32_t rank, size;
    uint64_t key;
    uint64_t base; /* what the key was made from: ranks may be given the same id again */
    int has_failed;
    int has_lost_pair; /* there was no place for one of its pairs */
    char name[32];
};
/* Copies what is known of a communicator. Returns whether anything is. */
int guest_nccl_comm_find(struct ncclComm *comm, struct guest_nccl_comm *out);
/* The handle of a communicator; 0: it is not watched. */
uint32_t guest_nccl_comm_handle(struct ncclComm *comm);
/* One is being made. Returns its handle. *number: what it is set or dropped by, watched or not. */
uint32_t guest_nccl_comm_add(uint64_t key, uint32_t rank, uint32_t size,
                             enum guest_nccl_origin origin, uint64_t *number);
/* It has been made: NCCL's name for it. */
void guest_nccl_comm_set(uint64_t number, struct ncclComm *comm);
/* Take it from the table: from now on its address may be another one's. */
int guest_nccl_comm_take(struct ncclComm *comm, struct guest_nccl_comm *out);
/* It could not be made (comm NULL), or is gone after guest_nccl_comm_take. */
void guest_nccl_comm_end(const struct guest_nccl_comm *comm, int is_aborted);
void guest_nccl_comm_drop(uint64_t number);
/* Calls of it, or of a pair, were shown and never made: its numbers mean nothing any more. */
void guest_nccl_comm_unshow(uint32_t handle);
/* NCCL says that nothing is in progress any more, or that it will not work any more. */
void guest_nccl_comm_settle(struct ncclComm *comm);
void guest_nccl_comm_failed(struct ncclComm *comm);
/* The communicator, or a message in it, is under way. */
int guest_nccl_comm_is_busy(const struct guest_nccl_comm *comm);
/* The handle of the messages from one rank to another; 0: they are not seen. */
uint32_t guest_nccl_pair(const struct guest_nccl_comm *comm, uint32_t from, uint32_t to);

uint64_t guest_nccl_hash(uint64_t seed, const void *data, size_t size_bytes);

/* --- birth.c: how communicators come to be */

/* A communicator that a call makes. */
struct guest_nccl_birth {
    struct ddprove_guest_call call; /* of the new one, or of the one that it is split from */
    struct ncclComm **out;          /* NULL: it is known already */
    struct ncclComm *parent;        /* who says when it is there; NULL: out does at once */
    uint64_t key;
    uint32_t handle; /* 0: its rank and size are not known before it is there */
    uint64_t number; /* guest_nccl_comm_add's; 0: likewise */
    /* The call has ended; result: NCCL's. */
    void (*end)(struct guest_nccl_birth *birth, int result);
};

/* --- held.c: calls that a fault puts behind the next one of their communicator */

/* What a call of NCCL is made with. */
struct guest_nccl_args {
    int (*make)(const struct guest_nccl_args *args);
    const void *in;
    void *out;
    size_t count;
    int type, op, root; /* of a message, root is the other one's rank */
    struct ncclComm *comm;
    void *stream;
};
struct guest_nccl_held {
    struct ddprove_guest_call call;
    struct guest_nccl_args args;
};
/* There is room, and none of this communicator's is held. */
int guest_nccl_can_hold(struct ncclComm *comm);
void guest_nccl_hold(const struct guest_nccl_held *held);
/* Returns whether one was held; it is no more. */
int guest_nccl_take_held(struct ncclComm *comm, struct guest_nccl_held *out);

/* --- group.c: calls, alone and in groups */

struct guest_nccl_turn {
    int is_shown, is_grouped;
    struct ddprove_guest_call *call;
    struct guest_nccl_launch launch;
};
/* Returns how often the program is to make the call, or with can_hold GUEST_CALL_HELD; to be ended
 * even if it is not at all. */
int guest_nccl_begin(struct guest_nccl_turn *turn, struct ddprove_guest_call *call, void *stream,
                     int can_hold);
/* The same of one that was held: it is made, once. */
void guest_nccl_begin_held(struct guest_nccl_turn *turn, struct ddprove_guest_call *call,
                           void *stream);
/* result: NCCL's. Returns it. */
int guest_nccl_end(struct guest_nccl_turn *turn, int result);
/* The call that makes a communicator has returned, in a group or alone. */
void guest_nccl_born(struct guest_nccl_birth *birth, int result);
/* The calling thread has a group open. */
int guest_nccl_is_in_group(void);

#endif
