/* Trainers: exactness of exact_linear, global batch against virtual ranks, uneven data, learning,
 * repeatability, and failures on the way in. */
#include <math.h>
#include <string.h>

#include "reference/trainer.h"
#include "tests/ct.h"
#include "tests/unit/reference/reference_fp64.h"

enum { WORLD = 4, ELEMS_MAX = 64 * 32 };

struct fixture {
    struct ddp_mem_pool *pool;
    struct ddp_device *device;
    struct ref_trainer *trainer;
    struct ddp_param *params;
    size_t param_count;
};

static bool fixture_open(struct fixture *f, const struct ref_job *job)
{
    struct ddp_err err = {""};

    memset(f, 0, sizeof(*f));
    if (ddp_blas_open(NULL, &err) != DDP_OK || ddp_mem_pool_create(&f->pool) != DDP_OK ||
        ddp_device_cpu_create(ddp_mem_pool_mem(f->pool), &f->device) != DDP_OK ||
        ref_trainer_create(f->device, job, &f->trainer, &err) != DDP_OK) {
        CT_FAIL("the fixture does not open: %s", err.text);
        return false;
    }
    f->params = ref_model_params(ref_trainer_model(f->trainer), &f->param_count);
    return true;
}

static void fixture_close(struct fixture *f)
{
    ref_trainer_destroy(f->trainer);
    f->device->ops->destroy(f->device);
    CT_CHECK_EQ_U64(ddp_mem_pool_block_count(f->pool), 0);
    ddp_mem_pool_destroy(f->pool);
}

static const size_t four_rows[WORLD] = {4, 4, 4, 4};

static struct ref_job exact_job(void)
{
    struct ref_job job = {.model = {.name = "exact_linear", .seed = 2},
                          .data = {.name = "dyadic", .seed = 2},
                          .shard = {.world_size = WORLD, .is_shuffled = true, .seed = 2},
                          .micro_batches = 1};

    job.shard.batch_rows = four_rows;
    ref_optimizer_defaults(&job.optimizer, REF_OPTIMIZER_SGD);
    job.optimizer.lr = 0.5F;
    return job;
}

/* sum[p][i] += factor * gradient, as floats */
static void add_gradient(const struct fixture *f, float factor, float sum[][ELEMS_MAX])
{
    for (size_t p = 0; p < f->param_count; p++) {
        for (size_t i = 0; i < f->params[p].elem_count; i++) {
            sum[p][i] += factor * grad_of(&f->params[p])[i];
        }
    }
}

/* Put sum in the place of the gradients and take the optimizer's step. */
static void step_with(struct fixture *f, float sum[][ELEMS_MAX])
{
    for (size_t p = 0; p < f->param_count; p++) {
        memcpy(f->params[p].grad, sum[p], f->params[p].elem_count * sizeof(float));
        f->params[p].is_grad_defined = true;
    }
    CT_CHECK_OK(ref_optimizer_step(ref_trainer_optimizer(f->trainer), NULL, NULL));
}

/* For the 4 steps that the bit budget grants 4 ranks x 4 rows at lr 1/2, exact_linear's reduced
 * gradient has the same bits in every order of the ranks, and as one global mean. */
CT_TEST(trainer, exact_linear_is_exact_in_any_order)
{
    static const uint32_t orders[4][WORLD] = {
        {0, 1, 2, 3}, {3, 2, 1, 0}, {2, 0, 3, 1}, {1, 3, 0, 2}};
    static struct fixture ranks;
    static struct fixture global;
    struct ref_job job = exact_job();
    float loss;
    size_t rows;

    CT_REQUIRE(fixture_open(&ranks, &job));
    CT_REQUIRE(fixture_open(&global, &job));
    for (uint32_t step = 0; step < 4; step++) {
        static float sums[4][2][ELEMS_MAX];

        memset(sums, 0, sizeof(sums));
        for (size_t order = 0; order < 4; order++) {
            for (size_t i = 0; i < WORLD; i++) {
                CT_REQUIRE_OK(ref_trainer_local_gradient(ranks.trainer, orders[order][i], step,
                                                         &loss, &rows));
                CT_CHECK_EQ_U64(rows, 4);
                add_gradient(&ranks, 0.25F, sums[order]);
            }
            for (size_t p = 0; p < 2; p++) {
                CT_CHECK_BYTES(sums[order][p], sums[0][p],
                               ranks.params[p].elem_count * sizeof(float));
            }
        }
        CT_REQUIRE_OK(ref_trainer_global_step(global.trainer, step, &loss));
        step_with(&ranks, sums[0]);
        for (size_t p = 0; p < 2; p++) {
            size_t size_bytes = ranks.params[p].elem_count * sizeof(float);
            CT_CHECK_BYTES(global.params[p].grad, sums[0][p], size_bytes);
            CT_CHECK_BYTES(global.params[p].data, ranks.params[p].data, size_bytes);
        }
    }
    fixture_close(&ranks);
    fixture_close(&global);
}

