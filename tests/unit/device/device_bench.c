#include "tests/unit/device/device_bench.h"

#include <sched.h>
#include <string.h>

enum { GUARD = 0xA5 };

bool bench_open(struct bench *bench, const char **reason)
{
    static struct ddp_err err;
    ddp_status status;

    *bench = (struct bench){0};
    *reason = "the device did not open";
    if (!ct_check_status(__FILE__, __LINE__, "pool", ddp_mem_pool_create(&bench->pool), DDP_OK)) {
        return false;
    }
    status = bench_create_device(ddp_mem_pool_mem(bench->pool), &bench->device, &err);
    if (status != DDP_OK) {
        if (status == DDP_E_NOT_FOUND || status == DDP_E_UNSUPPORTED) {
            *reason = err.text;
        } else {
            CT_FAIL("the device does not open: %s: %s", ddp_status_name(status), err.text);
        }
        ddp_mem_pool_destroy(bench->pool);
        return false;
    }
    bench->ops = bench->device->ops;
    CT_CHECK_OK(ddp_transfer_init(&bench->transfer, bench->device, NULL, NULL, 0));
    return true;
}

static void free_images(struct bench *bench, struct bench_range *range)
{
    if (range->capacity_bytes > 0) {
        bench->ops->free(bench->device, DDP_SPACE_HOST, range->host);
        bench->ops->free(bench->device, DDP_SPACE_DEVICE, range->device);
        range->capacity_bytes = 0;
    }
}

void bench_close(struct bench *bench)
{
    for (unsigned i = 0; i < BENCH_RANGES; i++) {
        free_images(bench, &bench->ranges[i]);
    }
    ddp_transfer_fini(&bench->transfer);
    bench->ops->destroy(bench->device);
    CT_CHECK_EQ_U64(ddp_mem_pool_block_count(bench->pool), 0);
    ddp_mem_pool_destroy(bench->pool);
}

static void alloc_image(struct bench *bench, enum ddp_space space, size_t size_bytes,
                        unsigned char **out)
{
    void *image = NULL;

    CT_CHECK_OK(bench->ops->alloc(bench->device, size_bytes, space, &image));
    *out = (unsigned char *)image;
}

void *bench_begin(struct bench *bench, unsigned range, size_t elem_bytes, size_t elem_count,
                  size_t lead)
{
    struct bench_range *r = &bench->ranges[range];
    size_t whole_bytes;

    r->first = BENCH_GUARD_BYTES + lead * elem_bytes;
    r->size_bytes = elem_bytes * elem_count;
    whole_bytes = r->first + r->size_bytes + BENCH_GUARD_BYTES;
    if (whole_bytes > r->capacity_bytes) {
        free_images(bench, r);
        alloc_image(bench, DDP_SPACE_HOST, whole_bytes, &r->host);
        alloc_image(bench, DDP_SPACE_DEVICE, whole_bytes, &r->device);
        r->capacity_bytes = whole_bytes;
    }
    memset(r->host, GUARD, whole_bytes);
    return r->host + r->first;
}

void *bench_push(struct bench *bench, unsigned range)
{
    struct bench_range *r = &bench->ranges[range];

    CT_CHECK_OK(ddp_transfer_to_device(&bench->transfer, r->device, r->host,
                                       r->first + r->size_bytes + BENCH_GUARD_BYTES));
    return r->device + r->first;
}

void *bench_pull(struct bench *bench, unsigned range)
{
    struct bench_range *r = &bench->ranges[range];
    size_t end = r->first + r->size_bytes;

    CT_CHECK_OK(
        ddp_transfer_to_host(&bench->transfer, r->host, r->device, end + BENCH_GUARD_BYTES));
    for (size_t i = 0; i < end + BENCH_GUARD_BYTES; i++) {
        if ((i < r->first || i >= end) && r->host[i] != GUARD) {
            CT_FAIL("range %u: byte %lld of a payload of %zu bytes was written", range,
                    (long long)i - (long long)r->first, r->size_bytes);
            break;
        }
    }
    return r->host + r->first;
}

void bench_spin(struct bench *bench, struct ddp_stream *stream, uint64_t ms)
{
    CT_CHECK_STATUS(bench->ops->inject(bench->device, stream, DDP_DEVICE_FAULT_SPIN, ms),
                    bench->ops->is_host_memory ? DDP_E_UNSUPPORTED : DDP_OK);
}

ddp_status bench_drain(struct bench *bench, struct ddp_stream *stream)
{
    struct ddp_device_event *event;
    ddp_status status = bench->ops->event_create(bench->device, &event);

    if (status != DDP_OK) {
        return status;
    }
    status = bench->ops->event_record(bench->device, event, stream);
    if (status == DDP_OK) {
        do {
            status = bench->ops->event_query(bench->device, event);
            (void)sched_yield();
        } while (status == DDP_PENDING);
    }
    bench->ops->event_destroy(bench->device, event);
    return status;
}
