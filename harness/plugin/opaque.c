/* Purpose: call a plug-in that moves the data itself, and move the bytes that it sends.
 * Idea: a message goes over the transport in pieces, so that its length does not matter; the
 * transport is asked for once the first message is sent, since an engine of its own needs none. */
#include "harness/plugin/opaque.h"

#include <dlfcn.h>
#include <string.h>

#include "ddpcore/seam/recorder.h"

#define PIECE_BYTES ((size_t)256 << 10)

/* One direction of one peer. */
struct harness_opaque_lane {
    size_t at;       /* bytes that are over */
    size_t piece;    /* of the send that is under way; 0: none is */
    uint64_t ticket; /* its */
    uint64_t number; /* of the next message, if the owner does not count */
};

static void move(const struct harness_opaque *opaque, enum harness_opaque_place place, int32_t peer)
{
    if (opaque->owner->moved != NULL) {
        opaque->owner->moved(opaque->owner, place, peer);
    }
}

/* --- host ------------------------------------------------------------------------------------- */

static bool is_peer(const struct harness_opaque *opaque, uint32_t peer)
{
    return peer < opaque->host.size && peer != opaque->host.rank;
}

static bool connect_host(struct harness_opaque *opaque)
{
    if (opaque->transport == NULL) {
        opaque->transport = opaque->owner->connect(opaque->owner);
    }
    return opaque->transport != NULL;
}

/* What the plug-in gets for a message that could not be moved now. */
static int lose(struct harness_opaque *opaque, ddp_status status, const char *which, uint32_t peer)
{
    if (status == DDP_PENDING && opaque->owner->check != NULL) {
        status = opaque->owner->check(opaque->owner);
    }
    if (status == DDP_PENDING || status == DDP_OK) {
        return (int)DDPROVE_COLL_AGAIN;
    }
    opaque->lost = status;
    (void)ddp_err_set(opaque->err, status, "a message %s rank %u: %s", which, peer,
                      status == DDP_E_MISMATCH ? "it is not the one that was asked for"
                                               : ddp_status_text(status));
    return (int)DDPROVE_COLL_FAILED;
}

static uint64_t *number_of(struct harness_opaque *opaque, uint32_t peer, bool is_received)
{
    uint64_t *number = opaque->owner->number != NULL
                           ? opaque->owner->number(opaque->owner, peer, is_received)
                           : NULL;
    struct harness_opaque_lane *lanes = is_received ? opaque->in : opaque->out;

    return number != NULL ? number : &lanes[peer].number;
}

static int host_send(void *context, uint32_t peer, const void *data, uint64_t bytes)
{
    struct harness_opaque *opaque = context;
    struct harness_opaque_lane *lane;

    if (!is_peer(opaque, peer) || !connect_host(opaque)) {
        return (int)DDPROVE_COLL_FAILED;
    }
    lane = &opaque->out[peer];
    while (lane->at < bytes || lane->piece > 0) {
        const struct ddp_transport_ops *ops = opaque->transport->ops;
        struct ddp_message message = {
            .data = (const char *)data + lane->at,
            .size_bytes = bytes - lane->at < PIECE_BYTES ? (size_t)bytes - lane->at : PIECE_BYTES,
            .seq = opaque->seq,
            .signature = opaque->signature,
            .number = *number_of(opaque, peer, false)};
        ddp_status status = lane->piece > 0
                                ? ops->send_poll(opaque->transport, peer, lane->ticket)
                                : ops->send_post(opaque->transport, peer, &message, &lane->ticket);

        if (status != DDP_OK) {
            opaque->awaited = (int32_t)peer;
            return lose(opaque, status, "to", peer);
        }
        opaque->awaited = -1;
        if (lane->piece > 0) {
            lane->at += lane->piece;
            lane->piece = 0;
            opaque->waits_since_ns = 0;
            ddp_recorder_message(opaque->env->recorder);
        } else {
            lane->piece = message.size_bytes;
            ++*number_of(opaque, peer, false);
        }
    }
    lane->at = 0;
    return (int)DDPROVE_COLL_OK;
}