/* Within the budget fp32 training is training in exact arithmetic: a double emulation, exact with
 * bits to spare, has the same parameters. */
CT_TEST(trainer, exact_linear_matches_exact_arithmetic)
{
    static struct fixture f;
    struct ref_job job = exact_job();
    double w[2][8];
    double b[2];
    float loss;

    CT_REQUIRE(fixture_open(&f, &job));
    for (size_t o = 0; o < 2; o++) {
        b[o] = (double)data_of(&f.params[1])[o];
        for (size_t i = 0; i < 8; i++) {
            w[o][i] = (double)data_of(&f.params[0])[o * 8 + i];
        }
    }
    for (uint32_t step = 0; step < 4; step++) {
        double dw[2][8] = {{0}};
        double db[2] = {0};

        for (uint32_t rank = 0; rank < WORLD; rank++) {
            struct ref_batch batch;
            CT_REQUIRE_OK(ref_trainer_batch(f.trainer, rank, step, 0, &batch));
            for (size_t r = 0; r < batch.rows * 2; r++) {
                const float *x = batch.features + r / 2 * 8;
                size_t o = r % 2;
                double error = b[o] - (double)batch.targets[r];
                for (size_t i = 0; i < 8; i++) {
                    error += w[o][i] * (double)x[i];
                }
                db[o] += error / 16.0;
                for (size_t i = 0; i < 8; i++) {
                    dw[o][i] += error * (double)x[i] / 16.0;
                }
            }
        }
        CT_REQUIRE_OK(ref_trainer_global_step(f.trainer, step, &loss));
        for (size_t o = 0; o < 2; o++) {
            b[o] -= 0.5 * db[o];
            CT_CHECK((double)data_of(&f.params[1])[o] == b[o]);
            for (size_t i = 0; i < 8; i++) {
                w[o][i] -= 0.5 * dw[o][i];
                CT_CHECK((double)data_of(&f.params[0])[o * 8 + i] == w[o][i]);
            }
        }
    }
    fixture_close(&f);
}

static struct ref_job digits_job(const size_t *batch_rows, uint32_t world_size)
{
    struct ref_job job = {.model = {.name = "mlp", .width = {64, 32, 10}, .width_count = 3},
                          .data = {.name = "digits"},
                          .shard = {.world_size = world_size, .is_shuffled = true},
                          .micro_batches = 1};

    job.shard.batch_rows = batch_rows;
    ref_optimizer_defaults(&job.optimizer, REF_OPTIMIZER_SGD);
    return job;
}

/* Unequal batches: the global step's gradient is the ranks' mean gradients weighted by rows. Each
 * of the sum's 4 terms and weights rounds, on values below 1: 32 roundings bound it. */
CT_TEST(trainer, global_step_weights_by_rows)
{
    const size_t batch_rows[3] = {5, 9, 2};
    struct ref_job job = digits_job(batch_rows, 3);
    static struct fixture f;
    static float sum[4][ELEMS_MAX];
    double loss_sum = 0.0;
    float loss;
    size_t rows;

    memset(sum, 0, sizeof(sum));
    CT_REQUIRE(fixture_open(&f, &job));
    for (uint32_t rank = 0; rank < 3; rank++) {
        CT_REQUIRE_OK(ref_trainer_local_gradient(f.trainer, rank, 0, &loss, &rows));
        CT_CHECK_EQ_U64(rows, batch_rows[rank]);
        add_gradient(&f, (float)rows / 16.0F, sum);
        loss_sum += (double)loss * (double)rows / 16.0;
    }
    CT_REQUIRE_OK(ref_trainer_global_step(f.trainer, 0, &loss));
    CT_CHECK(fabs((double)loss - loss_sum) < 1e-5);
    for (size_t p = 0; p < f.param_count; p++) {
        for (size_t i = 0; i < f.params[p].elem_count; i++) {
            CT_CHECK(fabs((double)grad_of(&f.params[p])[i] - (double)sum[p][i]) <= 32 * 0x1p-24);
        }
    }
    fixture_close(&f);
}

