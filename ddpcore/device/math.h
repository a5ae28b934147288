/* Kernels of models and optimizers, on a device's memory, fp32.
 *
 * Matrices are row-major with packed rows. Shape letters: B rows of a batch, I inputs, O outputs,
 * N elements. All tensors of one call are on the same device and do not overlap unless said.
 * Every kernel is deterministic: the same inputs give the same bits, whatever ran before. Sums over
 * rows run in a fixed order that the comment states, because the oracle emulates optimizers and
 * tests compare each kernel with a naive fp64 loop. */
#ifndef DDPCORE_DEVICE_MATH_H
#define DDPCORE_DEVICE_MATH_H

#include "ddpcore/device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* C(m x n) = alpha * op(A)(m x k) * op(B)(k x n) + beta * C */
struct ddp_gemm {
    bool transpose_a; /* A is stored k x m */
    bool transpose_b; /* B is stored n x k */
    size_t m, n, k;
    float alpha;
    const float *a;
    const float *b;
    float beta;
    float *c;
};

/* What both loss kernels take. */
struct ddp_loss {
    float *losses;  /* B, or NULL */
    float *dx;      /* BxO, or NULL */
    const float *x; /* BxO */
    size_t rows, columns;
    float scale; /* of dx */
};

struct ddp_sgd {
    float lr;
    float momentum; /* 0: no momentum buffer is touched */
    float weight_decay;
    float dampening;
    bool nesterov;
    bool is_first_step; /* the momentum buffer starts as the gradient (torch.optim.SGD) */
};

struct ddp_adamw {
    float lr, beta1, beta2, eps, weight_decay;
    /* 1 - beta^t, computed by the caller in double and rounded once to float. */
    float bias_correction1, bias_correction2;
};

struct ddp_math_ops {
    ddp_status (*gemm)(struct ddp_device *device, struct ddp_stream *stream,
                       const struct ddp_gemm *gemm);
    /* y(BxO)[b][o] = x[b][o] + bias[o]; y == x allowed */
    ddp_status (*add_bias)(struct ddp_device *device, struct ddp_stream *stream, float *y,
                           const float *x, const float *bias, size_t rows, size_t columns);
    /* target[o] += or = sum over b, in ascending b, of x[b][o]; the sum starts from row 0 and is
     * added to target last */
    ddp_status (*sum_rows)(struct ddp_device *device, struct ddp_stream *stream, float *target,
                           const float *x, size_t rows, size_t columns, bool is_accumulate);
    /* y(BxO)[b][o] = x[b][o] * factor[o]; y == x allowed */
    ddp_status (*scale_columns)(struct ddp_device *device, struct ddp_stream *stream, float *y,
                                const float *x, const float *factor, size_t rows, size_t columns);
    /* target[o] += or = sum over b, in ascending b, of x[b][o] * y[b][o] (product rounded) */
    ddp_status (*dot_columns)(struct ddp_device *device, struct ddp_stream *stream, float *target,
                              const float *x, const float *y, size_t rows, size_t columns,
                              bool is_accumulate);
    /* y = max(x, 0), a NaN stays NaN; y == x allowed */
    ddp_status (*relu)(struct ddp_device *device, struct ddp_stream *stream, float *y,
                       const float *x, size_t elem_count);
    /* dx = y > 0 ? dy : 0 (y: relu's output); dx == dy allowed */
    ddp_status (*relu_backward)(struct ddp_device *device, struct ddp_stream *stream, float *dx,
                                const float *dy, const float *y, size_t elem_count);
    /* target += alpha * x (two roundings: product, sum) */
    ddp_status (*axpy)(struct ddp_device *device, struct ddp_stream *stream, float *target,
                       const float *x, float alpha, size_t elem_count);
    /* losses[b] = -log softmax(x[b])[label[b]]; dx[b][o] = (softmax - onehot) * scale.
     * A row with a NaN or +Inf (or nothing but -Inf) gives NaN in its loss and its dx.
     * Errors: E_INVALID for a label outside [0, columns), where the host can see it.
     * labels: int32[B] in the device's memory, as all that loss points to */
    ddp_status (*softmax_cross_entropy)(struct ddp_device *device, struct ddp_stream *stream,
                                        const struct ddp_loss *loss, const int32_t *labels);
    /* losses[b] = 0.5 * sum_o (x - target)^2 (ascending o); dx = (x - target) * scale */
    ddp_status (*squared_error)(struct ddp_device *device, struct ddp_stream *stream,
                                const struct ddp_loss *loss, const float *target);
    /* torch.optim.SGD. d = grad + weight_decay*param; if momentum: buffer = first ? d :
     * momentum*buffer + (1-dampening)*d; d = nesterov ? d + momentum*buffer : buffer;
     * param = param - lr*d. Each product and each sum is rounded once, in that order. */
    ddp_status (*sgd)(struct ddp_device *device, struct ddp_stream *stream,
                      const struct ddp_sgd *config, float *param, const float *grad,
                      float *momentum_buffer, size_t elem_count);
    /* torch.optim.AdamW. param = param*(1 - lr*weight_decay); m = beta1*m + (1-beta1)*grad;
     * v = beta2*v + (1-beta2)*(grad*grad); denominator = sqrt(v)/sqrt(bias_correction2) + eps;
     * param = param - (lr/bias_correction1)*(m/denominator). Scalars 1-lr*wd, 1-beta, lr/bc1,
     * sqrt(bc2) are computed once in float from the config; each elementwise operation is rounded
     * once, in the order written. */
    ddp_status (*adamw)(struct ddp_device *device, struct ddp_stream *stream,
                        const struct ddp_adamw *config, float *param, const float *grad, float *m,
                        float *v, size_t elem_count);
};

#ifdef __cplusplus
}
#endif
#endif
