/* The observer and the checker together: a data-parallel step on an observed device, with buckets
 * on a communication stream. Each wait of a stream is forgotten in turn, by the fault point that a
 * scenario would use; every one must be found. The CPU underneath does everything at once and in
 * order, so no value is ever wrong: what is found is found from the record. */
#include <stdio.h>
#include <string.h>

#include "ddpcore/device/math.h"
#include "ddpcore/device/observer.h"
#include "harness/order/order.h"
#include "tests/ct.h"

enum { STEPS = 3, BUCKETS = 3, ELEMS = 16, RING_ENTRIES = 2048 };
/* A bucket's all-reduce waits for its gradients, the copy back waits for the all-reduce. */
enum { WAITS = STEPS * BUCKETS * 2 };

struct job {
    struct ddp_mem_pool *pool;
    struct ddp_clock_virtual clock;
    struct ddp_recorder recorder;
    struct ddp_fault_hook hook;
    int64_t forgotten; /* number of the wait to forget; -1 = none */
    int64_t wait_count;
    struct ddp_env env;
    struct ddp_device *device;
    struct ddp_stream *comm;
    struct ddp_device_event *ready[BUCKETS], *reduced[BUCKETS];
    float *bucket[BUCKETS], *grad[BUCKETS], *param[BUCKETS];
    uint64_t seq;
    struct harness_trace trace;
    struct harness_order_facts facts;
};

static enum ddp_fault_action forget(struct ddp_fault_hook *hook, enum ddp_fault_point point,
                                    struct ddp_fault_context *context)
{
    struct job *job = (struct job *)(void *)((char *)hook - offsetof(struct job, hook));

    (void)context;
    CT_CHECK_EQ_U64(point, DDP_FAULT_POINT_DEVICE_EVENT_WAIT);
    return job->wait_count++ == job->forgotten ? DDP_FAULT_SKIP : DDP_FAULT_GO;
}

static float *allocate(struct job *job, enum ddp_range_kind kind, size_t index)
{
    void *data = NULL;

    CT_CHECK_OK(
        job->device->ops->alloc(job->device, ELEMS * sizeof(float), DDP_SPACE_DEVICE, &data));
    CT_CHECK_OK(
        job->device->hints->name_range(job->device, kind, index, data, ELEMS * sizeof(float)));
    return (float *)data;
}

static void open_job(struct job *job, int64_t forgotten)
{
    struct ddp_device *cpu = NULL;

    memset(job, 0, sizeof *job);
    job->forgotten = forgotten;
    CT_CHECK_OK(ddp_mem_pool_create(&job->pool));
    job->env.mem = ddp_mem_pool_mem(job->pool);
    ddp_clock_virtual_init(&job->clock, 1);
    ddp_recorder_init(&job->recorder,
                      ddp_mem_array(job->env.mem, ddp_recorder_size_bytes(RING_ENTRIES), 1),
                      RING_ENTRIES, &job->clock.base, 0, 1, 1);
    job->hook.fire = forget;
    job->hook.armed = UINT64_C(1) << DDP_FAULT_POINT_DEVICE_EVENT_WAIT;
    job->env.recorder = &job->recorder;
    job->env.faults = &job->hook;
    CT_CHECK_OK(ddp_device_cpu_create(job->env.mem, &cpu));
    CT_CHECK_OK(ddp_device_observer_create(cpu, &job->env, true, &job->device));
    CT_CHECK_OK(job->device->ops->stream_create(job->device, &job->comm));
    for (size_t b = 0; b < BUCKETS; b++) {
        CT_CHECK_OK(job->device->ops->event_create(job->device, &job->ready[b]));
        CT_CHECK_OK(job->device->ops->event_create(job->device, &job->reduced[b]));
        job->bucket[b] = allocate(job, DDP_RANGE_BUCKET, b);
        job->grad[b] = allocate(job, DDP_RANGE_GRAD, b);
        job->param[b] = allocate(job, DDP_RANGE_PARAM, b);
        ddp_recorder_event(&job->recorder, DDP_EVENT_BUCKET_PARAM, b, b, 0, ELEMS, 0);
    }
}

static void all_reduce(struct job *job, size_t b)
{
    const struct ddp_device_ops *ops = job->device->ops;
    const struct ddp_device_hint_ops *hints = job->device->hints;
    const struct ddp_event_op op = {DDP_COLL_ALL_REDUCE, DDP_REDOP_SUM, DDP_DTYPE_F32,
                                    DDP_ROLE_BUCKET,     (uint32_t)b,   0};

    CT_CHECK_OK(ops->event_record(job->device, job->ready[b], NULL));
    ddp_recorder_event(&job->recorder, DDP_EVENT_COLL_POST, ++job->seq, ddp_event_op_pack(&op),
                       ELEMS, 1, 0);
    CT_CHECK_OK(ops->stream_wait_event(job->device, job->comm, job->ready[b]));
    hints->collective_access(job->device, job->comm, job->bucket[b], ELEMS * sizeof(float), false);
    hints->collective_access(job->device, job->comm, job->bucket[b], ELEMS * sizeof(float), true);
    CT_CHECK_OK(ops->event_record(job->device, job->reduced[b], job->comm));
}

