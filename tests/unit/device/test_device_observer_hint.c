/* The observing device's hints: what is recorded of them, and that they reach the inner device. */
#include "ddpcore/seam/progress.h"
#include "tests/unit/device/observer_bench.h"

enum { ELEMS = 8 };

/* What a collective's library does is a hint, and reaches the inner device on its stream. */
CT_TEST(device_observer, records_accesses_of_collectives)
{
    struct observer_bench f;
    struct ddp_stream *stream = NULL;
    float *data;

    CT_REQUIRE(observer_bench_open(&f, true));
    data = observer_bench_alloc(&f, ELEMS);
    CT_CHECK_OK(f.device->ops->stream_create(f.device, &stream));
    f.read_count++;
    f.device->hints->collective_access(f.device, stream, data + 2, 8, false);
    observer_expect(&f, "read", DDP_EVENT_DEVICE_ACCESS, 1, 0, 8, 8, DDP_ACCESS_COLL_READ);
    f.device->hints->collective_access(f.device, stream, data, 32, true);
    observer_expect(&f, "write", DDP_EVENT_DEVICE_ACCESS, 1, 0, 0, 32, DDP_ACCESS_COLL_WRITE);
    CT_CHECK_EQ_U64(f.inner.access_count, 2);
    CT_CHECK(f.inner.accessed_on == NULL); /* the CPU's own handle, not the observer's */
    CT_CHECK(f.device->ops->native_stream(f.device, stream) == NULL);
    f.device->ops->stream_destroy(f.device, stream);
    observer_bench_free(&f, data);
    observer_bench_close(&f);
}

/* The host's own accesses are on no stream; copies within set_diagnostic are diagnostic reads. Each
 * hint reaches the inner device with its own handles, recording or not. */
CT_TEST(device_observer, records_hints_and_passes_them_on)
{
    for (int i = 0; i < 2; i++) {
        const bool is_recording = i == 0;
        struct ddp_device_event *event = NULL;
        float host[ELEMS] = {0};
        struct observer_bench f;
        float *data;

        CT_REQUIRE(observer_bench_open(&f, is_recording));
        data = observer_bench_alloc(&f, ELEMS);
        f.read_count = is_recording ? 1 : 0;
        f.device->hints->host_access(f.device, data + 1, 4, true);
        f.device->hints->host_access(f.device, data, 8, false);
        f.device->hints->host_access(f.device, host, 8, false); /* not observed memory */
        if (is_recording) {
            observer_expect(&f, "write", DDP_EVENT_DEVICE_ACCESS, 0, 0, 4, 4,
                            DDP_ACCESS_HOST_WRITE);
            observer_expect(&f, "read", DDP_EVENT_DEVICE_ACCESS, 0, 0, 0, 8, DDP_ACCESS_HOST_READ);
        }
        observer_expect_nothing(&f, "host");
        f.device->hints->set_diagnostic(f.device, true);
        CT_CHECK_OK(f.device->ops->copy(f.device, NULL, host, data, 8));
        CT_CHECK_OK(f.device->ops->copy(f.device, NULL, data + 2, host, 8)); /* no use of it */
        f.device->hints->set_diagnostic(f.device, false);
        CT_CHECK_OK(f.device->ops->copy(f.device, NULL, host, data, 8));
        if (is_recording) {
            observer_expect(&f, "hash", DDP_EVENT_DEVICE_ACCESS, 0, 0, 0, 8,
                            DDP_ACCESS_DIAGNOSTIC_READ);
            observer_expect(&f, "copy", DDP_EVENT_DEVICE_ACCESS, 0, 0, 0, 8, DDP_ACCESS_READ);
        }
        observer_expect_nothing(&f, "copies");
        CT_CHECK_OK(f.device->ops->event_create(f.device, &event));
        f.device->hints->hide_event(f.device, event);
        CT_CHECK(f.inner.hidden != event); /* the inner device's handle */
        CT_CHECK_OK(f.device->hints->name_range(f.device, DDP_RANGE_GRAD, 0, host, 0));
        CT_CHECK_EQ_U64(f.inner.hint_count, 7);
        f.device->ops->event_destroy(f.device, event);
        observer_bench_free(&f, data);
        observer_bench_close(&f);
    }
}

