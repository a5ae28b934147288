/* Models: gradients against finite differences of fp64 forwards, used sets, ready gradients,
 * accumulation, repeatability, and no allocation in a step. */
#include <math.h>
#include <string.h>

#include "ddpcore/base/prng.h"
#include "tests/unit/reference/model_fixture.h"

enum { ROWS = FIXTURE_ROWS, PARAMS_MAX = FP64_PARAMS_MAX };

static const struct ref_model_config mlp = {
    .name = "mlp", .width = {5, 7, 6, 4}, .width_count = 4, .seed = 3};
static const struct ref_model_config branchy = {
    .name = "branchy", .width = {5, 6, 4}, .width_count = 3, .seed = 3};
static const struct ref_model_config module_child = {
    .name = "module_child", .width = {5, 7, 4}, .width_count = 3, .seed = 3};
static const struct ref_model_config module_twin = {
    .name = "module_twin", .width = {5, 7, 4}, .width_count = 3, .seed = 3};
static const struct ref_model_config exact_linear = {
    .name = "exact_linear", .width = {5, 3}, .width_count = 2, .seed = 3};
static const struct ref_model_config convnet = {
    .name = "convnet", .width = {16, 2, 3, 4}, .width_count = 4, .seed = 3};
static const struct ref_model_config gpt = {
    .name = "gpt", .width = {3, 4, 4, 5}, .width_count = 4, .heads = 2, .seed = 3};
static const struct ref_model_config moe = {
    .name = "moe", .width = {5, 6, 4}, .width_count = 3, .experts = 3, .seed = 3};
/* The models of REF_MODEL_TABLE, in its order, at sizes for which fp64 loops are quick. */
static const struct ref_model_config *const all[] = {
    &mlp, &branchy, &exact_linear, &module_child, &module_twin, &convnet, &gpt, &moe};

/* Each element of each used gradient against (L(p+h) - L(p-h)) / 2h in fp64, h = 1e-5: its own
 * error is about 1e-10. The fp32 gradient is a sum of at most 3 layers x 7 x 6 rows terms below 1:
 * 3e-5 bounds its rounding, a wrong term is worth 1e-2. The loss is checked the same way. */
static void check_gradients(const struct ref_model_config *config, bool has_a, bool has_b)
{
    static struct fixture f;
    static struct fp64_params params;
    const double h = 1e-5, bound = 3e-5;
    float loss;

    if (!fixture_open(&f, config)) {
        return;
    }
    CT_REQUIRE_OK(ref_model_forward(f.model, &f.batch, NULL, &loss));
    CT_REQUIRE_OK(ref_model_backward(f.model, 0.5F, NULL));
    fp64_load(&params, f.params, f.param_count);
    CT_CHECK(fabs(fp64_loss(config, &params, &f.batch, has_a, has_b) - (double)loss) < bound);
    for (size_t p = 0; p < f.param_count; p++) {
        for (size_t i = 0; i < f.params[p].elem_count && f.params[p].is_grad_defined; i++) {
            double kept = params.elem[p][i];
            double difference;

            params.elem[p][i] = kept + h;
            difference = fp64_loss(config, &params, &f.batch, has_a, has_b);
            params.elem[p][i] = kept - h;
            difference -= fp64_loss(config, &params, &f.batch, has_a, has_b);
            params.elem[p][i] = kept;
            if (fabs((double)grad_of(&f.params[p])[i] - 0.5 * difference / (2.0 * h)) > bound) {
                CT_FAIL("%s %s[%zu]: %g, not %g", config->name, f.params[p].name, i,
                        (double)grad_of(&f.params[p])[i], 0.5 * difference / (2.0 * h));
            }
        }
    }
    fixture_close(&f);
}

/* The gradient of loss * loss_scale is that of the formula, for every model. */
CT_TEST(model, gradients_match_finite_differences)
{
    for (size_t c = 0; ref_model_names()[c] != NULL; c++) {
        CT_REQUIRE(c < sizeof(all) / sizeof(all[0]));
        CT_CHECK_STR(ref_model_names()[c], all[c]->name);
        check_gradients(all[c], true, true);
    }
}

/* And without one of the branches, which the shared parameter shows. */
CT_TEST(model, gradients_of_one_branch_match_finite_differences)
{
    struct ref_model_config config = branchy;

    config.branch = REF_BRANCH_ONLY_A;
    check_gradients(&config, true, false);
}

