/* Causes first.
 *
 * Each finding gets one cause, so that they form trees; they are sorted by the tree's root, then by
 * depth. Of several causes one that has none itself is taken. Roots that say the same of several
 * ranks are sorted by rank. */
#include "harness/judge/order.h"

#include <string.h>

#include "harness/judge/cause.h"
#include "harness/judge/judge.h"

/* Where a finding stands. */
struct place {
    size_t root, depth, index;
    size_t class; /* the first finding that says the same as the root, maybe of other ranks */
};

static void find_cause(const struct harness_paths *paths, struct harness_findings *findings,
                       size_t index, bool is_root_wanted)
{
    struct harness_finding *finding = &findings->items[index];

    DDP_ASSERT(index < findings->count);
    for (size_t i = 0; i < findings->count; i++) {
        const char *words = NULL;

        if (!findings->items[i].is_after_loss &&
            (!is_root_wanted || findings->items[i].cause < 0)) {
            words = harness_cause_of(paths, &findings->items[i], finding);
        }
        if (words != NULL) {
            finding->cause = (int64_t)i;
            finding->cause_words = words;
            return;
        }
    }
}

/* What survivors do by themselves has its causes there; but a rank that does not come into their
 * group is no member of it, and makes them wait; and their buffers are from before. */
static void find_earlier(const struct harness_paths *paths, struct harness_findings *findings,
                         size_t index)
{
    struct harness_finding *finding = &findings->items[index];
    const bool is_begin =
        finding->oracle == HARNESS_ORACLE_SURVIVORS && finding->stage == HARNESS_STAGE_BUFFER;

    DDP_ASSERT(finding->is_after_loss);
    for (size_t i = 0; finding->cause < 0 && i < findings->count; i++) {
        const struct harness_finding *other = &findings->items[i];

        if (!other->is_after_loss && (is_begin || other->oracle == HARNESS_ORACLE_SURVIVORS)) {
            finding->cause_words = harness_cause_of(paths, other, finding);
            finding->cause = finding->cause_words != NULL ? (int64_t)i : -1;
        }
    }
}

/* Those of a new group were found among themselves, in its own record. */
static void find_causes(const struct harness_paths *paths, struct harness_findings *findings)
{
    for (size_t i = 0; i < findings->count; i++) {
        if (!findings->items[i].is_after_loss) {
            findings->items[i].cause = -1;
            findings->items[i].cause_words = NULL;
        }
    }
    for (size_t i = 0; i < findings->count; i++) {
        if (!findings->items[i].is_after_loss) {
            find_cause(paths, findings, i, false);
        }
    }
    for (size_t i = 0; i < findings->count; i++) {
        const int64_t cause = findings->items[i].cause;

        if (!findings->items[i].is_after_loss && cause >= 0 && findings->items[cause].cause >= 0) {
            find_cause(paths, findings, i, true);
        }
    }
    for (size_t i = 0; i < findings->count; i++) {
        if (findings->items[i].is_after_loss && findings->items[i].cause < 0) {
            find_earlier(paths, findings, i);
        }
    }
}

/* Two causes say the same of other ranks. Which one the monitor saw first is a matter of chance. */
static bool is_same_class(const struct harness_finding *a, const struct harness_finding *b)
{
    return a->cause < 0 && b->cause < 0 && a->verdict == b->verdict && a->oracle == b->oracle &&
           a->mode == b->mode && a->step == b->step && a->op.is_set && b->op.is_set &&
           a->op.seq == b->op.seq && !harness_rank_set_is_empty(&a->culprits) &&
           !harness_rank_set_is_empty(&b->culprits);
}

static size_t class_of(const struct harness_findings *findings, size_t root)
{
    DDP_ASSERT(root < findings->count && findings->items[root].cause < 0);
    for (size_t i = 0; i < root; i++) {
        if (is_same_class(&findings->items[i], &findings->items[root])) {
            return i;
        }
    }
    return root;
}

static struct place place_of(const struct harness_findings *findings, size_t index)
{
    struct place place = {.root = index, .index = index};

