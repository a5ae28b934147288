#include "tests/unit/device/observer_bench.h"

#include <string.h>

static ddp_status pending_query(struct ddp_device *device, struct ddp_device_event *event)
{
    struct pending_device *pending = (struct pending_device *)device;

    (void)event;
    return pending->pending_count-- > 0 ? DDP_PENDING : DDP_OK;
}

static struct pending_device *pending_of(struct ddp_device *device)
{
    return (struct pending_device *)device;
}

static void pending_collective_access(struct ddp_device *device, struct ddp_stream *stream,
                                      const void *data, size_t size_bytes, bool is_write)
{
    (void)data;
    (void)size_bytes;
    (void)is_write;
    pending_of(device)->access_count++;
    pending_of(device)->accessed_on = stream;
}

static void pending_host_access(struct ddp_device *device, const void *data, size_t size_bytes,
                                bool is_write)
{
    (void)data;
    (void)size_bytes;
    (void)is_write;
    pending_of(device)->hint_count++;
}

static void pending_set_diagnostic(struct ddp_device *device, bool is_diagnostic)
{
    (void)is_diagnostic;
    pending_of(device)->hint_count++;
}

static void pending_hide_event(struct ddp_device *device, struct ddp_device_event *event)
{
    pending_of(device)->hint_count++;
    pending_of(device)->hidden = event;
}

static ddp_status pending_name_range(struct ddp_device *device, enum ddp_range_kind kind,
                                     size_t index, const void *data, size_t size_bytes)
{
    (void)kind;
    (void)index;
    (void)data;
    (void)size_bytes;
    pending_of(device)->hint_count++;
    return DDP_OK;
}

static const struct ddp_device_hint_ops pending_hints = {
    .collective_access = pending_collective_access,
    .host_access = pending_host_access,
    .set_diagnostic = pending_set_diagnostic,
    .hide_event = pending_hide_event,
    .name_range = pending_name_range,
};

static void pending_destroy(struct ddp_device *device)
{
    struct pending_device *pending = (struct pending_device *)device;

    pending->cpu->ops->destroy(pending->cpu);
    pending->cpu = NULL;
}

static enum ddp_fault_action fire(struct ddp_fault_hook *hook, enum ddp_fault_point point,
                                  struct ddp_fault_context *context)
{
    struct observer_bench *bench =
        (struct observer_bench *)(void *)((char *)hook - offsetof(struct observer_bench, hook));

    bench->seen = *context;
    return point == bench->point ? bench->action : DDP_FAULT_GO;
}

bool observer_bench_open(struct observer_bench *bench, bool is_recording)
{
    void *ring;

    memset(bench, 0, sizeof *bench);
    CT_CHECK_OK(ddp_mem_pool_create(&bench->pool));
    bench->env.mem = ddp_mem_pool_mem(bench->pool);
    ring = ddp_mem_array(bench->env.mem, ddp_recorder_size_bytes(OBSERVER_RING_ENTRIES), 1);
    ddp_clock_virtual_init(&bench->clock, 1);
    ddp_recorder_init(&bench->recorder, ring, OBSERVER_RING_ENTRIES, &bench->clock.base, 0, 1, 1);
    bench->hook.fire = fire;
    bench->env.faults = &bench->hook;
    bench->env.recorder = &bench->recorder;
    CT_CHECK_OK(ddp_device_cpu_create(bench->env.mem, &bench->inner.cpu));
    bench->inner.ops = *bench->inner.cpu->ops;
    bench->inner.ops.event_query = pending_query;
    bench->inner.ops.destroy = pending_destroy;
    bench->inner.base = (struct ddp_device){.ops = &bench->inner.ops,
                                            .math = bench->inner.cpu->math,
                                            .layers = bench->inner.cpu->layers,
                                            .hints = &pending_hints,
                                            .mem = bench->env.mem,
                                            .thread = {NULL, 3}};
    return ddp_device_observer_create(&bench->inner.base, &bench->env, is_recording,
                                      &bench->device) == DDP_OK;
}

void observer_bench_close(struct observer_bench *bench)
{
    bench->device->ops->destroy(bench->device);
    CT_CHECK(bench->inner.cpu == NULL); /* the inner device went with it */
    ddp_mem_free(bench->env.mem, bench->recorder.page);
    CT_CHECK_EQ_U64(ddp_mem_pool_block_count(bench->pool), 0);
    ddp_mem_pool_destroy(bench->pool);
}

void observer_bench_arm(struct observer_bench *bench, enum ddp_fault_point point,
                        enum ddp_fault_action action)
{
    bench->hook.armed = UINT64_C(1) << point;
    bench->point = point;
    bench->action = action;
}

void observer_expect(struct observer_bench *bench, const char *what, enum ddp_event event,
                     uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4)
{
    const uint64_t args[5] = {a0, a1, a2, a3, a4};
    struct ddp_event_entry entry;

    if (ddp_ring_read(bench->recorder.ring, OBSERVER_RING_ENTRIES, ++bench->read_count, &entry) !=
        DDP_OK) {
        CT_FAIL("%s: %s was not recorded", what, ddp_event_name(event));
        return;
    }
    CT_CHECK_STR(ddp_event_name((enum ddp_event)entry.event), ddp_event_name(event));
    for (unsigned i = 0; i < 5; i++) {
        if (entry.arg[i] != args[i]) {
            CT_FAIL("%s: %s %s%llu, not %llu", what, ddp_event_name(event), ddp_event_arg(event, i),
                    (unsigned long long)entry.arg[i], (unsigned long long)args[i]);
        }
    }
}

void observer_expect_nothing(struct observer_bench *bench, const char *what)
{
    struct ddp_event_entry entry;

    if (ddp_ring_read(bench->recorder.ring, OBSERVER_RING_ENTRIES, bench->read_count + 1, &entry) ==
        DDP_OK) {
        CT_FAIL("%s: %s was recorded as well", what, ddp_event_name((enum ddp_event)entry.event));
    }
}

float *observer_bench_alloc(struct observer_bench *bench, size_t elem_count)
{
    void *data = NULL;

    CT_CHECK_OK(bench->device->ops->alloc(bench->device, elem_count * sizeof(float),
                                          DDP_SPACE_DEVICE, &data));
    return (float *)data;
}

void observer_bench_free(struct observer_bench *bench, float *data)
{
    bench->device->ops->free(bench->device, DDP_SPACE_DEVICE, data);
}

void observer_expect_work(struct observer_bench *bench, const char *what, uint64_t stream,
                          const char *touched)
{
    const char *at = touched;

    while (*at != '\0') {
        char access = *at++;
        uint64_t number[3] = {0};

        for (int i = 0; i < 3; i++) {
            while (*at >= '0' && *at <= '9') {
                number[i] = 10 * number[i] + (uint64_t)(*at++ - '0');
            }
            at += *at != '\0' ? 1 : 0;
        }
        observer_expect(bench, what, DDP_EVENT_DEVICE_ACCESS, stream, number[0], number[1],
                        number[2], access == 'w' ? DDP_ACCESS_WRITE : DDP_ACCESS_READ);
    }
    observer_expect_nothing(bench, what);
}
