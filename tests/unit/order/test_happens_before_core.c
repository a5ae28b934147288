/* The checker on the real thing: the DDP core over the NCCL adapter, on an observed device whose
 * streams hold work back, with NCCL's stand-in underneath. A group of one, so that one thread plays
 * it; what orders the streams is the same code as in any group. Everything is hashed, as in a run
 * that is judged bit by bit: the waits of the hashes must not hide a missing event. */
#include <stdio.h>
#include <string.h>

#include "ddpcore/ddp/ddp.h"
#include "ddpcore/device/observer.h"
#include "ddpcore/nccl/nccl.h"
#include "ddpcore/transport/loop.h"
#include "harness/order/order.h"
#include "tests/ct.h"
#include "tests/standin/nccl/hooks.h"
#include "tests/unit/nccl/nccl_device.h"
#include "tests/unit/nccl/nccl_turns.h"

enum { STEPS = 3, PARAMS = 4, BUCKETS = 2, ELEMS = 8, RING_ENTRIES = 4096 };

struct job {
    struct ddp_mem_pool *pool;
    struct ddp_clock_virtual clock;
    struct ddp_idle idle;
    struct ddp_recorder recorder;
    struct ddp_fault_hook hook;
    enum ddp_fault_point point; /* its passage number `skipped` in backward passes is skipped */
    int64_t skipped, passed;
    bool is_lucky; /* the device is done with everything whenever somebody asks */
    bool has_used_map;
    struct ddp_env env;
    struct nccl_device queued;
    struct ddp_device_ops ops;
    ddp_status (*event_query)(struct ddp_device *device, struct ddp_device_event *event);
    struct ddp_device *device;
    struct ddp_nccl_library *library;
    struct ddp_loop_net *net;
    struct ddp_store *store;
    struct ddp_group group;
    struct ddp_param params[PARAMS];
    struct ddp *ddp;
    struct harness_order_facts facts;
};

static const char *const names[PARAMS] = {"fc0.weight", "fc0.bias", "fc1.weight", "fc1.bias"};

static void wait_idle(struct ddp_idle *idle, const struct ddp_idle_hint *hint)
{
    struct job *job = (struct job *)(void *)((char *)idle - offsetof(struct job, idle));

    (void)hint;
    (void)nccl_device_run(&job->queued);
    ddp_nccl_standin_turn();
    ddp_clock_virtual_advance_to(&job->clock, job->clock.time_ns + 1000);
}

static void progress(struct ddp_idle *idle)
{
    (void)idle;
}

static const struct ddp_idle_ops idle_ops = {wait_idle, progress};

static enum ddp_fault_action skip(struct ddp_fault_hook *hook, enum ddp_fault_point point,
                                  struct ddp_fault_context *context)
{
    struct job *job = (struct job *)(void *)((char *)hook - offsetof(struct job, hook));

    (void)context;
    return point == job->point && job->recorder.phase == DDP_PHASE_BACKWARD &&
                   job->passed++ == job->skipped
               ? DDP_FAULT_SKIP
               : DDP_FAULT_GO;
}

static void ignore_wake(void *context, uint32_t rank, uint64_t at_ns)
{
    (void)context;
    (void)rank;
    (void)at_ns;
}

/* The work of NCCL where a stream stops is done after a turn. */
static void run_dry(struct job *job)
{
    do {
        (void)nccl_device_run(&job->queued);
        ddp_nccl_standin_turn();
    } while (nccl_device_run(&job->queued));
}

static ddp_status query_done(struct ddp_device *device, struct ddp_device_event *event)
{
    struct job *job = (struct job *)(void *)((char *)device - offsetof(struct job, queued.base));

    run_dry(job);
    return job->event_query(device, event);
}

/* The test's device has nothing to destroy, and its memory is taken for a card's. */
static void keep(struct ddp_device *device)
{
    (void)device;
}

static void open_device(struct job *job)
{
    CT_CHECK(nccl_device_open(&job->queued));
    job->ops = *job->queued.base.ops;
    job->ops.is_host_memory = false;
    job->ops.destroy = keep;
    job->event_query = job->ops.event_query;
    job->ops.event_query = job->is_lucky ? query_done : job->event_query;
    job->queued.base.ops = &job->ops;
    CT_CHECK_OK(ddp_device_observer_create(&job->queued.base, &job->env, true, &job->device));
}

static struct ddp_coll *open_coll(struct job *job)
{
    const struct ddp_loop_config net_config = {.world_size = 1,
                                               .seed = 11,
                                               .latency_ns = 2000,
                                               .clock = &job->clock.base,
                                               .mem = job->env.mem,
                                               .wake = ignore_wake};
    struct ddp_coll_nccl_config config = {.name = "world", .comm = 42, .is_checked = true};
    struct ddp_transport *transport = NULL;
    struct ddp_coll *coll = NULL;
    struct ddp_coll *observed = NULL;
    struct ddp_err err = {{0}};

