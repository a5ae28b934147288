/* Clipping by the norm over all parameters: against a sum in long double, in each type; what is not
 * finite; when it may be called. */
#include <math.h>
#include <string.h>

#include "ddpcore/ddp/clip.h"
#include "tests/ct.h"
#include "tests/unit/ddp/ddp_job.h"

enum { COUNT = 5 };

static float value_of(enum ddp_dtype dtype, const void *data, size_t i)
{
    switch (dtype) {
    case DDP_DTYPE_F16:
        return ddp_f16_to_f32(((const uint16_t *)data)[i]);
    case DDP_DTYPE_BF16:
        return ddp_bf16_to_f32(((const uint16_t *)data)[i]);
    default:
        return ((const float *)data)[i];
    }
}

struct tables {
    struct ddp_device *device;
    struct ddp_transfer transfer;
    float first[COUNT];
    uint16_t second[COUNT], third[COUNT];
    struct ddp_param params[4]; /* the last one has no gradient */
};

static void tables_init(struct tables *t)
{
    memset(t, 0, sizeof(*t));
    CT_REQUIRE(ddp_device_cpu_create(ddp_mem_system(), &t->device) == DDP_OK);
    CT_REQUIRE(ddp_transfer_init(&t->transfer, t->device, NULL, NULL, 0) == DDP_OK);
    for (size_t i = 0; i < COUNT; i++) {
        t->first[i] = (float)i - 1.5F;
        t->second[i] = ddp_f16_from_f32((float)i * 0.25F);
        t->third[i] = ddp_bf16_from_f32(-(float)i);
    }
    t->params[0] = (struct ddp_param){
        .grad = t->first, .elem_count = COUNT, .dtype = DDP_DTYPE_F32, .is_grad_defined = true};
    t->params[1] = (struct ddp_param){
        .grad = t->second, .elem_count = COUNT, .dtype = DDP_DTYPE_F16, .is_grad_defined = true};
    t->params[2] = (struct ddp_param){
        .grad = t->third, .elem_count = COUNT, .dtype = DDP_DTYPE_BF16, .is_grad_defined = true};
    t->params[3] = (struct ddp_param){.grad = NULL, .elem_count = COUNT, .dtype = DDP_DTYPE_F32};
}

static void tables_fini(struct tables *t)
{
    ddp_transfer_fini(&t->transfer);
    t->device->ops->destroy(t->device);
}

static double norm_of(const struct tables *t)
{
    long double sum = 0;

    for (size_t p = 0; p < 3; p++) {
        for (size_t i = 0; i < COUNT; i++) {
            const long double value = value_of(t->params[p].dtype, t->params[p].grad, i);

            sum += value * value;
        }
    }
    return (double)sqrtl(sum);
}

CT_TEST(clip, one_norm_over_all_parameters)
{
    struct tables t, before;
    double norm = 0;
    float factor;

    tables_init(&t);
    before = t;
    CT_CHECK_STATUS(ddp_clip_params(t.device, &t.transfer, t.params, 4, 0.5, &norm), DDP_OK);
    for (size_t p = 0; p < 3; p++) { /* the copy's tables point to the clipped values */
        before.params[p].grad = p == 0   ? (void *)before.first
                                : p == 1 ? (void *)before.second
                                         : (void *)before.third;
    }
    CT_CHECK(fabs(norm - norm_of(&before)) < 1e-12);
    factor = (float)(0.5 / (norm + 1e-6));
    for (size_t i = 0; i < COUNT; i++) {
        CT_CHECK(t.first[i] == before.first[i] * factor);
        CT_CHECK(t.second[i] == ddp_f16_from_f32(ddp_f16_to_f32(before.second[i]) * factor));
        CT_CHECK(t.third[i] == ddp_bf16_from_f32(ddp_bf16_to_f32(before.third[i]) * factor));
    }
    CT_CHECK(norm_of(&t) < 0.5 + 1e-2);
    tables_fini(&t);
}

