/* What the observing device is told beside the calls that it forwards. */
#include "ddpcore/device/observer_state.h"

static bool is_observer(const struct ddp_device *device)
{
    return device->math == &ddp_device_observer_math;
}

void ddp_device_observer_hide(struct ddp_device *device, struct ddp_device_event *event)
{
    if (is_observer(device)) {
        ((struct ddp_observed_event *)(void *)event)->is_hidden = true;
    }
}

void ddp_device_observer_host(struct ddp_device *device, const void *data, size_t size_bytes,
                              bool is_write)
{
    const struct ddp_operand used = {data, size_bytes,
                                     is_write ? DDP_ACCESS_HOST_WRITE : DDP_ACCESS_HOST_READ};

    if (is_observer(device) && ddp_observer_of(device)->is_recording) {
        ddp_observer_work(ddp_observer_of(device), NULL, &used, 1);
    }
}

void ddp_device_observer_watch(struct ddp_device *device, bool is_watching)
{
    if (is_observer(device)) {
        ddp_observer_of(device)->is_watching = is_watching;
    }
}

void ddp_device_observer_mark(struct ddp_device *device, struct ddp_progress *progress)
{
    if (is_observer(device)) {
        ddp_observer_of(device)->progress = progress;
    }
}
