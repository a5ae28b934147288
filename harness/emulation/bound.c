/* Purpose: how far an averaged gradient may lie from the mean over the global batch.
 * Idea: with unequal batches the two differ by the weights alone: |1/D - n_r/N| |g_r| summed over
 * ranks, plus the roundings. Checked after each emulated step, while its values are there. */
#include <math.h>

#include "harness/emulation/internal.h"
#include "harness/sums/arith.h"

/* gamma(k) = k u / (1 - k u): relative error of k roundings. */
static double gamma_of(double unit, uint32_t k)
{
    double ku = (double)k * unit;

    return ku < 1.0 ? ku / (1.0 - ku) : (double)INFINITY;
}

enum { BLOCK = 256 };

/* What one rank adds to the mean and to the bound of a block of elements. */
struct share {
    double weight; /* n_r / N */
    double slope;  /* bound per unit of |g|: weighting gap, rounding, and the fp64 sums here */
};

static void add_share(const struct share *share, const double *grad, size_t count, double *mean,
                      double *bound)
{
    for (size_t i = 0; i < count; i++) {
        mean[i] += share->weight * grad[i];
        bound[i] += share->slope * fabs(grad[i]);
    }
}

static struct share share_of(const struct harness_emulation *e, uint32_t rank, double total,
                             double unit)
{
    /* Roundings on the way of one addend: to a hook's type, 1/D, its product, at most world - 1
     * sums, or, for `post`, one behind them. */
    double gamma = gamma_of(unit, e->world + 2);
    double slack = 0x1p-52 * (double)(e->world + 2);
    double weight = (double)e->now.rows[rank] / total;
    double factor = e->now.rows[rank] > 0 ? 1.0 / e->now.divisor : 0.0;

    return (struct share){weight, fabs(factor - weight) + gamma * factor + slack};
}

/* Elements [first, first + count) of a tensor. */
static void read_block(const struct harness_tensor *tensor, size_t first, size_t count, double *out)
{
    harness_arith_widen(out,
                        (const char *)tensor->data + first * ddp_dtype_size_bytes(tensor->dtype),
                        tensor->dtype, count);
}

static enum ddp_dtype wire_of(const struct harness_emulation *e, size_t p)
{
    return e->buckets.items[e->bucket_of[p]].dtype;
}

/* One block of one parameter; `at` counts from the parameter's first element. */
static void bound_block(struct harness_emulation *e, uint32_t step, size_t p, size_t at,
                        size_t count, const struct share *shares)
{
    struct harness_tensor tensor =
        harness_layout_at(&e->params, harness_emulation_camp(e, 0)->average, 0, p);
    /* Products may underflow: at most one spacing of subnormals each. */
    double underflow = harness_residual_precision(wire_of(e, p)).subnormal * (double)(e->world + 1);
    double mean[BLOCK] = {0};
    double bound[BLOCK] = {0};
    double values[BLOCK];

    for (uint32_t r = 0; r < e->world; r++) {
        struct harness_tensor grad = harness_layout_at(&e->grads, e->now.grad, r, p);

        read_block(&grad, at, count, values);
        add_share(&shares[r], values, count, mean, bound);
    }
    read_block(&tensor, at, count, values);
    for (size_t i = 0; i < count; i++) {
        double distance = fabs(values[i] - mean[i]);

        /* What a scaled loss makes overflow is left out, not learned from. */
        if (!isfinite(distance) && e->input->plan->job.optimizer.loss_scale > 0) {
            continue;
        }
        if (!(distance <= bound[i] + underflow)) {
            e->excess = (struct harness_excess){
                .is_set = true,
                .step = step,
                .param = (uint32_t)p,
                .elem = at + i,
                .distance = distance,
                .bound = bound[i] + underflow,
            };
            return;
        }
    }
}

static bool is_finite_at(const struct harness_emulation *e, uint32_t rank, size_t p, size_t elem)
{
    struct harness_tensor grad = harness_layout_at(&e->grads, e->now.grad, rank, p);
    double value;

    read_block(&grad, elem, 1, &value);
    return isfinite(value) && isfinite(e->now.loss[rank]);
}

/* Training itself led to a value that is not finite: on ranks whose own gradients are not, else in
 * their sum. After an earlier error it is that error's. */
static void name_nonfinite(struct harness_emulation *e)
{
    struct harness_excess *excess = &e->excess;

    if (isfinite(excess->distance) && isfinite(excess->bound)) {
        return;
    }
    excess->is_nonfinite = true;
    excess->is_set = harness_emulation_is_clean(e);
    excess->ranks = harness_rank_set_in(ddp_mem_pool_mem(e->sets));
    for (uint32_t r = 0; r < e->world; r++) {
        if (e->now.rows[r] > 0 && !is_finite_at(e, r, excess->param, excess->elem)) {
            harness_rank_set_add(&excess->ranks, r);
        }
    }
    for (uint32_t r = 0; harness_rank_set_is_empty(&excess->ranks) && r < e->world; r++) {
        harness_rank_set_add(&excess->ranks, r);
    }
}

static void bound_param(struct harness_emulation *e, uint32_t step, size_t p, struct share *shares)
{
    const struct harness_layout_item *param = &e->params.items[p];
    double unit = harness_residual_precision(wire_of(e, p)).unit;
    double total = 0.0;

    for (uint32_t r = 0; r < e->world; r++) {
        total += (double)e->now.rows[r];
    }
    for (uint32_t r = 0; r < e->world; r++) {
        shares[r] = share_of(e, r, total, unit);
    }
    for (size_t at = 0; at < param->elem_count && !e->excess.is_set; at += BLOCK) {
        size_t left = param->elem_count - at;

        bound_block(e, step, p, at, left < BLOCK ? left : BLOCK, shares);
    }
    for (uint32_t r = 0; r < e->world && e->excess.is_set; r++) {
        e->excess.weight_gap += fabs(1.0 / e->now.divisor - shares[r].weight);
    }
    if (e->excess.is_set) {
        name_nonfinite(e);
    }
}

ddp_status harness_emulation_bound(struct harness_emulation *e, uint32_t step)
{
    struct share *shares;

    /* What is known to be wrong is no matter of weights. */
    if (harness_compare_has(e, HARNESS_STAGE_INPUT, step) || e->excess.is_nonfinite) {
        return DDP_OK;
    }
    shares = ddp_mem_array(e->mem, e->world, sizeof(*shares));
    if (shares == NULL) {
        return DDP_E_NOMEM;
    }
    for (size_t p = 0; p < e->params.count && !e->excess.is_set && !e->excess.is_nonfinite; p++) {
        if (e->now.is_used[p]) {
            bound_param(e, step, p, shares);
        }
    }
    ddp_mem_free(e->mem, shares);
    return DDP_OK;
}
