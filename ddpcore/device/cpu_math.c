/* The CPU device's kernels for models and optimizers. Matrix products are OpenBLAS's; the rest are
 * plain loops that round where math.h says, elementwise or with columns side by side, so the
 * vector width never changes a bit. */
#include <math.h>
#include <string.h>

#include "ddpcore/device/blas.h"
#include "ddpcore/device/clones.h"
#include "ddpcore/device/cpu.h"

/* Columns summed side by side: 1 KiB of partial sums. */
enum { COLUMN_BLOCK = 256 };

static ddp_status cpu_gemm(struct ddp_device *device, struct ddp_stream *stream,
                           const struct ddp_gemm *gemm)
{
    (void)device;
    (void)stream;
    return ddp_blas_gemm(gemm);
}

DDP_CLONES static ddp_status cpu_add_bias(struct ddp_device *device, struct ddp_stream *stream,
                                          float *y, const float *x, const float *bias, size_t rows,
                                          size_t columns)
{
    (void)device;
    (void)stream;
    for (size_t b = 0; b < rows; b++) {
        for (size_t o = 0; o < columns; o++) {
            y[b * columns + o] = x[b * columns + o] + bias[o];
        }
    }
    return DDP_OK;
}

DDP_CLONES static ddp_status cpu_scale_columns(struct ddp_device *device, struct ddp_stream *stream,
                                               float *y, const float *x, const float *factor,
                                               size_t rows, size_t columns)
{
    (void)device;
    (void)stream;
    for (size_t b = 0; b < rows; b++) {
        for (size_t o = 0; o < columns; o++) {
            y[b * columns + o] = x[b * columns + o] * factor[o];
        }
    }
    return DDP_OK;
}

/* target[0..count) gets or adds the finished sums. */
static void finish_sums(float *target, const float *sums, size_t count, bool is_accumulate)
{
    for (size_t o = 0; o < count; o++) {
        target[o] = is_accumulate ? target[o] + sums[o] : sums[o];
    }
}

static size_t block_columns(size_t first, size_t columns)
{
    return columns - first < COLUMN_BLOCK ? columns - first : COLUMN_BLOCK;
}

/* sums[o] = ascending sum over b of x[b * columns + o], for o < count <= COLUMN_BLOCK */
DDP_CLONES static void sum_block(float *restrict sums, const float *restrict x, size_t rows,
                                 size_t columns, size_t count)
{
    for (size_t o = 0; o < count; o++) {
        sums[o] = x[o];
    }
    for (size_t b = 1; b < rows; b++) {
        for (size_t o = 0; o < count; o++) {
            sums[o] += x[b * columns + o];
        }
    }
}

static ddp_status cpu_sum_rows(struct ddp_device *device, struct ddp_stream *stream, float *target,
                               const float *x, size_t rows, size_t columns, bool is_accumulate)
{
    float sums[COLUMN_BLOCK] = {0};

    (void)device;
    (void)stream;
    for (size_t first = 0; first < columns; first += COLUMN_BLOCK) {
        size_t count = block_columns(first, columns);
        if (rows > 0) {
            sum_block(sums, x + first, rows, columns, count);
        }
        finish_sums(target + first, sums, count, is_accumulate);
    }
    return DDP_OK;
}

/* sums[o] = ascending sum over b of x[b * columns + o] * y[b * columns + o] */
DDP_CLONES static void dot_block(float *restrict sums, const float *x, const float *y, size_t rows,
                                 size_t columns, size_t count)
{
    for (size_t o = 0; o < count; o++) {
        sums[o] = x[o] * y[o];
    }
    for (size_t b = 1; b < rows; b++) {
        for (size_t o = 0; o < count; o++) {
            sums[o] += x[b * columns + o] * y[b * columns + o];
        }
    }
}

static ddp_status cpu_dot_columns(struct ddp_device *device, struct ddp_stream *stream,
                                  float *target, const float *x, const float *y, size_t rows,
                                  size_t columns, bool is_accumulate)
{
    float sums[COLUMN_BLOCK] = {0};

    (void)device;
    (void)stream;
    for (size_t first = 0; first < columns; first += COLUMN_BLOCK) {
        size_t count = block_columns(first, columns);
        if (rows > 0) {
            dot_block(sums, x + first, y + first, rows, columns, count);
        }
        finish_sums(target + first, sums, count, is_accumulate);
    }
    return DDP_OK;
}

DDP_CLONES static ddp_status cpu_relu(struct ddp_device *device, struct ddp_stream *stream,
                                      float *y, const float *x, size_t elem_count)
{
    (void)device;
    (void)stream;
    for (size_t i = 0; i < elem_count; i++) {
        y[i] = x[i] <= 0.0F ? 0.0F : x[i];
    }
    return DDP_OK;
}

DDP_CLONES static ddp_status cpu_relu_backward(struct ddp_device *device, struct ddp_stream *stream,
                                               float *dx, const float *dy, const float *y,
                                               size_t elem_count)
{
    (void)device;
    (void)stream;
    for (size_t i = 0; i < elem_count; i++) {
        dx[i] = y[i] > 0.0F ? dy[i] : 0.0F;
    }
    return DDP_OK;
}

DDP_CLONES static ddp_status cpu_axpy(struct ddp_device *device, struct ddp_stream *stream,
                                      float *target, const float *x, float alpha, size_t elem_count)
{
    (void)device;
    (void)stream;
    for (size_t i = 0; i < elem_count; i++) {
        target[i] = target[i] + alpha * x[i];
    }
    return DDP_OK;
}

