/* Recording side of the tape: memory, values and nodes, and the operations that every model has.
 * Each operation computes its value and notes how it did so. Backward is tape_backward.c. In the
 * dry run the same calls only count memory, so no second formula can disagree about how much a
 * forward pass needs. */
#include "reference/tape.h"

/* Values start on cache lines: 16 floats. */
enum { ALIGN_ELEMS = DDP_CACHE_LINE_BYTES / sizeof(float) };

ddp_status ref_tape_init(struct ref_tape *tape, struct ddp_device *device, struct ddp_param *params,
                         size_t param_count, size_t rows_max)
{
    *tape = (struct ref_tape){0};
    tape->params = params;
    tape->param_count = param_count;
    tape->rows_max = rows_max;
    tape->is_dry = true;
    tape->device = device;
    tape->pending = (uint32_t *)ddp_mem_array(device->mem, param_count, sizeof(*tape->pending));
    if (tape->pending == NULL) {
        return DDP_E_NOMEM;
    }
    return ddp_transfer_init(&tape->transfer, device, NULL, NULL, 0);
}

ddp_status ref_tape_allocate(struct ref_tape *tape)
{
    struct ddp_device *device = tape->device;
    void *data;

    DDP_TRY(device->ops->alloc(
        device, (tape->arena_used + tape->scratch_elems + tape->work_elems) * sizeof(float),
        DDP_SPACE_DEVICE, &data));
    tape->arena = (float *)data;
    tape->arena_elems = tape->arena_used;
    tape->scratch = tape->arena + tape->arena_elems;
    DDP_TRY(ref_tape_alloc_rounding(tape));
    tape->work = tape->scratch + tape->scratch_elems;
    tape->losses_host = (float *)ddp_mem_array(device->mem, tape->loss_rows_max, sizeof(float));
    tape->ids_host = (int32_t *)ddp_mem_array(device->mem, tape->id_rows_max, sizeof(int32_t));
    if (tape->losses_host == NULL || tape->ids_host == NULL) {
        return DDP_E_NOMEM;
    }
    tape->is_dry = false;
    ref_tape_begin(tape, 0, NULL);
    return DDP_OK;
}

void ref_tape_fini(struct ref_tape *tape)
{
    struct ddp_device *device = tape->device;

    if (device != NULL) {
        device->ops->free(device, DDP_SPACE_DEVICE, tape->arena);
        device->ops->free(device, DDP_SPACE_DEVICE, tape->rounding);
        ddp_mem_free(device->mem, tape->losses_host);
        ddp_mem_free(device->mem, tape->ids_host);
        ddp_mem_free(device->mem, tape->nodes);
        ddp_mem_free(device->mem, tape->values);
        ddp_mem_free(device->mem, tape->pending);
        ddp_transfer_fini(&tape->transfer);
    }
    tape->device = NULL;
}

void ref_tape_begin(struct ref_tape *tape, size_t rows, const struct ref_model_observer *observer)
{
    DDP_ASSERT(rows <= tape->rows_max);
    tape->rows = rows;
    tape->observer = observer;
    tape->arena_used = 0;
    tape->node_count = 0;
    tape->value_count = 0;
}

ddp_status ref_tape_layer(struct ref_tape *tape, uint32_t layer)
{
    if (tape->observer == NULL || tape->observer->layer == NULL) {
        return DDP_OK;
    }
    return tape->observer->layer(tape->observer->context, layer);
}

static size_t aligned(size_t elem_count)
{
    return (elem_count + ALIGN_ELEMS - 1) / ALIGN_ELEMS * ALIGN_ELEMS;
}

float *ref_tape_take(struct ref_tape *tape, size_t elem_count)
{
    float *data = tape->is_dry ? NULL : tape->arena + tape->arena_used;

    tape->arena_used += aligned(elem_count);
    DDP_ASSERT(tape->is_dry || tape->arena_used <= tape->arena_elems);
    return data;
}

