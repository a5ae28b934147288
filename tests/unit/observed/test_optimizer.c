/* An optimizer's update of an element: the plain evaluation lies within the bound, as do others,
 * and what another option gives does not. */
#include <math.h>

#include "harness/guest/ddprove_guest.h"
#include "harness/observed/optimizer.h"
#include "tests/ct.h"

static const struct observed_options variants[] = {
    {.is_there = true, .kind = DDPROVE_GUEST_SGD, .lr = 0.1},
    {.is_there = true, .kind = DDPROVE_GUEST_SGD, .lr = 0.1, .decay = 0.01},
    {.is_there = true, .kind = DDPROVE_GUEST_SGD, .lr = 0.03, .first = 0.9, .updates = 3},
    {.is_there = true,
     .kind = DDPROVE_GUEST_SGD,
     .lr = 0.03,
     .first = 0.9,
     .second = 0.3,
     .updates = 3},
    {.is_there = true,
     .kind = DDPROVE_GUEST_SGD,
     .lr = 0.03,
     .decay = 0.1,
     .first = 0.9,
     .is_nesterov = true,
     .updates = 7},
    {.is_there = true, .kind = DDPROVE_GUEST_SGD, .lr = 0.03, .first = 0.9, .second = 0.5},
    {.is_there = true,
     .kind = DDPROVE_GUEST_ADAMW,
     .lr = 1e-3,
     .decay = 0.01,
     .first = 0.9,
     .second = 0.999,
     .eps = 1e-8},
    {.is_there = true,
     .kind = DDPROVE_GUEST_ADAMW,
     .lr = 1e-3,
     .decay = 0.01,
     .first = 0.9,
     .second = 0.999,
     .eps = 1e-8,
     .updates = 500},
    {.is_there = true,
     .kind = DDPROVE_GUEST_ADAMW,
     .lr = 0.01,
     .first = 0.5,
     .second = 0.9,
     .eps = 1e-6,
     .updates = 2},
};
enum { VARIANTS = sizeof variants / sizeof variants[0] };

static float draw(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return ldexpf((float)(*seed >> 8) - (1 << 23), -22);
}

/* As a compiler with fused operations, and a program that keeps numbers in floats, may make of it.
 */
static float other_sgd(const struct observed_options *o, float p, float g, float buffer)
{
    const float decayed = fmaf((float)o->decay, p, g);
    const float rest = 1.0F - (float)o->second;
    const float next = o->updates == 0 ? decayed : fmaf((float)o->first, buffer, rest * decayed);
    const float d = o->first == 0    ? decayed
                    : o->is_nesterov ? fmaf((float)o->first, next, decayed)
                                     : next;

    return fmaf(-(float)o->lr, d, p);
}

static float other_adamw(const struct observed_options *o, float p, float g, const float *state)
{
    const float b1 = (float)o->first;
    const float b2 = (float)o->second;
    const float t = (float)o->updates + 1;
    const float m = state[0] + (1.0F - b1) * (g - state[0]);
    const float v = fmaf(b2, state[1], (1.0F - b2) * g * g);
    const float m_hat = m / (1.0F - powf(b1, t));
    const float v_hat = v / (1.0F - powf(b2, t));

    return (p - (float)o->lr * (float)o->decay * p) -
           (float)o->lr * m_hat / (sqrtf(v_hat) + (float)o->eps);
}

CT_TEST(optimizer, plain_and_other_orders_lie_within_the_bound)
{
    uint32_t seed = 1;

    for (int v = 0; v < VARIANTS; v++) {
        for (int i = 0; i < 20000; i++) {
            const float p = draw(&seed);
            const float g = draw(&seed);
            const float state[OBSERVED_STATES] = {draw(&seed), fabsf(draw(&seed))};
            struct observed_element out[1 + OBSERVED_STATES];
            float other;

            observed_replay(&variants[v], p, g, state, out);
            other = variants[v].kind == DDPROVE_GUEST_SGD ? other_sgd(&variants[v], p, g, state[0])
                                                          : other_adamw(&variants[v], p, g, state);
            for (unsigned s = 0; s < 1 + observed_state_count(&variants[v]); s++) {
                if (!(fabs((double)out[s].plain - out[s].exact) <= out[s].bound)) {
                    CT_FAIL("variant %d: part %u is off by %g, bound %g", v, s,
                            (double)out[s].plain - out[s].exact, out[s].bound);
                }
            }
            if (!(fabs((double)other - out[0].exact) <= out[0].bound)) {
                CT_FAIL("variant %d: another order is off by %g, bound %g", v,
                        (double)other - out[0].exact, out[0].bound);
            }
        }
    }
}