/* Whether the message at hand is the next one and belongs to this call. */
static ddp_status judge(struct harness_opaque *opaque, uint32_t peer,
                        const struct ddp_message *message, size_t missing_bytes)
{
    if (message->number != *number_of(opaque, peer, true)) {
        return opaque->owner->astray != NULL ? opaque->owner->astray(opaque->owner, peer, message)
                                             : DDP_E_MESSAGE;
    }
    return message->size_bytes <= missing_bytes &&
                   (!opaque->is_checked ||
                    (message->seq == opaque->seq && message->signature == opaque->signature))
               ? DDP_OK
               : DDP_E_MISMATCH;
}

static int host_recv(void *context, uint32_t peer, void *data, uint64_t bytes)
{
    struct harness_opaque *opaque = context;
    struct harness_opaque_lane *lane;

    if (!is_peer(opaque, peer) || !connect_host(opaque)) {
        return (int)DDPROVE_COLL_FAILED;
    }
    lane = &opaque->in[peer];
    while (lane->at < bytes) {
        struct ddp_message message;
        ddp_status status = opaque->transport->ops->recv_peek(opaque->transport, peer, &message);

        if (status == DDP_OK) {
            status = judge(opaque, peer, &message, (size_t)bytes - lane->at);
        }
        if (status != DDP_OK) {
            opaque->awaited = (int32_t)peer;
            return lose(opaque, status, "from", peer);
        }
        memcpy((char *)data + lane->at, message.data, message.size_bytes);
        lane->at += message.size_bytes;
        opaque->transport->ops->recv_ack(opaque->transport, peer);
        ++*number_of(opaque, peer, true);
        opaque->waits_since_ns = 0;
        opaque->awaited = -1;
        ddp_recorder_message(opaque->env->recorder);
    }
    lane->at = 0;
    return (int)DDPROVE_COLL_OK;
}

/* No longer than a moment: the plug-in looks again by itself. That it waits is shown if a message
 * could not move, or if it sends none: who waits for nothing is not kept by others. What rings
 * while it looks is not missed, since the doorbell was read before. */
static void host_wait(void *context)
{
    struct harness_opaque *opaque = context;
    struct ddp_env *env = opaque->env;
    struct ddp_idle_hint hint = opaque->has_hint ? opaque->hint : (struct ddp_idle_hint){.fd = -1};
    uint64_t now_ns = ddp_clock_now_ns(env->clock);
    bool is_for_others = opaque->transport == NULL || opaque->awaited >= 0;

    if (is_for_others) {
        move(opaque, HARNESS_OPAQUE_WAITING, opaque->awaited);
    }
    opaque->waits_since_ns = opaque->waits_since_ns == 0 ? now_ns : opaque->waits_since_ns;
    hint.started_ns = opaque->waits_since_ns;
    hint.deadline_ns = now_ns + DDP_NS_PER_MS;
    if (opaque->has_hint || opaque->transport == NULL) {
        env->idle->ops->wait(env->idle, &hint);
    }
    if (opaque->transport != NULL) {
        opaque->hint = (struct ddp_idle_hint){.fd = -1};
        opaque->transport->ops->hint(opaque->transport, &opaque->hint);
        opaque->has_hint = true;
    }
    if (is_for_others) {
        move(opaque, HARNESS_OPAQUE_INSIDE, -1);
    }
}

/* --- calls ------------------------------------------------------------------------------------ */

static ddp_status status_of(struct harness_opaque *opaque, const char *what, int result)
{
    move(opaque, HARNESS_OPAQUE_OUTSIDE, -1);
    switch (result) {
    case DDPROVE_COLL_OK:
        return DDP_OK;
    case DDPROVE_COLL_AGAIN:
        return DDP_PENDING;
    case DDPROVE_COLL_UNSUPPORTED:
        return ddp_err_set(opaque->err, DDP_E_UNSUPPORTED, "%s says that it cannot do this", what);
    case DDPROVE_COLL_ABORTED:
        return ddp_err_set(opaque->err, DDP_E_REVOKED, "%s was aborted", what);
    default:
        break;
    }
    if (opaque->lost != DDP_OK) {
        return ddp_err_wrap(opaque->err, opaque->lost, "%s returned %d", what, result);
    }
    return ddp_err_set(opaque->err, DDP_E_IO, "%s returned %d", what, result);
}

/* A library with an engine of its own, which has sent no messages here, waits where it is called.
 */
static ddp_status run(struct harness_opaque *opaque)
{
    ddp_status status;

    move(opaque, opaque->has_own_engine ? HARNESS_OPAQUE_WAITING : HARNESS_OPAQUE_INSIDE, -1);
    status = status_of(opaque, "run", opaque->plugin->run(opaque->self, &opaque->call));
    opaque->has_own_engine = opaque->transport == NULL;
    return status;
}