float *ref_tape_work(struct ref_tape *tape, size_t elem_count)
{
    if (tape->is_dry && elem_count > tape->work_elems) {
        tape->work_elems = aligned(elem_count);
    }
    DDP_ASSERT(elem_count <= tape->work_elems);
    return tape->work;
}

int32_t *ref_tape_host_ids(struct ref_tape *tape, size_t count)
{
    if (tape->is_dry && count > tape->id_rows_max) {
        tape->id_rows_max = count;
    }
    DDP_ASSERT(count <= tape->id_rows_max);
    return tape->ids_host;
}

ddp_status ref_tape_add_value(struct ref_tape *tape, size_t rows, size_t columns, bool needs_grad,
                              size_t *out)
{
    size_t elem_count = rows * columns;
    struct ref_value *value;

    DDP_ASSERT(tape->is_dry || tape->value_count < tape->value_capacity);
    value = (struct ref_value *)ddp_mem_grow(tape->device->mem, tape->values, tape->value_count,
                                             &tape->value_capacity, sizeof(*value));
    if (value == NULL) {
        return DDP_E_NOMEM;
    }
    tape->values = value;
    *out = tape->value_count++;
    tape->values[*out] =
        (struct ref_value){.data = ref_tape_take(tape, elem_count),
                           .grad = needs_grad ? ref_tape_take(tape, elem_count) : NULL,
                           .rows = rows,
                           .columns = columns};
    if (tape->is_dry && elem_count > tape->scratch_elems) {
        tape->scratch_elems = aligned(elem_count);
    }
    return DDP_OK;
}

struct ref_node
ref_node_of(ddp_status (*backward)(struct ref_tape *tape, const struct ref_node *node), size_t x)
{
    return (struct ref_node){.backward = backward,
                             .x = x,
                             .y = REF_NONE,
                             .out = REF_NONE,
                             .weight = REF_NONE,
                             .bias = REF_NONE};
}

ddp_status ref_tape_add_node(struct ref_tape *tape, const struct ref_node *node)
{
    struct ref_node *nodes;

    DDP_ASSERT(tape->is_dry || tape->node_count < tape->node_capacity);
    DDP_ASSERT(node->x < tape->value_count);
    DDP_ASSERT(node->out == REF_NONE || node->out < tape->value_count);
    nodes = (struct ref_node *)ddp_mem_grow(tape->device->mem, tape->nodes, tape->node_count,
                                            &tape->node_capacity, sizeof(*nodes));
    if (nodes == NULL) {
        return DDP_E_NOMEM;
    }
    tape->nodes = nodes;
    nodes[tape->node_count++] = *node;
    return DDP_OK;
}

ddp_status ref_tape_add_op(struct ref_tape *tape, struct ref_node *node, size_t rows,
                           size_t columns, size_t *out)
{
    DDP_TRY(ref_tape_add_value(tape, rows, columns, true, out));
    node->out = *out;
    return ref_tape_add_node(tape, node);
}

/* A parameter of one dimension, with an element for each column. */
static void check_vector(const struct ref_tape *tape, size_t index, size_t columns)
{
    DDP_ASSERT(index < tape->param_count && tape->params[index].dtype == DDP_DTYPE_F32);
    DDP_ASSERT(tape->params[index].ndim == 1 && tape->params[index].elem_count == columns);
}

void ref_tape_check_matrix(const struct ref_tape *tape, size_t index, size_t columns)
{
    DDP_ASSERT(index < tape->param_count && tape->params[index].dtype == DDP_DTYPE_F32);
    DDP_ASSERT(tape->params[index].ndim >= 2 &&
               tape->params[index].elem_count == tape->params[index].shape[0] * columns);
}

const struct ref_value *ref_tape_value(const struct ref_tape *tape, size_t value)
{
    DDP_ASSERT(value < tape->value_count);
    return &tape->values[value];
}

