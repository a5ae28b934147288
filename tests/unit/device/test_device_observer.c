/* The observing device: what work it records and under which numbers, that it changes nothing, and
 * what its two fault points do. The device underneath is the CPU, which has one stream and no
 * pending work; a thin table over it says PENDING on demand. */
#include <string.h>

#include "ddpcore/device/math.h"
#include "ddpcore/device/observer.h"
#include "ddpcore/seam/recorder.h"
#include "tests/ct.h"

enum { RING_ENTRIES = 256, ELEMS = 8 };

struct pending_device {
    struct ddp_device base;
    struct ddp_device_ops ops;
    struct ddp_device *cpu;
    int pending_count; /* further queries that say PENDING */
    size_t note_count;
    const struct ddp_stream *noted_on;
};

struct fixture {
    struct ddp_mem_pool *pool;
    struct ddp_clock_virtual clock;
    struct ddp_recorder recorder;
    struct ddp_fault_hook hook;
    enum ddp_fault_point point;
    enum ddp_fault_action action;
    struct ddp_fault_context seen;
    struct ddp_env env;
    struct pending_device inner;
    struct ddp_device *device;
    uint64_t read_count; /* events taken from the ring so far */
};

static ddp_status pending_query(struct ddp_device *device, struct ddp_device_event *event)
{
    struct pending_device *pending = (struct pending_device *)device;

    (void)event;
    return pending->pending_count-- > 0 ? DDP_PENDING : DDP_OK;
}

static void pending_note(struct ddp_device *device, struct ddp_stream *stream, const void *data,
                         size_t size_bytes, bool is_write)
{
    struct pending_device *pending = (struct pending_device *)device;

    (void)data;
    (void)size_bytes;
    (void)is_write;
    pending->note_count++;
    pending->noted_on = stream;
}

static void pending_destroy(struct ddp_device *device)
{
    struct pending_device *pending = (struct pending_device *)device;

    pending->cpu->ops->destroy(pending->cpu);
    pending->cpu = NULL;
}

static enum ddp_fault_action fire(struct ddp_fault_hook *hook, enum ddp_fault_point point,
                                  struct ddp_fault_context *context)
{
    struct fixture *f = (struct fixture *)(void *)((char *)hook - offsetof(struct fixture, hook));

    f->seen = *context;
    return point == f->point ? f->action : DDP_FAULT_GO;
}

static bool setup(struct fixture *f, bool is_recording)
{
    void *ring;

    memset(f, 0, sizeof *f);
    CT_CHECK_OK(ddp_mem_pool_create(&f->pool));
    f->env.mem = ddp_mem_pool_mem(f->pool);
    ring = ddp_mem_array(f->env.mem, ddp_recorder_size_bytes(RING_ENTRIES), 1);
    ddp_clock_virtual_init(&f->clock, 1);
    ddp_recorder_init(&f->recorder, ring, RING_ENTRIES, &f->clock.base, 0, 1, 1);
    f->hook.fire = fire;
    f->env.faults = &f->hook;
    f->env.recorder = &f->recorder;
    CT_CHECK_OK(ddp_device_cpu_create(f->env.mem, &f->inner.cpu));
    f->inner.ops = *f->inner.cpu->ops;
    f->inner.ops.event_query = pending_query;
    f->inner.ops.note = pending_note;
    f->inner.ops.destroy = pending_destroy;
    f->inner.base = (struct ddp_device){&f->inner.ops, f->inner.cpu->math, f->env.mem, {NULL, 3}};
    return ddp_device_observer_create(&f->inner.base, &f->env, is_recording, &f->device) == DDP_OK;
}

static void finish(struct fixture *f)
{
    f->device->ops->destroy(f->device);
    CT_CHECK(f->inner.cpu == NULL); /* the inner device went with it */
    ddp_mem_free(f->env.mem, f->recorder.page);
    CT_CHECK_EQ_U64(ddp_mem_pool_block_count(f->pool), 0);
    ddp_mem_pool_destroy(f->pool);
}

static void arm(struct fixture *f, enum ddp_fault_point point, enum ddp_fault_action action)
{
    f->hook.armed = UINT64_C(1) << point;
    f->point = point;
    f->action = action;
}

