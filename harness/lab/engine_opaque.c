/* Purpose: the engine of a plug-in that moves the data itself. */
#include <stddef.h>
#include <stdlib.h>

#include "harness/lab/engine.h"
#include "harness/plugin/opaque.h"

struct opaque_engine {
    struct harness_lab_engine base;
    struct harness_opaque_owner owner; /* whose way to the others is the team's transport */
    struct harness_opaque opaque;
    struct ddp_transport *transport; /* NULL: nothing was sent yet */
};

static struct ddp_transport *connect_owner(struct harness_opaque_owner *owner)
{
    struct opaque_engine *engine =
        (struct opaque_engine *)((char *)owner - offsetof(struct opaque_engine, owner));

    return harness_lab_connect(&engine->base, &engine->transport) == DDP_OK ? engine->transport
                                                                            : NULL;
}

static void opaque_abort(struct harness_lab_engine *base)
{
    harness_opaque_abort(&((struct opaque_engine *)base)->opaque);
}

static void abort_posted(struct harness_lab_engine *base)
{
    if (base->is_aborted_posted) {
        base->is_aborted_posted = false;
        opaque_abort(base);
        opaque_abort(base);
    }
}

/* A call that blocks shows by this that it has begun. */
static void see_moved(struct harness_opaque_owner *owner, enum harness_opaque_place place,
                      int32_t peer)
{
    (void)peer;
    if (place == HARNESS_OPAQUE_WAITING) {
        abort_posted(
            &((struct opaque_engine *)((char *)owner - offsetof(struct opaque_engine, owner)))
                 ->base);
    }
}

static ddp_status opaque_poll(void *self)
{
    return harness_opaque_poll(&((struct opaque_engine *)self)->opaque);
}

static ddp_status opaque_run(struct harness_lab_engine *base, const struct harness_lab_call *call)
{
    struct opaque_engine *engine = (struct opaque_engine *)base;
    const struct ddp_pollable pollable = {opaque_poll, NULL, engine};
    ddp_status status;

    engine->opaque.call = (struct ddprove_coll_call){.dtype = (uint32_t)call->dtype + 1,
                                                     .op = (uint32_t)call->redop,
                                                     .root = call->root,
                                                     .count = call->elem_count,
                                                     .input = call->input,
                                                     .output = call->output};
    status = harness_opaque_start(&engine->opaque);
    if (status == DDP_PENDING) {
        abort_posted(base);
    }
    return status != DDP_PENDING
               ? status
               : ddp_wait(base->env.idle, base->env.clock, &pollable,
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

    harness_opaque_close(&engine->opaque, true);
    if (engine->transport != NULL) {
        engine->transport->ops->destroy(engine->transport);
    }
    ddp_mem_free(ddp_mem_system(), engine);
}

ddp_status harness_lab_opaque_open(const struct harness_lab_engine *base,
                                   struct harness_lab_engine **out)
{
    static const struct harness_lab_engine_ops ops = {opaque_alloc, opaque_run, opaque_close, NULL};
    static const struct harness_lab_engine_ops abortable = {opaque_alloc, opaque_run, opaque_close,
                                                            opaque_abort};
    struct opaque_engine *engine = ddp_mem_array(ddp_mem_system(), 1, sizeof(*engine));
    ddp_status status;

    if (engine == NULL) {
        return ddp_err_set(base->err, DDP_E_NOMEM, "no memory");
    }
    engine->base = *base;
    engine->base.ops = &ops;
    engine->base.env.idle = &engine->base.idle.base;
    engine->owner.connect = connect_owner;
    engine->owner.moved = see_moved;
    status = harness_opaque_open(&engine->opaque, base->shared->request.path, &engine->owner,
                                 &engine->base.env, base->err);
    if (status != DDP_OK) {
        opaque_close(&engine->base);
        return status;
    }
    if (engine->opaque.plugin->abort != NULL) {
        engine->base.ops = &abortable;
    }
    *out = &engine->base;
    return DDP_OK;
}
