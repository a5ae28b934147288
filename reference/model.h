/* Models: small networks with a tape. The reference trainer owns them; harness/rank trains the very
 * same models under DDP, so a local gradient must come out bit for bit.
 *
 * Models: "mlp" (fully connected, ReLU between layers, cross-entropy; parameters fc0.weight,
 * fc0.bias, fc1.weight, ...: weight is [out][in], y = x W^T + b), "branchy" (a trunk, two branches
 * of which a rule picks one or both, a head; `trunk.scale` is a shared parameter that both branches
 * use), "exact_linear" (linear, squared error, dyadic data: every sum is exact in any order),
 * "module_child" (an mlp inside a child really named `module`, so its keys are module.fc0.weight),
 * "module_twin" (an mlp with every second layer inside such a child: fc0.weight,
 * module.fc0.weight), "convnet" (blocks of convolution, BatchNorm and pooling), "gpt" (a
 * transformer as GPT-2, head tied to the embedding), "moe" (experts of which each row uses one). To
 * add one: a file model_<name>.c with its struct ref_model_kind, its line in CMakeLists.txt, and
 * its row in REF_MODEL_TABLE (model_kind.h). */
#ifndef REFERENCE_MODEL_H
#define REFERENCE_MODEL_H

#include "ddpcore/base/clock.h"
#include "ddpcore/base/idle.h"
#include "ddpcore/base/param.h"
#include "ddpcore/device/device.h"
#include "ddpcore/device/layers.h"
#include "ddpcore/device/math.h"
#include "reference/branch.h"
#include "reference/data.h"

