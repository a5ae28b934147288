/* The kernels over matrices against naive loops, in fp64 with bounds derived from the operation
 * counts or in fp32 bit for bit, at odd sizes and with guards; and the documented behaviour of NaN
 * and infinities. Runs on every device. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "tests/unit/device/device_bench.h"

enum { A, B, C, D };
enum { ROOM = 300001 };

static float kept[ROOM];

/* A range of floats in [-1, 1), `lead` of them behind an aligned address. The host's payload. */
static float *tensor(struct bench *bench, unsigned range, size_t elem_count, size_t lead,
                     struct ddp_prng *prng)
{
    float *data = (float *)bench_begin(bench, range, sizeof(float), elem_count, lead);

    for (size_t i = 0; i < elem_count; i++) {
        data[i] = 2.0F * ddp_prng_uniform(prng) - 1.0F;
    }
    return data;
}

static float *push(struct bench *bench, unsigned range)
{
    return (float *)bench_push(bench, range);
}

static const float *pull(struct bench *bench, unsigned range)
{
    return (const float *)bench_pull(bench, range);
}

/* |fp32 sum of n products, any order, fused or not - exact| <= (n+1) * u * sum |products| to first
 * order, u = 2^-24; 1.01 covers the higher orders. */
static double dot_bound(size_t n, double magnitude)
{
    return 1.01 * ((double)n + 1.0) * 0x1p-24 * magnitude + (double)FLT_MIN;
}

static void check_gemm(struct bench *bench, const struct ddp_gemm *shape)
{
    struct ddp_prng prng = ddp_prng_make(shape->m * 1000 + shape->n, "test/gemm");
    const float *a = tensor(bench, A, shape->m * shape->k, 1, &prng);
    const float *b = tensor(bench, B, shape->k * shape->n, 0, &prng);
    const float *c = tensor(bench, C, shape->m * shape->n, 1, &prng);
    struct ddp_gemm gemm = *shape;

    memcpy(kept, c, gemm.m * gemm.n * sizeof(float));
    gemm.a = push(bench, A);
    gemm.b = push(bench, B);
    gemm.c = push(bench, C);
    CT_REQUIRE_OK(bench->device->math->gemm(bench->device, NULL, &gemm));
    c = pull(bench, C);
    for (size_t i = 0; i < gemm.m; i++) {
        for (size_t j = 0; j < gemm.n; j++) {
            double start = (double)gemm.beta * (double)kept[i * gemm.n + j];
            double sum = start;
            double magnitude = fabs(start);
            for (size_t p = 0; p < gemm.k; p++) {
                double l = (double)a[gemm.transpose_a ? p * gemm.m + i : i * gemm.k + p];
                double r = (double)b[gemm.transpose_b ? j * gemm.k + p : p * gemm.n + j];
                sum += (double)gemm.alpha * l * r;
                magnitude += fabs((double)gemm.alpha * l * r);
            }
            /* + 2: the products with alpha and beta round too */
            CT_CHECK(fabs((double)c[i * gemm.n + j] - sum) <= dot_bound(gemm.k + 2, magnitude));
        }
    }
    memcpy(kept, c, gemm.m * gemm.n * sizeof(float));
    if (gemm.beta == 0.0F) {
        /* Again, over what is there now: the same bits. */
        CT_CHECK_OK(bench->device->math->gemm(bench->device, NULL, &gemm));
        CT_CHECK_BYTES(pull(bench, C), kept, gemm.m * gemm.n * sizeof(float));
    }
}

/* Products of all four layouts, odd sizes, with and without accumulation, are within the bound of a
 * sum of k products, and repeat bit for bit. */
