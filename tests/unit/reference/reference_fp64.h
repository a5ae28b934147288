/* Naive fp64 forward passes of the reference models, for finite differences. */
#ifndef TESTS_UNIT_REFERENCE_REFERENCE_FP64_H
#define TESTS_UNIT_REFERENCE_REFERENCE_FP64_H

#include "reference/model.h"

enum { FP64_ROWS_MAX = 16, FP64_WIDTH_MAX = 16, FP64_PARAMS_MAX = 32, FP64_ELEMS_MAX = 256 };

/* A parameter's elements as the floats that they are in the reference. */
static inline float *data_of(const struct ddp_param *param)
{
    return param->data;
}

static inline float *grad_of(const struct ddp_param *param)
{
    return param->grad;
}

/* A model's parameters in double, in the order of its table. */
struct fp64_params {
    double elem[FP64_PARAMS_MAX][FP64_ELEMS_MAX];
};

void fp64_load(struct fp64_params *params, const struct ddp_param *table, size_t count);
/* Mean loss of a batch. has_a, has_b: branchy's branches. */
double fp64_loss(const struct ref_model_config *config, const struct fp64_params *params,
                 const struct ref_batch *batch, bool has_a, bool has_b);
/* The same of convnet. moments: [channels of all blocks][mean, biased variance] of the batch, or
 * NULL. */
double fp64_convnet_loss(const struct ref_model_config *config, const struct fp64_params *params,
                         const struct ref_batch *batch, double (*moments)[2]);
double fp64_gpt_loss(const struct ref_model_config *config, const struct fp64_params *params,
                     const struct ref_batch *batch);
double fp64_moe_loss(const struct ref_model_config *config, const struct fp64_params *params,
                     const struct ref_batch *batch);

#endif
