/* Passes of 16 bits: near those of f32 with the same weights, as far as roundings explain, and not
 * the same; contributions add up in the type; and what cannot be had. */
#include <math.h>
#include <string.h>

#include "tests/unit/reference/model_fixture.h"

static const struct ref_model_config models[] = {
    {.name = "mlp", .width = {5, 7, 6, 4}, .width_count = 4, .seed = 3},
    {.name = "module_child", .width = {5, 7, 4}, .width_count = 3, .seed = 3},
    {.name = "module_twin", .width = {5, 7, 4}, .width_count = 3, .seed = 3},
    {.name = "branchy", .width = {5, 6, 4}, .width_count = 3, .seed = 3},
    {.name = "gpt", .width = {3, 4, 4, 5}, .width_count = 4, .heads = 2, .seed = 3},
};
enum { MODEL_COUNT = sizeof(models) / sizeof(models[0]) };

static float widen(enum ddp_dtype dtype, uint16_t bits)
{
    return dtype == DDP_DTYPE_F16 ? ddp_f16_to_f32(bits) : ddp_bf16_to_f32(bits);
}

static uint16_t narrow(enum ddp_dtype dtype, float value)
{
    return dtype == DDP_DTYPE_F16 ? ddp_f16_from_f32(value) : ddp_bf16_from_f32(value);
}

/* Two models with the same weights and inputs, which the type holds exactly. */
struct pair {
    struct fixture narrow, wide;
    struct ddp_param *rounded;
    enum ddp_dtype dtype;
};

static bool pair_open(struct pair *pair, const struct ref_model_config *config,
                      enum ddp_dtype dtype)
{
    struct ref_model_config other = *config;

    other.precision = dtype;
    pair->dtype = dtype;
    if (!fixture_open(&pair->wide, config) || !fixture_open(&pair->narrow, &other)) {
        return false;
    }
    pair->rounded = ref_model_rounded(pair->narrow.model);
    for (size_t p = 0; p < pair->wide.param_count; p++) {
        for (size_t i = 0; i < pair->wide.params[p].elem_count; i++) {
            float *weight = &((float *)pair->wide.params[p].data)[i];

            ((uint16_t *)pair->rounded[p].data)[i] = narrow(dtype, *weight);
            *weight = widen(dtype, narrow(dtype, *weight));
        }
    }
    for (size_t i = 0; i < sizeof(pair->wide.features) / sizeof(pair->wide.features[0]); i++) {
        pair->wide.features[i] = widen(dtype, narrow(dtype, pair->wide.features[i]));
    }
    return true;
}

/* Whether each gradient is near; *out_exact: of how many elements the type holds what f32 gave. */
static void compare(const struct pair *pair, double bound, size_t *out_exact, size_t *out_count)
{
    *out_exact = 0;
    *out_count = 0;
    for (size_t p = 0; p < pair->wide.param_count; p++) {
        const struct ddp_param *wide = &pair->wide.params[p];
        const uint16_t *grad = pair->rounded[p].grad;
        double largest = 0;

        CT_CHECK(pair->rounded[p].is_grad_defined == wide->is_grad_defined);
        for (size_t i = 0; i < wide->elem_count && wide->is_grad_defined; i++) {
            largest = fmax(largest, fabs((double)((const float *)wide->grad)[i]));
        }
        for (size_t i = 0; i < wide->elem_count && wide->is_grad_defined; i++) {
            const float due = ((const float *)wide->grad)[i];

            CT_CHECK(fabs((double)widen(pair->dtype, grad[i]) - (double)due) <= bound * largest);
            *out_exact += grad[i] == narrow(pair->dtype, due);
            (*out_count)++;
        }
    }
}

/* A value is rounded once for each operation on its way, and once more on the way back: fewer than
 * 16 times, each worth half a unit in the last place of what is added up. */
static void check_near(const struct ref_model_config *config, enum ddp_dtype dtype)
{
    static struct pair pair;
    const double bound = 16 * (dtype == DDP_DTYPE_F16 ? 0x1p-11 : 0x1p-8);
    size_t exact, count;
    float loss, due;

    if (!pair_open(&pair, config, dtype)) {
        return;
    }
    CT_REQUIRE_OK(ref_model_forward(pair.narrow.model, &pair.narrow.batch, NULL, &loss));
    CT_REQUIRE_OK(ref_model_forward(pair.wide.model, &pair.wide.batch, NULL, &due));
    CT_CHECK(fabs((double)loss - (double)due) <= bound * fabs((double)due));
    CT_REQUIRE_OK(ref_model_backward(pair.narrow.model, 0.5F, NULL));
    CT_REQUIRE_OK(ref_model_backward(pair.wide.model, 0.5F, NULL));
    compare(&pair, bound, &exact, &count);
    CT_CHECK(exact < count); /* something was rounded on the way */
    fixture_close(&pair.narrow);
    fixture_close(&pair.wide);
}

CT_TEST(model_rounded, gradients_are_near_those_of_f32)
{
    for (size_t i = 0; i < MODEL_COUNT; i++) {
        check_near(&models[i], DDP_DTYPE_BF16);
        check_near(&models[i], DDP_DTYPE_F16);
    }
}

/* The same pass twice: twice the gradient, which each type holds; three times: rounded. */
CT_TEST(model_rounded, passes_add_up_in_the_type)
{
    static struct pair pair;
    uint16_t first[8];
    float loss;

    if (!pair_open(&pair, &models[0], DDP_DTYPE_BF16)) {
        return;
    }
    for (uint32_t pass = 1; pass <= 3; pass++) {
        const uint16_t *grad = pair.rounded[0].grad;
        float sum = 0;

        CT_REQUIRE_OK(ref_model_forward(pair.narrow.model, &pair.narrow.batch, NULL, &loss));
        CT_REQUIRE_OK(ref_model_backward(pair.narrow.model, 0.5F, NULL));
        if (pass == 1) {
            memcpy(first, grad, sizeof(first));
        }
        for (size_t i = 0; i < sizeof(first) / sizeof(first[0]); i++) {
            sum = 0;
            for (uint32_t k = 0; k < pass; k++) {
                sum = widen(pair.dtype, narrow(pair.dtype, sum + widen(pair.dtype, first[i])));
            }
            CT_CHECK(grad[i] == narrow(pair.dtype, sum));
        }
    }
    ref_model_zero_grad(pair.narrow.model);
    CT_CHECK(!pair.rounded[0].is_grad_defined);
    fixture_close(&pair.narrow);
    fixture_close(&pair.wide);
}

CT_TEST(model_rounded, other_models_say_so)
{
    struct ref_model_config config = {
        .name = "convnet", .width = {16, 2, 3, 4}, .width_count = 4, .precision = DDP_DTYPE_BF16};
    struct ref_model *model = NULL;
    struct ddp_device *device = NULL;
    struct ddp_err err = {""};

    CT_REQUIRE_OK(ddp_device_cpu_create(ddp_mem_system(), &device));
    CT_CHECK(!ref_model_is_roundable(&config));
    CT_CHECK_STATUS(ref_model_create(device, &config, 4, &model, &err), DDP_E_UNSUPPORTED);
    CT_CHECK(strstr(err.text, "model convnet computes in f32 only") != NULL);
    config.name = "mlp";
    config.precision = DDP_DTYPE_I32;
    CT_CHECK(ref_model_is_roundable(&config));
    CT_CHECK_STATUS(ref_model_create(device, &config, 4, &model, &err), DDP_E_INVALID);
    device->ops->destroy(device);
}
