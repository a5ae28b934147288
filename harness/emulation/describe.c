/* Purpose: say what a tensor is that is not the expected one.
 * Idea: a wrong tensor of one rank is compared with the expected one, and with what was there
 * before; for a wrong sum the order of summing is run again with one rank left out, or counted
 * twice, and must give the very bits seen. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "harness/emulation/internal.h"
#include "harness/sums/arith.h"

enum { TEXT_BYTES = 320 };

/* Values are held as fp32, which holds those of the 16-bit types exactly. */
struct view {
    struct harness_emulation *e;
    const struct harness_bucket *bucket; /* NULL: one parameter */
    size_t elem_count;
    float *expected, *got;
    float *before, *raw; /* NULL: unknown */
    float scale;
    enum ddp_dtype dtype;
    struct harness_description *out;
};

static ddp_status decode(struct harness_emulation *e, const struct harness_tensor *tensor,
                         float **out)
{
    *out = ddp_mem_array(e->mem, tensor->elem_count, sizeof(float));
    if (*out == NULL) {
        return DDP_E_NOMEM;
    }
    if (tensor->dtype == DDP_DTYPE_F32) {
        memcpy(*out, tensor->data, tensor->size_bytes);
        return DDP_OK;
    }
    return harness_arith_scale(*out, DDP_DTYPE_F32, tensor->data, tensor->dtype, tensor->elem_count,
                               1.0f);
}

/* The same tensor with other data. */
static struct harness_tensor with(const struct harness_tensor *tensor, const void *data)
{
    struct harness_tensor other = *tensor;

    other.data = (void *)(uintptr_t)data;
    return other;
}

static void release(struct view *view)
{
    struct ddp_mem *mem = view->e->mem;

    ddp_mem_free(mem, view->expected);
    ddp_mem_free(mem, view->got);
    ddp_mem_free(mem, view->before);
    ddp_mem_free(mem, view->raw);
}

static char *new_text(struct view *view)
{
    char *text = ddp_mem_array(ddp_mem_pool_mem(view->e->sets), TEXT_BYTES, 1);

    if (text == NULL) {
        view->e->is_out_of_memory = true;
    }
    view->out->text = text;
    return text;
}

/* --- slices of a bucket ----------------------------------------------------------------------- */

static size_t slice_count(const struct view *view, uint32_t place)
{
    return view->e->input->params[view->bucket->params[place]].elem_count;
}

static bool is_slice_different(const struct view *view, uint32_t place)
{
    size_t first = view->bucket->offsets[place];

    return memcmp(view->expected + first, view->got + first,
                  slice_count(view, place) * sizeof(float)) != 0;
}

/* Two parameters of equal size that changed places. */
static bool find_swap(const struct view *view, uint32_t *out_a, uint32_t *out_b)
{
    const size_t *offsets = view->bucket->offsets;

    for (uint32_t a = 0; a < view->bucket->param_count; a++) {
        for (uint32_t b = a + 1; b < view->bucket->param_count; b++) {
            size_t size_bytes = slice_count(view, a) * sizeof(float);

            if (slice_count(view, a) == slice_count(view, b) && is_slice_different(view, a) &&
                memcmp(view->got + offsets[a], view->expected + offsets[b], size_bytes) == 0 &&
                memcmp(view->got + offsets[b], view->expected + offsets[a], size_bytes) == 0) {
                *out_a = a;
                *out_b = b;
                return true;
            }
        }
    }
    return false;
}

/* The one parameter whose slice differs, or the whole bucket; names those that differ. */
static void choose_range(const struct view *view, size_t *out_first, size_t *out_count)
{
    uint32_t different = 0;
    size_t first = 0;
    size_t count = 0;

    for (uint32_t i = 0; view->bucket != NULL && i < view->bucket->param_count; i++) {
        if (is_slice_different(view, i)) {
            harness_list_add(&view->out->params, view->bucket->params[i]);
            different++;
            first = view->bucket->offsets[i];
            count = slice_count(view, i);
        }
    }
    *out_first = different == 1 ? first : 0;
    *out_count = different == 1 ? count : view->elem_count;
}

/* The parameter that holds an element, and its number there. */
static size_t param_of(const struct view *view, size_t param, size_t *elem)
{
    uint32_t at = 0;

    if (view->bucket == NULL) {
        return param;
    }
    for (uint32_t i = 0; i < view->bucket->param_count; i++) {
        if (view->bucket->offsets[i] <= *elem &&
            view->bucket->offsets[i] >= view->bucket->offsets[at]) {
            at = i;
        }
    }
    *elem -= view->bucket->offsets[at];
    return view->bucket->params[at];
}

