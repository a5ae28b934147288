/* Mixed precision: the weights that are kept, those of a pass, gradients and averages, against
 * conversions and sums of the test's own; and what is refused. */
#include <string.h>

#include "ddpcore/hook/hooks.h"
#include "tests/ct.h"
#include "tests/unit/ddp/ddp_world.h"

enum { COUNT = 2, ELEMS = 3, WORLD = 3, STEPS = 3 };

static const char *const names[COUNT] = {"weight", "bias"};

struct model {
    struct ddp_param masters[COUNT], rounded[COUNT];
    float data[COUNT][ELEMS], grad[COUNT][ELEMS];
    uint16_t rounded_data[COUNT][ELEMS], rounded_grad[COUNT][ELEMS];
    struct ddp_mixed_precision mixed;
    struct ddp *ddp;
};

static float widen(enum ddp_dtype dtype, uint16_t bits)
{
    return dtype == DDP_DTYPE_F16 ? ddp_f16_to_f32(bits) : ddp_bf16_to_f32(bits);
}

static uint16_t narrow(enum ddp_dtype dtype, float value)
{
    return dtype == DDP_DTYPE_F16 ? ddp_f16_from_f32(value) : ddp_bf16_from_f32(value);
}

/* Once through the type. */
static float rounded(enum ddp_dtype dtype, float value)
{
    return dtype == DDP_DTYPE_F32 ? value : widen(dtype, narrow(dtype, value));
}

static float weight_of(uint32_t rank, size_t p, size_t i)
{
    return 1.0F + 0.013F * (float)(rank + 1) + 0.0007F * (float)(p * ELEMS + i);
}

static float gradient_of(uint32_t rank, uint32_t step, size_t p, size_t i)
{
    return 0.37F * (float)(rank + 1) - 0.11F * (float)(step + p) + 0.019F * (float)i;
}

struct types {
    enum ddp_dtype param, reduce;
    enum ddp_gradient_scale scale;
};

/* All ranks: their weights become rank 0's. */
static ddp_status open_model(struct model *model, struct world_rank *rank,
                             const struct types *types, struct ddp_config *config,
                             struct ddp_err *err)
{
    memset(model, 0, sizeof(*model));
    for (size_t p = 0; p < COUNT; p++) {
        model->masters[p] = (struct ddp_param){.name = names[p],
                                               .data = model->data[p],
                                               .grad = model->grad[p],
                                               .elem_count = ELEMS,
                                               .ndim = 1,
                                               .shape = {ELEMS}};
        model->rounded[p] = model->masters[p];
        model->rounded[p].dtype = types->param;
        model->rounded[p].data = model->rounded_data[p];
        model->rounded[p].grad = model->rounded_grad[p];
        for (size_t i = 0; i < ELEMS; i++) {
            model->data[p][i] = weight_of(rank->rank, p, i);
        }
    }
    model->mixed = (struct ddp_mixed_precision){model->rounded, types->reduce};
    config->mixed = &model->mixed;
    return ddp_create(&rank->group, rank->device,
                      &(struct ddp_model){.params = model->masters, .param_count = COUNT}, config,
                      &model->ddp, err);
}

static void clear_gradients(struct model *model)
{
    for (size_t p = 0; p < COUNT; p++) {
        model->masters[p].is_grad_defined = false;
        model->rounded[p].is_grad_defined = false;
    }
}

