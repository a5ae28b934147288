/* Purpose: how far an averaged gradient may lie from the mean over the global batch.
 * Idea: with unequal batches the two differ by the weights alone: |1/D - n_r/N| |g_r| summed over
 * ranks, plus the roundings. Checked after each emulated step, while its values are there. */
#include <math.h>

#include "harness/emulation/emulation.h"
#include "harness/emulation/state.h"

/* gamma(k) = k u / (1 - k u), u = 2^-24: relative error of k roundings in fp32. */
static double gamma_f32(uint32_t k)
{
    double ku = (double)k * 0x1p-24;

    return ku / (1.0 - ku);
}

enum { BLOCK = 256 };

/* What one rank adds to the mean and to the bound of a block of elements. */
struct share {
    double weight; /* n_r / N */
    double slope;  /* bound per unit of |g|: weighting gap, rounding, and the fp64 sums here */
};

static void add_share(const struct share *share, const float *grad, size_t count, double *mean,
                      double *bound)
{
    for (size_t i = 0; i < count; i++) {
        double g = (double)grad[i];

        mean[i] += share->weight * g;
        bound[i] += share->slope * fabs(g);
    }
}

static struct share share_of(const struct harness_emulation *e, uint32_t rank, double total)
{
    /* Roundings on the way of one addend: 1/D, its product, at most world - 1 sums; one to spare
     * for `post`. */
    double gamma = gamma_f32(e->world + 2);
    double slack = 0x1p-52 * (double)(e->world + 2);
    double weight = (double)e->rows[rank] / total;
    double factor = e->rows[rank] > 0 ? 1.0 / e->divisor : 0.0;

    return (struct share){weight, fabs(factor - weight) + gamma * factor + slack};
}

/* One block of one parameter; `at` counts from the parameter's first element. */
static void bound_block(struct harness_emulation *e, uint32_t step, size_t p, size_t at,
                        size_t count, const struct share *shares)
{
    /* Products may underflow: at most one spacing of subnormals each. */
    double underflow = 0x1p-149 * (double)(e->world + 1);
    const float *average = e->average + e->param_first[p] + at;
    double mean[BLOCK] = {0};
    double bound[BLOCK] = {0};

    for (uint32_t r = 0; r < e->world; r++) {
        add_share(&shares[r], e->grad + r * e->elem_total + e->param_first[p] + at, count, mean,
                  bound);
    }
    for (size_t i = 0; i < count; i++) {
        double distance = fabs((double)average[i] - mean[i]);

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

ddp_status harness_emulation_bound(struct harness_emulation *e, uint32_t step)
{
    struct share *shares = ddp_mem_array(e->mem, e->world, sizeof(*shares));
    double total = 0.0;

    if (shares == NULL) {
        return DDP_E_NOMEM;
    }
    for (uint32_t r = 0; r < e->world; r++) {
        total += (double)e->rows[r];
    }
    for (uint32_t r = 0; r < e->world; r++) {
        shares[r] = share_of(e, r, total);
    }
    for (size_t p = 0; p < e->param_count; p++) {
        size_t elem_count = e->input->params[p].elem_count;

        for (size_t at = 0; at < elem_count && e->is_used[p]; at += BLOCK) {
            size_t count = elem_count - at < BLOCK ? elem_count - at : BLOCK;

            if (!e->excess.is_set) {
                bound_block(e, step, p, at, count, shares);
            }
        }
    }
    for (uint32_t r = 0; r < e->world && e->excess.is_set && e->excess.step == step; r++) {
        e->excess.weight_gap += fabs(1.0 / e->divisor - shares[r].weight);
    }
    ddp_mem_free(e->mem, shares);
    return DDP_OK;
}