ddp_status ref_tape_upload(struct ref_tape *tape, const int32_t *host, size_t elem_count,
                           int32_t **out)
{
    *out = (int32_t *)(void *)ref_tape_take(tape, elem_count);
    if (tape->is_dry) {
        return DDP_OK;
    }
    return ddp_transfer_to_device(&tape->transfer, *out, host, elem_count * sizeof(int32_t));
}

ddp_status ref_tape_input(struct ref_tape *tape, const float *host, size_t rows_each,
                          size_t columns, size_t *out)
{
    size_t rows = tape->rows * rows_each;

    DDP_TRY(ref_tape_add_value(tape, rows, columns, false, out));
    if (tape->is_dry) {
        return DDP_OK;
    }
    DDP_TRY(ddp_transfer_to_device(&tape->transfer, tape->values[*out].data, host,
                                   rows * columns * sizeof(float)));
    return ref_tape_round_value(tape, *out);
}

ddp_status ref_tape_linear(struct ref_tape *tape, size_t x, size_t weight, size_t bias, size_t *out)
{
    struct ddp_device *device = tape->device;
    const struct ref_value in = *ref_tape_value(tape, x);
    struct ref_node node = ref_node_of(ref_tape_linear_backward, x);
    size_t outputs = tape->params[weight].shape[0];
    struct ddp_gemm gemm = {.transpose_b = true, /* y(BxO) = x(BxI) * W(OxI)^T */
                            .m = in.rows,
                            .n = outputs,
                            .k = in.columns,
                            .alpha = 1.0F,
                            .a = in.data,
                            .b = tape->params[weight].data};

    ref_tape_check_matrix(tape, weight, in.columns);
    if (bias != REF_NONE) {
        check_vector(tape, bias, outputs);
    }
    node.weight = weight;
    node.bias = bias;
    DDP_TRY(ref_tape_add_op(tape, &node, in.rows, outputs, out));
    if (tape->is_dry) {
        return DDP_OK;
    }
    gemm.c = tape->values[*out].data;
    DDP_TRY(device->math->gemm(device, NULL, &gemm));
    if (bias != REF_NONE) {
        DDP_TRY(device->math->add_bias(device, NULL, gemm.c, gemm.c, tape->params[bias].data,
                                       in.rows, outputs));
    }
    return ref_tape_round_value(tape, *out);
}

ddp_status ref_tape_relu(struct ref_tape *tape, size_t x, size_t *out)
{
    const struct ref_value in = *ref_tape_value(tape, x);
    struct ref_node node = ref_node_of(ref_tape_relu_backward, x);

    DDP_TRY(ref_tape_add_op(tape, &node, in.rows, in.columns, out));
    if (tape->is_dry) {
        return DDP_OK;
    }
    return tape->device->math->relu(tape->device, NULL, tape->values[*out].data, in.data,
                                    in.rows * in.columns);
}

/* bias REF_NONE: out = x * weight */
static ddp_status scale(struct ref_tape *tape, size_t x, size_t weight, size_t bias, size_t *out)
{
    const struct ddp_math_ops *math = tape->device->math;
    const struct ref_value in = *ref_tape_value(tape, x);
    struct ref_node node = ref_node_of(ref_tape_scale_backward, x);
    float *y;

    check_vector(tape, weight, in.columns);
    node.weight = weight;
    node.bias = bias;
    DDP_TRY(ref_tape_add_op(tape, &node, in.rows, in.columns, out));
    if (tape->is_dry) {
        return DDP_OK;
    }
    y = tape->values[*out].data;
    DDP_TRY(math->scale_columns(tape->device, NULL, y, in.data, tape->params[weight].data, in.rows,
                                in.columns));
    if (bias != REF_NONE) {
        DDP_TRY(
            math->add_bias(tape->device, NULL, y, y, tape->params[bias].data, in.rows, in.columns));
    }
    return ref_tape_round_value(tape, *out);
}

ddp_status ref_tape_scale(struct ref_tape *tape, size_t x, size_t weight, size_t *out)
{
    return scale(tape, x, weight, REF_NONE, out);
}