CT_TEST(math, gemm_all_layouts)
{
    static const size_t shapes[][3] = {{1, 1, 1},    {3, 5, 7},    {32, 10, 64}, {17, 33, 65},
                                       {1, 129, 31}, {64, 1, 200}, {31, 70, 1},  {10, 256, 32}};
    struct bench bench;

    BENCH_OPEN(&bench);
    for (size_t s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++) {
        for (unsigned layout = 0; layout < 8; layout++) {
            struct ddp_gemm gemm = {.transpose_a = (layout & 1) != 0,
                                    .transpose_b = (layout & 2) != 0,
                                    .m = shapes[s][0],
                                    .n = shapes[s][1],
                                    .k = shapes[s][2],
                                    .alpha = layout & 4 ? 0.5F : 1.0F,
                                    .beta = layout & 4 ? 1.0F : 0.0F};
            check_gemm(&bench, &gemm);
        }
    }
    bench_close(&bench);
}

/* Runs the product over fresh values of C; what C holds then. */
static const float *run_gemm(struct bench *bench, struct ddp_gemm *gemm, float c0, float c1)
{
    float *c = (float *)bench_begin(bench, C, sizeof(*c), 2, 0);

    c[0] = c0;
    c[1] = c1;
    gemm->c = push(bench, C);
    CT_CHECK_OK(bench->device->math->gemm(bench->device, NULL, gemm));
    return pull(bench, C);
}

/* beta 0 overwrites: a NaN that was in C does not survive. A NaN in A reaches its row. k = 0 leaves
 * beta * C, and an empty C is no work. */
CT_TEST(math, gemm_edges)
{
    struct bench bench;
    struct ddp_gemm gemm = {.m = 2, .n = 1, .k = 3, .alpha = 1};
    const float *c;
    float *a;
    float *b;

    BENCH_OPEN(&bench);
    a = (float *)bench_begin(&bench, A, sizeof(*a), 6, 0);
    b = (float *)bench_begin(&bench, B, sizeof(*b), 3, 0);
    for (size_t i = 0; i < 6; i++) {
        a[i] = (float)(i + 1);
        b[i / 2] = 1.0F;
    }
    gemm.a = push(&bench, A);
    gemm.b = push(&bench, B);
    c = run_gemm(&bench, &gemm, NAN, NAN);
    CT_CHECK(c[0] == 6.0F && c[1] == 15.0F);
    a[4] = NAN;
    gemm.a = push(&bench, A);
    c = run_gemm(&bench, &gemm, NAN, NAN);
    CT_CHECK(c[0] == 6.0F && isnan(c[1]));
    gemm.k = 0;
    gemm.beta = 1.0F;
    c = run_gemm(&bench, &gemm, 6.0F, 15.0F);
    CT_CHECK(c[0] == 6.0F && c[1] == 15.0F);
    gemm.beta = -0.5F;
    c = run_gemm(&bench, &gemm, 6.0F, 15.0F);
    CT_CHECK(c[0] == -3.0F && c[1] == -7.5F);
    gemm.beta = 0.0F;
    c = run_gemm(&bench, &gemm, NAN, 15.0F);
    CT_CHECK(c[0] == 0.0F && c[1] == 0.0F);
    gemm.m = 0;
    CT_CHECK_OK(bench.device->math->gemm(bench.device, NULL, &gemm));
    gemm.m = SIZE_MAX / 2;
    CT_CHECK_STATUS(bench.device->math->gemm(bench.device, NULL, &gemm), DDP_E_INVALID);
    bench_close(&bench);
}

/* Products on streams of their own, in turns, give the default stream's bits. */
CT_TEST(math, gemm_on_streams)
{
    struct bench bench;
    struct ddp_prng prng = ddp_prng_make(1, "test/streams");
    struct ddp_gemm gemm = {.m = 33, .n = 65, .k = 70, .alpha = 1.0F};
    const size_t bytes = gemm.m * gemm.n * sizeof(float);
    struct ddp_stream *streams[3] = {NULL};

    BENCH_OPEN(&bench);
    CT_REQUIRE_OK(bench.ops->stream_create(bench.device, &streams[1]));
    CT_REQUIRE_OK(bench.ops->stream_create(bench.device, &streams[2]));
    (void)tensor(&bench, A, gemm.m * gemm.k, 0, &prng);
    (void)tensor(&bench, B, gemm.k * gemm.n, 0, &prng);
    gemm.a = push(&bench, A);
    gemm.b = push(&bench, B);
    for (unsigned round = 0; round < 6; round++) {
        (void)tensor(&bench, C, gemm.m * gemm.n, 0, &prng);
        gemm.c = push(&bench, C);
        CT_CHECK_OK(bench.device->math->gemm(bench.device, streams[round % 3], &gemm));
        CT_CHECK_OK(bench_drain(&bench, streams[round % 3]));
        if (round == 0) {
            memcpy(kept, pull(&bench, C), bytes);
        }
        CT_CHECK_BYTES(pull(&bench, C), kept, bytes);
    }
    bench.ops->stream_destroy(bench.device, streams[1]);
    bench.ops->stream_destroy(bench.device, streams[2]);
    bench_close(&bench);
}