/* Names and shapes are the documented ones; describe and create agree. */
CT_TEST(model, names_and_shapes)
{
    static const char *const branchy_names[] = {
        "trunk.weight",    "trunk.bias",    "trunk.scale", "branch_a.weight", "branch_a.bias",
        "branch_b.weight", "branch_b.bias", "head.weight", "head.bias"};
    static struct fixture f;
    struct ref_model_tables described;
    struct ddp_buffer *buffers;
    size_t buffer_count;
    struct ddp_err err;

    CT_REQUIRE_OK(ref_model_describe(ddp_mem_system(), &branchy, &described, &err));
    CT_REQUIRE(fixture_open(&f, &branchy));
    CT_REQUIRE(described.param_count == 9 && f.param_count == 9);
    for (size_t i = 0; i < 9; i++) {
        CT_CHECK_STR(described.params[i].name, branchy_names[i]);
        CT_CHECK_STR(f.params[i].name, branchy_names[i]);
        CT_CHECK_EQ_U64(described.params[i].elem_count, f.params[i].elem_count);
        CT_CHECK(described.params[i].data == NULL && f.params[i].data != NULL);
        CT_CHECK(!f.params[i].is_grad_defined);
    }
    buffers = ref_model_buffers(f.model, &buffer_count);
    CT_REQUIRE(described.buffer_count == 1 && buffer_count == 1);
    CT_CHECK_STR(described.buffers[0].name, "trunk.running_mean");
    CT_CHECK_STR(buffers[0].name, "trunk.running_mean");
    CT_CHECK_EQ_U64(described.buffers[0].elem_count, buffers[0].elem_count);
    CT_CHECK(described.buffers[0].data == NULL && buffers[0].data != NULL);
    CT_CHECK(f.params[7].ndim == 2 && f.params[7].shape[0] == 4 && f.params[7].shape[1] == 6);
    CT_CHECK(f.params[8].ndim == 1 && f.params[8].shape[0] == 4);
    fixture_close(&f);
    ddp_mem_free(ddp_mem_system(), described.params);
    CT_REQUIRE_OK(ref_model_describe(ddp_mem_system(), &module_child, &described, &err));
    CT_CHECK_STR(described.params[0].name, "module.fc0.weight");
    ddp_mem_free(ddp_mem_system(), described.params);
}

static void check_used(enum ref_branch_rule rule, uint32_t rank, uint32_t step, bool has_a,
                       bool has_b)
{
    static struct fixture f;
    struct ref_model_config config = branchy;
    bool is_used[PARAMS_MAX];
    float loss;

    config.branch = rule;
    config.skip_rank = 1;
    if (!fixture_open(&f, &config)) {
        return;
    }
    f.batch.rank = rank;
    f.batch.step = step;
    CT_CHECK_OK(ref_model_forward(f.model, &f.batch, NULL, &loss));
    ref_model_used(f.model, is_used);
    CT_CHECK_OK(ref_model_backward(f.model, 1.0F, NULL));
    for (size_t p = 0; p < f.param_count; p++) {
        bool is_a = p == 3 || p == 4, is_b = p == 5 || p == 6;
        CT_CHECK(is_used[p] == (is_a ? has_a : is_b ? has_b : has_a || has_b));
        CT_CHECK(is_used[p] == f.params[p].is_grad_defined);
    }
    fixture_close(&f);
}

/* Each rule picks its branches, and exactly the parameters on the tape are used and get gradients.
 */
CT_TEST(model, used_sets_follow_the_branch_rule)
{
    check_used(REF_BRANCH_BOTH, 0, 0, true, true);
    check_used(REF_BRANCH_ONLY_A, 1, 1, true, false);
    check_used(REF_BRANCH_RANK_SKIPS, 0, 0, true, true);
    check_used(REF_BRANCH_RANK_SKIPS, 1, 0, true, false);
    check_used(REF_BRANCH_RANK_USES_NONE, 0, 0, true, true);
    check_used(REF_BRANCH_RANK_USES_NONE, 1, 0, false, false);
    check_used(REF_BRANCH_BY_RANK, 2, 1, true, false);
    check_used(REF_BRANCH_BY_RANK, 3, 0, false, true);
    check_used(REF_BRANCH_BY_STEP, 1, 4, true, false);
    check_used(REF_BRANCH_BY_STEP, 0, 5, false, true);
}

