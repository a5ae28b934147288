/* Purpose: say what a difference is, from the payloads of a replayed step.
 * Idea: inputs come first, because a wrong input explains a wrong output; if all inputs are right,
 * the schedule is run again with one rank left out, or counted twice, and must give the very bits
 * seen.
 */
#include <stdio.h>
#include <string.h>

#include "ddpcore/base/file.h"
#include "harness/emulation/checkpoint_file.h"
#include "harness/oracle/oracle.h"
#include "harness/oracle/subject.h"
#include "harness/sums/arith.h"
#include "harness/sums/residual.h"

/* Values are held as fp32, which holds those of the 16-bit types exactly. */
struct description {
    struct harness_emulation *e;
    const struct harness_bucket *bucket;
    uint32_t step, bucket_index;
    float *in, *out; /* [world][elem_count] expected inputs and outputs */
    float *before;   /* [world][elem_count] inputs of the step before */
    bool is_before_set;
    float *raw;     /* [elem_count] unscaled expected input of the rank under examination */
    float *read;    /* [elem_count] its payload */
    float *sum;     /* [elem_count] a sum that was run again */
    char *elements; /* [2 * world] buckets of the run's type: inputs and outputs of such a sum */
};

static const struct harness_layout_item *item_of(const struct description *d)
{
    return &d->e->buckets.items[d->bucket_index];
}

static ddp_status decode(const struct harness_tensor *tensor, float *out)
{
    if (tensor->dtype == DDP_DTYPE_F32) {
        memcpy(out, tensor->data, tensor->size_bytes);
        return DDP_OK;
    }
    return harness_arith_scale(out, DDP_DTYPE_F32, tensor->data, tensor->dtype, tensor->elem_count,
                               1.0f);
}

/* The bucket of every rank. */
static ddp_status decode_all(const struct description *d, void *blocks, float *out)
{
    for (uint32_t r = 0; r < d->e->world; r++) {
        struct harness_tensor tensor =
            harness_layout_at(&d->e->buckets, blocks, r, d->bucket_index);

        DDP_TRY(decode(&tensor, out + r * tensor.elem_count));
    }
    return DDP_OK;
}

static const float *expected_in(const struct description *d, uint32_t rank)
{
    return d->in + rank * d->bucket->elem_count;
}

static const float *expected_out(const struct description *d, uint32_t rank)
{
    return d->out + rank * d->bucket->elem_count;
}

/* Little-endian, exactly the bucket's size. *out_is_read false: no such file. */
static ddp_status read_payload(const struct description *d, uint32_t rank, const char *suffix,
                               bool *out_is_read, struct ddp_err *err)
{
    struct ddp_files *files = harness_emulation_files(d->e->input);
    struct harness_checkpoint_tensor file = {.dtype = item_of(d)->dtype};
    struct harness_tensor tensor = {file.dtype, d->bucket->elem_count, item_of(d)->size_bytes,
                                    d->elements};
    size_t elem_bytes = ddp_dtype_size_bytes(file.dtype);
    char path[4096];
    void *data = NULL;
    size_t size_bytes = 0;
    ddp_status status;

    *out_is_read = false;
    if (d->e->input->run_dir == NULL ||
        (size_t)snprintf(path, sizeof(path), "%s/payload/r%u.step%u.bucket%u.%s.%s",
                         d->e->input->run_dir, rank, d->step, d->bucket_index, suffix,
                         ddp_dtype_name(file.dtype)) >= sizeof(path)) {
        return DDP_OK;
    }
    status = files->ops->read_all(files, path, d->e->mem, &data, &size_bytes, err);
    if (status == DDP_E_NOT_FOUND) {
        return DDP_OK; /* the rank never came that far */
    }
    DDP_TRY(status);
    file.data = data;
    *out_is_read = size_bytes == tensor.size_bytes;
    for (size_t i = 0; *out_is_read && i < tensor.elem_count; i++) {
        harness_checkpoint_read(&file, i, d->elements + i * elem_bytes);
    }
    ddp_mem_free(d->e->mem, data);
    return *out_is_read ? decode(&tensor, d->read) : DDP_OK;
}

/* Number in the bucket of the parameter that holds an element. */
static uint32_t place_of(const struct description *d, size_t elem)
{
    uint32_t at = 0;

    for (uint32_t i = 0; i < d->bucket->param_count; i++) {
        if (d->bucket->offsets[i] <= elem && d->bucket->offsets[i] >= d->bucket->offsets[at]) {
            at = i;
        }
    }
    return at;
}

static size_t slice_count(const struct description *d, uint32_t place)
{
    return d->e->input->params[d->bucket->params[place]].elem_count;
}

static bool is_slice_different(const struct description *d, const float *expected, uint32_t place)
{
    size_t first = d->bucket->offsets[place];

    return memcmp(expected + first, d->read + first, slice_count(d, place) * sizeof(float)) != 0;
}

