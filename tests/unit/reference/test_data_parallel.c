/* DataParallel: the gathered gradient is, bit for bit, what one device gets that plays the parts in
 * turn and adds them up; it is the global batch's mean; threads change nothing. */
#include <math.h>
#include <string.h>

#include "reference/data_parallel.h"
#include "tests/ct.h"

enum { WORLD_MAX = 4, STEPS = 5, ELEMS_MAX = 64 * 32 };

struct bench {
    struct ddp_mem_pool *pools[WORLD_MAX + 1];
    struct ddp_device *devices[WORLD_MAX + 1]; /* the last one plays the parts in turn */
    struct ref_data_parallel *parallel;
    struct ref_trainer *single;
    uint32_t world_size;
};

static const size_t rows[WORLD_MAX] = {4, 2, 5, 1};

static struct ref_job job_of(const char *model, uint32_t world_size)
{
    struct ref_job job = {
        .model = {.name = model, .seed = 3, .width = {64, 24, 10}, .width_count = 3},
        .data = {.name = "digits", .seed = 3},
        .shard = {.world_size = world_size, .is_shuffled = true, .seed = 3},
        .micro_batches = 2,
        .steps = STEPS};

    job.shard.batch_rows = rows;
    ref_optimizer_defaults(&job.optimizer, REF_OPTIMIZER_ADAMW);
    return job;
}

static void bench_open(struct bench *bench, const struct ref_job *job)
{
    struct ddp_err err = {""};

    memset(bench, 0, sizeof(*bench));
    bench->world_size = job->shard.world_size;
    CT_REQUIRE(ddp_blas_open(NULL, &err) == DDP_OK);
    for (uint32_t d = 0; d <= bench->world_size; d++) {
        CT_REQUIRE(ddp_mem_pool_create(&bench->pools[d]) == DDP_OK);
        CT_REQUIRE(ddp_device_cpu_create(ddp_mem_pool_mem(bench->pools[d]), &bench->devices[d]) ==
                   DDP_OK);
    }
    CT_CHECK_STATUS(
        ref_data_parallel_create(bench->devices, bench->world_size, job, &bench->parallel, &err),
        DDP_OK);
    CT_CHECK_STATUS(
        ref_trainer_create(bench->devices[bench->world_size], job, &bench->single, &err), DDP_OK);
}

static void bench_close(struct bench *bench)
{
    ref_data_parallel_destroy(bench->parallel);
    ref_trainer_destroy(bench->single);
    for (uint32_t d = 0; d <= bench->world_size; d++) {
        bench->devices[d]->ops->destroy(bench->devices[d]);
        CT_CHECK_EQ_U64(ddp_mem_pool_block_count(bench->pools[d]), 0);
        ddp_mem_pool_destroy(bench->pools[d]);
    }
}

/* The parts in turn on one device: [param][elem]; *out_defined: of each parameter. */
static void play(struct bench *bench, uint32_t step, float sum[][ELEMS_MAX], bool *out_defined)
{
    size_t count;
    struct ddp_param *params = ref_model_params(ref_trainer_model(bench->single), &count);
    size_t total = 0;
    size_t seen[WORLD_MAX];
    float loss;

    for (uint32_t r = 0; r < bench->world_size; r++) {
        CT_CHECK_STATUS(ref_trainer_local_gradient(bench->single, r, step, &loss, &seen[r]),
                        DDP_OK);
        total += seen[r];
    }
    memset(out_defined, 0, count * sizeof(bool));
    for (uint32_t r = 0; r < bench->world_size; r++) {
        const float weight = (float)seen[r] / (float)total;

        CT_CHECK_STATUS(ref_trainer_local_gradient(bench->single, r, step, &loss, &seen[r]),
                        DDP_OK);
        for (size_t p = 0; p < count; p++) {
            const float *grad = params[p].grad;

            CT_REQUIRE(params[p].elem_count <= ELEMS_MAX);
            for (size_t i = 0; i < params[p].elem_count; i++) {
                sum[p][i] = r == 0 ? 0 : sum[p][i];
                sum[p][i] += params[p].is_grad_defined ? grad[i] * weight : 0;
            }
            out_defined[p] = out_defined[p] || params[p].is_grad_defined;
        }
    }
}

