/* The kernels of layers.h, forwarded; with each, how many elements of which operands it reads and
 * writes, as layers.h says. */
#include "ddpcore/device/layers.h"
#include "ddpcore/device/observer_state.h"

#define READS(data, elem_count)  DDP_READS(data, elem_count, sizeof(float))
#define WRITES(data, elem_count) DDP_WRITES(data, elem_count, sizeof(float))
#define IF(condition, data)      ((condition) ? (const void *)(data) : NULL)
/* Forwards to the inner device's kernel of that name. */
#define INNER(kernel, ...) \
    self->inner->layers->kernel(self->inner, ddp_observer_stream(stream), __VA_ARGS__)

static ddp_status observer_gemms(struct ddp_device *device, struct ddp_stream *stream,
                                 const struct ddp_gemm *gemm, size_t count)
{
    struct ddp_observer *self = ddp_observer_of(device);

    DDP_OBSERVE(self, stream, INNER(gemms, gemm, count), READS(gemm->a, count * gemm->m * gemm->k),
                READS(gemm->b, count * gemm->k * gemm->n),
                READS(IF(gemm->beta != 0.0F, gemm->c), count * gemm->m * gemm->n),
                WRITES(gemm->c, count * gemm->m * gemm->n));
}

static ddp_status observer_permute(struct ddp_device *device, struct ddp_stream *stream, float *y,
                                   const float *x, const size_t dims[4], const size_t order[4])
{
    struct ddp_observer *self = ddp_observer_of(device);
    const size_t elem_count = dims[0] * dims[1] * dims[2] * dims[3];

    DDP_OBSERVE(self, stream, INNER(permute, y, x, dims, order), READS(x, elem_count),
                WRITES(y, elem_count));
}

static size_t image_elems(const struct ddp_image *image)
{
    return ddp_image_rows(image) * image->channels;
}

static size_t column_elems(const struct ddp_image *image)
{
    return ddp_image_places(image) * image->channels * image->window * image->window;
}

static size_t pool_elems(const struct ddp_image *image)
{
    return ddp_image_windows(image) * image->channels;
}

static ddp_status observer_im2col(struct ddp_device *device, struct ddp_stream *stream,
                                  float *columns, const float *x, const struct ddp_image *image)
{
    struct ddp_observer *self = ddp_observer_of(device);

    DDP_OBSERVE(self, stream, INNER(im2col, columns, x, image), READS(x, image_elems(image)),
                WRITES(columns, column_elems(image)));
}

static ddp_status observer_col2im(struct ddp_device *device, struct ddp_stream *stream, float *x,
                                  const float *columns, const struct ddp_image *image)
{
    struct ddp_observer *self = ddp_observer_of(device);

    DDP_OBSERVE(self, stream, INNER(col2im, x, columns, image), READS(columns, column_elems(image)),
                WRITES(x, image_elems(image)));
}

static ddp_status observer_average_pool(struct ddp_device *device, struct ddp_stream *stream,
                                        float *y, const float *x, const struct ddp_image *image)
{
    struct ddp_observer *self = ddp_observer_of(device);

    DDP_OBSERVE(self, stream, INNER(average_pool, y, x, image), READS(x, image_elems(image)),
                WRITES(y, pool_elems(image)));
}

static ddp_status observer_average_pool_backward(struct ddp_device *device,
                                                 struct ddp_stream *stream, float *dx,
                                                 const float *dy, const struct ddp_image *image)
{
    struct ddp_observer *self = ddp_observer_of(device);

    DDP_OBSERVE(self, stream, INNER(average_pool_backward, dx, dy, image),
                READS(dy, pool_elems(image)), WRITES(dx, image_elems(image)));
}

static ddp_status observer_normalize_columns(struct ddp_device *device, struct ddp_stream *stream,
                                             float *y, const struct ddp_moments *moments,
                                             const float *x, size_t rows, size_t columns, float eps)
{
    struct ddp_observer *self = ddp_observer_of(device);

    DDP_OBSERVE(self, stream, INNER(normalize_columns, y, moments, x, rows, columns, eps),
                READS(x, rows * columns), WRITES(moments->mean, columns),
                WRITES(moments->variance, columns), WRITES(moments->inverse, columns),
                WRITES(y, rows * columns));
}