static const size_t matrix_shapes[][2] = {{1, 1},   {3, 7},   {32, 10}, {5, 255},
                                          {4, 256}, {3, 257}, {64, 65}, {7, 300}};
enum { SHAPE_COUNT = sizeof(matrix_shapes) / sizeof(matrix_shapes[0]) };

static void check_broadcasts(struct bench *bench, size_t rows, size_t columns,
                             struct ddp_prng *prng)
{
    const struct ddp_math_ops *math = bench->device->math;
    const float *x = tensor(bench, A, rows * columns, 1, prng);
    const float *v = tensor(bench, B, columns, 0, prng);
    const float *y = tensor(bench, C, rows * columns, 1, prng);
    float *on_x = push(bench, A);
    const float *on_v = push(bench, B);
    float *on_y = push(bench, C);

    CT_CHECK_OK(math->add_bias(bench->device, NULL, on_y, on_x, on_v, rows, columns));
    y = pull(bench, C);
    for (size_t i = 0; i < rows * columns; i++) {
        CT_CHECK(y[i] == x[i] + v[i % columns]);
    }
    CT_CHECK_OK(math->scale_columns(bench->device, NULL, on_y, on_x, on_v, rows, columns));
    y = pull(bench, C);
    for (size_t i = 0; i < rows * columns; i++) {
        CT_CHECK(y[i] == x[i] * v[i % columns]);
    }
    CT_CHECK_OK(math->scale_columns(bench->device, NULL, on_x, on_x, on_v, rows, columns));
    CT_CHECK_BYTES(pull(bench, A), y, rows * columns * sizeof(float));
}

/* Bias and column factors are applied with one rounding, in place or not. */
CT_TEST(math, column_operations)
{
    struct bench bench;
    struct ddp_prng prng = ddp_prng_make(2, "test/columns");

    BENCH_OPEN(&bench);
    for (size_t s = 0; s < SHAPE_COUNT; s++) {
        check_broadcasts(&bench, matrix_shapes[s][0], matrix_shapes[s][1], &prng);
    }
    bench_close(&bench);
}

static void check_column_sums(struct bench *bench, size_t rows, size_t columns, bool is_accumulate,
                              struct ddp_prng *prng)
{
    const float *x = tensor(bench, A, rows * columns, 1, prng);
    const float *y = tensor(bench, B, rows * columns, 0, prng);
    const float *sums = tensor(bench, C, columns, 1, prng);
    const float *dots;
    const float *on_x = push(bench, A);
    const float *on_y = push(bench, B);
    float *on_sums = push(bench, C);

    memcpy(kept, sums, columns * sizeof(float));
    memcpy(bench_begin(bench, D, sizeof(float), columns, 0), kept, columns * sizeof(float));
    CT_CHECK_OK(bench->device->math->sum_rows(bench->device, NULL, on_sums, on_x, rows, columns,
                                              is_accumulate));
    CT_CHECK_OK(bench->device->math->dot_columns(bench->device, NULL, push(bench, D), on_x, on_y,
                                                 rows, columns, is_accumulate));
    sums = pull(bench, C);
    dots = pull(bench, D);
    for (size_t o = 0; o < columns; o++) {
        float sum = x[o];
        float dot = x[o] * y[o];
        for (size_t b = 1; b < rows; b++) {
            sum += x[b * columns + o];
            dot += x[b * columns + o] * y[b * columns + o];
        }
        CT_CHECK(sums[o] == (is_accumulate ? kept[o] + sum : sum));
        CT_CHECK(dots[o] == (is_accumulate ? kept[o] + dot : dot));
    }
}

