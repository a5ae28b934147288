/* Recording side of the tape: each operation computes its value and notes how it did so. Backward
 * is tape_backward.c. In the dry run the same calls only count memory, so no second formula can
 * disagree about how much a forward pass needs. */
#include "reference/tape.h"

/* Values start on cache lines: 16 floats. */
enum { ALIGN_ELEMS = DDP_CACHE_LINE_BYTES / sizeof(float) };

ddp_status ref_tape_init(struct ref_tape *tape, struct ddp_device *device, struct ddp_param *params,
                         size_t param_count, size_t rows_max)
{
    *tape = (struct ref_tape){0};
    DDP_ASSERT(param_count <= REF_TAPE_PARAMS_MAX);
    tape->params = params;
    tape->param_count = param_count;
    tape->rows_max = rows_max;
    tape->is_dry = true;
    tape->device = device;
    return ddp_transfer_init(&tape->transfer, device, NULL, NULL, 0);
}

ddp_status ref_tape_allocate(struct ref_tape *tape)
{
    struct ddp_device *device = tape->device;
    size_t scratch_elems = tape->rows_max * tape->columns_max;
    void *data;

    DDP_TRY(device->ops->alloc(device, (tape->arena_used + scratch_elems) * sizeof(float),
                               DDP_SPACE_DEVICE, &data));
    tape->arena = (float *)data;
    tape->arena_elems = tape->arena_used;
    tape->scratch = tape->arena + tape->arena_elems;
    DDP_TRY(device->ops->alloc(device, tape->rows_max * sizeof(float), DDP_SPACE_DEVICE, &data));
    tape->losses = (float *)data;
    DDP_TRY(device->ops->alloc(device, tape->rows_max * sizeof(int32_t), DDP_SPACE_DEVICE, &data));
    tape->labels = (int32_t *)data;
    tape->losses_host = (float *)ddp_mem_array(device->mem, tape->rows_max, sizeof(float));
    if (tape->losses_host == NULL) {
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
        device->ops->free(device, DDP_SPACE_DEVICE, tape->losses);
        device->ops->free(device, DDP_SPACE_DEVICE, tape->labels);
        ddp_mem_free(device->mem, tape->losses_host);
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

static float *arena_take(struct ref_tape *tape, size_t columns)
{
    size_t elems = (tape->rows * columns + ALIGN_ELEMS - 1) / ALIGN_ELEMS * ALIGN_ELEMS;
    float *data = tape->is_dry ? NULL : tape->arena + tape->arena_used;

    tape->arena_used += elems;
    DDP_ASSERT(tape->is_dry || tape->arena_used <= tape->arena_elems);
    return data;
}

static size_t add_value(struct ref_tape *tape, size_t columns, bool needs_grad)
{
    struct ref_value *value = &tape->values[tape->value_count];

    DDP_ASSERT(tape->value_count < REF_TAPE_VALUES_MAX);
    value->columns = columns;
    value->data = arena_take(tape, columns);
    value->grad = needs_grad ? arena_take(tape, columns) : NULL;
    value->is_grad_written = false;
    if (columns > tape->columns_max) {
        tape->columns_max = columns;
    }
    return tape->value_count++;
}

static void add_node(struct ref_tape *tape, struct ref_node node)
{
    DDP_ASSERT(tape->node_count < REF_TAPE_NODES_MAX);
    DDP_ASSERT(node.out == REF_NONE || (node.x < node.out && node.out < tape->value_count));
    tape->nodes[tape->node_count++] = node;
}

/* Parameter `index` is a vector of one element for each column, or a matrix of that shape. */
static void check_vector(const struct ref_tape *tape, size_t index, size_t columns)
{
    DDP_ASSERT(index < tape->param_count && tape->params[index].dtype == DDP_DTYPE_F32);
    DDP_ASSERT(tape->params[index].ndim == 1 && tape->params[index].elem_count == columns);
}

static void check_matrix(const struct ref_tape *tape, size_t index, size_t columns)
{
    DDP_ASSERT(index < tape->param_count && tape->params[index].dtype == DDP_DTYPE_F32);
    DDP_ASSERT(tape->params[index].ndim == 2 && tape->params[index].shape[1] == columns);
}

static float *value_data(const struct ref_tape *tape, size_t value)
{
    return tape->values[value].data;
}

static size_t value_columns(const struct ref_tape *tape, size_t value)
{
    DDP_ASSERT(value < tape->value_count);
    return tape->values[value].columns;
}

ddp_status ref_tape_input(struct ref_tape *tape, const float *host, size_t columns, size_t *out)
{
    *out = add_value(tape, columns, false);
    if (tape->is_dry) {
        return DDP_OK;
    }
    return ddp_transfer_to_device(&tape->transfer, value_data(tape, *out), host,
                                  tape->rows * columns * sizeof(float));
}

ddp_status ref_tape_linear(struct ref_tape *tape, size_t x, size_t weight, size_t bias, size_t *out)
{
    struct ddp_device *device = tape->device;
    size_t inputs = value_columns(tape, x);
    size_t outputs = tape->params[weight].shape[0];
    struct ddp_gemm gemm = {.transpose_b = true, /* y(BxO) = x(BxI) * W(OxI)^T */
                            .m = tape->rows,
                            .n = outputs,
                            .k = inputs,
                            .alpha = 1.0F,
                            .a = value_data(tape, x),
                            .b = tape->params[weight].data};

    check_matrix(tape, weight, inputs);
    if (bias != REF_NONE) {
        check_vector(tape, bias, outputs);
    }
    *out = add_value(tape, outputs, true);
    add_node(tape, (struct ref_node){.kind = REF_NODE_LINEAR,
                                     .x = x,
                                     .y = REF_NONE,
                                     .out = *out,
                                     .weight = weight,
                                     .bias = bias});
    if (tape->is_dry) {
        return DDP_OK;
    }
    gemm.c = value_data(tape, *out);
    DDP_TRY(device->math->gemm(device, NULL, &gemm));
    if (bias == REF_NONE) {
        return DDP_OK;
    }
    return device->math->add_bias(device, NULL, gemm.c, gemm.c, tape->params[bias].data, tape->rows,
                                  outputs);
}

ddp_status ref_tape_relu(struct ref_tape *tape, size_t x, size_t *out)
{
    size_t columns = value_columns(tape, x);

    *out = add_value(tape, columns, true);
    add_node(tape, (struct ref_node){.kind = REF_NODE_RELU,
                                     .x = x,
                                     .y = REF_NONE,
                                     .out = *out,
                                     .weight = REF_NONE,
                                     .bias = REF_NONE});
    if (tape->is_dry) {
        return DDP_OK;
    }
    return tape->device->math->relu(tape->device, NULL, value_data(tape, *out), value_data(tape, x),
                                    tape->rows * columns);
}

ddp_status ref_tape_scale(struct ref_tape *tape, size_t x, size_t weight, size_t *out)
{
    size_t columns = value_columns(tape, x);

    check_vector(tape, weight, columns);
    *out = add_value(tape, columns, true);
    add_node(tape, (struct ref_node){.kind = REF_NODE_SCALE,
                                     .x = x,
                                     .y = REF_NONE,
                                     .out = *out,
                                     .weight = weight,
                                     .bias = REF_NONE});
    if (tape->is_dry) {
        return DDP_OK;
    }
    return tape->device->math->scale_columns(tape->device, NULL, value_data(tape, *out),
                                             value_data(tape, x), tape->params[weight].data,
                                             tape->rows, columns);
}

ddp_status ref_tape_add(struct ref_tape *tape, size_t x, size_t y, size_t *out)
{
    struct ddp_device *device = tape->device;
    size_t columns = value_columns(tape, x);
    size_t elem_count = tape->rows * columns;

    DDP_ASSERT(value_columns(tape, y) == columns);
    *out = add_value(tape, columns, true);
    add_node(tape, (struct ref_node){.kind = REF_NODE_ADD,
                                     .x = x,
                                     .y = y,
                                     .out = *out,
                                     .weight = REF_NONE,
                                     .bias = REF_NONE});
    if (tape->is_dry) {
        return DDP_OK;
    }
    DDP_TRY(device->ops->copy(device, NULL, value_data(tape, *out), value_data(tape, x),
                              elem_count * sizeof(float)));
    return device->math->axpy(device, NULL, value_data(tape, *out), value_data(tape, y), 1.0F,
                              elem_count);
}

/* The losses of the rows of value x, without a gradient. */
static struct ddp_loss forward_loss(struct ref_tape *tape, size_t x)
{
    return (struct ddp_loss){.losses = tape->losses,
                             .x = value_data(tape, x),
                             .rows = tape->rows,
                             .columns = value_columns(tape, x)};
}

ddp_status ref_tape_cross_entropy(struct ref_tape *tape, size_t x, const int32_t *labels)
{
    struct ddp_device *device = tape->device;
    struct ddp_loss loss;

    add_node(tape, (struct ref_node){.kind = REF_NODE_CROSS_ENTROPY,
                                     .x = x,
                                     .y = REF_NONE,
                                     .out = REF_NONE,
                                     .weight = REF_NONE,
                                     .bias = REF_NONE});
    if (tape->is_dry) {
        return DDP_OK;
    }
    DDP_TRY(ddp_transfer_to_device(&tape->transfer, tape->labels, labels,
                                   tape->rows * sizeof(int32_t)));
    loss = forward_loss(tape, x);
    return device->math->softmax_cross_entropy(device, NULL, &loss, tape->labels);
}

ddp_status ref_tape_squared_error(struct ref_tape *tape, size_t x, size_t target)
{
    struct ddp_device *device = tape->device;
    struct ddp_loss loss;

    DDP_ASSERT(value_columns(tape, x) == value_columns(tape, target));
    add_node(tape, (struct ref_node){.kind = REF_NODE_SQUARED_ERROR,
                                     .x = x,
                                     .y = target,
                                     .out = REF_NONE,
                                     .weight = REF_NONE,
                                     .bias = REF_NONE});
    if (tape->is_dry) {
        return DDP_OK;
    }
    loss = forward_loss(tape, x);
    return device->math->squared_error(device, NULL, &loss, value_data(tape, target));
}

ddp_status ref_tape_mean_loss(struct ref_tape *tape, float *out_loss)
{
    double sum = 0.0;

    DDP_TRY(ddp_transfer_to_host(&tape->transfer, tape->losses_host, tape->losses,
                                 tape->rows * sizeof(float)));
    for (size_t b = 0; b < tape->rows; b++) {
        sum += (double)tape->losses_host[b];
    }
    *out_loss = (float)(sum / (double)tape->rows);
    return DDP_OK;
}
