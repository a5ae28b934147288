/* Hooks that lose something on the way, against arithmetic of the test's own; their state; and
 * averages of parameters. */
#include <math.h>
#include <string.h>

#include "ddpcore/ddp/average.h"
#include "ddpcore/hook/hooks.h"
#include "tests/ct.h"
#include "tests/unit/ddp/ddp_world.h"

enum { N = 12, M = 9, WEIGHT = N * M, BIAS = 5, WORLD = 3, STEPS = 6 };

struct model {
    struct ddp_param params[2];
    float data[WEIGHT + BIAS], grad[WEIGHT + BIAS];
    struct ddp *ddp;
};

/* Gradients of rank 2 at least: of rank `terms`, so that PowerSGD can be exact. */
static float gradient(uint32_t rank, uint32_t step, size_t at, int terms)
{
    const float i = (float)(at / M);
    const float j = (float)(at % M);
    float value = 0;

    for (int t = 1; t <= terms; t++) {
        value += sinf(0.7f * i * (float)t + (float)(rank + step)) * cosf(0.9f * j + (float)t);
    }
    return value;
}

static void open_model(struct model *model, struct world_rank *rank, struct ddp_hook *hook)
{
    struct ddp_config config = {.hook = hook};
    struct ddp_err err = {""};

    memset(model, 0, sizeof(*model));
    model->params[0] = (struct ddp_param){.name = "weight",
                                          .data = model->data,
                                          .grad = model->grad,
                                          .elem_count = WEIGHT,
                                          .ndim = 2,
                                          .shape = {N, M}};
    model->params[1] = (struct ddp_param){.name = "bias",
                                          .data = model->data + WEIGHT,
                                          .grad = model->grad + WEIGHT,
                                          .elem_count = BIAS,
                                          .ndim = 1,
                                          .shape = {BIAS}};
    CT_CHECK_OK(ddp_create(&rank->group, rank->device,
                           &(struct ddp_model){.params = model->params, .param_count = 2}, &config,
                           &model->ddp, &err));
}

static void reduce_model(struct model *model)
{
    CT_CHECK_OK(ddp_forward_begin(model->ddp));
    CT_CHECK_OK(ddp_backward_begin(model->ddp, NULL));
    CT_CHECK_OK(ddp_grad_ready(model->ddp, 1));
    CT_CHECK_OK(ddp_grad_ready(model->ddp, 0));
    CT_CHECK_OK(ddp_backward_end(model->ddp));
}

static void step_model(struct model *model, uint32_t rank, uint32_t step, int terms)
{
    for (size_t i = 0; i < WEIGHT + BIAS; i++) {
        model->grad[i] = gradient(rank, step, i, terms);
    }
    reduce_model(model);
}

static double mean_of(uint32_t step, size_t at, int terms)
{
    double sum = 0;

    for (uint32_t r = 0; r < WORLD; r++) {
        sum += (double)gradient(r, step, at, terms);
    }
    return sum / WORLD;
}

/* --- 8 bits ----------------------------------------------------------------------------------- */

/* The bucket holds bias, then weight. */
static double quantized(uint32_t rank, uint32_t step, size_t at)
{
    double lo = 0, hi = 0, width, zero, place;

    for (size_t i = 0; i < WEIGHT + BIAS; i++) {
        const double value = (double)gradient(rank, step, i, 3);

        lo = value < lo ? value : lo;
        hi = value > hi ? value : hi;
    }
    width = (hi - lo) / 255;
    zero = -rint(lo / width);
    place = rint((double)gradient(rank, step, at, 3) / width + zero);
    place = place < 0 ? 0 : place > 255 ? 255 : place;
    return width * (place - zero);
}

static void run_quantize(struct world_rank *rank)
{
    struct ddp_hook *hook = NULL;
    struct model model;

    CT_CHECK_OK(ddp_hook_quantize_create(rank->env.mem, &hook));
    open_model(&model, rank, hook);
    for (uint32_t step = 0; step < 3; step++) {
        step_model(&model, rank->rank, step, 3);
        for (size_t i = 0; i < WEIGHT + BIAS; i++) {
            double due = 0;

            for (uint32_t r = 0; r < WORLD; r++) {
                due += quantized(r, step, i) / WORLD;
            }
            CT_CHECK(fabs((double)model.grad[i] - due) < 1e-5);
            CT_CHECK(fabs((double)model.grad[i] - mean_of(step, i, 3)) < 0.02);
        }
    }
    model.grad[7] = rank->rank == 1 ? NAN : 0.0f;
    CT_CHECK_OK(ddp_forward_begin(model.ddp));
    CT_CHECK_OK(ddp_backward_begin(model.ddp, NULL));
    CT_CHECK_OK(ddp_grad_ready(model.ddp, 1));
    CT_CHECK_OK(ddp_grad_ready(model.ddp, 0));
    CT_CHECK_OK(ddp_backward_end(model.ddp));
    CT_CHECK(isnan(model.grad[7]) && isnan(model.grad[0]));
    ddp_destroy(model.ddp);
    ddp_hook_destroy(hook);
}

