/* The observing device: what work it records and under which numbers, that it changes nothing, and
 * what its two fault points do. */
#include <string.h>

#include "ddpcore/device/layers.h"
#include "ddpcore/device/math.h"
#include "tests/unit/device/observer_bench.h"

enum { ELEMS = 8 };

/* Allocations, streams and events are numbered in order of creation; memory of the host's own is
 * not recorded. */
CT_TEST(device_observer, numbers_what_is_created)
{
    struct observer_bench f;
    struct ddp_stream *stream = NULL;
    struct ddp_device_event *event[2] = {NULL, NULL};
    float host[ELEMS] = {0};
    float *first;
    float *second;

    CT_REQUIRE(observer_bench_open(&f, true));
    CT_CHECK_STR(f.device->ops->name, "cpu");
    CT_CHECK_EQ_I64(f.device->thread.number, 3); /* the inner device's */
    first = observer_bench_alloc(&f, ELEMS);
    observer_expect(&f, "first", DDP_EVENT_DEVICE_ALLOC, 0, 32, DDP_SPACE_DEVICE, 0, 0);
    second = observer_bench_alloc(&f, 2 * ELEMS);
    observer_expect(&f, "second", DDP_EVENT_DEVICE_ALLOC, 1, 64, DDP_SPACE_DEVICE, 0, 0);
    CT_CHECK_OK(f.device->ops->stream_create(f.device, &stream));
    CT_CHECK_OK(f.device->ops->event_create(f.device, &event[0]));
    CT_CHECK_OK(f.device->ops->event_create(f.device, &event[1]));
    observer_expect_nothing(&f, "handles");

    CT_CHECK_OK(f.device->ops->copy(f.device, NULL, first, host, sizeof host));
    observer_expect_work(&f, "copy from the host", 0, "w0:0+32");
    CT_CHECK_OK(f.device->ops->copy(f.device, stream, second + 3, first + 1, 4));
    observer_expect_work(&f, "copy", 1, "r0:4+4 w1:12+4");
    CT_CHECK_OK(f.device->ops->copy(f.device, stream, host, host + 1, 4));
    observer_expect_nothing(&f, "copy between host memories");
    CT_CHECK_OK(f.device->ops->zero(f.device, stream, second, 0));
    observer_expect_nothing(&f, "nothing to zero");

    CT_CHECK_OK(f.device->ops->event_record(f.device, event[1], stream));
    observer_expect(&f, "record", DDP_EVENT_EVENT_RECORD, 1, 1, 0, 0, 0);
    CT_CHECK_OK(f.device->ops->stream_wait_event(f.device, NULL, event[1]));
    observer_expect(&f, "wait", DDP_EVENT_EVENT_WAIT, 1, 0, 0, 0, 0);

    observer_bench_free(&f, first);
    observer_bench_free(&f, second);
    f.device->ops->event_destroy(f.device, event[0]);
    f.device->ops->event_destroy(f.device, event[1]);
    f.device->ops->stream_destroy(f.device, stream);
    observer_bench_close(&f);
}

