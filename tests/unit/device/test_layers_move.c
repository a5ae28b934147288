/* The kernels of layers.h that move elements and add few of them, against plain loops bit for bit,
 * at odd sizes and with guards. Runs on every device that has them. */
#include <math.h>
#include <string.h>

#include "tests/unit/device/layers_bench.h"

enum { A, B, C, D };
enum { ROOM = 4096 };

static float wanted[ROOM];

static void check_bits(struct bench *bench, unsigned range, size_t elem_count)
{
    CT_REQUIRE(elem_count <= ROOM);
    CT_CHECK_BYTES(layers_pull(bench, range), wanted, elem_count * sizeof(float));
}

/* Several products are that many single ones, in every layout. */
CT_TEST(layers, gemms_are_products_one_by_one)
{
    struct ddp_prng prng = ddp_prng_make(1, "test/gemms");
    struct bench bench;

    LAYERS_OPEN(&bench);
    for (unsigned layout = 0; layout < 8; layout++) {
        struct ddp_gemm gemm = {.transpose_a = (layout & 1) != 0,
                                .transpose_b = (layout & 2) != 0,
                                .m = 5,
                                .n = 7,
                                .k = 3,
                                .alpha = 0.5F,
                                .beta = layout & 4 ? 1.0F : 0.0F};
        struct layers_tensor a = layers_tensor(&bench, A, 3 * 15, &prng);
        struct layers_tensor b = layers_tensor(&bench, B, 3 * 21, &prng);
        struct layers_tensor c = layers_tensor(&bench, C, 3 * 35, &prng);
        float *same = (float *)bench_begin(&bench, D, sizeof(float), 3 * 35, 1);

        memcpy(same, c.host, sizeof(float) * 3 * 35);
        for (size_t i = 0; i < 3; i++) {
            gemm.a = a.device + i * 15;
            gemm.b = b.device + i * 21;
            gemm.c = (i == 0 ? (float *)bench_push(&bench, D) : gemm.c + 35);
            CT_CHECK_OK(bench.device->math->gemm(bench.device, NULL, &gemm));
        }
        memcpy(wanted, layers_pull(&bench, D), sizeof(float) * 3 * 35);
        gemm.a = a.device;
        gemm.b = b.device;
        gemm.c = c.device;
        CT_CHECK_OK(bench.device->layers->gemms(bench.device, NULL, &gemm, 3));
        check_bits(&bench, C, 3 * 35);
    }
    bench_close(&bench);
}

/* Every order of four dimensions. */
CT_TEST(layers, permute_in_every_order)
{
    const size_t dims[4] = {3, 2, 5, 4};
    struct ddp_prng prng = ddp_prng_make(2, "test/permute");
    struct bench bench;

    LAYERS_OPEN(&bench);
    for (size_t code = 0; code < 256; code++) {
        const size_t order[4] = {code % 4, code / 4 % 4, code / 16 % 4, code / 64};
        struct layers_tensor x;
        struct layers_tensor y;
        size_t at = 0;

        if ((1U << order[0] | 1U << order[1] | 1U << order[2] | 1U << order[3]) != 15U) {
            continue;
        }
        x = layers_tensor(&bench, A, 120, &prng);
        y = layers_tensor(&bench, B, 120, &prng);
        CT_CHECK_OK(
            bench.device->layers->permute(bench.device, NULL, y.device, x.device, dims, order));
        for (size_t i = 0; i < 120; i++, at++) {
            size_t rest = i;
            size_t place[4];

            for (size_t d = 4; d-- > 0;) {
                place[order[d]] = rest % dims[order[d]];
                rest /= dims[order[d]];
            }
            wanted[at] =
                x.host[((place[0] * dims[1] + place[1]) * dims[2] + place[2]) * dims[3] + place[3]];
        }
        check_bits(&bench, B, 120);
    }
    bench_close(&bench);
}

static const struct ddp_image images[] = {
    {.count = 2, .height = 5, .width = 4, .channels = 3, .window = 3, .padding = 1},
    {.count = 1, .height = 1, .width = 1, .channels = 2, .window = 3, .padding = 1},
    {.count = 3, .height = 4, .width = 6, .channels = 1, .window = 2, .padding = 0},
    {.count = 2, .height = 3, .width = 3, .channels = 2, .window = 1, .padding = 2},
    {.count = 1, .height = 6, .width = 5, .channels = 2, .window = 5, .padding = 2},
};

