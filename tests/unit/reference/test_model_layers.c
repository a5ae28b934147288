/* What models with layers of their own keep beside gradients. */
#include <math.h>

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
