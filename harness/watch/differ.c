/* Purpose: find the first call of a communicator that its members did not all post alike, and say
 * who is wrong. Idea: members that posted the same are a camp. Most of them are right; of two equal
 * camps, the one that did what the communicator always did in this place. What followed before
 * tells a call left out from one too many. */
#include "harness/guest/ddprove_guest.h"
#include "harness/watch/analyse.h"

/* So many calls of the past are compared. */
enum { CONTEXT_MAX = 8 };

/* Bytes of the elements, if their type is known. */
static uint64_t size_bytes_of(const struct harness_watch_call *call)
{
    static const uint8_t sizes[DDPROVE_GUEST_DTYPE_COUNT] = {
#define X(id, name, size_bytes) [DDPROVE_GUEST_##id] = size_bytes,
        DDPROVE_GUEST_DTYPE_TABLE(X)
#undef X
    };
    const uint32_t dtype = guest_op_dtype(call->op);

    return dtype < DDPROVE_GUEST_DTYPE_COUNT ? call->elem_count * sizes[dtype] : 0;
}

/* What is moved. MPI lets ranks describe the same data by types of their own making, whose elements
 * are bytes here. */
static bool is_same_data(const struct harness_watch_call *a, const struct harness_watch_call *b)
{
    const uint32_t type_a = guest_op_dtype(a->op);
    const uint32_t type_b = guest_op_dtype(b->op);

    if (type_a == type_b) {
        return a->elem_count == b->elem_count;
    }
    return (type_a == DDPROVE_GUEST_BYTES || type_b == DDPROVE_GUEST_BYTES) &&
           size_bytes_of(a) == size_bytes_of(b);
}

/* The same call, in whatever step. */
static bool is_alike(const struct harness_watch_call *a, const struct harness_watch_call *b)
{
    return guest_op_kind(a->op) == guest_op_kind(b->op) &&
           guest_op_redop(a->op) == guest_op_redop(b->op) &&
           guest_op_root(a->op) == guest_op_root(b->op) && a->bucket == b->bucket &&
           is_same_data(a, b);
}

static bool is_same(const struct harness_watch_group *group, const struct harness_watch_call *a,
                    const struct harness_watch_call *b)
{
    return is_alike(a, b) && (a->step == b->step || group->is_pair);
}

struct camp {
    const struct harness_watch_call *call;
    uint32_t rank; /* its first member */
    uint32_t count;
};

/* The members' camps at a call. out: [world_size]. *out_posted: how many have posted it. */
static uint32_t find_camps(const struct harness_watch *watch,
                           const struct harness_watch_group *group, uint64_t seq, struct camp *out,
                           uint64_t *out_posted)
{
    uint32_t count = 0;

    *out_posted = 0;
    for (uint32_t r = 0; r < watch->world_size; r++) {
        const struct harness_watch_call *call = harness_watch_call_at(&group->members[r], seq);
        uint32_t c = 0;

        if (call == NULL) {
            continue;
        }
        (*out_posted)++;
        while (c < count && !is_same(group, out[c].call, call)) {
            c++;
        }
        if (c == count) {
            out[count++] = (struct camp){.call = call, .rank = r};
        }
        out[c].count++;
    }
    return count;
}

/* How many calls behind these two are alike, up to CONTEXT_MAX. */
static uint32_t common_past(const struct harness_watch *watch,
                            const struct harness_watch_group *group, uint64_t a, uint64_t b)
{
    uint32_t length = 0;

    while (length < CONTEXT_MAX && a > length + 1 && b > length + 1) {
        const struct harness_watch_call *of_a =
            harness_watch_any_call(watch, group, a - 1 - length);
        const struct harness_watch_call *of_b =
            harness_watch_any_call(watch, group, b - 1 - length);

        if (of_a == NULL || of_b == NULL || !is_alike(of_a, of_b)) {
            break;
        }
        length++;
    }
    return length;
}

/* What follows a call that is posted as number seq, behind the communicator's earlier ones: what
 * has always followed where most calls before it were the same. NULL: that is not known, or was
 * seen once, and behind another past. *out_steps: how many steps later. */
