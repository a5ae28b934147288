/* Averaging: exact gradients for every world size, accumulation, buffers, state errors, memory. */
#include <string.h>

#include "tests/ct.h"
#include "tests/unit/ddp/ddp_job.h"

static ddp_status create(struct world_rank *rank, struct job *job, const struct ddp_config *config)
{
    struct ddp_err err = {""};

    job_init(job, rank->rank);
    return ddp_create(&rank->group, rank->device,
                      &(struct ddp_model){job->params, JOB_PARAM_COUNT, job->buffers, 1}, config,
                      &job->ddp, &err);
}

/* What DDP must give: scale, then add in rank order (the test's collective), over `micro` steps. */
static float emulate(uint32_t size, uint32_t step, uint32_t micro, size_t param, size_t elem,
                     bool is_post)
{
    const float factor = (float)(1.0 / (double)size);
    float sum = 0;

    for (uint32_t r = 0; r < size; r++) {
        float local = 0;

        for (uint32_t m = 0; m < micro; m++) {
            local += job_gradient(r, step + m, param, elem);
        }
        local = is_post ? local : local * factor;
        sum = r == 0 ? local : sum + local;
    }
    return is_post ? sum * factor : sum;
}

static void check_gradients(const struct world_rank *rank, const struct job *job, uint32_t step,
                            uint32_t micro, bool is_post)
{
    for (size_t i = 0; i < JOB_PARAM_COUNT; i++) {
        CT_CHECK(job->params[i].is_grad_defined);
        for (size_t k = 0; k < job_elem_counts[i]; k++) {
            const float expected = emulate(rank->env.world_size, step, micro, i, k, is_post);

            CT_CHECK_BYTES(&job->grad[i][k], &expected, sizeof(expected));
        }
    }
}

static void averages(struct world_rank *rank)
{
    const bool is_post = *(const bool *)rank->arg;
    struct ddp_config config = job_config();
    struct ddp_event_entry entry;
    struct job job;

    config.gradient_scale = is_post ? DDP_GRADIENT_SCALE_POST : DDP_GRADIENT_SCALE_PRE;
    CT_REQUIRE_OK(create(rank, &job, &config));
    CT_CHECK_EQ_U64(ddp_bucket_count(job.ddp), 3);
    CT_CHECK_EQ_U64(ddp_bucket_of_param(job.ddp, 4), 0);
    CT_CHECK_EQ_U64(ddp_bucket_offset_of_param(job.ddp, 1), 6);
    CT_CHECK_EQ_U64(ddp_bucket_elem_count(job.ddp, 1), 9);
    for (size_t i = 0; i < JOB_PARAM_COUNT; i++) {
        for (size_t k = 0; k < job_elem_counts[i]; k++) {
            CT_CHECK(job.data[i][k] == (float)i);
        }
    }
    CT_CHECK(job.buffer[1] == 0);
    for (uint32_t step = 0; step < 4; step++) {
        job_zero_grad(&job);
        CT_REQUIRE_OK(job_step(&job, rank->rank, step, NULL));
        check_gradients(rank, &job, step, 1, is_post);
    }
    CT_CHECK_EQ_U64(world_events(rank, DDP_EVENT_BUCKET_PARAM, &entry), JOB_PARAM_COUNT);
    CT_CHECK_EQ_U64(world_events(rank, DDP_EVENT_GRAD_READY, &entry), 4 * JOB_PARAM_COUNT);
    CT_CHECK_EQ_U64(world_events(rank, DDP_EVENT_GRAD_FINAL, &entry), 4 * JOB_PARAM_COUNT);
    ddp_destroy(job.ddp);
}

/* For 1 to 4 ranks and both scalings every averaged gradient is bitwise the emulated one, and
 * construction gave all ranks rank 0's parameters and buffers. */
CT_TEST(ddp, averages_exactly)
{
    for (uint32_t size = 1; size <= 4; size++) {
        for (int is_post = 0; is_post < 2; is_post++) {
            bool arg = is_post == 1;

            world_run(&(struct world_config){size, DDP_SEMANTICS_STRICT, 0, averages, &arg, false});
            world_run(
                &(struct world_config){size, DDP_SEMANTICS_PYTORCH, 0, averages, &arg, false});
        }
    }
}

