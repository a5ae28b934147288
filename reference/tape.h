/* The tape: what a forward pass did, so that backward can undo it. Inside reference/.
 *
 * A value is a matrix rows x columns with, if needed, a gradient beside it. Tensors of more
 * dimensions are matrices too: an image's pixels are rows and its channels columns, a sequence's
 * tokens are rows. A node computes one value from one or two others and up to two parameters. All
 * memory is measured at creation by a dry run of the forward pass, so a step allocates nothing. */
#ifndef REFERENCE_TAPE_H
#define REFERENCE_TAPE_H

#include "ddpcore/base/param.h"
#include "ddpcore/device/layers.h"
#include "ddpcore/device/math.h"
#include "ddpcore/device/transfer.h"
#include "reference/model.h"

#ifdef __cplusplus
extern "C" {
#endif

#define REF_NONE SIZE_MAX

struct ref_value {
    float *data;
    float *grad; /* NULL: no gradient is wanted */
    size_t rows, columns;
    bool is_grad_written; /* in this backward pass */
    bool is_needed;       /* the loss depends on it; set by ref_tape_reach */
};

struct ref_tape;

/* Attention: B sequences of `tokens` rows, `heads` heads. */
struct ref_attention {
    size_t sequences, tokens, heads;
    float *qkv;   /* [3][heads][B][tokens][columns/heads] */
    float *probs; /* [heads][B][tokens][tokens] */
};

/* A BatchNorm over the batches of several ranks. */
struct ref_shared_norm {
    uint32_t layer;
    float row_count; /* of all ranks */
};

struct ref_node {
    /* Adds the node's contributions to the gradients of its values and parameters. */
    ddp_status (*backward)(struct ref_tape *tape, const struct ref_node *node);
    size_t x, y, out;    /* values; REF_NONE if absent */
    size_t weight, bias; /* parameters; REF_NONE if absent */
    bool is_reached;     /* the loss depends on it; set by ref_tape_reach */
    float *kept;         /* what else backward needs, on the device */
    int32_t *index;      /* rows of a table, labels, or routes, on the device */
    union {
        struct ddp_image image;
        struct ref_attention attention;
        struct ddp_route route;
        struct ref_shared_norm shared;
    } as;
};

struct ref_tape {
    struct ddp_device *device;
    struct ddp_param *params;
    size_t param_count;
    struct ddp_param *rounded; /* [param_count] where gradients are left in 16 bits; or NULL */
    void *rounding;            /* of that type; the largest value or parameter */
    size_t rounding_elems;
    struct ddp_transfer transfer;
    const struct ref_model_observer *observer; /* of the pass in progress */
    const struct ref_exchange *exchange;       /* of BatchNorms; NULL: each batch by itself */
    size_t rows, rows_max;
    bool is_dry; /* count memory, compute nothing */
    float *arena;
    size_t arena_elems, arena_used;
    float *scratch;     /* as large as the largest value */
    float *work;        /* what ref_tape_work gives */
    float *losses;      /* of the pass's last node, on the device; in the arena */
    float *losses_host; /* the same on the host */
    float loss_scale;   /* of the backward pass in progress */
    size_t loss_rows, loss_rows_max, id_rows_max, scratch_elems, work_elems;
    int32_t *ids_host; /* what ref_tape_host_ids gives */
    struct ref_node *nodes;
    size_t node_count, node_capacity;
    struct ref_value *values;
    size_t value_count, value_capacity;
    uint32_t *pending; /* [param_count] contributions still to come in this backward pass */
};

/* Creation: init, ref_tape_begin, the largest forward pass (dry), ref_tape_allocate. */
DDP_MUST_USE ddp_status ref_tape_init(struct ref_tape *tape, struct ddp_device *device,
                                      struct ddp_param *params, size_t param_count,
                                      size_t rows_max);
DDP_MUST_USE ddp_status ref_tape_allocate(struct ref_tape *tape);
void ref_tape_fini(struct ref_tape *tape);

/* Forget the present tape and record a new one for a batch of that many rows. */
void ref_tape_begin(struct ref_tape *tape, size_t rows, const struct ref_model_observer *observer);
/* Tell the observer that a layer starts. */
DDP_MUST_USE ddp_status ref_tape_layer(struct ref_tape *tape, uint32_t layer);

/* The operations. Each computes *out, a new value, and notes how. */

/* A matrix from the host, without a gradient. Its rows: rows_each for each row of the batch. */
DDP_MUST_USE ddp_status ref_tape_input(struct ref_tape *tape, const float *host, size_t rows_each,
                                       size_t columns, size_t *out);
/* weight: [columns of out][columns of x]; bias may be REF_NONE. */
DDP_MUST_USE ddp_status ref_tape_linear(struct ref_tape *tape, size_t x, size_t weight, size_t bias,
                                        size_t *out);
DDP_MUST_USE ddp_status ref_tape_relu(struct ref_tape *tape, size_t x, size_t *out);
DDP_MUST_USE ddp_status ref_tape_scale(struct ref_tape *tape, size_t x, size_t weight, size_t *out);
DDP_MUST_USE ddp_status ref_tape_add(struct ref_tape *tape, size_t x, size_t y, size_t *out);
/* out = x * weight + bias, column by column */
DDP_MUST_USE ddp_status ref_tape_affine(struct ref_tape *tape, size_t x, size_t weight, size_t bias,
                                        size_t *out);
/* tape_image.c. image: count is the batch's. weight: [columns of out][channels][window][window] */
DDP_MUST_USE ddp_status ref_tape_conv(struct ref_tape *tape, size_t x, size_t weight,
                                      const struct ddp_image *image, size_t *out);
DDP_MUST_USE ddp_status ref_tape_average_pool(struct ref_tape *tape, size_t x,
                                              const struct ddp_image *image, size_t *out);
/* Each column to mean 0 and variance 1. *out_moments: its mean, variance and 1/deviation, a vector
 * each, on the device. */
DDP_MUST_USE ddp_status ref_tape_normalize_columns(struct ref_tape *tape, size_t x, float eps,
                                                   size_t *out, const float **out_moments);
/* tape_exchange.c. The same by tape->exchange, which says what the moments of all ranks' rows are;
 * without one, by the batch itself. layer: which BatchNorm. *out_rows: how many rows. */
DDP_MUST_USE ddp_status ref_tape_normalize_shared(struct ref_tape *tape, size_t x, uint32_t layer,
                                                  float eps, size_t *out, const float **out_moments,
                                                  float *out_rows);
/* tape_sequence.c. Each row to mean 0 and variance 1. */
DDP_MUST_USE ddp_status ref_tape_normalize_rows(struct ref_tape *tape, size_t x, float eps,
                                                size_t *out);
DDP_MUST_USE ddp_status ref_tape_gelu(struct ref_tape *tape, size_t x, size_t *out);
/* Rows of a parameter: ids, in host memory, are floats that name them, rows_each for each row of
 * the batch. Errors: E_INVALID for one that names none. */
DDP_MUST_USE ddp_status ref_tape_embedding(struct ref_tape *tape, const float *ids,
                                           size_t rows_each, size_t weight, size_t *out);
/* out = x + weight, the same for each sequence: weight has the rows of one. */
DDP_MUST_USE ddp_status ref_tape_add_position(struct ref_tape *tape, size_t x, size_t weight,
                                              size_t *out);
/* x: queries, keys and values beside each other, of every token. */
DDP_MUST_USE ddp_status ref_tape_attention(struct ref_tape *tape, size_t x, size_t tokens,
                                           size_t heads, size_t *out);
/* tape_route.c. Which expert each row of x gets: logits has a column for each. *out_route stays
 * with the tape; choice (int32[rows], host memory) is the caller's. In the dry run choice is not
 * written. */
DDP_MUST_USE ddp_status ref_tape_route(struct ref_tape *tape, size_t logits, int32_t *choice,
                                       struct ddp_route *out_route);
/* The rows of x that index (host memory) lists. */
DDP_MUST_USE ddp_status ref_tape_take_rows(struct ref_tape *tape, size_t x, const int32_t *index,
                                           size_t rows, size_t *out);
/* The other way: rows of x, which take_rows listed in node `taken` of the same tape, to their
 * places in *out. *out is REF_NONE at first; then a value of as many rows as were taken from. */
DDP_MUST_USE ddp_status ref_tape_put_rows(struct ref_tape *tape, size_t x, size_t taken,
                                          size_t *inout);
/* Each row of x times the weight of its expert. */
DDP_MUST_USE ddp_status ref_tape_gate(struct ref_tape *tape, size_t x, size_t logits,
                                      const struct ddp_route *route, size_t *out);

/* The loss is the last node. labels: int32[rows of x], host memory. */
DDP_MUST_USE ddp_status ref_tape_cross_entropy(struct ref_tape *tape, size_t x,
                                               const int32_t *labels);
DDP_MUST_USE ddp_status ref_tape_squared_error(struct ref_tape *tape, size_t x, size_t target);
/* Mean of the rows' losses, summed in double in ascending order. */
DDP_MUST_USE ddp_status ref_tape_mean_loss(struct ref_tape *tape, float *out_loss);

/* Sets is_reached of every node. */
void ref_tape_reach(const struct ref_tape *tape);
/* Backward from the last node, as ref_model_backward. */
DDP_MUST_USE ddp_status ref_tape_backward(struct ref_tape *tape, float loss_scale,
                                          const struct ref_model_observer *observer);

/* --- What operations are made of: tape.c ------------------------------------------------------ */

/* Memory of the pass that is recorded, on the device; NULL in the dry run. */
float *ref_tape_take(struct ref_tape *tape, size_t elem_count);
/* Memory that one operation needs for itself, until the next one; NULL in the dry run. Backward
 * may use what forward has asked for. */
float *ref_tape_work(struct ref_tape *tape, size_t elem_count);
/* Integers in host memory, until the next call in this pass; NULL in the dry run. */
int32_t *ref_tape_host_ids(struct ref_tape *tape, size_t count);
DDP_MUST_USE ddp_status ref_tape_add_value(struct ref_tape *tape, size_t rows, size_t columns,
                                           bool needs_grad, size_t *out);
DDP_MUST_USE ddp_status ref_tape_add_node(struct ref_tape *tape, const struct ref_node *node);
/* A node of an operation on x, without all else. */
struct ref_node
ref_node_of(ddp_status (*backward)(struct ref_tape *tape, const struct ref_node *node), size_t x);
/* An operation with one result, which has a gradient: its value, and the node with that as out. */
DDP_MUST_USE ddp_status ref_tape_add_op(struct ref_tape *tape, struct ref_node *node, size_t rows,
                                        size_t columns, size_t *out);
const struct ref_value *ref_tape_value(const struct ref_tape *tape, size_t value);
/* Integers from the host to the pass's memory. */
DDP_MUST_USE ddp_status ref_tape_upload(struct ref_tape *tape, const int32_t *host,
                                        size_t elem_count, int32_t **out);
/* Asserts that parameter `index` is f32 and has rows of `columns` elements, whatever its shape. */
void ref_tape_check_matrix(const struct ref_tape *tape, size_t index, size_t columns);

/* --- passes of 16 bits: tape_rounded.c; nothing unless tape->rounded is set ------------------- */

DDP_MUST_USE ddp_status ref_tape_alloc_rounding(struct ref_tape *tape);
DDP_MUST_USE ddp_status ref_tape_round(struct ref_tape *tape, float *data, size_t elem_count);
/* A value that was just computed; and the gradient of one, if it has been written. */
DDP_MUST_USE ddp_status ref_tape_round_value(struct ref_tape *tape, size_t value);
DDP_MUST_USE ddp_status ref_tape_round_gradient(struct ref_tape *tape, size_t value);
/* params[index].grad holds one contribution, which is added to that of rounded[index]. */
DDP_MUST_USE ddp_status ref_tape_leave_rounded(struct ref_tape *tape, size_t index);

/* --- and their backward: tape_backward.c ------------------------------------------------------ */

/* Where a node writes its contribution to a value's gradient: there at first, else in scratch. */
float *ref_tape_target(const struct ref_tape *tape, const struct ref_value *value);
/* Call once the contribution was written to ref_tape_target. */
DDP_MUST_USE ddp_status ref_tape_contribute(struct ref_tape *tape, struct ref_value *value);
/* dy is the contribution itself. */
DDP_MUST_USE ddp_status ref_tape_contribute_copy(struct ref_tape *tape, struct ref_value *value,
                                                 const float *dy);
/* params[index].grad has received one contribution. */
DDP_MUST_USE ddp_status ref_tape_param_done(struct ref_tape *tape, size_t index);
DDP_MUST_USE ddp_status ref_tape_linear_backward(struct ref_tape *tape,
                                                 const struct ref_node *node);
DDP_MUST_USE ddp_status ref_tape_relu_backward(struct ref_tape *tape, const struct ref_node *node);
DDP_MUST_USE ddp_status ref_tape_scale_backward(struct ref_tape *tape, const struct ref_node *node);
DDP_MUST_USE ddp_status ref_tape_add_backward(struct ref_tape *tape, const struct ref_node *node);
DDP_MUST_USE ddp_status ref_tape_cross_entropy_backward(struct ref_tape *tape,
                                                        const struct ref_node *node);
DDP_MUST_USE ddp_status ref_tape_squared_error_backward(struct ref_tape *tape,
                                                        const struct ref_node *node);

#ifdef __cplusplus
}
#endif
#endif
