/* The observing device: forwards every call, passes two fault points, and records. What happened is
 * recorded after the inner device accepted it; a wait that a fault made it forget is not. */
#include "ddpcore/device/observer.h"

#include <string.h>

#include "ddpcore/device/observer_state.h"

static struct ddp_observed_event *event_of(struct ddp_device_event *event)
{
    return (struct ddp_observed_event *)(void *)event;
}

static uint64_t stream_number(const struct ddp_stream *stream)
{
    return stream == NULL ? 0 : ((const struct ddp_observed_stream *)(const void *)stream)->number;
}

static void record(const struct ddp_observer *self, enum ddp_event event, uint64_t a0, uint64_t a1,
                   uint64_t a2)
{
    if (self->is_recording) {
        ddp_recorder_event(self->env->recorder, event, a0, a1, a2, 0, 0);
    }
}

/* --- ranges ------------------------------------------------------------------------------------*/

/* Index of the first range that ends after address. */
static size_t range_after(const struct ddp_observer *self, uintptr_t address)
{
    size_t low = 0;
    size_t high = self->range_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (self->ranges[middle].end <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static const struct ddp_observed_range *range_at(const struct ddp_observer *self, const void *data)
{
    const uintptr_t address = (uintptr_t)data;
    size_t index = range_after(self, address);

    return index < self->range_count && self->ranges[index].first <= address ? &self->ranges[index]
                                                                             : NULL;
}

static ddp_status reserve_range(struct ddp_observer *self)
{
    struct ddp_observed_range *ranges = ddp_mem_grow(
        self->env->mem, self->ranges, self->range_count, &self->range_capacity, sizeof(*ranges));

    if (ranges == NULL) {
        return DDP_E_NOMEM;
    }
    self->ranges = ranges;
    return DDP_OK;
}

static void remove_ranges(struct ddp_observer *self, size_t first, size_t count)
{
    self->range_count -= count;
    memmove(self->ranges + first, self->ranges + first + count,
            (self->range_count - first) * sizeof(*self->ranges));
}

/* Call reserve_range first. */
static uint64_t add_range(struct ddp_observer *self, const void *data, size_t size_bytes,
                          enum ddp_space space)
{
    const uintptr_t first = (uintptr_t)data;
    const uintptr_t end = first + size_bytes;
    const uint64_t allocation = self->allocation_count++;
    size_t index = range_after(self, first);
    size_t stale = 0;

    /* Named memory from elsewhere is given back without a word. */
    while (index + stale < self->range_count && self->ranges[index + stale].first < end) {
        stale++;
    }
    remove_ranges(self, index, stale);
    memmove(self->ranges + index + 1, self->ranges + index,
            (self->range_count - index) * sizeof(*self->ranges));
    self->ranges[index] = (struct ddp_observed_range){first, end, allocation};
    self->range_count++;
    record(self, DDP_EVENT_DEVICE_ALLOC, allocation, size_bytes, space);
    return allocation;
}

void ddp_observer_work(struct ddp_observer *self, const struct ddp_stream *stream,
                       const struct ddp_operand *operands, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct ddp_observed_range *range;

        if (operands[i].data == NULL || operands[i].size_bytes == 0) {
            continue;
        }
        range = range_at(self, operands[i].data);
        if (range != NULL) {
            ddp_recorder_event(self->env->recorder, DDP_EVENT_DEVICE_ACCESS, stream_number(stream),
                               range->allocation, (uintptr_t)operands[i].data - range->first,
                               operands[i].size_bytes, operands[i].access);
        }
    }
}

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
    DDP_TRY(reserve_range(self));
    DDP_TRY(self->inner->ops->alloc(self->inner, size_bytes, space, out));
    (void)add_range(self, *out, size_bytes, space);
    return DDP_OK;
}

static void observer_free(struct ddp_device *device, enum ddp_space space, void *data)
{
    struct ddp_observer *self = ddp_observer_of(device);
    const struct ddp_observed_range *range = data != NULL ? range_at(self, data) : NULL;

    if (range != NULL) {
        record(self, DDP_EVENT_DEVICE_FREE, range->allocation, 0, 0);
        remove_ranges(self, (size_t)(range - self->ranges), 1);
    }
    self->inner->ops->free(self->inner, space, data);
}