static void bucket_order(struct world_rank *rank)
{
    const size_t order[JOB_PARAM_COUNT] = {0, 2, 1, 4, 3};
    const struct ddp_config config = job_config();
    uint64_t first_seq;
    struct job job;

    CT_REQUIRE_OK(create(rank, &job, &config));
    first_seq = rank->group.seq + 1;
    CT_REQUIRE_OK(ddp_forward_begin(job.ddp));
    CT_REQUIRE_OK(ddp_backward_begin(job.ddp, NULL));
    for (size_t i = 0; i < JOB_PARAM_COUNT; i++) {
        const size_t param = order[(i + rank->rank) % JOB_PARAM_COUNT];

        job_accumulate(&job, rank->rank, 0, param);
        CT_REQUIRE_OK(ddp_grad_ready(job.ddp, param));
    }
    CT_REQUIRE_OK(ddp_backward_end(job.ddp));
    check_gradients(rank, &job, 0, 1, false);
    for (uint32_t b = 0; b < 3; b++) {
        const struct ddp_coll_args *args = world_executed(rank->world, first_seq + b);

        CT_REQUIRE(args != NULL);
        CT_CHECK_EQ_U64(args->role, DDP_ROLE_BUCKET);
        CT_CHECK_EQ_U64(args->index, b);
    }
    ddp_destroy(job.ddp);
}

/* Whatever the order in which gradients become ready on each rank, buckets are launched 0, 1, 2. */
CT_TEST(ddp, launches_in_order)
{
    world_run(&(struct world_config){4, DDP_SEMANTICS_STRICT, 0, bucket_order, NULL, false});
}

static void accumulates(struct world_rank *rank)
{
    const struct ddp_config config = job_config();
    uint64_t seq;
    struct job job;

    CT_REQUIRE_OK(create(rank, &job, &config));
    for (uint32_t step = 0; step < 9; step += 3) {
        job_zero_grad(&job);
        seq = rank->group.seq;
        ddp_set_sync(job.ddp, false);
        CT_REQUIRE_OK(job_step(&job, rank->rank, step, NULL));
        CT_REQUIRE_OK(ddp_forward_begin(job.ddp));
        ddp_set_sync(job.ddp, true); /* too late: the flag was read by the forward pass */
        CT_REQUIRE_OK(job_backward(&job, rank->rank, step + 1, NULL));
        CT_CHECK_EQ_U64(rank->group.seq, seq);
        CT_REQUIRE_OK(job_step(&job, rank->rank, step + 2, NULL));
        CT_CHECK_EQ_U64(rank->group.seq, seq + 3);
        check_gradients(rank, &job, step, 3, false);
    }
    ddp_destroy(job.ddp);
}

/* Micro-batches without synchronisation post nothing; the next synchronised one reduces the sum. */
CT_TEST(ddp, accumulates_without_sync)
{
    world_run(&(struct world_config){3, DDP_SEMANTICS_STRICT, 0, accumulates, NULL, false});
    world_run(&(struct world_config){3, DDP_SEMANTICS_PYTORCH, 0, accumulates, NULL, false});
}

static void syncs_buffers(struct world_rank *rank)
{
    const bool is_strict = rank->group.semantics == DDP_SEMANTICS_STRICT;
    /* sync flag of each pass, and whether its forward pass broadcasts in either semantics */
    const bool is_sync[6] = {true, false, false, true, true, false};
    const bool is_strict_due[6] = {true, false, false, true, true, false};
    const bool is_pytorch_due[6] = {true, true, false, false, true, true};
    struct ddp_config config = job_config();
    struct ddp_event_entry entry;
    uint64_t expected_events = 0;
    struct job job;

    config.broadcast_buffers = true;
    CT_REQUIRE_OK(create(rank, &job, &config));
    ddp_recorder_phase(&rank->recorder, DDP_PHASE_FORWARD);
    for (uint32_t i = 0; i < 6; i++) {
        const bool is_due = is_strict ? is_strict_due[i] : is_pytorch_due[i];
        const float own = (float)(10 * rank->rank + i);

        for (size_t k = 0; k < 3; k++) {
            job.buffer[k] = own;
        }
        ddp_set_sync(job.ddp, is_sync[i]);
        CT_REQUIRE_OK(ddp_forward_begin(job.ddp));
        CT_CHECK(job.buffer[2] == (is_due ? (float)i : own));
        expected_events += is_due ? 1 : 0;
        CT_CHECK_EQ_U64(rank->recorder.phase, DDP_PHASE_FORWARD);
        CT_REQUIRE_OK(job_backward(&job, rank->rank, i, NULL));
    }
    CT_CHECK_EQ_U64(world_events(rank, DDP_EVENT_BUFFER_SYNCED, &entry), expected_events);
    ddp_destroy(job.ddp);
}

/* Buffers come from rank 0 in each synchronised pass; in PyTorch, in the pass after one. */
CT_TEST(ddp, broadcasts_buffers)
{
    world_run(&(struct world_config){3, DDP_SEMANTICS_STRICT, 0, syncs_buffers, NULL, false});
    world_run(&(struct world_config){3, DDP_SEMANTICS_PYTORCH, 0, syncs_buffers, NULL, false});
}