static const struct harness_watch_call *
next_after(const struct harness_watch *watch, const struct harness_watch_group *group, uint64_t seq,
           const struct harness_watch_call *call, uint32_t *out_steps)
{
    const struct harness_watch_call *next = NULL;
    uint32_t longest = 0;
    uint32_t times = 0;
    bool is_always = true;

    for (uint64_t s = seq; s > 2; s--) {
        const struct harness_watch_call *earlier = harness_watch_any_call(watch, group, s - 2);
        const struct harness_watch_call *later = harness_watch_any_call(watch, group, s - 1);
        uint32_t length;

        if (earlier == NULL) {
            break;
        }
        length = is_alike(earlier, call) ? 1 + common_past(watch, group, s - 2, seq) : 0;
        if (length > longest) {
            longest = length;
            next = later;
            times = 0;
            is_always = true;
            *out_steps = later->step - earlier->step;
        }
        if (length > 0 && length == longest) {
            times++;
            is_always = is_always && is_alike(later, next);
        }
    }
    return is_always && (longest > 1 || times > 1) ? next : NULL;
}

/* What follows the communicator's calls before `seq`; NULL: that is not known. */
static const struct harness_watch_call *expected_at(const struct harness_watch *watch,
                                                    const struct harness_watch_group *group,
                                                    uint64_t seq)
{
    const struct harness_watch_call *before =
        seq > 1 ? harness_watch_any_call(watch, group, seq - 1) : NULL;
    uint32_t steps = 0;

    return before != NULL ? next_after(watch, group, seq - 1, before, &steps) : NULL;
}

/* Index of the right camp; count: nobody can say. */
static uint32_t pick_right(const struct harness_watch *watch,
                           const struct harness_watch_group *group, uint64_t seq,
                           const struct camp *camps, uint32_t count)
{
    const struct harness_watch_call *expected = expected_at(watch, group, seq);
    uint32_t largest = 0;
    uint32_t rivals = 0;
    uint32_t fitting = count;

    for (uint32_t c = 1; c < count; c++) {
        largest = camps[c].count > camps[largest].count ? c : largest;
    }
    for (uint32_t c = 0; c < count; c++) {
        rivals += camps[c].count == camps[largest].count;
    }
    if (rivals == 1) {
        return largest;
    }
    for (uint32_t c = 0; expected != NULL && c < count; c++) {
        if (is_alike(camps[c].call, expected)) {
            if (fitting != count) {
                return count;
            }
            fitting = c;
        }
    }
    return fitting;
}

enum harness_verdict harness_watch_difference_of(const struct harness_watch_call *wrong,
                                                 const struct harness_watch_call *right)
{
    if (guest_op_kind(wrong->op) != guest_op_kind(right->op)) {
        return HARNESS_VERDICT_MISMATCH_OP;
    }
    if (guest_op_dtype(wrong->op) != guest_op_dtype(right->op) && !is_same_data(wrong, right) &&
        guest_op_dtype(wrong->op) != DDPROVE_GUEST_BYTES &&
        guest_op_dtype(right->op) != DDPROVE_GUEST_BYTES) {
        return HARNESS_VERDICT_MISMATCH_DTYPE;
    }
    if (guest_op_redop(wrong->op) != guest_op_redop(right->op)) {
        return HARNESS_VERDICT_MISMATCH_REDUCTION;
    }
    if (guest_op_root(wrong->op) != guest_op_root(right->op)) {
        return HARNESS_VERDICT_MISMATCH_ROOT;
    }
    if (wrong->bucket != right->bucket) {
        return HARNESS_VERDICT_MISMATCH_BUCKET;
    }
    if (!is_same_data(wrong, right)) {
        return HARNESS_VERDICT_MISMATCH_COUNT;
    }
    return wrong->step > right->step ? HARNESS_VERDICT_MISMATCH_MISSING
                                     : HARNESS_VERDICT_MISMATCH_EXTRA;
}

/* Whoever posted this call in the group; world_size: nobody. */
static uint32_t rank_of(const struct harness_watch *watch, const struct harness_watch_group *group,
                        uint64_t seq, const struct harness_watch_call *call)
{
    uint32_t rank = 0;

    while (rank < watch->world_size && harness_watch_call_at(&group->members[rank], seq) != call) {
        rank++;
    }
    return rank;
}

/* The rank that posted this call has posted one, since its last one here, in another communicator
 * to which the one that posted the other belongs too. */
static bool has_call_between(const struct harness_watch *watch,
                             const struct harness_watch_group *group, uint64_t seq,
                             const struct harness_watch_call *call,
                             const struct harness_watch_call *of_other)
{
    const uint32_t rank = rank_of(watch, group, seq, call);
    const uint32_t other = rank_of(watch, group, seq, of_other);
    const struct harness_watch_call *before =
        rank < watch->world_size ? harness_watch_call_at(&group->members[rank], seq - 1) : NULL;

    for (size_t g = 0; before != NULL && other < watch->world_size && g < watch->group_count; g++) {
        const struct harness_watch_member *member = &watch->groups[g].members[rank];

        if (&watch->groups[g] == group || !watch->groups[g].members[other].is_there) {
            continue;
        }
        for (size_t i = member->call_count; i > 0; i--) {
            if (member->calls[i - 1].time_ns < before->time_ns) {
                break;
            }
            if (member->calls[i - 1].time_ns <= call->time_ns) {
                return true;
            }
        }
    }
    return false;
}

