/* Optimizers against scalar fp32 arithmetic, bit for bit. Each product and sum below goes through a
 * volatile, so that the compiler can neither fuse nor reorder them. */
#include <math.h>
#include <string.h>

#include "ddpcore/base/prng.h"
#include "reference/optimizer.h"
#include "tests/ct.h"

enum { PARAM_COUNT = 3, ELEMS_MAX = 100, STEPS = 7 };
static const size_t elem_counts[PARAM_COUNT] = {1, 67, 33};

struct fixture {
    struct ddp_device *device;
    struct ddp_param params[PARAM_COUNT];
    struct ref_optimizer *optimizer;
    float data[PARAM_COUNT][ELEMS_MAX], grad[PARAM_COUNT][ELEMS_MAX];
    /* what the scalar emulation holds */
    float expected[PARAM_COUNT][ELEMS_MAX];
    float slot[2][PARAM_COUNT][ELEMS_MAX];
};

static bool fixture_open(struct fixture *f, const struct ref_optimizer_config *config)
{
    struct ddp_prng prng = ddp_prng_make(1, "test/optimizer");

    memset(f, 0, sizeof(*f));
    for (size_t p = 0; p < PARAM_COUNT; p++) {
        f->params[p] = (struct ddp_param){
            .name = "p", .data = f->data[p], .grad = f->grad[p], .elem_count = elem_counts[p]};
        for (size_t i = 0; i < elem_counts[p]; i++) {
            f->data[p][i] = 2.0F * ddp_prng_uniform(&prng) - 1.0F;
            f->expected[p][i] = f->data[p][i];
        }
        f->data[p][elem_counts[p]] = -7.0F; /* guard */
    }
    return ddp_device_cpu_create(ddp_mem_system(), &f->device) == DDP_OK &&
           ref_optimizer_create(f->device, f->params, PARAM_COUNT, config, &f->optimizer) == DDP_OK;
}

static void fixture_close(struct fixture *f)
{
    ref_optimizer_destroy(f->optimizer);
    f->device->ops->destroy(f->device);
}

static float mul(float a, float b)
{
    volatile float product = a * b;
    return product;
}

static float add(float a, float b)
{
    volatile float sum = a + b;
    return sum;
}

static void emulate_sgd(const struct ref_optimizer_config *c, bool is_first, float *param,
                        float grad, float *buffer)
{
    float d = add(grad, mul(c->weight_decay, *param));

    if (c->momentum != 0.0F) {
        *buffer = is_first ? d : add(mul(c->momentum, *buffer), mul(add(1.0F, -c->dampening), d));
        d = c->nesterov ? add(d, mul(c->momentum, *buffer)) : *buffer;
    }
    *param = add(*param, -mul(c->lr, d));
}

static void emulate_adamw(const struct ref_optimizer_config *c, unsigned step, float *param,
                          float grad, float *m, float *v)
{
    float correction1 = (float)(1.0 - pow((double)c->beta1, (double)step));
    float correction2 = (float)(1.0 - pow((double)c->beta2, (double)step));
    volatile float rate = c->lr / correction1;
    volatile float root = sqrtf(correction2);
    volatile float quotient;

    *param = mul(*param, add(1.0F, -mul(c->lr, c->weight_decay)));
    *m = add(mul(c->beta1, *m), mul(add(1.0F, -c->beta1), grad));
    *v = add(mul(c->beta2, *v), mul(add(1.0F, -c->beta2), mul(grad, grad)));
    quotient = sqrtf(*v);
    quotient = quotient / root;
    quotient = add(quotient, c->eps);
    quotient = *m / quotient;
    *param = add(*param, -mul(rate, quotient));
}

/* Param 1 has no gradient in odd steps: it stands still then, and its own count goes on. */
static bool has_grad(size_t param, unsigned step)
{
    return param != 1 || step % 2 == 0;
}

static void run_and_compare(const struct ref_optimizer_config *config)
{
    static struct fixture f;
    struct ddp_prng prng = ddp_prng_make(2, "test/gradient");
    unsigned taken[PARAM_COUNT] = {0};

    CT_REQUIRE(fixture_open(&f, config));
    for (unsigned step = 0; step < STEPS; step++) {
        for (size_t p = 0; p < PARAM_COUNT; p++) {
            f.params[p].is_grad_defined = has_grad(p, step);
            taken[p] += has_grad(p, step) ? 1 : 0;
            for (size_t i = 0; i < elem_counts[p]; i++) {
                float grad = 2.0F * ddp_prng_uniform(&prng) - 1.0F;
                f.grad[p][i] = grad;
                if (!has_grad(p, step)) {
                    continue;
                }
                if (config->kind == REF_OPTIMIZER_SGD) {
                    emulate_sgd(config, taken[p] == 1, &f.expected[p][i], grad, &f.slot[0][p][i]);
                } else {
                    emulate_adamw(config, taken[p], &f.expected[p][i], grad, &f.slot[0][p][i],
                                  &f.slot[1][p][i]);
                }
            }
        }
        CT_REQUIRE_OK(ref_optimizer_step(f.optimizer, NULL, NULL));
    }
    for (size_t p = 0; p < PARAM_COUNT; p++) {
        size_t size_bytes = elem_counts[p] * sizeof(float);

        CT_CHECK_BYTES(f.data[p], f.expected[p], size_bytes);
        CT_CHECK(f.data[p][elem_counts[p]] == -7.0F);
        CT_CHECK_EQ_U64(*ref_optimizer_step_count(f.optimizer, p), taken[p]);
        for (size_t slot = 0; slot < ref_optimizer_slot_count(f.optimizer); slot++) {
            CT_CHECK_BYTES(ref_optimizer_slot(f.optimizer, slot, p), f.slot[slot][p], size_bytes);
        }
    }
    fixture_close(&f);
}

