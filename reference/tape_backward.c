/* Backward over the tape, and that of the operations in tape.c. A parameter's gradient is announced
 * when its last node has contributed: shared parameters are counted over the whole tape first.
 * Gradients of values are overwritten by their first contribution and added to by later ones. */
#include "reference/tape.h"

void ref_tape_reach(const struct ref_tape *tape)
{
    for (size_t i = 0; i < tape->value_count; i++) {
        tape->values[i].is_needed = false;
    }
    for (size_t i = tape->node_count; i-- > 0;) {
        struct ref_node *node = &tape->nodes[i];

        node->is_reached = i + 1 == tape->node_count ||
                           (node->out != REF_NONE && tape->values[node->out].is_needed);
        if (!node->is_reached) {
            continue;
        }
        tape->values[node->x].is_needed = true;
        if (node->y != REF_NONE) {
            tape->values[node->y].is_needed = true;
        }
    }
}

float *ref_tape_target(const struct ref_tape *tape, const struct ref_value *value)
{
    return value->is_grad_written ? tape->scratch : value->grad;
}

ddp_status ref_tape_contribute(struct ref_tape *tape, struct ref_value *value)
{
    if (value->is_grad_written) {
        return tape->device->math->axpy(tape->device, NULL, value->grad, tape->scratch, 1.0F,
                                        value->rows * value->columns);
    }
    value->is_grad_written = true;
    return DDP_OK;
}

ddp_status ref_tape_contribute_copy(struct ref_tape *tape, struct ref_value *value, const float *dy)
{
    size_t elem_count = value->rows * value->columns;
    struct ddp_device *device = tape->device;

    if (value->grad == NULL) {
        return DDP_OK;
    }
    if (value->is_grad_written) {
        return device->math->axpy(device, NULL, value->grad, dy, 1.0F, elem_count);
    }
    value->is_grad_written = true;
    return device->ops->copy(device, NULL, value->grad, dy, elem_count * sizeof(float));
}

ddp_status ref_tape_param_done(struct ref_tape *tape, size_t index)
{
    const struct ref_model_observer *observer = tape->observer;

    DDP_ASSERT(tape->pending[index] > 0);
    if (tape->rounded != NULL) {
        DDP_TRY(ref_tape_leave_rounded(tape, index));
    } else {
        tape->params[index].is_grad_defined = true;
    }
    tape->pending[index]--;
    if (tape->pending[index] > 0 || observer == NULL || observer->grad_ready == NULL) {
        return DDP_OK;
    }
    return observer->grad_ready(observer->context, index);
}

/* bias.grad += or = the sum of dy's rows, weight.grad += or = that of dy * x; REF_NONE: not. */
static ddp_status bias_backward(struct ref_tape *tape, const struct ref_node *node)
{
    struct ddp_device *device = tape->device;
    const struct ref_value *out = &tape->values[node->out];
    struct ddp_param *bias;

    if (node->bias == REF_NONE) {
        return DDP_OK;
    }
    bias = &tape->params[node->bias];
    DDP_TRY(device->math->sum_rows(device, NULL, bias->grad, out->grad, out->rows, out->columns,
                                   bias->is_grad_defined));
    return ref_tape_param_done(tape, node->bias);
}

/* Parameters first, so that their reduction overlaps the product that gives dx. */
ddp_status ref_tape_linear_backward(struct ref_tape *tape, const struct ref_node *node)
{
    struct ddp_device *device = tape->device;
    struct ref_value *x = &tape->values[node->x];
    const struct ref_value *out = &tape->values[node->out];
    struct ddp_param *weight = &tape->params[node->weight];
    struct ddp_gemm gemm = {.transpose_a = true, /* dW(OxI) = dy(BxO)^T * x(BxI) */
                            .m = out->columns,
                            .n = x->columns,
                            .k = x->rows,
                            .alpha = 1.0F,
                            .a = out->grad,
                            .b = x->data,
                            .beta = weight->is_grad_defined ? 1.0F : 0.0F,
                            .c = weight->grad};

    DDP_TRY(bias_backward(tape, node));
    DDP_TRY(device->math->gemm(device, NULL, &gemm));
    DDP_TRY(ref_tape_param_done(tape, node->weight));
    if (x->grad == NULL) {
        return DDP_OK;
    }
    gemm = (struct ddp_gemm){.m = x->rows, /* dx(BxI) = dy(BxO) * W(OxI) */
                             .n = x->columns,
                             .k = out->columns,
                             .alpha = 1.0F,
                             .a = out->grad,
                             .b = weight->data,
                             .beta = x->is_grad_written ? 1.0F : 0.0F,
                             .c = x->grad};
    x->is_grad_written = true;
    return device->math->gemm(device, NULL, &gemm);
}