/* Column sums run in ascending row order, bit for bit, and are added to the target last. */
CT_TEST(math, column_sums)
{
    struct bench bench;
    struct ddp_prng prng = ddp_prng_make(3, "test/sums");

    BENCH_OPEN(&bench);
    for (size_t s = 0; s < SHAPE_COUNT * 2; s++) {
        check_column_sums(&bench, matrix_shapes[s / 2][0], matrix_shapes[s / 2][1], s % 2 == 1,
                          &prng);
    }
    bench_close(&bench);
}

/* A sum over no rows is zero, or leaves the target when accumulating. */
CT_TEST(math, column_sums_of_nothing)
{
    struct bench bench;
    const float *got;
    float *target;
    float *on_target;

    BENCH_OPEN(&bench);
    target = (float *)bench_begin(&bench, A, sizeof(*target), 2, 0);
    target[0] = 3.0F;
    target[1] = 4.0F;
    on_target = push(&bench, A);
    CT_CHECK_OK(bench.device->math->sum_rows(bench.device, NULL, on_target, on_target, 0, 2, true));
    got = pull(&bench, A);
    CT_CHECK(got[0] == 3.0F && got[1] == 4.0F);
    CT_CHECK_OK(
        bench.device->math->sum_rows(bench.device, NULL, on_target, on_target, 0, 2, false));
    got = pull(&bench, A);
    CT_CHECK(got[0] == 0.0F && got[1] == 0.0F);
    bench_close(&bench);
}

/* Cross-entropy and its gradient match fp64 within the error of its exponentials and their sum:
 * (columns + 8) roundings of values of at most 1 (and of the loss's own size). */
static void check_softmax(struct bench *bench, size_t rows, size_t columns, struct ddp_prng *prng)
{
    const double bound = ((double)columns + 8.0) * 0x1p-23;
    float *x = tensor(bench, A, rows * columns, 1, prng);
    int32_t *labels = (int32_t *)bench_begin(bench, D, sizeof(*labels), rows, 0);
    struct ddp_loss loss_args = {.rows = rows, .columns = columns, .scale = 0.25F};
    const float *dx = tensor(bench, B, rows * columns, 3, prng);
    const float *losses = tensor(bench, C, rows, 0, prng);

    for (size_t i = 0; i < rows * columns; i++) {
        x[i] *= 10.0F;
    }
    for (size_t b = 0; b < rows; b++) {
        labels[b] = (int32_t)ddp_prng_below(prng, columns);
    }
    loss_args.x = push(bench, A);
    loss_args.dx = push(bench, B);
    loss_args.losses = push(bench, C);
    CT_CHECK_OK(bench->device->math->softmax_cross_entropy(bench->device, NULL, &loss_args,
                                                           (const int32_t *)bench_push(bench, D)));
    dx = pull(bench, B);
    losses = pull(bench, C);
    for (size_t b = 0; b < rows; b++) {
        double sum = 0.0;
        double loss;
        for (size_t o = 0; o < columns; o++) {
            sum += exp((double)x[b * columns + o]);
        }
        loss = log(sum) - (double)x[b * columns + (size_t)labels[b]];
        CT_CHECK(fabs((double)losses[b] - loss) <= bound * (1.0 + fabs(loss)));
        for (size_t o = 0; o < columns; o++) {
            double p = exp((double)x[b * columns + o]) / sum;
            double expected = 0.25 * (p - (o == (size_t)labels[b] ? 1.0 : 0.0));
            CT_CHECK(fabs((double)dx[b * columns + o] - expected) <= bound);
        }
    }
}

CT_TEST(math, softmax_cross_entropy)
{
    struct bench bench;
    struct ddp_prng prng = ddp_prng_make(6, "test/softmax");

    BENCH_OPEN(&bench);
    for (size_t s = 0; s < SHAPE_COUNT; s++) {
        check_softmax(&bench, matrix_shapes[s][0], matrix_shapes[s][1], &prng);
    }
    bench_close(&bench);
}

