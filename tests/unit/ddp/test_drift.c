/* The drift alarm: who holds which parameter otherwise than most. */
#include <string.h>

#include "ddpcore/ddp/drift.h"
#include "tests/ct.h"
#include "tests/unit/ddp/ddp_job.h"

/* Which ranks alter which parameters before the check. */
struct plan {
    uint32_t world_size;
    uint32_t rank_mask;  /* these add one to */
    size_t first, last;  /* these parameters */
    uint32_t other_mask; /* these subtract one from them */
    ddp_status status;   /* what all ranks must be told */
    struct ddp_drift drift;
};

static void check_program(struct world_rank *rank)
{
    const struct plan *plan = rank->arg;
    struct job job;
    struct ddp_config config = job_config();
    struct ddp_model model = {.params = job.params, .param_count = JOB_PARAM_COUNT};
    struct ddp_drift drift;

    job_init(&job, rank->rank);
    CT_REQUIRE(ddp_create(&rank->group, rank->device, &model, &config, &job.ddp, NULL) == DDP_OK);
    CT_CHECK_STATUS(ddp_check_drift(job.ddp, &drift), DDP_OK);
    CT_CHECK_EQ_I64(drift.rank, -1);
    CT_CHECK_EQ_U64(drift.differ_count, 0);
    for (size_t p = plan->first; p <= plan->last; p++) {
        job.data[p][0] += (float)(plan->rank_mask >> rank->rank & 1) -
                          (float)(plan->other_mask >> rank->rank & 1);
    }
    CT_CHECK_STATUS(ddp_check_drift(job.ddp, &drift), plan->status);
    CT_CHECK_EQ_U64(drift.param, plan->drift.param);
    CT_CHECK_EQ_I64(drift.rank, plan->drift.rank);
    CT_CHECK_EQ_U64(drift.rank_count, plan->drift.rank_count);
    CT_CHECK_EQ_U64(drift.differ_count, plan->drift.differ_count);
    /* The group goes on. */
    CT_CHECK_STATUS(job_step(&job, rank->rank, 0, NULL), DDP_OK);
    CT_CHECK_STATUS(ddp_forward_begin(job.ddp), DDP_OK);
    CT_CHECK_STATUS(ddp_check_drift(job.ddp, &drift), DDP_E_STATE);
    ddp_destroy(job.ddp);
}

CT_TEST(drift, names_rank_and_parameter)
{
    struct plan plans[] = {
        {4, 0, 0, 0, 0, DDP_OK, {0, -1, 0, 0}},
        {1, 1, 0, 1, 0, DDP_OK, {0, -1, 0, 0}},
        {4, 1u << 2, 4, 4, 0, DDP_E_MODEL, {4, 2, 1, 1}},
        {4, 1u, 1, 4, 0, DDP_E_MODEL, {1, 0, 1, 3}}, /* the fourth has no elements */
        {5, 1u << 3 | 1u << 1, 0, 1, 0, DDP_E_MODEL, {0, 1, 2, 2}},
        {3, 6u, 2, 2, 0, DDP_E_MODEL, {2, 0, 1, 1}}, /* most of them are what counts */
        {2, 2u, 2, 2, 0, DDP_E_MODEL, {2, -1, 0, 1}},
        {4, 3u, 0, 0, 0, DDP_E_MODEL, {0, -1, 0, 1}},
        {5, 1u, 0, 0, 2u, DDP_E_MODEL, {0, 0, 2, 1}}, /* two wrong ones, apart */
    };

    for (size_t i = 0; i < sizeof(plans) / sizeof(plans[0]); i++) {
        for (int semantics = 0; semantics < 2; semantics++) {
            const struct world_config config = {.world_size = plans[i].world_size,
                                                .semantics = (enum ddp_semantics)semantics,
                                                .program = check_program,
                                                .arg = &plans[i],
                                                .timeout_ns = DDP_NS_PER_S};

            world_run(&config);
        }
    }
}

static void hash_program(struct world_rank *rank)
{
    const struct ddp_config config = job_config();
    uint64_t first, again, other;
    struct job job;
    struct ddp_model model = {.params = job.params, .param_count = JOB_PARAM_COUNT};

    job_init(&job, rank->rank);
    CT_REQUIRE(ddp_create(&rank->group, rank->device, &model, &config, &job.ddp, NULL) == DDP_OK);
    CT_CHECK_STATUS(ddp_hash_params(job.ddp, &first), DDP_OK);
    job.data[2][1] += 1.0F;
    CT_CHECK_STATUS(ddp_hash_params(job.ddp, &other), DDP_OK);
    job.data[2][1] -= 1.0F;
    CT_CHECK_STATUS(ddp_hash_params(job.ddp, &again), DDP_OK);
    CT_CHECK(first == again && first != other && first != 0);
    ddp_destroy(job.ddp);
}

CT_TEST(drift, one_number_for_all_parameters)
{
    const struct world_config config = {.world_size = 2,
                                        .semantics = DDP_SEMANTICS_STRICT,
                                        .program = hash_program,
                                        .timeout_ns = DDP_NS_PER_S};

    world_run(&config);
}
