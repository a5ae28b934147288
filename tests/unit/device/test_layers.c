/* The kernels of layers.h that compute, against naive fp64 loops with bounds derived from the
 * operation counts; and what a NaN does. Runs on every device that has them. */
#include <math.h>
#include <string.h>

#include "tests/unit/device/layers_bench.h"

enum { A, B, C, D, E, F, G };

/* u: the unit roundoff of fp32. */
#define U 0x1p-24

static const size_t shapes[][2] = {{2, 1}, {3, 7}, {17, 16}, {9, 33}, {40, 300}, {65, 128}};

/* Of n values in [-1, 1) that are brought to deviation 1: mean and variance carry at most (n + 3) u
 * each, relative to sums of values below 1 and 4; their effect on y is that divided by the
 * deviation, `inverse`, and for the variance half of y. |y| <= sqrt(n). */
static double normalized_bound(size_t n, double inverse)
{
    double count = (double)n;

    return U * ((count + 6.0) * inverse + (count + 8.0) * 2.0 * inverse * inverse * sqrt(count));
}

/* stride: between the elements of a row or column. Returns 1 / deviation. */
static double normalize(const float *x, size_t n, size_t stride, double eps, double *y)
{
    double mean = 0.0;
    double variance = 0.0;

    for (size_t i = 0; i < n; i++) {
        mean += (double)x[i * stride] / (double)n;
    }
    for (size_t i = 0; i < n; i++) {
        double off = (double)x[i * stride] - mean;
        variance += off * off / (double)n;
    }
    for (size_t i = 0; i < n; i++) {
        y[i] = ((double)x[i * stride] - mean) / sqrt(variance + eps);
    }
    return 1.0 / sqrt(variance + eps);
}

/* dx of one row or column, from the kernel's own y and inverse: n products and sums below n. */
static void check_back(const float *dx, const float *dy, const float *y, double inverse, size_t n,
                       size_t stride)
{
    double sum = 0.0;
    double dot = 0.0;
    double magnitude = 0.0;
    double largest = 0.0;

    for (size_t i = 0; i < n; i++) {
        double product = (double)dy[i * stride] * (double)y[i * stride];

        sum += (double)dy[i * stride] / (double)n;
        dot += product / (double)n;
        magnitude += fabs(product) / (double)n;
        largest = fmax(largest, fabs((double)y[i * stride]));
    }
    for (size_t i = 0; i < n; i++) {
        double exact = inverse * ((double)dy[i * stride] - sum - (double)y[i * stride] * dot);

        LAYERS_NEAR(dx[i * stride], exact,
                    ((double)n + 8.0) * U * inverse * (2.0 + largest * (magnitude + 1.0)));
    }
}

static double exact[300];

static void check_rows(struct bench *bench, size_t rows, size_t columns, struct ddp_prng *prng)
{
    const struct ddp_layer_ops *layers = bench->device->layers;
    struct layers_tensor x = layers_tensor(bench, A, rows * columns, prng);
    struct layers_tensor y = layers_tensor(bench, B, rows * columns, prng);
    struct layers_tensor inverse = layers_tensor(bench, C, rows, prng);
    struct layers_tensor dy = layers_tensor(bench, D, rows * columns, prng);
    struct layers_tensor dx = layers_tensor(bench, E, rows * columns, prng);

    CT_CHECK_OK(layers->normalize_rows(bench->device, NULL, y.device, inverse.device, x.device,
                                       rows, columns, 1e-2F));
    CT_CHECK_OK(layers->normalize_rows_backward(bench->device, NULL, dx.device, dy.device, y.device,
                                                inverse.device, rows, columns));
    (void)layers_pull(bench, B);
    (void)layers_pull(bench, C);
    (void)layers_pull(bench, E);
    for (size_t b = 0; b < rows; b++) {
        double scale = normalize(x.host + b * columns, columns, 1, (double)1e-2F, exact);
        double bound = normalized_bound(columns, scale);

        LAYERS_NEAR(inverse.host[b], scale, scale * bound);
        for (size_t o = 0; o < columns; o++) {
            LAYERS_NEAR(y.host[b * columns + o], exact[o], bound);
        }
        check_back(dx.host + b * columns, dy.host + b * columns, y.host + b * columns,
                   (double)inverse.host[b], columns, 1);
    }
}