/* The next recorded event is this one. */
static void expect(struct fixture *f, const char *what, enum ddp_event event, uint64_t a0,
                   uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4)
{
    const uint64_t args[5] = {a0, a1, a2, a3, a4};
    struct ddp_event_entry entry;

    if (ddp_ring_read(f->recorder.ring, RING_ENTRIES, ++f->read_count, &entry) != DDP_OK) {
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

static void expect_nothing(struct fixture *f, const char *what)
{
    struct ddp_event_entry entry;

    if (ddp_ring_read(f->recorder.ring, RING_ENTRIES, f->read_count + 1, &entry) == DDP_OK) {
        CT_FAIL("%s: %s was recorded as well", what, ddp_event_name((enum ddp_event)entry.event));
    }
}

static float *allocate(struct fixture *f, size_t elem_count)
{
    void *data = NULL;

    CT_CHECK_OK(
        f->device->ops->alloc(f->device, elem_count * sizeof(float), DDP_SPACE_DEVICE, &data));
    return (float *)data;
}

static void release(struct fixture *f, float *data)
{
    f->device->ops->free(f->device, DDP_SPACE_DEVICE, data);
}

/* A piece of work and what it must have touched: "r1:0+32 w0:4+8" = reads 32 bytes at offset 0 of
 * allocation 1, writes 8 bytes at offset 4 of allocation 0. */
static void expect_work(struct fixture *f, const char *what, uint64_t stream, const char *touched)
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
        expect(f, what, DDP_EVENT_DEVICE_ACCESS, stream, number[0], number[1], number[2],
               access == 'w' ? DDP_ACCESS_WRITE : DDP_ACCESS_READ);
    }
    expect_nothing(f, what);
}

/* Allocations, streams and events are numbered in order of creation; memory of the host's own is
 * not recorded. */
CT_TEST(device_observer, numbers_what_is_created)
{
    struct fixture f;
    struct ddp_stream *stream = NULL;
    struct ddp_device_event *event[2] = {NULL, NULL};
    float host[ELEMS] = {0};
    float *first;
    float *second;

    CT_REQUIRE(setup(&f, true));
    CT_CHECK_STR(f.device->ops->name, "cpu");
    CT_CHECK_EQ_I64(f.device->thread.number, 3); /* the inner device's */
    first = allocate(&f, ELEMS);
    expect(&f, "first", DDP_EVENT_DEVICE_ALLOC, 0, 32, DDP_SPACE_DEVICE, 0, 0);
    second = allocate(&f, 2 * ELEMS);
    expect(&f, "second", DDP_EVENT_DEVICE_ALLOC, 1, 64, DDP_SPACE_DEVICE, 0, 0);
    CT_CHECK_OK(f.device->ops->stream_create(f.device, &stream));
    CT_CHECK_OK(f.device->ops->event_create(f.device, &event[0]));
    CT_CHECK_OK(f.device->ops->event_create(f.device, &event[1]));
    expect_nothing(&f, "handles");

    CT_CHECK_OK(f.device->ops->copy(f.device, NULL, first, host, sizeof host));
    expect_work(&f, "copy from the host", 0, "w0:0+32");
    CT_CHECK_OK(f.device->ops->copy(f.device, stream, second + 3, first + 1, 4));
    expect_work(&f, "copy", 1, "r0:4+4 w1:12+4");
    CT_CHECK_OK(f.device->ops->copy(f.device, stream, host, host + 1, 4));
    expect_nothing(&f, "copy between host memories");
    CT_CHECK_OK(f.device->ops->zero(f.device, stream, second, 0));
    expect_nothing(&f, "nothing to zero");

    CT_CHECK_OK(f.device->ops->event_record(f.device, event[1], stream));
    expect(&f, "record", DDP_EVENT_EVENT_RECORD, 1, 1, 0, 0, 0);
    CT_CHECK_OK(f.device->ops->stream_wait_event(f.device, NULL, event[1]));
    expect(&f, "wait", DDP_EVENT_EVENT_WAIT, 1, 0, 0, 0, 0);

    release(&f, first);
    release(&f, second);
    f.device->ops->event_destroy(f.device, event[0]);
    f.device->ops->event_destroy(f.device, event[1]);
    f.device->ops->stream_destroy(f.device, stream);
    finish(&f);
}

