/* What only the CUDA device promises: what it says where something is missing, labels that the host
 * cannot see, real faults. */
#include <stdio.h>
#include <string.h>

#include "ddpcore/cuda/cuda.h"
#include "tests/unit/device/device_bench.h"

/* A query says what is there; where there is nothing, why not and what would help. */
CT_TEST(device_cuda, query_tells)
{
    struct ddp_device_cuda_info info;
    struct ddp_err err = {{0}};
    ddp_status status = ddp_device_cuda_query(0, &info, &err);

    if (status == DDP_OK) {
        CT_CHECK(info.card_count >= 1 && info.name[0] != '\0' && info.memory_bytes > 0);
        CT_CHECK(info.compute_capability >= 10 && info.driver_version >= info.runtime_version);
        CT_CHECK_STATUS(ddp_device_cuda_query((int32_t)info.card_count, &info, &err),
                        DDP_E_NOT_FOUND);
        CT_CHECK(strstr(err.text, "no CUDA card") != NULL);
        CT_CHECK_STATUS(ddp_device_cuda_query(-1, &info, &err), DDP_E_NOT_FOUND);
    } else {
        CT_CHECK(status == DDP_E_NOT_FOUND || status == DDP_E_UNSUPPORTED);
        CT_CHECK(strlen(err.text) > 0 && info.name[0] == '\0');
    }
}

/* Creation fails as the query does, and leaves nothing behind. */
CT_TEST(device_cuda, creation_fails_clean)
{
    const struct ddp_device_cuda_config no_card = {.ordinal = 4096};
    const struct ddp_device_cuda_config no_cublas = {.cublas_path = "/nowhere/libcublas.so"};
    struct ddp_device_cuda_info info;
    struct ddp_mem_pool *pool;
    struct ddp_device *device;
    struct ddp_err err = {{0}};
    ddp_status status;

    CT_REQUIRE_OK(ddp_mem_pool_create(&pool));
    status = ddp_device_cuda_create(ddp_mem_pool_mem(pool), &no_card, &device, &err);
    CT_CHECK(status == DDP_E_NOT_FOUND || status == DDP_E_UNSUPPORTED);
    CT_CHECK(device == NULL && strlen(err.text) > 0);
    status = ddp_device_cuda_create(ddp_mem_pool_mem(pool), &no_cublas, &device, &err);
    CT_CHECK(status == DDP_E_NOT_FOUND || status == DDP_E_UNSUPPORTED);
    CT_CHECK(device == NULL && strlen(err.text) > 0);
    if (ddp_device_cuda_query(0, &info, NULL) == DDP_OK) {
        CT_CHECK(strstr(err.text, "/nowhere/libcublas.so") != NULL);
    }
    CT_CHECK_EQ_U64(ddp_mem_pool_block_count(pool), 0);
    ddp_mem_pool_destroy(pool);
}

/* Where memory for bookkeeping runs out, at any point, creation says so and leaves nothing. */
CT_TEST(device_cuda, creation_survives_exhaustion)
{
    struct ddp_mem_pool *pool;
    struct ddp_device *device = NULL;
    struct ddp_err err;
    ddp_status status = DDP_E_NOMEM;

    CT_REQUIRE_OK(ddp_mem_pool_create(&pool));
    for (uint64_t i = 0; status == DDP_E_NOMEM; i++) {
        CT_REQUIRE(i < 100);
        ddp_mem_pool_fail_after(pool, i, 1);
        status = bench_create_device(ddp_mem_pool_mem(pool), &device, &err);
        CT_CHECK(status == DDP_OK || ddp_mem_pool_block_count(pool) == 0);
    }
    if (status == DDP_OK) {
        device->ops->destroy(device);
    } else {
        CT_CHECK(status == DDP_E_NOT_FOUND || status == DDP_E_UNSUPPORTED);
    }
    CT_CHECK_EQ_U64(ddp_mem_pool_block_count(pool), 0);
    ddp_mem_pool_destroy(pool);
}