/* The host knows what it saw: an event that was recorded and then found done, once. */
CT_TEST(device_observer, records_only_what_the_host_saw)
{
    struct observer_bench f;
    struct ddp_device_event *event = NULL;

    CT_REQUIRE(observer_bench_open(&f, true));
    CT_CHECK_OK(f.device->ops->event_create(f.device, &event));
    CT_CHECK_OK(f.device->ops->event_query(f.device, event));
    observer_expect_nothing(&f, "an event that was never recorded");
    f.inner.pending_count = 2;
    CT_CHECK_OK(f.device->ops->event_record(f.device, event, NULL));
    observer_expect(&f, "record", DDP_EVENT_EVENT_RECORD, 0, 0, 0, 0, 0);
    CT_CHECK_STATUS(f.device->ops->event_query(f.device, event), DDP_PENDING);
    CT_CHECK_STATUS(f.device->ops->event_query(f.device, event), DDP_PENDING);
    observer_expect_nothing(&f, "pending");
    CT_CHECK_OK(f.device->ops->event_query(f.device, event));
    observer_expect(&f, "done", DDP_EVENT_EVENT_DONE, 0, 0, 0, 0, 0);
    CT_CHECK_OK(f.device->ops->event_query(f.device, event));
    observer_expect_nothing(&f, "asked again");
    /* An event of diagnostic reads orders nothing. */
    f.device->hints->hide_event(f.device, event);
    CT_CHECK_OK(f.device->ops->event_record(f.device, event, NULL));
    CT_CHECK_OK(f.device->ops->stream_wait_event(f.device, NULL, event));
    CT_CHECK_OK(f.device->ops->event_query(f.device, event));
    observer_expect_nothing(&f, "a hidden event");
    f.device->ops->event_destroy(f.device, event);
    observer_bench_close(&f);
}

/* Reduce reads and writes its target; scale reads one type and writes another. */
CT_TEST(device_observer, reduce_and_scale_touch_their_operands)
{
    struct observer_bench f;
    float *a;
    float *b;

    CT_REQUIRE(observer_bench_open(&f, true));
    a = observer_bench_alloc(&f, ELEMS);
    b = observer_bench_alloc(&f, ELEMS);
    f.read_count += 2;
    CT_CHECK_OK(f.device->ops->reduce(f.device, NULL, a, b, 3, DDP_DTYPE_F32, DDP_REDOP_SUM));
    observer_expect_work(&f, "reduce", 0, "r1:0+12 r0:0+12 w0:0+12");
    CT_CHECK_OK(f.device->ops->scale(f.device, NULL, a, DDP_DTYPE_BF16, b, DDP_DTYPE_F32, 5, 1.0F));
    observer_expect_work(&f, "scale", 0, "r1:0+20 w0:0+10");
    CT_CHECK_STATUS(
        f.device->ops->scale(f.device, NULL, a, DDP_DTYPE_I32, b, DDP_DTYPE_F32, 5, 1.0F),
        DDP_E_INVALID);
    observer_expect_nothing(&f, "work that was refused");
    observer_bench_free(&f, a);
    observer_bench_free(&f, b);
    observer_bench_close(&f);
}

