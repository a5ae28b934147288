/* Purpose: judge a sum element by element, from data that ranks have kept in files.
 * Idea: most elements show in which order the sum was taken. One that this order does not give is
 * wrong if it lies outside of what rounding explains, or if no order at all gives it. Then single
 * changes of single contributions are tried: what explains it is said. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "harness/results/kept.h"

enum { NAMED_WRONG_MAX = 16, SAID_MAX = 3, SHIFT_MAX = 4096 };

/* --- which elements are wrong
 * ------------------------------------------------------------------------------------- */

/* The result of an element may be this, in whatever order, if a contribution is another value;
 * changed: size if none is. */
static bool is_within(const struct harness_kept *kept, uint64_t elem, double result,
                      uint32_t changed, double value)
{
    const struct harness_sums_case *the = kept->the;
    const double factor = harness_sums_factor(the);
    double sum = 0;
    double magnitude = 0;

    for (uint32_t i = 0; i < the->size; i++) {
        const double in = i == changed ? value : kept->in[i * kept->count + elem];

        sum += in * factor;
        magnitude += fabs(in) * factor;
    }
    return fabs(result - sum) <= harness_sums_bound(the, magnitude, 1, 2 * (uint64_t)the->size + 4);
}

/* A processor that flushes subnormal numbers to zero gives what no order does. */
static bool is_tiny(const struct harness_kept *kept, uint64_t elem)
{
    double magnitude = 0;

    for (uint32_t i = 0; i < kept->the->size; i++) {
        magnitude += fabs(kept->in[i * kept->count + elem]);
    }
    return magnitude < 0x1p30 * harness_sums_precision(kept->the->dtype).flushed;
}

static void add_wrong(struct harness_kept *kept, uint64_t elem)
{
    if (kept->wrong_count < HARNESS_KEPT_WRONG_MAX) {
        kept->wrong[kept->wrong_count] = elem;
    }
    kept->wrong_count++;
}

static void find_wrong(struct harness_kept *kept)
{
    const uint32_t none = kept->the->size;

    harness_orders_find(kept->orders, &kept->fit);
    for (uint64_t e = 0; e < kept->count; e++) {
        if (!is_within(kept, e, kept->out[e], none, 0)) {
            add_wrong(kept, e);
        }
    }
    for (uint64_t i = 0; kept->fit.is_known && i < kept->fit.rest_count; i++) {
        const uint64_t e = kept->fit.rest[i];

        if (is_within(kept, e, kept->out[e], none, 0) && !is_tiny(kept, e) &&
            !harness_orders_can_give(kept->orders, e)) {
            add_wrong(kept, e);
        }
    }
    kept->is_by_order = kept->fit.is_known && kept->fit.rest_count == kept->wrong_count;
}

/* --- what explains them
 * ------------------------------------------------------------------------------------------- */

/* Changes of a contribution: a bit flips, and two more. */
enum { CHANGE_ZERO = 64, CHANGE_DOUBLE = 65, CHANGES = 66 };

/* What explains an element. */
struct explained {
    bool *by_rank;           /* [size], by member */
    bool by_result;          /* a bit of the result itself, whoever's it is */
    uint32_t count;          /* in how many ways by a rank */
    uint32_t member, change; /* the last one */
    bool is_zero, is_double; /* each of them */
    bool is_near;            /* up to rounding, in whatever order */
    struct ddp_text words;
};

static bool is_explained(struct harness_kept *kept, uint64_t elem, uint32_t member, double value)
{
    if (!isfinite(value)) {
        return false;
    }
    return kept->is_by_order
               ? harness_orders_evaluate(kept->orders, member, value) == kept->out[elem]
               : is_within(kept, elem, kept->out[elem], member, value);
}

/* False: it changes nothing, or there is no such bit. */
static bool change_of(const struct harness_kept *kept, uint64_t elem, uint32_t member,
                      uint32_t change, double *out)
{
    const double value = kept->in[member * kept->count + elem];

    if (change < 64) {
        *out = harness_kept_decode(kept->the->dtype,
                                   harness_kept_bits(kept, kept->raw_in[member], elem) ^
                                       UINT64_C(1) << change);
        return change < 8 * kept->elem_bytes;
    }
    *out = change == CHANGE_ZERO ? 0 : 2 * value;
    return !(value == 0);
}

