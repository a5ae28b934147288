/* Purpose: the model that each rank reports, update by update, compared with the others'.
 * Idea: the n-th report of every rank is of the same update. Once all have made it, it is judged
 * and forgotten. What makes replicas differ is said once; what is compared later would only repeat
 * it. */
#include <string.h>

#include "ddpcore/seam/phase.h"
#include "harness/guest/ddprove_guest.h"
#include "harness/observed/internal.h"
#include "harness/watch/analyse.h"

/* --- one update
 * ---------------------------------------------------------------------------------------------------
 */

struct comparison {
    const struct harness_observed *observed;
    uint64_t number;
    uint32_t tensor;
    unsigned part;
};

static const struct observed_update *update_at(const struct comparison *the, uint32_t rank)
{
    const struct observed_update *update = observed_update_of(the->observed, rank, the->number);

    DDP_ASSERT(update != NULL); /* all ranks have reported it */
    return update;
}

static bool is_same_tensor(const struct observed_tensor *a, const struct observed_tensor *b)
{
    return a->role == b->role && a->dtype == b->dtype && a->elem_count == b->elem_count &&
           strcmp(a->name, b->name) == 0;
}

/* The first tensor in which two tables differ; the smaller count: none of those that both have. */
static uint32_t first_difference(const struct observed_table *a, const struct observed_table *b)
{
    const uint32_t count = a->count < b->count ? a->count : b->count;
    uint32_t i = 0;

    while (i < count && is_same_tensor(&a->tensors[i], &b->tensors[i])) {
        i++;
    }
    return i;
}

static bool has_same_table(const void *context, uint32_t a, uint32_t b)
{
    const struct observed_table *first = update_at(context, a)->table;
    const struct observed_table *second = update_at(context, b)->table;

    return first->count == second->count && first_difference(first, second) == first->count;
}

static bool has_same_step(const void *context, uint32_t a, uint32_t b)
{
    return update_at(context, a)->step == update_at(context, b)->step;
}

static bool has_same_part(const void *context, uint32_t a, uint32_t b)
{
    const struct comparison *the = context;
    const size_t at = (size_t)the->tensor * OBSERVED_PARTS + the->part;
    const struct observed_part *first = &update_at(the, a)->parts[at];
    const struct observed_part *second = &update_at(the, b)->parts[at];

    /* What a rank did not show is not compared. */
    return !first->is_there || !second->is_there || first->hash == second->hash;
}

static void begin(const struct comparison *the, enum harness_verdict verdict,
                  const struct observed_camps *camps, struct harness_findings *out,
                  struct harness_finding *finding)
{
    harness_finding_init(finding, out->mem, verdict, HARNESS_ORACLE_REPLICAS, HARNESS_MODE_BITWISE);
    observed_blame(the->observed, camps, finding);
    finding->phase = DDP_PHASE_OPTIMIZER;
}

/* A rank of the right camp, and one of another. */
static void pick_pair(const struct harness_observed *observed, const struct observed_camps *camps,
                      uint32_t *out_right, uint32_t *out_wrong)
{
    const uint32_t right = camps->right < camps->count ? camps->right : 0;

    for (uint32_t r = observed->watch->world_size; r-- > 0;) {
        if (camps->camp_of[r] == right) {
            *out_right = r;
        } else if (camps->camp_of[r] != UINT32_MAX) {
            *out_wrong = r;
        }
    }
}

static void add_tables(const struct comparison *the, const struct observed_camps *camps,
                       struct harness_findings *out)
{
    struct harness_finding finding;
    const struct observed_table *right;
    const struct observed_table *wrong;
    uint32_t ranks[2] = {0, 0};
    uint32_t at;

    begin(the, HARNESS_VERDICT_MISMATCH_MODEL, camps, out, &finding);
    pick_pair(the->observed, camps, &ranks[0], &ranks[1]);
    right = update_at(the, ranks[0])->table;
    wrong = update_at(the, ranks[1])->table;
    at = first_difference(right, wrong);
    finding.step = (int32_t)update_at(the, ranks[0])->step;
    harness_watch_say(&finding, "rank %u's model has %u tensors", ranks[1], wrong->count);
    if (at < wrong->count) {
        harness_watch_say(&finding, ", number %u is %s of %llu elements", at,
                          wrong->tensors[at].name,
                          (unsigned long long)wrong->tensors[at].elem_count);
    }
    harness_watch_say(&finding, "; rank %u's has %u", ranks[0], right->count);
    if (at < right->count) {
        harness_watch_say(&finding, ", number %u is %s of %llu elements", at,
                          right->tensors[at].name,
                          (unsigned long long)right->tensors[at].elem_count);
    }
    harness_findings_add(out, &finding);
}

/* Where steps differ, the rank that is ahead left out an update. */
static void add_steps(const struct comparison *the, const struct observed_camps *camps,
                      struct harness_findings *out)
{
    struct harness_finding finding;
    uint32_t ranks[2] = {0, 0};
    uint32_t right;
    uint32_t wrong;
    char text[HARNESS_RANKS_TEXT_BYTES];