/* The host knows what it saw: an event that was recorded and then found done, once. */
CT_TEST(device_observer, records_only_what_the_host_saw)
{
    struct fixture f;
    struct ddp_device_event *event = NULL;

    CT_REQUIRE(setup(&f, true));
    CT_CHECK_OK(f.device->ops->event_create(f.device, &event));
    CT_CHECK_OK(f.device->ops->event_query(f.device, event));
    expect_nothing(&f, "an event that was never recorded");
    f.inner.pending_count = 2;
    CT_CHECK_OK(f.device->ops->event_record(f.device, event, NULL));
    expect(&f, "record", DDP_EVENT_EVENT_RECORD, 0, 0, 0, 0, 0);
    CT_CHECK_STATUS(f.device->ops->event_query(f.device, event), DDP_PENDING);
    CT_CHECK_STATUS(f.device->ops->event_query(f.device, event), DDP_PENDING);
    expect_nothing(&f, "pending");
    CT_CHECK_OK(f.device->ops->event_query(f.device, event));
    expect(&f, "done", DDP_EVENT_EVENT_DONE, 0, 0, 0, 0, 0);
    CT_CHECK_OK(f.device->ops->event_query(f.device, event));
    expect_nothing(&f, "asked again");
    /* What only serves watching orders nothing. */
    ddp_device_observer_hide(f.device, event);
    CT_CHECK_OK(f.device->ops->event_record(f.device, event, NULL));
    CT_CHECK_OK(f.device->ops->stream_wait_event(f.device, NULL, event));
    CT_CHECK_OK(f.device->ops->event_query(f.device, event));
    expect_nothing(&f, "a hidden event");
    f.device->ops->event_destroy(f.device, event);
    finish(&f);
}

/* What a collective's library does is told by note, and reaches the inner device on its stream. */
CT_TEST(device_observer, notes_are_a_collectives)
{
    struct fixture f;
    struct ddp_stream *stream = NULL;
    float *data;

    CT_REQUIRE(setup(&f, true));
    data = allocate(&f, ELEMS);
    CT_CHECK_OK(f.device->ops->stream_create(f.device, &stream));
    f.read_count++;
    f.device->ops->note(f.device, stream, data + 2, 8, false);
    expect(&f, "read", DDP_EVENT_DEVICE_ACCESS, 1, 0, 8, 8, DDP_ACCESS_COLL_READ);
    f.device->ops->note(f.device, stream, data, 32, true);
    expect(&f, "write", DDP_EVENT_DEVICE_ACCESS, 1, 0, 0, 32, DDP_ACCESS_COLL_WRITE);
    CT_CHECK_EQ_U64(f.inner.note_count, 2);
    CT_CHECK(f.inner.noted_on == NULL); /* the CPU's own handle, not the observer's */
    CT_CHECK(f.device->ops->native_stream(f.device, stream) == NULL);
    f.device->ops->stream_destroy(f.device, stream);
    release(&f, data);
    finish(&f);
}

/* Names point into allocations; memory from elsewhere is adopted, and forgotten when the device
 * hands out the same bytes. */
CT_TEST(device_observer, names_ranges)
{
    struct fixture f;
    struct ddp_device *cpu = NULL;
    float foreign[ELEMS + 1];
    float *data;

    CT_REQUIRE(setup(&f, true));
    data = allocate(&f, ELEMS);
    f.read_count++;
    CT_CHECK_OK(ddp_device_observer_name(f.device, DDP_RANGE_GRAD, 4, data + 2, 12));
    expect(&f, "grad", DDP_EVENT_DEVICE_NAME, DDP_RANGE_GRAD, 4, 0, 8, 12);
    CT_CHECK_OK(ddp_device_observer_name(f.device, DDP_RANGE_BUCKET, 1, foreign + 1, 32));
    expect(&f, "adopted", DDP_EVENT_DEVICE_ALLOC, 1, 32, DDP_SPACE_DEVICE, 0, 0);
    expect(&f, "bucket", DDP_EVENT_DEVICE_NAME, DDP_RANGE_BUCKET, 1, 1, 0, 32);
    CT_CHECK_OK(f.device->ops->zero(f.device, NULL, foreign + 2, 4));
    expect_work(&f, "work on adopted memory", 0, "w1:4+4");
    CT_CHECK_OK(ddp_device_observer_name(f.device, DDP_RANGE_PARAM, 0, data, 0));
    expect_nothing(&f, "an empty parameter");

    /* Two owners of the same bytes: the first one must have given them back. */
    CT_CHECK_OK(ddp_device_observer_name(f.device, DDP_RANGE_BUCKET, 2, foreign, sizeof foreign));
    expect(&f, "adopted anew", DDP_EVENT_DEVICE_ALLOC, 2, 36, DDP_SPACE_DEVICE, 0, 0);
    expect(&f, "new bucket", DDP_EVENT_DEVICE_NAME, DDP_RANGE_BUCKET, 2, 2, 0, 36);
    CT_CHECK_OK(f.device->ops->zero(f.device, NULL, foreign + 1, 4));
    expect_work(&f, "the new owner", 0, "w2:4+4");

    CT_CHECK_OK(ddp_device_cpu_create(f.env.mem, &cpu));
    CT_CHECK_OK(ddp_device_observer_name(cpu, DDP_RANGE_GRAD, 4, data, 4));
    expect_nothing(&f, "a device that is no observer");
    cpu->ops->destroy(cpu);
    release(&f, data);
    finish(&f);
}

