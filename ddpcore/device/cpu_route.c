/* The CPU device's kernels of routed experts. */
#include "ddpcore/device/clones.h"
#include "ddpcore/device/cpu_layers.h"

ddp_status ddp_cpu_route(struct ddp_device *device, struct ddp_stream *stream, float *probs,
                         int32_t *choice, const float *x, size_t rows, size_t experts)
{
    (void)device;
    (void)stream;
    for (size_t b = 0; b < rows; b++) {
        const float *in = x + b * experts;
        float *out = probs + b * experts;
        size_t best = 0;
        float sum;

        for (size_t e = 1; e < experts; e++) {
            best = in[e] > in[best] ? e : best;
        }
        for (size_t e = 0; e < experts; e++) {
            out[e] = ddp_cpu_exp(in[e] - in[best]);
        }
        sum = ddp_cpu_sum_row(out, experts);
        for (size_t e = 0; e < experts; e++) {
            out[e] /= sum;
        }
        choice[b] = (int32_t)best;
    }
    return DDP_OK;
}

static float weight_of(const struct ddp_route *route, size_t row)
{
    return route->probs[row * route->experts + (size_t)route->choice[row]];
}

ddp_status ddp_cpu_gate(struct ddp_device *device, struct ddp_stream *stream, float *y,
                        const float *x, const struct ddp_route *route, size_t columns)
{
    (void)device;
    (void)stream;
    for (size_t b = 0; b < route->rows; b++) {
        const float weight = weight_of(route, b);

        for (size_t o = 0; o < columns; o++) {
            y[b * columns + o] = x[b * columns + o] * weight;
        }
    }
    return DDP_OK;
}

ddp_status ddp_cpu_gate_backward(struct ddp_device *device, struct ddp_stream *stream, float *dx,
                                 float *dlogits, const float *dy, const float *x,
                                 const struct ddp_route *route, size_t columns)
{
    (void)device;
    (void)stream;
    for (size_t b = 0; b < route->rows; b++) {
        const float *probs = route->probs + b * route->experts;
        const size_t choice = (size_t)route->choice[b];
        const float weight = probs[choice];
        const float dweight = ddp_cpu_dot_row(dy + b * columns, x + b * columns, columns) * weight;

        for (size_t o = 0; o < columns; o++) {
            dx[b * columns + o] = dy[b * columns + o] * weight;
        }
        for (size_t e = 0; e < route->experts; e++) {
            dlogits[b * route->experts + e] = dweight * ((e == choice ? 1.0F : 0.0F) - probs[e]);
        }
    }
    return DDP_OK;
}
