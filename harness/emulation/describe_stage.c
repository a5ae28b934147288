/* Purpose: what a tensor is that is not the expected one, as parts of its values are known: what
 * was there before, what it was scaled from, what it was summed from. Idea: for a wrong sum the
 * order of summing is run again with one rank left out, or counted twice, and must give the very
 * bits seen. */
#include <stdio.h>
#include <string.h>

#include "harness/emulation/describing.h"
#include "harness/sums/arith.h"

/* The same tensor with other data. */
static struct harness_tensor with(const struct harness_tensor *tensor, const void *data)
{
    struct harness_tensor other = *tensor;

    other.data = (void *)(uintptr_t)data;
    return other;
}

/* --- parameters and inputs -------------------------------------------------------------------- */

static ddp_status open_param(struct harness_describing *view, const struct harness_tensor *expected,
                             const void *got)
{
    struct harness_tensor got_tensor = with(expected, got);

    view->elem_count = expected->elem_count;
    view->dtype = expected->dtype;
    DDP_TRY(harness_describing_decode(view->e, expected, &view->expected));
    return harness_describing_decode(view->e, &got_tensor, &view->got);
}

ddp_status harness_describe_param(struct harness_emulation *e, size_t param,
                                  const struct harness_tensor *expected, const void *got,
                                  struct harness_description *out)
{
    struct harness_describing view = {.e = e, .scale = 1.0f, .out = out};
    ddp_status status = open_param(&view, expected, got);

    if (status == DDP_OK) {
        harness_describing_run(&view, param, "");
    }
    harness_describing_release(&view);
    return status;
}

/* A parameter's part of the sum that was not divided yet. */
static ddp_status decode_sum(struct harness_emulation *e, const struct harness_camp *camp,
                             size_t param, float **out)
{
    size_t b = e->bucket_of[param];
    const struct harness_bucket *bucket = &e->assigned[b];
    struct harness_tensor sum = harness_layout_at(&e->buckets, e->now.bucket_out, camp->first, b);

    for (uint32_t i = 0; i < bucket->param_count; i++) {
        if (bucket->params[i] == param) {
            sum.data = (char *)sum.data + bucket->offsets[i] * ddp_dtype_size_bytes(sum.dtype);
        }
    }
    sum.elem_count = e->params.items[param].elem_count;
    sum.size_bytes = sum.elem_count * ddp_dtype_size_bytes(sum.dtype);
    return harness_describing_decode(e, &sum, out);
}

ddp_status harness_describe_average(struct harness_emulation *e, const struct harness_camp *camp,
                                    uint32_t rank, size_t param, const void *got,
                                    struct harness_description *out)
{
    struct harness_describing view = {.e = e, .is_before_likely = true, .scale = 1.0f, .out = out};
    struct harness_tensor expected = harness_layout_at(&e->params, camp->average, 0, param);
    struct harness_tensor local = harness_layout_at(&e->grads, e->now.grad, rank, param);
    ddp_status status = open_param(&view, &expected, got);

    if (status == DDP_OK) {
        status = harness_describing_decode(e, &local, &view.before);
    }
    if (status == DDP_OK && !harness_emulation_is_scaled_before(e)) {
        view.scale = 1.0f / (float)e->now.divisor;
        status = decode_sum(e, camp, param, &view.raw);
    }
    if (status == DDP_OK) {
        harness_describing_run(&view, param, "the rank's own gradient: nothing was copied back");
    }
    harness_describing_release(&view);
    return status;
}

/* Expected and seen tensor of a bucket. */
static ddp_status open_bucket(struct harness_describing *view, struct harness_emulation *e,
                              size_t b, const struct harness_tensor *expected, const void *got)
{
    struct harness_tensor got_tensor = with(expected, got);

    view->e = e;
    view->bucket = &e->assigned[b];
    view->elem_count = expected->elem_count;
    view->dtype = expected->dtype;
    DDP_TRY(harness_describing_decode(e, expected, &view->expected));
    return harness_describing_decode(e, &got_tensor, &view->got);
}

/* The rank's gradients as they lie in the bucket, unscaled. */
static ddp_status fill_raw(struct harness_describing *view, uint32_t rank)
{
    view->raw = ddp_mem_array(view->e->mem, view->elem_count, sizeof(float));
    for (uint32_t i = 0; view->raw != NULL && i < view->bucket->param_count; i++) {
        struct harness_tensor grad =
            harness_layout_at(&view->e->grads, view->e->now.grad, rank, view->bucket->params[i]);

        DDP_TRY(harness_arith_scale(view->raw + view->bucket->offsets[i], DDP_DTYPE_F32, grad.data,
                                    grad.dtype, grad.elem_count, 1.0f));
    }
    return view->raw == NULL ? DDP_E_NOMEM : DDP_OK;
}

