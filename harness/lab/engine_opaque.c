/* Purpose: a plug-in that moves the data itself, in the process of its rank, and the host that it
 * may send bytes through.
 * Idea: a message goes over the team's transport in pieces, so that its length does not matter; the
 * transport is made once the first message is sent, since an engine of its own needs none. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "harness/lab/engine.h"
#include "harness/plugin/ddprove_coll.h"

#define PIECE_BYTES ((size_t)256 << 10)

/* One direction of one peer. */
struct lane {
    size_t at;       /* bytes that are over */
    size_t piece;    /* of the send that is under way; 0: none is */
    uint64_t ticket; /* its */
};

struct opaque_engine {
    struct harness_lab_engine base;
    const struct ddprove_coll_opaque *plugin;
    void *library, *self;
    struct ddprove_coll_host host;
    struct ddp_transport *transport; /* NULL: nothing was sent yet */
    struct lane *out, *in;           /* [ranks] */
    ddp_status lost;                 /* why a message could not be moved; OK: all could */
};

/* --- host ------------------------------------------------------------------------------------- */

static bool connect_host(struct opaque_engine *engine)
{
    if (engine->transport == NULL &&
        harness_lab_connect(&engine->base, &engine->transport) != DDP_OK) {
        engine->transport = NULL;
    }
    return engine->transport != NULL;
}

static bool is_peer(const struct opaque_engine *engine, uint32_t peer)
{
    return peer < engine->host.size && peer != engine->host.rank;
}

static int host_send(void *context, uint32_t peer, const void *data, uint64_t bytes)
{
    struct opaque_engine *engine = context;
    struct lane *lane;

    if (!is_peer(engine, peer) || !connect_host(engine)) {
        return (int)DDPROVE_COLL_FAILED;
    }
    lane = &engine->out[peer];
    while (lane->at < bytes || lane->piece > 0) {
        const struct ddp_transport_ops *ops = engine->transport->ops;
        struct ddp_message message = {
            .data = (const char *)data + lane->at,
            .size_bytes = bytes - lane->at < PIECE_BYTES ? (size_t)bytes - lane->at : PIECE_BYTES};
        ddp_status status = lane->piece > 0
                                ? ops->send_poll(engine->transport, peer, lane->ticket)
                                : ops->send_post(engine->transport, peer, &message, &lane->ticket);

        if (status == DDP_PENDING) {
            return (int)DDPROVE_COLL_AGAIN;
        }
        if (status != DDP_OK) {
            engine->lost = status;
            (void)ddp_err_set(engine->base.err, status, "a message to rank %u: %s", peer,
                              ddp_status_text(status));
            return (int)DDPROVE_COLL_FAILED;
        }
        if (lane->piece > 0) {
            lane->at += lane->piece;
            lane->piece = 0;
        } else {
            lane->piece = message.size_bytes;
        }
    }
    lane->at = 0;
    return (int)DDPROVE_COLL_OK;
}

static int host_recv(void *context, uint32_t peer, void *data, uint64_t bytes)
{
    struct opaque_engine *engine = context;
    struct lane *lane;

    if (!is_peer(engine, peer) || !connect_host(engine)) {
        return (int)DDPROVE_COLL_FAILED;
    }
    lane = &engine->in[peer];
    while (lane->at < bytes) {
        struct ddp_message message;
        ddp_status status = engine->transport->ops->recv_peek(engine->transport, peer, &message);

        if (status == DDP_PENDING) {
            return (int)DDPROVE_COLL_AGAIN;
        }
        if (status == DDP_OK && message.size_bytes > bytes - lane->at) {
            status = DDP_E_MISMATCH;
        }
        if (status != DDP_OK) {
            engine->lost = status;
            (void)ddp_err_set(engine->base.err, status, "a message from rank %u: %s", peer,
                              status == DDP_E_MISMATCH ? "its length is not what was asked for"
                                                       : ddp_status_text(status));
            return (int)DDPROVE_COLL_FAILED;
        }
        memcpy((char *)data + lane->at, message.data, message.size_bytes);
        lane->at += message.size_bytes;
        engine->transport->ops->recv_ack(engine->transport, peer);
    }
    lane->at = 0;
    return (int)DDPROVE_COLL_OK;
}

/* No longer than a moment: the plug-in looks again by itself. */
static void host_wait(void *context)
{
    struct opaque_engine *engine = context;
    struct ddp_env *env = &engine->base.env;
    struct ddp_idle_hint hint = {.fd = -1};

    if (engine->transport != NULL) {
        engine->transport->ops->hint(engine->transport, &hint);
    }
    /* Of the doorbell only its present value is known, so what rang before is not missed by
     * sleeping, but by waiting as long as a yield takes. */
    hint.doorbell = NULL;
    hint.doorbell_sleep = NULL;
    hint.started_ns = ddp_clock_now_ns(env->clock);
    hint.deadline_ns = hint.started_ns + DDP_NS_PER_MS;
    env->idle->ops->wait(env->idle, &hint);
}

/* --- calls ------------------------------------------------------------------------------------ */

