/* BatchNorm over all members' batches, unequal and empty ones: by the definition, all rows at once
 * in fp64, and numbers that torch.nn.BatchNorm1d gives for them. */
#include <math.h>
#include <string.h>

#include "ddpcore/ddp/batch_norm.h"
#include "tests/ct.h"
#include "tests/unit/ddp/ddp_job.h"

enum { CHANNELS = 2 };
#define EPS 1e-5F

/* Rows of each rank. Row i of all has the values x = (i^2 mod 7) - 1.5, 10 + 0.25 (i mod 5), and
 * the gradient dy = 0.5 - (i mod 3), 0.125 i. */
struct plan {
    uint32_t world_size;
    size_t rows[WORLD_SIZE_MAX];
};

static double x_of(size_t row, size_t channel)
{
    return channel == 0 ? (double)(row * row % 7) - 1.5 : 10.0 + 0.25 * (double)(row % 5);
}

static double dy_of(size_t row, size_t channel)
{
    return channel == 0 ? 0.5 - (double)(row % 3) : 0.125 * (double)row;
}

static size_t first_of(const struct plan *plan, uint32_t rank)
{
    size_t first = 0;

    for (uint32_t r = 0; r < rank; r++) {
        first += plan->rows[r];
    }
    return first;
}

/* By the definition, in fp64, over all rows at once. */
struct truth {
    double mean, variance, sum, dot;
    double size; /* sum of |dy| */
    size_t rows;
};

static struct truth truth_of(const struct plan *plan, size_t channel)
{
    struct truth truth = {.rows = first_of(plan, plan->world_size)};

    for (size_t i = 0; i < truth.rows; i++) {
        truth.mean += x_of(i, channel) / (double)truth.rows;
    }
    for (size_t i = 0; i < truth.rows; i++) {
        const double off = x_of(i, channel) - truth.mean;

        truth.variance += off * off / (double)truth.rows;
    }
    for (size_t i = 0; i < truth.rows; i++) {
        const double y = (x_of(i, channel) - truth.mean) / sqrt(truth.variance + (double)EPS);

        truth.sum += dy_of(i, channel);
        truth.size += fabs(dy_of(i, channel));
        truth.dot += dy_of(i, channel) * y;
    }
    return truth;
}

#define NEAR(got, wanted) CT_CHECK(fabs((double)(got) - (wanted)) <= 2e-6 * (1.0 + fabs(wanted)))

/* The rank's own statistics, as its device computes them. */
static void take_own(const struct plan *plan, uint32_t rank, size_t channel, float *mean,
                     float *variance)
{
    const size_t first = first_of(plan, rank);
    double sum = 0.0;
    double squares = 0.0;

    for (size_t i = first; i < first + plan->rows[rank]; i++) {
        sum += x_of(i, channel) / (double)plan->rows[rank];
    }
    for (size_t i = first; i < first + plan->rows[rank]; i++) {
        squares += (x_of(i, channel) - sum) * (x_of(i, channel) - sum) / (double)plan->rows[rank];
    }
    *mean = (float)sum;
    *variance = (float)squares;
}

static void check_norm(struct world_rank *rank)
{
    const struct plan *plan = rank->arg;
    struct job job;
    struct ddp_config config = job_config();
    struct ddp_model model = {.params = job.params, .param_count = JOB_PARAM_COUNT};
    struct ddp_batch_norm *norm = NULL;
    float mean[CHANNELS] = {NAN, NAN}, variance[CHANNELS] = {NAN, NAN}, inverse[CHANNELS];
    float sums[2 * CHANNELS] = {0};
    struct ddp_batch_norm_stats stats = {.mean = mean,
                                         .variance = variance,
                                         .inverse = inverse,
                                         .channel_count = CHANNELS,
                                         .row_count = (float)plan->rows[rank->rank],
                                         .eps = EPS};

    job_init(&job, rank->rank);
    CT_REQUIRE(ddp_create(&rank->group, rank->device, &model, &config, &job.ddp, NULL) == DDP_OK);
    CT_REQUIRE(ddp_batch_norm_create(job.ddp, CHANNELS, &norm) == DDP_OK);
    for (size_t c = 0; c < CHANNELS && plan->rows[rank->rank] > 0; c++) {
        take_own(plan, rank->rank, c, &mean[c], &variance[c]);
    }
    CT_CHECK_STATUS(ddp_batch_norm_forward(norm, 3, &stats), DDP_OK);
    for (size_t c = 0; c < CHANNELS; c++) {
        const struct truth truth = truth_of(plan, c);

        CT_CHECK_EQ_U64((uint64_t)stats.row_count, truth.rows);
        NEAR(mean[c], truth.mean);
        NEAR(variance[c], truth.variance);
        NEAR(inverse[c], 1.0 / sqrt(truth.variance + (double)EPS));
        for (size_t i = 0; i < plan->rows[rank->rank]; i++) {
            const size_t row = first_of(plan, rank->rank) + i;
            const double y = (x_of(row, c) - (double)mean[c]) * (double)inverse[c];

            sums[c] += (float)dy_of(row, c);
            sums[CHANNELS + c] += (float)(dy_of(row, c) * y);
        }
    }
    CT_CHECK_STATUS(ddp_batch_norm_backward(norm, 3, sums, 2 * CHANNELS), DDP_OK);
    for (size_t c = 0; c < CHANNELS; c++) {
        const struct truth truth = truth_of(plan, c);

        NEAR(sums[c], truth.sum);
        /* The mean is rounded: by at most 2^-21, as it is below 16. */
        CT_CHECK(fabs((double)sums[CHANNELS + c] - truth.dot) <=
                 truth.size * (0x1p-21 * (double)inverse[c] + 2e-6));
    }
    /* The group goes on. */
    CT_CHECK_STATUS(job_step(&job, rank->rank, 0, NULL), DDP_OK);
    ddp_batch_norm_destroy(norm);
    ddp_destroy(job.ddp);
}

