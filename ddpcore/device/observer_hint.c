/* The observing device's hints: each is recorded here and passed on to the inner device. */
#include "ddpcore/device/observer_state.h"

static void observer_collective_access(struct ddp_device *device, struct ddp_stream *stream,
                                       const void *data, size_t size_bytes, bool is_write)
{
    struct ddp_observer *self = ddp_observer_of(device);
    const struct ddp_operand used = {data, size_bytes,
                                     is_write ? DDP_ACCESS_COLL_WRITE : DDP_ACCESS_COLL_READ};

    self->inner->hints->collective_access(self->inner, ddp_observer_stream(stream), data,
                                          size_bytes, is_write);
    ddp_observer_work(self, stream, &used, 1);
}

static void observer_host_access(struct ddp_device *device, const void *data, size_t size_bytes,
                                 bool is_write)
{
    struct ddp_observer *self = ddp_observer_of(device);
    const struct ddp_operand used = {data, size_bytes,
                                     is_write ? DDP_ACCESS_HOST_WRITE : DDP_ACCESS_HOST_READ};

    self->inner->hints->host_access(self->inner, data, size_bytes, is_write);
    ddp_observer_work(self, NULL, &used, 1);
}

static void observer_set_diagnostic(struct ddp_device *device, bool is_diagnostic)
{
    struct ddp_observer *self = ddp_observer_of(device);

    DDP_ASSERT(self->is_diagnostic != is_diagnostic); /* diagnostic reads do not nest */
    self->inner->hints->set_diagnostic(self->inner, is_diagnostic);
    self->is_diagnostic = is_diagnostic;
}

static void observer_hide_event(struct ddp_device *device, struct ddp_device_event *event)
{
    struct ddp_observer *self = ddp_observer_of(device);

    self->inner->hints->hide_event(self->inner, ddp_observer_event(event)->inner);
    ddp_observer_event(event)->is_hidden = true;
}

static ddp_status observer_name_range(struct ddp_device *device, enum ddp_range_kind kind,
                                      size_t index, const void *data, size_t size_bytes)
{
    struct ddp_observer *self = ddp_observer_of(device);
    const struct ddp_observed_range *range;

    DDP_TRY(self->inner->hints->name_range(self->inner, kind, index, data, size_bytes));
    if (!self->is_recording || size_bytes == 0) {
        return DDP_OK;
    }
    range = ddp_observer_range_at(self, data);
    if (range == NULL) {
        DDP_TRY(ddp_observer_reserve_range(self));
        range = ddp_observer_add_range(self, data, size_bytes, DDP_SPACE_DEVICE);
    }
    DDP_ASSERT((unsigned)kind < DDP_RANGE_COUNT);
    DDP_ASSERT(size_bytes <= range->end - (uintptr_t)data);
    ddp_recorder_event(self->env->recorder, DDP_EVENT_DEVICE_NAME, (uint64_t)kind, index,
                       range->allocation, (uintptr_t)data - range->first, size_bytes);
    return DDP_OK;
}

/* Not passed on: one IDLE mark is enough. */
static void observer_set_progress(struct ddp_device *device, struct ddp_progress *progress)
{
    ddp_observer_of(device)->progress = progress;
}

_Static_assert(sizeof(struct ddp_device_hint_ops) == 6 * sizeof(void (*)(void)),
               "every hint of device.h is taken");

const struct ddp_device_hint_ops ddp_device_observer_hints = {
    .collective_access = observer_collective_access,
    .host_access = observer_host_access,
    .set_diagnostic = observer_set_diagnostic,
    .hide_event = observer_hide_event,
    .name_range = observer_name_range,
    .set_progress = observer_set_progress,
};
