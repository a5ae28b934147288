/* Results that must be the same on all ranks, and are not. */
#include "harness/results/sums.h"

enum { SAID_MAX = 4 };

/* Bit for bit; where a zero may have either sign, ranks leave it out (guest_sums_done). */
static bool is_in(const struct harness_sums_case *the, const struct harness_sums_camp *camp,
                  uint32_t member)
{
    return the->members[member].call->out.hash == the->members[camp->member].call->out.hash;
}

uint32_t harness_sums_find_camps(const struct harness_sums_case *the,
                                 struct harness_sums_camp *camps)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < the->size; i++) {
        uint32_t c = 0;

        while (c < count && !is_in(the, &camps[c], i)) {
            c++;
        }
        if (c == count) {
            camps[count++] = (struct harness_sums_camp){.member = i};
            harness_sums_add(the, &the->members[i].call->out, &camps[c].total);
        }
        camps[c].count++;
    }
    return count;
}

/* The camp that is right: of those that are not known to be wrong the largest. count: there is no
 * telling. */
static uint32_t pick_right(const struct harness_sums_camp *camps, uint32_t count)
{
    uint32_t right = count;
    uint32_t rivals = 0;

    for (uint32_t c = 0; c < count; c++) {
        if (!camps[c].is_wrong && (right == count || camps[c].count > camps[right].count)) {
            right = c;
        }
    }
    for (uint32_t c = 0; c < count; c++) {
        rivals += !camps[c].is_wrong && camps[c].count == camps[right].count;
    }
    return rivals > 1 ? count : right;
}

static void say_camps(const struct harness_sums_case *the, const struct harness_sums_camp *camps,
                      uint32_t count, struct harness_finding *finding)
{
    for (uint32_t c = 0; c < count && c < SAID_MAX; c++) {
        struct harness_rank_set ranks = harness_rank_set_in(finding->culprits.ranks.mem);
        char text[HARNESS_RANKS_TEXT_BYTES];

        for (uint32_t i = 0; i < the->size; i++) {
            if (is_in(the, &camps[c], i)) {
                harness_rank_set_add(&ranks, the->members[i].rank);
            }
        }
        harness_watch_say(finding, "%s %s%s", c == 0 ? "the results of" : " and of",
                          camps[c].count == 1 ? "rank " : "ranks ",
                          harness_rank_set_text(&ranks, text));
    }
    harness_watch_say(finding, " are not the same");
}

/* How far each is from what was put in. */
static void say_offs(const struct harness_sums_camp *camps, uint32_t count,
                     struct harness_finding *finding)
{
    for (uint32_t c = 0; c < count && c < SAID_MAX; c++) {
        if (camps[c].off.is_integer) {
            harness_watch_say(finding, "%s%s",
                              c == 0 ? "; against what was put in they are " : ", ",
                              camps[c].is_wrong ? "wrong" : "right");
        } else {
            harness_watch_say(finding, "%s%.3g", c == 0 ? "; they are off by " : ", ",
                              camps[c].off.off);
        }
    }
    if (!camps[0].off.is_integer) {
        harness_watch_say(finding, ", where rounding explains %.3g", camps[0].off.bound);
    }
}

void harness_sums_add_diverged(const struct harness_sums_case *the,
                               const struct harness_sums_camp *camps, uint32_t count, bool is_known,
                               struct harness_findings *out)
{
    const uint32_t right = pick_right(camps, count);
    struct harness_finding finding;

    harness_sums_begin(the, HARNESS_VERDICT_VALUE_DIVERGED, HARNESS_MODE_BITWISE, out, &finding);
    for (uint32_t i = 0; i < the->size; i++) {
        if (right == count || !is_in(the, &camps[right], i)) {
            harness_rank_set_add(&finding.culprits, the->members[i].rank);
        }
    }
    say_camps(the, camps, count, &finding);
    if (right == count) {
        harness_watch_say(&finding, "; who is right cannot be told");
    }
    if (is_known) {
        say_offs(camps, count, &finding);
    }
    harness_findings_add(out, &finding);
}