CT_TEST(hook_lossy, quantizes_to_8_bits)
{
    world_run(&(struct world_config){.world_size = WORLD, .program = run_quantize});
    world_run(
        &(struct world_config){.world_size = WORLD, .program = run_quantize, .is_loop = true});
}

/* --- PowerSGD --------------------------------------------------------------------------------- */

/* Gradients whose mean has rank 2 come through exactly with rank 2; the bias always does. */
static void run_powersgd(struct world_rank *rank)
{
    struct ddp_powersgd_config config;
    struct ddp_hook *hook = NULL;
    struct model model;

    ddp_powersgd_defaults(&config);
    config.start_iteration = 2;
    config.rank = 2;
    config.min_compression_rate = 1.5;
    CT_CHECK_OK(ddp_hook_powersgd_create(rank->env.mem, &config, &hook));
    open_model(&model, rank, hook);
    for (uint32_t step = 0; step < STEPS; step++) {
        /* terms 1: sin(i + r) cos(j) = a(r) u v + b(r) w v: each rank has rank 1, their mean too */
        step_model(&model, rank->rank, step, 1);
        for (size_t i = 0; i < WEIGHT + BIAS; i++) {
            CT_CHECK(fabs((double)model.grad[i] - mean_of(step, i, 1)) < 1e-4);
        }
    }
    ddp_destroy(model.ddp);
    ddp_hook_destroy(hook);
}

CT_TEST(hook_lossy, powersgd_is_exact_where_the_rank_suffices)
{
    world_run(&(struct world_config){.world_size = WORLD, .program = run_powersgd});
    world_run(
        &(struct world_config){.world_size = WORLD, .program = run_powersgd, .is_loop = true});
}

/* With rank 1 a pass loses something, which the passes behind it make good: the sum over passes of
 * equal gradients comes near the sum of the means. Without the error kept it does not. */
static double lost(struct world_rank *rank, bool is_error_kept)
{
    struct ddp_powersgd_config config;
    struct ddp_hook *hook = NULL;
    struct model model;
    double sums[WEIGHT] = {0};
    double worst = 0;
    enum { PASSES = 40 };

    ddp_powersgd_defaults(&config);
    config.start_iteration = 2;
    config.is_error_kept = is_error_kept;
    CT_CHECK_OK(ddp_hook_powersgd_create(rank->env.mem, &config, &hook));
    open_model(&model, rank, hook);
    for (uint32_t pass = 0; pass < PASSES; pass++) {
        step_model(&model, rank->rank, 0, 3);
        for (size_t i = 0; i < WEIGHT && pass >= 2; i++) {
            sums[i] += (double)model.grad[i];
        }
    }
    for (size_t i = 0; i < WEIGHT; i++) {
        const double distance = fabs(sums[i] / (PASSES - 2) - mean_of(0, i, 3));

        worst = distance > worst ? distance : worst;
    }
    ddp_destroy(model.ddp);
    ddp_hook_destroy(hook);
    return worst;
}

static void run_feedback(struct world_rank *rank)
{
    const double with = lost(rank, true);
    const double without = lost(rank, false);

    CT_CHECK(with < 0.2);
    CT_CHECK(without > 2 * with);
}

CT_TEST(hook_lossy, powersgd_makes_good_what_it_left_out)
{
    world_run(&(struct world_config){.world_size = WORLD, .program = run_feedback});
}

static struct ddp_hook *make_powersgd(struct world_rank *rank)
{
    struct ddp_powersgd_config config;
    struct ddp_hook *hook = NULL;

    ddp_powersgd_defaults(&config);
    config.start_iteration = 2;
    CT_CHECK_OK(ddp_hook_powersgd_create(rank->env.mem, &config, &hook));
    return hook;
}

/* A run that is broken off and goes on with the saved state has the same bits as one that is not.
 */
