/* The rendezvous store: a small key/value table that ranks use to find each other.
 *
 * It offers what PyTorch's TCPStore does (set, waiting get, add), in frames of its own. One
 * implementation works over TCP, one in the process that runs the server (the launcher has a server
 * alone, rank 0 may have one), one in memory (simulator). Keys and values: at most 256 and 4096
 * bytes. */
#ifndef DDPCORE_STORE_STORE_H
#define DDPCORE_STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ddpcore/base/idle.h"
#include "ddpcore/base/status.h"
#include "ddpcore/seam/env.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DDP_STORE_KEY_BYTES_MAX   256u
#define DDP_STORE_VALUE_BYTES_MAX 4096u

struct ddp_store;
/* Errors of all calls: E_NOMEM, E_INVALID (a key or a value that is too long), and of the client,
 * when the server is gone: E_PEER_DIED (a rank had it: store->dead_rank, which event link.lost
 * says, too), else E_IO. */
struct ddp_store_ops {
    /* Set a key. Re-call with the same arguments until not PENDING. */
    ddp_status (*set)(struct ddp_store *store, const char *key, const void *value,
                      size_t size_bytes);
    /* Value of a key, PENDING until somebody set it. Re-call with the same key until not PENDING.
     * value: uint8_t[DDP_STORE_VALUE_BYTES_MAX]. Errors: E_PEER_DIED (the launcher reported that a
     * rank ended before rendezvous finished: store->dead_rank). */
    ddp_status (*get)(struct ddp_store *store, const char *key, void *value,
                      size_t *out_size_bytes);
    /* Add to a counter key (created as 0) and return the sum. Re-call until not PENDING. Counters
     * read with get as an int64_t. Errors: E_STATE (the key is no counter), E_OVERFLOW. */
    ddp_status (*add)(struct ddp_store *store, const char *key, int64_t amount, int64_t *out);
    /* Fill the doorbell or descriptor that changes when a pending call may go on. */
    void (*hint)(struct ddp_store *store, struct ddp_idle_hint *hint);
    /* Release the endpoint; what it set stays. */
    void (*destroy)(struct ddp_store *store);
};
struct ddp_store {
    const struct ddp_store_ops *ops;
    int32_t dead_rank; /* valid after E_PEER_DIED, else -1 */
    char lost[160];    /* after E_IO, and when the rank that hosts it is lost: the call that failed,
                        * where, and why; "": not known */
    bool is_host;      /* this process serves the others while it waits: it leaves barriers last */
};

/* A call's error in words: what is known of it, else what the status means. */
const char *ddp_store_error_text(const struct ddp_store *store, ddp_status status);

/* The calls above, repeated by ddp_wait until they are done. value: as above; deadline_ns: of
 * env->clock. Errors: E_TIMEOUT and theirs. */
DDP_MUST_USE ddp_status ddp_store_set(struct ddp_env *env, struct ddp_store *store, const char *key,
                                      const void *value, size_t size_bytes, uint64_t deadline_ns);
DDP_MUST_USE ddp_status ddp_store_get(struct ddp_env *env, struct ddp_store *store, const char *key,
                                      void *value, size_t *out_size_bytes, uint64_t deadline_ns);
/* All `count` callers of the same name return OK once all have called. A name serves once. */
DDP_MUST_USE ddp_status ddp_store_barrier(struct ddp_env *env, struct ddp_store *store,
                                          const char *name, uint32_t count, uint64_t deadline_ns);

/* Member `member` of `count` comes to a group. OK: no other one came under its number, and member 0
 * was told of as many members; returns once member 0 has come. err says which differs. Errors:
 * E_MEMBER, those of get. */
DDP_MUST_USE ddp_status ddp_store_enroll(struct ddp_env *env, struct ddp_store *store,
                                         const char *group, uint32_t member, uint32_t count,
                                         uint64_t deadline_ns, struct ddp_err *err);

/* TCP server: an event loop pumped by its owner, never a thread. listen_fd is taken over on OK. */
struct ddp_store_server;
DDP_MUST_USE ddp_status ddp_store_server_create(struct ddp_mem *mem, int listen_fd,
                                                struct ddp_store_server **out, struct ddp_err *err);
