/* Purpose: tell a wrong sum from one that is rounded, and say what is wrong with it.
 * Idea: for W contributions x_r, added in any order in a type of unit roundoff u, Higham ("Accuracy
 * and Stability of Numerical Algorithms", 2nd ed., section 4.2, (4.4)) gives for every element
 *     |result - sum x_r| <= g(W - 1) * sum |x_r|,   g(k) = k u / (1 - k u),
 * additions being exact where their result is subnormal. A projection with signs s_i = +-1 is off
 * by the sum over the elements at most. Rounding less often, as in a wider type, is less. An
 * average may divide before or after the sum, or multiply by 1 / W, which is rounded itself: three
 * more factors, and half a subnormal number for each of W + 1 divisions. Where subnormal numbers
 * are flushed to zero, each of W operands and W results loses the smallest normal number at most.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "harness/guest/observe/project.h"
#include "harness/guest/observe/sums.h"
#include "harness/results/sums.h"

struct harness_sums_precision harness_sums_precision(uint32_t dtype)
{
    switch ((enum ddprove_guest_dtype)dtype) {
    case DDPROVE_GUEST_F16: /* no processor flushes these */
        return (struct harness_sums_precision){0x1p-11, 0x1p-24, 0, 65504};
    case DDPROVE_GUEST_BF16:
        return (struct harness_sums_precision){0x1p-8, 0x1p-133, 0x1p-126, 0x1.fep127};
    case DDPROVE_GUEST_F64:
        return (struct harness_sums_precision){0x1p-53, 0x1p-1074, 0x1p-1022, DBL_MAX};
    default:
        return (struct harness_sums_precision){0x1p-24, 0x1p-149, 0x1p-126, (double)FLT_MAX};
    }
}

double harness_sums_bound(const struct harness_sums_case *the, double magnitude,
                          uint64_t elem_count, uint64_t own)
{
    const struct harness_sums_precision precision = harness_sums_precision(the->dtype);
    const bool is_average = the->redop == DDPROVE_GUEST_AVG;
    const double size = the->size;
    const double k = harness_sums_is_move(the) ? 0 : is_average ? size + 2 : size - 1;
    double rounding;

    if (k * precision.unit >= 1) {
        return (double)INFINITY;
    }
    rounding = k * precision.unit / (1 - k * precision.unit) * magnitude;
    if (k > 0) {
        rounding += (double)elem_count * (2 * size * precision.flushed +
                                          (is_average ? (size + 1) * precision.subnormal : 0));
    }
    /* The sums of what went in and of what came out are rounded too, each addition by 2^-53 of at
     * most the magnitude; 2^-20: for the products of such factors, and the arithmetic here. */
    return (rounding + (double)own * 0x1p-53 * (2 * magnitude + rounding)) * (1 + 0x1p-20);
}

/* --- projections
 * --------------------------------------------------------------------------------------------------
 */