    pick_pair(the->observed, camps, &ranks[0], &ranks[1]);
    right = update_at(the, ranks[0])->step;
    wrong = update_at(the, ranks[1])->step;
    begin(the, wrong > right ? HARNESS_VERDICT_VALUE_STALE : HARNESS_VERDICT_VALUE_DUPLICATED,
          camps, out, &finding);
    finding.step = (int32_t)(wrong < right ? wrong : right);
    harness_watch_say(&finding,
                      "update %llu of the model is of step %u on rank %u and of step %u on rank %u",
                      (unsigned long long)the->number, right, ranks[0], wrong, ranks[1]);
    if (camps->right < camps->count) {
        harness_watch_say(&finding, ": rank %s %s", harness_rank_set_text(&finding.culprits, text),
                          wrong > right ? "left one out" : "made one too many");
    }
    harness_findings_add(out, &finding);
}

enum movement { STOOD_STILL, MOVED_IN_ALL, MOVED_IN_PART };

/* In how many of its parameters the rank's model is another one than after the update before. */
static enum movement movement_of(const struct comparison *the, uint32_t rank)
{
    const struct observed_update *now = update_at(the, rank);
    const struct observed_update *before = &the->observed->models[rank].before;
    uint32_t moved = 0;
    uint32_t count = 0;

    for (uint32_t t = 0; before->table == now->table && t < now->table->count; t++) {
        const size_t at = (size_t)t * OBSERVED_PARTS + GUEST_PART_DATA;

        if (now->table->tensors[t].role != DDPROVE_GUEST_PARAMETER) {
            continue;
        }
        if (!now->parts[at].is_there || !before->parts[at].is_there) {
            return MOVED_IN_PART; /* nobody knows */
        }
        count++;
        moved += now->parts[at].hash != before->parts[at].hash;
    }
    return count < 2        ? MOVED_IN_PART
           : moved == 0     ? STOOD_STILL
           : moved == count ? MOVED_IN_ALL
                            : MOVED_IN_PART;
}

/* Some ranks' models are what they were before, and all parameters of the others have moved, as an
 * update moves them and no error behind it does. False: it is not so. */
static bool add_still(const struct comparison *the, struct harness_findings *out)
{
    const struct harness_observed *observed = the->observed;
    struct harness_rank_set still = harness_rank_set_in(out->mem);
    struct harness_finding finding;
    char ranks[HARNESS_RANKS_TEXT_BYTES];
    bool is_moved = false;

    for (uint32_t r = 0; r < observed->watch->world_size; r++) {
        const enum movement movement =
            observed->watch->ranks[r].is_attached ? movement_of(the, r) : MOVED_IN_ALL;

        if (movement == MOVED_IN_PART) {
            return false;
        }
        if (movement == STOOD_STILL) {
            harness_rank_set_add(&still, r);
        }
        is_moved = is_moved || (movement == MOVED_IN_ALL && observed->watch->ranks[r].is_attached);
    }
    if (harness_rank_set_is_empty(&still) || !is_moved) {
        return false;
    }
    harness_finding_init(&finding, out->mem, HARNESS_VERDICT_VALUE_STALE, HARNESS_ORACLE_REPLICAS,
                         HARNESS_MODE_BITWISE);
    finding.culprits = still;
    finding.phase = DDP_PHASE_OPTIMIZER;
    finding.step = (int32_t)update_at(the, harness_rank_set_at(&still, 0))->step;
    harness_watch_say(&finding,
                      "after update %llu, in step %d, all parameters of rank %s are what they were "
                      "before, and those of the others are not: it left the update out",
                      (unsigned long long)the->number, finding.step,
                      harness_rank_set_text(&still, ranks));
    harness_findings_add(out, &finding);
    return true;
}

static void add_values(const struct comparison *the, const struct observed_camps *camps,
                       struct harness_findings *out)
{
    static const char *const parts[] = {"", "'s state of the optimizer",
                                        "'s second state of the optimizer"};
    struct harness_finding finding;
    uint32_t ranks[2] = {0, 0};
    const struct observed_tensor *tensor;

    if (add_still(the, out)) {
        return;
    }
    /* In the first report nobody can say whether the ranks began alike. */
    begin(the, the->number == 1 ? HARNESS_VERDICT_MISMATCH_MODEL : HARNESS_VERDICT_VALUE_DIVERGED,
          camps, out, &finding);
    pick_pair(the->observed, camps, &ranks[0], &ranks[1]);
    tensor = &update_at(the, ranks[0])->table->tensors[the->tensor];
    finding.step = (int32_t)update_at(the, ranks[0])->step;
    observed_add_param(the->observed, tensor->name, &finding);
    harness_watch_say(&finding, "after update %llu, in step %d, %s%s of ",
                      (unsigned long long)the->number, finding.step,
                      tensor->name[0] != '\0' ? tensor->name : "a tensor", parts[the->part]);
    observed_say_camps(the->observed, camps, &finding);
    harness_watch_say(&finding, camps->right == camps->count
                                    ? " are not the same; who is right cannot be told"
                                    : " are not the same");
    harness_findings_add(out, &finding);
}

