/* The rendezvous store: a small key/value table that ranks use to find each other.
 *
 * Same contract as PyTorch's TCPStore in spirit (set, wait-get, add), not on the wire. One
 * implementation over TCP (server run by the launcher or by rank 0), one in memory (simulator).
 * Keys and values: at most 256 and 4096 bytes. */
#ifndef DDPCORE_TRANSPORT_STORE_H
#define DDPCORE_TRANSPORT_STORE_H

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
struct ddp_store_ops {
    /* Set a key. Re-call with the same arguments until not PENDING. */
    ddp_status (*set)(struct ddp_store *store, const char *key, const void *value,
                      size_t size_bytes);
    /* Value of a key, PENDING until somebody set it. Re-call with the same key until not PENDING.
     * value: uint8_t[DDP_STORE_VALUE_BYTES_MAX]. Errors: E_IO (server gone), E_PEER_DIED (the
     * launcher reported that a rank ended before rendezvous finished; see ddp_store_dead_rank). */
    ddp_status (*get)(struct ddp_store *store, const char *key, void *value,
                      size_t *out_size_bytes);
    /* Add to a counter key (created as 0) and return the sum. Re-call until not PENDING. Counters
     * read with get as an int64_t. Errors: E_STATE (the key is no counter), E_OVERFLOW. */
    ddp_status (*add)(struct ddp_store *store, const char *key, int64_t amount, int64_t *out);
    void (*hint)(struct ddp_store *store, struct ddp_idle_hint *hint);
    void (*destroy)(struct ddp_store *store);
};
struct ddp_store {
    const struct ddp_store_ops *ops;
    int32_t dead_rank; /* valid after E_PEER_DIED, else -1 */
    bool is_host;      /* this process serves the others while it waits: it leaves barriers last */
};

/* Blocking forms: ddp_wait over the calls above. */
DDP_MUST_USE ddp_status ddp_store_set(struct ddp_env *env, struct ddp_store *store, const char *key,
                                      const void *value, size_t size_bytes, uint64_t deadline_ns);
DDP_MUST_USE ddp_status ddp_store_get(struct ddp_env *env, struct ddp_store *store, const char *key,
                                      void *value, size_t *out_size_bytes, uint64_t deadline_ns);
/* All `count` callers of the same name return OK once all have called. A name serves once. */
DDP_MUST_USE ddp_status ddp_store_barrier(struct ddp_env *env, struct ddp_store *store,
                                          const char *name, uint32_t count, uint64_t deadline_ns);

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

/* TCP client. server: a server that this process must pump while it waits (rank 0 as host; taken
 * over), or NULL. Connecting is retried until deadline_ns (a refused connection is a rank that is
 * early, not an error). */
DDP_MUST_USE ddp_status ddp_store_tcp_create(struct ddp_env *env, const char *address,
                                             uint16_t port, struct ddp_store_server *server,
                                             uint64_t deadline_ns, struct ddp_store **out,
                                             struct ddp_err *err);

/* torchrun's environment contract, read through a callback because libraries do not read the
 * environment. Understands RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT,
 * TORCHELASTIC_USE_AGENT_STORE. Errors: E_NOT_FOUND (a required variable is missing), E_PARSE. */
struct ddp_rendezvous {
    uint32_t rank, world_size, local_rank;
    char master_addr[256];
    uint16_t master_port;
    int is_agent_store; /* the launcher hosts the store; rank 0 must not */
};
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
