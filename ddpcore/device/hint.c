/* The hints of devices that observe nothing. */
#include "ddpcore/device/device.h"

static void collective_access(struct ddp_device *device, struct ddp_stream *stream,
                              const void *data, size_t size_bytes, bool is_write)
{
    (void)device;
    (void)stream;
    (void)data;
    (void)size_bytes;
    (void)is_write;
}

static void host_access(struct ddp_device *device, const void *data, size_t size_bytes,
                        bool is_write)
{
    (void)device;
    (void)data;
    (void)size_bytes;
    (void)is_write;
}

static void set_diagnostic(struct ddp_device *device, bool is_diagnostic)
{
    (void)device;
    (void)is_diagnostic;
}

static void hide_event(struct ddp_device *device, struct ddp_device_event *event)
{
    (void)device;
    (void)event;
}

static ddp_status name_range(struct ddp_device *device, enum ddp_range_kind kind, size_t index,
                             const void *data, size_t size_bytes)
{
    (void)device;
    (void)kind;
    (void)index;
    (void)data;
    (void)size_bytes;
    return DDP_OK;
}

static void set_progress(struct ddp_device *device, struct ddp_progress *progress)
{
    (void)device;
    (void)progress;
}

const struct ddp_device_hint_ops ddp_device_no_hints = {
    .collective_access = collective_access,
    .host_access = host_access,
    .set_diagnostic = set_diagnostic,
    .hide_event = hide_event,
    .name_range = name_range,
    .set_progress = set_progress,
};
