/* Naive fp64 forward pass of convnet: channel-first images, as torch.nn writes its formulas. */
#include <math.h>

#include "tests/unit/reference/reference_fp64.h"

enum { CHANNELS_MAX = 4, SIDE_MAX = 4 };

struct images {
    size_t count, channels, side;
    double at[FP64_ROWS_MAX][CHANNELS_MAX][SIDE_MAX][SIDE_MAX];
};

/* weight: [outputs][x->channels][3][3], zeros around the image */
static struct images conv(const struct images *x, const double *weight, size_t outputs)
{
    struct images y = {.count = x->count, .channels = outputs, .side = x->side};

    for (size_t n = 0; n < x->count; n++) {
        for (size_t i = 0; i < outputs * x->side * x->side * x->channels * 9; i++) {
            size_t kx = i % 3, ky = i / 3 % 3, c = i / 9 % x->channels;
            size_t place = i / 9 / x->channels;
            size_t col = place % x->side, row = place / x->side % x->side;
            size_t o = place / x->side / x->side;
            size_t from_row = row + ky - 1, from_col = col + kx - 1; /* wraps below 0 */

            if (from_row < x->side && from_col < x->side) {
                y.at[n][o][row][col] += weight[((o * x->channels + c) * 3 + ky) * 3 + kx] *
                                        x->at[n][c][from_row][from_col];
            }
        }
    }
    return y;
}

/* In place: BatchNorm of training mode, then ReLU. moments: mean and biased variance of channels */
static void norm_relu(struct images *x, const double *weight, const double *bias,
                      double (*moments)[2])
{
    double n = (double)(x->count * x->side * x->side);
    size_t pixels = x->side * x->side;

    for (size_t c = 0; c < x->channels; c++) {
        double mean = 0.0;
        double variance = 0.0;

        for (size_t i = 0; i < x->count * pixels; i++) {
            mean += x->at[i / pixels][c][i / x->side % x->side][i % x->side] / n;
        }
        for (size_t i = 0; i < x->count * pixels; i++) {
            double off = x->at[i / pixels][c][i / x->side % x->side][i % x->side] - mean;
            variance += off * off / n;
        }
        for (size_t i = 0; i < x->count * pixels; i++) {
            double *at = &x->at[i / pixels][c][i / x->side % x->side][i % x->side];
            *at = fmax(0.0, (*at - mean) / sqrt(variance + 1e-5) * weight[c] + bias[c]);
        }
        moments[c][0] = mean;
        moments[c][1] = variance;
    }
}

static struct images pool(const struct images *x, size_t window)
{
    struct images y = {.count = x->count, .channels = x->channels, .side = x->side / window};

    for (size_t n = 0; n < x->count; n++) {
        for (size_t c = 0; c < x->channels; c++) {
            for (size_t i = 0; i < y.side * window * y.side * window; i++) {
                size_t row = i / (y.side * window), col = i % (y.side * window);
                y.at[n][c][row / window][col / window] +=
                    x->at[n][c][row][col] / (double)(window * window);
            }
        }
    }
    return y;
}

double fp64_convnet_loss(const struct ref_model_config *config, const struct fp64_params *params,
                         const struct ref_batch *batch, double (*moments)[2])
{
    static double unwanted[FP64_WIDTH_MAX][2];
    size_t block_count = config->width_count - 2;
    struct images x = {.count = batch->rows, .channels = 1};
    const double *weight = params->elem[3 * block_count];
    const double *bias = params->elem[3 * block_count + 1];
    size_t classes = config->width[config->width_count - 1];
    double total = 0.0;

    while (x.side * x.side < config->width[0]) {
        x.side++;
    }
    for (size_t i = 0; i < batch->rows * config->width[0]; i++) {
        x.at[i / config->width[0]][0][i % config->width[0] / x.side][i % x.side] =
            (double)batch->features[i];
    }
    for (size_t block = 0; block < block_count; block++) {
        x = conv(&x, params->elem[3 * block], config->width[1 + block]);
        norm_relu(&x, params->elem[3 * block + 1], params->elem[3 * block + 2],
                  moments == NULL ? unwanted : moments);
        moments = moments == NULL ? NULL : moments + config->width[1 + block];
        x = pool(&x, block + 1 < block_count ? 2 : x.side);
    }
    for (size_t n = 0; n < batch->rows; n++) {
        double logit[FP64_WIDTH_MAX];
        double sum = 0.0;

        for (size_t o = 0; o < classes; o++) {
            logit[o] = bias[o];
            for (size_t c = 0; c < x.channels; c++) {
                logit[o] += weight[o * x.channels + c] * x.at[n][c][0][0];
            }
            sum += exp(logit[o]);
        }
        total += log(sum) - logit[batch->labels[n]];
    }
    return total / (double)batch->rows;
}
