/* What explains that a result is not the sum of what was put in. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "harness/results/sums.h"

static double value_of(uint64_t bits)
{
    double value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

/* What a contribution, or the whole, may have been multiplied by. */
enum { FACTORS = HARNESS_SUMS_CHANGES, SAID_MAX = 4 };

static const double *factors_of(const struct harness_sums_case *the, double out[FACTORS])
{
    const double factors[FACTORS] = {0, 2, 0.5, -1, the->size, 1.0 / the->size};

    memcpy(out, factors, sizeof factors);
    return out;
}

/* What a contribution, or all of them, come to. */
struct candidate {
    double sum, sample; /* sample: of the elements whose signs are the same in every call */
    uint64_t whole;
};

/* How a result is off, in two sums with signs of their own. */
struct wrong {
    const struct harness_sums_off *off;
    bool has_sample;
    struct harness_sums_sample sample;
};

/* Elements that have nothing to do with the factor come as near to what it would change as these do
 * with so small a chance; 1: the second sum refutes it. A product of two such chances, x, is below
 * x with a chance of x (1 - log x). */
static double chance_of(const struct wrong *wrong, double factor, const struct candidate *the)
{
    const struct harness_sums_off *off = wrong->off;
    const double change = (factor - 1) * the->sample;
    const double tolerance = wrong->sample.bound * fmax(1, fabs(factor));
    const double distance = fabs(wrong->sample.off - change);
    const double size = fabs(wrong->sample.off);
    double chance = fabs(off->off - (factor - 1) * the->sum) / fabs(off->off);

    if (wrong->has_sample && distance > tolerance) {
        return 1;
    }
    /* A few elements may have the same signs in both sums, which then say the same. */
    if (wrong->has_sample && size > wrong->sample.bound && chance > 0 &&
        fabs(size - fabs(off->off)) > off->bound + wrong->sample.bound) {
        chance *= fmax(distance / size, DBL_MIN);
        chance *= 1 - log(chance);
    }
    return chance;
}

/* The factor explains the difference, and by more than chance unless that is enough. */
static bool is_fitting(const struct harness_sums_case *the, const struct wrong *wrong,
                       double factor, const struct candidate *candidate, bool is_chance_enough)
{
    const struct harness_sums_off *off = wrong->off;
    const double change = (factor - 1) * candidate->sum;
    const double tolerance = off->bound * fmax(1, fabs(factor));

    if (off->is_integer) {
        const uint64_t below = -off->off_whole & off->mask;

        return factor == floor(factor) && off->off_whole != 0 &&
               ((uint64_t)(int64_t)(factor - 1) * candidate->whole & off->mask) == off->off_whole &&
               (is_chance_enough ||
                harness_sums_is_telling(the, 1,
                                        (double)(below < off->off_whole ? below : off->off_whole)));
    }
    return fabs(off->off) > off->bound && fabs(change) > tolerance &&
           fabs(off->off - change) <= tolerance &&
           (is_chance_enough ||
            harness_sums_is_telling(the, chance_of(wrong, factor, candidate), 1));
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

/* member: the group's size, if it is about all. */
static struct candidate candidate_of(const struct harness_sums_case *the,
                                     const struct harness_sums_total *in, const struct wrong *wrong,
                                     uint32_t member)
{
    const double factor = harness_sums_factor(the);
    const struct harness_watch_call *call;

    if (member >= the->size) {
        return (struct candidate){in->sum * factor, wrong->sample.in * factor, in->whole};
    }
    call = the->members[member].call;
    return (struct candidate){wrong->off->is_integer ? 0 : value_of(call->in.sum) * factor,
                              wrong->has_sample ? call->in_sample.still * factor : 0, call->in.sum};
}

static void find(const struct harness_sums_case *the, const struct harness_sums_total *in,
                 const struct wrong *wrong, bool is_chance_enough, struct explanation *out)
{
    double factors[FACTORS];

    (void)factors_of(the, factors);
    for (uint32_t f = 0; f < FACTORS; f++) {
        bool is_known = factors[f] == 1;

        for (uint32_t e = 0; e < f; e++) {
            is_known = is_known || factors[e] == factors[f];
        }
        for (uint32_t i = 0; !is_known && i < the->size + (the->size > 1); i++) {
            const struct candidate candidate = candidate_of(the, in, wrong, i);

            if (is_fitting(the, wrong, factors[f], &candidate, is_chance_enough)) {
                add(the, factors[f], i, out);
            }
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
    struct wrong wrong = {.off = off};
    bool is_chance;

    wrong.has_sample = harness_sums_find_sample(the, &wrong.sample);
    ddp_text_init(&found.words, the->watch->mem);
    find(the, in, &wrong, false, &found);
    harness_sums_say_off(off, finding);
    is_chance = found.count == 0;
    if (is_chance && harness_sums_explain_moved(the, finding)) {
        ddp_text_fini(&found.words);
        return;
    }
    if (is_chance) {
        find(the, in, &wrong, true, &found);
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