/* --- words ------------------------------------------------------------------------------------ */

static void write_what(const struct harness_residual *residual, size_t elem,
                       const char *before_name, char *what, size_t size_bytes)
{
    switch (residual->verdict) {
    case HARNESS_VERDICT_VALUE_LOST:
        (void)snprintf(what, size_bytes, "is zero");
        break;
    case HARNESS_VERDICT_VALUE_DUPLICATED:
        (void)snprintf(what, size_bytes, "is doubled");
        break;
    case HARNESS_VERDICT_VALUE_SCALED:
        (void)snprintf(what, size_bytes, "is scaled by %.9g", residual->factor);
        break;
    case HARNESS_VERDICT_VALUE_SHIFTED:
        (void)snprintf(what, size_bytes, "is shifted by %lld places", (long long)residual->shift);
        break;
    case HARNESS_VERDICT_VALUE_STALE:
        (void)snprintf(what, size_bytes, "is %s", before_name);
        break;
    case HARNESS_VERDICT_VALUE_NONFINITE:
        (void)snprintf(what, size_bytes, "is not finite, first at element %zu", elem);
        break;
    default:
        if (residual->bit >= 0) {
            (void)snprintf(what, size_bytes, "has bit %d of element %zu flipped", residual->bit,
                           elem);
        } else {
            (void)snprintf(what, size_bytes, "differs in %zu elements, first %zu",
                           residual->differ_count, elem);
        }
        break;
    }
}

static bool is_same_but_nan(const struct view *view)
{
    for (size_t i = 0; i < view->elem_count; i++) {
        if (harness_residual_bits(view->expected[i]) != harness_residual_bits(view->got[i]) &&
            !(isnan(view->expected[i]) && isnan(view->got[i]))) {
            return false;
        }
    }
    return true;
}

/* param: the one that is described, if it is not a bucket. */
static void describe(struct view *view, size_t param, const char *before_name)
{
    struct harness_residual_input input = {.scale = view->scale, .dtype = view->dtype};
    struct harness_residual *residual = &view->out->residual;
    size_t first = 0;
    size_t at;
    size_t elem;
    uint32_t a = 0;
    uint32_t b = 0;
    char what[160];
    char *text;

    view->out->params = harness_list_in(ddp_mem_pool_mem(view->e->sets));
    choose_range(view, &first, &input.count);
    input.expected = view->expected + first;
    input.got = view->got + first;
    input.before = view->before == NULL ? NULL : view->before + first;
    input.raw = view->raw == NULL ? NULL : view->raw + first;
    harness_residual_classify(&input, residual);
    view->out->verdict = residual->verdict;
    view->out->is_same = is_same_but_nan(view);
    text = new_text(view);
    if (text == NULL) {
        return;
    }
    at = elem = first + residual->first;
    param = param_of(view, param, &elem);
    write_what(residual, elem, before_name, what, sizeof(what));
    (void)snprintf(text, TEXT_BYTES, "%.128s %s (%08x, expected %08x)",
                   view->e->input->params[param].name, what, harness_residual_bits(view->got[at]),
                   harness_residual_bits(view->expected[at]));
    if (view->bucket != NULL && residual->verdict == HARNESS_VERDICT_VALUE_CORRUPTED &&
        find_swap(view, &a, &b)) {
        view->out->verdict = HARNESS_VERDICT_VALUE_SWAPPED;
        (void)snprintf(text, TEXT_BYTES, "%.128s and %.128s changed places",
                       view->e->input->params[view->bucket->params[a]].name,
                       view->e->input->params[view->bucket->params[b]].name);
    }
}

/* --- parameters and inputs -------------------------------------------------------------------- */

ddp_status harness_describe_param(struct harness_emulation *e, size_t param,
                                  const struct harness_tensor *expected, const void *got,
                                  const void *before, const char *before_name,
                                  struct harness_description *out)
{
    struct view view = {.e = e,
                        .elem_count = expected->elem_count,
                        .scale = 1.0f,
                        .dtype = expected->dtype,
                        .out = out};
    struct harness_tensor got_tensor = with(expected, got);
    struct harness_tensor before_tensor = with(expected, before);
    ddp_status status = decode(e, expected, &view.expected);

    if (status == DDP_OK) {
        status = decode(e, &got_tensor, &view.got);
    }
    if (status == DDP_OK && before != NULL) {
        status = decode(e, &before_tensor, &view.before);
    }
    if (status == DDP_OK) {
        describe(&view, param, before_name);
    }
    release(&view);
    return status;
}