/* Rows and their gradients; one column is all mean. */
CT_TEST(layers, normalize_rows)
{
    struct ddp_prng prng = ddp_prng_make(11, "test/rows");
    struct bench bench;

    LAYERS_OPEN(&bench);
    for (size_t s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++) {
        check_rows(&bench, shapes[s][0], shapes[s][1], &prng);
    }
    bench_close(&bench);
}

static void check_columns(struct bench *bench, size_t rows, size_t columns, struct ddp_prng *prng)
{
    const struct ddp_layer_ops *layers = bench->device->layers;
    struct layers_tensor x = layers_tensor(bench, A, rows * columns, prng);
    struct layers_tensor y = layers_tensor(bench, B, rows * columns, prng);
    struct layers_tensor mean = layers_tensor(bench, C, columns, prng);
    struct layers_tensor variance = layers_tensor(bench, D, columns, prng);
    struct layers_tensor inverse = layers_tensor(bench, E, columns, prng);
    struct layers_tensor dy = layers_tensor(bench, F, rows * columns, prng);
    struct layers_tensor dx = layers_tensor(bench, G, rows * columns, prng);

    CT_CHECK_OK(layers->normalize_columns(
        bench->device, NULL, y.device,
        &(struct ddp_moments){mean.device, variance.device, inverse.device}, x.device, rows,
        columns, 1e-2F));
    CT_CHECK_OK(layers->normalize_columns_backward(bench->device, NULL, dx.device, dy.device,
                                                   y.device, inverse.device, rows, columns));
    for (unsigned range = B; range <= G; range++) {
        (void)layers_pull(bench, range);
    }
    for (size_t o = 0; o < columns; o++) {
        double scale = normalize(x.host + o, rows, columns, (double)1e-2F, exact);
        double bound = normalized_bound(rows, scale);
        double sum = 0.0;

        for (size_t b = 0; b < rows; b++) {
            sum += (double)x.host[b * columns + o];
            LAYERS_NEAR(y.host[b * columns + o], exact[b], bound);
        }
        LAYERS_NEAR(mean.host[o], sum / (double)rows, ((double)rows + 2.0) * U);
        LAYERS_NEAR(variance.host[o], 1.0 / (scale * scale) - (double)1e-2F,
                    ((double)rows + 8.0) * 4.0 * U);
        LAYERS_NEAR(inverse.host[o], scale, scale * bound);
        check_back(dx.host + o, dy.host + o, y.host + o, (double)inverse.host[o], rows, columns);
    }
}

/* Columns, their moments and their gradients. */
CT_TEST(layers, normalize_columns)
{
    struct ddp_prng prng = ddp_prng_make(12, "test/columns");
    struct bench bench;

    LAYERS_OPEN(&bench);
    for (size_t s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++) {
        check_columns(&bench, shapes[s][0], shapes[s][1], &prng);
    }
    bench_close(&bench);
}

/* Each element by its column's numbers, which are of more rows than these. */
static void check_standardized(struct bench *bench, size_t rows, size_t columns,
                               struct ddp_prng *prng)
{
    const struct ddp_layer_ops *layers = bench->device->layers;
    const double row_count = 2.0 * (double)rows + 3.0;
    struct layers_tensor x = layers_tensor(bench, A, rows * columns, prng);
    struct layers_tensor y = layers_tensor(bench, B, rows * columns, prng);
    struct layers_tensor mean = layers_tensor(bench, C, columns, prng);
    struct layers_tensor inverse = layers_tensor(bench, D, columns, prng);
    struct layers_tensor sums = layers_tensor(bench, E, 2 * columns, prng);
    struct layers_tensor dy = layers_tensor(bench, F, rows * columns, prng);
    struct layers_tensor dx = layers_tensor(bench, G, rows * columns, prng);

