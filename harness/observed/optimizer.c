/* Purpose: what SGD and AdamW make of an element, twice: in fp32 as a plain program writes it, and
 * in fp64 with a bound on what fp32 may make of it in any order of operations, fused or not.
 *
 * With u = 2^-24, a value that k fp32 operations make of terms whose magnitudes add up to M is off
 * by at most k u M (to first order; the constants below are rounded up for the rest). */
#include "harness/observed/optimizer.h"

#include <float.h>
#include <math.h>

#include "harness/guest/ddprove_guest.h"

static const double unit = 0x1p-24;

/* Below this, results are subnormal, and may be flushed to zero. */
static const double tiny = 0x1p-120;

unsigned observed_state_count(const struct observed_options *options)
{
    if (options->kind == DDPROVE_GUEST_ADAMW) {
        return 2;
    }
    return options->kind == DDPROVE_GUEST_SGD && !(options->first == 0);
}

bool observed_is_known(const struct observed_options *options)
{
    const bool is_finite = isfinite(options->lr) && isfinite(options->decay) &&
                           isfinite(options->first) && isfinite(options->second) &&
                           isfinite(options->eps);

    if (!options->is_there || !is_finite) {
        return false;
    }
    if (options->kind == DDPROVE_GUEST_ADAMW) {
        return options->first >= 0 && options->first < 1 && options->second >= 0 &&
               options->second < 1 && options->eps >= 0;
    }
    return options->kind == DDPROVE_GUEST_SGD;
}

/* torch.optim.SGD: d = g + decay p; b = momentum b + (1 - dampening) d, the first time d; d = d +
 * momentum b if nesterov, else b; p = p - lr d. */
static void replay_sgd(const struct observed_options *o, float param, float gradient, float buffer,
                       struct observed_element *out)
{
    const bool has_buffer = !(o->first == 0);
    const bool is_first = o->updates == 0;
    const double p = (double)param;
    const double g = (double)gradient;
    const double b = (double)buffer;
    const double size = fabs(g) + fabs(o->decay * p); /* of d's terms */
    double d = g + o->decay * p;
    float plain = gradient;
    float plain_buffer = buffer;
    double next = d;
    double next_size = size;
    double total = size;

    if (!(o->decay == 0)) {
        plain = plain + (float)o->decay * param;
    }
    if (has_buffer) {
        plain_buffer = is_first ? plain : (float)o->first * buffer + (float)(1 - o->second) * plain;
        next = is_first ? d : o->first * b + (1 - o->second) * d;
        /* 1 - dampening may be taken of numbers that were rounded before */
        next_size = is_first ? size : fabs(o->first * b) + (1 + 2 * fabs(o->second)) * size;
        plain = o->is_nesterov ? plain + (float)o->first * plain_buffer : plain_buffer;
        total = o->is_nesterov ? size + fabs(o->first) * next_size : next_size;
        d = o->is_nesterov ? d + o->first * next : next;
    }
    out[0].plain = param - (float)o->lr * plain;
    out[0].exact = p - o->lr * d;
    out[0].bound = 2 * unit * (fabs(p) + fabs(o->lr * d)) + 16 * unit * fabs(o->lr) * total + tiny;
    out[1].plain = plain_buffer;
    out[1].exact = next;
    out[1].bound = 8 * unit * next_size + tiny;
}

/* torch.optim.AdamW, with t = updates + 1: p = p (1 - lr decay); m = b1 m + (1 - b1) g; v = b2 v +
 * (1 - b2) g g; p = p - lr / (1 - b1^t) m / (sqrt(v) / sqrt(1 - b2^t) + eps). In fp32 1 - b is off
 * by up to u b / (1 - b) of itself, and 1 - b^t by t u b^t / (1 - b^t). */
static void replay_adamw(const struct observed_options *o, float param, float gradient,
                         const float state[OBSERVED_STATES], struct observed_element *out)
{
    const double t = (double)o->updates + 1;
    const double p = (double)param;
    const double g = (double)gradient;
    const double power_1 = pow(o->first, t);
    const double power_2 = pow(o->second, t);
    const double left_1 = 1 - power_1;
    const double left_2 = 1 - power_2;
    const double off_1 = unit * (8 + 2 * o->first / (1 - o->first));
    const double off_2 = unit * (8 + 2 * o->second / (1 - o->second));
    const double m = o->first * (double)state[0] + (1 - o->first) * g;
    const double m_size = fabs(o->first * (double)state[0]) + fabs((1 - o->first) * g);
    const double v = o->second * (double)state[1] + (1 - o->second) * g * g;
    const double root = sqrt(v) / sqrt(left_2) + o->eps;
    const double rate = o->lr / left_1;
    /* of the whole step, relative to its terms' magnitudes; a root halves what is below it */
    const double off = off_1 + off_2 / 2 + 2 * t * unit * power_1 / left_1 +
                       t * unit * power_2 / left_2 + 16 * unit;
    const float plain_m = (float)o->first * state[0] + (float)(1 - o->first) * gradient;
    const float plain_v =
        (float)o->second * state[1] + (float)(1 - o->second) * gradient * gradient;
    const float plain_root = sqrtf(plain_v) / (float)sqrt(left_2) + (float)o->eps;

    out[0].plain = param * (float)(1 - o->lr * o->decay) - (float)rate * (plain_m / plain_root);
    out[0].exact = p * (1 - o->lr * o->decay) - rate * m / root;
    out[0].bound = 4 * unit * (fabs(p) * (1 + fabs(o->lr * o->decay)) + fabs(rate * m / root)) +
                   off * fabs(rate) * m_size / root + tiny;
    out[1].plain = plain_m;
    out[1].exact = m;
    out[1].bound = off_1 * m_size + tiny;
    out[2].plain = plain_v;
    out[2].exact = v;
    out[2].bound = off_2 * v + tiny;
}

void observed_replay(const struct observed_options *options, float param, float gradient,
                     const float state[OBSERVED_STATES], struct observed_element *out)
{
    if (options->kind == DDPROVE_GUEST_ADAMW) {
        replay_adamw(options, param, gradient, state, out);
    } else {
        replay_sgd(options, param, gradient, state[0], out);
        out[2] = (struct observed_element){.plain = 0};
    }
}
