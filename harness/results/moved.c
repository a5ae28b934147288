/* Purpose: name a wrong sum that is made of the right data in the wrong place: an earlier call's,
 * or those of the element beside.
 * Idea: some elements are summed with signs that are the same in every call, and also as they would
 * be if all had moved by one. So what an earlier contribution, or one that has moved, changes in
 * the sum of these elements is known, whoever's it is. */
#include <inttypes.h>
#include <math.h>

#include "harness/guest/observe/project.h"
#include "harness/guest/observe/sums.h"
#include "harness/results/sums.h"

/* So many calls like this one are tried, among so many before it. */
enum { EARLIER_MAX = 3, LOOK_BACK_MAX = 1024, SAID_MAX = 3 };

/* What came out of the elements that were looked at, against what was put in. */
struct moved {
    const struct harness_sums_case *the;
    double off, bound;
    double factor; /* of a contribution in the result */
    enum harness_verdict verdict;
    uint32_t count; /* explanations */
    struct harness_rank_set ranks;
    struct ddp_text words;
};

bool harness_sums_find_sample(const struct harness_sums_case *the,
                              struct harness_sums_sample *sample)
{
    const bool is_common = the->kind == DDPROVE_GUEST_ALL_REDUCE ||
                           the->kind == DDPROVE_GUEST_BROADCAST ||
                           the->kind == DDPROVE_GUEST_ALL_GATHER;
    const uint64_t own = GUEST_SAMPLE_MAX * (uint64_t)the->size + 2 * (uint64_t)the->size + 4;
    double in = 0;
    double out = 0;
    double magnitude = 0;

    if (the->dtype == DDPROVE_GUEST_BYTES) {
        return false;
    }
    for (uint32_t i = 0; i < the->size; i++) {
        const struct harness_watch_call *call = the->members[i].call;

        if (guest_parts_in(the->kind, i, the->root, the->size).count > 0) {
            if (!call->has_sample) {
                return false;
            }
            in += call->in_sample.still;
            magnitude += call->in_sample.magnitude;
        }
        if (guest_parts_out(the->kind, i, the->root, the->size).count > 0 &&
            (i == 0 || !is_common)) {
            out += call->out_sample;
        }
    }
    sample->in = in;
    sample->off = out - in * harness_sums_factor(the);
    sample->bound = harness_sums_is_integer(the)
                        ? (double)own * 0x1p-52 * magnitude
                        : harness_sums_bound(the, magnitude * harness_sums_factor(the), own, own);
    return !isnan(sample->off);
}

/* The change explains the difference, and hardly by chance. */
static bool is_fitting(const struct moved *moved, double change)
{
    const double size = fabs(moved->off);
    const double distance = fabs(moved->off - change * moved->factor);

    return fabs(change * moved->factor) > moved->bound && distance <= moved->bound &&
           harness_sums_is_telling(
               moved->the, harness_sums_is_integer(moved->the) ? fmax(1, distance) : distance,
               size);
}

/* member: the group's size, if it is about all. Returns whether there is room for words. */
static bool add(struct moved *moved, enum harness_verdict verdict, uint32_t member)
{
    const struct harness_sums_case *the = moved->the;

    moved->verdict =
        moved->count == 0 || moved->verdict == verdict ? verdict : HARNESS_VERDICT_VALUE_CORRUPTED;
    for (uint32_t i = 0; i < the->size; i++) {
        if (i == member || member == the->size) {
            harness_rank_set_add(&moved->ranks, the->members[i].rank);
        }
    }
    if (moved->count++ >= SAID_MAX) {
        return false;
    }
    ddp_text_add(&moved->words, "%s", moved->count == 1 ? "as if " : " or ");
    return true;
}

/* --- an earlier call's
 * ------------------------------------------------------------------------------------------------
 */

static bool is_alike(const struct harness_sums_case *the, const struct harness_watch_call *call)
{
    return call != NULL && call->op == the->call->op && call->elem_count == the->call->elem_count &&
           call->bucket == the->call->bucket;
}

