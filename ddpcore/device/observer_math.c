/* The kernels of math.h, forwarded; with each, how many elements of which operands it reads and
 * writes, as math.h says. */
#include "ddpcore/device/observer_state.h"

#define READS(data, elem_count)  DDP_READS(data, elem_count, sizeof(float))
#define WRITES(data, elem_count) DDP_WRITES(data, elem_count, sizeof(float))
#define IF(condition, data)      ((condition) ? (const void *)(data) : NULL)

static ddp_status observer_gemm(struct ddp_device *device, struct ddp_stream *stream,
                                const struct ddp_gemm *gemm)
{
    struct ddp_observer *self = ddp_observer_of(device);

    DDP_OBSERVE(self, stream,
                self->inner->math->gemm(self->inner, ddp_observer_stream(stream), gemm),
                READS(gemm->a, gemm->m * gemm->k), READS(gemm->b, gemm->k * gemm->n),
                READS(IF(gemm->beta != 0.0F, gemm->c), gemm->m * gemm->n),
                WRITES(gemm->c, gemm->m * gemm->n));
}

static ddp_status observer_add_bias(struct ddp_device *device, struct ddp_stream *stream, float *y,
                                    const float *x, const float *bias, size_t rows, size_t columns)
{
    struct ddp_observer *self = ddp_observer_of(device);

    DDP_OBSERVE(self, stream,
                self->inner->math->add_bias(self->inner, ddp_observer_stream(stream), y, x, bias,
                                            rows, columns),
                READS(x, rows * columns), READS(bias, columns), WRITES(y, rows * columns));
}

static ddp_status observer_sum_rows(struct ddp_device *device, struct ddp_stream *stream,
                                    float *target, const float *x, size_t rows, size_t columns,
                                    bool is_accumulate)
{
    struct ddp_observer *self = ddp_observer_of(device);

    DDP_OBSERVE(self, stream,
                self->inner->math->sum_rows(self->inner, ddp_observer_stream(stream), target, x,
                                            rows, columns, is_accumulate),
                READS(x, rows * columns), READS(IF(is_accumulate, target), columns),
                WRITES(target, columns));
}

static ddp_status observer_scale_columns(struct ddp_device *device, struct ddp_stream *stream,
                                         float *y, const float *x, const float *factor, size_t rows,
                                         size_t columns)
{
    struct ddp_observer *self = ddp_observer_of(device);

    DDP_OBSERVE(self, stream,
                self->inner->math->scale_columns(self->inner, ddp_observer_stream(stream), y, x,
                                                 factor, rows, columns),
                READS(x, rows * columns), READS(factor, columns), WRITES(y, rows * columns));
}

static ddp_status observer_dot_columns(struct ddp_device *device, struct ddp_stream *stream,
                                       float *target, const float *x, const float *y, size_t rows,
                                       size_t columns, bool is_accumulate)
{
    struct ddp_observer *self = ddp_observer_of(device);

    DDP_OBSERVE(self, stream,
                self->inner->math->dot_columns(self->inner, ddp_observer_stream(stream), target, x,
                                               y, rows, columns, is_accumulate),
                READS(x, rows * columns), READS(y, rows * columns),
                READS(IF(is_accumulate, target), columns), WRITES(target, columns));
}

static ddp_status observer_relu(struct ddp_device *device, struct ddp_stream *stream, float *y,
                                const float *x, size_t elem_count)
{
    struct ddp_observer *self = ddp_observer_of(device);

    DDP_OBSERVE(self, stream,
                self->inner->math->relu(self->inner, ddp_observer_stream(stream), y, x, elem_count),
                READS(x, elem_count), WRITES(y, elem_count));
}

static ddp_status observer_relu_backward(struct ddp_device *device, struct ddp_stream *stream,
                                         float *dx, const float *dy, const float *y,
                                         size_t elem_count)
{
    struct ddp_observer *self = ddp_observer_of(device);

    DDP_OBSERVE(self, stream,
                self->inner->math->relu_backward(self->inner, ddp_observer_stream(stream), dx, dy,
                                                 y, elem_count),
                READS(dy, elem_count), READS(y, elem_count), WRITES(dx, elem_count));
}

