/* A scripted NCCL for unit tests: the library's table of functions, filled with ones that do as the
 * test says. Members are communicators of one process; data moves when nccl_device_run is called.
 * Functions that NCCL runs in threads of ours (abort, destroy, revoke) touch only atomics. */
#ifndef TESTS_UNIT_NCCL_NCCL_FAKE_H
#define TESTS_UNIT_NCCL_NCCL_FAKE_H

#include <pthread.h>
#include <stdatomic.h>

#include "ddpcore/nccl/abi.h"

#define FAKE_MEMBERS_MAX 8u
#define FAKE_LOG_MAX     64u

struct ddp_nccl_comm_handle {
    struct nccl_fake *fake;
    uint32_t member, member_count;
    atomic_int async; /* what ncclCommGetAsyncError says */
    atomic_int after; /* what it says from the next question on, if async is "in progress";
                       * "in progress" again: for ever */
    int next_result;  /* of the next collective; 0: as async */
    int call_async;   /* async after a collective was started */
    atomic_int aborts, destroys, revokes, finalizes;
    uint32_t asked; /* calls of ncclCommGetAsyncError */
    atomic_bool is_revoked;
    atomic_int shrinks;
    /* A shrink under way: NCCL fills *child_out when the parent has come to rest. */
    struct ddp_nccl_comm_handle **child_out, *child;
    uint64_t collectives; /* started ones */
    uint64_t arrived;     /* collectives that the device has reached */
    /* Messages on the way to each member: a copy of what was sent. */
    struct fake_message *sent[FAKE_MEMBERS_MAX];
};

struct nccl_fake {
    struct ddp_nccl_library library;
    struct ddp_nccl_comm_handle comms[FAKE_MEMBERS_MAX];
    uint32_t comm_count; /* made so far */
    int id_result, init_result;
    bool is_init_null;   /* init fails before it has a handle */
    bool is_device_lost; /* then an abort behind a revocation never returns */
    int init_async, init_after;
    int finalize_async;              /* after ncclCommFinalize */
    int shrink_result, shrink_after; /* of the call; what the parent comes to rest with */
    const char *last_error;
    char log[FAKE_LOG_MAX][96]; /* "member: call arguments" */
    size_t log_count;
    uint32_t group_depth;
    struct fake_slot *slots; /* collectives on the device, by number */
    /* Aborts, destroys and revokes hang while it is true. */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool is_hanging;
    uint32_t hanging_count;
};

/* Fills the library; every result is success, in progress once after each call. */
void nccl_fake_open(struct nccl_fake *fake, bool has_revoke);
void nccl_fake_close(struct nccl_fake *fake);
void nccl_fake_hang(struct nccl_fake *fake, bool is_hanging);
/* Returns when so many threads hang. */
void nccl_fake_await_hanging(struct nccl_fake *fake, uint32_t count);

#endif
