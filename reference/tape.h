/* The tape: what a forward pass did, so that backward can undo it. Inside reference/.
 *
 * A value is a matrix rows x columns with, if needed, a gradient beside it; a node computes one
 * value from one or two others and up to two parameters. All memory is one block measured at
 * creation by a dry run of the forward pass, so a step allocates nothing. */
#ifndef REFERENCE_TAPE_H
#define REFERENCE_TAPE_H

#include "ddpcore/base/param.h"
#include "ddpcore/device/math.h"
#include "ddpcore/device/transfer.h"
#include "reference/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A layer is two nodes (linear, relu), each with one value; the rest is for inputs, losses,
 * branches. */
#define REF_TAPE_NODES_MAX  ((size_t)2 * REF_LAYERS_MAX + 16)
#define REF_TAPE_VALUES_MAX ((size_t)2 * REF_LAYERS_MAX + 32)
#define REF_TAPE_PARAMS_MAX ((size_t)2 * REF_LAYERS_MAX)
#define REF_NONE            SIZE_MAX

enum ref_node_kind {
    REF_NODE_LINEAR,        /* out = x weight^T + bias */
    REF_NODE_RELU,          /* out = max(x, 0) */
    REF_NODE_SCALE,         /* out = x * weight, column by column */
    REF_NODE_ADD,           /* out = x + y */
    REF_NODE_CROSS_ENTROPY, /* the loss of x against the labels */
    REF_NODE_SQUARED_ERROR, /* the loss of x against the value y */
};

struct ref_value {
    float *data;
    float *grad; /* NULL: no gradient is wanted */
    size_t columns;
    bool is_grad_written; /* in this backward pass */
};

struct ref_node {
    enum ref_node_kind kind;
    size_t x, y, out;    /* values; REF_NONE if absent */
    size_t weight, bias; /* parameters; REF_NONE if absent */
};

struct ref_tape {
    struct ddp_device *device;
    struct ddp_param *params;
    size_t param_count;
    struct ddp_transfer transfer;
    const struct ref_model_observer *observer; /* of the pass in progress */
    size_t rows, rows_max, columns_max;
    bool is_dry; /* count memory, compute nothing */
    float *arena;
    size_t arena_elems, arena_used;
    float *scratch;     /* rows_max x columns_max */
    float *losses;      /* rows_max, on the device */
    float *losses_host; /* the same on the host */
    int32_t *labels;    /* rows_max, on the device */
    struct ref_node nodes[REF_TAPE_NODES_MAX];
    size_t node_count;
    struct ref_value values[REF_TAPE_VALUES_MAX];
    size_t value_count;
    uint32_t pending[REF_TAPE_PARAMS_MAX]; /* contributions still to come in this backward pass */
};

/* Creation: init, ref_tape_begin, the largest forward pass (dry), ref_tape_allocate. */
DDP_MUST_USE ddp_status ref_tape_init(struct ref_tape *tape, struct ddp_device *device,
                                      struct ddp_param *params, size_t param_count,
                                      size_t rows_max);
DDP_MUST_USE ddp_status ref_tape_allocate(struct ref_tape *tape);
void ref_tape_fini(struct ref_tape *tape);

/* Forget the present tape and record a new one for that many rows. */
void ref_tape_begin(struct ref_tape *tape, size_t rows, const struct ref_model_observer *observer);
/* Tell the observer that a layer starts. */
DDP_MUST_USE ddp_status ref_tape_layer(struct ref_tape *tape, uint32_t layer);
/* A matrix from the host, without a gradient. */
DDP_MUST_USE ddp_status ref_tape_input(struct ref_tape *tape, const float *host, size_t columns,
                                       size_t *out);
/* weight: [columns of out][columns of x]; bias may be REF_NONE. */
DDP_MUST_USE ddp_status ref_tape_linear(struct ref_tape *tape, size_t x, size_t weight, size_t bias,
                                        size_t *out);
DDP_MUST_USE ddp_status ref_tape_relu(struct ref_tape *tape, size_t x, size_t *out);
DDP_MUST_USE ddp_status ref_tape_scale(struct ref_tape *tape, size_t x, size_t weight, size_t *out);
DDP_MUST_USE ddp_status ref_tape_add(struct ref_tape *tape, size_t x, size_t y, size_t *out);
/* The loss is the last node. labels: int32[rows], host memory. */
DDP_MUST_USE ddp_status ref_tape_cross_entropy(struct ref_tape *tape, size_t x,
                                               const int32_t *labels);
DDP_MUST_USE ddp_status ref_tape_squared_error(struct ref_tape *tape, size_t x, size_t target);
/* Mean of the rows' losses, summed in double in ascending order. */
DDP_MUST_USE ddp_status ref_tape_mean_loss(struct ref_tape *tape, float *out_loss);

/* is_reached: bool[node_count], which nodes the loss depends on. */
void ref_tape_reach(const struct ref_tape *tape, bool *is_reached);
/* Backward from the last node, as ref_model_backward. */
DDP_MUST_USE ddp_status ref_tape_backward(struct ref_tape *tape, float loss_scale,
                                          const struct ref_model_observer *observer);

#ifdef __cplusplus
}
#endif
#endif