static ddp_status fill_raw(const struct description *d, uint32_t rank)
{
    for (uint32_t i = 0; i < d->bucket->param_count; i++) {
        struct harness_tensor grad =
            harness_layout_at(&d->e->params, d->e->now.grad, rank, d->bucket->params[i]);

        DDP_TRY(decode(&grad, d->raw + d->bucket->offsets[i]));
    }
    return DDP_OK;
}

static float input_scale(const struct description *d)
{
    return harness_emulation_is_scaled_before(d->e) ? 1.0f / (float)d->e->now.divisor : 1.0f;
}

/* Two parameters of equal size that changed places. */
static bool find_swap(const struct description *d, const float *expected, uint32_t *out_a,
                      uint32_t *out_b)
{
    for (uint32_t a = 0; a < d->bucket->param_count; a++) {
        for (uint32_t b = a + 1; b < d->bucket->param_count; b++) {
            size_t at_a = d->bucket->offsets[a];
            size_t at_b = d->bucket->offsets[b];
            size_t size_bytes = slice_count(d, a) * sizeof(float);

            if (slice_count(d, a) == slice_count(d, b) && is_slice_different(d, expected, a) &&
                memcmp(d->read + at_a, expected + at_b, size_bytes) == 0 &&
                memcmp(d->read + at_b, expected + at_a, size_bytes) == 0) {
                *out_a = a;
                *out_b = b;
                return true;
            }
        }
    }
    return false;
}

/* The one parameter whose slice differs, or the whole bucket. */
static void choose_range(const struct description *d, const float *expected, size_t *out_first,
                         size_t *out_count)
{
    uint32_t different = 0;

    *out_first = 0;
    *out_count = d->bucket->elem_count;
    for (uint32_t i = 0; i < d->bucket->param_count; i++) {
        if (is_slice_different(d, expected, i)) {
            different++;
            *out_first = d->bucket->offsets[i];
            *out_count = slice_count(d, i);
        }
    }
    if (different != 1) {
        *out_first = 0;
        *out_count = d->bucket->elem_count;
    }
}

static void name_params(const struct description *d, const float *expected,
                        struct harness_finding *finding)
{
    harness_list_clear(&finding->params);
    for (uint32_t i = 0; i < d->bucket->param_count; i++) {
        if (is_slice_different(d, expected, i)) {
            harness_finding_add_param(finding, d->bucket->params[i]);
        }
    }
}

static void write_text(const struct description *d, const float *expected, size_t range_first,
                       const struct harness_residual *residual, struct harness_finding *finding,
                       const char *whose)
{
    size_t at = range_first + residual->first;
    uint32_t place = place_of(d, at);
    const char *name = d->e->input->params[d->bucket->params[place]].name;
    size_t elem = at - d->bucket->offsets[place];
    char what[160] = "";

    switch (residual->verdict) {
    case HARNESS_VERDICT_VALUE_LOST:
        (void)snprintf(what, sizeof(what), "is zero");
        break;
    case HARNESS_VERDICT_VALUE_DUPLICATED:
        (void)snprintf(what, sizeof(what), "is doubled");
        break;
    case HARNESS_VERDICT_VALUE_SCALED:
        (void)snprintf(what, sizeof(what), "is scaled by %.9g", residual->factor);
        break;
    case HARNESS_VERDICT_VALUE_SHIFTED:
        (void)snprintf(what, sizeof(what), "is shifted by %lld places", (long long)residual->shift);
        break;
    case HARNESS_VERDICT_VALUE_STALE:
        (void)snprintf(what, sizeof(what), "is that of the step before");
        break;
    case HARNESS_VERDICT_VALUE_NONFINITE:
        (void)snprintf(what, sizeof(what), "is not finite, first at element %zu", elem);
        break;
    default:
        if (residual->bit >= 0) {
            (void)snprintf(what, sizeof(what), "has bit %d of element %zu flipped", residual->bit,
                           elem);
        } else {
            (void)snprintf(what, sizeof(what), "differs in %zu elements, first %zu",
                           residual->differ_count, elem);
        }
        break;
    }
    (void)snprintf(finding->text, sizeof(finding->text),
                   "step %u, bucket %u, %s: %.200s %s (%08x, expected %08x)", d->step,
                   d->bucket_index, whose, name, what, harness_residual_bits(d->read[at]),
                   harness_residual_bits(expected[at]));
}

