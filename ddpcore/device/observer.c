/* The observing device: forwards every call, passes two fault points, and records. Work is recorded
 * once the inner device has accepted it; a wait that a fault left out is not recorded. */
#include "ddpcore/device/observer.h"

#include "ddpcore/device/observer_state.h"

/* --- memory and kernels ------------------------------------------------------------------------*/

static ddp_status observer_alloc(struct ddp_device *device, size_t size_bytes, enum ddp_space space,
                                 void **out)
{
    struct ddp_observer *self = ddp_observer_of(device);
    struct ddp_fault_context context = DDP_FAULT_CONTEXT_NONE;

    *out = NULL;
    context.device = device;
    if (ddp_fault_point(self->env->faults, DDP_FAULT_POINT_DEVICE_ALLOC, &context) ==
        DDP_FAULT_FAIL) {
        return space == DDP_SPACE_DEVICE ? DDP_E_DEVICE_MEMORY : DDP_E_NOMEM;
    }
    if (!self->is_recording || size_bytes == 0) {
        return self->inner->ops->alloc(self->inner, size_bytes, space, out);
    }
    DDP_TRY(ddp_observer_reserve_range(self));
    DDP_TRY(self->inner->ops->alloc(self->inner, size_bytes, space, out));
    ddp_observer_add_range(self, *out, size_bytes, space);
    return DDP_OK;
}

static void observer_free(struct ddp_device *device, enum ddp_space space, void *data)
{
    struct ddp_observer *self = ddp_observer_of(device);
    const struct ddp_observed_range *range =
        data != NULL ? ddp_observer_range_at(self, data) : NULL;

    if (range != NULL) {
        ddp_observer_remove_range(self, range);
    }
    self->inner->ops->free(self->inner, space, data);
}

static ddp_status observer_copy(struct ddp_device *device, struct ddp_stream *stream, void *target,
                                const void *source, size_t size_bytes)
{
    struct ddp_observer *self = ddp_observer_of(device);

    const enum ddp_access reads =
        self->is_diagnostic ? DDP_ACCESS_DIAGNOSTIC_READ : DDP_ACCESS_READ;

    DDP_OBSERVE(self, stream,
                self->inner->ops->copy(self->inner, ddp_observer_stream(stream), target, source,
                                       size_bytes),
                {source, size_bytes, reads},
                DDP_WRITES(self->is_diagnostic ? NULL : target, size_bytes, 1));
}

static ddp_status observer_zero(struct ddp_device *device, struct ddp_stream *stream, void *target,
                                size_t size_bytes)
{
    struct ddp_observer *self = ddp_observer_of(device);

    DDP_OBSERVE(
        self, stream,
        self->inner->ops->zero(self->inner, ddp_observer_stream(stream), target, size_bytes),
        DDP_WRITES(target, size_bytes, 1));
}

static ddp_status observer_reduce(struct ddp_device *device, struct ddp_stream *stream,
                                  void *target, const void *source, size_t elem_count,
                                  enum ddp_dtype dtype, enum ddp_redop op)
{
    struct ddp_observer *self = ddp_observer_of(device);

    DDP_OBSERVE(self, stream,
                self->inner->ops->reduce(self->inner, ddp_observer_stream(stream), target, source,
                                         elem_count, dtype, op),
                DDP_READS(source, elem_count, ddp_dtype_size_bytes(dtype)),
                DDP_READS(target, elem_count, ddp_dtype_size_bytes(dtype)),
                DDP_WRITES(target, elem_count, ddp_dtype_size_bytes(dtype)));
}

static ddp_status observer_scale(struct ddp_device *device, struct ddp_stream *stream, void *target,
                                 enum ddp_dtype target_dtype, const void *source,
                                 enum ddp_dtype source_dtype, size_t elem_count, double factor)
{
    struct ddp_observer *self = ddp_observer_of(device);

    DDP_OBSERVE(self, stream,
                self->inner->ops->scale(self->inner, ddp_observer_stream(stream), target,
                                        target_dtype, source, source_dtype, elem_count, factor),
                DDP_READS(source, elem_count, ddp_dtype_size_bytes(source_dtype)),
                DDP_WRITES(target, elem_count, ddp_dtype_size_bytes(target_dtype)));
}

/* --- streams and events ------------------------------------------------------------------------*/

