/* The emulation's ranks as tasks: one trainer for ranks that never wait, one each for ranks that
 * wait in the middle of their step; and tensors of any type in one block. */
#include <string.h>

#include "ddpcore/base/hash.h"
#include "harness/emulation/internal.h"
#include "tests/ct.h"
#include "tests/unit/oracle/oracle_job.h"

static uint32_t count_trainers(const struct harness_emulation *e)
{
    uint32_t count = 0;

    for (const struct harness_trainer *at = e->trainers; at != NULL; at = at->next) {
        count++;
    }
    return count;
}

static bool open_emulation(struct oracle_job *job, struct harness_emulation **out)
{
    return oracle_job_open(job, false) && oracle_job_run(job) &&
           harness_emulation_create(&job->input, out, NULL) == DDP_OK;
}

static void close_emulation(struct oracle_job *job, struct harness_emulation *e)
{
    harness_emulation_destroy(e);
    oracle_job_close(job);
}

CT_TEST(emulation, ranks_that_never_wait_share_a_trainer_and_a_stack)
{
    struct oracle_job job;
    struct harness_emulation *e = NULL;
    enum harness_predicted predicted;

    CT_REQUIRE(open_emulation(&job, &e));
    for (uint32_t step = 0; step < ORACLE_JOB_STEPS; step++) {
        CT_CHECK_OK(harness_emulation_step(e, step, &predicted, NULL));
        CT_CHECK_EQ_U64(predicted, HARNESS_PREDICTED_UPDATE);
    }
    CT_CHECK_EQ_U64(count_trainers(e), 1);
    CT_CHECK_EQ_U64(harness_task_stacks_count(e->stacks), 1);
    close_emulation(&job, e);
}

/* Ranks of a step that sum bucket 0 between their passes and their end. */
struct middle {
    struct harness_emulation *e;
    float *input[ORACLE_JOB_RANKS], *output[ORACLE_JOB_RANKS];
    uint64_t tag[ORACLE_JOB_RANKS];
};

static uint64_t hash_gradients(const struct ddp_param *params, size_t count)
{
    uint64_t hash = 0;

    for (size_t p = 0; p < count; p++) {
        hash = ddp_hash_combine(
            hash, ddp_hash_bytes(params[p].grad, params[p].elem_count * sizeof(float), 0));
    }
    return hash;
}

static ddp_status sum_in_the_middle(const struct middle *middle, struct harness_trainer *trainer,
                                    uint32_t rank, struct harness_task *task)
{
    const struct harness_bucket *bucket = &middle->e->input->program->first.items[0];
    struct harness_tensor tensor = {DDP_DTYPE_F32, bucket->elem_count,
                                    bucket->elem_count * sizeof(float), middle->input[rank]};
    size_t count = 0;
    const struct ddp_param *params = ref_model_params(ref_trainer_model(trainer->trainer), &count);
    float loss;
    size_t rows;
    uint64_t before;

    DDP_TRY(ref_trainer_local_gradient(trainer->trainer, rank, 0, &loss, &rows));
    for (uint32_t i = 0; i < bucket->param_count; i++) {
        const struct ddp_param *param = &params[bucket->params[i]];
        const float *grad = param->grad;

        for (size_t k = 0; k < param->elem_count; k++) {
            middle->input[rank][bucket->offsets[i] + k] = grad[k] * 0.5f;
        }
    }
    before = hash_gradients(params, count);
    DDP_TRY(harness_emulation_exchange_sum(middle->e, task, "bucket", middle->tag[rank], &tensor,
                                           middle->output[rank]));
    CT_CHECK_EQ_U64(hash_gradients(params, count), before); /* the other rank has its own model */
    return DDP_OK;
}

static ddp_status run_middle(void *context, uint32_t rank, struct harness_task *task)
{
    struct middle *middle = context;
    struct harness_trainer *trainer = NULL;
    ddp_status status;

    DDP_TRY(harness_trainer_take(middle->e, &trainer, NULL));
    status = sum_in_the_middle(middle, trainer, rank, task);
    harness_trainer_give(middle->e, trainer);
    return status;
}

static ddp_status run_ranks(struct middle *middle, struct ddp_err *err)
{
    const struct harness_task_group group = {
        .task_count = ORACLE_JOB_RANKS, .context = middle, .run = run_middle};
    size_t elem_count = middle->e->buckets.items[0].elem_count;

    for (int r = 0; r < ORACLE_JOB_RANKS; r++) {
        middle->input[r] = harness_emulation_alloc(middle->e, elem_count, sizeof(float));
        middle->output[r] = harness_emulation_alloc(middle->e, elem_count, sizeof(float));
    }
    return harness_task_group_run(&group, middle->e->stacks, err);
}

/* Two ranks wait with their gradients in hand; each gets the sum of both, which is the hand-made
 * one and the one of the step that is emulated without waiting. */
CT_TEST(emulation, a_sum_in_the_middle_is_the_hand_computed_one)
{
    struct oracle_job job;
    struct middle middle = {0};
    enum harness_predicted predicted;
    struct harness_tensor expected;

    CT_REQUIRE(open_emulation(&job, &middle.e));
    CT_CHECK_OK(run_ranks(&middle, NULL));
    CT_CHECK_EQ_U64(count_trainers(middle.e), ORACLE_JOB_RANKS);
    CT_CHECK_OK(harness_emulation_step(middle.e, 0, &predicted, NULL));
    expected = harness_layout_at(&middle.e->buckets, middle.e->now.bucket_out, 0, 0);
    CT_CHECK_EQ_U64(predicted, HARNESS_PREDICTED_UPDATE);
    for (int r = 0; r < ORACLE_JOB_RANKS; r++) {
        CT_CHECK_BYTES(middle.output[r], expected.data, expected.size_bytes);
        for (size_t k = 0; k < expected.elem_count; k++) {
            CT_REQUIRE(middle.output[r][k] == middle.input[0][k] + middle.input[1][k]);
        }
    }
    close_emulation(&job, middle.e);
}