/* Two micro-batches of 8 rows weigh as one of 16 over the same samples. */
CT_TEST(trainer, micro_batches_accumulate)
{
    const size_t small[1] = {8};
    const size_t large[1] = {16};
    struct ref_job job = digits_job(small, 1);
    static struct fixture micro;
    static struct fixture whole;
    float loss[2];
    size_t rows[2];

    job.micro_batches = 2;
    CT_REQUIRE(fixture_open(&micro, &job));
    job.micro_batches = 1;
    job.shard.batch_rows = large;
    CT_REQUIRE(fixture_open(&whole, &job));
    for (uint32_t step = 0; step < 3; step++) {
        CT_REQUIRE_OK(ref_trainer_local_gradient(micro.trainer, 0, step, &loss[0], &rows[0]));
        CT_REQUIRE_OK(ref_trainer_local_gradient(whole.trainer, 0, step, &loss[1], &rows[1]));
        CT_CHECK(rows[0] == 16 && rows[1] == 16);
        CT_CHECK(fabsf(loss[0] - loss[1]) < 1e-5F);
        for (size_t p = 0; p < whole.param_count; p++) {
            for (size_t i = 0; i < whole.params[p].elem_count; i++) {
                /* 16 rows and two passes: 40 roundings of values below 1 */
                CT_CHECK(fabsf(grad_of(&micro.params[p])[i] - grad_of(&whole.params[p])[i]) <=
                         40.0F * 0x1p-24F);
            }
        }
    }
    fixture_close(&micro);
    fixture_close(&whole);
}

/* One epoch with uneven shards: ranks end one after the other, a rank without data leaves undefined
 * gradients, and a step without any data is an error. */
CT_TEST(trainer, uneven_shards_end)
{
    const size_t batch_rows[2] = {4, 4};
    const size_t shard_size[2] = {10, 4};
    const size_t expected[2][4] = {{4, 4, 2, 0}, {4, 0, 0, 0}};
    struct ref_job job = digits_job(batch_rows, 2);
    static struct fixture f;
    float loss;
    size_t rows;

    job.shard.shard_size = shard_size;
    job.shard.is_one_epoch = true;
    CT_REQUIRE(fixture_open(&f, &job));
    for (uint32_t step = 0; step < 4; step++) {
        for (uint32_t rank = 0; rank < 2; rank++) {
            CT_REQUIRE_OK(ref_trainer_local_gradient(f.trainer, rank, step, &loss, &rows));
            CT_CHECK_EQ_U64(rows, expected[rank][step]);
            CT_CHECK(f.params[0].is_grad_defined == (rows > 0));
        }
    }
    CT_CHECK_OK(ref_trainer_global_step(f.trainer, 2, &loss));
    CT_CHECK_STATUS(ref_trainer_global_step(f.trainer, 3, &loss), DDP_E_STATE);
    fixture_close(&f);
}

static void train_digits(const struct ref_job *job, uint32_t steps, float *out_loss)
{
    static struct fixture f;
    uint64_t allocations;

    if (!fixture_open(&f, job)) {
        return;
    }
    allocations = ddp_mem_pool_alloc_count(f.pool);
    for (uint32_t step = 0; step < steps; step++) {
        CT_CHECK_OK(ref_trainer_global_step(f.trainer, step, &out_loss[step]));
    }
    CT_CHECK_EQ_U64(ddp_mem_pool_alloc_count(f.pool), allocations);
    fixture_close(&f);
}

/* Ten epochs of digits bring the loss from ln 10 to below 0.2, every step's loss has the same bits
 * in a second run, and no step allocates. */
CT_TEST(trainer, learns_digits_and_repeats)
{
    enum { STEPS = 570 };
    const size_t batch_rows[2] = {16, 16};
    struct ref_job job = digits_job(batch_rows, 2);
    static float first[STEPS];
    static float second[STEPS];
    float tail = 0.0F;

    job.optimizer.lr = 0.1F;
    job.optimizer.momentum = 0.9F;
    train_digits(&job, STEPS, first);
    train_digits(&job, STEPS, second);
    CT_CHECK(first[0] > 2.0F && first[0] < 2.7F);
    for (size_t i = STEPS - 57; i < STEPS; i++) {
        tail += first[i] / 57.0F;
    }
    CT_CHECK(tail < 0.2F);
    CT_CHECK_BYTES(first, second, sizeof(first));
}

