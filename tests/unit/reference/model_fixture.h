/* A model under test, and a batch for it. */
#ifndef TESTS_UNIT_REFERENCE_MODEL_FIXTURE_H
#define TESTS_UNIT_REFERENCE_MODEL_FIXTURE_H

#include "tests/ct.h"
#include "tests/unit/reference/reference_fp64.h"

enum { FIXTURE_ROWS = 6 };

/* A device on a pool of its own, one model, one batch of random rows. */
struct fixture {
    struct ddp_mem_pool *pool;
    struct ddp_device *device;
    struct ref_model *model;
    struct ddp_param *params;
    size_t param_count;
    struct ref_batch batch;
    float features[FP64_ROWS_MAX * FP64_WIDTH_MAX], targets[FP64_ROWS_MAX * FP64_WIDTH_MAX];
    int32_t labels[FP64_ROWS_MAX * FP64_WIDTH_MAX];
};

/* False after a noted failure. */
bool fixture_open(struct fixture *f, const struct ref_model_config *config);
void fixture_close(struct fixture *f);

#endif
