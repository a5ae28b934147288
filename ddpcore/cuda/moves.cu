/* Kernels of layers.h that move elements: orders of dimensions, windows of images, rows of tables;
 * and GELU, element by element. An element that is a sum is the work of one thread. */
#include <cmath>

#include "ddpcore/cuda/index.cuh"
#include "ddpcore/cuda/layers.cuh"

static ddp_status cuda_gemms(struct ddp_device *device, struct ddp_stream *stream,
                             const struct ddp_gemm *gemm, size_t count)
{
    struct ddp_gemm one = *gemm;

    for (size_t i = 0; i < count; i++) {
        DDP_TRY(ddp_cuda_gemm(device, stream, &one));
        one.a += one.m * one.k;
        one.b += one.k * one.n;
        one.c += one.m * one.n;
    }
    return DDP_OK;
}

struct permute_body {
    float *y;
    const float *x;
    size_t size[3]; /* of y's dimensions 1 to 3 */
    size_t step[4]; /* in x, of y's dimensions */

    __device__ void run(size_t i) const
    {
        size_t rest = i;
        size_t from = 0;

        for (size_t d = 4; d-- > 1;) {
            from += rest % size[d - 1] * step[d];
            rest /= size[d - 1];
        }
        y[i] = x[from + rest * step[0]];
    }
};

static ddp_status cuda_permute(struct ddp_device *device, struct ddp_stream *stream, float *y,
                               const float *x, const size_t dims[4], const size_t order[4])
{
    const size_t step[4] = {dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1};
    permute_body body = {};

    body.y = y;
    body.x = x;
    for (size_t d = 0; d < 4; d++) {
        body.step[d] = step[order[d]];
        if (d > 0) {
            body.size[d - 1] = dims[order[d]];
        }
    }
    return ddp_cuda_index(device, stream, body, dims[0] * dims[1] * dims[2] * dims[3]);
}

struct im2col_body {
    float *columns;
    const float *x;
    struct ddp_image image;
    size_t out_height, out_width;

    __device__ void run(size_t i) const
    {
        const size_t window = image.window * image.window;
        const size_t w = i % window;
        const size_t c = i / window % image.channels;
        const size_t p = i / window / image.channels;
        const size_t y = p / out_width % out_height + w / image.window;
        const size_t z = p % out_width + w % image.window;
        const bool is_inside = y >= image.padding && y < image.height + image.padding &&
                               z >= image.padding && z < image.width + image.padding;

        columns[i] = is_inside
                         ? x[((p / (out_height * out_width) * image.height + y - image.padding) *
                                  image.width +
                              z - image.padding) *
                                 image.channels +
                             c]
                         : 0.0F;
    }
};

/* The element's windows in ascending order of its place in them. */
struct col2im_body {
    float *x;
    const float *columns;
    struct ddp_image image;
    size_t out_height, out_width;

    __device__ void run(size_t i) const
    {
        const size_t window = image.window * image.window;
        const size_t c = i % image.channels;
        const size_t column = i / image.channels % image.width + image.padding;
        const size_t row = i / image.channels / image.width % image.height + image.padding;
        const size_t n = i / image.channels / image.width / image.height;
        float sum = 0.0F;

        for (size_t w = 0; w < window; w++) {
            const size_t top = row - w / image.window; /* wraps below 0 */
            const size_t left = column - w % image.window;

            if (top < out_height && left < out_width) {
                sum +=
                    columns[((n * out_height + top) * out_width + left) * image.channels * window +
                            c * window + w];
            }
        }
        x[i] = sum;
    }
};

static size_t places_high(const struct ddp_image *image)
{
    return image->height + 2 * image->padding - image->window + 1;
}

static size_t places_wide(const struct ddp_image *image)
{
    return image->width + 2 * image->padding - image->window + 1;
}