static void run_resumed(struct world_rank *rank)
{
    struct ddp_hook *whole_hook = make_powersgd(rank);
    struct ddp_hook *first_hook = make_powersgd(rank);
    struct ddp_hook *second_hook = make_powersgd(rank);
    struct model whole, first, second;
    const struct ddp_param *from, *to;
    size_t from_count = 0, to_count = 0;

    open_model(&whole, rank, whole_hook);
    for (uint32_t step = 0; step < STEPS; step++) {
        step_model(&whole, rank->rank, step, 3);
    }
    open_model(&first, rank, first_hook);
    for (uint32_t step = 0; step < 4; step++) {
        step_model(&first, rank->rank, step, 3);
    }
    open_model(&second, rank, second_hook);
    from = ddp_hook_state(first.ddp, &from_count);
    to = ddp_hook_state(second.ddp, &to_count);
    CT_REQUIRE(from_count == 5 && to_count == 5);
    for (size_t i = 0; i < from_count; i++) {
        CT_CHECK_STR(from[i].name, to[i].name);
        memcpy(to[i].data, from[i].data, ddp_param_size_bytes(&from[i]));
    }
    for (uint32_t step = 4; step < STEPS; step++) {
        step_model(&second, rank->rank, step, 3);
    }
    CT_CHECK_BYTES(second.grad, whole.grad, sizeof(whole.grad));
    CT_CHECK(memcmp(second.grad, first.grad, sizeof(whole.grad)) != 0);
    ddp_destroy(whole.ddp);
    ddp_destroy(first.ddp);
    ddp_destroy(second.ddp);
    ddp_hook_destroy(whole_hook);
    ddp_hook_destroy(first_hook);
    ddp_hook_destroy(second_hook);
}

CT_TEST(hook_lossy, powersgd_goes_on_from_its_state)
{
    world_run(&(struct world_config){.world_size = WORLD, .program = run_resumed});
}

/* A checkpoint that one rank writes holds the errors of all: each has its own. */
static void run_gathered(struct world_rank *rank)
{
    struct ddp_hook *hook = make_powersgd(rank);
    const struct ddp_param *state;
    struct model model;
    size_t count = 0;
    size_t size_bytes;
    char *block;

    open_model(&model, rank, hook);
    for (uint32_t step = 0; step < 4; step++) {
        step_model(&model, rank->rank, step, 3);
    }
    state = ddp_hook_state(model.ddp, &count);
    CT_REQUIRE(count == 5);
    CT_CHECK(!ddp_hook_state_is_own(model.ddp, 0) && ddp_hook_state_is_own(model.ddp, 1) &&
             !ddp_hook_state_is_own(model.ddp, 2));
    size_bytes = ddp_param_size_bytes(&state[1]);
    block = ddp_mem_array(rank->env.mem, WORLD + 1, size_bytes);
    CT_REQUIRE(block != NULL);
    CT_CHECK_OK(ddp_hook_state_gather(model.ddp, 1, block));
    CT_CHECK_BYTES(block, state[1].data, size_bytes);
    CT_CHECK_BYTES(block + (rank->rank + 1) * size_bytes, state[1].data, size_bytes);
    for (uint32_t r = 1; r < WORLD; r++) {
        CT_CHECK(memcmp(block + size_bytes, block + (r + 1) * size_bytes, size_bytes) != 0);
    }
    ddp_mem_free(rank->env.mem, block);
    ddp_destroy(model.ddp);
    ddp_hook_destroy(hook);
}

CT_TEST(hook_lossy, powersgd_gathers_the_errors_of_all_ranks)
{
    world_run(&(struct world_config){.world_size = WORLD, .program = run_gathered});
}

CT_TEST(hook_lossy, powersgd_refuses_what_pytorch_refuses)
{
    struct ddp_powersgd_config config;
    struct ddp_hook *hook = NULL;

    ddp_powersgd_defaults(&config);
    CT_CHECK_EQ_U64(config.rank, 1);
    CT_CHECK_EQ_U64(config.start_iteration, 1000);
    config.start_iteration = 1;
    CT_CHECK_STATUS(ddp_hook_powersgd_create(ddp_mem_system(), &config, &hook), DDP_E_INVALID);
    config.is_error_kept = false;
    CT_CHECK_STATUS(ddp_hook_powersgd_create(ddp_mem_system(), &config, &hook), DDP_E_INVALID);
    config.is_warm_start = false;
    CT_CHECK_OK(ddp_hook_powersgd_create(ddp_mem_system(), &config, &hook));
    ddp_hook_destroy(hook);
    config.rank = 0;
    CT_CHECK_STATUS(ddp_hook_powersgd_create(ddp_mem_system(), &config, &hook), DDP_E_INVALID);
}

/* --- post-local SGD --------------------------------------------------------------------------- */

