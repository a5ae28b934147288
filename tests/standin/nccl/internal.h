/* A stand-in for NCCL, for tests only. Nothing it does is a GPU result.
 *
 * What its files share. References like group.cc name the files of NCCL v2.28.9-1 whose behaviour
 * is followed. */
#ifndef TESTS_STANDIN_NCCL_INTERNAL_H
#define TESTS_STANDIN_NCCL_INTERNAL_H

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "tests/standin/nccl/functions.h"

#define STANDIN_MAGIC 0x0280028002800280ull
/* How often a wait looks at its flags. */
#define STANDIN_POLL_MS 10
/* Channels of a ring, and bytes of one chunk of it. */
#define STANDIN_CHANNELS_MAX 32
#define STANDIN_CHUNK_BYTES  32768u

/* Leaves the function with any error, as NCCLCHECK does; in progress is none. */
#define STANDIN_CHECK(call)                                \
    do {                                                   \
        int standin_check_result = (call);                 \
        if (standin_check_result != STANDIN_SUCCESS &&     \
            standin_check_result != STANDIN_IN_PROGRESS) { \
            return standin_check_result;                   \
        }                                                  \
    } while (0)

/* error.c: sets ncclGetLastError's text, as WARN does. */
void standin_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* turns.c: threads that may be fibers. Calls that wait return early in turns: look again. */
struct standin_turn;
struct standin_thread {
    pthread_t own;
    struct standin_turn *turn;
};
bool standin_turns_are_on(void);
int standin_thread_start(struct standin_thread *thread, void *(*run)(void *), void *context);
void standin_thread_join(struct standin_thread *thread);
/* In turns only: nobody joins it. */
int standin_turn_start(void *(*run)(void *), void *context);
void standin_cond_wait(pthread_cond_t *changed, pthread_mutex_t *lock,
                       int timeout_ms); /* -1: none */
int standin_poll(struct pollfd *entries, nfds_t count, int timeout_ms);