static void say_change(const struct harness_kept *kept, uint32_t member, uint32_t change,
                       struct explained *out)
{
    ddp_text_add(&out->words, "%srank %u's ", out->count == 0 ? "" : " or ",
                 kept->the->members[member].rank);
    if (change < 64) {
        ddp_text_add(&out->words, "contribution with bit %u flipped", change);
    } else {
        ddp_text_add(&out->words, "contribution %s", change == CHANGE_ZERO ? "left out" : "twice");
    }
}

/* In what a rank put in only one thing can have happened: if some input is known to have changed,
 * in that one. */
static bool is_suspect(const struct harness_kept *kept, uint32_t member)
{
    return !kept->has_changed || kept->the->members[member].call->has_changed;
}

static void explain_by_ranks(struct harness_kept *kept, uint64_t elem, struct explained *out)
{
    const struct harness_sums_case *the = kept->the;

    out->is_zero = out->is_double = true;
    for (uint32_t i = 0; i < the->size; i++) {
        for (uint32_t c = 0; c < CHANGES; c++) {
            double value;

            if (is_suspect(kept, i) && change_of(kept, elem, i, c, &value) &&
                is_explained(kept, elem, i, value)) {
                if (out->count < SAID_MAX) {
                    say_change(kept, i, c, out);
                }
                out->by_rank[i] = true;
                out->count++;
                out->is_zero = out->is_zero && c == CHANGE_ZERO;
                out->is_double = out->is_double && c == CHANGE_DOUBLE;
            }
        }
    }
}

static void explain_by_result(struct harness_kept *kept, uint64_t elem, struct explained *out)
{
    const struct harness_sums_case *the = kept->the;
    const uint64_t result = harness_kept_bits(kept, kept->raw_out, elem);

    for (uint32_t bit = 0; bit < 8 * kept->elem_bytes && !kept->has_changed; bit++) {
        const double value = harness_kept_decode(the->dtype, result ^ UINT64_C(1) << bit);

        out->by_result =
            out->by_result ||
            (kept->is_by_order ? value == harness_orders_evaluate(kept->orders, the->size, 0)
                               : is_within(kept, elem, value, the->size, 0));
    }
}

/* The order that is known may be one of several that give the other elements, and not this one's:
 * what it does not explain may lie within the bound. */
static void explain(struct harness_kept *kept, uint64_t elem, struct explained *out)
{
    const bool is_by_order = kept->is_by_order;

    if (is_by_order) {
        harness_orders_aim(kept->orders, &kept->fit, elem);
    }
    explain_by_ranks(kept, elem, out);
    explain_by_result(kept, elem, out);
    if (is_by_order && out->count == 0 && !out->by_result) {
        kept->is_by_order = false;
        explain_by_ranks(kept, elem, out);
        explain_by_result(kept, elem, out);
        kept->is_by_order = true;
        out->is_near = out->count > 0 || out->by_result;
    }
}

static void say_element(struct harness_kept *kept, uint64_t elem, const struct explained *found,
                        struct harness_finding *finding)
{
    harness_watch_say(finding, "element %" PRIu64 " is %.9g, ", elem, kept->out[elem]);
    if (kept->is_by_order) {
        harness_orders_aim(kept->orders, &kept->fit, elem);
        harness_watch_say(finding, "and %.9g in the order in which the others were added",
                          harness_orders_evaluate(kept->orders, kept->the->size, 0));
    } else {
        harness_watch_say(finding, "which no order of additions gives");
    }
    if (kept->wrong_count > 1) {
        harness_watch_say(finding, " (%" PRIu64 " elements are wrong)", kept->wrong_count);
    }
    if (found->count > 0) {
        harness_watch_say(finding, "; %s the sum with %s",
                          found->is_near ? "up to rounding it is" : "it is",
                          ddp_text_str(&found->words));
    }
    if (found->count > SAID_MAX) {
        harness_watch_say(finding, " or in %u other ways", found->count - SAID_MAX);
    }
    if (found->by_result) {
        harness_watch_say(finding, "%s the result itself with a bit flipped",
                          found->count > 0 ? "; or" : "; it is");
    }
}

/* Ranks that explain every wrong element; all, if it may be nobody's. named: [size]. */
static void name_culprits(struct harness_kept *kept, const struct explained *first, bool *named,
                          struct harness_finding *finding)
{
    const struct harness_sums_case *the = kept->the;
    bool is_any = first->by_result;
    uint32_t count = 0;