    CT_CHECK_OK(layers->standardize_columns(bench->device, NULL, y.device, x.device, mean.device,
                                            inverse.device, rows, columns));
    CT_CHECK_OK(layers->standardize_columns_backward(
        bench->device, NULL, dx.device, dy.device, y.device,
        &(struct ddp_column_sums){inverse.device, sums.device, sums.device + columns,
                                  (float)row_count},
        rows, columns));
    (void)layers_pull(bench, B);
    (void)layers_pull(bench, G);
    for (size_t i = 0; i < rows * columns; i++) {
        const size_t o = i % columns;
        const double part = (double)sums.host[o] / row_count;
        const double slope = (double)sums.host[columns + o] / row_count;

        LAYERS_NEAR(y.host[i], ((double)x.host[i] - (double)mean.host[o]) * (double)inverse.host[o],
                    8.0 * U);
        LAYERS_NEAR(dx.host[i],
                    (double)inverse.host[o] *
                        ((double)dy.host[i] - part - (double)y.host[i] * slope),
                    16.0 * U);
    }
}

CT_TEST(layers, standardize_columns)
{
    struct ddp_prng prng = ddp_prng_make(13, "test/standardize");
    struct bench bench;

    LAYERS_OPEN(&bench);
    for (size_t s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++) {
        check_standardized(&bench, shapes[s][0], shapes[s][1], &prng);
    }
    bench_close(&bench);
}

/* From far below to far above 0: the exponential within 2 ulp and ten roundings. What is beyond the
 * range of the exponential is 0 or x. NaN stays, infinities go to their limits. */
CT_TEST(layers, gelu)
{
    enum { COUNT = 4001 };
    struct bench bench;
    float *x;
    const float *y;
    float *device_x;
    float *device_y;
    float *dy;

    LAYERS_OPEN(&bench);
    x = (float *)bench_begin(&bench, A, sizeof(float), COUNT + 1, 1);
    for (size_t i = 0; i < COUNT; i++) {
        x[i] = ((float)i - 2000.0F) * 0.01F;
    }
    x[COUNT] = NAN;
    device_x = (float *)bench_push(&bench, A);
    (void)bench_begin(&bench, B, sizeof(float), COUNT + 1, 0);
    device_y = (float *)bench_push(&bench, B);
    CT_CHECK_OK(bench.device->layers->gelu(bench.device, NULL, device_y, device_x, COUNT + 1));
    y = layers_pull(&bench, B);
    for (size_t i = 0; i < COUNT; i++) {
        double v = (double)x[i];
        double u = sqrt(2.0 / 3.14159265358979323846) * (v + 0.044715 * v * v * v);
        /* 0.5 (1 + tanh(u)) without the difference that loses the digits of small ones */
        double wanted = v / (1.0 + exp(-2.0 * u));

        /* an error of u in the exponent is one of 2 |u| of the exponential: at most 88 */
        LAYERS_NEAR(y[i], wanted, 1e-36 + 400.0 * U * fabs(wanted));
    }
    CT_CHECK(isnan(y[COUNT]));
    dy = (float *)bench_begin(&bench, C, sizeof(float), COUNT, 2);
    for (size_t i = 0; i < COUNT; i++) {
        dy[i] = i % 2 == 0 ? 1.0F : -0.5F;
    }
    CT_CHECK_OK(bench.device->layers->gelu_backward(
        bench.device, NULL, device_y, (const float *)bench_push(&bench, C), device_x, COUNT));
    y = layers_pull(&bench, B);
    for (size_t i = 0; i < COUNT; i++) {
        double v = (double)x[i];
        double slope = sqrt(2.0 / 3.14159265358979323846) * (1.0 + 3.0 * 0.044715 * v * v);
        double t = tanh(sqrt(2.0 / 3.14159265358979323846) * (v + 0.044715 * v * v * v));
        double wanted = 0.5 * (1.0 + t) + 0.5 * v * (1.0 - t * t) * slope;

        LAYERS_NEAR(y[i], wanted * (double)dy[i], 40.0 * U);
    }
    bench_close(&bench);
}

