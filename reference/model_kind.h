/* What a kind of model provides, the table of kinds, and what model_spec.c gives them. Inside
 * reference/. */
#ifndef REFERENCE_MODEL_KIND_H
#define REFERENCE_MODEL_KIND_H

#include "reference/model.h"
#include "reference/tape.h"

#ifdef __cplusplus
extern "C" {
#endif

#define REF_NAME_BYTES 40

enum ref_init {
    REF_INIT_UNIFORM, /* uniform in +-1/sqrt(fan_in), as torch.nn.Linear and Conv2d */
    REF_INIT_TRIT,    /* -1, 0 or 1 */
    REF_INIT_NARROW,  /* uniform with a standard deviation of 0.02, as GPT-2's */
    REF_INIT_ONE,
    REF_INIT_ZERO,
};

struct ref_param_spec {
    char name[REF_NAME_BYTES];
    uint32_t ndim;
    size_t shape[DDP_NDIM_MAX];
    size_t fan_in;
    enum ref_init init;
};
struct ref_buffer_spec {
    char name[REF_NAME_BYTES];
    enum ddp_dtype dtype; /* f32, or the config's `statistics` in its place; or i64 */
    size_t elem_count;
    float initial; /* of each element of a float; an i64 begins with 0 */
};
struct ref_model_spec {
    struct ddp_mem *mem;
    struct ref_param_spec *params;
    size_t param_count, param_capacity;
    struct ref_buffer_spec *buffers;
    size_t buffer_count, buffer_capacity;
    uint32_t batch_norms[REF_LAYERS_MAX]; /* their weights */
    size_t batch_norm_count;
    bool is_out_of_memory; /* something could not be added */
};

struct ref_model_kind {
    /* Hidden layers that a config without widths gets. */
    size_t default_hidden_count, default_hidden_width;
    bool is_regression; /* the loss is against the batch's targets, not its labels */
    bool is_sequence;   /* features are tokens, and each one has a label */
    bool is_routed;     /* the data choose which parameters a pass uses */
    bool needs_layers;  /* kernels of layers.h */
    bool is_roundable;  /* passes may be of 16 bits: its operations round what they compute */
    ddp_status (*describe)(const struct ref_model_config *config, struct ref_model_spec *spec,
                           struct ddp_err *err);
    /* Records the forward pass on model->tape, loss last. The tape may be in its dry run: then the
     * batch is all zero and the pass is the largest the model can make. */
    ddp_status (*forward)(struct ref_model *model, const struct ref_batch *batch);
};

struct ref_model {
    struct ddp_device *device;
    const struct ref_model_kind *kind;
    struct ref_model_config config;
    struct ref_model_spec spec;
    struct ddp_param *params;         /* [spec.param_count] */
    struct ddp_buffer *buffers;       /* [spec.buffer_count] */
    float *data_block, *grad_block;   /* on the device */
    struct ddp_param *rounded, *wide; /* [spec.param_count], or NULL: model_rounded.c */
    char *rounded_block, *wide_block;
    char *buffer_block; /* the same */
    int64_t *one;       /* in buffer_block, behind the buffers */
    struct ref_tape tape;
};

/* model_init.c: the values that all begins with. */
DDP_MUST_USE ddp_status ref_model_init(struct ref_model *model, struct ddp_err *err);

/* model_rounded.c: tables for passes of 16 bits; nothing if they are of f32. */
DDP_MUST_USE ddp_status ref_model_create_rounded(struct ref_model *model, struct ddp_err *err);
void ref_model_destroy_rounded(struct ref_model *model);
DDP_MUST_USE ddp_status ref_model_widen(struct ref_model *model); /* before a forward pass */

/* model_buffer.c: buffers that follow what passes by.
 * buffer (of floats) = (1 - momentum) * buffer + momentum * factor * value, element by element; a
 * pass first makes room for the largest one, in its dry run, too. */
void ref_buffer_make_room(struct ref_model *model, size_t elem_count);
DDP_MUST_USE ddp_status ref_buffer_follow(struct ref_model *model, size_t index, const float *value,
                                          float momentum, float factor);
/* buffer (i64) = buffer + 1 */
DDP_MUST_USE ddp_status ref_buffer_count(struct ref_model *model, size_t index);

/* model_spec.c: each appends to the spec, or sets is_out_of_memory. */
void ref_spec_add_param(struct ref_model_spec *spec, const struct ref_param_spec *param);
/* A linear layer: "<prefix>.weight" [outputs][inputs] and "<prefix>.bias" [outputs]. */
void ref_spec_add_linear(struct ref_model_spec *spec, const char *prefix, size_t outputs,
                         size_t inputs, enum ref_init init);
void ref_spec_add_vector(struct ref_model_spec *spec, const char *name, size_t elem_count,
                         size_t fan_in);
/* "<prefix>.weight" of ones and "<prefix>.bias" of zeros. */
void ref_spec_add_norm(struct ref_model_spec *spec, const char *prefix, size_t elem_count);
void ref_spec_add_buffer(struct ref_model_spec *spec, const char *name, enum ddp_dtype dtype,
                         size_t elem_count, float initial);
void ref_spec_fini(struct ref_model_spec *spec);

/* X(name), a row for each ref_model_<name>. */
#define REF_MODEL_TABLE(X) \
    X(mlp)                 \
    X(branchy)             \
    X(exact_linear)        \
    X(module_child)        \
    X(module_twin)         \
    X(convnet)             \
    X(gpt)                 \
    X(moe)
#define X(name) extern const struct ref_model_kind ref_model_##name;
REF_MODEL_TABLE(X)
#undef X

#ifdef __cplusplus
}
#endif
#endif
