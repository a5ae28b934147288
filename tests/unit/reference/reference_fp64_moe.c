/* Naive fp64 forward pass of moe: each row through the one expert that it is given. */
#include <math.h>

#include "tests/unit/reference/reference_fp64.h"

static void linear(const double *x, const double *weight, const double *bias, size_t inputs,
                   size_t outputs, double *y)
{
    for (size_t o = 0; o < outputs; o++) {
        y[o] = bias[o];
        for (size_t i = 0; i < inputs; i++) {
            y[o] += weight[o * inputs + i] * x[i];
        }
    }
}

static void relu(double *x, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        x[i] = fmax(x[i], 0.0);
    }
}

/* log of the sum of exponentials; *out_best: the first largest */
static double log_sum(const double *x, size_t count, size_t *out_best)
{
    double sum = 0.0;

    *out_best = 0;
    for (size_t i = 0; i < count; i++) {
        *out_best = x[i] > x[*out_best] ? i : *out_best;
        sum += exp(x[i]);
    }
    return log(sum);
}

double fp64_moe_loss(const struct ref_model_config *config, const struct fp64_params *params,
                     const struct ref_batch *batch)
{
    const double(*p)[FP64_ELEMS_MAX] = params->elem;
    size_t inputs = config->width[0], d = config->width[1], classes = config->width[2];
    const double(*head)[FP64_ELEMS_MAX] = p + 4 + 4 * config->experts;
    double total = 0.0;

    for (size_t n = 0; n < batch->rows; n++) {
        double x[FP64_WIDTH_MAX], h[FP64_WIDTH_MAX], y[FP64_WIDTH_MAX];
        double z[FP64_WIDTH_MAX] = {0};
        size_t expert;
        size_t unused;
        double weight;

        for (size_t i = 0; i < inputs; i++) {
            x[i] = (double)batch->features[n * inputs + i];
        }
        linear(x, p[0], p[1], inputs, d, h);
        relu(h, d);
        linear(h, p[2], p[3], d, config->experts, z);
        weight = log_sum(z, config->experts, &expert);
        weight = exp(z[expert] - weight);
        linear(h, p[4 + 4 * expert], p[5 + 4 * expert], d, d, y);
        relu(y, d);
        linear(y, p[6 + 4 * expert], p[7 + 4 * expert], d, d, z);
        for (size_t i = 0; i < d; i++) {
            h[i] += weight * z[i];
        }
        linear(h, head[0], head[1], d, classes, z);
        total += log_sum(z, classes, &unused) - z[batch->labels[n]];
    }
    return total / (double)batch->rows;
}