static double value_of(uint64_t bits)
{
    double value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

/* What is to come out of a sum of what was put in. */
static double factor_of(const struct harness_sums_case *the)
{
    return the->redop == DDPROVE_GUEST_AVG ? 1.0 / the->size : 1.0;
}

/* Elements of all parts. */
static uint64_t elem_count_of(const struct harness_sums_case *the)
{
    switch ((enum ddprove_guest_kind)the->kind) {
    case DDPROVE_GUEST_ALL_REDUCE:
    case DDPROVE_GUEST_REDUCE:
    case DDPROVE_GUEST_BROADCAST:
        return the->call->elem_count;
    case DDPROVE_GUEST_ALL_TO_ALL:
        return the->call->elem_count * the->size * the->size;
    default:
        return the->call->elem_count * the->size;
    }
}

/* Integers wrap at their width if the sum of absolute values allows it. */
static uint64_t mask_of(const struct harness_sums_case *the, double magnitude)
{
    const uint32_t width_bits = guest_project_width_bits(the->dtype);
    const bool may_wrap = !(magnitude * (1 + 0x1p-15) < ldexp(1, (int)width_bits - 1));

    return may_wrap && width_bits < 64 ? (UINT64_C(1) << width_bits) - 1 : UINT64_MAX;
}

struct harness_sums_off harness_sums_compare(const struct harness_sums_case *the,
                                             const struct harness_sums_total *in,
                                             const struct harness_sums_total *out)
{
    struct harness_sums_off off = {.is_integer = harness_sums_is_integer(the)};
    const uint64_t own = guest_project_chain(the->call->elem_count) + 2 * (uint64_t)the->size + 4;

    if (off.is_integer) {
        off.mask = harness_sums_is_move(the) ? UINT64_MAX : mask_of(the, in->magnitude);
        off.off_whole = (out->whole - in->whole) & off.mask;
        off.is_wrong = off.off_whole != 0;
    } else {
        /* 2^-15: a magnitude is known up to 2^-16 of itself. */
        off.off = out->sum - in->sum * factor_of(the);
        off.bound = harness_sums_bound(the, in->magnitude * factor_of(the) * (1 + 0x1p-15),
                                       elem_count_of(the), own);
        off.is_wrong = !(fabs(off.off) <= off.bound);
    }
    if (harness_sums_is_move(the)) {
        off.is_wrong = in->hash != out->hash;
    }
    return off;
}

bool harness_sums_is_blind(const struct harness_sums_case *the, const struct harness_sums_off *off)
{
    for (uint32_t i = 0; i < the->size && !off->is_integer && !harness_sums_is_move(the); i++) {
        const struct harness_watch_value *in = &the->members[i].call->in;

        /* Whether a contribution of zeros is missing makes no difference. */
        if (value_of(in->magnitude) > 0 &&
            !(off->bound < fabs(value_of(in->sum)) * factor_of(the))) {
            return true;
        }
    }
    return false;
}

/* --- what would explain it
 * ----------------------------------------------------------------------------------------
 */

/* What a contribution, or the whole, may have been multiplied by. */
enum { FACTORS = HARNESS_SUMS_CHANGES, SAID_MAX = 4 };

static const double *factors_of(const struct harness_sums_case *the, double out[FACTORS])
{
    const double factors[FACTORS] = {0, 2, 0.5, -1, the->size, 1.0 / the->size};

    memcpy(out, factors, sizeof factors);
    return out;
}

/* The factor explains the difference, and by more than chance unless that is enough. */
static bool is_fitting(const struct harness_sums_case *the, const struct harness_sums_off *off,
                       double factor, double sum, uint64_t whole, bool is_chance_enough)
{
    const double change = (factor - 1) * sum;
    const double tolerance = off->bound * fmax(1, fabs(factor));

    if (off->is_integer) {
        const uint64_t below = -off->off_whole & off->mask;

        return factor == floor(factor) && off->off_whole != 0 &&
               ((uint64_t)(int64_t)(factor - 1) * whole & off->mask) == off->off_whole &&
               (is_chance_enough ||
                harness_sums_is_telling(the, 1,
                                        (double)(below < off->off_whole ? below : off->off_whole)));
    }
    return fabs(off->off) > off->bound && fabs(change) > tolerance &&
           fabs(off->off - change) <= tolerance &&
           (is_chance_enough ||
            harness_sums_is_telling(the, fabs(off->off - change), fabs(off->off)));
}

static enum harness_verdict verdict_of(double factor, bool is_whole)
{
    if (factor == 0) {
        return HARNESS_VERDICT_VALUE_LOST;
    }
    return factor == 2 && !is_whole ? HARNESS_VERDICT_VALUE_DUPLICATED
                                    : HARNESS_VERDICT_VALUE_SCALED;
}

struct explanation {
    enum harness_verdict verdict; /* NONE: nothing fits; CORRUPTED: several things do */
    uint32_t count;
    struct harness_rank_set ranks;
    struct ddp_text words;
};

/* rank: of the job; the group's size or more: all of them. */
static void add(const struct harness_sums_case *the, double factor, uint32_t member,
                struct explanation *out)
{
    const bool is_whole = member >= the->size;
    const enum harness_verdict verdict = verdict_of(factor, is_whole);

    out->verdict =
        out->count == 0 || out->verdict == verdict ? verdict : HARNESS_VERDICT_VALUE_CORRUPTED;
    for (uint32_t i = is_whole ? 0 : member; i < (is_whole ? the->size : member + 1); i++) {
        harness_rank_set_add(&out->ranks, the->members[i].rank);
    }
    if (out->count++ >= SAID_MAX) {
        return;
    }
    ddp_text_add(&out->words, "%s", out->count == 1 ? "as if " : " or ");
    if (is_whole) {
        ddp_text_add(&out->words, "all of it");
    } else {
        ddp_text_add(&out->words, "rank %u's contribution", the->members[member].rank);
    }
    if (factor == 0) {
        ddp_text_add(&out->words, " were left out");
    } else if (factor == 2) {
        ddp_text_add(&out->words, " were counted twice");
    } else {
        ddp_text_add(&out->words, " were multiplied by %.6g", factor);
    }
}

static void find(const struct harness_sums_case *the, const struct harness_sums_total *in,
                 const struct harness_sums_off *off, bool is_chance_enough, struct explanation *out)
{
    double factors[FACTORS];

    (void)factors_of(the, factors);
    for (uint32_t f = 0; f < FACTORS; f++) {
        bool is_known = factors[f] == 1;

        for (uint32_t e = 0; e < f; e++) {
            is_known = is_known || factors[e] == factors[f];
        }
        for (uint32_t i = 0; !is_known && i < the->size; i++) {
            const uint64_t bits = the->members[i].call->in.sum;

            if (is_fitting(the, off, factors[f],
                           off->is_integer ? 0 : value_of(bits) * factor_of(the), bits,
                           is_chance_enough)) {
                add(the, factors[f], i, out);
            }
        }
        if (!is_known && the->size > 1 &&
            is_fitting(the, off, factors[f], in->sum * factor_of(the), in->whole,
                       is_chance_enough)) {
            add(the, factors[f], the->size, out);
        }
    }
}

void harness_sums_say_off(const struct harness_sums_off *off, struct harness_finding *finding)
{
    if (off->is_integer) {
        harness_watch_say(finding, ", off by %lld in a sum with random signs",
                          (long long)(int64_t)off->off_whole);
    } else {
        harness_watch_say(finding,
                          ", off by %.6g in a sum with random signs, where rounding explains %.3g "
                          "(a change of more than %.3g in one element cannot be missed)",
                          off->off, off->bound, 2 * off->bound);
    }
}

void harness_sums_explain(const struct harness_sums_case *the, const struct harness_sums_total *in,
                          const struct harness_sums_off *off, struct harness_finding *finding)
{
    struct explanation found = {.ranks = harness_rank_set_in(finding->culprits.ranks.mem)};
    bool is_chance;

    ddp_text_init(&found.words, the->watch->mem);
    find(the, in, off, false, &found);
    harness_sums_say_off(off, finding);
    is_chance = found.count == 0;
    if (is_chance && harness_sums_explain_moved(the, finding)) {
        ddp_text_fini(&found.words);
        return;
    }
    if (is_chance) {
        find(the, in, off, true, &found);
    }
    if (is_chance) {
        harness_sums_blame_all(the, finding);
        harness_watch_say(finding, "; sums do not tell the ranks apart");
        if (found.count > 0) {
            harness_watch_say(finding, ", though it is %s: numbers so small may do that by chance",
                              ddp_text_str(&found.words));
        }
    } else {
        finding->verdict = found.verdict;
        harness_rank_set_add_all(&finding->culprits, &found.ranks);
        harness_watch_say(finding, ", %s", ddp_text_str(&found.words));
        if (found.count > SAID_MAX) {
            harness_watch_say(finding, ", or in %u other ways", found.count - SAID_MAX);
        }
    }
    ddp_text_fini(&found.words);
}
