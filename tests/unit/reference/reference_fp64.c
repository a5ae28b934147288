/* Naive fp64 forward passes: plain loops from the models' formulas, sharing nothing with the tape
 * or the device's kernels. */
#include "tests/unit/reference/reference_fp64.h"

#include <math.h>
#include <string.h>

struct matrix {
    size_t rows, columns;
    double at[FP64_ROWS_MAX][FP64_WIDTH_MAX];
};

void fp64_load(struct fp64_params *params, const struct ddp_param *table, size_t count)
{
    for (size_t p = 0; p < count; p++) {
        for (size_t i = 0; i < table[p].elem_count; i++) {
            params->elem[p][i] = (double)data_of(&table[p])[i];
        }
    }
}

static struct matrix load_matrix(const float *values, size_t rows, size_t columns)
{
    struct matrix m = {.rows = rows, .columns = columns};

    for (size_t i = 0; i < rows * columns; i++) {
        m.at[i / columns][i % columns] = (double)values[i];
    }
    return m;
}

/* x W^T + b, W: [outputs][inputs] */
static struct matrix linear(const struct matrix *x, const double *weight, const double *bias,
                            size_t outputs)
{
    struct matrix y = {.rows = x->rows, .columns = outputs};

    for (size_t r = 0; r < x->rows; r++) {
        for (size_t o = 0; o < outputs; o++) {
            y.at[r][o] = bias[o];
            for (size_t i = 0; i < x->columns; i++) {
                y.at[r][o] += x->at[r][i] * weight[o * x->columns + i];
            }
        }
    }
    return y;
}

static void relu(struct matrix *x)
{
    for (size_t r = 0; r < x->rows; r++) {
        for (size_t o = 0; o < x->columns; o++) {
            x->at[r][o] = fmax(x->at[r][o], 0.0);
        }
    }
}

static double cross_entropy(const struct matrix *x, const int32_t *labels)
{
    double total = 0.0;

    for (size_t r = 0; r < x->rows; r++) {
        double sum = 0.0;
        for (size_t o = 0; o < x->columns; o++) {
            sum += exp(x->at[r][o]);
        }
        total += log(sum) - x->at[r][labels[r]];
    }
    return total / (double)x->rows;
}

static double branchy_loss(const struct ref_model_config *config, const struct fp64_params *params,
                           const struct ref_batch *batch, bool has_a, bool has_b)
{
    const double(*p)[FP64_ELEMS_MAX] = params->elem;
    size_t width = config->width[1];
    struct matrix x = load_matrix(batch->features, batch->rows, config->width[0]);
    struct matrix h = linear(&x, p[0], p[1], width);
    struct matrix sum = {.rows = batch->rows, .columns = width};
    struct matrix branch[2];

    relu(&h);
    branch[0] = linear(&h, p[3], p[4], width);
    branch[1] = linear(&h, p[5], p[6], width);
    for (size_t r = 0; r < batch->rows; r++) {
        for (size_t o = 0; o < width; o++) {
            sum.at[r][o] =
                p[2][o] * ((has_a ? branch[0].at[r][o] : 0.0) + (has_b ? branch[1].at[r][o] : 0.0));
        }
    }
    relu(&sum);
    x = linear(&sum, p[7], p[8], config->width[2]);
    return cross_entropy(&x, batch->labels);
}

double fp64_loss(const struct ref_model_config *config, const struct fp64_params *params,
                 const struct ref_batch *batch, bool has_a, bool has_b)
{
    struct matrix x;
    double total = 0.0;

    if (strcmp(config->name, "branchy") == 0) {
        return branchy_loss(config, params, batch, has_a, has_b);
    }
    if (strcmp(config->name, "convnet") == 0) {
        return fp64_convnet_loss(config, params, batch, NULL);
    }
    if (strcmp(config->name, "gpt") == 0) {
        return fp64_gpt_loss(config, params, batch);
    }
    if (strcmp(config->name, "moe") == 0) {
        return fp64_moe_loss(config, params, batch);
    }
    x = load_matrix(batch->features, batch->rows, config->width[0]);
    for (size_t layer = 0; layer + 1 < config->width_count; layer++) {
        x = linear(&x, params->elem[2 * layer], params->elem[2 * layer + 1],
                   config->width[layer + 1]);
        if (layer + 2 < config->width_count) {
            relu(&x);
        }
    }
    if (strcmp(config->name, "exact_linear") != 0) {
        return cross_entropy(&x, batch->labels);
    }
    for (size_t i = 0; i < x.rows * x.columns; i++) {
        double error = x.at[i / x.columns][i % x.columns] - (double)batch->targets[i];
        total += 0.5 * error * error;
    }
    return total / (double)x.rows;
}