/* by_data looks at the batch's first label. */
CT_TEST(model, branch_by_data)
{
    static struct fixture f;
    struct ref_model_config config = branchy;
    bool is_used[PARAMS_MAX];
    float loss;

    config.branch = REF_BRANCH_BY_DATA;
    CT_REQUIRE(fixture_open(&f, &config));
    for (int32_t label = 0; label < 4; label++) {
        f.labels[0] = label;
        CT_CHECK_OK(ref_model_forward(f.model, &f.batch, NULL, &loss));
        ref_model_used(f.model, is_used);
        CT_CHECK(is_used[3] == (label % 2 == 0) && is_used[5] == (label % 2 == 1));
    }
    fixture_close(&f);
}

/* What the observer saw: layers, ready parameters in order, their gradients at that moment. */
struct seen {
    const struct ddp_param *params;
    uint32_t layers[PARAMS_MAX];
    size_t layer_count;
    size_t ready[2 * PARAMS_MAX];
    size_t ready_count;
    float grad[PARAMS_MAX][FP64_ELEMS_MAX];
    size_t fail_at; /* stop when that many parameters are ready */
};

static ddp_status see_layer(void *context, uint32_t layer)
{
    struct seen *seen = (struct seen *)context;

    seen->layers[seen->layer_count++] = layer;
    return DDP_OK;
}

static ddp_status see_ready(void *context, size_t param_index)
{
    struct seen *seen = (struct seen *)context;

    memcpy(seen->grad[param_index], seen->params[param_index].grad,
           seen->params[param_index].elem_count * sizeof(float));
    seen->ready[seen->ready_count++] = param_index;
    return seen->ready_count == seen->fail_at ? DDP_E_INJECTED : DDP_OK;
}

static void check_ready(const struct ref_model_config *config, const size_t *expected,
                        size_t expected_count, size_t layer_count)
{
    static struct fixture f;
    static struct seen seen;
    struct ref_model_observer observer = {&seen, see_layer, see_ready};
    float loss;

    memset(&seen, 0, sizeof(seen));
    if (!fixture_open(&f, config)) {
        return;
    }
    seen.params = f.params;
    CT_CHECK_OK(ref_model_forward(f.model, &f.batch, &observer, &loss));
    CT_CHECK_EQ_U64(seen.layer_count, layer_count);
    for (size_t layer = 0; layer < seen.layer_count; layer++) {
        CT_CHECK_EQ_U64(seen.layers[layer], layer);
    }
    CT_CHECK_OK(ref_model_backward(f.model, 1.0F, &observer));
    CT_REQUIRE(seen.ready_count == expected_count);
    for (size_t i = 0; i < expected_count; i++) {
        size_t p = seen.ready[i];
        CT_CHECK_EQ_U64(p, expected[i]);
        CT_CHECK_BYTES(seen.grad[p], f.params[p].grad, f.params[p].elem_count * sizeof(float));
    }
    fixture_close(&f);
}

/* Every used gradient is announced once, when it is final: the shared one after both branches. */
CT_TEST(model, ready_once_and_final)
{
    const size_t mlp_order[] = {5, 4, 3, 2, 1, 0};
    const size_t branchy_order[] = {8, 7, 6, 5, 2, 4, 3, 1, 0};

    check_ready(&mlp, mlp_order, 6, 3);
    check_ready(&branchy, branchy_order, 9, 4);
}

/* An observer's error stops the pass; a batch that doesn't fit is refused; without a tape there is
 * no backward. */
CT_TEST(model, errors_stop_the_passes)
{
    static struct fixture f;
    static struct seen seen;
    struct ref_model_observer observer = {&seen, NULL, see_ready};
    float loss;

    memset(&seen, 0, sizeof(seen));
    seen.fail_at = 2;
    CT_REQUIRE(fixture_open(&f, &mlp));
    seen.params = f.params;
    CT_CHECK_STATUS(ref_model_backward(f.model, 1.0F, NULL), DDP_E_STATE);
    CT_CHECK_OK(ref_model_forward(f.model, &f.batch, NULL, &loss));
    CT_CHECK_STATUS(ref_model_backward(f.model, 1.0F, &observer), DDP_E_INJECTED);
    CT_CHECK_EQ_U64(seen.ready_count, 2);
    f.batch.rows = ROWS + 1;
    CT_CHECK_STATUS(ref_model_forward(f.model, &f.batch, NULL, &loss), DDP_E_INVALID);
    f.batch.rows = 0;
    CT_CHECK_STATUS(ref_model_forward(f.model, &f.batch, NULL, &loss), DDP_E_INVALID);
    f.batch.rows = ROWS;
    f.labels[0] = 4;
    CT_CHECK_STATUS(ref_model_forward(f.model, &f.batch, NULL, &loss), DDP_E_INVALID);
    CT_CHECK_STATUS(ref_model_backward(f.model, 1.0F, NULL), DDP_E_STATE);
    fixture_close(&f);
}

