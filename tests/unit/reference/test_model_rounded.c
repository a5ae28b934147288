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
    {.name = "convnet", .width = {16, 2, 3, 4}, .width_count = 4, .seed = 3},
    {.name = "moe", .width = {5, 6, 4}, .width_count = 3, .experts = 3, .seed = 3},
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

static double largest_of(const struct ddp_param *param)
{
    double largest = 0;

    for (size_t i = 0; i < param->elem_count && param->is_grad_defined; i++) {
        largest = fmax(largest, fabs((double)((const float *)param->grad)[i]));
    }
    return largest;
}

/* Whether each gradient is near; *out_exact: of how many elements the type holds what f32 gave.
 * What lies in front of a BatchNorm hardly changes the loss where it scales or shifts a channel, so
 * its gradient is a small sum of large terms: it is measured by the model's largest gradient. */
static void compare(const struct pair *pair, bool is_normalized, double bound, size_t *out_exact,
                    size_t *out_count)
{
    double largest_of_all = 0;

    for (size_t p = 0; p < pair->wide.param_count; p++) {
        largest_of_all = fmax(largest_of_all, largest_of(&pair->wide.params[p]));
    }
    *out_exact = 0;
    *out_count = 0;
    for (size_t p = 0; p < pair->wide.param_count; p++) {
        const struct ddp_param *wide = &pair->wide.params[p];
        const uint16_t *grad = pair->rounded[p].grad;
        const double largest = is_normalized ? largest_of_all : largest_of(wide);

        CT_CHECK(pair->rounded[p].is_grad_defined == wide->is_grad_defined);
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
    compare(&pair, strcmp(config->name, "convnet") == 0, bound, &exact, &count);
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
        .name = "exact_linear", .width = {4, 3}, .width_count = 2, .precision = DDP_DTYPE_BF16};
    struct ref_model *model = NULL;
    struct ddp_device *device = NULL;
    struct ddp_err err = {""};

    CT_REQUIRE_OK(ddp_device_cpu_create(ddp_mem_system(), &device));
    CT_CHECK(!ref_model_is_roundable(&config));
    CT_CHECK_STATUS(ref_model_create(device, &config, 4, &model, &err), DDP_E_UNSUPPORTED);
    CT_CHECK(strstr(err.text, "model exact_linear computes in f32 only") != NULL);
    config.name = "mlp";
    config.precision = DDP_DTYPE_I32;
    CT_CHECK(ref_model_is_roundable(&config));
    CT_CHECK_STATUS(ref_model_create(device, &config, 4, &model, &err), DDP_E_INVALID);
    config.precision = DDP_DTYPE_F32;
    config.statistics = DDP_DTYPE_F64;
    CT_CHECK_STATUS(ref_model_create(device, &config, 4, &model, &err), DDP_E_INVALID);
    CT_CHECK_STR(err.text, "buffers are held in f32, f16 or bf16, not f64");
    device->ops->destroy(device);
}

static const struct ref_model_config convnet = {
    .name = "convnet", .width = {16, 2, 3, 4}, .width_count = 4, .seed = 3};

/* What a buffer of floats holds. */
static float statistic(const struct ddp_buffer *buffer, size_t i)
{
    return buffer->dtype == DDP_DTYPE_F32
               ? ((const float *)buffer->data)[i]
               : widen(buffer->dtype, ((const uint16_t *)buffer->data)[i]);
}

/* Both begin with the same, which each type holds: so after one pass a statistic of 16 bits is that
 * of f32, rounded. The second pass adds the same to 0.9 of each, and that is rounded once more:
 * half a unit in the last place, and what f32 rounds. */
static void check_statistics(enum ddp_dtype dtype)
{
    static struct fixture narrow_one, wide_one;
    struct ref_model_config config = convnet;
    const double unit = dtype == DDP_DTYPE_F16 ? 0x1p-11 : 0x1p-8;
    struct ddp_buffer *narrow_buffers, *wide_buffers;
    float first[6][3] = {{0}};
    float loss;
    size_t count;

    config.statistics = dtype;
    if (!fixture_open(&wide_one, &convnet) || !fixture_open(&narrow_one, &config)) {
        return;
    }
    wide_buffers = ref_model_buffers(wide_one.model, &count);
    narrow_buffers = ref_model_buffers(narrow_one.model, &count);
    CT_REQUIRE(count == 6);
    for (uint32_t pass = 0; pass < 2; pass++) {
        CT_REQUIRE_OK(ref_model_forward(narrow_one.model, &narrow_one.batch, NULL, &loss));
        CT_REQUIRE_OK(ref_model_forward(wide_one.model, &wide_one.batch, NULL, &loss));
        for (size_t b = 0; b < count; b++) {
            CT_CHECK(narrow_buffers[b].dtype ==
                     (wide_buffers[b].dtype == DDP_DTYPE_I64 ? DDP_DTYPE_I64 : dtype));
            if (narrow_buffers[b].dtype == DDP_DTYPE_I64) {
                CT_CHECK(*(const int64_t *)narrow_buffers[b].data == pass + 1);
                continue;
            }
            for (size_t i = 0; i < narrow_buffers[b].elem_count; i++) {
                const double wide = (double)statistic(&wide_buffers[b], i);
                const double held = (double)statistic(&narrow_buffers[b], i);
                const double kept = (double)widen(dtype, narrow(dtype, first[b][i]));
                const double due = 0.9 * kept + (wide - 0.9 * (double)first[b][i]);

                if (pass == 0) {
                    CT_CHECK(held == (double)widen(dtype, narrow(dtype, (float)wide)));
                    first[b][i] = (float)wide;
                } else {
                    CT_CHECK(fabs(held - due) <= unit * fabs(due) + 0x1p-20);
                }
            }
        }
    }
    fixture_close(&narrow_one);
    fixture_close(&wide_one);
}

CT_TEST(model_rounded, statistics_are_held_in_the_type)
{
    check_statistics(DDP_DTYPE_BF16);
    check_statistics(DDP_DTYPE_F16);
}