static ddp_status describe_input(struct harness_describing *view, uint32_t rank, size_t b,
                                 const void *got)
{
    struct harness_emulation *e = view->e;
    struct harness_tensor expected = harness_layout_at(&e->buckets, e->now.bucket_in, rank, b);

    DDP_TRY(open_bucket(view, e, b, &expected, got));
    DDP_TRY(fill_raw(view, rank));
    view->scale = harness_emulation_is_scaled_before(e) ? 1.0f / (float)e->now.divisor : 1.0f;
    /* Rebuilt buckets lie in new memory. */
    if (e->steps_done > e->start_step &&
        (int32_t)e->steps_done != e->input->program->rebuilt_step) {
        struct harness_tensor before = harness_layout_at(&e->buckets, e->now.bucket_out, rank, b);

        DDP_TRY(harness_describing_decode(e, &before, &view->before));
    }
    harness_describing_run(
        view, 0, "what the all-reduce of the step before left there: nothing was copied in");
    return DDP_OK;
}

ddp_status harness_describe_input(struct harness_emulation *e, uint32_t rank, size_t b,
                                  const void *got, struct harness_description *out)
{
    struct harness_describing view = {.e = e, .out = out};
    ddp_status status = describe_input(&view, rank, b, got);

    harness_describing_release(&view);
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

        DDP_TRY(harness_describing_decode(e, &input, &decoded));
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
static bool is_where_different(const struct harness_describing *view, const float *sum,
                               size_t *out_first, size_t *out_last)
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

static void name_sum(struct harness_describing *view, enum harness_share share, uint32_t rank,
                     size_t first, size_t last)
{
    static const char *const words[] = {[HARNESS_SHARE_NOTHING] = "not at all",
                                        [HARNESS_SHARE_ALL] = "alone",
                                        [HARNESS_SHARE_TWICE] = "twice"};
    struct harness_description *out = view->out;
    char where[96] = "";

    if (last - first + 1 < view->elem_count) {
        (void)snprintf(where, sizeof(where), ", in elements %zu to %zu of the bucket", first, last);
    }
    out->verdict = out->residual.verdict = share == HARNESS_SHARE_TWICE
                                               ? HARNESS_VERDICT_VALUE_DUPLICATED
                                               : HARNESS_VERDICT_VALUE_LOST;
    out->share = share;
    out->share_rank = rank;
    out->residual.bit = -1;
    (void)snprintf((char *)(uintptr_t)out->text, HARNESS_DESCRIBING_TEXT_BYTES,
                   "the sum holds the contribution of rank %u %s%s", rank, words[share], where);
}

/* Another order; or, where the sum is not the expected one, a rank that was left out or counted
 * twice, or all but one left out. What is within rounding everywhere lacks nobody. */
static void explain_sum(struct harness_describing *view, const struct rerun *rerun,
                        uint32_t seen_by)
{
    uint32_t world = view->e->world;
    size_t first = 0;
    size_t last = 0;

    if (harness_residual_is_reordered(rerun->inputs, world, view->expected, view->got,
                                      view->elem_count)) {
        view->out->verdict = HARNESS_VERDICT_VALUE_REORDERED;
        (void)snprintf((char *)(uintptr_t)view->out->text, HARNESS_DESCRIBING_TEXT_BYTES,
                       "the sum holds every contribution, added in another order than was "
                       "declared or measured");
        return;
    }
    for (uint32_t r = 0; r < world; r++) {
        if (run_again(rerun, r, 0.0f, seen_by) &&
            is_where_different(view, rerun->sum, &first, &last)) {
            name_sum(view, HARNESS_SHARE_NOTHING, r, first, last);
            return;
        }
    }
    for (uint32_t r = 0; r < world; r++) {
        if (is_where_different(view, rerun->inputs[r], &first, &last)) {
            name_sum(view, HARNESS_SHARE_ALL, r, first, last);
            return;
        }
    }
    for (uint32_t r = 0; r < world; r++) {
        if (run_again(rerun, r, 2.0f, seen_by) &&
            is_where_different(view, rerun->sum, &first, &last)) {
            name_sum(view, HARNESS_SHARE_TWICE, r, first, last);
            return;
        }
    }
}

ddp_status harness_describe_output(struct harness_emulation *e, uint32_t rank, size_t b,
                                   const void *got, struct harness_description *out)
{
    struct harness_tensor expected = harness_layout_at(&e->buckets, e->now.bucket_out, rank, b);
    struct harness_describing view = {.e = e, .out = out, .scale = 1.0f};
    struct rerun rerun = {.e = e};
    ddp_status status = open_bucket(&view, e, b, &expected, got);

    if (status == DDP_OK) {
        harness_describing_run(&view, 0, "");
        if (out->verdict == HARNESS_VERDICT_VALUE_CORRUPTED && out->text != NULL) {
            status = open_rerun(&rerun, e, b);
        }
    }
    if (status == DDP_OK && rerun.inputs != NULL) {
        explain_sum(&view, &rerun, rank);
    }
    close_rerun(&rerun);
    harness_describing_release(&view);
    return status;
}