static void run_step(struct model *model, uint32_t rank, uint32_t step, const struct types *types)
{
    const float factor = (float)(1.0 / WORLD);

    clear_gradients(model);
    CT_CHECK_OK(ddp_forward_begin(model->ddp));
    for (size_t p = 0; p < COUNT; p++) {
        for (size_t i = 0; i < ELEMS; i++) {
            CT_CHECK(model->rounded_data[p][i] == narrow(types->param, model->data[p][i]));
            model->rounded_grad[p][i] = narrow(types->param, gradient_of(rank, step, p, i));
        }
    }
    CT_CHECK_OK(ddp_backward_begin(model->ddp, NULL));
    CT_CHECK_OK(ddp_grad_ready(model->ddp, 1));
    CT_CHECK_OK(ddp_grad_ready(model->ddp, 0));
    CT_CHECK_OK(ddp_backward_end(model->ddp));
    for (size_t p = 0; p < COUNT; p++) {
        CT_CHECK(model->masters[p].is_grad_defined && !model->rounded[p].is_grad_defined);
        for (size_t i = 0; i < ELEMS; i++) {
            const bool is_post = types->scale == DDP_GRADIENT_SCALE_POST;
            float sum = 0;

            for (uint32_t r = 0; r < WORLD; r++) {
                float local = rounded(types->param, gradient_of(r, step, p, i));

                local = rounded(types->reduce, local);
                local = is_post ? local : rounded(types->reduce, local * factor);
                sum = r == 0 ? local : rounded(types->reduce, sum + local);
            }
            sum = is_post ? rounded(types->reduce, sum * factor) : sum;
            CT_CHECK(memcmp(&sum, &model->grad[p][i], sizeof(sum)) == 0);
            model->data[p][i] -= 0.01F * model->grad[p][i];
        }
    }
}

static void run_types(struct world_rank *rank)
{
    const struct types *types = rank->arg;
    struct ddp_config config = {.gradient_scale = types->scale};
    struct ddp_err err = {""};
    struct model model;

    CT_CHECK_OK(open_model(&model, rank, types, &config, &err));
    CT_CHECK(ddp_bucket_count(model.ddp) == 1 && ddp_bucket_dtype(model.ddp, 0) == types->reduce);
    CT_CHECK(model.data[1][2] == weight_of(0, 1, 2));
    for (uint32_t step = 0; step < STEPS; step++) {
        run_step(&model, rank->rank, step, types);
    }
    ddp_destroy(model.ddp);
}

/* Sums go from left to right over the ranks in this world, as the test's do. */
CT_TEST(ddp_mixed, rounds_sums_divides_and_widens)
{
    static const enum ddp_dtype reduce[] = {DDP_DTYPE_F32, DDP_DTYPE_F16, DDP_DTYPE_BF16};

    for (size_t i = 0; i < 12; i++) {
        struct types types = {i % 2 == 0 ? DDP_DTYPE_BF16 : DDP_DTYPE_F16, reduce[i / 2 % 3],
                              i < 6 ? DDP_GRADIENT_SCALE_PRE : DDP_GRADIENT_SCALE_POST};

        world_run(&(struct world_config){.world_size = WORLD, .program = run_types, .arg = &types});
    }
}

/* Weights of the last step are not those of an evaluation behind it. */
static void run_evaluation(struct world_rank *rank)
{
    const struct types types = {DDP_DTYPE_BF16, DDP_DTYPE_BF16, DDP_GRADIENT_SCALE_PRE};
    struct ddp_config config = {.gradient_scale = types.scale};
    struct ddp_err err = {""};
    struct model model;

    CT_CHECK_OK(open_model(&model, rank, &types, &config, &err));
    run_step(&model, rank->rank, 0, &types);
    model.data[0][0] = 3.0F;
    CT_CHECK(model.rounded_data[0][0] != narrow(DDP_DTYPE_BF16, 3.0F));
    CT_CHECK_OK(ddp_round_params(model.ddp));
    CT_CHECK(model.rounded_data[0][0] == narrow(DDP_DTYPE_BF16, 3.0F));
    ddp_destroy(model.ddp);
}

CT_TEST(ddp_mixed, weights_are_rounded_for_other_passes)
{
    world_run(&(struct world_config){.world_size = WORLD, .program = run_evaluation});
}

