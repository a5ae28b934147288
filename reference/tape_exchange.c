/* BatchNorm whose statistics are those of several ranks' batches. */
#include "reference/tape.h"

/* kept: mean, variance and inverse deviation of each column, over all ranks' rows. */
static ddp_status shared_backward(struct ref_tape *tape, const struct ref_node *node)
{
    struct ddp_device *device = tape->device;
    struct ref_value *x = &tape->values[node->x];
    const struct ref_value *out = &tape->values[node->out];
    const size_t columns = x->columns;
    float *sums = ref_tape_work(tape, 2 * columns);
    const struct ddp_column_sums all = {node->kept + 2 * columns, sums, sums + columns,
                                        node->as.shared.row_count};

    DDP_ASSERT(tape->exchange != NULL);
    /* Even if nobody wants dx here: the other ranks wait for the sums. */
    DDP_TRY(device->math->sum_rows(device, NULL, sums, out->grad, x->rows, columns, false));
    DDP_TRY(device->math->dot_columns(device, NULL, sums + columns, out->grad, out->data, x->rows,
                                      columns, false));
    DDP_TRY(
        tape->exchange->sums(tape->exchange->context, node->as.shared.layer, sums, 2 * columns));
    if (x->grad == NULL) {
        return DDP_OK;
    }
    DDP_TRY(device->layers->standardize_columns_backward(
        device, NULL, ref_tape_target(tape, x), out->grad, out->data, &all, x->rows, columns));
    return ref_tape_contribute(tape, x);
}

static ddp_status normalize_by_all(struct ref_tape *tape, const struct ref_value *in,
                                   struct ref_node *node, float eps)
{
    struct ddp_device *device = tape->device;
    float *kept = node->kept;
    const struct ddp_moments moments = {kept, kept + in->columns, kept + 2 * in->columns};
    float *y = tape->values[node->out].data;

    DDP_TRY(device->layers->normalize_columns(device, NULL, y, &moments, in->data, in->rows,
                                              in->columns, eps));
    DDP_TRY(tape->exchange->moments(tape->exchange->context, node->as.shared.layer, &moments,
                                    in->columns, eps, &node->as.shared.row_count));
    DDP_TRY(device->layers->standardize_columns(device, NULL, y, in->data, moments.mean,
                                                moments.inverse, in->rows, in->columns));
    return ref_tape_round_value(tape, node->out);
}

ddp_status ref_tape_normalize_shared(struct ref_tape *tape, size_t x, uint32_t layer, float eps,
                                     size_t *out, const float **out_moments, float *out_rows)
{
    const struct ref_value in = *ref_tape_value(tape, x);
    struct ref_node node = {.backward = shared_backward,
                            .x = x,
                            .y = REF_NONE,
                            .weight = REF_NONE,
                            .bias = REF_NONE,
                            .as.shared = {layer, (float)in.rows}};

    (void)ref_tape_work(tape, 2 * in.columns); /* for backward */
    if (tape->exchange == NULL) {
        DDP_TRY(ref_tape_normalize_columns(tape, x, eps, out, out_moments));
        *out_rows = (float)in.rows;
    } else {
        node.kept = ref_tape_take(tape, 3 * in.columns);
        DDP_TRY(ref_tape_add_value(tape, in.rows, in.columns, true, &node.out));
        DDP_TRY(tape->is_dry ? DDP_OK : normalize_by_all(tape, &in, &node, eps));
        DDP_TRY(ref_tape_add_node(tape, &node));
        *out = node.out;
        *out_moments = node.kept;
        *out_rows = node.as.shared.row_count;
    }
    /* One value has no variance; PyTorch refuses it too. */
    return *out_rows < 2.0F ? DDP_E_INVALID : DDP_OK;
}
