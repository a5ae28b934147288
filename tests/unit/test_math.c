/* The kernels of models against naive fp64 loops, with bounds derived from the operation counts, at
 * odd sizes and with guards; and the documented behaviour of NaN and infinities. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "ddpcore/base/prng.h"
#include "ddpcore/device/math.h"
#include "tests/ct.h"

enum { ROOM = 70 * 300, GUARD_ELEMS = 16 };
static const float guard_value = -77777.0F;

static struct ddp_device *open_device(void)
{
    struct ddp_device *device = NULL;
    struct ddp_err err;

    CT_CHECK_OK(ddp_blas_open(NULL, &err));
    CT_CHECK_OK(ddp_device_cpu_create(ddp_mem_system(), &device));
    return device;
}

struct tensor {
    float before[GUARD_ELEMS + 1]; /* +1: the data is not on a cache line */
    float data[ROOM];
};

static float *tensor_begin(struct tensor *tensor, size_t elem_count, struct ddp_prng *prng)
{
    for (size_t i = 0; i <= GUARD_ELEMS; i++) {
        tensor->before[i] = guard_value;
    }
    for (size_t i = 0; i < elem_count + GUARD_ELEMS; i++) {
        tensor->data[i] = i < elem_count ? 2.0F * ddp_prng_uniform(prng) - 1.0F : guard_value;
    }
    return tensor->data;
}

static bool tensor_is_intact(const struct tensor *tensor, size_t elem_count)
{
    bool is_intact = true;

    for (size_t i = 0; i < GUARD_ELEMS; i++) {
        is_intact = is_intact && tensor->before[i + 1] == guard_value &&
                    tensor->data[elem_count + i] == guard_value;
    }
    return is_intact;
}

static struct tensor ta, tb, tc, td;
static float kept[ROOM];

/* |fp32 sum of n products, any order, fused or not - exact| <= (n+1) * u * sum |products| to first
 * order, u = 2^-24; 1.01 covers the higher orders. */
static double dot_bound(size_t n, double magnitude)
{
    return 1.01 * ((double)n + 1.0) * 0x1p-24 * magnitude + (double)FLT_MIN;
}

static void check_gemm(struct ddp_device *device, const struct ddp_gemm *shape)
{
    struct ddp_prng prng = ddp_prng_make(shape->m * 1000 + shape->n, "test/gemm");
    struct ddp_gemm gemm = *shape;

    gemm.a = tensor_begin(&ta, gemm.m * gemm.k, &prng);
    gemm.b = tensor_begin(&tb, gemm.k * gemm.n, &prng);
    gemm.c = tensor_begin(&tc, gemm.m * gemm.n, &prng);
    memcpy(kept, gemm.c, gemm.m * gemm.n * sizeof(float));
    CT_REQUIRE_OK(device->math->gemm(device, NULL, &gemm));
    for (size_t i = 0; i < gemm.m; i++) {
        for (size_t j = 0; j < gemm.n; j++) {
            double start = (double)gemm.beta * (double)kept[i * gemm.n + j];
            double sum = start;
            double magnitude = fabs(start);
            for (size_t p = 0; p < gemm.k; p++) {
                double a = (double)gemm.a[gemm.transpose_a ? p * gemm.m + i : i * gemm.k + p];
                double b = (double)gemm.b[gemm.transpose_b ? j * gemm.k + p : p * gemm.n + j];
                sum += (double)gemm.alpha * a * b;
                magnitude += fabs((double)gemm.alpha * a * b);
            }
            /* + 2: the products with alpha and beta round too */
            CT_CHECK(fabs((double)gemm.c[i * gemm.n + j] - sum) <=
                     dot_bound(gemm.k + 2, magnitude));
        }
    }
    CT_CHECK(tensor_is_intact(&tc, gemm.m * gemm.n));
}

/* Products of all four layouts, odd sizes, with and without accumulation, are within the bound of a
 * sum of k products. */
