/* The CPU device's kernels over images: windows as rows of a matrix, and means of windows. */
#include <string.h>

#include "ddpcore/device/clones.h"
#include "ddpcore/device/cpu_layers.h"

/* The first place of the window in one dimension that reads pixel 0 or later when the window's own
 * pixel is `offset`; and the first one behind those that read a pixel of `size`. A place p reads
 * pixel p + offset - padding. */
static size_t first_place(size_t offset, size_t padding)
{
    return padding > offset ? padding - offset : 0;
}

static size_t end_place(size_t offset, size_t padding, size_t size, size_t places)
{
    size_t end = size + padding > offset ? size + padding - offset : 0;

    return end < places ? end : places;
}

ddp_status ddp_cpu_im2col(struct ddp_device *device, struct ddp_stream *stream, float *columns,
                          const float *x, const struct ddp_image *image)
{
    const struct ddp_image i = *image;
    const size_t out_height = i.height + 2 * i.padding - i.window + 1;
    const size_t out_width = i.width + 2 * i.padding - i.window + 1;
    const size_t window = i.window * i.window;
    const size_t row_elems = i.channels * window;

    (void)device;
    (void)stream;
    for (size_t p = 0; p < i.count * out_height * out_width; p++) {
        const size_t image_number = p / (out_height * out_width);
        const size_t top = p / out_width % out_height;
        const size_t left = p % out_width;
        float *row = columns + p * row_elems;

        for (size_t w = 0; w < window; w++) {
            /* pixel + padding, so that it is never negative */
            const size_t y = top + w / i.window;
            const size_t z = left + w % i.window;
            const bool is_inside = y >= i.padding && y < i.height + i.padding && z >= i.padding &&
                                   z < i.width + i.padding;
            const float *pixel =
                x + (is_inside
                         ? ((image_number * i.height + y - i.padding) * i.width + z - i.padding) *
                               i.channels
                         : 0);

            for (size_t c = 0; c < i.channels; c++) {
                row[c * window + w] = is_inside ? pixel[c] : 0.0F;
            }
        }
    }
    return DDP_OK;
}

/* Adds what the window's pixel number w took from one image. */
static void add_window_pixel(float *x, const float *columns, const struct ddp_image *image,
                             size_t w, size_t out_height, size_t out_width)
{
    const struct ddp_image i = *image;
    const size_t window = i.window * i.window;
    const size_t y = w / i.window;
    const size_t z = w % i.window;
    const size_t first = first_place(z, i.padding);
    const size_t end = end_place(z, i.padding, i.width, out_width);

    for (size_t top = first_place(y, i.padding);
         top < end_place(y, i.padding, i.height, out_height); top++) {
        for (size_t left = first; left < end; left++) {
            float *pixel =
                x + ((top + y - i.padding) * i.width + left + z - i.padding) * i.channels;
            const float *row = columns + (top * out_width + left) * i.channels * window + w;

            for (size_t c = 0; c < i.channels; c++) {
                pixel[c] += row[c * window];
            }
        }
    }
}

ddp_status ddp_cpu_col2im(struct ddp_device *device, struct ddp_stream *stream, float *x,
                          const float *columns, const struct ddp_image *image)
{
    const struct ddp_image i = *image;
    const size_t out_height = i.height + 2 * i.padding - i.window + 1;
    const size_t out_width = i.width + 2 * i.padding - i.window + 1;
    const size_t window = i.window * i.window;
    const size_t image_elems = i.height * i.width * i.channels;

    (void)device;
    (void)stream;
    memset(x, 0, i.count * image_elems * sizeof(*x));
    for (size_t b = 0; b < i.count; b++) {
        for (size_t w = 0; w < window; w++) {
            add_window_pixel(x + b * image_elems,
                             columns + b * out_height * out_width * i.channels * window, image, w,
                             out_height, out_width);
        }
    }
    return DDP_OK;
}

ddp_status ddp_cpu_average_pool(struct ddp_device *device, struct ddp_stream *stream, float *y,
                                const float *x, const struct ddp_image *image)
{
    const struct ddp_image i = *image;
    const size_t out_height = i.height / i.window;
    const size_t out_width = i.width / i.window;
    const float share = 1.0F / (float)(i.window * i.window);

    (void)device;
    (void)stream;
    for (size_t p = 0; p < i.count * out_height * out_width; p++) {
        const size_t image_number = p / (out_height * out_width);
        const size_t top = p / out_width % out_height * i.window;
        const size_t left = p % out_width * i.window;
        float *out = y + p * i.channels;

        for (size_t w = 0; w < i.window * i.window; w++) {
            const float *pixel = x + ((image_number * i.height + top + w / i.window) * i.width +
                                      left + w % i.window) *
                                         i.channels;

            for (size_t c = 0; c < i.channels; c++) {
                out[c] = w == 0 ? pixel[c] : out[c] + pixel[c];
            }
        }
        for (size_t c = 0; c < i.channels; c++) {
            out[c] *= share;
        }
    }
    return DDP_OK;
}

ddp_status ddp_cpu_average_pool_backward(struct ddp_device *device, struct ddp_stream *stream,
                                         float *dx, const float *dy, const struct ddp_image *image)
{
    const struct ddp_image i = *image;
    const size_t out_height = i.height / i.window;
    const size_t out_width = i.width / i.window;
    const float share = 1.0F / (float)(i.window * i.window);

    (void)device;
    (void)stream;
    for (size_t p = 0; p < i.count * i.height * i.width; p++) {
        const size_t image_number = p / (i.height * i.width);
        const size_t top = p / i.width % i.height / i.window;
        const size_t left = p % i.width / i.window;
        const bool is_covered = top < out_height && left < out_width;
        const float *from =
            dy +
            (is_covered ? (image_number * out_height + top) * out_width + left : 0) * i.channels;

        for (size_t c = 0; c < i.channels; c++) {
            dx[p * i.channels + c] = is_covered ? from[c] * share : 0.0F;
        }
    }
    return DDP_OK;
}