/* Large logits do not overflow; a NaN, +Inf or all -Inf row is NaN and stays in its row. */
CT_TEST(math, softmax_edges)
{
    static const float x[5][2] = {
        {1000.0F, -1000.0F}, {NAN, 0.0F}, {0.0F, NAN}, {INFINITY, 0.0F}, {-INFINITY, -INFINITY}};
    static const int32_t labels[5] = {0, 0, 0, 0, 1};
    struct bench bench;
    struct ddp_loss loss = {.rows = 5, .columns = 2, .scale = 1.0F};
    const float *losses;
    const float *dx;

    BENCH_OPEN(&bench);
    memcpy(bench_begin(&bench, A, sizeof(float), 10, 0), x, sizeof(x));
    memcpy(bench_begin(&bench, D, sizeof(int32_t), 5, 0), labels, sizeof(labels));
    (void)bench_begin(&bench, B, sizeof(float), 10, 0);
    (void)bench_begin(&bench, C, sizeof(float), 5, 0);
    loss.x = push(&bench, A);
    loss.dx = push(&bench, B);
    loss.losses = push(&bench, C);
    CT_CHECK_OK(bench.device->math->softmax_cross_entropy(bench.device, NULL, &loss,
                                                          (const int32_t *)bench_push(&bench, D)));
    losses = pull(&bench, C);
    dx = pull(&bench, B);
    CT_CHECK(losses[0] == 0.0F && dx[0] == 0.0F && dx[1] == 0.0F);
    for (size_t b = 1; b < 5; b++) {
        CT_CHECK(isnan(losses[b]) && isnan(dx[2 * b]) && isnan(dx[2 * b + 1]));
    }
    bench_close(&bench);
}

static void check_squared_error(struct bench *bench, size_t rows, size_t columns,
                                struct ddp_prng *prng)
{
    const float *x = tensor(bench, A, rows * columns, 1, prng);
    const float *t = tensor(bench, B, rows * columns, 0, prng);
    const float *dx = tensor(bench, C, rows * columns, 1, prng);
    const float *losses = tensor(bench, D, rows, 0, prng);
    struct ddp_loss loss = {.rows = rows, .columns = columns, .scale = 0.75F};

    loss.x = push(bench, A);
    loss.dx = push(bench, C);
    loss.losses = push(bench, D);
    CT_CHECK_OK(bench->device->math->squared_error(bench->device, NULL, &loss, push(bench, B)));
    dx = pull(bench, C);
    losses = pull(bench, D);
    for (size_t b = 0; b < rows; b++) {
        volatile float sum = 0.0F;
        for (size_t i = b * columns; i < (b + 1) * columns; i++) {
            volatile float error = x[i] - t[i];
            volatile float square = error * error;
            sum = sum + square;
            CT_CHECK(dx[i] == error * 0.75F);
        }
        CT_CHECK(losses[b] == 0.5F * sum);
    }
}

/* Squared error sums in ascending order with each step rounded. */
CT_TEST(math, squared_error)
{
    struct bench bench;
    struct ddp_prng prng = ddp_prng_make(7, "test/squared");

    BENCH_OPEN(&bench);
    for (size_t s = 0; s < SHAPE_COUNT; s++) {
        check_squared_error(&bench, matrix_shapes[s][0], matrix_shapes[s][1], &prng);
    }
    bench_close(&bench);
}

/* More rows, more columns, more elements than a device has threads. */
CT_TEST(math, more_work_than_threads)
{
    struct bench bench;
    struct ddp_prng prng = ddp_prng_make(10, "test/large");

    BENCH_OPEN(&bench);
    check_broadcasts(&bench, 1301, 1001, &prng);
    check_column_sums(&bench, 3, ROOM, true, &prng);
    check_softmax(&bench, 9001, 3, &prng);
    check_squared_error(&bench, ROOM, 3, &prng);
    check_squared_error(&bench, 3, 1001, &prng);
    bench_close(&bench);
}
