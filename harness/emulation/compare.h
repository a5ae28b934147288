/* Where ranks differ from the emulation, stage by stage of each step. Within a step, stages follow
 * from each other; since the emulation goes on from what was recorded, each difference is an error
 * of its own stage. */
#ifndef HARNESS_EMULATION_COMPARE_H
#define HARNESS_EMULATION_COMPARE_H

#include "harness/sums/residual.h"
#include "harness/tensor/layout.h"
#include "harness/verdict/verdict.h"

#ifdef __cplusplus
extern "C" {
#endif

struct harness_camp;
struct harness_emulation;

/* What a sum holds of one rank's contribution. */
enum harness_share {
    HARNESS_SHARE_DUE,
    HARNESS_SHARE_NOTHING,
    HARNESS_SHARE_ALL,
    HARNESS_SHARE_TWICE
};

/* What a tensor is instead of the expected one. */
struct harness_description {
    enum harness_verdict verdict; /* NONE: the tensor is not at hand */
    struct harness_residual residual;
    enum harness_share share; /* of share_rank, in a sum */
    uint32_t share_rank;
    struct harness_list params; /* of a bucket: whose slices differ */
    const char *text; /* char[320], with the parameter's name: "fc1.bias is zero (...)"; NULL
                         without verdict */
    bool is_same;     /* the values are the expected ones but for the bits of NaNs */
};

/* One tensor of one rank that is not the expected one. */
struct harness_deviation {
    uint32_t rank;
    int32_t bucket, param, slot; /* -1 = none */
    uint64_t seq;
    uint64_t expected, got; /* hashes, or bits of the loss */
    bool is_loss;
    bool is_missing; /* nothing was recorded where something should be */
    bool is_result;  /* it came out of a collective; of a stage that has both */
    struct harness_description what;
};

/* The deviations of a stage that are one error: of one operation, or of one rank's parameters; and
 * of all ranks that deviate alike. */
struct harness_difference {
    enum harness_stage stage;
    uint32_t step;
    struct harness_list params;    /* that differ; none for a loss alone */
    struct harness_rank_set ranks; /* they live with the emulation, as all here */
    struct harness_deviation first;
    bool is_alike; /* all parameters differ in the same way: `first` describes them all */
};

struct harness_compare {
    struct harness_deviation *noted; /* of the present stage */
    size_t noted_count, noted_capacity;
    struct harness_difference *items; /* by step, then stage */
    size_t count, capacity;
    bool is_cut_off; /* there are more than are kept */
};

/* A deviation in the present stage. */
void harness_compare_note(struct harness_emulation *emulation,
                          const struct harness_deviation *deviation);
/* The stage has ended: make differences of its deviations. */
void harness_compare_close(struct harness_emulation *emulation, enum harness_stage stage,
                           uint32_t step);
/* Whether the present step has a difference in this stage. */
bool harness_compare_has(const struct harness_emulation *emulation, enum harness_stage stage,
                         uint32_t step);
/* Whether everything up to the end of a step was judged. */
bool harness_compare_is_known_until(const struct harness_emulation *emulation, uint32_t step);

/* --- describe_stage.c: what a tensor is that is not the expected one
 * ------------------------------- */

/* A parameter's tensor. */
DDP_MUST_USE ddp_status harness_describe_param(struct harness_emulation *emulation, size_t param,
                                               const struct harness_tensor *expected,
                                               const void *got, struct harness_description *out);
/* The average that a rank copied back, against that of its camp. */
DDP_MUST_USE ddp_status harness_describe_average(struct harness_emulation *emulation,
                                                 const struct harness_camp *camp, uint32_t rank,
                                                 size_t param, const void *got,
                                                 struct harness_description *out);
/* What a rank put into a bucket's sum, and what it got out of it; against the present step's
 * values. */
DDP_MUST_USE ddp_status harness_describe_input(struct harness_emulation *emulation, uint32_t rank,
                                               size_t bucket, const void *got,
                                               struct harness_description *out);
DDP_MUST_USE ddp_status harness_describe_output(struct harness_emulation *emulation, uint32_t rank,
                                                size_t bucket, const void *got,
                                                struct harness_description *out);

#ifdef __cplusplus
}
#endif
#endif
