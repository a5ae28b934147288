/* Backward over the tape. A parameter's gradient is announced when its last node has contributed:
 * shared parameters are counted over the whole tape first. Gradients of values are overwritten by
 * their first contribution and added to by later ones. */
#include "reference/tape.h"

void ref_tape_reach(const struct ref_tape *tape, bool *is_reached)
{
    bool is_value_needed[REF_TAPE_VALUES_MAX] = {false};

    for (size_t i = tape->node_count; i-- > 0;) {
        const struct ref_node *node = &tape->nodes[i];

        is_reached[i] =
            i + 1 == tape->node_count || (node->out != REF_NONE && is_value_needed[node->out]);
        if (!is_reached[i]) {
            continue;
        }
        is_value_needed[node->x] = true;
        if (node->y != REF_NONE) {
            is_value_needed[node->y] = true;
        }
    }
}

/* Where a node writes its contribution to a value's gradient: there at first, else in scratch. */
static float *contribution_target(const struct ref_tape *tape, const struct ref_value *value)
{
    return value->is_grad_written ? tape->scratch : value->grad;
}

/* Call once the contribution was written to contribution_target. */
static ddp_status contribution_done(struct ref_tape *tape, struct ref_value *value)
{
    if (value->is_grad_written) {
        return tape->device->math->axpy(tape->device, NULL, value->grad, tape->scratch, 1.0F,
                                        tape->rows * value->columns);
    }
    value->is_grad_written = true;
    return DDP_OK;
}

/* params[index].grad has received one contribution. */
static ddp_status param_contributed(struct ref_tape *tape, size_t index)
{
    const struct ref_model_observer *observer = tape->observer;

    DDP_ASSERT(tape->pending[index] > 0);
    tape->params[index].is_grad_defined = true;
    tape->pending[index]--;
    if (tape->pending[index] > 0 || observer == NULL || observer->grad_ready == NULL) {
        return DDP_OK;
    }
    return observer->grad_ready(observer->context, index);
}