static void run(struct plan plan, enum ddp_semantics semantics, bool is_loop)
{
    const struct world_config config = {.world_size = plan.world_size,
                                        .semantics = semantics,
                                        .program = check_norm,
                                        .arg = &plan,
                                        .is_loop = is_loop,
                                        .timeout_ns = DDP_NS_PER_S};

    world_run(&config);
}

/* PyTorch 36530, apex 387, 22192: unequal batches gave wrong statistics, empty ones a crash or a
 * hang. */
CT_TEST(batch_norm, unequal_and_empty_batches)
{
    const struct plan plans[] = {
        {1, {4}},       {2, {3, 3}},       {4, {2, 3, 4, 5}}, /* DT Diff_Input_Sizes: rank + 2 */
        {3, {5, 0, 1}},                                       /* an empty batch takes part */
        {3, {0, 0, 6}}, {4, {1, 1, 1, 1}},                    /* DT Single_Input_Per_Process */
        {2, {0, 0}},                                          /* nobody has any: no NaN, no hang */
    };

    for (size_t i = 0; i < sizeof(plans) / sizeof(plans[0]); i++) {
        run(plans[i], DDP_SEMANTICS_STRICT, false);
        run(plans[i], DDP_SEMANTICS_PYTORCH, false);
        run(plans[i], DDP_SEMANTICS_STRICT, true);
    }
}

static void check_vectors(struct world_rank *rank)
{
    /* x of rank 0: 1, 2, 3, 6; of rank 1: 10; of rank 2 none. torch.nn.BatchNorm1d(1) in training
     * on all five: mean 4.4, variance 10.64, running_var after it 0.9 + 0.1 * 13.3. */
    static const float means[] = {3.0F, 10.0F, 0.0F}, variances[] = {3.5F, 0.0F, 0.0F};
    static const float rows[] = {4.0F, 1.0F, 0.0F};
    struct job job;
    struct ddp_config config = job_config();
    struct ddp_model model = {.params = job.params, .param_count = JOB_PARAM_COUNT};
    struct ddp_batch_norm *norm = NULL;
    float mean = means[rank->rank], variance = variances[rank->rank], inverse = 0.0F;
    struct ddp_batch_norm_stats stats = {.mean = &mean,
                                         .variance = &variance,
                                         .inverse = &inverse,
                                         .channel_count = 1,
                                         .row_count = rows[rank->rank],
                                         .eps = EPS};

    job_init(&job, rank->rank);
    CT_REQUIRE(ddp_create(&rank->group, rank->device, &model, &config, &job.ddp, NULL) == DDP_OK);
    CT_REQUIRE(ddp_batch_norm_create(job.ddp, 1, &norm) == DDP_OK);
    CT_CHECK_STATUS(ddp_batch_norm_forward(norm, 0, &stats), DDP_OK);
    CT_CHECK(mean >= 4.4F && mean <= 4.4F);
    CT_CHECK(variance >= 10.64F && variance <= 10.64F);
    NEAR(inverse, 0.306569);
    NEAR(0.9 + 0.1 * (double)(variance * stats.row_count / (stats.row_count - 1.0F)), 2.23);
    ddp_batch_norm_destroy(norm);
    ddp_destroy(job.ddp);
}

CT_TEST(batch_norm, golden_vectors)
{
    const struct world_config config = {
        .world_size = 3, .program = check_vectors, .timeout_ns = DDP_NS_PER_S};

    world_run(&config);
}

static void see_many_rows(struct world_rank *rank)
{
    struct job job;
    struct ddp_config config = job_config();
    struct ddp_model model = {.params = job.params, .param_count = JOB_PARAM_COUNT};
    struct ddp_batch_norm *norm = NULL;
    float mean = rank->rank == 0 ? 1.0F : 5.0F, variance = 2.0F, inverse = 0.0F;
    struct ddp_batch_norm_stats stats = {.mean = &mean,
                                         .variance = &variance,
                                         .inverse = &inverse,
                                         .channel_count = 1,
                                         .row_count = rank->rank == 0 ? 0x1.8p25F : 0x1p24F,
                                         .eps = EPS};

    job_init(&job, rank->rank);
    CT_REQUIRE(ddp_create(&rank->group, rank->device, &model, &config, &job.ddp, NULL) == DDP_OK);
    CT_REQUIRE(ddp_batch_norm_create(job.ddp, 1, &norm) == DDP_OK);
    CT_CHECK_STATUS(ddp_batch_norm_forward(norm, 0, &stats), DDP_OK);
    CT_CHECK(stats.row_count == 0x1p26F);
    CT_CHECK(mean == 2.0F && variance == 5.0F);
    ddp_batch_norm_destroy(norm);
    ddp_destroy(job.ddp);
}

/* Rows are pixels: 48 images of 1024 times 1024 are more than a float counts one by one. */
CT_TEST(batch_norm, as_many_rows_as_there_are_pixels)
{
    world_run(&(struct world_config){.world_size = 2, .program = see_many_rows});
}