ddp_status harness_opaque_start(struct harness_opaque *opaque)
{
    DDP_ASSERT(opaque->is_open);
    opaque->call.struct_bytes = (uint32_t)sizeof opaque->call;
    opaque->awaited = -1;
    opaque->waits_since_ns = 0;
    opaque->has_hint = false;
    if (opaque->plugin->run != NULL) {
        return run(opaque);
    }
    move(opaque, HARNESS_OPAQUE_INSIDE, -1);
    DDP_TRY(status_of(opaque, "post", opaque->plugin->post(opaque->self, &opaque->call)));
    return DDP_PENDING;
}

ddp_status harness_opaque_poll(struct harness_opaque *opaque)
{
    if (opaque->plugin->run != NULL) {
        return run(opaque); /* it said that it is to be called again */
    }
    move(opaque, HARNESS_OPAQUE_INSIDE, -1);
    return status_of(opaque, "poll", opaque->plugin->poll(opaque->self));
}

void harness_opaque_abort(struct harness_opaque *opaque)
{
    if (opaque->is_open && opaque->plugin->abort != NULL) {
        opaque->plugin->abort(opaque->self);
    }
}

/* --- open ------------------------------------------------------------------------------------- */

static ddp_status load(struct harness_opaque *opaque, const char *path)
{
    const char *why;

    move(opaque, HARNESS_OPAQUE_INSIDE, -1); /* its constructors */
    opaque->library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    move(opaque, HARNESS_OPAQUE_OUTSIDE, -1);
    if (opaque->library == NULL) {
        why = dlerror();
        return ddp_err_set(opaque->err, DDP_E_NOT_FOUND, "%s", why != NULL ? why : path);
    }
    opaque->plugin = dlsym(opaque->library, "ddprove_coll_opaque_plugin");
    return opaque->plugin != NULL ? DDP_OK
                                  : ddp_err_set(opaque->err, DDP_E_INVALID,
                                                "%s exports no ddprove_coll_opaque_plugin", path);
}

ddp_status harness_opaque_open(struct harness_opaque *opaque, const char *path,
                               struct harness_opaque_owner *owner, struct ddp_env *env,
                               struct ddp_err *err)
{
    uint32_t size = env->world_size;
    ddp_status status;

    *opaque = (struct harness_opaque){.owner = owner, .env = env, .err = err, .awaited = -1};
    opaque->host = (struct ddprove_coll_host){.struct_bytes = (uint32_t)sizeof opaque->host,
                                              .rank = env->rank,
                                              .size = size,
                                              .context = opaque,
                                              .send = host_send,
                                              .recv = host_recv,
                                              .wait = host_wait};
    opaque->out = ddp_mem_array(env->mem, size, sizeof(*opaque->out));
    opaque->in = ddp_mem_array(env->mem, size, sizeof(*opaque->in));
    if (opaque->out == NULL || opaque->in == NULL) {
        return ddp_err_set(err, DDP_E_NOMEM, "no memory");
    }
    status = load(opaque, path);
    if (status == DDP_OK && owner->accept != NULL) {
        status = owner->accept(owner, opaque->plugin);
    }
    if (status == DDP_OK) {
        move(opaque, HARNESS_OPAQUE_INSIDE, -1);
        status = status_of(opaque, "open", opaque->plugin->open(&opaque->host, &opaque->self));
    }
    if (status == DDP_PENDING) {
        status = ddp_err_set(err, DDP_E_IO, "open returned %d", (int)DDPROVE_COLL_AGAIN);
    }
    opaque->is_open = status == DDP_OK;
    return status;
}

void harness_opaque_close(struct harness_opaque *opaque, bool is_well)
{
    if (opaque->is_open && is_well && opaque->plugin->close != NULL) {
        move(opaque, HARNESS_OPAQUE_INSIDE, -1);
        opaque->plugin->close(opaque->self);
        move(opaque, HARNESS_OPAQUE_OUTSIDE, -1);
    }
    opaque->is_open = false;
    if (opaque->env != NULL) {
        ddp_mem_free(opaque->env->mem, opaque->out);
        ddp_mem_free(opaque->env->mem, opaque->in);
    }
    opaque->out = NULL;
    opaque->in = NULL;
}
