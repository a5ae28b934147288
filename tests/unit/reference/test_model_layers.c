/* What models with layers of their own keep beside gradients. */
#include <math.h>
#include <string.h>

#include "tests/unit/reference/model_fixture.h"

enum { ROWS = FIXTURE_ROWS };

static const struct ref_model_config convnet = {
    .name = "convnet", .width = {16, 2, 3, 4}, .width_count = 4, .seed = 3};

/* convnet's buffers are those of torch.nn.BatchNorm2d in training: momentum 0.1, the variance with
 * n - 1, and a count of batches. */
CT_TEST(model, convnet_running_statistics)
{
    static struct fixture f;
    static struct fp64_params params;
    double moments[5][2];
    struct ddp_buffer *buffers;
    size_t count;
    float loss;

    CT_REQUIRE(fixture_open(&f, &convnet));
    buffers = ref_model_buffers(f.model, &count);
    CT_REQUIRE(count == 6);
    CT_CHECK_STR(buffers[4].name, "bn1.running_var");
    CT_CHECK_OK(ref_model_forward(f.model, &f.batch, NULL, &loss));
    CT_CHECK_OK(ref_model_forward(f.model, &f.batch, NULL, &loss));
    fp64_load(&params, f.params, f.param_count);
    (void)fp64_convnet_loss(&convnet, &params, &f.batch, moments);
    for (size_t block = 0; block < 2; block++) {
        double pixels = ROWS * (block == 0 ? 16.0 : 4.0);

        for (size_t c = 0; c < convnet.width[1 + block]; c++) {
            const double *moment = moments[2 * block + c];
            double mean = (double)((const float *)buffers[3 * block].data)[c];
            double variance = (double)((const float *)buffers[3 * block + 1].data)[c];

            /* two steps from 0 and from 1; about 2 * 96 roundings of values below 1 */
            CT_CHECK(fabs(mean - 0.19 * moment[0]) <= 200.0 * 0x1p-24);
            CT_CHECK(fabs(variance - 0.81 - 0.19 * moment[1] * pixels / (pixels - 1.0)) <=
                     200.0 * 0x1p-24);
        }
        CT_CHECK(buffers[3 * block + 2].dtype == DDP_DTYPE_I64);
        CT_CHECK(*(const int64_t *)buffers[3 * block + 2].data == 2);
    }
    fixture_close(&f);
}

static const struct ref_model_config moe = {
    .name = "moe", .width = {5, 6, 4}, .width_count = 3, .experts = 5, .seed = 3};

static void give_all_rows_to(struct fixture *f, size_t expert)
{
    for (size_t e = 0; e < moe.experts; e++) {
        data_of(&f->params[3])[e] = e == expert ? 100.0F : 0.0F; /* router.bias */
    }
}

/* The data decide which experts are used: all others have no gradient, and ref_model_used says so.
 */
CT_TEST(model, moe_uses_what_the_data_choose)
{
    static struct fixture f;
    bool is_used[FP64_PARAMS_MAX];
    float loss;

    CT_REQUIRE(fixture_open(&f, &moe));
    CT_REQUIRE(f.param_count == 4 + 4 * moe.experts + 2);
    for (size_t expert = 0; expert < moe.experts; expert++) {
        give_all_rows_to(&f, expert);
        ref_model_zero_grad(f.model);
        CT_CHECK_OK(ref_model_forward(f.model, &f.batch, NULL, &loss));
        ref_model_used(f.model, is_used);
        CT_CHECK_OK(ref_model_backward(f.model, 1.0F, NULL));
        for (size_t p = 0; p < f.param_count; p++) {
            bool is_expert = p >= 4 && p < 4 + 4 * moe.experts;
            CT_CHECK(is_used[p] == (!is_expert || (p - 4) / 4 == expert));
            CT_CHECK(is_used[p] == f.params[p].is_grad_defined);
        }
    }
    fixture_close(&f);
}

/* What is announced of a parameter. */
struct announced {
    const struct ddp_param *params;
    size_t count[FP64_PARAMS_MAX];
    float first[FP64_PARAMS_MAX][FP64_ELEMS_MAX];
};

static ddp_status announce(void *context, size_t param)
{
    struct announced *seen = (struct announced *)context;

    seen->count[param]++;
    memcpy(seen->first[param], seen->params[param].grad,
           seen->params[param].elem_count * sizeof(float));
    return DDP_OK;
}

/* The tied weight of gpt is announced once, and only when both of its uses have contributed: the
 * gradient does not change after that. The embedding's part is in it: each token that was read has
 * more than the head gives it. */
CT_TEST(model, gpt_announces_the_tied_weight_last)
{
    static const struct ref_model_config gpt = {
        .name = "gpt", .width = {3, 4, 5}, .width_count = 3, .heads = 2, .seed = 3};
    static struct fixture f;
    static struct announced seen;
    const struct ref_model_observer observer = {.context = &seen, .grad_ready = announce};
    float loss;

    CT_REQUIRE(fixture_open(&f, &gpt));
    seen.params = f.params;
    CT_CHECK_OK(ref_model_forward(f.model, &f.batch, NULL, &loss));
    CT_CHECK_OK(ref_model_backward(f.model, 1.0F, &observer));
    for (size_t p = 0; p < f.param_count; p++) {
        CT_CHECK_EQ_U64(seen.count[p], 1);
        CT_CHECK_BYTES(seen.first[p], f.params[p].grad, f.params[p].elem_count * sizeof(float));
    }
    fixture_close(&f);
}

/* What is no token is refused: below 0, as many as there are, far beyond, NaN. */
CT_TEST(model, gpt_refuses_what_is_no_token)
{
    static const struct ref_model_config gpt = {
        .name = "gpt", .width = {3, 4, 5}, .width_count = 3, .heads = 2, .seed = 3};
    static const float wrong[] = {-1.0F, 5.0F, 1e30F, NAN, -INFINITY};
    static struct fixture f;
    float loss;

    CT_REQUIRE(fixture_open(&f, &gpt));
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        float kept = f.features[7];

        f.features[7] = wrong[i];
        CT_CHECK_STATUS(ref_model_forward(f.model, &f.batch, NULL, &loss), DDP_E_INVALID);
        f.features[7] = kept;
        CT_CHECK_OK(ref_model_forward(f.model, &f.batch, NULL, &loss));
    }
    fixture_close(&f);
}