static ddp_status observer_normalize_columns_backward(struct ddp_device *device,
                                                      struct ddp_stream *stream, float *dx,
                                                      const float *dy, const float *y,
                                                      const float *inverse, size_t rows,
                                                      size_t columns)
{
    struct ddp_observer *self = ddp_observer_of(device);

    DDP_OBSERVE(self, stream, INNER(normalize_columns_backward, dx, dy, y, inverse, rows, columns),
                READS(dy, rows * columns), READS(y, rows * columns), READS(inverse, columns),
                WRITES(dx, rows * columns));
}

static ddp_status observer_standardize_columns(struct ddp_device *device, struct ddp_stream *stream,
                                               float *y, const float *x, const float *mean,
                                               const float *inverse, size_t rows, size_t columns)
{
    struct ddp_observer *self = ddp_observer_of(device);

    DDP_OBSERVE(self, stream, INNER(standardize_columns, y, x, mean, inverse, rows, columns),
                READS(x, rows * columns), READS(mean, columns), READS(inverse, columns),
                WRITES(y, rows * columns));
}

static ddp_status observer_standardize_columns_backward(struct ddp_device *device,
                                                        struct ddp_stream *stream, float *dx,
                                                        const float *dy, const float *y,
                                                        const struct ddp_column_sums *sums,
                                                        size_t rows, size_t columns)
{
    struct ddp_observer *self = ddp_observer_of(device);

    DDP_OBSERVE(self, stream, INNER(standardize_columns_backward, dx, dy, y, sums, rows, columns),
                READS(dy, rows * columns), READS(y, rows * columns), READS(sums->inverse, columns),
                READS(sums->sum, columns), READS(sums->dot, columns), WRITES(dx, rows * columns));
}

static ddp_status observer_normalize_rows(struct ddp_device *device, struct ddp_stream *stream,
                                          float *y, float *inverse, const float *x, size_t rows,
                                          size_t columns, float eps)
{
    struct ddp_observer *self = ddp_observer_of(device);

    DDP_OBSERVE(self, stream, INNER(normalize_rows, y, inverse, x, rows, columns, eps),
                READS(x, rows * columns), WRITES(inverse, rows), WRITES(y, rows * columns));
}

static ddp_status observer_normalize_rows_backward(struct ddp_device *device,
                                                   struct ddp_stream *stream, float *dx,
                                                   const float *dy, const float *y,
                                                   const float *inverse, size_t rows,
                                                   size_t columns)
{
    struct ddp_observer *self = ddp_observer_of(device);

    DDP_OBSERVE(self, stream, INNER(normalize_rows_backward, dx, dy, y, inverse, rows, columns),
                READS(dy, rows * columns), READS(y, rows * columns), READS(inverse, rows),
                WRITES(dx, rows * columns));
}

static ddp_status observer_gelu(struct ddp_device *device, struct ddp_stream *stream, float *y,
                                const float *x, size_t elem_count)
{
    struct ddp_observer *self = ddp_observer_of(device);

    DDP_OBSERVE(self, stream, INNER(gelu, y, x, elem_count), READS(x, elem_count),
                WRITES(y, elem_count));
}

static ddp_status observer_gelu_backward(struct ddp_device *device, struct ddp_stream *stream,
                                         float *dx, const float *dy, const float *x,
                                         size_t elem_count)
{
    struct ddp_observer *self = ddp_observer_of(device);

    DDP_OBSERVE(self, stream, INNER(gelu_backward, dx, dy, x, elem_count), READS(dy, elem_count),
                READS(x, elem_count), WRITES(dx, elem_count));
}

static ddp_status observer_gather_rows(struct ddp_device *device, struct ddp_stream *stream,
                                       float *y, const float *table, const struct ddp_rows *rows)
{
    struct ddp_observer *self = ddp_observer_of(device);

    DDP_OBSERVE(self, stream, INNER(gather_rows, y, table, rows),
                DDP_READS(rows->index, rows->rows, sizeof(int32_t)),
                READS(table, rows->table_rows * rows->columns),
                WRITES(y, rows->rows * rows->columns));
}

