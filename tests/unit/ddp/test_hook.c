/* Communication hooks: what they see, the order of their rounds, what the built-in ones leave in
 * the gradients, and a hook of one's own. */
#include <string.h>

#include "ddpcore/hook/hooks.h"
#include "tests/ct.h"
#include "tests/unit/ddp/ddp_job.h"

static ddp_status create(struct world_rank *rank, struct job *job, struct ddp_hook *hook,
                         struct ddp_config config)
{
    struct ddp_err err = {""};

    config.hook = hook;
    return ddp_create(&rank->group, rank->device,
                      &(struct ddp_model){job->params, JOB_PARAM_COUNT, job->buffers, 1}, &config,
                      &job->ddp, &err);
}

static float sum_of(uint32_t world_size, uint32_t step, size_t param, size_t k)
{
    float sum = 0;

    for (uint32_t r = 0; r < world_size; r++) {
        sum += job_gradient(r, step, param, k);
    }
    return sum;
}

/* --- built-in ones ---------------------------------------------------------------------------- */

enum built_in { ALLREDUCE, FP16, BF16, FP16_OF_BF16, NOOP };

static struct ddp_hook *make(struct world_rank *rank, enum built_in which)
{
    struct ddp_mem *mem = rank->env.mem;
    struct ddp_hook *hook = NULL, *inner = NULL;

    switch (which) {
    case ALLREDUCE:
        CT_CHECK_OK(ddp_hook_allreduce_create(mem, &hook));
        break;
    case FP16:
    case BF16:
        CT_CHECK_OK(ddp_hook_compress_create(mem, which == FP16 ? DDP_DTYPE_F16 : DDP_DTYPE_BF16,
                                             NULL, &hook));
        break;
    case FP16_OF_BF16:
        CT_CHECK_OK(ddp_hook_compress_create(mem, DDP_DTYPE_BF16, NULL, &inner));
        CT_CHECK_OK(ddp_hook_compress_create(mem, DDP_DTYPE_F16, inner, &hook));
        break;
    case NOOP:
        CT_CHECK_OK(ddp_hook_noop_create(mem, &hook));
        break;
    }
    return hook;
}

/* Gradients are small integers and the world is a power of two, so that averages are exact in each
 * type. */
static void run_built_in(struct world_rank *rank)
{
    const enum built_in which = *(const enum built_in *)rank->arg;
    struct ddp_hook *hook = make(rank, which);
    struct job job;

    job_init(&job, rank->rank);
    CT_CHECK_OK(create(rank, &job, hook, job_config()));
    for (uint32_t step = 0; step < 3; step++) {
        job_zero_grad(&job);
        CT_CHECK_OK(job_step(&job, rank->rank, step, NULL));
        for (size_t p = 0; p < JOB_PARAM_COUNT; p++) {
            for (size_t k = 0; k < job_elem_counts[p]; k++) {
                const float due = which == NOOP ? job_gradient(rank->rank, step, p, k)
                                                : sum_of(4, step, p, k) / 4;

                CT_CHECK(job.grad[p][k] == due);
            }
        }
    }
    ddp_destroy(job.ddp);
    ddp_hook_destroy(hook);
}

CT_TEST(hook, built_in_ones_average)
{
    enum built_in all[] = {ALLREDUCE, FP16, BF16, FP16_OF_BF16, NOOP};

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        for (int is_loop = 0; is_loop < 2; is_loop++) {
            world_run(&(struct world_config){
                .world_size = 4, .program = run_built_in, .arg = &all[i], .is_loop = is_loop != 0});
        }
    }
}