/* With progress words, the mark IDLE is enqueued before each event on the default stream. */
CT_TEST(device_observer, marks_the_end_of_work)
{
    struct ddp_progress progress = {0};
    struct ddp_progress_words *words = &progress.stream[DDP_PROGRESS_COMPUTE];
    struct ddp_device_event *event = NULL;
    struct observer_bench f;

    CT_REQUIRE(observer_bench_open(&f, false));
    CT_CHECK_OK(f.device->ops->event_create(f.device, &event));
    CT_CHECK_OK(f.device->ops->event_record(f.device, event, NULL));
    f.device->hints->set_progress(f.device, &progress);
    CT_CHECK_EQ_U64(words->enqueued, 0);
    CT_CHECK_OK(f.device->ops->event_record(f.device, event, NULL));
    CT_CHECK_EQ_U64(words->enqueued, ddp_mark_pack(1, DDP_MARK_IDLE, 0));
    CT_CHECK_EQ_U64(words->reached, words->enqueued);
    f.device->hints->set_progress(f.device, NULL);
    CT_CHECK_OK(f.device->ops->event_record(f.device, event, NULL));
    CT_CHECK_EQ_U64(words->enqueued, ddp_mark_pack(1, DDP_MARK_IDLE, 0));
    f.device->ops->event_destroy(f.device, event);
    observer_bench_close(&f);
}

/* Names point into allocations; memory from elsewhere is adopted, and forgotten when the device
 * hands out the same bytes. */
CT_TEST(device_observer, names_ranges)
{
    struct observer_bench f;
    struct ddp_device *cpu = NULL;
    float foreign[ELEMS + 1];
    float *data;

    CT_REQUIRE(observer_bench_open(&f, true));
    data = observer_bench_alloc(&f, ELEMS);
    f.read_count++;
    CT_CHECK_OK(f.device->hints->name_range(f.device, DDP_RANGE_GRAD, 4, data + 2, 12));
    observer_expect(&f, "grad", DDP_EVENT_DEVICE_NAME, DDP_RANGE_GRAD, 4, 0, 8, 12);
    CT_CHECK_OK(f.device->hints->name_range(f.device, DDP_RANGE_BUCKET, 1, foreign + 1, 32));
    observer_expect(&f, "adopted", DDP_EVENT_DEVICE_ALLOC, 1, 32, DDP_SPACE_DEVICE, 0, 0);
    observer_expect(&f, "bucket", DDP_EVENT_DEVICE_NAME, DDP_RANGE_BUCKET, 1, 1, 0, 32);
    CT_CHECK_OK(f.device->ops->zero(f.device, NULL, foreign + 2, 4));
    observer_expect_work(&f, "work on adopted memory", 0, "w1:4+4");
    CT_CHECK_OK(f.device->hints->name_range(f.device, DDP_RANGE_PARAM, 0, data, 0));
    observer_expect_nothing(&f, "an empty parameter");

    /* Two owners of the same bytes: the first one must have given them back. */
    CT_CHECK_OK(
        f.device->hints->name_range(f.device, DDP_RANGE_BUCKET, 2, foreign, sizeof foreign));
    observer_expect(&f, "adopted anew", DDP_EVENT_DEVICE_ALLOC, 2, 36, DDP_SPACE_DEVICE, 0, 0);
    observer_expect(&f, "new bucket", DDP_EVENT_DEVICE_NAME, DDP_RANGE_BUCKET, 2, 2, 0, 36);
    CT_CHECK_OK(f.device->ops->zero(f.device, NULL, foreign + 1, 4));
    observer_expect_work(&f, "the new owner", 0, "w2:4+4");

    CT_CHECK_OK(ddp_device_cpu_create(f.env.mem, &cpu));
    CT_CHECK_OK(cpu->hints->name_range(cpu, DDP_RANGE_GRAD, 4, data, 4));
    observer_expect_nothing(&f, "a device that is no observer");
    cpu->ops->destroy(cpu);
    observer_bench_free(&f, data);
    observer_bench_close(&f);
}
