/* Purpose: the model that each rank reports, update by update, compared with the others'.
 * Idea: the n-th report of every rank is of the same update. Once all have made it, it is judged
 * and forgotten. What makes replicas differ is said once; what is compared later would only repeat
 * it. */
#include <string.h>

#include "ddpcore/seam/phase.h"
#include "harness/guest/ddprove_guest.h"
#include "harness/observed/internal.h"
#include "harness/watch/analyse.h"

/* --- what ranks report
 * --------------------------------------------------------------------------------------------
 */

static void take_tensor(struct harness_observed *observed, struct observed_model *model,
                        const struct guest_entry *entry)
{
    const uint64_t index = entry->arg[0];
    const uint64_t count = entry->arg[4];
    struct observed_table *table = model->table;

    if (index == 0 && count > 0 && count <= OBSERVED_TENSORS_MAX) {
        table = ddp_mem_array(observed->mem, 1, sizeof *table);
        if (table != NULL) {
            table->tensors = ddp_mem_array(observed->mem, count, sizeof *table->tensors);
            table->count = (uint32_t)count;
            table->next = observed->tables;
            observed->tables = table;
        }
        if (table == NULL || table->tensors == NULL) {
            observed->is_failed = true;
            model->table = NULL;
            return;
        }
        model->table = table;
    }
    if (table == NULL || index >= table->count || count != table->count) {
        observed->is_model_strange = true;
        return;
    }
    table->tensors[index].role = entry->arg[1];
    table->tensors[index].dtype = entry->arg[2];
    table->tensors[index].elem_count = entry->arg[3];
}

static void take_name(struct harness_observed *observed, struct observed_model *model,
                      const struct guest_entry *entry)
{
    const uint32_t index = (uint32_t)entry->arg[0];

    if (model->table == NULL || index >= model->table->count) {
        observed->is_model_strange = true;
        return;
    }
    harness_watch_add_part(model->table->tensors[index].name, entry->arg[0] >> 32, &entry->arg[1]);
}

/* The update that the rank is reporting; NULL: it cannot be kept. */
static struct observed_update *open_update(struct harness_observed *observed,
                                           struct observed_model *model, uint32_t step)
{
    struct observed_update *update = model->count > 0 ? &model->updates[model->count - 1] : NULL;
    struct observed_update *updates;

    if (model->table == NULL) {
        observed->is_model_strange = true;
        return NULL;
    }
    if (update != NULL && !update->is_closed) {
        observed->is_model_strange = observed->is_model_strange || update->table != model->table;
        return update->table == model->table ? update : NULL;
    }
    updates = ddp_mem_grow(observed->mem, model->updates, model->count, &model->capacity,
                           sizeof *updates);
    if (updates == NULL) {
        observed->is_failed = true;
        return NULL;
    }
    model->updates = updates;
    update = &updates[model->count];
    *update = (struct observed_update){.step = step, .table = model->table};
    update->parts = ddp_mem_array(observed->mem, (size_t)model->table->count * OBSERVED_PARTS,
                                  sizeof *update->parts);
    update->options = ddp_mem_array(observed->mem, model->table->count, sizeof *update->options);
    model->count++;
    if (update->parts == NULL || update->options == NULL) {
        observed->is_failed = true;
        return NULL;
    }
    return update;
}

static double value_of(uint64_t bits)
{
    double value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

static void take_option(struct observed_options *options, const struct guest_entry *entry)
{
    if ((enum guest_event)(entry->place >> 56) == GUEST_EVENT_OPTION) {
        options->kind = (uint32_t)(entry->arg[1] & 0xff);
        options->is_nesterov = entry->arg[1] >> 8 != 0;
        options->lr = value_of(entry->arg[2]);
        options->decay = value_of(entry->arg[3]);
        options->updates = entry->arg[4];
    } else {
        options->first = value_of(entry->arg[1]);
        options->second = value_of(entry->arg[2]);
        options->eps = value_of(entry->arg[3]);
        options->is_there = true;
    }
}

/* Of the update that is under way. */
static void take_update(struct harness_observed *observed, uint32_t rank,
                        const struct guest_entry *entry)
{
    struct observed_model *model = &observed->models[rank];
    struct observed_update *update = open_update(observed, model, (uint32_t)entry->place);

    if (update == NULL) {
        return;
    }
    if ((enum guest_event)(entry->place >> 56) == GUEST_EVENT_UPDATED) {
        update->is_closed = true;
        update->step = (uint32_t)entry->place;
        observed->is_model_strange = observed->is_model_strange ||
                                     entry->arg[0] != model->first + model->count - 1 ||
                                     entry->arg[1] != update->table->count;
        return;
    }
    if (entry->arg[0] >= update->table->count) {
        observed->is_model_strange = true;
    } else if ((enum guest_event)(entry->place >> 56) != GUEST_EVENT_STATE) {
        take_option(&update->options[entry->arg[0]], entry);
    } else if (entry->arg[1] < OBSERVED_PARTS) {
        update->parts[entry->arg[0] * OBSERVED_PARTS + entry->arg[1]] =
            (struct observed_part){true, entry->arg[2]};
    }
}

void observed_take_model(struct harness_observed *observed, uint32_t rank,
                         const struct guest_entry *entry)
{
    /* What is not judged any more is not kept: a job may be left to go on. */
    if (observed->is_failed || observed->is_model_wrong || observed->is_model_strange) {
        return;
    }
    switch ((enum guest_event)(entry->place >> 56)) {
    case GUEST_EVENT_TENSOR:
        take_tensor(observed, &observed->models[rank], entry);
        break;
    case GUEST_EVENT_TENSOR_NAME:
        take_name(observed, &observed->models[rank], entry);
        break;
    default:
        take_update(observed, rank, entry);
        break;
    }
}

static void free_update(const struct harness_observed *observed, struct observed_update *update)
{
    ddp_mem_free(observed->mem, update->parts);
    ddp_mem_free(observed->mem, update->options);
}

/* Updates are few: all ranks come to them at about the same time. */
static void forget_update(struct harness_observed *observed, uint64_t number)
{
    for (uint32_t r = 0; r < observed->watch->world_size; r++) {
        struct observed_model *model = &observed->models[r];

        if (model->count > 0 && model->first == number) {
            free_update(observed, &model->updates[0]);
            model->count--;
            memmove(model->updates, model->updates + 1, model->count * sizeof *model->updates);
        }
        model->first = number + 1;
    }
}

void observed_free_model(struct harness_observed *observed)
{
    for (uint32_t r = 0; r < observed->watch->world_size; r++) {
        struct observed_model *model = &observed->models[r];

        for (size_t i = 0; i < model->count; i++) {
            free_update(observed, &model->updates[i]);
        }
        ddp_mem_free(observed->mem, model->updates);
    }
    while (observed->tables != NULL) {
        struct observed_table *table = observed->tables;

        observed->tables = table->next;
        ddp_mem_free(observed->mem, table->tensors);
        ddp_mem_free(observed->mem, table);
    }
}

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

static void add_values(const struct comparison *the, const struct observed_camps *camps,
                       struct harness_findings *out)
{
    static const char *const parts[] = {"", "'s state of the optimizer",
                                        "'s second state of the optimizer"};
    struct harness_finding finding;
    uint32_t ranks[2] = {0, 0};
    const struct observed_tensor *tensor;

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
        forget_update(observed, observed->next_update);
        observed->next_update++;
    }
}