/* log.c */
struct standin_comm;
void standin_log(const struct standin_comm *comm, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void standin_log_question(void);
void standin_log_clear(void);
int standin_log_number(void);

/* script.c */
enum standin_action { STANDIN_ACT_NONE, STANDIN_ACT_ERROR, STANDIN_ACT_HANG, STANDIN_ACT_CORRUPT };
struct standin_verdict {
    enum standin_action action;
    int result; /* of STANDIN_ACT_ERROR */
};
/* What the script says about event number (0 where events are not counted) on rank. */
struct standin_verdict standin_script_ask(const char *event, uint64_t number, int rank);
/* The error, with its text, that the script wants from an event that is not counted; or SUCCESS. */
int standin_script_error(const char *event, int rank);
/* If the script says that the event hangs: returns true once it does not, or the wait (may be NULL)
 * is over. */
struct standin_wait;
bool standin_script_hold(const char *event, uint64_t number, int rank,
                         const struct standin_wait *wait);
bool standin_script_has(const char *directive); /* e.g. "connect=eager" */
int standin_script_version(void);

/* A wait ends early when either flag is set. is_cancelled may be NULL. */
struct standin_wait {
    const atomic_int *abort_flag;
    const volatile int *is_cancelled;
};

/* socket.c. Results: SUCCESS, REMOTE_ERROR (closed), SYSTEM_ERROR, INTERNAL_ERROR (wait over). */
bool standin_wait_is_over(const struct standin_wait *wait);
void standin_wait_park(const struct standin_wait *wait); /* until it is over */
void standin_wait_pause(int duration_ms, const struct standin_wait *wait);
int standin_listen(int *fd, uint16_t *port);
int standin_connect(uint16_t port, const struct standin_wait *wait, int *fd);
int standin_accept(int listen_fd, const struct standin_wait *wait, int *fd);
int standin_send_all(int fd, const void *data, size_t size_bytes, const struct standin_wait *wait);
int standin_recv_all(int fd, void *data, size_t size_bytes, const struct standin_wait *wait);
void standin_close(int *fd);

/* A message between two ranks: 16 bytes of header, then the bytes. A received one may be shorter
 * than size_bytes, as with NCCL's sockets; a longer one is INVALID_USAGE. */
struct standin_message {
    int fd;
    bool is_send;
    unsigned char *data;
    uint64_t size_bytes;
    unsigned char header[16];
    size_t header_done;
    uint64_t body_bytes, body_done;
};
/* All at once; those over one socket in one direction follow each other. */
int standin_messages_run(struct standin_message *messages, size_t count,
                         const struct standin_wait *wait);

/* bootstrap.c */
struct standin_peer {
    uint64_t host_hash, bus_id;
    int32_t rank, rank_count, version;
    uint16_t port, reserved;
};
struct standin_frame {
    uint32_t tag;
    int32_t color, key;
    uint32_t reserved;
    struct standin_peer peer;
};
enum standin_tag {
    STANDIN_TAG_BARRIER = 1,
    STANDIN_TAG_RING,
    STANDIN_TAG_SENDER,
    STANDIN_TAG_RECEIVER,
    STANDIN_TAG_SPLIT,
    STANDIN_TAG_CHILD
};
struct standin_stash {
    int peer;
    struct standin_frame frame;
    struct standin_stash *next;
};
struct standin_comm;
/* Finds the others through the root that id names; peers: one per rank. */
int standin_bootstrap_root(struct standin_comm *comm, const struct standin_id *id, uint16_t port,
                           struct standin_peer *peers);
/* Connects every pair of ranks, once for data and once for control. */
int standin_bootstrap_mesh(struct standin_comm *comm, int listen_fd,
                           const struct standin_peer *peers);
int standin_control_send(struct standin_comm *comm, int peer, const struct standin_frame *frame);
int standin_control_recv(struct standin_comm *comm, int peer, uint32_t tag,
                         struct standin_frame *frame);
uint64_t standin_host_hash(void);
void standin_roots_stop(void);
uint64_t standin_hash(uint64_t seed, const void *data, size_t size_bytes);

enum standin_func {
    STANDIN_ALL_REDUCE,
    STANDIN_BROADCAST,
    STANDIN_REDUCE,
    STANDIN_ALL_GATHER,
    STANDIN_REDUCE_SCATTER,
    STANDIN_SEND,
    STANDIN_RECV
};

/* One call of a collective, send or receive. */
struct standin_op {
    enum standin_func func;
    const char *name;
    const void *send;
    void *recv;
    size_t count;
    int dtype, redop, root; /* root: peer of send and receive */
    void *stream;
    bool is_hung, is_corrupt, is_connecting;
    int async_error; /* to set when it has ended, or 0 */
    struct standin_op *next;
};

struct standin_group;
struct standin_worker;

struct standin_comm {
    uint64_t magic;
    int rank, rank_count, device, channel_count;
    int number; /* in the log */
    bool is_blocking;
    uint64_t hash, bus_id, child_count;
    atomic_int async_result; /* comm->asyncResult */
    atomic_int proxy_result; /* comm->proxyState->asyncResult: never cleared */
    atomic_int abort_flag;
    atomic_int child_abort_flag; /* set with abort_flag; watched while a child is being made */
    atomic_int *abort_source;    /* the flag that this communicator's jobs watch */
    atomic_bool is_revoked, is_finalize_called, is_destroying;
    int *data_fd, *control_fd; /* per rank, -1 for itself */
    struct standin_stash *stash;
    bool is_ring_connected;
    bool *is_send_connected, *is_recv_connected; /* per rank */
    /* The calls of the group that is being collected by one thread. */
    bool is_in_group;
    struct standin_op *op_head, **op_tail;
    struct standin_comm *group_next;
    uint64_t op_count, launch_count;
    pthread_mutex_t lock; /* guards group */
    struct standin_group *group;
    /* Guarded by work.c's lock. */
    uint64_t work_posted, work_ended, work_turn;
    struct standin_worker *worker;
    struct standin_comm *live_next;
};

/* config.c: given may be NULL. */
int standin_config_read(const struct standin_config *given, bool *is_blocking);

/* comm.c */
int standin_comm_check(struct standin_comm *comm, const char *op_name, const char *name);
int standin_pointer_check(const void *pointer, const char *op_name, const char *name);
int standin_comm_ensure_ready(struct standin_comm *comm);
/* The calling thread's card, where there is a CUDA runtime. */
int standin_device_get(void);
void standin_device_set(int device);
void standin_comm_set_async(struct standin_comm *comm, int result);
/* ncclCommGetAsyncError for the library's own use: it is not counted among the caller's. */
int standin_comm_async(struct standin_comm *comm, int *async_error);
int standin_comm_create(const struct standin_config *config, struct standin_comm **out);
int standin_comm_size(struct standin_comm *comm, int rank_count);
void standin_comm_free(struct standin_comm *comm);
/* The part of initialisation after the sockets: versions, duplicate cards, a barrier. */
int standin_comm_agree(struct standin_comm *comm, const struct standin_peer *peers);
void standin_comm_describe(struct standin_comm *comm, uint16_t port, struct standin_peer *out);

/* group.c */
struct standin_job {
    int (*run)(struct standin_job *job);
    struct standin_comm *comm; /* whose state tells how it goes: the parent's for a child */
    bool is_destroying;
    atomic_int is_done;
    bool is_joined;
    int result;
    struct standin_thread thread;
    struct standin_job *next;
    /* What run needs. */
    struct standin_id id;
    int rank_count, rank, color, key;
    struct standin_comm *child, **slot;
    int *exclude;
    int exclude_count;
};
int standin_group_start(void);
int standin_group_end(void);
/* Latches an error in the open group; returns it. */
int standin_group_error(int result);
/* Runs the job at once outside a group, else with the group's end. Takes it over. */
int standin_group_add_job(struct standin_job *job);
void standin_group_add_comm(struct standin_comm *comm);
void standin_group_complete(struct standin_comm *comm);
void standin_group_abort(struct standin_comm *comm);
void standin_ops_free(struct standin_op *head);

/* work.c */
/* Hands the group's calls of comm to the stream. */
int standin_work_launch(struct standin_comm *comm);
void standin_work_wait(struct standin_comm *comm);
void standin_work_wait_all(void);
void standin_worker_stop(struct standin_comm *comm);
void standin_live_add(struct standin_comm *comm);
void standin_live_remove(struct standin_comm *comm);

/* ring.c */
int standin_ops_run(struct standin_comm *comm, struct standin_op *head,
                    const struct standin_wait *wait);

/* arithmetic.c: counts are elements; redop is one of SUM, PROD, MAX, MIN. */
size_t standin_dtype_bytes(int dtype);
/* partial = own (op) partial, rounded to the type. */
void standin_fold(int dtype, int redop, const void *own, void *partial, size_t count);
/* all: [rank_count][count], of at most STANDIN_EXACT_MAX ranks; out: their sums, rounded once. */
enum { STANDIN_EXACT_MAX = 16 };
void standin_sum_exact(const float *all, int rank_count, size_t count, float *out);
/* ncclAvg: floats are multiplied by 1/n, rounded to the type, before the sum; integers are divided
 * after it. */
void standin_avg_before(int dtype, void *data, size_t count, int rank_count);
void standin_avg_after(int dtype, void *data, size_t count, int rank_count);

#endif
