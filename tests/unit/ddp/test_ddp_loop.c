/* The DDP core on the real executor and the loop transport, with messages that take time. */
#include <stdio.h>
#include <string.h>

#include "tests/ct.h"
#include "tests/unit/ddp/ddp_job.h"

static void trains(struct world_rank *rank)
{
    const uint32_t size = rank->env.world_size;
    struct ddp_config config = job_config();
    struct ddp_event_entry entry;
    struct ddp_err err = {""};
    struct job job;

    config.broadcast_buffers = true;
    config.find_unused_parameters = true;
    job_init(&job, rank->rank);
    CT_REQUIRE_OK(ddp_create(&rank->group, rank->device,
                             &(struct ddp_model){job.params, JOB_PARAM_COUNT, job.buffers, 1},
                             &config, &job.ddp, &err));
    for (uint32_t step = 0; step < 3; step++) {
        job_zero_grad(&job);
        CT_REQUIRE_OK(job_step(&job, rank->rank, step, NULL));
        for (size_t k = 0; size != 3 && k < job_elem_counts[0]; k++) {
            float expected = 0; /* powers of two: exact in any order */

            for (uint32_t r = 0; r < size; r++) {
                expected += job_gradient(r, step, 0, k) / (float)size;
            }
            CT_CHECK(job.grad[0][k] == expected);
        }
    }
    CT_CHECK_EQ_U64(world_events(rank, DDP_EVENT_COLL_POST, &entry), rank->group.seq);
    CT_CHECK_EQ_U64(world_events(rank, DDP_EVENT_COLL_DONE, &entry), rank->group.seq);
    ddp_destroy(job.ddp);
}

/* Averages are exact, and every collective that was posted is recorded as done. */
CT_TEST(ddp_loop, trains)
{
    for (uint32_t size = 1; size <= 4; size++) {
        world_run(&(struct world_config){size, DDP_SEMANTICS_STRICT, 0, trains, NULL, true});
    }
}

static void forgets(struct world_rank *rank)
{
    const bool used[JOB_PARAM_COUNT] = {true, rank->rank != 1, true, true, true};
    const struct ddp_config config = job_config();
    struct ddp_err err = {""};
    ddp_status status;
    struct job job;

    job_init(&job, rank->rank);
    status = ddp_create(&rank->group, rank->device,
                        &(struct ddp_model){job.params, JOB_PARAM_COUNT, job.buffers, 1}, &config,
                        &job.ddp, &err);
    if (status == DDP_OK) {
        status = job_step(&job, rank->rank, 0, used);
    }
    CT_CHECK_STATUS(status, DDP_E_UNUSED_PARAMETER);
    CT_CHECK_EQ_I64(rank->group.failure.rank, 1);
    CT_CHECK_EQ_U64(rank->group.failure.detail, 1);
    ddp_destroy(job.ddp);
}

/* A forgotten parameter revokes the group: every rank says so and names the forgetful one, even a
 * rank that a slow message still holds in construction. */
CT_TEST(ddp_loop, revocation_reaches_all)
{
    world_run(&(struct world_config){4, DDP_SEMANTICS_STRICT, 0, forgets, NULL, true});
}

/* A step whose backward pass takes time: as long for each gradient, on all ranks. */
enum { PASS_PARAMS = 32, PASS_PER_BUCKET = 8, PASS_NS = 6000 };

struct pass {
    bool is_late; /* gradients are handed over once all of them are there */
    uint64_t took_ns, sums_ns, compute_ns;
};

static ddp_status never(void *self)
{
    (void)self;
    return DDP_PENDING;
}

static void compute(struct world_rank *rank)
{
    const struct ddp_pollable pollable = {never, NULL, NULL};
    struct ddp_env *env = &rank->env;

    CT_CHECK_STATUS(
        ddp_wait(env->idle, env->clock, &pollable, ddp_clock_deadline_ns(env->clock, PASS_NS)),
        DDP_E_TIMEOUT);
}

static uint64_t now_ns(const struct world_rank *rank)
{
    return rank->env.clock->now_ns(rank->env.clock);
}

static void passes(struct world_rank *rank)
{
    struct pass *pass = rank->arg;
    struct ddp_param params[PASS_PARAMS];
    float data[PASS_PARAMS] = {0}, grad[PASS_PARAMS] = {0};
    const struct ddp_config config = {.bucket_cap_bytes = PASS_PER_BUCKET * sizeof(float)};
    struct ddp_err err = {""};
    struct ddp *ddp;
    uint64_t begin_ns, computed_ns;

    for (size_t i = 0; i < PASS_PARAMS; i++) {
        params[i] = (struct ddp_param){.name = "p",
                                       .data = &data[i],
                                       .grad = &grad[i],
                                       .elem_count = 1,
                                       .ndim = 1,
                                       .shape = {1}};
    }
    CT_REQUIRE_OK(ddp_create(&rank->group, rank->device,
                             &(struct ddp_model){params, PASS_PARAMS, NULL, 0}, &config, &ddp,
                             &err));
    CT_CHECK_EQ_U64(ddp_bucket_count(ddp), PASS_PARAMS / PASS_PER_BUCKET);
    CT_REQUIRE_OK(ddp_forward_begin(ddp));
    CT_REQUIRE_OK(ddp_group_barrier(&rank->group));
    begin_ns = now_ns(rank);
    CT_REQUIRE_OK(ddp_backward_begin(ddp, NULL));
    for (size_t i = PASS_PARAMS; i-- > 0;) {
        compute(rank);
        grad[i] = (float)(rank->rank + 1);
        CT_REQUIRE_OK(pass->is_late ? DDP_OK : ddp_grad_ready(ddp, i));
    }
    computed_ns = now_ns(rank);
    for (size_t i = PASS_PARAMS; pass->is_late && i-- > 0;) {
        CT_REQUIRE_OK(ddp_grad_ready(ddp, i));
    }
    CT_REQUIRE_OK(ddp_backward_end(ddp));
    for (size_t i = 0; i < PASS_PARAMS; i++) {
        CT_CHECK(grad[i] == 2.5F);
    }
    if (rank->rank == 0) {
        pass->took_ns = now_ns(rank) - begin_ns;
        pass->sums_ns = now_ns(rank) - computed_ns;
        pass->compute_ns = computed_ns - begin_ns;
    }
    ddp_destroy(ddp);
}

/* Sums run while the backward pass goes on: what is left of them when it ends is about the last of
 * four buckets. In virtual time, where a message takes 1 to 2 us. */
CT_TEST(ddp_loop, sums_overlap_with_the_backward_pass)
{
    struct pass with = {.is_late = false}, without = {.is_late = true};

    world_run(&(struct world_config){4, DDP_SEMANTICS_STRICT, 0, passes, &with, true});
    world_run(&(struct world_config){4, DDP_SEMANTICS_STRICT, 0, passes, &without, true});
    CT_CHECK(with.compute_ns >= (uint64_t)PASS_PARAMS * PASS_NS);
    CT_CHECK(with.took_ns < without.took_ns);
    CT_CHECK(2 * with.sums_ns < without.sums_ns);
    (void)printf("a pass computes for %llu us; its sums end %llu us later, without overlap %llu\n",
                 (unsigned long long)with.compute_ns / 1000,
                 (unsigned long long)with.sums_ns / 1000,
                 (unsigned long long)without.sums_ns / 1000);
}