    DDP_ASSERT(index < findings->count);
    while (findings->items[place.root].cause >= 0) {
        place.root = (size_t)findings->items[place.root].cause;
        place.depth++;
        DDP_ASSERT(place.depth < findings->count); /* else causes make a circle */
    }
    place.class = class_of(findings, place.root);
    return place;
}

/* What is not dated comes first if it is provable, else last. */
static int64_t date_of(const struct harness_finding *finding)
{
    if (finding->step >= 0) {
        return finding->step;
    }
    return finding->mode == HARNESS_MODE_PROVABLE ? -1 : INT64_MAX;
}

/* -1, 0, 1: two causes of their own. */
static int compare_roots(const struct harness_finding *a, const struct harness_finding *b)
{
    bool is_a_provable = a->mode == HARNESS_MODE_PROVABLE;
    bool is_b_provable = b->mode == HARNESS_MODE_PROVABLE;

    if (date_of(a) != date_of(b)) {
        return date_of(a) < date_of(b) ? -1 : 1;
    }
    return is_a_provable == is_b_provable ? 0 : is_a_provable ? -1 : 1;
}

static bool is_before(const struct harness_findings *findings, const struct place *a,
                      const struct place *b)
{
    int order = compare_roots(&findings->items[a->root], &findings->items[b->root]);

    DDP_ASSERT(a->root < findings->count && b->root < findings->count);
    if (order != 0) {
        return order < 0;
    }
    if (a->class != b->class) {
        return a->class < b->class;
    }
    if (a->root != b->root) {
        uint32_t rank_a = harness_rank_set_at(&findings->items[a->root].culprits, 0);
        uint32_t rank_b = harness_rank_set_at(&findings->items[b->root].culprits, 0);

        return rank_a != rank_b ? rank_a < rank_b : a->root < b->root;
    }
    return a->depth != b->depth ? a->depth < b->depth : a->index < b->index;
}

static void sort(const struct harness_findings *findings, struct place *places)
{
    for (size_t i = 0; i < findings->count; i++) {
        struct place place = place_of(findings, i);
        size_t k = i;

        for (; k > 0 && is_before(findings, &place, &places[k - 1]); k--) {
            places[k] = places[k - 1];
        }
        places[k] = place;
    }
}

ddp_status harness_findings_order(const struct harness_paths *paths,
                                  struct harness_findings *findings)
{
    size_t count = findings->count;
    struct place *places = ddp_mem_array(findings->mem, count, sizeof(*places));
    struct harness_finding *sorted = ddp_mem_array(findings->mem, count, sizeof(*sorted));
    int64_t *moved = ddp_mem_array(findings->mem, count, sizeof(*moved));
    bool is_room = places != NULL && sorted != NULL && moved != NULL;

    if (is_room && count > 0) {
        find_causes(paths, findings);
        sort(findings, places);
        for (size_t i = 0; i < count; i++) {
            sorted[i] = findings->items[places[i].index];
            moved[places[i].index] = (int64_t)i;
        }
        for (size_t i = 0; i < count; i++) {
            sorted[i].cause = sorted[i].cause < 0 ? -1 : moved[sorted[i].cause];
            DDP_ASSERT(sorted[i].cause < (int64_t)i);
        }
        memcpy(findings->items, sorted, count * sizeof(*sorted));
    }
    ddp_mem_free(findings->mem, places);
    ddp_mem_free(findings->mem, sorted);
    ddp_mem_free(findings->mem, moved);
    return is_room ? DDP_OK : DDP_E_NOMEM;
}

ddp_status harness_judge_order(const struct harness_plan *plan,
                               const struct harness_program *program,
                               const struct harness_trace *trace, struct harness_findings *findings)
{
    struct harness_paths paths;
    ddp_status status;

    DDP_TRY(harness_paths_open(findings->mem, plan, program, trace, &paths));
    status = harness_findings_order(&paths, findings);
    harness_paths_close(&paths);
    return status;
}