/* A label that the host cannot see makes its row NaN, never a result. */
CT_TEST(device_cuda, a_wrong_label_is_nan)
{
    struct bench bench;
    struct ddp_loss loss = {.rows = 3, .columns = 2, .scale = 1.0F};
    const float *losses;
    const float *dx;
    float *x;
    int32_t *labels;

    BENCH_OPEN(&bench);
    x = (float *)bench_begin(&bench, 0, sizeof(*x), 6, 0);
    memset(x, 0, 6 * sizeof(*x));
    loss.x = (const float *)bench_push(&bench, 0);
    labels = (int32_t *)bench_begin(&bench, 1, sizeof(*labels), 3, 0);
    labels[0] = 2;
    labels[1] = 1;
    labels[2] = -1;
    (void)bench_begin(&bench, 2, sizeof(float), 3, 0);
    loss.losses = (float *)bench_push(&bench, 2);
    (void)bench_begin(&bench, 3, sizeof(float), 6, 0);
    loss.dx = (float *)bench_push(&bench, 3);
    CT_CHECK_OK(bench.device->math->softmax_cross_entropy(bench.device, NULL, &loss,
                                                          (const int32_t *)bench_push(&bench, 1)));
    losses = (const float *)bench_pull(&bench, 2);
    dx = (const float *)bench_pull(&bench, 3);
    CT_CHECK(losses[0] != losses[0] && losses[1] == losses[1] && losses[2] != losses[2]);
    CT_CHECK(dx[0] != dx[0] && dx[1] != dx[1] && dx[2] == 0.5F && dx[3] == -0.5F);
    CT_CHECK(dx[4] != dx[4] && dx[5] != dx[5]);
    bench_close(&bench);
}

/* While a kernel does not end, a transfer with any memory of the host comes back when its time is
 * up. */
CT_TEST(device_cuda, a_transfer_gives_up_on_a_stuck_device)
{
    static unsigned char host[3 * DDP_TRANSFER_PIECE_BYTES];
    const uint64_t timeout_ns = 20 * DDP_NS_PER_MS;
    struct ddp_idle_process idle;
    struct ddp_transfer transfer;
    struct bench bench;
    const void *seen;
    void *data;

    BENCH_OPEN(&bench);
    ddp_idle_process_init(&idle, ddp_clock_monotonic(), false);
    CT_REQUIRE_OK(
        ddp_transfer_init(&transfer, bench.device, &idle.base, ddp_clock_monotonic(), timeout_ns));
    CT_REQUIRE_OK(bench.ops->alloc(bench.device, sizeof(host), DDP_SPACE_DEVICE, &data));
    bench_spin(&bench, NULL, 0);
    CT_CHECK_STATUS(ddp_transfer_to_host(&transfer, host, data, sizeof(host)), DDP_E_TIMEOUT);
    CT_CHECK_STATUS(ddp_transfer_to_device(&transfer, data, host, sizeof(host)), DDP_E_TIMEOUT);
    CT_CHECK_STATUS(ddp_transfer_to_device(&transfer, data, host, 4), DDP_E_TIMEOUT);
    CT_CHECK_STATUS(ddp_transfer_view(&transfer, data, sizeof(host), &seen), DDP_E_TIMEOUT);
    ddp_transfer_fini(&transfer);
    bench.ops->free(bench.device, DDP_SPACE_DEVICE, data);
    bench_close(&bench);
}

/* An illegal access shows at an event, in the vendor's words, and from then on in every call; the
 * device can still be destroyed. Last: the process has no device any more. */
CT_TEST(device_cuda, a_trap_sticks)
{
    struct bench bench;
    struct ddp_stream *stream;
    void *data;
    char first[256];

    BENCH_OPEN(&bench);
    CT_CHECK_STR(bench.ops->last_error(bench.device), "");
    CT_REQUIRE_OK(bench.ops->stream_create(bench.device, &stream));
    CT_REQUIRE_OK(bench.ops->alloc(bench.device, 5000, DDP_SPACE_DEVICE, &data));
    CT_CHECK_OK(bench.ops->inject(bench.device, stream, DDP_DEVICE_FAULT_TRAP, 0));
    CT_CHECK_STATUS(bench_drain(&bench, stream), DDP_E_DEVICE);
    (void)snprintf(first, sizeof(first), "%s", bench.ops->last_error(bench.device));
    CT_CHECK(strstr(first, "cudaErrorIllegalAddress") != NULL);
    CT_CHECK_STATUS(bench.ops->zero(bench.device, NULL, data, 5000), DDP_E_DEVICE);
    CT_CHECK_STATUS(
        bench.ops->reduce(bench.device, NULL, data, data, 4, DDP_DTYPE_F32, DDP_REDOP_SUM),
        DDP_E_DEVICE);
    CT_CHECK_STATUS(bench_drain(&bench, NULL), DDP_E_DEVICE);
    CT_CHECK_STR(bench.ops->last_error(bench.device), first);
    bench.ops->free(bench.device, DDP_SPACE_DEVICE, data);
    bench.ops->stream_destroy(bench.device, stream);
    bench_close(&bench);
}