static void run_step(struct job *job, uint32_t step)
{
    const struct ddp_device_ops *ops = job->device->ops;
    const struct ddp_math_ops *math = job->device->math;
    const struct ddp_sgd sgd = {.lr = 0.1F};

    ddp_recorder_step(&job->recorder, step, 0);
    ddp_recorder_phase(&job->recorder, DDP_PHASE_BACKWARD);
    for (size_t b = BUCKETS; b-- > 0;) {
        CT_CHECK_OK(math->relu(job->device, NULL, job->grad[b], job->param[b], ELEMS));
        CT_CHECK_OK(ops->scale(job->device, NULL, job->bucket[b], DDP_DTYPE_F32, job->grad[b],
                               DDP_DTYPE_F32, ELEMS, 0.5F));
        all_reduce(job, b);
    }
    for (size_t b = BUCKETS; b-- > 0;) {
        CT_CHECK_OK(ops->stream_wait_event(job->device, NULL, job->reduced[b]));
        CT_CHECK_OK(
            ops->copy(job->device, NULL, job->grad[b], job->bucket[b], ELEMS * sizeof(float)));
    }
    ddp_recorder_phase(&job->recorder, DDP_PHASE_OPTIMIZER);
    for (size_t b = 0; b < BUCKETS; b++) {
        CT_CHECK_OK(math->sgd(job->device, NULL, &sgd, job->param[b], job->grad[b], NULL, ELEMS));
    }
}

static void run(struct job *job)
{
    const struct ddp_device_ops *ops = job->device->ops;

    for (uint32_t step = 0; step < STEPS; step++) {
        run_step(job, step);
    }
    for (size_t b = 0; b < BUCKETS; b++) {
        CT_CHECK_OK(ops->event_query(job->device, job->reduced[b]));
        ops->free(job->device, DDP_SPACE_DEVICE, job->bucket[b]);
        ops->free(job->device, DDP_SPACE_DEVICE, job->grad[b]);
        ops->free(job->device, DDP_SPACE_DEVICE, job->param[b]);
        ops->event_destroy(job->device, job->ready[b]);
        ops->event_destroy(job->device, job->reduced[b]);
    }
    ops->stream_destroy(job->device, job->comm);
    ops->destroy(job->device);
    ddp_recorder_end(&job->recorder, DDP_OK, STEPS);
}

/* The trace as it would be judged: out of the ring, as text, and back. */
static void read_trace(struct job *job)
{
    struct harness_trace recorded;
    struct ddp_page page;
    struct ddp_text text;
    struct ddp_err err = {{0}};

    CT_CHECK(ddp_page_read(job->recorder.page, &page));
    harness_trace_init(&recorded, job->env.mem, 1, "proc");
    CT_CHECK_OK(
        harness_trace_add_ring(&recorded, 0, job->recorder.ring, RING_ENTRIES, page.event_count));
    CT_CHECK_EQ_U64(recorded.lost_count, 0);
    harness_trace_merge(&recorded);
    ddp_text_init(&text, job->env.mem);
    harness_trace_print(&recorded, &text);
    if (harness_trace_parse(job->env.mem, text.data, &job->trace, &err) != DDP_OK) {
        CT_FAIL("%s", err.text);
    }
}

static void check(struct job *job)
{
    const struct harness_trace_event **list =
        ddp_mem_array(job->env.mem, job->trace.event_count, sizeof *list);
    struct ddp_err err = {{0}};

    for (size_t i = 0; i < job->trace.event_count; i++) {
        list[i] = &job->trace.events[i];
    }
    CT_CHECK_OK(harness_order_check(list, job->trace.event_count, NULL, 0, job->env.mem,
                                    &job->facts, &err));
}

/* Open, run, judge. */
static void play(struct job *job, int64_t forgotten)
{
    open_job(job, forgotten);
    run(job);
    read_trace(job);
    check(job);
}

CT_TEST(happens_before, an_observed_job_is_in_order)
{
    struct job job;

    play(&job, -1);
    CT_CHECK_EQ_I64(job.wait_count, WAITS);
    CT_CHECK_STR(job.facts.disorder.text, "");
    CT_CHECK(job.facts.is_coll_recorded);
    ddp_mem_pool_destroy(job.pool);
}

/* Whichever wait is forgotten, its bucket and step are named, the same way each time. */
CT_TEST(happens_before, every_forgotten_wait_is_found)
{
    for (int64_t wait = 0; wait < WAITS; wait++) {
        bool is_producer = wait % (2 * BUCKETS) < BUCKETS;
        long long bucket = BUCKETS - 1 - wait % BUCKETS;
        struct job job;
        struct job again;
        char start[128];

        play(&job, wait);
        CT_CHECK(job.facts.disorder.is_set);
        CT_CHECK_EQ_U64(job.facts.disorder.step, (uint64_t)wait / (2 * BUCKETS));
        CT_CHECK_EQ_I64(job.facts.disorder.bucket, bucket);
        (void)snprintf(start, sizeof start, "bucket %lld (parameter %lld) is read by %s", bucket,
                       bucket,
                       is_producer ? "all_reduce seq" : "work of stream 0 while all_reduce");
        if (strncmp(job.facts.disorder.text, start, strlen(start)) != 0) {
            CT_FAIL("wait %lld: \"%s\" does not begin with \"%s\"", (long long)wait,
                    job.facts.disorder.text, start);
        }
        play(&again, wait);
        CT_CHECK_STR(again.facts.disorder.text, job.facts.disorder.text);
        ddp_mem_pool_destroy(again.pool);
        ddp_mem_pool_destroy(job.pool);
    }
}
