/* What only the CPU device promises: its memory is its allocator's, everything is done at once, it
 * sees labels; and the library behind its matrix products. */
#include <string.h>

#include "tests/unit/device/device_bench.h"

/* Memory comes from the device's allocator, goes back to it, and its exhaustion is an error. */
CT_TEST(device_cpu, allocates_from_its_mem)
{
    struct ddp_mem_pool *pool;
    struct ddp_device *device;
    void *data;

    CT_REQUIRE_OK(ddp_mem_pool_create(&pool));
    CT_REQUIRE_OK(ddp_device_cpu_create(ddp_mem_pool_mem(pool), &device));
    CT_CHECK_OK(device->ops->alloc(device, 1000, DDP_SPACE_DEVICE, &data));
    CT_CHECK_EQ_U64(ddp_mem_pool_block_count(pool), 2);
    device->ops->free(device, DDP_SPACE_DEVICE, data);
    ddp_mem_pool_fail_after(pool, 0, 1);
    CT_CHECK_STATUS(device->ops->alloc(device, 8, DDP_SPACE_HOST, &data), DDP_E_NOMEM);
    device->ops->destroy(device);
    CT_CHECK_EQ_U64(ddp_mem_pool_block_count(pool), 0);
    ddp_mem_pool_destroy(pool);
}

/* Everything has been done when a call returns: events are ready at once. */
CT_TEST(device_cpu, events_are_ready)
{
    struct bench bench;
    struct ddp_stream *stream;
    struct ddp_device_event *event;

    BENCH_OPEN(&bench);
    CT_CHECK_OK(bench.ops->stream_create(bench.device, &stream));
    CT_CHECK_OK(bench.ops->event_create(bench.device, &event));
    CT_CHECK_OK(bench.ops->event_record(bench.device, event, stream));
    CT_CHECK_OK(bench.ops->stream_wait_event(bench.device, stream, event));
    CT_CHECK_OK(bench.ops->event_query(bench.device, event));
    bench.ops->event_destroy(bench.device, event);
    bench.ops->stream_destroy(bench.device, stream);
    bench_close(&bench);
}

/* A label out of range is refused before anything is written. */
CT_TEST(device_cpu, refuses_wrong_labels)
{
    const float x[2][2] = {{1.0F, 2.0F}, {3.0F, 4.0F}};
    int32_t labels[2] = {0, 2};
    float losses[2] = {7.0F, 7.0F};
    struct ddp_loss loss = {losses, NULL, &x[0][0], 2, 2, 1.0F};
    struct bench bench;

    BENCH_OPEN(&bench);
    CT_CHECK_STATUS(bench.device->math->softmax_cross_entropy(bench.device, NULL, &loss, labels),
                    DDP_E_INVALID);
    labels[1] = -1;
    CT_CHECK_STATUS(bench.device->math->softmax_cross_entropy(bench.device, NULL, &loss, labels),
                    DDP_E_INVALID);
    CT_CHECK(losses[0] == 7.0F);
    bench_close(&bench);
}

/* It has no kernels that could spin or trap. */
CT_TEST(device_cpu, has_no_faults_of_its_own)
{
    struct bench bench;

    BENCH_OPEN(&bench);
    CT_CHECK_STATUS(bench.ops->inject(bench.device, NULL, DDP_DEVICE_FAULT_TRAP, 0),
                    DDP_E_UNSUPPORTED);
    CT_CHECK_STATUS(bench.ops->inject(bench.device, NULL, DDP_DEVICE_FAULT_SPIN, 1),
                    DDP_E_UNSUPPORTED);
    CT_CHECK_STR(bench.ops->last_error(bench.device), "");
    bench_close(&bench);
}

/* Opening is idempotent, pins a core type, refuses another one afterwards, and says what is in
 * force. */
CT_TEST(device_cpu, opens_blas_once)
{
    struct ddp_err err;

    CT_REQUIRE_OK(ddp_blas_open(NULL, &err));
    CT_CHECK_OK(ddp_blas_open(NULL, &err));
    CT_CHECK(ddp_blas_core_type()[0] != '\0');
    CT_CHECK(strstr(ddp_blas_describe(), ddp_blas_core_type()) != NULL);
    CT_CHECK(strstr(ddp_blas_describe(), "1 thread") != NULL);
    CT_CHECK_OK(ddp_blas_open(ddp_blas_core_type(), &err));
    CT_CHECK_STATUS(ddp_blas_open("Prescott", &err), DDP_E_STATE);
}