static void allocates_nothing(struct world_rank *rank)
{
    struct ddp_config config = job_config();
    uint64_t before = 0;
    struct job job;

    config.broadcast_buffers = true;
    config.find_unused_parameters = true;
    CT_REQUIRE_OK(create(rank, &job, &config));
    for (uint32_t step = 0; step < 6; step++) {
        if (step == 1) {
            before = ddp_mem_pool_alloc_count(rank->pool);
        }
        CT_REQUIRE_OK(job_step(&job, rank->rank, step, NULL));
    }
    CT_CHECK_EQ_U64(ddp_mem_pool_alloc_count(rank->pool), before);
    ddp_destroy(job.ddp);
}

/* Steps after the first allocate nothing. */
CT_TEST(ddp, steady_state_allocates_nothing)
{
    world_run(&(struct world_config){2, DDP_SEMANTICS_STRICT, 0, allocates_nothing, NULL, false});
}

static void misuse(struct world_rank *rank)
{
    const int which = *(const int *)rank->arg;
    const bool is_strict = rank->group.semantics == DDP_SEMANTICS_STRICT;
    const ddp_status expected = which == 0 ? DDP_E_READY_TWICE : DDP_E_STATE;
    const struct ddp_config config = job_config();
    ddp_status status = DDP_OK;
    struct job job;

    CT_REQUIRE_OK(create(rank, &job, &config));
    CT_REQUIRE_OK(job_step(&job, rank->rank, 0, NULL));
    if (rank->rank == 1 && which == 2) {
        status = ddp_grad_ready(job.ddp, 0);
    } else if (rank->rank == 1) {
        CT_REQUIRE_OK(ddp_forward_begin(job.ddp));
        CT_REQUIRE_OK(ddp_backward_begin(job.ddp, NULL));
        CT_REQUIRE_OK(ddp_grad_ready(job.ddp, 4));
        status = which == 0 ? ddp_grad_ready(job.ddp, 4) : ddp_forward_begin(job.ddp);
    } else if (is_strict) {
        status = job_step(&job, rank->rank, 1, NULL);
    }
    CT_CHECK_STATUS(status, is_strict || rank->rank == 1 ? expected : DDP_OK);
    if (is_strict) {
        CT_CHECK_EQ_I64(rank->group.failure.rank, 1);
    } else {
        CT_CHECK_EQ_I64(rank->group.failure.status, DDP_OK);
    }
    ddp_destroy(job.ddp);
}

/* A gradient reported twice, and calls out of turn, are errors: on all ranks in strict semantics,
 * on the misusing rank in PyTorch's. */
CT_TEST(ddp, misuse)
{
    for (int which = 0; which < 3; which++) {
        world_run(&(struct world_config){3, DDP_SEMANTICS_STRICT, 0, misuse, &which, false});
        world_run(&(struct world_config){3, DDP_SEMANTICS_PYTORCH, 0, misuse, &which, false});
    }
}

static void bypasses(struct world_rank *rank)
{
    const struct ddp_config config = job_config();
    struct job job;

    CT_REQUIRE_OK(create(rank, &job, &config));
    if (rank->group.semantics == DDP_SEMANTICS_PYTORCH) {
        CT_CHECK_OK(job_backward(&job, rank->rank, 0, NULL));
        CT_CHECK(job.grad[0][3] == job_gradient(rank->rank, 0, 0, 3));
    } else {
        CT_CHECK_STATUS(job_backward(&job, rank->rank, 0, NULL), DDP_E_STATE);
    }
    ddp_destroy(job.ddp);
}

/* A backward pass without a forward pass through DDP: gradients stay local in PyTorch, strict
 * refuses. */
CT_TEST(ddp, bypassed_forward)
{
    world_run(&(struct world_config){2, DDP_SEMANTICS_STRICT, 0, bypasses, NULL, false});
    world_run(&(struct world_config){2, DDP_SEMANTICS_PYTORCH, 0, bypasses, NULL, false});
}

struct once {
    struct ddp_fault_hook hook;
    enum ddp_fault_action action;
    int fired_count;
};

static enum ddp_fault_action fire_once(struct ddp_fault_hook *hook, enum ddp_fault_point point,
                                       struct ddp_fault_context *context)
{
    struct once *self = (struct once *)hook;

    (void)point;
    if (self->fired_count++ > 0) {
        return DDP_FAULT_GO;
    }
    if (self->action == DDP_FAULT_GO && context->elem_count > 0) {
        ((float *)context->data)[0] += 64;
    }
    return self->action;
}