/* One row of softmax_cross_entropy; dx may be NULL. Returns the loss. */
static float cross_entropy_row(float *dx, const float *x, size_t label, size_t columns, float scale)
{
    float top = x[0];
    float sum = 0.0F;

    for (size_t o = 1; o < columns; o++) {
        top = x[o] > top ? x[o] : top;
    }
    for (size_t o = 0; o < columns; o++) {
        float exponential = expf(x[o] - top);
        sum += exponential;
        if (dx != NULL) {
            dx[o] = exponential;
        }
    }
    if (dx != NULL) {
        for (size_t o = 0; o < columns; o++) {
            dx[o] = (dx[o] / sum - (o == label ? 1.0F : 0.0F)) * scale;
        }
    }
    return logf(sum) - (x[label] - top);
}

static ddp_status cpu_softmax_cross_entropy(struct ddp_device *device, struct ddp_stream *stream,
                                            const struct ddp_loss *loss, const int32_t *labels)
{
    const struct ddp_loss l = *loss;

    (void)device;
    (void)stream;
    for (size_t b = 0; b < l.rows; b++) {
        if (labels[b] < 0 || (size_t)labels[b] >= l.columns) {
            return DDP_E_INVALID;
        }
    }
    for (size_t b = 0; b < l.rows; b++) {
        float value = cross_entropy_row(l.dx != NULL ? l.dx + b * l.columns : NULL,
                                        l.x + b * l.columns, (size_t)labels[b], l.columns, l.scale);
        if (l.losses != NULL) {
            l.losses[b] = value;
        }
    }
    return DDP_OK;
}

static ddp_status cpu_squared_error(struct ddp_device *device, struct ddp_stream *stream,
                                    const struct ddp_loss *loss, const float *target)
{
    const struct ddp_loss l = *loss;

    (void)device;
    (void)stream;
    for (size_t b = 0; b < l.rows; b++) {
        float sum = 0.0F;
        for (size_t o = 0; o < l.columns; o++) {
            float error = l.x[b * l.columns + o] - target[b * l.columns + o];
            sum += error * error;
            if (l.dx != NULL) {
                l.dx[b * l.columns + o] = error * l.scale;
            }
        }
        if (l.losses != NULL) {
            l.losses[b] = 0.5F * sum;
        }
    }
    return DDP_OK;
}

DDP_CLONES static void sgd_plain(float *restrict param, const float *restrict grad, float lr,
                                 float weight_decay, size_t elem_count)
{
    for (size_t i = 0; i < elem_count; i++) {
        float d = grad[i] + weight_decay * param[i];
        param[i] = param[i] - lr * d;
    }
}

DDP_CLONES static void sgd_momentum(const struct ddp_sgd *config, float *restrict param,
                                    const float *restrict grad, float *restrict buffer,
                                    size_t elem_count)
{
    const struct ddp_sgd c = *config;
    float keep = 1.0F - c.dampening;

    for (size_t i = 0; i < elem_count; i++) {
        float d = grad[i] + c.weight_decay * param[i];
        float moved = c.momentum * buffer[i] + keep * d;
        float next = c.is_first_step ? d : moved;
        float looked_ahead = d + c.momentum * next;
        buffer[i] = next;
        param[i] = param[i] - c.lr * (c.nesterov ? looked_ahead : next);
    }
}

static ddp_status cpu_sgd(struct ddp_device *device, struct ddp_stream *stream,
                          const struct ddp_sgd *config, float *param, const float *grad,
                          float *momentum_buffer, size_t elem_count)
{
    (void)device;
    (void)stream;
    if (config->momentum == 0.0F) {
        sgd_plain(param, grad, config->lr, config->weight_decay, elem_count);
    } else {
        sgd_momentum(config, param, grad, momentum_buffer, elem_count);
    }
    return DDP_OK;
}

DDP_CLONES static ddp_status cpu_adamw(struct ddp_device *device, struct ddp_stream *stream,
                                       const struct ddp_adamw *config, float *restrict param,
                                       const float *restrict grad, float *restrict m,
                                       float *restrict v, size_t elem_count)
{
    const struct ddp_adamw c = *config;
    float shrink = 1.0F - c.lr * c.weight_decay;
    float rest1 = 1.0F - c.beta1;
    float rest2 = 1.0F - c.beta2;
    float step = c.lr / c.bias_correction1;
    float root2 = sqrtf(c.bias_correction2);

    (void)device;
    (void)stream;
    for (size_t i = 0; i < elem_count; i++) {
        float g = grad[i];
        float decayed = param[i] * shrink;
        float m_next = c.beta1 * m[i] + rest1 * g;
        float v_next = c.beta2 * v[i] + rest2 * (g * g);
        float denominator = sqrtf(v_next) / root2 + c.eps;
        m[i] = m_next;
        v[i] = v_next;
        param[i] = decayed - step * (m_next / denominator);
    }
    return DDP_OK;
}

const struct ddp_math_ops ddp_device_cpu_math = {
    .gemm = cpu_gemm,
    .add_bias = cpu_add_bias,
    .sum_rows = cpu_sum_rows,
    .scale_columns = cpu_scale_columns,
    .dot_columns = cpu_dot_columns,
    .relu = cpu_relu,
    .relu_backward = cpu_relu_backward,
    .axpy = cpu_axpy,
    .softmax_cross_entropy = cpu_softmax_cross_entropy,
    .squared_error = cpu_squared_error,
    .sgd = cpu_sgd,
    .adamw = cpu_adamw,
};