CT_TEST(math, gemm_all_layouts)
{
    static const size_t shapes[][3] = {{1, 1, 1},    {3, 5, 7},    {32, 10, 64}, {17, 33, 65},
                                       {1, 129, 31}, {64, 1, 200}, {31, 70, 1},  {10, 256, 32}};
    struct ddp_device *device = open_device();

    for (size_t s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++) {
        for (unsigned layout = 0; layout < 8; layout++) {
            struct ddp_gemm gemm = {.transpose_a = (layout & 1) != 0,
                                    .transpose_b = (layout & 2) != 0,
                                    .m = shapes[s][0],
                                    .n = shapes[s][1],
                                    .k = shapes[s][2],
                                    .alpha = layout & 4 ? 0.5F : 1.0F,
                                    .beta = layout & 4 ? 1.0F : 0.0F};
            check_gemm(device, &gemm);
        }
    }
    device->ops->destroy(device);
}

/* beta 0 overwrites: a NaN that was in C does not survive. A NaN in A reaches its row. k = 0 leaves
 * beta * C, and an empty C is no work. */
CT_TEST(math, gemm_edges)
{
    struct ddp_device *device = open_device();
    float a[6] = {1, 2, 3, 4, 5, 6};
    const float b[3] = {1, 1, 1};
    float c[2] = {NAN, NAN};
    struct ddp_gemm gemm = {.m = 2, .n = 1, .k = 3, .alpha = 1, .a = a, .b = b, .c = c};

    CT_CHECK_OK(device->math->gemm(device, NULL, &gemm));
    CT_CHECK(c[0] == 6.0F && c[1] == 15.0F);
    a[4] = NAN;
    CT_CHECK_OK(device->math->gemm(device, NULL, &gemm));
    CT_CHECK(c[0] == 6.0F && isnan(c[1]));
    c[1] = 15.0F;
    gemm.k = 0;
    gemm.beta = 1.0F;
    CT_CHECK_OK(device->math->gemm(device, NULL, &gemm));
    CT_CHECK(c[0] == 6.0F && c[1] == 15.0F);
    gemm.beta = 0.0F;
    CT_CHECK_OK(device->math->gemm(device, NULL, &gemm));
    CT_CHECK(c[0] == 0.0F && c[1] == 0.0F);
    gemm.m = 0;
    CT_CHECK_OK(device->math->gemm(device, NULL, &gemm));
    gemm.m = SIZE_MAX / 2;
    CT_CHECK_STATUS(device->math->gemm(device, NULL, &gemm), DDP_E_INVALID);
    device->ops->destroy(device);
}

static const size_t matrix_shapes[][2] = {{1, 1},   {3, 7},   {32, 10}, {5, 255},
                                          {4, 256}, {3, 257}, {64, 65}, {7, 300}};
enum { SHAPE_COUNT = sizeof(matrix_shapes) / sizeof(matrix_shapes[0]) };

/* Bias and column factors are applied with one rounding, in place or not. */
CT_TEST(math, column_operations)
{
    struct ddp_device *device = open_device();
    struct ddp_prng prng = ddp_prng_make(2, "test/columns");

    for (size_t s = 0; s < SHAPE_COUNT; s++) {
        size_t rows = matrix_shapes[s][0];
        size_t columns = matrix_shapes[s][1];
        float *x = tensor_begin(&ta, rows * columns, &prng);
        float *v = tensor_begin(&tb, columns, &prng);
        float *y = tensor_begin(&tc, rows * columns, &prng);

        CT_CHECK_OK(device->math->add_bias(device, NULL, y, x, v, rows, columns));
        for (size_t i = 0; i < rows * columns; i++) {
            CT_CHECK(y[i] == x[i] + v[i % columns]);
        }
        CT_CHECK_OK(device->math->scale_columns(device, NULL, y, x, v, rows, columns));
        for (size_t i = 0; i < rows * columns; i++) {
            CT_CHECK(y[i] == x[i] * v[i % columns]);
        }
        CT_CHECK(tensor_is_intact(&tc, rows * columns));
        CT_CHECK_OK(device->math->scale_columns(device, NULL, x, x, v, rows, columns));
        CT_CHECK_BYTES(x, y, rows * columns * sizeof(float));
    }
    device->ops->destroy(device);
}