static ddp_status observer_copy(struct ddp_device *device, struct ddp_stream *stream, void *target,
                                const void *source, size_t size_bytes)
{
    struct ddp_observer *self = ddp_observer_of(device);

    const enum ddp_access reads = self->is_watching ? DDP_ACCESS_WATCH_READ : DDP_ACCESS_READ;

    DDP_OBSERVE(self, stream,
                self->inner->ops->copy(self->inner, ddp_observer_stream(stream), target, source,
                                       size_bytes),
                {source, size_bytes, reads}, DDP_WRITES(target, size_bytes, 1));
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
                                 enum ddp_dtype source_dtype, size_t elem_count, float factor)
{
    struct ddp_observer *self = ddp_observer_of(device);

    DDP_OBSERVE(self, stream,
                self->inner->ops->scale(self->inner, ddp_observer_stream(stream), target,
                                        target_dtype, source, source_dtype, elem_count, factor),
                DDP_READS(source, elem_count, ddp_dtype_size_bytes(source_dtype)),
                DDP_WRITES(target, elem_count, ddp_dtype_size_bytes(target_dtype)));
}

static void observer_note(struct ddp_device *device, struct ddp_stream *stream, const void *data,
                          size_t size_bytes, bool is_write)
{
    struct ddp_observer *self = ddp_observer_of(device);

    self->inner->ops->note(self->inner, ddp_observer_stream(stream), data, size_bytes, is_write);
    if (self->is_recording) {
        const struct ddp_operand noted = {data, size_bytes,
                                          is_write ? DDP_ACCESS_COLL_WRITE : DDP_ACCESS_COLL_READ};

        ddp_observer_work(self, stream, &noted, 1);
    }
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
        self->inner->ops->event_destroy(self->inner, event_of(event)->inner);
        ddp_mem_free(self->env->mem, event);
    }
}

/* The compute stream's work so far is all there is until somebody hears of it. */
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
    DDP_TRY(self->inner->ops->event_record(self->inner, event_of(event)->inner,
                                           ddp_observer_stream(stream)));
    if (event_of(event)->is_hidden) {
        return DDP_OK;
    }
    event_of(event)->is_unseen = true;
    record(self, DDP_EVENT_EVENT_RECORD, event_of(event)->number, stream_number(stream), 0);
    return DDP_OK;
}

static ddp_status observer_event_query(struct ddp_device *device, struct ddp_device_event *event)
{
    struct ddp_observer *self = ddp_observer_of(device);

    DDP_TRY(self->inner->ops->event_query(self->inner, event_of(event)->inner));
    if (event_of(event)->is_unseen) {
        event_of(event)->is_unseen = false;
        record(self, DDP_EVENT_EVENT_DONE, event_of(event)->number, 0, 0);
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
                                                event_of(event)->inner));
    if (!event_of(event)->is_hidden) {
        record(self, DDP_EVENT_EVENT_WAIT, event_of(event)->number, stream_number(stream), 0);
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
    .note = observer_note,
    .inject = observer_inject,
    .last_error = observer_last_error,
    .destroy = observer_destroy,
};

_Static_assert(sizeof(struct ddp_device_ops) == 2 * sizeof(void *) + 21 * sizeof(void (*)(void)),
               "every function of device.h is forwarded");

ddp_status ddp_device_observer_create(struct ddp_device *inner, struct ddp_env *env,
                                      bool is_recording, struct ddp_device **out)
{
    struct ddp_observer *self = ddp_mem_array(env->mem, 1, sizeof(*self));

    *out = NULL;
    if (self == NULL) {
        return DDP_E_NOMEM;
    }
    self->ops = observer_ops;
    self->ops.name = inner->ops->name;
    self->ops.is_host_memory = inner->ops->is_host_memory;
    self->base =
        (struct ddp_device){&self->ops, &ddp_device_observer_math, inner->mem, inner->thread};
    self->inner = inner;
    self->env = env;
    self->is_recording = is_recording && env->recorder != NULL;
    *out = &self->base;
    return DDP_OK;
}

ddp_status ddp_device_observer_name(struct ddp_device *device, enum ddp_range_kind kind,
                                    size_t index, const void *data, size_t size_bytes)
{
    struct ddp_observer *self = ddp_observer_of(device);
    const struct ddp_observed_range *range;

    if (device->ops->alloc != observer_alloc || !self->is_recording || size_bytes == 0) {
        return DDP_OK;
    }
    range = range_at(self, data);
    if (range == NULL) {
        DDP_TRY(reserve_range(self));
        (void)add_range(self, data, size_bytes, DDP_SPACE_DEVICE);
        range = range_at(self, data);
    }
    DDP_ASSERT(range != NULL); /* it was there, or was just added */
    ddp_recorder_event(self->env->recorder, DDP_EVENT_DEVICE_NAME, (uint64_t)kind, index,
                       range->allocation, (uintptr_t)data - range->first, size_bytes);
    return DDP_OK;
}
