/* Purpose: say in words how a tensor differs from the expected one.
 * Idea: it is compared with the expected one, and with what was there before, bit for bit. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "harness/emulation/describing.h"
#include "harness/sums/arith.h"
#include "harness/sums/format.h"

ddp_status harness_describing_decode(struct harness_emulation *e,
                                     const struct harness_tensor *tensor, float **out)
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

void harness_describing_release(struct harness_describing *view)
{
    struct ddp_mem *mem = view->e->mem;

    ddp_mem_free(mem, view->expected);
    ddp_mem_free(mem, view->got);
    ddp_mem_free(mem, view->before);
    ddp_mem_free(mem, view->raw);
}

static char *new_text(struct harness_describing *view)
{
    char *text = ddp_mem_array(ddp_mem_pool_mem(view->e->sets), HARNESS_DESCRIBING_TEXT_BYTES, 1);

    if (text == NULL) {
        view->e->is_out_of_memory = true;
    }
    view->out->text = text;
    return text;
}

/* --- slices of a bucket ----------------------------------------------------------------------- */

static size_t slice_count(const struct harness_describing *view, uint32_t place)
{
    return view->e->input->params[view->bucket->params[place]].elem_count;
}

static bool is_slice_different(const struct harness_describing *view, uint32_t place)
{
    size_t first = view->bucket->offsets[place];

    return memcmp(view->expected + first, view->got + first,
                  slice_count(view, place) * sizeof(float)) != 0;
}

/* Two parameters of equal size that changed places. */
static bool find_swap(const struct harness_describing *view, uint32_t *out_a, uint32_t *out_b)
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
static void choose_range(const struct harness_describing *view, size_t *out_first,
                         size_t *out_count)
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
static size_t param_of(const struct harness_describing *view, size_t param, size_t *elem)
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
    char formats[32];

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
    case HARNESS_VERDICT_VALUE_PRECISION:
        harness_format_write(residual->formats, formats, sizeof(formats));
        (void)snprintf(what, size_bytes, "is rounded to %s, first seen at element %zu", formats,
                       elem);
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

static bool is_same_but_nan(const struct harness_describing *view)
{
    for (size_t i = 0; i < view->elem_count; i++) {
        if (harness_residual_bits(view->expected[i]) != harness_residual_bits(view->got[i]) &&
            !(isnan(view->expected[i]) && isnan(view->got[i]))) {
            return false;
        }
    }
    return true;
}

void harness_describing_run(struct harness_describing *view, size_t param, const char *before_name)
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
    input.is_before_likely = view->is_before_likely;
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
    (void)snprintf(text, HARNESS_DESCRIBING_TEXT_BYTES, "%.128s %s (%08x, expected %08x)",
                   view->e->input->params[param].name, what, harness_residual_bits(view->got[at]),
                   harness_residual_bits(view->expected[at]));
    if (view->bucket != NULL && residual->verdict == HARNESS_VERDICT_VALUE_CORRUPTED &&
        find_swap(view, &a, &b)) {
        view->out->verdict = HARNESS_VERDICT_VALUE_SWAPPED;
        (void)snprintf(text, HARNESS_DESCRIBING_TEXT_BYTES, "%.128s and %.128s changed places",
                       view->e->input->params[view->bucket->params[a]].name,
                       view->e->input->params[view->bucket->params[b]].name);
    }
}