/* Each option, changed by a hundredth, moves most elements out of the bound. */
CT_TEST(optimizer, another_option_does_not)
{
    for (int v = 0; v < VARIANTS; v++) {
        uint32_t seed = 7;
        int seen = 0;

        for (int i = 0; i < 1000; i++) {
            struct observed_options changed = variants[v];
            const float p = draw(&seed);
            const float g = draw(&seed);
            const float state[OBSERVED_STATES] = {draw(&seed), fabsf(draw(&seed))};
            struct observed_element right[1 + OBSERVED_STATES];
            struct observed_element wrong[1 + OBSERVED_STATES];

            changed.lr *= 1.01;
            observed_replay(&variants[v], p, g, state, right);
            observed_replay(&changed, p, g, state, wrong);
            seen += fabs((double)wrong[0].plain - right[0].exact) > right[0].bound;
        }
        if (seen < 900) {
            CT_FAIL("variant %d: %d of 1000", v, seen);
        }
    }
}

CT_TEST(optimizer, numbers_as_PyTorch_gives_them)
{
    const float state[OBSERVED_STATES] = {0.25F, 0.04F};
    struct observed_element out[1 + OBSERVED_STATES];

    observed_replay(&variants[0], 1, 0.5F, state, out); /* 1 - 0.1 * 0.5 */
    CT_CHECK(fabs(out[0].exact - 0.95) < 1e-12);
    observed_replay(&variants[2], 1, 0.5F, state, out); /* buffer 0.9 * 0.25 + 0.5 */
    CT_CHECK(fabs(out[1].exact - 0.725) < 1e-12 && fabs(out[0].exact - (1 - 0.03 * 0.725)) < 1e-12);
    observed_replay(&variants[3], 1, 0.5F, state, out); /* buffer 0.225 + 0.7 * 0.5 */
    CT_CHECK(fabs(out[1].exact - 0.575) < 1e-12);
    observed_replay(&variants[5], 1, 0.5F, state, out); /* the first time no dampening */
    CT_CHECK(fabs(out[1].exact - 0.5) < 1e-12);
    observed_replay(&variants[4], 1, 0.5F, state, out); /* d 0.6, buffer 0.825, d + 0.9 * 0.825 */
    CT_CHECK(fabs(out[0].exact - (1 - 0.03 * (0.6 + 0.9 * 0.825))) < 1e-9);
    observed_replay(&variants[6], 1, 0.5F, (const float[]){0, 0}, out);
    /* the first step of Adam is lr, whatever the gradient */
    CT_CHECK(fabs(out[0].exact - (1 - 1e-3 * 0.01 - 1e-3)) < 1e-9);
}

CT_TEST(optimizer, what_is_known)
{
    struct observed_options options = variants[6];

    CT_CHECK(observed_is_known(&options) && observed_state_count(&options) == 2);
    options.second = 1;
    CT_CHECK(!observed_is_known(&options));
    options = variants[0];
    CT_CHECK(observed_is_known(&options) && observed_state_count(&options) == 0);
    options.lr = (double)NAN;
    CT_CHECK(!observed_is_known(&options));
    options = variants[2];
    CT_CHECK(observed_state_count(&options) == 1);
    options.kind = DDPROVE_GUEST_OTHER_OPTIMIZER;
    CT_CHECK(!observed_is_known(&options));
    options = variants[0];
    options.is_there = false;
    CT_CHECK(!observed_is_known(&options));
}

CT_TEST(optimizer, a_NaN_comes_out_of_a_NaN)
{
    const float state[OBSERVED_STATES] = {0, 0};
    struct observed_element out[1 + OBSERVED_STATES];

    observed_replay(&variants[1], 1, NAN, state, out);
    CT_CHECK(isnan(out[0].exact) && isnan(out[0].plain));
}
