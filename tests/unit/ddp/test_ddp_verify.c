/* Verification at construction: every difference is found, and the right rank and item are named.
 */
#include <stdio.h>
#include <string.h>

#include "tests/ct.h"
#include "tests/unit/ddp/ddp_job.h"

enum change {
    CHANGE_NAME,
    CHANGE_SHAPE,
    CHANGE_COUNT,
    CHANGE_SWAP,
    CHANGE_CAP,
    CHANGE_BUILD,
    CHANGE_BUFFER,
    CHANGE_NONE
};

struct verify_case {
    enum change change;
    uint32_t rank; /* that differs */
    const char *says;
};

static void apply(enum change change, struct job *job, struct ddp_config *config,
                  size_t *param_count)
{
    const struct ddp_param first = job->params[0];

    switch (change) {
    case CHANGE_NAME:
        job->params[2].name = "fc1.wait";
        break;
    case CHANGE_SHAPE:
        job->params[2].ndim = 2;
        job->params[2].shape[0] = 2;
        job->params[2].shape[1] = 3;
        break;
    case CHANGE_COUNT:
        *param_count = JOB_PARAM_COUNT - 1;
        break;
    case CHANGE_SWAP:
        job->params[0] = job->params[1];
        job->params[1] = first;
        break;
    case CHANGE_CAP:
        config->bucket_cap_bytes = 48;
        break;
    case CHANGE_BUILD:
        config->build_id = 77;
        break;
    case CHANGE_BUFFER:
        job->buffers[0].name = "running_var";
        break;
    case CHANGE_NONE:
        break;
    }
}

static void verifies(struct world_rank *rank)
{
    const struct verify_case *row = rank->arg;
    struct ddp_config config = job_config();
    size_t param_count = JOB_PARAM_COUNT;
    struct ddp_err err = {""};
    struct job job;
    ddp_status status;

    job_init(&job, rank->rank);
    if (rank->rank == row->rank) {
        apply(row->change, &job, &config, &param_count);
    }
    status = ddp_create(&rank->group, rank->device,
                        &(struct ddp_model){job.params, param_count, job.buffers, 1}, &config,
                        &job.ddp, &err);
    if (row->change == CHANGE_NONE) {
        CT_CHECK_STATUS(status, DDP_OK);
        ddp_destroy(job.ddp);
        return;
    }
    CT_CHECK_STATUS(status, DDP_E_MODEL);
    CT_CHECK(job.ddp == NULL);
    CT_CHECK_EQ_I64(rank->group.failure.rank,
                    rank->group.coll->member_count == 2 ? -1 : (int64_t)row->rank);
    if (strstr(err.text, row->says) == NULL) {
        CT_FAIL("rank %u says: %s", rank->rank, err.text);
    }
}

/* Strict: names, shapes, order, counts, options, build and buffers are compared; all ranks name the
 * one in the minority and both sides of the first difference. */
CT_TEST(ddp_verify, strict_names_rank_and_item)
{
    struct verify_case cases[] = {
        {CHANGE_NONE, 0, ""},
        {CHANGE_NAME, 1,
         "rank 1 has parameter 2 \"fc1.wait\" f32[6], rank 0 has parameter 2 "
         "\"fc1.weight\" f32[6]"},
        {CHANGE_SHAPE, 2, "rank 2 has parameter 2 \"fc1.weight\" f32[2,3], rank 0 has"},
        {CHANGE_COUNT, 0, "rank 0 has no parameter 4 (it has 4), rank 1 has parameter 4 \"head\""},
        {CHANGE_SWAP, 1, "rank 1 has parameter 0 \"fc0.bias\""},
        {CHANGE_CAP, 2,
         "rank 2 has option bucket_cap_bytes = 48, rank 0 has option "
         "bucket_cap_bytes = 32"},
        {CHANGE_BUILD, 0, "rank 0 has option build_id = 77, rank 1 has option build_id = 0"},
        {CHANGE_BUFFER, 1, "rank 1 has buffer 0 \"running_var\" f32[3]"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        world_run(&(struct world_config){3, DDP_SEMANTICS_STRICT, 0, verifies, &cases[i], false});
    }
}

/* With two ranks there is no majority: both sides are shown, and no rank is blamed. */
CT_TEST(ddp_verify, tie_blames_no_rank)
{
    struct verify_case row = {CHANGE_NAME, 1,
                              "in camps of equal size: rank 1 has parameter 2 \"fc1.wait\""};

    world_run(&(struct world_config){2, DDP_SEMANTICS_STRICT, 0, verifies, &row, false});
}

static void verifies_pytorch(struct world_rank *rank)
{
    const struct verify_case *row = rank->arg;
    struct ddp_config config = job_config();
    size_t param_count = JOB_PARAM_COUNT;
    struct ddp_err err = {""};
    struct job job;
    ddp_status status;

    job_init(&job, rank->rank);
    if (rank->rank == row->rank) {
        apply(row->change, &job, &config, &param_count);
    } else if (row->change == CHANGE_SHAPE) {
        /* Same number of dimensions, so that PyTorch's own broadcast has equal length. */
        job.params[2].ndim = 2;
        job.params[2].shape[0] = 3;
        job.params[2].shape[1] = 2;
    }
    status = ddp_create(&rank->group, rank->device,
                        &(struct ddp_model){job.params, param_count, job.buffers, 1}, &config,
                        &job.ddp, &err);
    if (row->change == CHANGE_COUNT) {
        CT_CHECK_STATUS(status, DDP_E_MODEL);
        CT_CHECK_EQ_I64(rank->group.failure.rank, rank->rank == 1 ? 0 : 1);
    } else if (row->change == CHANGE_SHAPE) {
        CT_CHECK_STATUS(status, rank->rank == 1 ? DDP_E_MODEL : DDP_E_TIMEOUT);
        CT_CHECK((strstr(err.text, "\"fc1.weight\" of rank 1") != NULL) == (rank->rank == 1));
    } else {
        CT_CHECK_STATUS(status, DDP_OK);
    }
    ddp_destroy(job.ddp);
}

/* PyTorch: counts stop all ranks, shapes only those other than rank 0, which is left waiting;
 * names, order and options are not compared. */
CT_TEST(ddp_verify, pytorch_checks_counts_and_shapes)
{
    struct verify_case cases[] = {{CHANGE_COUNT, 1, ""},
                                  {CHANGE_SHAPE, 1, ""},
                                  {CHANGE_NAME, 1, ""},
                                  {CHANGE_BUILD, 1, ""},
                                  {CHANGE_BUFFER, 1, ""}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        world_run(&(struct world_config){3, DDP_SEMANTICS_PYTORCH, DDP_NS_PER_S, verifies_pytorch,
                                         &cases[i], false});
    }
}
