/* Purpose: what a tensor is that is not the expected one, as parts of its values are known: what
 * was there before, what it was scaled from. */
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

/* Averages were rounded as they lay in the bucket, and as they lie in the parameter's type. */
static enum ddp_dtype coarser(enum ddp_dtype a, enum ddp_dtype b)
{
    return harness_residual_precision(a).unit > harness_residual_precision(b).unit ? a : b;
}

ddp_status harness_describe_average(struct harness_emulation *e, const struct harness_camp *camp,
                                    uint32_t rank, size_t param, const void *got,
                                    struct harness_description *out)
{
    struct harness_describing view = {.e = e, .is_before_likely = true, .scale = 1.0f, .out = out};
    struct harness_tensor expected = harness_layout_at(&e->params, camp->average, 0, param);
    struct harness_tensor local = harness_layout_at(&e->grads, e->now.grad, rank, param);
    ddp_status status = open_param(&view, &expected, got);

    view.dtype = coarser(expected.dtype, e->buckets.items[e->bucket_of[param]].dtype);
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
        /* A hook divides whatever it finds there. */
        if (e->input->plan->job.hook == HARNESS_HOOK_ALLREDUCE) {
            for (size_t i = 0; i < view->elem_count; i++) {
                view->before[i] *= view->scale;
            }
        }
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

ddp_status harness_describe_output(struct harness_emulation *e, uint32_t rank, size_t b,
                                   const void *got, struct harness_description *out)
{
    struct harness_tensor expected = harness_layout_at(&e->buckets, e->now.bucket_out, rank, b);
    struct harness_describing view = {.e = e, .out = out, .scale = 1.0f};
    ddp_status status = open_bucket(&view, e, b, &expected, got);

    if (status == DDP_OK) {
        harness_describing_run(&view, 0, "");
        /* A contribution far below the others' is rounded away as well as left out. */
        if ((out->verdict == HARNESS_VERDICT_VALUE_CORRUPTED ||
             out->verdict == HARNESS_VERDICT_VALUE_PRECISION) &&
            out->text != NULL) {
            status = harness_describing_explain_sum(&view, rank, b);
        }
    }
    harness_describing_release(&view);
    return status;
}