static void run_local(struct world_rank *rank)
{
    struct ddp_hook *hook = NULL;
    struct model model;
    double expected[WORLD][WEIGHT] = {{0}};

    CT_CHECK_OK(ddp_hook_local_sgd_create(rank->env.mem, 2, &hook));
    open_model(&model, rank, hook);
    for (uint32_t step = 0; step < STEPS; step++) {
        const bool is_due = ddp_average_due(step, 2, 3);

        step_model(&model, rank->rank, step, 3);
        for (size_t i = 0; i < WEIGHT + BIAS; i++) {
            model.data[i] -= model.grad[i];
        }
        for (size_t i = 0; i < WEIGHT; i++) {
            double mean = 0;

            for (uint32_t r = 0; r < WORLD; r++) {
                expected[r][i] -= step < 2 ? mean_of(step, i, 3) : (double)gradient(r, step, i, 3);
                mean += expected[r][i] / WORLD;
            }
            for (uint32_t r = 0; is_due && r < WORLD; r++) {
                expected[r][i] = mean;
            }
        }
        if (is_due) {
            CT_CHECK_OK(ddp_average_params(model.ddp));
        }
        for (size_t i = 0; i < WEIGHT; i++) {
            CT_CHECK(fabs((double)model.data[i] - expected[rank->rank][i]) < 1e-4);
        }
    }
    CT_CHECK_OK(ddp_forward_begin(model.ddp));
    CT_CHECK_STATUS(ddp_average_params(model.ddp), DDP_E_STATE);
    ddp_destroy(model.ddp);
    ddp_hook_destroy(hook);
}

CT_TEST(hook_lossy, local_steps_are_averaged_now_and_then)
{
    world_run(&(struct world_config){.world_size = WORLD, .program = run_local});
}

/* PyTorch's PeriodicModelAverager(period=3, warmup_steps=2): steps 2, 5, 8. */
CT_TEST(hook_lossy, averages_as_often_as_pytorch)
{
    for (uint64_t step = 0; step < 10; step++) {
        CT_CHECK(ddp_average_due(step, 2, 3) == (step == 2 || step == 5 || step == 8));
    }
}

static void run_overflow(struct world_rank *rank)
{
    struct ddp_powersgd_config config;
    struct ddp_hook *hook = NULL;
    struct model model;

    ddp_powersgd_defaults(&config);
    config.start_iteration = 2;
    config.rank = 2;
    CT_CHECK_OK(ddp_hook_powersgd_create(rank->env.mem, &config, &hook));
    open_model(&model, rank, hook);
    for (uint32_t step = 0; step < 12; step++) {
        const bool is_spoilt = step == 4 && rank->rank == 1;
        bool is_finite = true;

        for (size_t i = 0; i < WEIGHT + BIAS; i++) {
            model.grad[i] = is_spoilt && i == M + 2 ? INFINITY : gradient(rank->rank, step, i, 1);
        }
        reduce_model(&model);
        for (size_t i = 0; i < WEIGHT + BIAS; i++) {
            is_finite = is_finite && isfinite(model.grad[i]);
        }
        CT_CHECK(is_finite == (step != 4));
        for (size_t i = 0; step > 8 && i < WEIGHT; i++) {
            CT_CHECK(fabs((double)model.grad[i] - mean_of(step, i, 1)) < 1.0);
        }
    }
    ddp_destroy(model.ddp);
    ddp_hook_destroy(hook);
}

/* One gradient that overflowed, as a scaler leaves out its step: what is kept must not be spoilt by
 * it for ever. */
CT_TEST(hook_lossy, powersgd_forgets_what_is_not_finite)
{
    world_run(&(struct world_config){.world_size = WORLD, .program = run_overflow});
}

/* A hook that refuses says what it needs, and what goes without that. */
static void run_doubles(struct world_rank *rank)
{
    double data[4] = {0}, grad[4] = {0};
    struct ddp_param param = {.name = "weight",
                              .dtype = DDP_DTYPE_F64,
                              .data = data,
                              .grad = grad,
                              .elem_count = 4,
                              .ndim = 1,
                              .shape = {4}};
    struct ddp_config config = {0};
    struct ddp_err err = {""};
    struct ddp *ddp;

    CT_CHECK_OK(ddp_hook_quantize_create(rank->env.mem, &config.hook));
    CT_CHECK_STATUS(ddp_create(&rank->group, rank->device, &(struct ddp_model){&param, 1, NULL, 0},
                               &config, &ddp, &err),
                    DDP_E_UNSUPPORTED);
    CT_CHECK(strstr(err.text, "the hook quantize needs gradients of f32 in the host's memory; "
                              "without a hook, and with allreduce, fp16 or bf16,") != NULL);
    ddp_hook_destroy(config.hook);
}

CT_TEST(hook_lossy, says_what_it_needs)
{
    world_run(&(struct world_config){.world_size = 1, .program = run_doubles});
}