/* AdamW on branchy learns too: below 0.5 after five epochs. */
CT_TEST(trainer, branchy_learns_with_adamw)
{
    enum { STEPS = 285 };
    const size_t batch_rows[2] = {16, 16};
    struct ref_job job = digits_job(batch_rows, 2);
    static float losses[STEPS];
    float tail = 0.0F;

    job.model = (struct ref_model_config){.name = "branchy"};
    ref_optimizer_defaults(&job.optimizer, REF_OPTIMIZER_ADAMW);
    job.optimizer.lr = 0.01F;
    train_digits(&job, STEPS, losses);
    for (size_t i = STEPS - 57; i < STEPS; i++) {
        tail += losses[i] / 57.0F;
    }
    CT_CHECK(tail < 0.5F);
}

/* A model that does not fit its data, or shards that do not fit it, are refused with a reason. */
CT_TEST(trainer, refuses_what_does_not_fit)
{
    const size_t batch_rows[1] = {4};
    const size_t shard_size[1] = {1798};
    struct ref_job job = digits_job(batch_rows, 1);
    struct ddp_device *device;
    struct ref_trainer *trainer;
    struct ddp_err err;

    CT_REQUIRE_OK(ddp_device_cpu_create(ddp_mem_system(), &device));
    job.model.width[0] = 63;
    CT_CHECK_STATUS(ref_trainer_create(device, &job, &trainer, &err), DDP_E_SHAPE);
    CT_CHECK(strstr(err.text, "63") != NULL && strstr(err.text, "64") != NULL);
    job.model.width[0] = 64;
    job.shard.shard_size = shard_size;
    CT_CHECK_STATUS(ref_trainer_create(device, &job, &trainer, &err), DDP_E_INVALID);
    job.shard.shard_size = NULL;
    job.model.name = "exact_linear";
    job.model.width_count = 0;
    job.micro_batches = 0;
    CT_CHECK_STATUS(ref_trainer_create(device, &job, &trainer, &err), DDP_E_INVALID);
    job.micro_batches = 1;
    job.data.name = "nothing";
    CT_CHECK_STATUS(ref_trainer_create(device, &job, &trainer, &err), DDP_E_NOT_FOUND);
    device->ops->destroy(device);
}

/* A failed allocation anywhere in creation is E_NOMEM and leaks nothing. */
/* The trainer steps weights that nobody rounds for its passes. */
CT_TEST(trainer, does_not_step_what_is_rounded)
{
    struct ref_job job = exact_job();
    struct fixture f;
    float loss;

    job.model = (struct ref_model_config){.name = "mlp", .precision = DDP_DTYPE_BF16, .seed = 2};
    job.data.name = "digits";
    if (fixture_open(&f, &job)) {
        CT_CHECK_STATUS(ref_trainer_global_step(f.trainer, 0, &loss), DDP_E_UNSUPPORTED);
        fixture_close(&f);
    }
}

CT_TEST(trainer, creation_survives_exhaustion)
{
    struct ref_job job = exact_job();
    struct ddp_mem_pool *pool;
    struct ddp_device *device;
    struct ref_trainer *trainer = NULL;
    struct ddp_err err;
    ddp_status status = DDP_E_NOMEM;
    uint64_t nth = 0;

    CT_REQUIRE_OK(ddp_mem_pool_create(&pool));
    CT_REQUIRE_OK(ddp_device_cpu_create(ddp_mem_pool_mem(pool), &device));
    while (status != DDP_OK && nth < 100) {
        ddp_mem_pool_fail_after(pool, nth, 1);
        status = ref_trainer_create(device, &job, &trainer, &err);
        CT_CHECK(status == DDP_OK || status == DDP_E_NOMEM);
        CT_CHECK(status == DDP_OK || ddp_mem_pool_block_count(pool) == 1);
        nth++;
    }
    CT_REQUIRE(nth > 10 && status == DDP_OK);
    ref_trainer_destroy(trainer);
    device->ops->destroy(device);
    ddp_mem_pool_destroy(pool);
}