static ddp_status status_of(struct opaque_engine *engine, const char *what, int result)
{
    switch (result) {
    case DDPROVE_COLL_OK:
        return DDP_OK;
    case DDPROVE_COLL_AGAIN:
        return DDP_PENDING;
    case DDPROVE_COLL_UNSUPPORTED:
        return ddp_err_set(engine->base.err, DDP_E_UNSUPPORTED, "%s says that it cannot do this",
                           what);
    case DDPROVE_COLL_ABORTED:
        return ddp_err_set(engine->base.err, DDP_E_REVOKED, "%s was aborted", what);
    default:
        break;
    }
    if (engine->lost != DDP_OK) {
        return ddp_err_wrap(engine->base.err, engine->lost, "%s returned %d", what, result);
    }
    return ddp_err_set(engine->base.err, DDP_E_IO, "%s returned %d", what, result);
}

static ddp_status opaque_poll(void *self)
{
    struct opaque_engine *engine = self;

    return status_of(engine, "poll", engine->plugin->poll(engine->self));
}

static ddp_status opaque_run(struct harness_lab_engine *base, const struct harness_lab_call *call)
{
    struct opaque_engine *engine = (struct opaque_engine *)base;
    const struct ddp_pollable pollable = {opaque_poll, NULL, engine};
    const struct ddprove_coll_call asked = {.struct_bytes = (uint32_t)sizeof asked,
                                            .dtype = (uint32_t)call->dtype + 1,
                                            .op = (uint32_t)call->redop,
                                            .root = call->root,
                                            .count = call->elem_count,
                                            .input = call->input,
                                            .output = call->output};
    ddp_status status;

    if (engine->plugin->run != NULL) {
        int result;

        do {
            result = engine->plugin->run(engine->self, &asked);
        } while (result == (int)DDPROVE_COLL_AGAIN);
        return status_of(engine, "run", result);
    }
    status = status_of(engine, "post", engine->plugin->post(engine->self, &asked));
    if (status != DDP_OK && status != DDP_PENDING) {
        return status;
    }
    return ddp_wait(base->env.idle, base->env.clock, &pollable,
                    ddp_clock_deadline_ns(base->env.clock, HARNESS_LAB_TIMEOUT_NS));
}

static void *opaque_alloc(struct harness_lab_engine *base, enum harness_lab_area area,
                          size_t size_bytes)
{
    (void)base;
    (void)area;
    return aligned_alloc(DDP_CACHE_LINE_BYTES,
                         (size_bytes + DDP_CACHE_LINE_BYTES) / DDP_CACHE_LINE_BYTES *
                             DDP_CACHE_LINE_BYTES); /* lives until the process ends */
}

static void opaque_close(struct harness_lab_engine *base)
{
    struct opaque_engine *engine = (struct opaque_engine *)base;

    if (engine->self != NULL && engine->plugin->close != NULL) {
        engine->plugin->close(engine->self);
    }
    if (engine->transport != NULL) {
        engine->transport->ops->destroy(engine->transport);
    }
    ddp_mem_free(ddp_mem_system(), engine->out);
    ddp_mem_free(ddp_mem_system(), engine->in);
    ddp_mem_free(ddp_mem_system(), engine);
}

static void opaque_abort(struct harness_lab_engine *base)
{
    struct opaque_engine *engine = (struct opaque_engine *)base;

    engine->plugin->abort(engine->self);
}

/* --- open ------------------------------------------------------------------------------------- */

static ddp_status load(struct opaque_engine *engine)
{
    const char *path = engine->base.shared->request.path;
    const char *why;

    engine->library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (engine->library == NULL) {
        why = dlerror();
        return ddp_err_set(engine->base.err, DDP_E_NOT_FOUND, "%s", why != NULL ? why : path);
    }
    engine->plugin = dlsym(engine->library, "ddprove_coll_opaque_plugin");
    return engine->plugin != NULL ? DDP_OK
                                  : ddp_err_set(engine->base.err, DDP_E_INVALID,
                                                "%s exports no ddprove_coll_opaque_plugin", path);
}

ddp_status harness_lab_opaque_open(const struct harness_lab_engine *base,
                                   struct harness_lab_engine **out)
{
    static const struct harness_lab_engine_ops ops = {opaque_alloc, opaque_run, opaque_close, NULL};
    static const struct harness_lab_engine_ops abortable = {opaque_alloc, opaque_run, opaque_close,
                                                            opaque_abort};
    struct opaque_engine *engine = ddp_mem_array(ddp_mem_system(), 1, sizeof(*engine));
    uint32_t ranks = base->shared->request.ranks;
    ddp_status status;

    if (engine == NULL) {
        return ddp_err_set(base->err, DDP_E_NOMEM, "no memory");
    }
    engine->base = *base;
    engine->base.ops = &ops;
    engine->base.env.idle = &engine->base.idle.base;
    engine->host = (struct ddprove_coll_host){.struct_bytes = (uint32_t)sizeof engine->host,
                                              .rank = base->env.rank,
                                              .size = ranks,
                                              .context = engine,
                                              .send = host_send,
                                              .recv = host_recv,
                                              .wait = host_wait};
    engine->out = ddp_mem_array(ddp_mem_system(), ranks, sizeof(*engine->out));
    engine->in = ddp_mem_array(ddp_mem_system(), ranks, sizeof(*engine->in));
    status = engine->out != NULL && engine->in != NULL ? load(engine) : DDP_E_NOMEM;
    if (status == DDP_OK && engine->plugin->abort != NULL) {
        engine->base.ops = &abortable;
    }
    if (status == DDP_OK) {
        status = status_of(engine, "open", engine->plugin->open(&engine->host, &engine->self));
    }
    if (status != DDP_OK) {
        opaque_close(&engine->base);
        return status;
    }
    *out = &engine->base;
    return DDP_OK;
}