static ddp_status cuda_im2col(struct ddp_device *device, struct ddp_stream *stream, float *columns,
                              const float *x, const struct ddp_image *image)
{
    return ddp_cuda_index(
        device, stream, im2col_body{columns, x, *image, places_high(image), places_wide(image)},
        ddp_image_places(image) * image->channels * image->window * image->window);
}

static ddp_status cuda_col2im(struct ddp_device *device, struct ddp_stream *stream, float *x,
                              const float *columns, const struct ddp_image *image)
{
    return ddp_cuda_index(device, stream,
                          col2im_body{x, columns, *image, places_high(image), places_wide(image)},
                          ddp_image_rows(image) * image->channels);
}

struct pool_body {
    float *y;
    const float *x;
    struct ddp_image image;

    __device__ void run(size_t i) const
    {
        const size_t out_height = image.height / image.window;
        const size_t out_width = image.width / image.window;
        const size_t p = i / image.channels;
        const size_t top = p / out_width % out_height * image.window;
        const size_t left = p % out_width * image.window;
        const float *from =
            x + p / (out_height * out_width) * image.height * image.width * image.channels +
            i % image.channels;
        float sum = from[(top * image.width + left) * image.channels];

        for (size_t w = 1; w < image.window * image.window; w++) {
            sum += from[((top + w / image.window) * image.width + left + w % image.window) *
                        image.channels];
        }
        y[i] = sum * (1.0F / static_cast<float>(image.window * image.window));
    }
};

struct pool_backward_body {
    float *dx;
    const float *dy;
    struct ddp_image image;

    __device__ void run(size_t i) const
    {
        const size_t out_height = image.height / image.window;
        const size_t out_width = image.width / image.window;
        const size_t p = i / image.channels;
        const size_t top = p / image.width % image.height / image.window;
        const size_t left = p % image.width / image.window;
        const size_t n = p / (image.height * image.width);
        const float share = 1.0F / static_cast<float>(image.window * image.window);

        dx[i] = top < out_height && left < out_width
                    ? dy[((n * out_height + top) * out_width + left) * image.channels +
                         i % image.channels] *
                          share
                    : 0.0F;
    }
};

static ddp_status cuda_average_pool(struct ddp_device *device, struct ddp_stream *stream, float *y,
                                    const float *x, const struct ddp_image *image)
{
    return ddp_cuda_index(device, stream, pool_body{y, x, *image},
                          ddp_image_windows(image) * image->channels);
}

static ddp_status cuda_average_pool_backward(struct ddp_device *device, struct ddp_stream *stream,
                                             float *dx, const float *dy,
                                             const struct ddp_image *image)
{
    return ddp_cuda_index(device, stream, pool_backward_body{dx, dy, *image},
                          ddp_image_rows(image) * image->channels);
}

/* sqrt(2 / pi), and its product with 0.044715 */
#define GELU_LINEAR 0.797884561F
#define GELU_CUBIC  0.0356774081F

/* 0.5 (1 + tanh(u)) = 1 / (1 + e^-2u). The exponent is kept where the exponential is finite. */
static __device__ __forceinline__ float gelu_share(float x)
{
    const float u = -2.0F * (x * (GELU_LINEAR + GELU_CUBIC * (x * x)));

    return 1.0F / (1.0F + expf(u > 88.0F ? 88.0F : u));
}

struct gelu_body {
    float *y;
    const float *x;

    __device__ void run(size_t i) const
    {
        y[i] = x[i] * gelu_share(x[i]);
    }
};

struct gelu_backward_body {
    float *dx;
    const float *dy;
    const float *x;

    __device__ void run(size_t i) const
    {
        const float share = gelu_share(x[i]);
        const float slope = 2.0F * (GELU_LINEAR + 3.0F * GELU_CUBIC * (x[i] * x[i]));

        dx[i] = dy[i] * (share + x[i] * share * (1.0F - share) * slope);
    }
};