    memcpy(named, first->by_rank, the->size * sizeof *named);
    for (uint64_t w = 1; w < kept->wrong_count; w++) {
        struct explained next = {.by_rank = first->by_rank};

        memset(next.by_rank, 0, the->size * sizeof *next.by_rank);
        ddp_text_init(&next.words, kept->mem);
        explain(kept, kept->wrong[w], &next);
        ddp_text_fini(&next.words);
        is_any = is_any && next.by_result;
        for (uint32_t i = 0; i < the->size; i++) {
            named[i] = named[i] && next.by_rank[i];
        }
    }
    for (uint32_t i = 0; i < the->size; i++) {
        count += named[i];
    }
    for (uint32_t i = 0; i < the->size; i++) {
        if (named[i] || (count == 0 && is_suspect(kept, i)) || is_any) {
            harness_rank_set_add(&finding->culprits, the->members[i].rank);
        }
    }
}

/* All elements are what they would be if all of a contribution were multiplied by this. */
static bool is_whole(const struct harness_kept *kept, uint32_t member, double factor)
{
    for (uint64_t e = 0; e < kept->count; e++) {
        if (!is_within(kept, e, kept->out[e], member,
                       factor * kept->in[member * kept->count + e])) {
            return false;
        }
    }
    return true;
}

/* What happened to all of a contribution. */
struct whole {
    uint32_t count; /* explanations, of different ranks or kinds */
    uint32_t member;
    double factor; /* 1: it was not multiplied */
    int64_t shift; /* elements up; 0: it did not move */
};

static void find_factor(const struct harness_kept *kept, struct whole *out)
{
    static const double factors[] = {0, 2, 0.5, -1};

    for (uint32_t i = 0; i < kept->the->size; i++) {
        for (size_t f = 0; f < sizeof factors / sizeof factors[0]; f++) {
            if (is_suspect(kept, i) && is_whole(kept, i, factors[f])) {
                *out = (struct whole){out->count + 1, i, factors[f], 0};
            }
        }
    }
}

/* All elements are what they would be with the contribution of so many elements before, and most of
 * the wrong ones are among them: of those at the end that has nothing before it, nothing is known.
 */
static bool is_shifted(const struct harness_kept *kept, uint32_t member, int64_t shift)
{
    const uint64_t count = kept->count - (uint64_t)(shift < 0 ? -shift : shift);
    const uint64_t to = shift < 0 ? 0 : (uint64_t)shift;
    const uint64_t from = shift < 0 ? (uint64_t)-shift : 0;
    uint64_t explained = 0;

    for (uint64_t i = 0; i < count; i++) {
        const double result = kept->out[to + i];

        if (!is_within(kept, to + i, result, member, kept->in[member * kept->count + from + i])) {
            return false;
        }
        explained += !is_within(kept, to + i, result, kept->the->size, 0);
    }
    return explained >= kept->wrong_count - kept->wrong_count / 4;
}

/* By how much, is hardly ever more than one answer; the smallest one is said. */
static void find_shift(const struct harness_kept *kept, struct whole *out)
{
    const int64_t most = kept->count / 4 < SHIFT_MAX ? (int64_t)(kept->count / 4) : SHIFT_MAX;

    for (uint32_t i = 0; i < kept->the->size; i++) {
        int64_t found = 0;

        for (int64_t k = 1; k <= most && found == 0 && is_suspect(kept, i); k++) {
            found = is_shifted(kept, i, k) ? k : is_shifted(kept, i, -k) ? -k : 0;
        }
        if (found != 0) {
            *out = (struct whole){out->count + 1, i, 1, found};
        }
    }
}

static void say_whole(const struct harness_kept *kept, const struct whole *whole,
                      struct harness_finding *finding)
{
    const uint32_t rank = kept->the->members[whole->member].rank;

    harness_watch_say(
        finding, "%" PRIu64 " of %" PRIu64 " elements lie outside of what rounding explains; all ",
        kept->wrong_count, kept->count);
    if (whole->shift == 0) {
        harness_watch_say(finding, "are the sum with rank %u's contribution multiplied by %g", rank,
                          whole->factor);
    } else {
        harness_watch_say(finding,
                          "for which it can be told are the sum with rank %u's contribution "
                          "%" PRId64 " element%s further %s",
                          rank, whole->shift < 0 ? -whole->shift : whole->shift,
                          whole->shift == 1 || whole->shift == -1 ? "" : "s",
                          whole->shift < 0 ? "down" : "up");
    }
}