/* 1/3 in f16, divided by 3 in f16, three times: other bits than 1/3 rounded once. */
static void run_rounding(struct world_rank *rank)
{
    struct ddp_hook *hook = make(rank, FP16);
    const float third = 1.0f / 3.0f;
    uint16_t rounded = ddp_f16_from_f32(third);
    struct job job;
    float sum;

    rounded = ddp_f16_from_f32(ddp_f16_to_f32(rounded) * (1.0f / 3.0f));
    sum = ddp_f16_to_f32(ddp_f16_from_f32(ddp_f16_to_f32(rounded) + ddp_f16_to_f32(rounded)));
    sum = ddp_f16_to_f32(ddp_f16_from_f32(sum + ddp_f16_to_f32(rounded)));
    job_init(&job, rank->rank);
    CT_CHECK_OK(create(rank, &job, hook, job_config()));
    CT_CHECK_OK(ddp_forward_begin(job.ddp));
    CT_CHECK_OK(ddp_backward_begin(job.ddp, NULL));
    for (size_t p = JOB_PARAM_COUNT; p-- > 0;) {
        for (size_t k = 0; k < job_elem_counts[p]; k++) {
            job.grad[p][k] = third;
        }
        CT_CHECK_OK(ddp_grad_ready(job.ddp, p));
    }
    CT_CHECK_OK(ddp_backward_end(job.ddp));
    CT_CHECK(job.grad[0][0] == sum);
    CT_CHECK(job.grad[0][0] != third);
    /* What travelled. */
    CT_CHECK_EQ_U64(world_executed(rank->world, rank->group.seq)->dtype, DDP_DTYPE_F16);
    ddp_destroy(job.ddp);
    ddp_hook_destroy(hook);
}

CT_TEST(hook, rounds_then_divides_then_adds_in_its_type)
{
    world_run(&(struct world_config){.world_size = 3, .program = run_rounding});
}

CT_TEST(hook, compresses_to_16_bits_only)
{
    struct ddp_hook *hook = NULL;

    CT_CHECK_STATUS(ddp_hook_compress_create(ddp_mem_system(), DDP_DTYPE_F32, NULL, &hook),
                    DDP_E_INVALID);
    CT_CHECK(hook == NULL);
}

/* --- a hook of one's own ---------------------------------------------------------------------- */

enum { CALLS_MAX = 64 };

/* The largest contribution of all ranks, in two rounds: to the sum, and to the maximum. */
struct own {
    struct ddp_hook base;
    const struct ddp_hook_site *site;
    size_t opened, closed, call_count;
    struct {
        size_t bucket;
        uint32_t round;
        bool is_last;
    } calls[CALLS_MAX];
    uint32_t rounds; /* collectives that it asks for */
    uint64_t identity;
};

static uint64_t own_identity(const struct ddp_hook *hook)
{
    return ((const struct own *)hook)->identity;
}

static ddp_status own_open(struct ddp_hook *hook, const struct ddp_hook_site *site)
{
    struct own *own = (struct own *)hook;
    size_t params = 0;

    own->site = site;
    own->opened++;
    for (size_t b = 0; b < site->bucket_count; b++) {
        const struct ddp_grad_bucket *bucket = &site->buckets[b];

        CT_CHECK_EQ_U64(bucket->index, b);
        CT_CHECK(bucket->data != NULL && bucket->dtype == DDP_DTYPE_F32);
        CT_CHECK(bucket->is_last == (b + 1 == site->bucket_count));
        for (size_t i = 0; i < bucket->param_count; i++) {
            const struct ddp_param *param = &site->params[bucket->params[i]];

            CT_CHECK(bucket->offsets[i] + param->elem_count <= bucket->elem_count);
            params++;
        }
    }
    CT_CHECK_EQ_U64(params, site->param_count);
    return DDP_OK;
}

static void own_close(struct ddp_hook *hook)
{
    ((struct own *)hook)->closed++;
}

static ddp_status own_round(struct ddp_hook *hook, const struct ddp_grad_bucket *bucket,
                            uint32_t round, struct ddp_coll_args *out, bool *out_is_over)
{
    struct own *own = (struct own *)hook;

    if (own->call_count < CALLS_MAX) {
        own->calls[own->call_count].bucket = bucket->index;
        own->calls[own->call_count].round = round;
        own->calls[own->call_count++].is_last = bucket->is_last;
    }
    out->redop = round == 0 ? DDP_REDOP_SUM : DDP_REDOP_MAX;
    *out_is_over = round >= own->rounds;
    return DDP_OK;
}

static void own_destroy(struct ddp_hook *hook)
{
    (void)hook;
}

static const struct ddp_hook_ops own_ops = {.name = "own",
                                            .identity = own_identity,
                                            .open = own_open,
                                            .close = own_close,
                                            .round = own_round,
                                            .destroy = own_destroy};