/* Column sums run in ascending row order, bit for bit, and are added to the target last. */
CT_TEST(math, column_sums)
{
    struct ddp_device *device = open_device();
    struct ddp_prng prng = ddp_prng_make(3, "test/sums");

    for (size_t s = 0; s < SHAPE_COUNT * 2; s++) {
        bool is_accumulate = s % 2 == 1;
        size_t rows = matrix_shapes[s / 2][0];
        size_t columns = matrix_shapes[s / 2][1];
        float *x = tensor_begin(&ta, rows * columns, &prng);
        float *y = tensor_begin(&tb, rows * columns, &prng);
        float *sums = tensor_begin(&tc, columns, &prng);
        float *dots = tensor_begin(&td, columns, &prng);

        memcpy(kept, sums, columns * sizeof(float));
        memcpy(dots, sums, columns * sizeof(float));
        CT_CHECK_OK(device->math->sum_rows(device, NULL, sums, x, rows, columns, is_accumulate));
        CT_CHECK_OK(
            device->math->dot_columns(device, NULL, dots, x, y, rows, columns, is_accumulate));
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
        CT_CHECK(tensor_is_intact(&tc, columns) && tensor_is_intact(&td, columns));
    }
    device->ops->destroy(device);
}

/* A sum over no rows is zero, or leaves the target when accumulating. */
CT_TEST(math, column_sums_of_nothing)
{
    struct ddp_device *device = open_device();
    float target[2] = {3.0F, 4.0F};

    CT_CHECK_OK(device->math->sum_rows(device, NULL, target, NULL, 0, 2, true));
    CT_CHECK(target[0] == 3.0F && target[1] == 4.0F);
    CT_CHECK_OK(device->math->sum_rows(device, NULL, target, NULL, 0, 2, false));
    CT_CHECK(target[0] == 0.0F && target[1] == 0.0F);
    device->ops->destroy(device);
}

/* ReLU and its backward follow y > 0, in place or not, and keep a NaN visible. */
CT_TEST(math, relu)
{
    struct ddp_device *device = open_device();
    struct ddp_prng prng = ddp_prng_make(4, "test/relu");
    float special[4] = {NAN, -0.0F, INFINITY, -INFINITY};

    for (size_t count = 1; count < 70; count += 4) {
        float *x = tensor_begin(&ta, count, &prng);
        float *y = tensor_begin(&tb, count, &prng);
        float *dy = tensor_begin(&tc, count, &prng);
        float *dx = tensor_begin(&td, count, &prng);

        CT_CHECK_OK(device->math->relu(device, NULL, y, x, count));
        CT_CHECK_OK(device->math->relu_backward(device, NULL, dx, dy, y, count));
        for (size_t i = 0; i < count; i++) {
            CT_CHECK(y[i] == (x[i] > 0.0F ? x[i] : 0.0F));
            CT_CHECK(dx[i] == (x[i] > 0.0F ? dy[i] : 0.0F));
        }
        CT_CHECK(tensor_is_intact(&tb, count) && tensor_is_intact(&td, count));
    }
    CT_CHECK_OK(device->math->relu(device, NULL, special, special, 4));
    CT_CHECK(isnan(special[0]) && special[1] == 0.0F && !signbit(special[1]));
    CT_CHECK(isinf(special[2]) && special[3] == 0.0F);
    device->ops->destroy(device);
}

/* axpy rounds the product, then the sum. */
CT_TEST(math, axpy)
{
    struct ddp_device *device = open_device();
    struct ddp_prng prng = ddp_prng_make(5, "test/axpy");

    for (size_t count = 1; count < 70; count += 3) {
        float *x = tensor_begin(&ta, count, &prng);
        float *y = tensor_begin(&tb, count, &prng);

        memcpy(kept, y, count * sizeof(float));
        CT_CHECK_OK(device->math->axpy(device, NULL, y, x, 0.3F, count));
        for (size_t i = 0; i < count; i++) {
            volatile float product = 0.3F * x[i];
            CT_CHECK(y[i] == kept[i] + product);
        }
        CT_CHECK(tensor_is_intact(&tb, count));
    }
    device->ops->destroy(device);
}