/* Micro-batches add up in the type of passes; nobody's average is in what comes next. */
static void run_accumulation(struct world_rank *rank)
{
    const struct types types = {DDP_DTYPE_BF16, DDP_DTYPE_F32, DDP_GRADIENT_SCALE_PRE};
    struct ddp_config config = {.gradient_scale = types.scale};
    struct ddp_err err = {""};
    struct model model;

    CT_CHECK_OK(open_model(&model, rank, &types, &config, &err));
    for (uint32_t pass = 0; pass < 4; pass++) {
        const bool is_last = pass % 2 == 1;

        if (!is_last) {
            clear_gradients(&model);
        }
        ddp_set_sync(model.ddp, is_last);
        CT_CHECK_OK(ddp_forward_begin(model.ddp));
        CT_CHECK_OK(ddp_backward_begin(model.ddp, NULL));
        for (size_t p = COUNT; p-- > 0;) {
            CT_CHECK(model.rounded[p].is_grad_defined == is_last);
            for (size_t i = 0; i < ELEMS; i++) {
                model.rounded_grad[p][i] = narrow(types.param, is_last ? 3.0F : 1.0F);
            }
            CT_CHECK_OK(ddp_grad_ready(model.ddp, p));
        }
        CT_CHECK_OK(ddp_backward_end(model.ddp));
        CT_CHECK(model.masters[0].is_grad_defined == is_last);
        CT_CHECK(!is_last || model.grad[0][1] == 3.0F);
    }
    ddp_destroy(model.ddp);
}

CT_TEST(ddp_mixed, micro_batches_stay_in_the_type_of_passes)
{
    world_run(&(struct world_config){.world_size = 2, .program = run_accumulation});
}

/* PyTorch: what nobody has cleared is added to, in f32, and then rounded and reduced again. Rank 1
 * leaves the bias out of the second pass: its share is what it has. Large enough for several parts
 * of the memory in which gradients are widened. */
enum { LARGE = 40000 };

struct large {
    struct ddp_param masters[COUNT], rounded[COUNT];
    float data[COUNT][LARGE], grad[COUNT][LARGE];
    uint16_t rounded_data[COUNT][LARGE], rounded_grad[COUNT][LARGE];
};

static float large_gradient_of(uint32_t rank, uint32_t pass, size_t p, size_t i)
{
    return 0.31F * (float)(rank + 1) - 0.0703F * (float)(pass + p) + 0.001F * (float)(i % 977);
}

static void open_large(struct large *large, enum ddp_dtype dtype)
{
    for (size_t p = 0; p < COUNT; p++) {
        large->masters[p] = (struct ddp_param){.name = names[p],
                                               .data = large->data[p],
                                               .grad = large->grad[p],
                                               .elem_count = LARGE,
                                               .ndim = 1,
                                               .shape = {LARGE}};
        large->rounded[p] = large->masters[p];
        large->rounded[p].dtype = dtype;
        large->rounded[p].data = large->rounded_data[p];
        large->rounded[p].grad = large->rounded_grad[p];
    }
}

static void check_kept(const struct large *large, const struct types *types, uint32_t pass)
{
    for (size_t p = 0; p < COUNT; p++) {
        for (size_t i = 0; i < LARGE; i++) {
            float kept = 0, sum = 0;

            for (uint32_t k = 0; k <= pass; k++) {
                for (uint32_t r = 0; r < 2; r++) {
                    const bool is_absent = k == 1 && r == 1 && p == 1;
                    float local =
                        is_absent ? 0 : rounded(types->param, large_gradient_of(r, k, p, i));

                    local = rounded(types->param, kept + local);
                    local = rounded(types->reduce, local);
                    sum = r == 0 ? local : rounded(types->reduce, sum + local);
                }
                kept = rounded(types->reduce, sum * 0.5F);
            }
            CT_CHECK(kept == large->grad[p][i]);
        }
    }
}

