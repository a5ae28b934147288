/* A plug-in of the other form (ddprove_coll.h): one that moves the data itself, loaded into the
 * process of its rank. Here is its host, whose bytes go over a transport, and who calls it. What it
 * does wrong it does in this process. */
#ifndef HARNESS_PLUGIN_OPAQUE_H
#define HARNESS_PLUGIN_OPAQUE_H

#include <stdbool.h>

#include "ddpcore/seam/env.h"
#include "ddpcore/transport/transport.h"
#include "harness/plugin/ddprove_coll.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where the host's thread is. */
enum harness_opaque_place {
    HARNESS_OPAQUE_OUTSIDE,
    HARNESS_OPAQUE_INSIDE, /* in the plug-in's code */
    HARNESS_OPAQUE_WAITING /* the plug-in waits for a message, or for room for one */
};

/* What surrounds it. Slots may be NULL, but for connect. */
struct harness_opaque_owner {
    /* The way to the other ranks, asked for when the first message is to move; NULL: none. */
    struct ddp_transport *(*connect)(struct harness_opaque_owner *owner);
    /* Whether it is one that can be used, before it is opened. Errors are those of _open. */
    ddp_status (*accept)(struct harness_opaque_owner *owner,
                         const struct ddprove_coll_opaque *plugin);
    /* Why nobody should be waited for any more: an error; else PENDING. NULL: there is nothing. */
    ddp_status (*check)(struct harness_opaque_owner *owner);
    /* The number of the next message to or from a peer, which is counted up when it has moved.
     * NULL: they are counted here. */
    uint64_t *(*number)(struct harness_opaque_owner *owner, uint32_t peer, bool is_received);
    /* A message has another number: what to say. NULL: E_MESSAGE. */
    ddp_status (*astray)(struct harness_opaque_owner *owner, uint32_t peer,
                         const struct ddp_message *message);
    /* peer: whose message is awaited, or -1. */
    void (*moved)(struct harness_opaque_owner *owner, enum harness_opaque_place place,
                  int32_t peer);
};

struct harness_opaque_lane;
struct harness_opaque {
    struct harness_opaque_owner *owner;
    struct ddp_env *env;
    struct ddp_err *err; /* where words about an error go */
    const struct ddprove_coll_opaque *plugin;
    void *library, *self;
    bool is_open, has_own_engine;
    struct ddprove_coll_host host;
    struct ddp_transport *transport;      /* NULL: no message was sent yet */
    struct harness_opaque_lane *out, *in; /* [size] */
    struct ddprove_coll_call call;        /* the present one */
    uint64_t seq, signature;              /* of its messages */
    bool is_checked;                      /* those of others must have the same */
    int32_t awaited;                      /* rank whose message is missing, or -1 */
    uint64_t waits_since_ns;              /* without a message having moved; 0: it does not wait */
    struct ddp_idle_hint hint; /* of the transport, before the plug-in looked for messages; */
    bool has_hint;             /* if there is one */
    ddp_status lost;           /* why a message could not be moved; OK: all could */
};

/* Loads the shared object, which stays, and opens a communicator of env's world. All ranks do so
 * alike. owner, env, err: borrowed. Errors: E_NOT_FOUND, E_INVALID (it is no such plug-in),
 * E_NOMEM, or what the plug-in says. _close is right after all of them. */
DDP_MUST_USE ddp_status harness_opaque_open(struct harness_opaque *opaque, const char *path,
                                            struct harness_opaque_owner *owner, struct ddp_env *env,
                                            struct ddp_err *err);
/* Begins the collective of opaque->call. PENDING: harness_opaque_poll goes on with it. A plug-in
 * that blocks ends it, or fails, before it returns. Errors: E_UNSUPPORTED, E_REVOKED (it was
 * aborted, or the group was), E_PEER_DIED, E_MISMATCH, E_IO: whatever else the plug-in says. */
DDP_MUST_USE ddp_status harness_opaque_start(struct harness_opaque *opaque);
DDP_MUST_USE ddp_status harness_opaque_poll(struct harness_opaque *opaque);
/* From any thread, if the plug-in can. */
void harness_opaque_abort(struct harness_opaque *opaque);
/* is_well: the plug-in closes its communicator; after an error it may wait for ever for others. */
void harness_opaque_close(struct harness_opaque *opaque, bool is_well);

#ifdef __cplusplus
}
#endif
#endif
