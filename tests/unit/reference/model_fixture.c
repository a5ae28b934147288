#include "tests/unit/reference/model_fixture.h"

#include <string.h>

#include "ddpcore/base/prng.h"

/* Features are tokens. Parameters are drawn anew: with initial values near 0 and 1, an operation
 * that is left out would change next to nothing. */
static void make_tokens(struct fixture *f, const struct ref_model_config *config,
                        struct ddp_prng *prng)
{
    const uint64_t vocabulary = config->width[config->width_count - 1];

    for (size_t i = 0; i < FP64_ROWS_MAX * FP64_WIDTH_MAX; i++) {
        f->features[i] = (float)ddp_prng_below(prng, vocabulary);
    }
    for (size_t p = 0; p < f->param_count; p++) {
        for (size_t i = 0; i < f->params[p].elem_count; i++) {
            data_of(&f->params[p])[i] = 1.2F * (ddp_prng_uniform(prng) - 0.5F);
        }
    }
}

bool fixture_open(struct fixture *f, const struct ref_model_config *config)
{
    struct ddp_prng prng = ddp_prng_make(11, "test/batch");
    struct ddp_err err = {""};

    memset(f, 0, sizeof(*f));
    if (ddp_blas_open(NULL, &err) != DDP_OK || ddp_mem_pool_create(&f->pool) != DDP_OK ||
        ddp_device_cpu_create(ddp_mem_pool_mem(f->pool), &f->device) != DDP_OK ||
        ref_model_create(f->device, config, FIXTURE_ROWS, &f->model, &err) != DDP_OK) {
        CT_FAIL("the fixture does not open: %s", err.text);
        return false;
    }
    f->params = ref_model_params(f->model, &f->param_count);
    for (size_t i = 0; i < FP64_ROWS_MAX * FP64_WIDTH_MAX; i++) {
        f->features[i] = 2.0F * ddp_prng_uniform(&prng) - 1.0F;
        f->targets[i] = 2.0F * ddp_prng_uniform(&prng) - 1.0F;
    }
    for (size_t b = 0; b < FP64_ROWS_MAX * FP64_WIDTH_MAX; b++) {
        f->labels[b] = (int32_t)ddp_prng_below(&prng, 3);
    }
    if (strcmp(config->name, "gpt") == 0) {
        make_tokens(f, config, &prng);
    }
    f->batch = (struct ref_batch){
        .rows = FIXTURE_ROWS, .features = f->features, .labels = f->labels, .targets = f->targets};
    return true;
}

void fixture_close(struct fixture *f)
{
    ref_model_destroy(f->model);
    f->device->ops->destroy(f->device);
    CT_CHECK_EQ_U64(ddp_mem_pool_block_count(f->pool), 0);
    ddp_mem_pool_destroy(f->pool);
}