/* The trainers that waited are idle again after a refusal, and the step can be emulated. */
CT_TEST(emulation, ranks_that_wait_for_different_sums_are_refused)
{
    struct oracle_job job;
    struct middle middle = {.tag = {0, 1}};
    enum harness_predicted predicted;
    struct ddp_err err = {""};

    CT_REQUIRE(open_emulation(&job, &middle.e));
    CT_CHECK_STATUS(run_ranks(&middle, &err), DDP_E_MISMATCH);
    CT_CHECK(strstr(err.text, "task 0 waits at exchange bucket 0") != NULL);
    CT_CHECK(strstr(err.text, "task 1 at bucket 1") != NULL);
    CT_CHECK_OK(harness_emulation_step(middle.e, 0, &predicted, NULL));
    CT_CHECK_EQ_U64(predicted, HARNESS_PREDICTED_UPDATE);
    CT_CHECK_EQ_U64(count_trainers(middle.e), ORACLE_JOB_RANKS);
    close_emulation(&job, middle.e);
}

/* Offsets are multiples of 8 bytes whatever the types; a hash covers a tensor's bytes alone. */
CT_TEST(emulation, a_layout_holds_tensors_of_any_type)
{
    struct harness_layout_item items[3];
    struct harness_layout layout = {.items = items};
    uint64_t blocks[2][5] = {{0}};
    struct harness_tensor tensor;

    harness_layout_add(&layout, "half", DDP_DTYPE_F16, 3);
    harness_layout_add(&layout, "wide", DDP_DTYPE_F64, 2);
    harness_layout_add(&layout, "single", DDP_DTYPE_F32, 3);
    CT_CHECK_EQ_U64(layout.size_bytes, sizeof(blocks[0]));
    tensor = harness_layout_at(&layout, blocks, 1, 1);
    CT_CHECK(tensor.data == &blocks[1][1] && tensor.size_bytes == 16);
    tensor = harness_layout_at(&layout, blocks, 1, 2);
    CT_CHECK(tensor.data == &blocks[1][3] && tensor.dtype == DDP_DTYPE_F32);
    memset(tensor.data, 0x11, tensor.size_bytes);
    CT_CHECK_EQ_U64(harness_layout_hash(&layout, blocks, 1, 2),
                    ddp_hash_tensor(tensor.data, 12, ddp_hash_text("single"), NULL));
}

/* A rank that meets the other at every layer of its forward pass. */
struct inside {
    struct harness_emulation *e;
    float loss[ORACLE_JOB_RANKS];
    uint32_t layers_met[ORACLE_JOB_RANKS];
};

struct pass {
    struct inside *inside;
    struct harness_task *task;
    uint32_t rank;
};

static ddp_status meet_at_layer(void *context, uint32_t layer)
{
    struct pass *pass = context;
    uint32_t all[ORACLE_JOB_RANKS] = {9, 9};

    DDP_TRY(harness_task_gather(pass->task, "layer", layer, &pass->rank, sizeof(pass->rank), all));
    CT_CHECK(all[0] == 0 && all[1] == 1);
    CT_CHECK_EQ_U64(pass->inside->layers_met[pass->rank], layer);
    pass->inside->layers_met[pass->rank]++;
    return DDP_OK;
}

static ddp_status run_pass(struct inside *inside, struct harness_trainer *trainer, uint32_t rank,
                           struct harness_task *task)
{
    struct pass pass = {inside, task, rank};
    const struct ref_model_observer observer = {.context = &pass, .layer = meet_at_layer};
    struct ref_batch batch;

    DDP_TRY(ref_trainer_batch(trainer->trainer, rank, 0, 0, &batch));
    return ref_model_forward(ref_trainer_model(trainer->trainer), &batch, &observer,
                             &inside->loss[rank]);
}

static ddp_status run_inside(void *context, uint32_t rank, struct harness_task *task)
{
    struct inside *inside = context;
    struct harness_trainer *trainer = NULL;
    ddp_status status;

    DDP_TRY(harness_trainer_take(inside->e, &trainer, NULL));
    status = run_pass(inside, trainer, rank, task);
    harness_trainer_give(inside->e, trainer);
    return status;
}

/* As synchronised batch normalisation does: the ranks' forward passes alternate layer by layer, and
 * each has the loss that it has alone. */
CT_TEST(emulation, ranks_may_meet_inside_a_forward_pass)
{
    struct oracle_job job;
    struct inside inside = {0};
    const struct harness_task_group group = {
        .task_count = ORACLE_JOB_RANKS, .context = &inside, .run = run_inside};
    enum harness_predicted predicted;

    CT_REQUIRE(open_emulation(&job, &inside.e));
    CT_CHECK_OK(harness_task_group_run(&group, inside.e->stacks, NULL));
    CT_CHECK_OK(harness_emulation_step(inside.e, 0, &predicted, NULL));
    for (int r = 0; r < ORACLE_JOB_RANKS; r++) {
        CT_CHECK(inside.layers_met[r] >= 2);
        CT_CHECK(inside.loss[r] == inside.e->now.loss[r]);
    }
    close_emulation(&job, inside.e);
}