/* Each token sees itself and what came before it; the rest is 0. The weights of the one token that
 * sees only itself are 1. A NaN is seen by those behind it, and by nobody before it. */
CT_TEST(layers, causal_softmax)
{
    enum { ROWS = 2 * 37, COLUMNS = 37 };
    struct ddp_prng prng = ddp_prng_make(13, "test/softmax");
    struct bench bench;
    struct layers_tensor x;
    struct layers_tensor y;
    struct layers_tensor dy;
    static float given[ROWS * COLUMNS];
    float *poisoned;

    LAYERS_OPEN(&bench);
    x = layers_tensor(&bench, A, (size_t)ROWS * COLUMNS, &prng);
    y = layers_tensor(&bench, B, (size_t)ROWS * COLUMNS, &prng);
    dy = layers_tensor(&bench, C, (size_t)ROWS * COLUMNS, &prng);
    CT_CHECK_OK(bench.device->layers->softmax_causal(bench.device, NULL, y.device, x.device, ROWS,
                                                     COLUMNS, 3.0F));
    (void)layers_pull(&bench, B);
    for (size_t b = 0; b < ROWS; b++) {
        size_t seen = b % COLUMNS + 1;
        double sum = 0.0;

        for (size_t o = 0; o < seen; o++) {
            sum += exp(3.0 * (double)x.host[b * COLUMNS + o]);
        }
        for (size_t o = 0; o < COLUMNS; o++) {
            double wanted = o < seen ? exp(3.0 * (double)x.host[b * COLUMNS + o]) / sum : 0.0;

            LAYERS_NEAR(y.host[b * COLUMNS + o], wanted, 60.0 * U * wanted);
        }
    }
    CT_CHECK(y.host[0] == 1.0F);
    memcpy(given, dy.host, sizeof(given));
    CT_CHECK_OK(bench.device->layers->softmax_causal_backward(
        bench.device, NULL, dy.device, dy.device, y.device, ROWS, COLUMNS, 3.0F));
    (void)layers_pull(&bench, C);
    for (size_t b = 0; b < ROWS; b++) {
        double dot = 0.0;

        for (size_t o = 0; o < COLUMNS; o++) {
            dot += (double)given[b * COLUMNS + o] * (double)y.host[b * COLUMNS + o];
        }
        for (size_t o = 0; o < COLUMNS; o++) {
            double weight = (double)y.host[b * COLUMNS + o];

            LAYERS_NEAR(dy.host[b * COLUMNS + o],
                        3.0 * weight * ((double)given[b * COLUMNS + o] - dot), 60.0 * U * weight);
        }
    }
    poisoned = (float *)bench_begin(&bench, A, sizeof(float), (size_t)ROWS * COLUMNS, 0);
    for (size_t i = 0; i < (size_t)ROWS * COLUMNS; i++) {
        poisoned[i] = i % COLUMNS == 5 ? NAN : 0.5F;
    }
    CT_CHECK_OK(bench.device->layers->softmax_causal(
        bench.device, NULL, y.device, (const float *)bench_push(&bench, A), ROWS, COLUMNS, 3.0F));
    (void)layers_pull(&bench, B);
    for (size_t b = 0; b < ROWS; b++) {
        CT_CHECK(isnan(y.host[b * COLUMNS]) == (b % COLUMNS >= 5));
    }
    bench_close(&bench);
}

enum { ROUTED = 21, EXPERTS = 5, COLUMNS = 19 };

static void check_routes(const float *logits, const float *probs, const int32_t *choice)
{
    for (size_t b = 0; b < ROUTED; b++) {
        size_t best = 0;
        double sum = 0.0;

        for (size_t e = 0; e < EXPERTS; e++) {
            best = logits[b * EXPERTS + e] > logits[b * EXPERTS + best] ? e : best;
            sum += exp((double)logits[b * EXPERTS + e]);
        }
        CT_CHECK(choice[b] == (int32_t)best);
        for (size_t e = 0; e < EXPERTS; e++) {
            double wanted = exp((double)logits[b * EXPERTS + e]) / sum;
            LAYERS_NEAR(probs[b * EXPERTS + e], wanted, 20.0 * U * wanted);
        }
    }
}