/* Plain SGD, with and without weight decay, has no state. */
CT_TEST(optimizer, sgd_plain)
{
    struct ref_optimizer_config config;
    struct fixture f;

    ref_optimizer_defaults(&config, REF_OPTIMIZER_SGD);
    CT_CHECK(config.lr == 0.01F && config.momentum == 0.0F && config.weight_decay == 0.0F);
    run_and_compare(&config);
    config.weight_decay = 0.1F;
    run_and_compare(&config);
    CT_REQUIRE(fixture_open(&f, &config));
    CT_CHECK_EQ_U64(ref_optimizer_slot_count(f.optimizer), 0);
    CT_CHECK(ref_optimizer_slot(f.optimizer, 0, 0) == NULL);
    fixture_close(&f);
}

/* Momentum, dampening and Nesterov; the buffer starts as each parameter's first gradient. */
CT_TEST(optimizer, sgd_momentum)
{
    struct ref_optimizer_config config;

    ref_optimizer_defaults(&config, REF_OPTIMIZER_SGD);
    config.momentum = 0.9F;
    run_and_compare(&config);
    config.weight_decay = 0.01F;
    config.dampening = 0.3F;
    run_and_compare(&config);
    config.dampening = 0.0F;
    config.nesterov = true;
    run_and_compare(&config);
}

/* AdamW with PyTorch's defaults and with unusual settings. */
CT_TEST(optimizer, adamw)
{
    struct ref_optimizer_config config;

    ref_optimizer_defaults(&config, REF_OPTIMIZER_ADAMW);
    CT_CHECK(config.lr == 1e-3F && config.beta1 == 0.9F && config.beta2 == 0.999F);
    CT_CHECK(config.eps == 1e-8F && config.weight_decay == 0.01F);
    run_and_compare(&config);
    config.beta1 = 0.5F;
    config.beta2 = 0.7F;
    config.eps = 0.1F;
    config.lr = 0.3F;
    run_and_compare(&config);
}

/* A sequence that is exact by hand: lr 1/2, momentum 1/2, gradient 1 each step moves the parameter
 * by 1/2, 3/4, 7/8; Nesterov by 3/4, 7/8, 15/16. */
CT_TEST(optimizer, known_sequence)
{
    const float plain[3] = {-0.5F, -1.25F, -2.125F};
    const float nesterov[3] = {-0.75F, -1.625F, -2.5625F};

    for (int is_nesterov = 0; is_nesterov < 2; is_nesterov++) {
        struct ref_optimizer_config config = {
            .kind = REF_OPTIMIZER_SGD, .lr = 0.5F, .momentum = 0.5F, .nesterov = is_nesterov == 1};
        struct fixture f;

        CT_REQUIRE(fixture_open(&f, &config));
        f.data[0][0] = 0.0F;
        f.grad[0][0] = 1.0F;
        f.params[0].is_grad_defined = true;
        for (size_t step = 0; step < 3; step++) {
            CT_CHECK_OK(ref_optimizer_step(f.optimizer, NULL, NULL));
            CT_CHECK(f.data[0][0] == (is_nesterov ? nesterov[step] : plain[step]));
        }
        fixture_close(&f);
    }
}

static ddp_status stop_at_second(void *context, size_t param)
{
    *(size_t *)context = param;
    return param == 1 ? DDP_E_INJECTED : DDP_OK;
}

/* The observer sees each update and can stop the step between two parameters. */
CT_TEST(optimizer, observer_stops)
{
    struct ref_optimizer_config config;
    static struct fixture f;
    size_t last = SIZE_MAX;

    ref_optimizer_defaults(&config, REF_OPTIMIZER_ADAMW);
    CT_REQUIRE(fixture_open(&f, &config));
    for (size_t p = 0; p < PARAM_COUNT; p++) {
        f.params[p].is_grad_defined = true;
        f.grad[p][0] = 1.0F;
    }
    CT_CHECK_STATUS(ref_optimizer_step(f.optimizer, stop_at_second, &last), DDP_E_INJECTED);
    CT_CHECK_EQ_U64(last, 1);
    CT_CHECK(f.data[1][0] != f.expected[1][0] && f.data[2][0] == f.expected[2][0]);
    fixture_close(&f);
}

/* State names are PyTorch's; failed allocations leak nothing. */
CT_TEST(optimizer, names_and_errors)
{
    struct ref_optimizer_config config;
    struct ddp_mem_pool *pool;
    struct ddp_device *device;
    struct ref_optimizer *optimizer;
    struct ddp_param param = {.name = "p", .elem_count = 3};

    CT_REQUIRE_OK(ddp_mem_pool_create(&pool));
    CT_REQUIRE_OK(ddp_device_cpu_create(ddp_mem_pool_mem(pool), &device));
    ref_optimizer_defaults(&config, REF_OPTIMIZER_ADAMW);
    for (uint64_t nth = 0; nth < 5; nth++) {
        ddp_mem_pool_fail_after(pool, nth, 1);
        CT_CHECK_STATUS(ref_optimizer_create(device, &param, 1, &config, &optimizer), DDP_E_NOMEM);
        CT_CHECK_EQ_U64(ddp_mem_pool_block_count(pool), 1);
    }
    CT_CHECK_OK(ref_optimizer_create(device, &param, 1, &config, &optimizer));
    CT_CHECK_STR(ref_optimizer_slot_name(optimizer, 0), "exp_avg");
    CT_CHECK_STR(ref_optimizer_slot_name(optimizer, 1), "exp_avg_sq");
    CT_CHECK(ref_optimizer_slot_name(optimizer, 2) == NULL);
    ref_optimizer_destroy(optimizer);
    device->ops->destroy(device);
    ddp_mem_pool_destroy(pool);
}