/* The element of x that element i of the windows is; -1: padding. */
static int64_t source_of(const struct ddp_image *image, size_t i)
{
    const size_t out_height = image->height + 2 * image->padding - image->window + 1;
    const size_t out_width = image->width + 2 * image->padding - image->window + 1;
    int64_t dx = (int64_t)(i % image->window);
    int64_t dy = (int64_t)(i / image->window % image->window);
    size_t c = i / (image->window * image->window) % image->channels;
    size_t p = i / (image->window * image->window * image->channels);
    int64_t x = (int64_t)(p % out_width) + dx - (int64_t)image->padding;
    int64_t y = (int64_t)(p / out_width % out_height) + dy - (int64_t)image->padding;
    int64_t n = (int64_t)(p / (out_width * out_height));

    if (x < 0 || y < 0 || x >= (int64_t)image->width || y >= (int64_t)image->height) {
        return -1;
    }
    return ((n * (int64_t)image->height + y) * (int64_t)image->width + x) *
               (int64_t)image->channels +
           (int64_t)c;
}

static void check_windows(struct bench *bench, const struct ddp_image *image, struct ddp_prng *prng)
{
    size_t elems = ddp_image_rows(image) * image->channels;
    size_t window = image->window * image->window;
    size_t all = ddp_image_places(image) * image->channels * window;
    struct layers_tensor x = layers_tensor(bench, A, elems, prng);
    struct layers_tensor columns = layers_tensor(bench, B, all, prng);
    struct layers_tensor dcolumns = layers_tensor(bench, C, all, prng);
    struct layers_tensor dx = layers_tensor(bench, D, elems, prng);

    CT_REQUIRE(all <= ROOM);
    CT_CHECK_OK(
        bench->device->layers->im2col(bench->device, NULL, columns.device, x.device, image));
    for (size_t i = 0; i < all; i++) {
        int64_t source = source_of(image, i);
        wanted[i] = source < 0 ? 0.0F : x.host[source];
    }
    check_bits(bench, B, all);
    CT_CHECK_OK(
        bench->device->layers->col2im(bench->device, NULL, dx.device, dcolumns.device, image));
    memset(wanted, 0, sizeof(wanted));
    for (size_t w = 0; w < window; w++) {
        for (size_t i = w; i < all; i += window) {
            int64_t source = source_of(image, i);
            if (source >= 0) {
                wanted[source] += dcolumns.host[i];
            }
        }
    }
    check_bits(bench, D, elems);
}

/* Windows of padded and unpadded images as rows, and back as sums in the stated order. */
CT_TEST(layers, windows_and_back)
{
    struct ddp_prng prng = ddp_prng_make(3, "test/im2col");
    struct bench bench;

    LAYERS_OPEN(&bench);
    for (size_t i = 0; i < sizeof(images) / sizeof(images[0]); i++) {
        check_windows(&bench, &images[i], &prng);
    }
    bench_close(&bench);
}

static void check_pool(struct bench *bench, struct ddp_image image, struct ddp_prng *prng)
{
    size_t c_count = image.channels;
    size_t out_width = image.width / image.window;
    size_t out_height = image.height / image.window;
    size_t elems = ddp_image_rows(&image) * c_count;
    size_t out_elems = ddp_image_windows(&image) * c_count;
    float share = 1.0F / (float)(image.window * image.window);
    struct layers_tensor x = layers_tensor(bench, A, elems, prng);
    struct layers_tensor y = layers_tensor(bench, B, out_elems, prng);
    struct layers_tensor dy = layers_tensor(bench, C, out_elems, prng);
    struct layers_tensor dx = layers_tensor(bench, D, elems, prng);
    static float back[ROOM];

    memset(back, 0, sizeof(back));
    CT_CHECK_OK(
        bench->device->layers->average_pool(bench->device, NULL, y.device, x.device, &image));
    CT_CHECK_OK(bench->device->layers->average_pool_backward(bench->device, NULL, dx.device,
                                                             dy.device, &image));
    for (size_t o = 0; o < out_elems; o++) {
        size_t p = o / c_count;
        size_t top = p / out_width % out_height * image.window;
        float sum = 0.0F;

        for (size_t w = 0; w < image.window * image.window; w++) {
            size_t row = top + w / image.window;
            size_t col = p % out_width * image.window + w % image.window;
            size_t from =
                ((p / out_width / out_height * image.height + row) * image.width + col) * c_count +
                o % c_count;
            sum += x.host[from];
            back[from] = dy.host[o] * share;
        }
        wanted[o] = sum * share;
    }
    check_bits(bench, B, out_elems);
    CT_CHECK_BYTES(layers_pull(bench, D), back, elems * sizeof(float));
}