static void check_gates(struct bench *bench, const struct ddp_route *route, const float *probs,
                        const int32_t *choice, struct ddp_prng *prng)
{
    const struct ddp_layer_ops *layers = bench->device->layers;
    struct layers_tensor x = layers_tensor(bench, D, (size_t)ROUTED * COLUMNS, prng);
    struct layers_tensor y = layers_tensor(bench, E, (size_t)ROUTED * COLUMNS, prng);
    struct layers_tensor dy = layers_tensor(bench, F, (size_t)ROUTED * COLUMNS, prng);
    struct layers_tensor dlogits = layers_tensor(bench, G, (size_t)ROUTED * EXPERTS, prng);

    CT_CHECK_OK(layers->gate(bench->device, NULL, y.device, x.device, route, COLUMNS));
    (void)layers_pull(bench, E);
    for (size_t i = 0; i < (size_t)ROUTED * COLUMNS; i++) {
        size_t b = i / COLUMNS;
        CT_CHECK(y.host[i] == x.host[i] * probs[b * EXPERTS + (size_t)choice[b]]);
    }
    CT_CHECK_OK(layers->gate_backward(bench->device, NULL, y.device, dlogits.device, dy.device,
                                      x.device, route, COLUMNS));
    (void)layers_pull(bench, E);
    (void)layers_pull(bench, G);
    for (size_t b = 0; b < ROUTED; b++) {
        double weight = (double)probs[b * EXPERTS + (size_t)choice[b]];
        double dot = 0.0;

        for (size_t i = b * COLUMNS; i < (b + 1) * COLUMNS; i++) {
            dot += (double)dy.host[i] * (double)x.host[i];
            CT_CHECK(y.host[i] == dy.host[i] * (float)weight);
        }
        for (size_t e = 0; e < EXPERTS; e++) {
            double own = (int32_t)e == choice[b] ? 1.0 : 0.0;
            LAYERS_NEAR(dlogits.host[b * EXPERTS + e],
                        dot * weight * (own - (double)probs[b * EXPERTS + e]),
                        ((double)COLUMNS + 5.0) * U * (double)COLUMNS);
        }
    }
}

/* The weight of a row is the softmax of its logits at their first largest one; its gradient reaches
 * all logits. */
CT_TEST(layers, routes)
{
    struct ddp_prng prng = ddp_prng_make(14, "test/route");
    struct ddp_route route = {.rows = ROUTED, .experts = EXPERTS};
    struct bench bench;
    struct layers_tensor probs;
    int32_t *device_choice;
    const int32_t *choice;
    float *logits;

    LAYERS_OPEN(&bench);
    logits = (float *)bench_begin(&bench, A, sizeof(float), (size_t)ROUTED * EXPERTS, 0);
    for (size_t i = 0; i < (size_t)ROUTED * EXPERTS; i++) {
        logits[i] = (float)ddp_prng_below(&prng, 4); /* with ties */
    }
    probs = layers_tensor(&bench, B, (size_t)ROUTED * EXPERTS, &prng);
    (void)bench_begin(&bench, C, sizeof(int32_t), ROUTED, 0);
    device_choice = (int32_t *)bench_push(&bench, C);
    CT_CHECK_OK(bench.device->layers->route(bench.device, NULL, probs.device, device_choice,
                                            (const float *)bench_push(&bench, A), ROUTED, EXPERTS));
    choice = (const int32_t *)bench_pull(&bench, C);
    (void)layers_pull(&bench, B);
    route.probs = probs.device;
    route.choice = device_choice;
    check_routes(logits, probs.host, choice);
    check_gates(&bench, &route, probs.host, choice, &prng);
    bench_close(&bench);
}