/* A second backward adds to defined gradients, exactly doubling an mlp's; zero_grad makes the next
 * one overwrite, even a NaN. */
CT_TEST(model, accumulates_and_overwrites)
{
    static struct fixture f;
    static float first[PARAMS_MAX][FP64_ELEMS_MAX];
    float loss;

    CT_REQUIRE(fixture_open(&f, &mlp));
    CT_CHECK_OK(ref_model_forward(f.model, &f.batch, NULL, &loss));
    CT_CHECK_OK(ref_model_backward(f.model, 1.0F, NULL));
    for (size_t p = 0; p < f.param_count; p++) {
        memcpy(first[p], f.params[p].grad, f.params[p].elem_count * sizeof(float));
    }
    CT_CHECK_OK(ref_model_backward(f.model, 1.0F, NULL));
    for (size_t p = 0; p < f.param_count; p++) {
        for (size_t i = 0; i < f.params[p].elem_count; i++) {
            CT_CHECK(grad_of(&f.params[p])[i] == 2.0F * first[p][i]);
            grad_of(&f.params[p])[i] = NAN;
        }
    }
    ref_model_zero_grad(f.model);
    CT_CHECK_OK(ref_model_backward(f.model, 1.0F, NULL));
    for (size_t p = 0; p < f.param_count; p++) {
        CT_CHECK_BYTES(f.params[p].grad, first[p], f.params[p].elem_count * sizeof(float));
    }
    fixture_close(&f);
}

/* The same seed and batch give the same bits, also from a smaller batch's leftovers and with the
 * gradients pointed elsewhere. */
CT_TEST(model, repeats_its_bits)
{
    static struct fixture a;
    static struct fixture b;
    static float elsewhere[PARAMS_MAX][FP64_ELEMS_MAX];
    float loss_a;
    float loss_b;

    CT_REQUIRE(fixture_open(&a, &branchy));
    CT_REQUIRE(fixture_open(&b, &branchy));
    b.batch.rows = 2;
    CT_CHECK_OK(ref_model_forward(b.model, &b.batch, NULL, &loss_b));
    b.batch.rows = ROWS;
    for (size_t p = 0; p < b.param_count; p++) {
        b.params[p].grad = elsewhere[p];
    }
    CT_CHECK_OK(ref_model_forward(a.model, &a.batch, NULL, &loss_a));
    CT_CHECK_OK(ref_model_backward(a.model, 1.0F, NULL));
    CT_CHECK_OK(ref_model_forward(b.model, &b.batch, NULL, &loss_b));
    CT_CHECK_OK(ref_model_backward(b.model, 1.0F, NULL));
    CT_CHECK_BYTES(&loss_a, &loss_b, sizeof(float));
    for (size_t p = 0; p < a.param_count; p++) {
        size_t size_bytes = a.params[p].elem_count * sizeof(float);
        CT_CHECK_BYTES(a.params[p].data, b.params[p].data, size_bytes);
        CT_CHECK_BYTES(a.params[p].grad, elsewhere[p], size_bytes);
    }
    fixture_close(&a);
    fixture_close(&b);
}

/* Initial parameters lie in torch.nn.Linear's range, fill it, and depend on seed and name. */
CT_TEST(model, initial_parameters)
{
    static struct fixture f;
    static struct fixture g;
    struct ref_model_config other = mlp;

    other.seed = 4;
    CT_REQUIRE(fixture_open(&f, &mlp));
    CT_REQUIRE(fixture_open(&g, &other));
    for (size_t p = 0; p < f.param_count; p++) {
        float bound = 1.0F / sqrtf((float)mlp.width[p / 2]);
        float largest = 0.0F;
        size_t equal = 0;

        for (size_t i = 0; i < f.params[p].elem_count; i++) {
            largest = fmaxf(largest, fabsf(data_of(&f.params[p])[i]));
            equal += data_of(&f.params[p])[i] == data_of(&g.params[p])[i] ? 1 : 0;
        }
        CT_CHECK(largest <= bound && largest > 0.4F * bound);
        CT_CHECK(equal == 0);
    }
    fixture_close(&f);
    fixture_close(&g);
}

