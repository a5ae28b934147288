/* The elementwise kernels of models and optimizers against scalar loops, bit for bit, at odd sizes
 * and starts and with guards. Runs on every device. */
#include <math.h>
#include <string.h>

#include "tests/unit/device/device_bench.h"

enum { A, B, C, D };

/* Elements by which the four ranges are off an aligned address: aligned, alike, unlike. */
static const size_t leads[][4] = {{0, 0, 0, 0}, {3, 3, 3, 3}, {1, 0, 1, 2}};
enum { LEAD_COUNT = sizeof(leads) / sizeof(leads[0]) };

/* Around the pack width and beyond one block of threads. */
static const size_t counts[] = {0, 1, 2, 3, 4, 5, 7, 8, 9, 31, 32, 33, 69, 1027};
enum { COUNT_COUNT = sizeof(counts) / sizeof(counts[0]) };

/* A range of floats in [-1, 1) and its image on the device. */
struct tensor {
    const float *host;
    float *device;
};

static struct tensor tensor(struct bench *bench, unsigned range, size_t count, const size_t *lead,
                            struct ddp_prng *prng)
{
    float *data = (float *)bench_begin(bench, range, sizeof(float), count, lead[range]);

    for (size_t i = 0; i < count; i++) {
        data[i] = 2.0F * ddp_prng_uniform(prng) - 1.0F;
    }
    return (struct tensor){data, (float *)bench_push(bench, range)};
}

/* What the range held before, kept apart: a pull overwrites the host's image. */
static void keep(float *target, const struct tensor *source, size_t count)
{
    memcpy(target, source->host, count * sizeof(float));
}

enum { KEPT_MAX = 1027 };
static float kept_a[KEPT_MAX], kept_b[KEPT_MAX], kept_c[KEPT_MAX];

static void check_relu(struct bench *bench, size_t count, const size_t *lead, struct ddp_prng *prng)
{
    const struct ddp_math_ops *math = bench->device->math;
    struct tensor x = tensor(bench, A, count, lead, prng);
    struct tensor y = tensor(bench, B, count, lead, prng);
    struct tensor dy = tensor(bench, C, count, lead, prng);
    struct tensor dx = tensor(bench, D, count, lead, prng);

    CT_CHECK_OK(math->relu(bench->device, NULL, y.device, x.device, count));
    CT_CHECK_OK(math->relu_backward(bench->device, NULL, dx.device, dy.device, y.device, count));
    (void)bench_pull(bench, B);
    (void)bench_pull(bench, D);
    for (size_t i = 0; i < count; i++) {
        CT_CHECK(y.host[i] == (x.host[i] > 0.0F ? x.host[i] : 0.0F));
        CT_CHECK(dx.host[i] == (x.host[i] > 0.0F ? dy.host[i] : 0.0F));
    }
    CT_CHECK_OK(math->relu_backward(bench->device, NULL, dy.device, dy.device, y.device, count));
    (void)bench_pull(bench, C);
    CT_CHECK_BYTES(dy.host, dx.host, count * sizeof(float));
}

/* ReLU and its backward follow y > 0, in place or not, and keep a NaN visible. */
CT_TEST(math, relu)
{
    struct bench bench;
    struct ddp_prng prng = ddp_prng_make(4, "test/relu");
    float *special;
    float *on_special;

    BENCH_OPEN(&bench);
    for (size_t n = 0; n < COUNT_COUNT; n++) {
        for (size_t l = 0; l < LEAD_COUNT; l++) {
            check_relu(&bench, counts[n], leads[l], &prng);
        }
    }
    special = (float *)bench_begin(&bench, A, sizeof(*special), 5, 0);
    special[0] = NAN;
    special[1] = -0.0F;
    special[2] = INFINITY;
    special[3] = -INFINITY;
    special[4] = 0x1p-149F;
    on_special = (float *)bench_push(&bench, A);
    CT_CHECK_OK(bench.device->math->relu(bench.device, NULL, on_special, on_special, 5));
    special = (float *)bench_pull(&bench, A);
    CT_CHECK(isnan(special[0]) && special[1] == 0.0F && !signbit(special[1]));
    CT_CHECK(isinf(special[2]) && special[3] == 0.0F && special[4] == 0x1p-149F);
    bench_close(&bench);
}

/* axpy rounds the product, then the sum. */
CT_TEST(math, axpy)
{
    struct bench bench;
    struct ddp_prng prng = ddp_prng_make(5, "test/axpy");

    BENCH_OPEN(&bench);
    for (size_t n = 0; n < COUNT_COUNT * LEAD_COUNT; n++) {
        size_t count = counts[n / LEAD_COUNT];
        struct tensor x = tensor(&bench, A, count, leads[n % LEAD_COUNT], &prng);
        struct tensor y = tensor(&bench, B, count, leads[n % LEAD_COUNT], &prng);

        keep(kept_b, &y, count);
        CT_CHECK_OK(bench.device->math->axpy(bench.device, NULL, y.device, x.device, 0.3F, count));
        (void)bench_pull(&bench, B);
        for (size_t i = 0; i < count; i++) {
            volatile float product = 0.3F * x.host[i];
            CT_CHECK(y.host[i] == kept_b[i] + product);
        }
    }
    bench_close(&bench);
}