ddp_status ref_tape_relu_backward(struct ref_tape *tape, const struct ref_node *node)
{
    struct ref_value *x = &tape->values[node->x];
    const struct ref_value *out = &tape->values[node->out];

    if (x->grad == NULL) {
        return DDP_OK;
    }
    DDP_TRY(tape->device->math->relu_backward(tape->device, NULL, ref_tape_target(tape, x),
                                              out->grad, out->data, x->rows * x->columns));
    return ref_tape_contribute(tape, x);
}

ddp_status ref_tape_scale_backward(struct ref_tape *tape, const struct ref_node *node)
{
    struct ddp_device *device = tape->device;
    struct ref_value *x = &tape->values[node->x];
    const struct ref_value *out = &tape->values[node->out];
    struct ddp_param *weight = &tape->params[node->weight];

    DDP_TRY(bias_backward(tape, node));
    DDP_TRY(device->math->dot_columns(device, NULL, weight->grad, out->grad, x->data, x->rows,
                                      x->columns, weight->is_grad_defined));
    DDP_TRY(ref_tape_param_done(tape, node->weight));
    if (x->grad == NULL) {
        return DDP_OK;
    }
    DDP_TRY(device->math->scale_columns(device, NULL, ref_tape_target(tape, x), out->grad,
                                        weight->data, x->rows, x->columns));
    return ref_tape_contribute(tape, x);
}

ddp_status ref_tape_add_backward(struct ref_tape *tape, const struct ref_node *node)
{
    const float *dy = tape->values[node->out].grad;

    DDP_TRY(ref_tape_contribute_copy(tape, &tape->values[node->x], dy));
    return ref_tape_contribute_copy(tape, &tape->values[node->y], dy);
}

/* The gradient that the loss gives x. */
static struct ddp_loss backward_loss(const struct ref_tape *tape, const struct ref_value *x)
{
    return (struct ddp_loss){
        .dx = x->grad,
        .x = x->data,
        .rows = x->rows,
        .columns = x->columns,
        .scale = tape->loss_scale / (float)x->rows, /* the loss is a mean over rows */
    };
}

ddp_status ref_tape_cross_entropy_backward(struct ref_tape *tape, const struct ref_node *node)
{
    struct ref_value *x = &tape->values[node->x];
    const struct ddp_loss loss = backward_loss(tape, x);

    if (x->grad == NULL) {
        return DDP_OK; /* an input: nobody wants its gradient */
    }
    x->is_grad_written = true;
    return tape->device->math->softmax_cross_entropy(tape->device, NULL, &loss, node->index);
}

ddp_status ref_tape_squared_error_backward(struct ref_tape *tape, const struct ref_node *node)
{
    struct ref_value *x = &tape->values[node->x];
    const struct ddp_loss loss = backward_loss(tape, x);

    if (x->grad == NULL) {
        return DDP_OK;
    }
    x->is_grad_written = true;
    return tape->device->math->squared_error(tape->device, NULL, &loss, tape->values[node->y].data);
}

ddp_status ref_tape_backward(struct ref_tape *tape, float loss_scale,
                             const struct ref_model_observer *observer)
{
    tape->observer = observer;
    tape->loss_scale = loss_scale;
    ref_tape_reach(tape);
    for (size_t p = 0; p < tape->param_count; p++) {
        tape->pending[p] = 0;
    }
    for (size_t i = 0; i < tape->value_count; i++) {
        tape->values[i].is_grad_written = false;
    }
    for (size_t i = 0; i < tape->node_count; i++) {
        const struct ref_node *node = &tape->nodes[i];

        if (node->is_reached && node->weight != REF_NONE) {
            tape->pending[node->weight]++;
        }
        if (node->is_reached && node->bias != REF_NONE) {
            tape->pending[node->bias]++;
        }
    }
    for (size_t i = tape->node_count; i-- > 0;) {
        const struct ref_node *node = &tape->nodes[i];

        if (node->is_reached) {
            /* Every node behind this one that the loss depends on has contributed. */
            DDP_ASSERT(node->out == REF_NONE || tape->values[node->out].is_grad_written);
            DDP_TRY(node->backward(tape, node));
            DDP_TRY(ref_tape_round_gradient(tape, node->x));
            DDP_TRY(ref_tape_round_gradient(tape, node->y));
        }
    }
    for (size_t p = 0; p < tape->param_count; p++) {
        DDP_ASSERT(tape->pending[p] == 0);
    }
    return DDP_OK;
}