/* The wrong ones posted what comes next, or what came before. Where both may be, or what comes next
 * is not known, what they and the others did elsewhere in between tells; where that does not
 * either, the calls differ. */
static enum harness_verdict verdict_of(const struct harness_watch *watch,
                                       const struct harness_watch_group *group, uint64_t seq,
                                       const struct harness_watch_call *wrong,
                                       const struct harness_watch_call *right)
{
    const struct harness_watch_call *before =
        seq > 1 ? harness_watch_any_call(watch, group, seq - 1) : NULL;
    uint32_t steps = 0;
    const struct harness_watch_call *next = next_after(watch, group, seq, right, &steps);
    const bool is_next = next != NULL && !is_alike(wrong, right) && is_alike(wrong, next) &&
                         guest_op_dtype(wrong->op) == guest_op_dtype(next->op) &&
                         wrong->step == right->step + steps;
    /* What is posted again follows at once. */
    const bool is_again = before != NULL && !is_alike(wrong, right) && is_alike(wrong, before) &&
                          wrong->step == before->step &&
                          !has_call_between(watch, group, seq, wrong, wrong);

    if (is_again &&
        ((next != NULL && !is_next) || has_call_between(watch, group, seq, right, wrong))) {
        return HARNESS_VERDICT_MISMATCH_EXTRA;
    }
    return is_next && !is_again ? HARNESS_VERDICT_MISMATCH_MISSING
                                : harness_watch_difference_of(wrong, right);
}

static void say_call(const struct harness_watch *watch, const struct harness_watch_group *group,
                     uint64_t seq, const struct harness_watch_call *call,
                     struct harness_finding *finding)
{
    struct ddp_text text;

    ddp_text_init(&text, watch->mem);
    harness_watch_print_call(group, seq, call, &text);
    harness_watch_say(finding, "%s", ddp_text_str(&text));
    ddp_text_fini(&text);
}

static void add(const struct harness_watch *watch, const struct harness_watch_group *group,
                uint64_t seq, const struct camp *wrong, const struct camp *right,
                struct harness_findings *out)
{
    struct harness_finding finding;
    char ranks[HARNESS_RANKS_TEXT_BYTES];

    harness_finding_init(&finding, out->mem,
                         verdict_of(watch, group, seq, wrong->call, right->call),
                         HARNESS_ORACLE_MONITOR, HARNESS_MODE_PROVABLE);
    for (uint32_t r = 0; r < watch->world_size; r++) {
        const struct harness_watch_call *call = harness_watch_call_at(&group->members[r], seq);

        if (call != NULL && is_same(group, call, wrong->call)) {
            harness_rank_set_add(&finding.culprits, r);
        }
    }
    harness_watch_set_op(group, seq, right->call, &finding);
    finding.step =
        (int32_t)(wrong->call->step < right->call->step ? wrong->call->step : right->call->step);
    finding.detect_ns = harness_watch_since(watch, wrong->call->time_ns);
    harness_watch_say(&finding, "rank %s posted ", harness_rank_set_text(&finding.culprits, ranks));
    say_call(watch, group, seq, wrong->call, &finding);
    harness_watch_say(&finding, " in step %u, where %s posted ", wrong->call->step,
                      right->count == 1 ? "the other rank" : "the others");
    say_call(watch, group, seq, right->call, &finding);
    if (wrong->call->step != right->call->step) {
        harness_watch_say(&finding, " in step %u", right->call->step);
    }
    harness_findings_add(out, &finding);
}

/* Nobody who comes yet could change who is right, or somebody comes no more. */
static bool is_decided(const struct harness_watch *watch, const struct harness_watch_group *group,
                       const struct camp *camps, uint32_t count, uint64_t posted)
{
    for (uint32_t c = 0; c < count; c++) {
        if (2 * (uint64_t)camps[c].count > group->size) {
            return true;
        }
    }
    for (uint32_t r = 0; r < watch->world_size; r++) {
        if (group->members[r].is_there && harness_watch_is_gone(watch, r)) {
            return true;
        }
    }
    return posted == group->size;
}