static ddp_status observer_scatter_rows(struct ddp_device *device, struct ddp_stream *stream,
                                        float *table, const float *x, const struct ddp_rows *rows,
                                        bool is_accumulate)
{
    struct ddp_observer *self = ddp_observer_of(device);
    const size_t table_elems = rows->table_rows * rows->columns;

    DDP_OBSERVE(self, stream, INNER(scatter_rows, table, x, rows, is_accumulate),
                DDP_READS(rows->index, rows->rows, sizeof(int32_t)),
                READS(x, rows->rows * rows->columns), READS(IF(is_accumulate, table), table_elems),
                WRITES(table, table_elems));
}

static ddp_status observer_softmax_causal(struct ddp_device *device, struct ddp_stream *stream,
                                          float *y, const float *x, size_t rows, size_t columns,
                                          float scale)
{
    struct ddp_observer *self = ddp_observer_of(device);

    DDP_OBSERVE(self, stream, INNER(softmax_causal, y, x, rows, columns, scale),
                READS(x, rows * columns), WRITES(y, rows * columns));
}

static ddp_status observer_softmax_causal_backward(struct ddp_device *device,
                                                   struct ddp_stream *stream, float *dx,
                                                   const float *dy, const float *y, size_t rows,
                                                   size_t columns, float scale)
{
    struct ddp_observer *self = ddp_observer_of(device);

    DDP_OBSERVE(self, stream, INNER(softmax_causal_backward, dx, dy, y, rows, columns, scale),
                READS(dy, rows * columns), READS(y, rows * columns), WRITES(dx, rows * columns));
}

static ddp_status observer_route(struct ddp_device *device, struct ddp_stream *stream, float *probs,
                                 int32_t *choice, const float *x, size_t rows, size_t experts)
{
    struct ddp_observer *self = ddp_observer_of(device);

    DDP_OBSERVE(self, stream, INNER(route, probs, choice, x, rows, experts),
                READS(x, rows * experts), WRITES(probs, rows * experts),
                DDP_WRITES(choice, rows, sizeof(int32_t)));
}

static ddp_status observer_gate(struct ddp_device *device, struct ddp_stream *stream, float *y,
                                const float *x, const struct ddp_route *route, size_t columns)
{
    struct ddp_observer *self = ddp_observer_of(device);

    DDP_OBSERVE(self, stream, INNER(gate, y, x, route, columns), READS(x, route->rows * columns),
                READS(route->probs, route->rows * route->experts),
                DDP_READS(route->choice, route->rows, sizeof(int32_t)),
                WRITES(y, route->rows * columns));
}

static ddp_status observer_gate_backward(struct ddp_device *device, struct ddp_stream *stream,
                                         float *dx, float *dlogits, const float *dy, const float *x,
                                         const struct ddp_route *route, size_t columns)
{
    struct ddp_observer *self = ddp_observer_of(device);

    DDP_OBSERVE(self, stream, INNER(gate_backward, dx, dlogits, dy, x, route, columns),
                READS(dy, route->rows * columns), READS(x, route->rows * columns),
                READS(route->probs, route->rows * route->experts),
                DDP_READS(route->choice, route->rows, sizeof(int32_t)),
                WRITES(dx, route->rows * columns), WRITES(dlogits, route->rows * route->experts));
}

_Static_assert(sizeof(struct ddp_layer_ops) == 21 * sizeof(void (*)(void)),
               "every kernel of layers.h is observed");

const struct ddp_layer_ops ddp_device_observer_layers = {
    .gemms = observer_gemms,
    .permute = observer_permute,
    .im2col = observer_im2col,
    .col2im = observer_col2im,
    .average_pool = observer_average_pool,
    .average_pool_backward = observer_average_pool_backward,
    .normalize_columns = observer_normalize_columns,
    .normalize_columns_backward = observer_normalize_columns_backward,
    .standardize_columns = observer_standardize_columns,
    .standardize_columns_backward = observer_standardize_columns_backward,
    .normalize_rows = observer_normalize_rows,
    .normalize_rows_backward = observer_normalize_rows_backward,
    .gelu = observer_gelu,
    .gelu_backward = observer_gelu_backward,
    .gather_rows = observer_gather_rows,
    .scatter_rows = observer_scatter_rows,
    .softmax_causal = observer_softmax_causal,
    .softmax_causal_backward = observer_softmax_causal_backward,
    .route = observer_route,
    .gate = observer_gate,
    .gate_backward = observer_gate_backward,
};