/* Reduce reads and writes its target; scale reads one type and writes another. */
CT_TEST(device_observer, reduce_and_scale_touch_their_operands)
{
    struct fixture f;
    float *a;
    float *b;

    CT_REQUIRE(setup(&f, true));
    a = allocate(&f, ELEMS);
    b = allocate(&f, ELEMS);
    f.read_count += 2;
    CT_CHECK_OK(f.device->ops->reduce(f.device, NULL, a, b, 3, DDP_DTYPE_F32, DDP_REDOP_SUM));
    expect_work(&f, "reduce", 0, "r1:0+12 r0:0+12 w0:0+12");
    CT_CHECK_OK(f.device->ops->scale(f.device, NULL, a, DDP_DTYPE_BF16, b, DDP_DTYPE_F32, 5, 1.0F));
    expect_work(&f, "scale", 0, "r1:0+20 w0:0+10");
    CT_CHECK_STATUS(
        f.device->ops->scale(f.device, NULL, a, DDP_DTYPE_I32, b, DDP_DTYPE_F32, 5, 1.0F),
        DDP_E_INVALID);
    expect_nothing(&f, "work that was refused");
    release(&f, a);
    release(&f, b);
    finish(&f);
}

/* Every kernel of math.h: which of allocations 0 to 4 (8 elements each) it reads and writes. */
#define TOUCHES(kernel, touched)              \
    do {                                      \
        CT_CHECK_OK(kernel);                  \
        expect_work(&f, #kernel, 0, touched); \
    } while (0)
CT_TEST(device_observer, kernels_touch_their_operands)
{
    struct fixture f;
    float *m[5];
    struct ddp_gemm gemm;
    struct ddp_loss loss;
    struct ddp_sgd sgd = {.lr = 0.1F, .is_first_step = true};
    const struct ddp_adamw adamw = {.bias_correction1 = 1.0F, .bias_correction2 = 1.0F};
    const struct ddp_math_ops *math;

    CT_REQUIRE(setup(&f, true));
    CT_REQUIRE_OK(ddp_blas_open(NULL, NULL));
    math = f.device->math;
    for (size_t i = 0; i < 5; i++) {
        m[i] = allocate(&f, ELEMS);
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
        release(&f, m[i]);
    }
    finish(&f);
}

/* SKIP forgets a wait and says OK; FAIL fails it. Neither is recorded. */
CT_TEST(device_observer, a_wait_can_be_forgotten)
{
    struct fixture f;
    struct ddp_stream *stream = NULL;
    struct ddp_device_event *event = NULL;

    CT_REQUIRE(setup(&f, true));
    CT_CHECK_OK(f.device->ops->stream_create(f.device, &stream));
    CT_CHECK_OK(f.device->ops->event_create(f.device, &event));
    arm(&f, DDP_FAULT_POINT_DEVICE_EVENT_WAIT, DDP_FAULT_SKIP);
    CT_CHECK_OK(f.device->ops->stream_wait_event(f.device, stream, event));
    expect_nothing(&f, "a forgotten wait");
    CT_CHECK(f.seen.device == f.device && f.seen.stream == stream);
    f.action = DDP_FAULT_FAIL;
    CT_CHECK_STATUS(f.device->ops->stream_wait_event(f.device, stream, event), DDP_E_INJECTED);
    expect_nothing(&f, "a failed wait");
    f.action = DDP_FAULT_GO;
    CT_CHECK_OK(f.device->ops->stream_wait_event(f.device, stream, event));
    expect(&f, "a wait", DDP_EVENT_EVENT_WAIT, 0, 1, 0, 0, 0);
    f.device->ops->event_destroy(f.device, event);
    f.device->ops->stream_destroy(f.device, stream);
    finish(&f);
}

/* FAIL at device/alloc is an exhausted device: its status, no memory, no record. */
CT_TEST(device_observer, memory_can_run_out)
{
    struct fixture f;
    void *data = &f;

    CT_REQUIRE(setup(&f, true));
    arm(&f, DDP_FAULT_POINT_DEVICE_ALLOC, DDP_FAULT_FAIL);
    CT_CHECK_STATUS(f.device->ops->alloc(f.device, 64, DDP_SPACE_DEVICE, &data),
                    DDP_E_DEVICE_MEMORY);
    CT_CHECK_STATUS(f.device->ops->alloc(f.device, 64, DDP_SPACE_HOST, &data), DDP_E_NOMEM);
    expect_nothing(&f, "no memory");
    f.hook.armed = 0;
    for (uint64_t i = 0; i < 2; i++) { /* the observer's table, then the inner device's block */
        ddp_mem_pool_fail_after(f.pool, i, 1);
        CT_CHECK_STATUS(f.device->ops->alloc(f.device, 64, DDP_SPACE_DEVICE, &data), DDP_E_NOMEM);
        ddp_mem_pool_fail_after(f.pool, 0, 0);
    }
    expect_nothing(&f, "no memory either");
    CT_CHECK_OK(f.device->ops->alloc(f.device, 64, DDP_SPACE_DEVICE, &data));
    expect(&f, "memory", DDP_EVENT_DEVICE_ALLOC, 0, 64, DDP_SPACE_DEVICE, 0, 0);
    release(&f, (float *)data);
    finish(&f);
}

/* Many allocations, freed in another order: each access finds its own. */
CT_TEST(device_observer, finds_ranges_among_many)
{
    enum { COUNT = 40 };
    struct fixture f;
    float *data[COUNT];

    CT_REQUIRE(setup(&f, true));
    for (size_t i = 0; i < COUNT; i++) {
        data[i] = allocate(&f, ELEMS);
    }
    for (size_t i = 0; i < COUNT; i += 3) {
        release(&f, data[i]);
        data[i] = NULL;
    }
    f.read_count += COUNT + (COUNT + 2) / 3;
    for (size_t i = 0; i < COUNT; i++) {
        if (data[i] != NULL) {
            CT_CHECK_OK(f.device->ops->zero(f.device, NULL, data[i] + 7, 4));
            expect(&f, "zero", DDP_EVENT_DEVICE_ACCESS, 0, i, 28, 4, DDP_ACCESS_WRITE);
            release(&f, data[i]);
            expect(&f, "free", DDP_EVENT_DEVICE_FREE, i, 0, 0, 0, 0);
        }
    }
    expect_nothing(&f, "all freed");
    finish(&f);
}

/* Without recording nothing is written; faults still work. */
CT_TEST(device_observer, silent_when_not_recording)
{
    struct fixture f;
    struct ddp_stream *stream = NULL;
    void *none = NULL;
    float *data;

    CT_REQUIRE(setup(&f, false));
    data = allocate(&f, ELEMS);
    CT_CHECK_OK(f.device->ops->stream_create(f.device, &stream));
    CT_CHECK_OK(f.device->ops->zero(f.device, stream, data, 4));
    CT_CHECK_OK(f.device->math->relu(f.device, stream, data, data, ELEMS));
    f.device->ops->note(f.device, stream, data, 4, true);
    CT_CHECK_EQ_U64(f.inner.note_count, 1);
    CT_CHECK_OK(ddp_device_observer_name(f.device, DDP_RANGE_GRAD, 0, data, 4));
    expect_nothing(&f, "silence");
    f.device->ops->stream_destroy(f.device, stream);
    release(&f, data);
    arm(&f, DDP_FAULT_POINT_DEVICE_ALLOC, DDP_FAULT_FAIL);
    CT_CHECK_STATUS(f.device->ops->alloc(f.device, 4, DDP_SPACE_DEVICE, &none),
                    DDP_E_DEVICE_MEMORY);
    finish(&f);
}
