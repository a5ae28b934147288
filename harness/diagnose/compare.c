/* The calls of a group's members against each other. Ranks that post the same calls are right
 * together; where they part, the majority is right, or the side that goes on as all had done
 * before. A call that is left out shifts all that follow: so what comes behind the difference is
 * aligned. */
#include <stdlib.h>
#include <string.h>

#include "harness/diagnose/stream.h"

enum { SHIFT_MAX = 8, BY_STACK_MIN = 2 };

/* How one side's calls lie against the other's, behind the first difference. */
struct fit {
    enum harness_verdict verdict; /* NONE: nothing fits */
    size_t matched, left;         /* calls that meet an equal one, and that meet none */
    size_t shift;                 /* calls by which they lie apart */
};

static bool is_equal(const uint64_t *a, const uint64_t *b, size_t count)
{
    return memcmp(a, b, count * sizeof *a) == 0;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static void consider(struct fit *best, enum harness_verdict verdict, size_t matched, size_t left,
                     size_t shift)
{
    if (matched > best->matched || (matched == best->matched && matched > 0 && left < best->left)) {
        *best = (struct fit){verdict, matched, left, shift};
    }
}

static size_t difference(size_t a, size_t b)
{
    return a > b ? a - b : b - a;
}

/* a: the side that is held to be wrong. One call replaced comes first, so that it wins ties. */
static struct fit find_fit(const uint64_t *a, size_t a_count, const uint64_t *b, size_t b_count)
{
    struct fit best = {HARNESS_VERDICT_NONE, 0, 0, 0};
    size_t rest = smaller(a_count, b_count) - 1;

    if (is_equal(a + 1, b + 1, rest)) {
        consider(&best, HARNESS_VERDICT_MISMATCH_OP, rest, difference(a_count, b_count), 0);
    }
    for (size_t d = 1; d <= SHIFT_MAX && d < a_count && d < b_count; d++) {
        rest = smaller(a_count, b_count) - d - 1;
        if (a[0] == b[d] && a[d] == b[0] && is_equal(a + 1, b + 1, d - 1) &&
            is_equal(a + d + 1, b + d + 1, rest)) {
            consider(&best, HARNESS_VERDICT_MISMATCH_ORDER, rest + d + 1,
                     difference(a_count, b_count), 0);
        }
    }
    for (size_t k = 1; k <= SHIFT_MAX; k++) {
        rest = k < b_count ? smaller(a_count, b_count - k) : 0;
        if (rest > 0 && is_equal(a, b + k, rest)) {
            consider(&best, HARNESS_VERDICT_MISMATCH_MISSING, rest,
                     difference(a_count, b_count - k), k);
        }
        rest = k < a_count ? smaller(a_count - k, b_count) : 0;
        if (rest > 0 && is_equal(a + k, b, rest)) {
            consider(&best, HARNESS_VERDICT_MISMATCH_EXTRA, rest, difference(a_count - k, b_count),
                     k);
        }
    }
    return best;
}

/* In what one call differs from another. */
static enum harness_verdict difference_of(const struct harness_diag_call *a,
                                          const struct harness_diag_call *b)
{
    if (strcmp(a->kind, b->kind) != 0) {
        return HARNESS_VERDICT_MISMATCH_OP;
    }
    if (strcmp(a->counts, b->counts) != 0) {
        return HARNESS_VERDICT_MISMATCH_COUNT;
    }
    if (strcmp(a->dtype, b->dtype) != 0) {
        return HARNESS_VERDICT_MISMATCH_DTYPE;
    }
    return strcmp(a->redop, b->redop) != 0 ? HARNESS_VERDICT_MISMATCH_REDUCTION
                                           : HARNESS_VERDICT_MISMATCH_ROOT;
}

struct comparing {
    struct harness_diag_evidence *evidence;
    struct harness_diag_stream *streams;
    size_t count;
    size_t unknown;                          /* members of which nothing tells what they posted */
    int64_t seq;                             /* of the first difference */
    const struct harness_diag_stream *right; /* of the side that is held to be right */
    uint64_t sign;                           /* that side's call */
    bool is_decided, is_by_majority;
};

/* The next sequence from seq on that somebody has; streams may lie far apart, since a rank's record
 * can be cut at its front or damaged. INT64_MAX: none. */
static int64_t next_held(const struct comparing *all, int64_t seq)
{
    int64_t next = INT64_MAX;

    for (size_t i = 0; i < all->count; i++) {
        const struct harness_diag_stream *stream = &all->streams[i];

        if (harness_diag_stream_has(stream, seq)) {
            return seq;
        }
        if (stream->count > 0 && stream->first_seq > seq && stream->first_seq < next) {
            next = stream->first_seq;
        }
    }
    return next;
}

static bool find_difference(struct comparing *all, int64_t from, int64_t to)
{
    for (int64_t seq = next_held(all, from); seq <= to; seq = next_held(all, seq + 1)) {
        const struct harness_diag_stream *first = NULL;

        for (size_t i = 0; i < all->count; i++) {
            if (!harness_diag_stream_has(&all->streams[i], seq)) {
                continue;
            }
            if (first != NULL && harness_diag_stream_at(first, seq) !=
                                     harness_diag_stream_at(&all->streams[i], seq)) {
                all->seq = seq;
                return true;
            }
            first = &all->streams[i];
        }
    }
    return false;
}

/* The camp with most members at the difference, or the one that does what followed before. */
static void choose_side(struct comparing *all)
{
    size_t present = 0;
    size_t most = 0;
    uint64_t next = 0;

    all->right = NULL;
    for (size_t i = 0; i < all->count; i++) {
        size_t alike = 0;

        if (!harness_diag_stream_has(&all->streams[i], all->seq)) {
            continue;
        }
        present++;
        for (size_t k = 0; k < all->count; k++) {
            alike += harness_diag_stream_has(&all->streams[k], all->seq) &&
                     harness_diag_stream_at(&all->streams[k], all->seq) ==
                         harness_diag_stream_at(&all->streams[i], all->seq);
        }
        if (alike > most) {
            most = alike;
            all->right = &all->streams[i];
        }
    }
    all->is_by_majority = 2 * most > present + all->unknown;
    all->is_decided = all->is_by_majority;
    for (size_t i = 0; i < all->count && !all->is_decided; i++) {
        const struct harness_diag_stream *stream = &all->streams[i];

        if (!harness_diag_stream_has(stream, all->seq)) {
            continue;
        }
        next = harness_diag_foretell(stream->sign, (size_t)(all->seq - stream->first_seq));
        if (next != 0 && next == harness_diag_stream_at(stream, all->seq)) {
            all->right = stream;
            all->is_decided = true;
        }
    }
    DDP_ASSERT(all->right != NULL); /* two streams have the call at which they differ */
    all->sign = harness_diag_stream_at(all->right, all->seq);
    /* The longest of that side shows most of what came behind. */
    for (size_t i = 0; i < all->count; i++) {
        const struct harness_diag_stream *stream = &all->streams[i];

        if (harness_diag_stream_has(stream, all->seq) &&
            harness_diag_stream_at(stream, all->seq) == all->sign &&
            stream->first_seq + (int64_t)stream->count >
                all->right->first_seq + (int64_t)all->right->count) {
            all->right = stream;
        }
    }
}

static struct fit fit_of(const struct comparing *all, const struct harness_diag_stream *wrong)
{
    size_t a = (size_t)(all->seq - wrong->first_seq);
    size_t b = (size_t)(all->seq - all->right->first_seq);

    return find_fit(wrong->sign + a, wrong->count - a, all->right->sign + b, all->right->count - b);
}

/* Nothing came behind the difference: what has always followed says which reading is nearest. */
static void read_last(struct comparing *all, const struct harness_diag_stream *wrong,
                      struct harness_diag_finding *out)
{
    size_t past = (size_t)(all->seq - all->right->first_seq);
    uint64_t behind =
        harness_diag_foretell_behind(all->evidence, all->right->sign, past, all->sign);

    out->sure = HARNESS_DIAG_LIKELY;
    if (behind != 0 && behind == harness_diag_stream_at(wrong, all->seq)) {
        out->verdict = HARNESS_VERDICT_MISMATCH_MISSING;
        harness_diag_finding_or(out, HARNESS_VERDICT_MISMATCH_ORDER);
        out->why = "what it posted is what has always come one call later; whether the call before "
                   "it was left out or would have come after it is not recorded";
        return;
    }
    out->verdict = difference_of(&out->posted, &out->expected);
    harness_diag_finding_or(out, HARNESS_VERDICT_MISMATCH_EXTRA);
    harness_diag_finding_or(out, HARNESS_VERDICT_MISMATCH_MISSING);
    out->why = "nothing was recorded behind that call, so it may also be one too many, or the next "
               "one after one that was left out";
}

static void read_fit(struct comparing *all, const struct harness_diag_stream *wrong,
                     const struct fit *fit, struct harness_diag_finding *out)
{
    out->matched = fit->matched;
    if (fit->matched == 0) {
        read_last(all, wrong, out);
        return;
    }
    out->sure = fit->matched > 1 && fit->left == 0 ? HARNESS_DIAG_CERTAIN : HARNESS_DIAG_LIKELY;
    out->verdict = fit->verdict == HARNESS_VERDICT_MISMATCH_OP
                       ? difference_of(&out->posted, &out->expected)
                       : fit->verdict;
    out->why = harness_diag_keep_format(all->evidence,
                                        "read so, %zu of the calls behind it meet equal "
                                        "ones on the other ranks",
                                        fit->matched);
}

static void add_camps(struct comparing *all, struct harness_diag_finding *out)
{
    for (size_t i = 0; i < all->count; i++) {
        const struct harness_diag_stream *stream = &all->streams[i];
        const struct harness_diag_call *call = harness_diag_call_at(stream->member, all->seq);
        bool is_right;

        if (call == NULL || !harness_diag_stream_has(stream, all->seq)) {
            continue;
        }
        is_right = harness_diag_stream_at(stream, all->seq) == all->sign;
        if (!all->is_decided) {
            harness_rank_set_add(&out->suspects, stream->member->rank);
        } else {
            harness_rank_set_add(is_right ? &out->victims : &out->culprits, stream->member->rank);
        }
        harness_diag_finding_line(
            out, harness_diag_keep_format(all->evidence, "rank %u posted %s%s%s [%s]",
                                          stream->member->rank,
                                          harness_diag_call_text(all->evidence, call),
                                          call->site[0] != '\0' ? " at " : "", call->site,
                                          harness_diag_place_text(all->evidence, call->place)));
    }
}

static const struct harness_diag_stream *first_wrong(const struct comparing *all)
{
    const struct harness_diag_stream *found = NULL;

    for (size_t i = 0; i < all->count && found == NULL; i++) {
        if (harness_diag_stream_has(&all->streams[i], all->seq) &&
            harness_diag_stream_at(&all->streams[i], all->seq) != all->sign) {
            found = &all->streams[i];
        }
    }
    DDP_ASSERT(found != NULL); /* the streams differ here */
    return found;
}

/* Fills in what was found at all->seq. */
static void describe(struct comparing *all, size_t group, struct harness_diag_finding *out)
{
    const struct harness_diag_stream *wrong = first_wrong(all);
    struct fit fit = fit_of(all, wrong);

    *out = harness_diag_finding_make(all->evidence, HARNESS_VERDICT_NONE);
    out->group = group;
    out->seq = all->seq;
    out->posted = *harness_diag_call_at(wrong->member, all->seq);
    out->expected = *harness_diag_call_at(all->right->member, all->seq);
    read_fit(all, wrong, &fit, out);
    if (!all->is_decided) {
        out->sure = HARNESS_DIAG_POSSIBLE;
        out->why =
            "there are two camps of one size, and the calls before do not tell which of them "
            "went on as before";
        if (out->verdict == HARNESS_VERDICT_MISMATCH_MISSING) {
            harness_diag_finding_or(out, HARNESS_VERDICT_MISMATCH_EXTRA);
        } else if (out->verdict == HARNESS_VERDICT_MISMATCH_EXTRA) {
            harness_diag_finding_or(out, HARNESS_VERDICT_MISMATCH_MISSING);
        }
    } else if (!all->is_by_majority) {
        out->sure = out->sure == HARNESS_DIAG_CERTAIN ? HARNESS_DIAG_LIKELY : out->sure;
        out->why = harness_diag_keep_format(all->evidence,
                                            "the other side goes on as all had done "
                                            "before; %s",
                                            out->why);
    }
    add_camps(all, out);
}

/* Calls from different lines need not be different calls; but if the lines of one rank are the
 * others', shifted or with two in each other's place, then its calls are. */
static bool is_told_by_stacks(struct comparing *all, int64_t to)
{
    int64_t from = INT64_MIN;

    for (size_t i = 0; i < all->count; i++) {
        from = all->streams[i].first_seq > from && all->streams[i].count > 0
                   ? all->streams[i].first_seq
                   : from;
    }
    while (find_difference(all, from, to)) {
        const struct harness_diag_stream *wrong;
        struct fit fit;

        choose_side(all);
        wrong = first_wrong(all);
        fit = fit_of(all, wrong);
        if (fit.verdict != HARNESS_VERDICT_MISMATCH_OP && fit.matched >= BY_STACK_MIN &&
            fit.left <= fit.shift && all->is_decided) {
            return true;
        }
        if (fit.verdict != HARNESS_VERDICT_MISMATCH_OP) {
            return false;
        }
        from = all->seq + 1;
    }
    return false;
}

static bool compare(struct harness_diag_evidence *evidence, size_t group, bool by_stack,
                    struct harness_diag_finding *out)
{
    const struct harness_diag_group *of = &evidence->groups[group];
    struct comparing all = {.evidence = evidence};
    int64_t from = INT64_MAX;
    int64_t to = INT64_MIN;
    bool is_found;

    all.streams = ddp_mem_array(evidence->mem, of->member_count, sizeof *all.streams);
    if (all.streams == NULL) {
        evidence->is_failed = true;
        return false;
    }
    for (size_t i = 0; i < of->member_count; i++) {
        struct harness_diag_stream *stream = &all.streams[all.count];

        if (of->members[i].call_count == 0) {
            all.unknown += !of->members[i].has_record;
            continue;
        }
        if (!harness_diag_stream_make(evidence, &of->members[i], by_stack, stream)) {
            return false;
        }
        from = stream->first_seq < from ? stream->first_seq : from;
        to = stream->first_seq + (int64_t)stream->count - 1 > to
                 ? stream->first_seq + (int64_t)stream->count - 1
                 : to;
        all.count++;
    }
    is_found = all.count >= 2 &&
               (by_stack ? is_told_by_stacks(&all, to) : find_difference(&all, from, to));
    if (is_found) {
        choose_side(&all);
        describe(&all, group, out);
    }
    return is_found;
}

bool harness_diag_compare(struct harness_diag_evidence *evidence, size_t group,
                          struct harness_diag_finding *out)
{
    struct harness_diag_finding by_stack;

    if (compare(evidence, group, true, &by_stack)) {
        *out = by_stack;
        return true;
    }
    return compare(evidence, group, false, out);
}