/* branchy's buffer follows 0.9 * mean + 0.1 * batch mean of the trunk's activations. */
CT_TEST(model, branchy_running_mean)
{
    static struct fixture f;
    static struct fp64_params params;
    struct ddp_buffer *buffer;
    size_t count;
    float loss;

    CT_REQUIRE(fixture_open(&f, &branchy));
    buffer = ref_model_buffers(f.model, &count);
    CT_REQUIRE(count == 1 && buffer->elem_count == 6);
    CT_CHECK_STR(buffer->name, "trunk.running_mean");
    CT_CHECK_OK(ref_model_forward(f.model, &f.batch, NULL, &loss));
    CT_CHECK_OK(ref_model_forward(f.model, &f.batch, NULL, &loss));
    fp64_load(&params, f.params, f.param_count);
    for (size_t o = 0; o < 6; o++) {
        double mean = 0.0;
        for (size_t b = 0; b < ROWS; b++) {
            double y = params.elem[1][o];
            for (size_t i = 0; i < 5; i++) {
                y += params.elem[0][o * 5 + i] * (double)f.features[b * 5 + i];
            }
            mean += fmax(y, 0.0) / ROWS;
        }
        /* two steps from 0: (0.9 * 0.1 + 0.1) * mean; 20 roundings of values below 2 */
        CT_CHECK(fabs((double)((const float *)buffer->data)[o] - 0.19 * mean) <= 20.0 * 0x1p-23);
    }
    fixture_close(&f);
}

/* A step allocates nothing, for any model. */
CT_TEST(model, steps_do_not_allocate)
{
    static struct fixture f;
    float loss;

    for (size_t c = 0; c < sizeof(all) / sizeof(all[0]); c++) {
        CT_REQUIRE(fixture_open(&f, all[c]));
        uint64_t before = ddp_mem_pool_alloc_count(f.pool);
        for (int step = 0; step < 3; step++) {
            ref_model_zero_grad(f.model);
            CT_CHECK_OK(ref_model_forward(f.model, &f.batch, NULL, &loss));
            CT_CHECK_OK(ref_model_backward(f.model, 1.0F, NULL));
        }
        CT_CHECK_EQ_U64(ddp_mem_pool_alloc_count(f.pool), before);
        fixture_close(&f);
    }
}

/* A failed allocation anywhere in creation is E_NOMEM and leaks nothing. */
CT_TEST(model, creation_survives_exhaustion)
{
    struct ddp_mem_pool *pool;
    struct ddp_device *device;
    struct ref_model *model;
    struct ddp_err err;
    ddp_status status = DDP_E_NOMEM;
    uint64_t nth = 0;

    CT_REQUIRE_OK(ddp_mem_pool_create(&pool));
    CT_REQUIRE_OK(ddp_device_cpu_create(ddp_mem_pool_mem(pool), &device));
    while (status != DDP_OK && nth < 50) {
        ddp_mem_pool_fail_after(pool, nth, 1);
        status = ref_model_create(device, &branchy, ROWS, &model, &err);
        CT_CHECK(status == DDP_OK || status == DDP_E_NOMEM);
        CT_CHECK(status == DDP_OK || ddp_mem_pool_block_count(pool) == 1);
        nth++;
    }
    CT_REQUIRE(nth > 5 && status == DDP_OK);
    ref_model_destroy(model);
    device->ops->destroy(device);
    ddp_mem_pool_destroy(pool);
}

/* Unknown models get a suggestion, bad widths a reason; rule names go both ways; defaults fill what
 * is missing and nothing else. */
CT_TEST(model, names_and_errors)
{
    struct ref_model_config config = {.name = "branch"};
    struct ref_model_tables tables;
    struct ddp_err err;

    CT_CHECK_STATUS(ref_model_describe(ddp_mem_system(), &config, &tables, &err), DDP_E_NOT_FOUND);
    CT_CHECK(strstr(err.text, "branchy") != NULL);
    config.name = "mlp";
    CT_CHECK_STATUS(ref_model_describe(ddp_mem_system(), &config, &tables, &err), DDP_E_INVALID);
    ref_model_defaults(&config, 64, 10);
    CT_CHECK(config.width_count == 4 && config.width[1] == 256 && config.width[2] == 256);
    ref_model_defaults(&config, 5, 5); /* leaves given widths alone */
    CT_CHECK(config.width[0] == 64 && config.width[3] == 10);
    for (const char *const *name = ref_model_names(); *name != NULL; name++) {
        struct ref_model_config each = {.name = *name};
        ref_model_defaults(&each, 16, 2);
        CT_CHECK_OK(ref_model_describe(ddp_mem_system(), &each, &tables, &err));
        ddp_mem_free(ddp_mem_system(), tables.params);
    }
}