    job->library = nccl_turns_open(true);
    ddp_nccl_standin_device(nccl_device_enqueue);
    CT_CHECK_OK(ddp_loop_net_create(&net_config, &job->net));
    CT_CHECK_OK(ddp_loop_store_create(job->net, &job->env, &job->store));
    CT_CHECK_OK(ddp_loop_create(job->net, &job->env, "control", 0, 1, NULL, &transport));
    config.library = job->library;
    config.store = job->store;
    CT_CHECK_OK(ddp_coll_nccl_create(&job->env, transport, job->device, &config, &coll, &err));
    CT_CHECK_OK(ddp_coll_observer_create(coll, true, &observed));
    return observed;
}

static void open_model(struct job *job)
{
    const struct ddp_config config = {.bucket_cap_bytes = 2 * ELEMS * sizeof(float),
                                      .first_bucket_cap_bytes = 2 * ELEMS * sizeof(float),
                                      .is_hashing = true,
                                      .find_unused_parameters = job->has_used_map};
    const struct ddp_model model = {.params = job->params, .param_count = PARAMS};
    const float one[ELEMS] = {1, 1, 1, 1, 1, 1, 1, 1};
    struct ddp_err err = {{0}};

    for (size_t i = 0; i < PARAMS; i++) {
        struct ddp_param *param = &job->params[i];
        void *data = NULL;
        void *grad = NULL;

        CT_CHECK_OK(job->device->ops->alloc(job->device, sizeof one, DDP_SPACE_DEVICE, &data));
        CT_CHECK_OK(job->device->ops->alloc(job->device, sizeof one, DDP_SPACE_DEVICE, &grad));
        memcpy(data, one, sizeof one);
        *param = (struct ddp_param){.name = names[i],
                                    .data = data,
                                    .grad = grad,
                                    .elem_count = ELEMS,
                                    .ndim = 1,
                                    .shape = {ELEMS}};
    }
    CT_CHECK_OK(ddp_create(&job->group, job->device, &model, &config, &job->ddp, &err));
    CT_CHECK_EQ_U64(ddp_bucket_count(job->ddp), BUCKETS);
}

static void open_job(struct job *job)
{
    CT_CHECK_OK(ddp_mem_pool_create(&job->pool));
    job->idle.ops = &idle_ops;
    job->env.mem = ddp_mem_pool_mem(job->pool);
    job->env.world_size = 1;
    job->env.clock = &job->clock.base;
    job->env.idle = &job->idle;
    job->env.recorder = &job->recorder;
    job->env.faults = &job->hook;
    job->hook.fire = skip;
    job->hook.armed = UINT64_C(1) << job->point;
    ddp_clock_virtual_init(&job->clock, 1);
    ddp_recorder_init(&job->recorder,
                      ddp_mem_array(job->env.mem, ddp_recorder_size_bytes(RING_ENTRIES), 1),
                      RING_ENTRIES, &job->clock.base, 0, 1, 1);
    open_device(job);
    ddp_group_init(&job->group, &job->env, open_coll(job), DDP_SEMANTICS_STRICT, 0);
    open_model(job);
}

static void run_step(struct job *job, uint32_t step)
{
    const struct ddp_device_ops *ops = job->device->ops;

    ddp_recorder_step(&job->recorder, step, 0);
    ddp_recorder_phase(&job->recorder, DDP_PHASE_FORWARD);
    CT_CHECK_OK(ddp_forward_begin(job->ddp));
    ddp_recorder_phase(&job->recorder, DDP_PHASE_BACKWARD);
    CT_CHECK_OK(ddp_backward_begin(job->ddp, NULL));
    for (size_t i = PARAMS; i-- > 0;) {
        CT_CHECK_OK(ops->scale(job->device, NULL, job->params[i].grad, DDP_DTYPE_F32,
                               job->params[i].data, DDP_DTYPE_F32, ELEMS, 1.0F));
        CT_CHECK_OK(ddp_grad_ready(job->ddp, i));
    }
    CT_CHECK_OK(ddp_backward_end(job->ddp));
    ddp_recorder_phase(&job->recorder, DDP_PHASE_OPTIMIZER);
    for (size_t i = 0; i < PARAMS; i++) {
        CT_CHECK_OK(ops->reduce(job->device, NULL, job->params[i].data, job->params[i].grad, ELEMS,
                                DDP_DTYPE_F32, DDP_REDOP_SUM));
    }
}

static void check(struct job *job)
{
    const struct harness_trace_event **list;
    struct harness_trace trace;
    struct ddp_page page;
    struct ddp_err err = {{0}};

    CT_CHECK(ddp_page_read(job->recorder.page, &page));
    harness_trace_init(&trace, job->env.mem, 1, "proc");
    CT_CHECK_OK(
        harness_trace_add_ring(&trace, 0, job->recorder.ring, RING_ENTRIES, page.event_count));
    CT_CHECK_EQ_U64(trace.lost_count, 0);
    list = ddp_mem_array(job->env.mem, trace.event_count, sizeof *list);
    for (size_t i = 0; i < trace.event_count; i++) {
        list[i] = &trace.events[i];
    }
    CT_CHECK_OK(harness_order_check(list, trace.event_count, job->params, PARAMS, job->env.mem,
                                    &job->facts, &err));
}