/* Describe d->read against `expected`. */
static void describe_tensor(const struct description *d, const float *expected, const float *before,
                            const float *raw, const char *whose, struct harness_finding *finding)
{
    struct harness_residual_input input = {.expected = expected, .got = d->read};
    struct harness_residual residual;
    size_t first = 0;
    uint32_t a = 0;
    uint32_t b = 0;

    choose_range(d, expected, &first, &input.count);
    input.expected = expected + first;
    input.got = d->read + first;
    input.before = before == NULL ? NULL : before + first;
    input.raw = raw == NULL ? NULL : raw + first;
    input.scale = input_scale(d);
    harness_residual_classify(&input, &residual);
    finding->verdict = residual.verdict;
    name_params(d, expected, finding);
    write_text(d, expected, first, &residual, finding, whose);
    if (residual.verdict == HARNESS_VERDICT_VALUE_CORRUPTED && find_swap(d, expected, &a, &b)) {
        finding->verdict = HARNESS_VERDICT_VALUE_SWAPPED;
        (void)snprintf(finding->text, sizeof(finding->text),
                       "step %u, bucket %u, %s: %.150s and %.150s changed places", d->step,
                       d->bucket_index, whose, d->e->input->params[d->bucket->params[a]].name,
                       d->e->input->params[d->bucket->params[b]].name);
    }
}

/* *out_is_described: some rank's input differs; all that do are named. */
static ddp_status describe_inputs(const struct description *d, struct harness_finding *finding,
                                  bool *out_is_described, struct ddp_err *err)
{
    size_t size_bytes = d->bucket->elem_count * sizeof(float);
    char whose[48];

    *out_is_described = false;
    for (uint32_t r = 0; r < d->e->world; r++) {
        bool is_read = false;

        DDP_TRY(read_payload(d, r, "in", &is_read, err));
        if (!is_read || memcmp(d->read, expected_in(d, r), size_bytes) == 0) {
            continue;
        }
        if (!*out_is_described) {
            const float *before = d->before + r * d->bucket->elem_count;

            (void)snprintf(whose, sizeof(whose), "input of rank %u", r);
            DDP_TRY(fill_raw(d, r));
            describe_tensor(d, expected_in(d, r), d->is_before_set ? before : NULL, d->raw, whose,
                            finding);
            harness_rank_set_clear(&finding->culprits);
        }
        *out_is_described = true;
        harness_rank_set_add(&finding->culprits, r);
    }
    return DDP_OK;
}

/* Run the sum with one rank's input times factor; true if `seen_by` then holds what was read. */
static bool is_explained_by(const struct description *d, uint32_t rank, float factor,
                            uint32_t seen_by, void **pointers)
{
    const struct harness_layout_item *item = item_of(d);
    uint32_t world = d->e->world;
    struct harness_tensor seen = {item->dtype, item->elem_count, item->size_bytes, NULL};

    for (uint32_t r = 0; r < 2 * world; r++) {
        pointers[r] = d->elements + r * item->size_bytes;
        if (r < world &&
            harness_arith_scale(pointers[r], item->dtype, expected_in(d, r), DDP_DTYPE_F32,
                                item->elem_count, r == rank ? factor : 1.0f) != DDP_OK) {
            return false;
        }
    }
    seen.data = pointers[world + seen_by];
    return harness_emulation_sum(d->e, item->dtype, item->elem_count, pointers, pointers + world,
                                 NULL, 0) == DDP_OK &&
           decode(&seen, d->sum) == DDP_OK &&
           memcmp(d->sum, d->read, item->elem_count * sizeof(float)) == 0;
}

/* A rank that was left out of, or counted twice in, the sum that was seen; or another order. */
static ddp_status explain_sum(const struct description *d, uint32_t seen_by,
                              struct harness_finding *finding)
{
    void **pointers = ddp_mem_array(d->e->mem, 2 * (size_t)d->e->world, sizeof(*pointers));
    const float **inputs = ddp_mem_array(d->e->mem, d->e->world, sizeof(*inputs));

    if (pointers == NULL || inputs == NULL) {
        ddp_mem_free(d->e->mem, pointers);
        ddp_mem_free(d->e->mem, inputs);
        return DDP_E_NOMEM;
    }
    for (uint32_t r = 0; r < d->e->world; r++) {
        bool is_lost = is_explained_by(d, r, 0.0f, seen_by, pointers);

        if (is_lost || is_explained_by(d, r, 2.0f, seen_by, pointers)) {
            finding->verdict =
                is_lost ? HARNESS_VERDICT_VALUE_LOST : HARNESS_VERDICT_VALUE_DUPLICATED;
            (void)snprintf(finding->text, sizeof(finding->text),
                           "step %u, bucket %u: the sum on rank %u holds the contribution of rank "
                           "%u %s",
                           d->step, d->bucket_index, seen_by, r, is_lost ? "not at all" : "twice");
            break;
        }
    }
    for (uint32_t r = 0; r < d->e->world; r++) {
        inputs[r] = expected_in(d, r);
    }
    if (finding->verdict == HARNESS_VERDICT_VALUE_CORRUPTED &&
        harness_residual_is_reordered(inputs, d->e->world, expected_out(d, seen_by), d->read,
                                      d->bucket->elem_count)) {
        finding->verdict = HARNESS_VERDICT_VALUE_REORDERED;
        (void)snprintf(finding->text, sizeof(finding->text),
                       "step %u, bucket %u: the sum on rank %u holds every contribution, added in "
                       "another order than was declared or measured",
                       d->step, d->bucket_index, seen_by);
    }
    ddp_mem_free(d->e->mem, inputs);
    ddp_mem_free(d->e->mem, pointers);
    return DDP_OK;
}

