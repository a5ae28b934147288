/* What explains that a result is not the sum of what was put in. */
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
                           off->is_integer ? 0 : value_of(bits) * harness_sums_factor(the), bits,
                           is_chance_enough)) {
                add(the, factors[f], i, out);
            }
        }
        if (!is_known && the->size > 1 &&
            is_fitting(the, off, factors[f], in->sum * harness_sums_factor(the), in->whole,
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