/* Serve whatever is ready; never blocks. */
void ddp_store_server_pump(struct ddp_store_server *server);
/* Descriptor that becomes readable when _pump has work (epoll). */
int ddp_store_server_fd(const struct ddp_store_server *server);
/* From now on every wait for an unset key fails with E_PEER_DIED naming rank. */
void ddp_store_server_report_death(struct ddp_store_server *server, uint32_t rank);
void ddp_store_server_destroy(struct ddp_store_server *server);
/* Non-blocking listening socket on address:port (0 = any free one; *out_port says which). */
DDP_MUST_USE ddp_status ddp_store_listen(const char *address, uint16_t port, int *out_fd,
                                         uint16_t *out_port, struct ddp_err *err);

/* TCP client. host_rank: the rank whose process has the server, -1: none. Connecting is retried
 * until deadline_ns (a refused connection is a rank that is early, not an error). */
DDP_MUST_USE ddp_status ddp_store_tcp_create(struct ddp_env *env, const char *address,
                                             uint16_t port, int32_t host_rank, uint64_t deadline_ns,
                                             struct ddp_store **out, struct ddp_err *err);
/* The store of the process that has the server (rank 0 as host): calls pump it, and so does every
 * wait with env->idle, in a collective, too (ddp_idle_add). While it computes nobody is served.
 * server is taken over on OK, and no death is reported to it. Once there is no memory for what
 * another process asks, every call fails with E_NOMEM, so that it is this process that says so. A
 * connection that breaks is recorded (event link.lost). Errors: E_NOMEM. */
DDP_MUST_USE ddp_status ddp_store_host_create(struct ddp_env *env, struct ddp_store_server *server,
                                              struct ddp_store **out);

/* Who am I, and where is the store: read from the environment of whoever started this process,
 * through a callback because libraries do not read the environment. Understood, in this order; the
 * first group of which rank and size are both set wins, so that mpirun of torchrun is torchrun's:
 *
 *   source    rank                  size                  others
 *   torchrun  RANK                  WORLD_SIZE            LOCAL_RANK
 *   Open MPI  OMPI_COMM_WORLD_RANK  OMPI_COMM_WORLD_SIZE  OMPI_COMM_WORLD_{LOCAL_RANK,LOCAL_SIZE}
 *   Slurm     SLURM_PROCID          SLURM_NTASKS          SLURM_LOCALID
 *   PMI       PMI_RANK              PMI_SIZE              MPI_LOCALRANKID, MPI_LOCALNRANKS
 *
 * A group of which only one of the two is set is passed over if a later one is whole, and is an
 * error otherwise. An empty variable is not set. A missing local rank is the rank.
 *
 * MASTER_ADDR and MASTER_PORT win wherever they are set; torchrun always sets them. Without
 * MASTER_ADDR: Slurm, the first host of SLURM_STEP_NODELIST or else SLURM_JOB_NODELIST, where rank
 * 0 is in every distribution but "arbitrary"; Open MPI and PMI, 127.0.0.1 if the local size says
 * that all ranks are on one host. Without MASTER_PORT: DDP_RENDEZVOUS_PORT_FIRST + j mod
 * DDP_RENDEZVOUS_PORT_COUNT, where j is the number in SLURM_JOB_ID, or ddp_hash_text of
 * PMIX_NAMESPACE (Open MPI) or PMI_JOBID. Two jobs may thus meet at one port: set MASTER_PORT then.
 *
 * A script under sbatch has Slurm's variables too, without srun: it is then rank 0 of all.
 * TORCHELASTIC_USE_AGENT_STORE is understood with all of them. */
#define DDP_RENDEZVOUS_PORT_FIRST 15000u
#define DDP_RENDEZVOUS_PORT_COUNT 10000u
struct ddp_rendezvous {
    uint32_t rank, world_size, local_rank;
    char master_addr[256];
    uint16_t master_port;
    int is_agent_store; /* the launcher hosts the store; rank 0 must not */
    const char *source; /* a literal: whose environment it was, as in the table above */
};
/* Errors: E_NOT_FOUND (a variable that is needed is missing), E_PARSE; err names the variable and
 * the source. */
DDP_MUST_USE ddp_status ddp_rendezvous_parse(const char *(*lookup)(void *context, const char *name),
                                             void *context, struct ddp_rendezvous *out,
                                             struct ddp_err *err);
/* Store client for a parsed environment; rank 0 hosts the server unless the agent does. */
DDP_MUST_USE ddp_status ddp_rendezvous_store(struct ddp_env *env,
                                             const struct ddp_rendezvous *rendezvous,
                                             uint64_t deadline_ns, struct ddp_store **out,
                                             struct ddp_err *err);

#ifdef __cplusplus
}
#endif
#endif