/* Judge one call. False: wait for more members. */
static bool compare(struct harness_watch *watch, struct harness_watch_group *group, uint64_t seq,
                    struct camp *camps, struct harness_findings *out)
{
    uint64_t posted;
    const uint32_t count = find_camps(watch, group, seq, camps, &posted);
    uint32_t right;

    if (count < 2) {
        group->differs_ns = 0;
        return posted == group->size;
    }
    group->differs_ns = group->differs_ns == 0 ? watch->now_ns : group->differs_ns;
    if (watch->now_ns - group->differs_ns < HARNESS_WATCH_DIFFER_HOLD_NS &&
        !is_decided(watch, group, camps, count, posted)) {
        return false;
    }
    right = pick_right(watch, group, seq, camps, count);
    for (uint32_t c = 0; c < count; c++) {
        if (c != right) {
            add(watch, group, seq, &camps[c], &camps[right < count ? right : c == 0 ? 1 : 0], out);
        }
    }
    group->is_wrong = true;
    group->wrong_seq = seq;
    return true;
}

/* Some members have the result of a call that needs all of them, and others have not posted it, nor
 * had they when what they posted was read after that result: they left it out. */
static void find_left_out(struct harness_watch *watch, struct harness_watch_group *group,
                          struct harness_findings *out)
{
    const uint64_t seq = group->done_before;
    struct harness_finding finding;
    char ranks[HARNESS_RANKS_TEXT_BYTES];
    uint64_t least = seq;

    for (uint32_t r = 0; r < watch->world_size; r++) {
        const struct harness_watch_member *member = &group->members[r];

        least = member->is_there && member->posted < least ? member->posted : least;
    }
    if (group->is_wrong || least >= seq) {
        return;
    }
    harness_finding_init(&finding, out->mem, HARNESS_VERDICT_MISMATCH_MISSING,
                         HARNESS_ORACLE_MONITOR, HARNESS_MODE_PROVABLE);
    for (uint32_t r = 0; r < watch->world_size; r++) {
        if (group->members[r].is_there && group->members[r].posted == least) {
            harness_rank_set_add(&finding.culprits, r);
        }
    }
    harness_watch_set_op(group, least + 1, harness_watch_any_call(watch, group, least + 1),
                         &finding);
    harness_watch_say(&finding, "rank %s has not posted ",
                      harness_rank_set_text(&finding.culprits, ranks));
    say_call(watch, group, least + 1, harness_watch_any_call(watch, group, least + 1), &finding);
    harness_watch_say(&finding, ", of which others have the result");
    harness_findings_add(out, &finding);
    group->is_wrong = true;
}

/* Of a member's calls it is not known which they are. */
static bool is_lost(const struct harness_watch *watch, const struct harness_watch_group *group)
{
    for (uint32_t r = 0; r < watch->world_size; r++) {
        if (group->members[r].is_there && watch->ranks[r].lost_count > 0) {
            return true;
        }
    }
    return false;
}

/* Calls that nobody needs any more: all members have posted them, or they are not compared, and
 * their successors say what followed. */
enum { KEPT_CALLS = 4096 };

static void forget(struct harness_watch *watch, struct harness_watch_group *group)
{
    for (uint32_t r = 0; r < watch->world_size; r++) {
        struct harness_watch_member *member = &group->members[r];
        const uint64_t until = group->is_wrong ? member->posted : group->checked_seq;
        size_t count = 0;

        while (count < member->call_count && member->kept_seq + count + KEPT_CALLS <= until) {
            count++;
        }
        if (count >= KEPT_CALLS) { /* seldom, so that moving the rest is cheap */
            for (size_t i = count; i < member->call_count; i++) {
                member->calls[i - count] = member->calls[i];
            }
            member->call_count -= count;
            member->kept_seq += count;
        }
    }
}

void harness_watch_find_differences(struct harness_watch *watch, struct harness_findings *out)
{
    struct camp *camps = ddp_mem_array(watch->mem, watch->world_size, sizeof *camps);

    if (camps == NULL) {
        watch->is_failed = true;
        return;
    }
    for (size_t g = 0; g < watch->group_count; g++) {
        struct harness_watch_group *group = &watch->groups[g];

        group->is_wrong = group->is_wrong || is_lost(watch, group);
        while (!group->is_wrong &&
               harness_watch_any_call(watch, group, group->checked_seq + 1) != NULL &&
               compare(watch, group, group->checked_seq + 1, camps, out)) {
            group->checked_seq++;
        }
        find_left_out(watch, group, out);
        forget(watch, group);
    }
    ddp_mem_free(watch->mem, camps);
}