/* Expected and seen tensor of a bucket. */
static ddp_status open_bucket(struct view *view, struct harness_emulation *e, size_t b,
                              const struct harness_tensor *expected, const void *got)
{
    struct harness_tensor got_tensor = with(expected, got);

    view->e = e;
    view->bucket = &e->input->program->buckets[b];
    view->elem_count = expected->elem_count;
    view->dtype = expected->dtype;
    DDP_TRY(decode(e, expected, &view->expected));
    return decode(e, &got_tensor, &view->got);
}

/* The rank's gradients as they lie in the bucket, unscaled. */
static ddp_status fill_raw(struct view *view, uint32_t rank)
{
    view->raw = ddp_mem_array(view->e->mem, view->elem_count, sizeof(float));
    for (uint32_t i = 0; view->raw != NULL && i < view->bucket->param_count; i++) {
        struct harness_tensor grad =
            harness_layout_at(&view->e->params, view->e->now.grad, rank, view->bucket->params[i]);

        DDP_TRY(harness_arith_scale(view->raw + view->bucket->offsets[i], DDP_DTYPE_F32, grad.data,
                                    grad.dtype, grad.elem_count, 1.0f));
    }
    return view->raw == NULL ? DDP_E_NOMEM : DDP_OK;
}

static ddp_status describe_input(struct view *view, uint32_t rank, size_t b, const void *got)
{
    struct harness_emulation *e = view->e;
    struct harness_tensor expected = harness_layout_at(&e->buckets, e->now.bucket_in, rank, b);

    DDP_TRY(open_bucket(view, e, b, &expected, got));
    DDP_TRY(fill_raw(view, rank));
    view->scale = harness_emulation_is_scaled_before(e) ? 1.0f / (float)e->now.divisor : 1.0f;
    if (e->steps_done > e->start_step) {
        struct harness_tensor before = harness_layout_at(&e->buckets, e->now.bucket_out, rank, b);

        DDP_TRY(decode(e, &before, &view->before));
    }
    describe(view, 0, "what the all-reduce of the step before left there: nothing was copied in");
    return DDP_OK;
}

ddp_status harness_describe_input(struct harness_emulation *e, uint32_t rank, size_t b,
                                  const void *got, struct harness_description *out)
{
    struct view view = {.e = e, .out = out};
    ddp_status status = describe_input(&view, rank, b, got);

    release(&view);
    return status;
}

/* --- sums ------------------------------------------------------------------------------------- */

/* Inputs of a sum that is run again, and its outputs: [2 * world] tensors of the bucket's type. */
struct rerun {
    struct harness_emulation *e;
    const struct harness_layout_item *item;
    char *block;
    void **pointers;
    float *sum;
    const float **inputs; /* [world] as fp32 */
};

static ddp_status open_rerun(struct rerun *rerun, struct harness_emulation *e, size_t b)
{
    struct ddp_mem *mem = e->mem;
    uint32_t world = e->world;

    *rerun = (struct rerun){.e = e, .item = &e->buckets.items[b]};
    rerun->block = ddp_mem_array(mem, 2 * (size_t)world, rerun->item->size_bytes);
    rerun->pointers = ddp_mem_array(mem, 2 * (size_t)world, sizeof(*rerun->pointers));
    rerun->sum = ddp_mem_array(mem, rerun->item->elem_count, sizeof(float));
    rerun->inputs = ddp_mem_array(mem, world, sizeof(*rerun->inputs));
    if (rerun->block == NULL || rerun->pointers == NULL || rerun->sum == NULL ||
        rerun->inputs == NULL) {
        return DDP_E_NOMEM;
    }
    for (uint32_t r = 0; r < 2 * world; r++) {
        rerun->pointers[r] = rerun->block + r * rerun->item->size_bytes;
    }
    for (uint32_t r = 0; r < world; r++) {
        struct harness_tensor input = harness_layout_at(&e->buckets, e->now.bucket_in, r, b);
        float *decoded = NULL;

        DDP_TRY(decode(e, &input, &decoded));
        rerun->inputs[r] = decoded;
    }
    return DDP_OK;
}

static void close_rerun(struct rerun *rerun)
{
    struct ddp_mem *mem = rerun->e->mem;

    for (uint32_t r = 0; rerun->inputs != NULL && r < rerun->e->world; r++) {
        ddp_mem_free(mem, (void *)(uintptr_t)rerun->inputs[r]);
    }
    ddp_mem_free(mem, rerun->inputs);
    ddp_mem_free(mem, rerun->sum);
    ddp_mem_free(mem, rerun->pointers);
    ddp_mem_free(mem, rerun->block);
}