static void check_sgd(struct bench *bench, const struct ddp_sgd *config, size_t count,
                      const size_t *lead, struct ddp_prng *prng)
{
    struct tensor param = tensor(bench, A, count, lead, prng);
    struct tensor grad = tensor(bench, B, count, lead, prng);
    struct tensor buffer = tensor(bench, C, count, lead, prng);
    volatile float keep_part = 1.0F - config->dampening;

    keep(kept_a, &param, count);
    keep(kept_b, &buffer, count);
    CT_CHECK_OK(bench->device->math->sgd(bench->device, NULL, config, param.device, grad.device,
                                         config->momentum == 0.0F ? NULL : buffer.device, count));
    (void)bench_pull(bench, A);
    (void)bench_pull(bench, C);
    for (size_t i = 0; i < count; i++) {
        volatile float decay = config->weight_decay * kept_a[i];
        volatile float d = grad.host[i] + decay;
        volatile float step = d;
        if (config->momentum != 0.0F) {
            volatile float old = config->momentum * kept_b[i];
            volatile float fresh = keep_part * d;
            volatile float next = config->is_first_step ? d : old + fresh;
            volatile float ahead = config->momentum * next;
            CT_CHECK(buffer.host[i] == next);
            step = config->nesterov ? d + ahead : next;
        } else {
            CT_CHECK(buffer.host[i] == kept_b[i]);
        }
        step = config->lr * step;
        CT_CHECK(param.host[i] == kept_a[i] - step);
    }
}

/* SGD in all its forms rounds each product and each sum once, in the order of the formula. */
CT_TEST(math, sgd)
{
    static const struct ddp_sgd configs[] = {
        {.lr = 0.1F, .weight_decay = 0.01F},
        {.lr = 0.1F, .momentum = 0.9F, .is_first_step = true},
        {.lr = 0.1F, .momentum = 0.9F, .weight_decay = 0.01F, .dampening = 0.3F},
        {.lr = 0.1F, .momentum = 0.9F, .weight_decay = 0.01F, .nesterov = true}};
    struct bench bench;
    struct ddp_prng prng = ddp_prng_make(8, "test/sgd");

    BENCH_OPEN(&bench);
    for (size_t c = 0; c < sizeof(configs) / sizeof(configs[0]); c++) {
        for (size_t n = 0; n < COUNT_COUNT * LEAD_COUNT; n++) {
            check_sgd(&bench, &configs[c], counts[n / LEAD_COUNT], leads[n % LEAD_COUNT], &prng);
        }
    }
    bench_close(&bench);
}

static void check_adamw(struct bench *bench, const struct ddp_adamw *config, size_t count,
                        const size_t *lead, struct ddp_prng *prng)
{
    const struct ddp_adamw c = *config;
    struct tensor param = tensor(bench, A, count, lead, prng);
    struct tensor grad = tensor(bench, B, count, lead, prng);
    struct tensor m = tensor(bench, C, count, lead, prng);
    struct tensor v = tensor(bench, D, count, lead, prng);
    volatile float decay = c.lr * c.weight_decay;
    volatile float shrink = 1.0F - decay;
    volatile float rest1 = 1.0F - c.beta1;
    volatile float rest2 = 1.0F - c.beta2;
    volatile float step = c.lr / c.bias_correction1;
    volatile float root2 = sqrtf(c.bias_correction2);

    keep(kept_a, &param, count);
    keep(kept_b, &m, count);
    keep(kept_c, &v, count);
    CT_CHECK_OK(bench->device->math->adamw(bench->device, NULL, config, param.device, grad.device,
                                           m.device, v.device, count));
    (void)bench_pull(bench, A);
    (void)bench_pull(bench, C);
    (void)bench_pull(bench, D);
    for (size_t i = 0; i < count; i++) {
        volatile float m_old = c.beta1 * kept_b[i];
        volatile float m_new = rest1 * grad.host[i];
        volatile float m_next = m_old + m_new;
        volatile float square = grad.host[i] * grad.host[i];
        volatile float v_old = c.beta2 * kept_c[i];
        volatile float v_new = rest2 * square;
        volatile float v_next = v_old + v_new;
        volatile float root = sqrtf(v_next);
        volatile float ratio = root / root2;
        volatile float denominator = ratio + c.eps;
        volatile float quotient = m_next / denominator;
        volatile float move = step * quotient;
        volatile float decayed = kept_a[i] * shrink;
        float expected = decayed - move;
        CT_CHECK(m.host[i] == m_next && v.host[i] == v_next);
        CT_CHECK(param.host[i] == expected || (isnan(param.host[i]) && isnan(expected)));
    }
}

/* AdamW rounds each elementwise operation once, in the order of the formula; v below zero, which
 * half of these are, gives NaN and hides nothing. */
CT_TEST(math, adamw)
{
    const struct ddp_adamw config = {.lr = 0.01F,
                                     .beta1 = 0.9F,
                                     .beta2 = 0.999F,
                                     .eps = 1e-8F,
                                     .weight_decay = 0.1F,
                                     .bias_correction1 = 0.19F,
                                     .bias_correction2 = 0.001999F};
    struct bench bench;
    struct ddp_prng prng = ddp_prng_make(9, "test/adamw");

    BENCH_OPEN(&bench);
    for (size_t n = 0; n < COUNT_COUNT * LEAD_COUNT; n++) {
        check_adamw(&bench, &config, counts[n / LEAD_COUNT], leads[n % LEAD_COUNT], &prng);
    }
    bench_close(&bench);
}
