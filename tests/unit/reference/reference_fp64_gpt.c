/* Naive fp64 forward pass of gpt: token by token, head by head, as the formulas are written. */
#include <math.h>
#include <string.h>

#include "tests/unit/reference/reference_fp64.h"

enum { TOKENS_MAX = 4, D_MAX = 4, BLOCK_PARAMS = 12 };

struct sequence {
    size_t tokens, width;
    double at[TOKENS_MAX][4 * D_MAX];
};

static struct sequence layer_norm(const struct sequence *x, const double *weight,
                                  const double *bias)
{
    struct sequence y = *x;

    for (size_t t = 0; t < x->tokens; t++) {
        double mean = 0.0;
        double variance = 0.0;

        for (size_t i = 0; i < x->width; i++) {
            mean += x->at[t][i] / (double)x->width;
        }
        for (size_t i = 0; i < x->width; i++) {
            variance += (x->at[t][i] - mean) * (x->at[t][i] - mean) / (double)x->width;
        }
        for (size_t i = 0; i < x->width; i++) {
            y.at[t][i] = (x->at[t][i] - mean) / sqrt(variance + 1e-5) * weight[i] + bias[i];
        }
    }
    return y;
}

static struct sequence linear(const struct sequence *x, const double *weight, const double *bias,
                              size_t outputs)
{
    struct sequence y = {.tokens = x->tokens, .width = outputs};

    for (size_t t = 0; t < x->tokens; t++) {
        for (size_t o = 0; o < outputs; o++) {
            y.at[t][o] = bias != NULL ? bias[o] : 0.0;
            for (size_t i = 0; i < x->width; i++) {
                y.at[t][o] += weight[o * x->width + i] * x->at[t][i];
            }
        }
    }
    return y;
}

/* One head of one token: the values of the tokens up to it, by the softmax of their scores. */
static void attend(const struct sequence *qkv, size_t t, size_t first, size_t head_width,
                   double *out)
{
    size_t d = qkv->width / 3;
    double weight[TOKENS_MAX];
    double sum = 0.0;

    for (size_t s = 0; s <= t; s++) {
        double score = 0.0;

        for (size_t i = first; i < first + head_width; i++) {
            score += qkv->at[t][i] * qkv->at[s][d + i];
        }
        weight[s] = exp(score / sqrt((double)head_width));
        sum += weight[s];
    }
    for (size_t i = first; i < first + head_width; i++) {
        out[i] = 0.0;
        for (size_t s = 0; s <= t; s++) {
            out[i] += weight[s] / sum * qkv->at[s][2 * d + i];
        }
    }
}

static void add(struct sequence *x, const struct sequence *y)
{
    for (size_t t = 0; t < x->tokens; t++) {
        for (size_t i = 0; i < x->width; i++) {
            x->at[t][i] += y->at[t][i];
        }
    }
}

static void block(struct sequence *x, const double (*p)[FP64_ELEMS_MAX], size_t heads)
{
    size_t d = x->width;
    struct sequence h = layer_norm(x, p[0], p[1]);
    struct sequence y = {.tokens = x->tokens, .width = d};

    h = linear(&h, p[2], p[3], 3 * d);
    for (size_t t = 0; t < x->tokens; t++) {
        for (size_t head = 0; head < heads; head++) {
            attend(&h, t, head * d / heads, d / heads, y.at[t]);
        }
    }
    h = linear(&y, p[4], p[5], d);
    add(x, &h);
    h = layer_norm(x, p[6], p[7]);
    h = linear(&h, p[8], p[9], 4 * d);
    for (size_t t = 0; t < h.tokens; t++) {
        for (size_t i = 0; i < h.width; i++) {
            double v = h.at[t][i];
            h.at[t][i] =
                0.5 * v *
                (1.0 + tanh(sqrt(2.0 / 3.14159265358979323846) * (v + 0.044715 * v * v * v)));
        }
    }
    h = linear(&h, p[10], p[11], d);
    add(x, &h);
}

double fp64_gpt_loss(const struct ref_model_config *config, const struct fp64_params *params,
                     const struct ref_batch *batch)
{
    const double(*p)[FP64_ELEMS_MAX] = params->elem;
    size_t block_count = config->width_count - 2;
    size_t tokens = config->width[0], d = config->width[1];
    size_t vocabulary = config->width[config->width_count - 1];
    const double(*last)[FP64_ELEMS_MAX] = p + 2 + BLOCK_PARAMS * block_count;
    double total = 0.0;

    for (size_t n = 0; n < batch->rows; n++) {
        struct sequence x = {.tokens = tokens, .width = d};

        for (size_t t = 0; t < tokens; t++) {
            size_t id = (size_t)batch->features[n * tokens + t];
            for (size_t i = 0; i < d; i++) {
                x.at[t][i] = p[0][id * d + i] + p[1][t * d + i];
            }
        }
        for (size_t b = 0; b < block_count; b++) {
            block(&x, p + 2 + BLOCK_PARAMS * b, config->heads);
        }
        x = layer_norm(&x, last[0], last[1]);
        x = linear(&x, p[0], NULL, vocabulary);
        for (size_t t = 0; t < tokens; t++) {
            double sum = 0.0;

            for (size_t v = 0; v < vocabulary; v++) {
                sum += exp(x.at[t][v]);
            }
            total += log(sum) - x.at[t][batch->labels[n * tokens + t]];
        }
    }
    return total / (double)(batch->rows * tokens);
}