static ddp_status cuda_gelu(struct ddp_device *device, struct ddp_stream *stream, float *y,
                            const float *x, size_t elem_count)
{
    return ddp_cuda_index(device, stream, gelu_body{y, x}, elem_count);
}

static ddp_status cuda_gelu_backward(struct ddp_device *device, struct ddp_stream *stream,
                                     float *dx, const float *dy, const float *x, size_t elem_count)
{
    return ddp_cuda_index(device, stream, gelu_backward_body{dx, dy, x}, elem_count);
}

/* The host cannot check an index in the device's memory: a wrong one gives NaN. */
struct gather_body {
    float *y;
    const float *table;
    const int32_t *index;
    size_t columns, table_rows;

    __device__ void run(size_t i) const
    {
        const int32_t row = index[i / columns];
        const bool is_row = row >= 0 && static_cast<size_t>(row) < table_rows;

        y[i] = is_row ? table[static_cast<size_t>(row) * columns + i % columns] : NAN;
    }
};

/* A thread has an element of the table, and looks for its rows; so rows add up in their order. */
struct scatter_body {
    float *table;
    const float *x;
    const int32_t *index;
    size_t rows, columns;
    bool is_accumulate;

    __device__ void run(size_t i) const
    {
        const size_t row = i / columns;
        float sum = is_accumulate ? table[i] : 0.0F;

        for (size_t b = 0; b < rows; b++) {
            if (index[b] >= 0 && static_cast<size_t>(index[b]) == row) {
                sum += x[b * columns + i % columns];
            }
        }
        table[i] = sum;
    }
};

static ddp_status cuda_gather_rows(struct ddp_device *device, struct ddp_stream *stream, float *y,
                                   const float *table, const struct ddp_rows *rows)
{
    return ddp_cuda_index(device, stream,
                          gather_body{y, table, rows->index, rows->columns, rows->table_rows},
                          rows->rows * rows->columns);
}

static ddp_status cuda_scatter_rows(struct ddp_device *device, struct ddp_stream *stream,
                                    float *table, const float *x, const struct ddp_rows *rows,
                                    bool is_accumulate)
{
    return ddp_cuda_index(
        device, stream,
        scatter_body{table, x, rows->index, rows->rows, rows->columns, is_accumulate},
        rows->table_rows * rows->columns);
}

void ddp_cuda_moves_fill_ops(struct ddp_layer_ops *ops)
{
    ops->gemms = cuda_gemms;
    ops->permute = cuda_permute;
    ops->im2col = cuda_im2col;
    ops->col2im = cuda_col2im;
    ops->average_pool = cuda_average_pool;
    ops->average_pool_backward = cuda_average_pool_backward;
    ops->gelu = cuda_gelu;
    ops->gelu_backward = cuda_gelu_backward;
    ops->gather_rows = cuda_gather_rows;
    ops->scatter_rows = cuda_scatter_rows;
}

ddp_status ddp_cuda_moves_preload(ddp_cuda_device *cuda)
{
    DDP_TRY(ddp_cuda_preload(cuda, ddp_cuda_index_kernel<permute_body>));
    DDP_TRY(ddp_cuda_preload(cuda, ddp_cuda_index_kernel<im2col_body>));
    DDP_TRY(ddp_cuda_preload(cuda, ddp_cuda_index_kernel<col2im_body>));
    DDP_TRY(ddp_cuda_preload(cuda, ddp_cuda_index_kernel<pool_body>));
    DDP_TRY(ddp_cuda_preload(cuda, ddp_cuda_index_kernel<pool_backward_body>));
    DDP_TRY(ddp_cuda_preload(cuda, ddp_cuda_index_kernel<gelu_body>));
    DDP_TRY(ddp_cuda_preload(cuda, ddp_cuda_index_kernel<gelu_backward_body>));
    DDP_TRY(ddp_cuda_preload(cuda, ddp_cuda_index_kernel<gather_body>));
    return ddp_cuda_preload(cuda, ddp_cuda_index_kernel<scatter_body>);
}