static void run_own(struct world_rank *rank)
{
    struct own own = {.base = {&own_ops}, .rounds = 2, .identity = 7};
    struct job job;
    size_t bucket_count;

    job_init(&job, rank->rank);
    CT_CHECK_OK(create(rank, &job, &own.base, job_config()));
    bucket_count = ddp_bucket_count(job.ddp);
    CT_CHECK(bucket_count > 2);
    CT_CHECK_OK(job_step(&job, rank->rank, 0, NULL));
    /* Not divided: the hook's matter. */
    CT_CHECK(job.grad[0][0] == sum_of(2, 0, 0, 0));
    /* Round by round, bucket by bucket. */
    CT_CHECK_EQ_U64(own.call_count, 3 * bucket_count);
    for (size_t i = 0; i < own.call_count; i++) {
        CT_CHECK_EQ_U64(own.calls[i].round, i / bucket_count);
        CT_CHECK_EQ_U64(own.calls[i].bucket, i % bucket_count);
        CT_CHECK(own.calls[i].is_last == ((i + 1) % bucket_count == 0));
    }
    CT_CHECK(world_done_count(rank->world) == 0 || /* by schedules */
             world_executed(rank->world, rank->group.seq)->redop == DDP_REDOP_MAX);
    ddp_destroy(job.ddp);
    CT_CHECK_EQ_U64(own.opened, 1);
    CT_CHECK_EQ_U64(own.closed, 1);
}

CT_TEST(hook, rounds_come_in_one_order)
{
    world_run(&(struct world_config){.world_size = 2, .program = run_own});
    world_run(&(struct world_config){.world_size = 2, .program = run_own, .is_loop = true});
}

static void run_rebuilt(struct world_rank *rank)
{
    struct own own = {.base = {&own_ops}, .rounds = 1, .identity = 7};
    struct ddp_config config = job_config();
    struct job job;

    config.bucket_order = DDP_BUCKET_ORDER_PYTORCH;
    job_init(&job, rank->rank);
    CT_CHECK_OK(create(rank, &job, &own.base, config));
    CT_CHECK_EQ_U64(own.site->bucket_count, 1);
    for (uint32_t step = 0; step < 3; step++) {
        CT_CHECK_OK(job_step(&job, rank->rank, step, NULL));
    }
    CT_CHECK_EQ_U64(own.opened, 2);
    CT_CHECK_EQ_U64(own.closed, 1);
    CT_CHECK(own.site->bucket_count > 1);
    ddp_destroy(job.ddp);
    CT_CHECK_EQ_U64(own.closed, 2);
}

CT_TEST(hook, is_opened_again_for_rebuilt_buckets)
{
    world_run(&(struct world_config){.world_size = 2, .program = run_rebuilt});
}

static void run_endless(struct world_rank *rank)
{
    struct own own = {.base = {&own_ops}, .rounds = UINT32_MAX, .identity = 7};
    struct job job;

    job_init(&job, rank->rank);
    CT_CHECK_OK(create(rank, &job, &own.base, job_config()));
    CT_CHECK_STATUS(job_step(&job, rank->rank, 0, NULL), DDP_E_STATE);
    ddp_destroy(job.ddp);
}

CT_TEST(hook, that_never_ends_is_stopped)
{
    world_run(&(struct world_config){.world_size = 2, .program = run_endless});
}

static void run_different(struct world_rank *rank)
{
    struct own own = {.base = {&own_ops}, .rounds = 1, .identity = 7 + rank->rank};
    struct ddp_err err = {""};
    struct ddp_config config = job_config();
    struct job job;

    config.hook = &own.base;
    job_init(&job, rank->rank);
    CT_CHECK_STATUS(ddp_create(&rank->group, rank->device,
                               &(struct ddp_model){job.params, JOB_PARAM_COUNT, job.buffers, 1},
                               &config, &job.ddp, &err),
                    DDP_E_MODEL);
    CT_CHECK(strstr(err.text, "option hook = own") != NULL);
}

CT_TEST(hook, ranks_must_have_the_same)
{
    world_run(&(struct world_config){.world_size = 2, .program = run_different});
}