/* Parameters first, so that their reduction overlaps the product that gives dx. */
static ddp_status linear_backward(struct ref_tape *tape, const struct ref_node *node)
{
    struct ddp_device *device = tape->device;
    struct ref_value *x = &tape->values[node->x];
    const struct ref_value *out = &tape->values[node->out];
    struct ddp_param *weight = &tape->params[node->weight];
    struct ddp_gemm gemm = {.transpose_a = true, /* dW(OxI) = dy(BxO)^T * x(BxI) */
                            .m = out->columns,
                            .n = x->columns,
                            .k = tape->rows,
                            .alpha = 1.0F,
                            .a = out->grad,
                            .b = x->data,
                            .beta = weight->is_grad_defined ? 1.0F : 0.0F,
                            .c = weight->grad};

    if (node->bias != REF_NONE) {
        struct ddp_param *bias = &tape->params[node->bias];
        DDP_TRY(device->math->sum_rows(device, NULL, bias->grad, out->grad, tape->rows,
                                       out->columns, bias->is_grad_defined));
        DDP_TRY(param_contributed(tape, node->bias));
    }
    DDP_TRY(device->math->gemm(device, NULL, &gemm));
    DDP_TRY(param_contributed(tape, node->weight));
    if (x->grad == NULL) {
        return DDP_OK;
    }
    gemm = (struct ddp_gemm){.m = tape->rows, /* dx(BxI) = dy(BxO) * W(OxI) */
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

static ddp_status relu_backward(struct ref_tape *tape, const struct ref_node *node)
{
    struct ref_value *x = &tape->values[node->x];
    const struct ref_value *out = &tape->values[node->out];

    if (x->grad == NULL) {
        return DDP_OK;
    }
    DDP_TRY(tape->device->math->relu_backward(tape->device, NULL, contribution_target(tape, x),
                                              out->grad, out->data, tape->rows * x->columns));
    return contribution_done(tape, x);
}

static ddp_status scale_backward(struct ref_tape *tape, const struct ref_node *node)
{
    struct ddp_device *device = tape->device;
    struct ref_value *x = &tape->values[node->x];
    const struct ref_value *out = &tape->values[node->out];
    struct ddp_param *weight = &tape->params[node->weight];

    DDP_TRY(device->math->dot_columns(device, NULL, weight->grad, out->grad, x->data, tape->rows,
                                      x->columns, weight->is_grad_defined));
    DDP_TRY(param_contributed(tape, node->weight));
    if (x->grad == NULL) {
        return DDP_OK;
    }
    DDP_TRY(device->math->scale_columns(device, NULL, contribution_target(tape, x), out->grad,
                                        weight->data, tape->rows, x->columns));
    return contribution_done(tape, x);
}

static ddp_status add_backward_to(struct ref_tape *tape, struct ref_value *value, const float *dy)
{
    size_t elem_count = tape->rows * value->columns;
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

static ddp_status loss_backward(struct ref_tape *tape, const struct ref_node *node,
                                float loss_scale)
{
    struct ddp_device *device = tape->device;
    struct ref_value *x = &tape->values[node->x];
    const struct ddp_loss loss = {
        .dx = x->grad,
        .x = x->data,
        .rows = tape->rows,
        .columns = x->columns,
        .scale = loss_scale / (float)tape->rows, /* the loss is a mean over rows */
    };

    if (x->grad == NULL) {
        return DDP_OK; /* an input: nobody wants its gradient */
    }
    x->is_grad_written = true;
    if (node->kind == REF_NODE_CROSS_ENTROPY) {
        return device->math->softmax_cross_entropy(device, NULL, &loss, tape->labels);
    }
    return device->math->squared_error(device, NULL, &loss, tape->values[node->y].data);
}

static ddp_status node_backward(struct ref_tape *tape, const struct ref_node *node,
                                float loss_scale)
{
    /* Every node behind this one that the loss depends on has contributed. */
    DDP_ASSERT(node->out == REF_NONE || tape->values[node->out].is_grad_written);
    switch (node->kind) {
    case REF_NODE_LINEAR:
        return linear_backward(tape, node);
    case REF_NODE_RELU:
        return relu_backward(tape, node);
    case REF_NODE_SCALE:
        return scale_backward(tape, node);
    case REF_NODE_ADD:
        DDP_TRY(add_backward_to(tape, &tape->values[node->x], tape->values[node->out].grad));
        return add_backward_to(tape, &tape->values[node->y], tape->values[node->out].grad);
    case REF_NODE_CROSS_ENTROPY:
    case REF_NODE_SQUARED_ERROR:
        return loss_backward(tape, node, loss_scale);
    }
    return DDP_E_INVALID;
}

ddp_status ref_tape_backward(struct ref_tape *tape, float loss_scale,
                             const struct ref_model_observer *observer)
{
    bool is_reached[REF_TAPE_NODES_MAX];

    tape->observer = observer;
    ref_tape_reach(tape, is_reached);
    for (size_t p = 0; p < tape->param_count; p++) {
        tape->pending[p] = 0;
    }
    for (size_t i = 0; i < tape->value_count; i++) {
        tape->values[i].is_grad_written = false;
    }
    for (size_t i = 0; i < tape->node_count; i++) {
        const struct ref_node *node = &tape->nodes[i];

        if (is_reached[i] && node->weight != REF_NONE) {
            tape->pending[node->weight]++;
        }
        if (is_reached[i] && node->bias != REF_NONE) {
            tape->pending[node->bias]++;
        }
    }
    for (size_t i = tape->node_count; i-- > 0;) {
        if (is_reached[i]) {
            DDP_TRY(node_backward(tape, &tape->nodes[i], loss_scale));
        }
    }
    for (size_t p = 0; p < tape->param_count; p++) {
        DDP_ASSERT(tape->pending[p] == 0);
    }
    return DDP_OK;
}