/* Doubles are squared, added and scaled as such: fp32 would have neither the norm nor the bits. */
CT_TEST(clip, doubles_are_clipped_as_doubles)
{
    double grad[2] = {3.0 + 0x1p-40, -4.0e40};
    const double before[2] = {grad[0], grad[1]};
    const struct ddp_param param = {
        .grad = grad, .elem_count = 2, .dtype = DDP_DTYPE_F64, .is_grad_defined = true};
    const double factor = 1.0 / (sqrt(before[0] * before[0] + before[1] * before[1]) + 1e-6);
    struct ddp_transfer transfer;
    struct ddp_device *device;
    double norm = 0;

    CT_REQUIRE(ddp_device_cpu_create(ddp_mem_system(), &device) == DDP_OK);
    CT_REQUIRE(ddp_transfer_init(&transfer, device, NULL, NULL, 0) == DDP_OK);
    CT_CHECK_OK(ddp_clip_params(device, &transfer, &param, 1, 1.0, &norm));
    CT_CHECK(norm == sqrt(before[0] * before[0] + before[1] * before[1]));
    CT_CHECK(grad[0] == before[0] * factor && grad[1] == before[1] * factor);
    ddp_transfer_fini(&transfer);
    device->ops->destroy(device);
}

CT_TEST(clip, small_gradients_stay)
{
    struct tables t;
    float before[COUNT];
    double norm = 0;

    tables_init(&t);
    memcpy(before, t.first, sizeof(before));
    CT_CHECK_STATUS(ddp_clip_params(t.device, &t.transfer, t.params, 4, 1e3, &norm), DDP_OK);
    CT_CHECK_BYTES(t.first, before, sizeof(before));
    CT_CHECK_STATUS(ddp_clip_params(t.device, &t.transfer, t.params, 4, 0, &norm), DDP_E_INVALID);
    CT_CHECK_STATUS(ddp_clip_params(t.device, &t.transfer, t.params, 4, NAN, NULL), DDP_E_INVALID);
    CT_CHECK_BYTES(t.first, before, sizeof(before));
    t.params[3] = (struct ddp_param){
        .grad = t.first, .elem_count = 1, .dtype = DDP_DTYPE_I32, .is_grad_defined = true};
    CT_CHECK_STATUS(ddp_clip_params(t.device, &t.transfer, t.params, 4, 1, NULL),
                    DDP_E_UNSUPPORTED);
    tables_fini(&t);
}

/* As in PyTorch: an infinite norm makes zeros, and NaN of what was infinite; a NaN makes all NaN.
 */
CT_TEST(clip, not_finite_is_never_hidden)
{
    struct tables t;
    double norm = 0;

    tables_init(&t);
    t.first[2] = INFINITY;
    CT_CHECK_STATUS(ddp_clip_params(t.device, &t.transfer, t.params, 4, 1, &norm), DDP_OK);
    CT_CHECK(isinf(norm) && isnan(t.first[2]) && t.first[0] == 0);
    tables_fini(&t);
    tables_init(&t);
    t.first[2] = NAN;
    CT_CHECK_STATUS(ddp_clip_params(t.device, &t.transfer, t.params, 4, 1e6, &norm), DDP_OK);
    CT_CHECK(isnan(norm) && isnan(t.first[0]) && isnan(ddp_f16_to_f32(t.second[1])));
    tables_fini(&t);
}

static void clip_in_turn(struct world_rank *rank)
{
    struct job job;
    struct ddp_config config = job_config();
    struct ddp_model model = {.params = job.params, .param_count = JOB_PARAM_COUNT};
    double norm = 0;

    job_init(&job, rank->rank);
    CT_REQUIRE(ddp_create(&rank->group, rank->device, &model, &config, &job.ddp, NULL) == DDP_OK);
    CT_CHECK_STATUS(job_step(&job, rank->rank, 0, NULL), DDP_OK);
    CT_CHECK_STATUS(ddp_clip_grad_norm(job.ddp, 1, &norm), DDP_OK);
    CT_CHECK(norm > 0);
    CT_CHECK_STATUS(ddp_clip_grad_norm(job.ddp, 1, &norm), DDP_OK);
    CT_CHECK(norm <= 1);
    /* All ranks have the same gradients afterwards. */
    memcpy(((float *)rank->arg) + rank->rank * JOB_ELEM_MAX, job.grad[1], sizeof(job.grad[1]));
    job_zero_grad(&job);
    CT_CHECK_STATUS(ddp_forward_begin(job.ddp), DDP_OK);
    CT_CHECK_STATUS(ddp_backward_begin(job.ddp, NULL), DDP_OK);
    CT_CHECK_STATUS(ddp_clip_grad_norm(job.ddp, 1, NULL), DDP_E_STATE); /* before the reduction */
    ddp_destroy(job.ddp);
}

CT_TEST(clip, only_after_the_reduction)
{
    float grads[2][JOB_ELEM_MAX];
    const struct world_config config = {
        .world_size = 2, .program = clip_in_turn, .arg = grads, .timeout_ns = DDP_NS_PER_S};

    world_run(&config);
    CT_CHECK_BYTES(grads[0], grads[1], sizeof(grads[0]));
}
