/* Operations on sequences of tokens: embeddings, rows brought to mean 0 and variance 1, GELU and
 * causal attention; forward and backward of each. */
#include <math.h>

#include "reference/tape.h"

/* kept: the inverse deviation of each row. */
static ddp_status normalize_backward(struct ref_tape *tape, const struct ref_node *node)
{
    struct ref_value *x = &tape->values[node->x];
    const struct ref_value *out = &tape->values[node->out];

    if (x->grad == NULL) {
        return DDP_OK;
    }
    DDP_TRY(tape->device->layers->normalize_rows_backward(
        tape->device, NULL, ref_tape_target(tape, x), out->grad, out->data, node->kept, x->rows,
        x->columns));
    return ref_tape_contribute(tape, x);
}

ddp_status ref_tape_normalize_rows(struct ref_tape *tape, size_t x, float eps, size_t *out)
{
    const struct ref_value in = *ref_tape_value(tape, x);
    struct ref_node node = ref_node_of(normalize_backward, x);
    float *inverse = ref_tape_take(tape, in.rows);

    node.kept = inverse;
    DDP_TRY(ref_tape_add_op(tape, &node, in.rows, in.columns, out));
    if (tape->is_dry) {
        return DDP_OK;
    }
    DDP_TRY(tape->device->layers->normalize_rows(tape->device, NULL, tape->values[*out].data,
                                                 inverse, in.data, in.rows, in.columns, eps));
    return ref_tape_round_value(tape, *out);
}

static ddp_status gelu_backward(struct ref_tape *tape, const struct ref_node *node)
{
    struct ref_value *x = &tape->values[node->x];

    if (x->grad == NULL) {
        return DDP_OK;
    }
    DDP_TRY(tape->device->layers->gelu_backward(tape->device, NULL, ref_tape_target(tape, x),
                                                tape->values[node->out].grad, x->data,
                                                x->rows * x->columns));
    return ref_tape_contribute(tape, x);
}

ddp_status ref_tape_gelu(struct ref_tape *tape, size_t x, size_t *out)
{
    const struct ref_value in = *ref_tape_value(tape, x);
    struct ref_node node = ref_node_of(gelu_backward, x);

    DDP_TRY(ref_tape_add_op(tape, &node, in.rows, in.columns, out));
    if (tape->is_dry) {
        return DDP_OK;
    }
    DDP_TRY(tape->device->layers->gelu(tape->device, NULL, tape->values[*out].data, in.data,
                                       in.rows * in.columns));
    return ref_tape_round_value(tape, *out);
}

/* x is the value of the ids, which has no gradient. */
static ddp_status embedding_backward(struct ref_tape *tape, const struct ref_node *node)
{
    const struct ref_value *out = &tape->values[node->out];
    struct ddp_param *weight = &tape->params[node->weight];

    DDP_TRY(tape->device->layers->scatter_rows(
        tape->device, NULL, weight->grad, out->grad,
        &(struct ddp_rows){node->index, out->rows, out->columns, weight->shape[0]},
        weight->is_grad_defined));
    return ref_tape_param_done(tape, node->weight);
}

ddp_status ref_tape_embedding(struct ref_tape *tape, const float *ids, size_t rows_each,
                              size_t weight, size_t *out)
{
    struct ref_node node = ref_node_of(embedding_backward, REF_NONE);
    const struct ddp_param *table = &tape->params[weight];
    size_t rows = tape->rows * rows_each;
    int32_t *host = ref_tape_host_ids(tape, rows);

    ref_tape_check_matrix(tape, weight, table->shape[1]);
    /* The ids as a value, so that the node has one to begin from; and as integers on the device. */
    DDP_TRY(ref_tape_add_value(tape, rows, 1, false, &node.x));
    for (size_t i = 0; !tape->is_dry && i < rows; i++) {
        if (!(ids[i] >= 0.0F && ids[i] < (float)table->shape[0])) {
            return DDP_E_INVALID; /* also a NaN */
        }
        host[i] = (int32_t)ids[i];
    }
    DDP_TRY(ref_tape_upload(tape, host, rows, &node.index));
    node.weight = weight;
    DDP_TRY(ref_tape_add_op(tape, &node, rows, table->shape[1], out));
    if (tape->is_dry) {
        return DDP_OK;
    }
    return tape->device->layers->gather_rows(
        tape->device, NULL, tape->values[*out].data, table->data,
        &(struct ddp_rows){node.index, rows, table->shape[1], table->shape[0]});
}