/* Means of windows, also where some pixels are left over. */
CT_TEST(layers, means_of_windows)
{
    struct ddp_prng prng = ddp_prng_make(4, "test/pool");
    struct bench bench;

    LAYERS_OPEN(&bench);
    for (size_t i = 0; i < sizeof(images) / sizeof(images[0]); i++) {
        struct ddp_image image = images[i];

        image.window = image.window > image.height ? 1 : image.window;
        check_pool(&bench, image, &prng);
    }
    bench_close(&bench);
}

/* Rows of a table are taken and given back: repeated ones add up in the order of the index, a table
 * starts from zeros or from what it has, and a row that is not there is an error. */
CT_TEST(layers, rows_of_tables)
{
    enum { ROWS = 7, COLUMNS = 5, TABLE = 4 };
    static const int32_t rows[ROWS] = {3, 0, 3, 1, 1, 3, 0};
    struct ddp_prng prng = ddp_prng_make(5, "test/rows");
    struct bench bench;

    LAYERS_OPEN(&bench);
    for (int is_accumulate = 0; is_accumulate < 2; is_accumulate++) {
        const struct ddp_layer_ops *layers = bench.device->layers;
        struct layers_tensor table = layers_tensor(&bench, A, (size_t)TABLE * COLUMNS, &prng);
        struct layers_tensor x = layers_tensor(&bench, B, (size_t)ROWS * COLUMNS, &prng);
        int32_t *index = (int32_t *)bench_begin(&bench, C, sizeof(int32_t), ROWS, 0);
        struct layers_tensor y = layers_tensor(&bench, D, (size_t)ROWS * COLUMNS, &prng);
        struct ddp_rows given = {.rows = ROWS, .columns = COLUMNS, .table_rows = TABLE};
        struct ddp_rows beyond;
        static float start[TABLE * COLUMNS];

        memcpy(start, table.host, sizeof(start));
        memcpy(index, rows, sizeof(rows));
        given.index = (const int32_t *)bench_push(&bench, C);
        beyond = given;
        beyond.table_rows = 3;
        CT_CHECK_OK(layers->gather_rows(bench.device, NULL, y.device, table.device, &given));
        for (size_t i = 0; i < (size_t)ROWS * COLUMNS; i++) {
            wanted[i] = start[(size_t)rows[i / COLUMNS] * COLUMNS + i % COLUMNS];
        }
        check_bits(&bench, D, (size_t)ROWS * COLUMNS);
        CT_CHECK_OK(layers->scatter_rows(bench.device, NULL, table.device, x.device, &given,
                                         is_accumulate != 0));
        for (size_t i = 0; i < (size_t)TABLE * COLUMNS; i++) {
            wanted[i] = is_accumulate != 0 ? start[i] : 0.0F;
        }
        for (size_t i = 0; i < (size_t)ROWS * COLUMNS; i++) {
            wanted[(size_t)rows[i / COLUMNS] * COLUMNS + i % COLUMNS] += x.host[i];
        }
        check_bits(&bench, A, (size_t)TABLE * COLUMNS);
        if (bench.device->ops->is_host_memory) {
            CT_CHECK_STATUS(
                layers->gather_rows(bench.device, NULL, y.device, table.device, &beyond),
                DDP_E_INVALID);
            CT_CHECK_STATUS(
                layers->scatter_rows(bench.device, NULL, table.device, x.device, &beyond, true),
                DDP_E_INVALID);
        }
    }
    bench_close(&bench);
}