#ifdef __cplusplus
extern "C" {
#endif

#define REF_LAYERS_MAX 64

struct ref_model_config {
    const char *name;
    /* Widths from input to output. mlp, module_*: width_count - 1 layers; branchy: 3 widths
     * (input, trunk, output); exact_linear: 2 (features, targets). */
    size_t width[REF_LAYERS_MAX + 1];
    size_t width_count;
    enum ref_branch_rule branch;
    uint32_t skip_rank;
    size_t heads;   /* gpt: of each attention; 0 = 4 if the width divides by 4, else 1 */
    size_t experts; /* moe; 0 = 4 */
    /* In which passes run: f32; or f16 or bf16, then values and gradients are rounded to that, and
     * parameters are ref_model_rounded's. */
    enum ddp_dtype precision;
    enum ddp_dtype statistics; /* what buffers of floats are held in: f32, f16 or bf16 */
    uint64_t seed;             /* of the initial parameters (torch.nn.Linear's uniform range) */
    const char *initial; /* a safetensors file with these instead, and with the buffers; or NULL */
};

struct ref_model;

/* Known model names, NULL-terminated. Static storage. */
const char *const *ref_model_names(void);
/* Fill width/width_count with the model's defaults for a dataset of these sizes if not given.
 * class_count 0 means a regression on 2 targets (dyadic). */
void ref_model_defaults(struct ref_model_config *config, size_t feature_count, size_t class_count);
/* Whether the model learns from what such data have: labels, targets or tokens. Errors: E_INVALID,
 * and which data have what it learns from. */
DDP_MUST_USE ddp_status ref_model_check_learned(const char *name, enum ref_data_learned learned,
                                                struct ddp_err *err);
/* Whether the model takes data of that kind: what it learns from (E_INVALID), and as many features
 * as its first width, classes or targets as its last. config: after ref_model_defaults. Errors:
 * E_SHAPE. */
DDP_MUST_USE ddp_status ref_model_check_data(const struct ref_model_config *config,
                                             const struct ref_data_sizes *data,
                                             struct ddp_err *err);
/* Whether a pass may use fewer parameters than another one of the same job. */
bool ref_model_is_branching(const struct ref_model_config *config);
/* Whether it has passes of 16 bits. */
bool ref_model_is_roundable(const struct ref_model_config *config);
/* Names and shapes without data, for planning: what ref_model_params and ref_model_buffers will be,
 * data NULL. Give back `params`: one block of mem that holds all. Errors: E_NOT_FOUND (no such
 * model), E_INVALID (its widths), E_NOMEM. The file `initial` is not looked at. */
struct ref_model_tables {
    struct ddp_param *params;
    size_t param_count;
    struct ddp_buffer *buffers;
    size_t buffer_count;
    /* Of each BatchNorm, in the order of the forward pass: its weight, before its bias in params.
     */
    uint32_t *batch_norms;
    size_t batch_norm_count;
};
DDP_MUST_USE ddp_status ref_model_describe(struct ddp_mem *mem,
                                           const struct ref_model_config *config,
                                           struct ref_model_tables *out, struct ddp_err *err);
DDP_MUST_USE ddp_status ref_model_create(struct ddp_device *device,
                                         const struct ref_model_config *config,
                                         size_t batch_rows_max, struct ref_model **out,
                                         struct ddp_err *err);
void ref_model_destroy(struct ref_model *model);
/* How the passes wait for the device from now on: in ddp_wait, for timeout_ns at most (0 = no
 * limit), after which they end in E_TIMEOUT. Before this call they yield until it is done. Borrows
 * both. */
void ref_model_set_wait(struct ref_model *model, struct ddp_idle *idle, struct ddp_clock *clock,
                        uint64_t timeout_ns);
/* How BatchNorm sees the batches of other ranks. Tensors are in the device's memory; layer counts
 * the model's BatchNorms. A status other than OK stops the pass. */
struct ref_exchange {
    void *context;
    /* In: mean and variance of each column of this rank's rows; out: those of all ranks' rows, and
     * 1 / sqrt(variance + eps). *inout_rows likewise. */
    ddp_status (*moments)(void *context, uint32_t layer, const struct ddp_moments *moments,
                          size_t columns, float eps, float *inout_rows);
    /* In: sums over this rank's rows; out: over all ranks'. */
    ddp_status (*sums)(void *context, uint32_t layer, float *sums, size_t elem_count);
};
/* From the next forward pass on; NULL: each batch by itself. Parameters and buffers stay as they
 * are. Borrows it. */
void ref_model_set_exchange(struct ref_model *model, const struct ref_exchange *exchange);
/* All parameters in registration order; one data block, one gradient block. */
struct ddp_param *ref_model_params(struct ref_model *model, size_t *out_count);
/* With a precision of 16 bits: what passes compute with, and where they leave gradients, in the
 * order of ref_model_params. Whoever steps those rounds them into these. NULL: passes take those.
 */
struct ddp_param *ref_model_rounded(struct ref_model *model);
struct ddp_buffer *ref_model_buffers(struct ref_model *model, size_t *out_count);

/* Told as the passes go; any of them may be NULL. A status other than OK stops the pass. */
struct ref_model_observer {
    void *context;
    /* Before the forward computation of a layer. */
    ddp_status (*layer)(void *context, uint32_t layer);
    /* params[index].grad received its last contribution of this backward pass. */
    ddp_status (*grad_ready)(void *context, size_t param_index);
};
/* Forward on a batch. *out_loss = mean loss over its rows. Remembers the tape, unless it fails.
 * Errors: E_INVALID (no rows, more than batch_rows_max, or no labels/targets), the observer's. */
DDP_MUST_USE ddp_status ref_model_forward(struct ref_model *model, const struct ref_batch *batch,
                                          const struct ref_model_observer *observer,
                                          float *out_loss);
/* is_used: bool[param count], which parameters the present tape reaches (a walk over the tape). */
void ref_model_used(const struct ref_model *model, bool *is_used);
/* Backward of loss * loss_scale over the present tape. A gradient that is not yet defined is
 * overwritten, a defined one accumulated into. params[i].grad may have been pointed elsewhere.
 * Errors: E_STATE (no tape), the observer's. */
DDP_MUST_USE ddp_status ref_model_backward(struct ref_model *model, float loss_scale,
                                           const struct ref_model_observer *observer);
/* Set every gradient to undefined (set_to_none). */
void ref_model_zero_grad(struct ref_model *model);

#ifdef __cplusplus
}
#endif
#endif