/* Every kernel of math.h: which of allocations 0 to 4 (8 elements each) it reads and writes. */
#define TOUCHES(kernel, touched)                       \
    do {                                               \
        CT_CHECK_OK(kernel);                           \
        observer_expect_work(&f, #kernel, 0, touched); \
    } while (0)
CT_TEST(device_observer, kernels_touch_their_operands)
{
    struct observer_bench f;
    float *m[5];
    struct ddp_gemm gemm;
    struct ddp_loss loss;
    struct ddp_sgd sgd = {.lr = 0.1F, .is_first_step = true};
    const struct ddp_adamw adamw = {.bias_correction1 = 1.0F, .bias_correction2 = 1.0F};
    const struct ddp_math_ops *math;

    CT_REQUIRE(observer_bench_open(&f, true));
    CT_REQUIRE_OK(ddp_blas_open(NULL, NULL));
    math = f.device->math;
    for (size_t i = 0; i < 5; i++) {
        m[i] = observer_bench_alloc(&f, ELEMS);
    }
    f.read_count += 5;
    gemm =
        (struct ddp_gemm){.m = 2, .n = 1, .k = 3, .alpha = 1.0F, .a = m[0], .b = m[1], .c = m[2]};
    TOUCHES(math->gemm(f.device, NULL, &gemm), "r0:0+24 r1:0+12 w2:0+8");
    gemm.beta = 1.0F;
    TOUCHES(math->gemm(f.device, NULL, &gemm), "r0:0+24 r1:0+12 r2:0+8 w2:0+8");
    TOUCHES(math->add_bias(f.device, NULL, m[0], m[1], m[2], 2, 3), "r1:0+24 r2:0+12 w0:0+24");
    TOUCHES(math->sum_rows(f.device, NULL, m[0], m[1], 2, 3, false), "r1:0+24 w0:0+12");
    TOUCHES(math->sum_rows(f.device, NULL, m[0], m[1], 2, 3, true), "r1:0+24 r0:0+12 w0:0+12");
    TOUCHES(math->scale_columns(f.device, NULL, m[0], m[1], m[2], 2, 3), "r1:0+24 r2:0+12 w0:0+24");
    TOUCHES(math->dot_columns(f.device, NULL, m[0], m[1], m[2], 2, 3, false),
            "r1:0+24 r2:0+24 w0:0+12");
    TOUCHES(math->dot_columns(f.device, NULL, m[0], m[1], m[2], 2, 3, true),
            "r1:0+24 r2:0+24 r0:0+12 w0:0+12");
    TOUCHES(math->relu(f.device, NULL, m[0], m[1], 5), "r1:0+20 w0:0+20");
    TOUCHES(math->relu_backward(f.device, NULL, m[0], m[1], m[2], 5), "r1:0+20 r2:0+20 w0:0+20");
    TOUCHES(math->axpy(f.device, NULL, m[0], m[1], 2.0F, 5), "r1:0+20 r0:0+20 w0:0+20");

    loss = (struct ddp_loss){.losses = m[0], .dx = m[1], .x = m[2], .rows = 2, .columns = 3};
    CT_CHECK_OK(f.device->ops->zero(f.device, NULL, m[3], 32));
    f.read_count++;
    TOUCHES(math->softmax_cross_entropy(f.device, NULL, &loss, (const int32_t *)m[3]),
            "r2:0+24 r3:0+8 w0:0+8 w1:0+24");
    TOUCHES(math->squared_error(f.device, NULL, &loss, m[3]), "r2:0+24 r3:0+24 w0:0+8 w1:0+24");
    loss.dx = NULL;
    TOUCHES(math->squared_error(f.device, NULL, &loss, m[3]), "r2:0+24 r3:0+24 w0:0+8");

    TOUCHES(math->sgd(f.device, NULL, &sgd, m[0], m[1], m[2], 5), "r1:0+20 r0:0+20 w0:0+20");
    sgd.momentum = 0.9F;
    TOUCHES(math->sgd(f.device, NULL, &sgd, m[0], m[1], m[2], 5),
            "r1:0+20 r0:0+20 w2:0+20 w0:0+20");
    sgd.is_first_step = false;
    TOUCHES(math->sgd(f.device, NULL, &sgd, m[0], m[1], m[2], 5),
            "r1:0+20 r0:0+20 r2:0+20 w2:0+20 w0:0+20");
    TOUCHES(math->adamw(f.device, NULL, &adamw, m[0], m[1], m[2], m[3], 5),
            "r1:0+20 r0:0+20 r2:0+20 r3:0+20 w2:0+20 w3:0+20 w0:0+20");
    for (size_t i = 0; i < 5; i++) {
        observer_bench_free(&f, m[i]);
    }
    observer_bench_close(&f);
}

/* The same of layers.h; allocations 0 to 6. */
CT_TEST(device_observer, layers_touch_their_operands)
{
    const struct ddp_image image = {
        .count = 1, .height = 2, .width = 2, .channels = 2, .window = 1, .padding = 0};
    const struct ddp_image pooled = {
        .count = 1, .height = 2, .width = 2, .channels = 2, .window = 2};
    const size_t dims[4] = {1, 2, 1, 3};
    const size_t order[4] = {1, 0, 2, 3};
    struct observer_bench f;
    struct ddp_gemm gemm;
    struct ddp_route route;
    const struct ddp_layer_ops *layers;
    struct ddp_rows one = {.rows = 1, .columns = 3, .table_rows = 2};
    struct ddp_rows two = {.rows = 2, .columns = 3, .table_rows = 2};
    struct ddp_moments moments;
    const int32_t *index;
    float *m[7];

    CT_REQUIRE(observer_bench_open(&f, true));
    CT_REQUIRE_OK(ddp_blas_open(NULL, NULL));
    layers = f.device->layers;
    for (size_t i = 0; i < 7; i++) {
        m[i] = observer_bench_alloc(&f, ELEMS);
    }
    f.read_count += 7;
    CT_CHECK_OK(f.device->ops->zero(f.device, NULL, m[6], 32));
    f.read_count++;
    index = (const int32_t *)m[6];
    one.index = index;
    two.index = index;
    moments = (struct ddp_moments){m[1], m[2], m[3]};
    gemm =
        (struct ddp_gemm){.m = 2, .n = 1, .k = 1, .alpha = 1.0F, .a = m[0], .b = m[1], .c = m[2]};
    TOUCHES(layers->gemms(f.device, NULL, &gemm, 3), "r0:0+24 r1:0+12 w2:0+24");
    gemm.beta = 1.0F;
    TOUCHES(layers->gemms(f.device, NULL, &gemm, 3), "r0:0+24 r1:0+12 r2:0+24 w2:0+24");
    TOUCHES(layers->permute(f.device, NULL, m[0], m[1], dims, order), "r1:0+24 w0:0+24");
    TOUCHES(layers->im2col(f.device, NULL, m[0], m[1], &image), "r1:0+32 w0:0+32");
    TOUCHES(layers->col2im(f.device, NULL, m[0], m[1], &image), "r1:0+32 w0:0+32");
    TOUCHES(layers->average_pool(f.device, NULL, m[0], m[1], &pooled), "r1:0+32 w0:0+8");
    TOUCHES(layers->average_pool_backward(f.device, NULL, m[0], m[1], &pooled), "r1:0+8 w0:0+32");
    TOUCHES(layers->normalize_columns(f.device, NULL, m[0], &moments, m[4], 2, 3, 1.0F),
            "r4:0+24 w1:0+12 w2:0+12 w3:0+12 w0:0+24");
    TOUCHES(layers->normalize_columns_backward(f.device, NULL, m[0], m[1], m[2], m[3], 2, 3),
            "r1:0+24 r2:0+24 r3:0+12 w0:0+24");
    TOUCHES(layers->normalize_rows(f.device, NULL, m[0], m[1], m[2], 2, 3, 1.0F),
            "r2:0+24 w1:0+8 w0:0+24");
    TOUCHES(layers->normalize_rows_backward(f.device, NULL, m[0], m[1], m[2], m[3], 2, 3),
            "r1:0+24 r2:0+24 r3:0+8 w0:0+24");
    TOUCHES(layers->gelu(f.device, NULL, m[0], m[1], 5), "r1:0+20 w0:0+20");
    TOUCHES(layers->gelu_backward(f.device, NULL, m[0], m[1], m[2], 5), "r1:0+20 r2:0+20 w0:0+20");
    TOUCHES(layers->gather_rows(f.device, NULL, m[0], m[1], &two), "r6:0+8 r1:0+24 w0:0+24");
    TOUCHES(layers->scatter_rows(f.device, NULL, m[0], m[1], &one, false),
            "r6:0+4 r1:0+12 w0:0+24");
    TOUCHES(layers->scatter_rows(f.device, NULL, m[0], m[1], &one, true),
            "r6:0+4 r1:0+12 r0:0+24 w0:0+24");
    TOUCHES(layers->softmax_causal(f.device, NULL, m[0], m[1], 2, 2, 1.0F), "r1:0+16 w0:0+16");
    TOUCHES(layers->softmax_causal_backward(f.device, NULL, m[0], m[1], m[2], 2, 2, 1.0F),
            "r1:0+16 r2:0+16 w0:0+16");
    TOUCHES(layers->route(f.device, NULL, m[0], (int32_t *)(void *)m[1], m[2], 2, 3),
            "r2:0+24 w0:0+24 w1:0+8");
    route = (struct ddp_route){.probs = m[0], .choice = index, .rows = 2, .experts = 3};
    TOUCHES(layers->gate(f.device, NULL, m[1], m[2], &route, 4), "r2:0+32 r0:0+24 r6:0+8 w1:0+32");
    TOUCHES(layers->gate_backward(f.device, NULL, m[1], m[2], m[3], m[4], &route, 4),
            "r3:0+32 r4:0+32 r0:0+24 r6:0+8 w1:0+32 w2:0+24");
    for (size_t i = 0; i < 7; i++) {
        observer_bench_free(&f, m[i]);
    }
    observer_bench_close(&f);
}

/* Two more of them; allocations 0 to 5. */
CT_TEST(device_observer, standardizing_touches_its_operands)
{
    const struct ddp_layer_ops *layers;
    struct observer_bench f;
    struct ddp_column_sums sums = {.row_count = 4.0F};
    float *m[6];

    CT_REQUIRE(observer_bench_open(&f, true));
    layers = f.device->layers;
    for (size_t i = 0; i < 6; i++) {
        m[i] = observer_bench_alloc(&f, ELEMS);
    }
    f.read_count += 6;
    sums.inverse = m[3];
    sums.sum = m[4];
    sums.dot = m[5];
    TOUCHES(layers->standardize_columns(f.device, NULL, m[0], m[1], m[2], m[3], 2, 3),
            "r1:0+24 r2:0+12 r3:0+12 w0:0+24");
    TOUCHES(layers->standardize_columns_backward(f.device, NULL, m[0], m[1], m[2], &sums, 2, 3),
            "r1:0+24 r2:0+24 r3:0+12 r4:0+12 r5:0+12 w0:0+24");
    for (size_t i = 0; i < 6; i++) {
        observer_bench_free(&f, m[i]);
    }
    observer_bench_close(&f);
}

/* SKIP forgets a wait and says OK; FAIL fails it. Neither is recorded. */
CT_TEST(device_observer, a_wait_can_be_forgotten)
{
    struct observer_bench f;
    struct ddp_stream *stream = NULL;
    struct ddp_device_event *event = NULL;

    CT_REQUIRE(observer_bench_open(&f, true));
    CT_CHECK_OK(f.device->ops->stream_create(f.device, &stream));
    CT_CHECK_OK(f.device->ops->event_create(f.device, &event));
    observer_bench_arm(&f, DDP_FAULT_POINT_DEVICE_EVENT_WAIT, DDP_FAULT_SKIP);
    CT_CHECK_OK(f.device->ops->stream_wait_event(f.device, stream, event));
    observer_expect_nothing(&f, "a forgotten wait");
    CT_CHECK(f.seen.device == f.device && f.seen.stream == stream);
    f.action = DDP_FAULT_FAIL;
    CT_CHECK_STATUS(f.device->ops->stream_wait_event(f.device, stream, event), DDP_E_INJECTED);
    observer_expect_nothing(&f, "a failed wait");
    f.action = DDP_FAULT_GO;
    CT_CHECK_OK(f.device->ops->stream_wait_event(f.device, stream, event));
    observer_expect(&f, "a wait", DDP_EVENT_EVENT_WAIT, 0, 1, 0, 0, 0);
    f.device->ops->event_destroy(f.device, event);
    f.device->ops->stream_destroy(f.device, stream);
    observer_bench_close(&f);
}

/* FAIL at device/alloc is an exhausted device: its status, no memory, no record. */
CT_TEST(device_observer, memory_can_run_out)
{
    struct observer_bench f;
    void *data = &f;

    CT_REQUIRE(observer_bench_open(&f, true));
    observer_bench_arm(&f, DDP_FAULT_POINT_DEVICE_ALLOC, DDP_FAULT_FAIL);
    CT_CHECK_STATUS(f.device->ops->alloc(f.device, 64, DDP_SPACE_DEVICE, &data),
                    DDP_E_DEVICE_MEMORY);
    CT_CHECK_STATUS(f.device->ops->alloc(f.device, 64, DDP_SPACE_HOST, &data), DDP_E_NOMEM);
    observer_expect_nothing(&f, "no memory");
    f.hook.armed = 0;
    for (uint64_t i = 0; i < 2; i++) { /* the observer's table, then the inner device's block */
        ddp_mem_pool_fail_after(f.pool, i, 1);
        CT_CHECK_STATUS(f.device->ops->alloc(f.device, 64, DDP_SPACE_DEVICE, &data), DDP_E_NOMEM);
        ddp_mem_pool_fail_after(f.pool, 0, 0);
    }
    observer_expect_nothing(&f, "no memory either");
    CT_CHECK_OK(f.device->ops->alloc(f.device, 64, DDP_SPACE_DEVICE, &data));
    observer_expect(&f, "memory", DDP_EVENT_DEVICE_ALLOC, 0, 64, DDP_SPACE_DEVICE, 0, 0);
    observer_bench_free(&f, (float *)data);
    observer_bench_close(&f);
}

/* Many allocations, freed in another order: each access finds its own. */
CT_TEST(device_observer, finds_ranges_among_many)
{
    enum { COUNT = 40 };
    struct observer_bench f;
    float *data[COUNT];

    CT_REQUIRE(observer_bench_open(&f, true));
    for (size_t i = 0; i < COUNT; i++) {
        data[i] = observer_bench_alloc(&f, ELEMS);
    }
    for (size_t i = 0; i < COUNT; i += 3) {
        observer_bench_free(&f, data[i]);
        data[i] = NULL;
    }
    f.read_count += COUNT + (COUNT + 2) / 3;
    for (size_t i = 0; i < COUNT; i++) {
        if (data[i] != NULL) {
            CT_CHECK_OK(f.device->ops->zero(f.device, NULL, data[i] + 7, 4));
            observer_expect(&f, "zero", DDP_EVENT_DEVICE_ACCESS, 0, i, 28, 4, DDP_ACCESS_WRITE);
            observer_bench_free(&f, data[i]);
            observer_expect(&f, "free", DDP_EVENT_DEVICE_FREE, i, 0, 0, 0, 0);
        }
    }
    observer_expect_nothing(&f, "all freed");
    observer_bench_close(&f);
}

/* Without recording nothing is written; faults still work. */
CT_TEST(device_observer, silent_when_not_recording)
{
    struct observer_bench f;
    struct ddp_stream *stream = NULL;
    void *none = NULL;
    float *data;

    CT_REQUIRE(observer_bench_open(&f, false));
    data = observer_bench_alloc(&f, ELEMS);
    CT_CHECK_OK(f.device->ops->stream_create(f.device, &stream));
    CT_CHECK_OK(f.device->ops->zero(f.device, stream, data, 4));
    CT_CHECK_OK(f.device->math->relu(f.device, stream, data, data, ELEMS));
    f.device->hints->collective_access(f.device, stream, data, 4, true);
    CT_CHECK_EQ_U64(f.inner.access_count, 1);
    CT_CHECK_OK(f.device->hints->name_range(f.device, DDP_RANGE_GRAD, 0, data, 4));
    observer_expect_nothing(&f, "silence");
    f.device->ops->stream_destroy(f.device, stream);
    observer_bench_free(&f, data);
    observer_bench_arm(&f, DDP_FAULT_POINT_DEVICE_ALLOC, DDP_FAULT_FAIL);
    CT_CHECK_STATUS(f.device->ops->alloc(f.device, 4, DDP_SPACE_DEVICE, &none),
                    DDP_E_DEVICE_MEMORY);
    observer_bench_close(&f);
}