/* Parameters double in every step: values are right, whatever was skipped. job: what is skipped,
 * and how the device behaves. */
static void play(struct job *job)
{
    const struct ddp_device_ops *ops;

    open_job(job);
    ops = job->device->ops;
    for (uint32_t step = 0; step < STEPS; step++) {
        run_step(job, step);
    }
    run_dry(job);
    for (size_t i = 0; i < PARAMS; i++) {
        const float *data = job->params[i].data;

        CT_CHECK(data[ELEMS - 1] == (float)(1 << STEPS));
    }
    ddp_destroy(job->ddp);
    /* A group that is left with work under way keeps the memory that the work may still touch. */
    job->queued.is_killed = job->group.failure.status != DDP_OK;
    ddp_group_fini(&job->group);
    for (size_t i = 0; i < PARAMS; i++) {
        ops->free(job->device, DDP_SPACE_DEVICE, job->params[i].data);
        ops->free(job->device, DDP_SPACE_DEVICE, job->params[i].grad);
    }
    ops->destroy(job->device);
    ddp_recorder_end(&job->recorder, DDP_OK, STEPS);
    job->store->ops->destroy(job->store);
    ddp_loop_net_destroy(job->net);
    nccl_turns_close(job->library);
    nccl_device_close(&job->queued);
    check(job);
    ddp_mem_pool_destroy(job->pool);
}

static void expect_found(const struct job *job, int64_t number, uint64_t step, const char *begins)
{
    CT_CHECK(job->facts.disorder.is_set);
    CT_CHECK_EQ_U64(job->facts.disorder.step, step);
    if (strncmp(job->facts.disorder.text, begins, strlen(begins)) != 0) {
        CT_FAIL("%lld: \"%s\" does not begin with \"%s\"", (long long)number,
                job->facts.disorder.text, begins);
    }
}

static void expect_order(struct job *job)
{
    job->skipped = -1;
    play(job);
    CT_CHECK_STR(job->facts.disorder.text, "");
    CT_CHECK(job->facts.is_coll_recorded && !job->facts.is_reduction_unseen);
}

CT_TEST(happens_before_core, a_healthy_job_is_in_order)
{
    struct job job = {.is_lucky = false};

    expect_order(&job);
}

CT_TEST(happens_before_core, a_healthy_job_with_a_used_map_is_in_order)
{
    struct job job = {.has_used_map = true};

    expect_order(&job);
}

/* Its hashes are taken as soon as a poll sees a bucket done, before it is waited for. */
CT_TEST(happens_before_core, a_healthy_job_on_a_fast_device_is_in_order)
{
    struct job job = {.is_lucky = true, .has_used_map = true};

    expect_order(&job);
}

/* Each wait of the communication stream for a bucket's gradients. */
CT_TEST(happens_before_core, every_forgotten_wait_is_found)
{
    static const char *const begins[BUCKETS] = {
        "bucket 0 (fc1.weight, fc1.bias) is read by all_reduce seq",
        "bucket 1 (fc0.weight, fc0.bias) is read by all_reduce seq"};

    for (int64_t wait = 0; wait < STEPS * BUCKETS; wait++) {
        struct job job = {.point = DDP_FAULT_POINT_DEVICE_EVENT_WAIT, .skipped = wait};

        play(&job);
        CT_CHECK_EQ_I64(job.passed, STEPS * BUCKETS);
        expect_found(&job, wait, (uint64_t)wait / BUCKETS, begins[wait % BUCKETS]);
    }
}

/* The host's wait for the last bucket of a step, after which its averages are copied back, also if
 * a poll in passing saw the bucket done before. (After the last step a group with work under way
 * would be revoked.) */
CT_TEST(happens_before_core, every_bucket_not_waited_for_is_found)
{
    for (int64_t step = 0; step < 2 * (STEPS - 1); step++) {
        struct job job = {.point = DDP_FAULT_POINT_COLLECTIVE_WAIT,
                          .skipped = step / 2 * BUCKETS + BUCKETS - 1,
                          .is_lucky = step % 2 != 0};

        play(&job);
        expect_found(
            &job, step, (uint64_t)step / 2,
            "bucket 1 (fc0.weight, fc0.bias) is read by work of stream 0 while all_reduce");
    }
}

/* The host's wait for the used map, which it reads itself. */
CT_TEST(happens_before_core, a_used_map_not_waited_for_is_found)
{
    for (int64_t step = 0; step < 2 * (STEPS - 1); step++) {
        struct job job = {.point = DDP_FAULT_POINT_COLLECTIVE_WAIT,
                          .skipped = step / 2 * (BUCKETS + 1) + BUCKETS,
                          .is_lucky = step % 2 != 0,
                          .has_used_map = true};

        play(&job);
        CT_CHECK(job.facts.disorder.is_set);
        CT_CHECK_EQ_U64(job.facts.disorder.step, (uint64_t)step / 2);
        CT_CHECK(strstr(job.facts.disorder.text, "is read by the host while all_reduce seq") !=
                 NULL);
    }
}
