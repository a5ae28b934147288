/* What a tape rounds if its passes are of 16 bits: each value and each gradient of a value, once it
 * was computed or added to; and a parameter's contributions, each by itself before it is added. */
#include "reference/tape.h"

ddp_status ref_tape_round(struct ref_tape *tape, float *data, size_t elem_count)
{
    struct ddp_device *device = tape->device;
    enum ddp_dtype dtype;

    if (tape->rounded == NULL || tape->is_dry || elem_count == 0) {
        return DDP_OK;
    }
    dtype = tape->rounded[0].dtype;
    DDP_ASSERT(elem_count <= tape->rounding_elems);
    DDP_TRY(device->ops->scale(device, NULL, tape->rounding, dtype, data, DDP_DTYPE_F32, elem_count,
                               1.0));
    return device->ops->scale(device, NULL, data, DDP_DTYPE_F32, tape->rounding, dtype, elem_count,
                              1.0);
}

ddp_status ref_tape_round_value(struct ref_tape *tape, size_t value)
{
    const struct ref_value *out = ref_tape_value(tape, value);

    return ref_tape_round(tape, out->data, out->rows * out->columns);
}

ddp_status ref_tape_round_gradient(struct ref_tape *tape, size_t value)
{
    const struct ref_value *out = value == REF_NONE ? NULL : ref_tape_value(tape, value);

    return out == NULL || out->grad == NULL || !out->is_grad_written
               ? DDP_OK
               : ref_tape_round(tape, out->grad, out->rows * out->columns);
}

ddp_status ref_tape_leave_rounded(struct ref_tape *tape, size_t index)
{
    struct ddp_device *device = tape->device;
    const struct ddp_param *wide = &tape->params[index];
    struct ddp_param *rounded = &tape->rounded[index];
    const bool is_first = !rounded->is_grad_defined;
    void *target = is_first ? rounded->grad : tape->rounding;

    DDP_ASSERT(wide->elem_count <= tape->rounding_elems);
    rounded->is_grad_defined = true;
    DDP_TRY(device->ops->scale(device, NULL, target, rounded->dtype, wide->grad, wide->dtype,
                               wide->elem_count, 1.0));
    return is_first ? DDP_OK
                    : device->ops->reduce(device, NULL, rounded->grad, tape->rounding,
                                          wide->elem_count, rounded->dtype, DDP_REDOP_SUM);
}

ddp_status ref_tape_alloc_rounding(struct ref_tape *tape)
{
    struct ddp_device *device = tape->device;
    void *data = NULL;

    if (tape->rounded == NULL) {
        return DDP_OK;
    }
    tape->rounding_elems = tape->scratch_elems;
    for (size_t p = 0; p < tape->param_count; p++) {
        const size_t elem_count = tape->params[p].elem_count;

        tape->rounding_elems =
            elem_count > tape->rounding_elems ? elem_count : tape->rounding_elems;
    }
    DDP_TRY(device->ops->alloc(device,
                               tape->rounding_elems * ddp_dtype_size_bytes(tape->rounded[0].dtype),
                               DDP_SPACE_DEVICE, &data));
    tape->rounding = data;
    return DDP_OK;
}