static ddp_status observer_stream_create(struct ddp_device *device, struct ddp_stream **out)
{
    struct ddp_observer *self = ddp_observer_of(device);
    struct ddp_observed_stream *stream = ddp_mem_array(self->env->mem, 1, sizeof(*stream));
    ddp_status status;

    *out = NULL;
    if (stream == NULL) {
        return DDP_E_NOMEM;
    }
    status = self->inner->ops->stream_create(self->inner, &stream->inner);
    if (status != DDP_OK) {
        ddp_mem_free(self->env->mem, stream);
        return status;
    }
    stream->number = ++self->stream_count;
    *out = (struct ddp_stream *)(void *)stream;
    return DDP_OK;
}

static void observer_stream_destroy(struct ddp_device *device, struct ddp_stream *stream)
{
    struct ddp_observer *self = ddp_observer_of(device);

    if (stream != NULL) {
        self->inner->ops->stream_destroy(self->inner, ddp_observer_stream(stream));
        ddp_mem_free(self->env->mem, stream);
    }
}

static ddp_status observer_event_create(struct ddp_device *device, struct ddp_device_event **out)
{
    struct ddp_observer *self = ddp_observer_of(device);
    struct ddp_observed_event *event = ddp_mem_array(self->env->mem, 1, sizeof(*event));
    ddp_status status;

    *out = NULL;
    if (event == NULL) {
        return DDP_E_NOMEM;
    }
    status = self->inner->ops->event_create(self->inner, &event->inner);
    if (status != DDP_OK) {
        ddp_mem_free(self->env->mem, event);
        return status;
    }
    event->number = self->event_count++;
    *out = (struct ddp_device_event *)(void *)event;
    return DDP_OK;
}

static void observer_event_destroy(struct ddp_device *device, struct ddp_device_event *event)
{
    struct ddp_observer *self = ddp_observer_of(device);

    if (event != NULL) {
        self->inner->ops->event_destroy(self->inner, ddp_observer_event(event)->inner);
        ddp_mem_free(self->env->mem, event);
    }
}

/* A mark behind all work of the compute stream so far: the host is about to ask for that work, or
 * to make another stream wait for it. */
static ddp_status mark_idle(struct ddp_observer *self, const struct ddp_stream *stream)
{
    uint64_t word;

    if (self->progress == NULL || stream != NULL) {
        return DDP_OK;
    }
    word = ddp_progress_next(self->progress, DDP_PROGRESS_COMPUTE, DDP_MARK_IDLE, 0);
    return self->inner->ops->store_word(
        self->inner, NULL, &self->progress->stream[DDP_PROGRESS_COMPUTE].reached, word);
}

static ddp_status observer_event_record(struct ddp_device *device, struct ddp_device_event *event,
                                        struct ddp_stream *stream)
{
    struct ddp_observer *self = ddp_observer_of(device);

    DDP_TRY(mark_idle(self, stream));
    DDP_TRY(self->inner->ops->event_record(self->inner, ddp_observer_event(event)->inner,
                                           ddp_observer_stream(stream)));
    if (ddp_observer_event(event)->is_hidden) {
        return DDP_OK;
    }
    ddp_observer_event(event)->is_unseen = true;
    ddp_observer_record(self, DDP_EVENT_EVENT_RECORD, ddp_observer_event(event)->number,
                        ddp_observer_stream_number(stream), 0);
    return DDP_OK;
}

static ddp_status observer_event_query(struct ddp_device *device, struct ddp_device_event *event)
{
    struct ddp_observer *self = ddp_observer_of(device);

    DDP_TRY(self->inner->ops->event_query(self->inner, ddp_observer_event(event)->inner));
    if (ddp_observer_event(event)->is_unseen) {
        ddp_observer_event(event)->is_unseen = false;
        ddp_observer_record(self, DDP_EVENT_EVENT_DONE, ddp_observer_event(event)->number, 0, 0);
    }
    return DDP_OK;
}

static ddp_status observer_stream_wait_event(struct ddp_device *device, struct ddp_stream *stream,
                                             struct ddp_device_event *event)
{
    struct ddp_observer *self = ddp_observer_of(device);
    struct ddp_fault_context context = DDP_FAULT_CONTEXT_NONE;
    enum ddp_fault_action action;