ddp_status ref_tape_affine(struct ref_tape *tape, size_t x, size_t weight, size_t bias, size_t *out)
{
    check_vector(tape, bias, ref_tape_value(tape, x)->columns);
    return scale(tape, x, weight, bias, out);
}

ddp_status ref_tape_add(struct ref_tape *tape, size_t x, size_t y, size_t *out)
{
    struct ddp_device *device = tape->device;
    const struct ref_value in = *ref_tape_value(tape, x);
    struct ref_node node = ref_node_of(ref_tape_add_backward, x);
    size_t elem_count = in.rows * in.columns;

    DDP_ASSERT(ref_tape_value(tape, y)->columns == in.columns &&
               ref_tape_value(tape, y)->rows == in.rows);
    node.y = y;
    DDP_TRY(ref_tape_add_op(tape, &node, in.rows, in.columns, out));
    if (tape->is_dry) {
        return DDP_OK;
    }
    DDP_TRY(device->ops->copy(device, NULL, tape->values[*out].data, in.data,
                              elem_count * sizeof(float)));
    DDP_TRY(device->math->axpy(device, NULL, tape->values[*out].data, tape->values[y].data, 1.0F,
                               elem_count));
    return ref_tape_round_value(tape, *out);
}

/* Room for the losses of so many rows. */
static void take_losses(struct ref_tape *tape, size_t rows)
{
    tape->losses = ref_tape_take(tape, rows);
    tape->loss_rows = rows;
    if (tape->is_dry && rows > tape->loss_rows_max) {
        tape->loss_rows_max = rows;
    }
    DDP_ASSERT(rows <= tape->loss_rows_max);
}

/* The losses of the rows of x, without a gradient. */
static struct ddp_loss forward_loss(const struct ref_tape *tape, const struct ref_value *x)
{
    return (struct ddp_loss){
        .losses = tape->losses, .x = x->data, .rows = x->rows, .columns = x->columns};
}

ddp_status ref_tape_cross_entropy(struct ref_tape *tape, size_t x, const int32_t *labels)
{
    struct ddp_device *device = tape->device;
    const struct ref_value in = *ref_tape_value(tape, x);
    struct ref_node node = ref_node_of(ref_tape_cross_entropy_backward, x);
    struct ddp_loss loss;
    int32_t *index = NULL;

    take_losses(tape, in.rows);
    DDP_TRY(ref_tape_upload(tape, labels, in.rows, &index));
    node.index = index;
    DDP_TRY(ref_tape_add_node(tape, &node));
    if (tape->is_dry) {
        return DDP_OK;
    }
    loss = forward_loss(tape, &in);
    return device->math->softmax_cross_entropy(device, NULL, &loss, index);
}

ddp_status ref_tape_squared_error(struct ref_tape *tape, size_t x, size_t target)
{
    struct ddp_device *device = tape->device;
    const struct ref_value in = *ref_tape_value(tape, x);
    struct ref_node node = ref_node_of(ref_tape_squared_error_backward, x);
    struct ddp_loss loss;

    DDP_ASSERT(in.columns == ref_tape_value(tape, target)->columns);
    take_losses(tape, in.rows);
    node.y = target;
    DDP_TRY(ref_tape_add_node(tape, &node));
    if (tape->is_dry) {
        return DDP_OK;
    }
    loss = forward_loss(tape, &in);
    return device->math->squared_error(device, NULL, &loss, tape->values[target].data);
}

ddp_status ref_tape_mean_loss(struct ref_tape *tape, float *out_loss)
{
    double sum = 0.0;

    DDP_TRY(ddp_transfer_to_host(&tape->transfer, tape->losses_host, tape->losses,
                                 tape->loss_rows * sizeof(float)));
    for (size_t b = 0; b < tape->loss_rows; b++) {
        sum += (double)tape->losses_host[b];
    }
    *out_loss = (float)(sum / (double)tape->loss_rows);
    return DDP_OK;
}