static ddp_status observer_axpy(struct ddp_device *device, struct ddp_stream *stream, float *target,
                                const float *x, float alpha, size_t elem_count)
{
    struct ddp_observer *self = ddp_observer_of(device);

    DDP_OBSERVE(self, stream,
                self->inner->math->axpy(self->inner, ddp_observer_stream(stream), target, x, alpha,
                                        elem_count),
                READS(x, elem_count), READS(target, elem_count), WRITES(target, elem_count));
}

static ddp_status observer_softmax_cross_entropy(struct ddp_device *device,
                                                 struct ddp_stream *stream,
                                                 const struct ddp_loss *loss, const int32_t *labels)
{
    struct ddp_observer *self = ddp_observer_of(device);

    DDP_OBSERVE(self, stream,
                self->inner->math->softmax_cross_entropy(self->inner, ddp_observer_stream(stream),
                                                         loss, labels),
                READS(loss->x, loss->rows * loss->columns),
                DDP_READS(labels, loss->rows, sizeof(int32_t)), WRITES(loss->losses, loss->rows),
                WRITES(loss->dx, loss->rows * loss->columns));
}

static ddp_status observer_squared_error(struct ddp_device *device, struct ddp_stream *stream,
                                         const struct ddp_loss *loss, const float *target)
{
    struct ddp_observer *self = ddp_observer_of(device);

    DDP_OBSERVE(
        self, stream,
        self->inner->math->squared_error(self->inner, ddp_observer_stream(stream), loss, target),
        READS(loss->x, loss->rows * loss->columns), READS(target, loss->rows * loss->columns),
        WRITES(loss->losses, loss->rows), WRITES(loss->dx, loss->rows * loss->columns));
}

static ddp_status observer_sgd(struct ddp_device *device, struct ddp_stream *stream,
                               const struct ddp_sgd *config, float *param, const float *grad,
                               float *momentum_buffer, size_t elem_count)
{
    struct ddp_observer *self = ddp_observer_of(device);
    const bool has_momentum = config->momentum != 0.0F;

    DDP_OBSERVE(self, stream,
                self->inner->math->sgd(self->inner, ddp_observer_stream(stream), config, param,
                                       grad, momentum_buffer, elem_count),
                READS(grad, elem_count), READS(param, elem_count),
                READS(IF(has_momentum && !config->is_first_step, momentum_buffer), elem_count),
                WRITES(IF(has_momentum, momentum_buffer), elem_count), WRITES(param, elem_count));
}

static ddp_status observer_adamw(struct ddp_device *device, struct ddp_stream *stream,
                                 const struct ddp_adamw *config, float *param, const float *grad,
                                 float *m, float *v, size_t elem_count)
{
    struct ddp_observer *self = ddp_observer_of(device);

    DDP_OBSERVE(self, stream,
                self->inner->math->adamw(self->inner, ddp_observer_stream(stream), config, param,
                                         grad, m, v, elem_count),
                READS(grad, elem_count), READS(param, elem_count), READS(m, elem_count),
                READS(v, elem_count), WRITES(m, elem_count), WRITES(v, elem_count),
                WRITES(param, elem_count));
}

_Static_assert(sizeof(struct ddp_math_ops) == 12 * sizeof(void (*)(void)),
               "every kernel of math.h is observed");

const struct ddp_math_ops ddp_device_observer_math = {
    .gemm = observer_gemm,
    .add_bias = observer_add_bias,
    .sum_rows = observer_sum_rows,
    .scale_columns = observer_scale_columns,
    .dot_columns = observer_dot_columns,
    .relu = observer_relu,
    .relu_backward = observer_relu_backward,
    .axpy = observer_axpy,
    .softmax_cross_entropy = observer_softmax_cross_entropy,
    .squared_error = observer_squared_error,
    .sgd = observer_sgd,
    .adamw = observer_adamw,
};