static void alters(struct world_rank *rank)
{
    const enum ddp_fault_point point = *(const enum ddp_fault_point *)rank->arg;
    struct once once = {{UINT64_C(1) << point, fire_once}, DDP_FAULT_GO, 0};
    const float expected =
        emulate(2, 0, 1, 4, 0, false) + (point == DDP_FAULT_POINT_GRAD_READY ? 32.0F : 64.0F);
    const struct ddp_config config = job_config();
    struct job job;

    CT_REQUIRE_OK(create(rank, &job, &config));
    rank->env.faults = rank->rank == 1 ? &once.hook : NULL;
    CT_REQUIRE_OK(job_step(&job, rank->rank, 0, NULL));
    if (rank->rank == 1 || point != DDP_FAULT_POINT_BUCKET_UNFLATTEN) {
        CT_CHECK(job.grad[4][0] == expected);
    }
    CT_CHECK(job.grad[4][1] == emulate(2, 0, 1, 4, 1, false));
    rank->env.faults = NULL;
    ddp_destroy(job.ddp);
}

/* Payloads altered at the points of a backward pass show up in the average as they should. */
CT_TEST(ddp, fault_points_alter_payloads)
{
    enum ddp_fault_point points[] = {DDP_FAULT_POINT_GRAD_READY, DDP_FAULT_POINT_BUCKET_FILL,
                                     DDP_FAULT_POINT_BUCKET_LAUNCH,
                                     DDP_FAULT_POINT_BUCKET_UNFLATTEN};

    for (size_t i = 0; i < sizeof(points) / sizeof(points[0]); i++) {
        world_run(&(struct world_config){2, DDP_SEMANTICS_STRICT, 0, alters, &points[i], false});
    }
}

static void skips_wait(struct world_rank *rank)
{
    struct once once = {
        {UINT64_C(1) << DDP_FAULT_POINT_COLLECTIVE_WAIT, fire_once}, DDP_FAULT_SKIP, 0};
    const struct ddp_config config = job_config();
    struct job job;

    CT_REQUIRE_OK(create(rank, &job, &config));
    rank->env.faults = rank->rank == 0 ? &once.hook : NULL;
    for (uint32_t step = 0; step < 3; step++) {
        job_zero_grad(&job);
        CT_REQUIRE_OK(job_step(&job, rank->rank, step, NULL));
    }
    check_gradients(rank, &job, 2, 1, false);
    rank->env.faults = NULL;
    ddp_destroy(job.ddp);
}

/* A bucket whose wait was skipped is finished before its storage is used again. */
CT_TEST(ddp, skipped_wait_is_settled)
{
    world_run(&(struct world_config){3, DDP_SEMANTICS_STRICT, 0, skips_wait, NULL, false});
}

/* Whose device fails, and at which of the calls of a step. */
struct breakage {
    struct ddp_device_ops ops;
    const struct ddp_device_ops *sound;
    int calls_left; /* < 0: none fails */
};

static struct breakage breakage;

static ddp_status break_scale(struct ddp_device *device, struct ddp_stream *stream, void *target,
                              enum ddp_dtype target_dtype, const void *source,
                              enum ddp_dtype source_dtype, size_t elem_count, double factor)
{
    return breakage.calls_left >= 0 && breakage.calls_left-- == 0
               ? DDP_E_DEVICE
               : breakage.sound->scale(device, stream, target, target_dtype, source, source_dtype,
                                       elem_count, factor);
}

static void break_device(struct world_rank *rank)
{
    const struct ddp_config config = {.gradient_scale = *(enum ddp_gradient_scale *)rank->arg};
    const bool is_broken = rank->rank == 1;
    struct ddp_err err = {""};
    ddp_status status = DDP_OK;
    struct job job;

    job_init(&job, rank->rank);
    CT_REQUIRE_OK(ddp_create(&rank->group, rank->device,
                             &(struct ddp_model){job.params, JOB_PARAM_COUNT, job.buffers, 1},
                             &config, &job.ddp, &err));
    if (is_broken) {
        breakage = (struct breakage){
            .ops = *rank->device->ops, .sound = rank->device->ops, .calls_left = 5};
        breakage.ops.scale = break_scale;
        rank->device->ops = &breakage.ops;
    }
    for (uint32_t step = 0; status == DDP_OK && step < 4; step++) {
        status = job_step(&job, rank->rank, step, NULL);
    }
    CT_CHECK_STATUS(status, DDP_E_DEVICE);
    CT_CHECK_EQ_I64(rank->group.failure.rank, 1);
    if (is_broken) {
        rank->device->ops = breakage.sound;
    }
    ddp_destroy(job.ddp);
}

/* The others do not wait for a rank whose device failed until their time is up. */
CT_TEST(ddp, device_errors_are_told_to_all)
{
    enum ddp_gradient_scale scale = DDP_GRADIENT_SCALE_PRE;
    const struct world_config config = {.world_size = 3,
                                        .timeout_ns = DDP_NS_PER_S,
                                        .program = break_device,
                                        .arg = &scale,
                                        .is_loop = true};

    world_run(&config);
    scale = DDP_GRADIENT_SCALE_POST;
    world_run(&config);
}