/* What a member put into another call; NULL: nothing is known of it. */
static const struct guest_sample *sample_of(const struct harness_sums_case *the, uint32_t member,
                                            uint64_t seq)
{
    const struct harness_watch_call *call =
        harness_watch_call_at(&the->group->members[the->members[member].rank], seq);

    return is_alike(the, call) && call->has_sample ? &call->in_sample : NULL;
}

static void say_earlier(const struct harness_sums_case *the, uint64_t seq, uint32_t member,
                        struct ddp_text *out)
{
    const uint64_t before = the->seq - seq;

    if (member == the->size) {
        ddp_text_add(out, "the ranks' contributions were those");
    } else {
        ddp_text_add(out, "rank %u's contribution was that", the->members[member].rank);
    }
    ddp_text_add(out, " of call %" PRIu64 ", %" PRIu64 " call%s before", seq, before,
                 before == 1 ? "" : "s");
}

/* The whole result may be an earlier one, too. */
static void try_earlier(struct moved *moved, uint64_t seq)
{
    const struct harness_sums_case *the = moved->the;
    double all = 0;
    bool has_all = the->size > 1;

    for (uint32_t i = 0; i < the->size; i++) {
        const struct guest_sample *sample = sample_of(the, i, seq);
        double change;

        if (guest_parts_in(the->kind, i, the->root, the->size).count == 0) {
            continue;
        }
        if (sample == NULL) {
            has_all = false;
            continue;
        }
        change = sample->still - the->members[i].call->in_sample.still;
        all += change;
        if (is_fitting(moved, change) && add(moved, HARNESS_VERDICT_VALUE_STALE, i)) {
            say_earlier(the, seq, i, &moved->words);
        }
    }
    if (has_all && !harness_sums_is_move(the) && is_fitting(moved, all) &&
        add(moved, HARNESS_VERDICT_VALUE_STALE, the->size)) {
        say_earlier(the, seq, the->size, &moved->words);
    }
}

static void find_earlier(struct moved *moved)
{
    const struct harness_sums_case *the = moved->the;
    uint32_t tried = 0;

    for (uint64_t back = 1; back < the->seq && back <= LOOK_BACK_MAX && tried < EARLIER_MAX;
         back++) {
        if (is_alike(the, harness_watch_any_call(the->watch, the->group, the->seq - back))) {
            try_earlier(moved, the->seq - back);
            tried++;
        }
    }
}

/* --- an element further
 * -----------------------------------------------------------------------------------------------
 */

static void find_shifted(struct moved *moved)
{
    const struct harness_sums_case *the = moved->the;

    for (uint32_t i = 0; i < the->size; i++) {
        const struct guest_sample *sample = &the->members[i].call->in_sample;

        if (guest_parts_in(the->kind, i, the->root, the->size).count == 0) {
            continue;
        }
        for (int is_up = 0; is_up < 2; is_up++) {
            const double change = (is_up ? sample->up : sample->down) - sample->still;

            if (is_fitting(moved, change) && add(moved, HARNESS_VERDICT_VALUE_SHIFTED, i)) {
                ddp_text_add(&moved->words, "rank %u's contribution lay one element further %s",
                             the->members[i].rank, is_up ? "up" : "down");
            }
        }
    }
}

bool harness_sums_explain_moved(const struct harness_sums_case *the,
                                struct harness_finding *finding)
{
    struct moved moved = {.the = the,
                          .factor = harness_sums_factor(the),
                          .ranks = harness_rank_set_in(finding->culprits.ranks.mem)};
    struct harness_sums_sample sample;

    if (!harness_sums_find_sample(the, &sample) || !(fabs(sample.off) > sample.bound)) {
        return false;
    }
    moved.off = sample.off;
    moved.bound = sample.bound;
    ddp_text_init(&moved.words, the->watch->mem);
    find_earlier(&moved);
    find_shifted(&moved);
    if (moved.count > 0) {
        finding->verdict = moved.verdict;
        harness_rank_set_add_all(&finding->culprits, &moved.ranks);
        harness_watch_say(finding,
                          "; in the elements that are compared with earlier calls it is %s",
                          ddp_text_str(&moved.words));
        if (moved.count > SAID_MAX) {
            harness_watch_say(finding, ", or in %u other ways", moved.count - SAID_MAX);
        }
    }
    ddp_text_fini(&moved.words);
    return moved.count > 0;
}
