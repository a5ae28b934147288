/* exact_linear: y = x W^T + b with squared error on dyadic data, so that gradients and their sums
 * over ranks are exact in fp32 in any order.
 *
 * Bit budget. Features and initial parameters are -1, 0 or 1, targets integers up to 3; n = rows of
 * a step over all ranks and micro-batches and lr are powers of two, plain SGD. Let g = log2(n/lr).
 * After k steps parameters are multiples of 2^-kg; an error is below 8 and, times x and summed over
 * n rows, below 8n in multiples of 2^-kg. Everything is exact while
 *     k*g + log2(n) + 3 <= 24,   that is for 1 + floor((21 - log2 n) / g) steps:
 * 4 ranks x 4 rows, lr 1/2: g = 5, 4 steps; 2 ranks x 4 rows, lr 1: g = 3, 7 steps. */
#include "reference/model_kind.h"

static ddp_status describe_exact_linear(const struct ref_model_config *config,
                                        struct ref_model_spec *spec, struct ddp_err *err)
{
    if (config->width_count != 2 || config->width[0] == 0 || config->width[1] == 0) {
        return ddp_err_set(err, DDP_E_INVALID, "exact_linear needs 2 widths: input, output");
    }
    ref_spec_add_linear(spec, "linear", config->width[1], config->width[0], REF_INIT_TRIT);
    return DDP_OK;
}

static ddp_status forward_exact_linear(struct ref_model *model, const struct ref_batch *batch)
{
    struct ref_tape *tape = &model->tape;
    size_t target;
    size_t x;

    DDP_TRY(ref_tape_input(tape, batch->features, 1, model->config.width[0], &x));
    DDP_TRY(ref_tape_input(tape, batch->targets, 1, model->config.width[1], &target));
    DDP_TRY(ref_tape_layer(tape, 0));
    DDP_TRY(ref_tape_linear(tape, x, 0, 1, &x));
    return ref_tape_squared_error(tape, x, target);
}

const struct ref_model_kind ref_model_exact_linear = {
    .is_regression = true, .describe = describe_exact_linear, .forward = forward_exact_linear};