/* Returns whether they differ in it. */
static bool compare(struct harness_observed *observed, const struct comparison *the,
                    bool (*is_alike)(const void *context, uint32_t a, uint32_t b),
                    void (*add)(const struct comparison *the, const struct observed_camps *camps,
                                struct harness_findings *out),
                    bool is_explained, struct harness_findings *out)
{
    struct observed_camps camps;
    bool is_different = false;

    if (!observed_find_camps(observed, is_alike, the, &camps)) {
        observed->is_failed = true;
    } else if (camps.count > 1) {
        is_different = true;
        if (!is_explained) {
            add(the, &camps, out);
        }
    }
    observed_free_camps(the->observed, &camps);
    return is_different;
}

/* Every rank has shown the data of every tensor. */
static bool is_shown(const struct harness_observed *observed, uint64_t number)
{
    for (uint32_t r = 0; r < observed->watch->world_size; r++) {
        const struct observed_update *update = observed_update_of(observed, r, number);

        for (uint32_t t = 0; update != NULL && t < update->table->count; t++) {
            if (!update->parts[(size_t)t * OBSERVED_PARTS + GUEST_PART_DATA].is_there) {
                return false;
            }
        }
    }
    return true;
}

/* Returns whether all hold the same. */
static bool compare_values(struct harness_observed *observed, uint64_t number, bool is_explained,
                           struct harness_findings *out)
{
    const struct observed_table *table = NULL;

    for (uint32_t r = 0; r < observed->watch->world_size; r++) {
        const struct observed_update *update = observed_update_of(observed, r, number);

        table = update != NULL ? update->table : table;
    }
    for (uint32_t t = 0; table != NULL && t < table->count; t++) {
        for (unsigned part = 0; part < GUEST_PART_GRADIENT; part++) {
            const struct comparison the = {observed, number, t, part};

            if (compare(observed, &the, has_same_part, add_values, is_explained, out)) {
                return false;
            }
        }
    }
    return true;
}

/* Returns whether the next one may be looked at. */
static bool judge_update(struct harness_observed *observed, uint64_t number,
                         const struct harness_findings *earlier, struct harness_findings *out)
{
    const struct comparison the = {observed, number, 0, 0};
    uint32_t step = 0;
    bool is_explained;

    for (uint32_t r = 0; r < observed->watch->world_size; r++) {
        const struct observed_update *update = observed_update_of(observed, r, number);

        step = update != NULL && update->step > step ? update->step : step;
    }
    is_explained = observed_is_explained(earlier, step) || observed_is_explained(out, step);
    if (compare(observed, &the, has_same_table, add_tables, false, out) ||
        compare(observed, &the, has_same_step, add_steps, is_explained, out)) {
        return false;
    }
    is_explained = observed_judge_update(observed, number, out) || is_explained;
    if (is_shown(observed, number)) {
        observed->replicas.judged++;
        observed->replicas.bitwise++;
    } else {
        observed->unseen++;
    }
    return compare_values(observed, number, is_explained, out);
}

/* All ranks have reported it. */
static bool is_reported(const struct harness_observed *observed, uint64_t number)
{
    for (uint32_t r = 0; r < observed->watch->world_size; r++) {
        const struct observed_update *update = observed_update_of(observed, r, number);

        if (observed->watch->ranks[r].is_attached && (update == NULL || !update->is_closed)) {
            return false;
        }
    }
    return observed_is_complete(observed);
}

/* Ranks have posted different calls, and who of them is wrong is not known yet: that is the cause,
 * and what came of it is not said before it. */
static bool is_undecided(const struct harness_observed *observed)
{
    const struct harness_watch *watch = observed->watch;

    for (size_t g = 0; g < watch->group_count; g++) {
        if (watch->groups[g].differs_ns != 0 && !watch->groups[g].is_wrong) {
            return true;
        }
    }
    return false;
}

/* Behind the last update that all ranks have reported. */
static uint64_t reported_until(const struct harness_observed *observed)
{
    uint64_t number = observed->next_update;

    while (is_reported(observed, number)) {
        number++;
    }
    return number;
}

/* Ranks are read one after the other: a report may be read that another rank's call led to, and
 * that call not yet. By the next look it has been. */
void observed_judge_model(struct harness_observed *observed, const struct harness_findings *earlier,
                          struct harness_findings *out)
{
    const uint64_t reported = reported_until(observed);
    const uint64_t until = observed->is_ended ? reported : observed->seen_update;

    observed->seen_update = reported;
    if (!observed->is_ended && is_undecided(observed)) {
        return;
    }
    while (!observed->is_failed && !observed->is_model_wrong && !observed->is_model_strange &&
           observed->next_update < until) {
        observed->is_model_wrong = !judge_update(observed, observed->next_update, earlier, out);
        observed_forget_update(observed, observed->next_update);
        observed->next_update++;
    }
}