/* Cross-entropy and its gradient match fp64 within the error of its exponentials and their sum:
 * (columns + 8) roundings of values of at most 1 (and of the loss's own size). */
CT_TEST(math, softmax_cross_entropy)
{
    struct ddp_device *device = open_device();
    struct ddp_prng prng = ddp_prng_make(6, "test/softmax");

    for (size_t s = 0; s < SHAPE_COUNT; s++) {
        size_t rows = matrix_shapes[s][0];
        size_t columns = matrix_shapes[s][1];
        float *x = tensor_begin(&ta, rows * columns, &prng);
        float *dx = tensor_begin(&tb, rows * columns, &prng);
        float *losses = tensor_begin(&tc, rows, &prng);
        double bound = ((double)columns + 8.0) * 0x1p-23;
        int32_t labels[64];
        struct ddp_loss loss_args;

        for (size_t i = 0; i < rows * columns; i++) {
            x[i] *= 10.0F;
        }
        for (size_t b = 0; b < rows; b++) {
            labels[b] = (int32_t)ddp_prng_below(&prng, columns);
        }
        loss_args = (struct ddp_loss){losses, dx, x, rows, columns, 0.25F};
        CT_CHECK_OK(device->math->softmax_cross_entropy(device, NULL, &loss_args, labels));
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
        CT_CHECK(tensor_is_intact(&tb, rows * columns) && tensor_is_intact(&tc, rows));
    }
    device->ops->destroy(device);
}

/* Large logits do not overflow; a NaN, +Inf or all -Inf row is NaN and stays in its row; a label
 * out of range is refused. */
CT_TEST(math, softmax_edges)
{
    struct ddp_device *device = open_device();
    const float x[5][2] = {
        {1000.0F, -1000.0F}, {NAN, 0.0F}, {0.0F, NAN}, {INFINITY, 0.0F}, {-INFINITY, -INFINITY}};
    int32_t labels[5] = {0, 0, 0, 0, 1};
    float losses[5];
    float dx[5][2];
    struct ddp_loss loss = {losses, &dx[0][0], &x[0][0], 5, 2, 1.0F};

    CT_CHECK_OK(device->math->softmax_cross_entropy(device, NULL, &loss, labels));
    CT_CHECK(losses[0] == 0.0F && dx[0][0] == 0.0F && dx[0][1] == 0.0F);
    for (size_t b = 1; b < 5; b++) {
        CT_CHECK(isnan(losses[b]) && isnan(dx[b][0]) && isnan(dx[b][1]));
    }
    labels[4] = 2;
    loss.dx = NULL;
    CT_CHECK_STATUS(device->math->softmax_cross_entropy(device, NULL, &loss, labels),
                    DDP_E_INVALID);
    labels[4] = -1;
    loss.dx = &dx[0][0];
    loss.losses = NULL;
    CT_CHECK_STATUS(device->math->softmax_cross_entropy(device, NULL, &loss, labels),
                    DDP_E_INVALID);
    device->ops->destroy(device);
}

/* Squared error sums in ascending order with each step rounded. */
CT_TEST(math, squared_error)
{
    struct ddp_device *device = open_device();
    struct ddp_prng prng = ddp_prng_make(7, "test/squared");

    for (size_t s = 0; s < SHAPE_COUNT; s++) {
        size_t rows = matrix_shapes[s][0];
        size_t columns = matrix_shapes[s][1];
        float *x = tensor_begin(&ta, rows * columns, &prng);
        float *t = tensor_begin(&tb, rows * columns, &prng);
        float *dx = tensor_begin(&tc, rows * columns, &prng);
        float *losses = tensor_begin(&td, rows, &prng);
        struct ddp_loss loss;

        loss = (struct ddp_loss){losses, dx, x, rows, columns, 0.75F};
        CT_CHECK_OK(device->math->squared_error(device, NULL, &loss, t));
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
        CT_CHECK(tensor_is_intact(&tc, rows * columns) && tensor_is_intact(&td, rows));
    }
    device->ops->destroy(device);
}