/* Run the sum with one rank's input times factor, as `seen_by` then has it. */
static bool run_again(const struct rerun *rerun, uint32_t rank, float factor, uint32_t seen_by)
{
    const struct harness_layout_item *item = rerun->item;
    uint32_t world = rerun->e->world;

    for (uint32_t r = 0; r < world; r++) {
        if (harness_arith_scale(rerun->pointers[r], item->dtype, rerun->inputs[r], DDP_DTYPE_F32,
                                item->elem_count, r == rank ? factor : 1.0f) != DDP_OK) {
            return false;
        }
    }
    return harness_emulation_sum(rerun->e, item->dtype, item->elem_count, rerun->pointers,
                                 rerun->pointers + world, NULL, 0) == DDP_OK &&
           harness_arith_scale(rerun->sum, DDP_DTYPE_F32, rerun->pointers[world + seen_by],
                               item->dtype, item->elem_count, 1.0f) == DDP_OK;
}

/* Where the sum that was seen is not the expected one, it is this one; the first and the last such
 * element. */
static bool is_where_different(const struct view *view, const float *sum, size_t *out_first,
                               size_t *out_last)
{
    bool is_any = false;

    for (size_t i = 0; i < view->elem_count; i++) {
        uint32_t got = harness_residual_bits(view->got[i]);

        if (got == harness_residual_bits(view->expected[i])) {
            continue;
        }
        if (got != harness_residual_bits(sum[i])) {
            return false;
        }
        *out_first = is_any ? *out_first : i;
        *out_last = i;
        is_any = true;
    }
    return is_any;
}

static void name_sum(struct view *view, enum harness_verdict verdict, uint32_t rank, size_t first,
                     size_t last, const char *how)
{
    struct harness_description *out = view->out;
    char where[96] = "";

    if (last - first + 1 < view->elem_count) {
        (void)snprintf(where, sizeof(where), ", in elements %zu to %zu of the bucket", first, last);
    }
    out->verdict = out->residual.verdict = verdict;
    out->residual.bit = -1;
    (void)snprintf((char *)(uintptr_t)out->text, TEXT_BYTES,
                   "the sum holds the contribution of rank %u %s%s", rank, how, where);
}

/* Another order; or, where the sum is not the expected one, a rank that was left out or counted
 * twice, or all but one left out. What is within rounding everywhere lacks nobody. */
static void explain_sum(struct view *view, const struct rerun *rerun, uint32_t seen_by)
{
    uint32_t world = view->e->world;
    size_t first = 0;
    size_t last = 0;

    if (harness_residual_is_reordered(rerun->inputs, world, view->expected, view->got,
                                      view->elem_count)) {
        view->out->verdict = HARNESS_VERDICT_VALUE_REORDERED;
        (void)snprintf((char *)(uintptr_t)view->out->text, TEXT_BYTES,
                       "the sum holds every contribution, added in another order than was "
                       "declared or measured");
        return;
    }
    for (uint32_t r = 0; r < world; r++) {
        if (run_again(rerun, r, 0.0f, seen_by) &&
            is_where_different(view, rerun->sum, &first, &last)) {
            name_sum(view, HARNESS_VERDICT_VALUE_LOST, r, first, last, "not at all");
            return;
        }
    }
    for (uint32_t r = 0; r < world; r++) {
        if (is_where_different(view, rerun->inputs[r], &first, &last)) {
            name_sum(view, HARNESS_VERDICT_VALUE_LOST, r, first, last, "alone");
            return;
        }
    }
    for (uint32_t r = 0; r < world; r++) {
        if (run_again(rerun, r, 2.0f, seen_by) &&
            is_where_different(view, rerun->sum, &first, &last)) {
            name_sum(view, HARNESS_VERDICT_VALUE_DUPLICATED, r, first, last, "twice");
            return;
        }
    }
}

ddp_status harness_describe_output(struct harness_emulation *e, uint32_t rank, size_t b,
                                   const void *got, struct harness_description *out)
{
    struct harness_tensor expected = harness_layout_at(&e->buckets, e->now.bucket_out, rank, b);
    struct view view = {.e = e, .out = out, .scale = 1.0f};
    struct rerun rerun = {.e = e};
    ddp_status status = open_bucket(&view, e, b, &expected, got);

    if (status == DDP_OK) {
        describe(&view, 0, "");
        if (out->verdict == HARNESS_VERDICT_VALUE_CORRUPTED && out->text != NULL) {
            status = open_rerun(&rerun, e, b);
        }
    }
    if (status == DDP_OK && rerun.inputs != NULL) {
        explain_sum(&view, &rerun, rank);
    }
    close_rerun(&rerun);
    release(&view);
    return status;
}
