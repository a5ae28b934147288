/* What a kind of model provides, the table of kinds, and what model_spec.c gives them. Inside
 * reference/. */
#ifndef REFERENCE_MODEL_KIND_H
#define REFERENCE_MODEL_KIND_H

#include "reference/model.h"
#include "reference/tape.h"

#ifdef __cplusplus
extern "C" {
#endif

#define REF_NAME_BYTES  40
#define REF_PARAMS_MAX  REF_TAPE_PARAMS_MAX
#define REF_BUFFERS_MAX 2

enum ref_init {
    REF_INIT_UNIFORM, /* uniform in +-1/sqrt(fan_in), as torch.nn.Linear */
    REF_INIT_TRIT,    /* -1, 0 or 1 */
};

struct ref_param_spec {
    char name[REF_NAME_BYTES];
    size_t rows, columns; /* columns 0: a vector of rows elements */
    size_t fan_in;
    enum ref_init init;
};
struct ref_buffer_spec {
    char name[REF_NAME_BYTES];
    size_t elem_count;
};
struct ref_model_spec {
    struct ref_param_spec params[REF_PARAMS_MAX];
    size_t param_count;
    struct ref_buffer_spec buffers[REF_BUFFERS_MAX];
    size_t buffer_count;
};

struct ref_model_kind {
    /* Hidden layers that a config without widths gets. */
    size_t default_hidden_count, default_hidden_width;
    bool is_regression; /* the loss is against the batch's targets, not its labels */
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
    struct ddp_param params[REF_PARAMS_MAX];
    struct ddp_buffer buffers[REF_BUFFERS_MAX];
    float *data_block, *grad_block, *buffer_block; /* on the device */
    struct ref_tape tape;
};

/* model_spec.c: each appends to the spec. */
/* A linear layer: "<prefix>.weight" [outputs][inputs] and "<prefix>.bias" [outputs]. */
void ref_spec_add_linear(struct ref_model_spec *spec, const char *prefix, size_t outputs,
                         size_t inputs, enum ref_init init);
void ref_spec_add_vector(struct ref_model_spec *spec, const char *name, size_t elem_count,
                         size_t fan_in);
void ref_spec_add_buffer(struct ref_model_spec *spec, const char *name, size_t elem_count);

/* X(name), a row for each ref_model_<name>. */
#define REF_MODEL_TABLE(X) \
    X(mlp)                 \
    X(branchy)             \
    X(exact_linear)        \
    X(module_child)        \
    X(module_twin)
#define X(name) extern const struct ref_model_kind ref_model_##name;
REF_MODEL_TABLE(X)
#undef X

#ifdef __cplusplus
}
#endif
#endif
