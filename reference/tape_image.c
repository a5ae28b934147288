/* Operations on images: convolution as a product of windows, means of windows, and columns brought
 * to mean 0 and variance 1; forward and backward of each. */
#include "reference/tape.h"

/* Columns of the matrix of windows. */
static size_t window_columns(const struct ddp_image *image)
{
    return image->channels * image->window * image->window;
}

static ddp_status conv_backward(struct ref_tape *tape, const struct ref_node *node)
{
    struct ddp_device *device = tape->device;
    struct ref_value *x = &tape->values[node->x];
    const struct ref_value *out = &tape->values[node->out];
    struct ddp_param *weight = &tape->params[node->weight];
    size_t columns = window_columns(&node->as.image);
    float *work = ref_tape_work(tape, out->rows * columns);
    struct ddp_gemm gemm = {.transpose_a = true, /* dW(OxK) = dy(PxO)^T * windows(PxK) */
                            .m = out->columns,
                            .n = columns,
                            .k = out->rows,
                            .alpha = 1.0F,
                            .a = out->grad,
                            .b = node->kept,
                            .beta = weight->is_grad_defined ? 1.0F : 0.0F,
                            .c = weight->grad};

    DDP_TRY(device->math->gemm(device, NULL, &gemm));
    DDP_TRY(ref_tape_param_done(tape, node->weight));
    if (x->grad == NULL) {
        return DDP_OK;
    }
    gemm = (struct ddp_gemm){.m = out->rows, /* dwindows(PxK) = dy(PxO) * W(OxK) */
                             .n = columns,
                             .k = out->columns,
                             .alpha = 1.0F,
                             .a = out->grad,
                             .b = weight->data,
                             .c = work};
    DDP_TRY(device->math->gemm(device, NULL, &gemm));
    DDP_TRY(device->layers->col2im(device, NULL, ref_tape_target(tape, x), work, &node->as.image));
    return ref_tape_contribute(tape, x);
}

ddp_status ref_tape_conv(struct ref_tape *tape, size_t x, size_t weight,
                         const struct ddp_image *image, size_t *out)
{
    struct ddp_device *device = tape->device;
    const struct ref_value in = *ref_tape_value(tape, x);
    struct ref_node node = ref_node_of(conv_backward, x);
    size_t rows = ddp_image_places(image);
    size_t columns = window_columns(image);
    float *windows = ref_tape_take(tape, rows * columns);
    struct ddp_gemm gemm = {.transpose_b = true, /* y(PxO) = windows(PxK) * W(OxK)^T */
                            .m = rows,
                            .n = tape->params[weight].shape[0],
                            .k = columns,
                            .alpha = 1.0F,
                            .a = windows,
                            .b = tape->params[weight].data};

    DDP_ASSERT(ddp_image_rows(image) == in.rows && image->channels == in.columns);
    ref_tape_check_matrix(tape, weight, columns);
    (void)ref_tape_work(tape, rows * columns); /* for backward */
    node.weight = weight;
    node.kept = windows;
    node.as.image = *image;
    DDP_TRY(ref_tape_add_op(tape, &node, rows, gemm.n, out));
    if (tape->is_dry) {
        return DDP_OK;
    }
    gemm.c = tape->values[*out].data;
    DDP_TRY(device->layers->im2col(device, NULL, windows, in.data, image));
    DDP_TRY(device->math->gemm(device, NULL, &gemm));
    return ref_tape_round_value(tape, *out);
}

static ddp_status pool_backward(struct ref_tape *tape, const struct ref_node *node)
{
    struct ref_value *x = &tape->values[node->x];

    if (x->grad == NULL) {
        return DDP_OK;
    }
    DDP_TRY(
        tape->device->layers->average_pool_backward(tape->device, NULL, ref_tape_target(tape, x),
                                                    tape->values[node->out].grad, &node->as.image));
    return ref_tape_contribute(tape, x);
}

ddp_status ref_tape_average_pool(struct ref_tape *tape, size_t x, const struct ddp_image *image,
                                 size_t *out)
{
    const struct ref_value in = *ref_tape_value(tape, x);
    struct ref_node node = ref_node_of(pool_backward, x);

    DDP_ASSERT(ddp_image_rows(image) == in.rows && image->channels == in.columns);
    node.as.image = *image;
    DDP_TRY(ref_tape_add_op(tape, &node, ddp_image_windows(image), in.columns, out));
    if (tape->is_dry) {
        return DDP_OK;
    }
    DDP_TRY(tape->device->layers->average_pool(tape->device, NULL, tape->values[*out].data, in.data,
                                               image));
    return ref_tape_round_value(tape, *out);
}

/* kept: mean, variance and inverse deviation of each column. */
static ddp_status normalize_backward(struct ref_tape *tape, const struct ref_node *node)
{
    struct ref_value *x = &tape->values[node->x];
    const struct ref_value *out = &tape->values[node->out];

    if (x->grad == NULL) {
        return DDP_OK;
    }
    DDP_TRY(tape->device->layers->normalize_columns_backward(
        tape->device, NULL, ref_tape_target(tape, x), out->grad, out->data,
        node->kept + 2 * x->columns, x->rows, x->columns));
    return ref_tape_contribute(tape, x);
}

ddp_status ref_tape_normalize_columns(struct ref_tape *tape, size_t x, float eps, size_t *out,
                                      const float **out_moments)
{
    const struct ref_value in = *ref_tape_value(tape, x);
    struct ref_node node = ref_node_of(normalize_backward, x);
    float *moments = ref_tape_take(tape, 3 * in.columns);

    *out_moments = moments;
    node.kept = moments;
    DDP_TRY(ref_tape_add_op(tape, &node, in.rows, in.columns, out));
    if (tape->is_dry) {
        return DDP_OK;
    }
    DDP_TRY(tape->device->layers->normalize_columns(
        tape->device, NULL, tape->values[*out].data,
        &(struct ddp_moments){moments, moments + in.columns, moments + 2 * in.columns}, in.data,
        in.rows, in.columns, eps));
    return ref_tape_round_value(tape, *out);
}
