/* The CUDA device on the stand-in: what only the stand-in can tell or be made to do. Nothing that
 * runs on it is a GPU result. */
#include <ddp_standin.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ddpcore/device/device.h"
#include "ddpcore/device/math.h"
#include "tests/standin/standin_testing.h"
#include "tests/unit/device/device_bench.h"

enum { ELEMS = 64, SIZE_BYTES = ELEMS * sizeof(float) };

/* One of everything. Returns the first status that is not OK. */
static ddp_status use(struct ddp_device *device, struct ddp_stream *stream,
                      struct ddp_device_event *event, float *host, float *data)
{
    const struct ddp_device_ops *ops = device->ops;
    const struct ddp_gemm gemm = {
        .m = 8, .n = 8, .k = 8, .alpha = 1.0F, .a = data, .b = data, .c = data + ELEMS};

    DDP_TRY(ops->copy(device, NULL, data, host, SIZE_BYTES));
    DDP_TRY(ops->reduce(device, NULL, data, data, ELEMS, DDP_DTYPE_F32, DDP_REDOP_SUM));
    DDP_TRY(device->math->gemm(device, NULL, &gemm));
    DDP_TRY(ops->event_record(device, event, NULL));
    DDP_TRY(ops->stream_wait_event(device, stream, event));
    DDP_TRY(device->math->gemm(device, stream, &gemm));
    DDP_TRY(ops->copy(device, stream, host, data + ELEMS, SIZE_BYTES));
    return ops->event_record(device, event, stream);
}

/* Creates a device, uses it, destroys it. The first status that is not OK. */
static ddp_status live(struct ddp_mem *mem)
{
    struct ddp_device *device = NULL;
    struct ddp_stream *stream = NULL;
    struct ddp_device_event *event = NULL;
    void *host = NULL, *data = NULL;
    struct ddp_err err;
    ddp_status status = bench_create_device(mem, &device, &err);

    if (status != DDP_OK) {
        return status;
    }
    if ((status = device->ops->stream_create(device, &stream)) == DDP_OK &&
        (status = device->ops->event_create(device, &event)) == DDP_OK &&
        (status = device->ops->alloc(device, SIZE_BYTES, DDP_SPACE_HOST, &host)) == DDP_OK &&
        (status = device->ops->alloc(device, 2 * SIZE_BYTES, DDP_SPACE_DEVICE, &data)) == DDP_OK &&
        (status = use(device, stream, event, host, data)) == DDP_OK) {
        do {
            status = device->ops->event_query(device, event);
        } while (status == DDP_PENDING);
    }
    if (data != NULL) {
        device->ops->free(device, DDP_SPACE_DEVICE, data);
    }
    if (host != NULL) {
        device->ops->free(device, DDP_SPACE_HOST, host);
    }
    if (event != NULL) {
        device->ops->event_destroy(device, event);
    }
    if (stream != NULL) {
        device->ops->stream_destroy(device, stream);
    }
    device->ops->destroy(device);
    return status;
}

static bool is_nothing_left(const struct ddp_mem_pool *pool)
{
    struct ddp_standin_report report;

    ddp_standin_report_get(&report);
    return ddp_mem_pool_block_count(pool) == 0 && report.device_count == 0 &&
           report.pinned_count == 0 && report.registered_count == 0 && report.stream_count == 0 &&
           report.event_count == 0;
}

CT_TEST(cuda_standin, leaves_nothing_and_never_waits_for_a_copy)
{
    struct ddp_standin_report report;
    struct ddp_mem_pool *pool;

    CT_REQUIRE_OK(ddp_mem_pool_create(&pool));
    CT_CHECK_OK(live(ddp_mem_pool_mem(pool)));
    CT_CHECK(is_nothing_left(pool));
    ddp_standin_report_get(&report);
    CT_CHECK(report.copy_count > 0 && report.kernel_count > 0);
    CT_CHECK_EQ_U64(report.pageable_copy_count, 0);
    ddp_mem_pool_destroy(pool);
}

enum outcome { FINISHED, REFUSED, WRONG };

/* In a process of its own, in which all allocations from the n-th on fail, of the card's memory and
 * of page-locked. */
static enum outcome live_with_failing_allocation(unsigned n)
{
    struct ddp_mem_pool *pool;
    char number[16];
    ddp_status status;
    int state = 0;
    pid_t child = fork();

    if (child == 0) {
        (void)snprintf(number, sizeof(number), "%u", n);
        if (setenv("DDP_STANDIN_FAIL_ALLOCATION", number, 1) != 0 ||
            ddp_mem_pool_create(&pool) != DDP_OK) {
            _exit(WRONG);
        }
        status = live(ddp_mem_pool_mem(pool));
        if (!is_nothing_left(pool)) {
            _exit(WRONG);
        }
        if (status == DDP_E_NOMEM || status == DDP_E_DEVICE_MEMORY) {
            _exit(REFUSED);
        }
        _exit(status == DDP_OK ? FINISHED : WRONG);
    }
    if (child < 0 || waitpid(child, &state, 0) != child || !WIFEXITED(state)) {
        return WRONG;
    }
    return (enum outcome)WEXITSTATUS(state);
}

CT_TEST(cuda_standin, survives_every_failing_allocation)
{
    unsigned n = 1;
    enum outcome outcome = live_with_failing_allocation(n);

    while (outcome == REFUSED && n < 100) {
        outcome = live_with_failing_allocation(++n);
    }
    if (outcome != FINISHED) {
        CT_FAIL("allocation %u: outcome %d", n, (int)outcome);
    }
    CT_CHECK(n > 2);
}
