/* The DDP core on the real executor and the loop transport, with messages that take time. */
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