/* Many elements are wrong. Returns whether one thing, and one only, that happened to a whole
 * contribution explains them. */
static bool add_whole(struct harness_kept *kept, struct harness_findings *out)
{
    struct whole whole = {.factor = 1};
    struct harness_finding finding;

    find_factor(kept, &whole);
    if (whole.count == 0) {
        find_shift(kept, &whole);
    }
    if (whole.count != 1) {
        return false;
    }
    harness_sums_begin(kept->the,
                       whole.shift != 0    ? HARNESS_VERDICT_VALUE_SHIFTED
                       : whole.factor == 0 ? HARNESS_VERDICT_VALUE_LOST
                       : whole.factor == 2 ? HARNESS_VERDICT_VALUE_DUPLICATED
                                           : HARNESS_VERDICT_VALUE_SCALED,
                       HARNESS_MODE_BOUND, out, &finding);
    harness_rank_set_add(&finding.culprits, kept->the->members[whole.member].rank);
    say_whole(kept, &whole, &finding);
    harness_findings_add(out, &finding);
    return true;
}

static void add_finding(struct harness_kept *kept, struct harness_findings *out)
{
    const struct harness_sums_case *the = kept->the;
    struct harness_finding finding;
    struct explained found = {.by_result = false};
    bool *named = ddp_mem_array(kept->mem, the->size, sizeof *named);

    found.by_rank = ddp_mem_array(kept->mem, the->size, sizeof *found.by_rank);
    if (named == NULL || found.by_rank == NULL) {
        the->watch->is_failed = true;
        ddp_mem_free(kept->mem, named);
        ddp_mem_free(kept->mem, found.by_rank);
        return;
    }
    harness_sums_begin(the, HARNESS_VERDICT_VALUE_CORRUPTED, HARNESS_MODE_BITWISE, out, &finding);
    ddp_text_init(&found.words, kept->mem);
    if (kept->wrong_count <= NAMED_WRONG_MAX) {
        explain(kept, kept->wrong[0], &found);
        if (found.count > 0 && !found.by_result && (found.is_zero || found.is_double)) {
            finding.verdict =
                found.is_zero ? HARNESS_VERDICT_VALUE_LOST : HARNESS_VERDICT_VALUE_DUPLICATED;
        }
        say_element(kept, kept->wrong[0], &found, &finding);
        name_culprits(kept, &found, named, &finding);
    } else {
        say_element(kept, kept->wrong[0], &found, &finding);
        for (uint32_t i = 0; i < the->size; i++) {
            if (is_suspect(kept, i)) {
                harness_rank_set_add(&finding.culprits, the->members[i].rank);
            }
        }
    }
    harness_findings_add(out, &finding);
    ddp_text_fini(&found.words);
    ddp_mem_free(kept->mem, named);
    ddp_mem_free(kept->mem, found.by_rank);
}

enum harness_sums_exact harness_sums_judge_exact(const struct harness_sums_case *the,
                                                 const struct harness_sums_off *off,
                                                 struct harness_findings *out)
{
    const struct guest_arena *arena = the->watch->arena;
    struct harness_kept kept;
    enum harness_sums_exact judged = HARNESS_SUMS_NOT_KEPT;

    if (off->is_integer ||
        (the->kind != DDPROVE_GUEST_ALL_REDUCE && the->kind != DDPROVE_GUEST_REDUCE) ||
        the->call->step < arena->keep_first || the->call->step >= arena->keep_end ||
        (!off->is_integer && !isfinite(off->off))) {
        return judged;
    }
    if (harness_kept_open(the, &kept)) {
        find_wrong(&kept);
        judged = kept.fit.is_known && kept.fit.rest_count == 0 ? HARNESS_SUMS_BITWISE
                                                               : HARNESS_SUMS_BOUND;
        if (kept.wrong_count > NAMED_WRONG_MAX && add_whole(&kept, out)) {
            judged = HARNESS_SUMS_WRONG;
        } else if (kept.wrong_count > 0 && !(kept.wrong_count > NAMED_WRONG_MAX && off->is_wrong)) {
            judged = HARNESS_SUMS_WRONG;
            add_finding(&kept, out);
        }
    }
    harness_kept_close(&kept);
    return judged;
}