/* A sequence is one long row here: weight is a bias of the batch's rows. */
static ddp_status position_backward(struct ref_tape *tape, const struct ref_node *node)
{
    const struct ref_value *out = &tape->values[node->out];
    struct ddp_param *weight = &tape->params[node->weight];

    DDP_TRY(tape->device->math->sum_rows(tape->device, NULL, weight->grad, out->grad,
                                         out->rows * out->columns / weight->elem_count,
                                         weight->elem_count, weight->is_grad_defined));
    DDP_TRY(ref_tape_param_done(tape, node->weight));
    return ref_tape_contribute_copy(tape, &tape->values[node->x], out->grad);
}

ddp_status ref_tape_add_position(struct ref_tape *tape, size_t x, size_t weight, size_t *out)
{
    const struct ref_value in = *ref_tape_value(tape, x);
    struct ref_node node = ref_node_of(position_backward, x);
    const struct ddp_param *table = &tape->params[weight];

    ref_tape_check_matrix(tape, weight, in.columns);
    DDP_ASSERT(in.rows % table->shape[0] == 0);
    node.weight = weight;
    DDP_TRY(ref_tape_add_op(tape, &node, in.rows, in.columns, out));
    if (tape->is_dry) {
        return DDP_OK;
    }
    DDP_TRY(tape->device->math->add_bias(tape->device, NULL, tape->values[*out].data, in.data,
                                         table->data, in.rows / table->shape[0],
                                         table->elem_count));
    return ref_tape_round_value(tape, *out);
}

/* Sizes of an attention. */
struct sizes {
    size_t products;  /* one for each head of each sequence */
    size_t width;     /* of a head */
    size_t all_elems; /* queries of all heads: tokens x columns of all sequences */
    size_t prob_elems;
};

static struct sizes sizes_of(const struct ref_attention *attention, size_t columns)
{
    size_t products = attention->heads * attention->sequences;

    return (struct sizes){.products = products,
                          .width = columns / attention->heads,
                          .all_elems = attention->sequences * attention->tokens * columns,
                          .prob_elems = products * attention->tokens * attention->tokens};
}

/* From token by token to head by head, parts (3: queries, keys, values) first; and back. */
static ddp_status split_heads(struct ref_tape *tape, const struct ref_attention *a, size_t parts,
                              size_t width, float *target, const float *source)
{
    const size_t dims[4] = {a->sequences, a->tokens, parts * a->heads, width};
    static const size_t order[4] = {2, 0, 1, 3};

    return tape->device->layers->permute(tape->device, NULL, target, source, dims, order);
}

static ddp_status join_heads(struct ref_tape *tape, const struct ref_attention *a, size_t parts,
                             size_t width, float *target, const float *source)
{
    const size_t dims[4] = {parts * a->heads, a->sequences, a->tokens, width};
    static const size_t order[4] = {1, 2, 0, 3};

    return tape->device->layers->permute(tape->device, NULL, target, source, dims, order);
}

/* One product for each head of each sequence: c(m x n) = a * b. Of the two dimensions that are
 * summed over or not, one is the tokens and one the head's width; how is in gemm. */
static ddp_status multiply(struct ref_tape *tape, size_t products, struct ddp_gemm gemm)
{
    gemm.alpha = 1.0F;
    return tape->device->layers->gemms(tape->device, NULL, &gemm, products);
}

/* With P the probabilities and S the scores: dV = P^T dY, dP = dY V^T, dS from dP, dQ = dS K,
 * dK = dS^T Q. The scale of the scores is in dS. */