static void run_kept(struct world_rank *rank)
{
    const struct types *types = rank->arg;
    struct large *large = ddp_mem_array(rank->env.mem, 1, sizeof(*large));
    struct ddp_mixed_precision mixed = {large->rounded, types->reduce};
    struct ddp_config config = {
        .gradient_scale = DDP_GRADIENT_SCALE_POST, .find_unused_parameters = true, .mixed = &mixed};
    struct ddp_err err = {""};
    struct ddp *ddp;

    open_large(large, types->param);
    CT_CHECK_OK(ddp_create(&rank->group, rank->device,
                           &(struct ddp_model){.params = large->masters, .param_count = COUNT},
                           &config, &ddp, &err));
    for (uint32_t pass = 0; pass < 3; pass++) {
        const bool is_used[COUNT] = {true, pass != 1 || rank->rank != 1};

        CT_CHECK_OK(ddp_forward_begin(ddp));
        CT_CHECK_OK(ddp_backward_begin(ddp, is_used));
        for (size_t p = COUNT; p-- > 0;) {
            CT_CHECK(!large->rounded[p].is_grad_defined);
            for (size_t i = 0; i < LARGE && is_used[p]; i++) {
                large->rounded_grad[p][i] =
                    narrow(types->param, large_gradient_of(rank->rank, pass, p, i));
            }
            if (is_used[p]) {
                CT_CHECK_OK(ddp_grad_ready(ddp, p));
            }
        }
        CT_CHECK_OK(ddp_backward_end(ddp));
        check_kept(large, types, pass);
    }
    ddp_destroy(ddp);
    ddp_mem_free(rank->env.mem, large);
}

CT_TEST(ddp_mixed, what_is_not_cleared_is_added_to)
{
    static const struct types types[] = {{DDP_DTYPE_BF16, DDP_DTYPE_BF16, DDP_GRADIENT_SCALE_POST},
                                         {DDP_DTYPE_F16, DDP_DTYPE_F32, DDP_GRADIENT_SCALE_POST}};

    for (size_t i = 0; i < 2; i++) {
        world_run(&(struct world_config){
            .world_size = 2, .program = run_kept, .arg = (void *)(uintptr_t)&types[i]});
    }
}

static void run_refused(struct world_rank *rank)
{
    struct types types = {DDP_DTYPE_BF16, DDP_DTYPE_BF16, DDP_GRADIENT_SCALE_PRE};
    const int which = *(const int *)rank->arg;
    struct ddp_config config = {.gradient_as_bucket_view = which == 0};
    struct ddp_err err = {""};
    struct model model;

    types.param = which == 1 ? DDP_DTYPE_F32 : types.param;
    types.reduce = which == 2 ? DDP_DTYPE_I32 : types.reduce;
    if (which == 3) {
        CT_CHECK_OK(ddp_hook_allreduce_create(rank->env.mem, &config.hook));
    }
    CT_CHECK_STATUS(open_model(&model, rank, &types, &config, &err), DDP_E_UNSUPPORTED);
    CT_CHECK(strstr(err.text, which == 1   ? "\"weight\" is rounded to f32"
                              : which == 2 ? "reduced in i32"
                                           : "no communication hook") != NULL);
    ddp_hook_destroy(config.hook);
}

CT_TEST(ddp_mixed, says_what_it_does_not_go_with)
{
    for (int which = 0; which < 4; which++) {
        world_run(&(struct world_config){.world_size = 1, .program = run_refused, .arg = &which});
    }
}

/* Rank 1 sums in another type: all are told so, before anything is sent. */
static void run_other_type(struct world_rank *rank)
{
    const struct types types = {DDP_DTYPE_BF16, rank->rank == 1 ? DDP_DTYPE_F32 : DDP_DTYPE_BF16,
                                DDP_GRADIENT_SCALE_PRE};
    struct ddp_config config = {.gradient_scale = types.scale};
    struct ddp_err err = {""};
    struct model model;

    CT_CHECK_STATUS(open_model(&model, rank, &types, &config, &err), DDP_E_MODEL);
    CT_CHECK(rank->group.failure.rank == 1);
    CT_CHECK(strstr(err.text, "rank 1 has option mixed_precision = mixed bf16/f32, rank 0 has "
                              "option mixed_precision = mixed bf16/bf16") != NULL);
}

CT_TEST(ddp_mixed, another_type_is_told_to_all)
{
    world_run(&(struct world_config){.world_size = WORLD, .program = run_other_type});
}
