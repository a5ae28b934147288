/* Purpose: the core's own engine: schedules on a transport. */
#include "ddpcore/collective/collective.h"
#include "ddpcore/device/cpu.h"
#include "harness/lab/engine.h"
#include "harness/rank/plugin.h"

struct schedule_engine {
    struct harness_lab_engine base;
    struct ddp_coll *coll;
    struct ddp_device *device;
    struct harness_plugin_emitter plugin;
    uint64_t seq;
};

struct pending {
    struct ddp_coll *coll;
    struct ddp_coll_work *work;
};

static ddp_status pending_poll(void *self)
{
    const struct pending *pending = self;

    return pending->coll->ops->poll(pending->coll, pending->work);
}

static void pending_hint(void *self, struct ddp_idle_hint *hint)
{
    const struct pending *pending = self;

    pending->coll->ops->hint(pending->coll, hint);
}

static ddp_status schedule_run(struct harness_lab_engine *base, const struct harness_lab_call *call)
{
    struct schedule_engine *engine = (struct schedule_engine *)base;
    enum ddp_coll_kind kind = base->shared->request.kind;
    struct ddp_coll_work work = {.args = {.kind = kind,
                                          .redop = call->redop,
                                          .dtype = call->dtype,
                                          .root = call->root,
                                          .input = call->input,
                                          .output = call->output,
                                          .elem_count = call->elem_count},
                                 .seq = ++engine->seq};
    struct pending pending = {engine->coll, &work};
    const struct ddp_pollable pollable = {pending_poll, pending_hint, &pending};
    ddp_status status;

    if (kind == DDP_COLL_BARRIER) {
        work.args = (struct ddp_coll_args){.kind = kind, .dtype = DDP_DTYPE_U8};
    }
    status = engine->coll->ops->post(engine->coll, &work);
    if (status != DDP_OK) {
        return status;
    }
    return ddp_wait(base->env.idle, base->env.clock, &pollable,
                    ddp_clock_deadline_ns(base->env.clock, HARNESS_LAB_TIMEOUT_NS));
}

static void *schedule_alloc(struct harness_lab_engine *base, enum harness_lab_area area,
                            size_t size_bytes)
{
    struct schedule_engine *engine = (struct schedule_engine *)base;

    void *data = engine->coll->ops->alloc(engine->coll, size_bytes, DDP_SPACE_DEVICE);

    (void)area;
    /* A transport need not have memory of its own; this lives until the process ends. */
    return data != NULL ? data : ddp_mem_array(ddp_mem_system(), size_bytes, 1);
}

static void schedule_close(struct harness_lab_engine *base)
{
    struct schedule_engine *engine = (struct schedule_engine *)base;

    if (engine->coll != NULL) {
        engine->coll->ops->destroy(engine->coll);
    }
    if (engine->device != NULL) {
        engine->device->ops->destroy(engine->device);
    }
    ddp_mem_free(ddp_mem_system(), engine);
}

ddp_status harness_lab_schedule_open(const struct harness_lab_engine *base,
                                     struct harness_lab_engine **out)
{
    static const struct harness_lab_engine_ops ops = {schedule_alloc, schedule_run, schedule_close,
                                                      NULL};
    struct schedule_engine *engine = ddp_mem_array(ddp_mem_system(), 1, sizeof(*engine));
    const struct harness_lab_request *request = &base->shared->request;
    struct ddp_coll_schedule_config config = {.comm = 1 + base->number,
                                              .segment_bytes = request->segment_bytes,
                                              .is_checked = request->is_tried};
    struct ddp_transport *transport = NULL;
    ddp_status status;

    if (engine == NULL) {
        return ddp_err_set(base->err, DDP_E_NOMEM, "no memory");
    }
    engine->base = *base;
    engine->base.ops = &ops;
    engine->base.env.idle = &engine->base.idle.base;
    if (request->choice_count > 0) {
        config.choices = request->choice;
        config.choice_count = request->choice_count;
    } else if (request->algorithm == DDP_ALGORITHM_NONE) {
        harness_plugin_emitter_init(&engine->plugin, request->path, base->err);
        config.emitter = &engine->plugin.emitter;
    } else if (request->kind == DDP_COLL_ALL_REDUCE) {
        config.algorithm = request->algorithm;
    } else {
        config.of_kind[request->kind] = request->algorithm;
    }
    status = harness_lab_connect(&engine->base, &transport);
    if (status == DDP_OK) {
        status = ddp_device_cpu_create(engine->base.env.mem, &engine->device);
    }
    if (status == DDP_OK) {
        status = ddp_coll_schedule_create(&engine->base.env, transport, engine->device, &config,
                                          &engine->coll, base->err);
    }
    if (status != DDP_OK) {
        if (transport != NULL) {
            transport->ops->destroy(transport);
        }
        schedule_close(&engine->base);
        return status;
    }
    *out = &engine->base;
    return DDP_OK;
}