/* The single device goes on from where DataParallel is. */
static void follow(struct bench *bench)
{
    size_t count;
    const struct ddp_param *from =
        ref_model_params(ref_data_parallel_model(bench->parallel), &count);
    struct ddp_param *to = ref_model_params(ref_trainer_model(bench->single), &count);
    const struct ddp_buffer *buffers =
        ref_model_buffers(ref_data_parallel_model(bench->parallel), &count);
    struct ddp_buffer *others;

    (void)ref_model_params(ref_trainer_model(bench->single), &count);
    for (size_t p = 0; p < count; p++) {
        memcpy(to[p].data, from[p].data, ddp_param_size_bytes(&from[p]));
    }
    others = ref_model_buffers(ref_trainer_model(bench->single), &count);
    for (size_t b = 0; b < count; b++) {
        memcpy(others[b].data, buffers[b].data, ddp_buffer_size_bytes(&buffers[b]));
    }
}

static void gradients_are(const char *model, uint32_t world_size)
{
    static float expected[16][ELEMS_MAX];
    const struct ref_job job = job_of(model, world_size);
    struct bench bench;
    bool is_defined[16];
    float loss;
    size_t seen, count;

    bench_open(&bench, &job);
    for (uint32_t step = 0; step < STEPS; step++) {
        const struct ddp_param *params =
            ref_model_params(ref_data_parallel_model(bench.parallel), &count);

        CT_REQUIRE(count <= 16);
        follow(&bench);
        play(&bench, step, expected, is_defined);
        CT_CHECK_STATUS(ref_data_parallel_gradient(bench.parallel, step, &loss, &seen), DDP_OK);
        CT_CHECK(seen > 0 && isfinite(loss));
        for (size_t p = 0; p < count; p++) {
            CT_CHECK(params[p].is_grad_defined == is_defined[p]);
            CT_CHECK_BYTES(params[p].grad, expected[p], ddp_param_size_bytes(&params[p]));
        }
        CT_CHECK_STATUS(ref_data_parallel_step(bench.parallel, step, &loss), DDP_OK);
    }
    bench_close(&bench);
}

CT_TEST(data_parallel, gathers_what_one_device_adds_up)
{
    for (uint32_t world_size = 1; world_size <= WORLD_MAX; world_size++) {
        gradients_are("mlp", world_size);
    }
}

/* Against training on the global batch: the same loss, and parameters that are close. */
CT_TEST(data_parallel, is_the_global_batch_mean)
{
    struct ref_job job = job_of("mlp", 3);
    struct bench bench;
    size_t count;

    job.micro_batches = 1;
    ref_optimizer_defaults(&job.optimizer, REF_OPTIMIZER_SGD);
    bench_open(&bench, &job);
    for (uint32_t step = 0; step < STEPS; step++) {
        float loss, global;

        CT_CHECK_STATUS(ref_data_parallel_step(bench.parallel, step, &loss), DDP_OK);
        CT_CHECK_STATUS(ref_trainer_global_step(bench.single, step, &global), DDP_OK);
        CT_CHECK(fabsf(loss - global) < 1e-5F);
    }
    {
        const struct ddp_param *a =
            ref_model_params(ref_data_parallel_model(bench.parallel), &count);
        const struct ddp_param *b = ref_model_params(ref_trainer_model(bench.single), &count);

        for (size_t p = 0; p < count; p++) {
            for (size_t i = 0; i < a[p].elem_count; i++) {
                CT_CHECK(fabsf(((const float *)a[p].data)[i] - ((const float *)b[p].data)[i]) <
                         1e-6F);
            }
        }
    }
    bench_close(&bench);
}

CT_TEST(data_parallel, device_0_holds_most)
{
    const struct ref_job job = job_of("mlp", 2);
    struct bench bench;

    bench_open(&bench, &job);
    CT_CHECK(ref_data_parallel_bytes(bench.parallel, 0) >
             2 * ref_data_parallel_bytes(bench.parallel, 1) - 1); /* AdamW's two moments, a part */
    bench_close(&bench);
}

CT_TEST(data_parallel, refuses)
{
    struct ref_job job = job_of("mlp", 2);
    struct ref_data_parallel *parallel;
    struct ddp_err err = {""};
    struct bench bench;

    bench_open(&bench, &job);
    CT_CHECK_STATUS(ref_data_parallel_create(bench.devices, 3, &job, &parallel, &err),
                    DDP_E_INVALID);
    CT_CHECK(strstr(err.text, "3 devices") != NULL);
    job.model.name = "no_such_model"; /* the second replica is never made, nothing is left */
    CT_CHECK(ref_data_parallel_create(bench.devices, 2, &job, &parallel, &err) < DDP_OK);
    bench_close(&bench);
}