    context.device = device;
    context.stream = stream;
    action = ddp_fault_point(self->env->faults, DDP_FAULT_POINT_DEVICE_EVENT_WAIT, &context);
    if (action == DDP_FAULT_FAIL) {
        return DDP_E_INJECTED;
    }
    if (action == DDP_FAULT_SKIP) {
        return DDP_OK;
    }
    DDP_TRY(self->inner->ops->stream_wait_event(self->inner, ddp_observer_stream(stream),
                                                ddp_observer_event(event)->inner));
    if (!ddp_observer_event(event)->is_hidden) {
        ddp_observer_record(self, DDP_EVENT_EVENT_WAIT, ddp_observer_event(event)->number,
                            ddp_observer_stream_number(stream), 0);
    }
    return DDP_OK;
}

/* --- forwarded only ----------------------------------------------------------------------------*/

static void *observer_native_stream(struct ddp_device *device, struct ddp_stream *stream)
{
    struct ddp_observer *self = ddp_observer_of(device);

    return self->inner->ops->native_stream(self->inner, ddp_observer_stream(stream));
}

static ddp_status observer_map(struct ddp_device *device, void *memory, size_t size_bytes)
{
    struct ddp_observer *self = ddp_observer_of(device);

    return self->inner->ops->map(self->inner, memory, size_bytes);
}

static void observer_unmap(struct ddp_device *device, void *memory)
{
    struct ddp_observer *self = ddp_observer_of(device);

    self->inner->ops->unmap(self->inner, memory);
}

static ddp_status observer_store_word(struct ddp_device *device, struct ddp_stream *stream,
                                      uint64_t *word, uint64_t value)
{
    struct ddp_observer *self = ddp_observer_of(device);

    return self->inner->ops->store_word(self->inner, ddp_observer_stream(stream), word, value);
}

static ddp_status observer_inject(struct ddp_device *device, struct ddp_stream *stream,
                                  enum ddp_device_fault fault, uint64_t ms)
{
    struct ddp_observer *self = ddp_observer_of(device);

    return self->inner->ops->inject(self->inner, ddp_observer_stream(stream), fault, ms);
}

static const char *observer_last_error(struct ddp_device *device)
{
    struct ddp_observer *self = ddp_observer_of(device);

    return self->inner->ops->last_error(self->inner);
}

static void observer_destroy(struct ddp_device *device)
{
    struct ddp_observer *self = ddp_observer_of(device);
    struct ddp_mem *mem = self->env->mem;

    self->inner->ops->destroy(self->inner);
    ddp_mem_free(mem, self->ranges);
    ddp_mem_free(mem, self);
}

static const struct ddp_device_ops observer_ops = {
    .alloc = observer_alloc,
    .free = observer_free,
    .copy = observer_copy,
    .zero = observer_zero,
    .reduce = observer_reduce,
    .scale = observer_scale,
    .stream_create = observer_stream_create,
    .stream_destroy = observer_stream_destroy,
    .event_create = observer_event_create,
    .event_destroy = observer_event_destroy,
    .event_record = observer_event_record,
    .event_query = observer_event_query,
    .stream_wait_event = observer_stream_wait_event,
    .native_stream = observer_native_stream,
    .map = observer_map,
    .unmap = observer_unmap,
    .store_word = observer_store_word,
    .inject = observer_inject,
    .last_error = observer_last_error,
    .destroy = observer_destroy,
};

_Static_assert(sizeof(struct ddp_device_ops) == 2 * sizeof(void *) + 20 * sizeof(void (*)(void)),
               "every function of device.h is forwarded");

ddp_status ddp_device_observer_create(struct ddp_device *inner, struct ddp_env *env,
                                      bool is_recording, struct ddp_device **out)
{
    struct ddp_observer *self = ddp_mem_array(env->mem, 1, sizeof(*self));

    DDP_ASSERT(inner->ops != NULL && inner->hints != NULL);
    *out = NULL;
    if (self == NULL) {
        return DDP_E_NOMEM;
    }
    self->ops = observer_ops;
    self->ops.name = inner->ops->name;
    self->ops.is_host_memory = inner->ops->is_host_memory;
    self->base =
        (struct ddp_device){.ops = &self->ops,
                            .math = &ddp_device_observer_math,
                            .layers = inner->layers != NULL ? &ddp_device_observer_layers : NULL,
                            .hints = &ddp_device_observer_hints,
                            .mem = inner->mem,
                            .thread = inner->thread};
    self->inner = inner;
    self->env = env;
    self->is_recording = is_recording && env->recorder != NULL;
    *out = &self->base;
    return DDP_OK;
}
