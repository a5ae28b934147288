/* What rows draw with. */
#include "harness/grammar/draw.h"

uint64_t harness_draw_below(struct harness_draw *draw, uint64_t bound)
{
    return ddp_prng_below(&draw->prng, bound);
}

uint64_t harness_draw_between(struct harness_draw *draw, uint64_t low, uint64_t high)
{
    DDP_ASSERT(low <= high);
    return low + ddp_prng_below(&draw->prng, high - low + 1);
}

bool harness_draw_chance(struct harness_draw *draw, unsigned percent)
{
    return ddp_prng_below(&draw->prng, 100) < percent;
}

size_t harness_draw_weighted(struct harness_draw *draw, const unsigned *weights, size_t count)
{
    uint64_t total = 0;
    uint64_t drawn;

    for (size_t i = 0; i < count; i++) {
        total += weights[i];
    }
    drawn = ddp_prng_below(&draw->prng, total);
    for (size_t i = 0; i < count; i++) {
        if (drawn < weights[i]) {
            return i;
        }
        drawn -= weights[i];
    }
    DDP_ASSERT(false);
    return 0;
}

double harness_draw_one_of(struct harness_draw *draw, const double *values, size_t count)
{
    return values[ddp_prng_below(&draw->prng, count)];
}

void *harness_draw_array(struct harness_draw *draw, size_t count, size_t elem_bytes)
{
    void *array = ddp_mem_array(draw->mem, count, elem_bytes);

    if (array == NULL) {
        draw->status = DDP_E_NOMEM;
    }
    return array;
}