static ddp_status describe_outputs(const struct description *d, struct harness_finding *finding,
                                   struct ddp_err *err)
{
    size_t size_bytes = d->bucket->elem_count * sizeof(float);
    bool is_described = false;
    char whose[48];

    for (uint32_t r = 0; r < d->e->world; r++) {
        bool is_read = false;

        DDP_TRY(read_payload(d, r, "out", &is_read, err));
        if (!is_read || memcmp(d->read, expected_out(d, r), size_bytes) == 0) {
            continue;
        }
        if (!is_described) {
            (void)snprintf(whose, sizeof(whose), "output of rank %u", r);
            describe_tensor(d, expected_out(d, r), NULL, NULL, whose, finding);
            harness_rank_set_clear(&finding->culprits);
            if (finding->verdict == HARNESS_VERDICT_VALUE_CORRUPTED) {
                DDP_TRY(explain_sum(d, r, finding));
            }
        }
        is_described = true;
        harness_rank_set_add(&finding->culprits, r);
    }
    return DDP_OK;
}

/* *out_predicted: of the step in question; NOTHING if the emulation does not get there. */
static ddp_status emulate_until_step(struct description *d, enum harness_predicted *out_predicted,
                                     struct ddp_err *err)
{
    *out_predicted = HARNESS_PREDICTED_NOTHING;
    for (uint32_t s = d->e->state.steps_done; s <= d->step; s++) {
        DDP_TRY(harness_emulation_step(d->e, s, out_predicted, err));
        if (s < d->step && *out_predicted != HARNESS_PREDICTED_UPDATE) {
            *out_predicted = HARNESS_PREDICTED_NOTHING;
            return DDP_OK;
        }
        if (s + 1 == d->step) {
            DDP_TRY(decode_all(d, d->e->now.bucket_in, d->before));
            d->is_before_set = true;
        }
    }
    return DDP_OK;
}

static ddp_status allocate(struct description *d)
{
    size_t count = d->bucket->elem_count;
    size_t all = d->e->world * count;

    d->in = harness_emulation_alloc(d->e, all, sizeof(float));
    d->out = harness_emulation_alloc(d->e, all, sizeof(float));
    d->before = harness_emulation_alloc(d->e, all, sizeof(float));
    d->raw = harness_emulation_alloc(d->e, count, sizeof(float));
    d->read = harness_emulation_alloc(d->e, count, sizeof(float));
    d->sum = harness_emulation_alloc(d->e, count, sizeof(float));
    d->elements = harness_emulation_alloc(d->e, 2 * (size_t)d->e->world, item_of(d)->size_bytes);
    return d->e->is_out_of_memory ? DDP_E_NOMEM : DDP_OK;
}

static ddp_status describe(struct description *d, struct harness_finding *finding,
                           struct ddp_err *err)
{
    enum harness_predicted predicted;
    bool is_described = false;

    DDP_TRY(allocate(d));
    DDP_TRY(emulate_until_step(d, &predicted, err));
    if (predicted >= HARNESS_PREDICTED_INPUT) {
        DDP_TRY(decode_all(d, d->e->now.bucket_in, d->in));
        DDP_TRY(describe_inputs(d, finding, &is_described, err));
    }
    if (is_described || predicted < HARNESS_PREDICTED_UPDATE) {
        return DDP_OK;
    }
    DDP_TRY(decode_all(d, d->e->now.bucket_out, d->out));
    return describe_outputs(d, finding, err);
}

ddp_status harness_oracle_describe(const struct harness_emulation_input *input,
                                   struct harness_finding *finding, struct ddp_err *err)
{
    struct description d = {.step = (uint32_t)finding->step};
    ddp_status status;

    if (finding->step < 0 || !finding->op.is_set || finding->op.bucket < 0 ||
        (size_t)finding->op.bucket >= input->program->bucket_count) {
        return ddp_err_set(err, DDP_E_INVALID, "the finding names no step and bucket");
    }
    d.bucket_index = (uint32_t)finding->op.bucket;
    d.bucket = &input->program->buckets[d.bucket_index];
    DDP_TRY(harness_emulation_create(input, &d.e, err));
    status = describe(&d, finding, err);
    harness_emulation_destroy(d.e);
    return status;
}