static ddp_status attention_backward(struct ref_tape *tape, const struct ref_node *node)
{
    const struct ref_attention *a = &node->as.attention;
    struct ref_value *x = &tape->values[node->x];
    const struct ref_value *out = &tape->values[node->out];
    const struct sizes s = sizes_of(a, out->columns);
    const size_t t = a->tokens;
    float *dqkv = ref_tape_work(tape, 4 * s.all_elems + s.prob_elems);
    float *dout = dqkv + 3 * s.all_elems;
    float *dprobs = dout + s.all_elems;

    if (x->grad == NULL) {
        return DDP_OK;
    }
    DDP_TRY(split_heads(tape, a, 1, s.width, dout, out->grad));
    DDP_TRY(multiply(tape, s.products,
                     (struct ddp_gemm){.transpose_a = true,
                                       .m = t,
                                       .n = s.width,
                                       .k = t,
                                       .a = a->probs,
                                       .b = dout,
                                       .c = dqkv + 2 * s.all_elems}));
    DDP_TRY(multiply(tape, s.products,
                     (struct ddp_gemm){.transpose_b = true,
                                       .m = t,
                                       .n = t,
                                       .k = s.width,
                                       .a = dout,
                                       .b = a->qkv + 2 * s.all_elems,
                                       .c = dprobs}));
    DDP_TRY(tape->device->layers->softmax_causal_backward(tape->device, NULL, dprobs, dprobs,
                                                          a->probs, s.products * t, t,
                                                          1.0F / sqrtf((float)s.width)));
    DDP_TRY(multiply(
        tape, s.products,
        (struct ddp_gemm){
            .m = t, .n = s.width, .k = t, .a = dprobs, .b = a->qkv + s.all_elems, .c = dqkv}));
    DDP_TRY(multiply(tape, s.products,
                     (struct ddp_gemm){.transpose_a = true,
                                       .m = t,
                                       .n = s.width,
                                       .k = t,
                                       .a = dprobs,
                                       .b = a->qkv,
                                       .c = dqkv + s.all_elems}));
    DDP_TRY(join_heads(tape, a, 3, s.width, ref_tape_target(tape, x), dqkv));
    return ref_tape_contribute(tape, x);
}

/* S = Q K^T, P = softmax(S / sqrt(width)) over what each token may see, Y = P V. */
static ddp_status attend(struct ref_tape *tape, const struct ref_attention *a,
                         const struct sizes *s, float *y, const float *qkv)
{
    const size_t t = a->tokens;
    float *work = ref_tape_work(tape, s->all_elems + s->prob_elems);
    float *scores = work + s->all_elems;

    DDP_TRY(split_heads(tape, a, 3, s->width, a->qkv, qkv));
    DDP_TRY(multiply(tape, s->products,
                     (struct ddp_gemm){.transpose_b = true,
                                       .m = t,
                                       .n = t,
                                       .k = s->width,
                                       .a = a->qkv,
                                       .b = a->qkv + s->all_elems,
                                       .c = scores}));
    DDP_TRY(tape->device->layers->softmax_causal(
        tape->device, NULL, a->probs, scores, s->products * t, t, 1.0F / sqrtf((float)s->width)));
    DDP_TRY(multiply(tape, s->products,
                     (struct ddp_gemm){.m = t,
                                       .n = s->width,
                                       .k = t,
                                       .a = a->probs,
                                       .b = a->qkv + 2 * s->all_elems,
                                       .c = work}));
    return join_heads(tape, a, 1, s->width, y, work);
}

ddp_status ref_tape_attention(struct ref_tape *tape, size_t x, size_t tokens, size_t heads,
                              size_t *out)
{
    const struct ref_value in = *ref_tape_value(tape, x);
    struct ref_node node = ref_node_of(attention_backward, x);
    const size_t columns = in.columns / 3;
    struct ref_attention a = {.sequences = in.rows / tokens, .tokens = tokens, .heads = heads};
    const struct sizes s = sizes_of(&a, columns);

    DDP_ASSERT(in.columns % 3 == 0 && columns % heads == 0 && in.rows % tokens == 0);
    a.qkv = ref_tape_take(tape, 3 * s.all_elems);
    a.probs = ref_tape_take(tape, s.prob_elems);
    (void)ref_tape_work(tape, 4 * s.all_elems + s.prob_elems); /* for backward */
    node.as.attention = a;
    DDP_TRY(ref_tape_add_op(tape, &node, in.rows, columns, out));
    if (tape->is_dry) {
        return DDP_OK;
    }
    /* Scores and probabilities stay in f32, as in kernels that never store them. */
    DDP_TRY(attend(tape, &a, &s, tape->values[*out].data, in.data));
    return ref_tape_round_value(tape, *out);
}
