/* Operations of routed experts: which expert each row gets, rows taken out and put back, and the
 * weight of the expert; forward and backward of each. */
#include "reference/tape.h"

ddp_status ref_tape_route(struct ref_tape *tape, size_t logits, int32_t *choice,
                          struct ddp_route *out_route)
{
    const struct ref_value in = *ref_tape_value(tape, logits);
    float *probs = ref_tape_take(tape, in.rows * in.columns);
    int32_t *chosen = (int32_t *)(void *)ref_tape_take(tape, in.rows);

    *out_route = (struct ddp_route){
        .probs = probs, .choice = chosen, .rows = in.rows, .experts = in.columns};
    if (tape->is_dry) {
        return DDP_OK;
    }
    DDP_TRY(tape->device->layers->route(tape->device, NULL, probs, chosen, in.data, in.rows,
                                        in.columns));
    DDP_TRY(ref_tape_round(tape, probs, in.rows * in.columns));
    return ddp_transfer_to_host(&tape->transfer, choice, chosen, in.rows * sizeof(*choice));
}

/* Rows that were not taken get nothing from this node. */
static ddp_status take_backward(struct ref_tape *tape, const struct ref_node *node)
{
    struct ref_value *x = &tape->values[node->x];
    const struct ref_value *out = &tape->values[node->out];
    bool is_accumulate = x->is_grad_written;

    if (x->grad == NULL) {
        return DDP_OK;
    }
    x->is_grad_written = true;
    return tape->device->layers->scatter_rows(
        tape->device, NULL, x->grad, out->grad,
        &(struct ddp_rows){node->index, out->rows, out->columns, x->rows}, is_accumulate);
}

ddp_status ref_tape_take_rows(struct ref_tape *tape, size_t x, const int32_t *index, size_t rows,
                              size_t *out)
{
    const struct ref_value in = *ref_tape_value(tape, x);
    struct ref_node node = ref_node_of(take_backward, x);
    int32_t *places;

    DDP_TRY(ref_tape_upload(tape, index, rows, &places));
    node.index = places;
    DDP_TRY(ref_tape_add_op(tape, &node, rows, in.columns, out));
    if (tape->is_dry) {
        return DDP_OK;
    }
    return tape->device->layers->gather_rows(tape->device, NULL, tape->values[*out].data, in.data,
                                             &(struct ddp_rows){places, rows, in.columns, in.rows});
}

static ddp_status put_backward(struct ref_tape *tape, const struct ref_node *node)
{
    struct ref_value *x = &tape->values[node->x];
    const struct ref_value *out = &tape->values[node->out];

    if (x->grad == NULL) {
        return DDP_OK;
    }
    DDP_TRY(tape->device->layers->gather_rows(
        tape->device, NULL, ref_tape_target(tape, x), out->grad,
        &(struct ddp_rows){node->index, x->rows, x->columns, out->rows}));
    return ref_tape_contribute(tape, x);
}

ddp_status ref_tape_put_rows(struct ref_tape *tape, size_t x, size_t taken, size_t *inout)
{
    const struct ref_value in = *ref_tape_value(tape, x);
    struct ref_node node = ref_node_of(put_backward, x);
    const struct ref_node from = tape->nodes[taken];
    bool is_first = *inout == REF_NONE;
    size_t rows = tape->values[from.x].rows;

    DDP_ASSERT(from.backward == take_backward && tape->values[from.out].rows == in.rows);
    if (is_first) {
        DDP_TRY(ref_tape_add_value(tape, rows, in.columns, true, inout));
    }
    node.index = from.index;
    node.out = *inout;
    DDP_TRY(ref_tape_add_node(tape, &node));
    if (tape->is_dry) {
        return DDP_OK;
    }
    return tape->device->layers->scatter_rows(
        tape->device, NULL, tape->values[*inout].data, in.data,
        &(struct ddp_rows){from.index, in.rows, in.columns, rows}, !is_first);
}

/* y: the logits. */
static ddp_status gate_backward(struct ref_tape *tape, const struct ref_node *node)
{
    struct ref_value *x = &tape->values[node->x];
    struct ref_value *logits = &tape->values[node->y];
    const struct ref_value *out = &tape->values[node->out];
    const struct ddp_route *route = &node->as.route;

    /* Both have this one consumer. */
    DDP_ASSERT(!x->is_grad_written && !logits->is_grad_written);
    x->is_grad_written = true;
    logits->is_grad_written = true;
    return tape->device->layers->gate_backward(tape->device, NULL, x->grad, logits->grad, out->grad,
                                               x->data, route, x->columns);
}

ddp_status ref_tape_gate(struct ref_tape *tape, size_t x, size_t logits,
                         const struct ddp_route *route, size_t *out)
{
    const struct ref_value in = *ref_tape_value(tape, x);
    struct ref_node node = ref_node_of(gate_backward, x);

    DDP_ASSERT(in.rows == route->rows && ref_tape_value(tape, logits)->columns == route->experts);
    node.y = logits;
    node.as.route = *route;
    DDP_TRY(ref_tape_add_op(tape, &node, in.rows, in.columns, out));
    if (tape->is_dry) {
        return DDP_OK;
    }
    DDP_TRY(tape->device->layers->gate(tape->device, NULL, tape->values[*out].data, in.data, route,
                                       in.columns));
    return ref_tape_round_value(tape, *out);
}
